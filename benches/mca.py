"""Estimates hot loops of AArch64 by LLVM's machine-code analyser: nothing runs on hardware.

The inner loop of a micro-kernel is compared with a loop of only its products, on independent
registers of the same CPU model. Other loops are compared with what their instructions take of the
busiest resource of the model, as if none waited for another.
"""

from __future__ import annotations

import argparse
import re
import subprocess
import sys
import tempfile
from pathlib import Path

from record import Record

ROOT = Path(__file__).resolve().parent.parent
MCA = Path("/usr/lib/llvm-22/bin/llvm-mca")

#: A target, and the CPU model that stands for it.
CPUS = [
    ("aarch64-v8", "neoverse-n1"),
    ("aarch64-v8+dotprod+fp16", "neoverse-n1"),
    ("aarch64-v8+bf16+dotprod+fp16+i8mm+sve", "neoverse-v1"),
    ("aarch64-v8+bf16+dotprod+fp16+i8mm+sve", "neoverse-n2"),
    ("aarch64-v8+bf16+dotprod+fp16+i8mm+sve", "neoverse-v2"),
    ("aarch64-v8+bf16+dotprod+fp16+i8mm+sve256", "neoverse-v1"),
]

#: Products by element type: the type of sums.
PRODUCTS = {"f32": "f32", "bf16": "f32", "i8": "i32"}

MULTIPLIES = re.compile(r"\b(fmla|bfmmla|sdot|smmla)\b")

#: Arithmetic on vectors of f32.
COMPUTES = re.compile(r"\b(fadd|fsub|fmul|fmla|fdiv|fmax|fmaxnm|scvtf)\b")

ROWS = "tensor<[B]x[N]xf32>"

#: Other hot loops: the kind of their kernel, and a program of rows.
LOOPS = {
    "tanh": ("pointwise", f"  %y = tanh %x : {ROWS}\n"),
    "exp": ("pointwise", f"  %y = exponential %x : {ROWS}\n"),
    "erf": ("pointwise", f"  %y = erf %x : {ROWS}\n"),
    "softmax": (
        "reduction",
        f"""  %low = constant dense<-inf> : tensor<f32>
  %most = reduce %x, %low, dims = [1] : ({ROWS}, tensor<f32>) -> tensor<[B]xf32> applies maximum
  %of = broadcast_in_dim %most, dims = [0] : (tensor<[B]xf32>) -> {ROWS}
  %below = subtract %x, %of : {ROWS}
  %e = exponential %below : {ROWS}
  %zero = constant dense<0.0> : tensor<f32>
  %sum = reduce %e, %zero, dims = [1] : ({ROWS}, tensor<f32>) -> tensor<[B]xf32> applies add
  %total = broadcast_in_dim %sum, dims = [0] : (tensor<[B]xf32>) -> {ROWS}
  %y = divide %e, %total : {ROWS}
""",
    ),
}


def panels(dtype: str, target: str) -> tuple[int, int]:
    """The columns of a panel of weights, and its rows in a word (1: no words)."""
    wide = 16 if "sve256" in target else 8
    extensions = target.split("+")[1:]
    match dtype:
        case "bf16" if "bf16" in extensions:
            return 16, 4
        case "i8" if "i8mm" in extensions:
            return 16, 8
        case "i8" if "dotprod" in extensions:
            return wide, 4
        case _:
            return wide, 1


def program(dtype: str, columns: int, word: int) -> str:
    """A product with weights in panels."""
    sums = PRODUCTS[dtype]
    panel = f"tensor<2x512x{columns}x{dtype}>"
    if word > 1:
        panel = f"tensor<2x{512 // word}x{columns}x{word}x{dtype}>"
    attrs = f"lhs_contracting_dims = [1], rhs_contracting_dims = [1], packed_columns = [{2 * columns}], dtype = {sums}"
    result = f"tensor<[B]x{2 * columns}x{sums}>"
    return (
        f"weight @w : {panel}\n"
        f"func @main(%x: tensor<[B]x512x{dtype}>) -> {result} {{\n"
        f"  %w = weight @w : {panel}\n"
        f"  %y = dot_general %x, %w, {attrs} : (tensor<[B]x512x{dtype}>, {panel}) -> {result}\n"
        f"  return %y : {result}\n}}\n"
    )


def assembly(text: str, target: str) -> str:
    """The assembly of a program."""
    with tempfile.NamedTemporaryFile("w", suffix=".disc") as file:
        file.write(text)
        file.flush()
        command = ["cargo", "run", "--quiet", "--package", "disc", "--example", "assembly", "--"]
        ran = subprocess.run(
            [*command, file.name, "--target", target], cwd=ROOT, capture_output=True, text=True
        )
    if ran.returncode:
        raise RuntimeError(ran.stderr)
    return ran.stdout


def loops(text: str, computes: re.Pattern = MULTIPLIES) -> list[tuple[str, list[str]]]:
    """The blocks that compute and jump back to themselves, with the names of their functions."""
    found = []
    for part in text.split("\n\t.type\t")[1:]:
        name = part.split(",")[0].strip('"')
        for block in part.split("\n.LBB")[1:]:
            label = ".LBB" + block.split(":")[0]
            lines = [
                line.strip()
                for line in block.split("\n")[1:]
                if line.startswith("\t") and not line.startswith("\t.")
            ]
            ends = [i for i, line in enumerate(lines) if line.endswith(label) and line.startswith("b")]
            if ends and any(computes.search(line) for line in lines[: ends[0]]):
                found.append((name, lines[: ends[0] + 1]))
    return found


def analysed(lines: list[str], cpu: str, turns: int) -> str:
    """The analyser's report on some turns of a loop."""
    source = "\n".join(re.sub(r"\.LBB\w+", "again", line) for line in lines)
    command = [str(MCA), "-mtriple=aarch64-linux-gnu", f"-mcpu={cpu}", f"-iterations={turns}"]
    ran = subprocess.run(command, input="again:\n" + source, capture_output=True, text=True)
    if ran.returncode:
        raise RuntimeError(ran.stderr)
    return ran.stdout


def cycles(lines: list[str], cpu: str) -> float:
    """The cycles of a turn in the long run."""
    turns = 200
    return int(re.search(r"Total Cycles:\s+(\d+)", analysed(lines, cpu, turns)).group(1)) / turns


def throughput(lines: list[str], cpu: str) -> float:
    """The cycles of a turn on the busiest resource."""
    return float(re.search(r"Block RThroughput:\s+([\d.]+)", analysed(lines, cpu, 1)).group(1))


def bound(lines: list[str], cpu: str) -> float:
    """The cycles of only the products of a turn, each of which waits for none."""
    products = [line for line in lines if MULTIPLIES.search(line)]
    name, rest = products[0].split(None, 1)
    last = rest.split(",")[-1].strip()
    kind = re.match(r"[vz]\d+(\.\w+)", rest).group(1)
    of = re.search(r", [vz]\d+(\.\w+)", rest).group(1)
    register, mask = ("z", "p0/m, " if "/m" in rest else "") if rest[0] == "z" else ("v", "")
    lane = f"{register}31" + re.search(r"\.\w+(\[\d\])?", last).group(0)
    alone = [
        f"{name} {register}{i % 24}{kind}, {mask}{register}30{of}, {lane}" for i in range(len(products) * 4)
    ]
    return cycles(alone, cpu) / 4


def other_loops() -> list[dict]:
    """The longest loop of each program that is no product."""
    rows = []
    for target, cpu in CPUS:
        for name, (kernel, body) in LOOPS.items():
            text = assembly(f"func @main(%x: {ROWS}) -> {ROWS} {{\n{body}  return %y : {ROWS}\n}}\n", target)
            found = [
                loop
                for loop in loops(text, COMPUTES)
                if re.fullmatch(rf"k\d+_{kernel}", loop[0].split(".")[0])
            ]
            function, lines = max(found, key=lambda loop: len(loop[1]))
            spent, least = cycles(lines, cpu), throughput(lines, cpu)
            rows.append({
                "target": target, "cpu": cpu, "program": name, "loop": function, "instructions": len(lines),
                "cycles": spent, "bound": least, "share": least / spent, "spills": sum("[sp" in line for line in lines),
            })  # fmt: skip
    return rows


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--save", action="store_true", help="write a record")
    arguments = parser.parse_args()
    record = Record("python benches/mca.py" + (" --save" if arguments.save else ""))
    version = (
        subprocess.run([MCA, "--version"], capture_output=True, text=True)
        .stdout.split("version ")[1]
        .split()[0]
    )
    results, table = [], []
    for target, cpu in CPUS:
        for dtype in PRODUCTS:
            found = loops(assembly(program(dtype, *panels(dtype, target)), target))
            if not found:
                continue
            name, lines = max(found, key=lambda loop: sum(bool(MULTIPLIES.search(line)) for line in loop[1]))
            spent, least = cycles(lines, cpu), bound(lines, cpu)
            products = sum(bool(MULTIPLIES.search(line)) for line in lines)
            spills = sum("[sp" in line for line in lines)
            row = {
                "target": target, "cpu": cpu, "dtype": dtype, "loop": name, "instructions": len(lines), "products": products,
                "product": next(MULTIPLIES.search(line).group(1) for line in lines if MULTIPLIES.search(line)),
                "cycles": spent, "bound": least, "share": least / spent, "spills": spills,
            }  # fmt: skip
            results.append(row)
            table.append(
                f"{target:44} {cpu:12} {dtype:5} {row['product']:7} {products:3} of {len(lines):3} instructions, "
                f"{spent:6.2f} cycles, bound {least:6.2f}: {100 * row['share']:4.0f}%, {spills} spills"
            )
            print(table[-1], flush=True)
    for row in other_loops():
        results.append(row)
        table.append(
            f"{row['target']:44} {row['cpu']:12} {row['program']:8} {row['instructions']:3} instructions, "
            f"{row['cycles']:6.2f} cycles, bound {row['bound']:6.2f}: {100 * row['share']:4.0f}%, {row['spills']} spills"
        )
        print(table[-1], flush=True)
    if arguments.save:
        note = f"llvm-mca {version}: a model of the CPU. Nothing was timed on hardware."
        record.save("aarch64-mca", results, [*record.head(), note, "", *table])


if __name__ == "__main__":
    sys.exit(main())
