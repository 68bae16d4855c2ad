"""The state of the process while a module is traced, and its restoration.

Invariant: after each scope everything is as it was before, whatever the module did or raised.
"""

from __future__ import annotations

import contextlib

import torch


@contextlib.contextmanager
def as_exporting():
    """Models ask whether they are exported, and then avoid what depends on values; torch chooses no library by sizes."""
    compiler, backends = torch.compiler, torch.backends
    before = compiler._is_compiling_flag, compiler._is_exporting_flag
    mkldnn, nnpack = backends.mkldnn.set_flags(False), backends.nnpack.set_flags(False)
    compiler._is_compiling_flag = compiler._is_exporting_flag = True
    try:
        yield
    finally:
        compiler._is_compiling_flag, compiler._is_exporting_flag = before
        backends.mkldnn.set_flags(*mkldnn)
        backends.nnpack.set_flags(*nnpack)
