//! Schedules ops none of whose elements can be computed by itself.
//!
//! All but scans are plain and scalar: a work unit is a piece that must be done in order (a row of
//! a sort, a whole scatter).
mod entries;
pub(in crate::schedule) mod key;
mod merge;
mod nonzero;
mod random;
mod ranked;
pub(in crate::schedule) mod scan;
mod scatter;
mod select;
pub(in crate::schedule) mod sort;
mod top_k;
mod update;

use crate::{
    element::Elements,
    kernel::{Index, KernelBuilder},
    schedule::{
        Condition, Group, Version, VersionKind, Versioned,
        common::iteration_space::{Merged, place_unit},
    },
};
use disc_ir::{Attr, Dim, Inst, OpKind, Value};
use disc_kernel_macros::expr;
use disc_passes::analysis::query::Query;

/// The schedule of a group of one such op; `None` if elements can be computed one by one.
pub(in crate::schedule) fn schedule(group: &Group<'_>) -> Option<Versioned> {
    let ops = group.function.insts(group.function.body).iter().copied();
    for inst in ops {
        match group.function.kind_of(inst) {
            OpKind::Cumulative => return Some(scan::schedule(group, inst)),
            OpKind::Sort | OpKind::TopK => return Some(ordered(group, inst)),
            OpKind::Scatter => return Some(scatter::schedule(group, inst).into()),
            OpKind::Nonzero => return Some(nonzero::schedule(group, inst).into()),
            OpKind::RngBitGenerator => return Some(random::schedule(group, inst).into()),
            _ => {}
        }
    }
    None
}

pub(in crate::schedule) use scan::Scan;
pub(in crate::schedule) use scatter::Scatter;
pub(in crate::schedule) use sort::order_of;
pub(in crate::schedule) use update::schedule as update;

/// The longest line whose positions fit in the bits of entries.
const LONGEST: i64 = i32::MAX as i64;

/// Schedules a sort or the start of one: by keys if the order is a plain one, otherwise by its
/// comparator.
fn ordered(group: &Group<'_>, inst: Inst) -> Versioned {
    let Some(order) = sort::order_of(group, inst) else { return merge::schedule(group, inst, &group.name).into() };
    let tensor = group.tensor(group.function.operands(inst)[0]);
    let is_sort = group.function.kind_of(inst) == OpKind::Sort;
    let axis = if is_sort { group.function.int(inst, "dimension") as usize } else { tensor.rank() - 1 };
    let code = match group.function.attr(inst, "skip") {
        _ if is_sort => sort::schedule(group, inst, order),
        Some(Attr::Dim(skip)) => ranked::schedule(group, inst, order, skip),
        _ => top_k::schedule(group, inst, order),
    };
    if group.solver.less_equal(&tensor.dims[axis], &Dim::constant(LONGEST)) {
        return code.into();
    }
    let guard = vec![Condition::Less(tensor.dims[axis].clone(), Dim::constant(LONGEST))];
    let by_comparator = merge::schedule(group, inst, &format!("{}_by_comparator", group.name));
    let by_keys = Version { kind: VersionKind::Keys, guard, code, workspaces: Vec::new() };
    Versioned { versions: vec![by_keys], otherwise: by_comparator, ..Versioned::default() }
}

/// A line that is cut into chunks, and the dimensions around it: a work unit is a chunk.
struct Chunks {
    outer: Vec<Merged>,
    size: Dim,
    chunk: i64,
}

impl Chunks {
    fn units(&self) -> Dim {
        Dim::product(self.outer.iter().map(|run| run.size.clone())) * self.size.ceil_div(&Dim::constant(self.chunk))
    }

    /// Places a unit along the outer dimensions; returns its range along the line.
    fn place(&self, kb: &mut KernelBuilder, unit: Value, at: &mut [Index]) -> [Value; 2] {
        let (size, chunk) = (kb.dim(&self.size), kb.int(self.chunk));
        let parts = kb.dim(&self.size.ceil_div(&Dim::constant(self.chunk)));
        let (line, part) = match self.outer.is_empty() {
            true => (unit, unit),
            false => (expr!(kb, unit / parts), expr!(kb, unit % parts)),
        };
        place_unit(kb, line, &self.outer, at);
        let low = expr!(kb, part * chunk);
        let high = expr!(kb, low + chunk);
        [low, kb.min(high, size)]
    }
}

/// All dimensions but `axis`, for units that are lines along it.
pub(in crate::schedule) fn lines(shape: &[Dim], axis: usize) -> Vec<Merged> {
    let others = shape.iter().enumerate().filter(|(d, _)| *d != axis);
    others.map(|(d, size)| Merged { size: size.clone(), axis: d }).collect()
}

fn flag(elements: &Elements<'_>, inst: Inst, name: &str, default: bool) -> bool {
    match elements.group.attr(inst, name) {
        Some(disc_ir::Attr::Bool(value)) => *value,
        _ => default,
    }
}
