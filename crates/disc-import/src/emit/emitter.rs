//! Emits one op, and makes values of numbers.
use super::Operand;
use disc_ir::{
    Attr, Builder, Code, DType, Diagnostic, Dim, Literal, OpKind, Type, Value,
    build::Request,
    literal::{encode_f64, encode_i64},
};
use std::cell::RefCell;

/// Emits ops at the insertion point of a builder.
pub struct Emitter<'f> {
    builder: RefCell<Builder<'f>>,
    /// The sizes of the result, if the format states them.
    wanted: Option<Vec<Dim>>,
    /// The facts that were stated, as a relation reads.
    stated: RefCell<Vec<String>>,
}

impl<'f> Emitter<'f> {
    /// `wanted`: the sizes of the lowering's result where the format states them. Of two sizes that
    /// are not provably equal, it decides which one a broadcast result has.
    pub fn new(builder: Builder<'f>, wanted: Option<Vec<Dim>>) -> Self {
        Self { builder: RefCell::new(builder), wanted, stated: RefCell::default() }
    }

    pub fn into_builder(self) -> Builder<'f> {
        self.builder.into_inner()
    }

    /// Returns the texts of the facts that were stated since the last call, in order: a front end
    /// explains by them why it refuses a call.
    pub fn take_stated(&self) -> Vec<String> {
        self.stated.take()
    }

    pub(super) fn note_stated(&self, text: String) {
        self.stated.borrow_mut().push(text);
    }

    /// The sizes that the format states for the result, if it states any.
    pub fn wanted(&self) -> Option<&[Dim]> {
        self.wanted.as_deref()
    }

    /// Calls `f` with the builder. `f` must not use the emitter.
    pub(super) fn with<T>(&self, f: impl FnOnce(&mut Builder<'f>) -> T) -> T {
        f(&mut self.builder.borrow_mut())
    }

    pub fn dtype(&self, x: Value) -> DType {
        self.with(|b| b.function.ty(x).dtype())
    }

    /// The sizes of a tensor.
    pub fn shape(&self, x: Value) -> Vec<Dim> {
        self.with(|b| b.function.ty(x).shaped().map(|ty| ty.dims.clone()).unwrap_or_default())
    }

    /// The size of an axis.
    ///
    /// # Errors
    /// No such axis.
    pub fn size_of(&self, x: Value, axis: usize) -> Result<Dim, Diagnostic> {
        let sizes = self.shape(x);
        let rank = sizes.len();
        sizes
            .into_iter()
            .nth(axis)
            .ok_or_else(|| Diagnostic::new(Code::E0206, format!("axis {axis} is out of range of a tensor of rank {rank}")))
    }

    pub fn rank(&self, x: Value) -> usize {
        self.with(|b| b.function.ty(x).shaped().map_or(0, |ty| ty.dims.len()))
    }

    /// Emits an op of one result without attributes.
    ///
    /// # Errors
    /// The op's violated constraint.
    pub fn op(&self, kind: OpKind, operands: &[Value]) -> Result<Value, Diagnostic> {
        self.with(|b| b.emit(kind, operands))
    }

    /// Emits an op whose attributes and result types `complete` adds.
    ///
    /// # Errors
    /// The op's violated constraint.
    pub(super) fn request(
        &self,
        kind: OpKind,
        operands: &[Value],
        complete: impl for<'b> FnOnce(Request<'b, 'f>) -> Request<'b, 'f>,
    ) -> Result<Value, Diagnostic> {
        self.with(|b| complete(b.op(kind).operands(operands)).value())
    }

    /// A constant with all elements equal. An integer wraps to the width of the type; a number
    /// beyond a half type is an infinity.
    ///
    /// # Errors
    /// A size that cannot be represented.
    pub fn full(&self, value: impl Into<Operand>, shape: &[Dim], dtype: DType) -> Result<Value, Diagnostic> {
        let element = match value.into() {
            Operand::Value(value) => return self.expand(self.convert(value, dtype)?, shape),
            Operand::Size(size) => return self.expand(self.convert(self.size(&size)?, dtype)?, shape),
            Operand::Bool(truth) => encode_i64(dtype, i64::from(truth)),
            Operand::Int(value) => encode_i64(dtype, value),
            // As frameworks do: a number is one of f32 before it is one of bf16.
            Operand::Float(value) if dtype == DType::BF16 => encode_f64(dtype, f64::from(value as f32)),
            Operand::Float(value) => encode_f64(dtype, value),
        };
        self.constant(Literal::splat(dtype, &element), shape)
    }

    /// A constant of these elements.
    ///
    /// # Errors
    /// The number of elements is not that of the shape.
    pub fn constant(&self, literal: Literal, shape: &[Dim]) -> Result<Value, Diagnostic> {
        let ty = Type::tensor(shape.iter().cloned(), literal.dtype);
        self.request(OpKind::Constant, &[], |r| r.attr("value", literal).result(ty))
    }

    /// Returns the elements of a constant; `None` for any other value.
    pub fn literal_of(&self, x: Value) -> Option<Literal> {
        self.with(|b| {
            let inst = b.function.defining(x)?;
            match b.function.inst(inst).attrs.first() {
                Some(Some(Attr::Literal(literal))) if b.function.kind_of(inst) == OpKind::Constant => Some(literal.clone()),
                _ => None,
            }
        })
    }

    /// The value of a size, as a scalar of type i64.
    ///
    /// # Errors
    /// A size that cannot be represented.
    pub fn size(&self, size: &Dim) -> Result<Value, Diagnostic> {
        self.request(OpKind::DimValue, &[], |r| r.attr("value", Attr::Dim(size.clone())).result(Type::tensor([], DType::I64)))
    }

    /// A value out of a value, a number or a size, in `dtype`; numbers are scalars.
    ///
    /// # Errors
    /// As [`Emitter::convert`].
    pub fn lift(&self, x: impl Into<Operand>, dtype: DType) -> Result<Value, Diagnostic> {
        match x.into() {
            Operand::Value(value) => self.convert(value, dtype),
            Operand::Size(size) => self.convert(self.size(&size)?, dtype),
            number => self.full(number, &[], dtype),
        }
    }

    /// A value beside `x`: a value as it is, a number in the element type of `x`.
    pub(super) fn like(&self, y: impl Into<Operand>, x: Value) -> Result<Value, Diagnostic> {
        match y.into() {
            Operand::Value(value) => Ok(value),
            number => self.lift(number, self.dtype(x)),
        }
    }

    /// Converts elements to another type; to truth values by comparing with 0.
    ///
    /// # Errors
    /// None for values of this function.
    pub fn convert(&self, x: Value, dtype: DType) -> Result<Value, Diagnostic> {
        match dtype {
            _ if self.dtype(x) == dtype => Ok(x),
            DType::I1 => {
                let zero = self.full(0, &self.shape(x), self.dtype(x))?;
                self.compare("NE", x, zero)
            }
            _ => self.request(OpKind::Convert, &[x], |r| r.attr("dtype", dtype)),
        }
    }

    /// Converts f16 and bf16 to f32: computing in f32 rounds once.
    ///
    /// # Errors
    /// None for values of this function.
    pub fn wide(&self, x: Value) -> Result<Value, Diagnostic> {
        self.convert(x, sum_type(self.dtype(x)))
    }

    /// `f` of `x`, computed in f32 where `x` is f16 or bf16, in the type of `x` again.
    ///
    /// # Errors
    /// Those of `f`.
    pub fn widened(&self, x: Value, f: impl FnOnce(Value) -> Result<Value, Diagnostic>) -> Result<Value, Diagnostic> {
        self.convert(f(self.wide(x)?)?, self.dtype(x))
    }
}

/// The type that elements of `dtype` are computed and summed in: f32 for half types.
pub(crate) fn sum_type(dtype: DType) -> DType {
    if matches!(dtype, DType::F16 | DType::BF16) { DType::F32 } else { dtype }
}
