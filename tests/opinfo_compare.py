"""Compares a result of a compiled op with that of eager mode."""

from __future__ import annotations

import math
from collections.abc import Callable

import torch
from torch.utils import _pytree as pytree

TOLERANCE = {torch.float64: 1e-9, torch.float32: 3e-5, torch.float16: 4e-3, torch.bfloat16: 3e-2}
#: The contents of their results are not defined.
UNDEFINED = ("empty", "empty_like", "empty_strided", "empty_permuted", "new_empty", "new_empty_strided",
             "resize_", "resize_as_")  # fmt: skip


def difference(op: str, ours, theirs, exact: Callable) -> str | None:
    """Says how two results differ; None if they do not.

    Where numbers differ by more than the tolerance of their type, ``exact()`` decides: the result
    in double precision, to which ours has to be about as close as eager's.
    """
    found, spec = pytree.tree_flatten(ours)
    wanted, wanted_spec = pytree.tree_flatten(theirs)
    if spec != wanted_spec:
        return f"structure {spec}, eager {wanted_spec}"
    precise: list | None = None
    for i, (a, e) in enumerate(zip(found, wanted, strict=True)):
        if not isinstance(e, torch.Tensor):
            if type(a) is not type(e) or not (a == e or (a != a and e != e)):
                return f"result {i}: {a!r}, eager {e!r}"
            continue
        if (text := _kind_difference(a, e)) is not None:
            return f"result {i}: {text}"
        if op in UNDEFINED:
            continue
        if _zeros_differ(a, e):
            return f"result {i}: sign of zero, {_worst(a, e)}"
        if _is_close(a, e):
            continue
        if precise is None:
            precise = pytree.tree_leaves(exact())
        truth = precise[i] if i < len(precise) else None
        if not isinstance(truth, torch.Tensor) or not _is_as_good(a, e, truth):
            return f"result {i}: {_worst(a, e)}"
    return None


def _kind_difference(a, e) -> str | None:
    if not isinstance(a, torch.Tensor):
        return f"{type(a).__name__}, eager a tensor"
    for name in ("dtype", "shape", "layout", "device"):
        if getattr(a, name) != getattr(e, name):
            return f"{name} {getattr(a, name)}, eager {getattr(e, name)}"
    return None


def _dense(x: torch.Tensor) -> torch.Tensor:
    x = x.detach().resolve_conj().resolve_neg()
    if x.layout is not torch.strided:
        x = x.to_dense()
    return torch.view_as_real(x) if x.is_complex() else x


def _zeros_differ(a: torch.Tensor, e: torch.Tensor) -> bool:
    """Returns true if zeros differ in sign; that of a NaN is no part of a value, and neither are
    those of the parts of complex numbers, which are sums in another order.
    """
    if e.is_complex() or not e.is_floating_point():
        return False
    a, e = _dense(a), _dense(e)
    zeros = (a == 0) & (e == 0)
    return not torch.equal(a.signbit() & zeros, e.signbit() & zeros)


def _is_close(a: torch.Tensor, e: torch.Tensor) -> bool:
    a, e = _dense(a), _dense(e)
    if not e.is_floating_point():
        return torch.equal(a, e)
    if e.dtype not in TOLERANCE:
        a, e = a.float(), e.float()
    tolerance = TOLERANCE[e.dtype]
    return torch.allclose(a.double(), e.double(), rtol=tolerance, atol=tolerance, equal_nan=True)


def _is_as_good(a: torch.Tensor, e: torch.Tensor, truth: torch.Tensor) -> bool:
    """Returns true if ours is about as near to the truth as eager's, and special where that is."""
    tolerance = TOLERANCE.get(_dense(e).dtype, 3e-5)
    a, e, truth = _dense(a).double(), _dense(e).double(), _dense(truth).double()
    if a.shape != truth.shape or not torch.equal(a.isnan(), e.isnan()):
        return False
    finite = a.isfinite() & e.isfinite() & truth.isfinite()
    # One of both may round to an infinity.
    if not torch.equal(a[~finite & ~a.isnan()].sign(), e[~finite & ~a.isnan()].sign()):
        return False
    if not finite.any():
        return True
    a, e, truth = a[finite], e[finite], truth[finite]
    return bool(((a - truth).abs() <= 2 * (e - truth).abs() + tolerance * truth.abs().max()).all())


def _worst(a: torch.Tensor, e: torch.Tensor) -> str:
    a, e = _dense(a).double().reshape(-1), _dense(e).double().reshape(-1)
    gap = torch.where((a == e) | (a.isnan() & e.isnan()), 0, (a - e).abs()).nan_to_num(math.inf, math.inf)
    i = int(gap.argmax())
    return f"{int((gap > 0).sum())} of {gap.numel()} elements: at {i} {a[i].item()!r}, eager {e[i].item()!r}"
