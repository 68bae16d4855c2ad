//! What a loop nest computes from its inner dimension alone: the same in each row, so that a task computes it once and keeps it in its memory. What is
//! costly and the same in rows that follow one another is computed once for these.
//!
//! Places and weights along the rows of an image that is resampled are such, and angles that positions are turned by. That pays where rows are not
//! so long that the tables fill the caches, and where there are several: a version of its own.
//!
//! Invariant: a table holds an element for each position of the inner dimension, in the type that it is computed in; lanes beyond the last one hold
//! anything.
use super::{Group, domain::Merged, shared, vectors::vector_loop};
use crate::{build::KernelBuilder, cost, element::Elements, element::compute_dtype, index::Index};
use disc_ir::{DType, Dim, Inst, OpKind, TensorType, Value, ops::Trait};
use disc_passes::{
    fusion::space::{Map, axes_of, reads, regroup},
    query::Query,
};
use std::collections::HashSet;

/// Rows of more elements have no tables; of costly ones, where reading from the second-level cache takes longer than computing.
const LONGEST: i64 = 4096;
const LONGEST_COSTLY: i64 = 1 << 16;
/// Fewer rows have none either.
const LEAST_ROWS: i64 = 4;
const LEAST_COSTLY: i64 = 2;
/// Quarter nanoseconds of a vector, from which on it is cheaper to load it.
const LEAST_WEIGHT: i64 = 6;

/// The values of a group that are worth a table.
pub(super) type Columns = Vec<Column>;

#[derive(Clone, Debug, PartialEq)]
pub(super) struct Column {
    pub(super) value: Value,
    /// The axes of the space that each of its dimensions stands for.
    pub(super) shape: Vec<Vec<usize>>,
    /// Whether it differs along outer dimensions, though not along the last one of them.
    pub(super) is_outer: bool,
    /// Whether it takes so long that rows do not compute it again where that can be left out.
    costly: bool,
    /// The sizes that it counts along, if it says places and nothing else: below 2^31, 32 bits hold them.
    places: Option<Vec<Dim>>,
}

impl Column {
    /// The type of the table's elements. What 32 bits do not hold is out of range, and stays so.
    fn dtype(&self, group: &Group<'_>) -> DType {
        if self.places.is_some() { DType::I32 } else { compute_dtype(group.tensor(self.value).dtype) }
    }
}

/// The tables of a kernel.
pub(super) struct Tables(Vec<(Column, Value)>);

/// Finds the values that depend on the inner one of some runs alone.
pub(super) fn columns_of(group: &Group<'_>, space: &[Dim], roots: &[(Value, Map)], runs: &[Merged]) -> Columns {
    let [.., outer, inner] = runs else { return Columns::new() };
    let along: Vec<usize> = (outer.axis + 1..=inner.axis).collect();
    // What the rows that follow one another have in common differs along these at most, and is worth it where it is costly.
    let beyond = runs.len().checked_sub(3).map_or(0, |next| runs[next].axis + 1);
    let is_outer = |axes: &[usize], inst: Inst| {
        let around = axes.strip_suffix(&along[..]).filter(|around| !around.is_empty());
        around.is_some_and(|around| around.iter().all(|&axis| axis < beyond)) && shared::is_kept(group.function, inst)
    };
    let (mut stack, mut seen, mut found) = (roots.to_vec(), HashSet::new(), Columns::new());
    while let Some((value, map)) = stack.pop() {
        let Some(inst) = group.function.defining(value).filter(|_| seen.insert((value, map.clone()))) else { continue };
        let tensor = group.tensor(value);
        let shape = axes_of(&map)
            .filter(|axes| {
                tensor.dtype != DType::I1 && weight(group, inst) >= LEAST_WEIGHT && (*axes == along || is_outer(axes, inst))
            })
            .and_then(|axes| Some((regroup(&group.solver, space, &axes, &tensor.dims)?, axes != along)));
        match shape {
            Some(_) if found.iter().any(|known| known.value == value) => {}
            Some((shape, is_outer)) => {
                let places = places(group, value);
                found.push(Column { value, shape, is_outer, costly: shared::is_kept(group.function, inst), places });
            }
            None => stack.extend(reads(group.function, &group.solver, space, inst, &map).operands),
        }
    }
    found
}

/// The sizes that a value of 64 bits counts along, where it is read by gathers as their places, and by what has a table itself.
fn places(group: &Group<'_>, value: Value) -> Option<Vec<Dim>> {
    let function = group.function;
    let mut sizes = Vec::new();
    for &inst in function.insts(function.body).iter().filter(|&&inst| function.operands(inst).contains(&value)) {
        match function.kind_of(inst) {
            OpKind::Gather if function.operands(inst)[0] != value => {
                let dims = &group.tensor(function.operands(inst)[0]).dims;
                sizes.extend(function.axes(inst, "start_index_map").into_iter().map(|axis| dims[axis].clone()));
            }
            kind if kind.def().has(Trait::Elementwise) && group.tensor(function.result(inst)).dtype != DType::I1 => {}
            _ => return None,
        }
    }
    (group.tensor(value).dtype == DType::I64 && !sizes.is_empty()).then_some(sizes)
}

/// What the ops cost that compute a value.
fn weight(group: &Group<'_>, inst: Inst) -> i64 {
    let (mut stack, mut seen, mut total) = (vec![inst], HashSet::new(), 0);
    while let Some(inst) = stack.pop().filter(|_| total < LEAST_WEIGHT) {
        if seen.insert(inst) {
            total += cost::weight(group.function, inst);
            stack.extend(group.function.operands(inst).iter().filter_map(|&value| group.function.defining(value)));
        }
    }
    total
}

/// Where tables pay: each first dim is less than the second.
pub(super) fn guard(columns: &Columns, runs: &[Merged]) -> Vec<(Dim, Dim)> {
    let (inner, outer) = runs.split_last().expect("there is an inner dimension");
    let rows = Dim::product(outer.iter().map(|run| run.size.clone()));
    let are_costly = columns.iter().any(|column| column.costly);
    let (longest, least) = if are_costly { (LONGEST_COSTLY, LEAST_COSTLY) } else { (LONGEST, LEAST_ROWS) };
    let mut guard = vec![(inner.size.clone(), Dim::constant(longest + 1)), (Dim::constant(least - 1), rows)];
    for size in columns.iter().filter_map(|column| column.places.as_ref()).flatten() {
        let fits = (size.clone(), Dim::constant(1 << 31));
        if !guard.contains(&fits) {
            guard.push(fits);
        }
    }
    guard
}

impl Tables {
    /// Asks for task memory for columns.
    pub(super) fn of(
        kb: &mut KernelBuilder,
        elements: &Elements<'_>,
        group: &Group<'_>,
        columns: &[Column],
        inner: &Merged,
    ) -> Self {
        let lanes = i64::from(elements.lanes);
        let table = |column: &Column| {
            let tensor = TensorType::new([&inner.size + lanes], column.dtype(group));
            (column.clone(), kb.scratch(tensor))
        };
        Self(columns.iter().map(table).collect())
    }

    /// Whether some of them are others at other positions along outer dimensions.
    pub(super) fn are_outer(&self) -> bool {
        self.0.iter().any(|(column, _)| column.is_outer)
    }

    /// Computes the columns that are the same in all rows, or those that differ along outer dimensions, for the position `at` along these.
    pub(super) fn fill(
        &self,
        kb: &mut KernelBuilder,
        elements: &mut Elements<'_>,
        (space, inner): (&[Dim], &Merged),
        at: &[Index],
        outer: bool,
    ) {
        let (lanes, mut at) = (i64::from(elements.lanes), at.to_vec());
        let wanted: Vec<&(Column, Value)> = self.0.iter().filter(|(column, _)| column.is_outer == outer).collect();
        if wanted.is_empty() {
            return;
        }
        let range = [kb.int(0), kb.dim(&inner.size)];
        let exact = elements.solver.divisible(&inner.size, lanes);
        vector_loop(kb, elements, range, exact, &mut |kb, elements, index| {
            at[inner.axis] = index;
            for (column, table) in &wanted {
                let place = elements.position(kb, space, &column.shape, &at);
                let mut computed = elements.element(kb, column.value, &place);
                if column.places.is_some() {
                    let [least, most] = [i32::MIN, i32::MAX].map(|limit| kb.int(limit.into()));
                    let above = kb.map(OpKind::Maximum, &[computed, least]);
                    let within = kb.map(OpKind::Minimum, &[above, most]);
                    computed = kb.convert(within, DType::I32);
                }
                let wide = kb.widen(computed, elements.lanes);
                // Whole vectors are read, so that whole ones are written.
                kb.store(*table, base_of(index), wide, None);
            }
        });
    }

    /// Makes the elements at a position known.
    pub(super) fn recall(
        &self,
        kb: &mut KernelBuilder,
        elements: &mut Elements<'_>,
        (space, inner): (&[Dim], &Merged),
        at: &[Index],
    ) {
        for (column, table) in &self.0 {
            let mut known = kb.load(*table, base_of(at[inner.axis]), elements.lanes, None);
            if column.places.is_some() {
                known = kb.convert(known, DType::I64);
            }
            let place = elements.position(kb, space, &column.shape, at);
            elements.seed(column.value, &place, known);
        }
    }
}

fn base_of(index: Index) -> Value {
    match index {
        Index::Affine { base, .. } => base,
        Index::Lanes { .. } => panic!("the inner dimension is walked in order"),
    }
}
