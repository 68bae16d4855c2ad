"""The capture cache: what capture and conversion made of a module, kept on disk for the next process.

An entry holds the program as IR text, and what calls need of the capture, in Python's own format: the folder is the
user's, as is the code in it. Weights are found again by name in the module at hand.

Invariant: whatever is wrong is a miss; the module is captured then.
"""

from __future__ import annotations

import contextlib
import functools
import os
import pickle
import sys
import threading
import time
import warnings
from dataclasses import dataclass
from typing import Any

import torch
import torch.overrides
from torch.utils import _pytree as pytree

import disc

from ...core import extension, gc_pause
from ...core.dims import DimPlan
from ..pytree.arguments import Arguments, flatten_arguments
from .code_names import Notes
from .fingerprint import Unsure, fingerprint, own_files

_FORMAT = 4
_MOST_BYTES = 64 << 20


@dataclass
class Recalled:
    """What ``Call`` and ``OptimizedModule`` read of a capture; ``program.weights`` has the tensors of the module at hand."""

    arguments: Arguments
    plan: DimPlan
    out_spec: pytree.TreeSpec
    symbols: dict
    dtypes: list[torch.dtype]
    fixed: list[str]
    fixed_at: dict[str, str]
    attempts: int
    program: Any
    text: str
    milliseconds: float = 0.0


@dataclass
class Lookup:
    """One question to the cache. ``state`` is "hit", "miss", "off", or "off: " or "unsure: " and the reason."""

    directory: str | None
    key: bytes | None = None
    state: str = "off"
    found: Recalled | None = None
    #: Milliseconds that the key took.
    milliseconds: float = 0.0


def look_up(module: torch.nn.Module, args: tuple, kwargs: dict, dims, directory: str | None) -> Lookup:
    """Finds what an earlier process made of ``module`` with such an example."""
    asked = Lookup(directory)
    if directory is None:
        return asked
    if extension.cache_is_shared(directory):
        asked.state = "off: others may write to it"
        return asked
    if (obstacle := _obstacle(directory)) is not None:
        asked.state, asked.directory = f"off: {obstacle}", None
        return asked
    start = time.perf_counter()
    with gc_pause.waiting():
        _ask(asked, directory, module, args, kwargs, dims)
    asked.milliseconds = (time.perf_counter() - start) * 1e3
    if asked.found is not None:
        asked.found.milliseconds = asked.milliseconds
    return asked


def _ask(asked: Lookup, directory: str, module: torch.nn.Module, args: tuple, kwargs: dict, dims) -> None:
    try:
        files = own_files()
        with _notes(directory, type(module), files) as notes:
            asked.key = _key(module, args, kwargs, dims, notes, files)
    except Unsure as error:
        asked.state = f"unsure: {error}"
    except Exception as error:
        asked.state = f"unsure: {type(error).__name__}: {error}"
    else:
        stored = extension.cache_get(directory, "capture", asked.key)
        asked.found = _recalled(stored, module) if stored is not None else None
        asked.state = "miss" if asked.found is None else "hit"


def _obstacle(directory: str) -> str | None:
    """Why there is no such folder and cannot be one."""
    try:
        os.makedirs(directory, mode=0o700, exist_ok=True)
    except FileExistsError:
        return f"{directory} is not a folder"
    except OSError as error:
        return f"{directory} cannot be made: {error.strerror}"
    return None


@contextlib.contextmanager
def _notes(directory: str, kind: type, files: tuple):
    """What was read in the bytecode behind modules of a class, by earlier processes; what is new is stored."""
    about = repr((sys.version, files, kind.__module__, kind.__qualname__)).encode("utf-8", "surrogatepass")
    notes = Notes(extension.cache_get(directory, "bytecode", about))
    try:
        yield notes
    finally:
        # What cannot be told from others with certainty is read in each process.
        if (found := notes.to_store()) is not None:
            extension.cache_put(directory, "bytecode", about, found)


def _key(module: torch.nn.Module, args: tuple, kwargs: dict, dims, notes: Notes, files: tuple) -> bytes:
    arguments, tensors = flatten_arguments(module, args, kwargs)
    plan = DimPlan.read(dims, arguments.tensor_names, [t.shape for t in tensors])
    rows = []
    for t in tensors:
        if (
            type(t) not in (torch.Tensor, torch.nn.Parameter)
            or t.device.type != "cpu"
            or t.layout is not torch.strided
        ):
            raise Unsure("an input is no plain tensor")
        rows.append(
            (
                t.dtype,
                tuple(t.shape),
                t.stride(),
                t.storage_offset(),
                t.is_conj(),
                t.is_neg(),
                t.requires_grad,
            )
        )
    # Inputs that share memory with each other or with weights may be written through.
    shared = [[t.untyped_storage()._cdata == u.untyped_storage()._cdata for u in tensors] for t in tensors]
    own = {t.untyped_storage()._cdata for t in (*module.parameters(), *module.buffers())}
    if any(t.untyped_storage()._cdata in own for t in tensors):
        raise Unsure("an input shares memory with a weight")
    leaves = sorted(arguments.constants.items())
    axes = [[repr(axis) for axis in row] for row in plan.axes]
    names = tuple(arguments.names)
    return fingerprint(
        _FORMAT, repr(arguments.spec), names, arguments.tensors, leaves, rows, shared, axes,
        module=module, notes=notes, files=files,
    )  # fmt: skip


def _recalled(stored: bytes, module: torch.nn.Module) -> Recalled | None:
    try:
        with warnings.catch_warnings():
            # Its own classes warn torch about themselves.
            warnings.simplefilter("ignore")
            found: Recalled = pickle.loads(stored)
        found.program.weights = [(name, _weight(module, name)) for name in found.program.weights]
    except Exception:
        return None
    return found


_watched = threading.local()
_CODE_FILES = (".py", ".pyc", ".so", ".pyd")


def _audit(event: str, args: tuple) -> None:
    if (
        event not in ("open", "import")
        or (files := getattr(_watched, "files", None)) is None
        or _is_importing()
    ):
        return
    if event == "import":
        if not _is_known():
            files.append(f"the module {args[0]}")
        return
    path, mode = args[0], args[1]
    if isinstance(path, (str, bytes)) and not (mode and "w" in mode) and not _is_ours(os.fsdecode(path)):
        files.append(os.fsdecode(path))


def _is_importing() -> bool:
    """Whether a module is being imported, whose code does not depend on the moment."""
    frame = sys._getframe(2)
    while frame is not None:
        # Not `<frozen runpy>`, which is below all that `python -m` runs.
        if frame.f_code.co_filename.startswith(("<frozen importlib", "<frozen zipimport")):
            return True
        frame = frame.f_back
    return False


def _is_known() -> bool:
    """Whether torch or this package asks for itself."""
    asks = sys._getframe(2).f_globals.get("__name__")
    return asks is not None and asks.partition(".")[0] in ("torch", "disc", "sympy", "numpy")


@functools.cache
def _own_folders() -> tuple[str, ...]:
    """Of Python, and of packages that are known by version."""
    import numpy
    import sympy

    packages = (os.path.dirname(os.path.abspath(m.__file__)) for m in (torch, numpy, sympy, disc))
    folders = (*packages, sys.prefix, sys.base_prefix, "/proc", "/sys")
    return tuple(os.path.join(folder, "") for folder in folders if folder != os.sep)


def _is_ours(path: str) -> bool:
    """Whether a file holds code, or belongs to what is known by version; whoever opens it: torch opens what its user names."""
    return path.endswith(_CODE_FILES) or os.path.abspath(path).startswith(_own_folders())


_VALUES = (
    torch.Tensor.numpy, torch.Tensor.tolist, torch.Tensor.__array__, torch.Tensor.__dlpack__, torch.Tensor.untyped_storage,
    torch.Tensor.storage,
)  # fmt: skip


class _Values(torch.overrides.TorchFunctionMode):
    """Notes what reads values of tensors behind the back of the tracer: those of weights are not in the key."""

    def __torch_function__(self, func, types, args=(), kwargs=None):
        if func in _VALUES:
            _watched.files.append("values of a tensor")
        return func(*args, **(kwargs or {}))


@functools.cache
def _start_audit() -> None:
    sys.addaudithook(_audit)


@contextlib.contextmanager
def watching(asked: Lookup):
    """While it is captured: a module whose code reads a file or imports something is captured each time: that may change."""
    if asked.state != "miss":
        yield
        return
    _start_audit()
    _own_folders()
    # An own capture may begin within another one: what it reads, that one reads too.
    outer, _watched.files = getattr(_watched, "files", None), []
    try:
        with _Values():
            yield
    finally:
        files, _watched.files = _watched.files, outer
        if outer is not None:
            outer.extend(files)
        if files:
            asked.state = f"unsure: its code reads {files[0]}"


def keep(asked: Lookup, captured, program, text: str) -> None:
    """Stores a capture for next time; what cannot be stored is captured again then."""
    if asked.key is None or asked.directory is None or len(text) > _MOST_BYTES:
        return
    weights, program.weights = program.weights, [name for name, _ in program.weights]
    try:
        # What captures is loaded by then: it has to be as it was when the key was made.
        own_files()
        kept = Recalled(
            captured.arguments, captured.plan, captured.out_spec, captured.symbols, captured.dtypes, captured.fixed,
            captured.fixed_at, captured.attempts, program, text,
        )  # fmt: skip
        payload = pickle.dumps(kept, protocol=5)
    except Exception as error:
        asked.state = f"unsure: {type(error).__name__}: {error}"
        return
    finally:
        program.weights = weights
    extension.cache_put(asked.directory, "capture", asked.key, payload)


def _weight(module: torch.nn.Module, name: str) -> torch.Tensor:
    owner, _, leaf = name.rpartition(".")
    return getattr(module.get_submodule(owner), leaf)
