//! Declares the kinds of attributes, and holds their values.
//!
//! The op table declares each attribute of an op once, with its kind.
use crate::{
    dim::Dim,
    literal::Literal,
    types::{DType, Type},
};
use std::sync::Arc;

/// The value of an attribute.
#[derive(Clone, Debug, PartialEq)]
pub enum Attr {
    Int(i64),
    /// A bound of time or memory in a cost model, an epsilon; compared by bits where equality
    /// matters.
    Float(f64),
    Bool(bool),
    /// One of the words that the declaration lists.
    Enum(&'static str),
    Str(Arc<str>),
    /// The name of a function, a kernel or a weight, `@name`.
    Symbol(Arc<str>),
    DType(DType),
    Type(Type),
    Ints(Vec<i64>),
    Dim(Dim),
    Dims(Vec<Dim>),
    Literal(Literal),
}

/// The form of an attribute, as declared.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum AttrKind {
    Int,
    Float,
    Bool,
    Enum(&'static [&'static str]),
    Str,
    Symbol,
    DType,
    Type,
    Ints,
    Dim,
    Dims,
    Literal,
}

impl AttrKind {
    /// Returns true if `attr` has this form.
    pub fn admits(self, attr: &Attr) -> bool {
        match (self, attr) {
            (AttrKind::Enum(words), Attr::Enum(word)) => words.contains(word),
            (AttrKind::Int, Attr::Int(_))
            | (AttrKind::Float, Attr::Float(_))
            | (AttrKind::Bool, Attr::Bool(_))
            | (AttrKind::Str, Attr::Str(_))
            | (AttrKind::Symbol, Attr::Symbol(_))
            | (AttrKind::DType, Attr::DType(_))
            | (AttrKind::Type, Attr::Type(_))
            | (AttrKind::Ints, Attr::Ints(_))
            | (AttrKind::Dim, Attr::Dim(_))
            | (AttrKind::Dims, Attr::Dims(_))
            | (AttrKind::Literal, Attr::Literal(_)) => true,
            _ => false,
        }
    }

    /// Describes the form in words, for messages and docs.
    pub fn describe(self) -> String {
        match self {
            AttrKind::Int => "an integer".into(),
            AttrKind::Float => "a number".into(),
            AttrKind::Bool => "true or false".into(),
            AttrKind::Enum(words) => format!("one of {}", words.join(", ")),
            AttrKind::Str => "a string".into(),
            AttrKind::Symbol => "a name such as @main".into(),
            AttrKind::DType => "an element type".into(),
            AttrKind::Type => "a type".into(),
            AttrKind::Ints => "a list of integers".into(),
            AttrKind::Dim => "a dim expression".into(),
            AttrKind::Dims => "a list of dim expressions".into(),
            AttrKind::Literal => "a literal".into(),
        }
    }
}

impl From<i64> for Attr {
    fn from(value: i64) -> Self {
        Attr::Int(value)
    }
}

impl From<bool> for Attr {
    fn from(value: bool) -> Self {
        Attr::Bool(value)
    }
}

impl From<DType> for Attr {
    fn from(value: DType) -> Self {
        Attr::DType(value)
    }
}

impl From<Vec<i64>> for Attr {
    fn from(value: Vec<i64>) -> Self {
        Attr::Ints(value)
    }
}

impl From<Vec<Dim>> for Attr {
    fn from(value: Vec<Dim>) -> Self {
        Attr::Dims(value)
    }
}

impl From<Dim> for Attr {
    fn from(value: Dim) -> Self {
        Attr::Dim(value)
    }
}

impl From<Literal> for Attr {
    fn from(value: Literal) -> Self {
        Attr::Literal(value)
    }
}

impl From<&'static str> for Attr {
    fn from(value: &'static str) -> Self {
        Attr::Enum(value)
    }
}
