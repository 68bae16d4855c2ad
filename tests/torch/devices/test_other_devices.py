"""Modules on a GPU: compiled for it where disc has the device, else run by PyTorch."""

from __future__ import annotations

import copy

import disc
import pytest
import torch
import torch._dynamo

#: The tests of this folder are strict by default.
LOOSE = disc.Options(fallback="framework")
on_a_gpu = pytest.mark.skipif(not torch.cuda.is_available(), reason="there is no GPU")


@pytest.fixture
def module() -> torch.nn.Module:
    torch.manual_seed(0)
    return torch.nn.Sequential(torch.nn.Linear(8, 16), torch.nn.GELU(), torch.nn.LayerNorm(16)).eval()


def _agrees(found: torch.Tensor, expected: torch.Tensor) -> None:
    assert found.device == expected.device
    torch.testing.assert_close(found, expected)


def _is_known() -> bool:
    return "cuda:0" in disc.devices()


@on_a_gpu
@torch.no_grad()
def test_a_module_on_a_gpu_is_compiled_for_it_or_torchs(module):
    module.cuda()
    x = torch.randn(3, 8, device="cuda")
    for fast in (disc.optimize(module, options=LOOSE), disc.optimize(module, x, options=LOOSE)):
        _agrees(fast(x), module(x))
        _agrees(fast(x[:1]), module(x[:1]))
        rows = disc.report(fast).to_dict()["fallbacks"]
        assert rows == [] if _is_known() else rows[0]["reason"]


@on_a_gpu
@torch.no_grad()
def test_a_compiled_module_may_move_to_a_gpu_and_back(module):
    original = copy.deepcopy(module)
    fast = disc.optimize(module, torch.randn(3, 8), options=LOOSE)
    x = torch.randn(5, 8)
    _agrees(fast(x), original(x))
    fast.cuda()
    _agrees(fast(x.cuda()), original.cuda()(x.cuda()))
    fast.cpu()
    _agrees(fast(x), original.cpu()(x))


@on_a_gpu
@torch.no_grad()
def test_the_backend_serves_a_graph_on_a_gpu(module):
    torch._dynamo.reset()
    module.cuda()
    compiled = torch.compile(module, backend="disc", dynamic=True)
    for rows in (3, 5, 1):
        x = torch.randn(rows, 8, device="cuda")
        _agrees(compiled(x), module(x))


@on_a_gpu
@torch.no_grad()
def test_a_graph_on_both_devices_is_as_eager(module):
    torch._dynamo.reset()

    def both(x):
        return torch.relu(x.cuda() @ x.cuda().T).cpu() + x.sum()

    x = torch.randn(4, 8)
    compiled = torch.compile(both, backend="disc", dynamic=True)
    torch.testing.assert_close(compiled(x), both(x), atol=1e-4, rtol=1e-4)


@on_a_gpu
@torch.no_grad()
def test_a_package_reads_no_memory_of_a_gpu(module):
    package = disc.load(disc.export(module, (torch.randn(3, 8),)))
    x = torch.randn(2, 8)
    _agrees(package(x), module(x))
    with pytest.raises(disc.Error, match=r"cuda|device"):
        package(x.cuda())


def test_a_module_on_another_device_is_torchs():
    module = torch.nn.Linear(4, 3).to("meta")
    x = torch.ones(2, 4, device="meta")
    for fast in (disc.optimize(module, options=LOOSE), disc.optimize(module, x, options=LOOSE)):
        assert fast(x).shape == (2, 3)
        reasons = [row["reason"] for row in disc.report(fast).to_dict()["fallbacks"]]
        assert any("weight is on meta" in reason for reason in reasons), reasons
    with pytest.raises(disc.Error, match="weight is on meta"):
        disc.optimize(module, x, options=disc.Options(fallback="error"))
    with pytest.raises(disc.Error, match="weight is on meta"):
        disc.export(module, (x,))
