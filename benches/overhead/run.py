"""Measures the overhead of a call from Rust beside ONNX Runtime: graphs of one and of several
kernels that cannot be fused, whose arithmetic takes next to nothing.

    benches/overhead/run.py [--rows 1,8]

Nanoseconds of a call, least and median over rounds that take turns, on one thread. The record goes
to benches/records.
"""

from __future__ import annotations

import argparse
import json
import shlex
import subprocess
import sys
import tempfile
from pathlib import Path

import disc
import numpy as np
import onnx
import onnxruntime
import torch
from onnx import TensorProto, helper, numpy_helper

HERE = Path(__file__).parent
sys.path.insert(0, str(HERE.parent))
#: Matmuls of the chains: the difference of two chains is the cost of a kernel.
CHAINS = (1, 11, 21)


class Affine(torch.nn.Module):
    def forward(self, x):
        return x * 2 + 1


class Chain(torch.nn.Module):
    """Matmuls in a row, each a kernel: neither disc nor ONNX Runtime fuses two of them."""

    def __init__(self, weights: list[np.ndarray]):
        super().__init__()
        self.weights = torch.nn.ParameterList(map(torch.from_numpy, weights))

    def forward(self, x):
        for weight in self.weights:
            x = x @ weight
        return x


def onnx_model(nodes: list, constants: dict[str, np.ndarray], path: Path) -> None:
    ports = [helper.make_tensor_value_info(name, TensorProto.FLOAT, ["N", 8]) for name in "xy"]
    tensors = [numpy_helper.from_array(value, name) for name, value in constants.items()]
    graph = helper.make_graph(nodes, "graph", ports[:1], ports[1:], tensors)
    onnx.save(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=9), path)


def write_models(folder: Path) -> None:
    x = torch.randn(3, 8)
    disc.export(Affine(), (x,), folder / "affine.discpkg")
    nodes = [helper.make_node("Mul", ["x", "two"], ["h"]), helper.make_node("Add", ["h", "one"], ["y"])]
    constants = {"two": np.full((1,), 2, np.float32), "one": np.ones((1,), np.float32)}
    onnx_model(nodes, constants, folder / "affine.onnx")
    for count in CHAINS:
        weights = [np.eye(8, dtype=np.float32)[np.random.permutation(8)] for _ in range(count)]
        name = f"matmuls-{count:02}"
        disc.export(Chain(weights), (x,), folder / f"{name}.discpkg")
        values = ["x", *(f"h{i}" for i in range(count - 1)), "y"]
        nodes = [helper.make_node("MatMul", [values[i], f"w{i}"], [values[i + 1]]) for i in range(count)]
        onnx_model(nodes, {f"w{i}": w for i, w in enumerate(weights)}, folder / f"{name}.onnx")


def program() -> str:
    command = ["cargo", "build", "--quiet", "--release", "--message-format=json"]
    built = subprocess.run(command, cwd=HERE, check=True, stdout=subprocess.PIPE, text=True).stdout
    return next(m["executable"] for line in built.splitlines() if (m := json.loads(line)).get("executable"))


def measure(rows: str) -> list[dict]:
    (library,) = (Path(onnxruntime.__file__).parent / "capi").glob("libonnxruntime.so.*")
    found = []
    with tempfile.TemporaryDirectory() as name:
        write_models(Path(name))
        for count in rows.split(","):
            command = [program(), str(library), name, count]
            said = subprocess.run(command, check=True, stdout=subprocess.PIPE, text=True).stdout
            found += [json.loads(line) for line in said.splitlines()]
    return found


def table(results: list[dict]) -> list[str]:
    lines = [
        f"{'graph':12} {'rows':>4} {'disc ns':>8} {'median':>8} {'ort ns':>8} {'median':>8} {'ort/disc':>8}"
    ]
    for result in results:
        (least, middle), (their_least, their_middle) = result["disc"], result["ort"]
        numbers = f"{least:8} {middle:8} {their_least:8} {their_middle:8} {their_middle / middle:8.2f}"
        lines.append(f"{result['graph']:12} {result['rows']:4} {numbers}")
    times = {(r["graph"], r["rows"]): r for r in results}
    first, last = (f"matmuls-{count:02}" for count in (CHAINS[0], CHAINS[-1]))
    for rows in sorted({r["rows"] for r in results}):
        for name in ("disc", "ort"):
            spent = times[last, rows][name][1] - times[first, rows][name][1]
            lines.append(
                f"a matmul of {rows} x 8 x 8 more, {name}: {spent / (CHAINS[-1] - CHAINS[0]):.0f} ns"
            )
    return lines


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--rows", default="1,8")
    parser.add_argument("--no-record", action="store_true", help="print only")
    options = parser.parse_args()
    from record import Record

    np.random.seed(0)
    record = Record(shlex.join(["benches/overhead/run.py", *sys.argv[1:]]))
    lines = record.head()
    results = measure(options.rows)
    lines += ["", *table(results)]
    print("\n".join(lines))
    if not options.no_record:
        record.save("overhead", results, lines)


if __name__ == "__main__":
    main()
