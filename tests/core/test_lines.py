"""Lines of the model: on ops, kernels, profiles and reports, and after edits that move them."""

import importlib.util
import json
import sys
import textwrap

import disc
import pytest
import torch
from disc.torch.graph.model_files import Files, moved

MODEL = textwrap.dedent("""\
    import torch


    class Model(torch.nn.Module):
        def __init__(self):
            super().__init__()
            self.up, self.down = torch.nn.Linear(8, 16), torch.nn.Linear(16, 8)

        def forward(self, x):
            y = torch.tanh(self.up(x))
            z = self.down(y)
            return normalised(z)


    def normalised(z):
        return torch.softmax(z, -1)
""")
#: By kind of kernel, the statement that it computes.
STATEMENTS = {"matmul": ["torch.tanh(", "self.down(y)"], "reduction": ["torch.softmax("]}


@pytest.fixture
def model(tmp_path, monkeypatch):
    """Loads a text as the module `edited_model`, as a process does that starts after an edit."""
    monkeypatch.chdir(tmp_path)
    path = tmp_path / "edited_model.py"

    def load(text=MODEL):
        path.write_text(text)
        spec = importlib.util.spec_from_file_location("edited_model", path)
        module = importlib.util.module_from_spec(spec)
        monkeypatch.setitem(sys.modules, "edited_model", module)
        spec.loader.exec_module(module)
        torch.manual_seed(0)
        return module.Model().eval()

    return load


def expected(text, statement, function):
    (number,) = [n for n, line in enumerate(text.splitlines(), 1) if statement in line]
    return f"edited_model.py:{number} {function}"


def all_expected(text=MODEL):
    return {
        expected(text, "torch.tanh(", "forward"),
        expected(text, "self.down(y)", "forward"),
        expected(text, "torch.softmax(", "normalised"),
    }


def reported(fast):
    return {line for lines in disc.report(fast).to_dict()["lines"].values() for line in lines}


def test_a_report_and_a_profile_name_the_lines_of_each_kernel(model, tmp_path):
    fast = disc.optimize(model(), torch.randn(3, 8))
    assert reported(fast) == all_expected()
    with disc.profile(fast) as profile:
        fast(torch.randn(5, 8))
    assert {line for kernel in profile.kernels for line in kernel.lines} == all_expected()
    for kernel in profile.kernels:
        found = [MODEL.splitlines()[int(line.split(":")[1].split()[0]) - 1] for line in kernel.lines]
        assert all(any(part in text for part in STATEMENTS[kernel.kind]) for text in found), kernel
        assert kernel.lines[0] in str(profile)
        assert kernel.lines[0] in str(disc.report(fast))
    disc.report(fast).to_html(tmp_path / "report.html", profile=profile)
    page = (tmp_path / "report.html").read_text()
    assert all(page.count(f"<code>{line}</code>") >= 2 for line in all_expected())
    assert profile.to_dict()["kernels"][0]["lines"] == profile.kernels[0].lines
    profile.to_chrome(tmp_path / "trace.json")
    events = json.loads((tmp_path / "trace.json").read_text())["traceEvents"]
    kernels = [event for event in events if event.get("cat") == "kernel"]
    assert {event["args"]["lines"] for event in kernels} == all_expected()


def test_a_dump_has_the_lines_behind_the_ops_of_each_stage(model, tmp_path, monkeypatch):
    monkeypatch.setenv("DISC_DUMP", str(tmp_path / "dump"))
    disc.optimize(model(), torch.randn(3, 8))
    number = expected(MODEL, "torch.softmax(", "normalised").split(":")[1].split()[0]
    place = f'loc("edited_model.py":{number} "normalised")'
    texts = {path.name: path.read_text() for path in (tmp_path / "dump").rglob("*.disc")}
    for stage, op in (("input", "exponential"), ("fuse", "exponential"), ("kernels", "launch")):
        (text,) = [text for name, text in texts.items() if name.endswith(f"-{stage}.disc")]
        assert any(op in line and line.endswith(place) for line in text.splitlines()), stage


@pytest.mark.parametrize("is_whole", [True, False], ids=["both levels", "code alone"])
def test_an_edit_that_moves_lines_compiles_nothing_and_shows_the_new_ones(is_whole, model, folder):
    x = torch.randn(3, 8)
    assert reported(disc.optimize(model(), x)) == all_expected()
    if not is_whole:
        for path in (folder / "capture").rglob("*"):
            path.unlink()
    edited = MODEL.replace("import torch\n", "import torch\n\n# A comment.\n", 1)
    edited = edited.replace(
        "        z = self.down(y)\n", "        # Another one.\n        z = self.down(y)\n"
    )
    fast = disc.optimize(model(edited), x)
    cache = disc.report(fast).to_dict()["cache"]
    assert (cache["capture"], cache["code"]) == ("hit" if is_whole else "miss", "hit")
    assert reported(fast) == all_expected(edited) != all_expected()


def test_the_capture_that_was_stored_has_the_lines(model, folder):
    x = torch.randn(3, 8)
    disc.optimize(model(), x)
    fast = disc.optimize(model(), x)
    assert disc.report(fast).to_dict()["cache"]["capture"] == "hit"
    assert reported(fast) == all_expected()


def test_a_package_has_lines_and_no_path_of_this_machine(model, tmp_path):
    path = tmp_path / "m.discpkg"
    disc.export(model(), torch.randn(3, 8), path)
    package = disc.load(path)
    with disc.profile(package) as profile:
        package(torch.randn(5, 8))
    assert {line for kernel in profile.kernels for line in kernel.lines} == all_expected()
    assert str(tmp_path).encode() not in path.read_bytes()


def test_torch_compile_names_lines(model):
    module = model()
    fast = torch.compile(module, backend="disc")
    with torch.no_grad(), disc.profile() as profile:
        fast(torch.randn(5, 8))
    assert {line for kernel in profile.kernels for line in kernel.lines} == all_expected()


def test_a_model_of_torchs_own_modules_has_no_lines():
    fast = disc.optimize(
        torch.nn.Sequential(torch.nn.Linear(8, 8), torch.nn.GELU()).eval(), torch.randn(3, 8)
    )
    assert reported(fast) == set()
    assert "lines" not in str(disc.report(fast))


def test_a_line_that_is_not_found_again_is_left_out(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    path = tmp_path / "m.py"
    path.write_text("a = 1\nb = 2\na = 1\nc = 3\n")
    files = Files()
    shown = files.shown(str(path))
    text = "".join(f'  op loc("{shown}":{number} "f")\n' for number in (1, 2, 3, 4))
    kept = files.kept(text)
    assert moved(text, kept) == text
    path.write_text("\na = 1\nb = 2\na = 1\nc = 4\n")
    assert (
        moved(text, kept) == '  op loc("m.py":2 "f")\n  op loc("m.py":3 "f")\n  op loc("m.py":4 "f")\n  op\n'
    )
    path.write_text("a = 1\nb = 2\n")
    assert moved(text, kept) == '  op\n  op loc("m.py":2 "f")\n  op\n  op\n'
    path.unlink()
    assert moved(text, kept) == "  op\n" * 4


def test_paths_are_relative_or_short(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    shown = Files().shown
    assert shown(str(tmp_path / "net" / "layers" / "model.py")) == "net/layers/model.py"
    assert shown("/srv/somebody/net/layers/model.py") == "layers/model.py"
    assert shown(str(tmp_path / "venv" / "site-packages" / "net" / "model.py")) == "net/model.py"
    assert shown("<stdin>") == "<stdin>"
