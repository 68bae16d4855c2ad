//! Emits ops that rearrange elements: they change the position, not the value.
use super::{Elements, condition::Condition};
use crate::kernel::{Index, KernelBuilder, compute_dtype};
use disc_ir::{Attr, Dim, Inst, Literal, OpKind, Value, dim::DimView};
use disc_kernel_macros::expr;
use disc_passes::analysis::query::Query;

impl Elements<'_> {
    pub(super) fn movement(&mut self, kb: &mut KernelBuilder, inst: Inst, at: &[Index]) -> Value {
        match self.group.kind_of(inst) {
            OpKind::Constant => self.constant(kb, inst),
            OpKind::DimValue => {
                let Some(Attr::Dim(dim)) = self.group.attr(inst, "value") else { panic!("`dim` has a value") };
                let value = kb.dim(dim);
                self.as_result(kb, inst, value)
            }
            OpKind::GetDimensionSize => {
                let axis = self.group.int(inst, "dimension") as usize;
                let size = self.tensor(self.group.operands(inst)[0]).dims[axis].clone();
                let value = kb.dim(&size);
                self.as_result(kb, inst, value)
            }
            OpKind::Iota => {
                let index = at[self.group.int(inst, "dim") as usize].value(kb, self.lanes);
                self.as_result(kb, inst, index)
            }
            OpKind::BroadcastInDim => self.broadcast_in_dim(kb, inst, at),
            OpKind::Transpose => {
                let from = self.turned(inst, at);
                self.element(kb, self.group.operands(inst)[0], &from)
            }
            OpKind::Slice => {
                let from = self.sliced(kb, inst, at);
                self.element(kb, self.group.operands(inst)[0], &from)
            }
            OpKind::Reverse => self.reverse(kb, inst, at),
            OpKind::Reshape => self.reshape(kb, inst, at),
            OpKind::Concatenate => self.concatenate(kb, inst, at),
            OpKind::Pad => self.pad(kb, inst, at),
            kind => panic!("`{}` does not move elements", kind.name()),
        }
    }

    /// Converts an integer to the op's result type, in the compute type.
    fn as_result(&mut self, kb: &mut KernelBuilder, inst: Inst, value: Value) -> Value {
        let dtype = self.tensor(self.group.result(inst)).dtype;
        kb.round_to(value, dtype)
    }

    fn constant(&mut self, kb: &mut KernelBuilder, inst: Inst) -> Value {
        let Some(Attr::Literal(literal)) = self.group.attr(inst, "value") else { panic!("a constant has a value") };
        assert!(literal.splat || literal.stored_len() == 1, "larger constants are weights by now");
        let to = compute_dtype(literal.dtype);
        if to == literal.dtype {
            return kb.constant(Literal::splat(literal.dtype, &literal.bytes), 1);
        }
        kb.float(to, literal.f64_at(0), 1)
    }

    fn broadcast_in_dim(&mut self, kb: &mut KernelBuilder, inst: Inst, at: &[Index]) -> Value {
        let operand = self.group.operands(inst)[0];
        let zero = Index::uniform(kb.int(0));
        let axes = self.group.ints(inst, "dims").iter();
        let from: Vec<Index> = self
            .tensor(operand)
            .dims
            .iter()
            .zip(axes)
            .map(|(size, &axis)| if self.is_one(size) { zero } else { at[axis as usize] })
            .collect();
        self.element(kb, operand, &from)
    }

    /// The position in the operand of a transpose of an element of the result.
    pub(super) fn turned(&self, inst: Inst, at: &[Index]) -> Vec<Index> {
        let mut from = at.to_vec();
        self.group.axes(inst, "dims").into_iter().zip(at).for_each(|(axis, index)| from[axis] = *index);
        from
    }

    /// The position in the operand of a slice of an element of the result.
    pub(super) fn sliced(&self, kb: &mut KernelBuilder, inst: Inst, at: &[Index]) -> Vec<Index> {
        let (start, limit) = (self.group.dims(inst, "start"), self.group.dims(inst, "limit"));
        let steps = self.group.ints(inst, "strides");
        let mut from = Vec::with_capacity(at.len());
        for (i, index) in at.iter().enumerate() {
            if self.keeps_all(inst, i) {
                from.push(*index);
                continue;
            }
            let (first, step) = (kb.dim(&unclamped(&start[i], &limit[i])), kb.int(steps.get(i).copied().unwrap_or(1)));
            from.push(index.scale(kb, self.lanes, step).add_scalar(kb, first));
        }
        from
    }

    /// Returns true if a slice preserves a dimension. Fusion relies on it: positions there are
    /// those of the operand.
    pub(super) fn keeps_all(&self, slice: Inst, axis: usize) -> bool {
        let (operand, result) = (self.group.operands(slice)[0], self.group.result(slice));
        self.solver.equal(&self.tensor(operand).dims[axis], &self.tensor(result).dims[axis])
    }

    fn reverse(&mut self, kb: &mut KernelBuilder, inst: Inst, at: &[Index]) -> Value {
        let operand = self.group.operands(inst)[0];
        let mut from = at.to_vec();
        for &axis in self.group.ints(inst, "dims") {
            let last = kb.dim(&(&self.tensor(operand).dims[axis as usize] - 1));
            from[axis as usize] = at[axis as usize].subtract_from(kb, last);
        }
        self.element(kb, operand, &from)
    }

    /// Emits a concatenation: the input that a position belongs to is chosen once if every lane
    /// agrees, otherwise lane by lane.
    fn concatenate(&mut self, kb: &mut KernelBuilder, inst: Inst, at: &[Index]) -> Value {
        let axis = self.group.int(inst, "dim") as usize;
        let inputs: Vec<Value> = self.group.operands(inst).to_vec();
        self.concatenate_from(kb, &inputs, axis, &Dim::constant(0), at)
    }

    fn concatenate_from(&mut self, kb: &mut KernelBuilder, inputs: &[Value], axis: usize, offset: &Dim, at: &[Index]) -> Value {
        let start = kb.dim(&(Dim::constant(0) - offset));
        let mut here = at.to_vec();
        here[axis] = at[axis].add_scalar(kb, start);
        let [input, rest @ ..] = inputs else { panic!("a concatenation has inputs") };
        if rest.is_empty() {
            return self.element(kb, *input, &here);
        }
        let end = offset + &self.tensor(*input).dims[axis];
        match self.known_below(at[axis], &end) {
            Some(true) => return self.element(kb, *input, &here),
            Some(false) => return self.concatenate_from(kb, rest, axis, &end, at),
            None => {}
        }
        if let (Some(known), Some(limit)) = (at[axis].as_uniform().and_then(|value| kb.known_int(value)), end.as_const()) {
            return match known < limit {
                true => self.element(kb, *input, &here),
                false => self.concatenate_from(kb, rest, axis, &end, at),
            };
        }
        let position = at[axis].value(kb, self.lanes);
        let inside = expr!(kb, position < dim(&end));
        let inside = Condition::of(kb, inside);
        self.either(
            kb,
            &inside,
            at,
            |cx, kb| cx.element(kb, *input, &here),
            |cx, kb| cx.concatenate_from(kb, rest, axis, &end, at),
        )
    }

    fn pad(&mut self, kb: &mut KernelBuilder, inst: Inst, at: &[Index]) -> Value {
        let [operand, fill] = self.group.operands(inst)[..] else { panic!("`pad` has two operands") };
        let (low, interior) = (self.group.dims(inst, "low"), self.group.ints(inst, "interior"));
        let fill = self.element(kb, fill, &[]);
        let mut inside = Condition::default();
        let mut from = Vec::with_capacity(at.len());
        for (i, index) in at.iter().enumerate() {
            let step = interior.get(i).copied().unwrap_or(0) + 1;
            let shift = kb.dim(&(Dim::constant(0) - &low[i]));
            let mut moved = index.add_scalar(kb, shift);
            let size = self.tensor(operand).dims[i].clone();
            let untouched =
                step == 1 && low[i].is_const(0) && self.solver.equal(&size, &self.tensor(self.group.result(inst)).dims[i]);
            if !untouched {
                let shifted = moved.value(kb, self.lanes);
                let (zero, step_value, limit) = (kb.int(0), kb.int(step), kb.dim(&size));
                let after = expr!(kb, shifted >= zero);
                let position = expr!(kb, shifted / step_value);
                let before = expr!(kb, position < limit);
                let mut here = expr!(kb, after & before);
                if step > 1 {
                    here = expr!(kb, here & (shifted % step_value == zero));
                    moved = Index::from_value(kb, position);
                }
                inside.and(kb, here);
            }
            from.push(moved);
        }
        self.either(kb, &inside, at, |cx, kb| cx.element(kb, operand, &from), |_, _| fill)
    }
}

/// The start of a slice without the bound that keeps an empty one in range: `min(c, limit)` is `c`
/// if an element is between it and `limit`, and the caller, who asks for an element, knows that
/// there is one.
fn unclamped(start: &Dim, limit: &Dim) -> Dim {
    match start.view() {
        DimView::Min(bounds) if bounds.contains(limit) => {
            let others = bounds.iter().filter(|&bound| bound != limit).cloned();
            Dim::min_of(others).unwrap_or_else(|| start.clone())
        }
        _ => start.clone(),
    }
}
