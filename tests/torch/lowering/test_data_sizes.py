"""Sizes that depend on data, in modules: one compile for all of them,
and what is computed from them.
"""

from __future__ import annotations

import disc
import pytest
import torch
from model_check import Function
from torch.utils import _pytree as pytree


def masked(*sizes):
    return [(torch.randn(n, 4), torch.rand(n) > 0.5) for n in sizes]


def pooled(x, mask):
    chosen = x[mask]
    return chosen.softmax(-1) @ chosen.T, torch.nn.functional.layer_norm(chosen, (4,)).sum(0)


def twice_chosen(x, mask):
    chosen = x[mask]
    return (chosen[chosen[:, 0] > 0].exp() + 1).sum(0), chosen.shape[0] + x.sum()


def numbers(x, n):
    return x[: n.item()] * 2, x[n.item() :], x * (n.item() + 1)


def checked_narrow(x, n):
    torch._check(n.item() <= x.shape[0])
    return x.narrow(0, 0, n.item()) * 2


def put_back(x, mask):
    return torch.zeros_like(x).index_put((mask,), x[mask] * 2)


NUMBERS = [(torch.randn(6, 4), torch.tensor(n)) for n in (3, 0, 1, 6, 9, -1, -9)]
CASES = {
    "pooled": (pooled, masked(6, 0, 1, 1, 40)),
    "none-and-all": (
        pooled,
        [*masked(6), (torch.randn(5, 4), torch.zeros(5) > 0), (torch.randn(5, 4), torch.ones(5) > 0)],
    ),
    "twice-chosen": (twice_chosen, masked(6, 0, 1, 17)),
    "one-mask-for-two": (lambda x, m: x[m] + (2 * x)[m], masked(6, 0, 1, 17)),
    "both-sides": (lambda x, m: (x[m], x[~m]), masked(6, 0, 1, 17)),
    "put-back": (put_back, masked(6, 0, 1, 17)),
    "numbers": (numbers, NUMBERS),
    "arange": (lambda n: torch.arange(n.item()) * 2, [(torch.tensor(n),) for n in (3, 0, 1, 100)]),
    "narrow": (checked_narrow, [(torch.randn(6, 4), torch.tensor(n)) for n in (3, 0, 1, 6)]),
    "unique": (
        lambda x: torch.unique(x, return_inverse=True, return_counts=True),
        [(torch.randint(0, 4, (n,)),) for n in (6, 0, 1, 40)],
    ),
    "repeat": (
        lambda x, r: x.repeat_interleave(r, dim=0).cumsum(0),
        [(torch.randn(n, 4), torch.randint(0, 4, (n,))) for n in (6, 0, 1, 17)],
    ),
}


@pytest.mark.parametrize("name", CASES)
def test_against_eager(name, compile_module):
    function, inputs = CASES[name]
    compiled = compile_module(Function(function), inputs[0])
    for given in inputs:
        ours, theirs = pytree.tree_leaves(compiled(*given)), pytree.tree_leaves(function(*given))
        assert len(ours) == len(theirs)
        for a, e in zip(ours, theirs, strict=True):
            assert (a.shape, a.dtype) == (e.shape, e.dtype), [t.shape for t in given]
            torch.testing.assert_close(a, e, rtol=1e-4, atol=1e-5)


def test_a_violated_check_fails_the_call_and_the_next_works(compile_module):
    import disc

    x = torch.randn(6, 4)
    compiled = compile_module(Function(checked_narrow), (x, torch.tensor(3)))
    # One row too many: the difference is what the fact is about.
    with pytest.raises(disc.Error, match=r"is -1, expected .*u0 >= 0"):
        compiled(x, torch.tensor(7))
    with pytest.raises(disc.Error, match="-1, expected 0 or more"):
        compiled(x, torch.tensor(-1))
    torch.testing.assert_close(compiled(x, torch.tensor(2)), x[:2] * 2)


def test_what_is_returned_twice_is_one_tensor(compile_module):
    compiled = compile_module(Function(lambda x: (x.exp(), x.exp())), (torch.randn(3),))
    a, b = compiled(torch.randn(4))
    assert a.data_ptr() != b.data_ptr()

    def twice(x):
        y = x.exp()
        return y, x, y

    x = torch.randn(5)
    a, same, b = compile_module(Function(twice), (torch.randn(3),))(x)
    assert a.data_ptr() == b.data_ptr()
    assert same.data_ptr() == x.data_ptr()
    torch.testing.assert_close(a, x.exp())


def test_weights_of_a_count_come_one_for_each(compile_module):
    inputs = [(torch.randint(0, 6, (n,)), torch.randn(n)) for n in (5, 1, 9)]
    compiled = compile_module(Function(lambda x, weights: torch.bincount(x, weights, 4)), inputs[0])
    for x, weights in inputs:
        torch.testing.assert_close(compiled(x, weights), torch.bincount(x, weights, 4))
    with pytest.raises(disc.DimError):
        compiled(torch.tensor([1, 2]), torch.ones(3))


STRETCHED = {
    "scalar-like": (lambda x, y: y[y > 0] * x, (1,)),
    "rows": (lambda x, y: torch.where(y[y > 0.5] > 0.7, x, 0) + x[0], (1,)),
    "a-row": (lambda x, y: y[y > 0].unsqueeze(1) + x, (1, 3)),
}


@pytest.mark.parametrize("name", STRETCHED)
def test_a_size_of_1_of_the_example_is_stretched_to_a_size_from_data(name, compile_module):
    function, shape = STRETCHED[name]
    x = torch.rand(shape)
    compiled = compile_module(Function(function), (x, torch.randn(6)))
    for n in (6, 0, 1, 40):
        y = torch.randn(n)
        for given in (y, y.abs() + 1, -y.abs()):
            torch.testing.assert_close(compiled(x, given), function(x, given))
    with pytest.raises(disc.DimError, match="expected 1"):
        compiled(torch.rand((3, *shape[1:])), torch.randn(6))


class Attention(torch.nn.Module):
    """A layer of graph attention: loops are taken out of the edges, and each node gets one."""

    def __init__(self, features=8, heads=2, width=4):
        super().__init__()
        self.heads, self.width = heads, width
        self.project = torch.nn.Linear(features, heads * width, bias=False)
        self.of_source = torch.nn.Parameter(torch.randn(1, heads, width))
        self.of_target = torch.nn.Parameter(torch.randn(1, heads, width))

    def forward(self, x, edges):
        n = x.shape[0]
        edges = edges[:, edges[0] != edges[1]]
        edges = torch.cat([edges, torch.arange(n).unsqueeze(0).repeat(2, 1)], 1)
        source, target = edges[0], edges[1]
        z = self.project(x).view(-1, self.heads, self.width)
        scores = (z * self.of_source).sum(-1)[source] + (z * self.of_target).sum(-1)[target]
        scores = torch.nn.functional.leaky_relu(scores, 0.2)
        at = target[:, None].expand_as(scores)
        most = torch.zeros(n, self.heads).scatter_reduce(0, at, scores, "amax", include_self=False)
        weights = (scores - most[target]).exp()
        total = torch.zeros(n, self.heads).scatter_add(0, at, weights)
        weights = weights / (total[target] + 1e-16)
        found = torch.zeros(n, self.heads, self.width).index_add(0, target, z[source] * weights.unsqueeze(-1))
        return found.view(n, -1)


def graph_of(nodes, count, loops):
    edges = torch.randint(0, nodes, (2, count))
    if loops == "all":
        edges[1] = edges[0]
    elif loops == "none":
        edges[1] = (edges[0] + 1) % nodes
    return torch.randn(nodes, 8), edges


GRAPHS = [
    (10, 30, ""),
    (7, 20, "none"),
    (12, 50, ""),
    (5, 9, "all"),
    (1, 3, "all"),
    (4, 0, ""),
    (1, 1, "all"),
]


def test_one_program_serves_graphs_of_any_number_of_loops(compile_module):
    module = Attention().eval()
    compiled = compile_module(module, graph_of(*GRAPHS[0]))
    with torch.no_grad():
        for kind in GRAPHS:
            given = graph_of(*kind)
            torch.testing.assert_close(compiled(*given), module(*given), rtol=1e-4, atol=1e-5)


@pytest.mark.usefixtures("inference_of_fresh_dynamo")
def test_a_graph_of_dynamos_serves_any_number_of_loops():
    module = Attention().eval()
    fast = torch.compile(module, backend="disc", dynamic=True)
    for kind in GRAPHS[:3]:
        given = graph_of(*kind)
        torch.testing.assert_close(fast(*given), module(*given), rtol=1e-4, atol=1e-5)
    # The choice of edges is a graph, and what follows another one.
    assert disc.report(fast).to_dict()["compiles"] == 2
