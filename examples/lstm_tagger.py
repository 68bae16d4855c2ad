"""Tags each word of a sentence with an LSTM that reads it in both directions, at any length."""

import disc
import torch
from torch import nn

TAGS = ["noun", "verb", "other"]


class Tagger(nn.Module):
    def __init__(self, words: int = 1000, width: int = 32):
        super().__init__()
        self.table = nn.Embedding(words, width)
        self.lstm = nn.LSTM(width, width, num_layers=2, batch_first=True, bidirectional=True)
        self.head = nn.Linear(2 * width, len(TAGS))

    def forward(self, words: torch.Tensor) -> torch.Tensor:
        states, _ = self.lstm(self.table(words))
        return self.head(states)


torch.manual_seed(0)
model = Tagger().eval()
# Loops over words are loops in the compiled program, too: no length is fixed.
fast = disc.optimize(model, torch.randint(1000, (2, 6)))

with torch.no_grad():
    for batch, length in ((1, 1), (1, 9), (4, 25), (2, 120)):
        words = torch.randint(1000, (batch, length))
        scores = fast(words)
        torch.testing.assert_close(scores, model(words), atol=1e-5, rtol=1e-4)
        names = [TAGS[tag] for tag in scores[0].argmax(-1)[:5].tolist()]
        print(f"{batch} by {length:3} words: {', '.join(names)} ..")

report = disc.report(fast).to_dict()
# A compilation, or one that an earlier run left on disk.
assert report["compiles"] + report["cache_hits"] == 1
assert report["coverage"] == 1.0
print(f"one compilation, {report['kernels']} kernels a call")
