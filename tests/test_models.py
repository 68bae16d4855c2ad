"""Whole models: one compile, several sizes, against eager."""

from __future__ import annotations

import pytest
import torch
from torch import nn
from torch.utils import _pytree as pytree

transformers = pytest.importorskip("transformers")

SMALL = {"num_hidden_layers": 2, "hidden_size": 48, "num_attention_heads": 3, "intermediate_size": 64}


def ids(*shape):
    return torch.randint(0, 100, shape)


def ones(*shape):
    return torch.ones(shape, dtype=torch.long)


def check(compile_module, model, example, *others, tolerance=1e-4):
    model = model.eval()
    compiled = compile_module(model, example)
    for inputs in (example, *others):
        with torch.no_grad():
            expected = pytree.tree_leaves(model(*inputs))
        result = pytree.tree_leaves(compiled(*inputs))
        assert len(result) == len(expected)
        for a, e in zip(result, expected, strict=True):
            torch.testing.assert_close(a, e, rtol=tolerance, atol=tolerance)


@pytest.mark.parametrize("attention", ["sdpa", "eager"])
def test_bert_from_an_example_of_one_token(attention, compile_module):
    model = transformers.BertModel(transformers.BertConfig(attn_implementation=attention, **SMALL))
    check(compile_module, model, (ids(1, 1),), (ids(2, 7),), (ids(1, 512),), (ids(3, 1),))


@pytest.mark.parametrize("attention", ["sdpa", "eager"])
def test_bert_with_mask_and_token_types(attention, compile_module):
    model = transformers.BertModel(transformers.BertConfig(attn_implementation=attention, **SMALL))
    mask = ones(3, 9)
    mask[0, 5:] = 0
    mask[1, 1:] = 0
    check(compile_module, model, (ids(1, 1), ones(1, 1), ones(1, 1)), (ids(3, 9), mask, ones(3, 9)))


@pytest.mark.parametrize("attention", ["sdpa", "eager"])
def test_gpt2(attention, compile_module):
    config = transformers.GPT2Config(
        n_layer=2, n_embd=48, n_head=3, attn_implementation=attention, use_cache=False
    )
    check(compile_module, transformers.GPT2Model(config), (ids(1, 1),), (ids(2, 7),), (ids(3, 1),))


def test_t5_encoder(compile_module):
    config = transformers.T5Config(num_layers=2, d_model=48, d_kv=16, num_heads=3, d_ff=64)
    check(
        compile_module,
        transformers.T5EncoderModel(config),
        (ids(2, 9), ones(2, 9)),
        (ids(3, 4), ones(3, 4)),
        (ids(1, 1), ones(1, 1)),
    )


def test_mlp_of_any_batch(compile_module):
    model = nn.Sequential(nn.Linear(4, 8), nn.ReLU(), nn.Linear(8, 4))
    check(compile_module, model, (torch.rand(1, 4),), (torch.rand(0, 4),), (torch.rand(7, 4),))


def test_convolutions_of_any_length(compile_module):
    model = nn.Sequential(
        nn.Conv1d(4, 8, 3, stride=2), nn.ReLU(), nn.MaxPool1d(2), nn.Conv1d(8, 4, 5, padding=2)
    )
    check(compile_module, model, (torch.rand(1, 4, 32),), (torch.rand(3, 4, 17),), (torch.rand(2, 4, 8),))


def test_resnet(compile_module):
    config = transformers.ResNetConfig(depths=[1, 1, 1, 1], embedding_size=8, hidden_sizes=[8, 12, 16, 20])
    check(
        compile_module,
        transformers.ResNetModel(config),
        (torch.rand(1, 3, 64, 64),),
        (torch.rand(2, 3, 65, 96),),
    )


def test_writes_in_place_through_views(compile_module):
    class Model(nn.Module):
        def forward(self, x):
            y = x.clone()
            row = y[1]
            row.mul_(2)
            y[:, 1:3] += 10
            y.t()[0].fill_(7)
            view = y.view(-1)
            y.add_(1)
            return y, row + 1, view * 2

    check(compile_module, Model(), (torch.rand(3, 4),), (torch.rand(5, 4),), (torch.rand(2, 9),))


def test_tied_weights_are_one_weight(compile_module):
    class Tied(nn.Module):
        def __init__(self):
            super().__init__()
            self.embedding = nn.Embedding(11, 6)
            self.head = nn.Linear(6, 11, bias=False)
            self.head.weight = self.embedding.weight

        def forward(self, x):
            return self.head(self.embedding(x))

    check(compile_module, Tied(), (torch.randint(0, 11, (1, 1)),), (torch.randint(0, 11, (2, 5)),))


def test_results_of_any_structure(compile_module):
    class Model(nn.Module):
        def forward(self, batch, factor):
            x = batch["x"]
            return {"sum": x.sum(), "rows": x.shape[0], "same": x, "none": None, "pair": (x * factor, factor)}

    compiled = compile_module(Model(), ({"x": torch.rand(2, 3)}, 2.5))
    x = torch.rand(5, 4)
    result = compiled({"x": x}, 2.5)
    assert set(result) == {"sum", "rows", "same", "none", "pair"}
    assert result["rows"] == 5
    assert result["none"] is None
    assert result["same"] is x
    assert result["pair"][1] == 2.5
    torch.testing.assert_close(result["pair"][0], x * 2.5)


def test_numbers_computed_from_sizes(compile_module):
    class Model(nn.Module):
        def forward(self, x):
            return x / (x.shape[0] ** 0.5) + torch.arange(x.shape[1]) * x.shape[0]

    check(compile_module, Model(), (torch.rand(4, 3),), (torch.rand(9, 2),), (torch.rand(1, 1),))
