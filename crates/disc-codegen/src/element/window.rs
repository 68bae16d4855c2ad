//! Emits reductions over windows, and computes the positions that windows cover.
use super::{Elements, condition::Condition};
use crate::kernel::{Index, KernelBuilder, compute_dtype};
use disc_ir::{Dim, Inst, Value};
use disc_kernel_macros::expr;
use disc_passes::analysis::query::Query;

impl Elements<'_> {
    /// Element `i` of an integer list attribute that may be absent.
    fn listed(&self, inst: Inst, name: &str, i: usize, default: i64) -> i64 {
        self.group.ints(inst, name).get(i).copied().unwrap_or(default)
    }

    /// The filter position of a tap: reversed, if the op says so.
    pub(super) fn tap(&mut self, kb: &mut KernelBuilder, inst: Inst, i: usize, tap: Value, size: &Dim) -> Index {
        if self.listed(inst, "window_reversal", i, 0) == 0 {
            return Index::uniform(tap);
        }
        let last = kb.dim(&(size - 1));
        Index::uniform(tap).subtract_from(kb, last)
    }

    /// The position of tap `tap` of the window at `out` in an input of `size` along spatial
    /// dimension `i`, and a flag that is true if there is an element.
    pub(super) fn window_position(
        &mut self,
        kb: &mut KernelBuilder,
        inst: Inst,
        i: usize,
        out: Index,
        tap: Index,
        size: &Dim,
    ) -> (Index, Value) {
        let kind = self.group.kind_of(inst);
        let (base, window) = match kind {
            disc_ir::OpKind::Convolution => ("lhs_dilation", "rhs_dilation"),
            _ => ("base_dilations", "window_dilations"),
        };
        let stride = kb.int(self.listed(inst, "window_strides", i, 1));
        let dilation = kb.int(self.listed(inst, window, i, 1));
        let spread = self.listed(inst, base, i, 1);
        let low = self.group.dims(inst, "padding_low").get(i).cloned().unwrap_or(Dim::constant(0));
        let shift = kb.dim(&(Dim::constant(0) - low));
        let offset = tap.scale(kb, self.lanes, dilation).add_scalar(kb, shift);
        let position = out.scale(kb, self.lanes, stride).add(kb, self.lanes, offset);
        let value = position.value(kb, self.lanes);
        let (zero, limit) = (kb.int(0), kb.dim(size));
        let after = expr!(kb, value >= zero);
        if spread == 1 {
            let before = expr!(kb, value < limit);
            return (position, expr!(kb, after & before));
        }
        let spread = kb.int(spread);
        let (quotient, rest) = (expr!(kb, value / spread), expr!(kb, value % spread));
        let before = expr!(kb, quotient < limit);
        let exact = expr!(kb, rest == zero);
        let valid = expr!(kb, after & before);
        (Index::from_value(kb, quotient), expr!(kb, valid & exact))
    }

    /// A flag that is true if tap `tap` of the window at `out` is not between dilated elements;
    /// `None` if they are contiguous.
    pub(super) fn lies_on_grid(&mut self, kb: &mut KernelBuilder, inst: Inst, i: usize, out: Index, tap: Index) -> Option<Value> {
        let apart = self.listed(inst, "lhs_dilation", i, 1);
        if apart == 1 {
            return None;
        }
        let numbers = [("window_strides", 1), ("rhs_dilation", 1)].map(|(name, default)| self.listed(inst, name, i, default));
        let [stride, dilation, apart, zero] = [numbers[0], numbers[1], apart, 0].map(|number| kb.int(number));
        let low = self.group.dims(inst, "padding_low").get(i).cloned().unwrap_or(Dim::constant(0));
        let shift = kb.dim(&(Dim::constant(0) - low));
        let offset = tap.scale(kb, self.lanes, dilation).add_scalar(kb, shift);
        let position = out.scale(kb, self.lanes, stride).add(kb, self.lanes, offset).value(kb, self.lanes);
        let rest = expr!(kb, position % apart);
        Some(expr!(kb, rest == zero))
    }

    /// The elements that a window covers. Positions along the windows' counts, and along a window
    /// and the dimension before it, may be those of the dimensions walked as one: the excess along
    /// a dimension carries to the one before.
    pub(super) fn im2col(&mut self, kb: &mut KernelBuilder, inst: Inst, at: &[Index]) -> Value {
        let (operand, result) = (self.group.operands(inst)[0], self.group.result(inst));
        let (input, sizes) = (self.tensor(operand).dims.clone(), self.tensor(result).dims.clone());
        let windows = self.dims_of_window(inst).len();
        let others = input.len() - windows;
        let mut at = at.to_vec();
        for i in (others + windows + 1..sizes.len()).rev() {
            self.carry(kb, &mut at, i, &sizes[i]);
        }
        for i in (others.max(1)..others + windows).rev() {
            self.carry(kb, &mut at, i, &sizes[i]);
        }
        let mut from = at[..others].to_vec();
        let mut inside = Condition::default();
        for i in 0..windows {
            let (tap, window) = (at[others + i], at[others + windows + i]);
            let (position, valid) = self.window_position(kb, inst, i, window, tap, &input[others + i]);
            from.push(position);
            inside.and(kb, valid);
        }
        let dtype = compute_dtype(self.tensor(operand).dtype);
        let lanes = self.lanes_at(&at);
        self.either(kb, &inside, &at, |cx, kb| cx.element(kb, operand, &from), |_, kb| kb.zero(dtype, lanes))
    }

    /// Reduces the position along dimension `i` below its size, and adds the quotient to the
    /// position of the dimension before.
    fn carry(&mut self, kb: &mut KernelBuilder, at: &mut [Index], i: usize, size: &Dim) {
        let known_zero = at[i].as_uniform().is_some_and(|position| kb.known_int(position) == Some(0));
        if known_zero {
            return;
        }
        let (position, size) = (at[i].value(kb, self.lanes), kb.dim(size));
        let (times, rest) = (expr!(kb, position / size), expr!(kb, position % size));
        at[i] = Index::from_value(kb, rest);
        let times = Index::from_value(kb, times);
        at[i - 1] = at[i - 1].add(kb, self.lanes, times);
    }

    /// Folds the elements that a window covers; at positions that hold no element, the initial
    /// value takes part.
    pub(super) fn reduce_window(&mut self, kb: &mut KernelBuilder, inst: Inst, at: &[Index]) -> Vec<Value> {
        let operands: Vec<Value> = self.group.operands(inst).to_vec();
        let (inputs, inits) = operands.split_at(operands.len() / 2);
        let body = self.group.inst(inst).regions[0];
        let shape = self.tensor(inputs[0]).dims.clone();
        let sizes: Vec<Dim> = self.dims_of_window(inst);
        let lanes = self.lanes_at(at);
        let fills = self.initial(kb, inits, 1);
        let start: Vec<Value> = fills.iter().map(|&f| kb.widen(f, lanes)).collect();
        self.nest(kb, &sizes, start, &mut |cx, kb, taps, carried| {
            let mut inside = Condition::default();
            let mut from = Vec::with_capacity(taps.len());
            for (i, &tap) in taps.iter().enumerate() {
                let (position, valid) = cx.window_position(kb, inst, i, at[i], Index::uniform(tap), &shape[i]);
                from.push(position);
                inside.and(kb, valid);
            }
            let mut elements = Vec::with_capacity(inputs.len());
            for (&input, &fill) in inputs.iter().zip(&fills) {
                elements.push(cx.either(kb, &inside, at, |cx, kb| cx.element(kb, input, &from), |_, _| fill));
            }
            let arguments: Vec<Value> = carried.iter().copied().chain(elements).collect();
            let results = cx.inline(kb, body, &arguments);
            results.into_iter().map(|r| kb.widen(r, lanes)).collect()
        })
    }

    /// The extents of a window, which may be symbolic.
    fn dims_of_window(&self, inst: Inst) -> Vec<Dim> {
        match self.group.dims(inst, "window_dimensions") {
            [] => self.group.ints(inst, "window_dimensions").iter().map(|&d| Dim::constant(d)).collect(),
            dims => dims.to_vec(),
        }
    }
}
