//! Schedules groups on GPUs: blocks of threads, and memory that the threads of a block share.
//!
//! Every group has code. One without a schedule here, such as a reduction in an order of its own,
//! gets the CPU's, with each unit of work on a thread: [`tasks`]. One that no schedule of its kind
//! accepts is computed element by element: [`pointwise::in_elements`].
mod align;
pub(super) mod attention;
mod bitonic;
mod candidates;
mod conditions;
mod fragments;
mod frame;
mod library;
pub(super) mod matmul;
pub(super) mod nonzero;
pub(super) mod ordered;
pub(super) mod pointwise;
mod prefix;
pub(super) mod rows;
pub(super) mod scan;
mod scatter;
mod standalone;
mod tasks;
pub(super) mod transpose;
mod update;
mod vectors;

use super::{
    Group, Request, Scheduler, Versioned,
    cpu::{self, ReductionSchedule},
    group::flat,
};
use disc_ir::{Diagnostic, FusionKind};

/// The schedules of GPUs.
pub(super) struct GpuScheduler;

impl Scheduler for GpuScheduler {
    fn schedule(&self, group: &Group<'_>, request: Request<'_>) -> Result<(Versioned, Option<String>), Diagnostic> {
        match of_kind(group, request) {
            Ok(Some(code)) => Ok((code, None)),
            Ok(None) => Ok((tasks::on_grid(units(group, request), group.target), None)),
            Err(reason) => {
                let function = flat(group.function);
                let code = pointwise::in_elements(&Group { function: &function, ..group.clone() });
                Ok((library::with_offers(code, group, request.offers), Some(reason)))
            }
        }
    }
}

/// Returns the code of a group whose kind has a schedule of its own.
///
/// # Errors
/// The reason that each element of the group is computed by itself.
fn of_kind(group: &Group<'_>, request: Request<'_>) -> Result<Option<Versioned>, String> {
    Ok(match request.kind {
        FusionKind::Pointwise if request.is_update => update::versions(group).or_else(|| Some(pointwise::in_elements(group))),
        // Neighbouring windows read neighbouring elements.
        FusionKind::Pointwise | FusionKind::Pooling => Some(pointwise::in_elements(group)),
        FusionKind::Reduction => {
            let decided = request.plan.expect("a reduction group carries its plan");
            rows::versions(group, &ReductionSchedule::new(group.function, decided.clone()))
        }
        FusionKind::Matmul => Some(library::with_offers(matmul::versions(group)?, group, request.offers)),
        FusionKind::Attention => Some(attention::versions(group)?),
        FusionKind::Standalone => standalone::versions(group),
        FusionKind::Convolution => return Err("a thread computes an element of a group of kind convolution".into()),
    })
}

/// Returns the units of work of a group that has no schedule of its own, one lane wide.
fn units(group: &Group<'_>, request: Request<'_>) -> Versioned {
    match request.kind {
        FusionKind::Reduction => {
            let decided = request.plan.expect("a reduction group carries its plan");
            cpu::reduction(group, &ReductionSchedule::new(group.function, decided.clone()))
        }
        FusionKind::Standalone => cpu::standalone(group).unwrap_or_else(|| cpu::in_loops(group)),
        kind => unreachable!("groups of kind {} have a schedule of their own", kind.name()),
    }
}
