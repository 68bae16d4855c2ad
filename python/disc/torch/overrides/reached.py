"""Finds the modules of Python whose code a model reaches: functions and classes that its functions
name, and those that these name in turn.

Not here: code that is only met while it runs (a function out of a table, an import within a
function whose module is not loaded yet).
"""

from __future__ import annotations

import functools
import sys
import types
import weakref
from collections.abc import Iterator
from typing import Any

import torch

#: Their own code makes numbers of what are numbers.
_FRAMEWORKS = frozenset(
    {"torch", "disc", "sympy", "numpy", "builtins", *sys.stdlib_module_names} - {"__main__"}
)
#: They load and store, and see no size of an input.
_STORES = frozenset(
    {"huggingface_hub", "filelock", "httpx", "requests", "safetensors", "tokenizers", "tqdm", "yaml"}
)
#: Parts of transformers that load, store, distribute and describe models.
_BESIDE_MODELS = (
    "transformers.configuration_utils", "transformers.conversion_mapping", "transformers.core_model_loading",
    "transformers.distributed", "transformers.dynamic_module_utils", "transformers.generation.configuration_utils",
    "transformers.integrations.accelerate", "transformers.integrations.deepspeed", "transformers.integrations.heterogeneity",
    "transformers.integrations.hub_kernels", "transformers.integrations.peft", "transformers.models.auto",
    "transformers.monkey_patching", "transformers.quantizers", "transformers.safetensors_conversion",
    "transformers.utils.auto_docstring", "transformers.utils.doc", "transformers.utils.hub",
    "transformers.utils.import_utils", "transformers.utils.kernel_config", "transformers.utils.loading_report",
    "transformers.utils.logging", "transformers.utils.peft_utils", "transformers.utils.quantization_config",
)  # fmt: skip
#: Code that reaches more functions than these is not followed further.
_MOST_FUNCTIONS = 20_000

_LEFT = _FRAMEWORKS | _STORES


def is_left(module: Any) -> bool:
    """Returns true for a name of a module whose code is left as it is."""
    if not isinstance(module, str) or module.partition(".")[0] in _LEFT:
        return True
    return module.startswith(_BESIDE_MODELS)


def spaces(module: torch.nn.Module) -> list[dict[str, Any]]:
    """The globals of the functions that a module reaches."""
    return list(_reached(module).spaces.values())


def spaces_and_cells(module: torch.nn.Module) -> tuple[list[dict[str, Any]], list[types.CellType]]:
    """The globals of the functions that a module reaches, and the variables that they enclose."""
    found = _reached(module)
    return list(found.spaces.values()), list(found.cells.values())


#: The reach of a module in one capture, and how many modules of Python were loaded then.
_known: weakref.WeakKeyDictionary[torch.nn.Module, tuple[int, _Reached]] = weakref.WeakKeyDictionary()


def forget(module: torch.nn.Module) -> None:
    """Walks anew from here on: the code of a module may have changed."""
    _known.pop(module, None)


def _reached(module: torch.nn.Module) -> _Reached:
    loaded, found = _known.get(module, (0, None))
    if found is None or loaded != len(sys.modules):
        found = _Reached(module)
        _known[module] = len(sys.modules), found
    return found


class _Reached:
    """A walk from ``forward``: a member of a class is reached where some reached code names it."""

    def __init__(self, module: torch.nn.Module):
        self.spaces: dict[int, dict[str, Any]] = {}
        self.cells: dict[int, types.CellType] = {}
        self.left: list[Any] = []
        self.met: set[int] = set()
        self.classes: set[type] = set()
        self.names = {"forward"}
        #: Members of classes that no reached code has named yet.
        self.unnamed: dict[str, list[Any]] = {}
        for m in module.modules():
            self._enter(type(m))
            self.left += [x for x in vars(m).values() if not isinstance(x, _DATA)]

        self._walk()

    def _walk(self) -> None:
        while self.left and len(self.met) < _MOST_FUNCTIONS:
            value = self.left.pop()
            if id(value) not in self.met:
                self.met.add(id(value))
                self._follow(value)

    def _follow(self, value: Any) -> None:
        kind = type(value)
        if kind in (staticmethod, classmethod, types.MethodType):
            self.left.append(value.__func__)
        elif kind is functools.partial:
            self.left.append(value.func)
        elif kind is property:
            self.left.append(value.fget)
        elif kind is functools._lru_cache_wrapper:
            self.left.append(value.__wrapped__)
        elif kind is types.FunctionType:
            self.left.append(vars(value).get("__wrapped__"))
            if not is_left(value.__globals__.get("__name__")):
                self.spaces.setdefault(id(value.__globals__), value.__globals__)
                self.cells |= {id(cell): cell for cell in value.__closure__ or ()}
                self._read(value)
        elif not isinstance(value, _DATA):
            self._enter(value if isinstance(value, type) else kind)

    def _enter(self, owner: type) -> None:
        is_module = issubclass(owner, torch.nn.Module)
        for base in owner.__mro__:
            if base in self.classes or is_left(base.__module__):
                continue
            self.classes.add(base)
            for name, member in list(vars(base).items()):
                if not isinstance(member, _MEMBERS):
                    continue
                if name in self.names or (name in _RUN_UNNAMED and not is_module):
                    self.left.append(member)
                else:
                    self.unnamed.setdefault(name, []).append(member)

    def _read(self, f: types.FunctionType) -> None:
        names = _names(f.__code__)
        for name in names:
            self.names.add(name)
            self.left += self.unnamed.pop(name, ())
        values = [f.__globals__.get(name, sys.modules.get(name)) for name in names]
        for value in (*values, *map(inside, f.__closure__ or ())):
            self.left += _in_module(value, names) if isinstance(value, types.ModuleType) else [value]


#: Members that run without being named.
_RUN_UNNAMED = frozenset(("__init__", "__call__", "__getitem__", "__len__", "__iter__", "__post_init__"))
_MEMBERS = (
    types.FunctionType,
    staticmethod,
    classmethod,
    property,
    functools.partial,
    functools._lru_cache_wrapper,
)


_DATA = (
    type(None),
    bool,
    int,
    float,
    str,
    dict,
    list,
    tuple,
    set,
    torch.Tensor,
    torch.nn.Module,
    types.ModuleType,
)


def inside(cell: types.CellType) -> Any:
    """The value of an enclosed variable; None before it is assigned."""
    try:
        return cell.cell_contents
    except ValueError:
        return None


def _in_module(module: types.ModuleType, names: tuple[str, ...], depth: int = 3) -> Iterator[Any]:
    if is_left(module.__name__) or not depth:
        return
    for name in names:
        value = vars(module).get(name)
        if isinstance(value, types.ModuleType):
            yield from _in_module(value, names, depth - 1)
        elif value is not None:
            yield value


@functools.lru_cache(maxsize=100_000)
def _names(code: types.CodeType) -> tuple[str, ...]:
    inner = (c for c in code.co_consts if isinstance(c, types.CodeType))
    return tuple(dict.fromkeys((*code.co_names, *(name for c in inner for name in _names(c)))))
