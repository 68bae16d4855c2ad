"""Runs one form of call: a module that disc compiled whole, in parts, or not at all.

Invariant: ``Refused`` is raised before anything was written, so that somebody else may serve the
call.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import torch

from ...core import capturing
from ...core.errors import CompileError, DimError, Error
from ...core.report import collect
from ..calls.call import Call
from ..calls.state import Shapes, State
from ..capture.captured_program import CapturedProgram
from ..graph.call_writer import CallWriter, is_callers
from ..graph.weight_names import as_read, bytes_of
from ..pytree import given_caches
from ..pytree.result import Result
from ..watch.weights import has_replaced, watch_weights
from .warm import WarmCalls
from .weights import find_weight

if TYPE_CHECKING:
    # A program from the cache needs neither capture nor lowering.
    from ..partition.program import PartitionedProgram
    from .carried import CarriedProgram


#: Weights that change so many times, with at most so many calls between, are not prepared again.
_MOST_CHANGES, _OFTEN = 3, 2


class Refused(Exception):
    """A call is outside of what was compiled; ``error`` says why.

    Code that began to run, and wrote nothing, is that of the entry ``began``.
    """

    def __init__(self, error: Error, began: Entry | None = None):
        super().__init__(str(error))
        self.error = error
        self.began = began


class Entry:
    """Serves one form of call."""

    #: The tracer that captured the module: "disc", "export", "dynamo" or "none".
    captured_by = "none"
    #: The error for which the module was not captured.
    cause: Error | None = None

    def run(self, args: tuple, kwargs: dict) -> Any:
        """The result of a call; raises Refused if it does not serve it."""
        raise NotImplementedError

    def weights(self) -> list[tuple[str, torch.Tensor]]:
        """The weights that compiled code reads in place."""
        return []

    def takes_weights(self, original: Callable[[], torch.nn.Module]) -> bool:
        """Returns true if it can go on with the weights of the original as they are now."""
        return True

    def reads(self, address: int) -> bool:
        """Returns true if compiled code reads the storage at an address."""
        return False

    def changed(self) -> list[str]:
        """The parameters and buffers that calls change."""
        return []

    def use(self, weights: list[tuple[str, torch.Tensor]]) -> None:
        """Reads these weights from here on."""

    def copy_weights(self) -> None:
        """Reads copies of the weights from here on: their memory is about to be freed."""
        self.use([(name, t.clone()) for name, t in self.weights()])

    def report_values(self) -> dict[str, Any]:
        """The values of the report that this entry knows."""
        raise NotImplementedError

    def fallbacks(self) -> list[dict[str, Any]]:
        """Describes what torch runs in a call."""
        return []

    def executables(self) -> list[Any]:
        """The compiled code that serves calls now."""
        return []


class GraphEntry(Entry):
    """Serves the calls of which ``call`` knows the tensors, by a graph that disc captured."""

    def __init__(self, call: Call, captured: CapturedProgram, report: dict):
        self.call = call
        self.returned_caches = captured.returned_caches
        #: The attributes that calls of the module note, and that no result depends on.
        self.notes = captured.notes
        self.captured_by = report["captured_by"]
        self._stages, self._cache = report["stages"], report["cache"]
        self._addresses: frozenset[int] = frozenset()
        #: The weights as they were prepared; None where nobody watches them.
        self.weight_watch: Any = None
        #: Tensors took the place of parameters, by which a call may be differentiated.
        self.has_replaced = False
        #: False once no code could be made that takes weights as inputs.
        self.may_take_weights = True
        #: The calls in a row that met other weights, and the number of all calls at the last one.
        self._changes, self._calls_then = 0, 0

    def watch_weights(self, module: torch.nn.Module) -> None:
        """Watches the weights, which are prepared as they are in ``module``."""
        self.weight_watch = watch_weights(module, [name for name, _ in self.weights()])
        self.has_replaced = has_replaced(module)

    def keep_changing(self) -> bool:
        """Notes that a call met other weights; returns true if each of the last calls did."""
        calls = sum(executable.calls for executable in self.executables())
        self._changes = self._changes + 1 if calls - self._calls_then <= _OFTEN else 1
        self._calls_then = calls
        return self._changes > _MOST_CHANGES and self.may_take_weights

    def has_its_weights(self) -> bool:
        """Returns true if the weights are those that were prepared, as far as they are watched."""
        return self.weight_watch is None or self.weight_watch.holds()

    def takes_weights(self, original: Callable[[], torch.nn.Module]) -> bool:
        if self.has_its_weights():
            return True
        try:
            refreshed(self, original())
        except Error:
            return False
        return True

    def tensors(self, args: tuple, kwargs: dict) -> list[torch.Tensor]:
        """The flat tensors of a call; raises Refused if they are of another form."""
        try:
            return self.call.tensors(args, kwargs)
        except Error as error:
            raise Refused(error) from None
        except RecursionError:
            raise Refused(Error("an argument holds itself", code="E0601")) from None

    def explain(self, tensors: list[torch.Tensor]) -> None:
        """Raises Refused if tensors are not those that the graph serves."""
        try:
            self.call.explain(tensors)
        except Error as error:
            raise Refused(error) from None

    def handed_back(self, result, args: tuple, kwargs: dict):
        """The result with the caches that the call passed, which the module returns."""
        arguments = self.call.in_order(args, kwargs)
        return given_caches.hand_back(result, arguments, self.returned_caches)

    def reads(self, address: int) -> bool:
        return address in self._addresses

    def _note_addresses(self) -> None:
        self._addresses = frozenset(t.untyped_storage().data_ptr() for _, t in self.weights())


class CompiledEntry(GraphEntry):
    """A module compiled whole."""

    def __init__(
        self, request, call: Call, captured: CapturedProgram, executable, report: dict, artifact=None
    ):
        super().__init__(call, captured, report)
        self.executable = executable
        #: It came with the module that this one is a copy of.
        self.is_carried = False
        #: The form for copies, once there was one.
        self.carried: CarriedProgram | None = None
        self._options = request.options
        self._original = request.original
        #: The program, for ``disc.save``, and its code, for copies of the module.
        self.captured = None if request.options.release_weights else captured
        self.artifact = None if request.options.release_weights else artifact
        #: None for a module whose calls change nothing.
        self.state = State.of(request.original, captured.program, captured.arguments.tensor_names)
        self._weights = as_read(captured.program.weights)
        self.result = Result(captured.program.outputs, captured.out_spec)
        self._operations = captured.program.operations
        self._bytes = bytes_of(self._weights)
        #: A call that fails on a size may run once more.
        self._changes_nothing = not captured.program.written and not captured.program.assigned
        self._note_addresses()
        if request.options.release_weights:
            self._weights = []
        self.warm = WarmCalls(self)

    def run(self, args: tuple, kwargs: dict):
        tensors = self.tensors(args, kwargs)
        held = self._held(tensors) if self.state is not None else None
        given = tensors if held is None else held.given
        run = self.executable.run if not capturing.active else self._recorded_run
        try:
            outputs = run(given)
        except Exception as error:
            # The native check is quick; the Python one says it in torch's words. It raises unless
            # the inputs are right.
            self.explain(tensors)
            if isinstance(error, DimError) and self.call.arguments.numbers and self._changes_nothing:
                raise Refused(error) from None
            if self.captured is not None and not is_callers(error):
                self._writer().write_failed(given, self._weights, error)
            failed = (self.state and self.state.difference()) or _failed(error)
            # Shapes and overlaps are found before the first store, and a program without state
            # stores nothing outside of its results.
            if self._changes_nothing or failed.code == "E0601":
                raise Refused(failed, self) from error
            if isinstance(error, Error):
                raise
            raise failed from error
        if held is not None:
            self.state.store(held, outputs)
            tensors = held.tensors
        result = self.result.build(outputs, tensors)
        return self.handed_back(result, args, kwargs) if self.returned_caches else result

    def _recorded_run(self, given: list[torch.Tensor]) -> list:
        if self.captured is None:
            raise Error("a module that released its weights is not captured", code="E0700")
        return self._writer().run(self.executable.run, given, self._weights)

    def _writer(self) -> CallWriter:
        return CallWriter(self.captured.source, self._options)

    def _held(self, tensors: list):
        try:
            return self.state.take(tensors)
        except Error as error:
            raise Refused(error) from None

    def executables(self) -> list[Any]:
        return [self.executable]

    def weights(self) -> list[tuple[str, torch.Tensor]]:
        return self._weights

    def changed(self) -> list[str]:
        return self.state.changed if self.state is not None else []

    def use(self, weights: list[tuple[str, torch.Tensor]]) -> None:
        self.executable.set_weights(weights)
        self._weights = weights
        self._note_addresses()

    def report_values(self) -> dict[str, Any]:
        return collect(
            self.executable,
            self.call.signature,
            stages=self._stages,
            capture_cache=self._cache,
            operations=self._operations,
            weight_bytes=self._bytes,
            is_carried=self.is_carried,
        )


class PartitionedEntry(GraphEntry):
    """A module of which torch runs some ops, between clusters that disc compiled."""

    def __init__(
        self,
        original: Callable[[], torch.nn.Module],
        call: Call,
        captured: CapturedProgram,
        parts: PartitionedProgram,
        report: dict,
    ):
        super().__init__(call, captured, report)
        self.parts = parts
        self._make = Result([], captured.out_spec).make
        self.calls = 0
        self._original = original
        self._shapes = Shapes(original(), parts.changed)
        self._note_addresses()

    def run(self, args: tuple, kwargs: dict):
        tensors = self.tensors(args, kwargs)
        if not self.call.fits(tensors):
            self.explain(tensors)
        if self.parts.changed and (error := self._shapes.difference(self._original())) is not None:
            raise Refused(error)
        try:
            outputs = self.parts.call(tensors)
        except Exception as error:
            # An op that torch runs may refuse what compiled code gave it.
            if self.parts.changed or self.parts.program.written:
                raise
            raise Refused(_failed(error), self) from error
        self.calls += 1
        result = self._make(outputs)
        return self.handed_back(result, args, kwargs) if self.returned_caches else result

    def executables(self) -> list[Any]:
        return self.parts.executables()

    def weights(self) -> list[tuple[str, torch.Tensor]]:
        return self.parts.held_weights()

    def use(self, weights: list[tuple[str, torch.Tensor]]) -> None:
        self.parts.use(dict(weights))
        self._note_addresses()

    def changed(self) -> list[str]:
        return self.parts.changed

    def report_values(self) -> dict[str, Any]:
        return self.parts.report_values(self.call.signature, self._stages, self._cache, self.calls)

    def fallbacks(self) -> list[dict[str, Any]]:
        return self.parts.fallbacks(self.calls)


class EagerEntry(Entry):
    """A module that torch runs."""

    def __init__(self, original: Callable[[], torch.nn.Module], error: Error):
        self._original = original
        self.error = self.cause = error
        self.calls = 0

    def run(self, args: tuple, kwargs: dict):
        self.calls += 1
        return self._original()(*args, **kwargs)

    def fallbacks(self) -> list[dict[str, Any]]:
        error = self.error
        reason = error.message.strip() or error.code
        return [{"op": error.op or "module", "reason": reason, "source": None, "calls": self.calls}]


class SettlingEntry(EagerEntry):
    """A module whose attributes a call settles: torch runs that call, and the next one is compiled,
    for the module as it is then.
    """

    def takes_weights(self, original) -> bool:
        return not self.calls


def _failed(error: Exception) -> Error:
    """The error of a call whose inputs have the form that was compiled."""
    if not isinstance(error, Error):
        return CompileError(f"the compiled module failed: {error}")
    # A size that comes from data is none that a variant could be compiled for.
    return Error(error.message, code=error.code) if isinstance(error, DimError) else error


def refreshed(entry: Entry, module: torch.nn.Module) -> list[tuple[str, torch.Tensor]]:
    """The weights of ``module`` that an entry reads, as they are now."""
    fresh = []
    for name, old in entry.weights():
        now = find_weight(module, name).detach()
        if now.shape != old.shape or now.dtype != old.dtype:
            raise Error(
                f"weight {name} changed from {list(old.shape)} {old.dtype} to {list(now.shape)} {now.dtype}",
                help="optimize the changed module",
            )
        if now.device != old.device:
            raise Error(
                f"weight {name} moved from {old.device} to {now.device}",
                help="move the compiled module, as fast.to(device): it moves the original",
            )
        # Freed memory (``storage.resize_(0)``) has no values: those from before stay.
        is_freed = now.numel() > 0 and not now.untyped_storage().size()
        fresh.append((name, old if is_freed else now))
    return fresh
