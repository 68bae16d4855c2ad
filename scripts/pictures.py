"""Draws the pictures of README.md and the documentation as SVG: `make charts`.

usage: python scripts/pictures.py [FOLDER]      FOLDER: default docs/images

The chart shows a record of `benches/run.py --suite sentence`, the newest one. Text stays text, and
equal input gives equal bytes, so that tests/project/test_pictures.py can compare.
"""

from __future__ import annotations

import json
import sys
from pathlib import Path

import matplotlib as mpl

mpl.use("svg")
from matplotlib import pyplot as plt
from matplotlib.patches import FancyBboxPatch

ROOT = Path(__file__).parent.parent
RECORDS = ROOT / "benches" / "records"
STYLE = {
    "svg.fonttype": "none",
    "svg.hashsalt": "disc",
    "font.family": ["sans-serif"],
    "font.sans-serif": ["DejaVu Sans"],
    "font.size": 10,
    "axes.spines.top": False,
    "axes.spines.right": False,
}
#: Contestants in the order of the legend: name in a record, name for readers, colour.
PEERS = (
    ("disc", "disc", "#d1495b"),
    ("eager", "PyTorch eager", "#8d99ae"),
    ("inductor", "Inductor", "#00798c"),
    ("ort", "ONNX Runtime", "#edae49"),
    ("openvino", "OpenVINO", "#5f4b8b"),
)
INK, PALE = "#22223b", "#f4f1ea"


def record() -> dict:
    """The newest record of the sentence encoder."""
    return json.loads(max(RECORDS.glob("sentence-*.json")).read_text(encoding="utf-8"))


def streams(path: Path) -> None:
    """Milliseconds a call over the length, and seconds to the first result."""
    made = record()
    result = made["results"][0]
    rows = sorted(result["rows"], key=lambda row: row["size"])
    lengths = [row["size"][-1] for row in rows]
    peers = [peer for peer in PEERS if peer[0] in result["first_result_s"]]
    figure, (times, first) = plt.subplots(1, 2, figsize=(9, 3.6), width_ratios=[2.2, 1], layout="constrained")
    for name, label, colour in peers:
        ms = [row["us"][name] / 1e3 for row in rows]
        times.plot(lengths, ms, label=label, color=colour, linewidth=2.4 if name == "disc" else 1.3)
    times.set(xlabel="length of the sentence", ylabel="ms a call", ylim=(0, None), xlim=(0, None))
    times.set_title(f"{len(rows)} lengths, {_threads(result)}", loc="left", fontsize=10)
    times.legend(frameon=False)
    seconds = [result["first_result_s"][name] for name, _, _ in peers]
    bars = first.barh([label for _, label, _ in peers], seconds, color=[colour for _, _, colour in peers])
    first.bar_label(bars, fmt="%.1f", padding=3)
    first.invert_yaxis()
    first.spines["bottom"].set_visible(False)
    first.tick_params(bottom=False, labelbottom=False, left=False)
    first.set_title("seconds to the first result", loc="left", fontsize=10)
    figure.text(0.01, -0.08, about(made), fontsize=7, color="#555555")
    _save(figure, path)


def _threads(result: dict) -> str:
    return "1 thread" if result["threads"] == 1 else f"{result['threads']} threads"


def about(made: dict) -> str:
    """The circumstances of a record, in two lines."""
    machine = made["machine"]
    names = {"torch": "torch", "onnxruntime": "ONNX Runtime", "openvino": "OpenVINO"}
    versions = ", ".join(f"{label} {machine['packages'][name]}" for name, label in names.items())
    day = f"{made['time'][:4]}-{made['time'][4:6]}-{made['time'][6:8]}"
    noise = "; other programs ran beside" if made["not_quiet"] else ""
    lines = [
        f"{machine['cpu']} ({machine['family_model']}), {versions}, {day}{noise}",
        "six layers of 384, random weights; the export to ONNX counts for ONNX Runtime, and OpenVINO reads the same file",
    ]
    return "\n".join(lines)


#: Boxes of the architecture, from the top: title, then what it does.
STAGES = (
    ("capture", "a PyTorch module becomes a graph of whole operations; sizes are symbols"),
    ("tensor program", "rules simplify it; facts about sizes are proved, or checked at each call"),
    ("fusion groups", "one kernel for each; several versions, guarded by sizes; one plan of memory"),
    ("code generation", "kernels in vectors and a compiled host program, by LLVM, for each CPU level"),
    ("runtime", "checks the facts, picks versions, runs kernels on one pool of threads"),
)
SIDES = {
    0: 'torch.compile(backend="disc")\ndisc.optimize',
    3: "cache on disk\npackage (.discpkg)",
    4: "Python, Rust, C,\ncommand line, HTTP",
}


def architecture(path: Path) -> None:
    """The stages from a module to machine code, as boxes with arrows."""
    figure, axes = plt.subplots(figsize=(9, 4.4), layout="constrained")
    axes.set(xlim=(0, 100), ylim=(0, 50))
    axes.axis("off")
    for i, (title, text) in enumerate(STAGES):
        top = 49 - i * 10
        box = FancyBboxPatch((1, top - 7), 70, 7, boxstyle="round,pad=0.3", facecolor=PALE, edgecolor=INK)
        axes.add_patch(box)
        axes.text(3, top - 2.2, title, color=INK, weight="bold", va="center")
        axes.text(3, top - 5.2, text, color=INK, fontsize=8.5, va="center")
        if i + 1 < len(STAGES):
            _arrow(axes, (36, top - 7.4), (36, top - 9.6))
        if i in SIDES:
            axes.text(78, top - 3.5, SIDES[i], color=INK, fontsize=9, va="center")
            ends = ((77, top - 3.5), (71.8, top - 3.5))
            _arrow(axes, *(ends if i == 0 else ends[::-1]))
    _save(figure, path)


def _arrow(axes, start: tuple[float, float], end: tuple[float, float]) -> None:
    axes.annotate("", xy=end, xytext=start, arrowprops={"arrowstyle": "->", "color": INK})


def _save(figure, path: Path) -> None:
    figure.savefig(path, metadata={"Date": None, "Creator": None}, bbox_inches="tight", facecolor="white")
    plt.close(figure)


PICTURES = {"streams.svg": streams, "architecture.svg": architecture}


def draw(folder: Path) -> None:
    folder.mkdir(parents=True, exist_ok=True)
    with mpl.rc_context(STYLE):
        for name, picture in PICTURES.items():
            picture(folder / name)


if __name__ == "__main__":
    draw(Path(sys.argv[1]) if len(sys.argv) > 1 else ROOT / "docs" / "images")
