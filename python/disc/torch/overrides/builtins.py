"""``int``, ``float`` and ``len`` of sizes stay open while a model is traced: Python makes numbers
of the example of them. ``isinstance`` and ``type`` take a size for a number.

In the modules of the model's own code, and of the library that it is part of, the names mean
classes and functions that hand everything but sizes and traced tensors to Python's own. torch and
Python's library keep theirs.

Invariants:

- numbers that are no sizes get what Python gives, also in another thread that runs the same code
  meanwhile; but a name that is passed on as a value (``x.to(int)``) is the stand-in there too,
  which torch refuses with a ``TypeError``;
- ``type(x) is int`` is asked of Python's own: a module that has such a question keeps ``int`` and
  ``float``, as one does that has ``dtype=int`` and calls neither;
- ``isinstance`` and ``type`` answer for a size as for the number that eager mode has in its place;
- afterwards each module is as it was.
"""

from __future__ import annotations

import builtins
import contextlib
import dis
import functools
import inspect
import itertools
import linecache
import math
import sys
import types

import torch
from torch._subclasses import FakeTensor
from torch._subclasses.functional_tensor import FunctionalTensor

from ...core import bytecode
from ..symbolic.expressions import SYMBOLIC, has_symbol, shortened
from . import reached
from .registry import Override, is_active, register

#: Tensors of a trace.
TRACED = (FakeTensor, FunctionalTensor)


def is_tracing() -> bool:
    """Returns true if this thread runs a module in the quick tracer or in torch.export."""
    return is_active("trace") or is_active("export")


class _Standing(type):
    """The class of a stand-in for a class of numbers, of which numbers and sizes are instances."""

    def __instancecheck__(cls, x):
        return isinstance(x, (cls.__base__, cls.symbolic))

    def __subclasscheck__(cls, other):
        return issubclass(other, cls.__base__)

    def __eq__(cls, other):
        return other is cls.__base__ or other is cls

    def __hash__(cls):
        return hash(cls.__base__)

    def __call__(cls, *args, **kwargs):
        if len(args) == 1 and not kwargs and is_tracing():
            if isinstance(args[0], SYMBOLIC):
                return cls.of_size(args[0])
            if isinstance(args[0], TRACED):
                value = args[0].to(cls.dtype).item()
                return value if isinstance(value, cls.symbolic) else cls.__base__(value)
        return cls.__base__(*args, **kwargs)


class _Int(int, metaclass=_Standing):
    symbolic = torch.SymInt
    dtype = torch.int64

    @staticmethod
    def of_size(x):
        if isinstance(x, torch.SymInt):
            return x
        return torch.sym_int(x) if isinstance(x, torch.SymFloat) else int(x)


class _Float(float, metaclass=_Standing):
    symbolic = torch.SymFloat
    dtype = torch.float64

    @staticmethod
    def of_size(x):
        return float(x) if isinstance(x, torch.SymBool) else torch.sym_float(x)


def _len(x):
    is_open = isinstance(x, TRACED) and x.dim() and is_tracing()
    return x.shape[0] if is_open else builtins.len(x)


#: Numbers of the types that eager mode has in the place of sizes.
_IN_EAGER = {torch.SymInt: 0, torch.SymFloat: 0.0, torch.SymBool: False}


def _isinstance(x, kinds):
    if isinstance(x, kinds):
        return True
    return type(x) in _IN_EAGER and is_tracing() and isinstance(_IN_EAGER[type(x)], kinds)


class _StandingForType(type):
    """The class of the stand-in for ``type``."""

    def __instancecheck__(cls, x):
        return isinstance(x, type)

    def __subclasscheck__(cls, other):
        return issubclass(other, type)

    def __eq__(cls, other):
        return other is type or other is cls

    def __hash__(cls):
        return hash(type)

    def __call__(cls, *args, **kwargs):
        if cls is not _Type:
            return super().__call__(*args, **kwargs)
        if len(args) != 1:
            return type(*args, **kwargs)
        kind = type(args[0])
        if kind in _IN_EAGER and is_tracing():
            return type(_IN_EAGER[kind])
        # For code that has ``type(x) is type``.
        return _Type if kind in (type, _StandingForType) else kind


class _Type(type, metaclass=_StandingForType):
    """Stands in for ``type``."""

    __class_getitem__ = classmethod(types.GenericAlias)


_IS, _CONSTANT, _GLOBAL = (dis.opmap[name] for name in ("IS_OP", "LOAD_CONST", "LOAD_GLOBAL"))
#: Steps that number a constant, and those that call.
_CONSTANTS = frozenset(dis.opmap[name] for name in ("KW_NAMES", "LOAD_CONST") if name in dis.opmap)
_CALLS = frozenset(opcode for name, opcode in dis.opmap.items() if "CALL" in name)
_NAMES = {"int": _Int, "float": _Float, "len": _len, "isinstance": _isinstance, "type": _Type}


@contextlib.contextmanager
def open_numbers(module: torch.nn.Module):
    """Within it the code of ``module`` keeps sizes open."""
    replaced = []
    try:
        for space in _spaces(module):
            kept = {"int", "float"} if _needs_own_classes(space) else set()
            for name, function in _NAMES.items():
                if name not in space and name not in kept:
                    space[name] = function
                    replaced.append((space, name))
        yield
    finally:
        for space, name in replaced:
            if space.get(name) is _NAMES[name]:
                del space[name]


def _needs_own_classes(space: dict) -> bool:
    """Returns true if code that looks names up here compares ``int`` or ``float`` by ``is``, or
    passes it as ``dtype=`` and calls neither: a stand-in does not serve these.
    """
    whole = _code_of_module(space.get("__name__"), space.get("__file__"))
    codes = [*(_units(whole) if whole is not None else ()), *(f.__code__ for f in _functions(space))]
    is_called, is_passed = map(any, zip((False, False), *map(_uses, codes), strict=True))
    return any(map(_compares_classes, codes)) or (is_passed and not is_called)


def _units(code: types.CodeType) -> list[types.CodeType]:
    """Returns each function of a module's code,
    and the bodies of the module and its classes without them.

    A comparison in one function says nothing about ``int`` in another.
    """
    if code.co_flags & inspect.CO_OPTIMIZED:
        return [code]
    inner = [c for c in code.co_consts if isinstance(c, types.CodeType)]
    # Constants keep their places, which the instructions name.
    body = code.replace(co_consts=tuple(None if c in inner else c for c in code.co_consts))
    return [body, *(unit for c in inner for unit in _units(c))]


@functools.lru_cache(maxsize=1024)
def _code_of_module(name: str | None, file: str | None) -> types.CodeType | None:
    """All code of a module, that of functions in tables included;
    None where neither its loader nor its file has it.
    """
    loader = getattr(sys.modules.get(name), "__loader__", None)
    with contextlib.suppress(ImportError, AttributeError, SyntaxError, ValueError, OSError):
        return loader.get_code(name)
    source = "".join(linecache.getlines(file)) if file is not None else ""
    with contextlib.suppress(SyntaxError, ValueError):
        return compile(source, file, "exec") if source else None
    return None


@functools.lru_cache(maxsize=100_000)
def _compares_classes(code: types.CodeType) -> bool:
    """Returns true if a function names one of the two and has an ``is`` that is not about a
    constant (``is False``).
    """
    codes = _with_inner(code)
    if not any(name in ("int", "float") for one in codes for name in one.co_names):
        return False
    # `is None` as a condition is another op, so that few functions are looked at.
    found = (list(bytecode.steps(one)) for one in codes if _IS in one.co_code[::2])
    pairs = (pair for some in found for pair in itertools.pairwise(some))
    return any(opcode == _IS and before != _CONSTANT for (before, _), (opcode, _) in pairs)


@functools.lru_cache(maxsize=100_000)
def _uses(code: types.CodeType) -> tuple[bool, bool]:
    """Returns if a function calls one of the two, and if it passes one as ``dtype=``."""
    is_called = is_passed = False
    for one in _with_inner(code):
        if {"int", "float"}.isdisjoint(one.co_names):
            continue
        is_open = False
        for opcode, argument in bytecode.steps(one):
            if opcode == _GLOBAL and bytecode.name_of(one, opcode, argument) in ("int", "float"):
                is_open = True
                # The bit says that a call follows; Python 3.10 says nothing.
                is_called |= sys.version_info < (3, 11) or bool(argument & 1)
            elif is_open and opcode in _CONSTANTS:
                names = one.co_consts[argument]
                is_passed |= isinstance(names, tuple) and "dtype" in names
            elif opcode in _CALLS:
                is_open = False
    return is_called, is_passed


def _with_inner(code: types.CodeType) -> list[types.CodeType]:
    inner = [c for c in code.co_consts if isinstance(c, types.CodeType)]
    return [code, *(one for c in inner for one in _with_inner(c))]


def _functions(space: dict) -> list[types.FunctionType]:
    """The functions of a module, and those of its classes."""
    found = []
    for value in list(space.values()):
        own = isinstance(value, type) and value.__module__ == space.get("__name__")
        for f in list(vars(value).values()) if own else [value]:
            # A value of another kind may do anything when it is asked for an attribute.
            if isinstance(f, (staticmethod, classmethod, types.MethodType)):
                f = f.__func__
            elif isinstance(f, property):
                f = f.fget
            f = inspect.unwrap(f) if isinstance(f, types.FunctionType) else f
            if isinstance(f, types.FunctionType) and f.__globals__ is space:
                found.append(f)
    return found


def is_about_numbers(error: Exception) -> bool:
    """Returns true if torch was given a stand-in for a type (``x.to(int)``):
    it knows only Python's own.
    """
    return any(
        name in str(error) for name in (_Standing.__name__, f"'{_Int.__name__}'", f"'{_Float.__name__}'")
    )


def _spaces(module: torch.nn.Module) -> list[dict]:
    """The globals of functions of the model, of those that it holds, of those beside them in its
    library, and of those that they reach.
    """
    names = {kind.__module__ for m in module.modules() for kind in type(m).__mro__}
    held = (f for m in module.modules() for f in vars(m).values() if isinstance(f, types.FunctionType))
    names |= {f.__module__ for f in held if isinstance(f.__module__, str)}
    names = {name for name in names if not reached.is_left(name)}
    for name in list(names):
        top = name.split(".")[0]
        found = vars(sys.modules[name]).values() if name in sys.modules else ()
        beside = {getattr(f, "__module__", None) for f in list(found) if callable(f)}
        names |= {n for n in beside if not reached.is_left(n) and n.split(".")[0] == top}
    own = [vars(sys.modules[name]) for name in sorted(names) if name in sys.modules]
    return list({id(space): space for space in (*own, *reached.spaces(module))}.values())


def _pow(x, y):
    return x**y if has_symbol((x, y)) else _math_pow(x, y)


def _divmod(x, y):
    return (x // y, x % y) if has_symbol((x, y)) else _divmod_of_numbers(x, y)


def _extreme(plain, of_symbols, of_tensors, *args, **kwargs):
    if kwargs or not args:
        return plain(*args, **kwargs)
    items = list(args) if len(args) > 1 or isinstance(args[0], torch.Tensor) else list(args[0])
    if not any(isinstance(x, (*SYMBOLIC, torch.Tensor)) for x in items) or len(items) < 2:
        return plain(*args) if len(args) > 1 or isinstance(args[0], torch.Tensor) else plain(items)
    result = items[0]
    for x in items[1:]:
        tensors = [isinstance(y, torch.Tensor) for y in (result, x)]
        if all(tensors):
            result = of_tensors(result, x)
        elif any(tensors):
            result = plain(result, x)
        else:
            result = shortened(of_symbols(result, x))
    return result


_math_pow, _divmod_of_numbers = math.pow, builtins.divmod
_WHY = "of sizes it is an expression, not a branch, as in torch.export"
register(
    Override(owner, name, function, _WHY, scope="trace")
    for owner, name, function in (
        (builtins, "max", functools.partial(_extreme, builtins.max, torch.sym_max, torch.maximum)),
        (builtins, "min", functools.partial(_extreme, builtins.min, torch.sym_min, torch.minimum)),
        (builtins, "divmod", _divmod),
        (math, "pow", _pow),
    )
)
