"""Long chains of parts, joints and moved elements: sizes are short expressions,
and code does not double with each link.
"""

import disc
import pytest
import torch
from model_check import Function


def neighbours(links):
    def sums(x):
        for _ in range(links):
            x = x[..., 1:] + x[..., :-1]
        return x

    return sums


def lattice(links):
    def sums(x):
        for _ in range(links):
            x = torch.cat([x[:, :1], x[:, 1:] + x[:, :-1]], 1)
        return x

    return sums


def filled(links, axis):
    """A result that is written part by part, as loops over positions do."""

    def fill(x):
        out = torch.zeros_like(x)
        for i in range(links):
            out.select(axis, i).copy_(x.select(axis, i) * (i + 1))
        return out

    return fill


def rolled(links):
    def turn(x):
        for _ in range(links):
            x = torch.roll(x, 1, 1) * 1.5
        return x

    return turn


def halves(links):
    """Sums and differences of pairs, as of wavelets."""

    def pairs(x):
        for _ in range(links):
            even, odd = x[..., ::2], x[..., 1::2]
            x = torch.cat([even + odd, even - odd], -1) / 2
        return x

    return pairs


CHAINS = {
    "neighbours": (neighbours(11), ((3, 40), (2, 12), (1, 11), (0, 17))),
    "lattice": (lattice(10), ((3, 40), (2, 2), (1, 1), (4, 0))),
    "filled rows": (filled(14, 0), ((20, 5), (14, 1), (15, 0))),
    "filled columns": (filled(14, 1), ((5, 20), (1, 14), (0, 15))),
    "halves": (halves(6), ((3, 64), (2, 2), (1, 18), (0, 4))),
    "rolled": (rolled(12), ((3, 40), (2, 1), (1, 7))),
}


@pytest.mark.parametrize("name", CHAINS)
def test_a_long_chain_has_short_sizes_and_few_kernels(name):
    function, sizes = CHAINS[name]
    fast = disc.optimize(Function(function), (torch.randn(20, 34),), options=disc.Options(cache=False))
    for size in sizes:
        x = torch.randn(size)
        torch.testing.assert_close(fast(x), function(x))
    report = disc.report(fast).to_dict()
    assert report["compiles"] == 1
    assert report["kernels"] <= 8
    # Sizes that doubled with each link would make 2 ** 10 terms of it.
    assert len(str(report["facts"])) < 1000
