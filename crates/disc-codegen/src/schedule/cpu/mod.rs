//! Schedules for CPUs: work units on threads, vectors in lanes, task memory in caches.
pub(super) mod attention;
mod list;
pub(super) mod matmul;
mod pointwise;
pub(super) mod reduction;
pub(super) mod standalone;
mod window;
pub(super) mod winograd;

pub use attention::AttentionPlan;
pub(super) use attention::{Mask, Softmax, masks};
pub use matmul::{Tile, tile};
pub(super) use matmul::{depends, order};
pub use pointwise::versions as pointwise_versions;
pub use reduction::ReductionSchedule;
pub(super) use reduction::{Along, Combine, Placed, Reduction, schedule as reduction};
pub(super) use standalone::{Scan, Scatter, key, lines, order_of, schedule as standalone};

use super::{Group, Offers, Refusal, Request, Scheduled, Scheduler, Versioned, group::flat, space_of};
use disc_ir::{Diagnostic, FusionKind};

/// The schedules of CPUs.
pub(super) struct CpuScheduler;

impl Scheduler for CpuScheduler {
    fn schedule(&self, group: &Group<'_>, request: Request<'_>) -> Result<(Versioned, Option<String>), Diagnostic> {
        Ok(match of_kind(group, request) {
            Ok(Some(code)) => (code, None),
            Ok(None) => (in_loops(group), None),
            Err(Refusal::NoSchedule(reason)) if request.kind == FusionKind::Attention => {
                let function = flat(group.function);
                (in_loops(&Group { function: &function, ..group.clone() }), Some(reason))
            }
            Err(Refusal::NoSchedule(reason)) => (in_loops(group), Some(reason)),
            Err(Refusal::BadPlan(error)) => return Err(error),
        })
    }
}

/// Returns the code that the kind of a group promises, none if a loop nest is all it promises.
///
/// # Errors
/// The reason that the group does not get it.
fn of_kind(group: &Group<'_>, request: Request<'_>) -> Result<Option<Versioned>, Refusal> {
    let (function, solver) = (group.function, &group.solver);
    match request.kind {
        FusionKind::Reduction => {
            let decided = request.plan.expect("a reduction group carries its plan");
            Ok(Some(reduction::schedule(group, &ReductionSchedule::new(function, decided.clone()))))
        }
        FusionKind::Matmul => Ok(Some(matmul_versions(group, request.offers)?)),
        FusionKind::Convolution | FusionKind::Pooling => Ok(Some(window::schedule(group)?.into())),
        FusionKind::Attention => {
            AttentionPlan::of(function, solver, group.target).map(|plan| Some(attention::schedule(group, &plan)))
        }
        FusionKind::Pointwise if request.is_update => Ok(standalone::update(group).map(Versioned::from)),
        FusionKind::Pointwise => Ok(None),
        FusionKind::Standalone => Ok(standalone::schedule(group)),
    }
}

/// Returns the versions of a matmul: Winograd's method or split-K for some sizes, panels for the
/// others.
fn matmul_versions(group: &Group<'_>, offers: Offers) -> Result<Versioned, String> {
    if offers == Offers::AllProducts
        && let Some(offered) = matmul::offered(group)
    {
        return Ok(offered.into());
    }
    let mut versions = winograd::schedule(group);
    if versions.is_empty() {
        versions.extend(matmul::split_k(group));
    }
    let sites: usize = versions.iter().map(|version| version.code.sites.len()).sum();
    let rest = Group { first_site: group.first_site + sites as i64, ..group.clone() };
    let mut otherwise = matmul::schedule(&rest)?;
    if offers.has_products() {
        matmul::offer_products(&rest, &mut otherwise);
    }
    Ok(Versioned { versions, otherwise, ..Versioned::default() })
}

/// Returns loop nests for a group: one, one for each tensor of a list, or one for each output if
/// these have no space in common.
pub(super) fn in_loops(group: &Group<'_>) -> Versioned {
    if let Some(code) = list::schedule(group) {
        return code.into();
    }
    if space_of(group, &group.outputs()).is_some() {
        return pointwise::versions(group);
    }
    let mut all = Scheduled::default();
    for &position in &group.wanted {
        all.append(pointwise::schedule(&Group {
            wanted: vec![position],
            name: format!("{}_{position}", group.name).into(),
            first_site: group.first_site + all.sites.len() as i64,
            ..group.clone()
        }));
    }
    all.into()
}
