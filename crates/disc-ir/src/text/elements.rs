//! Parses and prints elements on their own, `[[1.0, 2.0], [3.0, 4.0]]`: the text between `dense<`
//! and `>`, for tests and tools.
use super::{parse, print};
use crate::{
    diag::{Diagnostic, Span},
    literal::Literal,
    types::{DType, Type},
};

/// Parses elements, and the shape of their brackets; a splat and raw bytes have none.
///
/// # Errors
/// Text that is no element of this type, or no list.
pub fn parse_elements(text: &str, dtype: DType) -> Result<(Literal, Option<Vec<usize>>), Diagnostic> {
    parse::elements(text, Span { start: 0, end: text.len() as u32 }, dtype)
}

/// Prints the elements; `sizes` are those of the tensor.
pub fn print_elements(literal: &Literal, sizes: &[i64]) -> String {
    let ty = Type::tensor(sizes.iter().map(|&size| size.into()), literal.dtype);
    print::elements(literal, Some(&ty))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn elements_print_as_they_are_read() {
        for (text, sizes) in [("[[1.0, nan], [inf, -0.5]]", &[2, 2][..]), ("2.5", &[]), ("[]", &[0])] {
            let (literal, _) = parse_elements(text, DType::F32).unwrap();
            assert_eq!(print_elements(&literal, sizes), if text == "[]" { "" } else { text });
        }
        assert!(parse_elements("[1, x]", DType::I32).is_err());
    }
}
