"""Chooses the sizes that the example gets for capture.

torch.export specialises a dimension of size 0 or 1, and a branch of the model may take equal sizes
for a law. So the model is captured with sizes of our choice: at least 2, the user's own where
possible, and different for dimensions that nobody called equal.

A *class* is a set of axes that get one size: axes with one declared name, or axes with one example
size in different tensors (the k-th axis of that size in each). When the model refuses a choice, a
class is split into one for each tensor, classes are merged, or pinned to the user's size.
"""

from __future__ import annotations

import functools
import itertools
import math
import re
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field, replace

import sympy

from ...core.dims import Dim, DimPlan
from ..symbolic.expressions import axis_symbol
from ..symbolic.guard_functions import function_of

#: An input and an axis.
Place = tuple[int, int]

#: Sizes that models rarely contain or compute: those that meet one by accident look equal to it.
_FRESH = (11, 13, 17, 19, 23, 29, 31, 37, 41, 43, 47, 53, 59, 61, 67, 71, 73, 79)
_MOST_FRESH = 1000
#: So many sizes of a class are tried for a condition.
_MOST_TRIED = 120

_MAX_TRIED = 3

#: The sizes that disagree, in a message that lists whole shapes before them.
_DISAGREEING = re.compile(r"to have \w+ channels, but got \w+ channels")

#: Numbers that are no sizes.
_PLACES = re.compile(r"(?:dim(?:ension)?s?|axis|index|argument|input|batch|tensor) #?\d+|\b\d+D\b")

#: So many tensors of one shape are alike (the caches of all layers): one after the other would take
#: an attempt each.
_ALIKE = 4


@dataclass
class SizeClass:
    user: int
    members: list[tuple[int, int]]
    declared: Dim | None = None
    pinned: bool = False
    size: int = 0
    #: Nobody called the sizes of its tensors equal but the example.
    loose: bool = True
    #: Sizes that were chosen before, and made the model take another way than for the user's.
    tried: set[int] = field(default_factory=set)
    #: No other size than the user's takes the user's way, even if it is another class's size too.
    own: bool = False

    @property
    def changed(self) -> bool:
        return self.size != self.user

    @property
    def fixed(self) -> bool:
        """The model accepts nothing but the user's 0 or 1 here."""
        return self.pinned and self.user < 2


class Sizes:
    """The sizes of one capture attempt.

    ``relax`` makes the next attempt out of an error of torch.export.
    """

    def __init__(self, plan: DimPlan, shapes: Sequence[Sequence[int]]):
        self.plan = plan
        self.shapes = [tuple(int(s) for s in shape) for shape in shapes]
        self.classes = self._partition()
        #: The line of the model that keeps an axis at one size.
        self.places: dict[tuple[int, int], tuple[str, int]] = {}
        #: Axes that the model wants to have the size of an earlier one, as far as it was traced.
        self.same_as: dict[tuple[int, int], tuple[int, int]] = {}
        #: Axes whose sizes of our choice add up where those of the example do.
        self._sums: set[tuple[int, int]] = set()
        #: Axes whose sizes come of others: multiples of these, a factor, and what both are
        #: together.
        self._related: dict[tuple[int, int], tuple[dict[tuple[int, int], int], int, int]] = {}
        #: Conditions that the chosen sizes have to satisfy, in symbols of axes; those that they had
        #: better satisfy; and all that were ever asked for.
        self._conditions: list[sympy.Basic] = []
        self._preferred: list[sympy.Basic] = []
        self._asked_for: set[sympy.Basic] = set()
        #: Expressions that are 1 in the example, and are taken for 1.
        self.ones: frozenset[sympy.Basic] = frozenset()
        #: The axes of the two classes that were merged last, and what to try where that is refused
        #: too.
        self._pair: set[tuple[int, int]] = set()
        self._instead: list[list[SizeClass]] = []
        self._choose()

    def _partition(self) -> list[SizeClass]:
        classes: dict[object, SizeClass] = {}
        for t, row in enumerate(self.plan.axes):
            seen: dict[int, int] = {}
            for axis, what in enumerate(row):
                size = self.shapes[t][axis]
                if isinstance(what, int):
                    continue
                key: object = what.name if what else (size, seen.get(size, 0))
                if what is None:
                    seen[size] = seen.get(size, 0) + 1
                found = classes.setdefault(key, SizeClass(size, [], what))
                found.members.append((t, axis))
        return list(classes.values())

    def _choose(self) -> None:
        taken = {
            size
            for row, shape in zip(self.plan.axes, self.shapes, strict=True)
            for what, size in zip(row, shape, strict=True)
            if isinstance(what, int)
        }
        # The user's own sizes go first: a fresh size never takes one of them away.
        for c in sorted(self.classes, key=lambda c: (not (c.pinned or c.own), c.user < 2)):
            c.size = (
                c.user
                if c.pinned or c.own or (c.user >= 2 and c.user not in taken)
                else self._fresh(c, taken)
            )
            taken.add(c.size)
        if self._sums:
            self._keep_sums()
        self._keep_related()
        self._keep_conditions()

    def _keep_sums(self) -> None:
        """Keeps sums of the example: 1 + n in one place (keys: one new,
        n held) is a sum of the chosen sizes too.
        """
        meant = [c for c in self.classes if self._sums & set(c.members)]
        for one in [c for c in meant if c.user == 1 and c.changed][-1:]:
            # In order: a sum may be what another one begins with.
            for held in sorted((c for c in meant if c.user >= 1 and c is not one), key=lambda c: c.user):
                for total in [c for c in meant if c.user == held.user + 1 and not c.pinned]:
                    total.size = held.size + one.size

    def _fresh(self, c: SizeClass, taken: set[int]) -> int:
        return next(
            (size for size in self._candidates(c) if size not in taken and size not in c.tried), c.user
        )

    @staticmethod
    def _candidates(c: SizeClass, alike: bool = False) -> Iterator[int]:
        """Sizes that may stand for that of a class, the best first."""
        step = c.declared.multiple_of if c.declared else 1
        low = max(c.declared.min if c.declared else 0, 2)
        high = c.declared.max if c.declared and c.declared.max is not None else math.inf
        near = [c.user - step, c.user + step, c.user - 2 * step, c.user + 2 * step] if c.user >= 4 else []
        # A neighbour may change divisibility: a multiple divides as the user's size does.
        multiples = [2 * c.user, 3 * c.user, 4 * c.user] if c.tried or alike else []
        # Small numbers come last: messages name axes by them.
        more = () if c.declared else range(_FRESH[-1] + 2, _MOST_FRESH, 2)
        for size in [*multiples, *near, *(p * step for p in _FRESH), *range(low, low + 64 * step), *more]:
            if low <= size <= high and size % step == 0:
                yield size

    def _keep_conditions(self) -> None:
        """Changes sizes until the conditions hold, but for those that contradict others."""
        kept: list[Callable[[dict], bool]] = []
        for condition in (*self._conditions, *self._preferred):
            kept.append(_holding(condition))
            if not self._satisfy(condition, kept):
                kept.pop()

    def _satisfy(self, condition: sympy.Basic, kept: list[Callable[[dict], bool]]) -> bool:
        """Changes the size of one class, or of two, so that all of ``kept`` hold."""
        sizes = self.chosen()

        def holds(*changes: tuple[SizeClass, int]) -> bool:
            trial = dict(sizes)
            for c, size in changes:
                trial.update((axis_symbol(*place), size) for place in c.members)
            return all(f(trial) for f in kept)

        if holds():
            return True
        places = [place_of(s) for s in sorted(condition.free_symbols, key=str)]
        met = {id(c): c for place in places if (c := self.class_of(*place)) is not None}
        free = sorted((c for c in met.values() if not c.pinned and not c.own), key=lambda c: c.user >= 2)
        taken = {c.size for c in self.classes}
        tried = {
            id(c): [n for n in itertools.islice(self._candidates(c, True), _MOST_TRIED) if n not in taken]
            for c in free
        }
        for c in free:
            for size in tried[id(c)]:
                if holds((c, size)):
                    c.size = size
                    return True
        for a, b in itertools.permutations(free, 2):
            for one, other in itertools.product(tried[id(b)][:20], tried[id(a)]):
                if one != other and holds((b, one), (a, other)):
                    b.size, a.size = one, other
                    return True
        return False

    def chosen(self) -> dict[sympy.Symbol, int]:
        """The size of each axis in this attempt, by its symbol."""
        shapes = self.capture_shapes()
        return {
            axis_symbol(t, axis): size for t, shape in enumerate(shapes) for axis, size in enumerate(shape)
        }

    def require(self, condition: sympy.Basic) -> bool:
        """Chooses sizes that satisfy a condition; False if that changes none."""
        return self._ask(condition, self._conditions)

    def prefer(self, condition: sympy.Basic) -> bool:
        """Chooses sizes that satisfy a condition, if other conditions leave some."""
        return self._ask(condition, self._preferred)

    def _ask(self, condition: sympy.Basic, conditions: list[sympy.Basic]) -> bool:
        if condition in self._asked_for:
            return False
        self._asked_for.add(condition)
        before = self.capture_shapes()
        conditions.append(condition)
        self._choose()
        if self.capture_shapes() != before and _holding(condition)(self.chosen()):
            return True
        # Other classes may satisfy it.
        self._asked_for.discard(condition)
        conditions.remove(condition)
        self._choose()
        return False

    def keep_example(self) -> bool:
        """Keeps the sizes of the example wherever nobody declared another; False if they are
        kept.
        """
        before = self.capture_shapes()
        for c in self.classes:
            c.own = c.user >= 2 or c.own
            c.pinned |= c.user < 2 and c.declared is None
        self._conditions, self._preferred = [], []
        self._choose()
        return self.capture_shapes() != before

    def drop_preferences(self) -> bool:
        """Gives up what sizes had better satisfy; False if there is nothing to give up."""
        dropped, self._preferred = self._preferred, []
        before = self.capture_shapes()
        self._choose()
        return bool(dropped) and self.capture_shapes() != before

    def take_for_one(self, expr: sympy.Basic) -> bool:
        """Takes an expression for 1 from here on; False if it is already."""
        if expr in self.ones:
            return False
        self.ones |= {expr}
        return True

    def pin_all(self, places: list[Place]) -> bool:
        """Keeps the user's sizes on axes; False if they have them already."""
        if not sum(self.pin(*place) for place in places):
            return False
        self._pin_alike()
        self._choose()
        return True

    def unite(self, a: list[Place], b: list[Place]) -> bool:
        """Gives axes that have one size in the example one size of our choice.

        Those that are known to be equal to one of them go with it; the smaller part of a class
        leaves it.
        """
        if (pair := self._parted(a)) is None or (other := self._parted(b)) is None:
            return False
        if any(c.pinned for c in (pair[0], other[0])):
            return self.pin_all([*a, *b])
        if pair[0] is other[0] or (pair[0].declared and other[0].declared):
            return False
        self._instead = []
        # A class follows if no tensor is in both.
        (left, moved), (right, also) = sorted((pair, other), key=lambda of: len(of[0].members) - len(of[1]))
        tensors = {t for t, _ in moved}
        if not tensors & {t for t, _ in right.members}:
            also = list(right.members)
        first, second = self._taken_out(left, moved), self._taken_out(right, also)
        self._merge(first, second)
        self._choose()
        return True

    def _parted(self, places: list[Place]) -> tuple[SizeClass, list[Place]] | None:
        """The class of axes, and which of its members move with them."""
        c = self.class_of(*places[0])
        if c is None:
            return None
        if c.declared:
            return c, list(c.members)
        moved = [place for place in places if place in c.members]
        for alike in self._alike().values():
            if len(alike) >= _ALIKE and set(alike) & set(moved):
                moved += [place for place in alike if place in c.members and place not in moved]
        return c, moved

    def _taken_out(self, c: SizeClass, places: list[Place]) -> SizeClass:
        if len(places) == len(c.members):
            return c
        c.members = [place for place in c.members if place not in places]
        part = SizeClass(c.user, list(places), None, c.pinned, tried=set(c.tried), loose=False)
        self.classes.append(part)
        return part

    def capture_shapes(self) -> list[tuple[int, ...]]:
        shapes = [list(shape) for shape in self.shapes]
        for c in self.classes:
            for t, axis in c.members:
                shapes[t][axis] = c.size
        return [tuple(shape) for shape in shapes]

    def dynamic(self, t: int, axis: int) -> bool:
        return any((t, axis) in c.members and not c.fixed for c in self.classes)

    def first(self, t: int, axis: int) -> tuple[int, int]:
        """The first axis of the size of this one."""
        return self.same_as.get((t, axis), (t, axis))

    def class_of(self, t: int, axis: int) -> SizeClass | None:
        return next((c for c in self.classes if (t, axis) in c.members), None)

    def relax(self, message: str, symbols: dict[str, tuple[int, int]]) -> bool:
        """Gives way where ``message`` points to; False when nothing is left to try.

        ``symbols`` says which input axis a symbol of the message is.
        """
        changed = [c for c in self.classes if c.changed and not c.pinned]
        if not changed:
            return False
        named = self._mentioned(message, symbols)
        if self._gives_up_merge(named) or self._pin_expected(message, symbols):
            return True
        suspects = [c for c in changed if any(c is n for n in named)]
        mixed = [c for c in suspects if c.loose and not c.declared and len(self._parts(c)) > 1]
        if mixed:
            for c in mixed:
                self._split(c)
        elif twins := _same_size(suspects, named):
            self._merge(*twins)
        elif _is_a_sum(named) and self.add_up({place for c in named for place in c.members}):
            return True
        elif suspects:
            for c in suspects:
                c.pinned = True
        else:
            changed[0].pinned = True
        self._pin_alike()
        self._choose()
        return True

    def _pin_expected(self, message: str, symbols: dict[str, tuple[int, int]]) -> bool:
        """Keeps a 0 or 1 that the model expects in a shape: "Expected (1, s0,
        7), got [s1, s2, 7]".
        """
        shapes = re.search(r"xpected.*?[\[(]([\w, ]+)[\])],? (?:but )?got [\[(]([\w, ]+)[\])]", message)
        expected, got = (re.findall(r"\w+", part) for part in shapes.groups()) if shapes else ([], [])
        if len(expected) != len(got):
            return False
        pairs = zip(expected, got, strict=True)
        wanted = [symbols[name] for size, name in pairs if size in ("0", "1") and name in symbols]
        kept = [self.pin(t, axis) for t, axis in wanted if self.shapes[t][axis] < 2]
        return any(kept)

    def _pin_alike(self) -> None:
        """Of many tensors of one shape (the caches of all layers) two have to keep an axis at 0 or
        1: so do all of them.
        """
        for places in self._alike().values():
            own = [self.class_of(*place) for place in places]
            if len(places) < _ALIKE or sum(c.fixed for c in own) < 2:
                continue
            for c in own:
                c.pinned |= c.user < 2 and c.declared is None and set(c.members) <= set(places)

    def _alike(self) -> dict[object, list[tuple[int, int]]]:
        """Axes of tensors of one shape."""
        alike: dict[object, list[tuple[int, int]]] = {}
        for c in self.classes:
            for t, axis in c.members:
                alike.setdefault((axis, self.shapes[t]), []).append((t, axis))
        return alike

    def pin(self, t: int, axis: int) -> bool:
        """Keeps the user's size on an axis that the model fixed; False if it already has it."""
        c = self.class_of(t, axis)
        if c is None or c.pinned:
            return False
        self._instead = []
        if len(c.members) > 1 and c.declared is None:
            c.members.remove((t, axis))
            self.classes.append(SizeClass(c.user, [(t, axis)], None, True))
        else:
            c.pinned = True
        self._choose()
        return True

    def choose_again(self, t: int, axis: int) -> bool:
        """Another size of our choice, at last the user's; False if it is the user's."""
        c = self.class_of(t, axis)
        if c is None or c.pinned or not c.changed or c.user < 2:
            return False
        self._instead = []
        before = [k.size for k in self.classes]
        c.tried.add(c.size)
        c.own = len(c.tried) > _MAX_TRIED
        self._choose()
        return before != [k.size for k in self.classes]

    def relate(
        self, place: tuple[int, int], others: dict[tuple[int, int], int], factor: int, offset: int
    ) -> bool:
        """Chooses the size of an axis for which ``factor`` times it and multiples of others are
        ``offset``, as in the example.
        """
        c = self.class_of(*place)
        if c is None or c.pinned or c.own or c.declared or place in self._related:
            return False
        self._related[place] = others, factor, offset
        before = c.size
        self._choose()
        return self.class_of(*place).size != before

    def _keep_related(self) -> None:
        for place, (others, factor, offset) in self._related.items():
            c = self.class_of(*place)
            owners = [self.class_of(*other) for other in others]
            if c is None or c.pinned or None in owners or any(o is c for o in owners):
                continue
            rest = sum(o.size * by for o, by in zip(owners, others.values(), strict=True))
            if (size := (offset - rest) * factor) >= 2:
                c.size = size

    def add_up(self, places: set[tuple[int, int]]) -> bool:
        """Chooses sizes of these axes that add up where the example's do;
        False if they do already.
        """
        if places <= self._sums:
            return False
        self._sums |= places
        self._instead = []
        before = [c.size for c in self.classes]
        self._choose()
        return before != [c.size for c in self.classes]

    def _mentioned(self, message: str, symbols: dict[str, tuple[int, int]]) -> list[SizeClass]:
        told = _DISAGREEING.search(message)
        words = set(re.findall(r"[A-Za-z_]\w*|\d+", told[0] if told else _PLACES.sub("", message)))
        hit = [c for name, place in symbols.items() if name in words and (c := self.class_of(*place))]
        hit += [c for c in self.classes if str(c.size) in words]
        return list({id(c): c for c in hit}.values())

    def _split(self, c: SizeClass) -> None:
        self.classes = [k for k in self.classes if k is not c]
        self.classes += [SizeClass(c.user, places, loose=False) for places in self._parts(c)]

    def _parts(self, c: SizeClass) -> list[list[tuple[int, int]]]:
        """The axes of a class for each tensor; many tensors of one shape stay together,
        unless the size may become fixed.
        """
        alike: dict[object, list[tuple[int, int]]] = {}
        for t, axis in c.members:
            alike.setdefault((axis, self.shapes[t]), []).append((t, axis))
        parts: dict[object, list[tuple[int, int]]] = {}
        for (axis, shape), places in alike.items():
            together = c.user >= 2 and len(places) >= _ALIKE
            for t, _ in places:
                parts.setdefault((axis, shape) if together else t, []).append((t, axis))
        return list(parts.values())

    def _gives_up_merge(self, named: list[SizeClass]) -> bool:
        """Two axes of one tensor that were merged are refused as one:
        the model fixes the second, the first, or both.

        So it is with a batch of 1 beside the one channel that weights allow.
        """
        if not self._instead or not any(self._pair & set(c.members) for c in named):
            self._instead = []
            return False
        self.classes = self._instead.pop(0)
        self._choose()
        return True

    def _merge(self, a: SizeClass, b: SizeClass) -> None:
        def with_pinned(*pinned: SizeClass) -> list[SizeClass]:
            return [
                replace(
                    c,
                    members=list(c.members),
                    tried=set(c.tried),
                    pinned=c.pinned or any(c is p for p in pinned),
                )
                for c in self.classes
            ]

        shared = {t for t, _ in a.members} & {t for t, _ in b.members}
        self._pair = {*a.members, *b.members}
        self._instead = [with_pinned(b), with_pinned(a), with_pinned(a, b)] if shared else []
        a.members += b.members
        a.declared = a.declared or b.declared
        a.loose = False
        self.classes = [c for c in self.classes if c is not b]


def place_of(symbol: sympy.Symbol) -> Place:
    """The axis that a symbol is for."""
    _, t, axis = symbol.name.rsplit("_", 2)
    return int(t), int(axis)


@functools.lru_cache(maxsize=256)
def _holding(condition: sympy.Basic) -> Callable[[dict[sympy.Symbol, int]], bool]:
    symbols = sorted(condition.free_symbols, key=str)
    function = function_of(condition, symbols)
    return lambda sizes: function(*(sizes[s] for s in symbols))


def _is_a_sum(named: list[SizeClass]) -> bool:
    """Returns true if the message is about one size of the example that is another one plus 1."""
    users = {c.user for c in named}
    return any(c.user == 1 and c.changed for c in named) and any({n - 1, n} <= users for n in users if n > 2)


def _same_size(suspects: list[SizeClass], named: list[SizeClass]) -> tuple[SizeClass, SizeClass] | None:
    """Two classes of the message that had one size in the example: the model wants them equal."""
    for a in named:
        for b in suspects:
            if a is not b and a.user == b.user and not (a.declared and b.declared):
                return a, b
    return None
