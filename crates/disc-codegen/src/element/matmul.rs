//! Emits products of tensors, one result element at a time: loops over the summed axes. The matmul
//! schedule is the fast way.
use super::{Elements, condition::Condition};
use crate::kernel::{Index, KernelBuilder, compute_dtype};
use disc_ir::{Attr, DType, Dim, Function, Inst, Literal, OpKind, Value};
use disc_kernel_macros::expr;
use disc_passes::analysis::query::Query;

impl Elements<'_> {
    pub(super) fn dot_general(&mut self, kb: &mut KernelBuilder, inst: Inst, at: &[Index]) -> Value {
        let [lhs, rhs] = self.group.operands(inst)[..] else { panic!("`dot_general` has two operands") };
        let axes = |name| self.group.axes(inst, name);
        let (lhs_batch, rhs_batch) = (axes("lhs_batching_dims"), axes("rhs_batching_dims"));
        let (lhs_sum, rhs_sum) = (axes("lhs_contracting_dims"), axes("rhs_contracting_dims"));
        let (lhs_rank, rhs_rank) = (self.tensor(lhs).rank(), self.tensor(rhs).rank());
        let batches = lhs_batch.len();
        let lhs_free: Vec<usize> = (0..lhs_rank).filter(|d| !lhs_batch.contains(d) && !lhs_sum.contains(d)).collect();
        let rhs_free: Vec<usize> = (0..rhs_rank).filter(|d| !rhs_batch.contains(d) && !rhs_sum.contains(d)).collect();

        let zero = Index::uniform(kb.int(0));
        let (mut lhs_at, mut rhs_at) = (vec![zero; lhs_rank], vec![zero; rhs_rank]);
        let panels = packed_columns(self.group, inst).is_some();
        for (i, index) in at.iter().enumerate() {
            match i.checked_sub(batches) {
                Some(j) if panels && j == lhs_free.len() => {
                    let width = kb.dim(&self.tensor(rhs).dims[2]);
                    let column = index.value(kb, self.lanes);
                    let (panel, column) = (expr!(kb, column / width), expr!(kb, column % width));
                    (rhs_at[0], rhs_at[2]) = (Index::from_value(kb, panel), Index::from_value(kb, column));
                }
                None => (lhs_at[lhs_batch[i]], rhs_at[rhs_batch[i]]) = (*index, *index),
                Some(j) if j < lhs_free.len() => lhs_at[lhs_free[j]] = *index,
                Some(j) => rhs_at[rhs_free[j - lhs_free.len()]] = *index,
            }
        }
        let dtype = compute_dtype(self.tensor(self.group.result(inst)).dtype);
        let sizes: Vec<Dim> = lhs_sum.iter().map(|&d| self.tensor(lhs).dims[d].clone()).collect();
        let start = kb.zero(dtype, self.lanes_at(at));
        self.sums(kb, &sizes, start, &mut |cx, kb, loops, carried| {
            let (mut lhs_at, mut rhs_at) = (lhs_at.clone(), rhs_at.clone());
            for ((&l, &r), &index) in lhs_sum.iter().zip(&rhs_sum).zip(loops) {
                (lhs_at[l], rhs_at[r]) = (Index::uniform(index), Index::uniform(index));
                if let (true, Some(size)) = (panels, cx.tensor(rhs).dims.get(3)) {
                    let size = kb.dim(size);
                    (rhs_at[r], rhs_at[3]) = (Index::uniform(expr!(kb, index / size)), Index::uniform(expr!(kb, index % size)));
                }
            }
            let (x, y) = (cx.element(kb, lhs, &lhs_at), cx.element(kb, rhs, &rhs_at));
            vec![multiply_add(kb, dtype, x, y, carried[0])]
        })
    }

    /// The element of a weight that is stored as a step of 4 bits.
    pub(super) fn unpack_int4(&mut self, kb: &mut KernelBuilder, inst: Inst, at: &[Index]) -> Value {
        let [words, scales] = self.group.operands(inst)[..] else { panic!("`unpack_int4` has two operands") };
        let (eight, four) = (kb.int(8), kb.int(4));
        let number = at[3].value(kb, self.lanes);
        let (word, place) = (expr!(kb, number / eight), expr!(kb, number % eight));
        let word = Index::from_value(kb, word);
        let word = self.element(kb, words, &[at[0], at[1], word, at[2]]);
        let place = expr!(kb, convert(place * four, DType::I32));
        let top = kb.constant(Literal::splat_i64(DType::I32, 28), 1);
        let above = kb.map(OpKind::Subtract, &[top, place]);
        let shifted = kb.map(OpKind::ShiftLeft, &[word, above]);
        let step = kb.map(OpKind::ShiftRightArithmetic, &[shifted, top]);
        let step = kb.convert(step, DType::F32);
        let scale = self.element(kb, scales, &at[..3]);
        kb.map(OpKind::Multiply, &[step, scale])
    }

    /// Sums over the window and the input features of one group. Positions outside the input, and
    /// between dilated elements, hold zeros.
    pub(super) fn convolution(&mut self, kb: &mut KernelBuilder, inst: Inst, at: &[Index]) -> Value {
        let [input, kernel] = self.group.operands(inst)[..] else { panic!("`convolution` has two operands") };
        let axis = |name| self.group.int(inst, name) as usize;
        let axes = |name| self.group.axes(inst, name);
        let in_spatial = axes("input_spatial_dimensions");
        let out_spatial = axes("output_spatial_dimensions");
        let kernel_spatial = axes("kernel_spatial_dimensions");
        let (in_batch, in_feature) = (axis("input_batch_dimension"), axis("input_feature_dimension"));
        let (kernel_in, kernel_out) = (axis("kernel_input_feature_dimension"), axis("kernel_output_feature_dimension"));
        let (batch, feature) = (at[axis("output_batch_dimension")], at[axis("output_feature_dimension")]);
        let (input_dims, kernel_dims) = (self.tensor(input).dims.clone(), self.tensor(kernel).dims.clone());
        let groups = [self.group.int(inst, "feature_group_count").max(1), self.group.int(inst, "batch_group_count").max(1)];

        let sizes: Vec<Dim> =
            kernel_spatial.iter().map(|&d| kernel_dims[d].clone()).chain([kernel_dims[kernel_in].clone()]).collect();
        let dtype = compute_dtype(self.tensor(self.group.result(inst)).dtype);
        let lanes = self.lanes_at(at);
        let start = kb.zero(dtype, lanes);
        self.nest(kb, &sizes, vec![start], &mut |cx, kb, loops, carried| {
            let (&channel, taps) = loops.split_last().expect("the input features come last");
            let zero = Index::uniform(kb.int(0));
            let (mut from, mut weight) = (vec![zero; input_dims.len()], vec![zero; kernel_dims.len()]);
            let (mut inside, mut counts): (Condition, Option<Value>) = (Condition::default(), None);
            for (i, &tap) in taps.iter().enumerate() {
                weight[kernel_spatial[i]] = cx.tap(kb, inst, i, tap, &kernel_dims[kernel_spatial[i]]);
                let out = at[out_spatial[i]];
                let (position, valid) = cx.window_position(kb, inst, i, out, Index::uniform(tap), &input_dims[in_spatial[i]]);
                from[in_spatial[i]] = position;
                inside.and(kb, valid);
                let here = cx.lies_on_grid(kb, inst, i, out, Index::uniform(tap));
                counts = match (counts, here) {
                    (Some(others), Some(here)) => Some(expr!(kb, others & here)),
                    (others, here) => others.or(here),
                };
            }
            let channel = Index::uniform(channel);
            weight[kernel_in] = channel;
            weight[kernel_out] = feature;
            from[in_batch] = cx.grouped(kb, groups[1], feature, batch, &input_dims[in_batch], &kernel_dims[kernel_out]);
            from[in_feature] = match groups[0] {
                1 => channel,
                count => {
                    let per_group = kb.dim(&kernel_dims[kernel_out].floor_div(&Dim::constant(count)));
                    let group = feature.value(kb, cx.lanes);
                    let group = expr!(kb, group / per_group);
                    let width = kb.dim(&kernel_dims[kernel_in]);
                    let group = Index::from_value(kb, group).scale(kb, cx.lanes, width);
                    group.add(kb, cx.lanes, channel)
                }
            };
            let old = carried[0];
            let operand = compute_dtype(cx.tensor(input).dtype);
            let x = cx.either(kb, &inside, at, |cx, kb| cx.element(kb, input, &from), |_, kb| kb.zero(operand, 1));
            let w = cx.element(kb, kernel, &weight);
            let sum = multiply_add(kb, dtype, x, w, old);
            let sum = counts.map_or(sum, |counts| kb.select(counts, sum, old));
            vec![kb.widen(sum, lanes)]
        })[0]
    }

    /// The input batch of a convolution whose batch is grouped: result feature `f` uses the batches
    /// of its group.
    fn grouped(
        &mut self,
        kb: &mut KernelBuilder,
        count: i64,
        feature: Index,
        batch: Index,
        batches: &Dim,
        features: &Dim,
    ) -> Index {
        if count == 1 {
            return batch;
        }
        let per_group = kb.dim(&features.floor_div(&Dim::constant(count)));
        let width = kb.dim(&batches.floor_div(&Dim::constant(count)));
        let group = feature.value(kb, self.lanes);
        let group = expr!(kb, group / per_group);
        let first = Index::from_value(kb, group).scale(kb, self.lanes, width);
        first.add(kb, self.lanes, batch)
    }
}

/// Emits `x * y + sum`, in `dtype`.
pub(crate) fn multiply_add(kb: &mut KernelBuilder, dtype: DType, x: Value, y: Value, sum: Value) -> Value {
    let (x, y) = (kb.convert(x, dtype), kb.convert(y, dtype));
    if dtype.is_float() {
        return kb.fma(x, y, sum);
    }
    let product = kb.map(OpKind::Multiply, &[x, y]);
    kb.map(OpKind::Add, &[product, sum])
}

/// The columns of a matmul whose right operand is panels `[n/NR][k][NR]`.
pub(crate) fn packed_columns(group: &Function, dot: Inst) -> Option<&Dim> {
    match group.attr(dot, "packed_columns") {
        Some(Attr::Dim(columns)) => Some(columns),
        _ => None,
    }
}
