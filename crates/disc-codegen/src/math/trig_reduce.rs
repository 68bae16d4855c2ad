//! Reduces an angle to a quadrant and a remainder in [-pi/4, pi/4], for all finite angles.
//!
//! Up to a limit it is the method of Cody and Waite: n pi/2 is subtracted in parts whose products
//! with n are exact. Beyond, if a lane needs it, it is that of Payne and Hanek: the bits of 2/pi
//! that matter for the exponent are chosen by selects (a barrel of constants) and multiplied with
//! the mantissa in integers of half the width, modulo 4.
//!
//! - The remainder is a pair: a high part, correctly rounded up to a few hundredths of a unit in
//!   the last place, and a low part.

use super::arith::{fmac, round_product};
use super::double::{Pair, constant, fast_two_sum, product, two_product, two_sum};
use super::emitter::{Emitter, Format};

/// 2/pi, 32 bits a word.
const TWO_OVER_PI: [u32; 38] = [
    0xa2f9_836e,
    0x4e44_1529,
    0xfc27_57d1,
    0xf534_ddc0,
    0xdb62_9599,
    0x3c43_9041,
    0xfe51_63ab,
    0xdebb_c561,
    0xb724_6e3a,
    0x424d_d2e0,
    0x0649_2eea,
    0x09d1_921c,
    0xfe1d_eb1c,
    0xb129_a73e,
    0xe882_35f5,
    0x2ebb_4484,
    0xe99c_7026,
    0xb45f_7e41,
    0x3991_d639,
    0x8353_39f4,
    0x9c84_5f8b,
    0xbdf9_283b,
    0x1ff8_97ff,
    0xde05_980f,
    0xef2f_118b,
    0x5a0a_6d1f,
    0x6d36_7ecf,
    0x27cb_09b7,
    0x4f46_3f66,
    0x9e5f_ea2d,
    0x7527_bac7,
    0xebe5_f17b,
    0x3d07_39f7,
    0x8a52_92ea,
    0x6bfb_5fb1,
    0x1f8d_5d08,
    0x5603_3046,
    0xfc7b_6bab,
];
/// The fraction words of the product that are kept; word 0 is the integer part.
const COLUMNS: usize = 7;
/// The words of 2/pi that one product needs.
const WINDOW: usize = 8;

/// The limit of the first method, and its parts of pi/2.
struct Parts {
    limit: f64,
    /// Their products with n, and the differences, are exact.
    exact: &'static [f64],
    /// The last parts of pi/2.
    last: [f64; 2],
}

const FUSED_32: Parts =
    Parts { limit: 131072.0, exact: &[1.5707963705062866], last: [-4.371138828673793e-08, -1.7151245100058819e-15] };
const PLAIN_32: Parts =
    Parts { limit: 4096.0, exact: &[1.5703125, 0.0004837512969970703], last: [7.549533620476723e-08, 2.563344151594519e-12] };
const FUSED_64: Parts =
    Parts { limit: 1073741824.0, exact: &[1.5707963267948966], last: [6.123233995736766e-17, -1.4973849048591698e-33] };
const PLAIN_64: Parts = Parts {
    limit: 1048576.0,
    exact: &[1.5707963267341256, 6.077100506303966e-11],
    last: [2.0222662487111665e-21, 8.4784276603689e-32],
};

/// An angle as quadrant * pi/2 + remainder.
pub(super) struct Reduced<E: Emitter> {
    pub(super) rest: Pair<E::F>,
    /// The quadrant is in the lowest two bits.
    pub(super) quadrant: E::I,
}

/// Reduces an angle >= 0. Infinity and NaN give a NaN remainder.
pub(super) fn reduce<E: Emitter>(e: &mut E, x: E::F) -> Reduced<E> {
    let parts = match (e.format(), e.fused()) {
        (Format::F32, true) => FUSED_32,
        (Format::F32, false) => PLAIN_32,
        (Format::F64, true) => FUSED_64,
        (Format::F64, false) => PLAIN_64,
    };
    let n = round_product(e, x, std::f64::consts::FRAC_2_PI, 0);
    let mut r = x;
    for &part in parts.exact {
        r = fmac(e, n.value, -part, r);
    }
    let part = e.f(-parts.last[0]);
    // Without fused multiply-add the part is short and its product exact.
    let p = if e.fused() { two_product(e, n.value, part) } else { Pair { high: e.mul(n.value, part), low: e.f(0.0) } };
    let s = two_sum(e, r, p.high);
    let low = fmac(e, n.value, -parts.last[1], p.low);
    let low = e.add(s.low, low);
    let Pair { high, low } = fast_two_sum(e, s.high, low);

    let (limit, inf) = (e.f(parts.limit), e.f(f64::INFINITY));
    let (far, finite) = (e.lt(limit, x), e.lt(x, inf));
    let far = e.and(far, finite);
    let values = e.where_rare(far, &[high, low, n.shifted], &mut |e| reduce_far(e, x));
    Reduced { rest: Pair { high: values[0], low: values[1] }, quadrant: e.bits(values[2]) }
}

/// The same for x >= 2^20 (2^7 in f32), finite: remainder, its low part, quadrant plus the shifter.
fn reduce_far<E: Emitter>(e: &mut E, x: E::F) -> Vec<E::F> {
    let half_width = e.format().width() / 2;
    let (mantissa, exponent) = mantissa_and_exponent(e, x);
    let window = window(e, exponent);
    let limbs = shifted_limbs(e, mantissa, exponent);
    let words = multiply(e, &limbs, &window);
    // Rounds to nearest: the top bit of the fraction goes to the quadrant, and the fraction becomes
    // signed.
    let top = e.lshr(words[1], half_width - 1);
    let quadrant = e.iadd(words[0], top);
    let three = e.i(3);
    let quadrant = e.iand(quadrant, three);
    let borrow = e.shl(top, half_width);
    let first = e.isub(words[1], borrow);
    let mut digits = vec![first];
    digits.extend_from_slice(&words[2..]);
    let rest = fraction(e, &digits);
    let half_pi = e.format().pick((1.5707963705062866, -4.371138828673793e-08), (1.5707963267948966, 6.123233995736766e-17));
    let half_pi = constant(e, half_pi.0, half_pi.1);
    let rest = product(e, rest, half_pi);
    let shifter = e.f(e.format().shifter());
    let shifter = e.bits(shifter);
    let quadrant = e.iadd(quadrant, shifter);
    vec![rest.high, rest.low, e.with_bits(quadrant)]
}

/// x = mantissa * 2^(exponent - half the width), the exponent not negative.
fn mantissa_and_exponent<E: Emitter>(e: &mut E, x: E::F) -> (E::I, E::I) {
    let format = e.format();
    let word = e.bits(x);
    let fraction = e.i((1 << format.mantissa_bits()) - 1);
    let hidden = e.i(1 << format.mantissa_bits());
    let mantissa = e.iand(word, fraction);
    let mantissa = e.ior(mantissa, hidden);
    let exponent = e.lshr(word, format.mantissa_bits());
    let base = e.i(format.bias() + i64::from(format.mantissa_bits()) - i64::from(format.width() / 2));
    (mantissa, e.isub(exponent, base))
}

/// The digit of 2/pi of half the width at an index; before the first, zero.
fn digit(format: Format, index: usize) -> i64 {
    let Some(index) = index.checked_sub(2) else { return 0 };
    match format {
        Format::F32 => i64::from(TWO_OVER_PI[index / 2] >> (16 * (1 - index % 2)) & 0xffff),
        Format::F64 => i64::from(TWO_OVER_PI[index]),
    }
}

/// The digits from exponent / (half the width) on.
fn window<E: Emitter>(e: &mut E, exponent: E::I) -> Vec<E::I> {
    let format = e.format();
    let steps = format.pick(3u32, 5);
    let mut words: Vec<E::I> = (0..WINDOW - 1 + (1 << steps)).map(|k| digit(format, k)).map(|d| e.i(d)).collect();
    let zero = e.i(0);
    for step in (0..steps).rev() {
        let bit = e.i(i64::from(format.width() / 2) << step);
        let bit = e.iand(exponent, bit);
        let stay = e.ieq(bit, zero);
        let kept = WINDOW - 1 + (1 << step);
        words = (0..kept).map(|k| e.iselect(stay, words[k], words[k + (1 << step)])).collect();
    }
    words
}

/// mantissa * 2^(exponent mod half the width) in three digits, lowest first.
fn shifted_limbs<E: Emitter>(e: &mut E, mantissa: E::I, exponent: E::I) -> [E::I; 3] {
    let format = e.format();
    let half_width = format.width() / 2;
    let shift = e.i(i64::from(half_width) - 1);
    let shift = e.iand(exponent, shift);
    // 2^shift as an integer: its float plus 2^mantissa_bits has it in the low bits.
    let bias = e.i(format.bias());
    let power = e.iadd(shift, bias);
    let power = e.shl(power, format.mantissa_bits());
    let power = e.with_bits(power);
    let base = e.f(2f64.powi(format.mantissa_bits() as i32));
    let power = e.add(power, base);
    let (power, base) = (e.bits(power), e.bits(base));
    let power = e.isub(power, base);

    let mask = e.i((1 << half_width) - 1);
    let (low, high) = (e.iand(mantissa, mask), e.lshr(mantissa, half_width));
    let (low, high) = (e.imul(low, power), e.imul(high, power));
    let carry = e.lshr(low, half_width);
    let high = e.iadd(high, carry);
    [e.iand(low, mask), e.iand(high, mask), e.lshr(high, half_width)]
}

/// The product's words from the integer part down, carried.
fn multiply<E: Emitter>(e: &mut E, limbs: &[E::I; 3], window: &[E::I]) -> Vec<E::I> {
    let half_width = e.format().width() / 2;
    let mask = e.i((1 << half_width) - 1);
    let mut columns = vec![e.i(0); COLUMNS];
    for (i, &limb) in limbs.iter().enumerate() {
        for (d, &digit) in window.iter().enumerate() {
            // The low half belongs to column d - i, the high half one above it.
            let Some(column) = d.checked_sub(i).filter(|&c| c <= COLUMNS) else { continue };
            let p = e.imul(limb, digit);
            if column < COLUMNS {
                let low = e.iand(p, mask);
                columns[column] = e.iadd(columns[column], low);
            }
            if column > 0 {
                let high = e.lshr(p, half_width);
                columns[column - 1] = e.iadd(columns[column - 1], high);
            }
        }
    }
    for c in (1..COLUMNS).rev() {
        let carry = e.lshr(columns[c], half_width);
        columns[c] = e.iand(columns[c], mask);
        columns[c - 1] = e.iadd(columns[c - 1], carry);
    }
    columns
}

/// The sum of digit k (from 1) times 2^(-k half the width); the first digit is signed.
fn fraction<E: Emitter>(e: &mut E, digits: &[E::I]) -> Pair<E::F> {
    let half_width = e.format().width() as i32 / 2;
    let terms: Vec<E::F> = digits
        .iter()
        .enumerate()
        .map(|(k, &d)| {
            let d = super::arith::small_to_float(e, d);
            super::arith::mulc(e, d, 2f64.powi(-half_width * (k as i32 + 1)))
        })
        .collect();
    let (a, b) = (two_sum(e, terms[0], terms[1]), two_sum(e, terms[2], terms[3]));
    let high = two_sum(e, a.high, b.high);
    let tail = e.add(terms[4], terms[5]);
    let tail = e.add(b.low, tail);
    let tail = e.add(a.low, tail);
    let tail = e.add(high.low, tail);
    fast_two_sum(e, high.high, tail)
}
