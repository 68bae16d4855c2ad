"""Checks the names of ops in ``Options(block_ops=, allow_ops=)``: torch has to know them."""

from __future__ import annotations

import difflib

import torch

from ..core.errors import Error
from ..core.options import Options


def refuse_unknown(options: Options) -> None:
    """Raises for a name that no op of torch has, and no op that is registered by now."""
    for option in ("block_ops", "allow_ops"):
        for name in getattr(options, option) or ():
            if not _is_known(name):
                raise Error(f"Options.{option}: torch has no op {name!r}", help=_hint(name))


def _is_known(name: str) -> bool:
    if name in _higher_order():
        return True
    namespace, _, rest = name.partition(".")
    op, _, overload = rest.rpartition(".")
    packet = getattr(getattr(torch.ops, namespace, None), op, None) if op.isidentifier() else None
    return isinstance(packet, torch._ops.OpOverloadPacket) and overload in packet.overloads()


def _higher_order() -> dict:
    """The ops of control flow and the like, by name; a program prints only their names."""
    return torch._ops._higher_order_ops


def _hint(name: str) -> str:
    known = [*map(_printed, torch._C._dispatch_get_all_op_names()), *_higher_order()]
    near = [n for n in known if n.startswith(f"{name}.")] or difflib.get_close_matches(name, known, 1)
    if not near:
        return "names are those of a report's fallbacks, such as 'aten.gelu.default'"
    # Of the forms of one op, most programs have the first.
    return f"is {min(near, key=lambda n: not n.endswith('.default'))!r} meant?"


def _printed(registered: str) -> str:
    """A name of the dispatcher (``aten::add.Tensor``) as graphs print it."""
    name = registered.replace("::", ".")
    return name if "." in registered else f"{name}.default"
