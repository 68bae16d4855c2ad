//! Schedules reductions along rows on a grid: the threads of a warp, of a part of it, or of a block
//! have a row together; a thread has a tiny one, or one whose neighbours in memory are other rows.
//!
//! Phases are those of the CPU's schedule: each computes the reductions that depend on earlier
//! ones. A row that fits is computed in registers: each thread computes the values of its elements
//! once, for all phases. A longer one is read again in each phase, from a cache.
//!
//! Invariants: a thread reads elements along the row at its own positions only, so a result may
//! take the memory of an input; all threads of a row meet at each reduction, whatever their number
//! of elements; sums are added in an order that depends only on sizes.
mod place;
mod reduce;
pub(in crate::schedule) mod split;
mod write;

use super::{
    candidates::{Candidate, Candidates},
    conditions::{at_least, at_most, divides},
    frame::{GridFrame, grid_of, warp_of},
    vectors::vector_lanes,
};
use crate::{
    schedule::{
        Group, Scheduled, VersionKind, Versioned,
        common::iteration_space::Merged,
        cpu::{Along, ReductionSchedule},
    },
    target::GpuModel,
};
use disc_ir::Grid;

versions! {
    /// Rows of a grid, of which a thread has one.
    ThreadRows {
        kernels: "`kN_reduction_thread`",
        sizes: "grids: rows that are known to have fewer than 8 elements, or whose neighbours in memory are other rows",
        unit: "a thread has a row",
    }

    /// Short rows of a grid, of which 8 threads of a warp have one in their registers.
    SubwarpRows {
        kernels: "`kN_reduction_subwarp`",
        sizes: "grids: rows of at most 32 elements",
        unit: "8 threads of a warp have a row, in registers, in vectors if 4 are known to divide its length",
    }

    /// Rows of a grid, of which a warp has one in its registers, in vectors.
    WarpRowVectors {
        kernels: "`kN_reduction_warp_v`",
        sizes: "grids: rows of 1 to 8 vectors of 16 bytes for each thread of a warp, else as `kN_pointwise_v`",
        unit: "a warp has a row in its registers",
    }

    /// Rows of a grid, of which a warp has one in its registers.
    WarpRows {
        kernels: "`kN_reduction_warp`",
        sizes: "grids: rows of 1 to 8 elements for each thread of a warp; all tensors have fewer than 2^31 elements",
        unit: "a warp has a row in its registers",
    }

    /// Rows of a grid, of which a block has one in its registers, in vectors.
    BlockRowVectors {
        kernels: "`kN_reduction_block_v`",
        sizes: "grids: rows of 1 to 8 vectors of 16 bytes for each of 256 threads, else as `kN_pointwise_v`",
        unit: "a block has a row in its registers",
    }

    /// Rows of a grid, of which a block has one, with positions of 32 bits.
    BlockRows {
        kernels: "`kN_reduction_block`",
        sizes: "grids: other rows, of tensors that have fewer than 2^31 elements",
        unit: "a block walks a row",
    }
}

/// The most elements of a row in the registers of a thread, or vectors of them.
const HELD: u32 = 8;
/// Threads have whole rows that are known to be shorter.
const TINY: i64 = 8;
/// The threads that have a short row together, and its most elements.
const SUBWARP: u32 = 8;
const SHORT: i64 = 32;

/// Schedules a group that has a plan; `None` if its rows are combined in an order of their own.
pub(super) fn versions(group: &Group<'_>, plan: &ReductionSchedule) -> Option<Versioned> {
    if !plan.in_any_order() {
        return None;
    }
    let (kept, reduced) = plan.runs(group);
    let mut candidates = Candidates::of(group);
    let by_threads = |group: &Group<'_>| Rows::new(group, plan, (1, 1)).looped();
    let are_beside = plan.along(&group.solver, &kept, &reduced) == Along::Kept;
    let length = plan.row_length();
    if are_beside || group.solver.range(&length).hi.is_some_and(|most| most < TINY) {
        return Some(candidates.in_narrow_positions((VersionKind::ThreadRows, "thread"), by_threads));
    }
    let lanes = vector_lanes(group).filter(|_| reduced.len() == 1);
    let divides_all = lanes.filter(|&lanes| divides(group, lanes, &length).is_none());
    add_held(&mut candidates, plan, (VersionKind::SubwarpRows, "subwarp"), (SUBWARP, divides_all.unwrap_or(1)));
    split::add_version(&mut candidates, plan);
    let warp = warp_of(group.target);
    if let Some(lanes) = lanes {
        add_held(&mut candidates, plan, (VersionKind::WarpRowVectors, "warp_v"), (warp, lanes));
        add_held(&mut candidates, plan, (VersionKind::BlockRowVectors, "block_v"), (GpuModel::THREADS, lanes));
    }
    add_held(&mut candidates, plan, (VersionKind::WarpRows, "warp"), (warp, 1));
    let by_blocks = |group: &Group<'_>| Rows::new(group, plan, (GpuModel::THREADS, 1)).looped();
    Some(candidates.in_narrow_positions((VersionKind::BlockRows, "block"), by_blocks))
}

/// Adds the version whose rows are held in the registers of `threads`.
fn add_held(
    candidates: &mut Candidates<'_>,
    plan: &ReductionSchedule,
    (kind, suffix): (VersionKind, &str),
    (threads, lanes): (u32, u32),
) {
    let (group, length, each) = (&candidates.next, plan.row_length(), i64::from(threads * lanes));
    let [least, most] = if threads == SUBWARP { [1, SHORT] } else { [each, each * i64::from(HELD)] };
    let conditions = [divides(group, lanes, &length), at_least(group, least, &length), at_most(group, most, &length)];
    let held = Candidate::new(kind, suffix, conditions.into_iter().flatten()).in_vectors(lanes);
    candidates.add(held, |group, _| Some(Rows::new(group, plan, (threads, lanes)).held()));
}

/// A kernel that computes rows.
struct Rows<'g> {
    group: &'g Group<'g>,
    plan: &'g ReductionSchedule,
    kept: Vec<Merged>,
    reduced: Vec<Merged>,
    /// The threads that have a row together: one, a part of a warp, a warp, or a block.
    threads: u32,
    lanes: u32,
    grid: Grid,
}

impl<'g> Rows<'g> {
    fn new(group: &'g Group<'g>, plan: &'g ReductionSchedule, (threads, lanes): (u32, u32)) -> Self {
        let (kept, reduced) = plan.runs(group);
        Self { group, plan, kept, reduced, threads, lanes, grid: grid_of(group.target) }
    }

    /// The rows of a block.
    fn rows(&self) -> u32 {
        self.grid.threads / self.threads
    }

    /// Writes the kernel whose rows are in registers.
    fn held(&self) -> Scheduled {
        self.scheduled(&|rows, frame, here| {
            let columns = rows.columns(&mut frame.kb, here);
            rows.each_phase(frame, here, &mut |rows, frame, _, start, step| {
                let mut carried = start.to_vec();
                for (at, exists) in &columns {
                    carried = step(rows, frame, at, *exists, &carried);
                }
                carried
            });
            rows.write_held(frame, here, &columns);
        })
    }

    /// Writes the kernel that walks a row in each phase.
    fn looped(&self) -> Scheduled {
        self.scheduled(&|rows, frame, here| {
            rows.each_phase(frame, here, &mut |rows, frame, here, start, step| rows.along(frame, here, start, step));
            if rows.outputs(frame, true).is_empty() {
                return;
            }
            let bounds = rows.bounds(&mut frame.kb, here);
            let open = frame.kb.open_for(bounds);
            frame.elements.open_scope();
            let at = rows.at(&mut frame.kb, here, open.index);
            rows.write_held(frame, here, &[(at, None)]);
            frame.elements.close_scope();
            frame.kb.close_for(open);
        })
    }

    /// Begins a kernel.
    fn frame(&self) -> GridFrame<'g> {
        GridFrame::new(self.group, self.lanes, self.grid)
    }
}
