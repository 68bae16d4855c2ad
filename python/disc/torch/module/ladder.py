"""Compiles one form of call: whole, else in parts, else what dynamo can split off, else not at all.

Invariants:

- an error that the user caused is raised: about ``dims=``, options, or this machine;
- with ``fallback="error"`` each step of the fallback order after the first is an error.
"""

from __future__ import annotations

import contextlib
import logging
import time
from collections.abc import Callable

import torch
from torch.utils import _pytree as pytree

from ...core import environment, extension, stages
from ...core.errors import CompileError, DimError, Error
from ...core.meanwhile import meanwhile
from ...core.options import Options
from ..cache import capture_cache
from ..calls.call import PLAIN, Call
from ..capture.captured_program import CapturedProgram
from ..devices.device import HOST, device_of_module, placed, refuse_absent
from ..graph.weight_names import refuse_subclasses
from ..pytree.arguments import flatten_arguments
from ..pytree.held_values import HeldValues
from ..tracer import deadline
from ..tracer.deadline import TooLong
from ..watch.generators import Drawn, refusing_draws
from ..watch.module_watch import ModuleWatch
from ..watch.reach import Reach
from ..watch.skipped_hooks import Skipped, refuse_skipped
from .entry import CompiledEntry, EagerEntry, Entry, PartitionedEntry, SettlingEntry
from .weights import prepared_bytes

_LOG = logging.getLogger("disc.compile")
_CAPTURE = logging.getLogger("disc.capture")
_CACHE = logging.getLogger("disc.cache")


class Request:
    """A form of call that is to be compiled: the module, an example, and what the user wants."""

    def __init__(
        self,
        original: Callable[[], torch.nn.Module],
        args: tuple,
        kwargs: dict,
        dims,
        options: Options,
        is_example: bool,
        is_behind: bool = False,
        takes_weights: bool = False,
        held: HeldValues | None = None,
        watch: ModuleWatch | None = None,
        may_settle: bool = True,
    ):
        self.original = original
        self.module = original()
        self.args = args
        self.kwargs = kwargs
        self.dims = dims
        self.options = options
        #: The device of the module and of the example.
        self.device = HOST
        #: The user gave it as an example, and it is no call.
        self.is_example = is_example
        #: Calls of the module go on meanwhile.
        self.is_behind = is_behind
        #: Weights keep changing: each call takes them as inputs.
        self.takes_weights = takes_weights
        #: Values of the module keep changing: each call takes them as inputs.
        self.held = held
        #: Watches the module since before; None if nobody does.
        self.watch = watch
        #: PyTorch may run a call that settles attributes, so that the next one is compiled.
        self.may_settle = may_settle
        #: The captured graph, once there is one, and whether all of it could be lowered.
        self.graph = None
        self.is_lowered = False


def build(request: Request, stage: Callable[[str], None]) -> Entry:
    """Makes what serves ``request``."""
    strict = request.options.fallback == "error"
    try:
        arguments, tensors = flatten_arguments(request.module, request.args, request.kwargs, request.held)
        for t in tensors:
            t.size()  # classes of tensors run code of their own
    except Exception as error:
        if strict:
            raise
        return EagerEntry(request.original, _as_error(error))
    # The user has to fix what is wrong with ``dims``.
    arguments.plan(request.dims, tensors)
    try:
        request.device = device_of_module(request.module, arguments.tensor_names, tensors)
        refuse_absent(request.device)
    except Exception as error:
        # Classes of tensors run code of their own.
        if strict:
            raise
        return EagerEntry(request.original, _as_error(error))
    # As is what is wrong with the options.
    request.options = placed(request.options, request.device)
    try:
        return _whole(request, stage)
    except Exception as error:
        cause = _as_error(error)
        if (strict or request.is_example) and _fails_without_disc(request, cause, arguments, tensors):
            raise cause from error.__cause__
        if strict or not _falls(cause, request):
            raise
    return _below(request, cause, tensors, stage)


def _below(request: Request, cause: Error, tensors: list[torch.Tensor], stage) -> Entry:
    """Makes what serves a module that is not compiled whole, because of ``cause``."""
    name = type(request.module).__name__
    _LOG.info("%s is not compiled whole: %s", name, cause)
    if request.graph is not None:
        try:
            if (entry := _in_parts(request, stage)) is not None:
                return entry
        except Exception as error:
            _LOG.info("%s is not compiled in parts: %s", name, error)
    elif request.may_settle and _settles(cause):
        return SettlingEntry(request.original, cause)
    elif not isinstance(cause, (TooLong, Drawn, Skipped)) and _is_served_by_dynamo(request, tensors):
        stage("split by dynamo")
        return _by_dynamo(request, cause)
    return EagerEntry(request.original, cause)


def _settles(cause: Error) -> bool:
    """Returns true for a call after which the module changes no more."""
    from ..capture.side_effects import Switched

    return isinstance(cause, Switched) and cause.settles


def _by_dynamo(request: Request, cause: Error) -> Entry:
    from .by_dynamo import DynamoEntry

    return DynamoEntry(request.original, cause, request.options)


def _as_error(error: Exception) -> Error:
    """An error of disc for what may be a fault of disc's, or of code that it reads."""
    if isinstance(error, Error):
        return error
    made = CompileError(f"{type(error).__name__}: {error}")
    made.__cause__ = error
    return made


def _fails_without_disc(request: Request, error: Error, arguments, tensors: list[torch.Tensor]) -> bool:
    """Returns true if the module itself fails on the example; the help of ``error`` says so."""
    if error.code != "E0404" or error.__cause__ is None:
        return False
    from ..capture.side_effects import eager_failure

    failure = eager_failure(request.module, arguments, tensors)
    if failure is not None:
        error.help = f"without disc the module fails on the example too: {type(failure).__name__}: {failure}"
        return True
    error.help = (
        "the module runs eagerly on the example; a trace passes tensors without values and sizes that are no "
        "numbers, and the original error is the cause of this one"
    )
    return False


def _is_served_by_dynamo(request: Request, tensors: list[torch.Tensor]) -> bool:
    """Returns true if all inputs are dense tensors, of a device that disc compiles for: of others
    it compiles nothing.

    Dynamo holds the module, which may go away with ``release_weights``.
    """
    if request.options.release_weights:
        return False
    return all(type(t) in PLAIN and not t.is_meta and t.layout is torch.strided for t in tensors)


def _falls(error: Error, request: Request) -> bool:
    """Returns true for an error that is about what the model contains."""
    if isinstance(error, DimError):
        return request.dims is None
    # The program was made: what is left are options, what this machine can do, and faults of the
    # program itself.
    is_of_program = isinstance(error, CompileError) or error.code.startswith(("E01", "E02"))
    return not request.is_lowered or is_of_program


def _whole(request: Request, stage) -> CompiledEntry:
    refuse_skipped(request.module)
    options = request.options
    directory = extension.cache_for(options)
    needed = prepared_bytes(request.module, options)
    # Mapped weights need no memory of the host, nor do those of a GPU.
    is_elsewhere = request.device != HOST
    is_likely_there = is_elsewhere or (
        directory is not None
        and extension.keeps_weights(options)
        and extension.may_be_mapped(directory, needed)
    )
    with contextlib.ExitStack() as ahead:
        stage("capture")
        if not is_likely_there:
            ahead.enter_context(extension.memory_ahead(needed))
        # The key of a capture does not hold which ops the user lets PyTorch run.
        chooses = bool(options.block_ops or options.allow_ops or request.held) or request.takes_weights
        asked = capture_cache.look_up(
            request.module,
            request.args,
            request.kwargs,
            request.dims,
            None if chooses else directory,
            request.watch.holds if request.watch is not None else None,
        )
        if is_likely_there and not is_elsewhere and asked.found is None:
            # Another program's, most likely.
            ahead.enter_context(extension.memory_ahead(needed))
        captured = _captured(asked, request)
        refuse_subclasses(captured.program.weights)
        request.is_lowered = True
        name = type(request.module).__name__
        _CACHE.info("capture of %s: %s", name, asked.state)
        stage("compile")
        call = Call(request.module, captured)
        with stages.stage("compile"):
            artifact = _compiled(asked, request, captured, call, directory if chooses else asked.directory)
            _note_stages(artifact)
        compiled = time.perf_counter()
        stage("prepare weights")
        with stages.stage("pack weights"):
            executable = captured.loaded(artifact, name)
        loaded = time.perf_counter()
    milliseconds = captured.stages["capture"] + asked.milliseconds
    report = {
        "stages": {**captured.stages, "capture": milliseconds, "pack": (loaded - compiled) * 1e3},
        "cache": asked.state,
        "captured_by": captured.by,
    }
    _LOG.info("%s is compiled whole, of %d operations", name, captured.program.operations)
    return CompiledEntry(request, call, captured, executable, report, artifact)


def _compiled(
    asked: capture_cache.Lookup,
    request: Request,
    captured: CapturedProgram,
    call: Call,
    directory: str | None,
):
    """Compiles a program. Meanwhile it is stored, if its key was not made before."""

    first = [list(tensor.shape) for tensor in call.leaves(request.args, request.kwargs)]

    def work():
        return captured.compiled(request.options, directory, first)

    if asked.late is None:
        return work()
    # While it is compiled nobody else may ask for its text.
    stored = captured.stored()
    return meanwhile(work, lambda: capture_cache.keep_late(asked, request.module, request.graph, stored))


def _note_stages(artifact) -> None:
    """Puts the stages and passes of the compiler into the tree that is being made."""
    report = artifact.report()
    if report["code_cache"] == "hit":
        return
    for name, milliseconds in report["stages_ms"].items():
        stages.note(name, milliseconds=milliseconds)
    for name, milliseconds in report["passes_ms"]:
        if milliseconds >= 1:
            stages.note("passes", name, milliseconds=milliseconds)


def whole_program(request: Request) -> CapturedProgram:
    """The whole module as a program for a package; raises what keeps it from being one."""
    arguments, tensors = flatten_arguments(request.module, request.args, request.kwargs)
    device = device_of_module(request.module, arguments.tensor_names, tensors)
    refuse_for_package(device)
    asked = capture_cache.look_up(request.module, request.args, request.kwargs, request.dims, None)
    return _captured(asked, request)


def refuse_for_package(device: torch.device) -> None:
    """Raises for a module on a GPU: weights are written from memory of the host."""
    if device.type != "cpu":
        raise Error(
            f"the module is on {device}, and a package holds weights of the host's memory",
            code="E0801",
            help='move the module to the cpu: module.cpu(); target="nvptx:sm_90" makes code for a GPU of it',
        )


def _captured(asked: capture_cache.Lookup, request: Request) -> CapturedProgram:
    """The program of a module: from the cache, or by tracing."""
    stored = asked.found
    if stored is not None and not environment.verifies_cache():
        return stored
    if stored is not None:
        asked.found, asked.state = None, "miss"
    # A program from disk needs neither.
    from ..capture.capture import capture
    from ..lowering.graph import convert
    from ..lowering.table import serves
    from ..partition.support import refuse_blocked
    from ..watch.outside import Outside

    waits = request.options.fallback == "error"
    with stages.stage("reach"):
        reach = _reach(request)
        outside = Outside(reach)
    given = request.args, request.kwargs
    if "layout" in reach.questions:
        # Calls of other tensors run in PyTorch.
        given = pytree.tree_map_only(torch.Tensor, lambda t: t.contiguous(), given)
    with capture_cache.watching(asked), deadline.bounded(None if waits else deadline.MOST_SECONDS):
        try:
            with refusing_draws(request.module, reach):
                graph = capture(
                    request.module,
                    *given,
                    request.dims,
                    serves,
                    may_export=not request.is_behind and request.held is None,
                    in_grad_mode="is_grad_enabled" in reach.asked and torch.is_grad_enabled(),
                    held=request.held,
                )
        finally:
            # Calls that go on meanwhile may write there by right.
            written = outside.take_out_fakes() if request.is_behind else outside.put_back()
    filled = {id(table) for table in graph.caches.filled}
    graph.tables = [*written, *(place for table, place in reach.dicts if id(table) in filled)]
    if graph.tables or filled:
        _refuse_written(request, graph.tables)
    if request.held is not None:
        request.held.refuse_others(graph.traced, graph.changes)
    graph.takes_weights = request.takes_weights
    request.graph = graph
    name = type(request.module).__name__
    _CAPTURE.info("%s is captured by %s, in %.0f ms", name, graph.by, graph.milliseconds)
    refuse_blocked(graph.graph, request.options)
    captured = convert(graph, extension.builder())
    if asked.state == "miss":
        capture_cache.keep(asked, request.module, graph, captured)
    if stored is not None:
        asked.state = capture_cache.verify(asked, stored, request.module, captured)
    return captured


def _reach(request: Request) -> Reach:
    """All that the module can read now."""
    watch = request.watch
    if watch is not None and watch.reach is not None and watch.holds():
        return watch.reach
    return Reach(request.module)


def _refuse_written(request: Request, written: list[str]) -> None:
    """Refuses a module whose every call writes to what lives outside of it."""
    from ..capture import side_effects
    from ..watch.outside import Outside, refusal, refuse_written

    if request.is_behind:
        # Nobody runs the module for a trial while calls go on.
        if written:
            raise refusal(request.module, written)
        return
    arguments, tensors = flatten_arguments(request.module, request.args, request.kwargs)

    def run():
        return side_effects.results(request.module, arguments, tensors)

    refuse_written(request.module, lambda: Outside(Reach(request.module)), run, written)


def _in_parts(request: Request, stage) -> PartitionedEntry | None:
    from ..partition.program import partition

    options, graph = request.options, request.graph
    directory = extension.cache_for(options)

    def compiled(program: CapturedProgram):
        refuse_subclasses(program.program.weights)
        return program.loaded(program.compiled(options, directory), type(request.module).__name__)

    stage("compile")
    start = time.perf_counter()
    parts = partition(graph, request.original, options, compiled)
    if parts is None:
        return None
    captured = CapturedProgram(
        graph.arguments, graph.plan, graph.out_spec, graph.symbols, graph.dtypes, graph.fixed, graph.fixed_at,
        parts.program, "", graph.by, returned_caches=graph.returned_caches, device=graph.device,
        devices=tuple(graph.devices), notes=graph.notes,
    )  # fmt: skip
    _LOG.info(
        "%s is compiled in %d clusters; torch runs %d ops between them",
        type(request.module).__name__,
        len(parts.clusters),
        len(parts.left),
    )
    stages = {"capture": graph.milliseconds, "convert": (time.perf_counter() - start) * 1e3}
    report = {"stages": stages, "cache": "off", "captured_by": graph.by}
    call = Call(request.module, captured)
    return PartitionedEntry(request.original, call, captured, parts, report)
