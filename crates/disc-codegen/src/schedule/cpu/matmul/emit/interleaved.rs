//! Finishes products whose results are stored interleaved: computes the rest of a group from the
//! sums of a block, and stores it.
//!
//! Blocks leave their sums in task memory, as those with a long epilogue do; a row of them is some
//! neighbouring elements of one phase, of one row of the result or of a few, and each of these is
//! stored a step apart.
use super::parameters::Parameters;
use crate::{
    element::Elements,
    kernel::{Index, KernelBuilder},
    schedule::{
        Group,
        cpu::matmul::plan::{MatmulPlan, interleaved::InterleavedProduct, source::Source},
    },
};
use disc_ir::{Dim, Value};
use disc_kernel_macros::expr;

/// Writes the rest of the group for `height` rows of sums, from the parameters' row and column on.
pub(in crate::schedule) fn finish<'g>(
    kb: &mut KernelBuilder,
    group: &Group<'g>,
    plan: &MatmulPlan,
    interleaved: &InterleavedProduct,
    parameters: &Parameters,
    elements: &mut Elements<'g>,
    (source, height): (Source, Value),
) {
    let pieces = plan.pieces(source);
    let width: i64 = pieces.iter().map(|piece| i64::from(piece.lanes)).sum();
    let (zero, width, columns) = (kb.int(0), kb.int(width), kb.dim(&plan.shape.n.size));
    let stop = expr!(kb, min(parameters.column + width, columns));
    let last = interleaved.sizes.last().expect("a dimension is interleaved");
    let length = kb.dim(last);
    // Columns may run along more than the last dimension.
    let start = match group.solver.equal(&plan.shape.n.size, last) {
        false => [expr!(kb, parameters.column / length), expr!(kb, parameters.column % length)],
        true => [zero, parameters.column],
    };
    let ranges = ranges(kb, interleaved, i64::from(plan.tile.rows), [parameters.row, height]);
    let mut rows = Rows { group, plan, interleaved, parameters, elements, ranges };
    let inits = [parameters.column, start[0], start[1]];
    let mut lines = kb.open_while(&inits, |kb, carried| expr!(kb, carried[0] < stop));
    let [column, line, place] = [0, 1, 2].map(|i| lines.carried[i]);
    let (left, room) = (expr!(kb, stop - column), expr!(kb, length - place));
    let count = kb.min(left, room);
    let positions = position_of_line(kb, interleaved, plan, parameters, line);
    let (one, step) = (kb.int(1), kb.int(i64::from(rows.elements.lanes)));
    let full = match rows.interleaved.ends.last() {
        Some(Some(_)) => {
            // Some phases have no last element.
            expr!(kb, min(left, room - one))
        }
        _ => count,
    };
    let whole = expr!(kb, full / step * step);
    let from = expr!(kb, column - parameters.column);
    let vectors = kb.open_for([zero, whole, step]);
    let [here, there] = [from, place].map(|start| expr!(kb, start + vectors.index));
    rows.write(kb, &positions, [here, there], None);
    kb.close_for(vectors);
    let rest = expr!(kb, count - whole);
    let any = expr!(kb, rest > zero);
    kb.when(any, |kb| {
        let [here, there] = [from, place].map(|start| expr!(kb, start + whole));
        rows.write(kb, &positions, [here, there], Some(rest));
    });
    lines.next = vec![expr!(kb, column + count), expr!(kb, line + one), zero];
    kb.close_while(lines);
}

/// Rows of sums that are finished.
struct Rows<'r, 'g> {
    group: &'r Group<'g>,
    plan: &'r MatmulPlan,
    interleaved: &'r InterleavedProduct,
    parameters: &'r Parameters,
    elements: &'r mut Elements<'g>,
    /// From which row to below which one, and how many of them are written together.
    ranges: Vec<([Value; 2], i64)>,
}

impl Rows<'_, '_> {
    /// Writes a vector of each row: from element `here` of the sums on, which is element `there` of
    /// the line at these positions. A vector that is not whole has `rest` lanes, as far as all
    /// phases have these elements.
    fn write(&mut self, kb: &mut KernelBuilder, line: &[Value], [here, there]: [Value; 2], rest: Option<Value>) {
        let lanes = self.elements.lanes;
        for (range, together) in self.ranges.clone() {
            let cut = self.interleaved.ends.last().and_then(Option::as_ref);
            let same = rest.filter(|_| cut.is_none()).map(|rest| Left::of(kb, vec![rest; together as usize], lanes));
            let step = kb.int(together);
            kb.for_each([range[0], range[1], step], |kb, rows| {
                let row = expr!(kb, self.parameters.row + rows);
                let place = place(kb, self.interleaved, line, row, there);
                let exists = exists(kb, self.interleaved, &place).map(|exists| kb.open_if(exists));
                let left = same.or_else(|| {
                    let counts = counts(kb, self.interleaved, cut?, [row, there, rest?], together);
                    Some(Left::of(kb, counts, lanes))
                });
                let sums = expr!(kb, rows * int(self.plan.sums_stride()) + here);
                self.elements.open_scope();
                self.row(kb, &place, sums, left.as_ref(), together);
                self.elements.close_scope();
                if let Some(exists) = exists {
                    kb.close_if(exists);
                }
            });
        }
    }

    /// Writes a vector of `together` rows from this place on, whose sums start there.
    fn row(&mut self, kb: &mut KernelBuilder, place: &[Index], sums: Value, left: Option<&Left>, together: i64) {
        let Self { group, plan, interleaved, parameters, elements, .. } = self;
        let (operands, lanes) = (&parameters.operands, elements.lanes);
        let (mut places, mut made) = (Vec::new(), Vec::new());
        for phase in 0..together {
            let mask = left.map(|left| left.masks[phase as usize]);
            let from = expr!(kb, sums + int(phase * plan.sums_stride()));
            let sum = kb.load(operands.sums(), from, lanes, mask);
            let mut at = place.to_vec();
            let phase = kb.int(phase);
            at.iter_mut().rev().take(1).for_each(|last| *last = last.add_scalar(kb, phase));
            let computed = elements.with_mask(mask, |elements| {
                elements.conclude(kb, interleaved.value, &at, sum);
                plan.outputs.iter().map(|&output| elements.element(kb, output, &at)).collect::<Vec<Value>>()
            });
            made.push(computed);
            places.push(at);
        }
        for (number, (&output, &buffer)) in plan.outputs.iter().zip(&operands.outputs).enumerate() {
            let tensor = group.tensor(output);
            let vectors: Vec<Value> = made.iter().map(|computed| computed[number]).collect();
            match (&vectors[..], left) {
                (&[alone], None) => elements.store_apart(kb, buffer, tensor, &places[0], (alone, None)),
                (&[alone], Some(left)) => elements.with_mask(Some(left.masks[0]), |elements| {
                    elements.store_apart(kb, buffer, tensor, &places[0], (alone, Some(left.counts[0])));
                }),
                _ => elements.store_interleaved(kb, buffer, tensor, (&places, &vectors), left.map(|left| &left.masks[..])),
            }
        }
    }
}

/// The number of lanes of each of some rows, and their masks.
struct Left {
    counts: Vec<Value>,
    masks: Vec<Value>,
}

impl Left {
    fn of(kb: &mut KernelBuilder, counts: Vec<Value>, lanes: u32) -> Self {
        let masks = counts.iter().map(|&count| kb.lane_mask(count, lanes)).collect();
        Self { counts, masks }
    }
}

/// Splits the rows from the first to below `height` into ranges of those that are written together;
/// `row` is the first one's number.
fn ranges(kb: &mut KernelBuilder, product: &InterleavedProduct, most: i64, [row, height]: [Value; 2]) -> Vec<([Value; 2], i64)> {
    let (zero, together) = (kb.int(0), product.together(most));
    if together == 1 {
        return vec![([zero, height], 1)];
    }
    let (up, count) = (kb.int(together - 1), kb.int(together));
    // Rows before the first multiple, and after the last one.
    let before = expr!(kb, (row + up) / count * count - row);
    let before = kb.min(before, height);
    let behind = expr!(kb, before + (height - before) / count * count);
    vec![([zero, before], 1), ([before, behind], together), ([behind, height], 1)]
}

/// Gives the batch, the group of features, and the position of line number `line` of the columns
/// along the dimensions before the last one.
fn position_of_line(
    kb: &mut KernelBuilder,
    product: &InterleavedProduct,
    plan: &MatmulPlan,
    parameters: &Parameters,
    line: Value,
) -> Vec<Value> {
    let outer = |axis: usize| plan.shape.outer.iter().position(|outer| outer.run.axis == axis).map(|i| parameters.outer[i]);
    let [batch, group] = [Some(0), (product.lead > 1).then_some(1)].map(|axis| axis.and_then(outer).unwrap_or_else(|| kb.int(0)));
    let (mut rest, mut found) = (line, Vec::new());
    for i in (0..product.steps.len() - 1).rev() {
        found.push(outer(product.lead + 1 + i).unwrap_or_else(|| {
            let size = kb.dim(&product.sizes[i]);
            let position = if i == 0 { rest } else { expr!(kb, rest % size) };
            rest = expr!(kb, rest / size);
            position
        }));
    }
    found.extend([group, batch]);
    found.reverse();
    found
}

/// Gives the place of element `there` of a line in the interleaved value, for a row of the product:
/// its feature and its phases.
pub(in crate::schedule) fn place(
    kb: &mut KernelBuilder,
    product: &InterleavedProduct,
    line: &[Value],
    row: Value,
    there: Value,
) -> Vec<Index> {
    let (mut rest, mut found) = (row, Vec::new());
    let elements = [&line[2..], &[there]].concat();
    for (i, &element) in elements.iter().enumerate().rev() {
        let [count, first, step] = [product.phases[i], product.first[i], product.steps[i]].map(|number| kb.int(number));
        let phase = expr!(kb, rest % count);
        rest = expr!(kb, rest / count);
        let base = expr!(kb, element * step + first + phase);
        let stride = if i + 1 == product.steps.len() { product.steps[i] } else { 0 };
        found.push(Index::Affine { base, stride });
    }
    let [batch, group] = [line[0], line[1]];
    if product.lead > 1 {
        rest = expr!(kb, group * int(product.features) + rest);
    }
    found.extend([rest, batch].map(Index::uniform));
    found.reverse();
    found
}

/// Tests if the value has elements at a place, by the dimensions before the last one; none if it
/// always has.
pub(in crate::schedule) fn exists(kb: &mut KernelBuilder, product: &InterleavedProduct, place: &[Index]) -> Option<Value> {
    let outer = product.ends[..product.ends.len() - 1].iter().zip(&place[2..]);
    outer.fold(None, |exists, (end, at)| {
        let Some(end) = end else { return exists };
        let here = expr!(kb, at.as_uniform().expect("a line is at one place") < dim(end));
        Some(exists.map_or(here, |exists| expr!(kb, exists & here)))
    })
}

/// Counts the elements that each of some rows has of `rest` elements of a line, from element
/// `there` on, if the value ends at `end`.
pub(in crate::schedule) fn counts(
    kb: &mut KernelBuilder,
    product: &InterleavedProduct,
    end: &Dim,
    [row, there, rest]: [Value; 3],
    rows: i64,
) -> Vec<Value> {
    let last = product.steps.len() - 1;
    let [count, up, step] =
        [product.phases[last], product.steps[last] - 1 - product.first[last], product.steps[last]].map(|n| kb.int(n));
    let phase = expr!(kb, row % count);
    let up = expr!(kb, dim(end) + up - phase);
    let count = |number: i64| expr!(kb, min((up - int(number)) / step - there, rest));
    (0..rows).map(count).collect()
}
