//! Computes math functions that no library here has, in f64.
//!
//! They are accurate to a few units in the last place of f64, far from poles and zeros; so they are
//! right for f32 and narrower types.
use std::f64::consts::PI;

/// Coefficients of the Euler-Maclaurin formula: the Bernoulli number `B[2j]` over `(2j)!`, for j =
/// 1, 2, ...
const EULER_MACLAURIN: [f64; 12] = [
    8.333333333333333e-2,
    -1.388888888888889e-3,
    3.306878306878307e-5,
    -8.267195767195768e-7,
    2.08767569878681e-8,
    -5.284190138687493e-10,
    1.3382536530684679e-11,
    -3.3896802963225827e-13,
    8.586062056277845e-15,
    -2.174868698558062e-16,
    5.5090028283602295e-18,
    -1.3954464685812522e-19,
];

/// The inverse hyperbolic cosine; in libm, some negative operands have a value.
pub(super) fn acosh(x: f64) -> f64 {
    if x < 1.0 { f64::NAN } else { libm::acosh(x) }
}

pub(super) fn logistic(x: f64) -> f64 {
    if x < 0.0 {
        let e = libm::exp(x);
        e / (1.0 + e)
    } else {
        1.0 / (1.0 + libm::exp(-x))
    }
}

/// The digamma function: -inf at 0 (+inf at -0), NaN at the negative integers.
pub(super) fn digamma(x: f64) -> f64 {
    if x == 0.0 {
        return f64::NEG_INFINITY.copysign(-x);
    }
    if x < 0.0 {
        // Exact, while a fraction above 0 would round to 1 next to a pole.
        let fraction = x - x.round();
        return if fraction == 0.0 { f64::NAN } else { digamma(1.0 - x) - PI / libm::tan(PI * fraction) };
    }
    if x == f64::INFINITY {
        return x;
    }
    // psi(x) = psi(x + 1) - 1 / x, up to the range of the asymptotic series.
    let (mut x, mut sum) = (x, 0.0);
    while x < 12.0 {
        sum -= 1.0 / x;
        x += 1.0;
    }
    let square = 1.0 / (x * x);
    let series = [1.0 / 12.0, -1.0 / 120.0, 1.0 / 252.0, -1.0 / 240.0, 1.0 / 132.0, -691.0 / 32760.0, 1.0 / 12.0];
    let tail = series.iter().rev().fold(0.0, |tail, c| (tail + c) * square);
    sum + libm::log(x) - 0.5 / x - tail
}

/// The polygamma function of order `n` at `x`; NaN unless `n` is an integer >= 0.
pub(super) fn polygamma(n: f64, x: f64) -> f64 {
    if n == 0.0 {
        return digamma(x);
    }
    if !(n > 0.0 && n == n.floor()) {
        return f64::NAN;
    }
    let sign = if n % 2.0 == 0.0 { -1.0 } else { 1.0 };
    sign * libm::tgamma(n + 1.0) * zeta(n + 1.0, x)
}

/// The Hurwitz zeta function, the sum over k >= 0 of `(q + k) ^ -x`; infinite at its poles, NaN
/// where it is not real.
pub(super) fn zeta(x: f64, q: f64) -> f64 {
    if x == 1.0 {
        return f64::INFINITY;
    }
    if x.is_nan() || q.is_nan() || x < 1.0 {
        return f64::NAN;
    }
    if q > 0.0 {
        return zeta_of_positive(x, q);
    }
    if q == q.floor() {
        return f64::INFINITY;
    }
    if x != x.floor() {
        return f64::NAN;
    }
    // The terms of negative base, from |q| down, are a difference of two such sums.
    let negative = (-q).ceil();
    let sign = if x % 2.0 == 0.0 { 1.0 } else { -1.0 };
    let below = zeta_of_positive(x, -q - negative + 1.0) - zeta_of_positive(x, -q + 1.0);
    sign * below + zeta_of_positive(x, q + negative)
}

fn zeta_of_positive(x: f64, q: f64) -> f64 {
    let (mut sum, mut base) = (0.0, q);
    while base < 12.0 + x / 2.0 {
        let term = libm::pow(base, -x);
        sum += term;
        base += 1.0;
        // Terms that underflow end the sum too, however far `x / 2` is.
        if term <= sum * 1e-18 {
            return sum;
        }
    }
    let mut power = libm::pow(base, -x);
    if power == 0.0 {
        return sum;
    }
    sum += base * power / (x - 1.0) + power / 2.0;
    let mut rising = x;
    for (j, coefficient) in EULER_MACLAURIN.iter().enumerate() {
        power /= base;
        sum += coefficient * rising * power;
        let next = x + 2.0 * j as f64;
        rising *= (next + 1.0) * (next + 2.0);
        power /= base;
    }
    sum
}

/// The inverse of the error function on [-1, 1]; infinite at the ends, NaN outside.
pub(super) fn erf_inv(x: f64) -> f64 {
    let size = x.abs();
    if size == 1.0 {
        return f64::INFINITY.copysign(x);
    }
    if size.is_nan() || size > 1.0 || x == 0.0 {
        return if x == 0.0 { x } else { f64::NAN };
    }
    // Winitzki's approximation, then Newton's method with the second-order term.
    let log = libm::log1p(-size * size);
    let a = 2.0 / (PI * 0.147) + log / 2.0;
    let mut y = (((a * a - log / 0.147).sqrt() - a).max(0.0)).sqrt();
    for _ in 0..4 {
        let error = if size < 0.5 { libm::erf(y) - size } else { (1.0 - size) - libm::erfc(y) };
        let step = error / (2.0 / PI.sqrt() * libm::exp(-y * y));
        y -= step / (1.0 + y * step);
    }
    y.copysign(x)
}

/// `exp(-|x|)` times the modified Bessel function of the first kind of order 1.
pub(super) fn bessel_i1e(x: f64) -> f64 {
    let size = x.abs();
    if size.is_nan() {
        return x;
    }
    let value = if size < 30.0 {
        let quarter = size * size / 4.0;
        let (mut term, mut sum) = (size / 2.0, 0.0);
        for k in 1..200 {
            sum += term;
            term *= quarter / f64::from(k * (k + 1));
        }
        sum * libm::exp(-size)
    } else if size == f64::INFINITY {
        0.0
    } else {
        let (mut term, mut sum) = (1.0, 0.0);
        for k in 1..30 {
            sum += term;
            let odd = f64::from(2 * k - 1);
            term *= (odd * odd - 4.0) / (8.0 * size * f64::from(k));
        }
        sum / (2.0 * PI * size).sqrt()
    };
    value.copysign(x)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Reference values have at least 15 digits.
    #[track_caller]
    fn near(found: f64, wanted: f64) {
        assert!((found - wanted).abs() <= 1e-14 * wanted.abs().max(1e-300), "{found:e} is not {wanted:e}");
    }

    #[test]
    fn digamma_values() {
        near(digamma(1.0), -0.577_215_664_901_532_9);
        near(digamma(0.5), -1.963_510_026_021_423_5);
        near(digamma(10.0), 2.251_752_589_066_721);
        near(digamma(-0.5), 0.036_489_973_978_576_52);
        assert_eq!(digamma(0.0), f64::NEG_INFINITY);
        assert_eq!(digamma(-0.0), f64::INFINITY);
        assert!(digamma(-3.0).is_nan() && digamma(f64::NAN).is_nan());
        assert_eq!(digamma(f64::INFINITY), f64::INFINITY);
    }

    #[test]
    fn zeta_and_polygamma_values() {
        near(zeta(2.0, 1.0), PI * PI / 6.0);
        near(zeta(4.0, 1.0), PI.powi(4) / 90.0);
        near(zeta(3.0, 1.0), 1.202_056_903_159_594_2);
        near(zeta(2.0, 0.5), PI * PI / 2.0);
        near(zeta(1.5, 1.0), 2.612_375_348_685_488);
        near(zeta(2.0, -0.5), PI * PI / 2.0 + 4.0);
        assert!((zeta(3.0, -1.5) - 0.118_102_025_820_864).abs() < 1e-14, "terms of both signs cancel");
        assert_eq!([zeta(1.0, 2.0), zeta(2.0, 0.0), zeta(2.0, -3.0)], [f64::INFINITY; 3]);
        assert!(zeta(0.5, 1.0).is_nan() && zeta(2.5, -0.5).is_nan());
        near(polygamma(1.0, 1.0), PI * PI / 6.0);
        near(polygamma(2.0, 1.0), -2.404_113_806_319_188_6);
        assert!(polygamma(1.5, 1.0).is_nan() && polygamma(-1.0, 1.0).is_nan());
    }

    #[test]
    fn erf_inv_inverts_erf() {
        for x in [-0.999_999, -0.7, -0.1, 1e-9, 0.25, 0.5, 0.9, 0.999_999_9] {
            near(libm::erf(erf_inv(x)), x);
        }
        near(erf_inv(0.5), 0.476_936_276_204_469_9);
        assert_eq!([erf_inv(1.0), erf_inv(-1.0), erf_inv(0.0)], [f64::INFINITY, f64::NEG_INFINITY, 0.0]);
        assert!(erf_inv(1.1).is_nan() && erf_inv(f64::NAN).is_nan());
    }

    #[test]
    fn bessel_values() {
        near(bessel_i1e(1.0), 0.207_910_415_349_708_48);
        near(bessel_i1e(-10.0), -0.121_262_681_384_455_6);
        let (below, above) = (bessel_i1e(30.0 - 1e-9), bessel_i1e(30.0));
        assert!((below - above).abs() < 1e-11, "both forms agree: {below} {above}");
        assert_eq!(bessel_i1e(0.0), 0.0);
        assert_eq!(bessel_i1e(f64::INFINITY), 0.0);
    }

    #[test]
    fn logistic_values() {
        assert_eq!(logistic(0.0), 0.5);
        assert_eq!([logistic(f64::INFINITY), logistic(f64::NEG_INFINITY)], [1.0, 0.0]);
        assert!(logistic(-740.0) > 0.0, "the tail does not vanish early");
    }
}
