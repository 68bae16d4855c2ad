"""``TorchEmitter``: an emitter that knows what torch says about the result of the node
that is being lowered.
"""

from __future__ import annotations

import contextlib
from typing import Any

import sympy
import torch

from ...lowering.emitter import Emitter
from ..symbolic.expressions import expression
from .promotion import TorchPromotion, name_of
from .size_expressions import Expressions


class TorchEmitter(Emitter):
    """Emits ops for one node of an FX graph after the other."""

    def __init__(self, builder, expressions: Expressions):
        super().__init__(builder, TorchPromotion())
        self.expressions = expressions
        self.expressions.bind_number = lambda symbol, value: self.bind(value, symbol)
        #: torch's description of the node's result: a fake tensor, a number, or a sequence of
        #: these.
        self.meta: Any = None

    @contextlib.contextmanager
    def region(self):
        with super().region(), self.expressions.region():
            yield

    @property
    def out(self):
        """The first result as torch describes it."""
        return self.meta[0] if isinstance(self.meta, (tuple, list)) else self.meta

    @property
    def dtype(self) -> str:
        return name_of(self.out.dtype)

    @property
    def shape(self) -> list:
        return self.shape_of(self.out)

    def shape_of(self, tensor) -> list:
        return self.expressions.shape(tensor.shape)

    def tensor(self, values: torch.Tensor):
        """A constant with the values of a torch tensor."""
        return self.builder.constant(
            values.detach().cpu().contiguous(), dims=list(values.shape), dtype=name_of(values.dtype)
        )

    def result_size(self, rank: int):
        if not self._states_sizes() or len(self.out.shape) != rank:
            return None
        return lambda axis: self.expressions.size(self.out.shape[axis])

    def result_sizes(self) -> list | None:
        return self.shape if self._states_sizes() else None

    def _states_sizes(self) -> bool:
        """Returns true if torch says the sizes of the result before the op is emitted."""
        return isinstance(self.out, torch.Tensor) and not any(map(self.is_unbound, self.out.shape))

    def is_unbound(self, size) -> bool:
        """Returns true if a size of torch's is one that the op itself will bind."""
        symbol = expression(size)
        known = self.expressions
        return (
            isinstance(symbol, sympy.Symbol) and symbol not in known.symbols and symbol not in known.numbers
        )

    def bind(self, size, wanted=None):
        """The dim that a scalar i64 is from here on; ``wanted``: the size as torch describes it."""
        symbol = expression(wanted)
        if isinstance(symbol, sympy.Symbol) and symbol not in self.expressions.symbols:
            fresh = self.bind_dim(size, str(symbol))
            self.expressions.bind(symbol, fresh)
            return fresh
        fresh = self.bind_dim(size)
        if wanted is None:
            return fresh
        # torch knows another name for the size: they are compared when it is bound.
        known = self.expressions.size(wanted)
        self.state(f"{fresh} == {known}")
        return known

    def places(self, mask, wanted=None):
        """The row-major places of the true elements: their number is ``wanted``,
        as torch describes it.
        """
        return super().places(mask, lambda count: self.bind(count, wanted))
