"""Says why torch keeps an op that has no lowering."""

from __future__ import annotations

import torch

#: Parts of names, and why.
_REASONS = (
    (("as_strided", "resize", "set_"), "memory layout is not part of a program"),
    (("sparse", "_csr", "_coo"), "sparse tensors are torch's"),
    (("igamma", "_polynomial_"), "the number of its steps depends on data"),
    (
        (
            "linalg",
            "cholesky",
            "geqrf",
            "lu_unpack",
            "ormqr",
            "triangular_solve",
            "svd",
            "eig",
            "lstsq",
            "ldl",
        ),
        "of linear algebra, LU, QR, Cholesky and what they solve are compiled, for up to 8 rows of f32 and f64",
    ),
    (("jiterator", "cuda", "cudnn", "miopen"), "it is a kernel of one device or its library"),
)


def why_missing(op) -> tuple[str, str | None]:
    """Why an op has no lowering, and what to do."""
    if torch.Tag.nondeterministic_seeded in getattr(op, "tags", ()):
        return "random numbers are not supported", "give them to the module as an input"
    name = str(op).partition(".")[2]
    return next(
        (why for parts, why in _REASONS if any(p in name for p in parts)), "no entry in the table"
    ), None
