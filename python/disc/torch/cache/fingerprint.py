"""A hash of all that decides what capture makes of a module: the key of the capture cache.

It covers the tree of modules with their plain attributes; shapes, types, layout and sharing of
weights (never their values); and the Python code that a call can reach (``cache.walk``).

Files that the code reads, values of weights that it reads, and modules that it imports anew are not
covered: who stores a capture sees to it that there were none (``cache.capture_cache``), and that no
function ran that is in doubt (``Read.findings``). What caches of functions hold
(``functools.lru_cache``) is noted beside the key (``cache.memos``).

Invariant: doubt is ``Unsure``, and the module is captured again.
"""

from __future__ import annotations

import dataclasses
import functools
import importlib.util
import operator
import os
import pathlib
import re
import sys
from collections.abc import Iterator
from typing import Any

import numpy
import torch
import torch.nn.modules.module as _modules
from torch import overrides
from torch.utils import _python_dispatch
from torch.utils._device import DeviceContext

import disc

from ..capture import known_libraries
from ..devices import autocast_state
from ..devices.float_rules import float_rules
from ..graph import weight_names
from . import code_names
from .doubts import Unsure
from .moment import Moment
from .walk import Findings, Walk


def fingerprint(
    *parts: Any,
    module: torch.nn.Module,
    notes: code_names.Notes | None = None,
    files: tuple | None = None,
) -> bytes:
    """The hash of a module in its present state, and of ``parts``.

    ``files`` is what ``own_files`` gave, if it was called.

    Any doubt is ``Unsure``, also one about a function that may not run.
    """
    found = read(*parts, module=module, notes=notes, files=files)
    for reason in found.findings.doubts.values():
        raise Unsure(reason)
    return found.key


@dataclasses.dataclass
class Read:
    """The reading of a module."""

    key: bytes
    findings: Findings
    notes: code_names.Notes


def read(
    *parts: Any,
    module: torch.nn.Module,
    notes: code_names.Notes | None = None,
    files: tuple | None = None,
    moment: Moment | None = None,
) -> Read:
    """As ``fingerprint``; doubts about functions are left to the caller,
    but for one about a ``forward``.

    ``moment`` is the one that counts, if code of the module has run since.
    """
    walk = Walk(weight_names.identities(module), notes or code_names.Notes(), moment)
    for part in (environment(), own_files() if files is None else files, *parts):
        walk.put(part)
    walk.put(module)
    walk.close()
    for kind in {type(m): None for m in module.modules()}:
        code = getattr(kind.forward, "__code__", None)
        if code in walk.findings.doubts and isinstance(module, kind):
            raise Unsure(walk.findings.doubts[code])
    return Read(walk.digest.value(), walk.findings, walk.notes)


def digest(
    *values: Any, weights: frozenset[int], notes: code_names.Notes
) -> tuple[bytes, list[torch.Tensor]] | None:
    """The hash of values that code of a module with these weights may use, and the tensors in them;
    None if they cannot be told from others.
    """
    walk = Walk(weights, notes)
    try:
        for value in values:
            walk.put(value)
        walk.close()
    except Unsure:
        return None
    found = walk.findings
    return None if found.doubts or found.memos else (walk.digest.value(), found.tensors)


def own_files() -> tuple:
    """This package as it is on disk, which has to be as it was loaded."""
    stats = sorted(_files(os.path.dirname(disc.__file__), ""), key=operator.itemgetter(0))
    for name, stat in stats:
        if max(stat.st_mtime_ns, stat.st_ctime_ns) > disc._LOADED_NS:
            raise Unsure(f"disc itself was changed after it was loaded: {name}")
    return tuple((name, stat.st_size, stat.st_mtime_ns) for name, stat in stats)


@functools.cache
def _version_of_sympy() -> str:
    """The version of sympy, which a program from disk has no need to load."""
    if (loaded := sys.modules.get("sympy")) is not None:
        return loaded.__version__
    spec = importlib.util.find_spec("sympy")
    release = pathlib.Path(spec.origin).with_name("release.py") if spec and spec.origin else None
    found = re.search(r'__version__ = "(.*)"', release.read_text()) if release and release.exists() else None
    if found is None:
        import sympy

        return sympy.__version__
    return found[1]


def _files(folder: str, place: str) -> Iterator[tuple[str, os.stat_result]]:
    with os.scandir(folder) as found:
        for entry in found:
            if entry.name.endswith(".py"):
                yield place + entry.name, entry.stat()
            elif entry.is_dir() and entry.name != "__pycache__":
                yield from _files(entry.path, f"{place}{entry.name}{os.sep}")


def _matmul_precision() -> str | None:
    """The precision of matmuls on CPUs; None where the user has set it for each device, which torch
    does not mix with this one.
    """
    try:
        return torch.get_float32_matmul_precision()
    except RuntimeError:
        return None


def environment() -> tuple:
    """The versions and settings that decide about any capture, of this thread."""
    for name, hooks in vars(_modules).items():
        if name.startswith("_global_") and name.endswith("_hooks") and hooks:
            raise Unsure(f"all modules have hooks (torch.nn.modules.module.{name})")
    modes = [
        *overrides._get_current_function_mode_stack(),
        *_python_dispatch._get_current_dispatch_mode_stack(),
    ]
    if unknown := [mode for mode in modes if type(mode) is not DeviceContext]:
        raise Unsure(f"the mode {type(unknown[0]).__qualname__} is active")
    return (
        sys.version, str(torch.__version__), torch.version.git_version, numpy.__version__, _version_of_sympy(),
        torch.get_default_dtype(), torch.get_default_device(), torch.are_deterministic_algorithms_enabled(),
        torch.is_inference_mode_enabled(), autocast_state.current(), _matmul_precision(),
        *dataclasses.astuple(float_rules()),
        torch.backends.mha.get_fastpath_enabled(), torch.backends.cuda.flash_sdp_enabled(),
        torch.backends.cuda.math_sdp_enabled(), torch.backends.mkldnn.enabled, sys.flags.optimize,
        known_libraries.in_force(),
    )  # fmt: skip
