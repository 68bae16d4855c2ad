"""The time from ``disc.optimize`` to the first result: of a process that finds nothing on disk, and
of those after it.

Each process imports torch and builds the model before its clock starts; the cache is a folder of
its own, which goes away.
"""

from __future__ import annotations

import argparse
import json
import logging
import os
import subprocess
import sys
import tempfile
import time


def start(threads: int, cache: bool | str) -> dict:
    """In a process of its own: what the first result took, and where."""
    import bert
    import disc
    import torch

    torch.set_num_threads(threads)
    torch.manual_seed(0)
    model = bert.Encoder(**bert.BASE).eval()
    (ids,) = bert.ids(1, 128)
    with torch.no_grad():
        wanted = model(ids)
        before, clock = os.times(), time.perf_counter()
        fast = disc.optimize(model, ids, options=disc.Options(cache=cache))
        optimized = time.perf_counter()
        got = fast(ids)
        first, after = time.perf_counter(), os.times()
        fast(ids)
        second = time.perf_counter()
    torch.testing.assert_close(got, wanted, rtol=1e-4, atol=1e-4)
    report = disc.report(fast).to_dict()
    milliseconds = {
        "optimize": optimized - clock,
        "first call": first - optimized,
        "second call": second - first,
        "user": after.user - before.user,
        "system": after.system - before.system,
    }
    return {
        "cache": ", ".join(report["cache"][level] for level in ("capture", "code", "weights")),
        **{name: round(seconds * 1e3) for name, seconds in milliseconds.items()},
        **{name: round(ms) for name, ms in report["stages_ms"].items()},
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--again", type=int, default=3, help="processes that find everything on disk")
    parser.add_argument(
        "--no-weights", dest="weights", action="store_false", help="prepared weights are not kept"
    )
    parser.add_argument("--tree", action="store_true", help="print where the time of the first process went")
    parser.add_argument("--one", action="store_true", help=argparse.SUPPRESS)
    chosen = parser.parse_args()
    if chosen.one:
        if os.environ.pop("DISC_TREE", ""):
            logging.basicConfig(stream=sys.stderr, format="%(message)s")
            logging.getLogger("disc.compile").setLevel(logging.DEBUG)
        print(json.dumps(start(chosen.threads, True if chosen.weights else "code")))
        return
    with tempfile.TemporaryDirectory() as folder:
        env = {**os.environ, "DISC_CACHE": "1", "DISC_CACHE_DIR": os.path.join(folder, "disc")}
        command = [sys.executable, __file__, "--one", "--threads", str(chosen.threads)]
        command += ["--no-weights"] * (not chosen.weights)
        for turn in range(1 + chosen.again):
            env["DISC_TREE"] = "1" if chosen.tree and not turn else ""
            row = json.loads(subprocess.run(command, env=env, stdout=subprocess.PIPE, check=True).stdout)
            print("  ".join(f"{name} {value}" for name, value in row.items()), flush=True)


if __name__ == "__main__":
    main()
