//! Converts between float formats, and from float to integer, in integer arithmetic of the wide
//! format's width.
//!
//! Narrow floats are words in the low bits of an integer of the emitter. Rounding is to nearest
//! even, once: f64 to f16 or bf16 does not go through f32. Overflow gives infinity, denormals are
//! exact, NaN stays a quiet NaN with its sign and top payload bits.
//!
//! Method: F. Giesen, "Half to float done quick" and "Float to half, round to nearest even"; the
//! addition or subtraction of a power of two aligns denormals.

use super::arith::{addc, sign_of};
use super::emitter::{Emitter, Format};

/// A float format narrower than the emitter's.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Narrow {
    /// IEEE binary16.
    F16,
    /// The upper half of binary32.
    Bf16,
    /// IEEE binary32, in an f64 emitter.
    F32,
}

impl Narrow {
    /// The stored bits of the mantissa.
    const fn mantissa_bits(self) -> u32 {
        match self {
            Narrow::F16 => 10,
            Narrow::Bf16 => 7,
            Narrow::F32 => 23,
        }
    }

    /// The bits of the whole number.
    pub const fn width(self) -> u32 {
        match self {
            Narrow::F16 | Narrow::Bf16 => 16,
            Narrow::F32 => 32,
        }
    }

    const fn bias(self) -> i64 {
        match self {
            Narrow::F16 => 15,
            Narrow::Bf16 | Narrow::F32 => 127,
        }
    }
}

/// The result for NaN and for a float that no integer of the width can hold.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum OutOfRange {
    /// The least integer of the width, for NaN too: x86's conversion instructions give it, and so
    /// eager PyTorch shows it there.
    Least,
    /// The nearest integer; zero for NaN.
    Saturate,
}

/// Rounds x to a narrower format and returns the word; the bits above its width are zero.
pub fn to_narrow<E: Emitter>(e: &mut E, x: E::F, to: Narrow) -> E::I {
    let format = e.format();
    let (wide, narrow) = (format.mantissa_bits(), to.mantissa_bits());
    assert!(narrow < wide, "the target is narrower");
    let shift = wide - narrow;
    let size = e.abs(x);
    let word = e.bits(size);

    // Normal results: round half up, less one half where the last kept bit is even; a carry moves
    // the exponent as it should.
    let one = e.i(1);
    let last = e.lshr(word, shift);
    let last = e.iand(last, one);
    let rebias = e.i(((to.bias() - format.bias()) << wide) + (1 << (shift - 1)) - 1);
    let normal = e.iadd(word, rebias);
    let normal = e.iadd(normal, last);
    let normal = e.lshr(normal, shift);

    // Denormal results: the sum with 2^k has the last place of the result.
    let aligner = 2f64.powi(1 - to.bias() as i32 - narrow as i32 + wide as i32);
    let aligned = addc(e, size, aligner);
    let (aligned, base) = (e.bits(aligned), e.f(aligner));
    let base = e.bits(base);
    let denormal = e.isub(aligned, base);
    let least_normal = e.f(2f64.powi(1 - to.bias() as i32));
    let small = e.lt(size, least_normal);
    let rounded = e.iselect(small, denormal, normal);

    let inf_word = (2 * to.bias() + 1) << narrow;
    let limit = e.i((format.bias() + to.bias() + 1) << wide);
    let fits = e.ilt(word, limit);
    let inf = e.i(inf_word);
    let rounded = e.iselect(fits, rounded, inf);

    // NaN: the top of the payload, made quiet.
    let payload = e.lshr(word, shift);
    let mask = e.i((1 << narrow) - 1);
    let payload = e.iand(payload, mask);
    let quiet = e.i(inf_word | 1 << (narrow - 1));
    let quiet = e.ior(payload, quiet);
    let number = e.eq(x, x);
    let rounded = e.iselect(number, rounded, quiet);

    let sign = sign_of(e, x);
    let sign = e.lshr(sign, format.width() - to.width());
    e.ior(rounded, sign)
}

/// The exact value of a narrower word; bits above its width are ignored. A signalling NaN may stay
/// one.
pub fn from_narrow<E: Emitter>(e: &mut E, word: E::I, from: Narrow) -> E::F {
    let format = e.format();
    let (wide, narrow) = (format.mantissa_bits(), from.mantissa_bits());
    let shift = wide - narrow;
    let magnitude_bits = e.i((1 << (from.width() - 1)) - 1);
    let magnitude = e.iand(word, magnitude_bits);
    let sign = e.shl(word, format.width() - from.width());
    let sign_bit = e.i(format.sign_bit());
    let sign = e.iand(sign, sign_bit);
    let moved = e.shl(magnitude, shift);
    let value = if from.bias() == format.bias() {
        moved
    } else {
        let rebias = e.i((format.bias() - from.bias()) << wide);
        let normal = e.iadd(moved, rebias);
        // Infinity and NaN keep the highest exponent.
        let special = e.i(format.inf_bits());
        let special = e.ior(moved, special);
        let inf = e.i((2 * from.bias() + 1) << narrow);
        let finite = e.ilt(magnitude, inf);
        let normal = e.iselect(finite, normal, special);
        // Denormals: an implicit one, and its value subtracted again.
        let least = 2f64.powi(1 - from.bias() as i32);
        let least_value = e.f(least);
        let least_word = e.bits(least_value);
        let with_one = e.ior(moved, least_word);
        let with_one = e.with_bits(with_one);
        let denormal = e.sub(with_one, least_value);
        let denormal = e.bits(denormal);
        let least_normal = e.i(1 << narrow);
        let small = e.ilt(magnitude, least_normal);
        e.iselect(small, denormal, normal)
    };
    let value = e.ior(value, sign);
    e.with_bits(value)
}

/// Truncates x to a signed integer of a width up to the emitter's. In an integer as wide as the
/// emitter's, sign-extended.
///
/// Eager PyTorch converts to i8, i16 and u8 through a wider integer and keeps the low bits: use
/// width 32 and drop bits for the same. For f32 to i64, widen to f64 first (it is exact).
pub fn to_integer<E: Emitter>(e: &mut E, x: E::F, width: u32, out_of_range: OutOfRange) -> E::I {
    assert!(width <= e.format().width(), "an integer of the emitter holds the result");
    let power = 2f64.powi(width as i32 - 1);
    let below = match e.format() {
        // -2^(width-1) - 1 is representable only while the mantissa reaches; truncating a value in
        // between gives one that is in range.
        Format::F64 if width < 53 => -power - 1.0,
        Format::F32 if width < 24 => -power - 1.0,
        _ => -power,
    };
    let reaches = below < -power;
    let (high, low) = (e.f(power), e.f(below));
    let under = e.lt(x, high);
    let over = if reaches { e.lt(low, x) } else { e.le(low, x) };
    let fits = e.and(under, over);
    let zero = e.f(0.0);
    let inside = e.select(fits, x, zero);
    let value = e.to_int(inside);
    let least_integer = i64::MIN >> (64 - width);
    let least = e.i(least_integer);
    match out_of_range {
        OutOfRange::Least => e.iselect(fits, value, least),
        OutOfRange::Saturate => {
            let most = e.i(!least_integer);
            let too_high = e.le(high, x);
            let value = e.iselect(too_high, most, value);
            let too_low = e.not(over);
            let number = e.eq(x, x);
            let too_low = e.and(too_low, number);
            e.iselect(too_low, least, value)
        }
    }
}

/// Truncates x to an unsigned integer of a width below the emitter's; see [`to_integer`].
pub fn to_unsigned_saturating<E: Emitter>(e: &mut E, x: E::F, width: u32) -> E::I {
    assert!(width < e.format().width(), "a signed integer of the emitter holds the result");
    let (zero, one, power) = (e.f(0.0), e.f(1.0), e.f(2f64.powi(width as i32)));
    let (too_high, positive) = (e.le(power, x), e.le(one, x));
    let in_range = e.lt(x, power);
    let fits = e.and(positive, in_range);
    let inside = e.select(fits, x, zero);
    let value = e.to_int(inside);
    let most = e.i(((1u64 << width) - 1) as i64);
    e.iselect(too_high, most, value)
}
