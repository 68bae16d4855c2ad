//! Keeps small integer tensors as lists of dim expressions.
//!
//! Exporters compute shapes by tensors: `Reshape(x, Pack(Shape(x)[0], -1))`. An importer that
//! computes them as [`Sizes`] gives `Reshape` a size that the solver knows, where a tensor would be
//! data that the compiler cannot look into. They become a tensor where an op asks for one.
mod arithmetic;
mod list;

pub use arithmetic::Arithmetic;
pub use list::Sizes;

use crate::emit::Emitter;
use disc_ir::{Code, DType, Diagnostic, Dim, Value};

/// A result of a node, as an importer keeps it.
#[derive(Clone, Debug, PartialEq)]
pub enum Item {
    Tensor(Value),
    Sizes(Sizes),
    List(List),
    /// Computed by no op: a result that only a framework can give, such as a handle.
    Absent,
}

/// Tensors of one shape that a loop reads or fills: one tensor whose first axis counts.
#[derive(Clone, Debug, PartialEq)]
pub enum List {
    Stored(Value),
    /// Nothing is known about the shape of the elements yet.
    Reserved {
        count: Dim,
        dtype: DType,
    },
}

impl Item {
    /// Returns the tensor, which sizes become.
    ///
    /// # Errors
    /// E1004: there is no value.
    pub fn tensor(&self, b: &Emitter<'_>) -> Result<Value, Diagnostic> {
        match self {
            Item::Tensor(value) => Ok(*value),
            Item::Sizes(sizes) => sizes.tensor(b),
            Item::List(List::Stored(value)) => Ok(*value),
            Item::List(List::Reserved { .. }) => {
                Err(Diagnostic::new(Code::E1006, "a list is read before the shape of its elements is known"))
            }
            Item::Absent => Err(Diagnostic::new(Code::E1004, "an input has no value")),
        }
    }

    /// Returns the sizes, if the values are known as such.
    pub fn sizes(&self) -> Option<&Sizes> {
        match self {
            Item::Sizes(sizes) => Some(sizes),
            _ => None,
        }
    }
}
