"""Compiles a torch module into a torch module: ``disc.optimize``."""

from __future__ import annotations

import contextlib
import os
import time
import weakref
from collections import OrderedDict
from collections.abc import Mapping
from typing import Any

import torch
from torch.nn.modules import module as _modules

from ..core import environment, extension
from ..core.errors import CompileError, Error
from ..core.options import Options, effective, refuse_plug_in
from ..core.progress import Progress
from ..core.report import Compiled, collect
from .cache import capture_cache
from .call import Call
from .capture.captured_program import CapturedProgram
from .result import Result
from .state import State
from .weights import find_weight, prepared_bytes, watch


def optimize(
    module: torch.nn.Module,
    inputs,
    *,
    kwargs: dict[str, Any] | None = None,
    dims=None,
    options: Options | None = None,
) -> torch.nn.Module:
    """Compiles ``module`` once, for inputs of any size.

    ``inputs`` is an example: a tensor or a tuple of positional arguments; ``kwargs`` are keyword
    arguments. Every dimension is dynamic unless ``dims`` says otherwise: a mapping from parameter
    name or position to ``{axis: name, disc.Dim or int}``, where one name in two places is an
    equality; ``"static"`` fixes all sizes to the example's. An example size of 0 or 1 fixes
    nothing, unless it is broadcast against another size, or the model branches on it (``if
    x.shape[0] == 1``): it stays what it is then, and ``disc.report`` says so, with the line of the
    model.

    The result computes what ``module`` computes in its present mode (``eval()`` for inference). It
    reads the weights once: ``load_state_dict`` on the result, or ``refresh()``, prepares them
    again; changes of the original in place before that may be seen in part. Outputs carry no
    gradient: a call in grad mode with an input that requires one is an error.
    """
    if not isinstance(module, torch.nn.Module):
        raise Error(
            f"optimize: expected a torch.nn.Module, got {type(module).__name__}",
            help="wrap a function in a module",
        )
    if isinstance(module, (OptimizedModule, torch.jit.ScriptModule)):
        kind = "compiled already" if isinstance(module, OptimizedModule) else "a module of TorchScript"
        raise Error(f"optimize: the module is {kind}", help="pass the module of Python that it was made from")
    chosen = effective(options)
    refuse_plug_in(chosen)
    environment.check()
    args = tuple(inputs) if isinstance(inputs, tuple) else (inputs,)
    return OptimizedModule(module, args, keyword_arguments(kwargs), dims, chosen)


def keyword_arguments(kwargs) -> dict[str, Any]:
    """``kwargs`` as a user gave them: None, or a mapping from names."""
    if kwargs is None:
        return {}
    if not isinstance(kwargs, Mapping) or not all(isinstance(name, str) for name in kwargs):
        raise Error(f"kwargs: expected a mapping from names to arguments, got {_kind_of(kwargs)}")
    return dict(kwargs)


def _kind_of(kwargs) -> str:
    if not isinstance(kwargs, Mapping):
        return type(kwargs).__name__
    return f"the name {next(name for name in kwargs if not isinstance(name, str))!r}"


class OptimizedModule(torch.nn.Module, Compiled):
    """A compiled module.

    It shares the weights of the module that it was made from and shows them under the same names.
    """

    def __init__(self, module: torch.nn.Module, args: tuple, kwargs: dict, dims, options: Options):
        super().__init__()
        # Not a submodule: names of parameters and of the state dict stay those of the original.
        object.__setattr__(
            self, "_original", weakref.ref(module) if options.release_weights else lambda: module
        )
        object.__setattr__(self, "_kind", type(module).__name__)
        self.training = module.training
        self.options = options
        directory = extension.cache_directory() if options.cache else None
        needed = prepared_bytes(module, options)
        # Mapped weights need no memory.
        is_likely_there = (
            directory is not None
            and extension.keeps_weights(options)
            and extension.may_be_mapped(directory, needed)
        )
        with Progress(options, type(module).__name__) as stage, contextlib.ExitStack() as ahead:
            stage("capture")
            if not is_likely_there:
                ahead.enter_context(extension.memory_ahead(needed))
            asked = capture_cache.look_up(module, args, kwargs, dims, directory)
            if is_likely_there and asked.found is None:
                # Another program's, most likely.
                ahead.enter_context(extension.memory_ahead(needed))
            captured = _captured(asked, module, args, kwargs, dims)
            program = captured.program
            self._weights = [(name, tensor.detach()) for name, tensor in program.weights]
            stage("compile")
            artifact = extension.compile_function(
                captured.source, options, _threads(options), asked.directory
            )
            compiled = time.perf_counter()
            stage("prepare weights")
            self._executable = extension.load(artifact, self._weights, outputs="torch")
            loaded = time.perf_counter()
        self._call = Call(module, captured)
        #: Types and ranks of the weights, which ``.to(...)`` would convert.
        self._weight_kinds = {(tensor.dtype, tensor.dim()) for _, tensor in self._weights}
        self._weight_bytes = sum(t.numel() * t.element_size() for _, t in self._weights)
        #: The addresses of storages that compiled code may read.
        self._read_at = {t.untyped_storage().data_ptr() for _, t in self._weights}
        if options.release_weights:
            self._weights = []
        self._result = Result(program.outputs, captured.out_spec)
        #: None for a module whose calls change nothing.
        self.state = State.of(self._original, program, captured.arguments.tensor_names)
        self._operations = program.operations
        self._capture_cache = asked.state
        milliseconds = captured.stages["capture"] + asked.milliseconds
        self._stages = {**captured.stages, "capture": milliseconds, "pack": (loaded - compiled) * 1e3}
        watch(self)

    def __call__(self, *args, **kwargs):
        """``forward``, by the way of ``torch.nn.Module`` only where there are hooks:
        that costs a quarter of a small call.
        """
        if (
            self._forward_hooks
            or self._forward_pre_hooks
            or self._backward_hooks
            or self._backward_pre_hooks
            or _modules._global_forward_hooks
            or _modules._global_forward_pre_hooks
            or _modules._global_backward_hooks
            or _modules._global_backward_pre_hooks
            or self._compiled_call_impl is not None
        ):
            return super().__call__(*args, **kwargs)
        return self.forward(*args, **kwargs)

    def forward(self, *args, **kwargs):
        if self.training is not self._call.training:
            mode = "training" if self._call.training else "evaluation"
            raise Error(
                f"the module was compiled in {mode} mode",
                code="E0601",
                help="optimize once more in the other mode",
            )
        tensors = self._call.tensors(args, kwargs)
        held = self.state.take(tensors) if self.state is not None else None
        try:
            outputs = self._executable.run(tensors if held is None else held.given)
        except Error:
            # The native check is quick; the Python one says it in torch's words. It raises unless
            # the inputs are right.
            self._call.explain(tensors)
            raise
        except Exception as error:
            self._call.explain(tensors)
            raise CompileError(f"the compiled module failed: {error}") from error
        if held is not None:
            self.state.store(held, outputs)
            tensors = held.tensors
        return self._result.build(outputs, tensors)

    @property
    def original(self) -> torch.nn.Module:
        """The module that this one was made from.

        With ``release_weights`` it lives only as long as somebody else holds it.
        """
        module = self._original()
        if module is None:
            raise Error(
                "the original module is gone: with release_weights nothing here holds it",
                help="keep it, or compile without release_weights",
            )
        return module

    def refresh(self) -> None:
        """Reads the weights of the original again and prepares them for the compiled code."""
        self._refuse_released()
        fresh = []
        for name, old in self._weights:
            now = find_weight(self.original, name).detach()
            if now.shape != old.shape or now.dtype != old.dtype:
                raise Error(
                    f"weight {name} changed from {list(old.shape)} {old.dtype} to {list(now.shape)} {now.dtype}",
                    help="optimize the changed module",
                )
            fresh.append((name, now))
        self._use(fresh)

    def _use(self, weights: list[tuple[str, torch.Tensor]]) -> None:
        self._executable.set_weights(weights)
        self._weights = weights
        self._read_at = {t.untyped_storage().data_ptr() for _, t in weights}

    def before_move(self, storage: torch.UntypedStorage) -> None:
        """The memory of a storage is about to be freed: if it is that of a weight,
        copies of the weights take their place.
        """
        if storage.data_ptr() not in self._read_at or self._original() is None:
            return
        if self.options.release_weights:
            raise Error(
                "a compiled module reads this memory, and its weights were released",
                help="call share_memory() before disc.optimize, or compile without release_weights",
            )
        self._use([(name, tensor.clone()) for name, tensor in self._weights])

    def _refuse_released(self) -> None:
        if self.options.release_weights:
            raise Error(
                "the weights were released and cannot be refreshed",
                help="compile without release_weights",
            )

    def load_state_dict(self, state_dict, strict: bool = True, assign: bool = False):
        self._refuse_released()
        result = self.original.load_state_dict(state_dict, strict=strict, assign=assign)
        self.refresh()
        return result

    def _load_from_state_dict(
        self, state_dict, prefix, local_metadata, strict, missing_keys, unexpected_keys, error_msgs
    ):
        """Loads the entries below ``prefix`` for the ``load_state_dict`` of a module
        that holds this one.
        """
        self._refuse_released()
        own = OrderedDict((k.removeprefix(prefix), v) for k, v in state_dict.items() if k.startswith(prefix))
        # Versions of entries are known to the whole dict alone: these are taken for today's.
        own._metadata = {name: {"version": m._version} for name, m in self.original.named_modules()}
        assign = local_metadata.get("assign_to_params_buffers", False)
        try:
            missing, unexpected = self.original.load_state_dict(own, strict=False, assign=assign)
        except RuntimeError as error:
            error_msgs.append(str(error))
            return
        missing_keys += [prefix + name for name in missing]
        if strict:
            unexpected_keys += [prefix + name for name in unexpected]
        self.refresh()

    def state_dict(self, *args, **kwargs):
        return self.original.state_dict(*args, **kwargs)

    def named_parameters(self, *args, **kwargs):
        return self.original.named_parameters(*args, **kwargs)

    def named_buffers(self, *args, **kwargs):
        return self.original.named_buffers(*args, **kwargs)

    def _apply(self, fn, recurse=True):
        """``to``, ``float`` and the like, also of a module that holds this one:
        right where they change nothing.
        """
        try:
            changes = any(_changes(fn, dtype, rank) for dtype, rank in self._weight_kinds)
        except Exception:
            changes = True
        if changes:
            raise Error(
                "a compiled module cannot be moved or converted",
                help="move the original and optimize it again",
            )
        return self

    def __copy__(self):
        return self.__deepcopy__({})

    def __deepcopy__(self, memo):
        raise Error(
            "a compiled module cannot be copied", code="E0801", help="it may be shared by threads as it is"
        )

    def __reduce__(self):
        raise Error("a compiled module cannot be pickled", code="E0801", help="pickle the original")

    def report_values(self) -> dict[str, Any]:
        return collect(
            self._executable,
            self._call.signature,
            stages=self._stages,
            capture_cache=self._capture_cache,
            operations=self._operations,
            weight_bytes=self._weight_bytes,
        )

    def extra_repr(self) -> str:
        inputs = ", ".join(
            f"{name}: [{', '.join(row)}]"
            for name, row in zip(self._call.signature.names, self._call.signature.dims, strict=True)
        )
        return f"{self._kind}({inputs})"


def _captured(
    asked: capture_cache.Lookup, module: torch.nn.Module, args: tuple, kwargs: dict, dims
) -> CapturedProgram:
    """The program of a module: from the cache, or by tracing."""
    stored = asked.found
    if stored is not None and not environment.verifies_cache():
        return stored
    if stored is not None:
        asked.found, asked.state = None, "miss"
    # A program from disk needs neither.
    from .capture.capture import capture
    from .lowering.graph import convert
    from .lowering.table import serves

    with capture_cache.watching(asked):
        graph = capture(module, args, kwargs, dims, serves)
    captured = convert(graph, extension.builder())
    if asked.state == "miss":
        capture_cache.keep(asked, module, graph, captured)
    if stored is not None:
        asked.state = capture_cache.verify(asked, stored, module, captured)
    return captured


def _threads(options: Options) -> int | None:
    """The most threads of a call: the option, else DISC_NUM_THREADS (None: the runtime reads it),
    else what torch uses now.
    """
    if options.threads or os.environ.get("DISC_NUM_THREADS"):
        return options.threads
    return torch.get_num_threads()


def _changes(fn, dtype: torch.dtype, rank: int) -> bool:
    """Returns true if ``fn`` would give a weight another type, device or kind of memory."""
    weight = torch.empty([1] * rank, dtype=dtype)
    return fn(weight) is not weight or weight.is_shared()
