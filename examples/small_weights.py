"""Keeps weights in bf16, int8 or int4, and shows what each form saves and costs in accuracy."""

import disc
import torch
from torch import nn

torch.manual_seed(0)
model = nn.Sequential(
    nn.Linear(512, 1024), nn.GELU(), nn.Linear(1024, 1024), nn.GELU(), nn.Linear(1024, 64)
).eval()
example, x = torch.randn(3, 512), torch.randn(40, 512)

#: The form of the weights, and the largest relative error that this example accepts.
FORMS = {"exact": 1e-5, "bf16": 1e-2, "int8": 2e-2, "int4": 3e-1}

with torch.no_grad():
    expected = model(x)
    for form, most in FORMS.items():
        fast = disc.optimize(model, example, options=disc.Options(weights=form))
        error = ((fast(x) - expected).abs().max() / expected.abs().max()).item()
        report = disc.report(fast).to_dict()
        megabytes = report["prepared_weight_bytes"] / 1e6
        print(f"{form:5}: {megabytes:5.2f} MB of prepared weights, largest relative error {error:.1e}")
        assert error < most
        assert report["coverage"] == 1.0
