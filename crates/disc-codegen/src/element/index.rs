//! Emits ops whose positions are data: gather and the dynamic slices.
use super::{Elements, condition::Condition, near::is_counted};
use crate::kernel::{Index, KernelBuilder, Site};
use disc_ir::{Code, DType, Dim, Inst, Literal, OpKind, Value};
use disc_kernel_macros::expr;
use disc_passes::{analysis::query::Query, fusion::space::counted_place};

impl Elements<'_> {
    pub(super) fn indexed(&mut self, kb: &mut KernelBuilder, inst: Inst, at: &[Index]) -> Value {
        match self.group.kind_of(inst) {
            OpKind::Gather => self.gather(kb, inst, at),
            OpKind::DynamicSlice => self.dynamic_slice(kb, inst, at),
            OpKind::DynamicUpdateSlice => self.dynamic_update_slice(kb, inst, at),
            kind => panic!("`{}` does not index", kind.name()),
        }
    }

    fn gather(&mut self, kb: &mut KernelBuilder, inst: Inst, at: &[Index]) -> Value {
        let operand = self.group.operands(inst)[0];
        let axes = |name| self.group.axes(inst, name);
        let offset_dims = axes("offset_dims");
        let batching = axes("operand_batching_dims");
        let indices_batching = axes("start_indices_batching_dims");
        let dropped: Vec<usize> = axes("collapsed_slice_dims").into_iter().chain(batching.iter().copied()).collect();
        let vector_dim = self.group.int(inst, "index_vector_dim") as usize;
        let rank = self.tensor(operand).rank();

        let batch: Vec<Index> = (0..at.len()).filter(|d| !offset_dims.contains(d)).map(|d| at[d]).collect();
        let zero = Index::uniform(kb.int(0));
        let mut position = vec![zero; rank];
        let kept = (0..rank).filter(|d| !dropped.contains(d));
        for (axis, &d) in kept.zip(&offset_dims) {
            position[axis] = at[d];
        }
        for (&axis, &d) in batching.iter().zip(&indices_batching) {
            // The batch position skips the index vector's dimension.
            position[axis] = batch[if d > vector_dim { d - 1 } else { d }];
        }
        for (axis, start) in self.slice_starts(kb, inst, &batch) {
            position[axis] = position[axis].add(kb, self.lanes, start);
        }
        let outer = self.near;
        self.near |= is_counted(self.group, inst);
        let element = self.element(kb, operand, &position);
        self.near = outer;
        element
    }

    /// The start of the slice that a gather takes for a batch position, by axis; read and checked
    /// once in a block.
    pub(crate) fn slice_starts(&mut self, kb: &mut KernelBuilder, inst: Inst, batch: &[Index]) -> Vec<(usize, Index)> {
        let [operand, indices] = self.group.operands(inst)[..] else { panic!("`gather` has two operands") };
        let vector_dim = self.group.int(inst, "index_vector_dim") as usize;
        let shape = self.tensor(operand).dims.clone();
        let slice_sizes = self.group.dims(inst, "slice_sizes").to_vec();
        let mut found = Vec::new();
        for (k, &axis) in self.group.ints(inst, "start_index_map").iter().enumerate() {
            let axis = axis as usize;
            let mut from = batch.to_vec();
            if vector_dim < self.tensor(indices).rank() {
                from.insert(vector_dim, Index::uniform(kb.int(k as i64)));
            }
            if let Some(position) = counted_place(self.group, &self.solver, inst, k) {
                found.push((axis, batch[position]));
                continue;
            }
            let start = self.element(kb, indices, &from);
            let room = &shape[axis] - &slice_sizes[axis];
            let key = (inst, k, start);
            let known = self.scopes.iter().rev().find_map(|scope| scope.starts.get(&key)).copied();
            let bounded = known.unwrap_or_else(|| self.bounded(kb, inst, start, &room));
            // A check of lanes holds for these lanes only.
            if bounded.as_uniform().is_some() {
                self.scope().starts.insert(key, bounded);
            }
            found.push((axis, bounded));
        }
        found
    }

    /// A start position as an index in [0, `room`]: checked or clamped, as the op says.
    pub(crate) fn bounded(&mut self, kb: &mut KernelBuilder, inst: Inst, start: Value, room: &Dim) -> Index {
        let start = signed(kb, start);
        // A table holds positions in 32 bits, if these suffice.
        let narrow = kb.converted_from(start, DType::I32).filter(|_| self.solver.range(room).hi.is_some_and(|hi| hi < 1 << 31));
        let start = narrow.unwrap_or(start);
        let (zero, last) = (kb.zero(kb.dtype(start), 1), kb.dim(room));
        let last = kb.convert(last, kb.dtype(start));
        let place = match self.group.word(inst, "bounds") {
            "check" => {
                self.check(kb, inst, start, zero, last);
                start
            }
            _ => {
                expr!(kb, min(max(start, zero), last))
            }
        };
        match narrow {
            Some(_) => Index::Lanes { base: kb.int(0), steps: place },
            None => Index::from_value(kb, place),
        }
    }

    /// Fails the launch unless every active lane of `index` is in [`low`, `high`]; the message
    /// shows an offender and the bound.
    fn check(&mut self, kb: &mut KernelBuilder, inst: Inst, index: Value, low: Value, high: Value) {
        let ok = expr!(kb, (index >= low) & (index <= high));
        let ok = self.asked(kb, ok);
        let zero = kb.zero(kb.dtype(index), 1);
        let bad = kb.select(ok, zero, index);
        let (most, least) = (kb.reduce_lanes(bad, "maximum"), kb.reduce_lanes(bad, "minimum"));
        let offender = expr!(kb, select(most > zero, most, least));
        let [offender, high] = [offender, high].map(|value| kb.convert(value, Site::VALUE));
        let all = kb.reduce_lanes(ok, "and");
        let site = self.site(inst, Code::E0603, "index {0} is out of range, expected 0 to {1}");
        kb.assert(all, &[offender, high], site);
    }

    /// The number of a site at which this kernel can fail.
    pub(crate) fn site(&mut self, inst: Inst, code: Code, message: &str) -> i64 {
        let site = Site { code, op: self.group.kind_of(inst).name().into(), message: message.into(), kernel_values: 2 };
        let position = self.sites.iter().position(|s| *s == site).unwrap_or_else(|| {
            self.sites.push(site);
            self.sites.len() - 1
        });
        self.first_site + position as i64
    }

    /// The start positions of a dynamic slice or update, one scalar per dimension.
    fn starts(&mut self, kb: &mut KernelBuilder, inst: Inst, starts: &[Value], shape: &[Dim], extent: &[Dim]) -> Vec<Index> {
        let mut found = Vec::with_capacity(starts.len());
        let count = Dim::product(extent.iter().cloned());
        let may_be_empty = self.group.word(inst, "bounds") == "check" && !self.solver.nonzero(&count);
        for (axis, &start) in starts.iter().enumerate() {
            let mut start = self.element(kb, start, &[]);
            if may_be_empty {
                // The index of a slice without elements is not checked: 0 always fits.
                let some = expr!(kb, dim(&count) > 0);
                let dtype = kb.dtype(start);
                start = expr!(kb, select(some, start, zero(dtype, 1)));
            }
            found.push(self.bounded(kb, inst, start, &(&shape[axis] - &extent[axis])));
        }
        found
    }

    /// The start of the slice that a `dynamic_update_slice` writes.
    pub(crate) fn starts_of_update(&mut self, kb: &mut KernelBuilder, inst: Inst) -> Vec<Index> {
        let operands: Vec<Value> = self.group.operands(inst).to_vec();
        let (shape, extent) = (&self.tensor(operands[0]).dims, &self.tensor(operands[1]).dims);
        self.starts(kb, inst, &operands[2..], shape, extent)
    }

    fn dynamic_slice(&mut self, kb: &mut KernelBuilder, inst: Inst, at: &[Index]) -> Value {
        let operands: Vec<Value> = self.group.operands(inst).to_vec();
        let (shape, extent) = (&self.tensor(operands[0]).dims, &self.tensor(self.group.result(inst)).dims);
        let starts = self.starts(kb, inst, &operands[1..], shape, extent);
        let moved = |(axis, (index, start)): (usize, (&Index, Index))| match self.keeps_all(inst, axis) {
            true => *index,
            false => index.add(kb, self.lanes, start),
        };
        let from: Vec<Index> = at.iter().zip(starts).enumerate().map(moved).collect();
        self.element(kb, operands[0], &from)
    }

    fn dynamic_update_slice(&mut self, kb: &mut KernelBuilder, inst: Inst, at: &[Index]) -> Value {
        let operands: Vec<Value> = self.group.operands(inst).to_vec();
        let [operand, update, starts @ ..] = &operands[..] else { panic!("`dynamic_update_slice` has two tensors") };
        let (shape, extent) = (&self.tensor(*operand).dims, &self.tensor(*update).dims);
        let starts = self.starts(kb, inst, starts, shape, extent);
        let mut inside = Condition::default();
        let mut from = Vec::with_capacity(at.len());
        for (axis, (index, start)) in at.iter().zip(starts).enumerate() {
            let size = &extent[axis];
            // The slice does not move where all is replaced. The index may count a joined dimension
            // there: it is not compared with one size.
            if self.solver.equal(size, &shape[axis]) {
                from.push(*index);
                continue;
            }
            let start = start.as_uniform().expect("a start position is a scalar");
            let zero = kb.int(0);
            let back = expr!(kb, zero - start);
            let position = index.add_scalar(kb, back);
            let value = position.value(kb, self.lanes);
            let limit = kb.dim(size);
            let here = expr!(kb, (value >= zero) & (value < limit));
            inside.and(kb, here);
            from.push(position);
        }
        self.either(kb, &inside, at, |cx, kb| cx.element(kb, *update, &from), |cx, kb| cx.element(kb, *operand, at))
    }
}

/// Converts an index to the index type. One beyond it is out of range for any size, and stays so.
pub(crate) fn signed(kb: &mut KernelBuilder, index: Value) -> Value {
    let (from, to) = (kb.dtype(index), kb.index_type());
    if to.holds(from) {
        return kb.convert(index, to);
    }
    let bound = |kb: &mut KernelBuilder, least: i64| {
        let value = least >> (i64::BITS - to.bits());
        kb.constant(Literal::splat_i64(from, value), 1)
    };
    let most = bound(kb, i64::MAX);
    let mut inside = kb.min(index, most);
    if from.is_signed_integer() {
        let least = bound(kb, i64::MIN);
        inside = kb.max(inside, least);
    }
    kb.convert(inside, to)
}
