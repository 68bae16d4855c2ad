"""Modules of torch itself: networks, conditions on sizes, results of any structure.

One compile, several sizes, against eager.
"""

from __future__ import annotations

import math

import disc
import model_check
import pytest
import torch
from model_check import Function
from torch import nn
from torch.nn import functional as F


def check(compile_module, model, *calls, tolerance=2e-5):
    return model_check.one_compile(compile_module, model, [(args, {}) for args in calls], tolerance)


def test_mlp_of_any_batch(compile_module):
    model = nn.Sequential(nn.Linear(4, 8), nn.ReLU(), nn.Linear(8, 4))
    check(compile_module, model, (torch.rand(1, 4),), (torch.rand(0, 4),), (torch.rand(7, 4),))


@pytest.mark.parametrize("features", [1024, 3072, 8192])
def test_rows_that_lie_pages_apart(features, compile_module):
    model = nn.Sequential(nn.Linear(features, 40), nn.ReLU())
    check(compile_module, model, *[(torch.rand(rows, features),) for rows in (1, 0, 6, 7, 8, 13, 15, 29, 61)])


@pytest.mark.parametrize(
    "activation", [nn.GELU, nn.SiLU, nn.Tanh, nn.ELU, nn.Softplus, nn.Hardswish, nn.Mish, nn.LeakyReLU]
)
def test_mlp_with_a_norm(activation, compile_module):
    model = nn.Sequential(nn.Linear(5, 17), nn.LayerNorm(17), activation(), nn.Linear(17, 3), nn.Softmax(-1))
    check(compile_module, model, (torch.rand(1, 1, 5),), (torch.rand(3, 4, 5),), (torch.rand(2, 31, 5),))


def test_convolutions_of_any_length(compile_module):
    model = nn.Sequential(
        nn.Conv1d(4, 8, 3, stride=2), nn.ReLU(), nn.MaxPool1d(2), nn.Conv1d(8, 4, 5, padding=2)
    )
    check(compile_module, model, (torch.rand(1, 4, 32),), (torch.rand(3, 4, 17),), (torch.rand(2, 4, 8),))


class Residual(nn.Module):
    """The bottleneck of a residual network, with ReLUs in place."""

    def __init__(self, channels: int, out: int, stride: int):
        super().__init__()
        self.a = nn.Conv2d(channels, 6, 1, bias=False)
        self.b = nn.Conv2d(6, 6, 3, stride, 1, bias=False)
        self.c = nn.Conv2d(6, out, 1, bias=False)
        self.norms = nn.ModuleList(nn.BatchNorm2d(n) for n in (6, 6, out))
        self.skip = nn.Sequential(nn.Conv2d(channels, out, 1, stride, bias=False), nn.BatchNorm2d(out))

    def forward(self, x):
        y = F.relu(self.norms[0](self.a(x)), inplace=True)
        y = F.relu(self.norms[1](self.b(y)), inplace=True)
        y = self.norms[2](self.c(y))
        y += self.skip(x)
        return F.relu(y, inplace=True)


class ResidualNet(nn.Module):
    def __init__(self):
        super().__init__()
        self.stem = nn.Sequential(nn.Conv2d(3, 8, 7, 2, 3), nn.BatchNorm2d(8), nn.ReLU(inplace=True))
        self.pool = nn.MaxPool2d(3, 2, 1)
        self.blocks = nn.Sequential(Residual(8, 12, 1), Residual(12, 16, 2))
        self.head = nn.Linear(16, 5)

    def forward(self, x):
        x = self.blocks(self.pool(self.stem(x)))
        return self.head(torch.flatten(F.adaptive_avg_pool2d(x, 1), 1))


def test_residual_network(compile_module):
    shapes = [(1, 3, 32, 32), (2, 3, 45, 32), (1, 3, 33, 71)]
    check(compile_module, ResidualNet(), *[(torch.rand(shape),) for shape in shapes])


class Conformer(nn.Module):
    """One block of a conformer: half feed-forward, attention, gated depthwise convolution,
    half feed-forward.
    """

    def __init__(self, width: int, heads: int, kernel: int):
        super().__init__()
        self.first, self.last = self._feed(width), self._feed(width)
        self.norm = nn.LayerNorm(width)
        self.attention = nn.MultiheadAttention(width, heads, batch_first=True)
        self.before = nn.LayerNorm(width)
        self.wide = nn.Conv1d(width, 2 * width, 1)
        self.depth = nn.Conv1d(width, width, kernel, padding=kernel // 2, groups=width)
        self.batch = nn.BatchNorm1d(width)
        self.narrow = nn.Conv1d(width, width, 1)
        self.end = nn.LayerNorm(width)

    @staticmethod
    def _feed(width: int) -> nn.Module:
        return nn.Sequential(nn.LayerNorm(width), nn.Linear(width, 64), nn.SiLU(), nn.Linear(64, width))

    def forward(self, x):
        x = x + 0.5 * self.first(x)
        y = self.norm(x)
        x = x + self.attention(y, y, y, need_weights=False)[0]
        y = F.glu(self.wide(self.before(x).transpose(1, 2)), 1)
        x = x + self.narrow(F.silu(self.batch(self.depth(y)))).transpose(1, 2)
        return self.end(x + 0.5 * self.last(x))


def test_conformer(compile_module):
    model = nn.Sequential(nn.Linear(20, 24), Conformer(24, 3, 7), Conformer(24, 1, 5))
    shapes = [(1, 1, 20), (2, 50, 20), (1, 37, 20)]
    check(compile_module, model, *[(torch.rand(shape),) for shape in shapes])


def test_transformer_encoder_layers(compile_module):
    layer = nn.TransformerEncoderLayer(48, 3, 64, batch_first=True, norm_first=True)
    model = nn.TransformerEncoder(layer, 2, enable_nested_tensor=False)
    check(compile_module, model, *[(torch.rand(shape),) for shape in ((1, 1, 48), (2, 7, 48), (3, 33, 48))])


class Encoder(nn.Module):
    """torch's own, with its defaults: padding is left out where it is at the end of each line."""

    def __init__(self, **options):
        super().__init__()
        layer = nn.TransformerEncoderLayer(16, 4, 32, batch_first=True)
        self.encoder = nn.TransformerEncoder(layer, 2, nn.LayerNorm(16), **options)

    def forward(self, x, padding=None, mask=None):
        return self.encoder(x, mask=mask, src_key_padding_mask=padding)


def at_end(batch: int, length: int) -> torch.Tensor:
    return torch.arange(length) >= length - torch.arange(batch)[:, None] % length


def test_padding_is_left_out_of_an_encoder_as_in_eager(compile_module):
    within = at_end(2, 7)
    within[1, 1] = True
    numbers = torch.zeros(3, 4).masked_fill(at_end(3, 4), -2.0)
    for padding in (within, at_end(3, 5), at_end(1, 1)):
        calls = [(torch.rand(*p.shape, 16), p) for p in (padding, at_end(4, 9), within)]
        check(compile_module, Encoder(), *calls)
    check(
        compile_module, Encoder(), (torch.rand(3, 4, 16), numbers), (torch.rand(3, 4, 16), at_end(3, 4) * 1.0)
    )
    unchecked = [(torch.rand(*size, 16), at_end(*size)) for size in ((3, 5), (4, 2))]
    check(compile_module, Encoder(mask_check=False), *unchecked)


def test_masks_of_transformers_are_not_asked_whether_they_are_causal(compile_module):
    causal = nn.Transformer.generate_square_subsequent_mask
    calls = [(torch.rand(b, n, 16), at_end(b, n), causal(n)) for b, n in ((2, 5), (1, 1), (3, 17))]
    check(compile_module, Encoder(), *calls)
    check(compile_module, Encoder(), *[(x, None, mask) for x, _, mask in calls])

    class Both(nn.Module):
        def __init__(self):
            super().__init__()
            self.transformer = nn.Transformer(16, 4, 1, 1, 32, batch_first=True)

        def forward(self, x, y):
            return self.transformer(x, y, tgt_mask=causal(y.shape[1]))

    check(
        compile_module,
        Both(),
        *[(torch.rand(b, n + 2, 16), x) for b, n in ((2, 5), (4, 1)) for x in [torch.rand(b, n, 16)]],
    )


def test_a_part_of_a_tensor_is_iterated_over(compile_module):
    model = Function(lambda x: torch.stack([row * 2 for row in x[:2]]))
    check(compile_module, model, *[(torch.rand(n, 3),) for n in (3, 2, 7)])
    found = Function(lambda x: [torch.nonzero(row > 0.5) for row in x[:1]])
    check(compile_module, found, *[(torch.rand(n, 3),) for n in (3, 1, 7)])


def test_values_of_one_row_are_written_to_all_places(compile_module):
    def write(x, places, values):
        x = x.clone()
        x[:, places] = values
        return x

    calls = [(torch.rand(n, 5), torch.arange(k), torch.rand(n, 1)) for n, k in ((3, 4), (2, 1), (4, 0))]
    check(compile_module, Function(write), *calls)


def test_pooled_and_strided_sizes_that_agree_for_some_sizes(compile_module):
    class Down(nn.Module):
        def __init__(self):
            super().__init__()
            self.a, self.b = nn.Conv2d(3, 4, 3, 2, 1), nn.Conv2d(4, 4, 3, 2, 1)

        def forward(self, x):
            x = self.a(x)
            return F.max_pool2d(x, 2) + self.b(x)

    check(compile_module, Down(), *[(torch.rand(2, 3, *size),) for size in ((8, 12), (4, 3), (23, 16))])


def test_a_grid_of_the_image_s_own_size(compile_module):
    class Model(nn.Module):
        def __init__(self):
            super().__init__()
            self.turn = nn.Linear(3, 6)

        def forward(self, x):
            grid = F.affine_grid(self.turn(x.mean((2, 3))).view(-1, 2, 3), x.size(), align_corners=False)
            return F.grid_sample(x, grid, align_corners=False, padding_mode="reflection")

    sizes = ((2, 3, 8, 9), (1, 3, 1, 2), (3, 3, 15, 6))
    check(compile_module, Model(), *[(torch.rand(size),) for size in sizes], tolerance=1e-4)


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


def test_conditions_on_sizes_are_values(compile_module):
    class Model(nn.Module):
        def forward(self, x):
            odd, long = x.shape[0] % 2 == 1, x.shape[0] > x.shape[1]
            return {
                "odd": odd,
                "both": x * odd,
                "root": x / math.sqrt(x.shape[0]),
                "any": (x > 0.9).any().item(),
            }, long

    check(
        compile_module,
        Model(),
        *[(torch.rand(shape),) for shape in ((4, 3), (9, 2), (1, 1), (2, 50), (0, 3))],
    )


@pytest.mark.parametrize("keys", [("a-b", "a_b"), ("a b", ("t", 1)), (1, "1"), ("é", "-1"), ("0", 0)])
def test_keys_of_any_spelling(keys, compile_module):
    class Model(nn.Module):
        def forward(self, given, given_0):
            return {key: value * 2 for key, value in given.items()}, given_0.sum(0)

    def given(*sizes):
        return {key: torch.rand(size) for key, size in zip(keys, sizes, strict=True)}, torch.rand(
            sizes[0] + 1
        )

    check(compile_module, Model(), given(3, 4), given(5, 2), given(0, 1))


def test_dims_of_inputs_keep_their_own_names():
    class Model(nn.Module):
        def forward(self, batch, batch_x, b):
            return batch["x"].sum(0), batch_x.sum(0), b * 2

    example = {"x": torch.rand(3)}, torch.rand(4), torch.rand(5)
    compiled = disc.optimize(Model(), example, dims={"b": {0: "batch_x_0"}})
    result = compiled({"x": torch.ones(2)}, torch.ones(7), torch.ones(1))
    assert [float(part.sum()) for part in result] == [2, 7, 2]


@pytest.mark.parametrize(
    "extreme",
    [
        lambda x: x.amax(0),
        lambda x: x.min(),
        lambda x: x.max(0)[1],
        lambda x: x.argmin(),
        lambda x: x.aminmax(dim=0)[0],
    ],
)
def test_nothing_has_no_extreme_value(extreme, compile_module):
    class Model(nn.Module):
        def forward(self, x):
            return extreme(x)

    compiled = compile_module(Model(), torch.rand(2, 3))
    assert torch.equal(compiled(torch.ones(1, 3)), extreme(torch.ones(1, 3)))
    with pytest.raises((disc.Error, IndexError, RuntimeError), match=r">= 1|> 0|expected|Expected|non-zero"):
        compiled(torch.ones(0, 3))


class Recurrent(nn.Module):
    def __init__(self, kind, **options):
        super().__init__()
        self.layers = kind(5, 8, 2, batch_first=True, bidirectional=True, **options)

    def forward(self, x):
        out, state = self.layers(x)
        return out[:, -1], state


@pytest.mark.parametrize("kind", [nn.LSTM, nn.GRU, nn.RNN])
def test_recurrent_layers_of_any_batch_and_length(kind, compile_module):
    shapes = ((1, 1, 5), (2, 7, 5), (5, 3, 5), (1, 33, 5))
    check(compile_module, Recurrent(kind), *[(torch.rand(shape),) for shape in shapes])


def test_a_recurrent_layer_whose_states_are_given_from_an_example_of_one_line(compile_module):
    calls = [
        (torch.rand(steps, batch, 5), tuple(torch.rand(2, 1, batch, 7)))
        for steps, batch in ((9, 1), (1, 4), (3, 2))
    ]
    check(compile_module, nn.LSTM(5, 7), *calls)


@pytest.mark.parametrize("mode", ["sum", "mean", "max"])
def test_bags_of_embeddings(mode, compile_module):
    model = nn.EmbeddingBag(50, 8, mode=mode, padding_idx=3)
    bags = ((5, torch.tensor([0])), (9, torch.tensor([0, 2, 2, 9])), (1, torch.tensor([0, 1])))
    check(compile_module, model, *[(torch.randint(0, 50, (n,)), offsets) for n, offsets in bags])
    same_length = nn.EmbeddingBag(50, 8, mode=mode)
    check(
        compile_module, same_length, *[(torch.randint(0, 50, shape),) for shape in ((1, 1), (3, 4), (7, 2))]
    )


@pytest.mark.parametrize("padding", [-1, 2, None])
def test_rows_that_bags_leave_out_count_from_the_end(padding, compile_module):
    class Bags(nn.Module):
        def forward(self, index, weight, offsets):
            return nn.functional.embedding_bag(index, weight, offsets, padding_idx=padding)

    call = (torch.tensor([0, 4, 2, 1, 4, 3]), torch.randn(5, 4), torch.tensor([0, 3]))
    check(compile_module, Bags(), call, (torch.tensor([4, 1]), torch.randn(5, 4), torch.tensor([0, 1])))


class Tail(nn.Module):
    """As many of the last rows of ``x`` as ``y`` has."""

    def forward(self, x, y):
        return x[-y.shape[0] :] + y


def test_a_slice_that_counts_from_the_end_by_a_size(compile_module):
    sizes = ((7, 3), (5, 5), (4, 1))
    check(compile_module, Tail(), *[(torch.rand(n, 4), torch.rand(m, 4)) for n, m in sizes])


class Rotary(nn.Module):
    """Rotary embeddings by complex numbers, with a table that is a buffer."""

    def __init__(self):
        super().__init__()
        angle = torch.outer(torch.arange(64.0), 1 / (100 ** (torch.arange(0, 8, 2) / 8)))
        self.register_buffer("table", torch.polar(torch.ones_like(angle), angle), persistent=False)

    def forward(self, x, angle):
        z = torch.view_as_complex(x.reshape(*x.shape[:-1], -1, 2))
        fixed = z * self.table[: x.shape[1]][None, :, None]
        given = torch.cat([z.conj(), z], 1).transpose(1, 2) * torch.polar(
            torch.ones_like(angle), angle
        ).repeat(2, 1)
        return torch.view_as_real(fixed).flatten(3), torch.view_as_real(given * 2.0), z.sum(1).imag, z.abs()


def test_rotary_embeddings_of_complex_numbers(compile_module):
    shapes = ((1, 1), (2, 7), (3, 16))
    calls = [(torch.randn(b, t, 2, 8), torch.rand(t, 4)) for b, t in shapes]
    check(compile_module, Rotary(), *calls)


def test_rotary_embeddings_of_repeated_angles(compile_module):
    def rotate(x, cos, sin):
        cos, sin = cos.repeat_interleave(2, -1), sin.repeat_interleave(2, -1)
        return x * cos + torch.stack((-x[..., 1::2], x[..., ::2]), -1).flatten(-2) * sin

    calls = [
        (torch.randn(b, 2, s, 2 * h), torch.rand(s, h), torch.rand(s, h))
        for b, s, h in [(2, 3, 4), (1, 1, 1), (3, 5, 32)]
    ]
    check(compile_module, Function(rotate), *calls)


def test_the_absolute_value_of_complex_numbers_neither_overflows_nor_loses_small_ones(compile_module):
    class Length(nn.Module):
        def forward(self, x):
            return torch.view_as_complex(x).abs()

    x = torch.tensor(
        [[0.0, 0.0], [3e30, 4e30], [3e-30, 4e-30], [float("inf"), 1.0], [float("nan"), 1.0], [-3.0, 4.0]]
    )
    compiled = compile_module(Length(), (x,))
    torch.testing.assert_close(compiled(x), Length()(x), equal_nan=True)


def test_as_many_queries_as_keys_in_the_example_are_no_law(compile_module):
    lengths = ((2, 7, 7), (1, 1, 3), (3, 9, 4))
    calls = [(torch.rand(b, 2, q, 8), torch.rand(b, 2, k, 8), torch.rand(b, 2, k, 8)) for b, q, k in lengths]

    class Attention(nn.Module):
        def forward(self, q, k, v):
            return F.scaled_dot_product_attention(q, k, v), (q @ k.mT).softmax(-1) @ v

    check(compile_module, Attention(), *calls)


def test_softmax_computes_denormals_and_knows_no_number(compile_module):
    """A power of a distance to the maximum is as exact as an exponential: results below 2^-126 too,
    in rows of any length.
    """
    compiled = compile_module(nn.Softmax(-1), (torch.rand(3, 5),))
    for length in (1, 5, 40, 2000, 50_000):
        x = torch.linspace(-104.5, 0.0, length).repeat(6, 1).flip(-1)
        x[1] -= 7.0
        x[2, length // 2] = float("nan")
        x[3, length // 2] = float("inf")
        x[4] = float("-inf")
        x[5, 1:] = float("-inf")
        expected = torch.softmax(x.double(), -1)
        # Half a unit of the least denormal is rounded away.
        torch.testing.assert_close(compiled(x).double(), expected, rtol=1e-5, atol=1.5e-45, equal_nan=True)
        assert length < 40 or ((expected > 1e-43) & (expected < 1e-38)).any(), "there are denormals to keep"


class Relative(nn.Module):
    """Scores by relative position, from a table that is padded to the length."""

    def __init__(self):
        super().__init__()
        self.table = nn.Parameter(torch.randn(1, 9, 4))

    def forward(self, x):
        length = x.shape[1]
        more, first = max(length - 5, 0), max(5 - length, 0)
        table = self.table
        if more > 0:
            table = F.pad(table, [0, 0, more, more, 0, 0])
        table = table[:, first : first + 2 * length - 1]
        scores = F.pad(torch.matmul(x, table.transpose(1, 2)), [0, 1, 0, 0])
        flat = F.pad(scores.view(x.shape[0], length * 2 * length), [0, length - 1])
        return flat.view(x.shape[0], length + 1, 2 * length - 1)[:, :length, length - 1 :]


def test_a_reshape_whose_sizes_are_not_provably_those_of_its_operand(compile_module):
    model = Relative().eval()
    compiled = compile_module(model, (torch.randn(2, 9, 4),))
    for size in ((2, 9), (1, 6), (3, 17), (1, 40)):
        x = torch.randn(*size, 4)
        with torch.no_grad():
            torch.testing.assert_close(compiled(x), model(x), rtol=1e-5, atol=1e-5)


@pytest.mark.parametrize("kind", [nn.LSTM, nn.GRU, nn.RNN])
def test_a_sequence_without_steps_is_refused_as_by_torch(kind):
    layer = kind(3, 4, batch_first=True).eval()
    compiled = disc.optimize(layer, torch.rand(2, 5, 3))
    torch.testing.assert_close(compiled(torch.zeros(0, 1, 3))[0], torch.zeros(0, 1, 4))
    with pytest.raises(RuntimeError, match="larger than 0"):
        layer(torch.rand(2, 0, 3))
    with pytest.raises(disc.DimError, match="input_1 = 0"):
        compiled(torch.rand(2, 0, 3))


class Density(nn.Module):
    def __init__(self):
        super().__init__()
        self.inner = nn.Linear(4, 4)

    def forward(self, x, wide):
        normal = torch.distributions.Normal(self.inner(x), wide)
        return normal.log_prob(x).sum(-1), normal.entropy()


def test_distributions_check_their_parameters(compile_module, monkeypatch):
    # Once dynamo is in use, torch turns these checks off for the process.
    monkeypatch.setattr(torch.distributions.Distribution, "_validate_args", True)
    model = Density()
    compiled = compile_module(model, (torch.rand(3, 4), torch.rand(3, 4) + 1))
    for rows in (3, 1, 0, 5):
        given = torch.rand(rows, 4), torch.rand(rows, 4) + 1
        with torch.no_grad():
            torch.testing.assert_close(compiled(*given), model(*given))
            if rows:
                for wrong in ((given[0], -given[1]), (given[0] / 0, given[1])):
                    with pytest.raises(ValueError, match="to"):
                        model(*wrong)
                    with pytest.raises(disc.Error, match="distribution"):
                        compiled(*wrong)


def test_bags_beside_what_torch_export_alone_traces():
    class Ranker(nn.Module):
        def __init__(self):
            super().__init__()
            self.bags = nn.EmbeddingBag(100, 8, mode="sum")

        def forward(self, values, offsets):
            left, right = torch.triu_indices(5, 5, 1)
            return self.bags(values, offsets), left, right

    model = Ranker().eval()
    fast = disc.optimize(model, (torch.arange(8), torch.tensor([0, 2, 4])))
    given = torch.arange(6), torch.tensor([0, 3])
    for ours, theirs in zip(fast(*given), model(*given), strict=True):
        torch.testing.assert_close(ours, theirs)
