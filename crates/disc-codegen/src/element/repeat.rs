//! Divides positions by a constant: those of elements that are repeated one by one, and positions
//! that are counted.
//!
//! The position of a vector's first lane is divided as a scalar, and the distance of each lane from
//! the first one in 32 bits. The repeated elements are within one vector, so that a load and a
//! permutation suffice if the target has one.
//!
//! Invariant: no element outside of the buffer is read.
use super::Elements;
use crate::kernel::{Index, KernelBuilder, compute_dtype};
use disc_ir::{DType, Inst, Literal, OpKind, TensorType, Value};
use disc_kernel_macros::expr;
use disc_passes::{
    analysis::query::Query,
    fusion::space::{counted_quotient, repeat_of},
};

/// The largest divisor for which the quotient of a lane is a product with a reciprocal of 16 bits;
/// no vector has more lanes.
const SMALL: i64 = 128;

impl Elements<'_> {
    /// The element of a reshape that repeats what it reads; `None` if it does not, or lanes are no
    /// neighbours.
    pub(super) fn repeated(&mut self, kb: &mut KernelBuilder, inst: Inst, at: &[Index]) -> Option<Value> {
        let repeat = repeat_of(self.group, &self.solver, inst)?;
        let (&last, outer) = at.split_last()?;
        let divided = self.quotient(kb, last, repeat.factor)?;
        let zero = Index::uniform(kb.int(0));
        let here: Vec<Index> = outer.iter().copied().chain([divided, zero]).collect();
        let sizes = self.tensor(repeat.source).dims.iter();
        let places = sizes.zip(&repeat.axes).map(|(size, &axis)| if self.is_one(size) { zero } else { here[axis] });
        let places: Vec<Index> = places.collect();
        Some(self.element(kb, repeat.source, &places))
    }

    /// The quotient or the remainder of counted positions; `None` if lanes are no neighbours.
    pub(super) fn counted_quotient(&mut self, kb: &mut KernelBuilder, inst: Inst, at: &[Index]) -> Option<Value> {
        let (positions, by) = counted_quotient(self.group, inst)?;
        let position = self.counted(kb, positions, at)?;
        let quotient = self.quotient(kb, position, by)?;
        let found = match self.group.kind_of(inst) {
            OpKind::Divide => quotient,
            _ => {
                let minus = kb.int(-by);
                let whole = quotient.scale(kb, self.lanes, minus);
                position.add(kb, self.lanes, whole)
            }
        };
        let value = found.value(kb, self.lanes);
        Some(kb.convert(value, self.tensor(self.group.result(inst)).dtype))
    }

    /// The position that a value counts; `None` if counted dimensions are joined.
    fn counted(&mut self, kb: &mut KernelBuilder, value: Value, at: &[Index]) -> Option<Index> {
        let inst = self.group.defining(value)?;
        let operand = self.group.operands(inst).first().copied();
        match (self.group.kind_of(inst), operand) {
            (OpKind::Iota, _) => Some(at[self.group.int(inst, "dim") as usize]),
            (OpKind::BroadcastInDim, Some(operand)) => {
                let zero = Index::uniform(kb.int(0));
                let axes = self.group.axes(inst, "dims");
                let sizes = self.tensor(operand).dims.iter().zip(axes);
                let from: Vec<Index> = sizes.map(|(size, axis)| if self.is_one(size) { zero } else { at[axis] }).collect();
                self.counted(kb, operand, &from)
            }
            (OpKind::Reshape, Some(operand)) => {
                let from = self.reshaped(kb, inst, at)?;
                self.counted(kb, operand, &from)
            }
            _ => None,
        }
    }

    /// Divides a position by a number, rounding down.
    fn quotient(&mut self, kb: &mut KernelBuilder, at: Index, by: i64) -> Option<Index> {
        let factor = kb.int(by);
        let (base, lanes) = match at {
            Index::Affine { base, stride: 0 } => return Some(Index::uniform(expr!(kb, base / factor))),
            Index::Affine { base, stride: 1 } if i64::from(self.lanes) <= SMALL => (base, self.lanes),
            _ => return None,
        };
        let first = self.first_quotient(kb, base, by);
        let (rest, numbers) = (expr!(kb, convert(base - first * factor, DType::I32)), kb.lane_numbers(lanes));
        let numbers = kb.convert(numbers, DType::I32);
        let number = kb.map(OpKind::Add, &[rest, numbers]);
        let constant = |kb: &mut KernelBuilder, value: i64| kb.constant(Literal::splat_i64(DType::I32, value), 1);
        let steps = if by > SMALL {
            // There are no more lanes than `by`: the quotient grows once at most. Before that,
            // `n - by` is negative.
            let least = constant(kb, by);
            let behind = kb.map(OpKind::Subtract, &[number, least]);
            let (sign, one) = (constant(kb, 31), constant(kb, 1));
            let signs = kb.map(OpKind::ShiftRightArithmetic, &[behind, sign]);
            kb.map(OpKind::Add, &[signs, one])
        } else if by.count_ones() == 1 {
            let shift = constant(kb, i64::from(by.trailing_zeros()));
            kb.map(OpKind::ShiftRightLogical, &[number, shift])
        } else {
            // `n / by = n * m / 2^16` where `m = ceil(2^16 / by)`: `n * (m * by - 2^16) < (2 *
            // SMALL) * SMALL <= 2^16`.
            let reciprocal = constant(kb, ((1 << 16) + by - 1) / by);
            let product = kb.map(OpKind::Multiply, &[number, reciprocal]);
            let shift = constant(kb, 16);
            kb.map(OpKind::ShiftRightLogical, &[product, shift])
        };
        self.spans.insert(steps);
        Some(Index::Lanes { base: first, steps })
    }

    /// The quotient of the first lane, rounded down: a masked lane may be before the first element.
    fn first_quotient(&self, kb: &mut KernelBuilder, base: Value, by: i64) -> Value {
        let factor = kb.int(by);
        if self.mask.is_none() {
            return expr!(kb, base / factor);
        }
        let lanes = kb.int(i64::from(self.lanes));
        expr!(kb, (base + int(by * i64::from(self.lanes))) / factor - lanes)
    }

    /// Loads the elements of a buffer that are some steps after a position, all of them within one
    /// vector; `None` if lanes are not picked.
    pub(super) fn load_span(
        &mut self,
        kb: &mut KernelBuilder,
        buffer: Value,
        tensor: &TensorType,
        [base, steps]: [Value; 2],
    ) -> Option<Value> {
        let picked = self.picked_dtype(tensor.dtype)?;
        let size = kb.function.ty(buffer).shaped().expect("a buffer has a shape").element_count();
        let left = expr!(kb, dim(&size) - base);
        let mut inside = kb.lane_mask(left, self.lanes);
        if self.mask.is_some() {
            let missing = expr!(kb, 0 - base);
            let front = kb.lane_mask(missing, self.lanes);
            inside = expr!(kb, inside & !front);
        }
        let vector = kb.load(buffer, base, self.lanes, Some(inside));
        let vector = kb.convert(vector, picked);
        let found = kb.pick_lanes(vector, vector, steps);
        Some(kb.convert(found, compute_dtype(tensor.dtype)))
    }
}
