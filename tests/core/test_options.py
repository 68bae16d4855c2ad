"""Options and environment variables do what they say, or raise."""

from __future__ import annotations

import os
import subprocess
import sys

import disc
import pytest
import torch
from disc.core import environment
from torch import nn


def optimized(**options):
    with torch.no_grad():
        return disc.optimize(nn.Linear(4, 4).eval(), torch.randn(2, 4), options=disc.Options(**options))


def test_what_is_planned_is_refused():
    with pytest.raises(disc.Error, match=r"Options.allow_tracing = True is not available yet") as caught:
        optimized(allow_tracing=True)
    assert caught.value.code == "E0801"


@pytest.mark.parametrize(
    "bad",
    [
        {"threads": True},
        {"threads": -1},
        {"min_cluster_size": 0},
        {"specialize": "sometimes"},
        {"specialize": 1.0},
        {"cache": "weights"},
        {"cache": 1},
        {"pin_threads": "yes"},
        {"progress": 1},
        {"target": 3},
        {"device": 0},
        {"block_ops": "aten.relu.default"},
    ],
)
def test_values_of_the_wrong_kind_are_errors(bad):
    with pytest.raises(disc.Error, match=f"Options.{next(iter(bad))} = "):
        disc.Options(**bad)


@pytest.mark.parametrize("option", ["block_ops", "allow_ops"])
@pytest.mark.parametrize(
    ("name", "meant"),
    [
        ("aten.geluu.default", "is 'aten.gelu.default' meant?"),
        ("aten.gelu", "is 'aten.gelu.default' meant?"),
        ("aten.add.Tensr", "is 'aten.add.Tensor' meant?"),
        ("gelu", "names are those of a report's fallbacks"),
        ("", "names are those of a report's fallbacks"),
        ("no such op.x", "names are those of a report's fallbacks"),
    ],
)
def test_ops_that_torch_does_not_know_are_errors(option, name, meant):
    with pytest.raises(disc.Error, match=f"Options.{option}: torch has no op '{name}'") as raised:
        optimized(**{option: [name]})
    assert meant in raised.value.help
    compiled = torch.compile(torch.nn.ReLU(), backend="disc", options={option: [name]})
    with torch.no_grad(), pytest.raises(Exception, match="torch has no op"):
        compiled(torch.randn(3))


def test_ops_that_are_registered_are_known():
    from disc.torch.op_names import refuse_unknown

    @torch.library.custom_op("disc_test_options::twice", mutates_args=())
    def twice(x: torch.Tensor) -> torch.Tensor:
        return 2 * x

    names = ["aten.gelu.default", "aten.add.Tensor", "cond", "while_loop", "disc_test_options.twice.default"]
    refuse_unknown(disc.Options(block_ops=names, allow_ops=names))


def test_modules_run_on_each_device_that_is_listed():
    assert disc.devices()[0] == "cpu"
    assert "simt:sm_90" in disc.devices()
    x = torch.randn(3, 4)
    for device in [None, *disc.devices()]:
        assert optimized(device=device)(x).device == x.device


@pytest.mark.parametrize("device", ["cuda:0", "cuda", "hip:1", "simt:sm_35"])
def test_a_device_that_is_not_there_is_named_and_nothing_runs_elsewhere(device):
    name = "cuda:0" if device == "cuda" else device
    with pytest.raises(
        disc.Error, match=f"the device `{name}` is not available: .* can run here on `cpu`"
    ) as caught:
        optimized(device=device)
    assert caught.value.code == "E0700"


@pytest.mark.parametrize("device", ["", "CPU", "cpu:0", "gpu", "cuda:x", "simt"])
def test_a_text_that_names_no_device_says_what_does(device):
    with pytest.raises(
        disc.Error, match=f"unknown device `{device}`: expected a name such as `cpu`, `cuda:0`"
    ):
        optimized(device=device)


def test_an_unknown_option_is_an_error_that_names_the_nearest():
    with pytest.raises(disc.Error, match="there is no option 'thread'") as caught:
        disc.Options(thread=1)
    assert "'threads'" in caught.value.help


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("DISC_NUM_THREADS", "many"),
        ("DISC_NUM_THREADS", "0"),
        ("DISC_SPECIALIZE", "no"),
        ("DISC_PROGRESS", "off"),
        ("DISC_CACHE", "false"),
        ("DISC_CACHE_WEIGHTS", "no"),
        ("DISC_LOG", "bogus"),
        ("DISC_LOG", "debug,disc_passes"),
        ("DISC_TARGET", "pentium"),
    ],
)
def test_a_bad_environment_variable_is_an_error(monkeypatch, name, value):
    monkeypatch.setenv(name, value)
    with pytest.raises(disc.Error, match=name if name != "DISC_TARGET" else value) as caught:
        optimized()
    assert value in str(caught.value)


@pytest.mark.parametrize("value", ["debug", "OFF", "warn, disc_passes=error", "disc_llvm::jit=0"])
def test_logs_have_levels(monkeypatch, value):
    monkeypatch.setenv("DISC_LOG", value)
    environment.check()


class Terminal:
    def __init__(self):
        self.text = ""

    def isatty(self):
        return True

    def write(self, text):
        self.text += text

    def flush(self):
        pass


def test_progress_is_shown_on_a_terminal_and_goes_away(monkeypatch):
    terminal = Terminal()
    monkeypatch.setattr(sys, "stderr", terminal)
    optimized()
    assert "disc: Linear: capture" in terminal.text
    # The line goes away, and the cursor is back where it was.
    assert terminal.text.endswith("\x1b[1A\x1b[2K")
    assert sys.stderr is terminal
    terminal.text = ""
    optimized(progress=False)
    monkeypatch.setenv("DISC_PROGRESS", "0")
    optimized()
    monkeypatch.delenv("DISC_PROGRESS")
    monkeypatch.setattr(Terminal, "isatty", lambda self: False)
    optimized()
    assert terminal.text == ""


WORKERS = """
import pathlib, sys, torch, disc
with torch.no_grad():
    options = [disc.Options(threads=int(n), pin_threads=pin == "pin") for n, pin in (a.split(":") for a in sys.argv[1:])]
    x = torch.randn(2000, 2000)
    for one in options:
        fast = disc.optimize(torch.nn.GELU(), torch.randn(3, 5), options=one)
        for _ in range(20):
            fast(x)
tasks = [t for t in pathlib.Path("/proc/self/task").iterdir() if (t / "comm").read_text().startswith("disc-")]
lists = [l.split()[1] for t in tasks for l in (t / "status").read_text().splitlines() if l.startswith("Cpus_allowed_list")]
print(len(lists), all(text.isdigit() for text in lists))
"""


def workers(*modules: str) -> list[str]:
    env = {**os.environ, "DISC_SPECIALIZE": "0"}
    done = subprocess.run(
        [sys.executable, "-c", WORKERS, *modules], capture_output=True, text=True, env=env, check=True
    )
    return done.stdout.split()


@pytest.mark.skipif(len(os.sched_getaffinity(0)) < 2, reason="pinning shows where there are two CPUs")
def test_threads_and_pinning_are_those_of_the_module():
    assert workers("1:free")[0] == "0"
    assert workers("2:free") == ["1", "False"]
    assert workers("2:free", "2:pin") == ["1", "True"]


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({"treads": 1}, "is 'threads' meant"),
        ({"target": "nope"}, "unknown target `nope`"),
        ({"target": "aarch64-v8"}, "cannot run on a CPU of this kind"),
        ({"target": "nvptx:sm_90"}, "do not run on the device `cpu`"),
        ({"device": "simt:sm_35"}, "there is no device 'simt:sm_35'"),
        ({"verify": 3}, "Options.verify"),
        ({"block_ops": ["aten.nothing.default"]}, "torch has no op"),
        (["threads"], "expected a mapping"),
    ],
    ids=str,
)
@pytest.mark.parametrize("fallback", ["error", "framework"])
def test_the_backend_refuses_options_that_it_cannot_obey(options, words, fallback):
    if isinstance(options, dict):
        options = {**options, "fallback": fallback}
    with pytest.raises(Exception, match=words):
        torch.compile(torch.relu, backend="disc", options=options)(torch.ones(2))


def test_the_backend_takes_options_and_runs_where_they_say():
    for options, device, target in [
        (disc.Options(target="x86-64-v2"), "cpu", "x86-64-v2"),
        ({"device": "simt:sm_90", "fallback": "error"}, "simt:sm_90", "simt:sm_90 on"),
    ]:
        layer = nn.Linear(4, 4).eval()
        fast = torch.compile(layer, backend="disc", options=options)
        with torch.no_grad():
            fast(torch.ones(2, 4))
        report = disc.report(fast).to_dict()
        assert (report["device"], report["coverage"]) == (device, 1.0)
        assert report["target"].startswith(target)


@pytest.mark.parametrize("target", ["nope", "aarch64-v8", "nvptx:sm_90"])
def test_a_target_that_cannot_run_here_is_refused_before_the_first_call(target):
    with pytest.raises(disc.Error) as caught:
        disc.optimize(nn.Linear(4, 4).eval(), options=disc.Options(target=target))
    assert caught.value.code == "E0502"


def test_a_report_names_the_device():
    for device in ["cpu", "simt:sm_90"]:
        report = disc.report(optimized(device=device))
        assert report.to_dict()["device"] == device
        assert f"runs on     {device}, code for" in str(report)
        assert report.to_dict()["syncs"] == 0
    assert disc.report(disc.optimize(nn.Linear(4, 4))).to_dict()["device"] is None


def test_without_torch_an_error_names_the_command_that_installs_it():
    code = "import sys; sys.modules['torch'] = None\nimport disc\ntry: disc.optimize\nexcept disc.Error as e: print(e)"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert "disc.optimize is for modules of torch, which is not installed here" in done.stdout
    assert "pip install 'disc-compiler[torch]'" in done.stdout
