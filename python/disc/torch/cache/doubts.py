"""Names what no key of the capture cache covers:
functions whose results change from one process to the next.

Code of the user's own is judged more strictly than that of installed packages, whose ids, paths and
modules are housekeeping.
"""

from __future__ import annotations

import builtins
import os
import sys
import types
import typing
from collections.abc import Mapping
from typing import Any

import torch

from . import code_names

#: Followed no further: their version, and that of this package's files, are in the key.
_KNOWN = frozenset(sys.stdlib_module_names) | {"torch", "numpy", "sympy", "disc", "typing_extensions"}
#: Of operations whose steps are known by torch's version.
_SPACES = frozenset(("aten", "prim", "prims"))
#: Names through which code sees what no hash covers.
_BLIND = frozenset(("eval", "exec", "__import__"))
#: Built-in functions that give something else in each process.
_PER_PROCESS = frozenset(("id", "hash", "input"))
#: Functions that reach objects past their names.
_PAST_NAMES = frozenset(("import_module", "_getframe", "currentframe", "from_address"))
#: Modules whose functions give something else each time.
MOVING = frozenset(
    (
        "random", "_random", "time", "datetime", "secrets", "uuid", "socket", "_socket", "subprocess", "numpy.random",
        "numpy.random.mtrand",
    )
)  # fmt: skip
#: Functions of Python's library that ask the system, by the module that defines them.
_ASKING = {
    "genericpath": frozenset(("exists", "isfile", "isdir", "getsize", "getmtime", "getatime", "getctime", "samefile")),
    "posixpath": frozenset(("lexists", "islink", "ismount", "expanduser", "realpath", "abspath", "expandvars")),
    "posix": frozenset(
        (
            "stat", "lstat", "fstat", "access", "getcwd", "getpid", "getppid", "getuid", "getlogin", "urandom", "times",
            "cpu_count", "getloadavg", "sched_getaffinity", "listdir", "scandir", "readlink", "uname", "statvfs",
        )
    ),
    "gc": frozenset(("get_objects", "get_referrers", "get_count", "get_stats")),
    "platform": frozenset(("node", "platform", "machine", "processor", "uname", "release", "version", "system")),
    "tempfile": frozenset(("gettempdir", "mkdtemp", "mkstemp", "NamedTemporaryFile", "TemporaryDirectory")),
    "getpass": frozenset(("getuser", "getpass")),
    "shutil": frozenset(("which", "disk_usage", "get_terminal_size")),
}  # fmt: skip
#: Methods of paths that ask the system.
_OF_PATHS = frozenset(("iterdir", "rglob", "is_file", "is_dir", "is_symlink", "lstat"))
#: Of the environment, what differs from one call of a program to the next, and what torch sets
#: while it captures.
_FLEETING = frozenset(("_", "SHLVL", "PYTEST_CURRENT_TEST", "TORCHINDUCTOR_CACHE_DIR"))
#: Settings of the process that code may ask for, by the name of the function.
SETTINGS = {
    "get_num_threads": torch.get_num_threads,
    "get_num_interop_threads": torch.get_num_interop_threads,
    "initial_seed": torch.initial_seed,
}


class Unsure(Exception):
    """The module cannot be told from others with certainty; the text says why."""


class Moves(Unsure):
    """Something gives another result each time that it is called."""


def variables() -> dict[str, str]:
    """The variables of the environment that may decide a capture: none of disc itself."""
    found = sorted(pair for pair in os.environ.items() if not pair[0].startswith("DISC_"))
    return {name: value for name, value in found if name not in _FLEETING}


def is_known(name: str | None) -> bool:
    """Returns true if code of a module of this name is known by version."""
    return isinstance(name, str) and name.partition(".")[0] in _KNOWN


def refuse(f: types.FunctionType, names: Mapping[str, Any], space: dict, here: list[str]) -> None:
    """Raises for a function whose result no hash covers; ``here`` has the names of globals."""
    called = f"{space.get('__name__')}.{f.__qualname__}"
    # Of built-in functions; a name of the module's own is another thing.
    if blind := {name for name in _BLIND & names.keys() if _is_builtin(name, space)}:
        raise Unsure(f"{called} uses {min(blind)}")
    if "ops" in names and (composed := composed_of(names.keys())):
        raise Unsure(f"{called} uses {composed}, whose steps are not known by version")
    is_own = not is_installed(space)
    for name in here:
        if asked := asks(space[name], is_own):
            raise Moves(f"its code uses {asked}")
    if not is_own:
        return
    if (found := _PER_PROCESS & names.keys() - space.keys()) and found & code_names.global_names(f.__code__):
        raise Unsure(f"{called} uses {min(found)}")
    if found := (_OF_PATHS | _PAST_NAMES) & names.keys():
        raise Unsure(f"{called} uses {min(found)}")
    if "modules" in names and any(space.get(name) is sys for name in names):
        raise Unsure(f"{called} uses sys.modules")


def _is_builtin(name: str, space: dict) -> bool:
    """Returns true if a name stands for a function of Python's library where
    these are the globals.
    """
    held = space.get(name, getattr(builtins, name, None))
    return held is None or is_known(getattr(held, "__module__", None))


def is_installed(space: dict) -> bool:
    """Returns true for globals of an installed package:
    its use of ids and files is its own business.
    """
    file = space.get("__file__")
    return isinstance(file, str) and "site-packages" in file


def moves(x: Any) -> str | None:
    """The name of a function or class that gives another result each time; None for others."""
    if type(x) not in (types.FunctionType, types.BuiltinFunctionType, type):
        return None
    is_error = type(x) is type and issubclass(x, BaseException)
    return f"{x.__module__}.{x.__name__}" if x.__module__ in MOVING and not is_error else None


def asks(x: Any, is_own: bool) -> str | None:
    """As ``moves``; ``is_own``: functions that ask the system are among these."""
    if (found := moves(x)) or not is_own or type(x) not in (types.FunctionType, types.BuiltinFunctionType):
        return found
    return f"{x.__module__}.{x.__name__}" if x.__name__ in _ASKING.get(x.__module__, ()) else None


def composed_of(names: typing.Collection[str]) -> str | None:
    """An operation of somebody else's that is captured as its steps: torch takes it apart,
    or there is a decomposition of it.

    Others stay whole, and disc has none of them.
    """
    import torch._decomp.decompositions

    registered = torch._C._dispatch_get_registrations_for_dispatch_key("CompositeImplicitAutograd")
    decomposed = (str(op.name()) for op in torch._decomp.decomposition_table)
    for name in (*registered, *decomposed):
        space = name.partition("::")[0]
        if space in names and space not in _SPACES:
            return name
    return None
