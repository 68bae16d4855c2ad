"""Loads PyTorch's test files, also those of a version that is near the installed one.

A name that the installed torch lacks becomes a stand-in, which skips the tests that use it.
"""

from __future__ import annotations

import ast
import importlib
import inspect
import sys
import types
import unittest
from pathlib import Path

#: The suites, in the order in which they run; a checkout may lack some.
SUITES = (
    "inductor.test_torchinductor",
    "inductor.test_torchinductor_dynamic_shapes",
    "inductor.test_cpu_repro",
    "dynamo.test_misc",
    "dynamo.test_repros",
    "dynamo.test_functions",
    "dynamo.test_modules",
    "dynamo.test_dynamic_shapes",
)


class Missing:
    """Stands in for a name that torch lacks: tests that it decorates or that use it are skipped."""

    loading = True

    def __init__(self, name: str) -> None:
        self._reason = f"the installed torch has no {name}"

    def _skip(self):
        if not Missing.loading:
            raise unittest.SkipTest(self._reason)
        return self

    def __call__(self, *args, **_):
        if Missing.loading and len(args) == 1 and inspect.isfunction(args[0]):
            return unittest.skip(self._reason)(args[0])
        return self._skip()

    def __getattr__(self, name: str):
        if name.startswith("__"):
            raise AttributeError(name)
        return self._skip()

    def __enter__(self):
        return self._skip()

    def __exit__(self, *_) -> None:
        return None


def present(folder: Path) -> list[str]:
    """The suites of ``SUITES`` that ``folder`` has."""
    return [suite for suite in SUITES if _file(folder, suite).is_file()]


def load(folder: Path, suite: str) -> list[unittest.TestCase]:
    """The tests of a suite."""
    if str(folder) not in sys.path:
        sys.path[:0] = [str(folder)]
    Missing.loading = True
    _stand_in(folder, _file(folder, suite), set())
    module = importlib.import_module(suite)
    Missing.loading = False
    return list(_flat(unittest.defaultTestLoader.loadTestsFromModule(module)))


def _file(folder: Path, suite: str) -> Path:
    return folder / (suite.replace(".", "/") + ".py")


def _flat(tests):
    for test in tests:
        if isinstance(test, unittest.TestSuite):
            yield from _flat(test)
        else:
            yield test


def _stand_in(folder: Path, file: Path, seen: set[Path]) -> None:
    """Gives torch's modules the names that they lack and that the file, or another test file that
    it imports, asks for.
    """
    if file in seen or not file.is_file():
        return
    seen.add(file)
    for node in ast.walk(ast.parse(file.read_text())):
        if not isinstance(node, ast.ImportFrom):
            continue
        for other in _imported(folder, file, node):
            _stand_in(folder, other, seen)
        if node.level or not (node.module or "").startswith("torch"):
            continue
        module = _module(node.module)
        for alias in node.names:
            if not hasattr(module, alias.name) and not _is_module(f"{node.module}.{alias.name}"):
                setattr(module, alias.name, Missing(f"{node.module}.{alias.name}"))


def _imported(folder: Path, file: Path, node: ast.ImportFrom) -> list[Path]:
    """The test files that an import may mean."""
    if node.module is None:
        return [file.with_name(f"{alias.name}.py") for alias in node.names]
    return [_file(file.parent if node.level == 1 else folder, node.module)]


def _module(name: str) -> types.ModuleType:
    try:
        return importlib.import_module(name)
    except ImportError:
        sys.modules[name] = types.ModuleType(name)
        return sys.modules[name]


def _is_module(name: str) -> bool:
    try:
        importlib.import_module(name)
    except ImportError:
        return False
    return True
