"""Whole models: Keras layers and applications, SavedModels, packages without TensorFlow, errors."""

from __future__ import annotations

import os
import subprocess
import sys

import disc
import disc.tensorflow
import numpy as np
import pytest
import tensorflow as tf

layers = tf.keras.layers


def encoder():
    ids, mask = (tf.keras.Input([None], dtype="int32") for _ in range(2))
    x = layers.Embedding(100, 32)(ids)
    allowed = layers.Lambda(lambda m: tf.cast(m[:, None, :], tf.bool))(mask)
    for _ in range(2):
        attended = layers.MultiHeadAttention(4, 8)(x, x, attention_mask=allowed)
        x = layers.LayerNormalization()(x + attended)
        x = layers.LayerNormalization()(x + layers.Dense(32)(layers.Dense(64, activation="gelu")(x)))
    return tf.keras.Model([ids, mask], x)


@pytest.mark.parametrize("lengths", [(7, 1, 30)])
def test_an_encoder_of_any_batch_and_length(lengths):
    model = encoder()
    fast = disc.tensorflow.optimize(model)
    for batch, length in zip((2, 1, 3), lengths, strict=True):
        ids = tf.random.uniform([batch, length], 0, 100, tf.int32)
        mask = tf.cast(tf.range(length)[None] < tf.range(1, batch + 1)[:, None], tf.int32)
        expected = model([ids, mask], training=False)
        np.testing.assert_allclose(fast([ids, mask]), expected, rtol=1e-5, atol=1e-5)


@pytest.mark.parametrize("kind", ["LSTM", "GRU", "SimpleRNN"])
def test_recurrent_layers_of_any_length(kind):
    model = tf.keras.Sequential([tf.keras.Input([None, 5]), layers.Bidirectional(getattr(layers, kind)(8))])
    fast = disc.tensorflow.optimize(model)
    for batch, length in ((2, 9), (1, 1), (4, 3)):
        x = tf.random.normal([batch, length, 5])
        np.testing.assert_allclose(fast(x), model(x, training=False), rtol=1e-5, atol=1e-5)


@pytest.mark.parametrize("name", ["MobileNetV2", "EfficientNetB0"])
def test_applications_of_any_image(name):
    model = getattr(tf.keras.applications, name)(weights=None, include_top=False, input_shape=(None, None, 3))
    fast = disc.tensorflow.optimize(model)
    for batch, size in ((1, 64), (2, 96)):
        x = tf.random.normal([batch, size, size, 3])
        expected = model(x, training=False)
        np.testing.assert_allclose(
            fast(x), expected, rtol=1e-3, atol=1e-5 * float(tf.reduce_max(tf.abs(expected)))
        )


class Affine(tf.Module):
    def __init__(self):
        super().__init__()
        self.w = tf.Variable(tf.random.normal([4, 8]))

    @tf.function(input_signature=[tf.TensorSpec([None, 4], name="x"), tf.TensorSpec([None, 8], name="y")])
    def __call__(self, x, y):
        return {"sum": x @ self.w + y, "greatest": tf.reduce_max(y, 0)}


def test_a_saved_model_becomes_a_package_without_tensorflow(tmp_path):
    module, folder, package = Affine(), str(tmp_path / "saved"), str(tmp_path / "m.discpkg")
    tf.saved_model.save(module, folder)
    fast = disc.tensorflow.load(folder)
    with pytest.raises(disc.Error, match="x is missing"):
        fast(tf.ones([3, 4]), tf.ones([3, 8]))
    x, y = tf.random.normal([3, 4]), tf.random.normal([3, 8])
    expected, got = module(x, y), fast(x=x, y=y)
    assert got.keys() == expected.keys()
    for name in expected:
        np.testing.assert_allclose(got[name], expected[name], rtol=1e-5, atol=1e-5)
    disc.export(fast, package)
    script = f"""
import sys, numpy as np, disc
entry = disc.load({package!r})["main"]
assert [port.name for port in entry.inputs] == ["x", "y"], entry.inputs
assert [port.name for port in entry.outputs] == ["greatest", "sum"], entry.outputs
greatest, total = entry(x=np.ones((5, 4), "f"), y=np.full((5, 8), 2, "f"))
assert greatest.shape == (8,) and total.shape == (5, 8) and (greatest == 2).all()
assert not {{"tensorflow", "torch"}} & set(sys.modules)
"""
    paths = os.pathsep.join(path for path in sys.path if path)
    subprocess.run([sys.executable, "-c", script], check=True, env={**os.environ, "PYTHONPATH": paths})


def test_variables_are_as_they_were():
    module = Affine()
    fast = disc.tensorflow.optimize(module.__call__)
    x, y = tf.ones([2, 4]), tf.zeros([2, 8])
    before = module(x, y)["sum"]
    module.w.assign(module.w * 2)
    np.testing.assert_allclose(fast(x, y)["sum"], before, rtol=1e-6)


def test_ops_that_are_missing_are_one_error():
    @tf.function
    def strings(x):
        return tf.strings.length(tf.strings.as_string(x)), tf.linalg.inv(tf.linalg.det(x)[None, None])

    with pytest.raises(disc.UnsupportedOp) as caught:
        disc.tensorflow.optimize(strings, tf.TensorSpec([3, 3]))
    assert all(op in str(caught.value) for op in ("StringLength", "MatrixInverse", "MatrixDeterminant"))


def test_wrong_calls_are_errors():
    module = Affine()
    fast = disc.tensorflow.optimize(module.__call__)
    with pytest.raises(disc.Error, match="expected 2 tensors"):
        fast(tf.ones([2, 4]))
    with pytest.raises(disc.Error):
        fast(tf.ones([2, 5]), tf.ones([2, 8]))
    with pytest.raises(disc.DimError):
        fast(tf.ones([2, 4]), tf.ones([3, 8]))


def test_a_signature_that_is_not_there(tmp_path):
    tf.saved_model.save(Affine(), str(tmp_path))
    with pytest.raises(disc.Error, match="no signature `train`; it has: `serving_default`"):
        disc.tensorflow.load(str(tmp_path), signature="train")


def test_a_model_that_is_not_built_is_built_by_its_example():
    model = tf.keras.Sequential([layers.Dense(4, activation="tanh")])
    fast = disc.tensorflow.optimize(model, np.ones((2, 3), np.float32))
    x = tf.random.normal([5, 3])
    np.testing.assert_allclose(fast(x), model(x), rtol=1e-6, atol=1e-6)


def test_structures_of_arguments_and_results():
    fast = disc.tensorflow.optimize(
        tf.function(lambda d: {"a": d["x"] * 2, "b": [d["y"], d["x"], d["y"]]}),
        {"x": tf.ones([2]), "y": tf.ones([3])},
    )
    out = fast({"x": np.ones(4, np.float32), "y": np.full(7, 2, np.float32)})
    assert [x.shape for x in (out["a"], *out["b"])] == [(4,), (7,), (4,), (7,)]
    assert isinstance(out["a"], np.ndarray)


def test_the_report_says_what_was_compiled():
    fast = disc.tensorflow.optimize(encoder())
    values = disc.report(fast).to_dict()
    assert (values["captured_by"], values["coverage"], values["calls"]) == ("tensorflow", 1.0, 0)
    assert values["compiles"] + values["cache_hits"] == 1
    assert values["kernels"] > 0
    assert values["weight_bytes"] > 0
    fast([tf.zeros([1, 3], tf.int32), tf.ones([1, 3], tf.int32)])
    assert disc.report(fast).to_dict()["calls"] == 1


def test_a_call_of_another_structure_is_an_error():
    fast = disc.tensorflow.optimize(
        tf.function(lambda d, flag, y: d["x"] - d["z"] if flag else y),
        {"x": tf.ones([2]), "z": tf.ones([2])},
        True,
        None,
    )
    x, z = np.arange(3, dtype=np.float32), np.ones(3, np.float32)
    for rest in ((), (True,), (True, None)):
        np.testing.assert_array_equal(fast({"z": z, "x": x}, *rest), x - z)
    for call, words in (
        (({"x": x, "y": z}, True, None), "argument 0['z'] is missing"),
        (({"x": x, "z": z}, False, None), "argument 1 is False, and True is compiled in"),
        (({"x": x, "z": z}, True, z), "argument 2 is array"),
        (({"x": x, "z": z}, True, None, z), "traced without argument 3"),
        ((x, True, None), "is missing"),
    ):
        with pytest.raises(disc.Error, match=words.replace("[", r"\[").replace("]", r"\]")):
            fast(*call)


def test_a_list_that_is_left_or_grows_is_an_error():
    def filled(x, count, dynamic):
        rows = tf.TensorArray(tf.float32, size=count, dynamic_size=dynamic)
        step = lambda i, rows: (i + 1, rows.write(i, tf.gather(x, i)))
        return tf.while_loop(lambda i, _: i < tf.shape(x)[0], step, (0, rows))[1].stack()

    fast = disc.tensorflow.optimize(lambda x: filled(x, 4, False), tf.TensorSpec([None, 2]))
    x = tf.random.normal([4, 2])
    np.testing.assert_array_equal(fast(x), x)
    with pytest.raises(disc.Error, match="a position beyond a list of tensors"):
        fast(tf.ones([5, 2]))
    with pytest.raises(disc.Error, match="a list that grows"):
        disc.tensorflow.optimize(lambda x: filled(x, 0, True), tf.TensorSpec([None, 2]))
