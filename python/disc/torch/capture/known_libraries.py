"""Recognizes lines of torch and transformers whose questions about sizes change no result.

A rule is an entry of one table: the library and its versions, the file, the text of the line, and
why the condition of that line need not be kept. A line counts only in a file of the library, and in
a version for which the rule was read: elsewhere, and with ``DISC_LIBRARY_RULES=0``, the condition
is kept, which serves fewer sizes and is never wrong.
"""

from __future__ import annotations

import functools
import importlib.metadata
import importlib.util
import linecache
import os
import re
from dataclasses import dataclass

from ...core import environment
from ..symbolic.source_lines import TORCH, Place

#: Python code inside torch that branches like a model does.
MODEL_LIKE = (os.path.join(TORCH, "nn") + os.sep,)


@dataclass(frozen=True)
class Rule:
    """A line of a library.

    ``file`` is a path below the library's folder, ``*`` for any; ``line`` is searched in the line.
    """

    name: str
    library: str
    #: From the first version on, and below the second.
    versions: tuple[tuple[int, ...], tuple[int, ...]]
    file: str
    line: str
    why: str
    #: Lines further down, and a text that must be there.
    after: tuple[int, str] | None = None

    @property
    def holds(self) -> bool:
        """True if the installed version is one that the rule was read in."""
        version, (first, end) = _version(self.library), self.versions
        return version is not None and first <= version < end and environment.switch("DISC_LIBRARY_RULES")

    def matches(self, place: Place | None) -> bool:
        """Returns true if a place is the rule's line."""
        if place is None or not self.holds:
            return False
        folder = _folder(self.library)
        if folder is None or not place[0].startswith(folder + os.sep):
            return False
        if self.file != "*" and os.path.relpath(place[0], folder) != self.file:
            return False
        if re.search(self.line, linecache.getline(*place)) is None:
            return False
        return self.after is None or self.after[1] in linecache.getline(place[0], place[1] + self.after[0])


RESAMPLES_ALL = Rule(
    "resamples_all",
    "transformers",
    ((4, 48), (5, 24)),
    "*",
    r"num_patches == num_positions and height == width",
    "vision models keep embeddings of positions for images of the size that they were made for, and resample them to that very "
    "size else",
)
DROPPED_MASK = Rule(
    "dropped_mask",
    "transformers",
    ((4, 48), (5, 24)),
    "masking_utils.py",
    r"if padding_mask is not None and padding_mask\.shape\[-1\] > kv_length:",
    "a mask is cut to see what may be left out, and while a model is traced nothing is",
    after=(2, "padding_mask = padding_mask[:, mask_indices]"),
)
ONE_VALUE = Rule(
    "one_value",
    "torch",
    ((2, 7), (2, 16)),
    os.path.join("nn", "functional.py"),
    r"if size_prods == 1:",
    "one of the two sides is an error",
)
NOT_COMPILING = Rule(
    "not_compiling",
    "transformers",
    ((4, 48), (5, 24)),
    "*",
    r"q_length == 1 and not is_torchdynamo_compiling\(\)",
    "it is never taken while a model is traced",
)
CAUSAL_OF_ONE = Rule(
    "causal_of_one",
    "transformers",
    ((4, 48), (5, 24)),
    "*",
    r"is_causal = (query\.shape\[2\]|q_length) > 1 and ",
    "causal masking is switched off for one query: nothing changes where no attention is causal",
)
RULES = (RESAMPLES_ALL, DROPPED_MASK, ONE_VALUE, NOT_COMPILING, CAUSAL_OF_ONE)


def in_force() -> tuple[str, ...]:
    """The names of the rules that hold in this process: captures depend on them."""
    return tuple(rule.name for rule in RULES if rule.holds)


def resamples_all(place: Place | None) -> bool:
    """Returns true for a line that leaves out what changes nothing."""
    return RESAMPLES_ALL.matches(place)


def is_dropped(place: Place | None) -> bool:
    """Returns true for a line whose answer is never used while a model is traced."""
    return DROPPED_MASK.matches(place)


def is_harmless(place: Place | None, causal_free: bool) -> bool:
    """Returns true for branches whose two sides compute the same at length 0 and 1,
    or one of which is an error.
    """
    rules = (ONE_VALUE, NOT_COMPILING, *((CAUSAL_OF_ONE,) if causal_free else ()))
    return any(rule.matches(place) for rule in rules)


@functools.cache
def _version(library: str) -> tuple[int, ...] | None:
    try:
        found = importlib.metadata.distribution(library)
    except importlib.metadata.PackageNotFoundError:
        return None
    # The whole file, with a long description, takes milliseconds to read as a message.
    line = re.search(r"^Version: (.*)$", found.read_text("METADATA") or "", re.MULTILINE)
    text = line[1] if line is not None else found.version
    return tuple(int(part) for part in re.findall(r"\d+", text.partition("+")[0])[:3])


@functools.cache
def _folder(library: str) -> str | None:
    spec = importlib.util.find_spec(library)
    return os.path.dirname(spec.origin) if spec is not None and spec.origin is not None else None
