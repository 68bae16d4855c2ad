"""Ranks items for a user: bags of embeddings of any length, numbers, and a small network."""

import disc
import torch
from torch import nn


class Ranker(nn.Module):
    """The chance of a click, from what was seen before, tags of the item, and numbers."""

    def __init__(self, items: int = 5000, tags: int = 300, width: int = 32):
        super().__init__()
        self.seen = nn.EmbeddingBag(items, width, mode="mean")
        self.tags = nn.EmbeddingBag(tags, width, mode="sum")
        self.numbers = nn.Linear(8, width)
        self.top = nn.Sequential(nn.Linear(3 * width + 3, 64), nn.ReLU(), nn.Linear(64, 1))

    def forward(self, seen, seen_starts, tags, tag_starts, numbers):
        parts = [self.seen(seen, seen_starts), self.tags(tags, tag_starts), self.numbers(numbers).relu()]
        stacked = torch.stack(parts, 1)
        pairs = stacked @ stacked.transpose(1, 2)
        above = [pairs[:, i, j] for i, j in ((0, 1), (0, 2), (1, 2))]
        return self.top(torch.cat([*parts, torch.stack(above, 1)], 1)).sigmoid().squeeze(1)


def bags(count: int, most: int, kinds: int) -> tuple[torch.Tensor, torch.Tensor]:
    """The members of some bags, one after the other, and the place where each begins."""
    lengths = torch.randint(0, most + 1, (count,))
    return torch.randint(kinds, (int(lengths.sum()),)), lengths.cumsum(0) - lengths


def request(count: int):
    return *bags(count, 20, 5000), *bags(count, 4, 300), torch.randn(count, 8)


torch.manual_seed(0)
model = Ranker().eval()
fast = disc.optimize(model, request(6))

with torch.no_grad():
    for count in (1, 7, 64, 500):
        batch = request(count)
        chances = fast(*batch)
        torch.testing.assert_close(chances, model(*batch), atol=1e-5, rtol=1e-4)
        print(f"{count:3} items, {len(batch[0]):4} seen before: the best is item {chances.argmax()}")

report = disc.report(fast).to_dict()
# A compilation, or one that an earlier run left on disk.
assert report["compiles"] + report["cache_hits"] == 1
assert report["coverage"] == 1.0
print(f"one compilation, {report['kernels']} kernels a call")
