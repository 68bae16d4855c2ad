"""Refuses modules that draw random numbers of Python or NumPy while they are captured: a program
would have those of the capture in every call.

Dynamo draws NumPy's numbers from torch's generator, so PyTorch runs such a module whole.
Not here: generators of torch, whose ops are recorded.
Invariant: after a capture each generator is where it was.
"""

from __future__ import annotations

import contextlib
import pickle
import random
from collections.abc import Callable, Iterator
from typing import Any

import numpy
import torch

from ...core.errors import Error
from .reach import Reach


class Drawn(Error):
    """A call draws random numbers that no program draws."""

    default_code = "E0405"


#: Names in code that draws from the generators of the process.
_DRAWING = frozenset(
    name
    for owner in (random.Random, numpy.random.RandomState)
    for name in dir(owner)
    if not name.startswith("_") and not name.startswith(("get", "set"))
)
KINDS = (random.Random, numpy.random.RandomState, numpy.random.Generator)


@contextlib.contextmanager
def refusing_draws(module: torch.nn.Module, reach: Reach) -> Iterator[None]:
    """Raises at its end if a generator that ``module`` can reach was drawn from within."""
    held = [*reach.of_type(KINDS), *(_of_process() if reach.names & _DRAWING else ())]
    before = [(generator, pickle.dumps(_state(generator))) for generator in held]
    try:
        yield
    finally:
        drawn = [pair for pair in before if pickle.dumps(_state(pair[0])) != pair[1]]
        for generator, state in drawn:
            _restore(generator)(pickle.loads(state))
        if drawn:
            raise Drawn(
                f"{type(module).__name__} draws random numbers of {_owner(drawn[0][0])}, other ones in each call",
                help="draw them by torch, as torch.rand, or pass them as arguments",
            )


def _of_process() -> list[Any]:
    """The generators of ``random.random`` and ``numpy.random.rand``."""
    return [random.random.__self__, numpy.random.rand.__self__]


def _owner(generator: Any) -> str:
    return "Python" if isinstance(generator, random.Random) else "NumPy"


def _state(generator: Any) -> Any:
    if isinstance(generator, random.Random):
        return generator.getstate()
    if isinstance(generator, numpy.random.Generator):
        return generator.bit_generator.state
    return generator.get_state(legacy=False)


def _restore(generator: Any) -> Callable[[Any], None]:
    if isinstance(generator, random.Random):
        return generator.setstate
    if isinstance(generator, numpy.random.Generator):
        return lambda state: setattr(generator.bit_generator, "state", state)
    return generator.set_state
