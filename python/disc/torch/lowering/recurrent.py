"""Recurrent layers of torch: LSTM, GRU and RNN over sequences of any length. Packed sequences are
not served: their lengths are data.
"""

from __future__ import annotations


def recurrent(cell: str):
    """``layer(input, state or states, weights, ...)``: the outputs of the last layer,
    and the last state of each layer.
    """

    def entry(b, x, given, weights, has_biases, layers, dropout, train, bidirectional, batch_first):
        if train and dropout and layers > 1:
            raise b.unsupported(
                "dropout between layers needs random numbers", help="call module.eval() first"
            )
        dtype = x.dtype
        x, states = b.wide(x), [b.wide(s) for s in _listed(given)]
        weights = [b.wide(w) for w in weights]
        x = b.move(x, 0, 1) if batch_first else x
        # torch refuses a sequence without steps.
        b.require(x.shape[0], ">=", 1)
        directions = 2 if bidirectional else 1
        each, lasts = len(weights) // (layers * directions), []
        for layer in range(layers):
            outs = []
            for direction in range(directions):
                at = layer * directions + direction
                first = [b.squeeze(b.slice(s, 0, at, at + 1), 0) for s in states]
                own = _weights(weights[at * each : (at + 1) * each], has_biases)
                out, *last = _layer(b, cell, x, first, own, direction == 1)
                outs.append(out)
                lasts.append(last)
            x = b.concatenate(outs, 2)
        x = b.move(x, 0, 1) if batch_first else x
        finals = [b.concatenate([b.unsqueeze(s, 0) for s in state], 0) for state in zip(*lasts, strict=True)]
        return [b.convert(value, dtype) for value in (x, *finals)]

    return entry


def _layer(b, cell: str, x, state, weights, backwards: bool) -> list:
    state = [*state, None][:2]
    return b.compose("recurrent_layer", x, *state, *weights, cell=cell, backwards=backwards)


def _weights(given, has_biases) -> list:
    """Of inputs and state, their biases, and the projection; None for each that is not there."""
    of_input, of_state, *rest = given
    biases, projection = (rest[:2], rest[2:]) if has_biases else ([None, None], rest)
    return [of_input, of_state, *biases, *(projection or [None])]


def _listed(given) -> list:
    return list(given) if isinstance(given, (list, tuple)) else [given]


def single(cell: str):
    """``lstm_cell`` and its kin: one step."""

    def entry(b, x, given, of_input, of_state, input_bias=None, state_bias=None):
        state = [*_listed(given), None][:2]
        return b.compose("recurrent_cell", x, *state, of_input, of_state, input_bias, state_bias, cell=cell)

    return entry


TABLE = {
    "aten.lstm_cell.default": single("lstm"),
    "aten.gru_cell.default": single("gru"),
    "aten.rnn_tanh_cell.default": single("rnn_tanh"),
    "aten.rnn_relu_cell.default": single("rnn_relu"),
    "aten.lstm.input": recurrent("lstm"),
    "aten.gru.input": recurrent("gru"),
    "aten.rnn_tanh.input": recurrent("rnn_tanh"),
    "aten.rnn_relu.input": recurrent("rnn_relu"),
}
