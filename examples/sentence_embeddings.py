"""Embeds batches of sentences of many lengths: a transformer, then the mean of the words that the
mask keeps, as one compiled program.
"""

import disc
import torch
from torch.nn import functional as F
from transformers import BertConfig, BertModel


class SentenceEncoder(torch.nn.Module):
    """Words to one vector of length 1 for each sentence."""

    def __init__(self):
        super().__init__()
        config = BertConfig(
            vocab_size=1000, hidden_size=64, num_hidden_layers=2, num_attention_heads=4, intermediate_size=128
        )
        self.bert = BertModel(config, add_pooling_layer=False)

    def forward(self, ids: torch.Tensor, mask: torch.Tensor) -> torch.Tensor:
        words = self.bert(input_ids=ids, attention_mask=mask).last_hidden_state
        kept = mask.unsqueeze(-1).to(words.dtype)
        return F.normalize((words * kept).sum(1) / kept.sum(1), dim=-1)


def batch(*lengths: int) -> tuple[torch.Tensor, torch.Tensor]:
    """Random sentences, padded to the longest."""
    mask = (torch.arange(max(lengths)) < torch.tensor(lengths)[:, None]).long()
    return torch.randint(1000, mask.shape) * mask, mask


torch.manual_seed(0)
model = SentenceEncoder().eval()
fast = disc.optimize(model, batch(5, 9))

with torch.no_grad():
    for lengths in ((3,), (7, 12), (40, 2, 31, 17), (128,) * 8, (1,)):
        ids, mask = batch(*lengths)
        vectors = fast(ids, mask)
        torch.testing.assert_close(vectors, model(ids, mask), atol=1e-5, rtol=1e-4)
        likeness = vectors @ vectors.T
        print(f"{len(lengths)} sentences, padded to {max(lengths):3}: likeness from {likeness.min():.3f}")

report = disc.report(fast).to_dict()
# A compilation, or one that an earlier run left on disk.
assert report["compiles"] + report["cache_hits"] == 1
assert report["coverage"] == 1.0
print(f"one compilation, {report['kernels']} kernels a call, for {report['target']}")
