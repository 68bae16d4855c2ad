"""Classifies images of any height and width with one compiled ResNet."""

import disc
import torch
from transformers import ResNetConfig, ResNetForImageClassification

torch.manual_seed(0)
config = ResNetConfig(
    embedding_size=16, hidden_sizes=[16, 32, 48, 64], depths=[1, 1, 1, 1], layer_type="basic", num_labels=10
)
model = ResNetForImageClassification(config).eval()
fast = disc.optimize(model, torch.rand(1, 3, 64, 64))

with torch.no_grad():
    for batch, height, width in ((1, 64, 64), (4, 224, 224), (2, 97, 301), (1, 33, 50), (8, 48, 64)):
        images = torch.rand(batch, 3, height, width)
        logits = fast(images).logits
        torch.testing.assert_close(logits, model(images).logits, atol=1e-4, rtol=1e-4)
        print(f"{batch} image(s) of {height:3} by {width:3}: classes {logits.argmax(-1).tolist()}")

    # Memory in the order of a camera, channels last, needs no other compilation.
    images = torch.rand(2, 3, 120, 80).contiguous(memory_format=torch.channels_last)
    torch.testing.assert_close(fast(images).logits, model(images).logits, atol=1e-4, rtol=1e-4)

report = disc.report(fast).to_dict()
# A compilation, or one that an earlier run left on disk.
assert report["compiles"] + report["cache_hits"] == 1
assert report["coverage"] == 1.0
print(f"one compilation, {report['kernels']} kernels a call: {report['kernels_by_kind']}")
