//! Splits few long rows over many blocks: each block reduces a part of a row, and a second kernel
//! combines the parts of each row in their order.
//!
//! Invariant: the number of parts is the same for all sizes and devices, so the order of sums is.
use super::{
    conditions::{at_least, at_most, can_hold, narrow_positions, narrowed},
    frame::GridFrame,
    rows::{Rows, monoid},
};
use crate::{
    kernel::compute_dtype,
    schedule::{
        Condition, Group, Scheduled, Version, VersionKind, Workspace,
        cpu::{Reduction, ReductionSchedule},
        version::aligned_bytes,
    },
    target::GpuModel,
};
use disc_ir::{Dim, TensorType, Value};

/// Parts of a row: as many as the smallest warp has lanes.
const PARTS: i64 = 32;
/// As many rows fill a device by themselves.
const MANY_ROWS: i64 = 128;
/// Shorter rows are not worth a second launch.
const LONG: i64 = 32 << 10;

/// Returns the version for few long rows, if all results have one element for each row.
pub(super) fn version(group: &Group<'_>, plan: &ReductionSchedule) -> Option<Version> {
    let is_single = |output: Value| plan.whole_output(&group.solver, output, group.tensor(output)).is_none();
    let is_plain = plan.last() == 1 && group.outputs().into_iter().all(is_single);
    let (kept, _) = plan.runs(group);
    let rows = Dim::product(kept.iter().map(|run| run.size.clone()));
    let mut guard: Vec<Condition> = narrow_positions(group);
    guard.extend(at_most(group, MANY_ROWS - 1, &rows));
    guard.extend(at_least(group, LONG, &plan.row_length()));
    if !is_plain || !can_hold(group, &guard) {
        return None;
    }
    if guard.is_empty() {
        // Code for all sizes has no memory of its own; that of a version has a guard.
        guard.push(Condition::Less(rows.clone(), Dim::constant(MANY_ROWS)));
    }
    let inside = narrowed(group, "split", &guard);
    let workspaces: Vec<Workspace> = plan.reductions.iter().map(|reduction| workspace(&inside, reduction, &rows)).collect();
    let mut code = parts(&inside, plan, &workspaces);
    let first_site = inside.first_site + code.sites.len() as i64;
    let rest = Group { first_site, name: format!("{}_combine", group.name).into(), ..inside };
    code.append(combine(&rest, plan, &workspaces));
    Some(Version { kind: VersionKind::GridSplit, guard, code, workspaces })
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
        let zero = kb.int(0);
        let is_first = kb.compare("EQ", here.member, zero);
        let open = kb.open_if(is_first);
        memory.iter().zip(totals).for_each(|(&memory, total)| kb.store(memory, here.block, total, None));
        kb.close_if(open);
    })
}

/// Writes the kernel whose warps combine the parts of rows.
fn combine(group: &Group<'_>, plan: &ReductionSchedule, workspaces: &[Workspace]) -> Scheduled {
    let warp = GpuModel::of(group.target).expect("a schedule of GPUs").warp;
    let rows = Rows::new(group, plan, (warp, 1));
    let mut frame = rows.frame();
    let memory = declare(&mut frame, workspaces);
    rows.scheduled_in(frame, 1, &|rows, frame, here| {
        for (reduction, &memory) in plan.reductions.iter().zip(&memory) {
            let kb = &mut frame.kb;
            // The halves of a warp of 64 lanes do the same.
            let count = kb.int(PARTS);
            let (lane, start) = (kb.rem(here.lane, count), kb.mul(here.number, count));
            let place = kb.add(start, lane);
            let part = kb.load(memory, place, 1, None);
            let total = kb.reduce_group(part, monoid(reduction).lane_reducer(), PARTS as u32);
            rows.make_known(frame, here, reduction, total);
        }
        rows.write_rows(frame, here);
    })
}
