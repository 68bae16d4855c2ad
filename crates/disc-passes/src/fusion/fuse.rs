//! Fuses the ops of each block into groups, one kind of merge after another.
use super::{emit, grouping::Grouping};
use crate::pass::{PassCx, PassDef};
use disc_ir::{Block, Diagnostic, Function, FunctionKind, Module, OpKind, Solver, ops::Stage};
use std::sync::Arc;

/// Puts ops that become one kernel into a `fusion` op.
pub static PASS: PassDef = PassDef {
    name: "fuse",
    doc: "Fuses ops that become one kernel into a `fusion` op.",
    stages: (Stage::Placed, Stage::Fused),
    run,
};

fn run(module: &mut Module, cx: &mut PassCx) -> Result<usize, Diagnostic> {
    let mut groups = 0;
    for function in &mut module.functions {
        if function.kind == FunctionKind::Func {
            let solver = Arc::new(Solver::new(&function.facts));
            groups += fuse_block(function, function.body, &solver, cx)?;
        }
    }
    Ok(groups)
}

/// Fuses the ops of a block, after those in the regions of its control flow.
fn fuse_block(function: &mut Function, block: Block, solver: &Arc<Solver>, cx: &mut PassCx) -> Result<usize, Diagnostic> {
    let mut groups = 0;
    for inst in function.insts(block).to_vec() {
        if matches!(function.kind_of(inst), OpKind::If | OpKind::While) {
            for region in function.inst(inst).regions.clone() {
                groups += fuse_block(function, region, solver, cx)?;
            }
        }
    }
    let model = cx.options.model.clone();
    let mut grouping = Grouping::new(function, block, solver, &*model);
    grouping.absorb_epilogues(cx);
    grouping.absorb_conversions(cx);
    grouping.merge_horizontally(cx);
    grouping.absorb_narrowings(cx);
    grouping.merge_reductions(cx);
    grouping.merge_scans(cx);
    grouping.merge_pointwise(cx);
    // A reduction may fuse with a pointwise group of several ops although none of them alone has
    // its shape.
    grouping.merge_reductions(cx);
    grouping.merge_joined(cx);
    grouping.merge_lists(cx);
    grouping.merge_beside(cx);
    grouping.sink_cheap(cx);
    let plan = grouping.finish();
    groups += plan.len();
    emit::rewrite(function, block, plan, solver)?;
    Ok(groups)
}
