//! Products whose results are stored interleaved: how the rest of a group is computed from the sums of a block, and where it goes.
//!
//! [`disc_passes::fusion::fuse_interleave`] says which groups do so. Blocks leave their sums in task memory, as those with a long epilogue do; a row of them is
//! some neighbouring elements of one phase, of one row of the result or of a few, and each of these is stored a step apart.
use super::{epilogue_routine::row_stride, micro::Source, parameters::Parameters};
use crate::{
    element::Elements,
    kernel::{Index, KernelBuilder, compute_dtype},
    schedule::{
        Group,
        cpu::matmul::plan::{MatmulPlan, Right},
    },
};
use disc_ir::{Dim, OpKind, Value};
use disc_passes::fusion::fuse_interleave::{Interleaved, InterleavedPart};

/// Where the elements of one product are in the interleaved value.
#[derive(Clone, Debug)]
pub(in crate::schedule) struct InterleavedProduct {
    /// The interleaved value.
    pub(in crate::schedule) value: Value,
    steps: Vec<i64>,
    first: Vec<i64>,
    phases: Vec<i64>,
    /// Elements of a phase along each dimension that is interleaved.
    sizes: Vec<Dim>,
    /// For each of these dimensions that ends before the last elements of some phases: its size.
    pub(in crate::schedule) ends: Vec<Option<Dim>>,
    /// Batch dimensions of the product: with groups of features, these are the second one.
    lead: usize,
    /// Features of such a group.
    features: i64,
}

impl MatmulPlan {
    /// The plans of a group that interleaves its products, if it is one.
    pub(in crate::schedule) fn interleaved(group: &Group<'_>) -> Option<Result<Vec<Self>, String>> {
        let interleaved = Interleaved::of(group.function, &group.solver, group.function.body)?;
        Some(interleaved.parts.iter().map(|part| Self::of_part(group, &interleaved, part)).collect())
    }

    fn of_part(group: &Group<'_>, interleaved: &Interleaved, part: &InterleavedPart) -> Result<Self, String> {
        let (function, product) = (group.function, group.function.result(part.product));
        let mut plan = Self::of_product(function, &group.solver, group.target, part.product, &[product], true)?;
        let lead = plan.left.batch.len();
        let columns = matches!(plan.right_form, Right::Rows | Right::Computed) && plan.m_axis == Some(lead);
        if !columns || plan.rank != lead + 1 + interleaved.steps.len() {
            return Err("products that are interleaved have rows of features, and columns that are packed".into());
        }
        plan.outputs = group.outputs();
        plan.inputs = group.inputs().to_vec();
        plan.finishes_apart = true;
        let place = InterleavedProduct::of(group, interleaved, part, lead);
        plan.interleaved = Some(place.ok_or("the number of features is known")?);
        Ok(plan)
    }
}

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
    let (zero, width, columns) = (kb.int(0), kb.int(width), kb.dim(&plan.n.size));
    let stop = kb.add(parameters.column, width);
    let stop = kb.map(OpKind::Minimum, &[stop, columns]);
    let last = interleaved.sizes.last().expect("a dimension is interleaved");
    let length = kb.dim(last);
    // Whether columns are counted along more than the last dimension.
    let start = match group.solver.equal(&plan.n.size, last) {
        false => [kb.div(parameters.column, length), kb.rem(parameters.column, length)],
        true => [zero, parameters.column],
    };
    let ranges = interleaved.ranges(kb, i64::from(plan.tile.rows), [parameters.row, height]);
    let mut rows = Rows { group, plan, interleaved, parameters, elements, ranges };
    let inits = [parameters.column, start[0], start[1]];
    let mut lines = kb.open_while(&inits, |kb, carried| kb.compare("LT", carried[0], stop));
    let [column, line, place] = [0, 1, 2].map(|i| lines.carried[i]);
    let (left, room) = (kb.sub(stop, column), kb.sub(length, place));
    let count = kb.map(OpKind::Minimum, &[left, room]);
    let positions = interleaved.line(kb, plan, parameters, line);
    let (one, step) = (kb.int(1), kb.int(i64::from(rows.elements.lanes)));
    let full = match rows.interleaved.ends.last() {
        Some(Some(_)) => {
            // Some phases have no last element.
            let before = kb.sub(room, one);
            kb.map(OpKind::Minimum, &[left, before])
        }
        _ => count,
    };
    let whole = kb.div(full, step);
    let whole = kb.mul(whole, step);
    let from = kb.sub(column, parameters.column);
    let vectors = kb.open_for([zero, whole, step]);
    let [here, there] = [from, place].map(|start| kb.add(start, vectors.index));
    rows.write(kb, &positions, [here, there], None);
    kb.close_for(vectors);
    let rest = kb.sub(count, whole);
    let any = kb.compare("GT", rest, zero);
    let open = kb.open_if(any);
    let [here, there] = [from, place].map(|start| kb.add(start, whole));
    rows.write(kb, &positions, [here, there], Some(rest));
    kb.close_if(open);
    lines.next = vec![kb.add(column, count), kb.add(line, one), zero];
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
    /// Writes a vector of each row: from element `here` of the sums on, which is element `there` of the line at these positions. Where the vector is
    /// not whole, `rest` says how many lanes it has, where all phases have these elements.
    fn write(&mut self, kb: &mut KernelBuilder, line: &[Value], [here, there]: [Value; 2], rest: Option<Value>) {
        let lanes = self.elements.lanes;
        for (range, together) in self.ranges.clone() {
            let cut = self.interleaved.ends.last().and_then(Option::as_ref);
            let same = rest.filter(|_| cut.is_none()).map(|rest| Left::of(kb, vec![rest; together as usize], lanes));
            let step = kb.int(together);
            let rows = kb.open_for([range[0], range[1], step]);
            let row = kb.add(self.parameters.row, rows.index);
            let place = self.interleaved.place(kb, line, row, there);
            let exists = self.interleaved.exists(kb, &place).map(|exists| kb.open_if(exists));
            let left = same.or_else(|| {
                let counts = self.interleaved.counts(kb, cut?, [row, there, rest?], together);
                Some(Left::of(kb, counts, lanes))
            });
            let stride = kb.int(row_stride(self.plan));
            let sums = kb.mul(rows.index, stride);
            let sums = kb.add(sums, here);
            self.elements.open_scope();
            self.row(kb, &place, sums, left.as_ref(), together);
            self.elements.close_scope();
            if let Some(exists) = exists {
                kb.close_if(exists);
            }
            kb.close_for(rows);
        }
    }

    /// Writes a vector of `together` rows from this place on, whose sums start there.
    fn row(&mut self, kb: &mut KernelBuilder, place: &[Index], sums: Value, left: Option<&Left>, together: i64) {
        let Self { group, plan, interleaved, parameters, elements, .. } = self;
        let (operands, lanes) = (&parameters.operands, elements.lanes);
        let dtype = compute_dtype(group.tensor(group.function.result(plan.dot)).dtype);
        let (mut places, mut made) = (Vec::new(), Vec::new());
        for phase in 0..together {
            let mask = left.map(|left| left.masks[phase as usize]);
            let shift = kb.int(phase * row_stride(plan));
            let from = kb.add(sums, shift);
            let sum = kb.load(operands.sums(), from, lanes, mask);
            let sum = kb.convert(sum, dtype);
            let mut at = place.to_vec();
            let phase = kb.int(phase);
            at.iter_mut().rev().take(1).for_each(|last| *last = last.add_scalar(kb, phase));
            let computed = elements.with_mask(mask, |elements| {
                elements.seed(interleaved.value, &at, sum);
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

/// How many lanes of each of some rows there are, and which.
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

impl InterleavedProduct {
    /// Where the elements of a part are, whose product has so many batch dimensions.
    pub(in crate::schedule) fn of(
        group: &Group<'_>,
        interleaved: &Interleaved,
        part: &InterleavedPart,
        lead: usize,
    ) -> Option<Self> {
        let dims = &group.tensor(group.function.result(part.product)).dims;
        let (rows, sizes) = (dims[lead].as_const()?, dims[lead + 1..].to_vec());
        let shown = &group.tensor(interleaved.value).dims[2..];
        let end =
            |((size, step), shown): ((&Dim, &i64), &Dim)| (!group.solver.equal(&(size * *step), shown)).then(|| shown.clone());
        let ends = sizes.iter().zip(&interleaved.steps).zip(shown).map(end).collect();
        Some(Self {
            value: interleaved.value,
            steps: interleaved.steps.clone(),
            first: part.first.clone(),
            phases: part.phases.clone(),
            sizes,
            ends,
            lead,
            features: rows / part.phases.iter().product::<i64>().max(1),
        })
    }

    /// How far elements of a phase are from one another.
    fn apart(&self) -> i64 {
        *self.steps.last().expect("a dimension is interleaved")
    }

    /// Neighbouring rows that are written together, where the first of them is a multiple: all phases of the last dimension, if a block of `most` rows
    /// can have them.
    fn together(&self, most: i64) -> i64 {
        let all = self.phases.last() == self.steps.last() && self.apart().count_ones() == 1 && self.apart() <= most;
        if all { self.apart() } else { 1 }
    }

    /// The rows from the first to below `height`, in ranges of those that are written together; `row` is the first one's number.
    fn ranges(&self, kb: &mut KernelBuilder, most: i64, [row, height]: [Value; 2]) -> Vec<([Value; 2], i64)> {
        let (zero, together) = (kb.int(0), self.together(most));
        if together == 1 {
            return vec![([zero, height], 1)];
        }
        let (up, count) = (kb.int(together - 1), kb.int(together));
        // Rows in front of the first multiple, and behind the last one.
        let next = kb.add(row, up);
        let next = kb.div(next, count);
        let next = kb.mul(next, count);
        let before = kb.sub(next, row);
        let before = kb.map(OpKind::Minimum, &[before, height]);
        let whole = kb.sub(height, before);
        let whole = kb.div(whole, count);
        let whole = kb.mul(whole, count);
        let behind = kb.add(before, whole);
        vec![([zero, before], 1), ([before, behind], together), ([behind, height], 1)]
    }

    /// The batch, the group of features, and where line number `line` of the columns is along the dimensions in front of the last one.
    fn line(&self, kb: &mut KernelBuilder, plan: &MatmulPlan, parameters: &Parameters, line: Value) -> Vec<Value> {
        let outer = |axis: usize| plan.outer.iter().position(|outer| outer.run.axis == axis).map(|i| parameters.outer[i]);
        let [batch, group] =
            [Some(0), (self.lead > 1).then_some(1)].map(|axis| axis.and_then(outer).unwrap_or_else(|| kb.int(0)));
        let (mut rest, mut found) = (line, Vec::new());
        for i in (0..self.steps.len() - 1).rev() {
            found.push(outer(self.lead + 1 + i).unwrap_or_else(|| {
                let size = kb.dim(&self.sizes[i]);
                let position = if i == 0 { rest } else { kb.rem(rest, size) };
                rest = kb.div(rest, size);
                position
            }));
        }
        found.extend([group, batch]);
        found.reverse();
        found
    }

    /// Where element `there` of a line is in the interleaved value, for a row of the product: its feature and its phases.
    pub(in crate::schedule) fn place(&self, kb: &mut KernelBuilder, line: &[Value], row: Value, there: Value) -> Vec<Index> {
        let (mut rest, mut found) = (row, Vec::new());
        let elements = [&line[2..], &[there]].concat();
        for (i, &element) in elements.iter().enumerate().rev() {
            let [count, first, step] = [self.phases[i], self.first[i], self.steps[i]].map(|number| kb.int(number));
            let phase = kb.rem(rest, count);
            rest = kb.div(rest, count);
            let start = kb.mul(element, step);
            let start = kb.add(start, first);
            let base = kb.add(start, phase);
            let stride = if i + 1 == self.steps.len() { self.steps[i] } else { 0 };
            found.push(Index::Affine { base, stride });
        }
        let [batch, group] = [line[0], line[1]];
        if self.lead > 1 {
            let features = kb.int(self.features);
            let before = kb.mul(group, features);
            rest = kb.add(before, rest);
        }
        found.extend([rest, batch].map(Index::uniform));
        found.reverse();
        found
    }

    /// Whether the value has elements at a place, looking at the dimensions in front of the last one; nothing, where it has.
    pub(in crate::schedule) fn exists(&self, kb: &mut KernelBuilder, place: &[Index]) -> Option<Value> {
        let outer = self.ends[..self.ends.len() - 1].iter().zip(&place[2..]);
        outer.fold(None, |exists, (end, at)| {
            let Some(end) = end else { return exists };
            let end = kb.dim(end);
            let here = kb.compare("LT", at.as_uniform().expect("a line is at one place"), end);
            Some(exists.map_or(here, |exists| kb.and(exists, here)))
        })
    }

    /// How many of `rest` elements of a line, from element `there` on, there are of each of some rows, where the value ends at `end`.
    pub(in crate::schedule) fn counts(
        &self,
        kb: &mut KernelBuilder,
        end: &Dim,
        [row, there, rest]: [Value; 3],
        rows: i64,
    ) -> Vec<Value> {
        let last = self.steps.len() - 1;
        let [count, up, step] = [self.phases[last], self.steps[last] - 1 - self.first[last], self.steps[last]].map(|n| kb.int(n));
        let (phase, end) = (kb.rem(row, count), kb.dim(end));
        let up = kb.add(end, up);
        let up = kb.sub(up, phase);
        let count = |number: i64| {
            let number = kb.int(number);
            let up = kb.sub(up, number);
            let size = kb.div(up, step);
            let left = kb.sub(size, there);
            kb.map(OpKind::Minimum, &[left, rest])
        };
        (0..rows).map(count).collect()
    }
}
