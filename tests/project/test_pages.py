"""The code blocks of README.md and docs/guide: they run, and none escapes."""

from __future__ import annotations

import contextlib
import re

import disc
import pages
import pytest
import torch
from markdown_it import MarkdownIt

#: Languages of blocks. Rust is tested by rustdoc (crates/disc-ral/src/lib.rs), C and packages by
#: tests/packages/test_capi.py and tests/packages/test_rust_library.py; text is output.
LANGUAGES = {"python", "sh", "rust", "rust,no_run", "toml", "text", "json"}


def _name(page) -> str:
    return page.relative_to(pages.ROOT).as_posix()


@pytest.mark.fallback
@pytest.mark.parametrize("page", pages.PAGES, ids=_name)
def test_the_blocks_of_a_page_run(page, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("HF_HUB_OFFLINE", "1")
    monkeypatch.setenv("DISC_TESTS", str(pages.ROOT / "tests" / "support"))
    torch.manual_seed(0)
    for example in pages.parsed(page).examples():
        example.evaluate()


@pytest.mark.parametrize("page", pages.PAGES, ids=_name)
def test_every_block_has_a_language(page):
    """A block without one, or one that is only indented, would be seen by no test."""
    for token in MarkdownIt().parse(page.read_text(encoding="utf-8")):
        line = 1 + (token.map or [0])[0]
        assert token.type != "code_block", f"{page.name}:{line}: an indented block: use a fence"
        if token.type == "fence":
            assert token.info in LANGUAGES, f"{page.name}:{line}: a block of {token.info!r}"


def test_links_between_pages_lead_somewhere():
    every = [*pages.PAGES, *(pages.ROOT / "docs").glob("*.md"), *pages.ROOT.glob("*.md")]
    for page in every:
        text = re.sub(r"```.*?```|`[^`]*`", "", page.read_text(encoding="utf-8"), flags=re.DOTALL)
        for target in re.findall(r"\]\(([^)\s#]+)", text):
            if not re.match(r"[a-z]+:", target):
                assert (page.parent / target).exists(), f"{page.name}: {target}"


def test_the_api_page_has_every_public_name():
    text = (pages.ROOT / "docs" / "api.md").read_text(encoding="utf-8")
    assert sorted(re.findall(r"^::: disc\.(\w+)$", text, re.MULTILINE)) == sorted(disc.__all__)


def test_a_block_of_a_gpu_is_parsed_where_there_is_none(tmp_path, monkeypatch):
    monkeypatch.setattr(disc, "devices", lambda: ["cpu"], raising=False)
    page = tmp_path / "page.md"
    for code, fails in (("assert False", False), ("assert (", True)):
        page.write_text(f"# Page\n\n```python\n# on a GPU\n{code}\n```\n", encoding="utf-8")
        (example,) = pages.parsed(page).examples()
        with pytest.raises(SyntaxError) if fails else contextlib.nullcontext():
            example.evaluate()


def test_a_block_that_is_wrong_is_found(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    wrong = (
        "```python\nassert 1 == 2\n```",
        "```sh\nmake nothing\n```",
        "```sh\ndisc inspect none.discpkg\n```",
    )
    wrong = (*wrong, "```python\nassert 1 == 2\n# on a GPU\n```")
    for block in (*wrong, "```sh\nnothing --at-all\n```", "```sh\ndisc serve x --no-such\n```"):
        page = tmp_path / "page.md"
        page.write_text(f"# Page\n\n{block}\n", encoding="utf-8")
        (example,) = pages.parsed(page).examples()
        with pytest.raises(AssertionError):
            example.evaluate()
