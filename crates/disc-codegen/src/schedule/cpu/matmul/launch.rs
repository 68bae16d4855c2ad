//! Schedules the products of a group: a launch for each family of them that shares its rows.
use super::{
    emit::{
        blocks::Part,
        chunk::panels,
        operands::{self, Operands},
        pack, partition,
        routines::Routines,
    },
    group::plans,
    plan::{MatmulPlan, forms::RightForm},
};
use crate::{
    kernel::{Index, KernelBuilder},
    schedule::{
        Group, Launch, Scheduled,
        common::{iteration_space::place_unit, kernel_frame::GroupMemory},
    },
};
use disc_ir::{Dim, FunctionKind, Inst, Value};
use disc_kernel_macros::expr;
use std::collections::HashMap;

/// Schedules a group of products, or says why it cannot.
///
/// # Errors
/// A group without products, and a product of a form that no micro-kernel computes.
pub(in crate::schedule) fn schedule(group: &Group<'_>) -> Result<Scheduled, String> {
    schedule_without(group, &[])
}

/// Schedules all products of a group but some.
pub(in crate::schedule) fn schedule_without(group: &Group<'_>, products: &[Inst]) -> Result<Scheduled, String> {
    let mut families: Vec<Vec<MatmulPlan>> = Vec::new();
    for plan in plans(group)?.into_iter().filter(|plan| !products.contains(&plan.dot)) {
        match families.iter_mut().find(|family| are_siblings(group, &family[0], &plan)) {
            Some(family) => family.push(plan),
            None => families.push(vec![plan]),
        }
    }
    if let [family] = &families[..] {
        return Ok(launch(group, family));
    }
    let mut all = Scheduled::default();
    for (number, family) in families.iter().enumerate() {
        let wanted = |&position: &usize| family.iter().any(|plan| plan.outputs.contains(&group.output(position)));
        let one = Group {
            wanted: group.wanted.iter().copied().filter(wanted).collect(),
            name: format!("{}_{number}", group.name).into(),
            first_site: group.first_site + all.sites.len() as i64,
            solver: group.solver.clone(),
            ..*group
        };
        all.append(launch(&one, family));
    }
    Ok(all)
}

/// Returns true if products can share a launch: panels of weights, and the same rows with the same
/// dimensions as rows and as sums, so that the rows that one packs, and a panel that one converts
/// in turn, serve all.
fn are_siblings(group: &Group<'_>, a: &MatmulPlan, b: &MatmulPlan) -> bool {
    let same = |a: &Dim, b: &Dim| group.solver.equal(a, b);
    let mut runs = a.shape.outer.iter().zip(&b.shape.outer);
    a.right.form == RightForm::Panels
        && b.right.form == RightForm::Panels
        && a.left.form == b.left.form
        && a.left.operand.value == b.left.operand.value
        && a.left.operand.batch == b.left.operand.batch
        && a.left.operand.sum == b.left.operand.sum
        && a.shape.m.dim == b.shape.m.dim
        && same(&a.shape.k.size, &b.shape.k.size)
        && a.tile == b.tile
        && a.word == b.word
        && same(&a.shape.m.size, &b.shape.m.size)
        && a.most_rows() == b.most_rows()
        && a.shape.outer.len() == b.shape.outer.len()
        && runs.all(|(a, b)| a.run.axis == b.run.axis && same(&a.run.size, &b.run.size))
}

/// Emits one launch for all plans.
fn launch(group: &Group<'_>, plans: &[MatmulPlan]) -> Scheduled {
    let mut kb = group.builder(&group.name, FunctionKind::Kernel);
    let mut routines = Routines::default();
    let mut memory = GroupMemory::of_inputs(&mut kb, group, |input| plans.iter().any(|plan| plan.inputs.contains(&input)));
    memory.add_outputs(&mut kb, group);
    let [begin, end] = kb.units();
    let mut parts: Vec<Part<'_>> = Vec::new();
    // Products of the same rows pack them in the same memory, and their panels in turn in another.
    let mut task: HashMap<String, Value> = HashMap::new();
    let share = plans.len() > 1;
    for plan in plans {
        let of = |values: &[Value]| values.iter().map(|&value| memory.at(value)).collect();
        let (ins, outs) = (of(&plan.inputs), of(&plan.outputs));
        let operands = Operands::new(&mut kb, plan, ins, outs, &mut |kb, name, tensor| match share
            && [operands::ROWS, operands::PANEL].contains(&name)
        {
            true => *task.entry(name.to_owned()).or_insert_with(|| kb.scratch(tensor)),
            false => kb.scratch(tensor),
        });
        let name = routines.add(group, plan);
        let mut elements = operands.elements(group, plan, plan.tile.lanes);
        elements.first_site += routines.sites.len() as i64;
        parts.push(Part { plan, operands, name, elements });
    }
    let columns = Dim::sum(plans.iter().map(|plan| plan.column_units(group.target)));
    let (per_row, chunks) = (kb.dim(&columns), kb.dim(&plans[0].chunks()));
    let (one, none) = (kb.int(1), kb.int(-1));
    let packed: &[Value] = if plans[0].left.is_packed() { &[none] } else { &[] };
    kb.for_([begin, end, one], packed, |kb, unit, packed| {
        let (column, rest) = (expr!(kb, unit % per_row), expr!(kb, unit / per_row));
        let (chunk, batch) = (expr!(kb, rest % chunks), expr!(kb, rest / chunks));
        let mut at = vec![Index::uniform(kb.int(0)); plans[0].shape.rank];
        place_unit(kb, batch, &plans[0].shape.outer_runs(), &mut at);
        let rows = partition::chunk_rows(kb, &plans[0], chunk);
        // Units of one chunk follow one another: the first packs its rows for all.
        for &before in packed {
            let is_new = expr!(kb, before != rest);
            kb.when(is_new, |kb| {
                let Part { plan, operands, elements, .. } = &mut parts[0];
                pack::compute_rows(kb, plan, operands, elements, &at, rows);
            });
        }
        choose_part(kb, group, &mut parts, &at, rows, column);
        packed.iter().map(|_| rest).collect()
    });
    let kernel = kb.finish();
    let cost = Dim::sum(plans.iter().map(MatmulPlan::cost));
    let launch = Launch::new(&kernel, memory.arguments, plans[0].row_units() * columns, cost);
    let mut sites = routines.sites;
    parts.into_iter().for_each(|part| sites.extend(part.elements.sites));
    let kernels = [kernel].into_iter().chain(routines.functions).collect();
    Scheduled { kernels, launches: vec![launch], sites }
}

/// Dispatches on the part that a column unit belongs to.
fn choose_part(kb: &mut KernelBuilder, group: &Group<'_>, parts: &mut [Part<'_>], at: &[Index], rows: [Value; 2], unit: Value) {
    let Some((part, others)) = parts.split_first_mut() else { return };
    if others.is_empty() {
        return panels(kb, group, part, at, rows, unit);
    }
    let limit = kb.dim(&part.plan.column_units(group.target));
    let less = expr!(kb, unit < limit);
    let here = |kb: &mut KernelBuilder| {
        panels(kb, group, part, at, rows, unit);
        Vec::new()
    };
    let there = |kb: &mut KernelBuilder| {
        let rest = expr!(kb, unit - limit);
        choose_part(kb, group, others, at, rows, rest);
        Vec::new()
    };
    kb.if_(less, here, there);
}
