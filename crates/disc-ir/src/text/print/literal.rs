//! Prints literals, so that parsing gives the same bits.
use crate::{
    literal::Literal,
    types::{DType, TensorType, Type},
};
use std::fmt::Write;

/// Larger literals are printed as raw bytes, which are easier to skip for a reader.
const MAX_LISTED: usize = 64;

/// `dense<...>`
pub(super) fn text(literal: &Literal, result: Option<&Type>) -> String {
    format!("dense<{}>", elements(literal, result))
}

/// Prints the text between `dense<` and `>`.
pub(in crate::text) fn elements(literal: &Literal, result: Option<&Type>) -> String {
    let count = literal.stored_len();
    // Elements of a type whose sizes are not known, which the verifier refuses, are one list.
    let known = result.and_then(Type::as_tensor).map_or(Some(Vec::new()), TensorType::static_dims);
    let sizes = known.unwrap_or_else(|| vec![count as i64]);
    let fits = sizes.iter().try_fold(1_i64, |product, &size| product.checked_mul(size)) == Some(count as i64);
    let mut out = String::new();
    match () {
        () if literal.splat || (fits && sizes.is_empty()) => out.push_str(&element(literal, 0)),
        () if count == 0 => {}
        () if fits && count <= MAX_LISTED => list(literal, &sizes, 0, &mut out),
        () => raw(&literal.bytes, &mut out),
    }
    out
}

/// The elements from `first` on, as nested lists of these sizes.
fn list(literal: &Literal, sizes: &[i64], first: usize, out: &mut String) {
    let [size, inner @ ..] = sizes else { return out.push_str(&element(literal, first)) };
    let step = inner.iter().product::<i64>() as usize;
    out.push('[');
    for i in 0..*size as usize {
        if i > 0 {
            out.push_str(", ");
        }
        list(literal, inner, first + i * step, out);
    }
    out.push(']');
}

fn raw(bytes: &[u8], out: &mut String) {
    out.push_str("\"0x");
    bytes.iter().for_each(|byte| write!(out, "{byte:02X}").expect("writing to a string"));
    out.push('"');
}

fn element(literal: &Literal, index: usize) -> String {
    match literal.dtype {
        DType::I1 => (literal.i64_at(index) != 0).to_string(),
        DType::U64 => (literal.i64_at(index) as u64).to_string(),
        dtype if dtype.is_float() => float_element(literal, index, dtype),
        _ => literal.i64_at(index).to_string(),
    }
}

/// Prints a float; a NaN other than the default one as its bits.
fn float_element(literal: &Literal, index: usize, dtype: DType) -> String {
    let value = literal.f64_at(index);
    if !value.is_nan() {
        // The shortest text of an f32 is not that of the equal f64.
        return if dtype == DType::F64 { float(value) } else { shortest(value as f32) };
    }
    let size = dtype.size();
    let bytes = &literal.bytes[if literal.splat { 0 } else { index * size }..][..size];
    let bits = bytes.iter().rev().fold(0_u64, |bits, &byte| bits << 8 | u64::from(byte));
    let usual = match dtype {
        DType::F16 => 0x7E00,
        DType::BF16 => 0x7FC0,
        DType::F32 => 0x7FC0_0000,
        _ => 0x7FF8_0000_0000_0000,
    };
    if bits == usual { "nan".into() } else { format!("0x{bits:0width$X}", width = 2 * size) }
}

/// The shortest text that reads back as this number.
pub(super) fn float(value: f64) -> String {
    if value.is_nan() { "nan".into() } else { format!("{value:?}") }
}

fn shortest(value: f32) -> String {
    format!("{value:?}")
}
