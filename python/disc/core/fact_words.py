"""Says conditions on sizes in words: ``max(0, n - max(0, n - 64)) < 64`` is "n is at most 63".

A condition is tried on sizes: the small ones, those near its numbers, and large ones. It has words
if these say the same of each size that was tried.
"""

from __future__ import annotations

import functools
import re
from collections.abc import Callable, Iterable, Iterator, Sequence
from itertools import pairwise, product
from typing import NamedTuple

from . import extension
from .errors import Error

#: Returns None for sizes at which a condition has no answer.
Holds = Callable[..., "bool | None"]
#: All sizes up to this one are tried, and of conditions on two sizes all pairs up to the other.
_SMALL, _SMALL_OF_TWO = 512, 40
#: A divisor that is no number of the condition is at most this one.
_MOST_DIVISOR = 128
#: Numbers of a condition beyond so many are not looked at.
_MOST_NUMBERS = 6


class Words(NamedTuple):
    """The subject of a condition, and what has to be true of it: "n", "at most 63"."""

    subject: str
    predicate: str

    def __str__(self) -> str:
        return f"{self.subject} is {self.predicate}"

    def needed(self) -> str:
        """The words after "the module needs"."""
        return f"{self.subject} to be {self.predicate}"


def in_words(text: str, facts: Iterable[str] = ()) -> str:
    """A fact of the compiler for a report, beside other ``facts``: in words, if it is computed and
    there are some.

    >>> in_words("max(0, n - max(0, n - 64)) < 64")
    'n is at most 63'
    >>> in_words("n <= 63")
    'n <= 63'
    """
    words = of_fact(text, facts) if is_computed(text) else None
    return text if words is None else str(words)


def is_computed(text: str) -> bool:
    """Returns true for a condition that nobody would declare like this."""
    return any(part in text for part in "/(*+-")


def of_fact(text: str, facts: Iterable[str] = ()) -> Words | None:
    """The words for a fact of the compiler, as far as the other ``facts`` hold."""
    return _of_fact(text, ()) or _of_fact(text, tuple(other for other in facts if other != text))


@functools.lru_cache(maxsize=1024)
def _of_fact(text: str, others: tuple[str, ...]) -> Words | None:
    if (fact := _parsed(text)) is None:
        return None
    names = fact.symbols()
    around = [other for other in filter(None, map(_parsed, others)) if set(other.symbols()) <= set(names)]
    if others and not around:
        return None

    def holds(*sizes: int) -> bool | None:
        values = dict(zip(names, sizes, strict=True))
        return fact.holds(values) if all(other.holds(values) for other in around) else None

    return of_condition(names, holds, " ".join([text, *map(str, around)]))


def _parsed(text: str):
    """A fact of the compiler; None for a condition that it has no form for."""
    try:
        return extension.fact(text)
    except Error:
        return None


def of_condition(names: Sequence[str], holds: Holds, text: str) -> Words | None:
    """The words for a condition on named sizes, in whose ``text`` its numbers are; ``holds`` takes
    a size for each name.
    """
    numbers = sorted({int(number) for number in re.findall(r"(?<![\w.])\d+", text)})[-_MOST_NUMBERS:]
    if len(names) == 1:
        predicate = _predicate(holds, numbers)
        return None if predicate is None else Words(names[0], predicate)
    return _of_two(names, holds, numbers) if len(names) == 2 else None


def _predicate(holds: Holds, numbers: Sequence[int]) -> str | None:
    tried = {size: answer for size in _sizes(numbers) if (answer := holds(size)) is not None}
    good = [size for size, answer in tried.items() if answer]
    bad = [size for size, answer in tried.items() if not answer]
    if not good or not bad:
        return None
    return _one_value(good, bad) or _range(tried, holds) or _multiple(tried, numbers)


def _sizes(numbers: Sequence[int]) -> list[int]:
    """The sizes that are tried, in order."""
    near = [
        0,
        *numbers,
        *(a + b for a in numbers for b in numbers),
        *(abs(a - b) for a in numbers for b in numbers),
    ]
    near += [a * b for a in numbers for b in numbers] + [1 << power for power in range(10, 31, 4)]
    around = {size + step for size in near for step in range(-2, 3)}
    return sorted({*range(_SMALL), *(size for size in around if 0 <= size < 1 << 31)})


def _one_value(good: Sequence[int], bad: Sequence[int]) -> str | None:
    if len(good) == 1:
        return str(good[0])
    if len(bad) == 1:
        return f"not {bad[0]}" if bad[0] else "at least 1"
    return None


def _range(tried: dict[int, bool], holds: Holds) -> str | None:
    """Words for sizes between two bounds, of which there may be one."""
    changes = [(a, b) for a, b in pairwise(tried) if tried[a] != tried[b]]
    rises = [pair for pair in changes if tried[pair[1]]]
    falls = [pair for pair in changes if tried[pair[0]]]
    if len(rises) > 1 or len(falls) > 1 or (rises and falls and falls < rises):
        return None
    least = _bisected(*rises[0], holds)[1] if rises else None
    most = _bisected(*falls[0], holds)[0] if falls else None
    if least is None or most is None:
        return f"at least {least}" if most is None else f"at most {most}"
    return f"between {least} and {most}"


def _bisected(below: int, above: int, holds: Holds) -> tuple[int, int]:
    """The two sizes between which a condition changes."""
    first = holds(below)
    while above - below > 1:
        middle = (below + above) // 2
        below, above = (middle, above) if holds(middle) == first else (below, middle)
    return below, above


def _multiple(tried: dict[int, bool], numbers: Sequence[int]) -> str | None:
    """Words for sizes that have one remainder."""
    for divisor in [*range(2, _MOST_DIVISOR + 1), *(n for n in numbers if n > _MOST_DIVISOR)]:
        rest = next(size for size, answer in tried.items() if answer) % divisor
        if all(answer == (size % divisor == rest) for size, answer in tried.items()):
            if divisor == 2:
                return "odd" if rest else "even"
            return f"{rest} more than a multiple of {divisor}" if rest else f"a multiple of {divisor}"
    return None


def _of_two(names: Sequence[str], holds: Holds, numbers: Sequence[int]) -> Words | None:
    sizes = sorted(
        {*range(_SMALL_OF_TWO), *(n + step for n in numbers for step in (-1, 0, 1) if 0 < n < 1 << 15)}
    )
    tried = {
        pair: answer for pair in product(sizes, sizes) if (answer := holds(*pair)) is not None
    }  # fmt: skip
    if len(set(tried.values())) < 2:
        return None
    for words, is_so in _relations(*names, numbers):
        if all(answer == is_so(*pair) for pair, answer in tried.items()):
            return words
    return None


def _relations(a: str, b: str, numbers: Iterable[int]) -> Iterator[tuple[Words, Callable[[int, int], bool]]]:
    """Words for two sizes, and the condition that they stand for."""
    yield Words(a, b), lambda x, y: x == y
    yield Words(a, f"not {b}"), lambda x, y: x != y
    yield Words(a, f"at most {b}"), lambda x, y: x <= y
    yield Words(a, f"at least {b}"), lambda x, y: x >= y
    yield Words(a, f"less than {b}"), lambda x, y: x < y
    yield Words(a, f"more than {b}"), lambda x, y: x > y
    both, all_of = f"{a} plus {b}", f"{a} times {b}"
    for n in (n for n in numbers if n > 1):
        yield Words(a, f"{n} times {b}"), lambda x, y, n=n: x == n * y
        yield Words(b, f"{n} times {a}"), lambda x, y, n=n: y == n * x
        for subject, value in ((both, int.__add__), (all_of, int.__mul__)):
            yield Words(subject, str(n)), lambda x, y, n=n, of=value: of(x, y) == n
            yield Words(subject, f"at most {n}"), lambda x, y, n=n, of=value: of(x, y) <= n
            yield Words(subject, f"at most {n - 1}"), lambda x, y, n=n, of=value: of(x, y) < n
            yield Words(subject, f"at least {n}"), lambda x, y, n=n, of=value: of(x, y) >= n
            yield Words(subject, f"a multiple of {n}"), lambda x, y, n=n, of=value: of(x, y) % n == 0
