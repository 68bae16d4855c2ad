"""Finds what the code of a function asks for by name: globals, attributes, imports,
and attributes looked up by text.

Nothing is run. A name that a function computes and uses itself is a pattern which matches all that
it may be. A computed name that comes from another function is not seen: that one's constants are
(``texts``), what it joins is not.

Bytecode of a thousand functions takes a tenth of a second to read; ``Notes`` keep what was found
for the next process.
"""

from __future__ import annotations

import dis
import functools
import hashlib
import marshal
import re
import sys
import types
from dataclasses import dataclass
from typing import Any

from ...core import bytecode

#: Functions that look attributes up by text, and the index of that argument.
_LOOKUPS = {"getattr": 1, "hasattr": 1, "attrgetter": 0, "methodcaller": 0}
#: Steps that may join texts.
_OPERATORS = frozenset(("BINARY_OP", "BINARY_ADD", "BINARY_MODULO"))
#: Steps that read an attribute of what was loaded before.
_READS_ATTRIBUTE = frozenset(dis.opmap[name] for name in ("LOAD_ATTR", "LOAD_METHOD") if name in dis.opmap)
_ANY = ".*"
#: From here on, notes that were not asked for are forgotten.
_MOST_NOTES = 20_000
_CONSTANT, _VALUE = "constant", "value"


@functools.lru_cache(maxsize=100_000)
def names(code: types.CodeType) -> dict[str, None]:
    """Names that a function uses, those of functions inside it too; and texts,
    where it looks attributes up by text.
    """
    found = dict.fromkeys(code.co_names)
    for one in inner(code):
        found |= names(one)
    if found.keys() & {*_LOOKUPS, "setattr", "vars", "__dict__", "globals", "locals"}:
        found |= dict.fromkeys(text for c in code.co_consts if isinstance(c, str) for text in parts(c))
    return found


@dataclass(frozen=True)
class Lookups:
    """Attributes that a function, with those inside it,
    looks up by texts that it does not spell.
    """

    #: Regular expressions for those that are made of pieces in the same function.
    direct: frozenset[str]
    #: True if a text comes from elsewhere: a variable, an item, an attribute.
    by_value: bool
    #: Its constants that may be names.
    texts: frozenset[str]


@functools.lru_cache(maxsize=100_000)
def lookups(code: types.CodeType) -> Lookups:
    found = [] if _LOOKUPS.keys().isdisjoint((*code.co_names, *_places(code))) else _lookups(code)
    texts = texts_of(code)
    nested = [lookups(one) for one in inner(code)]
    return Lookups(
        frozenset(found).union(*(one.direct for one in nested)) - {_CONSTANT, _VALUE},
        _VALUE in found or any(one.by_value for one in nested),
        frozenset(texts).union(*(one.texts for one in nested)),
    )


def _lookups(code: types.CodeType) -> list[str]:
    """For each place where it looks something up, and each text that it makes:
    what the name may be.
    """
    steps = [s for s in dis.get_instructions(code) if s.opname not in ("CACHE", "EXTENDED_ARG")]
    found = []
    for at, step in enumerate(steps):
        if step.opname.startswith("LOAD_") and step.opname != "LOAD_CONST" and step.argval in _LOOKUPS:
            found.append(_argument(steps[at + 1 :], _LOOKUPS[step.argval]))
    if _VALUE in found:
        # It may be a text that was made here.
        made = [_built(steps[: at + 1]) for at, step in enumerate(steps) if step.opname == "BUILD_STRING"]
        # A sentence is no name.
        found += [pattern for pattern in (*made, *_joined(steps)) if re.fullmatch(r"(\w|\.\*)*", pattern)]
    return found


def parts(text: str) -> list[str]:
    """The names in a text that may be one, or a path of attributes; none in a sentence."""
    names = text.split(".") if len(text) < 200 else []
    return names if all(name.isidentifier() for name in names) else []


def inner(code: types.CodeType) -> list[types.CodeType]:
    """The code of functions and comprehensions inside a function."""
    return [c for c in code.co_consts if isinstance(c, types.CodeType)]


def _joined(steps: list[dis.Instruction]) -> list[str]:
    """Patterns for the texts that it makes by operators and methods of texts."""
    found = []
    for at, step in enumerate(steps):
        near = [(back, s.argval) for back in (1, 2) if back <= at and _is_text(s := steps[at - back])]
        for back, text in near:
            if step.opname in _OPERATORS:
                # After the other operand, or before it; as a template, if it has places.
                filled = re.sub(r"%\w", _ANY, text)
                found.append(filled if filled != text else _ANY + text if back == 1 else text + _ANY)
            elif step.argval in ("format", "join") and back == 1:
                found.append(_ANY if step.argval == "join" else re.sub(r"\{.*?\}", _ANY, text))
                if step.argval == "join" and text and not text.isidentifier():
                    found.pop()
    return found


def _is_text(step: dis.Instruction) -> bool:
    return step.opname == "LOAD_CONST" and isinstance(step.argval, str)


def _argument(steps: list[dis.Instruction], argument: int) -> str:
    """The values that an argument may have, of a call whose arguments begin here."""
    depth, starts = 0, {0: 0}
    for at, step in enumerate(steps):
        if step.opname in ("PRECALL", "CALL", "CALL_FUNCTION", "CALL_METHOD") and step.arg == depth:
            end = starts.get(argument + 1, at) if depth > argument + 1 else at
            return _text(steps[starts[argument] : end]) if depth > argument and argument in starts else _VALUE
        if step.opcode in dis.hasjrel or step.opcode in dis.hasjabs:
            return _VALUE
        depth += dis.stack_effect(
            step.opcode, step.arg if step.opcode >= dis.HAVE_ARGUMENT else None, jump=False
        )
        if depth < 0:
            return _VALUE
        # The argument after this many others begins after the last step that leaves this many.
        starts[depth] = at + 1
    return _VALUE


def _text(steps: list[dis.Instruction]) -> str:
    if len(steps) == 1 and _is_text(steps[0]):
        return _CONSTANT
    if steps and steps[-1].opname == "BUILD_STRING":
        return _built(steps)
    return _VALUE


def _built(steps: list[dis.Instruction]) -> str:
    """The pattern of a format, whose last step is this one;
    what is between its constants may be anything.
    """
    left, pieces = steps[-1].arg or 0, []
    after = steps[-1]
    for step in reversed(steps[:-1]):
        if not left:
            break
        # The last step of a piece comes before the first one of the next.
        if _is_text(step) and (after.opname == "BUILD_STRING" or pieces):
            pieces.append(re.escape(step.argval))
            left -= 1
        elif step.opname.startswith("FORMAT_"):
            pieces.append(_ANY)
            left -= 1
        after = step
    return re.sub(r"(\.\*)+", _ANY, "".join(reversed(pieces)))


@functools.lru_cache(maxsize=100_000)
def values(code: types.CodeType) -> frozenset[str]:
    """Names whose values are taken as such, not only for an attribute of theirs."""
    found: set[str] = set()
    loaded = None
    places = _places(code)
    cells = places if sys.version_info >= (3, 11) else places[len(code.co_varnames) :]
    tables = {"name": code.co_names, "constant": code.co_consts, "place": places, "cell": cells}
    for opcode, argument in bytecode.steps(code):
        if loaded is not None and opcode not in _READS_ATTRIBUTE:
            found.add(loaded)
        loaded = _loaded(tables, opcode, argument)
    return frozenset(found).union(*(values(one) for one in inner(code)))


@functools.lru_cache(maxsize=100_000)
def global_names(code: types.CodeType) -> frozenset[str]:
    """Names that a function looks up or assigns as globals, not as attributes;
    those of functions inside it too.
    """
    found = frozenset(
        name for opcode, at in bytecode.steps(code) if (name := _global_name(code, opcode, at)) is not None
    )
    return found.union(*(global_names(one) for one in inner(code)))


def _global_name(code: types.CodeType, opcode: int, argument: int) -> str | None:
    is_global = dis.opname[opcode] in ("LOAD_GLOBAL", "LOAD_NAME", "STORE_GLOBAL")
    return bytecode.name_of(code, opcode, argument) if is_global else None


def _loaded(tables: dict[str, tuple], opcode: int, argument: int) -> str | None:
    """The name that a step loads the value of; for a constant that is a text, the text.

    ``tables`` has what arguments number, by kind.
    """
    kind = _LOADS.get(opcode)
    loaded = tables[kind][argument >> bytecode.FLAGS.get(opcode, 0)] if kind else None
    return loaded if isinstance(loaded, str) else None


def _places(code: types.CodeType) -> tuple[str, ...]:
    """The variables of a function, as steps number them.

    Those that inner functions share come once.
    """
    names = code.co_varnames
    shared = tuple(name for name in code.co_cellvars if sys.version_info < (3, 11) or name not in names)
    return (*names, *shared, *code.co_freevars)


def _kind(opcode: int) -> str | None:
    """The index of the name of a step that loads one value."""
    name = dis.opname[opcode]
    if not name.startswith("LOAD_") or name.count("LOAD_") > 1:
        return None
    kinds = {"name": dis.hasname, "place": dis.haslocal, "cell": dis.hasfree, "constant": dis.hasconst}
    return next((kind for kind, opcodes in kinds.items() if opcode in opcodes), None)


_LOADS = {opcode: kind for opcode in range(256) if (kind := _kind(opcode))}


@functools.lru_cache(maxsize=100_000)
def imports(code: types.CodeType) -> tuple[str, ...]:
    """Modules that a function imports, functions inside it too;
    with a dot for each level of a relative one.
    """
    found = [name for one in inner(code) for name in imports(one)]
    if dis.opmap["IMPORT_NAME"] in code.co_code[::2]:
        before: list = [None, None]
        for step in dis.get_instructions(code):
            if step.opname == "IMPORT_NAME":
                level = before[0].argval if before[0] is not None else 0
                found.append("." * (level if isinstance(level, int) else 0) + step.argval)
            before = [before[1], step]
    return tuple(found)


def absolute(name: str, space: dict) -> str:
    """The whole name of a module that code with these globals imports."""
    level = len(name) - len(name.lstrip("."))
    if not level:
        return name
    package = (space.get("__package__") or "").split(".")
    return ".".join([*package[: len(package) - level + 1], *filter(None, [name[level:]])])


@dataclass(frozen=True)
class Facts:
    """All of it, for one function with those inside it."""

    names: dict[str, None]
    values: frozenset[str]
    lookups: Lookups
    imports: tuple[str, ...]


class Notes:
    """Facts of functions by a digest of their bytecode; ``stored`` are an earlier process's,
    of the same Python and disc.

    What is stored and cannot be read is as if it were not there.
    """

    def __init__(self, stored: bytes | None = None):
        self._known: dict[bytes, tuple] = {} if stored is None else _loaded_notes(stored)
        self._used: dict[bytes, Facts] = {}

    def of(self, code: types.CodeType) -> Facts:
        key = digest(code)
        if key not in self._used:
            if (facts := _unpacked(self._known.get(key))) is None:
                self._known.pop(key, None)
                facts = _facts(code)
            self._used[key] = facts
        return self._used[key]

    def to_store(self) -> bytes | None:
        """All notes by now; None if none is new.

        Old notes stay: modules of one class may be made of different parts.
        """
        if self._used.keys() <= self._known.keys():
            return None
        old = {} if len(self._known) > _MOST_NOTES else self._known
        return marshal.dumps(old | {key: _packed(facts) for key, facts in self._used.items()})


def _loaded_notes(stored: bytes) -> dict[bytes, tuple]:
    try:
        notes = marshal.loads(stored)
    except (EOFError, ValueError, TypeError):
        return {}
    return notes if type(notes) is dict else {}


def _facts(code: types.CodeType) -> Facts:
    return Facts(names(code), values(code), lookups(code), imports(code))


#: The types of what ``_packed`` makes.
_PACKED = (tuple, frozenset, frozenset, bool, frozenset, tuple)


def _packed(facts: Facts) -> tuple:
    looks = facts.lookups
    return (tuple(facts.names), facts.values, looks.direct, looks.by_value, looks.texts, facts.imports)


def _unpacked(packed: Any) -> Facts | None:
    """Unpacks what ``_packed`` made; None for anything else."""
    if type(packed) is not tuple or tuple(map(type, packed)) != _PACKED:
        return None
    names, values, *looks, imports = packed
    return Facts(dict.fromkeys(names), values, Lookups(*looks), imports)


#: Functions that are kept, before all are read again.
_MOST_READ = 100_000
#: By the identity of a function's code: that code, its digest, and its constants that are not in
#: the digest. A hash of the code itself takes as long as reading it.
_read: dict[int, tuple[types.CodeType, bytes, tuple]] = {}


def digest(code: types.CodeType) -> bytes:
    """Of all that is read of a function: its name, steps, the names that they number, the kinds of
    its arguments, and its plain constants; also those of functions inside it.
    """
    return read(code)[1]


def read(code: types.CodeType) -> tuple[types.CodeType, bytes, tuple]:
    """A function, its digest, and the constants that are not in that, also of functions inside."""
    if (known := _read.get(id(code))) is not None:
        return known
    others: list[Any] = []
    parts = (
        code.co_name, code.co_code, code.co_names, code.co_varnames, code.co_cellvars, code.co_freevars,
        code.co_argcount, code.co_posonlyargcount, code.co_kwonlyargcount, code.co_flags,
        getattr(code, "co_exceptiontable", b""), [_constant(c, others) for c in code.co_consts],
    )  # fmt: skip
    # Later formats tell how often an object is referred to, which is another number in each
    # process.
    found = hashlib.blake2b(marshal.dumps(parts, 0), digest_size=16).digest()
    if len(_read) >= _MOST_READ:
        _read.clear()
    _read[id(code)] = known = code, found, tuple(others)
    return known


#: Constants that are in the digest of a function.
_PLAIN = frozenset((type(None), bool, int, float, complex, str, bytes, type(Ellipsis)))


def _constant(c: Any, others: list[Any]) -> tuple:
    if type(c) in _PLAIN or (type(c) is tuple and _is_plain(c)):
        return (1, c)
    if isinstance(c, types.CodeType):
        _, found, inside = read(c)
        others += inside
        return (0, found)
    others.append(c)
    return (2,)


def _is_plain(values: tuple) -> bool:
    return all(type(c) in _PLAIN or (type(c) is tuple and _is_plain(c)) for c in values)


def texts_of(code: types.CodeType) -> set[str]:
    """The names in constants of a function that are texts, and of functions inside it."""
    found: set[str] = set()
    left = list(code.co_consts)
    for c in left:
        if type(c) is str:
            found.update(parts(c))
        elif type(c) is tuple:
            left += c
        elif isinstance(c, types.CodeType):
            left += c.co_consts
    return found
