"""Rules about lines of other libraries: the lines are there, and elsewhere a condition is kept."""

from __future__ import annotations

import os
import re
from pathlib import Path

import pytest
from disc.torch.capture import known_libraries
from disc.torch.capture.known_libraries import RULES, Rule

pytest.importorskip("transformers")


def lines_of(rule: Rule):
    """The places of the installed library where the rule's text is."""
    folder = Path(known_libraries._folder(rule.library))
    files = folder.rglob("*.py") if rule.file == "*" else [folder / rule.file]
    for file in files:
        for number, line in enumerate(file.read_text().splitlines(), 1):
            if re.search(rule.line, line):
                yield str(file), number


@pytest.mark.parametrize("rule", RULES, ids=lambda rule: rule.name)
def test_the_installed_version_is_known_and_still_has_the_line(rule):
    assert rule.holds
    assert rule.why
    places = list(lines_of(rule))
    assert places
    assert any(rule.matches(place) for place in places)


@pytest.mark.parametrize("rule", RULES, ids=lambda rule: rule.name)
def test_the_same_line_elsewhere_says_nothing(rule, tmp_path):
    file, number = next(lines_of(rule))
    copy = tmp_path / rule.library / os.path.basename(file)
    copy.parent.mkdir()
    copy.write_text(Path(file).read_text())
    assert not rule.matches((str(copy), number))
    assert not rule.matches((file, 1))
    assert not rule.matches(None)


@pytest.mark.parametrize("rule", RULES, ids=lambda rule: rule.name)
def test_another_version_or_the_switch_keeps_the_condition(rule, monkeypatch):
    place = next(place for place in lines_of(rule) if rule.matches(place))
    for version in ((0, 1), rule.versions[1], None):
        with monkeypatch.context() as m:
            m.setattr(known_libraries, "_version", lambda library, version=version: version)
            assert not rule.matches(place)
            assert rule.name not in known_libraries.in_force()
    monkeypatch.setenv("DISC_LIBRARY_RULES", "0")
    assert not rule.matches(place)
    assert known_libraries.in_force() == ()
