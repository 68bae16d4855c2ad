"""Executables out of the hand-written entries of ``entries.c``,
so that calls are tested apart from the compiler.
"""

from __future__ import annotations

import functools
import subprocess
import tempfile
from pathlib import Path

from disc import _disc


@functools.cache
def code() -> bytes:
    with tempfile.TemporaryDirectory() as folder:
        target = Path(folder) / "entries.so"
        source = Path(__file__).with_name("entries.c")
        header = Path(__file__).parents[2] / "crates" / "disc-abi" / "include"
        flags = ["-O1", "-shared", "-fPIC", "-nostdlib", f"-I{header}"]
        subprocess.run(["cc", *flags, "-o", target, source, "-lc"], check=True)
        return target.read_bytes()


def load(
    symbol: str, dtype: str = "f32", *, rank: int = 0, written: bool = False, weights=None, outputs=None
):
    """The entry with one input ``x`` of sizes D0, D1, ... (none with ``weights``),
    and one output of its type.
    """
    dims = [f"D{i}" for i in range(rank)]
    inputs = [] if weights else [{"name": "x", "dtype": dtype, "dims": dims, "written": written}]
    output = {"name": "y", "dtype": dtype, "dims": dims, "alias": 0 if written else None}
    site = {"code": "E0602", "op": "x", "template": "size {0}: 13 is not admitted", "dims": dims[:1]}
    metadata = {
        "entries": [{"name": symbol, "symbol": symbol, "inputs": inputs, "outputs": [output]}],
        "weights": [{"name": name, "dtype": dtype, "sizes": [2]} for name in weights or ()],
        "sites": [site],
    }
    return _disc.load_code(code(), metadata, weights, outputs=outputs)
