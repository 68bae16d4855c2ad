//! Gives the threads of a grid vectors: as wide as one access, in memory that is aligned for it.
use super::align;
use crate::{
    schedule::{Argument, Condition, Group, Scheduled},
    target::GpuModel,
};
use disc_ir::{Attr, Function, OpKind, Solver, Space, Type, Value};

/// Returns the lanes of an access of 16 bytes of the widest tensor; `None` for one.
pub(super) fn vector_lanes(group: &Group<'_>) -> Option<u32> {
    let tensors = group.inputs().iter().copied().chain(group.outputs()).map(|value| group.tensor(value));
    let widest = tensors.filter(|tensor| tensor.rank() > 0).map(|tensor| tensor.dtype.size() as u32).max()?;
    let lanes = GpuModel::ACCESS_BYTES / widest;
    (lanes > 1).then_some(lanes)
}

/// Marks the accesses of vectors in code for elements of so many lanes. Returns the condition that
/// the memory of vectors is aligned, if there are any; `None` if threads cannot run the code, or no
/// access has these lanes.
pub(super) fn aligned(code: &mut Scheduled, solver: &Solver, lanes: u32) -> Option<Option<Condition>> {
    if !code.kernels.iter().all(suits_threads) {
        return None;
    }
    let kernels = code.kernels.iter().zip(&code.launches);
    let mut memory: Vec<Argument> = kernels.flat_map(|(kernel, launch)| vector_memory(kernel, &launch.arguments)).collect();
    memory.dedup();
    if memory.is_empty() {
        return (lanes == 1).then_some(None);
    }
    code.kernels.iter_mut().for_each(|kernel| align::mark(kernel, solver));
    Some(Some(Condition::Aligned(memory, GpuModel::ACCESS_BYTES.into())))
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
        let fits = |value: Value| lanes(value) as usize * kernel.ty(value).dtype().size() <= GpuModel::ACCESS_BYTES as usize;
        match kernel.kind_of(inst) {
            OpKind::Load => operands.len() == 2 && lanes(operands[1]) == 1 && fits(kernel.result(inst)),
            OpKind::Store => operands.len() == 3 && lanes(operands[1]) == 1 && fits(operands[2]),
            OpKind::LaneMask
            | OpKind::Lanes
            | OpKind::PickLanes
            | OpKind::ZipLanes
            | OpKind::UnzipLanes
            | OpKind::TransposeLanes
            | OpKind::DotLanes
            | OpKind::DotPairs => lanes(kernel.result(inst)) == 1,
            _ => true,
        }
    })
}

/// Returns the memory that a kernel accesses in vectors.
fn vector_memory(kernel: &Function, arguments: &[Argument]) -> Vec<Argument> {
    let mut found: Vec<Argument> = Vec::new();
    for inst in kernel.walk(kernel.body) {
        let operands = kernel.operands(inst);
        let is_vector = |value: Value| matches!(kernel.ty(value), Type::Vector { lanes, .. } if *lanes > 1);
        let (buffer, is_wide) = match kernel.kind_of(inst) {
            OpKind::Load => (operands[0], is_vector(kernel.result(inst))),
            OpKind::Store => (operands[0], is_vector(operands[2])),
            OpKind::CopyAsync => {
                let copied = kernel.inst(inst).attrs.first().and_then(Option::as_ref);
                (operands[2], !matches!(copied, Some(Attr::Int(1))))
            }
            _ => continue,
        };
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
