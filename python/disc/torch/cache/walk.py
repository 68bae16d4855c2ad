"""Walks all that decides what capture makes of a module,
and writes the words that its hash is made of.

Code is followed from ``forward``: the globals that a function names, and, in every class that was
met, what has a name that some reached function uses. Code of torch, Python and disc itself is known
by version; functions of theirs that are met are hashed, not followed, so that a replaced one is
noticed.

Invariants:

- doubt is ``Unsure``; values of a kind that is not known here are doubt;
- doubt about a function (it asks the clock, holds an unknown object) is noted in ``doubts``: it
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
from collections.abc import Mapping
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

#: Attributes of modules that are treated apart.
_TABLES = frozenset(("_parameters", "_buffers", "_modules"))
#: Tables beside those of hooks; nobody else has them, and mostly they are empty.
_HOOKED = frozenset(
    ("_forward_hooks_with_kwargs", "_forward_hooks_always_called", "_forward_pre_hooks_with_kwargs")
)
#: Functions that a class runs without being named.
_SPECIAL = re.compile(
    r"__(?!init_|new__|class_getitem__|reduce|del__|doc__|module__|dict__|weakref__|slots__|annot)\w+__"
)
_CODE = (types.FunctionType, property, staticmethod, classmethod)
_MAKING = frozenset(("__init__", "__new__", "__post_init__"))
#: The attribute in which torch notes the address of a wrapped function: another in each process.
_IDENTITY = "_torchdynamo_wrapper_id"
_MOST_BYTES = 1 << 20
_MOST_VISITS = 200_000


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
        #: The parts that are hashed. Each is a ``repr`` or begins with a name and ends with one, so
        #: that no NUL is in them.
        self.said: list[str] = []
        #: Every object that was met, by identity: its number. Kept alive, so that no identity comes
        #: twice.
        self.met: dict[int, int] = {}
        self.kept: list[Any] = []
        #: Numbers of objects that are being read; for each object the lowest number of those that
        #: it refers to.
        self.open: list[int] = []
        self.low: dict[int, int] = {}
        #: Objects that were left half read, and why.
        self.spoilt: dict[int, str] = {}
        #: Functions that must not run, and why.
        self.doubts: dict[types.CodeType | None, str] = {}
        #: Caches of functions.
        self.memos: list[Any] = []
        #: Weights by identity: their values do not count.
        self.weights = weights
        #: Other tensors.
        self.tensors: list[torch.Tensor] = []
        #: Attributes of tensors, each with the number of the tensor.
        self.attributes: list[tuple[int, dict[str, Any]]] = []
        self.storages: dict[int, int] = {}
        #: Names that reached code uses, and classes in which they are looked up.
        self.names: set[str] = {"forward"}
        self.classes: list[type] = []
        self.members: dict[type, dict[str, Any]] = {}
        #: Members of each class that no reached code has named yet.
        self.left: dict[type, dict[str, None]] = {}
        self.done: set[Any] = set()
        self.asking: set[Any] = set()
        #: Those of the names whose values are passed on.
        self.values: set[str] = set()
        #: Names that reached code computes, as regular expressions.
        self.patterns: set[str] = set()
        #: Texts that were met: names, as soon as any code looks up one that it does not spell
        #: itself.
        self.texts: set[str] = set()
        self.texts_met: set[str] = set()
        self.by_value = False
        #: Modules of Python that are values: names are looked up in them as in classes, in others
        #: those of who names the module.
        self.modules: list[types.ModuleType] = []
        #: Classes that reached code names: it may make objects of them.
        self.made: set[type] = set()

    # Words of the hash.

    def word(self, *words) -> None:
        self.said.append(repr(words))

    def digest(self) -> bytes:
        text = "\0".join(self.said).encode("utf-8", "surrogatepass")
        return hashlib.blake2b(text, digest_size=32).digest()

    def put(self, x: Any) -> None:
        kind = type(x)
        if kind in PLAIN:
            self.said.append(f"{kind.__name__} {x!r}")
            if kind is str and x not in self.texts_met:
                self.texts_met.add(x)
                self.texts.update(code_names.parts(x))
            return
        if isinstance(x, types.ModuleType) and x not in self.modules:
            if x.__name__ in MOVING:
                raise Moves(f"its code uses {x.__name__}")
            self.modules.append(x)
        if (number := self.met.get(id(x))) is not None:
            self.word("again", number)
            self.tie(self.origin(number))
            return
        self.met[id(x)] = number = len(self.met)
        self.low[number] = number
        self.kept.append(x)
        if len(self.met) > _MOST_VISITS:
            raise Unsure("too much is reached from it")
        if len(self.open) >= 400:
            raise Unsure("its structure is too deep")
        self.open.append(number)
        try:
            self.fresh(x, kind)
        except Unsure as error:
            self.spoilt[number] = str(error)
            raise
        finally:
            self.open.pop()
        self.tie(self.low[number])

    def tie(self, number: int) -> None:
        """Notes that what is being read refers to the object of this number."""
        if self.open:
            self.low[self.open[-1]] = min(self.low[self.open[-1]], number)

    def origin(self, number: int) -> int:
        """The first object of those that an object is read with;
        raises if one of them was left half read.
        """
        while True:
            if number in self.spoilt:
                raise Unsure(self.spoilt[number])
            if self.low[number] == number:
                return number
            number = self.low[number]

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
            self.word(kind.__name__, len(x))
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
            self.word(kind.__name__, name or kind.__name__)
            # A method that was bound is what it is bound to.
            if kind in BOUND and not isinstance(x.__self__, (types.ModuleType, type, type(None))):
                self.put(x.__self__)
        elif kind is types.ModuleType or isinstance(x, types.ModuleType):
            self.word("module", x.__name__, vars(x).get("__version__", ""))
        elif kind in GENERIC or isinstance(x, types.GenericAlias):
            self.word("generic", repr(x))
        elif kind in (type(sys.version_info), type(sys.flags)):
            self.word(repr(x))
        elif isinstance(x, numpy.generic) or (kind is numpy.ndarray and not x.dtype.hasobject):
            self.array(x)
        elif kind is FIELD:
            self.word("field", x.__reduce__()[1][0])
        elif not self.wrapper(x, kind):
            self.object(x, kind)

    def operation(self, x) -> None:
        name = x.name() if isinstance(x, torch._ops.OpOverload) else x._qualified_op_name
        self.word("operation", name)
        if composed := composed_of((name.partition("::")[0],)):
            raise Unsure(f"it uses {composed}, whose steps are not known by version")

    def array(self, x) -> None:
        if x.nbytes > _MOST_BYTES:
            raise Unsure(f"an array of {x.size} elements")
        self.word("array", type(x).__name__, x.dtype.str, x.shape, getattr(x, "strides", ()), x.tobytes())

    def set(self, x) -> None:
        if not all(type(y) in PLAIN or isinstance(y, type) for y in x):
            raise Unsure(f"a set of {', '.join(sorted({type(y).__name__ for y in x}))}")
        self.word("set", *sorted(f"{type(y).__name__} {y!r}" for y in x))

    def mapping(self, x) -> None:
        self.word("mapping", len(x))
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
                self.memos.append(x)
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
            self.word(x.name)
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
        self.word("wrapper", kind.__name__)
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
        self.word("object")
        self.put(kind)
        for base in (tuple, list, dict):
            if isinstance(x, base):
                self.mapping(x) if base is dict else [self.put(y) for y in base.__iter__(x)]
        if isinstance(x, (int, float, str, bytes)):
            self.word(repr(x))
        self.put_state(kinds.lasting_state(state, kind))
        for name in slots:
            if hasattr(x, name):
                self.word(name)
                self.put(getattr(x, name))

    def put_state(self, state: dict) -> None:
        self.word(len(state))
        for name, value in state.items():
            self.word(name)
            self.put(value)

    # Modules and tensors.

    def module(self, x: torch.nn.Module) -> None:
        self.word("nn.Module", *x.__dict__)
        self.put(type(x))
        for name, value in x.__dict__.items():
            if name in _TABLES:
                self.word(*value)
                for part in value.values():
                    self.put(part)
            elif name.endswith("_hooks") and isinstance(value, dict):
                # Numbered by a counter of the process.
                self.said.append(f"hooks {len(value)}")
                for hook in value.values():
                    self.put(hook)
            elif name in _HOOKED and not value:
                self.said.append("hooks 0")
            elif name == "_non_persistent_buffers_set":
                self.word(*sorted(value))
            else:
                self.put(value)

    def tensor(self, t: torch.Tensor) -> None:
        if (
            isinstance(t, torch._subclasses.FakeTensor)
            or t.layout is not torch.strided
            or t.device.type not in TYPES
        ):
            raise Unsure(f"a tensor of layout {t.layout} on {t.device}")
        self.word("tensor", type(t).__qualname__, t.dtype, t.device, tuple(t.shape), t.requires_grad)
        held = vars(t)
        if type(t) not in weight_names.PLAIN and not isinstance(
            t, torch.nn.parameter.UninitializedTensorMixin
        ):
            held = self.subclass(t)
        else:
            self.memory(t)
        if held:
            self.attributes.append((self.met[id(t)], held))

    def subclass(self, t: torch.Tensor) -> dict[str, Any]:
        """A tensor that is made of others; the value is what else it holds."""
        if (parts := weight_names.parts(t)) is None:
            raise Unsure(f"a tensor of {type(t).__module__}.{type(t).__qualname__}")
        self.put(type(t))
        self.word(*parts)
        self.put(t.__tensor_flatten__()[1])
        for name in parts:
            self.put(getattr(t, name))
        return {name: value for name, value in vars(t).items() if name not in parts}

    def memory(self, t: torch.Tensor) -> None:
        storage = t.untyped_storage()
        number = self.storages.setdefault(storage._cdata, len(self.storages))
        self.word(
            t.stride(), t.storage_offset(), number, t.is_conj(), t.is_neg(), t.is_quantized, t.is_inference()
        )
        if id(t) in self.weights:
            return
        if t.numel() * t.element_size() > _MOST_BYTES or t.is_quantized:
            raise Unsure(f"a tensor of {t.numel()} elements that is neither a parameter nor a buffer")
        # Without the mode that notes who reads values: memos are read after the capture.
        with torch._C.DisableTorchFunction():
            values = t.detach().resolve_conj().resolve_neg().cpu().contiguous().reshape(-1)
            self.word(values.view(torch.uint8).numpy().tobytes() if t.numel() else b"")
        self.tensors.append(t)

    # Code.

    def code(self, code: types.CodeType, is_noted: bool = False) -> None:
        """Reads the code of a function; the names in its texts are in the notes of it, if there are
        any.
        """
        _, digest, others = code_names.read(code)
        self.said.append(f"code {digest.hex()}")
        if not is_noted:
            self.texts |= code_names.texts_of(code)
        for constant in others:
            self.put(constant)

    def function(self, f: types.FunctionType) -> None:
        module = f.__globals__.get("__name__")
        self.word("function", module, f.__qualname__)
        is_followed = not is_known(module)
        self.code(f.__code__, is_noted=is_followed)
        try:
            self.reachable(f, is_followed)
        except Unsure as error:
            self.doubts.setdefault(f.__code__, str(error))

    def reachable(self, f: types.FunctionType, is_followed: bool) -> None:
        """Reads what a function may use."""
        # A decorator of torch or Python holds the function that it was put on.
        held = f.__dict__
        if _IDENTITY in held:
            held = {name: value for name, value in held.items() if name != _IDENTITY}
        # Most functions have none of them, and what holds nothing needs no visit.
        for number, part in enumerate((f.__defaults__, f.__kwdefaults__, held, f.__closure__)):
            if part:
                self.said.append(f"part {number}")
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
            self.word(name, SETTINGS[name]())
        if "argv" in names and "sys" in names:
            self.put(list(sys.argv))
        if "globals" in names:
            names, here = {**names, **dict.fromkeys(space)}, [*dict.fromkeys((*here, *space))]
        is_own = not is_installed(space)
        self.names |= names.keys()
        self.values |= values
        self.look_up(facts.lookups)
        for name in facts.imports:
            self.word("import", name)
            self.inside(sys.modules.get(code_names.absolute(name, space)), names, values, is_own=is_own)
        for name in here:
            value = space[name]
            self.said.append(f"global {name}")
            if isinstance(value, type):
                self.made.add(value)
            self.named(value, name in values)
            if isinstance(value, types.ModuleType):
                self.inside(value, names, values, is_own=is_own)

    def named(self, x: Any, is_value: bool) -> None:
        if isinstance(x, types.ModuleType) and not is_value:
            self.word("module", x.__name__, vars(x).get("__version__", ""))
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
            if name not in held or asked in self.done or not self.is_loaded(held[name]):
                continue
            if reason := asks(held[name], is_own):
                raise Moves(f"its code uses {reason}")
            self.word("in", value.__name__, name)
            if not is_known(value.__name__) or isinstance(held[name], (types.FunctionType, types.ModuleType)):
                self.named(held[name], name in values)
            if asked not in self.asking:
                self.asking.add(asked)
                try:
                    self.inside(held[name], names, values, depth + 1, is_own)
                finally:
                    self.asking.discard(asked)
                self.done.add(asked)

    def environment(self) -> None:
        if "environ" not in self.done:
            self.done.add("environ")
            self.put(variables())

    def class_(self, kind: type) -> None:
        self.word("class", kind.__module__, kind.__qualname__)
        if is_known(kind.__module__) and not issubclass(kind, torch.nn.Module):
            return
        if not is_known(type(kind).__module__) and type(kind) is not type:
            self.put(type(kind))
        for base in kind.__mro__[1:]:
            if base is not object:
                self.put(base)
        if isinstance(kind, enum.EnumMeta):
            self.word(*(f"{m.name}={m.value!r}" for m in kind))
        self.classes.append(kind)
        self.members[kind] = dict(vars(kind))

    def close(self) -> None:
        """Follows names through classes until nothing new is reached."""
        before: tuple = ()
        while (now := self.reach()) != before:
            before = now
            for number, kind in enumerate(self.classes[: now[0]]):
                for name in self.reached(kind):
                    self.word("member", number, name)
                    self.put(self.members[kind][name])
            for number, held in self.attributes[: now[1]]:
                for name in sorted(self.asked(held, False)):
                    if (number, name) not in self.done:
                        self.done.add((number, name))
                        self.word("attribute", number, name)
                        self.put(held[name])
            for module in self.modules[: now[-1]]:
                names = sorted(self.asked(vars(module), is_known(module.__name__)))
                try:
                    self.inside(module, names, self.values)
                except Moves as error:
                    # Any code that was given the module may call it.
                    self.doubts.setdefault(None, str(error))

    def reach(self) -> tuple[int, ...]:
        texts = len(self.texts) if self.by_value else -1
        sizes = len(self.names), len(self.values), len(self.patterns), texts, len(self.made)
        return len(self.classes), len(self.attributes), *sizes, len(self.modules)

    def look_up(self, lookups: code_names.Lookups) -> None:
        self.patterns |= lookups.direct
        self.texts |= lookups.texts
        self.by_value |= lookups.by_value

    def asked(self, held: Mapping[str, Any], is_named_whole: bool, of_module: bool = False) -> set[str]:
        """The names among these that reached code may use;
        it names those of torch and Python in full.

        Texts from elsewhere are for what a ``torch.nn.Module`` has: as names of all that is met
        they reach nearly everything.
        """
        found = held.keys() & self.names
        if is_named_whole:
            return found
        if self.by_value and of_module:
            found |= held.keys() & self.texts
        if self.patterns:
            whole = _either(frozenset(self.patterns))
            found |= {name for name in held if whole.fullmatch(name)}
        return found

    def reached(self, kind: type) -> list[str]:
        """Members of a class that reached code may use, and that were not met before;
        in an order that is always the same.
        """
        members = self.members[kind]
        if kind not in self.left:
            self.left[kind] = dict.fromkeys(members)
            special = not is_known(kind.__module__)
            found = [
                n for n in members if special and _SPECIAL.fullmatch(n) and isinstance(members[n], _CODE)
            ]
        else:
            found = []
        left = self.left[kind]
        for name in found:
            del left[name]
        named = self.asked(left, is_known(kind.__module__), issubclass(kind, torch.nn.Module))
        # Modules exist before they are called: their constructors have run.
        if kind in self.made and not issubclass(kind, torch.nn.Module):
            named |= left.keys() & _MAKING
        for name in named:
            del left[name]
        return found + sorted(named)


@functools.lru_cache(maxsize=16)
def _either(patterns: frozenset[str]) -> re.Pattern:
    return re.compile("|".join(sorted(patterns)))
