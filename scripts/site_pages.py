"""Adds the pages of the root and the files that pages link to, to the documentation site.

A hook of mkdocs. Pages are written for readers of the repository, so their links lead to files of
the repository; here each becomes a link between pages of the site:

- README.md is the first page, the other pages of the root are below project/;
- a source file or a folder that a page links to has a page of its own below source/.
"""

from __future__ import annotations

import posixpath
import re
from collections.abc import Iterator
from pathlib import Path

from mkdocs.config.defaults import MkDocsConfig
from mkdocs.structure.files import File, Files
from mkdocs.structure.pages import Page

ROOT = Path(__file__).parent.parent
#: A link of Markdown: text, target, anchor. Code is passed over.
LINK = re.compile(r"(`+)(?:.|\n)*?\1|(?P<text>!?\[[^\]]*\])\((?P<target>[^)\s#]*)(?P<anchor>#[^)\s]*)?\)")
FENCES = re.compile(r"^(```|~~~).*?^\1", re.MULTILINE | re.DOTALL)


def place(path: str) -> str:
    """The site's path of a file of the repository, if it is a page or is in docs/."""
    if path == "README.md":
        return "index.md"
    if path.startswith("docs/"):
        inside = path.removeprefix("docs/")
        return f"{inside}/index.md" if (ROOT / path).is_dir() else inside
    if "/" not in path and path.endswith(".md"):
        return f"project/{path.lower()}"
    return f"source/{path}.md"


def home(site_path: str) -> str:
    """The repository's path of a page of the site."""
    if site_path == "index.md":
        return "README.md"
    if site_path.startswith("project/"):
        name = site_path.removeprefix("project/").removesuffix(".md")
        return f"{name.upper()}.md"
    return f"docs/{site_path}"


def targets(path: str, text: str) -> Iterator[str]:
    """The files of the repository that a page links to."""
    for link in LINK.finditer(FENCES.sub("", text)):
        if target := _inside(path, link["target"]):
            yield target


def _inside(path: str, target: str | None) -> str | None:
    """The path that a relative link means; None for other links."""
    if not target or re.match(r"[a-z]+:|/", target):
        return None
    return posixpath.normpath(posixpath.join(posixpath.dirname(path), target))


def on_files(files: Files, config: MkDocsConfig) -> Files:
    pages = {path.name: path.read_text(encoding="utf-8") for path in sorted(ROOT.glob("*.md"))}
    for path, text in pages.items():
        files.append(File.generated(config, place(path), content=text))
    docs = {home(file.src_uri): file.content_string for file in files.documentation_pages()}
    linked = {target for path, text in docs.items() for target in targets(path, text)}
    for path in sorted(linked):
        site_path = place(path)
        if (ROOT / path).exists() and files.get_file_from_path(site_path) is None:
            files.append(File.generated(config, site_path, content=shown(path)))
    return files


def shown(path: str) -> str:
    """A page that shows a source file, or lists a folder."""
    file = ROOT / path
    if not file.is_dir():
        text = file.read_text(encoding="utf-8")
        language = {".rs": "rust", ".py": "python", ".c": "c"}.get(file.suffix, "text")
        return f"# {path}\n\n````{language}\n{text.rstrip()}\n````\n"
    rows = [f"# {path}\n"]
    for inside in sorted(file.iterdir()):
        if inside.suffix == ".md" and path.startswith("docs/"):
            title = inside.read_text(encoding="utf-8").split("\n", 1)[0].lstrip("# ")
            rows.append(f"- [{title}]({inside.name})")
        elif inside.name != "generated":
            rows.append(f"- `{inside.name}`")
    return "\n".join(rows) + "\n"


def on_page_markdown(markdown: str, page: Page, config: MkDocsConfig, files: Files) -> str:
    site_path = page.file.src_uri
    if site_path.startswith("source/"):
        return markdown
    kept: list[str] = []

    def keep(fence: re.Match) -> str:
        kept.append(fence[0])
        return f"\0{len(kept) - 1}\0"

    def rewrite(link: re.Match) -> str:
        target = _inside(home(site_path), link["target"])
        if target is None:
            return link[0]
        to = posixpath.relpath(place(target), posixpath.dirname(site_path) or ".")
        return f"{link['text']}({to}{link['anchor'] or ''})"

    text = LINK.sub(rewrite, FENCES.sub(keep, markdown))
    return re.sub("\0(\\d+)\0", lambda at: kept[int(at[1])], text)
