"""From IR text or a builder to results: the compiler in the extension module."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time

import disc
import numpy as np
import pytest
import torch
from disc import _disc

TEXT = """
weight @bias : tensor<4xf32>
func @main(%x: tensor<[B]x4xf32>, %y: tensor<[B]x4xf32>) -> tensor<[B]x4xf32> where B >= 1 {
  %b = weight @bias : tensor<4xf32>
  %w = broadcast_in_dim %b, dims = [1] : (tensor<4xf32>) -> tensor<[B]x4xf32>
  %p = multiply %x, %y : tensor<[B]x4xf32>
  %s = add %p, %w : tensor<[B]x4xf32>
  return %s : tensor<[B]x4xf32>
}
"""
BIAS = torch.tensor([1.0, 2.0, 3.0, 4.0])


@pytest.fixture(scope="module")
def artifact():
    return _disc.compile(TEXT, {"threads": 1})


@pytest.fixture(scope="module")
def executable(artifact):
    return artifact.load({"bias": BIAS})


def test_text_compiles_and_runs_at_any_size(executable):
    for n in (1, 2, 7, 1000):
        x, y = torch.randn(n, 4), torch.randn(n, 4)
        (z,) = executable((x, y))
        torch.testing.assert_close(z, x * y + BIAS)
        np.testing.assert_allclose(executable.run([x.numpy(), y.numpy()])[0], z.numpy())


def test_strided_inputs_are_read(executable):
    x, y = torch.randn(4, 6).t(), torch.randn(6, 8)[:, ::2]
    torch.testing.assert_close(executable((x, y))[0], x * y + BIAS)
    (z,) = executable((x.numpy()[::-1], torch.ones(1, 4).expand(6, 4)))
    torch.testing.assert_close(z, x.flip(0) + BIAS)


def test_a_builder_compiles_too():
    b = _disc.Builder()
    x = b.input("x", ["B"], "f32")
    n = b.op("convert", [b.dim("B")], dtype="f32")
    scale = b.op("broadcast_in_dim", [n], result_types=[(x.shape, "f32")], dims=[])
    with pytest.raises(disc.Error, match="no output"):
        _disc.compile(b)
    b.output([b.op("multiply", [x, scale])])
    executable = _disc.compile(b).load()
    assert executable([torch.ones(5)])[0].tolist() == [5.0] * 5


def test_sizes_outside_the_signature_are_dim_errors(executable):
    for x, y in (
        (torch.ones(2, 4), torch.ones(3, 4)),
        (torch.ones(2, 5), torch.ones(2, 5)),
        (torch.ones(0, 4),) * 2,
    ):
        with pytest.raises(disc.DimError) as caught:
            executable((x, y))
        assert caught.value.code == "E0602"
    assert executable((torch.ones(1, 4), torch.ones(1, 4)))[0].tolist() == [[2, 3, 4, 5]]


def test_weights_must_be_there_and_fit(artifact):
    with pytest.raises(disc.Error, match="bias") as caught:
        artifact.load()
    assert caught.value.code == "E0608"
    with pytest.raises(disc.Error, match="bias"):
        artifact.load({"bias": torch.ones(5)})


def test_reports_are_dicts(artifact, executable):
    report = artifact.report()
    assert report["kernels"] == sum(report["kernels_by_kind"].values()) >= 1
    assert {"passes", "codegen", "link"} <= set(report["stages_ms"])
    assert len(artifact.code) == report["code_bytes"]
    assert executable.report()["calls"] == executable.calls
    assert [i["dims"] for i in executable.entry["inputs"]] == [["B", "4"], ["B", "4"]]


@pytest.mark.parametrize(
    ("text", "code"),
    [
        ("", None),
        ("func", "E0101"),
        ("func @main(%x: tensor<4xf32>) -> tensor<4xf32> {\n  %y = addd %x : tensor<4xf32>\n}", "E0102"),
        ("func @main(%x: tensor<4xf32>) -> tensor<5xf32> {\n  return %x : tensor<4xf32>\n}", None),
    ],
)
def test_programs_that_are_wrong_are_refused(text, code):
    with pytest.raises(disc.Error) as caught:
        _disc.compile(text).load()
    assert code in (None, caught.value.code)


def test_arguments_of_compile_are_checked():
    with pytest.raises(disc.Error, match="expected a Builder"):
        _disc.compile(3)
    with pytest.raises(disc.Error, match="is `threads` meant"):
        _disc.compile(TEXT, {"thread": 3})
    with pytest.raises(disc.Error, match="`threads` cannot be many"):
        _disc.compile(TEXT, {"threads": "many"})
    with pytest.raises(disc.Error) as caught:
        _disc.compile(TEXT, {"target": "z80"})
    assert caught.value.code == "E0502"
    with pytest.raises(disc.Error, match="no code is made yet for `amdgpu:gfx90a`") as caught:
        _disc.compile(TEXT, {"target": "amdgpu:gfx90a"})
    assert caught.value.code == "E0502"
    with pytest.raises(disc.Error, match="the device `simt:sm_35` is not available"):
        _disc.compile(TEXT, {"device": "simt:sm_35"})


def test_an_interrupt_ends_the_wait_for_the_compiler():
    class Stop(Exception):
        pass

    def stop(*_):
        raise Stop

    many = "\n".join(f"  %v{i + 1} = exponential %v{i} : tensor<[N]xf32>" for i in range(400))
    text = f"func @main(%v0: tensor<[N]xf32>) -> tensor<[N]xf32> {{\n{many}\n  return %v400 : tensor<[N]xf32>\n}}"
    before = signal.signal(signal.SIGALRM, stop)
    try:
        start = time.monotonic()
        signal.setitimer(signal.ITIMER_REAL, 0.02)
        with pytest.raises(Stop):
            _disc.compile(text)
        assert time.monotonic() - start < 1
    finally:
        signal.signal(signal.SIGALRM, before)


def command(function, *arguments):
    """Runs a command-line tool as the script of the wheel does, in a process of its own."""
    script = f"import sys; from disc import _disc; sys.exit(_disc.{function}(['the tool', *sys.argv[1:]]))"
    return subprocess.run(
        [sys.executable, "-c", script, *arguments],
        env={**os.environ, "PYTHONPATH": ":".join(sys.path)},
        capture_output=True,
        text=True,
    )


def test_disc_opt_is_a_function(tmp_path):
    path = tmp_path / "a.disc"
    path.write_text(TEXT)
    good = command("main_disc_opt", str(path))
    assert good.returncode == 0, good.stderr
    assert "func @main" in good.stdout
    path.write_text(TEXT.replace("multiply", "multiplied"))
    bad = command("main_disc_opt", str(path))
    assert bad.returncode == 1
    assert "error[E0102]" in bad.stderr
    assert command("main_disc_opt", "--nonsense").returncode == 2


def test_disc_is_a_function(tmp_path):
    path = tmp_path / "a.disc"
    path.write_text(TEXT)
    compiled = command("main_disc", "compile", str(path), "--json")
    assert compiled.returncode == 0, compiled.stderr
    assert json.loads(compiled.stdout)["kernels"] == 1
    unknown = command("main_disc", "explain", "E0999", "--json")
    assert unknown.returncode == 1
    assert json.loads(unknown.stdout)["errors"][0]["code"] == "E0102"


class Frozen(bytes):
    """Memory of the host that is lent both ways; DLPack's older form cannot say that it is
    read-only.
    """

    def __dlpack_device__(self):
        return 1, 0

    def __dlpack__(self, **_):
        raise AssertionError("the buffer says more")


def test_memory_of_the_host_is_read_as_a_buffer_if_it_is_one():
    text = """func @main(%x: tensor<[N]xu8>) -> tensor<[N]xu8> {
  %y = add %x, %x : tensor<[N]xu8>
  return %y : tensor<[N]xu8>
}"""
    assert _disc.compile(text).load()([Frozen(b"\1\2")])[0].tolist() == [2, 4]
