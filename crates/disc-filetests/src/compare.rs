//! Compares results: equal, or within their tolerance.
use disc_ir::{DType, generate::cases::Nearness, interp::Tensor};

/// Returns the stored bits of a mantissa, the exponent of the smallest normal number, and that of
/// the largest.
fn format(dtype: DType) -> (i32, i32, i32) {
    match dtype {
        DType::F16 => (10, -14, 15),
        DType::BF16 => (7, -126, 127),
        DType::F32 => (23, -126, 127),
        _ => (52, -1022, 1023),
    }
}

/// Returns the unit in the last place of a number of this size.
fn ulp(dtype: DType, size: f64) -> f64 {
    let (stored, least, most) = format(dtype);
    let exponent = if size == 0.0 { least } else { size.log2().floor().clamp(f64::from(least), f64::from(most)) as i32 };
    // In two steps: the power may be denormal, and `powi` would divide by infinity.
    2f64.powi(exponent) * 2f64.powi(-stored)
}

/// Replaces infinity by the first power of two beyond the format.
fn finite(dtype: DType, x: f64) -> f64 {
    if x.is_infinite() { 2f64.powi(format(dtype).2).copysign(x) * 2.0 } else { x }
}

/// Returns true if `found` is within the tolerance of `expected`.
fn is_near(dtype: DType, found: f64, expected: f64, nearness: Nearness) -> bool {
    if found.is_nan() || expected.is_nan() {
        return found.is_nan() && expected.is_nan();
    }
    if found == expected {
        return nearness != Nearness::Exact || found.is_sign_negative() == expected.is_sign_negative();
    }
    let relative = tolerance(dtype);
    match nearness {
        Nearness::Exact | Nearness::Value => false,
        Nearness::Function => {
            // The interpreter's own functions are not correctly rounded in f64.
            let units = match dtype {
                DType::F16 | DType::BF16 => 1.0,
                DType::F32 => 5.0,
                _ => 16.0,
            };
            let (found, expected) = match dtype {
                DType::F64 => (found, expected),
                _ => (finite(dtype, found), finite(dtype, expected)),
            };
            (found - expected).abs() <= units * ulp(dtype, expected.abs().max(found.abs()))
        }
        Nearness::Cancelling | Nearness::Sum => (found - expected).abs() <= relative * found.abs().max(expected.abs()).max(1.0),
    }
}

/// Returns the tolerance of sums against the interpreter's, which accumulates in f64: relative to
/// the larger one or to 1.
pub fn tolerance(dtype: DType) -> f64 {
    match dtype {
        DType::F16 => 2e-3,
        DType::BF16 => 1.6e-2,
        DType::F32 => 2e-5,
        _ => 1e-11,
    }
}

/// Compares a result with the interpreter's. Every NaN equals every other; types that are not
/// floats must be equal.
///
/// # Errors
/// A description of the first difference.
pub fn compare(found: &Tensor, expected: &Tensor, nearness: Nearness) -> Result<(), String> {
    let dtype = expected.dtype();
    if (found.dtype(), found.dims()) != (dtype, expected.dims()) {
        return Err(format!("{} of sizes {:?}, expected {dtype} of {:?}", found.dtype(), found.dims(), expected.dims()));
    }
    if found.bytes() == expected.bytes() {
        return Ok(());
    }
    if !dtype.is_float() {
        let (found, expected) = (found.to_i64s(), expected.to_i64s());
        let at = found.iter().zip(&expected).position(|(x, y)| x != y).unwrap_or(0);
        return Err(format!("element {at} is {}, expected {}", found[at], expected[at]));
    }
    let pairs = found.to_f64s().into_iter().zip(expected.to_f64s());
    match pairs.enumerate().find(|(_, (x, y))| !is_near(dtype, *x, *y, nearness)) {
        None => Ok(()),
        Some((at, (x, y))) => Err(format!("element {at} is {x:?}, expected {y:?}")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn differs(dtype: DType, found: f64, expected: f64, nearness: Nearness) -> bool {
        let of = |x| Tensor::from_f64s(dtype, &[1], &[x]).unwrap();
        compare(&of(found), &of(expected), nearness).is_err()
    }

    #[test]
    fn equality_knows_nan_and_the_sign_of_zero() {
        assert!(!differs(DType::F32, f64::NAN, f64::NAN, Nearness::Exact));
        assert!(differs(DType::F32, f64::NAN, 1.0, Nearness::Sum));
        assert!(differs(DType::F32, 0.0, -0.0, Nearness::Exact));
        assert!(!differs(DType::F32, 0.0, -0.0, Nearness::Function));
    }

    #[test]
    fn functions_may_be_some_units_apart_however_small_the_numbers_are() {
        let (one, denormal) = (2f64.powi(-23), 2f64.powi(-149));
        assert!(!differs(DType::F32, 1.0, 1.0 + 5.0 * one, Nearness::Function));
        assert!(differs(DType::F32, 1.0, 1.0 + 6.0 * one, Nearness::Function));
        assert!(!differs(DType::F32, denormal, 4.0 * denormal, Nearness::Function));
        assert!(differs(DType::F32, 0.0, 2f64.powi(-140), Nearness::Function));
        assert!(!differs(DType::F32, f64::INFINITY, f64::from(f32::MAX), Nearness::Function));
        assert!(!differs(DType::F32, 1e-9, 0.0, Nearness::Sum));
    }

    #[test]
    fn sizes_and_types_must_be_equal() {
        let of =
            |dtype, sizes: &[i64]| Tensor::from_i64s(dtype, sizes, &vec![1; sizes.iter().product::<i64>() as usize]).unwrap();
        assert!(compare(&of(DType::F32, &[2, 1]), &of(DType::F32, &[1, 2]), Nearness::Sum).is_err());
        assert!(compare(&of(DType::F32, &[1]), &of(DType::F64, &[1]), Nearness::Sum).is_err());
        assert!(compare(&of(DType::I8, &[1]), &of(DType::I8, &[1]), Nearness::Exact).is_ok());
    }
}
