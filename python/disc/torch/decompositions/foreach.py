"""Decompositions of ``aten._foreach_*``: an op of the same name for each tensor of the lists."""

from __future__ import annotations

from collections.abc import Callable

import torch

aten = torch.ops.aten
_PREFIX = "_foreach_"
#: Those whose plain op has another name, or arguments in another order.
_NAMED: dict[str, Callable] = {
    "norm": lambda x, order=2, dtype=None: aten.linalg_vector_norm(x, order, dtype=dtype),
    "max": lambda x: aten.max(x),
    "lerp": lambda x, end, weight: aten.lerp(x, end, weight),
    "zero": lambda x: aten.zeros_like(x),
    "copy": lambda x, source, non_blocking=False: aten.copy(x, source),
    "maximum": lambda x, y: _limit(aten.maximum, aten.clamp_min, x, y),
    "minimum": lambda x, y: _limit(aten.minimum, aten.clamp_max, x, y),
    "clamp_min": lambda x, y: _limit(aten.maximum, aten.clamp_min, x, y),
    "clamp_max": lambda x, y: _limit(aten.minimum, aten.clamp_max, x, y),
    "addcmul": lambda x, y, z, value=1: _add_scaled(x, y * z, value),
    "addcdiv": lambda x, y, z, value=1: _add_scaled(x, y / z, value),
}


def is_one(func: torch._ops.OpOverload) -> bool:
    """Returns true for an op over lists of tensors."""
    return func.namespace == "aten" and func._opname.startswith(_PREFIX)


def table() -> dict[torch._ops.OpOverload, Callable]:
    """The steps of all ops over lists."""
    found = {}
    for name in torch._C._dispatch_get_all_op_names():
        space, _, name = name.partition("::")
        name, _, overload = name.partition(".")
        if space != "aten" or not name.startswith(_PREFIX) or overload.endswith("out"):
            continue
        func = getattr(getattr(aten, name), overload or "default")
        if (made := steps(func)) is not None:
            found[func] = made
    return found


def steps(func: torch._ops.OpOverload) -> Callable | None:
    """The function that computes ``func`` tensor by tensor; None if there is no such op."""
    name = func._opname.removeprefix(_PREFIX)
    writes = name.endswith("_")
    name = name.removesuffix("_")
    op = _NAMED.get(name) or getattr(aten, name, None)
    if op is None:
        return None
    is_list = [str(argument.type).startswith("List") for argument in func._schema.arguments]
    names = [argument.name for argument in func._schema.arguments]

    def each(*args, **kwargs):
        listed = {names[i] for i, several in enumerate(is_list) if several}
        count = max(len(arg) for arg, several in zip(args, is_list, strict=False) if several)
        results = []
        for i in range(count):
            own = [_part(arg, i, name in listed) for arg, name in zip(args, names, strict=False)]
            named = {key: _part(value, i, key in listed) for key, value in kwargs.items()}
            result = op(*own, **named)
            if writes:
                if not torch.can_cast(result.dtype, args[0][i].dtype):
                    raise TypeError(f"{func} of {args[0][i].dtype} gives {result.dtype}")
                result = args[0][i].copy_(result)
            results.append(result)
        return None if writes else results

    def over_scalars(*args, **kwargs):
        # One tensor of the scalars for all tensors: ``addcmul(.., scalars)``.
        *lists, scalars = args
        return each(*lists, list(scalars.unbind(0)), **kwargs)

    if func._overloadname == "Tensor" and name in ("addcmul", "addcdiv"):
        is_list[-1] = True
        return over_scalars
    return each


def _part(value, i: int, is_listed: bool):
    return value[i] if is_listed and isinstance(value, (list, tuple)) else value


def _limit(of_tensors, of_scalars, x, y):
    return of_tensors(x, y) if isinstance(y, torch.Tensor) else of_scalars(x, y)


def _add_scaled(x, products, value):
    return x + products * value
