"""A sentence encoder with random weights, at 42 lengths, a sentence a call.

The sizes are those of MiniLM (six layers of 384); the sentence vector is the mean over its words.
"""

from __future__ import annotations

from collections.abc import Iterator

import torch
from bert import flops
from case import Case

#: Forty lengths, few of them round, then the extremes.
LENGTHS = (*(7 + 10 * i for i in range(40)), 1, 512)


class SentenceEncoder(torch.nn.Module):
    """The mean of the last hidden states over the words that the mask keeps."""

    def __init__(self):
        super().__init__()
        from transformers import BertConfig, BertModel

        sizes = {
            "num_hidden_layers": 6,
            "hidden_size": 384,
            "num_attention_heads": 12,
            "intermediate_size": 1536,
        }
        self.model = BertModel(BertConfig(**sizes), add_pooling_layer=False)

    def forward(self, ids, mask):
        states = self.model(input_ids=ids, attention_mask=mask).last_hidden_state
        weights = mask[:, :, None].to(states.dtype)
        return (states * weights).sum(1) / weights.sum(1)


def sentence(batch: int, length: int) -> tuple[torch.Tensor, ...]:
    return torch.randint(0, 30000, (batch, length)), torch.ones(batch, length, dtype=torch.long)


def cases() -> Iterator[Case]:
    sizes = tuple((1, length) for length in LENGTHS)
    yield Case("sentence encoder", SentenceEncoder().eval(), sizes, sentence, flops(6, 384, 1536))
