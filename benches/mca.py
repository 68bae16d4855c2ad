"""Estimates micro-kernels of AArch64 by LLVM's machine-code analyser: nothing runs on hardware.

Each inner loop that multiplies is compared with a loop of its products alone, on independent
registers of the same CPU model. The share of that bound becomes a record.
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
    ("aarch64-v8+bf16+dotprod+fp16+i8mm+sve", "neoverse-v2"),
    ("aarch64-v8+bf16+dotprod+fp16+i8mm+sve256", "neoverse-v1"),
]

#: Products by element type: the type of sums, and the elements of a word where there are words.
PRODUCTS = {"f32": ("f32", 1), "bf16": ("f32", 2), "i8": ("i32", 4)}

MULTIPLIES = re.compile(r"\b(fmla|bfdot|bfmmla|sdot|udot|usdot|smmla)\b")


def program(dtype: str, columns: int, words: bool) -> str:
    """A product with weights in panels."""
    sums, word = PRODUCTS[dtype]
    panel = (
        f"tensor<2x{512 // word}x{columns}x{word}x{dtype}>" if words else f"tensor<2x512x{columns}x{dtype}>"
    )
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


def loops(text: str) -> list[tuple[str, list[str]]]:
    """The blocks that multiply and jump back to themselves, with the names of their functions."""
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
            if ends and any(MULTIPLIES.search(line) for line in lines[: ends[0]]):
                found.append((name, lines[: ends[0] + 1]))
    return found


def cycles(lines: list[str], cpu: str) -> float:
    """The cycles of a turn in the long run."""
    turns = 200
    source = "\n".join(re.sub(r"\.LBB\w+", "again", line) for line in lines)
    command = [str(MCA), "-mtriple=aarch64-linux-gnu", f"-mcpu={cpu}", f"-iterations={turns}"]
    ran = subprocess.run(command, input="again:\n" + source, capture_output=True, text=True)
    if ran.returncode:
        raise RuntimeError(ran.stderr)
    return int(re.search(r"Total Cycles:\s+(\d+)", ran.stdout).group(1)) / turns


def bound(lines: list[str], cpu: str) -> float:
    """The cycles of the products of a turn alone, each of which waits for none."""
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
        columns = 16 if "sve256" in target else 8
        for dtype in PRODUCTS:
            words = {"f32": False, "bf16": "+bf16" in target, "i8": "+dotprod" in target}[dtype]
            found = loops(assembly(program(dtype, columns, words), target))
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
    if arguments.save:
        note = f"llvm-mca {version}: a model of the CPU. Nothing was timed on hardware."
        record.save("aarch64-mca", results, [*record.head(), note, "", *table])


if __name__ == "__main__":
    sys.exit(main())
