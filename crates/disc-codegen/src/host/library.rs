//! Writes the offers of a group's matmuls to a library of the device, before the choice among the
//! group's versions.
//!
//! If the library declines one of several matmuls, kernels compute all of them again.
use super::group::GroupCode;
use crate::schedule::{Argument, MatmulOffer};
use disc_ir::{Attr, Block, Builder, Diagnostic, Dim, Function, OpKind, Solver, Value};
use std::sync::Arc;

/// Writes the offers; returns a value of the host program that is true if the library computes all
/// of them, or `None` if nothing is offered.
pub(super) fn offer(
    host: &mut Function,
    block: Block,
    code: &GroupCode,
    memory: (&[Value], &[Value]),
    solver: &Arc<Solver>,
) -> Result<Option<Value>, Diagnostic> {
    let Some(kernel) = code.otherwise.first().map(|launch| launch.kernel.clone()) else { return Ok(None) };
    let mut builder = Builder::at(host, block, solver.clone());
    let mut all: Option<Value> = None;
    for offer in &code.library {
        let op = builder.op(OpKind::LibraryGemm).operands(&buffers(offer, memory)).attr("kernel", Attr::Symbol(kernel.clone()));
        let op = op.attr("product", product(offer)).attr("activation", Attr::Enum(offer.activation.name()));
        let taken = if offer.tf32 { op.attr("tf32", true) } else { op }.value()?;
        all = Some(match all {
            Some(all) => builder.op(OpKind::And).operands(&[all, taken]).value()?,
            None => taken,
        });
    }
    Ok(all)
}

/// Returns the memory of an offer, in the order of the op.
fn buffers(offer: &MatmulOffer, (inputs, outputs): (&[Value], &[Value])) -> Vec<Value> {
    let place = |argument: Argument| match argument {
        Argument::Input(position) => inputs[position],
        Argument::Output(position) => outputs[position],
        Argument::Workspace(_) | Argument::Product => unreachable!("a library reads and writes values of the group"),
    };
    [offer.left, offer.right, offer.result].into_iter().chain(offer.bias).map(place).collect()
}

/// Returns the attribute `product` of the op.
fn product(offer: &MatmulOffer) -> Vec<Dim> {
    offer.sizes.iter().chain(&offer.left_strides).chain(&offer.right_strides).cloned().collect()
}
