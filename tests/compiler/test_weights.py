"""Weights in narrower forms: what ``Options.weights`` stores, and how far results move."""

from __future__ import annotations

import disc
import pytest
import torch


def _model():
    torch.manual_seed(3)
    return torch.nn.Sequential(torch.nn.Linear(96, 200), torch.nn.GELU(), torch.nn.Linear(200, 40)).eval()


def _stored(weight: torch.Tensor, form: str) -> torch.Tensor:
    """A matrix [out, in] as the option stores it, in f32."""
    if form == "bf16":
        return weight.bfloat16().float()
    steps = {"int8": 127, "int4": 7}[form]
    blocks = [weight] if form == "int8" else weight.split(32, 1)
    tiny = torch.finfo(torch.float32).tiny
    scales = [(block.abs().amax(1, keepdim=True) / steps).clamp_min(tiny) for block in blocks]
    return torch.cat([(block / step).round() * step for block, step in zip(blocks, scales, strict=True)], 1)


@pytest.mark.parametrize(("form", "size"), [("bf16", 2), ("int8", 1), ("int4", 0.5 + 4 / 32)])
def test_products_read_what_is_stored(form, size):
    model = _model()
    fast = disc.optimize(model, torch.rand(5, 96), options=disc.Options(weights=form))
    stored = _model()
    with torch.no_grad():
        for layer in (stored[0], stored[2]):
            layer.weight.copy_(_stored(layer.weight, form))
        for rows in (0, 1, 2, 3, 7, 16, 33, 150):
            x = torch.randn(rows, 96)
            torch.testing.assert_close(fast(x), stored(x), rtol=2e-5, atol=2e-5)
    values = disc.report(fast).to_dict()
    # Panels hold whole vectors of columns.
    least = (96 * 200 + 200 * 40) * size
    assert least <= values["prepared_weight_bytes"] <= 2 * least
    x = torch.randn(4, 96)
    with torch.no_grad():
        assert (fast(x) - model(x)).abs().max() > 0, "the option has an effect"
        for layer in (model[0], model[2]):
            layer.weight.mul_(-2)
            stored[0 if layer is model[0] else 2].weight.mul_(-2)
        fast.refresh()
        torch.testing.assert_close(fast(x), stored(x), rtol=2e-5, atol=2e-5)


def test_special_values_stay_special():
    model = _model()
    with torch.no_grad():
        model[2].weight[0] = 0
        model[2].weight[1, 3] = float("nan")
        model[2].weight[2, 3] = float("inf")
    x = torch.rand(3, 96)
    for form in ("bf16", "int8", "int4"):
        fast = disc.optimize(model, x, options=disc.Options(weights=form))
        with torch.no_grad():
            y = fast(x)
        torch.testing.assert_close(y[:, 0], model[2].bias[0].detach().expand(3))
        assert y[:, 1].isnan().all()
        assert not y[:, 2].isfinite().any()
        assert y[:, 3:].isfinite().all()


@pytest.mark.parametrize("depth", [1, 31, 32, 33, 70, 128])
@pytest.mark.parametrize("target", [None, "x86-64-v3", "x86-64-v2"])
def test_steps_of_4_bits_at_any_depth(depth, target):
    torch.manual_seed(depth)
    model, stored = (torch.nn.Linear(depth, 1100).eval() for _ in range(2))
    with torch.no_grad():
        stored.weight.copy_(_stored(model.weight, "int4"))
        stored.bias.copy_(model.bias)
        fast = disc.optimize(model, torch.rand(5, depth), options=disc.Options(weights="int4", target=target))
        for rows in (0, 1, 2, 3, 4, 5, 14, 15, 40):
            x = torch.randn(rows, depth)
            got = fast(x)
            torch.testing.assert_close(got, stored(x), rtol=2e-5, atol=2e-5)
            bound = x.abs() @ (model.weight.abs().amax(1) / 14).expand(depth, -1) + 1e-4
            assert ((got - model(x)).abs() <= bound).all()


def test_steps_of_4_bits_of_large_and_small_rows():
    torch.manual_seed(5)
    model = torch.nn.Linear(96, 200, bias=False).eval()
    fast = disc.optimize(model, torch.rand(5, 96), options=disc.Options(weights="int4"))
    for rows in (1, 3, 30):
        x = torch.randn(rows, 96)
        for factor in (2.0**90, 2.0**-90):
            assert fast(x * factor).equal(fast(x) * factor), "powers of two are exact"


def test_a_form_that_does_not_exist_says_so():
    with pytest.raises(disc.Error, match="int3"):
        disc.optimize(_model(), torch.rand(2, 96), options=disc.Options(weights="int3"))


def test_released_weights_leave_one_copy():
    import gc
    import weakref

    def build():
        return torch.nn.Sequential(torch.nn.Linear(64, 512), torch.nn.ReLU(), torch.nn.Linear(512, 64)).eval()

    model, x = build(), torch.rand(3, 64)
    kept = disc.report(disc.optimize(model, x)).to_dict()
    fast = disc.optimize(model, x, options=disc.Options(release_weights=True))
    values = disc.report(fast).to_dict()
    matrices, biases = 2 * 64 * 512 * 4, (512 + 64) * 4
    assert values["weight_bytes"] == matrices + biases
    assert values["prepared_weight_bytes"] >= matrices
    assert values["held_weight_bytes"] == values["prepared_weight_bytes"] + biases
    assert kept["held_weight_bytes"] == kept["unreleased_weight_bytes"] == values["unreleased_weight_bytes"]
    assert values["unreleased_weight_bytes"] == values["weight_bytes"] + values["prepared_weight_bytes"]
    with torch.no_grad():
        wanted = model(x)
    alive = weakref.ref(model[0].weight)
    del model
    gc.collect()
    assert alive() is None, "nothing holds the plain matrix"
    torch.testing.assert_close(fast(x), wanted)
    for call in (fast.refresh, lambda: fast.original):
        with pytest.raises(disc.Error, match="release_weights"):
            call()


class _Quantized(torch.nn.Module):
    """A layer as quantised models write it: integers and their scales,
    multiplied where they are used.
    """

    def __init__(self, sizes, scale_dims):
        super().__init__()
        self.register_buffer("q", torch.randint(-127, 128, sizes, dtype=torch.int8))
        self.register_buffer("scale", torch.rand(scale_dims) / 64)

    def forward(self, x):
        return torch.nn.functional.linear(x, self.q.float() * self.scale)


@pytest.mark.parametrize("scale_dims", [(48, 1), (1, 1), ()])
def test_scales_of_integers_are_applied_to_sums(scale_dims):
    torch.manual_seed(1)
    model = _Quantized((48, 70), scale_dims).eval()
    fast = disc.optimize(model, torch.rand(5, 70))
    for rows in (0, 1, 3, 17):
        x = torch.randn(rows, 70)
        torch.testing.assert_close(fast(x), model(x), rtol=1e-5, atol=1e-5)
    # The panels of integers: 48 columns in whole vectors, and no matrix of f32.
    assert disc.report(fast).to_dict()["prepared_weight_bytes"] <= 70 * 64 + 256
