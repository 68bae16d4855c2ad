"""Functions of TensorFlow, one or more for each op that disc imports, with the inputs to call them
with. An axis that is a letter is open, and has several sizes.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, field

import tensorflow as tf

raw = tf.raw_ops
#: Of the letters, one call each.
SIZES = ({"N": 3, "M": 5}, {"N": 1, "M": 1}, {"N": 7, "M": 2}, {"N": 0, "M": 4})
FLOATS = ("float32", "float64", "float16", "bfloat16")
INTEGERS = ("int32", "int64")
SMALL = ("int8", "uint8", "int16")
ALL = (*FLOATS, *INTEGERS, *SMALL)


@dataclass(frozen=True)
class Case:
    """A function, and the shapes of its inputs; ``types`` are tried one after another."""

    name: str
    function: Callable
    shapes: tuple = (("N", 4, "M"),)
    types: tuple = ("float32",)
    #: The range of random inputs.
    low: float = -3.0
    high: float = 3.0
    #: The types of inputs that do not follow ``types``, by position.
    fixed: dict = field(default_factory=dict)
    #: Sizes that the op takes: all that are not named here fail in TensorFlow too.
    sizes: tuple = SIZES
    tolerance: float = 1.0


def unary() -> Iterator[Case]:
    floats = (
        "Ceil Cos Cosh Erf Erfc Exp Expm1 Floor IsFinite IsInf IsNan Rint Sigmoid Sin Sinh "
        "Softsign Tan Tanh Atan Asinh Elu Selu Softplus BesselI1e"
    )
    for op in floats.split():
        arguments = {"features"} if op in ("Softsign", "Elu", "Selu", "Softplus") else {"x"}
        (name,) = arguments
        types = ("float32", "float64") if op in ("BesselI1e", "Rint") else FLOATS
        yield Case(op, lambda x, op=op, name=name: getattr(raw, op)(**{name: x}), types=types)
    for op, low, high in (
        ("Acos", -1, 1),
        ("Asin", -1, 1),
        ("Acosh", 1, 9),
        ("Atanh", -0.9, 0.9),
        ("Digamma", 0.5, 9),
        ("Lgamma", 0.5, 9),
        ("Erfinv", -0.9, 0.9),
        ("Log", 0.01, 9),
        ("Log1p", -0.9, 9),
        ("Rsqrt", 0.1, 9),
        ("Sqrt", 0, 9),
        ("Reciprocal", 0.2, 9),
        ("Inv", 0.2, 9),
    ):
        types = ("float32", "float64")
        yield Case(op, lambda x, op=op: getattr(raw, op)(x=x), types=types, low=low, high=high)
    for op in ["Abs", "Neg", "Sign", "Square"]:
        yield Case(op, lambda x, op=op: getattr(raw, op)(x=x), types=(*FLOATS, *INTEGERS))
    for op, name in (("Relu", "features"), ("Relu6", "features"), ("ZerosLike", "x"), ("OnesLike", "x")):
        yield Case(op, lambda x, op=op, name=name: getattr(raw, op)(**{name: x}), types=ALL)
    yield Case("Round", lambda x: raw.Round(x=x), types=("float32", "float64"))
    yield Case("Invert", lambda x: raw.Invert(x=x), types=(*INTEGERS, *SMALL))
    yield Case("LeakyRelu", lambda x: raw.LeakyRelu(features=x, alpha=0.3), types=FLOATS)
    yield Case("LogicalNot", lambda x: raw.LogicalNot(x=x), types=("bool",))
    for dtype in ("float32", "float16", "int32", "int64", "uint8", "bool", "bfloat16", "float64"):
        back = tf.float32 if dtype == "bfloat16" else dtype
        yield Case(
            f"Cast {dtype}", lambda x, to=dtype, back=back: tf.cast(tf.cast(x, to), back), types=ALL, low=0
        )
    yield Case("Identity", lambda x: raw.StopGradient(input=raw.Identity(input=x)), types=ALL)
    yield Case("IdentityN", lambda x: tf.identity_n([x, x * 2])[1])
    yield Case("ClipByValue", lambda x: raw.ClipByValue(t=x, clip_value_min=-1.0, clip_value_max=1.5))


def binary() -> Iterator[Case]:
    both = (("N", 4, "M"), ("N", 4, "M"))
    wide = (("N", 4, "M"), (4, 1))
    scalar = (("N", 4, "M"), ())
    arithmetic = "Add AddV2 Sub Mul Maximum Minimum SquaredDifference"
    for op in arithmetic.split():
        for shapes in (both, wide, scalar):
            function = lambda x, y, op=op: getattr(raw, op)(x=x, y=y)
            yield Case(f"{op} {len(shapes[1])}", function, shapes, (*FLOATS, *INTEGERS))
    for op in ["Equal", "NotEqual", "Less", "LessEqual", "Greater", "GreaterEqual"]:
        function = lambda x, y, op=op: getattr(raw, op)(x=x, y=y)
        yield Case(op, function, wide, (*FLOATS, *INTEGERS, *SMALL))
    for op in ["RealDiv", "Xdivy", "DivNoNan", "MulNoNan", "Mod", "FloorMod", "FloorDiv"]:
        types = ("float32", "float64")
        yield Case(op, lambda x, y, op=op: getattr(raw, op)(x=x, y=y), wide, types)
    yield Case("Atan2", lambda x, y: tf.atan2(x, y), wide, ("float32", "float64"))
    yield Case("NextAfter", lambda x, y: tf.math.nextafter(x, y), wide, ("float32", "float64"))
    for op in ["FloorDiv", "FloorMod", "TruncateDiv", "TruncateMod", "Div", "Mod"]:
        function = lambda x, y, op=op: getattr(raw, op)(x=x, y=y + 7)
        yield Case(f"{op} integers", function, wide, INTEGERS)
    for op in ["Pow", "Xlogy", "Xlog1py", "Zeta", "Polygamma"]:
        low = 1.5 if op in ("Zeta", "Polygamma") else 0.1
        names = {"Zeta": ("x", "q"), "Polygamma": ("a", "x")}.get(op, ("x", "y"))
        function = lambda x, y, op=op, names=names: getattr(raw, op)(
            **{names[0]: tf.floor(x) if op == "Polygamma" else x, names[1]: y}
        )
        yield Case(op, function, wide, ("float32", "float64"), low=low, high=4, tolerance=8)
    for op in ["BitwiseAnd", "BitwiseOr", "BitwiseXor"]:
        yield Case(op, lambda x, y, op=op: getattr(raw, op)(x=x, y=y), wide, (*INTEGERS, *SMALL))
    for op in ["LogicalAnd", "LogicalOr"]:
        yield Case(op, lambda x, y, op=op: getattr(raw, op)(x=x, y=y), wide, ("bool",))
    yield Case("AddN", lambda x, y: raw.AddN(inputs=[x, y, x]), both, (*FLOATS, *INTEGERS))
    yield Case("BiasAdd", lambda x, y: raw.BiasAdd(value=x, bias=y), (("N", 3, 4), (4,)), FLOATS)
    yield Case(
        "BiasAdd NCHW",
        lambda x, y: raw.BiasAdd(value=x, bias=y, data_format="NCHW"),
        (("N", 4, "M", 2), (4,)),
    )
    yield Case("SelectV2", lambda x, y: tf.where(x > y, x, y * 2), wide, FLOATS)
    yield Case("Select", lambda x, y: raw.Select(condition=y > 0, x=x, y=x * 3), (("N", 4), ("N",)), FLOATS)


def _shapes() -> Iterator[Case]:
    yield Case("Shape", lambda x: tf.shape(x))
    yield Case("Shape i64", lambda x: tf.shape(x, out_type=tf.int64)[1:])
    yield Case("Size and Rank", lambda x: tf.size(x) + tf.rank(x))
    yield Case("Reshape flat", lambda x: tf.reshape(x, [-1]), types=ALL)
    yield Case(
        "Reshape heads", lambda x: tf.reshape(x, [tf.shape(x)[0], tf.shape(x)[1], 2, -1]), (("N", "M", 6),)
    )
    yield Case("Reshape merged", lambda x: tf.reshape(x, tf.stack([tf.shape(x)[0] * 4, tf.shape(x)[2]])))
    yield Case("ExpandDims", lambda x: tf.expand_dims(tf.expand_dims(x, -1), 1))
    yield Case("Squeeze", lambda x: tf.squeeze(tf.expand_dims(x, 1), 1))
    yield Case("Squeeze all", lambda x: raw.Squeeze(input=x), ((1, 4, 1, 3),))
    yield Case("Transpose", lambda x: tf.transpose(x, [2, 0, 1]), types=ALL)
    yield Case("Pack", lambda x: tf.stack([x, x * 2, x + 1], axis=1))
    yield Case("Pack last", lambda x: tf.stack([x, x * 2], axis=-1))
    yield Case("Unpack", lambda x: tf.add_n(tf.unstack(x, 4, axis=1)))
    yield Case("ConcatV2", lambda x, y: tf.concat([x, y, x], 0), (("N", 4), ("M", 4)), types=ALL)
    yield Case("ConcatV2 last", lambda x, y: tf.concat([x, y], -1), ((3, "N"), (3, "M")))
    yield Case("Concat", lambda x, y: raw.Concat(concat_dim=1, values=[x, y]), ((2, "N"), (2, "M")))
    yield Case("Split", lambda x: tf.split(x, 2, axis=1)[1])
    yield Case("SplitV", lambda x: tf.split(x, [1, -1], axis=1)[1])
    yield Case("Slice", lambda x: tf.slice(x, [0, 1, 0], [-1, 2, -1]))
    yield Case("Slice open", lambda x: tf.slice(x, [0, 0, 0], [tf.shape(x)[0], 2, tf.shape(x)[2]]))
    yield Case("StridedSlice", lambda x: x[:, 1:3], types=ALL)
    yield Case("StridedSlice last", lambda x: x[:, -1])
    yield Case("StridedSlice steps", lambda x: x[:, ::2, 1:])
    yield Case("StridedSlice back", lambda x: x[:, ::-1])
    yield Case("StridedSlice back all", lambda x: x[..., ::-1])
    yield Case("StridedSlice new", lambda x: x[:, tf.newaxis, ..., 0:1])
    yield Case("StridedSlice clipped", lambda x: x[:2, :, -3:])
    yield Case("StridedSlice beyond", lambda x: x[5:, 1:99])
    yield Case("StridedSlice open", lambda x: x[: tf.shape(x)[2]], sizes=SIZES[:2])
    large = ({"N": 7, "M": 6}, {"N": 5, "M": 9})
    yield Case("StridedSlice of an open axis", lambda x: x[-1], sizes=SIZES[:3])
    yield Case("StridedSlice from an open position", lambda x: x[tf.shape(x)[0] - 2 :], sizes=large)
    yield Case("StridedSlice at an open position", lambda x: x[..., tf.shape(x)[2] - 3], sizes=large)
    yield Case("numbers that wrap", lambda x: tf.constant(2**30) * 4 // 3 + tf.shape(x)[0])
    yield Case("Tile", lambda x: tf.tile(x, [1, 2, 3]), types=FLOATS)
    yield Case("Tile open", lambda x: tf.tile(x, [tf.shape(x)[0], 1, 1]))
    yield Case("Pad", lambda x: tf.pad(x, [[0, 0], [1, 2], [3, 0]]), types=(*FLOATS, *INTEGERS))
    yield Case("PadV2", lambda x: tf.pad(x, [[1, 0], [1, 2], [0, 1]], constant_values=7.0))
    reflected = SIZES[:3]
    yield Case("MirrorPad", lambda x: tf.pad(x, [[0, 0], [1, 2], [0, 0]], "REFLECT"), sizes=reflected)
    yield Case("MirrorPad edge", lambda x: tf.pad(x, [[0, 0], [1, 2], [0, 0]], "SYMMETRIC"))
    yield Case("BroadcastTo", lambda x: tf.broadcast_to(x, [2, tf.shape(x)[0], 4]), (("N", 1),))
    yield Case("Fill", lambda x: tf.fill(tf.shape(x), 2.5) + x)
    yield Case("Range", lambda x: tf.range(tf.shape(x)[0]))
    yield Case("Range positions", lambda x: tf.cast(tf.range(1, tf.shape(x)[2] + 1), tf.float32) * x)
    yield Case("Range steps", lambda x: tf.range(0, tf.shape(x)[2] * 2, 3))
    yield Case("ReverseV2", lambda x: tf.reverse(x, [0, 2]), types=ALL)
    yield Case("MatrixBandPart", lambda x: tf.linalg.band_part(x, -1, 0))
    yield Case("MatrixBandPart upper", lambda x: tf.linalg.band_part(x, 1, -1))
    yield Case("SpaceToDepth", lambda x: tf.nn.space_to_depth(x, 2), (("N", 4, 6, 3),))
    yield Case("DepthToSpace", lambda x: tf.nn.depth_to_space(x, 2), (("N", "M", 6, 8),))
    yield Case("EnsureShape", lambda x: tf.ensure_shape(x, [None, 4, None]))
    yield Case(
        "sizes", lambda x: tf.ones([tf.reduce_prod(tf.shape(x)[:2]), tf.maximum(tf.shape(x)[2] // 2, 1)])
    )
    yield Case(
        "a choice",
        lambda x: tf.reshape(x, tf.where(tf.constant([True, False, True]), tf.shape(x), [9, 4, 9])),
    )


def _index() -> Iterator[Case]:
    index = {1: "int32"}
    inside = {"low": 0, "high": 3}
    yield Case("Gather", lambda x, i: tf.gather(x, i), ((4, "M"), ("N",)), FLOATS, fixed=index, **inside)
    yield Case(
        "Gather axis", lambda x, i: tf.gather(x, i, axis=1), (("N", 4, "M"), (2, 3)), fixed=index, **inside
    )
    yield Case(
        "Gather batch",
        lambda x, i: tf.gather(x, i, batch_dims=1),
        (("N", 4, "M"), ("N", 3)),
        fixed=index,
        **inside,
    )
    yield Case(
        "GatherNd", lambda x, i: tf.gather_nd(x, i), ((4, 3, "M"), ("N", 2)), fixed=index, low=0, high=2
    )
    yield Case("OneHot", lambda x: tf.one_hot(x, 5), (("N", "M"),), INTEGERS, low=-1, high=6)
    yield Case(
        "OneHot first",
        lambda x: tf.one_hot(x, 5, 2.0, -1.0, axis=0),
        (("N", "M"),),
        ("int32",),
        low=0,
        high=5,
    )
    yield Case("OneHot narrow", lambda x: tf.one_hot(x, 300), (("N", "M"),), ("uint8",), low=0, high=250)
    yield Case("TopKV2", lambda x: tf.math.top_k(x, 3)[0], (("N", 7),), ("float32", "int32"))
    yield Case("TopKV2 places", lambda x: tf.math.top_k(x, 3)[1], (("N", 7),))
    yield Case("ArgMax", lambda x: tf.argmax(x, 1), types=(*FLOATS, "int32"))
    yield Case("ArgMin", lambda x: tf.argmin(x, -1, output_type=tf.int32), (("M", "N", 3),))
    for exclusive in (False, True):
        for reverse in (False, True):
            options = {"exclusive": exclusive, "reverse": reverse}
            name = f"Cumsum {exclusive:d}{reverse:d}"
            yield Case(name, lambda x, o=options: tf.cumsum(x, 1, **o), types=("float32", "int32"))
            yield Case(name.replace("sum", "prod"), lambda x, o=options: tf.math.cumprod(x, -1, **o))


def _contractions() -> Iterator[Case]:
    yield Case("MatMul", lambda x, y: tf.matmul(x, y), (("N", 5), (5, "M")), FLOATS, tolerance=4)
    yield Case("MatMul turned", lambda x, y: tf.matmul(x, y, True, True), ((5, "N"), ("M", 5)), tolerance=4)
    yield Case("MatMul integers", lambda x, y: tf.matmul(x, y), (("N", 5), (5, "M")), ("int32",))
    batches = (("N", 4, "M", 6), ("N", 4, 6, 3))
    yield Case("BatchMatMulV2", lambda x, y: tf.matmul(x, y), batches, FLOATS, tolerance=4)
    yield Case("BatchMatMulV2 wide", lambda x, y: tf.matmul(x, y), (("N", 4, "M", 6), (6, 3)), tolerance=4)
    turned = (("N", "M", 6), ("N", 3, 6))
    yield Case("BatchMatMulV2 turned", lambda x, y: tf.matmul(x, y, transpose_b=True), turned, tolerance=4)
    heads = (("N", "M", 2, 3), ("N", "M", 2, 3))
    yield Case("Einsum", lambda x, y: tf.einsum("bqhd,bkhd->bhqk", x, y), heads, tolerance=4)
    yield Case(
        "Einsum ellipsis", lambda x, y: tf.einsum("...i,ij->...j", x, y), (("N", "M", 6), (6, 3)), tolerance=4
    )


def _windows() -> Iterator[Case]:
    image, filters = ("N", "M", 9, 3), (3, 2, 3, 5)
    big = tuple({"N": n, "M": m} for n, m in ((2, 7), (1, 8), (3, 13), (1, 4)))
    for padding in ("SAME", "VALID"):
        for strides in (1, 2, [3, 1]):
            name = f"Conv2D {padding} {strides}"
            function = lambda x, w, s=strides, p=padding: tf.nn.conv2d(x, w, s, p)
            yield Case(name, function, (image, filters), sizes=big, tolerance=8)
        function = lambda x, w, p=padding: tf.nn.conv2d(x, w, 1, p, dilations=2)
        yield Case(f"Conv2D dilated {padding}", function, (image, filters), sizes=big[:3], tolerance=8)
        for strides in (1, 2):
            function = lambda x, w, s=strides, p=padding: tf.nn.depthwise_conv2d(x, w, [1, s, s, 1], p)
            yield Case(
                f"Depthwise {padding} {strides}", function, (image, (3, 3, 3, 2)), sizes=big, tolerance=8
            )
        for kernel, strides in ((2, 2), (3, 2), (3, 1)):
            for op in ("MaxPool", "AvgPool"):
                function = lambda x, o=op, k=kernel, s=strides, p=padding: getattr(raw, o)(
                    **{"input" if o == "MaxPool" else "value": x},
                    ksize=[1, k, k, 1],
                    strides=[1, s, s, 1],
                    padding=p,
                )
                yield Case(
                    f"{op} {padding} {kernel}{strides}", function, (image,), ("float32", "float16"), sizes=big
                )
    explicit = [[0, 0], [1, 2], [2, 1], [0, 0]]
    yield Case(
        "Conv2D explicit",
        lambda x, w: tf.nn.conv2d(x, w, 2, explicit),
        (image, filters),
        sizes=big,
        tolerance=8,
    )
    grouped = lambda x, w: tf.nn.conv2d(x, w, 1, "SAME")
    yield Case("Conv2D fixed", grouped, ((2, 8, 9, 3), filters), tolerance=8)
    yield Case(
        "Conv3D",
        lambda x, w: tf.nn.conv3d(x, w, [1, 1, 2, 1, 1], "SAME"),
        (("N", 4, "M", 5, 3), (2, 3, 2, 3, 4)),
        sizes=big,
        tolerance=8,
    )
    turned = lambda x, w: tf.nn.conv2d_transpose(
        x, w, tf.stack([tf.shape(x)[0], tf.shape(x)[1] * 2, 18, 4]), 2, "SAME"
    )
    yield Case("Conv2DBackpropInput", turned, (image, (3, 3, 4, 3)), sizes=big, tolerance=8)


def _resizes() -> Iterator[Case]:
    image = (("N", "M", 9, 3),)
    big = tuple({"N": n, "M": m} for n, m in ((2, 7), (1, 8), (3, 13)))
    for op, kinds in (
        ("ResizeBilinear", ("float32", "float64", "int32")),
        ("ResizeNearestNeighbor", ("float32", "int32", "uint8")),
    ):
        for align, half in ((False, True), (False, False), (True, False)):
            for size in ([5, 13], [18, 4]):
                function = lambda x, o=op, s=size, a=align, h=half: getattr(raw, o)(
                    images=x, size=s, align_corners=a, half_pixel_centers=h
                )
                yield Case(f"{op} {align:d}{half:d} {size}", function, image, kinds, sizes=big, tolerance=16)
        grown = lambda x, o=op: getattr(raw, o)(images=x, size=tf.shape(x)[1:3] * 2, half_pixel_centers=True)
        yield Case(f"{op} doubled", grown, image, sizes=big, tolerance=16)


def _norms() -> Iterator[Case]:
    yield Case("Softmax", lambda x: tf.nn.softmax(x), types=FLOATS)
    yield Case("LogSoftmax", lambda x: tf.nn.log_softmax(x), types=("float32", "float64"), tolerance=4)
    norm = lambda x, s, o, m, v: raw.FusedBatchNormV3(
        x=x, scale=s, offset=o, mean=m, variance=v * v + 0.5, epsilon=1e-3, is_training=False
    )[0]
    trained = lambda x, s, o: raw.FusedBatchNormV3(
        x=x, scale=s, offset=o, mean=tf.zeros([0]), variance=tf.zeros([0]), epsilon=1e-3
    )[0]
    filled = tuple(sizes for sizes in SIZES if sizes["N"])
    shapes = (("N", "M", 3, 4), (4,), (4,))
    yield Case("FusedBatchNormV3 of a batch", trained, shapes, sizes=filled, tolerance=16)
    yield Case("FusedBatchNormV3", norm, (("N", "M", 3, 4), (4,), (4,), (4,), (4,)), tolerance=4)
    for op in ("mean", "sum", "max", "min", "prod", "euclidean_norm"):
        types = FLOATS if op in ("mean", "sum", "max", "min") else ("float32", "float64")
        function = lambda x, op=op: (
            getattr(tf, f"reduce_{op}")(x, [1])
            if op != "euclidean_norm"
            else tf.math.reduce_euclidean_norm(x, [1])
        )
        yield Case(f"reduce {op}", function, types=types, tolerance=4)
    yield Case(
        "reduce kept",
        lambda x: tf.reduce_sum(x, [-1, 0], keepdims=True),
        types=("float32", "int32"),
        tolerance=4,
    )
    yield Case("reduce all", lambda x: tf.reduce_mean(x), (("N", 4, "M"),), tolerance=4)
    yield Case("All", lambda x: tf.reduce_all(x, 1), types=("bool",))
    yield Case("Any", lambda x: tf.reduce_any(x, 1), types=("bool",))
    yield Case("L2Loss", lambda x: tf.nn.l2_loss(x), tolerance=4)
    moments = lambda x: tf.nn.batch_normalization(x, *tf.nn.moments(x, [-1], keepdims=True), 0.5, 2.0, 1e-5)
    yield Case("moments", moments, (("N", "M", 8),), tolerance=16)


def _doubled(x):
    return tf.while_loop(
        lambda i, y: tf.reduce_sum(y) < 100.0,
        lambda i, y: (i + 1, y * 2.0),
        (tf.constant(0), tf.abs(x) + 1.0),
    )[1]


def _powers(x):
    (powers,) = tf.while_loop(lambda y: tf.reduce_max(y) < 50.0, lambda y: (y * y + 1.5,), (x,))
    return powers


def _running(x):
    """A list that a loop fills, over the first axis."""
    count = tf.shape(x)[0]
    rows = tf.TensorArray(x.dtype, size=count)
    source = tf.TensorArray(x.dtype, size=count).unstack(x)

    def step(i, state, rows):
        state = tf.tanh(state * 0.5 + source.read(i))
        return i + 1, state, rows.write(i, state)

    zero = tf.zeros(tf.shape(x)[1:])
    return tf.while_loop(lambda i, *_: i < count, step, (0, zero, rows))[2].stack()


@tf.function
def _halved(x):
    if tf.reduce_sum(x) > 0.0:
        return x / 2.0
    return x - 1.0


def _cell(kind):
    layer = getattr(tf.keras.layers, kind)(6, return_sequences=True)
    layer(tf.zeros([1, 1, 4]))
    return lambda x: layer(x)


def _control() -> Iterator[Case]:
    filled = SIZES[:3]
    yield Case("While", _doubled, sizes=filled)
    yield Case("While squares", _powers, low=0.5, sizes=filled, tolerance=8)
    yield Case("While of lists", _running, (("N", "M"),), sizes=filled)
    yield Case("If", _halved)
    yield Case("If of sizes", lambda x: tf.cond(tf.shape(x)[1] > 2, lambda: x * 2.0, lambda: x + 1.0))
    for kind in ("LSTM", "GRU", "SimpleRNN"):
        yield Case(kind, _cell(kind), (("N", "M", 4),), sizes=filled, tolerance=4)


CASES = [
    *unary(),
    *binary(),
    *_shapes(),
    *_index(),
    *_contractions(),
    *_windows(),
    *_resizes(),
    *_norms(),
    *_control(),
]
