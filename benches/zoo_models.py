"""The models that ``benches/zoo.py`` runs: small ones of transformers, timm and torchvision, with
random weights, and three calls of each.
"""

from __future__ import annotations

import functools
import inspect
from collections.abc import Callable
from dataclasses import dataclass

import architecture_models as known
import torch
import zoo_transformers
import zoo_vision

#: Of the twenty calls of a model of tests/support/architecture_models.py, those that are run here.
PICKED, PICKED_IMAGES = (0, 4, 7), (0, 5, 6)


@dataclass(frozen=True)
class Entry:
    """A model of a library and three calls, by the names of its arguments."""

    library: str
    build: Callable[[], torch.nn.Module]
    #: The calls of a model that was built.
    calls: Callable[[torch.nn.Module], list[dict]]


def _known(architecture: known.Architecture) -> Entry:
    picked = PICKED_IMAGES if architecture.kind == "vision" else PICKED

    def calls(_):
        all_of_them = architecture.calls()
        return [all_of_them[i] for i in picked]

    return Entry("transformers", architecture.build, calls)


def _of_transformers(name: str, fields: dict, calls) -> Entry:
    return Entry("transformers", functools.partial(known.model, name, **fields), lambda _: calls())


def _argument(module: torch.nn.Module) -> str:
    """The name of the first argument of ``forward``."""
    return next(iter(inspect.signature(module.forward).parameters))


def _any(library: str, build) -> Entry:
    return Entry(library, build, lambda module: zoo_vision.images(_argument(module)))


def _fixed(library: str, size: int, build) -> Entry:
    return Entry(library, build, lambda module: zoo_vision.batches(_argument(module), size))


def _vision() -> dict[str, Entry]:
    z, tv = zoo_vision, "torchvision"
    return {
        **{name: _any("timm", build) for name, build in z.TIMM_ANY.items()},
        **{name: _fixed("timm", *entry) for name, entry in z.TIMM_FIXED.items()},
        **{f"{tv} {name}": _any(tv, build) for name, build in z.TORCHVISION_ANY.items()},
        **{f"{tv} {name}": _fixed(tv, *entry) for name, entry in z.TORCHVISION_FIXED.items()},
        **{
            f"{tv} {name}": Entry(tv, build, lambda _: z.videos())
            for name, build in z.TORCHVISION_VIDEO.items()
        },
        **{
            f"{tv} {name}": Entry(tv, build, lambda _: z.lists())
            for name, build in z.TORCHVISION_LISTS.items()
        },
    }


MODELS: dict[str, Entry] = {
    **{name: _known(entry) for name, entry in known.MODELS.items()},
    **{name: _of_transformers(*entry) for name, entry in zoo_transformers.MODELS.items()},
    **_vision(),
}
