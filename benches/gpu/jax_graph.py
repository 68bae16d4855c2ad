"""Runs a graph of torch.export in JAX, whose jit compiles it once for each size.

The graph is exported once with dynamic sizes; its ops become calls of jax.numpy (``jax_ops.py``)
while jit traces it with the sizes of a call. Weights are arguments, as in programs of JAX, and
share memory with those of torch.
"""

from __future__ import annotations

import operator

import jax
import jax.numpy as jnp
import torch
from peers import Skipped, dynamic, typical

from . import jax_ops
from .contestants import Built, Setting

#: Precision of products by the type of elements; of half types there is one.
PRECISIONS = {"f32": "highest", "tf32": "tensorfloat32"}
#: Functions of Python that work on sizes.
_OF_SIZES = {
    operator.add, operator.sub, operator.mul, operator.floordiv, operator.mod, operator.truediv, operator.neg,
    operator.getitem, operator.eq, operator.ne, operator.lt, operator.le, operator.gt, operator.ge,
    torch.sym_float, torch.sym_int, torch.sym_max, torch.sym_min, torch.sym_not,
}  # fmt: skip


def built(module, examples, setting: Setting) -> Built:
    """The module as a function of JAX; attention is cuDNN's where that takes it."""
    if setting.device.type == "cuda" and jax.default_backend() != "gpu":
        raise Skipped(f"jax has no GPU, its backend is {jax.default_backend()}")
    jax.clear_caches()
    jax.config.update("jax_default_matmul_precision", PRECISIONS.get(setting.dtype))
    program = exported(module, examples)
    weights = [array(t) for t in constants(program)]
    if setting.device.type == "cuda" and setting.dtype in ("f16", "bf16"):
        try:
            found = _built(program, weights, "cudnn")
            for inputs in examples:
                found.run(found.convert(inputs))
                found.wait()
            return found
        except Exception:
            # cuDNN refuses sizes and masks that XLA computes by itself.
            pass
    return _built(program, weights, None)


def _built(program, weights: list, attention: str | None) -> Built:
    call = jax.jit(function(program, jax_ops.table(attention)))
    last: list = [None]

    def run(inputs):
        last[0] = call(weights, *inputs)
        return last[0]

    return Built(
        run,
        convert=lambda inputs: [array(t) for t in inputs],
        results=lambda found: [tensor(a) for a in found],
        wait=lambda: jax.block_until_ready(last[0]),
        by_events=False,
        about=f"attention by {attention or 'XLA'}",
    )


def exported(module, examples):
    """The graph of core ops, but for attention, which stays one op."""
    program = torch.export.export(module, typical(examples), dynamic_shapes=dynamic(module, examples))
    table = torch.export.default_decompositions()
    for op in [op for op in table if "scaled_dot_product_attention" in str(op)]:
        table.pop(op)
    program = program.run_decompositions(table)
    targets = {n.target for n in program.graph.nodes if n.op == "call_function"}
    known = jax_ops.table(None)
    if gone := sorted(str(t) for t in targets - _OF_SIZES if jax_ops.name_of(t) not in known):
        raise Skipped(f"ops without a translation to JAX: {', '.join(gone)}")
    return program


def constants(program) -> list[torch.Tensor]:
    """The weights, buffers and constants of a graph, in the order of its inputs."""
    signature = program.graph_signature
    names = {
        **signature.inputs_to_parameters,
        **signature.inputs_to_buffers,
        **signature.inputs_to_lifted_tensor_constants,
    }
    held = {**program.constants, **program.state_dict}
    return [held[names[n.name]] for n in _placeholders(program) if n.name in names]


def _placeholders(program) -> list:
    return [n for n in program.graph.nodes if n.op == "placeholder"]


def function(program, table: dict):
    """The graph as a function of weights and inputs."""
    signature = program.graph_signature
    inputs = set(signature.user_inputs)
    outputs = signature.user_outputs

    def run(weights, *arguments):
        given, held = iter(arguments), iter(weights)
        values: dict[str, object] = {}
        for node in program.graph.nodes:
            if node.op == "placeholder":
                values[node.name] = next(given) if node.name in inputs else next(held)
            elif node.op == "call_function":
                values[node.name] = _apply(node, table, values)
        return [values[name] for name in outputs if name in values]

    return run


def _apply(node, table: dict, values: dict[str, object]):
    def resolved(argument):
        return torch.fx.node.map_arg(argument, lambda n: values[n.name])

    arguments, named = resolved(node.args), dict(resolved(node.kwargs))
    if node.target in _OF_SIZES:
        return node.target(*arguments, **named)
    found = table[jax_ops.name_of(node.target)](*arguments, **named)
    # Torch's rules decide the type: JAX counts a tensor without dims as one with dims.
    return _typed(found, node.meta.get("val"))


def _typed(found, meta):
    if isinstance(found, (tuple, list)):
        return [_typed(one, m) for one, m in zip(found, meta, strict=False)]
    if isinstance(meta, torch.Tensor) and hasattr(found, "astype"):
        return found.astype(jax_ops.dtype(meta.dtype))
    return found


def array(t: torch.Tensor):
    """A tensor as an array; JAX has no integers and floats of 64 bits unless it is told to."""
    t = t.detach()
    narrow = {torch.int64: torch.int32, torch.float64: torch.float32, torch.bool: torch.uint8}.get(t.dtype)
    found = jnp.from_dlpack((t.to(narrow) if narrow else t).contiguous())
    return found.astype(jnp.bool_) if t.dtype == torch.bool else found


def tensor(a) -> torch.Tensor:
    a = jax.block_until_ready(a)
    if a.dtype == jnp.bool_:
        return torch.from_dlpack(a.astype(jnp.uint8)).bool()
    return torch.from_dlpack(a)
