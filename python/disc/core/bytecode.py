"""Reads the steps of a function: ``dis`` tells more of each, and takes ten times as long."""

from __future__ import annotations

import dis
import sys
import types
from collections.abc import Iterator

#: Steps without a meaning of their own.
_FILLERS = frozenset(dis.opmap[name] for name in ("CACHE", "EXTENDED_ARG", "PRECALL") if name in dis.opmap)
#: Lower bits of an argument that are flags, before the number of a name.
FLAGS = {
    dis.opmap[name]: bits
    for name, bits, since in (
        ("LOAD_GLOBAL", 1, (3, 11)),
        ("LOAD_ATTR", 1, (3, 12)),
        ("LOAD_SUPER_ATTR", 2, (3, 12)),
    )
    if name in dis.opmap and sys.version_info >= since
}


def steps(code: types.CodeType) -> Iterator[tuple[int, int]]:
    """Opcodes and arguments, without those of functions inside it."""
    raw, extended = code.co_code, 0
    for opcode, low in zip(raw[::2], raw[1::2], strict=True):
        argument = extended | low
        extended = argument << 8 if opcode == dis.EXTENDED_ARG else 0
        if opcode not in _FILLERS:
            yield opcode, argument


def name_of(code: types.CodeType, opcode: int, argument: int) -> str:
    """The name that a step numbers, of one that has a name."""
    return code.co_names[argument >> FLAGS.get(opcode, 0)]
