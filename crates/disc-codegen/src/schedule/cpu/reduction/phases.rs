//! Schedules few long rows with several phases, such as a softmax over a million elements: each
//! phase is reduced in parts by separate units, a small kernel adds the parts up, and a last kernel
//! writes the outputs, in parts too.
//!
//! The values that the schedule of whole rows keeps in task memory are kept in memory that all
//! parts share: in that of a later output, if that is possible ([`super::borrowed_outputs`]), so
//! that no more memory goes through the caches than the outputs have; otherwise in memory of the
//! version. The parts depend only on sizes, and so does the result.
use super::{
    Group, ReductionSchedule, Shape,
    borrowed_outputs::borrowed_outputs,
    plan::{Combine, Placed, Reduction},
    split::{InMemory, MANY, PARTS, Step, may_be_few, of_parts, part_kernel, parts_of, sum_kernels, workspace},
};
use crate::{
    kernel::compute_dtype,
    schedule::{Argument, Condition::Less, Scheduled, Version, VersionKind, Workspace},
};
use disc_ir::Dim;

versions! {
    /// The same for several phases, or for results as long as rows.
    SplitPhases {
        kernels: "`kN_reduction_splitP`, `kN_reduction_combineP` for each phase P, `kN_reduction_ends`",
        sizes: "fewer than 8 units, more than 2^17 elements; several phases, or results as long as rows",
        unit: "one of 32 parts of a row; for sums a row",
    }
}

/// With this many units there is work for most machines' threads without parts.
const FEW_UNITS: i64 = 8;

/// The version that splits rows of several phases, if that is possible and some sizes may need it.
pub(super) fn version(group: &Group<'_>, plan: &ReductionSchedule, shape: &Shape) -> Option<Version> {
    let solver = &group.solver;
    let is_plain = |r: &Reduction| {
        let dtype = group.tensor(group.function.result(r.inst)).dtype;
        matches!(r.combine, Combine::Plain(_)) && compute_dtype(dtype) == dtype
    };
    let whole = group.outputs().iter().any(|&output| plan.whole_output(solver, output, group.tensor(output)).is_some());
    let count = Dim::product(plan.layout.space.iter().cloned());
    let (units, kept_rows) = (shape.units(), Dim::product(shape.kept.iter().map(|run| run.size.clone())));
    if plan.last() == 0 || !whole || !plan.reductions.iter().all(is_plain) || !may_be_few(solver, plan, shape, FEW_UNITS, MANY) {
        return None;
    }
    // If the guard holds, there are no more rows than this.
    let most = FEW_UNITS * shape.width();
    let memory = |r: &Reduction| {
        let total = group.tensor(group.function.result(r.inst));
        [
            workspace(parts_of(total), &Dim::constant(PARTS), &kept_rows, most),
            workspace(total.clone(), &Dim::constant(1), &kept_rows, most),
        ]
    };
    let mut workspaces: Vec<Workspace> = plan.reductions.iter().flat_map(memory).collect();
    let in_place = |placed: &Placed| compute_dtype(group.tensor(placed.value).dtype) == group.tensor(placed.value).dtype;
    let kept: Vec<Placed> = plan.keep(group).into_iter().filter(in_place).collect();
    let lent = borrowed_outputs(group, plan, &kept);
    let mut elements: Vec<(Placed, Argument)> = Vec::new();
    for (placed, output) in kept.into_iter().zip(lent) {
        let memory = output.unwrap_or(Argument::Workspace(workspaces.len()));
        if output.is_none() {
            workspaces.push(workspace(group.tensor(placed.value).clone(), &plan.row_length(), &kept_rows, most));
        }
        elements.push((placed, memory));
    }
    let code = kernels(group, plan, shape, &kept_rows, &elements)?;
    let guard = vec![Less(units, Dim::constant(FEW_UNITS)), Less(Dim::constant(MANY), count)];
    Some(Version { kind: VersionKind::SplitPhases, guard, code, workspaces })
}

/// The kernels in their order: for each phase its parts and their sums, then the outputs.
fn kernels(
    group: &Group<'_>,
    plan: &ReductionSchedule,
    shape: &Shape,
    rows: &Dim,
    elements: &[(Placed, Argument)],
) -> Option<Scheduled> {
    let (mut code, mut sums, mut known) = (Scheduled::default(), Vec::new(), Vec::new());
    for phase in 0..plan.last() {
        let due: Vec<(Reduction, usize)> =
            plan.reductions.iter().enumerate().filter(|(_, r)| r.phase == phase).map(|(i, r)| (*r, 2 * i)).collect();
        let kept: Vec<(Placed, Argument)> =
            elements.iter().filter(|(placed, _)| plan.first_phase(placed.value) == phase).cloned().collect();
        let step = Step { suffix: format!("split{phase}"), known: &known, kept: &kept, due: &due, is_last: false };
        let made = part_kernel(&from(group, &code), plan, shape, rows, &step);
        append(&mut code, made);
        let totals: Vec<_> = due.iter().map(|(r, _)| group.function.result(r.inst)).collect();
        let targets: Vec<Argument> = due.iter().map(|&(_, parts)| Argument::Workspace(parts + 1)).collect();
        let (function, inputs) = of_parts(group, &due, &totals, &sums);
        let made = sum_kernels(&from(group, &code), &function, &inputs, &targets, &format!("combine{phase}"))?;
        append(&mut code, made);
        sums.extend(
            totals.into_iter().zip(&due).map(|(value, (_, parts))| InMemory { value, memory: Argument::Workspace(parts + 1) }),
        );
        known.extend_from_slice(&sums[sums.len() - due.len()..]);
        known.extend(kept.iter().map(|(placed, memory)| InMemory { value: placed.value, memory: *memory }));
    }
    let step = Step { suffix: "ends".into(), known: &known, kept: &[], due: &[], is_last: true };
    let made = part_kernel(&from(group, &code), plan, shape, rows, &step);
    append(&mut code, made);
    Some(code)
}

/// The group, with its next sites after those of the code that is already emitted.
fn from<'g>(group: &Group<'g>, code: &Scheduled) -> Group<'g> {
    Group { first_site: group.first_site + code.sites.len() as i64, ..group.clone() }
}

fn append(code: &mut Scheduled, more: Scheduled) {
    code.kernels.extend(more.kernels);
    code.launches.extend(more.launches);
    code.sites.extend(more.sites);
}
