"""Measures disc on a GPU, in three commands that each write a record of their own.

    python benches/gpu/run.py truth      # versions, ceilings, the corpus, compute-sanitizer
    python benches/gpu/run.py memory     # graphs that memory bounds, beside peers and a copy
    python benches/gpu/run.py models     # models on streams of shapes, beside peers
    python benches/gpu/run.py table benches/records/gpu-models-*.json --markdown

The wheel of disc and torch are all it needs; JAX, Triton and transformers are used where they are
installed. ``--device cpu`` runs the same code with small sizes: a test of the commands, no
measurement. README.md beside this file has the contents of the records.
"""

from __future__ import annotations

import sys
from pathlib import Path

HERE = Path(__file__).resolve().parent


def main() -> int:
    # The suites of the folder above are modules, and this folder is a package beside them.
    sys.path[:] = [str(HERE.parent), *(path for path in sys.path if Path(path).resolve() != HERE)]
    from gpu.commands import main as run

    return run(__doc__)


if __name__ == "__main__":
    sys.exit(main())
