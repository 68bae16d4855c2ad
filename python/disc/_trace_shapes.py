"""Results of ops that torch describes by running them step by step, which would fix how many steps there are."""

from __future__ import annotations

import torch

aten = torch.ops.aten


def _recurrent(x, given, weights, has_biases, layers, dropout, train, bidirectional, batch_first):
    states = given if isinstance(given, (list, tuple)) else [given]
    torch._check(len(x.shape) == 3, lambda: f"expected an input of rank 3, got {len(x.shape)}")
    features = weights[0].shape[1]
    torch._check(x.shape[2] == features, lambda: f"expected {features} features, got {x.shape[2]}")
    batch = x.shape[0 if batch_first else 1]
    torch._check(
        all(state.shape[1] == batch for state in states), lambda: f"expected states of batch {batch}"
    )
    width = states[0].shape[2] * (2 if bidirectional else 1)
    return x.new_empty([*x.shape[:2], width]), *(s.new_empty(list(s.shape)) for s in states)


SHAPES = {
    aten.lstm.input: _recurrent,
    aten.gru.input: _recurrent,
    aten.rnn_tanh.input: _recurrent,
    aten.rnn_relu.input: _recurrent,
}
