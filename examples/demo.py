"""A BERT encoder, compiled once, run at many sequence lengths, checked against eager PyTorch and
timed beside it.

Run it with `make demo`. The model has the architecture of BERT-base and random weights; nothing is
downloaded. The last line is for machines: compiles, lengths, the largest relative error, seconds
from the call of `disc.optimize` to the first result, and the total time of disc over that of eager
(same threads, interleaved; each length counts its median).
"""

import argparse
import os
import statistics
import sys
import time

os.environ.setdefault("HF_HUB_OFFLINE", "1")
os.environ.setdefault("TRANSFORMERS_OFFLINE", "1")

import disc
import torch
from transformers import BertConfig, BertModel

# 40 lengths between 7 and 397, no two the same and few of them round; then the extremes.
LENGTHS = [7 + 10 * i for i in range(40)] + [1, 512]
# Seconds before each call: threads of the other side spin for some 10 ms after their last work, on
# a core that this one needs.
REST = 0.03


def build(layers: int) -> BertModel:
    """A BERT-base encoder with seeded random weights."""
    torch.manual_seed(0)
    return BertModel(BertConfig(num_hidden_layers=layers), add_pooling_layer=False).eval()


def encode(model: torch.nn.Module, ids: torch.Tensor) -> torch.Tensor:
    return model(input_ids=ids).last_hidden_state


def relative_error(got: torch.Tensor, expected: torch.Tensor) -> float:
    """The largest difference over the largest magnitude of what was expected."""
    return ((got - expected).abs().max() / expected.abs().max()).item()


def medians(first, second, repeats: int) -> tuple[float, float]:
    """Median seconds of two calls, made in turns."""
    times: tuple[list[float], list[float]] = ([], [])
    for _ in range(repeats):
        for call, record in zip((first, second), times, strict=True):
            time.sleep(REST)
            start = time.perf_counter()
            call()
            record.append(time.perf_counter() - start)
    return statistics.median(times[0]), statistics.median(times[1])


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--layers", type=int, default=12)
    parser.add_argument("--repeats", type=int, default=5)
    arguments = parser.parse_args()

    print(f"building BERT ({arguments.layers} layers, random weights) ...", flush=True)
    model = build(arguments.layers)
    example = torch.randint(0, 30000, (1, 16))
    with torch.no_grad():
        print("compiling ...", flush=True)
        start = time.perf_counter()
        fast = disc.optimize(model, (), kwargs={"input_ids": example}, options=disc.Options(cache=False))
        encode(fast, example)
        first_result = time.perf_counter() - start
        report = disc.report(fast).to_dict()
        stages = ", ".join(f"{name} {ms:.0f}" for name, ms in report["stages_ms"].items())
        print(f"first result after {first_result:.2f} s (ms: {stages})")
        print(
            f"{report['kernels']} kernels a call, for {report['target']}, {torch.get_num_threads()} threads\n"
        )

        print("length   disc ms  eager ms   ratio")
        worst, totals = 0.0, [0.0, 0.0]
        for length in LENGTHS:
            ids = torch.randint(0, 30000, (1, length))
            worst = max(worst, relative_error(encode(fast, ids), encode(model, ids)))
            calls = (lambda ids=ids: encode(fast, ids)), (lambda ids=ids: encode(model, ids))
            ours, eager = medians(*calls, arguments.repeats)
            totals[0] += ours
            totals[1] += eager
            print(f"{length:6d} {ours * 1e3:9.2f} {eager * 1e3:9.2f} {ours / eager:7.2f}", flush=True)
    compiles = disc.report(fast).to_dict()["compiles"]
    print(
        f"demo: compiles={compiles} lengths={len(LENGTHS)} max_rel_err={worst:.1e} "
        f"first_result_s={first_result:.1f} stream_ratio={totals[0] / totals[1]:.2f}"
    )
    return 0 if worst <= 1e-4 and compiles == 1 else 1


if __name__ == "__main__":
    sys.exit(main())
