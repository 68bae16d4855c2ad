"""A stand-in for a CUDA device: tensors that say they are on one, and hold memory of the host.

torch traces and dispatches as for the device, and nothing reads a value without being noticed. What
disc compiles for ``cuda:N`` runs on the device ``simt:sm_90``.

Not here: streams, and anything else that only a driver shows.
"""

from __future__ import annotations

import contextlib
import dataclasses
import sys

import disc
import pytest
import torch
from disc.core import extension
from torch.utils import _pytree as pytree

SIMT = "simt:sm_90"
aten = torch.ops.aten


class OnCuda(torch.Tensor):
    """A tensor on ``cuda:N`` whose elements are those of ``inner``, on the host."""

    @staticmethod
    def __new__(cls, inner: torch.Tensor, device="cuda:0"):
        made = torch.Tensor._make_wrapper_subclass(
            cls, inner.shape, strides=inner.stride(), storage_offset=inner.storage_offset(),
            dtype=inner.dtype, device=device,
        )  # fmt: skip
        made.inner = inner
        return made

    __torch_function__ = torch._C._disabled_torch_function_impl

    def untyped_storage(self):
        return self.inner.untyped_storage()

    def __repr__(self, **_):
        return f"OnCuda({self.inner!r}, device={self.device})"

    @classmethod
    def __torch_dispatch__(cls, func, types, args=(), kwargs=None):
        kwargs = dict(kwargs or {})
        held = [x for x in pytree.tree_leaves((args, kwargs)) if isinstance(x, cls)]
        device = kwargs.get("device")
        if func is aten.detach.default:
            return cls(args[0].inner.detach(), args[0].device)
        if func in (aten._local_scalar_dense.default, aten.is_nonzero.default, aten.equal.default):
            Reads.note(func)
        goes_to = held[0].device if device is None and held else torch.device(device or "cpu")
        if func is aten._to_copy.default and goes_to.type == "cpu":
            Reads.note(func)
        if func is aten.copy_.default and not isinstance(args[0], cls):
            Reads.note(func)
        if device is not None:
            kwargs["device"] = "cpu"
        inside = pytree.tree_map_only(cls, lambda t: t.inner, (args, kwargs))
        out = func(*inside[0], **inside[1])
        written = args[0] if func._schema.is_mutable and isinstance(args[0], cls) else None
        if written is not None and out is written.inner:
            return written
        if goes_to.type == "cpu" or (func is aten.copy_.default and not isinstance(args[0], cls)):
            return out
        return pytree.tree_map_only(torch.Tensor, lambda t: cls(t, goes_to), out)


class Reads:
    """Notes reads of values by the host."""

    seen: list[str] | None = None

    @classmethod
    def note(cls, func) -> None:
        if cls.seen is not None:
            cls.seen.append(str(func))


@contextlib.contextmanager
def no_reads():
    """Fails if the host reads a tensor of the device inside: a GPU would be waited for."""
    Reads.seen = []
    try:
        yield
        assert Reads.seen == []
    finally:
        Reads.seen = None


def on_cuda(x, device="cuda:0"):
    """Tensors, structures of tensors, or a module (in place), on the device."""
    if isinstance(x, torch.nn.Module):
        for module in x.modules():
            for table in (module._parameters, module._buffers):
                for name, t in table.items():
                    if t is not None:
                        table[name] = OnCuda(off_cuda(t).detach().clone(), device)
        return x
    return pytree.tree_map_only(torch.Tensor, lambda t: OnCuda(off_cuda(t), device), x)


def off_cuda(x):
    """The elements, on the host."""
    return pytree.tree_map_only(OnCuda, lambda t: t.inner, x)


class _Executable:
    """An executable for ``cuda:N``, which takes and gives tensors on it."""

    def __init__(self, inner, device: str):
        self._inner = inner
        self.device = device

    def __getattr__(self, name):
        return getattr(self._inner, name)

    def run(self, inputs):
        for t in inputs:
            if isinstance(t, torch.Tensor) and not isinstance(t, OnCuda) and t.dim():
                raise disc.Error(f"a tensor is on {t.device}, expected {self.device}")
            if isinstance(t, OnCuda) and str(t.device) != self.device:
                raise disc.Error(f"a tensor is on {t.device}, expected {self.device}")
        outputs = self._inner.run([off_cuda(t) for t in inputs])
        return [OnCuda(t, self.device) for t in outputs]

    def set_weights(self, weights):
        self._inner.set_weights([(name, off_cuda(t)) for name, t in weights])


class _Artifact:
    def __init__(self, inner, device: str):
        self._inner = inner
        self._device = device

    def __getattr__(self, name):
        return getattr(self._inner, name)

    def load(self, weights, **named):
        weights = [(name, off_cuda(t)) for name, t in weights]
        return _Executable(self._inner.load(weights, **named), self._device)


def install(monkeypatch: pytest.MonkeyPatch) -> list[disc.Options]:
    """Has disc know the device ``cuda:0``; the list gets the options of each compilation."""
    compiled = []
    compile_function, devices = extension.compile_function, extension.devices()

    def compiles(source, options, threads, cache=None, first=None):
        compiled.append(options)
        if options.device is None or not options.device.startswith("cuda"):
            return compile_function(source, options, threads, cache, first)
        there = dataclasses.replace(options, device=SIMT)
        return _Artifact(compile_function(source, there, threads, cache, first), options.device)

    monkeypatch.setattr(extension, "compile_function", compiles)
    monkeypatch.setattr(extension, "devices", lambda: [*devices, "cuda:0"])
    monkeypatch.setattr(extension, "check_runs", lambda options: None)
    import disc.torch.compile.backend
    import disc.torch.module.optimize  # noqa: F401

    for name, module in list(sys.modules.items()):
        if (
            name.startswith("disc.torch")
            and isinstance(plain := getattr(module, "PLAIN", None), (tuple, frozenset))
            and torch.Tensor in plain
        ):
            monkeypatch.setattr(module, "PLAIN", type(plain)((*plain, OnCuda)))
    return compiled
