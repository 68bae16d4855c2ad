"""Gives second derivatives of a compiled graph, which AOTAutograd refuses: they are asked for
rarely, and torch computes them from the graph that dynamo made.

Invariants: a training step without ``create_graph=True`` keeps no memory for them, and a value that
has changed since the call is never read.
"""

from __future__ import annotations

import contextlib
import weakref
from collections.abc import Callable, Sequence
from typing import Any

import torch
from torch._functorch._aot_autograd.schemas import OutputType
from torch.nn.attention import SDPBackend, sdpa_kernel
from torch.utils._python_dispatch import is_traceable_wrapper_subclass

from ..graph.randomness import draws
from ..partition.effects import family_of

_DIFFERENTIATED = (OutputType.non_alias, OutputType.unsafe_view_alias, OutputType.custom_function_view)
#: Views of an intermediate tensor, which is the one that has a gradient.
_VIEWS = (OutputType.alias_of_intermediate, OutputType.alias_of_intermediate_save_as_output)


class SecondDerivatives:
    """Computes the gradients of a graph again in torch, so that they can be differentiated."""

    def __init__(self, gm: torch.fx.GraphModule):
        self._gm = gm
        self._autocast = [_autocast_of(device) for device in ("cpu", "cuda")]
        #: Why there are none.
        self._refusal: str | None = "no part of it was differentiated"
        #: The positions of outputs that have gradients, and whether the tensor that an output is a
        #: view of has it instead.
        self._outputs: list[tuple[int, bool]] = []
        #: The positions of arguments that are written, and whose values nothing else reads.
        self._written: set[int] = set()
        #: Arguments that nothing else keeps alive until the backward part runs.
        self._others: list[int] = []
        #: The rest of those that must not change.
        self._checked: list[int] = []
        self._asked = False

    def read(self, inner: torch.fx.GraphModule, metadata) -> None:
        """Notes what AOTAutograd made of the graph's forward part."""
        holders = [node for node in inner.graph.nodes if node.op == "placeholder"]
        (output,) = (node for node in inner.graph.nodes if node.op == "output")
        results = list(output.args[0])
        infos = metadata.input_info
        self._written = {i for i, info in enumerate(infos) if info.mutates_data or info.mutates_metadata}
        self._outputs = [
            (i, False)
            for i, info in enumerate(metadata.output_info)
            if info.output_type in _DIFFERENTIATED
            and issubclass(info.raw_type, torch.Tensor)
            and getattr(info, "requires_grad_for_backward", info.requires_grad)
        ]
        bases = {
            info.base_idx: i for i, info in enumerate(metadata.output_info) if info.output_type in _VIEWS
        }
        self._outputs += [(bases[i], True) for i in range(metadata.num_intermediate_bases)]
        own = results[metadata.num_mutated_inp_runtime_indices :]
        needed = _ancestors(own)
        self._refusal = self._reason(inner, metadata, [holders[i] for i in self._written], needed)
        if self._refusal is not None:
            return
        saved = {family_of(node) for node in results[metadata.num_forward :] if _is_tensor(node)}
        static = set(metadata.static_input_indices)
        tensors = [i for i, node in enumerate(holders) if _is_tensor(node)]
        self._others = [i for i in tensors if i not in static and family_of(holders[i]) not in saved]
        self._checked = [i for i in tensors if i not in self._written and i not in self._others]

    def _reason(self, inner: torch.fx.GraphModule, metadata, written: list, needed: set) -> str | None:
        arguments = [node for node in self._gm.graph.nodes if node.op == "placeholder"]
        infos = [metadata.input_info[i] for i in self._written]
        if any(map(draws, _nodes(inner))) or any(map(draws, _nodes(self._gm))):
            return "it draws random numbers"
        if any(info.requires_grad for info in infos) or needed & set(written):
            return "it writes to a tensor that it also reads"
        values = [node.meta.get("example_value") for node in arguments]
        own = sum(node.op == "placeholder" for node in inner.graph.nodes) == len(arguments)
        if metadata.tokens or not own or any(map(is_traceable_wrapper_subclass, values)):
            return "its arguments are no plain tensors"
        return None

    def attach(self, function: type | None) -> None:
        """Puts the second derivatives into the autograd function that AOTAutograd made."""
        if function is None:
            return
        function._double_backward = staticmethod(self._first_derivatives)
        if self._refusal is None:
            function.forward = staticmethod(self._noting(function.forward))
            function._backward_impl = staticmethod(self._forgetting(function._backward_impl))

    def _noting(self, forward: Callable) -> Callable:
        """A ``forward`` that notes its arguments, without keeping one alive that would not be."""

        def call(ctx, *args):
            held = list(args)
            for i in self._others:
                held[i] = _Other(args[i], self._asked)
            ctx.disc_arguments = held, [_version(args[i]) for i in self._checked]
            return forward(ctx, *args)

        return call

    @staticmethod
    def _forgetting(backward: Callable) -> Callable:
        """A ``_backward_impl`` that frees the arguments with the saved tensors."""

        def call(ctx, all_args):
            if not torch._C._autograd._get_current_graph_task_keep_graph():
                ctx.disc_arguments = None
            return backward(ctx, all_args)

        return call

    def _first_derivatives(self, ctx, impl: Callable, all_args: list):
        """Runs the backward part, and connects its results to the graph's arguments."""
        if self._refusal is not None:
            args, tangents, refusal = [torch.empty(0, requires_grad=True)], [], self._refusal
        else:
            args, refusal = self._arguments(ctx)
            tangents = all_args[-len(self._outputs) :]
        count, needs = len(args), ctx.needs_input_grad

        class FirstDerivatives(torch.autograd.Function):
            @staticmethod
            def forward(double, *given):
                double.set_materialize_grads(False)
                double.others = [None if isinstance(x, torch.Tensor) else x for x in given]
                double.save_for_backward(*(x for x in given if isinstance(x, torch.Tensor)))
                return impl(double)

            @staticmethod
            def backward(double, *directions):
                if refusal is not None:
                    raise RuntimeError(
                        'torch.compile(backend="disc") has no double backward of this graph: '
                        f"{refusal} (disable compilation around it, or use torch.func.grad within it)"
                    )
                saved = iter(double.saved_tensors)
                given = [next(saved) if x is None else x for x in double.others]
                return self._second(given[:count], given[count:], needs, directions)

        return FirstDerivatives.apply(*args, *tangents)

    def _arguments(self, ctx) -> tuple[list, str | None]:
        """The arguments of a call, and why they are not what they were, if so."""
        self._asked = True
        held, versions = ctx.disc_arguments
        changed = [_version(held[i]) for i in self._checked] != versions
        args = list(held)
        for i in self._others:
            args[i] = held[i].tensor()
            if args[i] is not None and i not in self._written:
                changed |= _version(args[i]) != held[i].version
        if any(args[i] is None for i in self._others):
            missing = "an argument of its first call is freed: keep it, or call once more"
            return [torch.empty(0, requires_grad=True)], missing
        return args, "an argument was changed in place after the call" if changed else None

    def _second(self, args: list, tangents: list, needs: Sequence[bool], directions: tuple) -> tuple:
        further = torch.is_grad_enabled()
        with torch.enable_grad():
            inputs = [self._own(i, x, needs[i], further) for i, x in enumerate(args)]
            weights = [_own(t, t.requires_grad or not further, further) for t in tangents]
            outputs = self._computed(inputs)
            results = [outputs[i]._base if is_view else outputs[i] for i, is_view in self._outputs]
            pairs = [(x, weight) for x, weight in zip(results, weights, strict=True) if _has_graph(x)]
            wanted = [i for i, x in enumerate(inputs) if needs[i] and directions[i] is not None]
            first = torch.autograd.grad(
                [result for result, _ in pairs],
                [inputs[i] for i in wanted],
                [weight for _, weight in pairs],
                create_graph=True,
                allow_unused=True,
            )
            found = [(g, directions[i]) for g, i in zip(first, wanted, strict=True) if _has_graph(g)]
            sources = [*inputs, *weights]
            asked = [i for i, x in enumerate(sources) if isinstance(x, torch.Tensor) and x.requires_grad]
            if not found:
                return (None,) * len(sources)
            second = torch.autograd.grad(
                [g for g, _ in found],
                [sources[i] for i in asked],
                [direction for _, direction in found],
                create_graph=further,
                allow_unused=True,
            )
        by_position = dict(zip(asked, second, strict=True))
        return tuple(by_position.get(i) for i in range(len(sources)))

    def _own(self, position: int, value, needed: bool, further: bool):
        if not isinstance(value, torch.Tensor):
            return value
        if position in self._written:
            return value.detach().clone()
        return _own(value, needed, further)

    def _computed(self, inputs: list) -> Sequence:
        """The results of dynamo's graph, in the modes of its compilation."""
        with contextlib.ExitStack() as stack:
            for device, dtype, enabled in self._autocast:
                stack.enter_context(torch.autocast(device, dtype, enabled))
            # The other kernels of attention have no second derivatives.
            stack.enter_context(sdpa_kernel(SDPBackend.MATH))
            return self._gm(*inputs)


class _Other:
    """An argument that the backward part does not need, as it was in the call."""

    def __init__(self, value: torch.Tensor, keep: bool):
        self.version = _version(value)
        self.tensor: Callable[[], Any] = (lambda: value) if keep else weakref.ref(value)


def newest_function() -> type | None:
    """The autograd function that AOTAutograd made last."""
    made = torch.autograd.Function.__subclasses__()
    return next((f for f in reversed(made) if f.__name__ == "CompiledFunction"), None)


def _own(value: torch.Tensor, needed: bool, further: bool) -> torch.Tensor:
    """Separates an argument from the others: one may have been computed from another."""
    if further and value.requires_grad:
        return value.view_as(value)
    return value.detach().requires_grad_(needed)


def _has_graph(gradient: torch.Tensor | None) -> bool:
    return gradient is not None and gradient.requires_grad


def _version(value: torch.Tensor) -> int:
    return 0 if value.is_inference() else value._version


def _autocast_of(device: str) -> tuple[str, torch.dtype, bool]:
    return device, torch.get_autocast_dtype(device), torch.is_autocast_enabled(device)


def _is_tensor(node) -> bool:
    return isinstance(node, torch.fx.Node) and isinstance(node.meta.get("val"), torch.Tensor)


def _nodes(gm: torch.fx.GraphModule):
    """The nodes of a graph, and of those within it."""
    graphs = (module.graph for module in gm.modules() if isinstance(module, torch.fx.GraphModule))
    return (node for graph in graphs for node in graph.nodes if node.op == "call_function")


def _ancestors(nodes: list) -> set[torch.fx.Node]:
    found: set[torch.fx.Node] = set()
    waiting = [node for node in nodes if isinstance(node, torch.fx.Node)]
    while waiting:
        if (node := waiting.pop()) not in found:
            found.add(node)
            waiting.extend(node.all_input_nodes)
    return found
