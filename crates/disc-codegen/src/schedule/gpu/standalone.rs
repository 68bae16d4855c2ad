//! Schedules ops whose elements cannot be computed each by itself, by the kind of op.
use super::{nonzero, ordered, scan, scatter};
use crate::schedule::{Group, Versioned};
use disc_ir::OpKind;

/// Returns the code of a group of one such op; `None` if units of work compute it.
pub(super) fn versions(group: &Group<'_>) -> Option<Versioned> {
    let function = group.function;
    function.insts(function.body).iter().find_map(|&inst| match function.kind_of(inst) {
        OpKind::Cumulative => Some(scan::versions(group, inst)),
        OpKind::Sort | OpKind::TopK => ordered::versions(group, inst),
        OpKind::Nonzero => Some(nonzero::versions(group, inst)),
        OpKind::Scatter => Some(scatter::versions(group, inst)),
        _ => None,
    })
}
