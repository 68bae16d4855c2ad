//! Appends common patterns of several ops: values normalised along an axis, products of different
//! values. Fusion groups are made for these.
use super::ops::{Generator, Made};
use crate::{
    attr::Attr,
    graph::Value,
    ops::{OpKind, body},
    types::{TensorType, Type},
};

impl Generator<'_> {
    /// A value minus its sum along an axis, or its softmax.
    pub(super) fn normalize(&mut self) -> Made {
        let Some((value, tensor, axis)) = self.with_axis() else { return Ok(Vec::new()) };
        if tensor.dtype.is_float() && self.random.chance(60) {
            let greatest = self.along(value, &tensor, axis, OpKind::Maximum, f64::NEG_INFINITY)?;
            let shifted = self.one(OpKind::Subtract, &[value, greatest], &[], None)?[0];
            let raised = self.one(OpKind::Exponential, &[shifted], &[], None)?[0];
            let sum = self.along(raised, &tensor, axis, OpKind::Add, 0.0)?;
            return self.one(OpKind::Divide, &[raised, sum], &[], None);
        }
        let sum = self.along(value, &tensor, axis, OpKind::Add, 0.0)?;
        self.one(OpKind::Subtract, &[value, sum], &[], None)
    }

    /// Normalises a value along its last axis, beside another element-wise result of it, perhaps in
    /// another shape.
    pub(super) fn beside(&mut self) -> Made {
        let Some((value, tensor, _)) = self.with_axis() else { return Ok(Vec::new()) };
        let sum = self.along(value, &tensor, tensor.rank() - 1, OpKind::Add, 0.0)?;
        let mut found = self.one(OpKind::Subtract, &[value, sum], &[], None)?;
        for _ in 0..self.random.between(1, 3) {
            let seen = if self.random.chance(30) {
                let flat = TensorType::new([tensor.element_count()], tensor.dtype);
                self.one(OpKind::Reshape, &[value], &[], Some(Type::Tensor(flat)))?[0]
            } else {
                value
            };
            let kind = match tensor.dtype.is_float() && self.random.chance(50) {
                true => *self.random.choose(&[OpKind::Exponential, OpKind::Tanh, OpKind::Negate]),
                false => *self.random.choose(&[OpKind::Add, OpKind::Multiply, OpKind::Maximum]),
            };
            let operands = [seen; 2];
            found.extend(self.one(kind, &operands[..kind.def().operands.len()], &[], None)?);
        }
        Ok(found)
    }

    /// Reduces along an axis and broadcasts the result back.
    fn along(
        &mut self,
        value: Value,
        tensor: &TensorType,
        axis: usize,
        kind: OpKind,
        start: f64,
    ) -> Result<Value, crate::Diagnostic> {
        let init = self.splat(&TensorType::scalar(tensor.dtype), start)?[0];
        let region = body::combine(&mut self.builder, kind, tensor.dtype)?;
        let reduced = self.with_region(OpKind::Reduce, &[value, init], &[("dims", vec![axis as i64].into())], region)?[0];
        let others: Vec<i64> = (0..tensor.rank() as i64).filter(|&other| other != axis as i64).collect();
        let whole = Some(Type::Tensor(tensor.clone()));
        Ok(self.one(OpKind::BroadcastInDim, &[reduced], &[("dims", others.into())], whole)?[0])
    }

    /// Multiplies two values that have a size in common.
    pub(super) fn multiply(&mut self) -> Made {
        let Some((lhs, tensor, axis)) = self.with_axis() else { return Ok(Vec::new()) };
        let size = &tensor.dims[axis];
        let places = |value: Value| {
            let other = self.tensor(value);
            let fits = other.dtype == tensor.dtype;
            other.dims.iter().position(|dim| fits && dim == size).map(|place| (value, place))
        };
        let candidates: Vec<(Value, usize)> = self.values.iter().filter_map(|&value| places(value)).collect();
        let &(rhs, place) = self.random.choose(&candidates);
        let attrs =
            [("lhs_contracting_dims", Attr::Ints(vec![axis as i64])), ("rhs_contracting_dims", Attr::Ints(vec![place as i64]))];
        self.one(OpKind::DotGeneral, &[lhs, rhs], &attrs, None)
    }
}
