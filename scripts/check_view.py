"""Looks at the page of ``disc view`` in a headless browser: zoom and search work, and it is small.

usage: python scripts/check_view.py FOLDER

Writes the page of a small encoder, and a picture of it, to the folder. Needs Chromium on PATH.
"""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import disc
import torch
from browser import chromium
from playwright.sync_api import Page
from transformers import BertConfig, BertModel

#: A page has to be smaller: it is sent by mail.
MOST_BYTES = 2 << 20
COMMAND = [sys.executable, "-c", "import sys; from disc.core.cli import disc; sys.exit(disc())"]


def written(folder: Path) -> Path:
    """The page of an encoder of two layers."""
    sizes = {"hidden_size": 64, "num_hidden_layers": 2, "num_attention_heads": 4, "intermediate_size": 128}
    model = BertModel(BertConfig(vocab_size=100, **sizes)).eval()
    package = folder / "encoder.discpkg"
    disc.export(model, torch.randint(0, 100, (2, 7)), package)
    page = folder / "view.html"
    subprocess.run([*COMMAND, "view", package, "-o", page], check=True)
    return page


def faults(tab: Page) -> list[str]:
    """Tries zoom and search on the page; says what does not work."""
    found = []
    groups = tab.locator("g.group")
    before = groups.first.bounding_box()
    tab.locator(".graph svg").first.hover()
    tab.mouse.wheel(0, -600)
    tab.wait_for_timeout(300)
    if groups.first.bounding_box() == before:
        found.append("the wheel does not zoom")
    tab.fill("#search", "exponential")
    hits = tab.locator("g.group.found").count()
    if not 0 < hits < groups.count():
        found.append(f"a search finds {hits} of {groups.count()} groups")
    tab.fill("#search", "")
    if tab.locator("body.searched").count():
        found.append("an empty search hides something")
    tab.locator("#kernels summary").first.click()
    if "kernel @" not in tab.locator("pre.kernel").first.inner_text():
        found.append("the text of a kernel is not there")
    wide = tab.evaluate("document.documentElement.scrollWidth - document.documentElement.clientWidth")
    return found + [f"it is {wide} pixels too wide"] * (wide > 0)


def main(folder: Path) -> int:
    folder.mkdir(parents=True, exist_ok=True)
    page = written(folder)
    with chromium() as browser:
        if browser is None:
            return 0
        tab = browser.new_page(viewport={"width": 1280, "height": 900})
        errors: list[str] = []
        tab.on("pageerror", lambda error: errors.append(f"a script fails: {error}"))
        tab.goto(page.absolute().as_uri())
        tab.screenshot(path=folder / "view.png")
        wrong = faults(tab) + errors
    size = page.stat().st_size
    wrong += [f"it has {size} bytes, {MOST_BYTES} are the limit"] * (size > MOST_BYTES)
    print("\n".join(wrong) or f"the page of an encoder: {size} bytes, zoom and search work")
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main(Path(sys.argv[1])))
