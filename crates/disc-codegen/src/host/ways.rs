//! Writes the choice among the implementations of a group: a library, a version, or the code for
//! all sizes.
//!
//! The ways are nested `if`s. The results of a library that kernels go on with have memory in the
//! arena, as workspaces of versions do.
use super::{
    dispatch::{Workspace, guard, launch, writes_over},
    group::{GroupCode, RestCode},
    library::{self, Memory},
};
use disc_ir::{Block, Builder, Diagnostic, Function, OpKind, Solver, Value};
use std::sync::Arc;

/// Writes the implementations of a group, of which a call takes the first that it can: those by a
/// library, versions, and the code for all sizes.
pub(super) fn write_group(
    host: &mut Function,
    block: Block,
    code: &GroupCode,
    (inputs, outputs): (&[Value], &[Value]),
    arena: &mut Option<Workspace>,
    solver: &Arc<Solver>,
) -> Result<(), Diagnostic> {
    let memory = [inputs, outputs].concat();
    let (mut target, mut branches) = (block, Vec::new());
    for way in &code.library {
        let Some(kernel) = code.otherwise.first().map(|launch| &launch.kernel) else { break };
        let needed = way.rest.as_ref().map_or(&[][..], |rest| &rest.products);
        if !Workspace::has_room(host, needed) {
            continue;
        }
        let products = match arena {
            Some(arena) if !needed.is_empty() => arena.take(host, target, needed, solver)?,
            _ => Vec::new(),
        };
        let offered = Memory { inputs, outputs, products: &products };
        let Some(taken) = library::offer(host, target, &way.offers, kernel, offered, solver)? else { continue };
        let [then, otherwise] = branch(host, target, taken, solver)?;
        if let Some(RestCode { inputs: read, code, .. }) = &way.rest {
            let inputs: Vec<Value> = read.iter().map(|&position| inputs[position]).chain(products).collect();
            write_group(host, then, code, (&inputs, outputs), arena, solver)?;
        }
        Builder::at(host, then, solver.clone()).ret(&[])?;
        branches.push(otherwise);
        target = otherwise;
    }
    for version in &code.versions {
        if !Workspace::has_room(host, &version.workspaces) || writes_over(host, version, &memory, inputs.len()) {
            continue;
        }
        let holds = guard(host, target, version, (inputs, outputs), solver)?;
        let [then, otherwise] = branch(host, target, holds, solver)?;
        let arena = arena.as_mut().expect("a host program has an arena");
        let workspaces = arena.take(host, then, &version.workspaces, solver)?;
        launch(host, then, &version.code.launches, &memory, inputs.len(), &workspaces, solver)?;
        Builder::at(host, then, solver.clone()).ret(&[])?;
        branches.push(otherwise);
        target = otherwise;
    }
    launch(host, target, &code.otherwise, &memory, inputs.len(), &[], solver)?;
    branches.into_iter().try_for_each(|branch| Builder::at(host, branch, solver.clone()).ret(&[]).map(drop))
}

/// Writes an `if`; returns its branches.
fn branch(host: &mut Function, block: Block, holds: Value, solver: &Arc<Solver>) -> Result<[Block; 2], Diagnostic> {
    let branches = [host.add_block(), host.add_block()];
    let [then, otherwise] = branches;
    Builder::at(host, block, solver.clone()).op(OpKind::If).operands(&[holds]).region(then).region(otherwise).build()?;
    Ok(branches)
}
