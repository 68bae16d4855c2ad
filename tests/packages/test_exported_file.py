"""``disc compile model.pt2`` and ``model.pt``: files of torch become packages."""

import json
import subprocess
import sys

import disc
import numpy as np
import pytest
import torch
from disc.torch.files.exported_file import compile_file


class Scores(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.table = torch.nn.Embedding(50, 8)
        self.linear = torch.nn.Linear(8, 4)

    def forward(self, ids):
        return {"scores": torch.softmax(self.linear(self.table(ids)), -1), "sum": ids.sum()}


@pytest.fixture(scope="module")
def saved(tmp_path_factory):
    module, ids = Scores().eval(), torch.randint(0, 50, (2, 5))
    sizes = {0: torch.export.Dim("B"), 1: torch.export.Dim("S", min=2, max=512)}
    path = tmp_path_factory.mktemp("saved") / "scores.pt2"
    torch.export.save(torch.export.export(module, (ids,), dynamic_shapes=(sizes,)), path)
    return module, path


def request(path, output, **changes):
    plain = {"entry": "main", "targets": [], "dims": {}, "options": {}, "threads": 1}
    return {"model": str(path), "output": str(output), **plain, **changes}


def test_an_exported_program_becomes_a_package(saved, tmp_path):
    module, path = saved
    dims = {"ids": {"0": "B"}}
    compile_file(
        request(path, tmp_path / "m.discpkg", entry="score", dims=dims, options={"winograd": "false"})
    )
    package = disc.load(tmp_path / "m.discpkg")
    entry = package["score"]
    assert [port.name for port in entry.outputs] == ["scores", "sum"]
    assert entry.inputs[0].dims[0] == "B"
    ids = torch.randint(0, 50, (3, 9))
    scores, total = entry(ids.numpy())
    np.testing.assert_allclose(scores, module(ids)["scores"].detach().numpy(), rtol=1e-5)
    assert total == ids.sum()


def test_the_worker_answers_with_one_line(saved, tmp_path):
    other = tmp_path / "other.pt2"
    other.write_bytes(b"no model")
    for wish, words in [
        (request(other, tmp_path / "m.discpkg"), "is no file of torch.export.save"),
        (
            request(saved[1], tmp_path / "m.discpkg", options={"weightz": "int8"}),
            "there is no option 'weightz'",
        ),
    ]:
        command = [sys.executable, "-m", "disc.torch.files.exported_file"]
        done = subprocess.run(command, input=json.dumps(wish), capture_output=True, text=True, check=False)
        error = json.loads(done.stdout.splitlines()[-1])["error"]
        assert words in error["message"]
        assert done.returncode == 1
        assert not (tmp_path / "m.discpkg").exists()


class Gate(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.linear = torch.nn.Linear(6, 4)
        self.norm = torch.nn.BatchNorm1d(4)

    def forward(self, x, scale=None, *, shift=None):
        y = self.norm(self.linear(x))
        if scale is not None:
            y = y * scale
        return y if shift is None else y + shift


class Script(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.linear = torch.nn.Linear(6, 4)

    def forward(self, x, y):
        z = self.linear(x) + y
        if x.size(0) > 100:
            z = z * 2
        return torch.relu(z), z + x.size(0)


def random(name, *sizes):
    return {"name": name, "random": sizes, "seed": 0}


def test_a_pickled_module_needs_trust(tmp_path):
    path, output = tmp_path / "m.pt", tmp_path / "m.discpkg"
    module = Gate()
    torch.save(module, path)
    np.save(tmp_path / "shift.npy", np.ones((2, 4), np.float32))
    inputs = [random("x", 2, 6), {"name": "shift", "file": str(tmp_path / "shift.npy")}]
    with pytest.raises(disc.Error, match="runs whatever code is in it") as caught:
        compile_file(request(path, output, inputs=inputs))
    assert "--unsafe-pickle" in caught.value.help
    assert not output.exists()
    compile_file(request(path, output, inputs=inputs, unsafe_pickle=True, dims={"x": {"0": "B"}}))
    package = disc.load(output)
    assert [tuple(port) for port in package["main"].inputs] == [
        ("x", "f32", ("B", 6)),
        ("shift", "f32", ("B", 4)),
    ]
    x, shift = torch.randn(9, 6), torch.randn(9, 4)
    np.testing.assert_allclose(
        package(x.numpy(), shift.numpy()),
        module.eval()(x, shift=shift).detach().numpy(),
        rtol=1e-5,
        atol=1e-6,
    )


def test_the_types_of_inputs_stand_for_an_example(saved, tmp_path):
    path, output = tmp_path / "m.pt", tmp_path / "m.discpkg"
    torch.save(saved[0], path)
    ids = {"name": "ids", "dtype": "i64", "axes": [2, "S"], "seed": 0}
    compile_file(request(path, output, inputs=[ids], unsafe_pickle=True))
    package, x = disc.load(output), torch.randint(0, 50, (2, 5))
    assert [tuple(port) for port in package["main"].inputs] == [("ids", "i64", (2, "S"))]
    scores, _ = package(x.numpy())
    np.testing.assert_allclose(scores, saved[0](x)["scores"].detach().numpy(), rtol=1e-5)
    torch.jit.save(torch.jit.script(Script().eval()), path)
    x, y = ({"name": n, "dtype": "f32", "axes": a, "seed": 0} for n, a in [("x", [3, 6]), ("y", [4])])
    compile_file(request(path, output, inputs=[x, y]))
    assert disc.load(output)["main"].inputs[0].dims == (3, 6)
    with pytest.raises(disc.Error, match="sizes of the example alone"):
        compile_file(request(path, output, inputs=[{**x, "axes": ["B", 6]}, y]))
    with pytest.raises(disc.Error, match="torch has no type u64"):
        compile_file(request(path, output, inputs=[{**x, "dtype": "u64"}, y]))


@pytest.mark.parametrize(
    "make", [torch.jit.script, lambda m: torch.jit.trace(m, (torch.rand(3, 6), torch.rand(4)))]
)
def test_an_archive_of_torchscript_is_compiled_for_its_sizes(make, tmp_path):
    path, output = tmp_path / "m.pt", tmp_path / "m.discpkg"
    module = Script().eval()
    torch.jit.save(make(module), path)
    inputs = [random("x", 3, 6), random("y", 4)]
    compile_file(request(path, output, inputs=inputs))
    package = disc.load(output)
    assert [tuple(port) for port in package["main"].inputs] == [("x", "f32", (3, 6)), ("y", "f32", (4,))]
    x, y = torch.randn(3, 6), torch.randn(4)
    for ours, wanted in zip(package(x.numpy(), y.numpy()), module(x, y), strict=True):
        np.testing.assert_allclose(ours, wanted.detach().numpy(), rtol=1e-5, atol=1e-6)
    with pytest.raises(disc.Error):
        package(np.zeros((2, 6), np.float32), y.numpy())
    with pytest.raises(disc.Error, match="sizes of the example alone"):
        compile_file(request(path, output, inputs=inputs, dims={"x": {"0": "B"}}))


@pytest.mark.parametrize(
    ("held", "inputs", "words"),
    [
        ({"w": torch.ones(2)}, [], "holds a dict"),
        (Gate(), [random("z", 2)], "has no input z: its inputs are x, scale, shift"),
        (Gate(), [{"name": "x", "file": "no.npy"}], "no.npy cannot be read"),
        (torch.jit.script(Script()), [random("y", 4)], "needs the inputs before y too"),
        (torch.jit.script(Script()), [random("x", 3, 5), random("y", 4)], "torch cannot convert"),
        (b"no model", [], "cannot be unpickled"),
    ],
)
def test_a_saved_file_that_cannot_be_compiled_says_why(held, inputs, words, tmp_path):
    path = tmp_path / "m.pt"
    if isinstance(held, bytes):
        path.write_bytes(held)
    else:
        (torch.jit if isinstance(held, torch.jit.ScriptModule) else torch).save(held, path)
    with pytest.raises(disc.Error, match=words):
        compile_file(request(path, tmp_path / "m.discpkg", inputs=inputs, unsafe_pickle=True))


def test_buffers_that_calls_change_become_inputs(tmp_path):
    class Counts(torch.nn.Module):
        def __init__(self):
            super().__init__()
            self.register_buffer("total", torch.zeros(3))

        def forward(self, x):
            self.total.add_(x.sum(0))
            return self.total * 2

    path = tmp_path / "counts.pt2"
    torch.export.save(torch.export.export(Counts().eval(), (torch.ones(2, 3),)), path)
    with pytest.raises(disc.Error, match="total"):
        compile_file(request(path, tmp_path / "m.discpkg"))
    compile_file(request(path, tmp_path / "m.discpkg", state="inputs"))
    package, total = disc.load(tmp_path / "m.discpkg"), np.zeros(3, np.float32)
    np.testing.assert_array_equal(package(np.ones((2, 3), np.float32), total), [4, 4, 4])
    np.testing.assert_array_equal(total, [2, 2, 2])
