//! Hoists values of a loop nest that depend only on its inner dimension: they are the same in each
//! row, so that a task computes them once and keeps them in its memory. Values that are costly and
//! the same in consecutive rows are computed once for these, and those shared by other rows for a
//! block of them ([`super::row_blocking`]).
//!
//! Examples are positions and weights along the rows of an image that is resampled, and angles that
//! positions are rotated by. That pays if rows are not so long that the tables fill the caches, and
//! if there are several: a version of its own.
//!
//! Invariant: a table holds an element for each position of the inner dimension, of each row of a
//! block, in the type in which it is computed; lanes beyond the last one are undefined.
use super::{concat_parts::ConcatParts, hoisting, iteration_space::Merged, row_blocking::RowBlocking};
use crate::{
    element::Elements,
    kernel::{Index, KernelBuilder, compute_dtype, cost},
    schedule::{
        Condition::{self, Less},
        Group,
    },
};
use disc_ir::{DType, Dim, Inst, OpKind, TensorType, Value, ops::Trait};
use disc_kernel_macros::expr;
use disc_passes::{
    analysis::query::Query,
    fusion::space::{Map, axes_of, map_along, reads, regroup},
};
use std::collections::HashSet;

versions! {
    /// A loop nest with tables of what is the same in each row.
    Tables {
        kernels: "`kN_pointwise_tables`",
        sizes: "other pointwise rows, of at most 4,096 elements, at least 4 of them, with values computed from positions \
            alone (65,536 and 2, where those are costly); places in tensors are held in 32 bits, and each size that they \
            count along is below 2^31",
        unit: "",
    }
}

/// Rows of more elements have no tables; for costly values the limit is the length from which
/// reading from the second-level cache takes longer than computing.
const LONGEST: i64 = 4096;
const LONGEST_COSTLY: i64 = 1 << 16;
/// With fewer rows there are none either.
const LEAST_ROWS: i64 = 4;
const LEAST_COSTLY: i64 = 2;
/// The quarter nanoseconds of a vector from which on it is cheaper to load it.
const LEAST_WEIGHT: i64 = 6;

/// The values of a group that are worth a table.
pub(in crate::schedule) type HoistedValues = Vec<HoistedValue>;

#[derive(Clone, Debug, PartialEq)]
pub(in crate::schedule) struct HoistedValue {
    pub(in crate::schedule) value: Value,
    /// The axes of the space that each of its dimensions stands for.
    pub(in crate::schedule) shape: Vec<Vec<usize>>,
    /// A flag that is true if it varies along outer dimensions, though not along the last one of
    /// them, or one that shares blocks.
    pub(in crate::schedule) is_outer: bool,
    /// A flag that is true if it takes so long that rows do not compute it again if that can be
    /// avoided.
    costly: bool,
    /// The sizes that it counts along, if it is used only as positions: below 2^31, 32 bits hold
    /// them.
    places: Option<Vec<Dim>>,
}

impl HoistedValue {
    /// Returns true if it varies along the rows of a block.
    fn is_of(&self, blocks: &RowBlocking) -> bool {
        self.shape.concat().contains(&blocks.run.axis)
    }

    /// Returns true if a value, read by a map, is in its table of a block.
    pub(in crate::schedule) fn holds(&self, blocks: &RowBlocking, value: Value, map: &Map) -> bool {
        self.value == value && self.is_of(blocks) && map_along(&self.shape) == *map
    }

    /// The type of the table's elements. A position that 32 bits do not hold is out of range, and
    /// stays so.
    fn dtype(&self, group: &Group<'_>) -> DType {
        if self.places.is_some() { DType::I32 } else { compute_dtype(group.tensor(self.value).dtype) }
    }
}

/// The way that rows are walked.
pub(in crate::schedule) struct RowWalk<'n> {
    pub(in crate::schedule) space: &'n [Dim],
    /// The run that rows are along, with its parts, and a flag that is true if each of them is one
    /// vector.
    pub(in crate::schedule) inner: &'n Merged,
    pub(in crate::schedule) parts: ConcatParts,
    pub(in crate::schedule) is_narrow: bool,
}

/// The tables of a kernel.
pub(in crate::schedule) struct Tables<'n> {
    columns: Vec<(HoistedValue, Value)>,
    walk: RowWalk<'n>,
    blocks: Option<RowBlocking>,
    /// The lanes of the vectors that are computed: for long computations, more than rows have.
    lanes: u32,
}

/// Finds the values that depend only on the inner one of some runs, or on outer axes that are
/// `followed` as well.
pub(in crate::schedule) fn hoisted_values(
    group: &Group<'_>,
    space: &[Dim],
    roots: &[(Value, Map)],
    runs: &[Merged],
    followed: Option<&[usize]>,
) -> HoistedValues {
    let [.., outer, inner] = runs else { return HoistedValues::new() };
    let along: Vec<usize> = (outer.axis + 1..=inner.axis).collect();
    // Values shared by consecutive rows vary along these at most, and are worth it if they are
    // costly.
    let beyond = runs.len().checked_sub(3).map_or(0, |next| runs[next].axis + 1);
    let is_shared = |axis: usize| followed.map_or(axis < beyond, |followed| followed.contains(&axis));
    let is_outer = |axes: &[usize], inst: Inst| {
        let around = axes.strip_suffix(&along[..]).filter(|around| !around.is_empty());
        around.is_some_and(|around| around.iter().all(|&axis| is_shared(axis))) && hoisting::is_kept(group.function, inst)
    };
    let (mut found, mut below) = (HoistedValues::new(), Vec::new());
    // Values that vary along outer dimensions may be computed from those that do not.
    for (is_below, mut stack) in [(false, roots.to_vec()), (true, Vec::new())] {
        let mut seen = HashSet::new();
        stack.append(&mut below);
        while let Some((value, map)) = stack.pop() {
            let Some(inst) = group.function.defining(value).filter(|_| seen.insert((value, map.clone()))) else { continue };
            let tensor = group.tensor(value);
            let is_table = |axes: &Vec<usize>| *axes == along || !is_below && is_outer(axes, inst);
            let axes = axes_of(&map).filter(|_| tensor.dtype != DType::I1 && weight(group, inst) >= LEAST_WEIGHT);
            let shape =
                axes.filter(is_table).and_then(|axes| Some((regroup(&group.solver, space, &axes, &tensor.dims)?, axes != along)));
            let operands = || reads(group.function, &group.solver, space, inst, &map).operands;
            match shape {
                Some(_) if found.iter().any(|known| known.value == value) => {}
                Some((shape, is_outer)) => {
                    let places = places(group, value);
                    found.push(HoistedValue { value, shape, is_outer, costly: hoisting::is_kept(group.function, inst), places });
                    if is_outer {
                        below.extend(operands());
                    }
                }
                None => stack.extend(operands()),
            }
        }
    }
    found
}

/// The sizes that a value of 64 bits counts along, if its readers are gathers, as their positions,
/// and values that have a table themselves.
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

/// The cost of the ops that compute a value.
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

/// The conditions under which tables pay.
pub(in crate::schedule) fn guard(columns: &HoistedValues, runs: &[Merged]) -> Vec<Condition> {
    let (inner, outer) = runs.split_last().expect("there is an inner dimension");
    let rows = Dim::product(outer.iter().map(|run| run.size.clone()));
    let are_costly = columns.iter().any(|column| column.costly);
    let (longest, least) = if are_costly { (LONGEST_COSTLY, LEAST_COSTLY) } else { (LONGEST, LEAST_ROWS) };
    let mut guard = vec![Less(inner.size.clone(), Dim::constant(longest + 1)), Less(Dim::constant(least - 1), rows)];
    for size in columns.iter().filter_map(|column| column.places.as_ref()).flatten() {
        let fits = Less(size.clone(), Dim::constant(1 << 31));
        if !guard.contains(&fits) {
            guard.push(fits);
        }
    }
    guard
}

impl<'n> Tables<'n> {
    /// Allocates task memory for columns, for a block of rows if they vary along that.
    pub(in crate::schedule) fn of(
        kb: &mut KernelBuilder,
        elements: &Elements<'_>,
        group: &Group<'_>,
        columns: &[HoistedValue],
        walk: RowWalk<'n>,
        blocks: Option<&RowBlocking>,
    ) -> Self {
        let wide = cost::lanes(group.function, group.target, &group.solver, &walk.inner.size).max(elements.lanes);
        let lanes = if walk.is_narrow { elements.lanes } else { wide };
        let table = |column: &HoistedValue| {
            let rows = blocks.filter(|blocks| column.is_of(blocks)).map(|blocks| &blocks.rows);
            let size = rows.map_or(walk.inner.size.clone(), |rows| rows * &walk.inner.size);
            (column.clone(), kb.scratch(TensorType::new([size + i64::from(lanes)], column.dtype(group))))
        };
        Self { columns: columns.iter().map(table).collect(), walk, blocks: blocks.cloned(), lanes }
    }

    /// Computes the columns that are the same in all rows.
    pub(in crate::schedule) fn fill(&self, kb: &mut KernelBuilder, elements: &mut Elements<'_>, at: &[Index]) {
        self.fill_row(kb, elements, (at, None), &|column| !column.is_outer);
    }

    /// Computes those that vary along outer dimensions, for the position `at` along these; of a
    /// block, for its rows.
    pub(in crate::schedule) fn fill_outer(
        &self,
        kb: &mut KernelBuilder,
        elements: &mut Elements<'_>,
        at: &[Index],
        block: Option<[Value; 2]>,
    ) {
        self.fill_row(kb, elements, (at, None), &|column| column.is_outer && !self.is_of_block(column));
        let (Some([first, stop]), Some(blocks)) = (block, &self.blocks) else { return };
        let (mut at, one) = (at.to_vec(), kb.int(1));
        kb.for_each([first, stop, one], |kb, row| {
            at[blocks.run.axis] = Index::uniform(row);
            elements.scoped(|elements| self.fill_row(kb, elements, (&at, Some(first)), &|column| self.is_of_block(column)));
        });
    }

    /// Returns true if the rows of a block are stored one after another in the table of a column.
    fn is_of_block(&self, column: &HoistedValue) -> bool {
        self.blocks.as_ref().is_some_and(|blocks| column.is_of(blocks))
    }

    /// The position of an element in the table of a column, whose first row is number `first`.
    fn place(&self, kb: &mut KernelBuilder, column: &HoistedValue, at: &[Index], first: Option<Value>) -> Value {
        let base = base_of(at[self.walk.inner.axis]);
        let blocks = self.blocks.as_ref().filter(|blocks| column.is_of(blocks));
        let (Some(blocks), Some(first)) = (blocks, first) else { return base };
        let row = at[blocks.run.axis].as_uniform().expect("vectors lie along the inner run");
        expr!(kb, (row - first) * dim(&self.walk.inner.size) + base)
    }

    /// Computes some of the columns for one row.
    fn fill_row(
        &self,
        kb: &mut KernelBuilder,
        elements: &mut Elements<'_>,
        (at, first): (&[Index], Option<Value>),
        is_wanted: &dyn Fn(&HoistedValue) -> bool,
    ) {
        let mut at = at.to_vec();
        let wanted: Vec<&(HoistedValue, Value)> = self.columns.iter().filter(|(column, _)| is_wanted(column)).collect();
        if wanted.is_empty() {
            return;
        }
        let are_outer = wanted.iter().any(|(column, _)| column.is_outer);
        let lanes = std::mem::replace(&mut elements.lanes, self.lanes);
        let mut body = |kb: &mut KernelBuilder, elements: &mut Elements<'_>, indices: &[Index]| {
            for (number, &index) in indices.iter().enumerate() {
                at[self.walk.inner.axis] = index;
                if are_outer {
                    self.recall_some(kb, elements, (&at, None), &|column| !column.is_outer);
                }
                for (column, table) in &wanted {
                    let place = elements.position(kb, self.walk.space, &column.shape, &at);
                    let mut computed = elements.element(kb, column.value, &place);
                    if column.places.is_some() {
                        let [least, most] = [i32::MIN, i32::MAX].map(|limit| kb.int(limit.into()));
                        computed = expr!(kb, convert(min(max(computed, least), most), DType::I32));
                    }
                    let wide = kb.widen(computed, elements.lanes);
                    let place = self.place(kb, column, &at, first);
                    // Whole vectors are read, so that whole ones are written, if no other element
                    // is stored after them yet.
                    let mask = elements.mask.filter(|_| number + 1 < indices.len());
                    kb.store(*table, place, wide, mask);
                }
            }
        };
        match self.walk.is_narrow {
            true => self.walk.parts.walk_short(kb, elements, self.lanes, &mut body),
            false => self.walk.parts.walk(kb, elements, &mut body),
        }
        elements.lanes = lanes;
    }

    /// Recalls elements of tables of blocks like [`Self::recall`]: the rows of one may be walked as
    /// one, of which `at` counts the elements.
    pub(in crate::schedule) fn recall_of_block(
        &self,
        kb: &mut KernelBuilder,
        elements: &mut Elements<'_>,
        at: &[Index],
        first: Value,
    ) {
        self.recall_some(kb, elements, (at, Some(first)), &|column| self.is_of_block(column));
    }

    /// Makes the elements known at a position that is in a block whose first row is number `first`.
    pub(in crate::schedule) fn recall(
        &self,
        kb: &mut KernelBuilder,
        elements: &mut Elements<'_>,
        at: &[Index],
        first: Option<Value>,
    ) {
        self.recall_some(kb, elements, (at, first), &|_| true);
    }

    fn recall_some(
        &self,
        kb: &mut KernelBuilder,
        elements: &mut Elements<'_>,
        (at, first): (&[Index], Option<Value>),
        is_wanted: &dyn Fn(&HoistedValue) -> bool,
    ) {
        for (column, table) in self.columns.iter().filter(|(column, _)| is_wanted(column)) {
            let place = self.place(kb, column, at, first);
            let mut known = kb.load(*table, place, elements.lanes, None);
            if column.places.is_some() {
                known = kb.convert(known, DType::I64);
            }
            let place = elements.position(kb, self.walk.space, &column.shape, at);
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
