//! A work unit of attention: its place, its task memory, and the steps that the schedules for many
//! rows and for a few share.
use super::{masking::Mask, plan::AttentionPlan, softmax::Softmax};
use crate::{
    kernel::{Index, KernelBuilder, Site},
    schedule::{
        Group,
        common::{iteration_space::place_unit, kernel_frame::GroupMemory},
        cpu::{
            matmul::{BlockProduct, RowsOf},
            reduction,
        },
    },
};
use disc_ir::{Dim, TensorType, Value};
use disc_kernel_macros::expr;
use std::collections::HashMap;

/// Task memory of a unit: of each row of its chunk the maximum, the sum, the factor of its totals,
/// and the totals; a block of scores, and one of their exponentials.
pub(super) struct State {
    pub(super) tops: Value,
    pub(super) sums: Value,
    pub(super) factors: Value,
    pub(super) totals: Value,
    pub(super) block: Value,
    /// The exponentials, in place of the scores or as the rows of a product in tile registers.
    pub(super) powers: Value,
    /// Of as many rows as a vector has lanes: a vector of each, before its lanes are combined, and
    /// the shift of its logits.
    pub(super) lanes: Value,
    pub(super) shifts: Value,
}

/// The inputs of a unit's code.
pub(super) struct Unit<'a> {
    pub(super) plan: &'a AttentionPlan,
    pub(super) softmax: &'a Softmax,
    pub(super) groups: [&'a Group<'a>; 3],
    pub(super) scores: BlockProduct<'a>,
    pub(super) weighted: BlockProduct<'a>,
    pub(super) masks: Vec<Mask>,
    /// Memory by the values of the whole group.
    pub(super) memory: HashMap<Value, Value>,
    pub(super) state: State,
    first_site: i64,
    pub(super) sites: Vec<Site>,
}

/// The place of a unit: its position along the batch dimensions, its rows, and the starts of
/// operands there.
pub(super) struct Place {
    pub(super) at: Vec<Index>,
    pub(super) rows: [Value; 2],
    pub(super) queries: Value,
    pub(super) keys: Value,
    pub(super) values: Value,
    /// A test that all values are finite; none if that does not matter.
    pub(super) finite: Option<Value>,
}

impl State {
    fn new(kb: &mut KernelBuilder, plan: &AttentionPlan, group: &Group<'_>, lanes: u32) -> Self {
        let rows = Dim::constant(plan.scores.most_rows());
        let dtype = plan.scores.compute;
        let mut scratch = |count: Dim| kb.scratch(TensorType::new([count], dtype));
        let [tops, sums, factors] = [(); 3].map(|()| scratch(rows.clone()));
        let totals = scratch(rows * plan.weighted.total_columns());
        let block = kb.scratch(plan.scores.row_block(group.tensor(plan.made[0])));
        let powers = match plan.weighted.keeps_tiles() {
            true => kb.scratch(plan.weighted.row_block(group.tensor(plan.made[1]))),
            false => block,
        };
        let mut scratch = |count: u32| kb.scratch(TensorType::new([Dim::constant(i64::from(count))], dtype));
        let (lanes, shifts) = (scratch(lanes * plan.scores.tile.lanes), scratch(plan.scores.tile.lanes));
        Self { tops, sums, factors, totals, block, powers, lanes, shifts }
    }
}

impl<'a> Unit<'a> {
    pub(super) fn new(
        kb: &mut KernelBuilder,
        group: &Group<'_>,
        plan: &'a AttentionPlan,
        softmax: &'a Softmax,
        groups: [&'a Group<'a>; 3],
        memory: &GroupMemory,
        first_site: i64,
    ) -> Self {
        let state = State::new(kb, plan, group, reduction::lanes(groups[1], &plan.rows));
        let mut memory: HashMap<Value, Value> = memory.pairs().collect();
        memory.extend([(plan.made[0], state.block), (plan.made[1], state.powers)]);
        let scores = BlockProduct::new(kb, groups[0], &plan.scores, &plan.memory_of(0, &memory));
        let weighted = BlockProduct::new(kb, groups[2], &plan.weighted, &plan.memory_of(2, &memory));
        let (masks, sites) = (Vec::new(), Vec::new());
        Self { plan, softmax, groups, scores, weighted, masks, memory, state, first_site, sites }
    }

    /// Gives a position along the batch dimensions, and rows there.
    pub(super) fn place_at(&self, kb: &mut KernelBuilder, batch: Value, rows: [Value; 2]) -> Place {
        let mut at = vec![Index::uniform(kb.int(0)); self.plan.rows.domain.len()];
        place_unit(kb, batch, &self.plan.scores.shape.outer_runs(), &mut at);
        let [queries, keys] = self.scores.bases(kb, &at);
        let [_, values] = self.weighted.bases(kb, &at);
        Place { at, rows, queries, keys, values, finite: None }
    }

    /// Resets the state to that before any column.
    pub(super) fn clear(&self, kb: &mut KernelBuilder, place: &Place) {
        let (dtype, lanes) = (self.plan.scores.compute, self.plan.scores.tile.lanes);
        let (zero, one, step) = (kb.int(0), kb.int(1), kb.int(i64::from(lanes)));
        let count = expr!(kb, place.rows[1] - place.rows[0]);
        let (lowest, nothing) = (kb.float(dtype, f64::NEG_INFINITY, 1), kb.float(dtype, 0.0, 1));
        kb.for_each([zero, count, one], |kb, row| {
            kb.store(self.state.tops, row, lowest, None);
            kb.store(self.state.sums, row, nothing, None);
        });
        let side = reduction::lanes(self.groups[1], &self.plan.rows);
        let (kept, step_of_rows) = (kb.int(i64::from(side * self.rows_at_once())), kb.int(i64::from(side)));
        let none = kb.zero(dtype, side);
        kb.for_each([zero, kept, step_of_rows], |kb, place| {
            kb.store(self.state.lanes, place, none, None);
        });
        let elements = expr!(kb, count * dim(&self.plan.weighted.total_columns()));
        let nothing = kb.float(dtype, 0.0, lanes);
        kb.for_each([zero, elements, step], |kb, place| {
            kb.store(self.state.totals, place, nothing, None);
        });
    }

    pub(super) fn next_site(&self) -> i64 {
        self.first_site + self.sites.len() as i64
    }

    /// Adds the product of a block of exponentials with the values to the totals.
    pub(super) fn weigh(&self, kb: &mut KernelBuilder, place: &Place, [first, height]: [Value; 2], low: Value, seen: [Value; 2]) {
        let plan = self.plan;
        let (zero, own) = (kb.int(0), expr!(kb, first - place.rows[0]));
        let left = expr!(kb, seen[0] - low);
        let values = if plan.weighted.keeps_tiles() {
            let end = expr!(kb, seen[1] - low);
            self.end_powers(kb, height, end);
            self.packed_values(kb, left)
        } else {
            self.values_from(kb, place, seen[0])
        };
        let depth = expr!(kb, seen[1] - seen[0]);
        let columns = kb.dim(&plan.weighted.panels());
        let rows = RowsOf { left, first: own, height };
        let more = [depth, self.state.totals, self.state.factors];
        self.weighted.run(kb, &place.at, values, rows, [zero, columns, zero], &more);
    }

    /// Gives the start of the values of a column in memory.
    pub(super) fn values_from(&self, kb: &mut KernelBuilder, place: &Place, column: Value) -> Value {
        expr!(kb, place.values + column * dim(&self.plan.weighted.shape.k.right))
    }

    /// Rows whose lanes are reduced together: each is then a lane of one vector.
    pub(super) fn rows_at_once(&self) -> u32 {
        reduction::lanes(self.groups[1], &self.plan.rows).min(self.plan.scores.tile.lanes)
    }
}
