"""Lowers ``x.view(dtype)``: the same bytes as elements of another type."""

from __future__ import annotations

from ...lowering.sizes import is_int
from .promotion import DTYPES, name_of

#: Bits of an element.
_WIDTHS = {
    "i1": 8,
    "i8": 8,
    "u8": 8,
    "i16": 16,
    "f16": 16,
    "bf16": 16,
    "i32": 32,
    "f32": 32,
    "i64": 64,
    "f64": 64,
}


def reinterpreted(b, x, dtype):
    """``x.view(dtype)``: the same bytes;
    elements of another width split or join those of the last axis, the lowest first.
    """
    wanted = name_of(dtype)
    if wanted == x.dtype:
        return x
    if wanted == "i1":
        return b.compare("NE", reinterpreted(b, x, DTYPES["u8"]), b.lift(0, "u8"))
    bits = b.convert(x, "u8") if x.dtype == "i1" else x
    have, want = _WIDTHS[x.dtype], _WIDTHS[wanted]
    bits = _bits_as(b, bits, f"i{have}")
    if have > want:
        bits = _split(b, bits, have, want)
    elif have < want:
        bits = _joined(b, bits, have, want)
    return _bits_as(b, bits, wanted)


def _bits_as(b, x, dtype: str):
    return x if x.dtype == dtype else b.op("bitcast_convert", x, dtype=dtype)


def _split(b, bits, have: int, want: int):
    parts = have // want
    places = b.mul(b.iota([parts], 0, bits.dtype), b.lift(want, bits.dtype))
    pieces = b.convert(b.map("shift_right_logical", b.unsqueeze(bits, -1), places), f"i{want}")
    return b.reshape(pieces, [*bits.shape[:-1], bits.shape[-1] * parts])


def _joined(b, bits, have: int, want: int):
    parts, whole = want // have, f"i{want}"
    last = bits.shape[-1]
    if is_int(last) and last % parts:
        raise b.unsupported(f"view: a last axis of {last} does not divide into {parts}")
    if not is_int(last):
        b.require(last % parts, "==", 0)
    bits = b.reshape(bits, [*bits.shape[:-1], last // parts, parts])
    pieces = b.map("and", b.convert(bits, whole), b.lift((1 << have) - 1, whole))
    places = b.mul(b.iota([parts], 0, whole), b.lift(have, whole))
    return b.sum(b.map("shift_left", pieces, places), [len(bits.shape) - 1])
