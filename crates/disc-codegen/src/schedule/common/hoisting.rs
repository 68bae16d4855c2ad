//! Hoists costly values that rows share: those that `fusion/hoisting.rs` of disc-passes leaves to
//! the kernel that needs them.
//!
//! It finds them, and computes those that are constant along a row of a loop, in vectors that cover
//! several rows. Values that vary along rows are in [`super::hoisted_tables`], those shared by rows
//! of reductions in `reduction/tables.rs`.
use super::{iteration_space::Merged, line_buffers::rows_of_part, vector_loop::vector_loop};
use crate::{
    element::Elements,
    kernel::{Index, KernelBuilder, compute_dtype},
    schedule::Group,
};
use disc_ir::{Dim, Function, Inst, OpKind, TensorType, Value, ops::Trait};
use disc_kernel_macros::expr;
use disc_passes::fusion::{
    hoisting::costs_something,
    space::{Map, axes_of, reads, regroup},
};
use std::collections::HashSet;

/// A value with the axes of the space that each of its dimensions stands for.
pub(in crate::schedule) type Hoisted = (Value, Vec<Vec<usize>>);

/// The costly values that follow only axes that `are_shared` accepts; of values that are computed
/// from one another, the last one.
pub(in crate::schedule) fn hoisted(
    group: &Group<'_>,
    space: &[Dim],
    roots: &[(Value, Map)],
    are_shared: &dyn Fn(&[usize]) -> bool,
) -> Vec<Hoisted> {
    let (function, solver) = (group.function, &*group.solver);
    let (mut stack, mut seen, mut found) = (roots.to_vec(), HashSet::new(), Vec::<Hoisted>::new());
    while let Some((value, map)) = stack.pop() {
        let Some(inst) = function.defining(value).filter(|_| seen.insert((value, map.clone()))) else { continue };
        match axes_of(&map).filter(|axes| are_shared(axes) && is_kept(function, inst)) {
            Some(axes) => {
                let shape = regroup(solver, space, &axes, &group.tensor(value).dims);
                found.extend(shape.filter(|_| !found.iter().any(|(known, _)| *known == value)).map(|shape| (value, shape)));
            }
            None => stack.extend(reads(function, solver, space, inst, &map).operands),
        }
    }
    found
}

/// Returns true if a value follows no axis at all.
pub(in crate::schedule) fn is_everywhere((_, shape): &Hoisted) -> bool {
    shape.iter().all(Vec::is_empty)
}

/// Returns true if it pays to compute a value before its readers, and is allowed: it is costly, and
/// neither fails nor needs a reduction.
pub(in crate::schedule) fn is_kept(function: &Function, inst: Inst) -> bool {
    let (mut stack, mut seen, mut costs) = (vec![inst], HashSet::new(), false);
    while let Some(inst) = stack.pop() {
        if !seen.insert(inst) {
            continue;
        }
        if function.def(inst).has(Trait::MayFail) || matches!(function.kind_of(inst), OpKind::Reduce | OpKind::Cumulative) {
            return false;
        }
        costs |= costs_something(function, inst);
        stack.extend(function.operands(inst).iter().filter_map(|&operand| function.defining(operand)));
    }
    costs
}

/// The most elements and rows for which shared values are computed together.
const TOGETHER: (i64, i64) = (1024, 32);

/// The values that are constant along each row of a nest, for several rows per task.
pub(in crate::schedule) struct HoistedRows {
    /// The run of the rows, with all its positions.
    run: Merged,
    /// The number of rows that are computed together.
    together: Dim,
    /// The values that differ from row to row, with the memory of several rows.
    apart: Vec<(Hoisted, Value)>,
    /// The values that do not.
    alike: Vec<Hoisted>,
}

impl HoistedRows {
    /// Allocates task memory for the values that rows of `length` elements share, if there are
    /// some; units are parts of the last of the outer runs then.
    pub(in crate::schedule) fn new(
        kb: &mut KernelBuilder,
        elements: &Elements<'_>,
        values: &[Hoisted],
        length: &Dim,
        outer: &mut [Merged],
    ) -> Option<Self> {
        let run = outer.last_mut().filter(|_| !values.is_empty())?;
        let rows = Dim::constant(TOGETHER.0).floor_div(length);
        let rows = Dim::max_of([rows, Dim::constant(1)]).and_then(|rows| Dim::min_of([rows, Dim::constant(TOGETHER.1)]));
        let together = rows.expect("numbers have a least and a largest one");
        let all = run.clone();
        run.size = run.size.ceil_div(&together);
        let differs = |(_, shape): &&Hoisted| shape.iter().any(|axes| axes.contains(&all.axis));
        let (apart, alike): (Vec<&Hoisted>, Vec<&Hoisted>) = values.iter().partition(differs);
        let memory = |shared: &Hoisted| {
            let dtype = compute_dtype(elements.tensor(shared.0).dtype);
            (shared.clone(), kb.scratch(TensorType::new([Dim::constant(TOGETHER.1 + i64::from(elements.lanes))], dtype)))
        };
        let apart = apart.into_iter().map(memory).collect();
        Some(Self { run: all, together, apart, alike: alike.into_iter().cloned().collect() })
    }

    /// Emits `body` for each row of part `at` of the last outer run, with the values that are
    /// constant along it known.
    pub(in crate::schedule) fn each_row<'e>(
        &self,
        kb: &mut KernelBuilder,
        elements: &mut Elements<'e>,
        space: &[Dim],
        at: &[Index],
        body: impl FnOnce(&mut KernelBuilder, &mut Elements<'e>, &[Index]),
    ) {
        let (one, mut at) = (kb.int(1), at.to_vec());
        let [first, stop] = rows_of_part(kb, &self.run, &self.together, at[self.run.axis]);
        for (value, shape) in &self.alike {
            let place = elements.position(kb, space, shape, &at);
            elements.element(kb, *value, &place);
        }
        if !self.apart.is_empty() {
            vector_loop(kb, elements, [first, stop], false, &mut |kb, elements, index| {
                at[self.run.axis] = index;
                let Index::Affine { base, .. } = index else { panic!("rows are walked in order") };
                let offset = expr!(kb, base - first);
                for ((value, shape), memory) in &self.apart {
                    let place = elements.position(kb, space, shape, &at);
                    let computed = elements.element(kb, *value, &place);
                    let wide = kb.widen(computed, elements.lanes);
                    // There is room for whole vectors.
                    kb.store(*memory, offset, wide, None);
                }
            });
        }
        kb.for_each([first, stop, one], |kb, row| {
            elements.scoped(|elements| {
                at[self.run.axis] = Index::uniform(row);
                let offset = expr!(kb, row - first);
                for ((value, shape), memory) in &self.apart {
                    let place = elements.position(kb, space, shape, &at);
                    let known = kb.load(*memory, offset, 1, None);
                    elements.seed(*value, &place, known);
                }
                body(kb, elements, &at);
            });
        });
    }
}
