//! Exports the IR to Python: dims, values and the builder of functions.
//!
//! Invariant: everything here is generic over the op table of `disc_ir`; no op, attribute or
//! element type is named here.
mod attr;
mod builder;
mod compose_call;
mod dim;
mod facts;
mod literal;
mod region;
mod table;
mod value;

pub(crate) use builder::PyBuilder;
pub(crate) use dim::PyDim;
pub(crate) use facts::PyFact;
pub(crate) use table::ops;
pub(crate) use value::PyValue;
