//! What a loop nest computes from its inner dimension alone: the same in each row, so that a task computes it once and keeps it in its memory.
//!
//! Places and weights along the rows of an image that is resampled are such, and angles that positions are turned by. That pays where rows are not
//! so long that the tables fill the caches, and where there are several: a version of its own.
//!
//! Invariant: a table holds an element for each position of the inner dimension, in the type that it is computed in; lanes beyond the last one hold
//! anything.
use super::{Group, domain::Merged, vectors::vector_loop};
use crate::{build::KernelBuilder, cost, element::Elements, element::compute_dtype, index::Index};
use disc_ir::{DType, Dim, Inst, TensorType, Value};
use disc_passes::fusion::space::{Map, axes_of, reads, regroup};
use std::collections::HashSet;

/// Rows of more elements have no tables.
const LONGEST: i64 = 4096;
/// Fewer rows have none either.
const LEAST_ROWS: i64 = 4;
/// Quarter nanoseconds of a vector, from which on it is cheaper to load it.
const LEAST_WEIGHT: i64 = 6;

/// The values of a group that are worth a table, with the axes of the space that each of their dimensions stands for.
pub(super) type Columns = Vec<(Value, Vec<Vec<usize>>)>;

/// The tables of a kernel.
#[derive(Default)]
pub(super) struct Tables(Vec<(Value, Vec<Vec<usize>>, Value)>);

/// Finds the values that depend on the inner one of some runs alone.
pub(super) fn columns_of(group: &Group<'_>, space: &[Dim], roots: &[(Value, Map)], runs: &[Merged]) -> Columns {
    let [.., outer, inner] = runs else { return Columns::new() };
    let along: Vec<usize> = (outer.axis + 1..=inner.axis).collect();
    let (mut stack, mut seen, mut found) = (roots.to_vec(), HashSet::new(), Columns::new());
    while let Some((value, map)) = stack.pop() {
        let Some(inst) = group.function.defining(value).filter(|_| seen.insert((value, map.clone()))) else { continue };
        let tensor = group.tensor(value);
        let shape = axes_of(&map)
            .filter(|axes| *axes == along && tensor.dtype != DType::I1 && weight(group, inst) >= LEAST_WEIGHT)
            .and_then(|axes| regroup(&group.solver, space, &axes, &tensor.dims));
        match shape {
            Some(shape) if !found.contains(&(value, shape.clone())) => found.push((value, shape)),
            Some(_) => {}
            None => stack.extend(reads(group.function, &group.solver, space, inst, &map).operands),
        }
    }
    found
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
pub(super) fn guard(runs: &[Merged]) -> Vec<(Dim, Dim)> {
    let (inner, outer) = runs.split_last().expect("there is an inner dimension");
    let rows = Dim::product(outer.iter().map(|run| run.size.clone()));
    vec![(inner.size.clone(), Dim::constant(LONGEST + 1)), (Dim::constant(LEAST_ROWS - 1), rows)]
}

impl Tables {
    /// Computes the columns; code for a task, in front of its loops.
    pub(super) fn fill(
        kb: &mut KernelBuilder,
        elements: &mut Elements<'_>,
        group: &Group<'_>,
        columns: &Columns,
        (space, inner): (&[Dim], &Merged),
    ) -> Self {
        let zero = Index::uniform(kb.int(0));
        let mut at = vec![zero; space.len()];
        let lanes = i64::from(elements.lanes);
        let table = |(value, shape): &(Value, Vec<Vec<usize>>)| {
            let tensor = TensorType::new([&inner.size + lanes], compute_dtype(group.tensor(*value).dtype));
            (*value, shape.clone(), kb.scratch(tensor))
        };
        let tables = Self(columns.iter().map(table).collect());
        if tables.0.is_empty() {
            return tables;
        }
        let range = [kb.int(0), kb.dim(&inner.size)];
        let exact = group.solver.divisible(&inner.size, lanes);
        vector_loop(kb, elements, range, exact, &mut |kb, elements, index| {
            at[inner.axis] = index;
            for (value, shape, table) in &tables.0 {
                let place = elements.position(kb, space, shape, &at);
                let computed = elements.element(kb, *value, &place);
                let wide = kb.widen(computed, elements.lanes);
                kb.store(*table, base_of(index), wide, elements.mask);
            }
        });
        tables
    }

    /// Makes the elements at a position known.
    pub(super) fn recall(
        &self,
        kb: &mut KernelBuilder,
        elements: &mut Elements<'_>,
        (space, inner): (&[Dim], &Merged),
        at: &[Index],
    ) {
        for (value, shape, table) in &self.0 {
            let known = kb.load(*table, base_of(at[inner.axis]), elements.lanes, None);
            let place = elements.position(kb, space, shape, at);
            elements.seed(*value, &place, known);
        }
    }
}

fn base_of(index: Index) -> Value {
    match index {
        Index::Affine { base, .. } => base,
        Index::Lanes(_) => panic!("the inner dimension is walked in order"),
    }
}
