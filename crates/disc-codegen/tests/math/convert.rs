//! Tests conversions: all narrow words, all roundings near them, against the `half` crate and
//! Rust's casts.

use disc_codegen::math::{Narrow, OutOfRange, Scalar32, Scalar64, from_narrow, to_integer, to_narrow, to_unsigned_saturating};
use half::{bf16, f16};

fn same32(a: f32, b: f32) -> bool {
    a.to_bits() == b.to_bits() || a.is_nan() && b.is_nan() && a.is_sign_negative() == b.is_sign_negative()
}

#[test]
fn every_narrow_word_widens_exactly() {
    let (mut e32, mut e64) = (Scalar32::new(), Scalar64::new());
    for word in 0..=u16::MAX {
        let (half_value, brain_value) = (f16::from_bits(word).to_f32(), bf16::from_bits(word).to_f32());
        assert!(same32(from_narrow(&mut e32, i32::from(word), Narrow::F16), half_value), "f16 {word:#06x}");
        assert!(same32(from_narrow(&mut e32, i32::from(word), Narrow::Bf16), brain_value), "bf16 {word:#06x}");
        assert!(same32(from_narrow(&mut e64, i64::from(word), Narrow::F16) as f32, half_value), "f16 {word:#06x} to f64");
        assert!(same32(from_narrow(&mut e64, i64::from(word), Narrow::Bf16) as f32, brain_value), "bf16 {word:#06x} to f64");
    }
}

#[test]
fn every_narrow_word_survives_the_round_trip() {
    let (mut e32, mut e64) = (Scalar32::new(), Scalar64::new());
    for word in 0..=u16::MAX {
        for to in [Narrow::F16, Narrow::Bf16] {
            let is_nan = from_narrow(&mut e32, i32::from(word), to).is_nan();
            let quiet = if is_nan { 1 << if to == Narrow::F16 { 9 } else { 6 } } else { 0 };
            let single = from_narrow(&mut e32, i32::from(word), to);
            assert_eq!(to_narrow(&mut e32, single, to), i32::from(word | quiet), "{to:?} {word:#06x}");
            let double = from_narrow(&mut e64, i64::from(word), to);
            assert_eq!(to_narrow(&mut e64, double, to), i64::from(word | quiet), "{to:?} {word:#06x} from f64");
        }
    }
}

/// Every tie between neighbouring narrow words, and its neighbours in f64, with the words they
/// round to.
///
/// (`half` itself drops the low half of an f64 before it rounds.)
fn near_ties(to: Narrow) -> Vec<(f64, i64)> {
    let mut e = Scalar64::new();
    let inf = if to == Narrow::F16 { 0x7c00 } else { 0x7f80 };
    let mut cases = vec![(0.0, 0), (5e-324, 0), (f64::MAX, inf), (f64::INFINITY, inf)];
    for word in 0..inf {
        let (a, mut b) = (from_narrow(&mut e, word, to), from_narrow(&mut e, word + 1, to));
        if b.is_infinite() {
            b = 2.0 * from_narrow(&mut e, word & !((1 << if to == Narrow::F16 { 10 } else { 7 }) - 1), to);
        }
        let tie = (a + b) / 2.0;
        cases.extend([(tie, word + (word & 1)), (tie.next_up(), word + 1), (tie.next_down(), word)]);
    }
    cases
}

#[test]
fn f64_rounds_once() {
    let mut e = Scalar64::new();
    for to in [Narrow::F16, Narrow::Bf16] {
        for (x, word) in near_ties(to) {
            assert_eq!(to_narrow(&mut e, x, to), word, "{to:?} {x:e}");
            assert_eq!(to_narrow(&mut e, -x, to), word | 0x8000, "{to:?} {:e}", -x);
            assert_eq!(to_narrow(&mut e, x, Narrow::F32), i64::from((x as f32).to_bits()), "{x:e}");
        }
    }
}

#[test]
fn f32_rounds_to_nearest_even() {
    let mut e = Scalar32::new();
    for x in near_ties(Narrow::F16).into_iter().chain(near_ties(Narrow::Bf16)).flat_map(|(x, _)| [x as f32, -x as f32]) {
        assert_eq!(to_narrow(&mut e, x, Narrow::F16), i32::from(f16::from_f32(x).to_bits()), "{x:e}");
        assert_eq!(to_narrow(&mut e, x, Narrow::Bf16), i32::from(bf16::from_f32(x).to_bits()), "{x:e}");
    }
}

#[test]
fn integers_are_cut_and_bounded() {
    let values =
        [0.0, -0.0, 0.9, -0.9, 1.5, -1.5, 127.0, 127.9, 128.0, -128.0, -128.9, -129.0, 2147483520.0, 2147483648.0, -2147483648.0];
    let wide =
        [2147483647.0, 2147483647.5, -2147483648.5, -2147483649.0, 9007199254740993.0, 9.3e18, -9.3e18, -9223372036854775808.0];
    let ends = [f64::INFINITY, f64::NEG_INFINITY, f64::NAN, 1e300, -1e300];
    for &x in values.iter().chain(&wide).chain(&ends) {
        let single = x as f32;
        let fits = |x: f64, least: f64| x > least - 1.0 && x < -least;
        let (mut e32, mut e64) = (Scalar32::new(), Scalar64::new());
        assert_eq!(to_integer(&mut e32, single, 32, OutOfRange::Saturate), single as i32, "{x:e}");
        assert_eq!(to_integer(&mut e32, single, 8, OutOfRange::Saturate), i32::from(single as i8), "{x:e}");
        assert_eq!(to_integer(&mut e64, x, 64, OutOfRange::Saturate), x as i64, "{x:e}");
        assert_eq!(to_integer(&mut e64, x, 32, OutOfRange::Saturate), i64::from(x as i32), "{x:e}");
        let least = to_integer(&mut e64, x, 32, OutOfRange::Least);
        assert_eq!(least, if fits(x, -2147483648.0) { x as i64 } else { i64::from(i32::MIN) }, "{x:e}");
        let least = to_integer(&mut e32, single, 32, OutOfRange::Least);
        let inside = (-2147483648.0..2147483648.0).contains(&single);
        assert_eq!(least, if inside { single as i32 } else { i32::MIN }, "{x:e}");
        let byte = to_unsigned_saturating(&mut e32, single, 8);
        assert_eq!(byte, i32::from(single as u8), "{x:e}");
    }
}
