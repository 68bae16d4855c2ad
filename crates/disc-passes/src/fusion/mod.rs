//! Fusion: which ops become one kernel.
//!
//! Every op starts as a group of its own; groups that are joined by an edge are merged where one schedule can compute both, and no other
//! path connects them. What is free to compute again (constants, broadcasts, views of repeated lines, counting, slices) is copied into each
//! group that needs it; a reshape of memory is no work at all and stays outside, one between ops of a group lies inside. These kinds of
//! groups are built, in this order:
//! - *contraction*: a product and what is element-wise in its result, conversions of its operands, and others of the same rows;
//! - *row*: reductions over the same axes of one space, what feeds them and what depends on them;
//! - *single*, of a scan: what feeds it and what is computed from it, element by element over its shape; other ops with a schedule of their
//!   own stay alone;
//! - *loop*: element-wise and rearranging ops over one space.
//!
//! [`form`] decides whether a set of ops is a loop or a row group, and its cost model is: costly ops are computed once for each of their
//! elements (or once a row), everything else may be computed where it is used. Outputs that are transposed behind a reduction have their
//! place from [`order`]; what is read along rows at other places may be computed a row at a time ([`lines`]); [`copies`] bounds the code of ops
//! that are computed at several places; [`waits`] keeps loops apart for which several products would be in memory at once. At last groups beside one another are joined:
//! reductions of one tensor, loops over the rows of a tensor that is reduced, and small loops of one shape; and cheap
//! functions of what a group stores anyway move to the one group that needs them ([`sinking`]). [`explain`] says of each edge
//! that was not fused why.
//!
//! Passes of their own then join groups that share rows of scores ([`attention`]), and products with the loop that interleaves their results ([`interleaved`]).
//!
//! Invariants: the decision asks types and facts, never sizes; the groups form no cycle; every op is in exactly one group, except copies of
//! free ones.
pub mod attention;
pub(crate) mod binders;
pub(crate) mod carve;
mod copies;
mod emit;
mod epilogue;
mod explain;
mod form;
mod grouping;
pub mod interleaved;
mod legality;
pub mod lines;
mod merging;
mod nest;
mod order;
pub mod phases;
pub mod sharing;
mod siblings;
mod sinking;
pub mod space;
mod together;
mod waits;

pub use explain::{Edge, Plan, PlannedGroup, Reason, Siblings, explain};
pub use form::{Layout, SHORT_ROW, layout_of};
pub use legality::costly;

use crate::pass::{PassCx, PassDef};
use disc_ir::{Block, Diagnostic, Function, FunctionKind, Module, OpKind, Solver, ops::Stage};
use grouping::Grouping;
use std::sync::Arc;

/// Puts ops that become one kernel into a `fusion` op.
pub static PASS: PassDef = PassDef {
    name: "fuse",
    doc: "Puts ops that become one kernel into a `fusion` op.",
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

/// Fuses the ops of a block, after those of the regions of its control flow.
fn fuse_block(function: &mut Function, block: Block, solver: &Arc<Solver>, cx: &mut PassCx) -> Result<usize, Diagnostic> {
    let mut groups = 0;
    for inst in function.insts(block).to_vec() {
        if matches!(function.kind_of(inst), OpKind::If | OpKind::While) {
            for region in function.inst(inst).regions.clone() {
                groups += fuse_block(function, region, solver, cx)?;
            }
        }
    }
    let mut grouping = Grouping::new(function, block, solver);
    grouping.absorb_epilogues(cx);
    grouping.absorb_conversions(cx);
    grouping.merge_siblings(cx);
    grouping.merge_rows(cx);
    grouping.merge_scans(cx);
    grouping.merge_loops(cx);
    // A loop of several ops may be read by rows, or read them, where none of its ops alone has their shape.
    grouping.merge_rows(cx);
    grouping.merge_joined(cx);
    grouping.merge_beside(cx);
    grouping.sink_cheap(cx);
    let plan = grouping.finish();
    groups += plan.len();
    emit::rewrite(function, block, plan, solver)?;
    Ok(groups)
}
