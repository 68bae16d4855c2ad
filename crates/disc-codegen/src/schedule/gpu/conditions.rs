//! Finds the conditions of versions for GPUs: on sizes, and on positions of 32 bits.
use crate::schedule::{Condition, Group};
use disc_ir::{DType, Dim, TensorType};

/// Positions after the last element that threads of the last block compute before they find that
/// nothing is there: at most these.
const OVERHANG: i64 = 1 << 20;
/// Fewer elements have positions of 32 bits, those after the last one included.
const NARROW: i64 = (1 << 31) - OVERHANG;

/// Returns the conditions under which every position has 32 bits: those in the group's memory, and
/// those in the spaces that its ops walk.
pub(super) fn narrow_positions(group: &Group<'_>) -> Vec<Condition> {
    let mut counts: Vec<Dim> = Vec::new();
    let function = group.function;
    let computed = function.insts(function.body).iter().flat_map(|&inst| function.results_of(inst));
    let tensors = group.inputs().iter().chain(computed).filter_map(|&value| function.ty(value).shaped());
    for count in tensors.map(TensorType::element_count) {
        let is_known = group.solver.range(&count).hi.is_some_and(|most| most < NARROW);
        if !is_known && !counts.contains(&count) {
            counts.push(count);
        }
    }
    counts.into_iter().map(|count| Condition::Less(count, Dim::constant(NARROW))).collect()
}

/// Returns the group with positions of 32 bits, where these conditions hold.
pub(super) fn narrowed<'g>(group: &Group<'g>, suffix: &str, guard: &[Condition]) -> Group<'g> {
    Group { index_type: DType::I32, ..group.guarded(format!("{}_{suffix}", group.name), guard) }
}

/// Returns the condition that a dim is divisible, unless that is known.
pub(super) fn divides(group: &Group<'_>, number: u32, dim: &Dim) -> Option<Condition> {
    let number = i64::from(number);
    (!group.solver.divisible(dim, number)).then(|| Condition::Divides(number, dim.clone()))
}

/// Returns the condition that a dim is at least `least`, unless that is known.
pub(super) fn at_least(group: &Group<'_>, least: i64, dim: &Dim) -> Option<Condition> {
    let is_known = group.solver.range(dim).lo.is_some_and(|known| known >= least);
    (!is_known).then(|| Condition::Less(Dim::constant(least - 1), dim.clone()))
}

/// Returns the condition that a dim is at most `most`, unless that is known.
pub(super) fn at_most(group: &Group<'_>, most: i64, dim: &Dim) -> Option<Condition> {
    let is_known = group.solver.range(dim).hi.is_some_and(|known| known <= most);
    (!is_known).then(|| Condition::Less(dim.clone(), Dim::constant(most + 1)))
}

/// Returns true if the conditions can hold together.
pub(super) fn can_hold(group: &Group<'_>, guard: &[Condition]) -> bool {
    guard.iter().all(|condition| match condition {
        Condition::Less(smaller, larger) => group.solver.range(&(larger - smaller)).hi.is_none_or(|most| most > 0),
        Condition::Divides(number, dim) => dim.as_const().is_none_or(|size| size % number == 0),
        Condition::Aligned(..) | Condition::Nontemporal { .. } => true,
    })
}
