"""The rows of docs/coverage-torch.md as test data: for each overload, arguments, dtypes and sizes."""

from __future__ import annotations

from . import contraction, elementwise, index, recurrent, reduce, shape, sizes

ROWS = [
    *elementwise.ROWS,
    *shape.ROWS,
    *reduce.ROWS,
    *contraction.ROWS,
    *index.ROWS,
    *recurrent.ROWS,
    *sizes.ROWS,
]
