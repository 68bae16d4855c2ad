"""Flattens the arguments of a call into the tensors of the compiled function,
and says what is wrong with them if they do not fit.

``Call.tensors`` is on the path of every call and looks at little: the structure, the constants, and
what the extension cannot see (subclasses, and negated views of any strides). ``Call.explain`` looks
at everything and runs when the extension refused a call.
"""

from __future__ import annotations

import re
from typing import Any

import torch
from torch.autograd import forward_ad

from ...core import extension
from ...core.errors import DimError, Error
from ...core.signature import Check, Signature
from ..capture.captured_program import CapturedProgram
from ..compat import children_of
from ..pytree import kv_caches
from ..pytree.arguments import Arguments, array_cure
from ..pytree.held_values import HELD
from ..pytree.open_numbers import carrier, may_be_open
from ..pytree.parameters import Parameters, same_constant
from ..watch import inputs

#: Only these are dense tensors with memory of their own; subclasses (fake tensors, DTensor, ...)
#: may be anything.
PLAIN = frozenset((torch.Tensor, torch.nn.Parameter, torch.nn.Buffer))


class Call:
    """Checks and flattens the arguments of calls of one compiled module."""

    def __init__(self, module: torch.nn.Module, captured: CapturedProgram):
        self.arguments: Arguments = captured.arguments
        self.signature = signature_of(captured)
        self.dtypes = captured.dtypes
        #: Those of the inputs: that of the module, but for scalars of the host.
        self._devices = captured.devices
        self.parameters = Parameters(module)
        #: Dims that the user named, and axes that the user fixed, as errors name them.
        self._stated = {*captured.plan.declared()} | {
            f"axis {axis} of {name}"
            for name, row in zip(self.arguments.tensor_names, captured.plan.axes, strict=True)
            for axis, size in enumerate(row)
            if isinstance(size, int)
        }
        #: The questions of the model about the tensors of a call (``watch.inputs``).
        self.questions: frozenset[str] = frozenset()
        self._facts = [extension.fact(text) for text in self.signature.facts]
        args, kwargs = children_of(self.arguments.spec)
        slots = [
            *zip(self.parameters.first(args.num_children), children_of(args), strict=True),
            *zip(kwargs.context, children_of(kwargs), strict=True),
        ]
        #: One per argument of the example: its name, its structure (None for a leaf), how many
        #: leaves it has.
        self.slots = [(name, None if spec.is_leaf() else spec, spec.num_leaves) for name, spec in slots]
        # The example had only tensors, each an argument of its own: such a call needs no look at
        # names or structure.
        are_tensors = not self.arguments.constants and not self.arguments.numbers
        plain = are_tensors and all(spec is None for _, spec, _ in self.slots)
        self._keywords = tuple(kwargs.context) if plain else None
        self._positional = args.num_children if plain else -1

    def tensors(self, args: tuple, kwargs: dict) -> list[torch.Tensor]:
        """The flat tensors of a call."""
        leaves = self.leaves(args, kwargs)
        for t in leaves:
            if type(t) not in PLAIN or t.is_neg():
                self.explain(leaves)
        if self.questions and (words := inputs.difference(self.questions, leaves)) is not None:
            raise Error(f"{words}, and the model asks for that", code="E0601")
        if self.signature.checks:
            self._check_conditions(leaves)
        if forward_ad._current_level >= 0:
            self._refuse_tangents(leaves)
        return leaves

    def leaves(self, args: tuple, kwargs: dict) -> list[torch.Tensor]:
        """The flat tensors of a call, unchecked."""
        if len(args) == self._positional and tuple(kwargs) == self._keywords:
            return [*args, *kwargs.values()]
        return self._flatten(args, kwargs)

    def _flatten(self, args: tuple, kwargs: dict) -> list[torch.Tensor]:
        """The general path: any mix of positional and keyword arguments,
        nested structures, constants.
        """
        leaves: list = []
        for (name, spec, count), value in zip(self.slots, self.in_order(args, kwargs), strict=True):
            if spec is None:
                leaves.append(value)
                continue
            if name == HELD and self.arguments.held is not None:
                # The watch has seen their kinds.
                leaves += value.values()
                continue
            held, found = kv_caches.flatten(value)
            if found != spec or len(held) != count:
                where, ours, theirs = kv_caches.difference(found, spec)
                raise Error(
                    f"input {name}{where} is {ours[:_QUOTED]}, the example's is {theirs[:_QUOTED]}",
                    code="E0601",
                    help="call with the structure of the example, or optimize once more with this one",
                )
            leaves += held
        for i, wanted in self.arguments.constants.items():
            if not same_constant(leaves[i], wanted):
                raise Error(
                    f"input {self.arguments.names[i]} is {_short(leaves[i])}; the module was compiled for {wanted!r}",
                    code="E0601",
                    help="values that are not tensors are compiled in: optimize once more with this one",
                )
        for i, kind in self.arguments.numbers.items():
            if not isinstance(leaves[i], kind) or not may_be_open(leaves[i]):
                expected = "integers from 1 on" if kind is int else "floats"
                raise Error(
                    f"input {self.arguments.names[i]} is {_short(leaves[i])}; the module was compiled for {expected}",
                    code="E0601",
                )
            leaves[i] = carrier(leaves[i])
        return [leaves[i] for i in self.arguments.tensors]

    def integers(self) -> dict[tuple[Any, int], str]:
        """The dims of the open integers, by their argument and their place among its leaves."""
        at = [(name, place) for name, _, count in self.slots for place in range(count)]
        dims = zip(self.arguments.tensors, self.signature.dims, strict=True)
        return {at[i]: row[0] for i, row in dims if self.arguments.numbers.get(i) is int}

    def in_order(self, args: tuple, kwargs: dict) -> list:
        """The arguments in the order of the example; what is left out takes its default."""
        if (held := self.arguments.held) is not None:
            kwargs = {**kwargs, HELD: held.values()}
        given = dict(zip(self.parameters.first(len(args)), args, strict=True))
        if twice := given.keys() & kwargs.keys():
            raise Error(f"input {min(twice)} is given twice, by position and by name", code="E0601")
        given |= kwargs
        values = []
        for name, _, _ in self.slots:
            if name not in given and name not in self.parameters.defaults:
                raise Error(f"input {self._called(name)} is missing", code="E0601")
            values.append(given.pop(name) if name in given else self.parameters.defaults[name])
        for name, value in given.items():
            if name in self.parameters.defaults and same_constant(value, self.parameters.defaults[name]):
                continue
            takes = (
                self.parameters.takes_more
                if isinstance(name, int)
                else self.parameters.takes_any or name in self.parameters.names
            )
            if not takes:
                raise Error(f"forward has no parameter for the input {self._called(name)}", code="E0601")
            raise Error(
                f"input {self._called(name)} was not given in the example",
                code="E0601",
                help="optimize once more with it",
            )
        return values

    @staticmethod
    def _called(name) -> str:
        return f"number {name}" if isinstance(name, int) else name

    def _refuse_tangents(self, leaves: list) -> None:
        """Within a level of forward-mode differentiation."""
        for name, t in zip(self.arguments.tensor_names, leaves, strict=True):
            if forward_ad.unpack_dual(t).tangent is not None:
                raise Error(
                    f"input {name} has a tangent of forward-mode differentiation, and compiled modules are for inference",
                    code="E0610",
                    help="pass the primal of torch.autograd.forward_ad.unpack_dual",
                )

    def _check_conditions(self, leaves: list) -> None:
        def size(i: int, axis: int) -> int:
            return leaves[i].size(axis)

        try:
            broken = self.signature.violated(size)
        except IndexError:
            self.explain(leaves)
            raise
        if broken is not None:
            self.explain(leaves)
            raise self.signature.check_error(broken, size)

    # Errors.

    def is_stated(self, error: DimError) -> bool:
        """Returns true if a size breaks what the user said of it with ``dims=``."""
        return not self._stated.isdisjoint(error.dims or ())

    def fits(self, leaves: list) -> bool:
        """Returns true if ``explain`` has nothing to say about the tensors of a call:
        the check of calls that do not begin in compiled code, which checks them itself.
        """
        grad = torch.is_grad_enabled()
        rows = zip(leaves, self.dtypes, self._devices, self.signature.dims, strict=True)
        for t, dtype, device, row in rows:
            if t.dtype is not dtype or t.dim() != len(row) or t.device != device or t.is_conj():
                return False
            if t.layout is not torch.strided or (grad and t.requires_grad):
                return False
        sizes: dict[str, int] = {}
        for t, row in zip(leaves, self.signature.dims, strict=True):
            for dim, size in zip(row, t.shape, strict=True):
                if size != (int(dim) if dim.isdigit() else sizes.setdefault(dim, size)):
                    return False
        return all(fact.holds(sizes) is not False for fact in self._facts)

    def explain(self, leaves: list) -> None:
        """Raises what is wrong with the tensors of a call; returns if nothing is."""
        names = self.arguments.tensor_names
        for i, (name, t) in enumerate(zip(names, leaves, strict=True)):
            self._explain_tensor(name, t, self.dtypes[i], self._devices[i])
        self.signature.explain([t.shape for t in leaves])

    def _explain_tensor(self, name: str, t: Any, dtype: torch.dtype, device: torch.device) -> None:
        if not isinstance(t, torch.Tensor):
            raise Error(
                f"input {name}: expected a tensor, got {type(t).__name__}",
                code="E0601",
                help=array_cure(t),
            )
        wrong, cure = None, f"pass a dense tensor on {device} (t.contiguous(), t.resolve_neg())"
        if isinstance(t, torch._subclasses.FakeTensor):
            wrong = "a fake tensor, which has no data"
        elif t.is_meta:
            wrong = "a meta tensor, which has no data"
        elif t.is_quantized:
            wrong = f"a quantized tensor ({t.dtype})"
        elif t.is_nested:
            wrong = "a nested tensor"
        elif t.layout is not torch.strided:
            wrong = f"a tensor of layout {t.layout}"
        elif type(t) not in PLAIN:
            wrong = f"a tensor of class {type(t).__name__}"
        elif t.device != device:
            wrong = f"a tensor on {t.device}; the module was compiled for {device}"
        elif t.is_conj() or t.is_neg():
            wrong = "a tensor whose conjugation or negation is pending"
        elif t.dtype != dtype:
            wrong = f"dtype {t.dtype}, expected {dtype}"
            cure = f"pass t.to({dtype}), or optimize once more with an example of {t.dtype}"
        if wrong is not None:
            raise Error(f"input {name}: got {wrong}", code="E0601", help=cure)
        if torch.is_grad_enabled() and t.requires_grad:
            raise Error(
                f"input {name} requires a gradient, and compiled modules are for inference",
                code="E0610",
                help="call under torch.no_grad() or torch.inference_mode(), or detach the input",
            )


def signature_of(captured: CapturedProgram) -> Signature:
    """The framework-neutral part of a capture:
    texts of sizes name dims of the inputs instead of symbols of torch.
    """
    program = captured.program
    dims = {str(symbol): program.dims[i][axis] for symbol, (i, axis) in captured.symbols.items()}

    def named(text: str) -> str:
        return re.sub(r"\w+", lambda word: dims.get(word[0], word[0]), text)

    def check(condition: Any, text: str) -> Check:
        # A program from disk has none, mostly: sympy takes longer to load than all else.
        from ..symbolic.guard_functions import function_of

        places = [(place, s) for s, place in captured.symbols.items() if s in condition.free_symbols]
        holds = function_of(condition, [s for _, s in places])
        return Check(holds, [place for place, _ in places], named(text))

    return Signature(
        captured.arguments.tensor_names,
        program.dims,
        program.facts,
        [check(condition, text) for condition, text in program.checks],
        captured.fixed,
        {named(text): at for text, at in program.asked_at.items()} | captured.fixed_at,
        frozenset(
            captured.arguments.names[i] for i, kind in captured.arguments.numbers.items() if kind is int
        ),
    )


#: So much of a structure is shown.
_QUOTED = 200


def _short(value) -> str:
    text = repr(value)
    return text if len(text) <= 60 else f"a {type(value).__name__}"
