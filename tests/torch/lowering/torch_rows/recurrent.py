"""Rows of recurrent layers and cells: one and two directions, with and without biases,
projected states.
"""

from __future__ import annotations

from .row import BINDINGS, FLOATS, WIDE, T, row

#: A sequence has a step.
STEPS = tuple(b for b in BINDINGS if b["N"])


def weights(gates: int, inputs: int, hidden: int, biases: bool = True) -> list[T]:
    made = [T(f"{gates * hidden} {inputs}", kind="unit"), T(f"{gates * hidden} {hidden}", kind="unit")]
    return made + [T(str(gates * hidden))] * 2 if biases else made


def layer(name: str, states, held: list[T], biases=True, layers=1, both=False, batch_first=False, **options):
    arguments = (states, held, biases, layers, 0.0, False, both, batch_first)
    return row(
        f"{name}.input",
        T("B N 5") if batch_first else T("N B 5"),
        *arguments,
        special=False,
        bindings=STEPS,
        **options,
    )


ROWS = [
    layer("lstm", [T("1 B 3"), T("1 B 3")], weights(4, 5, 3), dtypes=FLOATS),
    layer(
        "lstm",
        [T("1 B 3"), T("1 B 3")],
        weights(4, 5, 3, False),
        False,
        batch_first=True,
        dtypes=WIDE,
        note="bare",
    ),
    layer(
        "lstm",
        [T("4 B 3"), T("4 B 3")],
        [*weights(4, 5, 3) * 2, *weights(4, 6, 3) * 2],
        layers=2,
        both=True,
        dtypes=WIDE,
        note="both-ways",
    ),
    layer(
        "lstm",
        [T("1 B 2"), T("1 B 3")],
        [T("12 5"), T("12 2"), T("12"), T("12"), T("2 3")],
        dtypes=WIDE,
        note="projected",
    ),
    layer("gru", T("1 B 3"), weights(3, 5, 3), dtypes=FLOATS),
    layer(
        "gru", T("2 B 3"), weights(3, 5, 3, False) * 2, False, both=True, dtypes=WIDE, note="bare-both-ways"
    ),
    layer("rnn_tanh", T("1 B 3"), weights(1, 5, 3), dtypes=WIDE),
    layer("rnn_relu", T("1 B 3"), weights(1, 5, 3), batch_first=True, dtypes=WIDE),
    row("lstm_cell.default", T("B 5"), [T("B 3"), T("B 3")], *weights(4, 5, 3), dtypes=FLOATS, special=False),
    row("gru_cell.default", T("B 5"), T("B 3"), *weights(3, 5, 3), dtypes=WIDE, special=False),
    row("rnn_tanh_cell.default", T("B 5"), T("B 3"), *weights(1, 5, 3), dtypes=WIDE, special=False),
    row("rnn_relu_cell.default", T("B 5"), T("B 3"), *weights(1, 5, 3, False), dtypes=WIDE, special=False),
]
