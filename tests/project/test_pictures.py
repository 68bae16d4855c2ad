"""The pictures of docs/images are those that scripts/pictures.py draws."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).parents[2]
IMAGES = ROOT / "docs" / "images"


def _drawing(path: Path) -> str:
    return re.sub(r"<metadata>.*?</metadata>", "", path.read_text(encoding="utf-8"), flags=re.DOTALL)


def test_the_pictures_are_fresh(tmp_path):
    """`make charts` draws them again."""
    subprocess.run([sys.executable, ROOT / "scripts" / "pictures.py", tmp_path], check=True)
    drawn = sorted(path.name for path in tmp_path.iterdir())
    assert drawn == sorted(path.name for path in IMAGES.glob("*.svg"))
    for name in drawn:
        assert _drawing(tmp_path / name) == _drawing(IMAGES / name), f"{name}: run `make charts`"
