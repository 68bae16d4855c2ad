//! Schedules for GPUs: blocks of threads on a grid, memory that a block shares.
//!
//! Every group has code from the first day: the schedules of [`tasks`] make each unit of work a
//! thread. Faster ones replace them kind by kind.
mod align;
mod attention;
mod bitonic;
mod candidates;
mod conditions;
mod few_rows;
mod frame;
mod nonzero;
mod ordered;
mod pointwise;
mod prefix;
mod products;
mod rows;
mod scan;
mod scatter;
mod split;
mod standalone;
mod tasks;
mod transpose;
mod update;

use super::{
    Group, Refusal, Request, Scheduler, Versioned,
    cpu::{self, ReductionSchedule},
    group::flat,
    space_of,
};
use disc_ir::{Diagnostic, FusionKind};

/// The schedules of GPUs.
pub(super) struct GpuScheduler;

impl Scheduler for GpuScheduler {
    fn schedule(&self, group: &Group<'_>, request: Request<'_>) -> Result<(Versioned, Option<String>), Diagnostic> {
        match of_kind(group, request) {
            Ok(Some(code)) => return Ok((code, None)),
            Ok(None) => {}
            Err(reason) => {
                let function = flat(group.function);
                let flat = Group { function: &function, ..group.clone() };
                return Ok((tasks::on_grid(cpu::in_loops(&flat), group.target), Some(reason)));
            }
        }
        let (code, reason) = match units(group, request) {
            Ok(code) => (code, None),
            Err(Refusal::NoSchedule(reason)) => (cpu::in_loops(group), Some(reason)),
            Err(Refusal::BadPlan(error)) => return Err(error),
        };
        Ok((tasks::on_grid(code, group.target), reason))
    }
}

/// Returns the code of a group whose kind has a schedule of its own.
///
/// # Errors
/// The reason that the group is computed by loops.
fn of_kind(group: &Group<'_>, request: Request<'_>) -> Result<Option<Versioned>, String> {
    Ok(match request.kind {
        FusionKind::Pointwise if request.is_update => update::versions(group),
        FusionKind::Pointwise => space_of(group, &group.outputs()).map(|_| pointwise::versions(group)),
        FusionKind::Reduction => {
            let decided = request.plan.expect("a reduction group carries its plan");
            rows::versions(group, &ReductionSchedule::new(group.function, decided.clone()))
        }
        FusionKind::Matmul => Some(products::versions(group)?),
        FusionKind::Attention => Some(attention::versions(group)?),
        FusionKind::Standalone => standalone::versions(group),
        _ => None,
    })
}

/// Returns the units of work of a group, one lane wide.
///
/// # Errors
/// A kind of group whose schedules are a CPU's alone: registers and caches decide them.
fn units(group: &Group<'_>, request: Request<'_>) -> Result<Versioned, Refusal> {
    match request.kind {
        FusionKind::Reduction => {
            let decided = request.plan.expect("a reduction group carries its plan");
            Ok(cpu::reduction(group, &ReductionSchedule::new(group.function, decided.clone())))
        }
        FusionKind::Pointwise if request.is_update => {
            Ok(cpu::update(group).map_or_else(|| cpu::in_loops(group), Versioned::from))
        }
        FusionKind::Standalone => Ok(cpu::standalone(group).unwrap_or_else(|| cpu::in_loops(group))),
        FusionKind::Pointwise => Ok(cpu::in_loops(group)),
        FusionKind::Matmul | FusionKind::Attention => unreachable!("products have schedules of their own"),
        FusionKind::Convolution | FusionKind::Pooling => {
            Err(format!("a thread computes an element of a group of kind {}", request.kind.name()).into())
        }
    }
}
