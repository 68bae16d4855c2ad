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
    step = (weight.abs().amax(1, keepdim=True) / 127).clamp_min(torch.finfo(torch.float32).tiny)
    return (weight / step).round() * step


@pytest.mark.parametrize(("form", "size"), [("bf16", 2), ("int8", 1)])
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
    for form in ("bf16", "int8"):
        fast = disc.optimize(model, x, options=disc.Options(weights=form))
        with torch.no_grad():
            y = fast(x)
        torch.testing.assert_close(y[:, 0], model[2].bias[0].detach().expand(3))
        assert y[:, 1].isnan().all()
        assert not y[:, 2].isfinite().any()
        assert y[:, 3:].isfinite().all()


def test_a_form_that_does_not_exist_yet_says_so():
    with pytest.raises(disc.Error, match="not available") as caught:
        disc.optimize(_model(), torch.rand(2, 96), options=disc.Options(weights="int4"))
    assert caught.value.code == "E0801"


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
