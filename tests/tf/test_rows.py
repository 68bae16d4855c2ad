"""Every op that disc imports, beside TensorFlow: types; static, partly open and open sizes; sizes
of 0 and 1.
"""

from __future__ import annotations

import disc.tensorflow
import numpy as np
import pytest
import tensorflow as tf
from cases import CASES, binary, unary

#: The greatest relative error of one op, by type.
BOUNDS = {"float32": 8e-6, "float64": 4e-13, "float16": 8e-3, "bfloat16": 6.4e-2}
#: The letters of a shape that are open.
FORMS = {"open": "NM", "partly open": "N", "static": ""}


def random(generator, case, shape, dtype):
    if dtype == "bool":
        return tf.constant(generator.random(shape) < 0.5)
    if "int" in dtype:
        low = 0 if dtype.startswith("u") else int(np.floor(case.low))
        return tf.constant(generator.integers(low, max(low + 1, int(case.high)), shape), dtype)
    return tf.cast(tf.constant(generator.uniform(case.low, case.high, shape)), dtype)


def calls():
    for case in CASES:
        for dtype in case.types:
            for form in FORMS if dtype == case.types[0] else ["open"]:
                yield pytest.param(case, dtype, form, id=f"{case.name}-{dtype}-{form}")


@pytest.mark.parametrize(("case", "dtype", "form"), calls())
def test_a_row_equals_tensorflow(case, dtype, form):
    generator = np.random.default_rng(0)
    types = [case.fixed.get(i, dtype) for i in range(len(case.shapes))]
    for sizes in case.sizes[:1] if form == "static" else [case.sizes]:
        first = sizes if form == "static" else sizes[0]

        def size(axis, first=first):
            if isinstance(axis, int):
                return axis
            return None if axis in FORMS[form] else first[axis]

        specs = [
            tf.TensorSpec([size(axis) for axis in shape], "float32" if kind == "bfloat16" else kind)
            for shape, kind in zip(case.shapes, types, strict=True)
        ]
        function = tf.function(narrow(case.function) if dtype == "bfloat16" else case.function)
        function = function.get_concrete_function(*specs)
        fast = disc.tensorflow.optimize(function)
        for call in [first] if form == "static" else sizes:
            fixed = {letter: first[letter] for letter in call if letter not in FORMS[form]}
            shapes = [[{**call, **fixed}.get(axis, axis) for axis in shape] for shape in case.shapes]
            inputs = [random(generator, case, s, kind) for s, kind in zip(shapes, types, strict=True)]
            inputs = [tf.cast(x, "float32") if x.dtype == tf.bfloat16 else x for x in inputs]
            expected, got = function(*inputs), fast(*inputs)
            expected = expected[0] if isinstance(expected, (list, tuple)) else expected
            got = got[0] if isinstance(got, (list, tuple)) else got
            compare(got, expected, case.tolerance, dtype)


def narrow(function):
    """Returns the function in bfloat16, on tensors of float32: NumPy has no bfloat16."""

    def narrowed(*inputs):
        def cast(x, source, target):
            return tf.cast(x, target) if x.dtype == source else x

        out = function(*(cast(x, tf.float32, tf.bfloat16) for x in inputs))
        return tf.nest.map_structure(lambda x: cast(x, tf.bfloat16, tf.float32), out)

    return narrowed


def compare(got, expected, tolerance, dtype):
    assert (got.dtype, got.shape) == (expected.dtype, expected.shape)
    bound = BOUNDS.get(
        "bfloat16" if dtype == "bfloat16" and expected.dtype.is_floating else expected.dtype.name
    )
    if bound is None:
        np.testing.assert_array_equal(got.numpy(), expected.numpy())
        return
    left, right = (tf.cast(x, tf.float64).numpy() for x in (got, expected))
    np.testing.assert_allclose(left, right, rtol=bound * tolerance, atol=bound * tolerance)


#: NaN, infinities, zeros and numbers near the ends of the range.
SPECIAL = [np.nan, np.inf, -np.inf, 0.0, -0.0, 1.0, -1.0, 0.5, -2.5, 3e38, -3e38, 2.5, 1e-30]
#: Ops whose sums TensorFlow's rewrites reorder, and functions whose domains it treats apart.
APART = ("AddN", "BiasAdd", "BiasAdd NCHW", "Select", "Zeta", "Polygamma", "FloorDiv", "Erfinv")


def elementwise():
    families = ("Cast", "Identity", "Select")
    for case in (*unary(), *binary()):
        if case.types[0] == "float32" and case.name not in APART and not case.name.startswith(families):
            yield pytest.param(case, id=case.name)


@pytest.mark.parametrize("case", elementwise())
def test_nan_and_infinities_are_as_in_tensorflow(case):
    pairs = np.repeat(SPECIAL, len(SPECIAL)), np.tile(SPECIAL, len(SPECIAL))
    inputs = [tf.constant(x.reshape(len(SPECIAL), -1), tf.float32) for x in pairs[: len(case.shapes)]]
    function = tf.function(case.function)
    function = function.get_concrete_function(*(tf.TensorSpec([None, None], tf.float32) for _ in inputs))
    got, expected = (tf.nest.flatten(f(*inputs))[0] for f in (disc.tensorflow.optimize(function), function))
    np.testing.assert_allclose(got, expected, rtol=2e-5, atol=1e-37)


@pytest.mark.parametrize("find", [tf.argmax, tf.argmin])
def test_positions_pass_over_nan(find):
    n, i = np.nan, np.inf
    rows = [[1, n, 3, n], [n, n, n, n], [-i, n, i, 0], [n, -i, i, 2], [0, -0.0, 0, 1]]
    x = tf.constant(rows, tf.float32)
    fast = disc.tensorflow.optimize(tf.function(lambda x: find(x, 1)), tf.TensorSpec([None, None]))
    np.testing.assert_array_equal(fast(x), find(x, 1))


def test_sizes_that_tensorflow_treats_apart_are_refused():
    squeezed = tf.function(lambda x: tf.squeeze(x))
    with pytest.raises(disc.Error, match="the rank of the result depends on the size x_0"):
        disc.tensorflow.optimize(squeezed, tf.TensorSpec([None, 1], name="x"))
    fast = disc.tensorflow.optimize(lambda x: x[tf.shape(x)[0] - 5 :], tf.TensorSpec([None]))
    np.testing.assert_array_equal(fast(np.arange(7, dtype=np.float32)), [2, 3, 4, 5, 6])
    with pytest.raises(disc.DimError):
        fast(np.arange(3, dtype=np.float32))
