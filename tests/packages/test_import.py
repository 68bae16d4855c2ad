"""``disc.export`` of a model's file: without a framework, and with the file's names of inputs."""

import subprocess
import sys

import disc
import numpy
import pytest

MODEL = """module @jit_f {
  func.func public @main(%arg0: tensor<?x4xf32> {jax.arg_info = "input:0"},
      %arg1: tensor<?x4xf32> {jax.arg_info = "/w/b"}) -> (tensor<?x4xf32> {jax.result_info = "sum:0"}) {
    %0 = stablehlo.add %arg0, %arg1 : tensor<?x4xf32>
    return %0 : tensor<?x4xf32>
  }
}
"""

WITHOUT_TORCH = """
import sys
sys.modules["torch"] = None  # an import of it fails
import disc, numpy
disc.export("m.mlir", "m.discpkg", dims={"input:0": {0: "B"}})
package = disc.load("m.discpkg")
x = numpy.arange(8, dtype="f").reshape(2, 4)
assert (package(x, x) == 2 * x).all()
assert (package(**{"/w/b": x, "input:0": x}) == 2 * x).all()
try:
    disc.export(object(), x)
except disc.Error as error:
    assert "torch, which is not installed" in str(error)
else:
    raise AssertionError("a module needs torch")
del sys.modules["torch"]
assert not [name for name in sys.modules if name.split(".")[0] in ("torch", "jax", "sympy")]
"""


@pytest.fixture
def model(tmp_path):
    path = tmp_path / "m.mlir"
    path.write_text(MODEL)
    return path


def test_a_file_is_exported_and_loaded_without_torch(model):
    done = subprocess.run(
        [sys.executable, "-c", WITHOUT_TORCH], cwd=model.parent, capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr


@pytest.mark.parametrize("rows", [0, 1, 5])
def test_a_package_has_the_names_of_the_file_and_runs_at_any_size(model, rows):
    package = disc.load(disc.export(model))
    entry = package.entries["main"]
    assert [port.name for port in entry.inputs] == ["input:0", "/w/b"]
    assert [port.name for port in entry.outputs] == ["sum:0"]
    x = numpy.random.default_rng(0).random((rows, 4), dtype="f")
    numpy.testing.assert_array_equal(package(x, x), 2 * x)
    with pytest.raises(disc.Error, match=r"input:0, /w/b|/w/b is missing"):
        package(x)
    with pytest.raises(disc.DimError, match="dimension 1 of `/w/b` has size 5"):
        package(x, numpy.zeros((rows, 5), "f"))


def test_dims_name_and_fix_sizes_by_name_and_position(model, tmp_path):
    path = tmp_path / "m.discpkg"
    size = disc.Dim("B", min=1, max=8, multiple_of=2)
    assert disc.export(str(model), path, dims={"input:0": {0: size}, 1: ["B"]}) is None
    package = disc.load(path)
    assert [tuple(port.dims) for port in package.entries["main"].inputs] == [("B", 4), ("B", 4)]
    for rows, fits in [(2, True), (8, True), (3, False), (10, False)]:
        x = numpy.ones((rows, 4), "f")
        if fits:
            package(x, x)
        else:
            with pytest.raises(disc.DimError, match="B is"):
                package(x, x)
    fixed = disc.load(disc.export(model, dims={0: {0: 3}}))
    assert tuple(fixed.entries["main"].inputs[0].dims) == (3, 4)


@pytest.mark.parametrize(
    ("dims", "code", "words"),
    [
        ({"x": {0: "B"}}, "E1006", "the model has: input:0, /w/b"),
        ({2: {0: "B"}}, "E1006", "no input 2"),
        ({"input:0": {1: "B"}}, "E1006", "has the size 4 in the model"),
        ({"input:0": {2: "B"}}, "E1006", "has 2 axes"),
        ({"input:0": {-1: "B"}}, "E0700", "is no axis"),
        ({"input:0": "B"}, "E0700", "expected a mapping"),
        ({"input:0": {0: 1.5}}, "E0700", "expected a str, a disc.Dim, an int or None"),
        ({"input:0": {0: disc.Dim("B", max=2)}, 1: {0: disc.Dim("B", max=3)}}, "E0700", "declares B twice"),
        ("static", "E0700", "a file lacks"),
    ],
)
def test_wrong_dims_are_refused(model, dims, code, words):
    with pytest.raises(disc.Error, match=words) as raised:
        disc.export(model, dims=dims)
    assert raised.value.code == code


def test_missing_ops_are_one_error_that_lists_them(model):
    model.write_text(MODEL.replace("stablehlo.add", "stablehlo.fft"))
    with pytest.raises(disc.UnsupportedOp, match=r"`stablehlo.fft` \(line 4") as raised:
        disc.export(model)
    assert raised.value.code == "E1003"


def test_files_that_are_no_model_say_what_they_are(tmp_path):
    for name, contents, words in [
        ("m.onnx", b"\x08\x08\x12\x07pytorch", "an ONNX model"),
        ("m.mlir", b"PK\x03\x04", "a package"),
        ("m", b"\0\0", "no known format"),
    ]:
        path = tmp_path / name
        path.write_bytes(contents)
        with pytest.raises(disc.Error, match=words) as raised:
            disc.export(path)
        assert raised.value.code == "E1001"
    with pytest.raises(disc.Error, match="cannot be read"):
        disc.export(tmp_path / "nowhere.mlir")


def test_arguments_about_modules_are_refused_for_files(model, tmp_path):
    for arguments in [
        {"kwargs": {"x": 1}},
        {"state": "inputs"},
        {"inputs": 1, "path": tmp_path / "m.discpkg"},
    ]:
        with pytest.raises(disc.Error, match="is a file"):
            disc.export(model, **arguments)


def test_modules_of_torch_still_go_to_its_front_end():
    torch = pytest.importorskip("torch")
    package = disc.load(disc.export(torch.nn.Linear(3, 2).eval(), torch.ones(4, 3)))
    assert package(numpy.ones((5, 3), "f")).shape == (5, 2)
    with pytest.raises(disc.Error, match=r"takes a torch\.nn\.Module, got int"):
        disc.export(3)
