"""Each row of the table against eager torch: every dtype, sizes 0 and 1, strided inputs,
NaN and infinities.
"""

from __future__ import annotations

import torch
from torch.utils import _pytree as pytree
from torch_rows import ROWS
from torch_rows.row import TORCH, Row, T, make

TOLERANCE = {"f32": 3e-5, "f64": 1e-9, "f16": 4e-3, "bf16": 3e-2}


def pytest_generate_tests(metafunc):
    if "row" not in metafunc.fixturenames:
        return
    every = metafunc.config.getoption("--rows") == "all"
    cases = [(r, d) for i, r in enumerate(ROWS) for d in (r.dtypes if every else some_dtypes(r, i))]
    metafunc.parametrize(("row", "dtype"), cases, ids=[f"{r.id}-{d}" for r, d in cases])


def some_dtypes(row: Row, i: int) -> tuple[str, ...]:
    rest = row.dtypes[1:]
    return row.dtypes[:1] + ((rest[i % len(rest)],) if rest else ())


class Call(torch.nn.Module):
    """The overload itself on the tensors of a row; everything else is constant."""

    def __init__(self, row: Row):
        super().__init__()
        space, op, overload = row.overload.split(".")
        self.op = getattr(getattr(getattr(torch.ops, space), op), overload)
        leaves, self.spec = pytree.tree_flatten((row.args, row.kwargs))
        self.leaves = tuple(leaves)
        self.results = row.results

    def forward(self, *tensors):
        given = iter(tensors)
        leaves = [next(given) if isinstance(leaf, T) else leaf for leaf in self.leaves]
        args, kwargs = pytree.tree_unflatten(leaves, self.spec)
        made = self.op(*args, **kwargs)
        return made if self.results is None else made[: self.results]


def tensors_of(row: Row, sizes, dtype: str, special=False) -> list[torch.Tensor]:
    return [make(spec, sizes, dtype, seed, special) for seed, spec in enumerate(row.tensors)]


def transposed(x: torch.Tensor) -> torch.Tensor:
    return x.transpose(0, -1).contiguous().transpose(0, -1) if x.dim() > 1 else x


def stepped(x: torch.Tensor) -> torch.Tensor:
    """The same values, every second element of memory."""
    if x.dim() == 0:
        return x
    wide = torch.stack([x, x], -1).flatten(-2)
    return wide[..., ::2]


def eager(module, inputs):
    """Returns the results of torch, or None where it refuses the sizes."""
    try:
        with torch.no_grad():
            return pytree.tree_leaves(module(*inputs))
    except (RuntimeError, IndexError, ValueError):
        return None


def assert_same(ours, theirs, row: Row, dtype: str, what: str):
    assert len(ours) == len(theirs)
    for a, e in zip(ours, theirs, strict=True):
        if not isinstance(e, torch.Tensor):
            continue
        assert a.shape == e.shape, what
        assert a.dtype == e.dtype, what
        tolerance = row.tolerance or 0
        kind = next(k for k, d in TORCH.items() if d == e.dtype)
        tolerance = max(
            tolerance, TOLERANCE.get(dtype, 3e-5) if kind in TOLERANCE else 0, TOLERANCE.get(kind, 0)
        )
        torch.testing.assert_close(
            a, e, rtol=tolerance, atol=tolerance, equal_nan=True, msg=lambda m: f"{what}: {m}"
        )


def test_row(row: Row, dtype: str, compile_module):
    module = Call(row).eval()
    example = tensors_of(row, row.bindings[0], dtype)
    compiled = compile_module(module, tuple(example))
    runs = [(f"sizes {b}", tensors_of(row, b, dtype)) for b in row.bindings]
    if row.special and TORCH[dtype].is_floating_point:
        runs.append(("NaN and Inf", tensors_of(row, row.bindings[0], dtype, special=True)))
    runs.append(("transposed", [transposed(x) for x in example]))
    if row.strided:
        runs.append(("stepped", [stepped(x) for x in example]))
    served = 0
    for what, inputs in runs if example else runs[:1]:
        expected = eager(module, inputs)
        if expected is None:
            continue
        assert_same(pytree.tree_leaves(compiled(*inputs)), expected, row, dtype, what)
        served += 1
    assert served >= 3 or not example
