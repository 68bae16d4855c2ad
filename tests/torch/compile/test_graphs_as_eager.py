"""Graphs of ``torch.compile`` do as eager mode does: numbers, memory, effects and errors."""

from __future__ import annotations

import gc
import re
import weakref

import disc
import pytest
import torch
import torch.nn.functional as F
from torch import nn

pytestmark = pytest.mark.usefixtures("inference_of_fresh_dynamo")


def compiled(fn, **named):
    return torch.compile(fn, backend="disc", options={"fallback": "framework", "progress": False}, **named)


def fallbacks(fast) -> set[str]:
    """The ops that torch ran."""
    return {row["op"] for row in disc.report(fast).to_dict()["fallbacks"]}


# Memory that a graph frees.


def free_after_use(x):
    y = x.sin() * 2
    x.untyped_storage().resize_(0)
    return y


def return_a_freed_view(x):
    y = x.t()
    x.untyped_storage().resize_(0)
    return y


def free_and_fill_again(x):
    y = x.sin() * 2
    x.untyped_storage().resize_(0)
    x.untyped_storage().resize_(y.numel() * 4)
    x.copy_(y)
    return y + x.cos()


@pytest.mark.parametrize("f", [free_after_use, return_a_freed_view, free_and_fill_again])
def test_a_graph_may_free_the_memory_of_its_input(f):
    fast = compiled(f, dynamic=True)
    for size in (4, 5):
        x = torch.randn(size, 3)
        given = x.clone()
        wanted, got = f(x), fast(given)
        for a, b in ((got, wanted), (given, x)):
            assert a.untyped_storage().nbytes() == b.untyped_storage().nbytes()
            if b.untyped_storage().nbytes():
                torch.testing.assert_close(a, b)


class Frees(nn.Module):
    def __init__(self):
        super().__init__()
        self.w = nn.Parameter(torch.randn(3, 3))

    def forward(self, x):
        y = x @ self.w + 1
        x.untyped_storage().resize_(0)
        return y


def test_a_module_may_free_the_memory_of_its_input():
    module, x = Frees().eval(), torch.randn(4, 3)
    fast = disc.optimize(module, (x,), options=disc.Options(fallback="framework"))
    assert x.untyped_storage().nbytes()
    wanted, given = x @ module.w + 1, x.clone()
    torch.testing.assert_close(fast(given), wanted)
    assert not given.untyped_storage().nbytes()


def test_a_view_of_freed_memory_is_refused():
    fast = disc.optimize(nn.Linear(3, 2).eval(), (torch.randn(4, 3),))
    whole = torch.randn(8, 3)
    view = whole[4:]
    whole.untyped_storage().resize_(0)
    with pytest.raises(disc.Error, match="without memory of its own"):
        fast(view)


# Numbers of a call.


def _baddbmm_of_sizes(x, a, b, beta, alpha):
    return torch.baddbmm(x, a, b, beta=a.shape[1] - 3, alpha=a.shape[0])


def _baddbmm_of_items(x, a, b, beta, alpha):
    return torch.baddbmm(x, a, b, beta=torch.tensor(beta).item(), alpha=alpha)


@pytest.mark.parametrize(
    "f",
    [
        lambda x, a, b, beta, alpha: torch.baddbmm(x, a, b, beta=beta, alpha=alpha),
        lambda x, a, b, beta, alpha: torch.addbmm(x[0], a, b, beta=beta, alpha=alpha),
        lambda x, a, b, beta, alpha: torch.addmm(x[0], a[0], b[0], beta=beta, alpha=alpha),
        lambda x, a, b, beta, alpha: torch.addmv(x[0, 0], b[0].mT, a[0, 0], beta=beta, alpha=alpha),
        lambda x, a, b, beta, alpha: torch.addr(x[0], b[0, 0], b[0, 1], beta=beta, alpha=alpha),
        _baddbmm_of_sizes,
        _baddbmm_of_items,
    ],
)
def test_a_scale_of_zero_hides_nan_also_where_a_call_says_it(f):
    x, a, b = torch.full((2, 3, 3), torch.nan), torch.randn(2, 3, 4), torch.randn(2, 4, 3)
    fast = compiled(f, dynamic=True)
    for beta, alpha in ((2.0, 3.0), (0.0, 1.5), (0.5, 1.0)):
        torch.testing.assert_close(
            fast(x, a, b, beta, alpha), f(x, a, b, beta, alpha), equal_nan=True, rtol=1e-4, atol=1e-5
        )
    assert not fallbacks(fast)


@pytest.mark.parametrize(
    "f",
    [
        lambda x, y, beta, alpha: torch.addmm(y, x[0], x[1], beta=beta, alpha=alpha),
        lambda x, y, beta, alpha: torch.addmv(y[0], x[0], x[0, 0], beta=beta, alpha=alpha),
        lambda x, y, beta, alpha: torch.addbmm(y, x, x, beta=beta, alpha=alpha),
        lambda x, y, beta, alpha: torch.addmm(y, x[0], x[1], beta=beta, alpha=0),
    ],
)
def test_a_scale_of_zero_hides_nan_of_factors(f):
    x, y = torch.full((2, 3, 3), torch.nan), torch.randn(3, 3)
    module = nn.Identity()
    module.forward = f
    options = disc.Options(fallback="framework")
    for fast in (compiled(f, dynamic=True), disc.optimize(module, options=options)):
        for beta, alpha in ((0.5, 0.0), (0.0, 0.0), (1.0, 2.0)):
            torch.testing.assert_close(fast(x, y, beta, alpha), f(x, y, beta, alpha), equal_nan=True)
        assert not fallbacks(fast)


# Types that torch refuses.

INTEGERS, TRUTHS = torch.arange(16).reshape(1, 1, 4, 4), torch.eye(4, dtype=torch.bool)


@pytest.mark.parametrize(
    ("f", "x"),
    [
        (lambda x: F.adaptive_avg_pool2d(x, 2), INTEGERS),
        (lambda x: F.adaptive_max_pool2d(x, 2), INTEGERS),
        (lambda x: F.max_pool1d(x[0], 2), INTEGERS),
        (lambda x: F.interpolate(x, scale_factor=2), INTEGERS),
        (lambda x: x.softmax(0), INTEGERS),
        (lambda x: torch.frac(x + 1), INTEGERS),
        (lambda x: 1 - x, TRUTHS),
        (lambda x: x @ x, TRUTHS),
        (lambda x: F.relu(x), TRUTHS),
    ],
)
def test_types_that_torch_refuses_are_refused(f, x):
    with pytest.raises(RuntimeError) as expected:
        f(x)
    module = nn.Identity()
    module.forward = f
    for fast in (compiled(f), disc.optimize(module, (x,), options=disc.Options(fallback="framework"))):
        with pytest.raises(type(expected.value), match=re.escape(str(expected.value)[:40])):
            fast(x)


def test_types_that_torch_converts_are_compiled():
    def f(x):
        return x.softmax(-1, dtype=torch.float32), F.max_pool2d(x, 2), x @ x

    fast = compiled(f)
    for got, wanted in zip(fast(INTEGERS), f(INTEGERS), strict=True):
        torch.testing.assert_close(got, wanted)
    assert not fallbacks(fast)


@pytest.mark.parametrize(
    "f", [lambda x: F.adaptive_avg_pool2d(x, 0), lambda x: F.adaptive_max_pool2d(x, (0, 2))]
)
def test_pooling_to_no_cells_is_compiled(f):
    fast, x = compiled(f, dynamic=True), torch.randn(2, 3, 4, 5)
    torch.testing.assert_close(fast(x), f(x))
    assert not fallbacks(fast)


# Values that torch refuses.

WEIGHT, INDEX = torch.randn(5, 3), torch.tensor([0, 1, 2, 1])


@pytest.mark.parametrize(
    ("f", "x"),
    [
        (lambda x: F.one_hot(x, 3), torch.tensor([0, 5])),
        (lambda x: F.one_hot(x, 3), torch.tensor([-1, 0])),
        (lambda x: F.one_hot(x, x.shape[0] + 1), torch.tensor([3, 0])),
        (lambda x: F.embedding_bag(INDEX, WEIGHT, x), torch.tensor([1, 2])),
        (lambda x: F.embedding_bag(INDEX, WEIGHT, x), torch.tensor([0, 5])),
    ],
)
def test_values_that_torch_refuses_are_refused(f, x):
    good = torch.zeros_like(x)
    module = nn.Identity()
    module.forward = f
    for fast in (compiled(f, dynamic=True), disc.optimize(module, (good,))):
        torch.testing.assert_close(fast(good), f(good))
        assert not fallbacks(fast)
        with pytest.raises(RuntimeError, match=r"Class values must be|offsets"):
            fast(x)


def test_a_bag_that_begins_before_the_one_before_it_is_refused():
    module = nn.EmbeddingBag(5, 3).eval()
    fast = disc.optimize(module, (INDEX, torch.tensor([0, 2, 3])))
    with pytest.raises(RuntimeError, match="offsets must not fall"):
        fast(INDEX, torch.tensor([0, 2, 1]))


def test_zeta_of_offsets_far_below_zero():
    q = torch.tensor(
        [-1025.5, -2000.25, -9999.7, -2000, -torch.inf, torch.inf, torch.nan], dtype=torch.float64
    )
    for f in (
        lambda q: torch.special.zeta(3.0, q),
        lambda q: torch.polygamma(2, q),
        lambda q: torch.special.zeta(2.5, q),
    ):
        fast = compiled(f)
        torch.testing.assert_close(fast(q), f(q), equal_nan=True, rtol=1e-6, atol=1e-12)
        assert not fallbacks(fast)


@pytest.mark.parametrize("kind", [torch.uint8, torch.int8])
def test_sums_of_bytes_by_int8(kind):
    limits = torch.iinfo(kind)
    fast = compiled(torch._int_mm, dynamic=True)
    for rows, depth, columns in ((20, 64, 32), (33, 8, 16)):
        x = torch.randint(limits.min, limits.max + 1, (rows, depth), dtype=kind)
        y = torch.randint(-128, 128, (depth, columns), dtype=torch.int8)
        x[0], y[:, 0] = limits.max, -128
        torch.testing.assert_close(fast(x, y), x.int() @ y.int())
    assert not fallbacks(fast)


# Assertions about numbers out of tensors.


def _at_least(n, y):
    torch._check(n >= 3)
    return y * 2


def _not_four(n, y):
    torch._check(n != 4)
    return y * n


def _equal_to_a_size(n, y):
    torch._check(n == y.shape[0])
    return torch.arange(n) + y


def _above(n, y):
    torch._check(n > 2.5)
    return y + 1


@pytest.mark.parametrize(
    ("asserting", "good", "bad", "options"),
    [
        (_at_least, [1, 2], [1, 1], {}),
        (_not_four, [1, 2], [2, 2], {}),
        (_equal_to_a_size, [1, 2], [2, 2], {}),
        (_equal_to_a_size, [1, 2], [2, 2], {"dynamic": True}),
        (_above, [1.0, 2.0], [1.0, 1.0], {}),
    ],
)
@torch._dynamo.config.patch(capture_scalar_outputs=True)
def test_assertions_about_numbers_of_tensors_hold_in_each_call(asserting, good, bad, options):
    def f(x, y):
        return asserting(x.sum().item(), y)

    fast, y = compiled(f, **options), torch.randn(3)
    torch.testing.assert_close(fast(torch.tensor(good), y), f(torch.tensor(good), y))
    assert not fallbacks(fast)
    with pytest.raises(RuntimeError):
        fast(torch.tensor(bad), y)


class Asserting(nn.Module):
    def forward(self, x, y):
        n = x.sum().item()
        torch._check(n != 5)
        return _equal_to_a_size(n, y)


@pytest.mark.parametrize("bad", [[1, 3], [2, 3]])
def test_a_module_asserts_numbers_of_tensors_in_each_call(bad):
    fast = disc.optimize(Asserting(), (torch.tensor([1, 2]), torch.randn(3)))
    torch.testing.assert_close(fast(torch.tensor([2, 2]), torch.ones(4)), torch.arange(4) + 1.0)
    with pytest.raises(RuntimeError):
        fast(torch.tensor(bad), torch.ones(3 if sum(bad) == 4 else 5))


# What else eager mode does.


def _fill_gaps(x):
    y = torch.empty_strided((2, 3), (8, 2))
    y.copy_(x[:2, :3])
    return y


def _fill_in_order(x):
    x = x.reshape(1, 2, 2, 5)
    y = torch.empty_like(x, memory_format=torch.channels_last)
    y[:] = x
    return y


@pytest.mark.parametrize(
    "f", [_fill_gaps, _fill_in_order, lambda x: x.new_empty_strided((4, 5), (1, 4)).copy_(x)]
)
def test_memory_that_a_model_lays_out_keeps_its_strides(f):
    x = torch.randn(4, 5)
    got, wanted = compiled(f)(x), f(x)
    torch.testing.assert_close(got, wanted)
    assert got.stride() == wanted.stride()
    assert got.untyped_storage().nbytes() >= wanted.numel() * 4


def _write_through_a_diagonal(x):
    x.diagonal().as_strided((2,), (1,), 0).add_(1)
    return x


def _write_to_a_part(x):
    y = x * 2
    y[1:].as_strided((2,), (1,)).add_(5)
    return y, y.as_strided((2, 2), (1, 3), 1)


@pytest.mark.parametrize("f", [_write_through_a_diagonal, _write_to_a_part])
def test_a_view_of_a_view_by_strides_is_written(f):
    fast = compiled(f, dynamic=True)
    for x in (torch.randn(2, 4), torch.randn(3, 5), torch.randn(3, 3).t()):
        given = x.clone()
        torch.testing.assert_close(fast(given), f(x))
        torch.testing.assert_close(given, x)


def _images(shape: tuple) -> torch.Tensor:
    return torch.randn(shape).to(memory_format=torch.channels_last)


@pytest.mark.parametrize(
    "f",
    [
        lambda x: x.relu(),
        lambda x: torch.empty_like(x, memory_format=torch.channels_last).copy_(x),
        lambda x: torch.zeros_like(x, memory_format=torch.channels_last).add_(x),
    ],
)
def test_results_have_the_strides_of_axes_of_size_1(f):
    fast = compiled(f, dynamic=True)
    for shape in ((2, 3, 4, 5), (1, 1, 2, 5), (2, 1, 4, 5), (3, 2, 1, 1)):
        x = _images(shape)
        assert fast(x).stride() == f(x).stride()
        torch.testing.assert_close(fast(x), f(x))
    assert not fallbacks(fast)


# Versions of what a graph writes.


def _write_once(x, written):
    written.add_(1)
    return x.sin() * written.sum()


def _write_once_below_aot(x, written):
    written.add_(1)
    return torch.func.vmap(torch.sin)(x) * written.sum()


def _write_through_a_view(x, written):
    written.t().add_(1)
    return torch.func.vmap(torch.sin)(x) * written.sum()


def _write_unseen(x, written):
    written.detach().add_(1)
    return x.sin() * written.sum()


def _write_beside_an_op_of_torch(x, written):
    written.add_(1)
    return torch.linalg.qr(x)[1] * written.sum()


@pytest.mark.parametrize("is_trained", [False, True])
@pytest.mark.parametrize("is_strided", [False, True])
@pytest.mark.parametrize(
    "f",
    [
        _write_once,
        _write_once_below_aot,
        _write_through_a_view,
        _write_unseen,
        _write_beside_an_op_of_torch,
    ],
)
def test_a_write_counts_one_version(f, is_strided, is_trained):
    fast, x = compiled(f), torch.randn(2, 2, requires_grad=is_trained)
    written = torch.ones(3, 2).t() if is_strided else torch.ones(2, 3)
    with torch.set_grad_enabled(is_trained):
        for count in (1, 2):
            before = written.clone()
            torch.testing.assert_close(fast(x, written), f(x, before))
            torch.testing.assert_close(written, before)
            assert written._version == count


def _sigmoid_into_nothing(x):
    return torch.sigmoid(x, out=torch.empty(0))


def _add_into_nothing(x):
    out = torch.empty(0)
    torch.add(x, 1, out=out)
    torch.cat([x, x], out=out)
    return out * 2


def _add_into_what_is_computed(x):
    out = x[:2] * 2
    torch.add(x, 1, out=out)
    return out


def _sort_into_what_is_computed(x):
    values, indices = torch.ones(2) * 2, torch.zeros(1, dtype=torch.long) + 1
    torch.sort(x, out=(values, indices))
    return values, indices


def _resize_what_is_computed(x):
    y = x[:2] * 2
    part = y[1:]
    y.resize_(x.shape[0] + 3)
    y[:2] = 5
    return part, y[:2]


@pytest.mark.filterwarnings("ignore:An output with one or more elements was resized")
@pytest.mark.parametrize(
    "f",
    [
        _sigmoid_into_nothing,
        _add_into_nothing,
        _add_into_what_is_computed,
        _sort_into_what_is_computed,
        _resize_what_is_computed,
    ],
)
def test_results_grow_into_what_they_are_given(f):
    module = nn.Identity()
    module.forward = f
    fast = compiled(f)
    optimized = disc.optimize(module, options=disc.Options(fallback="framework"))
    for size in (3, 4, 4):
        x = torch.randn(size)
        torch.testing.assert_close(fast(x), f(x))
        torch.testing.assert_close(optimized(x), f(x))


def test_a_function_that_dynamo_does_not_look_into_runs_in_each_call():
    seen = []

    def count(x):
        seen.append(1)
        return x + len(seen)

    torch._dynamo.allow_in_graph(count)
    fast = compiled(lambda x: count(x) * 2)
    fast(torch.zeros(2))
    before = len(seen)
    got = [fast(torch.zeros(2))[0].item() for _ in range(3)]
    assert got == [2.0 * (before + i) for i in (1, 2, 3)]
    (row,) = disc.report(fast).to_dict()["fallbacks"]
    assert "count runs in each call" in row["reason"]


def test_states_of_an_optimizer_go_with_it():
    def stepped():
        layer = nn.Linear(4, 4, bias=False)
        layer.weight.grad = torch.rand_like(layer.weight)
        optimizer = torch.optim.Adam(layer.parameters())

        def step():
            optimizer.step()

        before = layer.weight.detach().clone()
        fast = compiled(step)
        fast()
        fast()
        assert not torch.equal(layer.weight, before)
        return weakref.ref(layer.weight), weakref.ref(optimizer.state[layer.weight]["exp_avg"])

    held = stepped()
    gc.collect()
    assert [ref() for ref in held] == [None, None]
