"""Ops that the bridge has no entry for: torch's decompositions of them are compiled,
with sizes that only the call knows.
"""

from __future__ import annotations

import pytest
import torch
from disc.torch.capture.capture import capture
from disc.torch.decompositions import lookup
from disc.torch.lowering.table import serves
from model_check import Function
from torch.nn import functional as F

#: A function, and shapes of its inputs; the first ones are the example.
CASES = {
    "tensordot": (
        lambda x, y: torch.tensordot(x, y, dims=([1, 2], [0, 1])),
        [((3, 4, 5), (4, 5, 6)), ((2, 3, 7), (3, 7, 1)), ((1, 1, 0), (1, 0, 2))],
    ),
    "trace": (lambda x: x.trace(), [((4, 4),), ((7, 3),), ((1, 1),)]),
    "diag_embed": (lambda x: torch.diag_embed(x, 1), [((2, 3),), ((4, 1),), ((0, 2),)]),
    "rot90": (lambda x: x.rot90(1, (0, 1)), [((2, 3),), ((4, 1),), ((0, 2),)]),
    "channel_shuffle": (lambda x: F.channel_shuffle(x, 2), [((1, 4, 3, 2),), ((2, 4, 1, 5),)]),
    "cross": (lambda x, y: torch.linalg.cross(x, y), [((2, 3), (2, 3)), ((5, 3), (5, 3)), ((0, 3), (0, 3))]),
    "block_diag": (torch.block_diag, [((2, 3), (4, 5)), ((1, 1), (7, 2))]),
    "cartesian_prod": (torch.cartesian_prod, [((3,), (4,)), ((1,), (7,))]),
    "nanmean": (lambda x: x.log().nanmean(1), [((2, 3),), ((4, 9),), ((5, 1),)]),
    "float_power": (lambda x: torch.float_power(x.abs(), 1.5), [((2, 3),), ((4, 1),), ((0, 2),)]),
    "trapezoid": (lambda x: torch.trapezoid(x, dim=1), [((2, 3),), ((4, 9),), ((1, 2),)]),
    "renorm": (lambda x: torch.renorm(x, 2, 0, 1.0), [((2, 3),), ((4, 9),), ((1, 1),)]),
    "erfinv": (lambda x: torch.special.erfinv(x.tanh()), [((2, 3),), ((4, 9),), ((1, 0),)]),
    "ndtr": (torch.special.ndtr, [((2, 3),), ((4, 9),), ((1, 0),)]),
    "cdist": (torch.cdist, [((3, 4), (5, 4)), ((40, 2), (1, 2)), ((0, 4), (30, 4))]),
    "cov": (lambda x: (torch.cov(x), torch.cov(x.T, correction=0)), [((3, 5),), ((7, 30),), ((2, 2),)]),
    "cov of one": (torch.cov, [((5,),), ((30,),)]),
    "corrcoef": (torch.corrcoef, [((3, 5),), ((7, 30),), ((2, 9),)]),
    "cov of integers": (
        lambda x: (torch.cov((x * 9).long()), torch.corrcoef((x * 9).int())),
        [((3, 5),), ((7, 30),), ((2, 2),)],
    ),
    "combinations": (
        lambda x: (torch.combinations(x), torch.combinations(x, with_replacement=True)),
        [((5,),), ((2,),), ((1,),), ((0,),), ((9,),)],
    ),
    "cdist by the largest": (
        lambda x, y: torch.cdist(x, y, p=torch.inf),
        [((3, 4), (5, 4)), ((2, 0), (3, 0)), ((1, 1), (0, 1))],
    ),
    "shifts of bool": (
        lambda x: ((x > 0) << 1, (x > 0) >> (x * 2).to(torch.int8).abs()),
        [((2, 3),), ((0, 1),)],
    ),
    "cdist by what differs": (
        lambda x, y: torch.cdist(x.round().log(), y.round().log(), p=0),
        [((3, 4), (5, 4)), ((2, 0), (3, 0)), ((1, 1), (0, 1))],
    ),
    "index_reduce": (
        lambda x, y: [
            torch.index_reduce(x, 1, torch.tensor([0, 1, 0]), y, how, include_self=include)
            for how in ("prod", "mean", "amax", "amin")
            for include in (True, False)
        ],
        [((2, 3), (2, 3)), ((4, 2), (4, 3)), ((0, 5), (0, 3))],
    ),
    "scatters into a scalar": (
        lambda x, y: [
            x.scatter_add(0, torch.tensor(0), y),
            x.index_reduce(0, torch.tensor([0]), y, "prod"),
            *[
                x.scatter_reduce(0, torch.tensor(0), y, how, include_self=include)
                for how in ("sum", "mean", "amax", "amin")
                for include in (True, False)
            ],
        ],
        [((), ())],
    ),
    "multilabel_margin_loss": (
        lambda x, y: [
            F.multilabel_margin_loss(x, (y * 4).long().clamp(-1, x.shape[1] - 1), reduction=how)
            for how in ("none", "mean", "sum")
        ],
        [((3, 5), (3, 5)), ((7, 2), (7, 2)), ((2, 31), (2, 31)), ((1, 1), (1, 1))],
    ),
    "put": (
        lambda x, y: x.put(torch.tensor([[0, 1]]), y, accumulate=True),
        [((2, 3), (1, 2)), ((4, 1), (1, 2)), ((2, 1), (2, 1))],
    ),
    "addbmm": (
        lambda x, a, b: torch.addbmm(x, a, b, beta=0.5, alpha=2),
        [((3, 5), (2, 3, 4), (2, 4, 5)), ((1, 1), (7, 1, 2), (7, 2, 1))],
    ),
    "kron": (torch.kron, [((2, 3), (4, 5)), ((1, 1), (7, 2)), ((0, 3), (2, 2))]),
    "kron of unlike ranks": (torch.kron, [((3,), (4, 5)), ((1,), (7, 2))]),
    "take_along_dim": (
        lambda x: torch.take_along_dim(x, x.argsort(1), 1),
        [((3, 5),), ((7, 30),), ((1, 1),), ((0, 4),)],
    ),
    "multi_dot": (
        lambda *xs: torch.linalg.multi_dot(xs),
        [((2, 3), (3, 5), (5, 4)), ((1, 7), (7, 2), (2, 9)), ((3, 0), (0, 7), (7, 2))],
    ),
    "vander": (lambda x: (torch.vander(x), torch.vander(x, 3, True)), [((5,),), ((1,),), ((0,),)]),
    "linalg.vander": (lambda x: torch.linalg.vander(x, N=4), [((2, 5),), ((3, 1),)]),
    "linalg.vander of a number": (lambda x: torch.linalg.vander(x.sum(), N=2), [((3,),), ((1,),)]),
    "linalg.vander, square": (lambda x: torch.linalg.vander(x), [((2, 5),), ((1, 2),)]),
    "gradient": (lambda x: torch.gradient(x), [((5, 4),), ((2, 9),)]),
    "gradient of order 2": (
        lambda x: torch.gradient(x, spacing=0.5, dim=(0, 1), edge_order=2),
        [((5, 4),), ((3, 9),)],
    ),
    "gradient with two spacings": (lambda x: torch.gradient(x, spacing=(2.0, 0.5)), [((5, 4),), ((2, 9),)]),
    "kthvalue": (lambda x: torch.kthvalue(x, 2, 1), [((3, 5),), ((1, 2),), ((0, 4),)]),
    "median of all": (lambda x: (x.median(), x.log().median()), [((3, 5),), ((1, 2),), ((0, 4),)]),
    "nanmedian": (
        lambda x: (x.log().nanmedian(1).values, x.log().nanmedian()),
        [((3, 5),), ((1, 2),), ((4, 1),)],
    ),
    "bessel": (
        lambda x: [f(x * 12) for f in (torch.special.i0, torch.special.i0e, torch.special.i1)],
        [((40, 30),), ((1, 1),), ((0, 4),)],
    ),
    "bessel of what is no number": (
        lambda x: [f(x / x.floor().abs()) for f in (torch.special.i0, torch.special.i0e)],
        [((40, 30),)],
    ),
    "mode": (
        lambda x: [torch.mode((x * 2).round(), dim, keepdim) for dim, keepdim in ((1, False), (0, True))],
        [((3, 5),), ((9, 16),), ((1, 2),), ((1, 1),)],
    ),
    "isin": (
        lambda x, y: (
            [torch.isin((x * 3).int(), (y * 3).int(), invert=i) for i in (False, True)]
            + [torch.isin((x * 3).round(), (y * 3).long()), torch.isin(x.log(), y.log())]
        ),
        [((3, 5), (4,)), ((2, 40), (42,)), ((3, 1), (0,)), ((0, 4), (1,))],
    ),
    "a constant": (lambda x: x * torch.hann_window(5), [((2, 5),), ((4, 5),), ((0, 5),)]),
    "an imaginary factor": (
        lambda x: torch.view_as_real(torch.view_as_complex(x) * (2 - 1j)),
        [((3, 2),), ((1, 2),), ((0, 2),)],
    ),
}


@pytest.mark.parametrize("name", CASES)
def test_what_has_no_entry_is_compiled_as_its_steps(name, compile_module):
    function, shapes = CASES[name]
    torch.manual_seed(0)
    inputs = [tuple(torch.randn(shape) for shape in call) for call in shapes]
    compiled = compile_module(Function(function), inputs[0])
    for call in inputs:
        torch.testing.assert_close(compiled(*call), function(*call), rtol=1e-4, atol=1e-5, equal_nan=True)


@pytest.mark.parametrize("name", ["trace", "cdist", "cov of one", "renorm"])
def test_steps_are_traced_beside_a_size_that_depends_on_data(name, compile_module):
    function, shapes = CASES[name]

    def both(mask, *tensors):
        return mask.nonzero(), function(*tensors)

    torch.manual_seed(0)
    inputs = [(torch.rand(6) > 0.5, *map(torch.randn, call)) for call in shapes]
    compiled = compile_module(Function(both), inputs[0])
    for call in inputs:
        torch.testing.assert_close(compiled(*call), both(*call), rtol=1e-4, atol=1e-5)


def _regular(count: int, n: int) -> torch.Tensor:
    """Matrices whose elimination changes rows."""
    shifted = torch.eye(n).roll(1, 0) if n > 1 else torch.eye(1)
    return (torch.rand(count, n, n) - 0.5) / n + 2 * shifted


#: Ops that refuse data or sizes when they run: inputs that serve, others that do not, and the words
#: of torch.
REFUSED = {
    "masked_scatter": (
        lambda x, mask, source: x.masked_scatter(mask, source),
        [
            (torch.rand(3, 4), torch.rand(3, 4) > 0.5, torch.rand(12)),
            (torch.rand(1, 2), torch.rand(1, 2) > 1, torch.rand(0)),
        ],
        [
            (torch.rand(3, 4), torch.rand(3, 4) >= 0, torch.rand(11)),
            (torch.rand(1, 1), torch.rand(1, 1) >= 0, torch.rand(0)),
        ],
        "as many elements",
    ),
    "quantile": (
        lambda x: (torch.quantile(x, 0.3, dim=0), torch.nanquantile(x, 0.5)),
        [(torch.rand(5, 3),), (torch.rand(1, 1),)],
        [(torch.rand(0, 3),), (torch.rand(4, 0),)],
        "needs",
    ),
    "gaussian_nll_loss": (
        F.gaussian_nll_loss,
        [tuple(torch.rand(n, k) for _ in range(3)) for n, k in ((5, 3), (1, 1), (0, 3), (7, 2))],
        [(torch.rand(2, 2), torch.rand(2, 2), torch.tensor([[1.0, 0.0], [2.0, -1e-9]]))],
        "var has negative",
    ),
    "gaussian_nll_loss, one variance for a row": (
        torch.nn.GaussianNLLLoss(full=True, reduction="none"),
        [(torch.rand(n, k), torch.rand(n, k), torch.rand(n, 1)) for n, k in ((5, 3), (1, 1), (0, 3), (7, 2))],
        [(torch.rand(2, 2), torch.rand(2, 2), -torch.rand(2, 1))],
        "var has negative",
    ),
    "inverse and a system": (
        lambda a: (torch.linalg.inv(a), torch.linalg.solve(a, a[..., :2] + 1), torch.linalg.det(a)),
        [(_regular(n, 3),) for n in (2, 1, 0)],
        [(torch.ones(2, 3, 3),), (torch.zeros(1, 3, 3),)],
        "singular",
    ),
    "a matrix of one element, and its vector": (
        lambda a, b: (torch.inverse(a), torch.linalg.solve(a, b)),
        [(_regular(n, 1), torch.rand(n, 1)) for n in (3, 1, 0)],
        [(torch.zeros(2, 1, 1), torch.rand(2, 1))],
        "singular",
    ),
    "index_reduce": (
        lambda x, y: torch.index_reduce(x, 1, torch.tensor([0, 1]), y, "amax"),
        [(torch.rand(n, 4), torch.rand(n, 2)) for n in (3, 1, 0)],
        [(torch.rand(3, 4), torch.rand(2, 2)), (torch.rand(3, 4), torch.rand(1, 2))],
        "names one size",
    ),
    "cholesky": (
        lambda a: (torch.linalg.cholesky(a @ a.mT - 1e-3), *torch.linalg.slogdet(a)),
        [(_regular(n, 4),) for n in (2, 1, 0)],
        [(torch.zeros(2, 4, 4),), (torch.full((1, 4, 4), torch.nan),)],
        "positive-definite",
    ),
}


@pytest.mark.parametrize("name", REFUSED)
def test_what_torch_refuses_at_run_time_is_refused(name):
    import disc

    function, served, refused, words = REFUSED[name]
    compiled = disc.optimize(Function(function), served[0])
    for given in served:
        torch.testing.assert_close(compiled(*given), function(*given), equal_nan=True)
    for given in refused:
        with pytest.raises((RuntimeError, ValueError)):
            function(*given)
        with pytest.raises(disc.Error, match=words):
            compiled(*given)
    torch.testing.assert_close(compiled(*served[0]), function(*served[0]))


def _augmented(x):
    mask, bits = x > 0, (x * 10).to(torch.int64)
    mask &= x < 1
    mask |= x < -1
    mask ^= x.abs() < 0.1
    bits <<= bits.clamp(0, 3)
    bits >>= 2
    bits //= 3
    return mask, bits


def _written(x):
    y = x.clone()
    y.divide_(2).subtract_(1).negative_()
    y.floor_divide_(0.3)
    y[1:].absolute_()
    y.ldexp_(torch.ones_like(y))
    y.clip_(x - 1, x + 1)
    return y, y.greater_(0)


@pytest.mark.parametrize("function", [_augmented, _written])
def test_writes_of_what_has_no_entry(function, compile_module):
    torch.manual_seed(0)
    inputs = [torch.randn(shape) for shape in ((2, 3), (5, 1), (0, 4), (1, 1), (30, 7))]
    compiled = compile_module(Function(function), (inputs[0],))
    for x in inputs:
        torch.testing.assert_close(compiled(x), function(x))


def test_a_write_of_another_type_is_refused():
    import disc

    for write in (lambda x: x.clone().divide_(2), lambda x: x.clone().float_power_(2)):
        with pytest.raises(disc.Error, match=r"can.t be cast|gives torch.float"):
            disc.optimize(Function(write), torch.arange(3))


def test_what_has_an_entry_stays_whole():
    captured = capture(torch.nn.LayerNorm(8), (torch.zeros(2, 8),), serves=serves)
    ops = {str(node.target) for node in captured.graph.nodes if node.op == "call_function"}
    assert ops == {"aten.layer_norm.default"}


def test_what_neither_side_knows_is_named():
    class Eigen(torch.nn.Module):
        def forward(self, x):
            return torch.linalg.eigvalsh(x)

    import disc

    with pytest.raises(disc.UnsupportedOp, match="eig"):
        disc.optimize(Eigen(), torch.eye(3))


def test_determinants_of_singular_matrices_and_of_what_is_no_number(compile_module):
    a = torch.stack([torch.ones(3, 3), torch.eye(3), torch.full((3, 3), torch.nan), torch.zeros(3, 3)])
    both = Function(lambda a: (torch.linalg.det(a), *torch.linalg.slogdet(a)))
    torch.testing.assert_close(compile_module(both, (a,))(a), both(a), equal_nan=True)


def test_a_large_matrix_is_refused():
    import disc

    with pytest.raises(disc.Error, match=r"of 9 rows \(.*\) of torch\.float32: up to 8"):
        disc.optimize(Function(torch.linalg.inv), (torch.rand(2, 9, 9),))


def test_a_constant_is_small_and_the_same_each_time():
    aten = torch.ops.aten
    for op in (aten.from_file.default, aten.rand.default, aten.empty.memory_format):
        assert not lookup.is_constant(op)
    assert lookup.is_constant(aten.tril_indices.default)
    for size, is_folded in ((4, True), (1000, False)):
        module = Function(
            lambda x, size=size: (
                x + torch.tril_indices(size, size).shape[1] + torch.tril_indices(size, size)[0, -1]
            )
        )
        captured = capture(module, (torch.zeros(2),), serves=serves)
        ops = {str(node.target) for node in captured.graph.nodes if node.op == "call_function"}
        assert ("aten.tril_indices.default" in ops) != is_folded


def test_steps_do_not_lead_back_to_the_op():
    import disc

    x, y = torch.rand(5, 1, 3), torch.rand(4, 3)
    for function in (torch.igamma, torch.igammac):
        with pytest.raises(disc.UnsupportedOp, match="number of its steps depends on data"):
            disc.optimize(Function(function), (x, y))
