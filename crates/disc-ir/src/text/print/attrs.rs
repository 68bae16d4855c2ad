//! Prints values of attributes.
use super::{super::names::quote, literal, symbol};
use crate::{attr::Attr, dim::Dim, types::Type};

/// The text of a value; literals take their shape from the result's type.
pub(super) fn value(attr: &Attr, result: Option<&Type>) -> String {
    match attr {
        Attr::Int(value) => value.to_string(),
        Attr::Float(value) => literal::float(*value),
        Attr::Bool(value) => value.to_string(),
        Attr::Enum(word) => (*word).to_owned(),
        Attr::Str(text) => quote(text),
        Attr::Symbol(name) => symbol(name),
        Attr::DType(dtype) => dtype.to_string(),
        Attr::Type(ty) => ty.to_string(),
        Attr::Ints(values) => list(values),
        Attr::Dim(dim) => format!("[{dim}]"),
        Attr::Dims(dims) => list(dims),
        Attr::Literal(data) => literal::text(data, result),
    }
}

fn list<T: ToString>(entries: &[T]) -> String {
    format!("[{}]", entries.iter().map(T::to_string).collect::<Vec<_>>().join(", "))
}

/// `[0:B, 1:8:2]`
pub(super) fn bounds(start: &[Dim], limit: &[Dim], strides: Option<&[i64]>) -> String {
    let bound = |i: usize| match strides {
        Some(strides) => format!("{}:{}:{}", start[i], limit[i], strides[i]),
        None => format!("{}:{}", start[i], limit[i]),
    };
    format!("[{}]", (0..start.len()).map(bound).collect::<Vec<_>>().join(", "))
}
