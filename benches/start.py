"""The time from ``disc.optimize`` to the first result: of a process that finds nothing on disk, and
of those after it.

    benches/start.py --model BERT-base --tree
    benches/start.py --record --libraries accelerate,scipy

Each process imports torch and builds the model before its clock starts; the cache is a folder of
its own, which goes away. With ``--libraries`` it imports these too, as programs do that have them
installed.
"""

from __future__ import annotations

import argparse
import importlib
import json
import logging
import os
import resource
import shlex
import subprocess
import sys
import tempfile
import time

STAGES = ("capture", "convert", "passes", "codegen", "link", "pack")


def start(name: str, threads: int, cache: bool | str, libraries: list[str]) -> dict:
    """Times the first result of a model and its stages, in milliseconds; once in a process."""
    import disc
    import torch
    from start_models import MODELS

    for library in libraries:
        importlib.import_module(library)
    torch.set_num_threads(threads)
    torch.manual_seed(0)
    model, inputs = MODELS[name].build().eval(), MODELS[name].inputs()
    with torch.no_grad():
        wanted = model(*inputs)
        clock = time.perf_counter()
        model(*inputs)
        eager = time.perf_counter() - clock
        before, clock = os.times(), time.perf_counter()
        fast = disc.optimize(model, inputs, options=disc.Options(cache=cache))
        optimized = time.perf_counter()
        got = fast(*inputs)
        first, after = time.perf_counter(), os.times()
        fast(*inputs)
        second = time.perf_counter()
    torch.testing.assert_close(got, wanted, rtol=1e-3, atol=1e-3)
    report = disc.report(fast).to_dict()
    milliseconds = {
        "first result": first - clock,
        "optimize": optimized - clock,
        "first call": first - optimized,
        "second call": second - first,
        "eager": eager,
        "user": after.user - before.user,
        "system": after.system - before.system,
    }
    return {
        "model": name,
        "cache": ", ".join(report["cache"][level] for level in ("capture", "code", "weights")),
        **{name: round(seconds * 1e3) for name, seconds in milliseconds.items()},
        **{name: round(report["stages_ms"].get(name, 0)) for name in STAGES},
        "peak MiB": resource.getrusage(resource.RUSAGE_SELF).ru_maxrss >> 10,
    }


def processes(name: str, options: argparse.Namespace) -> list[dict]:
    """The rows of one process after another that share a cache."""
    rows = []
    with tempfile.TemporaryDirectory() as folder:
        env = {**os.environ, "DISC_CACHE": "1", "DISC_CACHE_DIR": os.path.join(folder, "disc")}
        command = [sys.executable, __file__, "--one", "--model", name, "--threads", str(options.threads)]
        command += ["--libraries", options.libraries] + ["--no-weights"] * (not options.weights)
        for turn in range(1 + options.again):
            env["DISC_TREE"] = "1" if options.tree and not turn else ""
            done = subprocess.run([*shlex.split(options.under), *command], env=env, stdout=subprocess.PIPE)
            if done.returncode:
                print(f"{name}: status {done.returncode}", flush=True)
                break
            rows.append(json.loads(done.stdout))
            print("  ".join(f"{field} {value}" for field, value in rows[-1].items()), flush=True)
    return rows


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--model", default="", help="models whose name contains this; default: all ten")
    parser.add_argument("--threads", type=int, default=1)
    parser.add_argument("--again", type=int, default=2, help="processes that find everything on disk")
    parser.add_argument(
        "--no-weights", dest="weights", action="store_false", help="prepared weights are not kept"
    )
    parser.add_argument("--libraries", default="", help="libraries that each process imports")
    parser.add_argument(
        "--under", default="", help="a command that runs each process, such as `taskset -c 0`"
    )
    parser.add_argument("--tree", action="store_true", help="print where the time of the first process went")
    parser.add_argument("--record", action="store_true", help="write what was measured to benches/records")
    parser.add_argument("--one", action="store_true", help=argparse.SUPPRESS)
    options = parser.parse_args()
    libraries = [name for name in options.libraries.split(",") if name]
    if options.one:
        if os.environ.pop("DISC_TREE", ""):
            logging.basicConfig(stream=sys.stderr, format="%(message)s")
            logging.getLogger("disc.compile").setLevel(logging.DEBUG)
        cache = True if options.weights else "code"
        print(json.dumps(start(options.model, options.threads, cache, libraries)))
        return
    from start_models import MODELS

    record = None
    if options.record:
        from record import Record

        record = Record(shlex.join(["benches/start.py", *sys.argv[1:]]))
    rows = [row for name in MODELS if options.model in name for row in processes(name, options)]
    if record is not None:
        fields = ("cache", "first result", "eager", *STAGES, "peak MiB")
        lines = [*record.head(), "", f"{'ms':<18}" + "".join(f"{field:>16}" for field in fields)]
        for row in rows:
            lines.append(f"{row['model']:<18}" + "".join(f"{row[field]:>16}" for field in fields))
        record.save("start", rows, lines)


if __name__ == "__main__":
    main()
