//! Attention with any function of rows between the products.
//!
//! A work unit packs the operands that need it once. Then, for each block of as many rows as a tile
//! has, it computes the scores, their function in place, and the second product. The memory for
//! scores grows with the number of columns.
use super::plan::AttentionPlan;
use crate::{
    element::{Elements, RowBlock},
    kernel::{Index, Site},
    schedule::{
        Argument, Group, Launch, Scheduled,
        common::{iteration_space::place_unit, kernel_frame::GroupMemory},
        cpu::{
            matmul::{BlockProduct, RowsOf, chunk_rows, count_sites, for_row_blocks, merge_sites},
            reduction::{self, Rows},
        },
    },
};
use disc_ir::{Function, FunctionKind, Value};
use disc_kernel_macros::expr;
use std::collections::HashMap;

/// Schedules a group with any function of rows.
pub(super) fn schedule(group: &Group<'_>, plan: &AttentionPlan) -> Scheduled {
    let scores = plan.part(group, 0, group.first_site);
    let mut routines = BlockProduct::routines(&scores, &plan.scores);
    let rows_site = group.first_site + count_sites(&routines);
    let softmax = plan.part(group, 1, rows_site);
    let (kernel, arguments, rows_sites) = kernel(group, plan, &scores, &softmax);
    let weighted = plan.part(group, 2, rows_site + rows_sites.len() as i64);
    let mut sites: Vec<Site> = Vec::new();
    merge_sites(&mut sites, &routines);
    sites.extend(rows_sites);
    let last = BlockProduct::routines(&weighted, &plan.weighted);
    merge_sites(&mut sites, &last);
    routines.extend(last);
    let launch = Launch::new(&kernel, arguments, plan.units(), plan.cost(&softmax));
    let kernels = [kernel].into_iter().chain(routines.into_iter().map(|(routine, _)| routine)).collect();
    Scheduled { kernels, launches: vec![launch], sites }
}

/// Emits the kernel of whole rows, with its arguments and its sites of failure.
fn kernel(
    group: &Group<'_>,
    plan: &AttentionPlan,
    scores: &Group<'_>,
    softmax: &Group<'_>,
) -> (Function, Vec<Argument>, Vec<Site>) {
    let mut kb = group.builder(&group.name, FunctionKind::Kernel);
    let GroupMemory { sources, targets, arguments } = GroupMemory::of(&mut kb, group);
    let mut memory: HashMap<Value, Value> = sources.into_iter().chain(targets).collect();
    let [begin, end] = kb.units();
    // One block of memory holds the scores, and then their function.
    let block = kb.scratch(plan.scores.row_block(group.tensor(plan.made[0])));
    memory.extend([(plan.made[0], block), (plan.made[1], block)]);

    let first = BlockProduct::new(&mut kb, scores, &plan.scores, &plan.memory_of(0, &memory));
    let weighted = plan.part(group, 2, 0);
    let last = BlockProduct::new(&mut kb, &weighted, &plan.weighted, &plan.memory_of(2, &memory));
    let mut walk = Rows::new(&mut kb, softmax, &plan.rows, vec![block]);
    let lanes = reduction::lanes(softmax, &plan.rows);
    let mut elements = Elements::new(softmax.function, softmax.solver.clone(), lanes, group.target);
    elements.first_site = softmax.first_site;
    for (&parameter, read) in softmax.inputs().iter().zip(&plan.reads[1]) {
        elements.bind(parameter, memory[read]);
    }
    let (zero, one) = (kb.int(0), kb.int(1));
    kb.for_each([begin, end, one], |kb, unit| {
        let mut at = vec![Index::uniform(zero); plan.rows.domain.len()];
        let chunks = kb.dim(&plan.scores.chunks());
        let (chunk, batch) = (expr!(kb, unit % chunks), expr!(kb, unit / chunks));
        place_unit(kb, batch, &plan.scores.shape.outer_runs(), &mut at);
        let ([queries, keys], [_, values]) = (first.bases(kb, &at), last.bases(kb, &at));
        let [score_panels, panels] = [&plan.scores, &plan.weighted].map(|product| kb.dim(&product.panels()));
        first.pack(kb, &at, keys, [zero, score_panels]);
        last.pack(kb, &at, values, [zero, panels]);
        let rows = chunk_rows(kb, &plan.scores, chunk);
        for_row_blocks(kb, &plan.scores, rows, |kb, _, [start, height]| {
            let left = expr!(kb, queries + start * dim(&plan.scores.shape.m.left));
            first.run(kb, &at, keys, RowsOf { left, first: start, height }, [zero, score_panels, zero], &[zero]);
            let stride = kb.dim(&plan.stride());
            elements.hold_rows(block, RowBlock { axis: plan.row_axis(), first: start, column: zero, stride });
            let stop = expr!(kb, start + height);
            kb.for_each([start, stop, one], |kb, row| {
                elements.scoped(|elements| {
                    let mut here = at.clone();
                    here[plan.rows.rows - 1] = Index::uniform(row);
                    walk.run(kb, elements, &here);
                });
            });
            last.run(kb, &at, values, RowsOf { left: zero, first: start, height }, [zero, panels, zero], &[]);
        });
    });
    (kb.finish(), arguments, elements.sites)
}
