"""Starts the headless Chromium that looks at pages, if there is one on PATH."""

from __future__ import annotations

import contextlib
import shutil
import sys
from collections.abc import Iterator

from playwright.sync_api import Browser, sync_playwright


@contextlib.contextmanager
def chromium() -> Iterator[Browser | None]:
    """A browser; None, and a word about it, where none is installed."""
    path = shutil.which("chromium") or shutil.which("google-chrome")
    if path is None:
        print("no Chromium on PATH: the pages were not looked at", file=sys.stderr)
        yield None
        return
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=path, args=["--no-sandbox"])
        try:
            yield browser
        finally:
            browser.close()
