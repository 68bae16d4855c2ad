"""Compares whole models: one compile, then eager and compiled on every set of arguments."""

from __future__ import annotations

import disc
import torch
from torch.utils import _pytree as pytree


class Function(torch.nn.Module):
    """A function of tensors as a module."""

    def __init__(self, function):
        super().__init__()
        self.function = function

    def forward(self, *tensors):
        return self.function(*tensors)


def error(got: torch.Tensor, expected: torch.Tensor) -> float:
    """The greatest difference over the greatest magnitude."""
    if not expected.numel():
        return 0.0
    x, y = got.double(), expected.double()
    assert torch.equal(x.isfinite(), y.isfinite())
    finite = y.isfinite()
    if not finite.any():
        return 0.0
    return float((x[finite] - y[finite]).abs().max() / y[finite].abs().max().clamp(min=1e-9))


def one_compile(compile_module, model: torch.nn.Module, calls, tolerance: float = 2e-5):
    """``calls`` are pairs of positional and keyword arguments; the first one is the example."""
    torch.manual_seed(0)
    model = model.eval()
    compiled = compile_module(model, *calls[0])
    for args, kwargs in calls:
        with torch.no_grad():
            expected, result = model(*args, **kwargs), compiled(*args, **kwargs)
        assert type(result) is type(expected)
        same(result, expected, tolerance)
    if isinstance(compiled, torch.nn.Module) and hasattr(compiled, "original"):
        report = disc.report(compiled).to_dict()
        assert (report["compiles"], report["coverage"], report["fallbacks"]) == (1, 1.0, [])
        assert report["calls"] == len(calls)
    return compiled


def same(result, expected, tolerance: float) -> None:
    ours, spec = pytree.tree_flatten(result)
    theirs, wanted = pytree.tree_flatten(expected)
    assert spec == wanted
    for a, e in zip(ours, theirs, strict=True):
        if not isinstance(e, torch.Tensor):
            assert a == e
            continue
        assert (a.shape, a.dtype) == (e.shape, e.dtype)
        assert error(a, e) <= tolerance


def half_errors(compiled, model, exact, args, kwargs) -> tuple[float, float]:
    """The errors of compiled and eager against ``exact``, the same model in f64:
    their greatest over all outputs.
    """

    def wide(x):
        return x.double() if isinstance(x, torch.Tensor) and x.is_floating_point() else x

    with torch.no_grad():
        reference = exact(*pytree.tree_map(wide, args), **pytree.tree_map(wide, kwargs))
        results = compiled(*args, **kwargs), model(*args, **kwargs)
    references = [x for x in pytree.tree_leaves(reference) if isinstance(x, torch.Tensor)]
    ours, eager = (
        [x for x in pytree.tree_leaves(result) if isinstance(x, torch.Tensor)] for result in results
    )
    assert [x.dtype for x in ours] == [x.dtype for x in eager]
    return (
        max(error(x, r) for x, r in zip(ours, references, strict=True)),
        max(error(x, r) for x, r in zip(eager, references, strict=True)),
    )
