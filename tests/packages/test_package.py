"""Packages: written from torch modules, opened with only NumPy."""

from __future__ import annotations

import math
import subprocess
import sys
from collections import OrderedDict, namedtuple

import disc
import numpy as np
import pytest
import torch
from disc.core import structure


class Cell(torch.nn.Module):
    """Two inputs, a nested result, and a tied weight."""

    def __init__(self):
        super().__init__()
        self.first = torch.nn.Linear(8, 8)
        self.second = torch.nn.Linear(8, 8)
        self.second.weight = self.first.weight

    def forward(self, x, scale=None):
        y = torch.relu(self.first(x))
        if scale is not None:
            y = y * scale
        return {"y": self.second(y), "parts": (y.sum(-1), x)}


class Step(torch.nn.Module):
    """Writes a row of a cache in place."""

    def __init__(self, cell: Cell):
        super().__init__()
        self.cell = cell

    def forward(self, x, cache, position):
        cache.index_copy_(0, position, self.cell.first(x))
        return cache.sum(0)


@pytest.fixture
def cell() -> Cell:
    torch.manual_seed(0)
    return Cell().eval()


def test_a_package_runs_at_other_sizes_than_it_was_exported_with(cell, tmp_path):
    path = tmp_path / "cell.discpkg"
    disc.export(cell, (torch.randn(3, 8),), path)
    package = disc.load(path)
    entry = package.entries["main"]
    assert [tuple(port) for port in entry.inputs] == [("x", "f32", (entry.inputs[0].dims[0], 8))]
    for rows in (0, 1, 5):
        x = torch.randn(rows, 8)
        wanted = cell(x)
        y, total, same = package(x.numpy())
        assert isinstance(y, np.ndarray)
        np.testing.assert_allclose(y, wanted["y"].detach().numpy(), atol=1e-5)
        np.testing.assert_allclose(total, wanted["parts"][0].detach().numpy(), atol=1e-5)
        np.testing.assert_array_equal(same, x.numpy())
        assert isinstance(package(x)[0], torch.Tensor)


def test_a_saved_module_takes_and_returns_what_the_module_does(cell, tmp_path):
    example = (torch.randn(3, 8),)
    fast = disc.optimize(cell, examples=[(example, {}), (example, {"scale": torch.ones(8)})])
    disc.save(fast, tmp_path / "cell.discpkg")
    package = disc.load(tmp_path / "cell.discpkg")
    assert list(package.entries) == list(package) == ["main", "main_2"]
    assert len(package) == 2
    assert "main_2" in package
    assert "other" not in package
    x, scale = torch.randn(4, 8), torch.randn(8)
    for kwargs in ({}, {"scale": scale}):
        wanted = cell(x, **kwargs)
        result = package(x.numpy(), **{name: t.numpy() for name, t in kwargs.items()})
        assert list(result) == ["y", "parts"]
        assert isinstance(result["parts"], tuple)
        np.testing.assert_allclose(result["y"], wanted["y"].detach().numpy(), atol=1e-5)
    with pytest.raises(disc.Error, match="x is missing"):
        package()


def test_two_entries_share_weights_and_a_cache_is_written_in_place(cell):
    package_bytes = disc.export(
        {
            "prefill": (cell, (torch.randn(3, 8),)),
            "decode": (Step(cell), (torch.randn(1, 8), torch.zeros(6, 8), torch.tensor([2]))),
        }
    )
    package = disc.load(package_bytes)
    names = [name for name, _, _ in package._native.weights()]
    assert sorted(names) == ["first.bias", "first.weight", "second.bias"]
    cache = np.zeros((4, 8), np.float32)
    x = np.ones((1, 8), np.float32)
    total = package["decode"](x, cache, np.array([3]))
    np.testing.assert_allclose(total, cache.sum(0), atol=1e-6)
    with torch.no_grad():
        np.testing.assert_allclose(cache[3], cell.first(torch.ones(8)).numpy(), atol=1e-6)
    assert not cache[:3].any()
    frozen = np.zeros((4, 8), np.float32)
    frozen.flags.writeable = False
    with pytest.raises(disc.Error, match=r"cache.*read-only"):
        package["decode"](x, frozen, np.array([3]))
    with pytest.raises(disc.PackageError, match="no entry `other`: it has `prefill`, `decode`"):
        package["other"]


def test_weights_are_stored_bit_for_bit_and_readable(cell, tmp_path):
    import zipfile

    from safetensors.numpy import load

    path = tmp_path / "cell.discpkg"
    disc.export(cell, (torch.randn(3, 8),), path)
    with zipfile.ZipFile(path) as archive:
        assert archive.testzip() is None
        info = archive.getinfo("weights.safetensors")
        assert info.compress_type == zipfile.ZIP_STORED
        found = load(archive.read("weights.safetensors"))
    for name, value in found.items():
        assert value.tobytes() == cell.state_dict()[name].numpy().tobytes()


def test_what_cannot_be_exported_says_why(tmp_path):
    class Factors(torch.nn.Module):
        def forward(self, x):
            return torch.linalg.svdvals(x)

    with pytest.raises(disc.UnsupportedOp, match="svd"):
        disc.export(Factors(), (torch.randn(4, 4),), tmp_path / "x.discpkg")
    norm = torch.nn.BatchNorm1d(4).train()
    with pytest.raises(disc.PackageError, match=r"change .*running_mean"):
        disc.export(norm, (torch.randn(3, 4),), tmp_path / "x.discpkg")
    assert not list(tmp_path.iterdir())


class Decoder(torch.nn.Module):
    """Keeps a static cache in a buffer, and counts its calls in one that it assigns anew."""

    def __init__(self):
        super().__init__()
        self.linear = torch.nn.Linear(8, 8)
        self.register_buffer("cache", torch.zeros(6, 8))
        self.register_buffer("calls", torch.zeros((), dtype=torch.int64))

    def forward(self, x, position):
        self.cache.index_copy_(0, position, self.linear(x))
        self.calls = self.calls + 1
        return self.cache.sum(0)


def test_state_of_a_module_becomes_inputs():
    module = Decoder().eval()
    example = torch.randn(2, 8), torch.arange(2)
    with pytest.raises(disc.PackageError, match="change cache, calls") as caught:
        disc.export(module, example)
    assert 'state="inputs"' in caught.value.help
    entry = disc.load(disc.export(module, example, state="inputs"))["main"]
    assert [port.name for port in entry.inputs] == ["x", "position", "cache", "calls"]
    assert entry.inputs[2].dims == (6, 8)
    assert entry.written == ["cache"]
    assert [port.name for port in entry.outputs] == ["output0", "calls"]
    assert not module.cache.any()
    sessions = [{name: t.numpy().copy() for name, t in module.named_buffers()} for _ in range(2)]
    for state in sessions:
        for name, start in module.named_buffers():
            np.testing.assert_array_equal(state[name], start.numpy())
        twin = Decoder().eval()
        twin.load_state_dict(module.state_dict())
        for step in range(3):
            x, position = torch.randn(1, 8), torch.tensor([step])
            wanted = twin(x, position).detach()
            y, state["calls"] = entry(x.numpy(), position.numpy(), **state)
            np.testing.assert_allclose(y, wanted, rtol=1e-5, atol=1e-6)
            np.testing.assert_allclose(state["cache"], twin.cache.detach(), rtol=1e-5, atol=1e-6)
        assert state["calls"] == 3


def test_batch_norm_is_exported_in_training_mode():
    norm, twin = torch.nn.BatchNorm1d(4).train(), torch.nn.BatchNorm1d(4).train()
    entry = disc.load(disc.export(norm, (torch.randn(3, 4),), state="inputs"))["main"]
    state = {name: t.numpy().copy() for name, t in norm.named_buffers()}
    for _ in range(3):
        x = torch.randn(7, 4)
        y = entry(x.numpy(), **state)
        np.testing.assert_allclose(y, twin(x).detach(), rtol=1e-4, atol=1e-5)
    for name, t in twin.named_buffers():
        np.testing.assert_allclose(state[name], t, rtol=1e-5)


def test_a_damaged_file_names_the_entry(cell, tmp_path):
    path = tmp_path / "cell.discpkg"
    whole = disc.export(cell, (torch.randn(3, 8),))
    path.write_bytes(whole[:-200])
    with pytest.raises(disc.PackageError, match=r"cell\.discpkg.*truncated"):
        disc.load(path)
    at = whole.index(cell.first.weight.detach().numpy().tobytes()) + 5
    path.write_bytes(whole[:at] + bytes([whole[at] ^ 1]) + whole[at + 1 :])
    with pytest.raises(disc.PackageError, match=r"weights\.safetensors.*damaged"):
        disc.load(path)
    with pytest.raises(disc.PackageError, match="no package"):
        disc.load(__file__)
    with pytest.raises(disc.PackageError, match="cannot be read"):
        disc.load(tmp_path / "missing.discpkg")


def test_a_package_needs_no_torch(cell, tmp_path):
    path = tmp_path / "cell.discpkg"
    disc.export(cell, (torch.randn(3, 8),), path)
    program = f"""
import sys, numpy as np, disc
package = disc.load({str(path)!r})
y, *_ = package(np.ones((2, 8), np.float32))
assert "torch" not in sys.modules
print(y.shape)
"""
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, cwd=tmp_path)
    assert done.stdout.strip() == "(2, 8)", done.stderr


def test_a_package_runs_on_a_device_without_torch(cell, tmp_path):
    path, result = tmp_path / "cell.discpkg", tmp_path / "y.npy"
    targets = ["x86-64-v2", "nvptx:sm_80", "simt:sm_90"]
    disc.export(cell, (torch.randn(3, 8),), path, target=targets)
    x = torch.linspace(-1, 1, 40).view(5, 8)
    program = f"""
import sys, numpy as np, disc
package = disc.load({str(path)!r}, device="simt:sm_90")
assert package.target.startswith("simt:sm_90 on x86-64"), package.target
y, *_ = package(np.linspace(-1, 1, 40, dtype=np.float32).reshape(5, 8))
assert "torch" not in sys.modules and type(y) is np.ndarray
np.save({str(result)!r}, y)
"""
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    np.testing.assert_allclose(np.load(result), cell(x)["y"].detach(), rtol=1e-5, atol=1e-6)
    assert disc.load(path).target == "x86-64-v2"
    with pytest.raises(
        disc.PackageError, match="the device `simt:gfx942`: it has `x86-64-v2`, `nvptx:sm_80 on"
    ):
        disc.load(path, device="simt:gfx942")
    with pytest.raises(disc.Error, match="the device `cuda:9` is not available"):
        disc.load(path, device="cuda:9")


def test_records_become_dicts_unless_their_class_is_loaded():
    description = {
        "kind": "record",
        "type": "no.such.module:Thing",
        "keys": ["a"],
        "items": [{"kind": "leaf", "index": 0}],
    }
    assert structure.build(description, [3]) == {"a": 3}
    named = {**description, "type": "os:system"}
    assert structure.build(named, ["true"]) == {"a": "true"}


class Flagged(torch.nn.Module):
    def forward(self, x, flag=False, scale=1.0):
        return x * 2 * scale if flag else x + 1


class Joined(torch.nn.Module):
    def forward(self, d):
        return torch.cat(list(d.values()))


class Many(torch.nn.Module):
    def forward(self, *xs):
        return xs[0] - xs[1]


Pair = namedtuple("Pair", "low high")


class Named(torch.nn.Module):
    def forward(self, pair, alpha=math.inf):
        return Pair(pair.low * 2, OrderedDict(high=pair.high, alpha=alpha))


def saved(module, *args, **kwargs):
    return disc.load(disc.save(disc.optimize(module.eval(), args, kwargs=kwargs)))


def test_an_argument_that_is_left_out_takes_the_default():
    x = torch.randn(3, 4)
    package = saved(Flagged(), x, flag=True)
    torch.testing.assert_close(package(x, flag=True), x * 2)
    for wrong in ({}, {"flag": False}, {"flag": True, "scale": 2.0}):
        with pytest.raises(disc.Error, match=r"flag|scale"):
            package(x, **wrong)
    fast = disc.optimize(Flagged().eval(), examples=[((x,), {"flag": True}), ((x,), {})])
    both = disc.load(disc.save(fast))
    torch.testing.assert_close(both(x), x + 1)
    torch.testing.assert_close(both(x, True, scale=1.0), x * 2)


def test_another_constant_is_named_with_the_one_that_is_compiled_in():
    class Scaled(torch.nn.Module):
        def forward(self, x, scale=1.0, flip=False):
            return -x * scale if flip else x * scale

    def refused(package, text, *args, **kwargs):
        with pytest.raises(disc.Error, match="save the model once more") as caught:
            package(*args, **kwargs)
        assert text in caught.value.message

    x = torch.randn(2, 3)
    plain, doubled = saved(Scaled(), x), saved(Scaled(), x, scale=2.0)
    refused(plain, "scale is 3.0, and its default 1.0 is compiled in", x, 3.0)
    refused(doubled, "scale is 1.0 by default, and 2.0 is compiled in", x)
    refused(doubled, "scale is 3.0, expected 2.0, which is compiled in", x, scale=3.0)
    with pytest.raises(disc.Error, match="the model was compiled without unknown"):
        plain(x, unknown=1)
    with pytest.raises(disc.Error, match="x is missing"):
        plain()
    # Several forms: what each of them objects to.
    both = disc.optimize(Scaled().eval(), x, examples=[((x,), {"scale": 2.0})])
    both = disc.load(disc.save(both))
    torch.testing.assert_close(both(x, 2.0), 2 * x)
    refused(both, "none of the saved forms: `main` expects x: scale is 3.0, and its default 1.0", x, 3.0)
    refused(both, "; input scale is 3.0, expected 2.0", x, 3.0)
    with pytest.raises(disc.Error, match="rank 2"):
        both(torch.randn(3))


def test_a_dict_has_the_keys_and_the_order_of_the_example():
    a, b = torch.ones(1, 2), torch.zeros(2, 2)
    package = saved(Joined(), {"a": a, "b": b})
    torch.testing.assert_close(package({"a": b, "b": a}), torch.cat([b, a]))
    for wrong in ({"b": b, "a": a}, {"a": a, "b": b, "c": a}, {"a": a}):
        with pytest.raises(disc.Error, match="input d is"):
            package(wrong)


def test_any_number_of_arguments_and_named_tuples():
    x = torch.randn(3)
    torch.testing.assert_close(saved(Many(), x, x)(3 * x, x), 2 * x)
    package = saved(Named(), Pair(x, x))
    result = package(Pair(x, -x))
    assert isinstance(result, Pair)
    assert isinstance(result.high, OrderedDict)
    assert result.high["alpha"] == math.inf
    torch.testing.assert_close(result.low, 2 * x)


def test_exported_keywords_are_in_the_order_of_forward():
    class Minus(torch.nn.Module):
        def forward(self, a, b):
            return a - b

    a, b = torch.randn(3), torch.randn(3)
    package = disc.load(disc.export(Minus(), (), kwargs={"b": b, "a": a}))
    torch.testing.assert_close(package(a, b), a - b)


def test_forms_differ_in_element_types():
    class Twice(torch.nn.Module):
        def forward(self, x):
            return x + x

    examples = [((torch.ones(2, dtype=kind),), {}) for kind in (torch.float32, torch.float64, torch.int64)]
    package = disc.load(disc.save(disc.optimize(Twice(), examples=examples)))
    for kind in (np.float32, np.float64, np.int64):
        assert package(np.ones(3, kind)).dtype == kind


@pytest.mark.parametrize(
    "damaged",
    [
        5,
        {},
        {"kind": "other"},
        {"kind": "leaf", "index": 5},
        {"kind": "dict", "keys": ["a"], "items": []},
        {"kind": "dict", "keys": [[1]], "items": [{"kind": "constant", "value": 1}]},
        {"kind": "record", "type": 5, "keys": [], "items": []},
        {"kind": "constant", "float": "x"},
    ],
)
def test_a_damaged_structure_is_refused(damaged):
    with pytest.raises(disc.PackageError, match="structure"):
        structure.check(damaged, 1)


def test_a_written_tensor_has_a_new_version(cell):
    package = disc.load(disc.export(Step(cell), (torch.randn(1, 8), torch.zeros(6, 8), torch.tensor([2]))))
    cache = torch.zeros(6, 8)
    package(torch.randn(1, 8), cache, torch.tensor([1]))
    assert cache._version == 1
    assert cache[1].abs().sum() > 0


def test_a_target_is_found_by_any_spelling_of_its_name(cell, tmp_path, monkeypatch):
    path, asked = tmp_path / "cell.discpkg", "aarch64-v8+i8mm+sve256+bf16"
    disc.export(cell, (torch.randn(3, 8),), path, target=["x86-64-v2", asked])
    monkeypatch.setenv("DISC_TARGET", asked)
    with pytest.raises(disc.PackageError, match=r"of the package runs on this processor.*is for aarch64"):
        disc.load(path)
    monkeypatch.setenv("DISC_TARGET", "aarch64-v8+i8mm")
    with pytest.raises(disc.PackageError, match=r"has no code for `aarch64-v8.i8mm`"):
        disc.load(path)


@pytest.mark.parametrize("target", [5, [None], {"x86-64-v3": 1}])
def test_what_is_no_target_is_refused(cell, target):
    with pytest.raises(disc.Error, match=r"target is .*, expected a name or a list of names"):
        disc.export(cell, (torch.randn(3, 8),), target=target)
