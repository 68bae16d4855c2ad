"""Measures `disc-server` under load beside ONNX Runtime: clients that send requests of random
lengths to a small BERT with masks, each after the answer to its last one.

    benches/serving.py [--seconds 60] [--clients 16]

Every answer is compared with eager. ONNX Runtime has the same front end, axum and binary tensors
(benches/overhead/src/bin/ort_server.rs). Each server has one worker with one thread: the other core
is for the clients, which are threads of this process. The servers take turns, so that both see the
same machine. The record goes to benches/records.
"""

from __future__ import annotations

import argparse
import contextlib
import http.client
import json
import random
import shlex
import subprocess
import sys
import tempfile
import threading
import time
from pathlib import Path

import bert
import disc
import numpy as np
import onnxruntime
import peers
import torch
from record import Record

HERE = Path(__file__).parent
#: Requests with their answers by eager; clients pick among them.
REQUESTS, LONGEST = 96, 128
NAMES = ("ids", "mask")


class Request:
    """The bytes of a request, and eager's answer."""

    def __init__(self, model: torch.nn.Module, length: int):
        inputs = bert.masked(1, length)
        with torch.no_grad():
            self.expected = model(*inputs).numpy()
        tensors = [
            {
                "name": name,
                "shape": [1, length],
                "datatype": "INT64",
                "parameters": {"binary_data_size": 8 * length},
            }
            for name in NAMES
        ]
        head = json.dumps({"inputs": tensors, "parameters": {"binary_data_output": True}}).encode()
        self.headers = {"Inference-Header-Content-Length": str(len(head))}
        self.body = head + b"".join(tensor.numpy().tobytes() for tensor in inputs)

    def error(self, status: int, length: str | None, body: bytes) -> float:
        """The largest difference from eager; infinite for anything but an answer."""
        if status != 200 or length is None:
            return float("inf")
        found = np.frombuffer(body[int(length) :], np.float32)
        return float(np.abs(found - self.expected.ravel()).max())


class Load:
    """Load on one server, and the times, errors and memory that it gave."""

    def __init__(self, port: int, pid: int, requests: list[Request], clients: int, seconds: float):
        self.port, self.requests = port, requests
        self.times: list[float] = []
        self.largest_error, self.rss = 0.0, [resident(pid)]
        self.stop = time.monotonic() + seconds
        threads = [threading.Thread(target=self.client, args=(i,)) for i in range(clients)]
        for thread in threads:
            thread.start()
        while time.monotonic() < self.stop:
            time.sleep(0.25)
            self.rss.append(resident(pid))
        for thread in threads:
            thread.join()
        self.seconds = seconds

    def client(self, seed: int) -> None:
        choose = random.Random(seed)
        connection = http.client.HTTPConnection("127.0.0.1", self.port, timeout=60)
        while time.monotonic() < self.stop:
            request = choose.choice(self.requests)
            start = time.perf_counter()
            connection.request("POST", "/v2/models/bert/infer", request.body, request.headers)
            response = connection.getresponse()
            body = response.read()
            self.times.append(time.perf_counter() - start)
            length = response.headers["inference-header-content-length"]
            self.largest_error = max(self.largest_error, request.error(response.status, length, body))


def resident(pid: int) -> tuple[int, int]:
    """The MB of memory of a process: its own pages, and all that are there, those of files too."""
    text = Path(f"/proc/{pid}/status").read_text(encoding="utf-8")
    own, whole = (int(text.split(name)[1].split()[0]) >> 10 for name in ("RssAnon:", "VmRSS:"))
    return own, whole


@contextlib.contextmanager
def server(command: list[str]):
    """Starts a server, and gives its port and process id."""
    with subprocess.Popen(command, stderr=subprocess.PIPE, text=True) as process:
        try:
            said = ""
            while " at http://" not in said:
                said = process.stderr.readline()
                assert said, "the server ended"
            threading.Thread(target=process.stderr.read, daemon=True).start()
            yield int(said.strip().rsplit(":", 1)[1]), process.pid
        finally:
            process.terminate()


def build(folder: Path, *arguments: str) -> str:
    command = ["cargo", "build", "--quiet", "--release", "--message-format=json", *arguments]
    built = subprocess.run(command, cwd=folder, check=True, stdout=subprocess.PIPE, text=True).stdout
    return next(m["executable"] for line in built.splitlines() if (m := json.loads(line)).get("executable"))


def commands(model: torch.nn.Module, folder: Path) -> dict[str, list[str]]:
    examples = [bert.masked(1, length) for length in (16, 48)]
    package = folder / "bert.discpkg"
    disc.export(model, examples[0], package, dims={0: {0: 1, 1: "S"}, 1: {0: 1, 1: "S"}})
    (library,) = (Path(onnxruntime.__file__).parent / "capi").glob("libonnxruntime.so.*")
    ours = build(HERE.parent, "--package", "disc-serve", "--bin", "disc-server")
    theirs = build(HERE / "overhead", "--bin", "ort_server")
    model_file = peers.exported(model, examples)
    return {
        "disc": [ours, str(package), "--port", "0", "--workers", "1", "--threads", "1"],
        "ort": [theirs, str(library), str(model_file), "0", "1"],
    }


def measure(options: argparse.Namespace) -> list[dict]:
    torch.manual_seed(0)
    model = bert.Encoder(**bert.SMALL).eval()
    lengths = random.Random(0)
    requests = [Request(model, lengths.randint(2, LONGEST)) for _ in range(REQUESTS)]
    loads: dict[str, list[Load]] = {}
    with tempfile.TemporaryDirectory() as folder, contextlib.ExitStack() as stack:
        servers = {n: stack.enter_context(server(c)) for n, c in commands(model, Path(folder)).items()}
        for turn in range(-1, options.turns):
            for name, (port, pid) in servers.items():
                seconds = 2.0 if turn < 0 else options.seconds / options.turns
                load = Load(port, pid, requests, options.clients, seconds)
                if turn >= 0:
                    loads.setdefault(name, []).append(load)
    return [summary(name, found) for name, found in loads.items()]


def summary(name: str, loads: list[Load]) -> dict:
    times = np.array([t for load in loads for t in load.times]) * 1e3
    half, most = np.percentile(times, [50, 99])
    return {
        "server": name,
        "requests": len(times),
        "requests_a_second": round(len(times) / sum(load.seconds for load in loads), 1),
        "p50_ms": round(float(half), 1),
        "p99_ms": round(float(most), 1),
        "largest_error": max(load.largest_error for load in loads),
        "own_mb": memory(loads, 0),
        "resident_mb": memory(loads, 1),
    }


def memory(loads: list[Load], kind: int) -> dict[str, int]:
    """Memory after the first requests, at most, and at the end."""
    samples = [sample[kind] for load in loads for sample in load.rss]
    return {"first": samples[0], "most": max(samples), "last": samples[-1]}


def main() -> int:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--seconds", type=float, default=60, help="of load for each server")
    parser.add_argument("--turns", type=int, default=3)
    parser.add_argument("--clients", type=int, default=16)
    parser.add_argument("--no-record", action="store_true", help="print only")
    options = parser.parse_args()
    torch.set_num_threads(1)
    record = Record(shlex.join(["benches/serving.py", *sys.argv[1:]]))
    lines = record.head()
    results = measure(options)
    for result in results:
        lines.append(", ".join(f"{name} {value}" for name, value in result.items()))
    print("\n".join(lines))
    if not options.no_record:
        record.save("serving", results, lines)
    return 0 if all(result["largest_error"] < 1e-3 for result in results) else 1


if __name__ == "__main__":
    sys.exit(main())
