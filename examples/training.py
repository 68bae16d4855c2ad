"""Trains a tagger of words whose batches and lengths change: forward, backward and the optimizer
are compiled once.
"""

import disc
import torch
from torch import nn
from torch.nn import functional as F


class Tagger(nn.Module):
    """Words [batch, length] to scores [batch, length, tags]."""

    def __init__(self, words: int = 50, tags: int = 4, width: int = 64):
        super().__init__()
        self.table = nn.Embedding(words, width)
        layer = nn.TransformerEncoderLayer(width, nhead=4, dim_feedforward=128, dropout=0.0, batch_first=True)
        self.encoder = nn.TransformerEncoder(layer, num_layers=2, enable_nested_tensor=False)
        self.head = nn.Linear(width, tags)

    def forward(self, words: torch.Tensor) -> torch.Tensor:
        return self.head(self.encoder(self.table(words)))


torch.manual_seed(0)
model = Tagger()
fast = torch.compile(model, backend="disc", dynamic=True)
# A rate in a tensor may change without another compilation.
rate = torch.tensor(2e-3)
optimizer = torch.optim.AdamW(model.parameters(), lr=rate)


@torch.compile(backend="disc")
def update():
    optimizer.step()


losses = []
for step in range(60):
    batch, length = 2 + step % 7, 5 + step % 11
    words = torch.randint(50, (batch, length))
    # The tag of a word: how far it is from the greatest one of its sentence, in four parts.
    tags = (words.amax(1, keepdim=True) - words) * 4 // 50
    optimizer.zero_grad()
    loss = F.cross_entropy(fast(words).flatten(0, 1), tags.flatten())
    loss.backward()
    update()
    rate.mul_(0.99)
    losses.append(loss.item())
    if step % 15 == 0:
        print(f"step {step:2}, {batch} by {length:2} words: loss {losses[-1]:.3f}")

assert sum(losses[-10:]) < 0.7 * sum(losses[:10])
report = disc.report(fast).to_dict()
assert report["compiles"] + report["cache_hits"] == 2
assert report["coverage"] == 1.0
print(f"one forward and one backward program, {report['kernels']} kernels a step")
