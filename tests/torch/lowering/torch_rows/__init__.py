"""The rows of docs/coverage-torch.md as test data: arguments, dtypes and sizes of each overload."""

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
