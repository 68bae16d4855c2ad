"""benches/gpu: its commands on a CPU, with small sizes, and its parts that need no GPU."""

from __future__ import annotations

import importlib
import json
import subprocess
import sys
import time
from pathlib import Path

import pytest
import torch

BENCHES = Path(__file__).parents[2] / "benches"


@pytest.fixture(autouse=True)
def _on_path(monkeypatch):
    monkeypatch.syspath_prepend(str(BENCHES))


def part(name: str):
    return importlib.import_module(f"gpu.{name}")


def run(folder: Path, *arguments: str, device: str = "cpu", status: int = 0) -> tuple[dict, str]:
    """The record of a command, by default on a CPU, and its text."""
    command = [sys.executable, str(BENCHES / "gpu" / "run.py"), *arguments, "--device", device]
    done = subprocess.run([*command, "--out", str(folder)], capture_output=True, text=True, timeout=200)
    assert done.returncode == status, done.stdout + done.stderr
    (path,) = folder.glob("*.json")
    return json.loads(path.read_text()), path.with_suffix(".txt").read_text()


# The commands.


def test_truth_has_ceilings_and_the_corpus(tmp_path):
    record, text = run(tmp_path, "truth")
    assert record["state"] == "complete"
    assert record["ceilings"]["errors"] == {}
    assert record["ceilings"]["copy_gbs"] > 0 < record["ceilings"]["products"]["bf16"]
    assert record["parts"]["run"]["passed"] > 0 == record["parts"]["run"]["failed"]
    assert set(record["parts"]) >= {"conformance", "memcheck", "racecheck"}
    assert "run: " in text


def test_memory_has_times_floors_and_kernels(tmp_path):
    record, text = run(
        tmp_path, "memory", "--only", "unit_rows,causal_softmax,best", "--peers", "eager,inductor_graphs"
    )
    assert record["state"] == "complete"
    assert [row["case"] for row in record["results"]] == ["unit_rows", "causal_softmax", "best"]
    for row in record["results"]:
        assert row["errors"]["disc"] <= row["allowed_error"]
        assert len(row["rows"]) == 2
        assert all(at["times"]["disc"]["us"] > 0 < at["times"]["eager"]["us"] for at in row["rows"])
        assert row["kernels"]["disc_profile"]["launches"] >= 1 <= row["kernels"]["eager"]["kernels"]
        assert "GPU" in row["skipped"]["inductor_graphs"]
    assert "all graphs at the larger size, f32: eager" in text
    assert "ncu" in record["parts"]


def test_models_have_streams_of_sizes(tmp_path):
    record, text = run(tmp_path, "models", "--only", "GPT,ranking", "--peers", "eager", "--dtype", "bf16")
    assert record["state"] == "complete"
    decode, ranking = record["results"]
    assert (decode["case"], ranking["case"]) == ("GPT decode", "ad ranking")
    for row in record["results"]:
        assert row["errors"]["disc"] <= row["allowed_error"]
        assert set(row["stream_us"]) == set(row["first_s"]) == {"disc", "eager"}
        assert row["report"]["coverage"] == 1.0
        assert all(at["flops"] > 0 < at["bytes"] for at in row["rows"])
    assert "GPT decode, bf16, all sizes in turn: disc" in text


def test_a_device_that_is_not_there_is_a_record_too(tmp_path):
    record, text = run(tmp_path, "memory", device="cuda:77", status=1)
    assert record["state"] == "no device"
    assert record["parts"]["device"]["error"]
    assert "no device" in text


# Workers that fail.

_WORKER = """
import json, os, sys, time
for line in sys.stdin:
    task = json.loads(line)
    def say(**message): print(json.dumps(message), flush=True)
    say(partial={"case": task["case"], "rows": [1]})
    for name in task["contestants"]:
        if name not in task["without"]:
            say(at=name)
            if name == "crash": os.abort()
            if name == "hang": time.sleep(1000)
            if name == "lost":
                say(dead=name, reason="an illegal address")
                sys.exit(1)
    say(at=None)
    if task["case"] == "ends": sys.exit("the last words")
    if task["case"] == "last":
        say(row={"case": "last"})
        sys.exit(1)
    say(row={"case": task["case"], "left_out": sorted(task["without"])})
"""


def supervisor(seconds: float, limit: float = 30.0):
    module = part("supervisor")
    command = (sys.executable, "-c", _WORKER)
    deadline = time.monotonic() + seconds
    return module.Supervisor(
        deadline, limit, {}, start=lambda environment: module.Worker(environment, command)
    )


def task(case: str, *names: str) -> dict:
    return {"case": case, "dtype": "f32", "contestants": names, "without": {}}


def test_a_contestant_that_ends_the_process_is_left_out():
    ours = supervisor(60)
    assert ours.run(task("a", "eager", "crash", "lost"))["left_out"] == ["crash", "lost"]
    assert ours.run(task("b", "eager"))["left_out"] == []
    ours.close()


def test_a_contestant_that_hangs_is_left_out():
    ours = supervisor(60, limit=1.0)
    assert ours.run(task("a", "hang", "eager"))["left_out"] == ["hang"]
    ours.close()


def test_what_is_known_of_a_case_outlives_its_process():
    ours = supervisor(60)
    row = ours.run(task("ends"))
    assert row["rows"] == [1]
    assert "the last words" in row["error"]
    ours.close()


def test_a_process_that_ends_after_its_task_does_not_fail_the_next_one():
    ours = supervisor(60)
    assert ours.run(task("last")) == {"case": "last"}
    assert ours.run(task("a")) == {"case": "a", "left_out": []}
    ours.close()


def test_nothing_is_begun_without_time():
    assert supervisor(1).run(task("a")) is None


# Checks.


def measuring(name: str, contestants: list[str], monkeypatch, **more):
    cases = {case.name: case for case in part("memory_cases").cases()}
    measured = {
        "device": "cpu", "dtype": "f32", "small": True, "contestants": contestants, "without": {}, "rounds": 1,
        "seconds": 60.0, "ceilings": {}, "phases": ["time"], "warm": False,
    }  # fmt: skip
    # torch's own test helpers, which other tests import, forbid to set the flags of a process.
    monkeypatch.setitem(torch.backends.flags_frozen.__globals__, "__allow_nonbracketed_mutation_flag", True)
    matmul, cudnn, threads = torch.backends.cuda.matmul, torch.backends.cudnn, torch.get_num_threads()
    rules = matmul.allow_tf32, cudnn.allow_tf32
    try:
        with torch.no_grad():
            return part("measure").Measuring(cases[name], {**measured, **more}, lambda _: None).run()
    finally:
        torch.set_num_threads(threads)
        matmul.allow_tf32, cudnn.allow_tf32 = rules


def test_wrong_results_are_not_timed(monkeypatch):
    module = part("contestants")

    def wrong(module_, examples, setting):
        return module.Built(lambda inputs: module_(*inputs) + 1e-2)

    def raises(*_):
        raise RuntimeError("no such op\nand more")

    monkeypatch.setitem(module.CONTESTANTS, "wrong", wrong)
    monkeypatch.setitem(module.CONTESTANTS, "raises", raises)
    row = measuring("unit_rows", ["eager", "wrong", "raises"], monkeypatch)
    assert row["skipped"]["wrong"].startswith("differs from f64 by")
    assert row["skipped"]["raises"] == "RuntimeError: no such op"
    assert all(set(at["times"]) == {"eager"} for at in row["rows"])


def test_a_contestant_that_fails_in_its_turn_leaves_the_others_alone(monkeypatch):
    module = part("contestants")
    calls = []

    def later(module_, examples, setting):
        def run(inputs):
            calls.append(1)
            if len(calls) > 12:
                raise RuntimeError("a fault")
            return module_(*inputs)

        return module.Built(run)

    monkeypatch.setitem(module.CONTESTANTS, "later", later)
    row = measuring("unit_rows", ["later", "eager"], monkeypatch)
    assert row["errors"]["later"] <= row["allowed_error"]
    assert row["skipped"] == {"later": "RuntimeError: a fault"}
    assert [set(at["times"]) for at in row["rows"]] == [{"eager"}, {"eager"}]
    assert "error" not in row


def test_sizes_that_there_is_no_time_for_are_named(monkeypatch):
    row = measuring("unit_rows", ["eager"], monkeypatch, seconds=0.0)
    assert row["left"] == list(row["left"]) != []
    assert row["rows"] == []


@pytest.mark.parametrize("value", [float("nan"), float("inf"), 3.0])
def test_an_element_that_nobody_wrote_is_an_error(value):
    checks = part("checks")
    right = torch.tensor([1.0, 2.0, float("-inf")], dtype=torch.float64)
    wrong = right.clone()
    wrong[1] = value
    assert checks.error_of([right.float()], [right], False) == 0.0
    assert checks.error_of([wrong.float()], [right], False) >= 0.5
    wrong = right.clone()
    wrong[2] = 0.0
    assert checks.error_of([wrong.float()], [right], False) == float("inf")


def test_places_among_equal_elements_are_not_compared():
    checks = part("checks")
    found, right = [torch.tensor([0, 1])], [torch.tensor([0, 0])]
    assert checks.error_of(found, right, ties=False) == 0.5
    assert checks.error_of(found, right, ties=True) == 0.0
    with pytest.raises(checks.Wrong):
        checks.error_of([torch.zeros(3)], [torch.zeros(2)], ties=False)


# Numbers.

CEILINGS = {
    "copies": [{"bytes": 1000, "us": 2.0}, {"bytes": 3000, "us": 4.0}], "copy_gbs": 2.0,
    "products": {"f32": 0.5}, "kernel_us": 3.0, "launches": {"in_graph_us": 3.0}, "errors": {},
}  # fmt: skip


def test_the_floor_is_that_of_the_scarcest_resource():
    floor = part("roofline").floor
    assert floor(CEILINGS, "f32", 8000, 10**6, 1)["terms_us"] == {
        "bytes": 4.0,
        "products": 2.0,
        "launches": 3.0,
    }
    assert floor(CEILINGS, "f32", 8000, 10**6, 2)["bound"] == "launches"
    assert floor(CEILINGS, "bf16", 8000, 10**9, None) == {
        "us": 4.0,
        "bound": "bytes",
        "terms_us": {"bytes": 4.0},
    }
    assert floor({}, "f32", 8000, 1, 1)["us"] is None


def test_a_copy_of_any_size_lies_between_those_measured():
    copy_us = part("ceilings").copy_us
    assert [copy_us(CEILINGS, moved) for moved in (2, 2000, 4000, 6000, 12000)] == [2.0, 2.0, 3.0, 4.0, 8.0]
    assert copy_us({}, 10) is None


def test_weights_of_embeddings_count_by_rows():
    class Net(torch.nn.Module):
        def __init__(self):
            super().__init__()
            self.table, self.last = torch.nn.Embedding(100, 8), torch.nn.Linear(8, 4, bias=False)

        def forward(self, ids):
            return self.last(self.table(ids))

    ids = torch.tensor([[3, 3, 5]])
    assert part("roofline").work(Net(), (ids,)) == (2 * 3 * 8 * 4, 4 * (2 * 8 + 8 * 4))


def test_kernels_of_a_trace_are_told_from_copies_and_ranges():
    events = [
        {
            "cat": "kernel",
            "name": "k0_row",
            "dur": 2.5,
            "args": {"grid": [1, 1, 1], "registers per thread": 32},
        },
        {"cat": "gpu_memcpy", "name": "Memcpy DtoD", "dur": 1.0},
        {"cat": "gpu_user_annotation", "name": "disc::Net", "dur": 9.0},
        {"name": "process_name"},
    ]
    found = part("launches")._summary(events)
    assert (found["kernels"], found["copies"], found["kernel_us"], found["copy_us"]) == (1, 1, 2.5, 1.0)
    assert found["list"] == [{"name": "k0_row", "us": 2.5, "grid": [1, 1, 1], "registers": 32}]


def test_bytes_of_kernels_are_read_from_ncu():
    text = (
        '==PROF== Connected\n"ID","Kernel Name","dram__bytes_read.sum","dram__bytes_write.sum","gpu__time_duration.sum"\n'
        '"","","Mbyte","Kbyte","us"\n"0","k0_row","2","1,000","2"\n'
    )
    expected = {"name": "k0_row", "read": 2_000_000, "written": 1_000_000, "us": 2.0, "gbs": 1500.0}
    assert part("counted").rows(text) == [expected]
    told = part("counted").of_graphs([expected], 'graph: ["best", 1]\n' + text)
    assert told == [{"graph": "best", **expected}]
    assert part("counted").of_graphs([expected], 'graph: ["best", 2]\n') == [expected]
    assert part("counted").rows("==ERROR== ERR_NVGPUCTRPERM") == []


def test_a_table_compares_with_each_peer_and_with_the_best():
    tables = part("tables")
    times = {"disc": 10.0, "eager": 40.0, "inductor": 20.0}
    at = {
        "size": [1, 16],
        "bytes": 8000,
        "flops": 10**6,
        "copy_us": 5.0,
        "times": {n: {"us": t} for n, t in times.items()},
    }
    row = {
        "case": "BERT", "dtype": "f32", "rows": [at], "skipped": {"jax": "not installed: jax"}, "cold_s": {"disc": 2.0},
        "kernels": {"disc": {"kernels": 2}}, "stream_us": {"disc": 10.0, "eager": 50.0},
    }  # fmt: skip
    record = {
        "command": "run.py models", "kind": "models", "time": "20261127-000000", "state": "complete", "not_quiet": [],
        "machine": {"cpu": "cpu"}, "device": {"card": "H100"}, "ceilings": CEILINGS, "parts": {}, "results": [row],
        "left": ["T5 f32"],
    }  # fmt: skip
    page = tables.markdown(record)
    assert "| BERT | f32 | 1x16 | 10.0 | - | 2 | 6.0 launches | 60% | 50% | 4.00 | 2.00 | - |" in page
    assert "BERT, f32: eager 4.00 (least 4.00), inductor 2.00 (least 2.00), the best of them 2.00" in page
    assert "all sizes in turn: disc 10 us, eager 5.00" in page
    assert "skipped jax on 1 of 1 cases (BERT): not installed: jax" in tables.text(record)
    assert "no time for: T5 f32" in page


@pytest.mark.parametrize("suite", ["memory_cases", "model_cases"])
def test_sizes_are_distinct(suite):
    names = []
    for case in part(suite).cases():
        names.append(case.name)
        for sizes in (case.sizes, case.small):
            assert len(set(sizes)) == len(sizes) >= 2, case.name
    assert len(set(names)) == len(names) >= 8
