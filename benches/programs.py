"""Writes the programs of the suites as text, for ``cargo xtask same-code -- --programs DIR``.

Nothing is compiled: the text is the result of capture and bridge for each case, all sizes dynamic.
"""

from __future__ import annotations

import argparse
import importlib
import re
from pathlib import Path

import torch
from disc.core import extension
from disc.torch.capture.capture import capture
from disc.torch.lowering.graph import convert
from disc.torch.lowering.table import serves
from run import SUITES


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("folder", type=Path)
    folder = parser.parse_args().folder
    folder.mkdir(parents=True, exist_ok=True)
    for suite in SUITES:
        for case in importlib.import_module(suite).cases():
            built = extension.builder()
            with torch.no_grad():
                convert(capture(case.module, case.inputs(case.sizes[-1]), serves=serves), built)
            name = re.sub(r"[^a-z0-9]+", "_", f"{suite} {case.name}".lower()).strip("_")
            (folder / f"{name}.disc").write_text(built.as_text())


if __name__ == "__main__":
    main()
