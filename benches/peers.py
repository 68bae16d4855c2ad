"""The compilers and runtimes that are compared: each makes a callable out of a case, or is skipped
with the reason.

A callable takes the tensors of one size and returns a list of results. Conversions between torch
and NumPy share memory.
"""

from __future__ import annotations

import contextlib
import importlib.util
import inspect
import io
import logging
import tempfile
import warnings
from collections.abc import Callable
from pathlib import Path

import narrow
import qdq
import torch
from torch.utils import _pytree as pytree

Call = Callable[[tuple[torch.Tensor, ...]], list]

#: True if disc is told nothing about sizes; else it is told which of them differ, and which are
#: equal.
ALL_DIMS = False
#: The form in which disc stores matrices of weights; the others keep the model's.
WEIGHTS = "exact"
#: The type that all compute in: that of the module, or `int8`, which each has a way of its own to.
DTYPE = "f32"
#: Modules in f32 by the id of the module of a half type that was made of them.
WIDE: dict[int, torch.nn.Module] = {}


class Skipped(Exception):
    """The peer cannot run the case; the text says why."""


def typical(examples):
    """An example without sizes of 0 and 1, where there is one: torch.export fixes these."""
    return next((e for e in examples if all(size > 1 for t in e for size in t.shape)), examples[-1])


def eager(module, examples, threads: int) -> Call:
    return lambda inputs: pytree.tree_leaves(module(*inputs))


def named(examples) -> dict[int, dict[int, str | int]]:
    """The sizes that differ between examples as dims, equal ones by one name; the others are fixed,
    as for other peers.
    """
    names: dict[tuple[int, ...], str] = {}
    dims: dict[int, dict[int, str | int]] = {}
    for position, tensor in enumerate(examples[0]):
        for axis in range(tensor.dim()):
            sizes = tuple(example[position].shape[axis] for example in examples)
            name = sizes[0] if len(set(sizes)) == 1 else names.setdefault(sizes, f"D{len(names)}")
            dims.setdefault(position, {})[axis] = name
    return dims


def disc(module, examples, threads: int) -> Call:
    import disc

    if hasattr(module, "compiled"):
        return backend(module, examples, threads)
    activations = "int8" if DTYPE == "int8" else "exact"
    options = disc.Options(threads=threads, cache=False, weights=WEIGHTS, activations=activations)
    dims = None if ALL_DIMS else named(examples)
    fast = disc.optimize(module, typical(examples), dims=dims, options=options)
    return lambda inputs: pytree.tree_leaves(fast(*inputs))


def single(module, examples, threads: int) -> Call:
    """disc on the module in f32, beside one of a half type."""
    import disc

    wide = [narrow.widened(x) for x in examples]
    options = disc.Options(threads=threads, cache=False)
    fast = disc.optimize(WIDE.get(id(module), module), typical(wide), dims=named(wide), options=options)
    return narrow.with_wide_inputs(lambda inputs: pytree.tree_leaves(fast(*inputs)), examples)


def static(module, examples, threads: int) -> Call:
    """disc with every size fixed: a module for each example."""
    import disc

    options = disc.Options(threads=threads, cache=False, weights=WEIGHTS)
    built = {id(x): disc.optimize(module, x, dims="static", options=options) for x in examples}
    return lambda inputs: pytree.tree_leaves(built[id(inputs)](*inputs))


def backend(module, examples, threads: int) -> Call:
    """disc as the backend of torch.compile."""
    torch._dynamo.config.recompile_limit = 64
    options = {"threads": threads, "cache": False, "weights": WEIGHTS, "progress": False}
    fast = _applied(module, lambda part: torch.compile(part, backend="disc", dynamic=True, options=options))
    return lambda inputs: pytree.tree_leaves(fast(*inputs))


def inductor(module, examples, threads: int) -> Call:
    torch._dynamo.reset()
    # A recompilation for a new size is part of what is measured: the limit must not end in eager.
    torch._dynamo.config.recompile_limit = 64
    fast = _applied(module, lambda part: torch.compile(part, dynamic=True))
    return lambda inputs: pytree.tree_leaves(fast(*inputs))


def _applied(module, compile):
    """A module compiled, or what of a step of training is compiled."""
    return module.compiled(compile) if hasattr(module, "compiled") else compile(module)


def aotinductor(module, examples, threads: int) -> Call:
    package = torch._inductor.aoti_compile_and_package(
        torch.export.export(module, typical(examples), dynamic_shapes=dynamic(module, examples)),
        package_path=str(Path(_FOLDER.name) / f"{id(module)}.pt2"),
    )
    fast = torch._inductor.aoti_load_package(package)
    return lambda inputs: pytree.tree_leaves(fast(*inputs))


def ort(module, examples, threads: int) -> Call:
    import onnxruntime

    if DTYPE == "bf16":
        raise Skipped("no kernels of bf16 for CPUs")
    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = threads
    options.inter_op_num_threads = 1
    options.log_severity_level = 4
    model = exported(module, examples)
    if DTYPE == "int8":
        model = qdq.quantised(model, examples)
    session = onnxruntime.InferenceSession(str(model), options, providers=["CPUExecutionProvider"])
    names = [i.name for i in session.get_inputs()]

    def call(inputs):
        return session.run(None, {n: t.numpy() for n, t in zip(names, inputs, strict=True)})

    return call


def openvino(module, examples, threads: int) -> Call:
    import openvino as ov

    core = ov.Core()
    options = {
        "INFERENCE_NUM_THREADS": threads,
        "PERFORMANCE_HINT": "LATENCY",
        "INFERENCE_PRECISION_HINT": DTYPE if DTYPE in narrow.HALVES else "f32",
    }
    if id(module) in WIDE:
        # It converts a model in f32 itself.
        wide = [narrow.widened(x) for x in examples]
        model = exported(WIDE[id(module)], wide)
    else:
        model = exported(module, examples)
        model = qdq.quantised(model, examples) if DTYPE == "int8" else model
    request = core.compile_model(str(model), "CPU", options).create_infer_request()

    def call(inputs):
        found = request.infer([t.numpy() for t in inputs], share_inputs=True, share_outputs=True)
        return list(found.values())

    return narrow.with_wide_inputs(call, examples) if id(module) in WIDE else call


_EXPORTED: dict[int, tuple[torch.nn.Module, Path | Skipped]] = {}
_FOLDER = tempfile.TemporaryDirectory(prefix="disc-bench-")


def exported(module, examples) -> Path:
    """The module as an ONNX file, for the peers that read one. Sizes that differ between examples
    are dynamic.
    """
    if id(module) not in _EXPORTED:
        try:
            found: Path | Skipped = _export(module, examples)
        except Exception as error:
            text = str(error).strip() or repr(error)
            found = Skipped(f"torch.onnx.export: {text.splitlines()[0][:200]}")
        _EXPORTED[id(module)] = module, found
    found = _EXPORTED[id(module)][1]
    if isinstance(found, Skipped):
        raise found
    return found


def _export(module, examples) -> Path:
    example = typical(examples)
    path = Path(_FOLDER.name) / f"{len(_EXPORTED)}.onnx"
    said = io.StringIO()
    with contextlib.redirect_stdout(said), contextlib.redirect_stderr(said), warnings.catch_warnings():
        warnings.simplefilter("ignore")
        logging.disable(logging.WARNING)
        try:
            program = torch.onnx.export(
                module, example, dynamo=True, dynamic_shapes=dynamic(module, examples), verbose=False
            )
            program.save(str(path))
        finally:
            logging.disable(logging.NOTSET)
    return path


def dynamic(module, examples) -> tuple:
    """The sizes that differ between examples, in the form that torch.export takes."""
    shapes = [
        {a: torch.export.Dim.AUTO for a in range(t.dim()) if len({e[i].shape[a] for e in examples}) > 1}
        for i, t in enumerate(typical(examples))
    ]
    parameters = [*inspect.signature(module.forward).parameters.values()]
    if parameters[-1].kind is inspect.Parameter.VAR_POSITIONAL:
        named = len(parameters) - 1
        shapes[named:] = [tuple(shapes[named:])]
    return tuple(shapes)


PEERS: dict[str, tuple[Callable[..., Call], tuple[str, ...]]] = {
    "disc": (disc, ("disc",)),
    "single": (single, ("disc",)),
    "static": (static, ("disc",)),
    "backend": (backend, ("disc",)),
    "eager": (eager, ()),
    "inductor": (inductor, ()),
    "aotinductor": (aotinductor, ()),
    "ort": (ort, ("onnxruntime", "onnx", "onnxscript")),
    "openvino": (openvino, ("openvino", "onnx", "onnxscript")),
}


def missing(name: str) -> list[str]:
    """The packages that a peer needs and that are not installed."""
    return [package for package in PEERS[name][1] if importlib.util.find_spec(package) is None]
