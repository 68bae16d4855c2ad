//! Attention whose rows are a softmax: some columns after the others, with the maximum and the sum of each row carried along.
//!
//! A work unit is a chunk of rows at one position along the batch dimensions. For `KEYS` columns at a time it packs the right operand of the
//! scores, if that has to be packed, and then, for each block of as many rows as a tile has: computes the scores that a mask does not hide,
//! makes powers of them, and adds their product with the values to totals, after scaling these by what the maximum has grown. So all that a
//! unit works on at a time stays in the second-level cache, however long the rows are.
//!
//! Invariants:
//! - A hidden score is minus infinity, so its weight is 0, and leaving its column out changes nothing, unless a value there is no number:
//!   then nothing is left out.
//! - A row that has seen no finite score has the maximum minus infinity, the sum 0 and totals 0.
use super::{
    AttentionPlan, count_sites, decode,
    masking::{Mask, VisibleColumns, masks},
    online_softmax::{over_columns, with_column},
    softmax::Softmax,
};
use crate::{
    kernel::{Index, KernelBuilder, Site},
    schedule::{
        Argument, Group, Launch, Scheduled, Versioned,
        common::kernel_frame::GroupMemory,
        cpu::{
            matmul::{BlockProduct, MatmulPlan, Right, RowsOf, merge_sites},
            pointwise::place_unit,
            reduction,
        },
    },
};
use disc_ir::{Dim, Function, FunctionKind, OpKind, TensorType, Value};
use std::collections::HashMap;

/// Columns that are worked on at a time: with values as long as heads are, they and the scores of a block stay in cache.
pub(super) const KEYS: i64 = 512;

/// Task memory of a unit: of each row of its chunk the maximum, the sum, by what totals are scaled, and the totals; and a block of scores.
pub(super) struct State {
    pub(super) tops: Value,
    pub(super) sums: Value,
    pub(super) factors: Value,
    pub(super) totals: Value,
    pub(super) block: Value,
    /// Of as many rows as a vector has lanes: a vector of each, before its lanes are combined, and what is subtracted from its logits.
    pub(super) lanes: Value,
    pub(super) shifts: Value,
}

/// What the code of a unit is made from.
pub(super) struct Unit<'a> {
    pub(super) plan: &'a AttentionPlan,
    pub(super) softmax: &'a Softmax,
    pub(super) groups: [&'a Group<'a>; 3],
    pub(super) scores: BlockProduct<'a>,
    pub(super) weighted: BlockProduct<'a>,
    masks: Vec<Mask>,
    /// Memory by the values of the whole group.
    pub(super) memory: HashMap<Value, Value>,
    pub(super) state: State,
    first_site: i64,
    pub(super) sites: Vec<Site>,
}

/// Where a unit is: its position along the batch dimensions, its rows, and where operands start there.
pub(super) struct Place {
    pub(super) at: Vec<Index>,
    pub(super) rows: [Value; 2],
    pub(super) queries: Value,
    pub(super) keys: Value,
    pub(super) values: Value,
    /// Whether all values are numbers; none, where that does not matter.
    pub(super) finite: Option<Value>,
}

/// Schedules a group that has a plan and is a softmax.
pub(super) fn schedule(group: &Group<'_>, plan: &AttentionPlan, softmax: &Softmax) -> Versioned {
    let few = decode::version(group, softmax);
    let mut rest = group.clone();
    rest.first_site += few.as_ref().map_or(0, |version| version.code.sites.len() as i64);
    Versioned { versions: few.into_iter().collect(), otherwise: of_many_rows(&rest, plan, softmax) }
}

fn of_many_rows(group: &Group<'_>, plan: &AttentionPlan, softmax: &Softmax) -> Scheduled {
    let parts = [0, 1, 2].map(|i| plan.part(group, i, group.first_site));
    let groups = [&parts[0], &parts[1], &parts[2]];
    let mut routines = BlockProduct::routines(groups[0], &plan.scores);
    let mut sites: Vec<Site> = Vec::new();
    merge_sites(&mut sites, &routines);
    let first_site = group.first_site + count_sites(&routines);
    routines.extend(BlockProduct::routines(groups[2], &plan.weighted));
    let (kernel, arguments, more) = kernel(group, plan, softmax, groups, first_site);
    sites.extend(more);
    let launch = Launch::new(&kernel, arguments, plan.units(), plan.cost(groups[1]));
    let kernels = [kernel].into_iter().chain(routines.into_iter().map(|(routine, _)| routine)).collect();
    Scheduled { kernels, launches: vec![launch], sites }
}

fn kernel<'a>(
    group: &Group<'_>,
    plan: &'a AttentionPlan,
    softmax: &'a Softmax,
    groups: [&'a Group<'a>; 3],
    first_site: i64,
) -> (Function, Vec<Argument>, Vec<Site>) {
    let mut kb = KernelBuilder::new(&group.name, FunctionKind::Kernel);
    let memory = GroupMemory::of(&mut kb, group);
    let [begin, end] = kb.units();
    let mut unit = Unit::new(&mut kb, group, plan, softmax, groups, &memory, first_site);
    unit.masks = plan.masks();
    let one = kb.int(1);
    kb.for_([begin, end, one], &[], |kb, number, _| {
        unit.emit(kb, number);
        Vec::new()
    });
    (kb.finish(), memory.arguments, unit.sites)
}

impl State {
    fn new(kb: &mut KernelBuilder, plan: &AttentionPlan, group: &Group<'_>, lanes: u32) -> Self {
        let rows = Dim::constant(plan.scores.most_rows());
        let dtype = plan.scores.compute;
        let mut scratch = |count: Dim| kb.scratch(TensorType::new([count], dtype));
        let [tops, sums, factors] = [(); 3].map(|()| scratch(rows.clone()));
        let totals = scratch(rows * plan.weighted.total_columns());
        let block = kb.scratch(plan.scores.row_block(group.tensor(plan.made[0])));
        let mut scratch = |count: u32| kb.scratch(TensorType::new([Dim::constant(i64::from(count))], dtype));
        let (lanes, shifts) = (scratch(lanes * plan.scores.tile.lanes), scratch(plan.scores.tile.lanes));
        Self { tops, sums, factors, totals, block, lanes, shifts }
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
        memory.extend([(plan.made[0], state.block), (plan.made[1], state.block)]);
        let scores = BlockProduct::new(kb, groups[0], &plan.scores, &plan.memory_of(0, &memory));
        let weighted = BlockProduct::new(kb, groups[2], &plan.weighted, &plan.memory_of(2, &memory));
        let (masks, sites) = (Vec::new(), Vec::new());
        Self { plan, softmax, groups, scores, weighted, masks, memory, state, first_site, sites }
    }

    /// A position along the batch dimensions, and rows there.
    pub(super) fn place_at(&self, kb: &mut KernelBuilder, batch: Value, rows: [Value; 2]) -> Place {
        let mut at = vec![Index::uniform(kb.int(0)); self.plan.rows.domain.len()];
        place_unit(kb, batch, &self.plan.scores.outer_runs(), &mut at);
        let [queries, keys] = self.scores.bases(kb, &at);
        let [_, values] = self.weighted.bases(kb, &at);
        Place { at, rows, queries, keys, values, finite: None }
    }

    fn emit(&mut self, kb: &mut KernelBuilder, number: Value) {
        let scores = &self.plan.scores;
        let zero = kb.int(0);
        let chunks = kb.dim(&scores.chunks());
        let (chunk, batch) = (kb.rem(number, chunks), kb.div(number, chunks));
        let rows = scores.chunk_rows(kb, chunk);
        let mut place = self.place_at(kb, batch, rows);
        place.finite = (!self.masks.is_empty()).then(|| self.is_finite(kb, place.values));
        self.clear(kb, &place);
        let (columns, step) = (kb.dim(&scores.n.size), kb.int(KEYS));
        kb.for_([zero, columns, step], &[], |kb, low, _| {
            let high = kb.add(low, step);
            let high = kb.map(OpKind::Minimum, &[high, columns]);
            self.columns(kb, &place, [low, high]);
            Vec::new()
        });
        self.write(kb, &place);
    }

    /// Before anything is seen.
    pub(super) fn clear(&self, kb: &mut KernelBuilder, place: &Place) {
        let (dtype, lanes) = (self.plan.scores.compute, self.plan.scores.tile.lanes);
        let (zero, one, step) = (kb.int(0), kb.int(1), kb.int(i64::from(lanes)));
        let count = kb.sub(place.rows[1], place.rows[0]);
        let (lowest, nothing) = (kb.float(dtype, f64::NEG_INFINITY, 1), kb.float(dtype, 0.0, 1));
        kb.for_([zero, count, one], &[], |kb, row, _| {
            kb.store(self.state.tops, row, lowest, None);
            kb.store(self.state.sums, row, nothing, None);
            Vec::new()
        });
        let side = reduction::lanes(self.groups[1], &self.plan.rows);
        let (kept, step_of_rows) = (kb.int(i64::from(side * self.rows_at_once())), kb.int(i64::from(side)));
        let none = kb.zero(dtype, side);
        kb.for_([zero, kept, step_of_rows], &[], |kb, place, _| {
            kb.store(self.state.lanes, place, none, None);
            Vec::new()
        });
        let width = kb.dim(&self.plan.weighted.total_columns());
        let elements = kb.mul(count, width);
        let nothing = kb.float(dtype, 0.0, lanes);
        kb.for_([zero, elements, step], &[], |kb, place, _| {
            kb.store(self.state.totals, place, nothing, None);
            Vec::new()
        });
    }

    /// Whether all values of a batch position are numbers: `value * 0` is 0.
    fn is_finite(&self, kb: &mut KernelBuilder, base: Value) -> Value {
        let plan = &self.plan.weighted;
        let (lanes, buffer) = (plan.tile.lanes, self.weighted.right());
        let (zero, one, step) = (kb.int(0), kb.int(1), kb.int(i64::from(lanes)));
        let (rows, columns, stride) = (kb.dim(&plan.k.size), kb.dim(&plan.n.size), kb.dim(&plan.k.right));
        let nothing = kb.zero(plan.compute, lanes);
        let whole = kb.div(columns, step);
        let whole = kb.mul(whole, step);
        let left = kb.sub(columns, whole);
        let mask = kb.lane_mask(left, lanes);
        let sums = kb.for_([zero, rows, one], &[nothing], |kb, row, carried| {
            let start = kb.mul(row, stride);
            let start = kb.add(base, start);
            let add = |kb: &mut KernelBuilder, column: Value, mask: Option<Value>, sum: Value| {
                let from = kb.add(start, column);
                let loaded = kb.load(buffer, from, lanes, mask);
                let loaded = kb.convert(loaded, plan.compute);
                kb.fma(loaded, nothing, sum)
            };
            let sums = kb.for_([zero, whole, step], carried, |kb, column, carried| vec![add(kb, column, None, carried[0])]);
            kb.for_([whole, columns, step], &sums, |kb, column, carried| vec![add(kb, column, Some(mask), carried[0])])
        });
        let sum = kb.reduce_lanes(sums[0], "add");
        let nothing = kb.zero(plan.compute, 1);
        kb.compare("EQ", sum, nothing)
    }

    /// Some columns, for all rows of the chunk.
    fn columns(&mut self, kb: &mut KernelBuilder, place: &Place, [low, high]: [Value; 2]) {
        let plan = self.plan;
        let panels = self.panels(kb, [low, high]);
        self.scores.pack(kb, &place.at, place.keys, panels);
        plan.scores.for_row_blocks(kb, place.rows, |kb, _, [first, height]| {
            let seen = self.seen(kb, place, [first, height], [low, high]);
            let any = kb.compare("LT", seen[0], seen[1]);
            let open = kb.open_if(any);
            self.block(kb, place, [first, height], low, seen);
            kb.close_if(open);
        });
    }

    /// The panels that columns are of, the first of them being the first of a panel.
    fn panels(&self, kb: &mut KernelBuilder, [low, high]: [Value; 2]) -> [Value; 2] {
        let width = i64::from(self.plan.scores.tile.columns);
        let (width, up) = (kb.int(width), kb.int(width - 1));
        let end = kb.add(high, up);
        [kb.div(low, width), kb.div(end, width)]
    }

    /// The columns that a block of rows may see.
    fn seen(&mut self, kb: &mut KernelBuilder, place: &Place, [first, height]: [Value; 2], columns: [Value; 2]) -> [Value; 2] {
        let Some(finite) = place.finite else { return columns };
        let end = kb.add(first, height);
        let row_axis = self.plan.row_axis();
        let width = i64::from(self.plan.scores.tile.columns);
        let window = VisibleColumns { at: &place.at, row_axis, rows: [first, end], columns, width };
        let mut elements = self.scores.elements();
        elements.first_site = self.next_site();
        let seen = window.seen(kb, &mut elements, &self.masks);
        self.sites.extend(elements.sites);
        [kb.select(finite, seen[0], columns[0]), kb.select(finite, seen[1], columns[1])]
    }

    pub(super) fn next_site(&self) -> i64 {
        self.first_site + self.sites.len() as i64
    }

    /// Scores of a block of rows, their powers, and what these add to the totals. Column `low` is the first that is packed.
    fn block(&mut self, kb: &mut KernelBuilder, place: &Place, [first, height]: [Value; 2], low: Value, seen: [Value; 2]) {
        let plan = self.plan;
        let stride = kb.dim(&plan.scores.m.left);
        let offset = kb.mul(first, stride);
        let left = kb.add(place.queries, offset);
        let [from, to] = self.panels(kb, seen);
        let [packed, _] = self.panels(kb, [low, low]);
        self.scores.run(kb, &place.at, place.keys, RowsOf { left, first, height }, [from, to, packed], &[low]);
        self.exponentials(kb, place, [first, height], low, seen);
        self.weigh(kb, place, [first, height], low, seen);
    }

    /// Adds the product of a block of powers with the values to the totals.
    pub(super) fn weigh(&self, kb: &mut KernelBuilder, place: &Place, [first, height]: [Value; 2], low: Value, seen: [Value; 2]) {
        let plan = self.plan;
        let (zero, own) = (kb.int(0), kb.sub(first, place.rows[0]));
        let left = kb.sub(seen[0], low);
        let down = kb.dim(&plan.weighted.k.right);
        let offset = kb.mul(seen[0], down);
        let values = kb.add(place.values, offset);
        let depth = kb.sub(seen[1], seen[0]);
        let columns = kb.dim(&plan.weighted.panels());
        let rows = RowsOf { left, first: own, height };
        let more = [depth, self.state.totals, self.state.factors];
        self.weighted.run(kb, &place.at, values, rows, [zero, columns, zero], &more);
    }

    /// Divides the totals of all rows, and writes what the group makes of them.
    fn write(&mut self, kb: &mut KernelBuilder, place: &Place) {
        let plan = self.plan;
        let one = kb.int(1);
        let zero = kb.int(0);
        let mut rows = self.row_elements(kb, place.rows[0], zero);
        let mut weighted = self.weighted.elements();
        weighted.first_site = self.next_site();
        kb.for_([place.rows[0], place.rows[1], one], &[], |kb, row, _| {
            let own = kb.sub(row, place.rows[0]);
            let at = self.position(place, row);
            let known = [self.state.tops, self.state.sums].map(|buffer| kb.load(buffer, own, 1, None));
            let scale = rows.scoped(|rows| self.scale(kb, rows, &at, known));
            let scale = kb.widen(scale, weighted.lanes);
            let width = kb.dim(&plan.weighted.total_columns());
            let start = kb.mul(own, width);
            let columns = kb.dim(&plan.weighted.n.size);
            over_columns(kb, &mut weighted, [zero, columns], zero, &mut |kb, elements, column, nothing| {
                let Index::Affine { base, .. } = column else { panic!("a loop counts in steps of one") };
                let from = kb.add(start, base);
                let total = kb.load(self.state.totals, from, elements.lanes, None);
                let value = kb.map(OpKind::Multiply, &[total, scale]);
                self.weighted.store(kb, elements, &with_column(&at, column), value);
                nothing
            });
            Vec::new()
        });
        assert!(rows.sites.is_empty(), "numbers of a row alone do not fail");
        self.sites.extend(weighted.sites);
    }
}

impl MatmulPlan {
    /// Whether some columns of its left operand can be multiplied after the others.
    pub(super) fn takes_parts(&self) -> bool {
        self.right_form == Right::Rows && self.sums.len() == 1
    }
}

impl AttentionPlan {
    /// The masks of the scores.
    fn masks(&self) -> Vec<Mask> {
        let function = &self.functions[0];
        masks(function, super::returned(function)[0], self.rows.rows - 1)
    }
}
