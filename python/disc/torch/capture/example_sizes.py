"""Chooses the sizes that the example gets for capture.

torch.export specialises a dimension of size 0 or 1, and a branch of the model may take equal sizes
for a law. So the model is captured with sizes of our choice: at least 2, the user's own where
possible, and different for dimensions that nobody called equal.

A *class* is a set of axes that get one size: axes with one declared name, or axes with one example
size in different tensors (the k-th axis of that size in each). When the model refuses a choice, a
class is split into one for each tensor, classes are merged, or pinned to the user's size.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass, field, replace

from ...core.dims import Dim, DimPlan

#: Sizes that models rarely contain, so that an error message points back to one class.
_FRESH = (5, 3, 7, 11, 13, 17, 19, 23, 29, 31, 37, 41, 43, 47, 53, 59, 61, 67, 71, 73, 79)
_MOST_FRESH = 1000

_MAX_TRIED = 3

#: The sizes that disagree, in a message that lists whole shapes before them.
_DISAGREEING = re.compile(r"to have \w+ channels, but got \w+ channels")

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
        step = c.declared.multiple_of if c.declared else 1
        low = max(c.declared.min if c.declared else 0, 2)
        high = c.declared.max if c.declared and c.declared.max is not None else None
        near = [c.user - step, c.user + step, c.user - 2 * step, c.user + 2 * step] if c.user >= 4 else []
        # A neighbour may change divisibility: a multiple divides as the user's size does.
        alike = [2 * c.user, 3 * c.user] if c.tried else []
        # Small numbers come last: messages name axes by them.
        more = () if c.declared else range(_FRESH[-1] + 2, _MOST_FRESH, 2)
        for size in [*alike, *near, *(p * step for p in _FRESH), *more, *range(low, low + 64 * step)]:
            fits = size >= low and size % step == 0 and (high is None or size <= high)
            if fits and size not in taken and size not in c.tried:
                return size
        return c.user

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
        words = set(re.findall(r"[A-Za-z_]\w*|\d+", told[0] if told else message))
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
