//! Splits few long rows over many blocks: each block reduces a part of a row, and a second kernel
//! combines the parts of each row in their order.
//!
//! Invariant: the number of parts is the same for all sizes and devices, so the order of sums is.
use super::{Rows, reduce::monoid};
use crate::{
    kernel::compute_dtype,
    schedule::{
        Group, Scheduled, VersionKind, Workspace,
        cpu::{Reduction, ReductionSchedule},
        gpu::{
            candidates::{Candidate, Candidates},
            conditions::{at_least, at_most},
            frame::{GridFrame, warp_of},
        },
        version::aligned_bytes,
    },
    target::GpuModel,
};
use disc_ir::{Dim, TensorType, Value};
use disc_kernel_macros::expr;
use std::sync::Arc;

versions! {
    /// Few long rows of a grid, in parts that are combined.
    GridSplit {
        kernels: "`kN_reduction_split` and `kN_reduction_combine` on grids",
        sizes: "grids: fewer than 128 rows of at least 2^15 elements; results of one element for each row",
        unit: "a block has one of 32 parts of a row; then a warp has a row",
    }
}

/// Parts of a row: as many as the smallest warp has lanes.
const PARTS: i64 = 32;
/// As many rows fill a device by themselves.
const MANY_ROWS: i64 = 128;
/// Shorter rows are not worth a second launch.
const LONG: i64 = 32 << 10;

/// Adds the version for few long rows, if all results have one element for each row.
pub(super) fn add_version(candidates: &mut Candidates<'_>, plan: &ReductionSchedule) {
    let group = &candidates.next;
    let is_single = |output: Value| plan.whole_output(&group.solver, output, group.tensor(output)).is_none();
    if plan.last() != 1 || !group.outputs().into_iter().all(is_single) {
        return;
    }
    let (kept, _) = plan.runs(group);
    let rows = Dim::product(kept.iter().map(|run| run.size.clone()));
    let conditions = [at_most(group, MANY_ROWS - 1, &rows), at_least(group, LONG, &plan.row_length())];
    let workspaces = plan.reductions.iter().map(|reduction| workspace(group, reduction, &rows)).collect();
    let combine_name: Arc<str> = format!("{}_combine", group.name).into();
    let split = Candidate::new(VersionKind::GridSplit, "split", conditions.into_iter().flatten()).with_workspaces(workspaces);
    candidates.add(split, |group, workspaces| {
        let mut code = parts(group, plan, workspaces);
        let combining = Group { name: combine_name, ..group.clone() };
        code.append_of(&combining, |group| combine(group, plan, workspaces));
        Some(code)
    });
}

/// The memory for the parts of a reduction, row by row.
fn workspace(group: &Group<'_>, reduction: &Reduction, rows: &Dim) -> Workspace {
    let input = group.function.operands(reduction.inst)[0];
    let tensor = TensorType::new([rows * PARTS], compute_dtype(group.tensor(input).dtype));
    let most = TensorType::new([Dim::constant(MANY_ROWS * PARTS)], tensor.dtype);
    Workspace { bytes: aligned_bytes(&tensor), most: Some(aligned_bytes(&most)), tensor }
}

/// Declares the memory of the parts.
fn declare(frame: &mut GridFrame<'_>, workspaces: &[Workspace]) -> Vec<Value> {
    let GridFrame { kb, memory, .. } = frame;
    let each = workspaces.iter().enumerate();
    each.map(|(i, workspace)| memory.add_workspace(kb, &format!("parts{i}"), i, workspace.tensor.clone())).collect()
}

/// Writes the kernel whose blocks reduce parts of rows.
fn parts(group: &Group<'_>, plan: &ReductionSchedule, workspaces: &[Workspace]) -> Scheduled {
    let rows = Rows::new(group, plan, (GpuModel::THREADS, 1));
    let mut frame = rows.frame();
    let memory = declare(&mut frame, workspaces);
    rows.scheduled_in(frame, PARTS, &|rows, frame, here| {
        let totals = rows.totals(frame, here);
        let kb = &mut frame.kb;
        let is_first = expr!(kb, here.member == 0);
        kb.when(is_first, |kb| {
            memory.iter().zip(totals).for_each(|(&memory, total)| kb.store(memory, here.block, total, None));
        });
    })
}

/// Writes the kernel whose warps combine the parts of rows.
fn combine(group: &Group<'_>, plan: &ReductionSchedule, workspaces: &[Workspace]) -> Scheduled {
    let rows = Rows::new(group, plan, (warp_of(group.target), 1));
    let mut frame = rows.frame();
    let memory = declare(&mut frame, workspaces);
    rows.scheduled_in(frame, 1, &|rows, frame, here| {
        for (reduction, &memory) in plan.reductions.iter().zip(&memory) {
            let kb = &mut frame.kb;
            // The halves of a warp of 64 lanes do the same.
            let count = kb.int(PARTS);
            let lane = expr!(kb, here.lane % count);
            let place = expr!(kb, here.number * count + lane);
            let part = kb.load(memory, place, 1, None);
            let total = kb.reduce_group(part, monoid(reduction).lane_reducer(), PARTS as u32);
            rows.make_known(frame, here, reduction, total);
        }
        rows.write_rows(frame, here);
    })
}
