"""Finds what code of a model asks of the tensors that a call passes, beside their sizes and types:
whether they require a gradient, are contiguous, are parameters, or are one object.

A trace sees contiguous tensors without gradients, each a separate object. Calls with others run
in PyTorch where the model asks.
"""

from __future__ import annotations

import dis
import itertools
import types
from collections.abc import Callable, Sequence

import torch

#: The questions, by the names that ask them.
_ATTRIBUTES = {
    "requires_grad": "gradient", "is_leaf": "gradient", "grad_fn": "gradient", "Parameter": "gradient",
    "id": "identity",
}  # fmt: skip
#: Layers have attributes of these names; tensors have methods.
_METHODS = frozenset(("is_contiguous", "stride", "storage_offset"))
_IS = dis.opmap["IS_OP"]
#: Steps that leave the value of a variable, or an element.
_VARIABLES = ("LOAD_FAST", "LOAD_DEREF", "BINARY_SUBSCR", "BINARY_OP")

#: By question: a function that returns true for the tensors of a call that a trace does not stand
#: for, and their name in messages.
_OTHER: dict[str, tuple[Callable[[Sequence[torch.Tensor]], bool], str]] = {
    "gradient": (
        lambda leaves: any(t.requires_grad or type(t) is not torch.Tensor for t in leaves),
        "a tensor requires a gradient or is a parameter",
    ),
    "layout": (lambda leaves: not all(t.is_contiguous() for t in leaves), "a tensor is not contiguous"),
    "identity": (
        lambda leaves: (
            len({*map(id, leaves)}) < len(leaves) or any(type(t) is not torch.Tensor for t in leaves)
        ),
        "one tensor is passed twice or is a parameter",
    ),
}
_known: dict[types.CodeType, frozenset[str]] = {}


def questions_of(code: types.CodeType) -> frozenset[str]:
    """The questions that a function may ask of its inputs, those inside it too."""
    if (found := _known.get(code)) is None:
        inner = (c for c in code.co_consts if isinstance(c, types.CodeType))
        _known[code] = found = _asked(code).union(*map(questions_of, inner))
    return found


def _asked(code: types.CodeType) -> frozenset[str]:
    names = {*code.co_names, *(c for c in code.co_consts if isinstance(c, str))}
    found = {_ATTRIBUTES[name] for name in names & _ATTRIBUTES.keys()}
    if not names.isdisjoint(_METHODS) or _IS in code.co_code[::2]:
        steps = list(dis.get_instructions(code))
        for i, step in enumerate(steps):
            if step.opcode == _IS and _may_be_tensor(steps[:i]):
                found.add("identity")
            elif step.argval in _METHODS and _is_call(step):
                found.add("layout")
    return frozenset(found)


def _may_be_tensor(steps: list[dis.Instruction]) -> bool:
    """Returns true if the last step leaves a variable, an element or an attribute of one: no
    constant, no name of a module (``torch.float32``), and no result of a call (``type(x)``).
    """
    rest = itertools.dropwhile(lambda step: step.opname == "LOAD_ATTR", reversed(steps))
    origin = next(rest, None)
    return origin is not None and origin.opname.startswith(_VARIABLES)


def _is_call(step: dis.Instruction) -> bool:
    """Returns true if a step looks a method up to call it."""
    # Since 3.12 it is the lowest bit of the argument.
    return step.opname == "LOAD_METHOD" or (step.opname == "LOAD_ATTR" and "NULL|self" in step.argrepr)


def difference(questions: frozenset[str], leaves: Sequence[torch.Tensor]) -> str | None:
    """Names a difference that the model asks for between these tensors and those of a trace; None
    if there is none.
    """
    for question in questions:
        is_other, words = _OTHER[question]
        if is_other(leaves):
            return words
    return None
