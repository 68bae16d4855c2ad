"""The rules of devices: names, the device of a module, precision and autocast."""

from __future__ import annotations

import disc
import pytest
import torch
from disc.torch.cache.fingerprint import fingerprint
from disc.torch.devices import autocast_state
from disc.torch.devices.device import HOST, device_of, device_of_module, name_of, placed
from disc.torch.devices.float_rules import FloatRules, float_rules
from fake_cuda import on_cuda

CUDA = torch.device("cuda", 0)


def test_names(monkeypatch):
    assert name_of(HOST) == "cpu"
    assert name_of(torch.device("cuda", 1)) == "cuda:1"
    monkeypatch.setattr(torch.version, "hip", "6.2")
    assert name_of(torch.device("cuda", 1)) == "hip:1"


def test_a_device_without_an_index_is_the_current_one(monkeypatch):
    monkeypatch.setattr(torch.cuda, "is_available", lambda: True)
    monkeypatch.setattr(torch.cuda, "current_device", lambda: 3)
    assert name_of(torch.device("cuda")) == "cuda:3"


def test_the_device_is_that_of_weights_then_of_inputs():
    x = torch.randn(2, 4)
    assert device_of_module(torch.nn.Linear(4, 4), ["x"], [x]) == HOST
    assert device_of_module(on_cuda(torch.nn.Linear(4, 4)), ["x"], on_cuda([x])) == CUDA
    assert device_of_module(torch.nn.ReLU(), ["x"], on_cuda([x])) == CUDA
    assert device_of_module(torch.nn.ReLU()) == HOST


def test_scalars_of_the_host_go_with_any_device():
    k, x = torch.tensor(1.0), on_cuda(torch.randn(2))
    assert device_of([("k", k), ("x", x)]) == CUDA
    assert device_of([("k", k)]) == HOST
    with pytest.raises(disc.Error, match=r"k is on cpu, and x is on cuda:0"):
        device_of([("k", k[None]), ("x", x)])
    with pytest.raises(disc.Error, match=r"x is on cpu, and k is on cuda:0"):
        device_of([("x", torch.randn(2)), ("k", on_cuda(k))])


def test_lazy_weights_are_on_their_device():
    assert device_of_module(torch.nn.LazyLinear(4)) == HOST


def test_other_types_of_devices_are_named():
    with pytest.raises(disc.Error, match="x is on meta, and disc compiles for CPUs and CUDA devices"):
        device_of([("x", torch.empty(2, device="meta"))])


def test_code_is_placed_where_the_tensors_are():
    options = disc.Options()
    assert placed(options, HOST) is options
    assert placed(options, CUDA).device == "cuda:0"
    copied = disc.Options(device="simt:sm_90")
    assert placed(copied, HOST) is copied
    with pytest.raises(disc.Error, match=r"the module is on cuda:0, and Options.device is 'simt:sm_90'"):
        placed(copied, CUDA)


@pytest.fixture
def rules():
    """Puts torch's rules back."""
    before = torch.backends.cuda.matmul.allow_tf32
    yield
    torch.backends.cuda.matmul.allow_tf32 = before


@pytest.mark.usefixtures("rules")
def test_the_precision_of_products_is_torchs_rule():
    with torch.backends.cudnn.flags(allow_tf32=True):
        assert float_rules() == FloatRules(matmul="ieee", convolution="tf32", recurrent="tf32")
    torch.backends.cuda.matmul.allow_tf32 = True
    with torch.backends.cudnn.flags(allow_tf32=False):
        assert float_rules() == FloatRules(matmul="tf32", convolution="ieee", recurrent="ieee")


@pytest.mark.usefixtures("rules")
def test_a_capture_belongs_to_its_rules():
    module = torch.nn.Linear(4, 3)
    before = fingerprint(module=module)
    assert fingerprint(module=module) == before
    torch.backends.cuda.matmul.allow_tf32 = True
    assert fingerprint(module=module) != before


@pytest.mark.skipif(
    not hasattr(torch.backends.cuda.matmul, "fp32_precision"), reason="torch has the flag alone"
)
@pytest.mark.usefixtures("rules")
def test_rules_for_each_device_are_read_too():
    before = torch.backends.cuda.matmul.fp32_precision
    torch.backends.cuda.matmul.fp32_precision = "tf32"
    try:
        assert float_rules().matmul == "tf32"
        # torch gives no common value then.
        fingerprint(module=torch.nn.Linear(4, 3))
    finally:
        torch.backends.cuda.matmul.fp32_precision = before


def test_autocast_is_kept_switched_off_and_brought_back():
    assert autocast_state.current() == ()
    with torch.autocast("cpu", dtype=torch.float16):
        outer = autocast_state.current()
        assert outer == (("cpu", torch.float16),)
        with autocast_state.off():
            assert autocast_state.current() == ()
            assert torch.mm(torch.ones(2, 2), torch.ones(2, 2)).dtype is torch.float32
        with autocast_state.restored((("cuda", torch.bfloat16),)):
            assert autocast_state.current() == (("cuda", torch.bfloat16),)
        assert autocast_state.current() == outer
    assert autocast_state.current() == ()
    assert torch.get_autocast_dtype("cuda") is torch.float16
