//! Finds the conditions of versions for grids: positions of 32 bits, and vectors.
use crate::schedule::{Argument, Condition, Group};
use disc_ir::{DType, Dim, Function, OpKind, Space, TensorType, Type, Value};

/// So many elements have positions of 32 bits, and so do the positions that threads of the last
/// blocks find to be behind them.
const NARROW: i64 = (1 << 31) - (1 << 20);

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

/// Returns the lanes of an access of 16 bytes of the widest tensor; `None` for one.
pub(super) fn vector_lanes(group: &Group<'_>) -> Option<u32> {
    let tensors = group.inputs().iter().copied().chain(group.outputs()).map(|value| group.tensor(value));
    let widest = tensors.filter(|tensor| tensor.rank() > 0).map(|tensor| tensor.dtype.size() as u32).max()?;
    let lanes = crate::target::GpuModel::ACCESS_BYTES / widest;
    (lanes > 1).then_some(lanes)
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

/// Returns true if a thread can run the kernel: its vectors are along memory, and no wider than an
/// access.
pub(super) fn suits_threads(kernel: &Function) -> bool {
    let lanes = |value: Value| match kernel.ty(value) {
        Type::Vector { lanes, .. } => *lanes,
        _ => 1,
    };
    kernel.walk(kernel.body).into_iter().all(|inst| {
        let operands = kernel.operands(inst);
        let fits = |value: Value| lanes(value) as usize * kernel.ty(value).dtype().size() <= 16;
        match kernel.kind_of(inst) {
            OpKind::Load => operands.len() == 2 && lanes(operands[1]) == 1 && fits(kernel.result(inst)),
            OpKind::Store => operands.len() == 3 && lanes(operands[1]) == 1 && fits(operands[2]),
            OpKind::LaneMask
            | OpKind::Lanes
            | OpKind::PickLanes
            | OpKind::ZipLanes
            | OpKind::UnzipLanes
            | OpKind::TransposeLanes
            | OpKind::DotLanes => lanes(kernel.result(inst)) == 1,
            _ => true,
        }
    })
}

/// Returns the memory that a kernel accesses in vectors.
pub(super) fn vector_memory(kernel: &Function, arguments: &[Argument]) -> Vec<Argument> {
    let mut found: Vec<Argument> = Vec::new();
    for inst in kernel.walk(kernel.body) {
        let vector = match kernel.kind_of(inst) {
            OpKind::Load => kernel.result(inst),
            OpKind::Store => kernel.operands(inst)[2],
            _ => continue,
        };
        let buffer = kernel.operands(inst)[0];
        let is_wide = matches!(kernel.ty(vector), Type::Vector { lanes, .. } if *lanes > 1);
        let is_global = matches!(kernel.ty(buffer), Type::Buffer { space: Space::Global, .. });
        let position = kernel.parameters().iter().position(|&parameter| parameter == buffer);
        let argument = position.and_then(|position| arguments.get(position)).filter(|_| is_wide && is_global);
        if let Some(&argument) = argument
            && !found.contains(&argument)
        {
            found.push(argument);
        }
    }
    found
}
