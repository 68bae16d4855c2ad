//! Computes attention whose rows are a softmax: some columns after the others, with the maximum and
//! the sum of each row carried along.
//!
//! A work unit is a chunk of rows at one position along the batch dimensions. For `KEYS` columns at
//! a time it packs the right operand of the scores, if that has to be packed. Then, for each block
//! of as many rows as a tile has, it computes the scores that a mask does not hide and their
//! exponentials, and adds their product with the values to totals, after rescaling these by the
//! growth of the maximum. So the working set of a unit stays in the second-level cache, however
//! long the rows are.
//!
//! Invariants:
//! - A hidden score is minus infinity, so its weight is 0, and leaving its column out changes
//!   nothing, unless a value there is not finite: then nothing is left out.
//! - A row that has seen no finite score has the maximum minus infinity, the sum 0 and totals 0.
use super::{
    masking::VisibleColumns,
    online_softmax::{over_columns, with_column},
    plan::{AttentionPlan, KEYS},
    softmax::Softmax,
    unit::{Place, Unit},
};
use crate::{
    kernel::{Index, KernelBuilder, Site},
    schedule::{
        Argument, Group, Launch, Scheduled,
        common::kernel_frame::GroupMemory,
        cpu::matmul::{BlockProduct, RowsOf, chunk_rows, count_sites, for_row_blocks, merge_sites},
    },
};
use disc_ir::{Function, FunctionKind, Value};
use disc_kernel_macros::expr;

/// Schedules a group for any number of rows.
pub(super) fn schedule(group: &Group<'_>, plan: &AttentionPlan, softmax: &Softmax) -> Scheduled {
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
    let mut kb = group.builder(&group.name, FunctionKind::Kernel);
    let memory = GroupMemory::of(&mut kb, group);
    let [begin, end] = kb.units();
    let mut unit = Unit::new(&mut kb, group, plan, softmax, groups, &memory, first_site);
    unit.masks = plan.masks();
    if plan.weighted.keeps_tiles() {
        unit.clear_rows(&mut kb);
    }
    let one = kb.int(1);
    kb.for_each([begin, end, one], |kb, number| {
        unit.emit(kb, number);
    });
    (kb.finish(), memory.arguments, unit.sites)
}

impl Unit<'_> {
    fn emit(&mut self, kb: &mut KernelBuilder, number: Value) {
        let scores = &self.plan.scores;
        let zero = kb.int(0);
        let chunks = kb.dim(&scores.chunks());
        let (chunk, batch) = (expr!(kb, number % chunks), expr!(kb, number / chunks));
        let rows = chunk_rows(kb, scores, chunk);
        let mut place = self.place_at(kb, batch, rows);
        place.finite = (!self.masks.is_empty()).then(|| self.is_finite(kb, place.values));
        self.clear(kb, &place);
        let (columns, step) = (kb.dim(&scores.shape.n.size), kb.int(KEYS));
        kb.for_each([zero, columns, step], |kb, low| {
            let high = expr!(kb, min(low + step, columns));
            self.columns(kb, &place, [low, high]);
        });
        self.write(kb, &place);
    }

    /// Tests if all values of a batch position are finite: `value * 0` is 0.
    fn is_finite(&self, kb: &mut KernelBuilder, base: Value) -> Value {
        let plan = &self.plan.weighted;
        let (lanes, buffer) = (plan.tile.lanes, self.weighted.right());
        let (zero, one, step) = (kb.int(0), kb.int(1), kb.int(i64::from(lanes)));
        let (rows, columns, stride) = (kb.dim(&plan.shape.k.size), kb.dim(&plan.shape.n.size), kb.dim(&plan.shape.k.right));
        let nothing = kb.zero(plan.compute, lanes);
        let whole = expr!(kb, columns / step * step);
        let left = expr!(kb, columns - whole);
        let mask = kb.lane_mask(left, lanes);
        let sums = kb.for_([zero, rows, one], &[nothing], |kb, row, carried| {
            let start = expr!(kb, base + row * stride);
            let add = |kb: &mut KernelBuilder, column: Value, mask: Option<Value>, sum: Value| {
                let from = expr!(kb, start + column);
                let loaded = kb.load(buffer, from, lanes, mask);
                expr!(kb, fma(convert(loaded, plan.compute), nothing, sum))
            };
            let sums = kb.for_([zero, whole, step], carried, |kb, column, carried| vec![add(kb, column, None, carried[0])]);
            kb.for_([whole, columns, step], &sums, |kb, column, carried| vec![add(kb, column, Some(mask), carried[0])])
        });
        let sum = kb.reduce_lanes(sums[0], "add");
        expr!(kb, sum == zero(plan.compute, 1))
    }

    /// Computes some columns for all rows of the chunk.
    fn columns(&mut self, kb: &mut KernelBuilder, place: &Place, [low, high]: [Value; 2]) {
        let plan = self.plan;
        let panels = self.panels(kb, [low, high]);
        self.scores.pack(kb, &place.at, place.keys, panels);
        if plan.weighted.keeps_tiles() {
            self.pack_values(kb, place, [low, high]);
        }
        for_row_blocks(kb, &plan.scores, place.rows, |kb, _, [first, height]| {
            let seen = self.seen(kb, place, [first, height], [low, high]);
            let any = expr!(kb, seen[0] < seen[1]);
            kb.when(any, |kb| {
                self.block(kb, place, [first, height], low, seen);
            });
        });
    }

    /// Gives the panels of columns, the first of which starts a panel.
    fn panels(&self, kb: &mut KernelBuilder, [low, high]: [Value; 2]) -> [Value; 2] {
        let width = i64::from(self.plan.scores.tile.columns);
        let (width, up) = (kb.int(width), kb.int(width - 1));
        let end = expr!(kb, high + up);
        [expr!(kb, low / width), expr!(kb, end / width)]
    }

    /// Gives the columns that a block of rows may see.
    fn seen(&mut self, kb: &mut KernelBuilder, place: &Place, [first, height]: [Value; 2], columns: [Value; 2]) -> [Value; 2] {
        let Some(finite) = place.finite else { return columns };
        let end = expr!(kb, first + height);
        let row_axis = self.plan.row_axis();
        let width = i64::from(self.plan.scores.tile.columns);
        let window = VisibleColumns { at: &place.at, row_axis, rows: [first, end], columns, width };
        let mut elements = self.scores.elements();
        elements.first_site = self.next_site();
        let seen = window.seen(kb, &mut elements, &self.masks);
        self.sites.extend(elements.sites);
        [kb.select(finite, seen[0], columns[0]), kb.select(finite, seen[1], columns[1])]
    }

    /// Computes the scores of a block of rows and their exponentials, and adds to the totals.
    /// Column `low` is the first that is packed.
    fn block(&mut self, kb: &mut KernelBuilder, place: &Place, [first, height]: [Value; 2], low: Value, seen: [Value; 2]) {
        let plan = self.plan;
        let left = expr!(kb, place.queries + first * dim(&plan.scores.shape.m.left));
        let [from, to] = self.panels(kb, seen);
        let [packed, _] = self.panels(kb, [low, low]);
        self.scores.run(kb, &place.at, place.keys, RowsOf { left, first, height }, [from, to, packed], &[low]);
        self.exponentials(kb, place, [first, height], low, seen);
        self.weigh(kb, place, [first, height], low, seen);
    }

    /// Divides the totals of all rows, and writes the outputs of the group.
    fn write(&mut self, kb: &mut KernelBuilder, place: &Place) {
        let plan = self.plan;
        let one = kb.int(1);
        let zero = kb.int(0);
        let mut rows = self.row_elements(kb, place.rows[0], zero);
        let mut weighted = self.weighted.elements();
        weighted.first_site = self.next_site();
        kb.for_each([place.rows[0], place.rows[1], one], |kb, row| {
            let own = expr!(kb, row - place.rows[0]);
            let at = self.position(place, row);
            let known = [self.state.tops, self.state.sums].map(|buffer| kb.load(buffer, own, 1, None));
            let scale = rows.scoped(|rows| self.scale(kb, rows, &at, known));
            let scale = kb.widen(scale, weighted.lanes);
            let start = expr!(kb, own * dim(&plan.weighted.total_columns()));
            let columns = kb.dim(&plan.weighted.shape.n.size);
            over_columns(kb, &mut weighted, [zero, columns], zero, &mut |kb, elements, column, nothing| {
                let Index::Affine { base, .. } = column else { panic!("a loop counts in steps of one") };
                let from = expr!(kb, start + base);
                let total = kb.load(self.state.totals, from, elements.lanes, None);
                let value = expr!(kb, total * scale);
                self.weighted.store(kb, elements, &with_column(&at, column), value);
                nothing
            });
        });
        assert!(rows.sites.is_empty(), "numbers of a row alone do not fail");
        self.sites.extend(weighted.sites);
    }
}
