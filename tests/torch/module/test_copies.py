"""Copies of compiled modules and of packages: they bring their code along."""

from __future__ import annotations

import copy
import multiprocessing
import os
import pickle
import subprocess
import sys
from pathlib import Path
from typing import ClassVar

import disc
import numpy as np
import pytest
import torch
from disc.core import extension
from disc.torch.cache.identity import identity
from torch import nn

HERE = str(Path(__file__).parent)
FACTOR = 2.0


class Net(nn.Module):
    """Has tied weights, an attribute that is compiled in, and batch norm."""

    shift = 1.0
    table: ClassVar = {"sign": 1.0}

    def __init__(self):
        super().__init__()
        self.first, self.second = nn.Linear(8, 8), nn.Linear(8, 8)
        self.second.weight = self.first.weight
        self.norm = nn.BatchNorm1d(8)
        self.scale = 3.0

    def forward(self, x, power=1):
        y = self.norm(self.second(torch.relu(self.first(x)))) * self.scale
        return {"y": y**power, "sum": FACTOR * self.table["sign"] * y.sum() + self.shift}


def report(fast) -> dict:
    return disc.report(fast).to_dict()


def assert_same(ours: dict, theirs: dict) -> None:
    assert ours.keys() == theirs.keys()
    for name in ours:
        assert torch.equal(ours[name], theirs[name])


@pytest.fixture
def fast():
    torch.manual_seed(1)
    with disc.Options(fallback="framework"):
        return disc.optimize(Net().eval(), torch.randn(3, 8))


@pytest.fixture
def no_compiler(monkeypatch):
    """Any compilation is an error; code that is there may be asked for."""
    from disc.torch.module import ladder

    def refuse(*_):
        raise AssertionError("a copy was compiled")

    monkeypatch.setattr(ladder, "build", refuse)


COPIES = {
    "copy": copy.copy,
    "deepcopy": copy.deepcopy,
    "pickle": lambda m: pickle.loads(pickle.dumps(m)),
    "copy of a copy": lambda m: pickle.loads(pickle.dumps(pickle.loads(pickle.dumps(copy.deepcopy(m))))),
}


@pytest.mark.parametrize("how", COPIES)
def test_a_copy_is_not_compiled(how, fast, no_compiler):
    x = torch.randn(5, 8)
    twin = COPIES[how](fast)
    assert_same(twin(x), fast(x))
    found = report(twin)
    assert (found["compiles"], found["cache"]["code"], found["coverage"]) == (0, "carried", 1.0)
    disc.save(twin)


def test_a_copy_is_a_module_as_any_other(fast):
    x = torch.randn(5, 8)
    twin = pickle.loads(pickle.dumps(fast))
    assert twin.first.weight is twin.second.weight
    other = Net().eval()
    twin.load_state_dict(other.state_dict())
    torch.testing.assert_close(twin(x), other(x))
    assert report(twin)["compiles"] == 0
    twin.double()
    torch.testing.assert_close(twin(x.double()), other.double()(x.double()))
    twin.train()
    before = twin.norm.running_mean.clone()
    twin(x.double())
    assert not torch.equal(before, twin.norm.running_mean)


def test_every_form_is_carried(fast, request):
    x = torch.randn(5, 8)
    fast(x, power=2)
    request.getfixturevalue("no_compiler")
    twin = pickle.loads(pickle.dumps(fast))
    assert_same(twin(x, power=2), fast(x, power=2))
    assert_same(twin(x), fast(x))
    assert report(twin)["signatures"] == 2


def test_a_copy_that_is_another_module_is_compiled(fast):
    x = torch.randn(5, 8)
    twin = copy.deepcopy(fast)
    twin.scale = 5.0
    torch.testing.assert_close(twin(x), twin.original(x))
    assert report(twin)["compiles"] == 1


@pytest.mark.parametrize("changed", ["global", "attribute of the class", "table of the class"])
def test_code_that_changed_is_another_module(fast, changed, monkeypatch):
    packed = pickle.dumps(fast)
    if changed == "global":
        monkeypatch.setattr(sys.modules[__name__], "FACTOR", 7.0)
    elif changed == "attribute of the class":
        monkeypatch.setattr(Net, "shift", 5.0)
    else:
        monkeypatch.setitem(Net.table, "sign", -1.0)
    twin, x = pickle.loads(packed), torch.randn(5, 8)
    torch.testing.assert_close(twin(x), twin.original(x))
    assert report(twin)["compiles"] == 1


def test_identity_is_that_of_what_decides():
    module = Net()
    same = identity(pickle.loads(pickle.dumps(module)))
    assert identity(module) == same == identity(copy.deepcopy(module))
    with torch.no_grad():
        module.first.bias.add_(1)
    assert identity(module) == same
    for change in (
        lambda m: m.train(not m.training),
        lambda m: setattr(m, "scale", 4.0),
        lambda m: setattr(m, "act", nn.ReLU()),
        lambda m: m.first.register_forward_hook(report),
        lambda m: setattr(m.second, "weight", nn.Parameter(m.second.weight.detach().clone())),
        lambda m: m.norm.half(),
    ):
        other = copy.deepcopy(module)
        change(other)
        assert identity(other) != same


@pytest.mark.parametrize("damage", ["payload", "code", "missing"])
def test_damaged_code_is_compiled(fast, damage):
    x = torch.randn(5, 8)
    make, (module, dims, options, packed), *_ = fast.__reduce_ex__(4)
    if damage == "payload":
        packed = packed[:500] + bytes([packed[500] ^ 1]) + packed[501:]
    twin = make(copy.deepcopy(module), dims, options, packed)
    if damage != "payload":
        (program,) = twin._dispatcher.carried.forms[0][1]
        ((name, contents),) = program.files.items()
        end = bytes([contents[-1] ^ 1])
        program.files = {name: contents[:-1] + end} if damage == "code" else {}
    assert_same(twin(x), fast(x))
    assert report(twin)["compiles"] == 1


def test_a_divided_module_and_one_without_code_are_copied_as_they_are(fast):
    fresh = disc.optimize(Net().eval(), options=disc.Options(fallback="framework"))
    assert fresh.__reduce_ex__(4)[1][3] is None
    options = disc.Options(fallback="framework", block_ops=("aten.relu.default",))
    parts, x = disc.optimize(Net().eval(), torch.randn(3, 8), options=options), torch.randn(5, 8)
    assert report(parts)["coverage"] < 1
    twin = pickle.loads(pickle.dumps(parts))
    torch.testing.assert_close(twin(x), parts(x))


def test_a_cache_on_disk_gives_the_code_of_a_pickle(folder):
    options = disc.Options(fallback="framework")
    fast = disc.optimize(Net().eval(), torch.randn(3, 8), options=options)
    before = extension.cache_counts()["code"]
    packed = pickle.dumps(fast)
    after = extension.cache_counts()["code"]
    assert after["misses"] == before["misses"]
    pickle.dumps(fast)
    assert extension.cache_counts()["code"] == after
    disc.clear_cache()
    twin, x = pickle.loads(packed), torch.randn(5, 8)
    assert_same(twin(x), fast(x))
    assert report(twin)["compiles"] == 0


PROGRAM = """
import pickle, sys, torch, disc
fast, x, wanted = pickle.load(open(sys.argv[1], "rb"))
y = fast(x)
assert all(torch.equal(y[name], wanted[name]) for name in wanted)
assert "disc.torch.capture.capture" not in sys.modules
print(disc.report(fast).to_dict()["compiles"])
"""


def test_a_pickle_serves_in_another_process(fast, tmp_path):
    x = torch.randn(5, 8)
    with open(tmp_path / "fast.pkl", "wb") as file:
        pickle.dump((fast, x, {name: t.detach() for name, t in fast(x).items()}), file)
    environment = {**os.environ, "DISC_CACHE": "0", "PYTHONPATH": os.pathsep.join([HERE, *sys.path])}
    command = [sys.executable, "-c", PROGRAM, tmp_path / "fast.pkl"]
    done = subprocess.run(command, env=environment, capture_output=True, text=True, check=False)
    assert done.stdout.strip() == "0", done.stderr


def _serve(fast, package, x, answers):
    y = package(x.numpy())
    answers.put((fast(x)["y"].detach().numpy(), report(fast)["compiles"], y))


def test_spawned_processes_get_modules_and_packages(fast, tmp_path):
    path, x = tmp_path / "net.discpkg", torch.randn(5, 8)
    disc.save(fast, path)
    context = multiprocessing.get_context("spawn")
    answers = context.Queue()
    child = context.Process(target=_serve, args=(fast, disc.load(path), x, answers))
    child.start()
    y, compiles, of_package = answers.get(timeout=120)
    child.join()
    assert child.exitcode == 0
    assert compiles == 0
    np.testing.assert_array_equal(y, fast(x)["y"].detach().numpy())
    np.testing.assert_array_equal(of_package["y"], y)


# Packages.


@pytest.mark.parametrize("how", COPIES)
@pytest.mark.parametrize("form", ["file", "bytes"])
def test_a_copied_package_computes_the_same(how, form, fast, tmp_path, monkeypatch):
    x = np.ones((5, 8), np.float32)
    monkeypatch.chdir(tmp_path)
    disc.save(fast, "net.discpkg")
    source = "net.discpkg" if form == "file" else Path("net.discpkg").read_bytes()
    package = disc.load(source, entry="main")
    wanted = package(x)
    twin = COPIES[how](package)
    entry = COPIES[how](package["main"])
    monkeypatch.chdir("/")
    for found in (twin(x), twin["main"](x), entry(x)):
        np.testing.assert_array_equal(found["y"], wanted["y"])
    del package
    np.testing.assert_array_equal(twin(x)["y"], wanted["y"])


def test_a_pickled_package_whose_file_changed_is_refused(fast, tmp_path):
    path = tmp_path / "net.discpkg"
    disc.save(fast, path)
    packed = pickle.dumps(disc.load(path))
    assert len(packed) < 1000
    disc.export(nn.Linear(8, 2).eval(), (torch.randn(3, 8),), path)
    with pytest.raises(disc.PackageError, match="not the package any more"):
        pickle.loads(packed)
    path.unlink()
    with pytest.raises(disc.PackageError, match=r"net\.discpkg"):
        pickle.loads(packed)
