"""Finds what a call of a module can read: attributes of modules and objects, globals, variables
that functions enclose, elements of lists and dicts, hooks.

Code is followed from ``forward`` and hooks by the names that it uses. Code of torch, Python and
disc is known by version: of torch's modules those attributes count that their own code reads.

Invariant: what is followed is only looked at; no code of the user runs.
"""

from __future__ import annotations

import collections
import functools
import gc
import logging
import sys
import threading
import types
from typing import Any

import torch
import torch.nn.modules.module as _modules

from ..cache import code_names
from ..cache.doubts import is_installed, is_known
from ..capture.read_attributes import attributes_of
from ..graph.weight_names import PLAIN as TENSORS
from ..overrides.reached import inside, is_left
from .inputs import questions_of

#: More is not followed: the rest of what a module holds is not watched then.
_MOST_OBJECTS = 100_000
#: Longer containers hold data, not settings.
_MOST_ELEMENTS = 4096
_TABLES = ("_parameters", "_buffers", "_modules")
#: Tables of flags of hooks change with these. Hooks of backward change no result.
_HOOKS = ("_forward_hooks", "_forward_pre_hooks")
#: Read by torch itself, and by operators and statements of Python, which do not name them.
_ALWAYS = frozenset(
    (
        "forward", "training", *_TABLES, *_HOOKS, "data", "maps", "__call__", "__getattr__", "__getattribute__", "__getitem__",
        "__contains__", "__iter__", "__next__", "__len__", "__reversed__", "__missing__", "__enter__", "__exit__", "__bool__",
        "__int__", "__float__", "__index__", "__get__", "__eq__", "__ne__", "__lt__", "__le__", "__gt__", "__ge__", "__hash__",
        "__add__", "__radd__", "__sub__", "__rsub__", "__mul__", "__rmul__", "__truediv__", "__rtruediv__", "__floordiv__",
        "__mod__", "__pow__", "__rpow__", "__matmul__", "__rmatmul__", "__neg__", "__abs__", "__and__", "__or__", "__xor__",
        "__round__", "__format__", "__str__",
    )
)  # fmt: skip
#: Modules of Python whose classes hold values of the user's.
_HOLDERS_OF = frozenset(("types", "argparse", "collections"))
#: Values that are looked at no further.
_ENDS = (
    type(None), bool, int, float, complex, str, bytes, torch.dtype, torch.device, torch.memory_format, torch.layout,
    logging.Logger, logging.LoggerAdapter, type(threading.Lock()), type(threading.RLock()), threading.local,
    types.BuiltinFunctionType, types.ModuleType, range, slice, type(Ellipsis),
)  # fmt: skip
_DICTS = (dict, collections.OrderedDict, collections.defaultdict)


class Reach:
    """Lists all that a module can read, in the order of the walk, with names for messages."""

    def __init__(self, module: torch.nn.Module):
        self.modules: list[torch.nn.Module] = []
        #: Dicts of attributes, of which those count whose names are in ``names``.
        self.spaces: list[tuple[dict, str]] = []
        #: The classes whose dicts are among them.
        self.classes: dict[int, type] = {}
        #: Names of attributes that code looks up.
        self.names: set[str] = set(_ALWAYS)
        #: Names that code of the user's own uses: modes of torch that it asks for are among them.
        self.asked: set[str] = set()
        #: Its questions about the tensors of a call (``watch.inputs``).
        self.questions: set[str] = set()
        #: Dicts of globals, with the names that functions there use.
        self.globals: dict[int, tuple[dict, str, set[str]]] = {}
        #: Dicts and lists, all of which counts.
        self.dicts: list[tuple[dict, str]] = []
        self.lists: list[tuple[list, str]] = []
        #: Tables of installed packages, which others fill too: the items count that are there.
        self.registries: list[tuple[dict, str]] = []
        #: Sets and queues.
        self.others: list[tuple[Any, str]] = []
        self.cells: list[tuple[types.CellType, str]] = []
        #: Tensors that are neither parameters nor buffers.
        self.tensors: list[tuple[torch.Tensor, str]] = []
        #: Containers and spaces of installed packages.
        self.foreign: set[int] = set()
        #: Objects whose class counts.
        self.objects: list[Any] = []
        #: The modules whose weights are parameters of the whole.
        self.parts: set[int] = {id(m) for m in module.modules()}
        self._weights: set[int] = set()
        self._met: dict[int, Any] = {}
        #: Spaces whose values are followed once some code names them.
        self._open: list[tuple[dict, str, bool, set[str]]] = []
        self._left: collections.deque[tuple[Any, str, bool]] = collections.deque([(module, "", False)])
        #: True while values of an installed package are followed.
        self._is_foreign = False
        for name, value in vars(_modules).items():
            if name.startswith("_global_") and isinstance(value, dict):
                self.add(value, f"torch.nn.modules.module.{name}")
        self._follow_all()

    def add(self, value: Any, place: str) -> None:
        """Adds what the value that is followed now leads to."""
        self._left.append((value, place, self._is_foreign))

    def of_type(self, kinds: tuple[type, ...]) -> list[Any]:
        """The objects of some classes that were followed."""
        return [value for value in self._met.values() if isinstance(value, kinds)]

    def _follow_all(self) -> None:
        known = -1
        while self._left or known != len(self.names):
            while self._left:
                value, place, self._is_foreign = self._left.popleft()
                if id(value) not in self._met and not isinstance(value, _ENDS):
                    if len(self._met) > _MOST_OBJECTS:
                        return
                    self._met[id(value)] = value
                    self._follow(value, place)
            known = len(self.names)
            for space, place, is_foreign, done in self._open:
                self._is_foreign = is_foreign
                for name in (self.names & space.keys()) - done:
                    done.add(name)
                    self.add(space[name], f"{place}.{name}" if place else name)

    def _follow(self, value: Any, place: str) -> None:
        kind = type(value)
        if isinstance(value, torch.Tensor):
            if id(value) not in self._weights and kind in TENSORS:
                self.tensors.append((value, place))
        elif isinstance(value, torch.nn.Module):
            self._module(value, place)
        elif kind is types.FunctionType:
            self._function(value, place)
        elif isinstance(value, type):
            self._class(value)
        elif kind in _PARTS:
            for part in _PARTS[kind](value):
                self.add(part, place)
        else:
            self._holder(value, kind, place)

    def _holder(self, value: Any, kind: type, place: str) -> None:
        """Follows containers, and objects of classes of the user's."""
        if self._is_foreign:
            self.foreign.add(id(value))
        if isinstance(value, (*_DICTS, list, tuple, set, collections.deque)) and len(value) > _MOST_ELEMENTS:
            return
        if isinstance(value, _DICTS):
            (self.registries if self._is_foreign else self.dicts).append((value, place))
            for key, x in list(value.items()):
                self.add(x, f"{place}[{key!r}]")
        elif isinstance(value, (list, tuple)):
            if isinstance(value, list):
                self.lists.append((value, place))
            for i, x in enumerate(list(value)):
                self.add(x, f"{place}[{i}]")
        elif isinstance(value, (set, collections.deque)):
            self.others.append((value, place))
            for x in list(value):
                self.add(x, place)
        elif kind is types.MappingProxyType:
            self.add(gc.get_referents(value)[0], place)
        held = getattr(value, "__dict__", None)
        if isinstance(held, dict) and (not is_known(kind.__module__) or kind.__module__ in _HOLDERS_OF):
            self.objects.append(value)
            self._space(held, place)
            self._class(kind)

    def _space(self, space: dict, place: str) -> None:
        if id(space) not in self._met:
            self._met[id(space)] = space
            if self._is_foreign:
                self.foreign.add(id(space))
            self.spaces.append((space, place))
            self._open.append((space, place, self._is_foreign, set()))

    # Modules and classes.

    def _module(self, m: torch.nn.Module, place: str) -> None:
        self.modules.append(m)
        self._space(m.__dict__, place)
        for name in (*_TABLES, *_HOOKS):
            if not isinstance(table := m.__dict__.get(name), dict):
                continue
            self._met[id(table)] = table
            self.dicts.append((table, place if name in _TABLES else f"{place or type(m).__name__}.{name}"))
            if id(m) in self.parts:
                self._weights |= {id(t) for t in table.values() if isinstance(t, torch.Tensor)}
            for key, x in list(table.items()):
                self.add(x, f"{place}.{key}" if place else str(key))
        self._class(type(m))

    def _class(self, kind: type) -> None:
        outer = self._is_foreign
        for base in kind.__mro__:
            if (base in _BASES) or (id(base) in self._met and base is not kind):
                continue
            self._met[id(base)] = base
            space = _dict_of(base)
            if isinstance(names := space.get("attribute_map"), dict):
                # Configurations of transformers: an attribute by another name.
                self.names |= {name for name in names.values() if isinstance(name, str)}
            self.classes[id(space)] = base
            if is_known(base.__module__):
                if issubclass(base, torch.nn.Module):
                    self._class_of_torch(base, space)
                continue
            self._is_foreign = outer or is_installed(vars(sys.modules.get(base.__module__, types)))
            self._space(space, base.__qualname__)
        self._is_foreign = outer

    def _class_of_torch(self, kind: type, space: dict) -> None:
        """Adds the names of attributes that a module of torch reads."""
        if id(space) not in self._met:
            self._met[id(space)] = space
            self.spaces.append((space, kind.__qualname__))
        for name, value in list(space.items()):
            if name != "__init__" and isinstance(value, types.FunctionType):
                self.names |= attributes_of(value.__code__)

    # Code.

    def _function(self, f: types.FunctionType, place: str) -> None:
        # A decorator of torch or of Python holds the function that it was put on.
        self.add(f.__dict__.get("__wrapped__"), place)
        cells = list(zip(f.__code__.co_freevars, f.__closure__ or (), strict=True))
        for name, cell in cells:
            self.add(inside(cell), name)
        module = f.__globals__.get("__name__")
        if is_left(module):
            # Of what loads and describes models (properties of a configuration) the names count.
            self.names |= frozenset() if is_known(module) else attributes_of(f.__code__)
            return
        self._is_foreign = self._is_foreign or is_installed(f.__globals__)
        self.cells += [(cell, name) for name, cell in cells]
        for x in (*(f.__defaults__ or ()), *(f.__kwdefaults__ or {}).values()):
            self.add(x, f.__qualname__)
        if f.__dict__:
            self._space(f.__dict__, f.__qualname__)
        attributes = attributes_of(f.__code__)
        self.names |= attributes
        if not self._is_foreign:
            self.asked |= attributes
            self.questions |= questions_of(f.__code__)
            self.asked |= code_names.global_names(f.__code__)
        self._globals(f.__globals__, code_names.global_names(f.__code__), attributes)

    def _globals(
        self, space: dict, names: frozenset[str], attributes: frozenset[str], depth: int = 4
    ) -> None:
        """Follows globals that a function names, and what it may take from modules among them."""
        module = space.get("__name__", "globals")
        _, _, known = self.globals.setdefault(id(space), (space, module, set()))
        # Names of the user's that are not there yet count too: they may be asked for, or hide a
        # built-in one. Packages load parts of theirs late.
        known |= names & space.keys() if is_left(module) or is_installed(space) else names
        for name in names & space.keys():
            value = space[name]
            if not isinstance(value, types.ModuleType):
                # What Python and torch hold themselves (``sys.modules``) is no setting of a model.
                if not is_left(module):
                    self.add(value, f"{module}.{name}")
            elif depth and vars(value) is not space:
                self._globals(vars(value), attributes, attributes, depth - 1)


#: The parts of objects around functions and values.
_PARTS = {
    types.MethodType: lambda x: (x.__func__, x.__self__),
    staticmethod: lambda x: (x.__func__,),
    classmethod: lambda x: (x.__func__,),
    property: lambda x: (x.fget, x.fset),
    functools.partial: lambda x: (x.func, x.args, x.keywords),
    functools._lru_cache_wrapper: lambda x: (x.__wrapped__,),
    functools.cached_property: lambda x: (x.func,),
}
_BASES = frozenset((object, torch.nn.Module))


def _dict_of(kind: type) -> dict:
    """The dict of a class, which its view leads to."""
    (found,) = gc.get_referents(vars(kind))
    return found
