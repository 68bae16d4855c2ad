"""Walks all that decides what capture makes of a module,
and writes the words that its hash is made of.

Code is followed from ``forward``: the globals that a function names, and, in every class that was
met, what has a name that some reached function uses. Code of torch, Python and disc itself is known
by version; functions of theirs that are met are hashed, not followed, so that a replaced one is
noticed.

Invariants:

- doubt is ``Unsure``; values of a kind that is not known here are doubt;
- doubt about a function (it asks the clock, holds an unknown object) is noted in ``findings``: it
  counts if the function runs;
- whatever refers to an object that was left half read is in doubt too.
"""

from __future__ import annotations

import collections
import contextlib
import contextvars
import dataclasses
import enum
import functools
import hashlib
import os
import pathlib
import re
import sys
import threading
import types
from typing import Any

import numpy
import torch

from ..devices.device import TYPES
from ..graph import weight_names
from ..tracer import deadline
from . import code_names, kinds
from .doubts import (
    MOVING,
    SETTINGS,
    Moves,
    Unsure,
    asks,
    composed_of,
    is_installed,
    is_known,
    refuse,
    variables,
)
from .kinds import BOUND, BUILTIN, FIELD, GENERIC, OPAQUE, PLAIN, has_content, is_python, slots_of
from .moment import Moment
from .reached_names import Namespaces, ReachedNames
from .visits import Visits

#: Attributes of modules that are treated apart.
_TABLES = frozenset(("_parameters", "_buffers", "_modules"))
#: Tables beside those of hooks; nobody else has them, and mostly they are empty.
_HOOKED = frozenset(
    ("_forward_hooks_with_kwargs", "_forward_hooks_always_called", "_forward_pre_hooks_with_kwargs")
)
#: The attribute in which torch notes the address of a wrapped function: another in each process.
_IDENTITY = "_torchdynamo_wrapper_id"
_MOST_BYTES = 1 << 20


class Digest:
    """Collects the parts of a key, and hashes them."""

    def __init__(self):
        #: Each is a ``repr`` or begins with a name and ends with one, so that no NUL is in them.
        self._said: list[str] = []
        #: Adds a part that is a text.
        self.say = self._said.append

    def word(self, *words) -> None:
        self.say(repr(words))

    def value(self) -> bytes:
        text = "\0".join(self._said).encode("utf-8", "surrogatepass")
        return hashlib.blake2b(text, digest_size=32).digest()


@dataclasses.dataclass
class Findings:
    """Lists what a walk met that needs a look beside the key."""

    #: Functions that must not run, and why; None for all that ``moves`` finds.
    doubts: dict[types.CodeType | None, str] = dataclasses.field(default_factory=dict)
    #: Caches of functions.
    memos: list[Any] = dataclasses.field(default_factory=list)
    #: Tensors that are no weights: their values are in the key.
    tensors: list[torch.Tensor] = dataclasses.field(default_factory=list)


class Walk:
    """One walk: ``put`` what decides, then ``close``."""

    def __init__(
        self,
        weights: frozenset[int],
        notes: code_names.Notes,
        moment: Moment | None = None,
    ):
        self.notes = notes
        #: The moment that counts, if code of the module has run since.
        self.moment = moment
        #: Weights by identity: their values do not count.
        self.weights = weights
        self.digest = Digest()
        self.visits = Visits()
        self.names = ReachedNames()
        self.spaces = Namespaces(self.names)
        self.findings = Findings()
        self.has_environment = False

    def put(self, x: Any) -> None:
        kind = type(x)
        if kind in PLAIN:
            self.digest.say(f"{kind.__name__} {x!r}")
            if kind is str:
                self.names.add_text(x)
            return
        if isinstance(x, types.ModuleType) and x not in self.spaces.modules:
            if x.__name__ in MOVING:
                raise Moves(f"its code uses {x.__name__}")
            self.spaces.modules.append(x)
        visits = self.visits
        if (number := visits.numbers.get(id(x))) is not None:
            self.digest.word("again", number)
            visits.refer(number)
            return
        visits.begin(x)
        try:
            self.fresh(x, kind)
        except Unsure as error:
            visits.spoil(str(error))
            raise
        visits.end()

    def fresh(self, x: Any, kind: type) -> None:
        """Reads a value that was not met before."""
        deadline.give_way()
        if kind is types.FunctionType:
            self.function(x)
        elif isinstance(x, type):
            self.class_(x)
        elif isinstance(x, torch.Tensor):
            self.tensor(x)
        elif isinstance(x, torch.nn.Module):
            self.module(x)
        elif kind in (tuple, list, collections.deque, torch.Size):
            self.digest.word(kind.__name__, len(x))
            for y in x:
                self.put(y)
        elif isinstance(x, (set, frozenset)):
            self.set(x)
        elif kind in (dict, types.MappingProxyType, collections.OrderedDict):
            self.mapping(x)
        elif isinstance(x, (torch._ops.OpOverload, torch._ops.OpOverloadPacket)):
            self.operation(x)
        elif isinstance(x, OPAQUE) or kind in BUILTIN or kind is object:
            name = getattr(x, "__qualname__", None) or getattr(x, "name", None)
            self.digest.word(kind.__name__, name or kind.__name__)
            # A method that was bound is what it is bound to.
            if kind in BOUND and not isinstance(x.__self__, (types.ModuleType, type, type(None))):
                self.put(x.__self__)
        elif kind is types.ModuleType or isinstance(x, types.ModuleType):
            self.digest.word("module", x.__name__, vars(x).get("__version__", ""))
        elif kind in GENERIC or isinstance(x, types.GenericAlias):
            self.digest.word("generic", repr(x))
        elif kind in (type(sys.version_info), type(sys.flags)):
            self.digest.word(repr(x))
        elif isinstance(x, numpy.generic) or (kind is numpy.ndarray and not x.dtype.hasobject):
            self.array(x)
        elif kind is FIELD:
            self.digest.word("field", x.__reduce__()[1][0])
        elif not self.wrapper(x, kind):
            self.object(x, kind)

    def operation(self, x) -> None:
        name = x.name() if isinstance(x, torch._ops.OpOverload) else x._qualified_op_name
        self.digest.word("operation", name)
        if composed := composed_of((name.partition("::")[0],)):
            raise Unsure(f"it uses {composed}, whose steps are not known by version")

    def array(self, x) -> None:
        if x.nbytes > _MOST_BYTES:
            raise Unsure(f"an array of {x.size} elements")
        self.digest.word(
            "array", type(x).__name__, x.dtype.str, x.shape, getattr(x, "strides", ()), x.tobytes()
        )

    def set(self, x) -> None:
        if not all(type(y) in PLAIN or isinstance(y, type) for y in x):
            raise Unsure(f"a set of {', '.join(sorted({type(y).__name__ for y in x}))}")
        self.digest.word("set", *sorted(f"{type(y).__name__} {y!r}" for y in x))

    def mapping(self, x) -> None:
        self.digest.word("mapping", len(x))
        for key, value in x.items():
            self.put(key)
            self.put(value)

    def wrapper(self, x, kind: type) -> bool:
        """Objects around functions and values, of known kinds; whether ``x`` is one."""
        parts: tuple
        if kind is types.MethodType:
            parts = x.__func__, x.__self__
        elif kind is functools.partial:
            parts = x.func, x.args, x.keywords
        elif isinstance(x, property):
            parts = None if kind is property else kind, x.fget, x.fset
        elif kind in (staticmethod, classmethod):
            parts = (x.__wrapped__,)
        elif kind is functools._lru_cache_wrapper:
            parts = (x.__wrapped__,)
            if not is_known(getattr(x, "__module__", None)):
                self.findings.memos.append(x)
        elif kind is functools.cached_property:
            parts = (x.func,)
        elif kind is functools.partialmethod:
            parts = x.func, x.args, x.keywords
        elif kind is collections.defaultdict:
            parts = x.default_factory, dict(x)
        elif kind is types.CellType:
            parts = (x.cell_contents,) if has_content(x) else ()
        elif kind is types.CodeType:
            self.code(x)
            return True
        elif isinstance(x, re.Pattern):
            parts = x.pattern, x.flags
        elif kind is dataclasses.Field:
            parts = x.name, x.default, x.default_factory, x.kw_only
        elif isinstance(x, pathlib.PurePath):
            parts = (str(x),)
        elif isinstance(x, enum.Enum):
            self.digest.word(x.name)
            parts = type(x), x._value_
        elif kind is os._Environ:
            self.environment()
            return True
        elif kind is contextvars.ContextVar:
            parts = x.name, x.get(None) if self.moment is None else self.moment.variable(x)
        elif kind is contextlib._GeneratorContextManager:
            parts = x.func, x.args, x.kwds
        elif kind.__module__.startswith("torch._C") and hasattr(kind, "__members__"):
            parts = (str(x),)
        elif kind is threading.local:
            if self.moment is not None:
                raise Unsure("what a thread holds, after the capture")
            parts = (x.__dict__,)
        else:
            return False
        self.digest.word("wrapper", kind.__name__)
        for part in parts:
            self.put(part)
        return True

    def object(self, x, kind: type) -> None:
        """Any other object: its class, and what it holds."""
        state = getattr(x, "__dict__", None)
        slots = [n for c in kind.__mro__ for n in slots_of(c) if n not in ("__dict__", "__weakref__")]
        if state is None and not slots and not is_known(kind.__module__) and kind.__flags__ & (1 << 9):
            state = {}  # an object of a Python class that holds nothing
        if (state is None and not slots) or not is_python(kind):
            raise Unsure(f"an object of {kind.__module__}.{kind.__qualname__}")
        self.digest.word("object")
        self.put(kind)
        for base in (tuple, list, dict):
            if isinstance(x, base):
                self.mapping(x) if base is dict else [self.put(y) for y in base.__iter__(x)]
        if isinstance(x, (int, float, str, bytes)):
            self.digest.word(repr(x))
        self.put_state(kinds.lasting_state(state, kind))
        for name in slots:
            if hasattr(x, name):
                self.digest.word(name)
                self.put(getattr(x, name))

    def put_state(self, state: dict) -> None:
        self.digest.word(len(state))
        for name, value in state.items():
            self.digest.word(name)
            self.put(value)

    # Modules and tensors.

    def module(self, x: torch.nn.Module) -> None:
        self.digest.word("nn.Module", *x.__dict__)
        self.put(type(x))
        for name, value in x.__dict__.items():
            if name in _TABLES:
                self.digest.word(*value)
                for part in value.values():
                    self.put(part)
            elif name.endswith("_hooks") and isinstance(value, dict):
                # Numbered by a counter of the process.
                self.digest.say(f"hooks {len(value)}")
                for hook in value.values():
                    self.put(hook)
            elif name in _HOOKED and not value:
                self.digest.say("hooks 0")
            elif name == "_non_persistent_buffers_set":
                self.digest.word(*sorted(value))
            else:
                self.put(value)

    def tensor(self, t: torch.Tensor) -> None:
        if (
            isinstance(t, torch._subclasses.FakeTensor)
            or t.layout is not torch.strided
            or t.device.type not in TYPES
        ):
            raise Unsure(f"a tensor of layout {t.layout} on {t.device}")
        self.digest.word("tensor", type(t).__qualname__, t.dtype, t.device, tuple(t.shape), t.requires_grad)
        held = vars(t)
        if type(t) not in weight_names.PLAIN and not isinstance(
            t, torch.nn.parameter.UninitializedTensorMixin
        ):
            held = self.subclass(t)
        else:
            self.memory(t)
        if held:
            self.spaces.attributes.append((self.visits.numbers[id(t)], held))

    def subclass(self, t: torch.Tensor) -> dict[str, Any]:
        """A tensor that is made of others; the value is what else it holds."""
        if (parts := weight_names.parts(t)) is None:
            raise Unsure(f"a tensor of {type(t).__module__}.{type(t).__qualname__}")
        self.put(type(t))
        self.digest.word(*parts)
        self.put(t.__tensor_flatten__()[1])
        for name in parts:
            self.put(getattr(t, name))
        return {name: value for name, value in vars(t).items() if name not in parts}

    def memory(self, t: torch.Tensor) -> None:
        number = self.visits.storage(t.untyped_storage())
        self.digest.word(
            t.stride(), t.storage_offset(), number, t.is_conj(), t.is_neg(), t.is_quantized, t.is_inference()
        )
        if id(t) in self.weights:
            return
        if t.numel() * t.element_size() > _MOST_BYTES or t.is_quantized:
            raise Unsure(f"a tensor of {t.numel()} elements that is neither a parameter nor a buffer")
        # Without the mode that notes who reads values: memos are read after the capture.
        with torch._C.DisableTorchFunction():
            values = t.detach().resolve_conj().resolve_neg().cpu().contiguous().reshape(-1)
            self.digest.word(values.view(torch.uint8).numpy().tobytes() if t.numel() else b"")
        self.findings.tensors.append(t)

    # Code.

    def code(self, code: types.CodeType, is_noted: bool = False) -> None:
        """Reads the code of a function; the names in its texts are in the notes of it, if there are
        any.
        """
        _, digest, others = code_names.read(code)
        self.digest.say(f"code {digest.hex()}")
        if not is_noted:
            self.names.texts |= code_names.texts_of(code)
        for constant in others:
            self.put(constant)

    def function(self, f: types.FunctionType) -> None:
        module = f.__globals__.get("__name__")
        self.digest.word("function", module, f.__qualname__)
        is_followed = not is_known(module)
        self.code(f.__code__, is_noted=is_followed)
        try:
            self.reachable(f, is_followed)
        except Unsure as error:
            self.findings.doubts.setdefault(f.__code__, str(error))

    def reachable(self, f: types.FunctionType, is_followed: bool) -> None:
        """Reads what a function may use."""
        # A decorator of torch or Python holds the function that it was put on.
        held = f.__dict__
        if _IDENTITY in held:
            held = {name: value for name, value in held.items() if name != _IDENTITY}
        # Most functions have none of them, and what holds nothing needs no visit.
        for number, part in enumerate((f.__defaults__, f.__kwdefaults__, held, f.__closure__)):
            if part:
                self.digest.say(f"part {number}")
                self.put(part)
        if not is_followed:
            return
        facts, space = self.notes.of(f.__code__), f.__globals__
        names, values = facts.names, facts.values
        here = [name for name in names if name in space]
        refuse(f, names, space, here)
        if names.keys() & {"environ", "environb", "getenv", "expandvars", "expanduser"}:
            self.environment()
        for name in SETTINGS.keys() & names.keys():
            self.digest.word(name, SETTINGS[name]())
        if "argv" in names and "sys" in names:
            self.put(list(sys.argv))
        if "globals" in names:
            names, here = {**names, **dict.fromkeys(space)}, [*dict.fromkeys((*here, *space))]
        is_own = not is_installed(space)
        self.names.add(names, facts)
        for name in facts.imports:
            self.digest.word("import", name)
            self.inside(sys.modules.get(code_names.absolute(name, space)), names, values, is_own=is_own)
        for name in here:
            value = space[name]
            self.digest.say(f"global {name}")
            if isinstance(value, type):
                self.names.made.add(value)
            self.named(value, name in values)
            if isinstance(value, types.ModuleType):
                self.inside(value, names, values, is_own=is_own)

    def named(self, x: Any, is_value: bool) -> None:
        if isinstance(x, types.ModuleType) and not is_value:
            self.digest.word("module", x.__name__, vars(x).get("__version__", ""))
        else:
            self.put(x)

    def is_loaded(self, x: Any) -> bool:
        """Returns false for a module of Python that was loaded after the moment that counts."""
        return self.moment is None or not isinstance(x, types.ModuleType) or self.moment.has(x)

    def inside(self, value, names, values, depth: int = 0, is_own: bool = False) -> None:
        """Reads what code that names ``value``, a module of Python, may take from it."""
        if not isinstance(value, types.ModuleType) or depth > 6 or not self.is_loaded(value):
            return
        if value.__name__ in MOVING:
            raise Moves(f"its code uses {value.__name__}")
        held = vars(value)
        for name in names:
            asked = id(value), name, name in values
            if name not in held or asked in self.spaces.done or not self.is_loaded(held[name]):
                continue
            if reason := asks(held[name], is_own):
                raise Moves(f"its code uses {reason}")
            self.digest.word("in", value.__name__, name)
            if not is_known(value.__name__) or isinstance(held[name], (types.FunctionType, types.ModuleType)):
                self.named(held[name], name in values)
            if asked not in self.spaces.asking:
                self.spaces.asking.add(asked)
                try:
                    self.inside(held[name], names, values, depth + 1, is_own)
                finally:
                    self.spaces.asking.discard(asked)
                self.spaces.done.add(asked)

    def environment(self) -> None:
        if not self.has_environment:
            self.has_environment = True
            self.put(variables())

    def class_(self, kind: type) -> None:
        self.digest.word("class", kind.__module__, kind.__qualname__)
        if is_known(kind.__module__) and not issubclass(kind, torch.nn.Module):
            return
        if not is_known(type(kind).__module__) and type(kind) is not type:
            self.put(type(kind))
        for base in kind.__mro__[1:]:
            if base is not object:
                self.put(base)
        if isinstance(kind, enum.EnumMeta):
            self.digest.word(*(f"{m.name}={m.value!r}" for m in kind))
        self.spaces.add_class(kind)

    def close(self) -> None:
        """Follows names through classes until nothing new is reached."""
        spaces, names = self.spaces, self.names
        before: tuple = ()
        while (now := (spaces.sizes(), names.size())) != before:
            before = now
            classes, attributes, modules = now[0]
            for number, kind in enumerate(spaces.classes[:classes]):
                for name in spaces.new_members(kind):
                    self.digest.word("member", number, name)
                    self.put(spaces.members[kind][name])
            for number, held in spaces.attributes[:attributes]:
                for name in spaces.new_attributes(number, held):
                    self.digest.word("attribute", number, name)
                    self.put(held[name])
            for module in spaces.modules[:modules]:
                asked = sorted(names.among(vars(module), is_known(module.__name__)))
                try:
                    self.inside(module, asked, names.values)
                except Moves as error:
                    # Any code that was given the module may call it.
                    self.findings.doubts.setdefault(None, str(error))
