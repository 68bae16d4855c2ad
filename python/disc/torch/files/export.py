"""Writes torch modules as packages: ``disc.export`` and ``disc.save``."""

from __future__ import annotations

import json
import math
from collections import namedtuple
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

import torch
from torch.utils import _pytree as pytree

from ...core import environment, extension, importing
from ...core.errors import Error, PackageError
from ...core.options import Options, effective, refuse_planned
from .. import op_names
from ..capture.captured_program import CapturedProgram
from ..compat import children_of
from ..graph.threads import threads_of
from ..graph.weight_names import as_read
from ..module.ladder import Request, refuse_for_package, whole_program
from ..module.optimized import OptimizedModule
from ..pytree.parameters import Parameters

if TYPE_CHECKING:
    from os import PathLike

#: Values that JSON has.
_PLAIN = (bool, int, float, str, type(None))


def export(
    module: torch.nn.Module | Mapping[str, tuple],
    inputs: Any = None,
    path: str | PathLike[str] | None = None,
    *,
    kwargs: dict[str, Any] | None = None,
    dims: Mapping[Any, Any] | str | None = None,
    target: str | Sequence[str] | None = None,
    options: Options | None = None,
    ir: bool = True,
    prepared: bool = True,
    state: str = "refuse",
) -> bytes | None:
    """Writes modules of torch, as ``disc.export`` says: core/exporting.py has the arguments."""
    options = effective(options)
    refuse_planned(options)
    op_names.refuse_unknown(options)
    environment.check()
    if state not in ("refuse", "inputs"):
        raise Error(f"state is {state!r}, expected 'refuse' or 'inputs'", code="E0700")
    if isinstance(module, Mapping):
        if inputs is not None and path is None:
            inputs, path = None, inputs
        asked = {name: _asked(name, value) for name, value in module.items()}
    else:
        asked = {"main": (module, inputs, kwargs or {})}
    if not asked:
        raise Error("an export needs at least one entry", code="E0700")
    programs = []
    for name, (one, args, keywords) in asked.items():
        _check_module(one)
        original = one.original if _is_optimized(one) else one
        keywords = _in_order(original, keywords)
        request = Request(lambda m=original: m, _tuple(args), keywords, dims, options, True)
        with torch.no_grad():
            captured = whole_program(request)
        programs.append(_program(name, captured, None, with_state=state == "inputs"))
    return _write(programs, path, target, options, ir, prepared)


def save(module: OptimizedModule, path: str | PathLike[str] | None = None) -> bytes | None:
    """Writes what ``disc.optimize`` returned as a package that ``disc.load`` opens.

    Each form of call that was compiled whole is an entry: ``main``, ``main_2``, ...

    Args:
        module: The result of ``disc.optimize``.
        path: The file to write.

    Returns:
        The bytes of the package, without a path.

    Raises:
        disc.PackageError: No form was compiled whole, or the weights were released.
    """
    if not _is_optimized(module):
        raise Error(f"disc.save takes what disc.optimize returned, got {type(module).__name__}", code="E0700")
    if module.options.release_weights:
        raise PackageError(
            "the weights were released", code="E0906", help="use disc.export, or release_weights=False"
        )
    entries = module._dispatcher.compiled_entries()
    if not entries:
        raise PackageError(
            "no form of call of the module was compiled whole",
            code="E0906",
            help="call it once, or give disc.optimize an example; disc.report(m).fallbacks says what torch runs",
        )
    programs = []
    for i, entry in enumerate(entries):
        name = "main" if i == 0 else f"main_{i + 1}"
        captured = entry.captured
        refuse_for_package(captured.device)
        programs.append(_program(name, captured, _structure(captured, module.original), entry.weights()))
    return _write(programs, path, None, module.options, True, True)


def _in_order(module: torch.nn.Module, kwargs: dict[str, Any]) -> dict[str, Any]:
    """Keyword arguments in the order of the parameters of ``forward``, which is that of inputs."""
    order = {name: i for i, name in enumerate(Parameters(module).order)}
    return dict(sorted(kwargs.items(), key=lambda item: order.get(item[0], len(order))))


def _is_optimized(module) -> bool:
    return OptimizedModule in type(module).__mro__


def _asked(name: str, value) -> tuple:
    if not isinstance(value, tuple) or len(value) not in (2, 3):
        raise Error(f"entry {name!r} is {value!r}, expected (module, inputs) or (module, inputs, kwargs)")
    return value if len(value) == 3 else (*value, {})


def _check_module(module) -> None:
    if not isinstance(module, torch.nn.Module):
        raise Error(f"disc.export takes a torch.nn.Module, got {type(module).__name__}", code="E0700")


def _tuple(inputs) -> tuple:
    return () if inputs is None else inputs if isinstance(inputs, tuple) else (inputs,)


def _program(name: str, captured: CapturedProgram, structure, weights=None, with_state=False) -> tuple:
    """One program for the writer: see ``_disc.export_package``."""
    program = captured.program
    if (program.state or program.assigned) and not with_state:
        changed = ", ".join(dict.fromkeys([*program.state, *(row[0] for row in program.assigned)]))
        raise PackageError(
            f"calls of `{name}` change {changed}",
            code="E0906",
            help='module.eval() for batch norm and dropout; state="inputs" makes inputs of what changes',
        )
    if program.checks:
        texts = "; ".join(text for _, text in program.checks)
        raise PackageError(
            f"`{name}` is right only where {texts}, which a package cannot check",
            code="E0906",
            help="say with dims= what the sizes are: a multiple, a range, or a fixed size",
        )
    outputs = []
    for i, (label, (kind, what)) in enumerate(zip(_names(captured), program.outputs, strict=True)):
        if kind == "constant":
            continue
        if kind == "complex":
            raise PackageError(
                f"output {i} of `{name}` is complex, which NumPy-only readers lack", code="E0906"
            )
        outputs.append((label, "input" if kind in ("input", "contiguous") else "output", what))
    outputs += [
        (buffer, "output" if kind == "value" else "input", what) for buffer, kind, what in program.assigned
    ]
    held = as_read(program.weights if weights is None else weights)
    return name, captured.source, held, outputs, None if structure is None else json.dumps(structure)


def _names(captured: CapturedProgram) -> list[str]:
    """A name for each leaf of the result: its path, else its number."""
    count = len(captured.program.outputs)
    leaves = pytree.tree_unflatten(list(range(count)), captured.out_spec)
    paths = [path for path, _ in pytree.tree_flatten_with_path(leaves)[0]]
    if len(paths) != count:
        return [f"output{i}" for i in range(count)]
    texts = [_path(path) for path in paths]
    return [text if text and not text.isdigit() else f"output{text or i}" for i, text in enumerate(texts)]


def _path(path) -> str:
    return ".".join(
        str(getattr(step, "key", getattr(step, "name", getattr(step, "idx", step)))) for step in path
    )


def _structure(captured: CapturedProgram, module: torch.nn.Module) -> dict[str, Any]:
    """Describes arguments and result for ``disc.core.structure``."""
    arguments = captured.arguments
    order = {place: i for i, place in enumerate(arguments.tensors)}
    leaves: list[dict] = []
    for i in range(len(arguments.names)):
        leaves.append(
            {"kind": "leaf", "index": order[i]} if i in order else _constant(arguments.constants[i])
        )
    positions = iter(leaves)
    args, kwargs = children_of(arguments.spec)
    parameters = Parameters(module)
    names = [*parameters.first(args.num_children), *kwargs.context]
    described = [_described(spec, positions) for spec in (*children_of(args), *children_of(kwargs))]
    made = iter(_results(captured))
    return {
        "parameters": parameters.positional,
        "arguments": {str(name): form for name, form in zip(names, described, strict=True)},
        "defaults": {
            name: _constant(value) for name, value in parameters.defaults.items() if isinstance(value, _PLAIN)
        },
        "result": _described(captured.out_spec, made),
    }


def _results(captured: CapturedProgram) -> list[dict]:
    rows, count = [], 0
    for kind, what in captured.program.outputs:
        if kind == "constant":
            rows.append(_constant(what))
            continue
        rows.append({"kind": "number" if kind == "number" else "leaf", "index": count})
        count += 1
    return rows


def _constant(value) -> dict:
    if not isinstance(value, _PLAIN):
        raise PackageError(f"the constant {value!r} has no form in a package", code="E0906")
    if isinstance(value, float) and not math.isfinite(value):
        return {"kind": "constant", "float": repr(value)}
    return {"kind": "constant", "value": _text(value)}


def _text(value):
    """A value of JSON; raises for text that JSON has not."""
    if isinstance(value, str) and not value.isascii():
        try:
            value.encode()
        except UnicodeEncodeError:
            raise PackageError(f"the text {value!r} has no form in a package", code="E0906") from None
    return value


def _described(spec: pytree.TreeSpec, leaves) -> dict:
    if spec.is_leaf():
        return next(leaves)
    items = [_described(child, leaves) for child in children_of(spec)]
    if spec.type is namedtuple:
        return _record(spec.context, spec.context._fields, items)
    if spec.type in (tuple, list, torch.Size):
        return {"kind": "list" if spec.type is list else "tuple", "items": items}
    if isinstance(spec.type, type) and issubclass(spec.type, dict):
        keys = list(spec.context)
        if any(not isinstance(key, _PLAIN) for key in keys):
            raise PackageError(f"keys such as {keys[0]!r} have no form in a package", code="E0906")
        if spec.type is dict:
            return {"kind": "dict", "keys": [_text(key) for key in keys], "items": items}
        return _record(spec.type, keys, items)
    raise PackageError(
        f"a {getattr(spec.type, '__name__', spec.type)} has no form in a package", code="E0906"
    )


def _record(kind: type, keys, items: list) -> dict:
    return {"kind": "record", "type": _type(kind), "keys": [_text(key) for key in keys], "items": items}


def _type(kind: type) -> str:
    return f"{kind.__module__}:{kind.__qualname__}"


def _write(programs, path, target, options: Options, ir: bool, prepared: bool) -> bytes | None:
    targets = importing.target_names(target)
    directory = extension.cache_for(options)
    return extension.export_package(
        programs, path, options, threads_of(options), targets, ir, prepared, directory
    )
