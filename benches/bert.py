"""BERT encoders with random weights: BERT-base and a small one, at batch 1 and any length, and with
a batch and a mask.
"""

from __future__ import annotations

from collections.abc import Iterator

import torch
from case import Case


class Encoder(torch.nn.Module):
    """The last hidden states of an encoder of transformers."""

    def __init__(self, **config):
        super().__init__()
        from transformers import BertConfig, BertModel

        self.model = BertModel(BertConfig(**config), add_pooling_layer=False)

    def forward(self, ids, mask=None):
        return self.model(input_ids=ids, attention_mask=mask).last_hidden_state


BASE: dict[str, int] = {}
SMALL = {"num_hidden_layers": 4, "hidden_size": 256, "num_attention_heads": 4, "intermediate_size": 1024}
LENGTHS = tuple(16 + 8 * i for i in range(31))
SHORT = tuple(8 + 4 * i for i in range(31))
BATCHES = tuple((1 + i % 8, 16 + 7 * i) for i in range(16))


def flops(layers: int, width: int, inner: int):
    def count(batch: int, length: int) -> int:
        rows = batch * length
        return layers * (2 * rows * width * (4 * width + 2 * inner) + 4 * rows * length * width)

    return count


def ids(batch: int, length: int) -> tuple[torch.Tensor, ...]:
    return (torch.randint(0, 30000, (batch, length)),)


def masked(batch: int, length: int) -> tuple[torch.Tensor, ...]:
    kept = torch.randint(1, length + 1, (batch, 1))
    return *ids(batch, length), (torch.arange(length)[None] < kept).long()


def cases() -> Iterator[Case]:
    base, small = flops(12, 768, 3072), flops(4, 256, 1024)
    yield Case("BERT-base, batch 1", Encoder(**BASE).eval(), tuple((1, s) for s in LENGTHS), ids, base)
    yield Case("small BERT, batch 1", Encoder(**SMALL).eval(), tuple((1, s) for s in SHORT), ids, small)
    yield Case("small BERT, batches with mask", Encoder(**SMALL).eval(), BATCHES, masked, small)
