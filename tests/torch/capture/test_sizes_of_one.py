"""Examples with sizes of 0 and 1, in inputs and in what is computed from them: they fix what they
are broadcast against, and nothing else, whatever other sizes the example has.
"""

from __future__ import annotations

import disc
import pytest
import torch
from disc.torch.capture import example_sizes
from disc.torch.capture.capture import capture
from model_check import Function, one_compile
from torch.nn import functional as F

rand = torch.rand


def _attention(q, k, v, mask):
    return (q @ k.mT + mask).softmax(-1) @ v


def _one_head(batch: int, n: int) -> tuple:
    return (*(rand(batch, 1, n, 2) for _ in range(3)), rand(batch, 1, n, n))


def _decode(x, keys, values):
    q = x.view(x.shape[0], x.shape[1], 2, 2).transpose(1, 2)
    keys, values = torch.cat([keys, q], 2), torch.cat([values, q * 2], 2)
    return ((q @ keys.mT).softmax(-1) @ values).transpose(1, 2).reshape(x.shape), keys, values


def _step(batch: int, past: int) -> tuple:
    return rand(batch, 1, 4), rand(batch, 2, past, 2), rand(batch, 2, past, 2)


def _written(x, y):
    z = x.clone()
    z[:, 1 : 1 + y.shape[1]] = y
    return z


def _halves(x):
    n = x.shape[1] // 2
    return x[:, :n].reshape(-1) * x[:, n : 2 * n].reshape(-1)


def _next_word(scores, words):
    return F.cross_entropy(scores[:, :-1].reshape(-1, 4), words[:, 1:].reshape(-1), reduction="none")


def _token_before(x, keep):
    return torch.cat([torch.zeros(x.shape[0], 1, 3), x], 1) * keep


#: A function, its example, and other calls.
SERVED = {
    "gain behind a convolution": (
        lambda x, gain: F.conv1d(x, torch.ones(1, 1, 3)) * gain,
        *((rand(b, 1, n), rand(b, 1, 1)) for b, n in ((2, 7), (3, 9), (1, 3))),
    ),
    "gain behind a pool": (
        lambda x, gain: F.max_pool1d(x, 5, 1) * gain,
        *((rand(b, 3, n), rand(b, 1, 1)) for b, n in ((1, 15), (2, 5), (4, 7))),
    ),
    "gain behind a pad": (
        lambda x, gain: F.pad(x, (1, 2)) * gain,
        *((rand(b, n), rand(b, 1)) for b, n in ((2, 8), (3, 10), (1, 1))),
    ),
    "class token": (_token_before, *((rand(b, n, 3), rand(b, 1, 1)) for b, n in ((2, 4), (5, 7), (1, 0)))),
    "expanded by a sum": (
        lambda x, y: x.expand(y.shape[0] + 2, -1),
        *((rand(1, n), rand(m)) for n, m in ((8, 3), (8, 5), (4, 0))),
    ),
    "expanded by one more than 0": (
        lambda x, y: x.expand(y.shape[0] + 1, -1),
        *((rand(1, 4), rand(m)) for m in (0, 3, 1)),
    ),
    "expanded by one more than 1": (
        lambda x, y: x.expand(y.shape[0] + 1, -1),
        *((rand(1, 4), rand(m)) for m in (1, 3, 0)),
    ),
    "sizes that differ by 2": (
        lambda x, y: x.sum(0) + y.sum() if x.shape[0] == y.shape[0] + 2 else x.sum(0) - y.sum(),
        *((rand(n, 3), rand(m, 3)) for n, m in ((1, 3), (7, 3), (2, 9))),
    ),
    **{
        f"{name} over {n}": (function, _one_head(1, n), _one_head(2, 2), _one_head(3, 7), _one_head(1, 1))
        for name, function in (("attention", _attention), ("fused", F.scaled_dot_product_attention))
        for n in (1, 2, 5, 11)
    },
    **{f"decoder behind {n}": (_decode, _step(1, n), _step(2, n + 1), _step(3, 1)) for n in (1, 4, 5)},
    "rest of a slice": (lambda x: x[:, 1:].reshape(-1), *((rand(m, n),) for m, n in ((3, 2), (3, 5), (2, 1)))),
    "rest that is flattened": (lambda x: x[1:].flatten(0, 1), *((rand(n, 3),) for n in (2, 5, 1))),
    "rest beside a size": (
        lambda x, y: x[:, 1:] * y,
        *((rand(3, n), rand(3, n - 1)) for n in (2, 5, 1)),
    ),
    "next word of two": (
        _next_word,
        *((rand(b, n, 4), torch.randint(0, 4, (b, n))) for b, n in ((2, 2), (3, 5))),
    ),
    "products of rows of 1": (
        lambda x, y: x @ y,
        *((rand(b, m, k), rand(b, k, n)) for b, m, k, n in ((1, 1, 1, 2), (1, 1, 3, 2), (2, 4, 3, 5), (2, 0, 1, 1))),
    ),
    "linear of ones": (
        F.linear,
        *((rand(m, k), rand(n, k)) for m, k, n in ((1, 1, 3), (4, 5, 3), (2, 0, 6))),
    ),
    "first of one": (lambda x, k: x * k[:1], *((rand(n), rand(m)) for n, m in ((3, 1), (3, 4), (7, 2)))),
    "quotient": (
        lambda x, y: x.view(5, -1)[0] - y,
        *((rand(5 * n), rand(n)) for n in (1, 4, 2)),
    ),
    "quotient of nothing": (lambda x, y: x.view(5, -1)[0] - y, *((rand(5 * n), rand(n)) for n in (0, 4, 1))),
    "first of one beside the whole": (
        lambda x, k: (x + x[:1], x @ k * k[:1].sum()),
        *((rand(m, n), rand(n)) for m, n in ((1, 1), (3, 4), (2, 1))),
    ),
    "half of 2": (_halves, *((rand(m, n),) for m, n in ((1, 2), (3, 8), (2, 5)))),
    "every other of 3": (lambda x: x[:, 1::2].reshape(-1), *((rand(2, n),) for n in (3, 8, 1))),
    "differences": (
        lambda x: (torch.diff(x).sum(-1), torch.diff(x, prepend=x[:, :1]), torch.diff(x, 2)),
        *((rand(3, n),) for n in (4, 0, 1, 2)),
    ),
    "write of no column": (
        _written,
        *((rand(m, n), rand(m, k)) for m, n, k in ((2, 4, 0), (2, 4, 2), (3, 4, 1))),
    ),
    "write of one column": (
        _written,
        *((rand(m, n), rand(m, k)) for m, n, k in ((2, 4, 1), (2, 4, 2), (3, 4, 0))),
    ),
}  # fmt: skip


@pytest.mark.parametrize("name", SERVED)
def test_what_is_not_broadcast_stays_open(name, compile_module):
    function, *calls = SERVED[name]
    one_compile(compile_module, Function(function), [(args, {}) for args in calls])


def test_the_example_satisfies_the_facts_however_sizes_of_1_are_chosen(monkeypatch):
    def joined(x, y, gain):
        return torch.cat([x, y], 1)[:, 2:] * gain

    args = rand(2, 6), rand(2, 1), rand(2, 1)
    for chosen in ((5, 3, 7, 11, 13), (3, 5, 2, 7, 11), (6, 5, 4, 3, 2, 7), (11, 13, 17)):
        monkeypatch.setattr(example_sizes, "_FRESH", chosen)
        captured = capture(Function(joined), args)
        rows = [captured.input_shape(i) for i in range(3)]
        assert rows[2][1] == 1
        assert rows[0][0] == rows[1][0] == rows[2][0]
        assert all(not isinstance(size, int) for size in (*rows[0], *rows[1]))


def test_the_number_of_an_axis_in_a_message_is_no_size():
    captured = capture(Function(_attention), _one_head(1, 5))
    assert captured.fixed == []
    assert captured.attempts <= 4


def test_a_computed_size_that_is_broadcast_is_fixed(compile_module):
    compiled = compile_module(
        Function(lambda x, y: F.conv1d(x, torch.ones(1, 1, 3)) * y), (rand(2, 1, 3), rand(2, 1, 5))
    )
    compiled(rand(3, 1, 3), rand(3, 1, 7))
    with pytest.raises(disc.DimError):
        compiled(rand(3, 1, 4), rand(3, 1, 7))


def test_of_two_sizes_of_1_one_may_be_fixed(compile_module):
    add = Function(lambda x, y: x + y)
    compiled = compile_module(add, (rand(1, 3), rand(1, 3)), dims={1: {0: 1}})
    x, y = rand(4, 3), rand(1, 3)
    torch.testing.assert_close(compiled(x, y), x + y)
    both = compile_module(add, (rand(1, 3), rand(1, 3)))
    torch.testing.assert_close(both(x, x), x + x)
    with pytest.raises(disc.DimError):
        both(x, y)
