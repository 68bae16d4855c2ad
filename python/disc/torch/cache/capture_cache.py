"""The capture cache: what capture and conversion made of a module,
kept on disk for the next process.

An entry holds the program as IR text, and what calls need of the capture, in Python's own format:
the folder is the user's, as is the code in it. Weights are found again by name in the module at
hand.

Invariants:

- whatever is wrong is a miss; the module is captured then;
- a capture is kept if the key covers every constant in it: tensors that were read for the key or
  made from numbers while it was captured; and if nothing ran meanwhile that no key covers (a file,
  the clock, a function in doubt).
"""

from __future__ import annotations

import contextlib
import dataclasses
import functools
import itertools
import os
import pickle
import sys
import threading
import time
import warnings
from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING

import torch
import torch.overrides

import disc

from ...core import extension, gc_pause
from ...core.stages import stage
from ..capture.captured_program import CapturedProgram
from ..devices import autocast_state
from ..devices.device import TYPES
from ..graph import weight_names
from ..graph.exported import Traced
from ..graph.weight_names import PLAIN
from ..pytree.arguments import flatten_arguments
from . import memos
from .code_names import Notes
from .doubts import MOVING, Unsure, is_known, moves
from .fingerprint import Read, own_files, read
from .late_key import Surroundings
from .moment import Moment
from .seen import structure_of

if TYPE_CHECKING:
    from ..capture.captured_graph import CapturedGraph

_FORMAT = 11
_MOST_BYTES = 64 << 20
#: The level of what was asked for before: the start of a key, beside notes on code.
_SEEN = "bytecode"


@dataclass(frozen=True)
class _Entry:
    """The contents of an entry."""

    captured: CapturedProgram
    #: The contents of caches of functions before and after it was made.
    before: memos.Held
    after: memos.Held


@dataclass
class Lookup:
    """One question to the cache.

    ``state`` is "hit", "miss", "off", or "off: " or "unsure: " and the reason.
    """

    directory: str | None
    key: bytes | None = None
    state: str = "off"
    found: CapturedProgram | None = None
    #: The reading that the key is made of, and the contents of caches of functions then.
    read: Read | None = None
    held: memos.Held = dataclasses.field(default_factory=list)
    tensors: list[torch.Tensor] = dataclasses.field(default_factory=list)
    #: Milliseconds that the key took, and storing an entry.
    milliseconds: float = 0.0
    #: There is nothing to be found: the key is made after the capture, by ``keep_late``.
    late: Late | None = None


@dataclass(frozen=True)
class Late:
    """The start of a key that is made after the capture."""

    structure: bytes
    parts: tuple
    files: tuple
    surroundings: Surroundings
    moment: Moment
    #: Returns true if the module is as it was when it was asked for.
    is_unchanged: Callable[[], bool]


@stage("fingerprint")
def look_up(
    module: torch.nn.Module,
    args: tuple,
    kwargs: dict,
    dims,
    directory: str | None,
    is_unchanged: Callable[[], bool] | None = None,
) -> Lookup:
    """Finds what an earlier process made of ``module`` with such an example.

    With ``is_unchanged``, which tells if the module is as it is now, the key of a module whose like
    was never asked for waits until its program is compiled.
    """
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
        _ask(asked, directory, module, args, kwargs, dims, is_unchanged)
    asked.milliseconds = (time.perf_counter() - start) * 1e3
    return asked


def _ask(
    asked: Lookup, directory: str, module: torch.nn.Module, args: tuple, kwargs: dict, dims, is_unchanged
) -> None:
    try:
        files = own_files()
        parts, like = _parts(module, args, kwargs, dims)
        if is_unchanged is not None:
            structure = structure_of(module, files, like)
            if extension.cache_get(directory, _SEEN, structure) is None:
                asked.late = Late(structure, parts, files, Surroundings.now(), Moment.now(), is_unchanged)
                asked.state = "miss"
                return
        with _notes(directory, type(module), files) as notes:
            asked.read = _key(module, parts, notes, files)
            asked.key = asked.read.key
            asked.held, asked.tensors = memos.held_by(asked.read, module)
    except Unsure as error:
        asked.state = f"unsure: {error}"
    except Exception as error:
        asked.state = f"unsure: {type(error).__name__}: {error}"
    else:
        stored = extension.cache_get(directory, "capture", asked.key)
        asked.found = _recalled(stored, module, asked.held) if stored is not None else None
        asked.state = "miss" if asked.found is None else "hit"
        if asked.found is None and (memo := memos.unknown(asked.read, asked.held)) is not None:
            asked.state = f"unsure: what {memo} holds"


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
    """Earlier processes' notes on the bytecode of a class's modules; stores new ones at the end."""
    about = repr((sys.version, files, kind.__module__, kind.__qualname__)).encode("utf-8", "surrogatepass")
    notes = Notes(extension.cache_get(directory, "bytecode", about))
    try:
        yield notes
    finally:
        # Code that cannot be told from other code with certainty is read in each process.
        if (found := notes.to_store()) is not None:
            extension.cache_put(directory, "bytecode", about, found)


def _key(module: torch.nn.Module, parts: tuple, notes: Notes, files: tuple) -> Read:
    return read(*parts, module=module, notes=notes, files=files)


def _parts(module: torch.nn.Module, args: tuple, kwargs: dict, dims) -> tuple[tuple, tuple]:
    """The parts of a key that are of the example; and those that are the same in each process,
    whatever the example holds.
    """
    arguments, tensors = flatten_arguments(module, args, kwargs)
    plan = arguments.plan(dims, tensors)
    rows = []
    for t in tensors:
        if type(t) not in PLAIN or t.device.type not in TYPES or t.layout is not torch.strided:
            raise Unsure("an input is no plain tensor")
        rows.append(
            (
                t.dtype,
                t.device,
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
    leaves.append(autocast_state.current())
    axes = [[repr(axis) for axis in row] for row in plan.axes]
    names = tuple(arguments.names)
    numbers = sorted((i, kind.__name__) for i, kind in arguments.numbers.items())
    parts = (
        _FORMAT, repr(arguments.spec), names, arguments.tensors, numbers, leaves, rows, shared, axes
    )  # fmt: skip
    return parts, (_FORMAT, repr(arguments.spec), names, rows, axes)


def _recalled(stored: bytes, module: torch.nn.Module, held: memos.Held) -> CapturedProgram | None:
    try:
        with warnings.catch_warnings():
            # Its own classes warn torch about themselves.
            warnings.simplefilter("ignore")
            entry: _Entry = pickle.loads(stored)
        if not memos.allow(held, entry.before, entry.after):
            return None
        return CapturedProgram.from_cache(entry.captured, module)
    except Exception:
        return None


_watched = threading.local()
#: Events that tell of a file or a folder, and others whose outcome no key covers.
_OF_FILES = frozenset(("open", "os.listdir", "os.scandir"))
_EVENTS = _OF_FILES | {
    "import", "os.system", "os.posix_spawn", "os.spawn", "subprocess.Popen", "socket.connect", "socket.gethostname",
    "socket.gethostbyname", "socket.getaddrinfo", "sqlite3.connect", "urllib.Request", "os.getxattr", "mmap.__new__",
}  # fmt: skip
_CODE_FILES = (".py", ".pyc", ".so", ".pyd")


def _audit(event: str, args: tuple) -> None:
    if event not in _EVENTS or (files := getattr(_watched, "files", None)) is None or _is_importing():
        return
    if event not in _OF_FILES and event != "import":
        files.append(f"its code asks the system ({event})")
        return
    if event == "import":
        if not _is_known():
            files.append(f"its code reads the module {args[0]}")
        return
    path, mode = args[0], args[1] if event == "open" else None
    if path is None:
        files.append(f"its code asks the system ({event})")
    if isinstance(path, (str, bytes)) and not (mode and "w" in mode) and not _is_ours(os.fsdecode(path)):
        files.append(f"its code reads {os.fsdecode(path)}")


def _is_importing() -> bool:
    """Returns true if a module is being imported, whose code does not depend on the moment."""
    frame = sys._getframe(2)
    while frame is not None:
        # Not `<frozen runpy>`, which is below all that `python -m` runs.
        if frame.f_code.co_filename.startswith(("<frozen importlib", "<frozen zipimport")):
            return True
        frame = frame.f_back
    return False


def _is_known() -> bool:
    """Returns true if torch or this package asks for itself."""
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
    """Returns true if a file holds code, or belongs to a package known by version;
    whoever opens it: torch opens what its user names.
    """
    return path.endswith(_CODE_FILES) or os.path.abspath(path).startswith(_own_folders())


_VALUES = (
    torch.Tensor.numpy, torch.Tensor.tolist, torch.Tensor.__array__, torch.Tensor.__dlpack__, torch.Tensor.untyped_storage,
    torch.Tensor.storage, torch.Tensor.__repr__, torch.Tensor.__format__,
)  # fmt: skip


class _Values(torch.overrides.TorchFunctionMode):
    """Notes reads of tensors' values that the tracer does not see: the key omits weights."""

    def __torch_function__(self, func, types, args=(), kwargs=None):
        if func in _VALUES:
            _watched.files.append("its code reads values of a tensor")
        return func(*args, **(kwargs or {}))


@functools.cache
def _start_audit() -> None:
    sys.addaudithook(_audit)


@contextlib.contextmanager
def watching(asked: Lookup):
    """While it is captured: a module whose code reads a file or imports something is captured each
    time: that may change.
    """
    if asked.state != "miss":
        yield
        return
    _start_audit()
    _own_folders()
    # An own capture may begin within another one: what it reads, that one reads too.
    outer, _watched.files = getattr(_watched, "files", None), []
    try:
        with _Values(), _doubtful(asked.read.findings.doubts if asked.read is not None else {}):
            yield
    finally:
        files, _watched.files = _watched.files, outer
        if outer is not None:
            outer.extend(files)
        if files:
            asked.state = f"unsure: {files[0]}"


@contextlib.contextmanager
def _doubtful(doubts: dict):
    """Notes which of some functions run.

    Without any it costs nothing; else a call of Python takes twice as long.
    """
    if not doubts:
        yield
        return
    if sys.getprofile() is not None:
        _watched.files.append("a profiler is active, and there is doubt about what runs")
        yield
        return
    files = _watched.files

    def profile(frame, event, argument):
        if event == "call" and (reason := doubts.get(frame.f_code)) is not None:
            files.append(reason)
        elif None in doubts and (asked := _moving_call(frame, event, argument)) is not None:
            files.append(f"its code uses {asked}")

    sys.setprofile(profile)
    try:
        yield
    finally:
        sys.setprofile(None)


def _moving_call(frame, event: str, argument) -> str | None:
    """The function that gives another result each time and is called by code that is
    not known by version.
    """
    if event == "c_call":
        return None if is_known(frame.f_globals.get("__name__")) else moves(argument)
    module = frame.f_globals.get("__name__")
    if event != "call" or module not in MOVING or frame.f_back is None:
        return None
    return None if is_known(frame.f_back.f_globals.get("__name__")) else f"{module}.{frame.f_code.co_name}"


def _unknown_constant(asked: Lookup, traced: Traced) -> torch.Tensor | None:
    """A tensor in a trace whose values the key does not cover."""
    known = [*asked.read.findings.tensors, *asked.tensors, *traced.made]
    identities, places = {id(t) for t in known}, {weight_names.place(t) for t in known} - {None}
    for node, t in traced.constants:
        if node.users and id(t) not in identities and weight_names.place(t) not in places:
            return t
    return None


def verify(asked: Lookup, stored: CapturedProgram, module: torch.nn.Module, captured: CapturedProgram) -> str:
    """Compares what the cache gave with a new capture.

    The new one counts; a difference is a warning.
    """
    difference = _difference(stored, captured)
    if difference is None:
        return "verified"
    warnings.warn(
        f"the capture of {type(module).__name__} in the cache is not what a new one gives ({difference}); the new one is used. "
        "Please report it, and call disc.clear_cache()",
        RuntimeWarning,
        stacklevel=5,
    )
    if asked.state != "miss":
        # No new capture took its place.
        extension.cache_put(asked.directory, "capture", asked.key, b"")
    return f"wrong: {difference}"


def _difference(stored: CapturedProgram, captured: CapturedProgram) -> str | None:
    """The first thing in which a stored capture is not a new one."""
    for number, (then, now) in enumerate(
        itertools.zip_longest(stored.text().splitlines(), captured.text().splitlines()), 1
    ):
        if then != now:
            return f"line {number} of the program is {_short(then)}, and now {_short(now)}"
    parts = [(name, getattr(stored, name), getattr(captured, name)) for name in _COMPARED]
    parts += [(name, *(getattr(x.program, name) for x in (stored, captured))) for name in _OF_PROGRAMS]
    parts.append(("symbols", *({str(s): at for s, at in x.symbols.items()} for x in (stored, captured))))
    parts.append(("weights", *([name for name, _ in x.program.weights] for x in (stored, captured))))
    return next((f"{name} differ" for name, then, now in parts if repr(then) != repr(now)), None)


def _short(line: str | None) -> str:
    return "missing" if line is None else repr(line if len(line) < 100 else f"{line[:100]}...")


_COMPARED = (
    "arguments",
    "plan",
    "out_spec",
    "dtypes",
    "devices",
    "fixed",
    "fixed_at",
    "returned_caches",
)
_OF_PROGRAMS = ("outputs", "state", "written", "dense", "assigned", "dims", "facts", "checks", "asked_at")


@stage("store the capture")
def keep(asked: Lookup, module: torch.nn.Module, graph: CapturedGraph, captured: CapturedProgram) -> None:
    """Stores a program for next time; what cannot be stored is captured again then.

    ``graph`` is what it was lowered from.
    """
    if asked.late is not None or asked.key is None or asked.directory is None:
        return
    start = time.perf_counter()
    try:
        if (payload := _payload(asked, module, graph, captured.stored())) is not None:
            extension.cache_put(asked.directory, "capture", asked.key, payload)
    except Unsure as error:
        asked.state = f"unsure: {error}"
    asked.milliseconds += (time.perf_counter() - start) * 1e3


def _payload(
    asked: Lookup, module: torch.nn.Module, graph: CapturedGraph, stored: CapturedProgram
) -> bytes | None:
    """The bytes of an entry; None if they are too many."""
    if len(stored.source) > _MOST_BYTES:
        return None
    if (t := _unknown_constant(asked, graph.traced)) is not None:
        raise Unsure(f"a tensor {list(t.shape)} of unknown origin")
    after = memos.both(asked.held, memos.held_by(asked.read, module)[0])
    after = memos.without(after, asked.read, graph.caches.cleared)
    try:
        # The capturing code is loaded by then: it has to be as it was when the key was made.
        own_files()
        return pickle.dumps(_Entry(stored, asked.held, after), protocol=5)
    except Exception as error:
        raise Unsure(f"{type(error).__name__}: {error}") from error


@stage("fingerprint")
def keep_late(asked: Lookup, module: torch.nn.Module, graph: CapturedGraph, stored: CapturedProgram) -> None:
    """Makes the key that was not made before the capture, and stores the program under it; or
    nothing, if the key may be another one by now. The next process makes it first in either case.
    """
    late, directory = asked.late, asked.directory
    if late is None or directory is None:
        return
    try:
        if asked.state == "miss":
            with gc_pause.waiting(), _notes(directory, type(module), late.files) as notes:
                payload = _payload_late(asked, late, module, graph, stored, notes)
            if payload is not None:
                extension.cache_put(directory, "capture", asked.key, payload)
    except Unsure as error:
        asked.state = f"unsure: {error}"
    except Exception as error:
        asked.state = f"unsure: {type(error).__name__}: {error}"
    extension.cache_put(directory, _SEEN, late.structure, b"seen")


def _payload_late(
    asked: Lookup,
    late: Late,
    module: torch.nn.Module,
    graph: CapturedGraph,
    stored: CapturedProgram,
    notes: Notes,
) -> bytes | None:
    if not late.is_unchanged() or late.surroundings != Surroundings.now():
        raise Unsure("its capture changed what it reads")
    asked.read = read(*late.parts, module=module, notes=notes, files=late.files, moment=late.moment)
    # Nobody looked while they may have run.
    for reason in asked.read.findings.doubts.values():
        raise Unsure(reason)
    before = [_entries_before(memo, graph) for memo in asked.read.findings.memos]
    asked.held, asked.tensors = memos.held_by(asked.read, module, before)
    if (memo := memos.unknown(asked.read, asked.held)) is not None:
        raise Unsure(f"what {memo} holds")
    asked.key = asked.read.key
    return _payload(asked, module, graph, stored)


def _entries_before(memo: object, graph: CapturedGraph) -> list:
    found = graph.caches.before.get(id(memo))
    if found is None:
        raise Unsure("a cache of a function that was found after the capture")
    return found[1]
