"""The functions whose gradients test_training_rows.py compares: each with its inputs for a
size.

Every floating-point input is differentiated. ``held`` are the positions of those that are
parameters of a module, whose sizes do not change: weights of convolutions.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass

import torch
import torch.nn.functional as F

randn = torch.randn


@dataclass
class Row:
    """A function and its inputs for a size."""

    name: str
    function: Callable
    inputs: Callable[[int], list[torch.Tensor]]
    held: tuple[int, ...] = ()
    #: Torch runs these ops of the backward part.
    left: tuple[str, ...] = ()


def above(low, high=math.inf):
    """Makes inputs between ``low`` and ``high``, away from both."""
    span = min(high - low, 1.0)
    return lambda *sizes: low + span * (0.1 + 0.8 * torch.rand(*sizes))


def _unary() -> list[Row]:
    anywhere = (
        "abs asinh atan ceil cos cosh erf erfc exp exp2 expm1 floor i0 neg relu round sigmoid sign sin sinc sinh "
        "square tan tanh trunc deg2rad rad2deg nan_to_num"
    )
    makers = dict.fromkeys(anywhere.split(), randn)
    makers |= {name: above(-0.8, 0.2) for name in ("acos", "asin", "atanh", "erfinv")}
    makers |= {
        name: above(0) for name in ["lgamma", "log", "log10", "log1p", "log2", "reciprocal", "rsqrt", "sqrt"]
    }
    makers |= {"acosh": above(1), "logit": above(0, 1)}
    rows = [Row(name, getattr(torch, name), _of(make, 6)) for name, make in makers.items()]
    special = {"entr": above(0), "erfcx": randn}
    rows += [
        Row(f"special.{name}", getattr(torch.special, name), _of(make, 6)) for name, make in special.items()
    ]
    names = (
        "celu elu gelu hardshrink hardsigmoid hardswish hardtanh leaky_relu logsigmoid mish relu6 selu silu softplus "
        "softshrink softsign tanhshrink glu"
    )
    rows += [Row(f"F.{name}", getattr(F, name), lambda n: [3 * randn(n, 6)]) for name in names.split()]
    return rows


def _of(make, *sizes):
    return lambda n: [make(n, *sizes)]


def _binary() -> list[Row]:
    names = (
        "add sub mul div maximum minimum fmax fmin hypot atan2 logaddexp logaddexp2 copysign fmod remainder"
    )
    both = lambda n: [randn(n, 6), above(0.5)(n, 6)]
    rows = [Row(name, getattr(torch, name), both) for name in names.split()]
    positive = lambda n: [above(0.5)(n, 6), above(0.5)(n, 6)]
    rows += [Row(name, getattr(torch, name), positive) for name in ("pow", "xlogy")]
    losses = "mse_loss l1_loss smooth_l1_loss huber_loss poisson_nll_loss kl_div"
    rows += [Row(f"F.{name}", getattr(F, name), both) for name in losses.split()]
    return rows


def _along(name: str, **options):
    return lambda x: getattr(torch, name)(x, dim=-1, **options)


def _reductions() -> list[Row]:
    names = "sum mean amax amin var std logsumexp softmax log_softmax cumsum cumprod logcumsumexp nansum prod"
    functions: dict[str, Callable] = {name: _along(name) for name in names.split()}
    functions |= {
        "max": lambda x: x.max(-1)[0],
        "min": lambda x: x.min(-1)[0],
        "median": lambda x: x.median(-1)[0],
        "cummax": lambda x: x.cummax(-1)[0],
        "sort": lambda x: x.sort(-1)[0],
        "topk": lambda x: x.topk(3, -1)[0],
        "kthvalue": lambda x: x.kthvalue(2, -1)[0],
        "norm": lambda x: x.norm(dim=-1),
        "softmin": lambda x: F.softmin(x, -1),
        "var_mean": lambda x: sum(torch.var_mean(x, -1)),
        "normalize": F.normalize,
        "sum of all": torch.sum,
        "mean of rows": lambda x: x.mean(0),
        "amax with ties": lambda x: x.round().amax(-1),
        "trapezoid": torch.trapezoid,
        "diff": torch.diff,
        "renorm": lambda x: x.renorm(2, 0, 1.0),
    }
    return [Row(name, function, _of(randn, 6)) for name, function in functions.items()]


def _moves() -> list[Row]:
    first, twice = torch.tensor([0, 3]), torch.tensor([0, 3, 3])
    functions: dict[str, Callable] = {
        "chunk": lambda x: x.chunk(2, -1)[0] * 2 + x.chunk(2, -1)[1],
        "split": lambda x: x.split([2, 4], -1)[1],
        "slice": lambda x: x[:, 1:5:2],
        "select": lambda x: x[:, 2],
        "permute": lambda x: x.permute(1, 0).contiguous() * 2,
        "expand": lambda x: x.unsqueeze(1).expand(-1, 3, -1) * 2,
        "repeat": lambda x: x.repeat(2, 3),
        "repeat_interleave": lambda x: x.repeat_interleave(3, 1),
        "flip": lambda x: x.flip(-1),
        "roll": lambda x: x.roll(2, -1),
        "rot90": torch.rot90,
        "tril": torch.tril,
        "triu": torch.triu,
        "pad": lambda x: F.pad(x, (1, 2)),
        "unfold": lambda x: x.unfold(1, 3, 2),
        "view": lambda x: x.view(-1).reshape(6, -1) * 2,
        "movedim": lambda x: x.movedim(0, 1) * x.mT,
        "clamp": lambda x: x.clamp(-0.5, 0.5),
        "masked_fill": lambda x: x.masked_fill(x > 0, 2.0),
        "masked": lambda x: (x * (x > 0)).sum(-1),
        "detach": lambda x: x * x.detach(),
        "gather": lambda x: x.gather(1, torch.tensor([[0, 2, 2]]).expand(x.shape[0], -1)),
        "index": lambda x: x[:, twice],
        "index_select": lambda x: x.index_select(1, twice),
        "index_fill": lambda x: x.index_fill(1, first, 1.0),
        "take_along_dim": lambda x: x.take_along_dim(x.argsort(-1), -1),
    }
    rows = [Row(name, function, _of(randn, 6)) for name, function in functions.items()]
    pads = ("reflect", "replicate", "circular")
    rows += [
        Row(f"pad {mode}", lambda x, mode=mode: F.pad(x, (2, 2), mode=mode), _of(randn, 3, 6))
        for mode in pads
    ]
    places = torch.tensor([[0, 2]])
    return [
        *rows,
        Row("diagonal", lambda x: x.diagonal(0, 1, 2), _of(randn, 6, 6)),
        Row("trace", lambda x: torch.einsum("bii->b", x), _of(randn, 6, 6)),
        Row("cat", lambda x, y: torch.cat([x, y]), lambda n: [randn(n, 6), randn(n, 6)]),
        Row("stack", lambda x, y: torch.stack([x, y]), lambda n: [randn(n, 6), randn(n, 6)]),
        Row("where", lambda x, y: torch.where(x > 0, x, y), lambda n: [randn(n, 6), randn(n, 6)]),
        Row("index_add", lambda x, y: x.index_add(1, twice, y), lambda n: [randn(n, 6), randn(n, 3)]),
        Row("index_copy", lambda x, y: x.index_copy(1, first, y), lambda n: [randn(n, 6), randn(n, 2)]),
        Row("index_put", lambda x, y: x.index_put((first,), y), lambda n: [randn(6, n), randn(2, n)]),
        Row(
            "scatter",
            lambda x, y: x.scatter(1, places.expand(x.shape[0], -1), y),
            lambda n: [randn(n, 6), randn(n, 2)],
        ),
        Row(
            "scatter_add",
            lambda x, y: x.scatter_add(1, 2 * torch.ones_like(y, dtype=torch.long), y),
            lambda n: [randn(n, 6), randn(n, 2)],
        ),
        Row("select_scatter", lambda x, y: x.select_scatter(y, 1, 2), lambda n: [randn(n, 6), randn(n)]),
        Row("slice_scatter", lambda x, y: x.slice_scatter(y, 1, 2, 5), lambda n: [randn(n, 6), randn(n, 3)]),
        Row("im2col", lambda x: F.unfold(x, 3), _of(randn, 2, 6, 6)),
        Row("col2im", lambda x: F.fold(x, (6, 6), 3), _of(randn, 18, 16)),
        Row("pixel_shuffle", lambda x: F.pixel_shuffle(x, 2), _of(randn, 8, 3, 4)),
    ]


def _products() -> list[Row]:
    heads = lambda n, keys: [randn(n, 2, 5, 8), randn(n, 2, keys, 8), randn(n, 2, keys, 8)]
    attend = F.scaled_dot_product_attention
    return [
        Row("mm", torch.matmul, lambda n: [randn(n, 6), randn(6, 5)]),
        Row("mv", torch.matmul, lambda n: [randn(n, 6), randn(6)]),
        Row("bmm", torch.bmm, lambda n: [randn(n, 3, 6), randn(n, 6, 4)]),
        Row("addmm", torch.addmm, lambda n: [randn(4), randn(n, 6), randn(6, 4)]),
        Row("baddbmm", torch.baddbmm, lambda n: [randn(n, 3, 4), randn(n, 3, 6), randn(n, 6, 4)]),
        Row(
            "einsum",
            lambda x, y: torch.einsum("bij,bkj->bik", x, y),
            lambda n: [randn(n, 3, 6), randn(n, 5, 6)],
        ),
        Row("linear", F.linear, lambda n: [randn(n, 6), randn(4, 6), randn(4)]),
        Row("outer", torch.outer, lambda n: [randn(n), randn(4)]),
        Row("kron", torch.kron, lambda n: [randn(n, 2), randn(3, 2)]),
        Row("cross", lambda x, y: torch.cross(x, y, dim=-1), lambda n: [randn(n, 3), randn(n, 3)]),
        Row("lerp", torch.lerp, lambda n: [randn(n, 6), randn(n, 6), randn(n, 6)]),
        Row("addcmul", torch.addcmul, lambda n: [randn(n, 6), randn(n, 6), randn(n, 6)]),
        Row("addcdiv", torch.addcdiv, lambda n: [randn(n, 6), randn(n, 6), above(0.5)(n, 6)]),
        Row("broadcast add", torch.add, lambda n: [randn(n, 6), randn(6)]),
        Row("broadcast mul", torch.mul, lambda n: [randn(n, 1), randn(1, 6)]),
        Row("prelu", F.prelu, lambda n: [randn(n, 6), randn(6)]),
        Row("attention", attend, lambda n: heads(n, 7)),
        Row("attention causal", lambda *qkv: attend(*qkv, is_causal=True), lambda n: heads(n, 5)),
        Row(
            "attention mask",
            lambda q, k, v, m: attend(q, k, v, attn_mask=m),
            lambda n: [*heads(n, 7), randn(5, 7)],
        ),
        Row(
            "attention grouped",
            lambda *qkv: attend(*qkv, is_causal=True, enable_gqa=True),
            lambda n: [randn(n, 6, 5, 8), randn(n, 2, 5, 8), randn(n, 2, 5, 8)],
        ),
        Row("bilinear", F.bilinear, lambda n: [randn(n, 3), randn(n, 4), randn(6, 3, 4), randn(6)]),
        Row("fft", _spectrum, lambda n: [randn(n, 5, 8)]),
        Row("cdist", torch.cdist, lambda n: [randn(n, 6), randn(4, 6)]),
        *[
            Row(f"pdist {p}", lambda x, p=p: F.pdist(x, p), lambda n: [randn(n + 1, 6)])
            for p in (1.0, 1.5, 2.0, 3.0, math.inf)
        ],
        Row("pairwise_distance", F.pairwise_distance, lambda n: [randn(n, 6), randn(n, 6)]),
        Row("cosine_similarity", F.cosine_similarity, lambda n: [randn(n, 6), randn(n, 6)]),
    ]


def _spectrum(x):
    # There is none of half precision.
    wide = x.to(torch.promote_types(x.dtype, torch.float32))
    return torch.fft.fftn(wide, dim=(1, 2)).real


def _norms() -> list[Row]:
    scale = lambda *sizes: [randn(*sizes), randn(6), randn(6)]
    statistics = lambda x: (torch.zeros(6, dtype=x.dtype), torch.ones(6, dtype=x.dtype))

    def batch_norm(training):
        return lambda x, w, b: F.batch_norm(x, *statistics(x), w, b, training=training)

    return [
        Row("layer_norm", lambda x, w, b: F.layer_norm(x, (6,), w, b), lambda n: scale(n, 6)),
        Row("rms_norm", lambda x, w: F.rms_norm(x, (6,), w, 1e-5), lambda n: [randn(n, 6), randn(6)]),
        Row("group_norm", lambda x, w, b: F.group_norm(x, 2, w, b), lambda n: scale(n, 6, 5)),
        Row("instance_norm", F.instance_norm, _of(randn, 3, 5)),
        Row("batch_norm", batch_norm(True), lambda n: scale(n + 2, 6, 4)),
        Row("batch_norm of evaluation", batch_norm(False), lambda n: scale(n, 6, 4)),
        Row("weight_norm", torch._weight_norm, lambda n: [randn(n, 3, 5), above(0.5)(n, 1, 1)]),
        Row(
            "weight_norm of the last axis",
            lambda v, g: torch._weight_norm(v, g, 2),
            lambda n: [randn(4, 3, n), above(0.5)(1, 1, n)],
        ),
        Row("local_response_norm", lambda x: F.local_response_norm(x, 2), _of(randn, 4, 5)),
    ]


def _embeddings() -> list[Row]:
    tokens = torch.tensor([[0, 2], [2, 1]])
    table = lambda n: [randn(n + 3, 6)]
    return [
        Row("embedding", lambda w: F.embedding(tokens, w), table),
        Row("embedding with a padding row", lambda w: F.embedding(tokens, w, padding_idx=2), table),
        *_bags(table),
    ]


def _bags(table) -> list[Row]:
    """Three bags, the second of which is empty."""

    def bags(w, *scales, **options):
        look_ups = torch.arange(w.shape[0] + 2) * 3 % w.shape[0]
        return F.embedding_bag(
            look_ups, w, torch.tensor([0, 2, 2]), per_sample_weights=(*scales, None)[0], **options
        )

    forms = [{"mode": mode, **more} for mode in ("sum", "mean", "max") for more in ({}, {"padding_idx": 0})]
    rows = [Row(f"embedding_bag {form}", lambda w, form=form: bags(w, **form), table) for form in forms]
    scaled = lambda w, scales: bags(w, scales, mode="sum")
    return [*rows, Row("embedding_bag scaled", scaled, lambda n: [*table(n), randn(n + 5)])]


def _windows() -> list[Row]:
    rows = []
    forms = [
        ({"padding": 1}, (4, 3, 3, 3)),
        ({"stride": 2}, (4, 3, 3, 3)),
        ({"stride": 3, "padding": 2}, (4, 3, 4, 2)),
        ({"dilation": 2, "padding": 2}, (4, 3, 3, 3)),
        ({"groups": 3, "padding": 1}, (6, 1, 3, 3)),
        ({"groups": 3, "stride": 2, "padding": 1}, (6, 1, 3, 3)),
        ({}, (4, 3, 1, 1)),
        # Windows of many elements are gathered for one matmul.
        ({"stride": 2, "padding": 3}, (4, 3, 7, 7)),
        ({"groups": 3, "dilation": (2, 1), "padding": (3, 2)}, (6, 1, 4, 5)),
    ]
    for options, sizes in forms:
        rows.append(
            Row(
                f"conv2d {options}",
                lambda x, w, b, options=options: F.conv2d(x, w, b, **options),
                lambda n, sizes=sizes: [randn(n, 3, 8, 9), randn(*sizes), randn(sizes[0])],
                held=(1, 2),
            )
        )
    both = {"held": (1, 2)}
    planes = _of(randn, 3, 6, 8)
    rows += [
        Row(
            "conv1d",
            lambda x, w, b: F.conv1d(x, w, b, padding=1),
            lambda n: [randn(n, 3, 8), randn(4, 3, 3), randn(4)],
            **both,
        ),
        Row("conv1d of one signal", F.conv1d, lambda n: [randn(3, n + 3), randn(4, 3, 3), randn(4)], **both),
        Row(
            "conv3d",
            lambda x, w: F.conv3d(x, w, padding=1),
            lambda n: [randn(n, 2, 4, 5, 6), randn(3, 2, 3, 3, 3)],
            held=(1,),
        ),
        Row(
            "conv3d of a window of 343 elements",
            lambda x, w, b: F.conv3d(x, w, b, padding=3),
            lambda n: [randn(n, 2, 4, n + 2, 5), randn(3, 2, 7, 7, 7), randn(3)],
            **both,
        ),
        Row(
            "conv2d of a window that changes",
            F.conv2d,
            lambda n: [randn(2, 3, n + 8, n + 9), randn(4, 3, n + 1, n + 2), randn(4)],
        ),
        Row(
            "conv_transpose2d with room for more windows",
            lambda x, w, b: F.conv_transpose2d(x, w, b, stride=2, padding=1, output_padding=2, dilation=3),
            lambda n: [randn(n, 4, 5, 6), randn(4, 3, 4, 4), randn(3)],
            **both,
        ),
        Row(
            "conv_transpose2d",
            lambda x, w, b: F.conv_transpose2d(x, w, b, stride=2, padding=1, output_padding=1),
            lambda n: [randn(n, 3, 5, 6), randn(3, 4, 3, 3), randn(4)],
            **both,
        ),
        Row(
            "conv_transpose1d",
            F.conv_transpose1d,
            lambda n: [randn(n, 3, 5), randn(3, 4, 3), randn(4)],
            **both,
        ),
        Row(
            "conv_transpose2d in groups",
            lambda x, w: F.conv_transpose2d(x, w, groups=3, stride=2),
            lambda n: [randn(n, 3, 5, 6), randn(3, 2, 3, 3)],
            held=(1,),
        ),
        Row("max_pool1d", lambda x: F.max_pool1d(x, 2), _of(randn, 3, 6)),
        Row("max_pool2d", lambda x: F.max_pool2d(x, 2), planes),
        Row("max_pool2d overlapping", lambda x: F.max_pool2d(x, 3, 2, 1), planes),
        Row("max_pool3d", lambda x: F.max_pool3d(x, 2), _of(randn, 3, 4, 4, 6)),
        Row("avg_pool1d", lambda x: F.avg_pool1d(x, 2), _of(randn, 3, 6)),
        Row("avg_pool2d", lambda x: F.avg_pool2d(x, 3, 2, 1), planes),
        Row("avg_pool2d ceil", lambda x: F.avg_pool2d(x, 3, 2, 1, ceil_mode=True), _of(randn, 3, 6, 9)),
        Row("avg_pool2d without pads", lambda x: F.avg_pool2d(x, 3, 2, 1, count_include_pad=False), planes),
        Row("avg_pool3d", lambda x: F.avg_pool3d(x, 2), _of(randn, 3, 4, 4, 6)),
        Row("adaptive_avg_pool2d to one", lambda x: F.adaptive_avg_pool2d(x, (1, 1)), planes),
        Row("adaptive_avg_pool2d", lambda x: F.adaptive_avg_pool2d(x, (3, 5)), planes),
        Row("adaptive_max_pool2d", lambda x: F.adaptive_max_pool2d(x, (2, 3)), planes),
        Row("lp_pool1d", lambda x: F.lp_pool1d(x.abs(), 2, 2), _of(randn, 3, 6)),
        Row(
            "interpolate linear",
            lambda x: F.interpolate(x, size=9, mode="linear", align_corners=True),
            _of(randn, 3, 4),
        ),
    ]
    modes = ("nearest", "bilinear", "bicubic")
    rows += [
        Row(
            f"interpolate {mode}",
            lambda x, mode=mode: F.interpolate(x, scale_factor=2, mode=mode),
            _of(randn, 3, 4, 5),
        )
        for mode in modes
    ]
    return [*rows, *_grids()]


def _grids() -> list[Row]:
    """A sampling grid that leaves the image."""
    paddings = ("zeros", "border", "reflection")
    forms = [("bilinear", padding, corners) for padding in paddings for corners in (False, True)]
    forms += [("bicubic", padding, False) for padding in paddings]
    forms.append(("nearest", "zeros", False))
    return [
        Row(
            f"grid_sample {mode} {padding}{' of corners' * corners}",
            lambda x, grid, mode=mode, padding=padding, corners=corners: F.grid_sample(
                x, grid, mode=mode, padding_mode=padding, align_corners=corners
            ),
            lambda n: [randn(n, 3, 5, 6), randn(n, 4, 2, 2)],
        )
        for mode, padding, corners in forms
    ]


def _losses() -> list[Row]:
    classes = lambda x: torch.arange(x.shape[0]) % x.shape[1]
    two, three = (lambda n, count=count: [randn(n, 6) for _ in range(count)] for count in (2, 3))
    return [
        Row("cross_entropy", lambda x: F.cross_entropy(x, classes(x)), _of(randn, 6)),
        Row(
            "cross_entropy smoothed",
            lambda x: F.cross_entropy(x, classes(x), label_smoothing=0.1),
            _of(randn, 6),
        ),
        Row(
            "cross_entropy without some",
            lambda x: F.cross_entropy(x, classes(x) - 1, ignore_index=-1, reduction="sum"),
            _of(randn, 6),
        ),
        Row(
            "cross_entropy weighted",
            lambda x, w: F.cross_entropy(x, classes(x), w.detach()),
            lambda n: [randn(n, 6), above(0)(6)],
        ),
        Row("cross_entropy of shares", lambda x, y: F.cross_entropy(x, y.softmax(-1)), two),
        Row("nll_loss", lambda x: F.nll_loss(x.log_softmax(-1), classes(x)), _of(randn, 6)),
        Row(
            "nll_loss of planes",
            lambda x: F.nll_loss(x.log_softmax(1), torch.ones(x.shape[0], 5).long()),
            _of(randn, 6, 5),
        ),
        Row("binary_cross_entropy", lambda x, y: F.binary_cross_entropy(x.sigmoid(), y.sigmoid()), two),
        Row(
            "binary_cross_entropy of logits",
            lambda x, y: F.binary_cross_entropy_with_logits(x, y.sigmoid()),
            two,
        ),
        Row("triplet_margin_loss", F.triplet_margin_loss, three),
        Row("multi_margin_loss", lambda x: F.multi_margin_loss(x, classes(x)), _of(randn, 6)),
        Row(
            "cosine_embedding_loss", lambda x, y: F.cosine_embedding_loss(x, y, torch.ones_like(x[:, 0])), two
        ),
    ]


ROWS = [
    *_unary(),
    *_binary(),
    *_reductions(),
    *_moves(),
    *_products(),
    *_norms(),
    *_embeddings(),
    *_windows(),
    *_losses(),
]
