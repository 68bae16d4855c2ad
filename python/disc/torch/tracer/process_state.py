"""Answers of torch about itself while a module is traced: models ask whether they are compiled or exported."""

from __future__ import annotations

import torch

from ..overrides.registry import Override, register


def _is_compiling() -> bool:
    import torch

    from disc.torch.overrides.registry import is_active, is_active_elsewhere

    if torch.jit.is_scripting():
        return False
    # torch.export sets the flag for all threads.
    return is_active("trace") or (torch.compiler._is_compiling_flag and not is_active_elsewhere("export"))


def _is_exporting() -> bool:
    import torch

    from disc.torch.overrides.registry import is_active, is_active_elsewhere

    return is_active("trace") or (torch.compiler._is_exporting_flag and not is_active_elsewhere("export"))


def _select_conv_backend(*args, **kwargs):
    # One that no size decides; all of them lay out their results in the same way.
    rank = (kwargs["weight"] if "weight" in kwargs else args[1]).dim()
    return torch._C._ConvBackend.Slow3d if rank == 5 else torch._C._ConvBackend.Slow2d


_MODELS_ASK = "models avoid what depends on values when they are exported"
register(
    (
        Override(torch.compiler.is_compiling, "__code__", _is_compiling, _MODELS_ASK, scope="trace"),
        Override(torch.compiler.is_exporting, "__code__", _is_exporting, _MODELS_ASK, scope="trace"),
        Override(
            torch._C,
            "_select_conv_backend",
            _select_conv_backend,
            "torch chooses a library by sizes",
            scope="trace",
        ),
    )
)
