"""Fixes a size where a model reads its text (``str(n)``, ``f"{n}"``), as where it reads its number.

torch writes the symbol's name, which a model that looks something up by the text would never find.
Texts that are only said (printed, logged, raised, the message of a check) keep that name and fix
nothing. A text of a traced tensor that is not only said depends on values, and is refused.

Invariant: a text that could decide what is computed is that of a number that a condition of the
capture names.
"""

from __future__ import annotations

import ast
import builtins
import functools
import inspect
import json
import linecache
import logging
import operator
import sys
import types
import warnings

import sympy
import torch
from torch._subclasses import FakeTensor
from torch._subclasses.fake_tensor import DataDependentOutputException
from torch.fx.experimental.symbolic_shapes import ShapeEnv

from .registry import Override, is_active, register

#: Their own texts of sizes are messages and names of symbols.
FRAMEWORK = frozenset({"torch", "disc", "sympy"})
#: They write what they are given, for whoever called them.
_WRITERS = frozenset({*sys.stdlib_module_names, "numpy"} - {"__main__"})
_PYTREE = ("torch.utils._pytree", "torch.utils._cxx_pytree")
_LOGS = frozenset({"logging", "warnings", "traceback"})
_LOGGED = frozenset({"debug", "info", "warning", "warn", "error", "critical", "exception", "log"})
#: Functions that may be called within the condition of a check: they make no text of a size.
_TEXTLESS = frozenset(
    {len, isinstance, issubclass, int, float, bool, abs, min, max, all, any, sum, tuple, list, type, callable, hasattr}
)  # fmt: skip
_MAKERS = frozenset({"format", "format_map", "join", "__str__", "__repr__", "__format__"})

_plain = {kind: kind.__repr__ for kind in (torch.SymInt, torch.SymFloat, torch.SymBool)}
_numbers = {torch.SymInt: int, torch.SymFloat: float, torch.SymBool: bool}


def _repr(self) -> str:
    if not is_active() or _is_only_said(sys._getframe(1)):
        return _plain[type(self)](self)
    return repr(read(self))


def _format(self, spec: str) -> str:
    if not is_active() or _is_only_said(sys._getframe(1)):
        return _plain[type(self)](self)
    return format(read(self), spec)


def _repr_of_tensor(self, **options) -> str:
    if is_active() and not _is_only_said(sys._getframe(1)):
        raise DataDependentOutputException("the text of a tensor")
    return torch.Tensor.__repr__(self, **options)


def _format_of_tensor(self, spec: str) -> str:
    if is_active() and not _is_only_said(sys._getframe(1)):
        raise DataDependentOutputException("the text of a tensor")
    return torch.Tensor.__format__(self, spec)


def _iterencode(self, o, **options):
    return _json_iterencode(self, _numbers_of(o) if is_active() else o, **options)


def _numbers_of(o):
    """The same lists and dicts with numbers for sizes: a size is no ``int`` to json,
    which then asks for another encoder.
    """
    if type(o) in _plain:
        return read(o)
    if isinstance(o, (list, tuple)):
        found = [_numbers_of(part) for part in o]
        return o if all(map(operator.is_, found, o)) else found
    if isinstance(o, dict):
        pairs = {_numbers_of(key): _numbers_of(value) for key, value in o.items()}
        return o if all(pairs.get(key, pairs) is value for key, value in o.items()) else pairs
    return o


_json_iterencode = json.JSONEncoder.iterencode
_WHY = "torch writes the symbol's name"
register(
    Override(*found, _WHY, is_direct=True)
    for found in (
        *((kind, "__repr__", _repr) for kind in _plain),
        *((kind, "__format__", _format) for kind in _plain),
        (json.JSONEncoder, "iterencode", _iterencode),
        (FakeTensor, "__repr__", _repr_of_tensor),
        (FakeTensor, "__format__", _format_of_tensor),
    )
)


def read(number):
    """The number of the example, which a condition fixes from here on."""
    env = number.node.shape_env
    env.__dict__.setdefault("_disc_written", set()).update(number.node.expr.free_symbols)
    return _numbers[type(number)](number)


def written(env: ShapeEnv) -> set[sympy.Symbol]:
    """Symbols in whose texts the model has seen a number."""
    return env.__dict__.get("_disc_written", set())


def _is_only_said(frame: types.FrameType | None) -> bool:
    """Returns true if the text that is made here decides nothing that is computed."""
    while frame is not None:
        module = frame.f_globals.get("__name__") or ""
        top = module.partition(".")[0]
        if top in _LOGS or (top in FRAMEWORK and module not in _PYTREE):
            return True
        if top not in _WRITERS and module not in _PYTREE:
            statements = _statements(frame.f_code.co_filename, frame.f_lineno)
            return bool(statements) and all(_says(frame, *found) for found in statements)
        frame = frame.f_back
    return True


def _statements(file: str, line: int) -> list[tuple[ast.stmt, tuple[ast.AST, ...]]]:
    """The innermost statements on a line of a file,
    each with the nodes that it is in, outermost first.
    """
    return _by_line(file, "".join(linecache.getlines(file))).get(line, [])


@functools.lru_cache(maxsize=64)
def _by_line(file: str, text: str) -> dict[int, list[tuple[ast.stmt, tuple[ast.AST, ...]]]]:
    try:
        tree = ast.parse(text)
    except (SyntaxError, ValueError):
        return {}
    lines: dict[int, list] = {}

    def visit(node: ast.AST, within: tuple[ast.AST, ...]) -> None:
        for child in ast.iter_child_nodes(node):
            visit(child, (*within, node))
        if isinstance(node, ast.stmt):
            inner = [child for child in ast.walk(node) if isinstance(child, ast.stmt) and child is not node]
            taken = {n for child in inner for n in range(child.lineno, child.end_lineno + 1)}
            for n in range(node.lineno, node.end_lineno + 1):
                if n not in taken:
                    lines.setdefault(n, []).append((node, within))

    visit(tree, ())
    return lines


def _says(frame: types.FrameType, node: ast.stmt, within: tuple[ast.AST, ...]) -> bool:
    """Returns true if a statement hands its texts to nothing but a reader."""
    if any(isinstance(part, ast.NamedExpr) for part in ast.walk(node)):
        return False
    if isinstance(node, ast.Raise):
        return not any(isinstance(outer, ast.Try) and outer.handlers for outer in within)
    if isinstance(node, ast.Assert):
        return _makes_no_text(frame, node.test)
    if isinstance(node, ast.Expr) and isinstance(node.value, ast.Call):
        return _is_said_by(frame, node.value)
    return isinstance(node, ast.Assign) and _is_a_message(frame, node, within)


def _is_said_by(frame: types.FrameType, call: ast.Call) -> bool:
    called = _value(frame, call.func)
    if isinstance(called, types.MethodType) and isinstance(called.__self__, logging.Logger):
        return called.__name__.partition("_")[0] in _LOGGED
    if called in (builtins.print, warnings.warn) or getattr(called, "__module__", None) == "logging":
        return True
    return _is_check(called) and all(_makes_no_text(frame, argument) for argument in call.args[:1])


def _is_check(function) -> bool:
    """Returns true for functions that take a condition and a message of its failure."""
    module, name = getattr(function, "__module__", None) or "", getattr(function, "__name__", "")
    top = module.partition(".")[0]
    return (top == "torch" and name.startswith(("_check", "_assert"))) or (
        top == "transformers" and name == "torch_compilable_check"
    )


def _is_a_message(frame: types.FrameType, node: ast.Assign, within: tuple[ast.AST, ...]) -> bool:
    """Returns true if a text goes into one variable that the function only says."""
    function = next(
        (n for n in reversed(within) if isinstance(n, (ast.FunctionDef, ast.AsyncFunctionDef))), None
    )
    target = node.targets[0]
    if function is None or len(node.targets) > 1 or not isinstance(target, ast.Name):
        return False
    if not isinstance(node.value, (ast.JoinedStr, ast.BinOp, ast.Call, ast.Constant)):
        return False
    uses = {
        n for n in ast.walk(function) if isinstance(n, ast.Name) and n.id == target.id and n is not target
    }
    file = frame.f_code.co_filename
    lines = {line for use in uses for line in range(use.lineno, use.end_lineno + 1)}
    found = [one for line in lines for one in _statements(file, line)]
    return bool(uses) and all(
        not isinstance(other, ast.Assign) and _says(frame, other, outer) for other, outer in found
    )


def _makes_no_text(frame: types.FrameType, test: ast.expr) -> bool:
    for node in ast.walk(test):
        if isinstance(node, ast.JoinedStr):
            return False
        if isinstance(node, ast.BinOp) and isinstance(node.op, ast.Mod) and _is_text(node.left):
            return False
        if isinstance(node, ast.Call):
            called = _value(frame, node.func)
            is_method = isinstance(node.func, ast.Attribute) and node.func.attr not in _MAKERS
            if not is_method and not _is_textless(called):
                return False
    return True


def _is_text(node: ast.expr) -> bool:
    return isinstance(node, ast.Constant) and isinstance(node.value, str)


def _is_textless(called) -> bool:
    """Returns true for functions that make no text in the frame of who calls them:
    those of Python do it in their own.
    """
    if isinstance(called, types.FunctionType):
        return True
    try:
        return called in _TEXTLESS or issubclass(called, (int, float))
    except TypeError:
        return False


def _value(frame: types.FrameType, node: ast.expr):
    """The value of a name or a path of attributes, found without running code of the model;
    None if it is not known.
    """
    if isinstance(node, ast.Name):
        for space in (frame.f_locals, frame.f_globals, vars(builtins)):
            if node.id in space:
                return space[node.id]
        return None
    if isinstance(node, ast.Call) and _value(frame, node.func) is logging.getLogger:
        return logging.getLogger()
    if not isinstance(node, ast.Attribute):
        return None
    owner = _value(frame, node.value)
    if isinstance(owner, logging.Logger):
        return getattr(owner, node.attr, None)
    return None if owner is None else inspect.getattr_static(owner, node.attr, None)
