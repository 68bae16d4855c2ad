//! Tests the accuracy and the special values of the math functions, evaluated by the scalar
//! emitters.

mod convert;
mod docs;
mod double;
mod reference;
mod single;
mod special;
