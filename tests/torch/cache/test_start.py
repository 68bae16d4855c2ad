"""Counts the work before the first result, of a process that finds nothing on disk and of one that
finds everything: a change that adds some is seen here.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import textwrap
from collections import Counter

import disc
import pytest
import torch
from disc.core import extension
from disc.torch.cache import capture_cache
from disc.torch.capture import capture
from disc.torch.lowering import graph
from disc.torch.tracer import tracer
from disc.torch.watch.reach import Reach

START = """
    import json, sys
    import disc, torch
    from torch import nn
    layer = nn.TransformerEncoderLayer(16, 4, 32, batch_first=True)
    model = nn.Sequential(nn.Linear(8, 16), layer, nn.Linear(16, 2)).eval()
    before = set(sys.modules)
    with torch.no_grad():
        fast = disc.optimize(model, torch.rand(3, 5, 8))
    loaded = sorted(set(sys.modules) - before)
    print(json.dumps([disc.report(fast).to_dict()["cache"]["capture"], loaded]))
"""


@pytest.fixture(scope="module")
def starts(tmp_path_factory):
    """The outcome of the cache and the modules that were loaded, in two processes."""
    env = {**os.environ, "DISC_CACHE": "1", "DISC_CACHE_DIR": str(tmp_path_factory.mktemp("cache") / "disc")}
    command = [sys.executable, "-c", textwrap.dedent(START)]
    runs = [subprocess.run(command, env=env, stdout=subprocess.PIPE, check=True, text=True) for _ in range(2)]
    return [json.loads(run.stdout) for run in runs]


def test_importing_disc_beside_torch_loads_few_modules():
    code = "import sys, torch; before = set(sys.modules); import disc; print(*set(sys.modules) - before)"
    run = subprocess.run([sys.executable, "-c", code], stdout=subprocess.PIPE, check=True, text=True)
    loaded = run.stdout.split()
    assert [name for name in loaded if name.split(".")[0] != "disc"] == []
    assert len(loaded) <= 10, loaded


PLAIN = """
    import sys
    import disc, torch
    from torch import nn

    class Net(nn.Module):
        def __init__(self):
            super().__init__()
            self.conv, self.norm, self.out = nn.Conv1d(4, 8, 3), nn.LayerNorm(8), nn.Linear(16, 2)

        def forward(self, x):
            y = self.norm(self.conv(x).transpose(1, 2))
            y = torch.cat([y, y.var(1, keepdim=True).expand_as(y) / 2], -1)
            return nn.functional.glu(self.out(y).softmax(-1)) - y.mean()

    model = Net().eval()
    with torch.no_grad():
        x, z = torch.rand(2, 4, 9), torch.rand(3, 4, 17)
        fast = disc.optimize(model, x)
        print(disc.report(fast).to_dict()["captured_by"], "torch._dynamo" in sys.modules)
        torch.testing.assert_close(fast(z), model(z))
        kept = [f for f in vars(torch._refs).values() if "__dynamo_disable" in getattr(f, "__dict__", {})]
        # Dynamo finds torch as it expects it.
        compiled = torch.compile(model, backend="disc", dynamic=True)
        torch.testing.assert_close(compiled(x), model(x))
        other = Net().eval()
        torch.testing.assert_close(disc.optimize(other, x)(z), other(z))
        print(len(kept), "torch._dynamo" in sys.modules)
"""


def test_a_capture_does_not_import_dynamo():
    code = textwrap.dedent(PLAIN)
    run = subprocess.run([sys.executable, "-c", code], stdout=subprocess.PIPE, check=True, text=True)
    assert run.stdout.split() == ["disc", "False", "0", "True"]


def test_a_second_process_loads_no_code_that_captures(starts):
    (first, _), (second, loaded) = starts
    assert (first, second) == ("miss", "hit")
    # torch is there, and sympy alone takes as long to load as all the rest of the start.
    assert [name for name in loaded if name.startswith(("torch", "sympy", "mpmath"))] == [
        "torch.utils._device"
    ]
    parts = Counter(".".join(name.split(".")[:3]) for name in loaded)
    assert not parts.keys() & {"disc.torch.lowering", "disc.torch.partition", "disc.torch.compile"}
    assert not {"disc.torch.capture.capture", "disc.torch.tracer.tracer"} & set(loaded)
    assert sum(name.startswith("disc") for name in loaded) <= 100


class Layers(torch.nn.Module):
    def __init__(self, count):
        super().__init__()
        self.layers = torch.nn.ModuleList(torch.nn.Linear(8, 8) for _ in range(count))

    def forward(self, x):
        for layer in self.layers:
            x = torch.relu(layer(x)) + x
        return x


def _counted(monkeypatch) -> Counter:
    """Counts what is done, by name."""
    found: Counter = Counter()

    def count(owner, name, called):
        plain = getattr(owner, name)

        def counting(*args, **kwargs):
            found[called] += 1
            return plain(*args, **kwargs)

        monkeypatch.setattr(owner, name, counting)

    count(Reach, "__init__", "walks for the watch")
    count(capture_cache, "read", "walks for the key")
    count(tracer, "_trace", "traces")
    count(graph, "convert", "conversions")
    count(capture, "capture", "captures")
    count(extension, "compile_function", "compilations")
    return found


def test_what_is_done_before_a_first_result(folder, monkeypatch):
    found = _counted(monkeypatch)
    with torch.no_grad():
        disc.optimize(Layers(3).eval(), torch.rand(4, 8))
    once = ("walks for the watch", "walks for the key", "traces", "conversions", "captures", "compilations")
    assert found == Counter(once)
    found.clear()
    with torch.no_grad():
        fast = disc.optimize(Layers(3).eval(), torch.rand(4, 8))
    assert disc.report(fast).to_dict()["cache"]["capture"] == "hit"
    assert found == Counter(("walks for the watch", "walks for the key", "compilations"))


def test_torch_describes_each_kind_of_op_once(monkeypatch):
    """A further layer of a kind that was met asks torch for no shape."""
    from torch._subclasses.fake_tensor import FakeTensorMode

    asked = []
    plain = FakeTensorMode._dispatch_impl

    def described(self, func, types, args, kwargs):
        asked.append(func)
        return plain(self, func, types, args, kwargs)

    monkeypatch.setattr(FakeTensorMode, "_dispatch_impl", described)
    counts = []
    for layers in (2, 12):
        asked.clear()
        with torch.no_grad():
            capture.capture(Layers(layers).eval(), (torch.rand(4, 8),))
        counts.append(len(asked))
    assert counts[0] == counts[1]
