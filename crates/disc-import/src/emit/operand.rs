//! Represents what an op of a lowering takes: a value, or a number that becomes one.
use disc_ir::{Dim, Value};

/// A value, a number or a size. A number takes the element type of the value beside it.
#[derive(Clone, Debug, PartialEq)]
pub enum Operand {
    Value(Value),
    Bool(bool),
    Int(i64),
    Float(f64),
    Size(Dim),
}

impl Operand {
    /// Returns the number, if it is known here.
    pub fn as_f64(&self) -> Option<f64> {
        match self {
            Operand::Value(_) | Operand::Size(_) => None,
            Operand::Bool(truth) => Some(f64::from(u8::from(*truth))),
            Operand::Int(value) => Some(*value as f64),
            Operand::Float(value) => Some(*value),
        }
    }
}

impl From<Value> for Operand {
    fn from(value: Value) -> Self {
        Operand::Value(value)
    }
}

impl From<bool> for Operand {
    fn from(truth: bool) -> Self {
        Operand::Bool(truth)
    }
}

impl From<i64> for Operand {
    fn from(value: i64) -> Self {
        Operand::Int(value)
    }
}

impl From<f64> for Operand {
    fn from(value: f64) -> Self {
        Operand::Float(value)
    }
}

impl From<Dim> for Operand {
    fn from(size: Dim) -> Self {
        size.as_const().map_or(Operand::Size(size), Operand::Int)
    }
}

impl From<&Dim> for Operand {
    fn from(size: &Dim) -> Self {
        Operand::from(size.clone())
    }
}

impl From<&Operand> for Operand {
    fn from(operand: &Operand) -> Self {
        operand.clone()
    }
}
