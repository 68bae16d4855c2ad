"""Uses disc as a backend of ``torch.compile``, in a program that is written for it already."""

import disc
import torch
from torch import nn


class Block(nn.Module):
    """A block of a transformer without its attention, and a branch that depends on data."""

    def __init__(self, width: int = 64):
        super().__init__()
        self.norm = nn.LayerNorm(width)
        self.up, self.down = nn.Linear(width, 4 * width), nn.Linear(4 * width, width)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        y = x + self.down(nn.functional.silu(self.up(self.norm(x))))
        # Dynamo splits the program here, as it does for every backend.
        if y.abs().max() > 100:
            y = y / y.abs().max()
        return y.softmax(-1)


torch.manual_seed(0)
model = Block().eval()
fast = torch.compile(model, backend="disc", dynamic=True)

with torch.no_grad():
    for batch, length, scale in ((2, 5, 1.0), (3, 17, 1.0), (8, 100, 1.0), (4, 9, 1000.0)):
        x = scale * torch.randn(batch, length, 64)
        torch.testing.assert_close(fast(x), model(x), atol=1e-5, rtol=1e-4)
        print(f"{batch} by {length:3}, scale {scale:g}: as in eager mode")

report = disc.report(fast).to_dict()
print(f"{len(report['graphs'])} graphs of dynamo's, {report['kernels']} kernels in them")
for graph_break in report["graph_breaks"]:
    print(f"split: {str(graph_break).splitlines()[0][:100]}")
