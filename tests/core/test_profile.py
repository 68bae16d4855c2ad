"""Profiles of compiled code: in Python, as traces, and in torch's profiler."""

import json
import re
import subprocess
import sys
import threading
from pathlib import Path

import disc
import numpy as np
import pytest
import torch
from torch import nn


class Net(nn.Module):
    """Has a matmul, a reduction and pointwise ops."""

    def __init__(self):
        super().__init__()
        self.first, self.second = nn.Linear(32, 64), nn.Linear(64, 32)

    def forward(self, x):
        return torch.softmax(self.second(torch.tanh(self.first(x))), -1)


def optimized(**options):
    torch.manual_seed(0)
    return disc.optimize(
        Net().eval(), (torch.randn(4, 32),), options=disc.Options(specialize=False, **options)
    )


def test_a_profile_has_the_kernels_of_the_calls_inside_by_name():
    fast = optimized()
    fast(torch.randn(3, 32))
    with disc.profile(fast) as found:
        fast(torch.randn(5, 32))
        fast(torch.randn(7, 32))
    fast(torch.randn(9, 32))
    assert [call.module for call in found.calls] == ["Net", "Net"]
    (size,) = {name for call in found.calls for name in call.sizes}
    assert [call.sizes[size] for call in found.calls] == [5, 7]
    kernels = disc.report(fast).to_dict()["kernels"]
    assert all(len(call.launches) == kernels for call in found.calls)
    assert sum(kernel.count for kernel in found.kernels) == 2 * kernels
    kinds = {kernel.kind for kernel in found.kernels}
    assert {"matmul", "reduction"} <= kinds
    for call in found.calls:
        assert 0 < sum(launch.ns for launch in call.launches) <= call.ns
        assert all(call.start <= launch.start <= call.start + call.ns for launch in call.launches)
    times = [kernel.ns for kernel in found.kernels]
    assert times == sorted(times, reverse=True)
    table = str(found)
    assert table.startswith("2 calls, ")
    assert all(kernel.name in table for kernel in found.kernels)


def test_the_version_is_that_which_ran():
    class Rows(nn.Module):
        def forward(self, x):
            return x.sum(-1)

    fast = disc.optimize(Rows(), (torch.randn(4, 16),), options=disc.Options(threads=2, specialize=False))
    found = {}
    for sizes in ((1, 1 << 20), (64, 16)):
        with disc.profile(fast) as p:
            fast(torch.randn(*sizes))
        found[sizes] = {kernel.version for kernel in p.kernels}
    assert {"split", "combine"} <= found[1, 1 << 20]
    assert not found[64, 16] & {"split", "combine"}


def test_only_the_module_that_is_asked_for_is_seen():
    one, other = optimized(), optimized()
    x = torch.randn(3, 32)
    with disc.profile(one) as narrow, disc.profile() as wide:
        one(x)
        other(x)
        other(x)
    assert (len(narrow.calls), len(wide.calls)) == (1, 3)
    with disc.profile(one) as nothing:
        other(x)
    assert not nothing.calls
    assert not nothing.kernels
    assert str(nothing).startswith("0 calls")


def test_code_that_is_compiled_inside_is_seen():
    fast = disc.optimize(Net().eval())
    with disc.profile(fast) as found:
        fast(torch.randn(3, 32))
    assert len(found.calls) == 1


def test_calls_of_other_threads_are_seen_and_told_apart():
    fast = optimized()
    with disc.profile(fast) as found:
        fast(torch.randn(3, 32))
        thread = threading.Thread(target=fast, args=(torch.randn(4, 32),))
        thread.start()
        thread.join()
    assert len({call.thread for call in found.calls}) == 2


def test_a_module_in_parts_is_profiled():
    class Mixed(nn.Module):
        def forward(self, x):
            y = torch.softmax(torch.tanh(x) * 2, -1)
            return torch.softmax(torch.cumprod(torch.flip(y, [0]), 0).exp() + y, -1)

    blocked = disc.Options(fallback="framework", block_ops=["aten.cumprod.default"], min_cluster_size=1)
    fast = disc.optimize(Mixed(), (torch.randn(4, 8),), options=blocked)
    assert disc.report(fast).to_dict()["clusters"] >= 1
    with disc.profile(fast) as found:
        fast(torch.randn(5, 8))
    assert found.kernels
    assert {call.module for call in found.calls} == {"Mixed"}


@torch.no_grad()
def test_what_torch_compile_made_is_profiled():
    torch._dynamo.reset()
    compiled = torch.compile(Net().eval(), backend="disc", dynamic=True)
    x = torch.randn(3, 32)
    compiled(x)
    with disc.profile(compiled) as found:
        compiled(x)
    assert found.kernels
    assert {call.module for call in found.calls} == {"Net"}


def test_a_package_has_the_names_of_its_kernels(tmp_path):
    path = tmp_path / "net.discpkg"
    torch.manual_seed(0)
    disc.export(Net().eval(), (torch.randn(4, 32),), path)
    fast, package = optimized(), disc.load(path)
    x = torch.randn(6, 32)
    with disc.profile(package) as stored, disc.profile(fast) as compiled:
        package(x.numpy())
        fast(x)
    assert [call.module for call in stored.calls] == ["net"]
    assert {kernel.name for kernel in stored.kernels} == {kernel.name for kernel in compiled.kernels}
    assert all(kernel.kind for kernel in stored.kernels)
    with disc.profile(package["main"]) as entry:
        package(np.zeros((2, 32), np.float32))
    assert len(entry.calls) == 1


def test_a_trace_nests_kernels_in_their_calls(tmp_path):
    fast = optimized()
    with disc.profile(fast) as found:
        fast(torch.randn(5, 32))
    found.to_chrome(tmp_path / "trace.json")
    check_trace(tmp_path / "trace.json", [kernel.name for kernel in found.kernels], calls=1)


def test_options_write_a_trace_of_the_calls_of_this_thread(tmp_path):
    fast, path = optimized(), tmp_path / "trace.json"
    with disc.Options(profile=str(path)), disc.Options(threads=1):
        fast(torch.randn(5, 32))
        fast(torch.randn(6, 32))
        thread = threading.Thread(target=fast, args=(torch.randn(4, 32),))
        thread.start()
        thread.join()
        assert not path.exists()
    check_trace(path, [], calls=2)
    fast(torch.randn(5, 32))
    check_trace(path, [], calls=2)


def check_trace(path, names, calls):
    events = [event for event in json.loads(path.read_text())["traceEvents"] if event["ph"] == "X"]
    outer = [event for event in events if event["cat"] == "call"]
    inner = [event for event in events if event["cat"] == "kernel"]
    assert len(outer) == calls
    assert {event["name"] for event in outer} == {"disc::Net"}
    assert inner
    assert {*names} <= {event["name"] for event in inner}
    for event in inner:
        end = event["ts"] + event["dur"]
        assert any(
            one["tid"] == event["tid"] and one["ts"] <= event["ts"] and end <= one["ts"] + one["dur"] + 1e-3
            for one in outer
        )


def test_a_block_without_calls_says_so(tmp_path, caplog):
    with disc.Options(profile=str(tmp_path / "trace.json")):
        pass
    assert "no compiled code ran" in caplog.text
    assert (tmp_path / "trace.json").exists()


def test_profile_is_no_option_of_a_module():
    with pytest.raises(disc.Error, match="belongs to a block of calls"):
        disc.optimize(Net(), (torch.randn(4, 32),), options=disc.Options(profile="t.json"))
    with pytest.raises(disc.Error, match="nothing of this Net is compiled"):
        disc.profile(Net())
    with pytest.raises(disc.Error, match="a path such as"):
        disc.Options(profile=3)


def test_a_profile_runs_once():
    with disc.profile() as found:
        pass
    with pytest.raises(disc.Error, match="begun already"):
        found.start()


# torch.profiler.


def bert():
    from transformers import BertConfig, BertModel

    torch.manual_seed(0)
    config = BertConfig(
        vocab_size=50, hidden_size=32, num_hidden_layers=2, num_attention_heads=2, intermediate_size=64
    )
    return BertModel(config).eval()


@torch.no_grad()
def test_the_kernels_of_bert_are_ranges_of_torchs_profiler(tmp_path):
    ids = torch.randint(0, 50, (2, 9))
    fast = disc.optimize(bert(), (ids,), options=disc.Options(specialize=False))
    with disc.profile(fast) as own:
        fast(ids)
    with torch.profiler.profile(activities=[torch.profiler.ProfilerActivity.CPU]) as prof:
        fast(ids)
        fast(ids)
    events = {event.key: event for event in prof.key_averages()}
    assert events["disc::BertModel"].count == 2
    for kernel in own.kernels:
        assert events[kernel.name].count == 2 * kernel.count
    layers = {layer for kernel in own.kernels for layer in kernel.layers}
    assert {"encoder.layer.*.intermediate.dense", "embeddings.LayerNorm", "pooler.dense"} <= layers
    assert "encoder.layer.*.intermediate.dense" in str(own)
    assert ["pooler.dense"] in disc.report(fast).to_dict()["layers"].values()
    # The kernels are inside of the call.
    (call,) = {event.name for event in prof.events() if event.name.startswith("disc::")}
    parents = {
        event.cpu_parent.name for event in prof.events() if event.name in {k.name for k in own.kernels}
    }
    assert parents == {call}
    prof.export_chrome_trace(str(tmp_path / "trace.json"))
    named = {event.get("name") for event in json.loads((tmp_path / "trace.json").read_text())["traceEvents"]}
    assert {"disc::BertModel", *(kernel.name for kernel in own.kernels)} <= named


@torch.no_grad()
def test_torchs_profiler_sees_packages_and_torch_compile(tmp_path):
    path = tmp_path / "net.discpkg"
    disc.export(Net().eval(), (torch.randn(4, 32),), path)
    package, x = disc.load(path), torch.randn(3, 32)
    torch._dynamo.reset()
    compiled = torch.compile(Net().eval(), backend="disc", dynamic=True)
    compiled(x)
    package(x)
    with torch.profiler.profile(activities=[torch.profiler.ProfilerActivity.CPU]) as prof:
        package(x)
        compiled(x)
    counts = {event.key: event.count for event in prof.key_averages()}
    assert counts["disc::net"] == 1
    assert counts["disc::Net"] == 1


@torch.no_grad()
def test_a_failing_call_closes_its_ranges():
    fast = optimized(fallback="error")
    with torch.profiler.profile(activities=[torch.profiler.ProfilerActivity.CPU]) as prof:
        with pytest.raises(disc.Error):
            fast(torch.randn(3, 31))
        with torch.profiler.record_function("after"):
            fast(torch.randn(3, 32))
    parents = {
        event.cpu_parent and event.cpu_parent.name for event in prof.events() if event.name == "disc::Net"
    }
    assert "after" in parents


# Tracing of the runtime, and the guide.


def test_the_blocks_of_the_guide_run_in_order(tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    page = Path(__file__).parents[2] / "docs" / "guide" / "profiling.md"
    blocks = re.findall(r"```python\n(.*?)```", page.read_text(), re.DOTALL)
    # The last one configures logging for the whole process.
    assert len(blocks) == 4
    assert "logging.basicConfig" in blocks[-1]
    names: dict = {}
    for block in blocks[:-1]:
        exec(block, names)
    assert "matmul" in capsys.readouterr().out
    assert {path.name for path in tmp_path.iterdir()} == {"trace.json", "torch_trace.json"}


def test_disc_log_shows_calls_and_kernels(tmp_path):
    disc.export(Net().eval(), (torch.randn(4, 32),), tmp_path / "net.discpkg")
    program = "import sys, numpy, disc; disc.load(sys.argv[1])(numpy.zeros((3, 32), numpy.float32))"
    found = subprocess.run(
        [sys.executable, "-c", program, tmp_path / "net.discpkg"],
        env={"DISC_LOG": "disc::kernel=trace", "PYTHONPATH": ":".join(sys.path)},
        capture_output=True,
        text=True,
        check=True,
    )
    lines = [line for line in found.stderr.splitlines() if "disc::kernel" in line]
    assert lines, found.stderr
    assert all('call{entry="main" sizes=' in line and "=3" in line for line in lines), found.stderr
    assert any("matmul" in line and "nanoseconds=" in line for line in lines)


def test_code_of_a_folder_has_the_names_of_kernels(tmp_path):
    program = """if True:
        import disc, torch
        with torch.no_grad():
            fast = disc.optimize(torch.nn.Linear(8, 4).eval(), torch.randn(2, 8))
            with disc.profile(fast) as profile:
                fast(torch.randn(3, 8))
        print(*{kernel.name for kernel in profile.kernels})
        print(*{line.split()[-1] for line in open("/proc/self/maps") if "r-xp" in line})
    """
    found = subprocess.run(
        [sys.executable, "-c", program],
        env={"DISC_PERF": str(tmp_path / "code"), "PYTHONPATH": ":".join(sys.path), "DISC_CACHE": "0"},
        capture_output=True,
        text=True,
        check=True,
    )
    names, mapped = (line.split() for line in found.stdout.splitlines())
    files = [path for path in (tmp_path / "code").iterdir() if str(path) in mapped]
    assert files
    assert names
    for name in names:
        assert any(name.encode() in path.read_bytes() for path in files), name


def test_layers_of_torch_compile_do_not_name_the_variable_of_the_module():
    class Part(nn.Module):
        def __init__(self):
            super().__init__()
            self.query, self.bias = nn.Linear(8, 8), nn.Parameter(torch.randn(8))

        def forward(module, x):
            return (module.query(x) + module.bias).softmax(-1)

    class Whole(nn.Module):
        def __init__(self):
            super().__init__()
            self.encoder, self.head = Part(), nn.Linear(8, 3)

        def forward(wrapped, x):
            return wrapped.head(wrapped.encoder(x)).softmax(-1)

    whole, other = Whole().eval(), nn.Linear(8, 8).eval()

    def layers(function) -> set:
        compiled = torch.compile(function, backend="disc")
        with torch.no_grad():
            compiled(torch.randn(4, 8))
            with disc.profile() as found:
                compiled(torch.randn(4, 8))
        return {layer for kernel in found.kernels for layer in kernel.layers}

    own = {"encoder.query", "head"}
    assert layers(whole) >= own
    assert layers(whole.forward) >= own
    assert layers(lambda x: whole(x) + 1) >= own
    # Several modules need their names.
    assert layers(lambda x: whole(other(x))) >= {"other", "whole.encoder.query", "whole.head"}
