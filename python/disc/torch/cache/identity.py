"""Tells whether a module is another one's copy: in this process or another, now or later.

The hash covers the tree of modules with their attributes; shapes, types and sharing of weights, not
their values; the user's own functions that ``forward`` and other methods reach by name, with the
plain globals that they read and the plain attributes of their classes; and the versions of
installed packages. It is coarser than the key of the capture cache (``cache.fingerprint``): what a
process has gathered elsewhere does not count, since a copy computes what was compiled for the
module that it is a copy of.

Invariant: doubt is ``Unsure``, and the copy is compiled.
"""

from __future__ import annotations

import dataclasses
import enum
import functools
import hashlib
import sys
import types
from collections.abc import Iterable, Iterator, Mapping
from typing import Any

import torch

import disc

from ..graph import weight_names
from . import code_names
from .doubts import Unsure, is_installed, is_known

_PLAIN = (
    type(None), bool, int, float, complex, str, bytes, torch.dtype, torch.device, torch.memory_format,
    torch.layout, torch.Size,
)  # fmt: skip
_CALLABLE = (types.FunctionType, type)
_CONTAINERS = (tuple, list, dict, set, frozenset)
#: Deeper values are no attributes of a model.
_DEEPEST = 60


def identity(module: torch.nn.Module) -> bytes:
    """The hash of a module; raises Unsure for one with attributes of unknown kinds."""
    walk = _Walk(module)
    text = repr((sys.version, str(torch.__version__), disc.__version__, walk.of(module), walk.code()))
    return hashlib.sha256(text.encode("utf-8", "surrogatepass")).digest()


class _Walk:
    def __init__(self, module: torch.nn.Module):
        self._weights = {id(t) for _, t in weight_names.named(module, remove_duplicate=False)}
        self._storages: dict[int, int] = {}
        #: Texts for values that were met, which are kept alive, so that no identity comes twice.
        self._met: dict[int, tuple[Any, str]] = {}
        self._open: list[int] = []
        #: Functions and classes to be read, in the order in which they were met.
        self._reached: dict[Any, None] = {}

    def of(self, x: Any) -> str:
        """Tells a value from others: a hash, or a short text."""
        if type(x) in _PLAIN:
            return f"{type(x).__name__} {x!r}"
        if id(x) in self._open:
            # A cycle is told by its length.
            return f"up {len(self._open) - self._open.index(id(x))}"
        if id(x) in self._met:
            return self._met[id(x)][1]
        if len(self._open) > _DEEPEST:
            raise Unsure("an attribute is nested too deeply")
        self._open.append(id(x))
        parts = list(self._parts(x))
        self._open.pop()
        said = hashlib.sha256("\0".join(parts).encode("utf-8", "surrogatepass")).hexdigest()
        self._met[id(x)] = x, said
        return said

    def _parts(self, x: Any) -> Iterator[str]:
        if isinstance(x, torch.Tensor):
            yield from self._tensor(x)
        elif isinstance(x, _CALLABLE):
            yield self._named(x)
            for cell in getattr(x, "__closure__", None) or ():
                yield self.of(cell.cell_contents)
        elif isinstance(x, types.MethodType):
            yield from (self.of(x.__func__), self.of(x.__self__))
        elif isinstance(x, (types.BuiltinFunctionType, types.ModuleType)):
            yield f"{getattr(x, '__module__', None)}.{x.__name__}"
        elif isinstance(x, enum.Enum):
            yield from (self._named(type(x)), x.name)
        elif isinstance(x, (set, frozenset)):
            yield from (self._named(type(x)), *sorted(map(self.of, x)))
        else:
            yield from self._container(x)

    def _container(self, x: Any) -> Iterator[str]:
        yield self._named(type(x))
        held = getattr(x, "__dict__", None)
        if isinstance(x, (int, float, complex, str, bytes)):
            yield repr(x)
        if isinstance(x, functools.partial):
            yield from map(self.of, (x.func, x.args, x.keywords))
        if isinstance(x, Mapping):
            yield from (self.of(part) for item in x.items() for part in item)
        elif isinstance(x, (tuple, list)):
            yield from map(self.of, x)
        elif held is None and not dataclasses.is_dataclass(x):
            raise Unsure(f"an attribute is a {type(x).__qualname__}")
        if isinstance(held, dict):
            for name in sorted(map(str, held)):
                yield from (name, self.of(held[name]))
        elif dataclasses.is_dataclass(x):
            yield from (self.of(getattr(x, field.name)) for field in dataclasses.fields(x))

    def _tensor(self, t: torch.Tensor) -> Iterator[str]:
        yield repr((self._named(type(t)), t.dtype, tuple(t.shape), t.requires_grad, t.device, t.layout))
        inner = weight_names.parts(t)
        if inner is not None:
            yield from (self.of(getattr(t, name)) for name in inner)
        elif weight_names.place(t) is not None:
            storage = self._storages.setdefault(t.untyped_storage().data_ptr(), len(self._storages))
            yield repr((storage, t.storage_offset(), t.stride()))
            if id(t) not in self._weights:
                # Its values may be compiled in.
                flat = t.detach().cpu().contiguous().flatten().view(torch.uint8)
                yield hashlib.sha256(flat.numpy().tobytes()).hexdigest()

    # Code.

    def _named(self, x: Any) -> str:
        """The name of a function or a class; its code is read later."""
        space = sys.modules.get(getattr(x, "__module__", None) or "")
        if not is_known(x.__module__):
            if space is not None and is_installed(vars(space)):
                package = sys.modules.get(x.__module__.partition(".")[0])
                return f"{x.__module__}.{x.__qualname__} {getattr(package, '__version__', None)}"
            self._reached.setdefault(x)
        # A child process that was spawned has the main module under another name.
        name = "__main__" if x.__module__ == "__mp_main__" else x.__module__
        return f"{name}.{x.__qualname__}"

    def code(self) -> list[str]:
        """Describes the functions that were reached, in the order in which they were."""
        said: list[str] = []
        done: set[int] = set()
        while left := [x for x in self._reached if id(x) not in done]:
            for x in left:
                done.add(id(x))
                functions = [x] if isinstance(x, types.FunctionType) else _methods(x)
                for one in functions:
                    said += self._function(one)
                if isinstance(x, type):
                    said += self._values(vars(x), vars(x))
                    said += [self._named(base) for base in x.__mro__[1:]]
        return said

    def _function(self, f: types.FunctionType) -> list[str]:
        said = [f.__qualname__, self.of(f.__defaults__), self.of(f.__kwdefaults__)]
        for code in _codes(f.__code__):
            constants = [c for c in code.co_consts if not isinstance(c, types.CodeType)]
            said.append(repr((code.co_name, code.co_code, code.co_names, code.co_varnames)))
            said += [repr(sorted(map(repr, c)) if isinstance(c, frozenset) else c) for c in constants]
        said += self._globals(f.__globals__, code_names.names(f.__code__))
        return said

    def _values(self, space: Mapping[str, Any], names: Iterable[str]) -> list[str]:
        """Describes the plain values among names of a module or of a class."""
        said = []
        for name in names:
            value = space.get(name)
            if value is not None and not name.startswith("__") and type(value) in (*_PLAIN, *_CONTAINERS):
                said.append(f"{name} {self.of(value)}")
        return said

    def _globals(self, space: dict[str, Any], names: Iterable[str]) -> list[str]:
        said = self._values(space, names)
        for name in names:
            value = space.get(name)
            if isinstance(value, _CALLABLE):
                said.append(self._named(value))
            elif isinstance(value, types.ModuleType) and vars(value) is not space and _is_own(value):
                said += self._globals(vars(value), [n for n in names if n != name])
        return said


def _is_own(module: types.ModuleType) -> bool:
    """Returns true for a module of the user's, which no version tells of."""
    return not is_known(module.__name__) and not is_installed(vars(module))


def _methods(kind: type) -> list[types.FunctionType]:
    found: list[types.FunctionType] = []
    for value in vars(kind).values():
        if isinstance(value, property):
            found += [f for f in (value.fget, value.fset) if isinstance(f, types.FunctionType)]
        elif isinstance(value := getattr(value, "__func__", value), types.FunctionType):
            found.append(value)
    return found


def _codes(code: types.CodeType) -> Iterator[types.CodeType]:
    yield code
    for part in code_names.inner(code):
        yield from _codes(part)
