//! Joins the tensors of several requests along their first axis, and splits the results.

use crate::error::Failure;
use disc_ral::{DType, Error, HostTensor, Tensor};
use half::{bf16, f16};

/// Joins tensors that differ only in their first sizes. There is one at least.
pub(crate) fn join(parts: &[&HostTensor]) -> Result<HostTensor, Error> {
    let rows = parts.iter().map(|part| part.sizes()[0]).sum();
    let sizes: Vec<i64> = std::iter::once(rows).chain(parts[0].sizes()[1..].iter().copied()).collect();
    let mut joined = HostTensor::zeros(parts[0].dtype(), &sizes)?;
    let mut at = 0;
    for part in parts {
        joined.bytes_mut()[at..at + part.bytes().len()].copy_from_slice(part.bytes());
        at += part.bytes().len();
    }
    Ok(joined)
}

/// Splits a result into tensors of so many rows.
pub(crate) fn split(joined: &Tensor<'_>, rows: &[usize]) -> Result<Vec<Tensor<'static>>, Failure> {
    let (sizes, bytes) = (joined.sizes(), joined.bytes()?);
    let all: usize = rows.iter().sum();
    if sizes.first() != Some(&(all as i64)) {
        return Err(Failure::internal(format!("a result of sizes {sizes:?} for {all} rows")));
    }
    let row_bytes = bytes.len() / all.max(1);
    let mut at = 0;
    let part = |&rows: &usize| {
        let sizes: Vec<i64> = std::iter::once(rows as i64).chain(sizes[1..].iter().copied()).collect();
        let mut part = HostTensor::zeros(joined.dtype(), &sizes)?;
        part.bytes_mut().copy_from_slice(&bytes[at..at + rows * row_bytes]);
        at += rows * row_bytes;
        Ok(part.into())
    };
    rows.iter().map(part).collect()
}

/// The part of a result's largest number by which rounding may change another one.
const TOLERANCE: f64 = 0.01;

/// Returns true if two results differ by no more than rounding: one sum is added up in another
/// order for another number of rows.
pub(crate) fn is_close(a: &Tensor<'_>, b: &Tensor<'_>) -> bool {
    let (Ok(x), Ok(y)) = (a.bytes(), b.bytes()) else { return false };
    if a.sizes() != b.sizes() || a.dtype() != b.dtype() {
        return false;
    }
    if x == y {
        return true;
    }
    let (Some(x), Some(y)) = (floats(a.dtype(), x), floats(b.dtype(), y)) else { return false };
    let scale = y.iter().filter(|value| value.is_finite()).fold(0.0_f64, |scale, value| scale.max(value.abs()));
    let same = |(x, y): (&f64, &f64)| x == y || (x.is_nan() && y.is_nan()) || (x - y).abs() <= scale * TOLERANCE;
    x.iter().zip(&y).all(same)
}

/// Returns numbers of a floating-point type; `None` for another type.
fn floats(dtype: DType, bytes: &[u8]) -> Option<Vec<f64>> {
    macro_rules! read {
        ($type:ty) => {{
            let element = |bytes: &[u8]| Some(f64::from(<$type>::from_ne_bytes(bytes.try_into().ok()?)));
            bytes.chunks_exact(size_of::<$type>()).map(element).collect()
        }};
    }
    match dtype {
        DType::F16 => read!(f16),
        DType::BF16 => read!(bf16),
        DType::F32 => read!(f32),
        DType::F64 => read!(f64),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn is_close_to(x: [f32; 3], y: [f32; 3]) -> bool {
        let [x, y] = [x, y].map(|values| HostTensor::new(&[3], &values).unwrap().into());
        is_close(&x, &y)
    }

    #[test]
    fn results_that_differ_by_rounding_are_close() {
        assert!(is_close_to([1.0, f32::NAN, 1e-9], [1.000_001, f32::NAN, 0.0]));
        assert!(is_close_to([f32::INFINITY, 0.0, 2.0], [f32::INFINITY, 0.0, 2.0]));
        assert!(!is_close_to([f32::INFINITY, 0.0, 2.0], [f32::NEG_INFINITY, 0.0, 2.0]));
        assert!(!is_close_to([1.0, 0.0, 2.0], [1.1, 0.0, 2.0]));
        assert!(!is_close_to([f32::NAN, 0.0, 2.0], [1.0, 0.0, 2.0]));
        let [x, y] = [HostTensor::new(&[1], &[5_i64]), HostTensor::new(&[1], &[6_i64])].map(|made| made.unwrap().into());
        assert!(is_close(&x, &x) && !is_close(&x, &y));
    }

    #[test]
    fn joined_tensors_are_split_again() {
        let [a, b] = [HostTensor::new(&[1, 2], &[1_i16, 2]), HostTensor::new(&[2, 2], &[3_i16, 4, 5, 6])].map(Result::unwrap);
        let joined: Tensor<'_> = join(&[&a, &b]).unwrap().into();
        assert_eq!((joined.sizes(), joined.elements::<i16>().unwrap()), (&[3, 2][..], &[1, 2, 3, 4, 5, 6][..]));
        let parts = split(&joined, &[1, 2]).unwrap();
        assert_eq!(parts[0].elements::<i16>().unwrap(), [1, 2]);
        assert_eq!((parts[1].sizes(), parts[1].elements::<i16>().unwrap()), (&[2, 2][..], &[3, 4, 5, 6][..]));
        assert!(split(&joined, &[1, 1]).is_err());
    }
}
