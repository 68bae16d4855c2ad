"""Answers of torch about itself while a module is traced:
models ask whether they are compiled or exported.
"""

from __future__ import annotations

import contextlib
from collections.abc import Iterable

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


@contextlib.contextmanager
def without_libraries(tensors: Iterable[torch.Tensor]):
    """Keeps convolutions of ``tensors`` from choosing a library by their sizes.

    The switches are the process's: torch has none for a thread. So that of cuDNN is left alone
    where no tensor is on its devices.
    """
    has_cudnn = torch._C._get_cudnn_enabled() and any(t.device.type == "cuda" for t in tensors)
    mkldnn, nnpack = torch.backends.mkldnn.set_flags(False), torch.backends.nnpack.set_flags(False)
    if has_cudnn:
        torch._C._set_cudnn_enabled(False)
    try:
        yield
    finally:
        if has_cudnn:
            torch._C._set_cudnn_enabled(True)
        torch.backends.mkldnn.set_flags(*mkldnn)
        torch.backends.nnpack.set_flags(*nnpack)


_MODELS_ASK = "models avoid what depends on values when they are exported"
register(
    (
        Override(torch.compiler.is_compiling, "__code__", _is_compiling, _MODELS_ASK, scope="trace"),
        Override(torch.compiler.is_exporting, "__code__", _is_exporting, _MODELS_ASK, scope="trace"),
    )
)
