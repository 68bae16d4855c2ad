"""Reads the parameters of ``forward``, and brings the arguments of a call into their order."""

from __future__ import annotations

import inspect
from typing import Any

import torch

from .arguments import CONSTANTS


class Parameters:
    """The parameters of a module's ``forward``."""

    def __init__(self, module: torch.nn.Module):
        #: Names of those that a position may fill.
        self.positional: list[str] = []
        self.defaults: dict[Any, Any] = {}
        self.names: set[str] = set()
        #: All of them in order.
        self.order: list[str] = []
        #: There is ``*args``, and ``**kwargs``.
        self.takes_more = self.takes_any = False
        try:
            parameters = inspect.signature(module.forward).parameters.values()
        except (TypeError, ValueError):
            parameters = ()
            self.takes_more = self.takes_any = True
        for p in parameters:
            self.takes_more |= p.kind is p.VAR_POSITIONAL
            self.takes_any |= p.kind is p.VAR_KEYWORD
            self.names.add(p.name)
            self.order.append(p.name)
            if p.kind in (p.POSITIONAL_ONLY, p.POSITIONAL_OR_KEYWORD):
                self.positional.append(p.name)
            if p.default is not p.empty:
                self.defaults[p.name] = p.default

    def first(self, count: int) -> list:
        """The names of the first positional arguments;
        those of ``*args`` have no name but their place.
        """
        return [*self.positional[:count], *range(len(self.positional), count)]

    def given(self, args: tuple, kwargs: dict) -> dict:
        """The arguments by name, those of ``*args`` by place, without defaults that were passed."""
        given = {**dict(zip(self.first(len(args)), args, strict=True)), **kwargs}
        return {
            name: value
            for name, value in given.items()
            if name not in self.defaults or not same_constant(value, self.defaults[name])
        }


def same_constant(value, wanted) -> bool:
    """Returns true if a compiled-in value serves for ``value``: NaN does for NaN,
    0.0 does not for -0.0.
    """
    if type(value) is not type(wanted):
        return False
    if isinstance(wanted, (float, complex)):
        return repr(value) == repr(wanted)
    return value is wanted or (isinstance(wanted, CONSTANTS) and value == wanted)
