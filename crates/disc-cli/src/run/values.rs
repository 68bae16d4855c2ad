//! Prints results as text and as JSON, and compares them.
use disc_ir::{DType, Literal, Type, interp::Tensor, text::print_elements};
use serde_json::{Value, json as object};

/// Results with more elements, whose text would be their bytes, are shown by their type and range.
const MOST_SHOWN: usize = 64;

/// `tensor<2x3xf32> [[...], [...]]`
pub(crate) fn describe(tensor: &Tensor) -> String {
    let literal = Literal::dense(tensor.dtype(), tensor.bytes());
    format!("{} {}", ty(tensor), print_elements(&literal, tensor.dims()))
}

/// Like [`describe`], but without the elements of a large tensor.
pub(crate) fn summary(tensor: &Tensor) -> String {
    if tensor.len() <= MOST_SHOWN {
        return describe(tensor);
    }
    let values = tensor.to_f64s();
    let (least, most) = values.iter().fold((f64::INFINITY, f64::NEG_INFINITY), |(least, most), &x| (least.min(x), most.max(x)));
    let nan = if values.iter().any(|x| x.is_nan()) { ", some NaN" } else { "" };
    format!("{}: {} elements from {least:?} to {most:?}{nan}", ty(tensor), tensor.len())
}

/// Returns type, sizes and elements in row-major order; numbers that JSON does not have are
/// strings.
pub(crate) fn json(tensor: &Tensor) -> Value {
    let float = |x: f64| if x.is_finite() { object!(x) } else { object!(format!("{x}")) };
    let elements: Vec<Value> = match tensor.dtype() {
        DType::I1 => tensor.to_i64s().into_iter().map(|x| object!(x != 0)).collect(),
        DType::U64 => tensor.to_vec::<u64>().unwrap_or_default().into_iter().map(|x| object!(x)).collect(),
        dtype if dtype.is_float() => tensor.to_f64s().into_iter().map(float).collect(),
        _ => tensor.to_i64s().into_iter().map(|x| object!(x)).collect(),
    };
    object!({ "dtype": tensor.dtype().name(), "sizes": tensor.dims(), "elements": elements })
}

/// Returns the first difference between results and expected ones: in number, type, sizes, or an
/// element beyond the tolerance of its type.
pub(crate) fn difference(found: &[Tensor], expected: &[Tensor]) -> Option<String> {
    difference_beyond(found, expected, 0.0)
}

/// Returns the first difference that is larger than the tolerance of its type, and than `least`
/// times the larger element or 1.
pub(crate) fn difference_beyond(found: &[Tensor], expected: &[Tensor], least: f64) -> Option<String> {
    if found.len() != expected.len() {
        return Some(format!("{} results, expected {}", found.len(), expected.len()));
    }
    found.iter().zip(expected).enumerate().find_map(|(i, (a, b))| of_two(a, b, least).map(|why| format!("result {i}: {why}")))
}

fn of_two(found: &Tensor, expected: &Tensor, least: f64) -> Option<String> {
    if (found.dtype(), found.dims()) != (expected.dtype(), expected.dims()) {
        return Some(format!("{}, expected {}", ty(found), ty(expected)));
    }
    if found.bytes() == expected.bytes() {
        return None;
    }
    if !found.dtype().is_float() {
        let (x, y) = (found.to_i64s(), expected.to_i64s());
        let at = x.iter().zip(&y).position(|(x, y)| x != y)?;
        return Some(format!("element {:?} is {}, expected {}", position(at, found.dims()), x[at], y[at]));
    }
    let tolerance = tolerance(found.dtype()).max(least);
    let equal =
        |(x, y): (f64, f64)| x == y || (x.is_nan() && y.is_nan()) || (x - y).abs() <= tolerance * x.abs().max(y.abs()).max(1.0);
    let pairs = || found.to_f64s().into_iter().zip(expected.to_f64s());
    let at = pairs().position(|pair| !equal(pair))?;
    let (x, y) = pairs().nth(at).expect("just found");
    Some(format!("element {:?} is {x:?}, expected {y:?}", position(at, found.dims())))
}

/// Returns the tolerance of elements, relative to the larger one or to 1: sums in another order,
/// fused or rounded intermediates.
fn tolerance(dtype: DType) -> f64 {
    match dtype {
        DType::F16 => 4e-3,
        DType::BF16 => 3e-2,
        DType::F32 => 5e-5,
        _ => 1e-10,
    }
}

/// Returns the index of the element at a row-major offset.
fn position(mut at: usize, dims: &[i64]) -> Vec<usize> {
    let mut index = vec![0; dims.len()];
    for (slot, &size) in index.iter_mut().zip(dims).rev() {
        (*slot, at) = (at % size as usize, at / size as usize);
    }
    index
}

/// Copies a view of some bytes that begins at `start`; without strides it is contiguous. Returns
/// `None` if it leaves them.
pub(super) fn view(bytes: &[u8], start: usize, dtype: DType, sizes: &[i64], strides: Option<&[i64]>) -> Option<Tensor> {
    let mut contiguous = vec![1_i64; sizes.len()];
    for axis in (1..sizes.len()).rev() {
        contiguous[axis - 1] = contiguous[axis] * sizes[axis];
    }
    let strides = strides.unwrap_or(&contiguous);
    let (count, size) = (sizes.iter().product::<i64>(), dtype.size());
    let mut copy = Vec::with_capacity(count as usize * size);
    for at in 0..count {
        let index = position(at as usize, sizes);
        let offset: i64 = index.iter().zip(strides).map(|(&i, &stride)| i as i64 * stride).sum();
        let first = start.checked_add_signed(isize::try_from(offset).ok()?.checked_mul(size as isize)?)?;
        copy.extend(bytes.get(first..first.checked_add(size)?)?);
    }
    Tensor::new(dtype, sizes.to_vec(), copy).ok()
}

fn ty(tensor: &Tensor) -> Type {
    Type::tensor(tensor.dims().iter().map(|&size| size.into()), tensor.dtype())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn f32s(dims: &[i64], elements: &[f64]) -> Tensor {
        Tensor::from_f64s(DType::F32, dims, elements).unwrap()
    }

    #[test]
    fn the_first_difference_is_named() {
        let (a, b) = (f32s(&[2, 2], &[1.0, 2.0, f64::NAN, 4.0]), f32s(&[2, 2], &[1.0, 2.0, f64::NAN, 5.0]));
        let (a, b) = ([a], [b]);
        assert_eq!(difference(&a, &b).unwrap(), "result 0: element [1, 1] is 4.0, expected 5.0");
        assert_eq!(difference(&a, &a), None);
        assert_eq!(difference(&a, &[]).unwrap(), "1 results, expected 0");
        assert!(difference(&a, &[f32s(&[4], &[0.0; 4])]).unwrap().contains("tensor<2x2xf32>, expected tensor<4xf32>"));
    }

    #[test]
    fn views_are_copied_and_stay_inside() {
        let bytes = f32s(&[2, 3], &[0.0, 1.0, 2.0, 3.0, 4.0, 5.0]);
        let turned = view(bytes.bytes(), 0, DType::F32, &[3, 2], Some(&[1, 3])).unwrap();
        assert_eq!(turned, f32s(&[3, 2], &[0.0, 3.0, 1.0, 4.0, 2.0, 5.0]));
        assert_eq!(view(bytes.bytes(), 12, DType::F32, &[3], None).unwrap(), f32s(&[3], &[3.0, 4.0, 5.0]));
        assert!(view(bytes.bytes(), 16, DType::F32, &[3], None).is_none());
        assert!(view(bytes.bytes(), 0, DType::F32, &[2], Some(&[-1])).is_none());
    }

    #[test]
    fn rounding_is_no_difference_but_integers_are_exact() {
        assert_eq!(difference(&[f32s(&[1], &[1.0])], &[f32s(&[1], &[1.000001])]), None);
        let int = |x| Tensor::from_i64s(DType::I64, &[], &[x]).unwrap();
        assert!(difference(&[int(1)], &[int(2)]).is_some());
    }

    #[test]
    fn json_has_no_words_outside_strings() {
        assert_eq!(json(&f32s(&[2], &[1.5, f64::INFINITY]))["elements"], object!([1.5, "inf"]));
    }
}
