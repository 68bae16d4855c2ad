"""Calls of modules on a CUDA device, by the stand-in of ``fake_cuda``: guards, written tensors,
caches, ops that torch runs, and no read of the device's memory by the host.
"""

from __future__ import annotations

import copy

import disc
import pytest
import torch
from fake_cuda import OnCuda, no_reads, off_cuda, on_cuda
from test_cuda_programs import Of

STRICT = disc.Options(fallback="error")
LOOSE = disc.Options(fallback="framework")


def compared(module, make, sizes, options=STRICT):
    """Compiles a module on the device, and compares its calls with those of the module on the CPU:
    results, inputs and buffers.
    """
    module = module.eval()
    there = on_cuda(copy.deepcopy(module))
    with torch.no_grad():
        fast = disc.optimize(there, on_cuda(make(*sizes[0])), options=options)
        for size in sizes:
            args = make(*size)
            given = on_cuda(copy.deepcopy(args))
            with no_reads():
                found = fast(*given)
            torch.testing.assert_close(off_cuda(found), module(*args), atol=1e-5, rtol=1e-4)
            torch.testing.assert_close(off_cuda(given), args)
            buffers = [off_cuda(t) for t in there.buffers()]
            torch.testing.assert_close(buffers, list(module.buffers()))
    return fast


def fallbacks(fast) -> list[tuple[str, str]]:
    return [(row["op"], row["reason"]) for row in disc.report(fast).to_dict()["fallbacks"]]


def linear() -> torch.nn.Module:
    return on_cuda(torch.nn.Linear(4, 3).eval())


# The device.


def test_code_is_for_the_device_of_the_module(cuda):
    compared(torch.nn.Linear(4, 3), lambda n: (torch.randn(n, 4),), [(3,), (1,), (7,)])
    assert [options.device for options in cuda] == ["cuda:0"]


def test_a_module_without_weights_has_the_device_of_the_example(cuda):
    compared(Of(lambda x: x.exp() * 2), lambda n: (torch.randn(n, 4),), [(3,), (1,)])
    assert [options.device for options in cuda] == ["cuda:0"]


def test_a_tensor_elsewhere_is_named(cuda):
    fast = disc.optimize(linear(), on_cuda(torch.randn(2, 4)), options=STRICT)
    with pytest.raises(
        disc.Error, match="input input: got a tensor on cpu; the module was compiled for cuda:0"
    ):
        fast(torch.randn(2, 4))
    with pytest.raises(disc.Error, match="got a tensor on cuda:1; the module was compiled for cuda:0"):
        fast(on_cuda(torch.randn(2, 4), "cuda:1"))
    assert fast(on_cuda(torch.randn(2, 4))).shape == (2, 3)


def test_a_module_on_the_cpu_refuses_a_tensor_of_the_device(cuda):
    fast = disc.optimize(torch.nn.Linear(4, 3).eval(), torch.randn(2, 4), options=STRICT)
    with pytest.raises(disc.Error, match="got a tensor on cuda:0; the module was compiled for cpu"):
        fast(on_cuda(torch.randn(2, 4)))


@pytest.mark.fallback
def test_tensors_of_several_devices_are_named(cuda):
    module, x = linear(), torch.randn(2, 4)
    with pytest.raises(disc.Error, match="weight weight is on cuda:0, and input input is on cpu"):
        disc.optimize(module, x, options=STRICT)
    fast = disc.optimize(module, x, options=LOOSE)
    assert [op for op, _ in fallbacks(fast)] == ["module"]
    module._parameters["bias"] = on_cuda(module.bias, "cuda:1")
    with pytest.raises(disc.Error, match="weight weight is on cuda:0, and weight bias is on cuda:1"):
        disc.optimize(module, on_cuda(x), options=STRICT)


@pytest.mark.fallback
def test_a_device_that_disc_lacks_is_torchs(cuda):
    module, x = on_cuda(torch.nn.Linear(4, 3).eval(), "cuda:1"), on_cuda(torch.randn(2, 4), "cuda:1")
    reason = "the module is on cuda:1, and compiled code can run here on cpu, cuda:0 alone"
    with pytest.raises(disc.Error, match=reason):
        disc.optimize(module, x, options=STRICT)
    with torch.no_grad():
        fast = disc.optimize(module, x, options=LOOSE)
        assert fast(x).shape == (2, 3)
    assert fallbacks(fast) == [("module", reason)]


def test_an_option_that_contradicts_the_module_is_an_error(cuda):
    x = on_cuda(torch.randn(2, 4))
    for name in ("simt:sm_90", "cpu", "cuda:1"):
        with pytest.raises(disc.Error, match=f"Options.device is '{name}', which does not read its memory"):
            disc.optimize(linear(), x, options=disc.Options(device=name, fallback="framework"))
    disc.optimize(linear(), x, options=disc.Options(device="cuda:0", fallback="error"))


def test_no_package_is_made_of_it(cuda):
    fast = disc.optimize(linear(), on_cuda(torch.randn(2, 4)))
    for write in (lambda: disc.save(fast), lambda: disc.export(linear(), on_cuda(torch.randn(2, 4)))):
        with pytest.raises(disc.Error, match="the module is on cuda:0, and a package holds"):
            write()


def test_a_scalar_of_the_host_is_an_input(cuda):
    module, x, k = Of(lambda x, k: x * k), torch.randn(3), torch.tensor(2.5)
    fast = disc.optimize(module, (on_cuda(x), k), options=LOOSE)
    with no_reads():
        found = fast(on_cuda(x), k)
    torch.testing.assert_close(found.inner, x * k)
    torch.testing.assert_close(fast(on_cuda(x), torch.tensor(0.5)).inner, x * 0.5)
    torch.testing.assert_close(fast(on_cuda(x), on_cuda(k)).inner, x * k)


# What torch runs.


@pytest.mark.fallback
def test_random_numbers_of_the_device_are_torchs(cuda):
    def noisy(x):
        y = (x @ x.T).relu()
        return (y + torch.rand_like(y) * 0).exp() * 2 + y.sin().cos()

    fast = compared(Of(noisy), lambda n: (torch.randn(n, 4),), [(3,), (5,)], LOOSE)
    assert fallbacks(fast) == [("aten.rand_like.default", "torch draws random numbers")]
    assert disc.report(fast).to_dict()["clusters"] == 2


@pytest.mark.fallback
def test_a_move_to_the_host_is_torchs(cuda):
    def both(x):
        y = (x @ x.T).relu()
        return y.exp() * 2 + y, y.cpu() + 1

    module, x = Of(both), torch.randn(3, 4)
    fast = disc.optimize(module, on_cuda((x,)), options=LOOSE)
    there, here = fast(on_cuda(x))
    assert isinstance(there, OnCuda)
    assert type(here) is torch.Tensor
    torch.testing.assert_close((there.inner, here), module(x))
    assert [reason for _, reason in fallbacks(fast)] == ["it moves a tensor to cpu", "it computes on cpu"]


@pytest.mark.fallback
def test_a_move_from_the_host_is_torchs(cuda):
    def back(x):
        y = (x @ x.T).relu()
        return ((y.cpu() * 2).to(x.device) + y).exp()

    fast = disc.optimize(Of(back), on_cuda((torch.randn(3, 4),)), options=LOOSE)
    reasons = [reason for _, reason in fallbacks(fast)]
    assert reasons == ["it moves a tensor to cpu", "it computes on cpu", "it moves a tensor from cpu"]


@pytest.mark.fallback
def test_a_result_on_the_host_is_torchs(cuda):
    def counted(x):
        places = torch.arange(x.shape[0])
        return (x @ x.T).exp() * 2 + places.to(x.device), places + 1

    fast = disc.optimize(Of(counted), on_cuda((torch.randn(3, 4),)), options=LOOSE)
    assert dict(fallbacks(fast)) == {
        "aten.add.Tensor": "it computes on cpu",
        "aten.arange.default": "it computes on cpu",
        "aten.to.dtype_layout": "it moves a tensor from cpu",
    }


@pytest.mark.fallback
def test_random_numbers_of_the_host_stay_there(cuda):
    def noisy(x):
        places = torch.arange(x.shape[0], dtype=torch.float32)
        drawn = torch.rand_like(places + 1)
        return (x @ x.T).exp() * 2 + drawn.to(x.device), (x @ x.T).sin() + (places * 3).to(x.device)

    fast = disc.optimize(Of(noisy), on_cuda((torch.randn(3, 4),)), options=LOOSE)
    assert dict(fallbacks(fast)) == {
        "aten.arange.default": "it computes on cpu",
        "aten.add.Tensor": "it computes on cpu",
        "aten.rand_like.default": "torch draws random numbers",
        "aten.mul.Tensor": "it computes on cpu",
        "aten.to.dtype_layout": "it moves a tensor from cpu",
    }


@pytest.mark.fallback
def test_a_constant_of_the_host_that_is_returned_stays_there(cuda):
    held = torch.arange(3)
    fast = disc.optimize(
        Of(lambda x: ((x @ x.T).exp() * 2 + x.sum(), held)), on_cuda((torch.randn(3, 4),)), options=LOOSE
    )
    _, found = fast(on_cuda(torch.randn(2, 4)))
    assert type(found) is torch.Tensor
    assert torch.equal(found, held)


# State, sizes, caches.


class Counter(torch.nn.Module):
    """Writes to a buffer and to its input."""

    def __init__(self):
        super().__init__()
        self.register_buffer("seen", torch.zeros(3))

    def forward(self, x):
        self.seen += x.sum(0)
        x.mul_(2)
        return self.seen * 2


def test_written_tensors(cuda):
    compared(Counter(), lambda n: (torch.randn(n, 3),), [(2,), (1,), (5,)])


def test_a_written_tensor_with_strides(cuda):
    fast, other = disc.optimize(on_cuda(Counter()), on_cuda((torch.ones(2, 3),))), Counter()
    held = torch.randn(3, 4)
    given = on_cuda(held.clone())
    with no_reads():
        found = fast(given.T)
    torch.testing.assert_close(found.inner, other(held.T))
    torch.testing.assert_close(given.inner, held)


def test_numbers_of_sizes_are_computed_by_the_host(cuda):
    compared(
        Of(lambda x: (x * 2, x.shape[0] * x.shape[1] + 1, x.shape[0] / 2, x.shape[0] > 2)),
        lambda n: (torch.randn(n, 4),),
        [(3,), (5,)],
    )


@pytest.mark.parametrize("kind", ["growing", "static"])
@pytest.mark.fallback
def test_caches(cuda, kind):
    transformers = pytest.importorskip("transformers")
    config = transformers.GPT2Config(vocab_size=100, n_embd=32, n_layer=2, n_head=2, n_positions=64)
    config.eos_token_id = config.bos_token_id = None
    model = transformers.GPT2LMHeadModel(config).eval()
    fast = disc.optimize(on_cuda(copy.deepcopy(model)), options=LOOSE)

    @torch.no_grad()
    def decoded(run, put):
        if kind == "growing":
            cache = transformers.DynamicCache(config=config)
        else:
            cache = transformers.StaticCache(config=config, max_cache_len=16)
            cache.early_initialization(1, 2, 16, torch.float32, "cpu")
            for layer in cache.layers:
                layer.keys, layer.values = put(layer.keys), put(layer.values)
                layer.device = layer.keys.device
        tokens, places, logits = torch.arange(5)[None], torch.arange(5), []
        for step in range(4):
            given = {"past_key_values": cache, "cache_position": put(places), "use_cache": True}
            if run is fast and step > 1:
                with no_reads():
                    out = run(put(tokens), **given)
            else:
                out = run(put(tokens), **given)
            logits.append(off_cuda(out.logits))
            tokens, places = (places[-1:] + 7 + step)[None], places[-1:] + 1
        return logits, [off_cuda(layer.keys) for layer in cache.layers]

    torch.testing.assert_close(decoded(fast, on_cuda), decoded(model, lambda t: t), atol=1e-4, rtol=1e-4)
    assert fallbacks(fast) == []


def test_weights_that_move_are_copied_first(cuda):
    module = linear()
    x = on_cuda(torch.randn(2, 4))
    fast = disc.optimize(module, x)
    before = fast(x).inner
    module.weight.inner.untyped_storage().share_memory_()
    torch.testing.assert_close(fast(x).inner, before)


def test_a_copy_takes_the_program_up(cuda):
    fast = disc.optimize(linear(), on_cuda(torch.randn(2, 4)))
    other, x = copy.deepcopy(fast), on_cuda(torch.randn(5, 4))
    torch.testing.assert_close(other(x).inner, fast(x).inner)
    assert len(cuda) == 1


@torch.no_grad()
def test_check(cuda):
    fast = disc.optimize(linear(), on_cuda(torch.randn(2, 4)))
    assert disc.check(fast, on_cuda(torch.randn(5, 4)))


def test_a_capture_on_disk_belongs_to_the_device(cuda, folder):
    def capture_of(module, x):
        fast = disc.optimize(module, x)
        with torch.no_grad():
            torch.testing.assert_close(off_cuda(fast(x)), off_cuda(module(x)))
        return disc.report(fast).to_dict()["cache"]["capture"]

    torch.manual_seed(0)
    module, x = torch.nn.Linear(4, 3).eval(), torch.randn(2, 4)
    assert capture_of(module, x) == "miss"
    there = on_cuda(copy.deepcopy(module))
    assert capture_of(there, on_cuda(x)) == "miss"
    assert capture_of(copy.deepcopy(there), on_cuda(x)) == "hit"
    assert capture_of(module, x) == "hit"


def test_weights_that_went_elsewhere_are_named(cuda):
    module = linear()
    fast = disc.optimize(module, on_cuda(torch.randn(2, 4)), options=disc.Options(watch="off"))
    on_cuda(module, "cuda:1")
    with pytest.raises(disc.Error, match="weight weight moved from cuda:0 to cuda:1"):
        fast.refresh()
