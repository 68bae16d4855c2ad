"""Recurrent layers of torch: LSTM, GRU and RNN over sequences of any length.

Each layer and direction is one loop over time. The product of the inputs and their weights does not
depend on the step before: it is one product in front of the loop. Packed sequences are not served:
their lengths are data.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from ...lowering.sizes import same


@dataclass(frozen=True)
class Cell:
    """``step(b, own, past, state)`` is the new state;
    ``own`` and ``past`` are what inputs and state give to the gates.

    ``apart``: the bias of the state is added to ``past``, not to ``own``.
    """

    gates: int
    step: Callable
    apart: bool = False


def _gates(b, x, count: int, width) -> list:
    return [b.slice(x, len(x.shape) - 1, i * width, (i + 1) * width) for i in range(count)]


def _lstm_step(b, own, past, state):
    """The gates are i, f, g, o; the state is (h, c)."""
    i, f, g, o = _gates(b, b.add(own, past), 4, state[1].shape[1])
    i, f, o = (b.op("logistic", gate) for gate in (i, f, o))
    c = b.add(b.mul(f, state[1]), b.mul(i, b.op("tanh", g)))
    return b.mul(o, b.op("tanh", c)), c


def _gru_step(b, own, past, state):
    """The gates are r, z, n."""
    width = state[0].shape[1]
    (r, z, n), (r_past, z_past, n_past) = _gates(b, own, 3, width), _gates(b, past, 3, width)
    r, z = b.op("logistic", b.add(r, r_past)), b.op("logistic", b.add(z, z_past))
    n = b.op("tanh", b.add(n, b.mul(r, n_past)))
    return (b.add(b.mul(b.sub(state[0], n), z), n),)


LSTM = Cell(4, _lstm_step)
GRU = Cell(3, _gru_step, apart=True)
TANH = Cell(1, lambda b, own, past, state: (b.op("tanh", b.add(own, past)),))
RELU = Cell(1, lambda b, own, past, state: (b.maximum(b.add(own, past), 0),))


def recurrent(cell: Cell):
    """``layer(input, state or states, weights, ...)``: the outputs of the last layer,
    and the last state of each layer.
    """

    def entry(b, x, given, weights, has_biases, layers, dropout, train, bidirectional, batch_first):
        if train and dropout and layers > 1:
            raise b.unsupported(
                "dropout between layers needs random numbers", help="call module.eval() first"
            )
        dtype = x.dtype
        x, states = b.wide(x), [b.wide(s) for s in (given if isinstance(given, (list, tuple)) else [given])]
        weights = [b.wide(w) for w in weights]
        x = b.move(x, 0, 1) if batch_first else x
        # torch refuses a sequence without steps.
        b.require(x.shape[0], ">=", 1)
        ways = 2 if bidirectional else 1
        each, lasts = len(weights) // (layers * ways), []
        for layer in range(layers):
            outs = []
            for way in range(ways):
                at = layer * ways + way
                first = [b.squeeze(b.slice(s, 0, at, at + 1), 0) for s in states]
                out, last = _scan(
                    b, cell, x, first, weights[at * each : (at + 1) * each], has_biases, way == 1
                )
                outs.append(out)
                lasts.append(last)
            x = b.concatenate(outs, 2)
        x = b.move(x, 0, 1) if batch_first else x
        finals = [b.concatenate([b.unsqueeze(s, 0) for s in state], 0) for state in zip(*lasts, strict=True)]
        return [b.convert(value, dtype) for value in (x, *finals)]

    return entry


def _scan(b, cell: Cell, x, first, weights, has_biases, backwards):
    """One layer in one direction; ``x`` is [time, batch, features]."""
    w_own, w_past, *rest = weights
    biases, projection = (rest[:2], rest[2:]) if has_biases else ([], rest)
    own = b.dot(x, w_own, contracting=([2], [1]))
    for bias in biases[: 1 if cell.apart else 2]:
        own = b.add(own, bias)
    time, batch, width = x.shape[0], x.shape[1], own.shape[2]
    hidden = first[-1].shape[1]
    b.require(width, "==", cell.gates * hidden)
    b.require(w_past.shape[0], "==", cell.gates * hidden)
    b.require(projection[0].shape[0] if projection else hidden, "==", first[0].shape[1])
    first = [s if same(s.shape[0], batch) else b.expand(s, [batch, s.shape[1]]) for s in first]
    out = b.full(0, [time, batch, first[0].shape[1]], x.dtype)
    zero, one = b.lift(0, "i64"), b.lift(1, "i64")

    def step(t, out, *state):
        place = b.sub(b.sub(b.lift(time, "i64"), one), t) if backwards else t
        now = b.op("dynamic_slice", own, place, zero, zero, sizes=[1, batch, width])
        past = b.dot(state[0], w_past, contracting=([1], [1]))
        past = b.add(past, biases[1]) if cell.apart and biases else past
        h, *memory = cell.step(b, b.squeeze(now, 0), past, state)
        if projection:
            h = b.dot(h, projection[0], contracting=([1], [1]))
        out = b.op("dynamic_update_slice", out, b.unsqueeze(h, 0), place, zero, zero)
        return [out, h, *memory]

    out, *last = b.loop(time, [out, *first], step)
    return out, last


def single(cell: Cell):
    """``lstm_cell`` and its kin: one step."""

    def entry(b, x, given, w_own, w_past, own_bias=None, past_bias=None):
        dtype, state = x.dtype, given if isinstance(given, (list, tuple)) else [given]
        x, state = b.wide(x), [b.wide(s) for s in state]
        own = b.dot(x, b.wide(w_own), contracting=([1], [1]))
        past = b.dot(state[0], b.wide(w_past), contracting=([1], [1]))
        own = own if own_bias is None else b.add(own, b.wide(own_bias))
        past = past if past_bias is None else b.add(past, b.wide(past_bias))
        values = [b.convert(value, dtype) for value in cell.step(b, own, past, state)]
        return values if cell is LSTM else values[0]

    return entry


TABLE = {
    "aten.lstm_cell.default": single(LSTM),
    "aten.gru_cell.default": single(GRU),
    "aten.rnn_tanh_cell.default": single(TANH),
    "aten.rnn_relu_cell.default": single(RELU),
    "aten.lstm.input": recurrent(LSTM),
    "aten.gru.input": recurrent(GRU),
    "aten.rnn_tanh.input": recurrent(TANH),
    "aten.rnn_relu.input": recurrent(RELU),
}
