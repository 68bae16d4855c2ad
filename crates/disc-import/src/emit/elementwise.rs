//! Emits element-wise ops on values that are broadcast to one shape.
use super::{Emitter, Operand};
use disc_ir::{DType, Diagnostic, OpKind, Value};

type Emitted = Result<Value, Diagnostic>;

impl Emitter<'_> {
    /// Emits an element-wise op on values that are broadcast to one shape.
    ///
    /// # Errors
    /// Sizes that do not fit, or the op's violated constraint.
    pub fn map(&self, kind: OpKind, xs: &[Value]) -> Emitted {
        self.op(kind, &self.together(xs)?)
    }

    /// `direction`: EQ, NE, LT, LE, GT, GE.
    ///
    /// # Errors
    /// As [`Emitter::map`].
    pub fn compare(&self, direction: &'static str, x: Value, y: impl Into<Operand>) -> Emitted {
        let operands = self.together(&[x, self.like(y, x)?])?;
        self.request(OpKind::Compare, &operands, |r| r.attr("direction", direction))
    }

    /// `x` where `pred` holds, else `y`.
    ///
    /// # Errors
    /// As [`Emitter::map`].
    pub fn select(&self, pred: Value, x: Value, y: Value) -> Emitted {
        self.map(OpKind::Select, &[pred, x, y])
    }

    /// # Errors
    /// As [`Emitter::map`].
    pub fn maximum(&self, x: Value, y: impl Into<Operand>) -> Emitted {
        self.map(OpKind::Maximum, &[x, self.like(y, x)?])
    }

    /// # Errors
    /// As [`Emitter::map`].
    pub fn minimum(&self, x: Value, y: impl Into<Operand>) -> Emitted {
        self.map(OpKind::Minimum, &[x, self.like(y, x)?])
    }

    /// The sum; of truth values, `or`.
    ///
    /// # Errors
    /// As [`Emitter::map`].
    pub fn add(&self, x: Value, y: impl Into<Operand>) -> Emitted {
        let kind = if self.dtype(x) == DType::I1 { OpKind::Or } else { OpKind::Add };
        self.map(kind, &[x, self.like(y, x)?])
    }

    /// # Errors
    /// As [`Emitter::map`].
    pub fn sub(&self, x: Value, y: impl Into<Operand>) -> Emitted {
        self.map(OpKind::Subtract, &[x, self.like(y, x)?])
    }

    /// The product; of truth values, `and`.
    ///
    /// # Errors
    /// As [`Emitter::map`].
    pub fn mul(&self, x: Value, y: impl Into<Operand>) -> Emitted {
        let kind = if self.dtype(x) == DType::I1 { OpKind::And } else { OpKind::Multiply };
        self.map(kind, &[x, self.like(y, x)?])
    }

    /// # Errors
    /// As [`Emitter::map`].
    pub fn div(&self, x: Value, y: impl Into<Operand>) -> Emitted {
        self.map(OpKind::Divide, &[x, self.like(y, x)?])
    }

    /// # Errors
    /// Element types without signs.
    pub fn neg(&self, x: Value) -> Emitted {
        self.op(OpKind::Negate, &[x])
    }

    /// The bits of each element as one of another type of as many bits.
    ///
    /// # Errors
    /// Another number of bits.
    pub fn bitcast(&self, x: Value, dtype: DType) -> Emitted {
        self.request(OpKind::BitcastConvert, &[x], |r| r.attr("dtype", dtype))
    }

    /// # Errors
    /// None for values of this function.
    pub fn is_nan(&self, x: Value) -> Emitted {
        if self.dtype(x).is_float() { self.op(OpKind::IsNan, &[x]) } else { self.full(false, &self.shape(x), DType::I1) }
    }
}
