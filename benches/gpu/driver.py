"""Launches a kernel that does nothing through CUDA's driver, for the cost of a launch itself.

It needs no compiler: the kernel is text of PTX, which the driver assembles. The context is the one
that torch made current.
"""

from __future__ import annotations

import ctypes
import time

import torch

_PTX = b""".version 7.0
.target sm_70
.address_size 64
.visible .entry nothing() { ret; }
"""


class NullKernel:
    """One block of one thread; raises OSError or RuntimeError if the driver refuses it."""

    def __init__(self):
        torch.zeros(1, device="cuda")
        self._cuda = ctypes.CDLL("libcuda.so.1")
        module, self._function = ctypes.c_void_p(), ctypes.c_void_p()
        self._checked(self._cuda.cuModuleLoadData(ctypes.byref(module), ctypes.c_char_p(_PTX)))
        self._checked(
            self._cuda.cuModuleGetFunction(ctypes.byref(self._function), module, ctypes.c_char_p(b"nothing"))
        )

    @staticmethod
    def _checked(status: int) -> None:
        if status:
            raise RuntimeError(f"the CUDA driver answers with error {status}")

    def launch(self, count: int) -> None:
        """Launches the kernel ``count`` times on torch's current stream."""
        launch, function = self._cuda.cuLaunchKernel, self._function
        stream, none = ctypes.c_void_p(torch.cuda.current_stream().cuda_stream), ctypes.c_void_p()
        for _ in range(count):
            self._checked(launch(function, 1, 1, 1, 1, 1, 1, 0, stream, none, none))

    def call_overhead(self, count: int) -> float:
        """Seconds that a call from Python to the driver takes by itself."""
        version, out = self._cuda.cuDriverGetVersion, ctypes.byref(ctypes.c_int())
        start = time.perf_counter()
        for _ in range(count):
            version(out)
        return (time.perf_counter() - start) / count
