"""Captures a module by ``torch.export``, where the tracer of disc gives up."""

from __future__ import annotations

import contextlib
import functools
import io
import sys

import torch

from ..decompositions import lookup
from ..decompositions.lookup import Serves, serves_all
from ..graph.exported import Traced, from_export
from ..overrides.builtins import is_about_numbers, open_numbers
from ..overrides.memos import open_caches
from ..overrides.registry import overridden
from ..tracer import deadline
from .example_sizes import Sizes


def exported(
    entry: torch.nn.Module,
    examples,
    sizes: Sizes | None,
    oblivious: bool,
    serves: Serves = serves_all,
    below_transforms: bool = False,
) -> Traced:
    """Traces by torch.export: whole ops, or what transforms of ``torch.func`` (``grad``,
    ``vmap``) make of them.
    """
    import torch.export
    from torch.export._trace import _export
    from torch.fx.experimental import _config

    from ..tracer.shape_env import sizes_from_0

    entry.within = functools.partial(_stepwise, serves)
    shapes = None
    if sizes is not None:
        auto = torch.export.Dim.AUTO
        rows = [
            {axis: auto for axis in range(t.dim()) if sizes.dynamic(i, axis)} for i, t in enumerate(examples)
        ]
        shapes = {"tensors": tuple(rows)} if rows else None
    from_0 = sizes_from_0() if oblivious else contextlib.nullcontext()
    # torch.export.export records the ops above transforms, whose tensors mean nothing in a graph.
    export = functools.partial(_export, pre_dispatch=False) if below_transforms else torch.export.export

    def run(numbers):
        with numbers(entry.module), open_caches(entry.module):
            return export(entry, tuple(examples), dynamic_shapes=shapes, strict=False)

    with _config.patch(backed_size_oblivious=oblivious), from_0, overridden("export"), _without_graph_dump():
        try:
            program = run(open_numbers)
        except (TypeError, ValueError) as error:
            if not is_about_numbers(error):
                raise
            program = run(contextlib.nullcontext)
    return from_export(program, entry.module)


@contextlib.contextmanager
def _stepwise(serves: Serves):
    """Ops that ``serves`` does not name are traced as their steps, as the quick tracer does."""
    from torch.fx.experimental.proxy_tensor import decompose, get_proxy_mode

    from ..overrides.functions import SymbolicFunctions

    if get_proxy_mode() is None:
        # Below transforms, torch.export runs the module once before it records it.
        with SymbolicFunctions(), deadline.Watched():
            yield
        return
    with decompose(lookup.Unserved(serves)), SymbolicFunctions(), deadline.Watched():
        yield


@contextlib.contextmanager
def _without_graph_dump():
    """Drops the graph so far, which torch.export prints when it fails."""
    said = io.StringIO()
    try:
        with contextlib.redirect_stderr(said):
            yield
    except Exception as error:
        dump = getattr(error, "partial_fx_graph", None)
        text = said.getvalue()
        said = io.StringIO(text.replace(f"{dump}\n", "") if dump is not None else text)
        raise
    finally:
        if text := said.getvalue():
            sys.stderr.write(text)
