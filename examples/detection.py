"""Detects boxes: disc compiles the network, torch runs the suppression of overlapping boxes, and
the report says so.
"""

import disc
import torch
import torchvision
from torch import nn


class Detector(nn.Module):
    """A box and a score for each cell of a map; the best boxes that do not overlap are kept."""

    def __init__(self):
        super().__init__()
        self.backbone = nn.Sequential(
            nn.Conv2d(3, 16, 3, 2, 1),
            nn.ReLU(),
            nn.Conv2d(16, 32, 3, 2, 1),
            nn.ReLU(),
            nn.Conv2d(32, 32, 3, 2, 1),
        )
        self.head = nn.Conv2d(32, 5, 1)

    def forward(self, image: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        cells = self.head(self.backbone(image))
        height, width = cells.shape[2:]
        y, x = torch.meshgrid(torch.arange(height), torch.arange(width), indexing="ij")
        centre = torch.stack([x, y], -1).flatten(0, 1) * 8.0 + 4.0
        values = cells[0].flatten(1).T
        half = 12.0 * torch.exp(values[:, 2:4])
        centre = centre + values[:, :2]
        boxes = torch.cat([centre - half, centre + half], 1)
        scores = values[:, 4].sigmoid()
        kept = torchvision.ops.nms(boxes, scores, 0.3)
        return boxes[kept], scores[kept]


torch.manual_seed(0)
model = Detector().eval()
fast = disc.optimize(model)

with torch.no_grad():
    for height, width in ((64, 64), (96, 160), (48, 200)):
        image = torch.rand(1, 3, height, width)
        boxes, scores = fast(image)
        expected = model(image)
        torch.testing.assert_close(boxes, expected[0], atol=1e-3, rtol=1e-4)
        torch.testing.assert_close(scores, expected[1])
        print(f"{height} by {width}: {len(boxes)} of {height * width // 64} boxes kept")

report = disc.report(fast).to_dict()
assert any("nms" in fallback["op"] for fallback in report["fallbacks"])
print(f"compiled share {report['coverage']:.2f}; torch runs:")
for fallback in report["fallbacks"]:
    print(f"  {fallback['op']}: {fallback['reason'].splitlines()[0]}")
