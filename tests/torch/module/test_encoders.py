"""Encoders that ``generate`` calls past the compiled module."""

from __future__ import annotations

import copy

import disc
import pytest
import torch
from torch import nn

pytest.importorskip("transformers")


def bart():
    from transformers import BartConfig, BartForConditionalGeneration

    torch.manual_seed(0)
    sizes = {
        "encoder_layers": 1,
        "decoder_layers": 1,
        "encoder_attention_heads": 2,
        "decoder_attention_heads": 2,
    }
    sizes |= {"encoder_ffn_dim": 32, "decoder_ffn_dim": 32, "d_model": 16, "vocab_size": 60}
    config = BartConfig(max_position_embeddings=32, forced_eos_token_id=None, **sizes)
    return BartForConditionalGeneration(config).eval()


@pytest.mark.fallback
def test_the_encoder_of_generate_is_compiled():
    model = bart()
    eager, fast = copy.deepcopy(model), disc.optimize(model)

    def same(size):
        words = torch.randint(3, 60, (2, size))
        found = fast.generate(words, max_new_tokens=4, do_sample=False)
        assert torch.equal(found, eager.generate(words, max_new_tokens=4, do_sample=False))

    for size in (7, 5, 9):
        same(size)
    values = disc.report(fast).to_dict()
    (encoder,) = values["encoders"]
    assert (encoder["name"], encoder["coverage"], encoder["calls"]) == ("BartEncoder", 1.0, 3)
    assert values["fallbacks"] == []
    assert "encoder     BartEncoder: " in str(disc.report(fast))
    with disc.profile(fast) as found:
        same(6)
    assert {call.module for call in found.calls} == {"BartEncoder", "BartForConditionalGeneration"}
    # It follows its original.
    encoder = fast.get_encoder()
    assert encoder is fast.get_encoder()
    assert isinstance(encoder, type(model.get_encoder()))
    with torch.no_grad():
        for one in (model, eager):
            one.model.encoder.layers[0].fc1.weight.mul_(3)
    fast.refresh()
    same(7)
    fast.train()
    assert fast.get_encoder().training
    fast.eval()
    fast.double()
    eager.double()
    same(8)
    same(4)


@pytest.mark.fallback
def test_calls_of_the_encoder_are_captured(tmp_path):
    fast = disc.optimize(bart())
    words = torch.randint(3, 60, (1, 5))
    with torch.no_grad(), disc.capture(fast, tmp_path / "call.discap") as recording:
        fast.get_encoder()(words)
    assert recording.calls == 1


class Plain(nn.Module):
    def __init__(self):
        super().__init__()
        self.linear = nn.Linear(4, 4)

    def get_encoder(self):
        return self

    def forward(self, x):
        return self.linear(x)


def test_a_module_that_is_its_own_encoder_stays_one():
    fast = disc.optimize(Plain().eval(), torch.randn(2, 4))
    assert fast.get_encoder() is fast
    assert disc.report(fast).to_dict()["encoders"] == []
