//! Reads and writes tensors in the text of a test: `[1.0, 2.0]`, or `[] : tensor<0x3xf32>` and
//! `1.0 : tensor<2x3xf32>` if brackets do not give the sizes.
use crate::compare::compare;
use disc_ir::{DType, Literal, TensorType, Type, generate::cases::Nearness, interp::Tensor, text};

/// Splits at commas outside brackets.
pub(crate) fn split(list: &str) -> Vec<&str> {
    let mut depth = 0_i32;
    let mut parts = Vec::new();
    let mut start = 0;
    for (i, byte) in list.bytes().enumerate() {
        match byte {
            b'[' | b'(' | b'<' => depth += 1,
            b']' | b')' | b'>' => depth -= 1,
            b',' if depth == 0 => {
                parts.push(list[start..i].trim());
                start = i + 1;
            }
            _ => {}
        }
    }
    if !list[start..].trim().is_empty() {
        parts.push(list[start..].trim());
    }
    parts
}

/// Parses the tensor in `text`, of element type `dtype` unless the text has one.
pub(crate) fn read(text: &str, dtype: DType) -> Result<Tensor, String> {
    let wrong = |why: String| format!("`{text}`: {why}");
    let (elements, ty) = match text.split_once(" : ") {
        Some((elements, ty)) => {
            (elements.trim(), Some(tensor_type(ty.trim()).ok_or_else(|| wrong("no type of constant sizes".into()))?))
        }
        None => (text, None),
    };
    let dtype = ty.as_ref().map_or(dtype, |ty| ty.dtype);
    let (literal, shape) = text::parse_elements(elements, dtype).map_err(|e| wrong(e.message))?;
    let sizes = match ty.and_then(|ty| ty.static_dims()) {
        Some(sizes) => sizes,
        None => shape.unwrap_or_default().into_iter().map(|size| size as i64).collect(),
    };
    let bytes = if literal.splat {
        let count = sizes.iter().product::<i64>();
        literal.bytes.repeat(usize::try_from(count).map_err(|e| wrong(e.to_string()))?)
    } else {
        literal.bytes.to_vec()
    };
    Tensor::new(dtype, sizes, bytes).map_err(|e| wrong(e.message))
}

/// The constant type in `text`, which only a parser can read.
fn tensor_type(text: &str) -> Option<TensorType> {
    let module = disc_ir::parse(&format!("func @f(%x: {text}) {{ return }}")).ok()?;
    let function = &module.functions[0];
    let ty = function.ty(function.parameters()[0]).as_tensor().cloned();
    ty.filter(|ty| ty.static_dims().is_some())
}

/// The text of a tensor, which [`read`] reads back.
pub(crate) fn write(tensor: &Tensor) -> String {
    let (dtype, sizes) = (tensor.dtype(), tensor.dims());
    // Any NaN will do.
    let is_nan = dtype.is_float() && tensor.to_f64s().iter().any(|x| x.is_nan());
    let plain = |x: f64| if x.is_nan() { f64::NAN } else { x };
    let literal = match is_nan {
        true => Literal::from_f64s(dtype, &tensor.to_f64s().into_iter().map(plain).collect::<Vec<_>>()),
        false => Literal::dense(dtype, tensor.bytes()),
    };
    let elements = text::print_elements(&literal, sizes);
    match tensor.is_empty() {
        true => format!("[] : {}", Type::tensor(sizes.iter().map(|&size| size.into()), dtype)),
        false if elements.starts_with('"') => {
            format!("{elements} : {}", Type::tensor(sizes.iter().map(|&size| size.into()), dtype))
        }
        false => elements,
    }
}

/// Returns true if two results are equal: bit by bit, but every NaN equals every other.
pub(crate) fn same(a: &Tensor, b: &Tensor) -> bool {
    compare(a, b, Nearness::Exact).is_ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn tensors_print_as_they_are_read() {
        for text in ["[[1.0, nan], [2.5, -0.0]]", "3.0", "[] : tensor<0x3xf32>", "[1.0]"] {
            assert_eq!(write(&read(text, DType::F32).unwrap()), text);
        }
        assert_eq!(read("1 : tensor<2x2xi64>", DType::F32).unwrap().to_i64s(), [1; 4]);
        assert!(read("[1, 2] : tensor<3xi64>", DType::F32).is_err());
        assert_eq!(split("[1, 2], 3, [] : tensor<0x1xf32>"), ["[1, 2]", "3", "[] : tensor<0x1xf32>"]);
    }
}
