"""Tests the cache on disk: a second process finds programs, and doubt means capturing again."""

from __future__ import annotations

import gc
import json
import operator
import os
import pathlib
import subprocess
import sys
import textwrap
import types

import disc
import numpy
import pytest
import torch
from cache_check import Net, entries, used
from disc.torch.cache import capture_cache
from disc.torch.cache.capture_cache import Lookup, watching
from disc.torch.cache.fingerprint import Unsure, fingerprint


def test_the_second_time_nothing_is_traced_or_compiled(folder):
    x = torch.rand(5, 4)
    assert used(Net().eval(), x)[0] == ("miss", "miss")
    again, fast = used(Net().eval(), x)
    assert again == ("hit", "hit")
    values = disc.report(fast).to_dict()
    assert (values["compiles"], values["cache_hits"]) == (0, 1)
    assert "cache       capture hit, code hit" in str(disc.report(fast))
    for size in (0, 1, 9):
        x = torch.rand(size, 4)
        torch.testing.assert_close(fast(x), fast.original(x), check_stride=False)
    with pytest.raises(disc.Error, match="rank"):
        fast(torch.rand(4))
    with torch.no_grad():
        fast.original.inner.weight.mul_(3)
    fast.refresh()
    x = torch.rand(2, 4)
    torch.testing.assert_close(fast(x), fast.original(x), check_stride=False)


@pytest.mark.parametrize("broken", ["cut", "garbage"])
def test_notes_that_cannot_be_read_are_no_doubt(broken, folder, monkeypatch):
    """Whole by their checksum, and yet not what this version writes."""
    get = disc.core.extension.cache_get
    spoil = (lambda b: b[: len(b) // 2]) if broken == "cut" else lambda b: b"\xff" * len(b)

    def spoilt(directory, level, about):
        found = get(directory, level, about)
        return spoil(found) if level == "bytecode" and found is not None else found

    x = torch.rand(5, 4)
    used(Net(), x)
    monkeypatch.setattr(disc.core.extension, "cache_get", spoilt)
    assert used(Net(), x)[0] == ("hit", "hit")


def _patched(f):
    return lambda *args: f(*args) + 1


def test_what_decides_the_program_is_in_the_key():
    x = torch.rand(5, 4)

    def key(module, *parts):
        return fingerprint(*parts, module=module)

    base = key(Net())
    assert key(Net()) == base, "values of weights are not in the key"
    other = Net()
    other.inner = torch.nn.Linear(4, 3, bias=False)
    hooked = Net()
    hooked.register_forward_hook(lambda module, args, out: out)
    tied = Net()
    tied.shift = tied.inner.bias
    half = Net()
    half.shift = torch.ones(3, dtype=torch.float16)
    strided = Net()
    strided.inner.weight = torch.nn.Parameter(torch.rand(4, 3).t())
    renamed = type("Net", (Net,), {"forward": lambda self, x: self.inner(x)})()
    variants = [
        Net().eval(), Net(act=torch.sigmoid), Net(scale=3.0), Net(act=lambda x: x), Net(act=lambda x: x + 1), other, hooked,
        tied, half, strided, renamed, Net(act=_patched(torch.relu)), Net(act=_patched(torch.sigmoid)),
    ]  # fmt: skip
    keys = [base, key(Net(), x.shape), *(key(variant) for variant in variants)]
    assert len(set(keys)) == len(keys)


def test_the_surroundings_are_in_the_key_or_doubt():
    def key():
        return fingerprint(module=module)

    module, frozen = Net(), Net()
    frozen.inner.weight.requires_grad_(False)
    keys = [key(), fingerprint(module=frozen)]
    with torch.autocast("cpu", dtype=torch.bfloat16):
        keys.append(key())
    with torch.autocast("cpu", dtype=torch.float16):
        keys.append(key())
    with torch.device("cpu"):
        assert key() == keys[0]
    assert len(set(keys)) == len(keys)

    class Function(torch.overrides.TorchFunctionMode):
        pass

    class Dispatch(torch.utils._python_dispatch.TorchDispatchMode):
        pass

    hook = torch.nn.modules.module.register_module_forward_hook
    for mode in (Function(), Dispatch(), hook(lambda module, args, out: out)):
        with mode, pytest.raises(Unsure):
            key()
    assert key() == keys[0]


def _space(value: float) -> types.ModuleType:
    """A module of Python with one function."""
    made = types.ModuleType("somewhere")
    exec(f"def f(x):\n    return x + {value}", made.__dict__)
    return made


helpers = _space(0.0)


def _pick():
    return helpers


class Held(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.F = helpers

    def forward(self, x):
        return self.F.f(x)


class Enclosed(torch.nn.Module):
    def __init__(self):
        super().__init__()
        space = helpers
        self.call = lambda x: space.f(x)

    def forward(self, x):
        return self.call(x)


class Picking(torch.nn.Module):
    def forward(self, x):
        return _pick().f(x)


@pytest.mark.parametrize("kind", [Held, Enclosed, Picking])
def test_functions_of_a_module_that_is_a_value_are_in_the_key(kind, monkeypatch):
    module = kind()
    keys = [fingerprint(module=module)]
    for value in (1.0, 2.0):
        monkeypatch.setattr(helpers, "f", _space(value).f)
        keys.append(fingerprint(module=module))
    assert len(set(keys)) == len(keys)


class Stepping(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.kind, self.steps = "a", ["step_a"]

    def step_a(self, x):
        return x


class ByFormat(Stepping):
    def forward(self, x):
        return getattr(self, f"step_{self.kind}")(x)


class BySum(Stepping):
    def forward(self, x):
        name = "step_" + self.kind
        return getattr(self, name, None)(x)


class ByTemplate(Stepping):
    def forward(self, x):
        return getattr(self, "step_%s" % self.kind)(x)  # noqa: UP031


class ByItem(Stepping):
    def forward(self, x):
        return getattr(self, self.steps[0])(x)


class ByCaller(Stepping):
    def forward(self, x):
        return operator.methodcaller(f"step_{self.kind}", x)(self)


class ByConstantCaller(Stepping):
    def forward(self, x):
        return operator.methodcaller("step_a", x)(self)


@pytest.mark.parametrize("kind", [ByFormat, BySum, ByTemplate, ByItem, ByCaller, ByConstantCaller])
def test_methods_that_are_found_by_text_are_in_the_key(kind, monkeypatch):
    module = kind()
    before = fingerprint(module=module)
    monkeypatch.setattr(Stepping, "step_a", lambda self, x: -x)
    assert fingerprint(module=module) != before


FLAG = 1.0


def _reached(x):
    return x * FLAG


class Reaching(torch.nn.Module):
    def forward(self, x):
        return self.step(x)

    def step(self, x):
        return _reached(x)


def test_globals_and_replaced_functions_are_in_the_key(monkeypatch):
    module = Reaching()
    keys = [fingerprint(module=module)]
    monkeypatch.setitem(globals(), "FLAG", 2.0)
    keys.append(fingerprint(module=module))
    monkeypatch.setitem(globals(), "_reached", lambda x: x)
    keys.append(fingerprint(module=module))
    monkeypatch.setattr(Reaching, "step", lambda self, x: -x)
    keys.append(fingerprint(module=module))
    module = Net()
    keys.append(fingerprint(module=module))
    monkeypatch.setattr(torch.nn.Linear, "forward", lambda self, x: x)
    keys.append(fingerprint(module=module))
    try:
        torch.set_default_dtype(torch.float64)
        keys.append(fingerprint(module=module))
    finally:
        torch.set_default_dtype(torch.float32)
    assert len(set(keys)) == len(keys)


def test_a_package_that_changed_under_the_process_is_doubt(monkeypatch):
    monkeypatch.setattr(disc, "_LOADED_NS", 0)
    with pytest.raises(Unsure, match=r"changed after it was loaded: .*\.py"):
        fingerprint(module=Net())


class Moody(torch.nn.Module):
    def __init__(self, held=None):
        super().__init__()
        self.held = held

    def forward(self, x):
        return x + 1


class Clock(torch.nn.Module):
    def forward(self, x):
        import time

        return x + len(globals()) + time.time()


_library = torch.library.Library("disc_cache_test", "DEF")
_library.define("twice(Tensor x) -> Tensor")
_library.impl("twice", lambda x: x + x, "CompositeImplicitAutograd")


_twice = torch.ops.disc_cache_test.twice
_library.define("thrice(Tensor x) -> Tensor")
_thrice = torch.ops.disc_cache_test.thrice


class Composed(torch.nn.Module):
    def forward(self, x):
        return torch.ops.disc_cache_test.twice(x)


class Named(torch.nn.Module):
    def forward(self, x):
        return _twice(x)


class Thrice(torch.nn.Module):
    def forward(self, x):
        return _thrice(x)


def test_an_operation_with_a_decomposition_of_the_users_is_doubt(monkeypatch):
    monkeypatch.setattr(
        disc.torch.cache.fingerprint.torch._C, "_dispatch_get_registrations_for_dispatch_key", lambda key: []
    )
    fingerprint(module=Thrice())
    monkeypatch.setitem(torch._decomp.decomposition_table, _thrice.default, lambda x: x * 3)
    with pytest.raises(Unsure, match="thrice"):
        fingerprint(module=Thrice())


def test_doubt_is_a_miss_and_says_why(folder):
    for module in (
        Composed(),
        Named(),
        Moody(iter([1])),
        Moody(torch.Generator()),
        Moody(torch.zeros(1 << 20)),
        Clock(),
    ):
        with pytest.raises(Unsure):
            fingerprint(module=module)
    x = torch.rand(3)
    state, _ = used(Moody(iter([1])), x)
    assert state[0].startswith("unsure: ")
    assert state[1] == "miss"
    state, _ = used(Moody(iter([1])), x)
    assert state[0].startswith("unsure: ")
    assert state[1] == "hit"


def test_no_cycles_are_collected_while_the_key_is_made(folder, monkeypatch):
    passes, asked = [], []
    make = capture_cache.read

    def key(*args, **given):
        asked.append(gc.isenabled())
        passes.clear()
        found = make(*args, **given)
        assert not passes
        return found

    monkeypatch.setattr(capture_cache, "read", key)
    was = gc.get_threshold()
    gc.callbacks.append(lambda phase, info: passes.append(phase))
    try:
        gc.set_threshold(1)
        used(Net().eval(), torch.rand(5, 4))
        assert gc.isenabled()
        gc.disable()
        used(Net().eval(), torch.rand(5, 4))
        assert not gc.isenabled()
    finally:
        gc.enable()
        gc.callbacks.pop()
        gc.set_threshold(*was)
    assert asked == [False, False]


FORK = """
    import gc, os, threading
    from disc.core import gc_pause
    inside, done = threading.Event(), threading.Event()
    def wait():
        with gc_pause.waiting():
            inside.set()
            done.wait()
    other = threading.Thread(target=wait)
    other.start()
    inside.wait()
    assert not gc.isenabled()
    child = os.fork()
    if child == 0:
        os._exit(0 if gc.isenabled() else 1)
    done.set()
    other.join()
    print(os.waitpid(child, 0)[1], gc.isenabled())
"""


def test_a_child_forked_meanwhile_collects_cycles():
    child = subprocess.run([sys.executable, "-c", textwrap.dedent(FORK)], stdout=subprocess.PIPE, text=True)
    assert child.stdout.split() == ["0", "True"]


#: A decoder has a configuration of its generation, which holds a hash of its text.
KEY = """
    import sys
    import torch
    import transformers
    from disc.torch.cache.capture_cache import look_up
    sizes = dict(vocab_size=50, num_hidden_layers=1, hidden_size=32, num_attention_heads=2, intermediate_size=64)
    name, config = sys.argv[1:]
    model = getattr(transformers, name)(getattr(transformers, config)(**sizes)).eval()
    ids = torch.ones(2, 7, dtype=torch.long)
    asked = look_up(model, (ids,), {}, None, "/nowhere")
    print(asked.state, asked.key.hex() if asked.key else "")
"""


@pytest.mark.parametrize("model", [("BertModel", "BertConfig"), ("LlamaForCausalLM", "LlamaConfig")])
def test_a_model_of_transformers_has_the_same_key_in_each_process(model):
    pytest.importorskip("transformers")
    command = [sys.executable, "-c", textwrap.dedent(KEY), *model]
    asked = [subprocess.Popen(command, stdout=subprocess.PIPE, text=True) for _ in range(2)]
    first, second = (one.communicate(timeout=280)[0] for one in asked)
    assert first.startswith("miss ")
    assert first == second


def test_a_small_transformer_is_found_again(folder):
    transformers = pytest.importorskip("transformers")
    config = transformers.BertConfig(
        vocab_size=50, num_hidden_layers=1, hidden_size=32, num_attention_heads=2, intermediate_size=64
    )

    def build():
        torch.manual_seed(0)
        return transformers.BertModel(config, add_pooling_layer=False).eval()

    x = torch.arange(14).reshape(2, 7)
    for expected in ("miss", "hit"):
        model = build()
        fast = disc.optimize(model, x)
        assert disc.report(fast).to_dict()["cache"]["capture"] == expected
        for ids in (x, torch.ones(3, 5, dtype=torch.long)):
            with torch.no_grad():
                wanted = model(ids).last_hidden_state
            torch.testing.assert_close(fast(ids).last_hidden_state, wanted, atol=1e-4, rtol=1e-4)


class Reading(torch.nn.Module):
    def __init__(self, path, read):
        super().__init__()
        self.path, self.read = path, read

    def forward(self, x):
        if self.read == "torch":
            return x + torch.load(self.path)
        if self.read == "fromfile":
            return x + float(numpy.fromfile(self.path)[0])
        return x + float(numpy.load(self.path))


@pytest.mark.parametrize("read", ["torch", "fromfile", "numpy"])
def test_files_that_torch_and_numpy_read_for_the_user_are_noticed(read, tmp_path):
    path = str(tmp_path / "value.npy")
    torch.save(2.0, path) if read == "torch" else numpy.save(path, numpy.full((), 2.0))
    asked = Lookup(str(tmp_path), state="miss")
    with watching(asked), torch.no_grad():
        Reading(path, read)(torch.ones(2))
    assert asked.state == f"unsure: its code reads {path}"


def test_what_a_capture_within_another_reads_is_read_by_both(tmp_path):
    path = tmp_path / "value.txt"
    path.write_text("1")
    outer, inner, later = (Lookup(str(tmp_path), state="miss") for _ in range(3))
    with watching(outer):
        with watching(inner):
            path.read_text()
        with watching(later):
            pass
    assert [one.state.partition(":")[0] for one in (outer, inner, later)] == ["unsure", "unsure", "miss"]


def test_a_folder_that_others_may_write_to_is_off(folder):
    folder.mkdir()
    folder.chmod(0o777)
    state, _ = used(Net(), torch.rand(5, 4))
    assert state == ("off: others may write to it", "off: others may write to it")
    assert entries(folder) == []


def test_it_can_be_switched_off_and_cleared(folder, monkeypatch):
    x = torch.rand(5, 4)
    off, _ = used(Net(), x, options=disc.Options(cache=False))
    assert off == ("off", "off")
    assert not folder.exists()
    used(Net(), x)
    # The program, its code, notes on the code of the model, and that its like was asked for.
    assert len(entries(folder)) == 4
    assert disc.clear_cache() == 4
    assert entries(folder) == []
    assert used(Net(), x)[0] == ("miss", "miss")
    monkeypatch.setenv("DISC_CACHE", "0")
    assert used(Net(), x)[0] == ("off", "off")
    assert disc.clear_cache() == 0


def test_what_is_broken_is_made_again(folder):
    x = torch.rand(5, 4)
    used(Net(), x)
    good = {path: path.read_bytes() for path in entries(folder)}
    levels = {path.parent.name for path in good}
    assert levels == {"bytecode", "capture", "code"}
    for spoil in (lambda b: b"", lambda b: b[:60], lambda b: b[:-1], lambda b: b[:-9] + b"x" + b[-8:]):
        for spoilt in (("capture", "code"), ("bytecode", "code")):
            for path, content in good.items():
                path.write_bytes(spoil(content) if path.parent.name in spoilt else content)
            before = disc.core.extension.cache_counts()
            assert used(Net(), x)[0] == ("miss", "miss")
            after = disc.core.extension.cache_counts()
            rejected = {level for level in levels if after[level]["rejected"] > before[level]["rejected"]}
            assert rejected == set(spoilt)
            assert used(Net(), x)[0] == ("hit", "hit")


@pytest.mark.parametrize(("folder", "why"), [("file", "is not a folder"), ("file/in", "cannot be made: ")])
def test_a_folder_that_cannot_be_made_is_no_error_and_the_report_says_why(folder, why, tmp_path, monkeypatch):
    (tmp_path / "file").write_text("")
    monkeypatch.setenv("DISC_CACHE", "1")
    monkeypatch.setenv("DISC_CACHE_DIR", str(tmp_path / folder))
    capture, code = used(Net(), torch.rand(5, 4))[0]
    assert capture.startswith(f"off: {tmp_path / folder} {why}")
    assert code == "off"


def test_dims_and_examples_are_in_the_key(folder):
    model = Net().eval()
    used(model, torch.rand(5, 4))
    assert used(model, torch.rand(5, 4), dims={"x": {0: "B"}})[0][0] == "miss"
    assert used(model, torch.rand(5, 4), dims="static")[0][0] == "miss"
    again, fast = used(model, torch.rand(5, 4), dims={"x": {0: disc.Dim("B", max=8)}})
    assert again[0] == "miss"
    again, fast = used(model, torch.rand(5, 4), dims={"x": {0: disc.Dim("B", max=8)}})
    assert again == ("hit", "hit")
    with pytest.raises(disc.Error, match="B <= 8"):
        fast(torch.rand(9, 4))


SCRIPT = """
    import json, sys, torch, disc
    torch.manual_seed(0)
    class Net(torch.nn.Module):
        def __init__(self):
            super().__init__()
            self.inner = torch.nn.Linear(64, 64)
        def forward(self, x):
            return BODY
    model = Net()
    x = torch.rand(3, 64)
    with torch.no_grad():
        fast = disc.optimize(model, x)
        same = torch.allclose(fast(x), model(x), atol=1e-5)
    has_bridge = "disc.torch.lowering.graph" in sys.modules or "disc.torch.capture.capture" in sys.modules
    print(json.dumps({"same": same, "bridge": has_bridge, **disc.report(fast).to_dict()["cache"]}))
"""


def _run(path: pathlib.Path, folder, body: str):
    path.write_text(textwrap.dedent(SCRIPT).replace("BODY", body))
    env = {**os.environ, "DISC_CACHE": "1", "DISC_CACHE_DIR": str(folder)}
    return subprocess.Popen([sys.executable, str(path)], env=env, stdout=subprocess.PIPE, text=True)


def test_processes_share_it_at_once_and_a_change_of_the_code_is_seen(tmp_path):
    folder, script = tmp_path / "cache", tmp_path / "program.py"
    first = [_run(script, folder, "self.inner(x) + 1") for _ in range(2)]
    for one in first:
        assert json.loads(one.communicate(timeout=280)[0])["same"]
    again = json.loads(_run(script, folder, "self.inner(x) + 1").communicate(timeout=280)[0])
    assert (again["same"], again["capture"], again["code"]) == (True, "hit", "hit")
    assert not again["bridge"], "what captures and converts is not even imported"
    changed = json.loads(_run(script, folder, "self.inner(x) - 1").communicate(timeout=280)[0])
    assert (changed["same"], changed["capture"], changed["code"]) == (True, "miss", "miss")
    assert changed["bridge"]
