"""Looks at every page of the built site in a headless browser: none may be wider than its window.

usage: python scripts/check_site.py SITE SCREENSHOTS

Writes pictures of some at the width of a desk and of a telephone. Needs Chromium on PATH.
"""

from __future__ import annotations

import functools
import http.server
import sys
import threading
from pathlib import Path

from browser import chromium

#: Pages of which there is a picture.
PAGES = (
    "index",
    "api",
    "guide/errors",
    "guide/coming_from",
    "performance/cpu",
    "coverage-torch",
    "guide/matrix",
)
WIDTHS = {"desk": 1280, "telephone": 390}


class Quiet(http.server.SimpleHTTPRequestHandler):
    def log_message(self, *args) -> None:
        """Says nothing."""


def main(site: Path, pictures: Path) -> int:
    handler = functools.partial(Quiet, directory=str(site))
    server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), handler)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    pictures.mkdir(parents=True, exist_ok=True)
    every = sorted(path.relative_to(site).with_suffix("").as_posix() for path in site.rglob("*.html"))
    faults = []
    with chromium() as browser:
        if browser is None:
            return 0
        for kind, width in WIDTHS.items():
            tab = browser.new_page(viewport={"width": width, "height": 900})
            asked: list[str] = []
            tab.on("request", lambda request, asked=asked: asked.append(request.url))
            for name in every:
                tab.goto(f"http://127.0.0.1:{server.server_port}/{name}.html")
                if name in PAGES:
                    tab.screenshot(path=pictures / f"{name.replace('/', '-')}-{kind}.png")
                wide = tab.evaluate(
                    "document.documentElement.scrollWidth - document.documentElement.clientWidth"
                )
                if wide > 0:
                    faults.append(f"{name}.html is {wide} pixels wider than a window of {width}")
            faults += [
                f"a page asks for {url}" for url in asked if "//127.0.0.1" not in url and "data:" not in url
            ]
    server.shutdown()
    print("\n".join(faults) or f"{len(every)} pages at {len(WIDTHS)} widths: fine; pictures in {pictures}")
    return 1 if faults else 0


if __name__ == "__main__":
    sys.exit(main(Path(sys.argv[1]), Path(sys.argv[2])))
