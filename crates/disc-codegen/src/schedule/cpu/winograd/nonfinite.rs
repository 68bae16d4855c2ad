//! Computes a feature of tiles whose results are not all finite as sums of products, which keep a
//! NaN or an infinity in the windows that read it.
//!
//! It is a routine of its own, so that tiles of finite numbers do not pay for it; it is fast enough
//! for an input full of NaN.
use super::{
    Emitter, Position,
    output_transform::Corner,
    plan::{Weights, WinogradPlan},
    store,
};
use crate::{
    element::Elements,
    kernel::{Index, KernelBuilder, Site},
    schedule::{Group, common::kernel_frame::GroupMemory},
};
use disc_ir::{DType, Dim, Function, FunctionKind, Value};
use disc_kernel_macros::expr;

/// Elements along a side of a window.
const TAPS: i64 = 3;

fn name(kernel: &str) -> String {
    format!("{kernel}.nonfinite")
}

impl Emitter<'_, '_> {
    /// Calls the routine for the results of an output feature, in place of those that are not all
    /// finite.
    pub(super) fn call_again(&self, kb: &mut KernelBuilder, corner: &Corner, feature: Value) {
        let mut arguments = self.buffers.clone();
        arguments.extend([corner.batch, corner.row, corner.column, corner.count, feature]);
        kb.call(&name(self.name), &arguments);
    }
}

/// Emits the routine, with its sites of failure.
pub(super) fn emit(group: &Group<'_>, plan: &WinogradPlan, kernel: &str, first_site: i64) -> (Function, Vec<Site>) {
    let mut kb = group.builder(&name(kernel), FunctionKind::Routine);
    let mut elements = Elements::new(group.function, group.solver.clone(), plan.lanes, group.target);
    elements.first_site = first_site;
    let memory = GroupMemory::of(&mut kb, group);
    memory.sources.iter().for_each(|&(input, buffer)| elements.bind(input, buffer));
    let targets = memory.outputs();
    let mut scalar = |name: &str| kb.position(name);
    let [batch, row, column, count, feature] = ["batch", "row", "column", "count", "feature"].map(&mut scalar);
    let mut nonfinite = Nonfinite { group, plan, elements, targets, corner: Corner { batch, row, column, count } };
    let (zero, vector) = (kb.int(0), kb.int(i64::from(plan.lanes)));
    kb.for_each([zero, count, vector], |kb, piece| {
        nonfinite.elements.open_scope();
        let x = expr!(kb, column + piece);
        let sums = nonfinite.sums(kb, feature, x);
        let left = expr!(kb, count - piece);
        nonfinite.store(kb, feature, x, sums, left);
        nonfinite.elements.close_scope();
    });
    (kb.finish(), nonfinite.elements.sites)
}

struct Nonfinite<'a, 'g> {
    group: &'a Group<'g>,
    plan: &'a WinogradPlan,
    elements: Elements<'g>,
    targets: Vec<Value>,
    corner: Corner,
}

impl Nonfinite<'_, '_> {
    /// The sums of a vector of windows from column `x` on, in the rows of a tile.
    fn sums(&mut self, kb: &mut KernelBuilder, feature: Value, x: Value) -> Vec<Value> {
        let (plan, lanes) = (self.plan, self.plan.lanes);
        let (zero, one, channels) = (kb.int(0), kb.int(1), kb.int(plan.channels));
        let plane = kb.dim(&(&plan.size[0] * &plan.size[1]));
        let (rows, columns) = (self.rows(kb), self.columns(kb, x));
        let start = vec![kb.zero(DType::F32, lanes); plan.method.side() as usize];
        let mut channel = kb.open_for_carrying([zero, channels, one], &start);
        self.elements.open_scope();
        let before = expr!(kb, channel.index * plane);
        let mut sums = channel.carried.clone();
        for (across, &(shift, inside)) in columns.iter().enumerate() {
            let weights: Vec<Value> =
                (0..TAPS).map(|down| self.weight(kb, feature, channel.index, [down, across as i64])).collect();
            for (number, &(row, exists)) in rows.iter().enumerate() {
                let (at, mask) = (expr!(kb, row + before), expr!(kb, inside & exists));
                let at = expr!(kb, at + shift);
                let input = self.elements.buffer(plan.input);
                let loaded = kb.load(input, at, lanes, Some(mask));
                let elements = kb.convert(loaded, DType::F32);
                for (down, &weight) in weights.iter().enumerate() {
                    if let Some(sum) = number.checked_sub(down).and_then(|result| sums.get_mut(result)) {
                        *sum = kb.fma(weight, elements, *sum);
                    }
                }
            }
        }
        self.elements.close_scope();
        channel.next = sums;
        kb.close_for(channel)
    }

    /// Gives the starts of the rows that the windows read in the first plane of the input, and a
    /// mask of the lanes that have such a row.
    fn rows(&self, kb: &mut KernelBuilder) -> Vec<(Value, Value)> {
        let plan = self.plan;
        let (zero, all) = (kb.int(0), kb.int(i64::from(plan.lanes)));
        let [height, width] = [0, 1].map(|i| kb.dim(&plan.size[i]));
        let image = kb.dim(&(Dim::constant(plan.channels) * &plan.size[0] * &plan.size[1]));
        let image = expr!(kb, self.corner.batch * image);
        let first = expr!(kb, self.corner.row - dim(&plan.low[0]));
        let rows = (0..plan.method.side() + TAPS - 1).map(|row| {
            let y = expr!(kb, first + int(row));
            let exists = expr!(kb, (y >= zero) & (y < height));
            let (line, lanes) = (expr!(kb, y * width), kb.select(exists, all, zero));
            (expr!(kb, image + line), kb.lane_mask(lanes, plan.lanes))
        });
        rows.collect()
    }

    /// Gives for each element of a window along a row the start of those of a vector of windows,
    /// and the mask of lanes that have one.
    fn columns(&self, kb: &mut KernelBuilder, x: Value) -> Vec<(Value, Value)> {
        let plan = self.plan;
        let (zero, width) = (kb.int(0), kb.dim(&plan.size[1]));
        let first = expr!(kb, x - dim(&plan.low[1]));
        let columns = (0..TAPS).map(|tap| {
            let here = expr!(kb, first + int(tap));
            let (start, stop) = (expr!(kb, zero - here), expr!(kb, width - here));
            let (before, until) = (kb.lane_mask(start, plan.lanes), kb.lane_mask(stop, plan.lanes));
            let behind = expr!(kb, !before);
            (here, expr!(kb, until & behind))
        });
        columns.collect()
    }

    fn weight(&mut self, kb: &mut KernelBuilder, feature: Value, channel: Value, taps: [i64; 2]) -> Value {
        let Weights { value, batch, feature: axis, sums } = &self.plan.weights;
        let mut at = vec![Index::uniform(kb.int(0)); self.group.tensor(*value).rank()];
        at[*batch] = Index::uniform(self.corner.batch);
        at[*axis] = Index::uniform(feature);
        let taps = taps.map(|tap| kb.int(tap));
        for (&axis, index) in sums.iter().zip([channel, taps[0], taps[1]]) {
            at[axis] = Index::uniform(index);
        }
        self.elements.element(kb, *value, &at)
    }

    fn store(&mut self, kb: &mut KernelBuilder, feature: Value, x: Value, sums: Vec<Value>, left: Value) {
        let height = kb.dim(&self.plan.height);
        for (down, sum) in sums.into_iter().enumerate() {
            let y = expr!(kb, self.corner.row + int(down as i64));
            let exists = expr!(kb, y < height);
            kb.when(exists, |kb| {
                let at = Position { batch: self.corner.batch, feature, y, x };
                store(kb, self.group, self.plan, &mut self.elements, &self.targets, at, (sum, Some(left)));
            });
        }
    }
}
