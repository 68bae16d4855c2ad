//! Schedules running combinations along one dimension, with the ops before and after them, element
//! by element.
//!
//! Every line is combined in order, by any body that the op has; lanes are lines of their own. If
//! dimensions follow the one that is walked, lines are adjacent in memory. If it is the last one,
//! squares of lines and positions are transposed in registers, combined, and transposed back; few
//! lines are walked one by one, in chunks ([`chunks`]) if more than the scan is computed along
//! them.
mod chunks;

use crate::{
    kernel::{Index, cost},
    schedule::{
        Condition, Group, Scheduled, Version, VersionKind, Versioned,
        common::{
            iteration_space::{Merged, is_combined, merge, mergeable_in, positions_of},
            kernel_frame::KernelFrame,
        },
    },
};
use disc_ir::{Block, Dim, Inst, Solver, Value};
use disc_kernel_macros::expr;
use disc_passes::{
    analysis::query::Query,
    fusion::space::{Follows, Map},
};

versions! {
    /// A scan of some lines at once.
    ScanTiles {
        kernels: "`kN_standalone_tiles` of a scan",
        sizes: "at least 4 lines; else `kN_standalone`",
        unit: "",
    }
}

/// The least number of lines for a square: with fewer, most of it would be idle.
const FEW_LINES: i64 = 4;

/// The vectors of adjacent lines that are carried at once.
const COPIES: i64 = 4;

pub(super) fn schedule(group: &Group<'_>, inst: Inst) -> Versioned {
    let scan = Scan::of(group, inst);
    if !scan.inner.is_empty() {
        return scan.side_by_side(group).into();
    }
    let lanes = scan.lanes(&scan.lines());
    if lanes < 4 || scan.has_one_step() {
        return scan.few_lines(group).into();
    }
    let squares = Group { name: format!("{}_tiles", group.name).into(), ..group.clone() };
    let code = scan.squares(&squares, lanes);
    let mut rest = group.clone();
    rest.first_site += code.sites.len() as i64;
    let guard = vec![Condition::Less(Dim::constant(FEW_LINES - 1), scan.lines())];
    let version = Version { kind: VersionKind::ScanTiles, guard, code, workspaces: Vec::new() };
    Versioned { versions: vec![version], otherwise: scan.few_lines(&rest), ..Versioned::default() }
}

/// A scan with the dimensions around its lines.
pub(in crate::schedule) struct Scan<'g> {
    group: &'g Group<'g>,
    pub(in crate::schedule) inst: Inst,
    pub(in crate::schedule) inputs: Vec<Value>,
    pub(in crate::schedule) inits: Vec<Value>,
    pub(in crate::schedule) body: Block,
    pub(in crate::schedule) axis: usize,
    pub(in crate::schedule) reverse: bool,
    pub(in crate::schedule) shape: Vec<Dim>,
    /// The dimensions before the walked one, and those after it.
    pub(in crate::schedule) outer: Vec<Merged>,
    pub(in crate::schedule) inner: Vec<Merged>,
}

impl<'g> Scan<'g> {
    pub(in crate::schedule) fn of(group: &'g Group<'g>, inst: Inst) -> Self {
        let function = group.function;
        let operands = function.operands(inst);
        let (inputs, inits) = operands.split_at(operands.len() / 2);
        let shape = group.tensor(inputs[0]).dims.clone();
        let axis = function.int(inst, "dim") as usize;
        let identity: Map = (0..shape.len()).map(|d| Follows::Axes(vec![d])).collect();
        let roots = group.outputs().into_iter().chain(inputs.iter().copied()).map(|value| (value, identity.clone()));
        let mut pairs =
            mergeable_in(function, &group.solver, &shape, &roots.collect::<Vec<_>>(), &|value, _| is_combined(function, value));
        pairs.iter_mut().enumerate().for_each(|(pair, mergeable)| *mergeable &= pair + 1 != axis && pair != axis);
        let is_one = |solver: &Solver, run: &Merged| solver.equal(&run.size, &Dim::constant(1));
        let runs = merge(&shape, &pairs).into_iter().filter(|run| run.axis != axis && !is_one(&group.solver, run));
        let (outer, inner) = runs.partition(|run| run.axis < axis);
        Self {
            group,
            inst,
            inputs: inputs.to_vec(),
            inits: inits.to_vec(),
            body: function.inst(inst).regions[0],
            axis,
            reverse: matches!(function.attr(inst, "reverse"), Some(disc_ir::Attr::Bool(true))),
            shape,
            outer,
            inner,
        }
    }

    /// The lanes for lines along a dimension: no more than a register of 4-byte lanes has, so that
    /// squares stay small.
    fn lanes(&self, along: &Dim) -> u32 {
        let target = self.group.target;
        cost::lanes(self.group.function, target, &self.group.solver, along).min(target.lanes(32))
    }

    /// The number of lines, if none are adjacent.
    pub(in crate::schedule) fn lines(&self) -> Dim {
        Dim::product(self.outer.iter().map(|run| run.size.clone()))
    }

    /// Returns true if lines have a single element. Its position is written as 0 then, as in any
    /// broadcast along a size of 1.
    pub(in crate::schedule) fn has_one_step(&self) -> bool {
        self.group.solver.equal(&self.shape[self.axis], &Dim::constant(1))
    }

    /// The nanoseconds on one thread.
    fn cost(&self, lanes: i64) -> Dim {
        let count = Dim::product(self.shape.iter().cloned());
        (cost::loops(self.group.function, &count, lanes as u32)) + count.ceil_div(&Dim::constant(lanes))
    }

    fn starts(&self, frame: &mut KernelFrame<'g>, lanes: u32) -> Vec<Value> {
        let start = |&init: &Value| {
            let value = frame.elements.element(&mut frame.kb, init, &[]);
            frame.kb.widen(value, lanes)
        };
        self.inits.iter().map(start).collect()
    }

    fn combine(&self, frame: &mut KernelFrame<'g>, carried: &[Value], values: Vec<Value>, lanes: u32) -> Vec<Value> {
        let arguments: Vec<Value> = carried.iter().copied().chain(values).collect();
        let combined = frame.elements.inline(&mut frame.kb, self.body, &arguments);
        combined.into_iter().map(|value| frame.kb.widen(value, lanes)).collect()
    }

    fn read(&self, frame: &mut KernelFrame<'g>, at: &[Index], lanes: u32) -> Vec<Value> {
        let read = |&input: &Value| {
            let value = frame.elements.element(&mut frame.kb, input, at);
            frame.kb.widen(value, lanes)
        };
        self.inputs.iter().map(read).collect()
    }

    /// Computes and stores the outputs at a position whose running combinations are known.
    fn write(&self, frame: &mut KernelFrame<'g>, at: &[Index], combined: &[Value]) {
        let results = self.group.function.results_of(self.inst);
        for (&result, &value) in results.iter().zip(combined) {
            frame.elements.conclude(&mut frame.kb, result, at, value);
        }
        // All are computed before any is stored: an output may alias an input that another output
        // reads.
        let targets = frame.memory.targets.clone();
        let computed: Vec<Value> = targets.iter().map(|(output, _)| frame.elements.element(&mut frame.kb, *output, at)).collect();
        for ((output, buffer), value) in targets.into_iter().zip(computed) {
            frame.elements.store(&mut frame.kb, buffer, self.group.tensor(output), at, value);
        }
    }

    /// Walks along lines: `step` gets the number in the order of the walk, and the carried values.
    fn walk(
        &self,
        frame: &mut KernelFrame<'g>,
        start: &[Value],
        step: impl FnOnce(&mut KernelFrame<'g>, Value, &[Value]) -> Vec<Value>,
    ) {
        let (low, high, one) = (frame.kb.int(0), frame.kb.dim(&self.shape[self.axis]), frame.kb.int(1));
        let mut open = frame.kb.open_for_carrying([low, high, one], start);
        frame.elements.open_scope();
        let mut position = open.index;
        if self.reverse {
            position = expr!(frame.kb, high - one - position);
        }
        if self.has_one_step() {
            position = low;
        }
        let carried = open.carried.clone();
        open.next = step(frame, position, &carried);
        frame.elements.close_scope();
        frame.kb.close_for(open);
    }

    /// Schedules lines that are too few for a square.
    fn few_lines(&self, group: &Group<'g>) -> Scheduled {
        if self.is_alone() || self.has_one_step() { self.one_by_one(group) } else { self.by_chunks(group) }
    }

    /// Schedules each line by itself.
    fn one_by_one(&self, group: &Group<'g>) -> Scheduled {
        let frame = KernelFrame::new(group, &group.name, 1);
        frame.counted(&self.outer, self.cost(1), |frame, positions| {
            let mut at = vec![Index::uniform(frame.kb.int(0)); self.shape.len()];
            self.outer.iter().zip(positions).for_each(|(run, &position)| at[run.axis] = Index::uniform(position));
            let start = self.starts(frame, 1);
            self.walk(frame, &start, |frame, position, carried| {
                at[self.axis] = Index::uniform(position);
                let values = self.read(frame, &at, 1);
                let combined = self.combine(frame, carried, values, 1);
                self.write(frame, &at, &combined);
                combined
            });
        })
    }

    /// Schedules lines that are adjacent in memory: a unit is a few vectors of them.
    fn side_by_side(&self, group: &Group<'g>) -> Scheduled {
        let mut frame = KernelFrame::new(group, &group.name, 1);
        let last = self.inner.last().expect("there are dimensions behind");
        frame.elements.lanes = self.lanes(&last.size);
        let lanes = i64::from(frame.elements.lanes);
        let mut runs: Vec<Merged> = self.outer.iter().chain(&self.inner).cloned().collect();
        runs.last_mut().expect("as above").size = last.size.ceil_div(&Dim::constant(lanes * COPIES));
        frame.counted(&runs, self.cost(lanes), |frame, positions| {
            let mut at = vec![Index::uniform(frame.kb.int(0)); self.shape.len()];
            runs.iter().zip(positions).for_each(|(run, &position)| at[run.axis] = Index::uniform(position));
            let (tile, size) = (*positions.last().expect("as above"), frame.kb.dim(&last.size));
            let (wide, all) = (frame.kb.int(lanes * COPIES), frame.kb.int(lanes));
            let low = expr!(frame.kb, tile * wide);
            let end = expr!(frame.kb, low + wide);
            if self.group.solver.divisible(&last.size, lanes * COPIES) {
                return self.lines_from(frame, &at, low, COPIES);
            }
            let full = expr!(frame.kb, end <= size);
            let several = frame.kb.open_if(full);
            frame.elements.open_scope();
            self.lines_from(frame, &at, low, COPIES);
            frame.elements.close_scope();
            frame.kb.close_if(several);
            let rest = expr!(frame.kb, !full);
            let rest = frame.kb.open_if(rest);
            let single = frame.kb.open_for([low, size, all]);
            let left = expr!(frame.kb, size - single.index);
            let mask = (lanes > 1).then(|| frame.kb.lane_mask(left, lanes as u32));
            let outside = std::mem::replace(&mut frame.elements.mask, mask);
            frame.elements.open_scope();
            self.lines_from(frame, &at, single.index, 1);
            frame.elements.close_scope();
            frame.elements.mask = outside;
            frame.kb.close_for(single);
            frame.kb.close_if(rest);
        })
    }

    /// Walks along `copies` vectors of lines, the first one at position `from` of the last
    /// dimension.
    fn lines_from(&self, frame: &mut KernelFrame<'g>, at: &[Index], from: Value, copies: i64) {
        let (lanes, last) = (frame.elements.lanes, self.inner.last().expect("there are dimensions behind").axis);
        let column = |frame: &mut KernelFrame<'g>, n: i64| {
            let step = frame.kb.int(n * i64::from(lanes));
            let mut at = at.to_vec();
            at[last] = Index::Affine { base: expr!(frame.kb, from + step), stride: i64::from(lanes > 1) };
            at
        };
        let columns: Vec<Vec<Index>> = (0..copies).map(|n| column(frame, n)).collect();
        let start = self.starts(frame, lanes);
        let all: Vec<Value> = columns.iter().flat_map(|_| start.iter().copied()).collect();
        self.walk(frame, &all, |frame, position, carried| {
            let mut next = Vec::with_capacity(carried.len());
            let mut found = Vec::with_capacity(columns.len());
            for (column, carried) in columns.iter().zip(carried.chunks(start.len())) {
                let mut at = column.clone();
                at[self.axis] = Index::uniform(position);
                let values = self.read(frame, &at, lanes);
                let combined = self.combine(frame, carried, values, lanes);
                next.extend(combined.iter().copied());
                found.push((at, combined));
            }
            found.iter().for_each(|(at, combined)| self.write(frame, at, combined));
            next
        });
    }

    /// Schedules lines along the last dimension: a unit is as many of them as a vector has lanes. A
    /// unit with fewer repeats its last one.
    fn squares(&self, group: &Group<'g>, lanes: u32) -> Scheduled {
        let mut frame = KernelFrame::new(group, &group.name, 1);
        frame.elements.lanes = lanes;
        let lines = self.lines();
        let axis = self.outer.last().map_or(0, |run| run.axis);
        let units = [Merged { size: lines.ceil_div(&Dim::constant(i64::from(lanes))), axis }];
        frame.counted(&units, self.cost(i64::from(lanes)), |frame, positions| {
            let (count, last) = (frame.kb.int(i64::from(lanes)), frame.kb.dim(&(&lines - 1)));
            let first = expr!(frame.kb, positions[0] * count);
            let mut places = Vec::with_capacity(lanes as usize);
            for line in 0..lanes {
                let number = expr!(frame.kb, min(first + int(i64::from(line)), last));
                let mut at = vec![Index::uniform(frame.kb.int(0)); self.shape.len()];
                let found = positions_of(&mut frame.kb, number, &self.outer);
                self.outer.iter().zip(found).for_each(|(run, position)| at[run.axis] = Index::uniform(position));
                places.push(at);
            }
            let start = self.starts(frame, lanes);
            match self.reverse {
                false => self.forwards(frame, &places, &start),
                true => self.backwards(frame, &places, &start),
            }
        })
    }

    /// Combines whole squares first, then the remainder, with a mask.
    fn forwards(&self, frame: &mut KernelFrame<'g>, places: &[Vec<Index>], start: &[Value]) {
        let (zero, step, size, full) = self.extent(frame);
        let mut squares = frame.kb.open_for_carrying([zero, full, step], start);
        let carried = squares.carried.clone();
        squares.next = self.square(frame, places, squares.index, None, &carried);
        let carried = frame.kb.close_for(squares);
        self.rest(frame, places, [full, size], &carried);
    }

    /// Combines the remainder after the whole squares first, then these, the last one first.
    fn backwards(&self, frame: &mut KernelFrame<'g>, places: &[Vec<Index>], start: &[Value]) {
        let (zero, step, size, full) = self.extent(frame);
        let carried = self.rest(frame, places, [full, size], start);
        let mut squares = frame.kb.open_for_carrying([zero, full, step], &carried);
        let from = expr!(frame.kb, full - step - squares.index);
        let carried = squares.carried.clone();
        squares.next = self.square(frame, places, from, None, &carried);
        frame.kb.close_for(squares);
    }

    /// Zero, the length of a square, that of a line, and the part of it that whole squares cover.
    fn extent(&self, frame: &mut KernelFrame<'g>) -> (Value, Value, Value, Value) {
        let kb = &mut frame.kb;
        let (zero, step) = (kb.int(0), kb.int(i64::from(frame.elements.lanes)));
        let size = kb.dim(&self.shape[self.axis]);
        let whole = expr!(kb, size / step);
        (zero, step, size, expr!(kb, whole * step))
    }

    /// Combines the positions from `full` on, fewer than a square has: none or one of these.
    fn rest(
        &self,
        frame: &mut KernelFrame<'g>,
        places: &[Vec<Index>],
        [full, size]: [Value; 2],
        carried: &[Value],
    ) -> Vec<Value> {
        if self.group.solver.divisible(&self.shape[self.axis], i64::from(frame.elements.lanes)) {
            return carried.to_vec();
        }
        let step = frame.kb.int(i64::from(frame.elements.lanes));
        let mut open = frame.kb.open_for_carrying([full, size, step], carried);
        let left = expr!(frame.kb, size - full);
        let inner = open.carried.clone();
        open.next = self.square(frame, places, full, Some(left), &inner);
        frame.kb.close_for(open)
    }

    /// Combines a square of lines and positions; `left` is the number of positions, if not all.
    fn square(
        &self,
        frame: &mut KernelFrame<'g>,
        places: &[Vec<Index>],
        from: Value,
        left: Option<Value>,
        carried: &[Value],
    ) -> Vec<Value> {
        let lanes = frame.elements.lanes;
        let mask = left.map(|left| frame.kb.lane_mask(left, lanes));
        let outside = std::mem::replace(&mut frame.elements.mask, mask);
        frame.elements.open_scope();
        let along = |place: &Vec<Index>| {
            let mut at = place.clone();
            at[self.axis] = Index::Affine { base: from, stride: 1 };
            at
        };
        let places: Vec<Vec<Index>> = places.iter().map(along).collect();
        let rows: Vec<Vec<Value>> = places.iter().map(|at| self.read(frame, at, lanes)).collect();
        let columns = turn(frame, &rows);
        let (carried, found) = self.combine_columns(frame, columns, left, carried);
        let rows = turn(frame, &found);
        places.iter().zip(rows).for_each(|(at, combined)| self.write(frame, at, &combined));
        frame.elements.close_scope();
        frame.elements.mask = outside;
        carried
    }

    /// The running combinations of the columns of a square, and the values to carry on.
    fn combine_columns(
        &self,
        frame: &mut KernelFrame<'g>,
        columns: Vec<Vec<Value>>,
        left: Option<Value>,
        carried: &[Value],
    ) -> (Vec<Value>, Vec<Vec<Value>>) {
        let lanes = frame.elements.lanes;
        let mut order: Vec<usize> = (0..columns.len()).collect();
        if self.reverse {
            order.reverse();
        }
        let mut carried = carried.to_vec();
        let mut found = vec![Vec::new(); columns.len()];
        for place in order {
            let mut combined = self.combine(frame, &carried, columns[place].clone(), lanes);
            // Forwards, positions beyond the end come last and have no effect.
            if let (Some(left), true) = (left, self.reverse) {
                let inside = expr!(frame.kb, int(place as i64) < left);
                let inside = frame.kb.widen(inside, lanes);
                combined = combined.iter().zip(&carried).map(|(&new, &old)| frame.kb.select(inside, new, old)).collect();
            }
            found[place] = combined.clone();
            carried = combined;
        }
        (carried, found)
    }
}

/// Transposes the rows of each value that a row has into columns.
fn turn(frame: &mut KernelFrame<'_>, rows: &[Vec<Value>]) -> Vec<Vec<Value>> {
    let mut turned = vec![Vec::new(); rows.len()];
    for value in 0..rows[0].len() {
        let all: Vec<Value> = rows.iter().map(|row| row[value]).collect();
        for (column, found) in turned.iter_mut().zip(frame.kb.transpose_lanes(&all)) {
            column.push(found);
        }
    }
    turned
}
