//! Computes asin, acos, atan and atan2.
//!
//! - atan: a minimax polynomial on [0, 1]; above, pi/2 minus that of the reciprocal. atan2 divides
//!   the smaller by the larger operand, once, and places the angle by the signs.
//! - asin: a minimax polynomial on [0, 1/2]; above, pi/2 - 2 asin(sqrt((1 - x) / 2)). acos
//!   likewise, with the roles exchanged.
//!
//! Fits: scripts/fit/trig.sollya.

use super::arith::{fmac, horner, is_nan, sign_of, with_sign_of};
use super::emitter::{Emitter, Format};

/// atan(t) = t + t^3 P(t^2) on [0, 1]: relative error 2^-25.8.
const ATAN_32: [f64; 8] = [-0.33333153, 0.19993769, -0.14211023, 0.1066588, -0.07551952, 0.04320876, -0.016366003, 0.0029202034];
/// The same: relative error 2^-55.0.
const ATAN_64: [f64; 19] = [
    -0.3333333333333186,
    0.1999999999975519,
    -0.1428571427134188,
    0.11111110678905126,
    -0.09090901237534682,
    0.07692212950330657,
    -0.06665860493183427,
    0.05877308400319324,
    -0.0523923529402874,
    0.04673955995145292,
    -0.04092651939078068,
    0.034068038698572,
    -0.02582708849253826,
    0.016978321218310215,
    -0.009184768398075374,
    0.003856086079455747,
    -0.0011641121850476106,
    0.0002230313930459651,
    -2.025947584373016e-05,
];
/// asin(t) = t + t^3 P(t^2) on [0, 1/2]: relative error 2^-27.6.
const ASIN_32: [f64; 5] = [0.16666752, 0.0749531, 0.04546902, 0.024185503, 0.042157013];
/// The same: relative error 2^-55.9.
const ASIN_64: [f64; 12] = [
    0.16666666666665408,
    0.07500000000337102,
    0.04464285682827013,
    0.030381959138981125,
    0.022371758008737835,
    0.017359705316372362,
    0.013885230602039604,
    0.012169240344522181,
    0.0065278627079739925,
    0.019528546896427006,
    -0.01622466016615404,
    0.03191252891787342,
];
/// pi/2, and its rounding error.
const HALF_PI: ((f64, f64), (f64, f64)) =
    ((1.5707963705062866, -4.371138828673793e-08), (std::f64::consts::FRAC_PI_2, 6.123233995736766e-17));

/// t + t^3 P(t^2).
fn odd<E: Emitter>(e: &mut E, t: E::F, single: &[f64], double: &[f64]) -> E::F {
    let z = e.mul(t, t);
    let p = match e.format() {
        Format::F32 => horner(e, z, single),
        Format::F64 => horner(e, z, double),
    };
    let cube = e.mul(z, t);
    e.fma(p, cube, t)
}

/// c * pi/2 - y.
fn from_half_pi<E: Emitter>(e: &mut E, c: f64, y: E::F) -> E::F {
    let (high, low) = e.format().pick(HALF_PI.0, HALF_PI.1);
    let low = e.f(low * c);
    let high = e.f(high * c);
    let y = e.sub(y, low);
    e.sub(high, y)
}

/// The angle of the point (x, y), both not negative; (0, 0) and (inf, inf) included.
fn first_quadrant<E: Emitter>(e: &mut E, y: E::F, x: E::F) -> E::F {
    let steep = e.lt(x, y);
    let (small, large) = (e.select(steep, x, y), e.select(steep, y, x));
    let t = e.div(small, large);
    // 0/0 is 0 and inf/inf is 1.
    let (zero, one, inf) = (e.f(0.0), e.f(1.0), e.f(f64::INFINITY));
    let no_size = e.eq(large, zero);
    let t = e.select(no_size, zero, t);
    let both_inf = e.eq(small, inf);
    let t = e.select(both_inf, one, t);
    let angle = odd(e, t, &ATAN_32, &ATAN_64);
    let complement = from_half_pi(e, 1.0, angle);
    e.select(steep, complement, angle)
}

/// The arc tangent.
pub(super) fn atan<E: Emitter>(e: &mut E, x: E::F) -> E::F {
    let size = e.abs(x);
    let one = e.f(1.0);
    let steep = e.lt(one, size);
    let reciprocal = e.div(one, size);
    let t = e.select(steep, reciprocal, size);
    let angle = odd(e, t, &ATAN_32, &ATAN_64);
    let complement = from_half_pi(e, 1.0, angle);
    let angle = e.select(steep, complement, angle);
    with_sign_of(e, angle, x)
}

/// The angle of the point (x, y) in (-pi, pi].
pub(super) fn atan2<E: Emitter>(e: &mut E, y: E::F, x: E::F) -> E::F {
    let (width, height) = (e.abs(x), e.abs(y));
    let angle = first_quadrant(e, height, width);
    let mirrored = from_half_pi(e, 2.0, angle);
    let sign = sign_of(e, x);
    let zero = e.i(0);
    let right = e.ieq(sign, zero);
    let angle = e.select(right, angle, mirrored);
    let angle = with_sign_of(e, angle, y);
    let sum = e.add(x, y);
    let (x_nan, y_nan) = (is_nan(e, x), is_nan(e, y));
    let any_nan = e.or(x_nan, y_nan);
    e.select(any_nan, sum, angle)
}

/// For |x| = a: (a > 1/2, asin of a where that is small, asin(sqrt((1 - a) / 2)) elsewhere). NaN
/// above 1.
fn asin_parts<E: Emitter>(e: &mut E, a: E::F) -> (E::M, E::F) {
    let half = e.f(0.5);
    let large = e.lt(half, a);
    let rest = fmac(e, a, -0.5, half);
    let root = e.sqrt(rest);
    let t = e.select(large, root, a);
    (large, odd(e, t, &ASIN_32, &ASIN_64))
}

/// The arc sine; NaN outside [-1, 1].
pub(super) fn asin<E: Emitter>(e: &mut E, x: E::F) -> E::F {
    let a = e.abs(x);
    let (large, y) = asin_parts(e, a);
    let doubled = e.add(y, y);
    let complement = from_half_pi(e, 1.0, doubled);
    let y = e.select(large, complement, y);
    with_sign_of(e, y, x)
}

/// The arc cosine; NaN outside [-1, 1].
pub(super) fn acos<E: Emitter>(e: &mut E, x: E::F) -> E::F {
    let a = e.abs(x);
    let (large, y) = asin_parts(e, a);
    let zero = e.f(0.0);
    let negative = e.lt(x, zero);
    // Near 0: pi/2 - asin x. Near 1: 2y. Near -1: pi - 2y.
    let signed = with_sign_of(e, y, x);
    let middle = from_half_pi(e, 1.0, signed);
    let doubled = e.add(y, y);
    let far = from_half_pi(e, 2.0, doubled);
    let end = e.select(negative, far, doubled);
    e.select(large, end, middle)
}
