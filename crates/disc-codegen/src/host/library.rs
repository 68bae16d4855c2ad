//! Writes offers to a library of the device, before the choice among the versions of a group.
//!
//! If the library declines one of several offers, kernels compute all of them again.
use crate::schedule::{Argument, ConvolutionOffer, MatmulOffer, Offer};
use disc_ir::{Attr, Block, Builder, Diagnostic, Dim, Function, OpKind, Solver, Value};
use std::sync::Arc;

/// The memory of a group: its inputs, its outputs, and the results of a library.
#[derive(Clone, Copy)]
pub(super) struct Memory<'m> {
    pub(super) inputs: &'m [Value],
    pub(super) outputs: &'m [Value],
    pub(super) products: &'m [Value],
}

/// Writes offers; returns a value of the host program that is true if the library computes all of
/// them. `kernel` is the first one that computes the group otherwise.
pub(super) fn offer(
    host: &mut Function,
    block: Block,
    offers: &[Offer],
    kernel: &Arc<str>,
    memory: Memory<'_>,
    solver: &Arc<Solver>,
) -> Result<Option<Value>, Diagnostic> {
    let mut builder = Builder::at(host, block, solver.clone());
    let mut all: Option<Value> = None;
    for offer in offers {
        let taken = write(&mut builder, offer, kernel, memory)?;
        all = Some(match all {
            Some(all) => builder.op(OpKind::And).operands(&[all, taken]).value()?,
            None => taken,
        });
    }
    Ok(all)
}

/// Writes one offer; returns the answer.
fn write(builder: &mut Builder<'_>, offer: &Offer, kernel: &Arc<str>, memory: Memory<'_>) -> Result<Value, Diagnostic> {
    let (kind, arguments, bias) = match offer {
        Offer::Matmul(offer) => {
            let MatmulOffer { left, right, result, bias, .. } = &**offer;
            (OpKind::LibraryGemm, [left, right, result], bias)
        }
        Offer::Convolution(offer) => {
            let ConvolutionOffer { input, filter, result, bias, .. } = &**offer;
            (OpKind::LibraryConvolution, [input, filter, result], bias)
        }
    };
    let place = |argument: &Argument| match *argument {
        Argument::Input(position) => memory.inputs[position],
        Argument::Output(position) => memory.outputs[position],
        Argument::Workspace(position) => memory.products[position],
        Argument::Product => unreachable!("a library of a GPU writes memory of the group or of its arena"),
    };
    let buffers: Vec<Value> = arguments.into_iter().chain(bias).map(place).collect();
    let op = builder.op(kind).operands(&buffers).attr("kernel", Attr::Symbol(kernel.clone()));
    let (op, activation, tf32) = match offer {
        Offer::Matmul(offer) => (op.attr("product", product(offer)), offer.activation, offer.tf32),
        Offer::Convolution(offer) => {
            let op = op.attr("sizes", offer.sizes.to_vec()).attr("strides", offer.strides.to_vec());
            (op.attr("window", offer.window.to_vec()), offer.activation, offer.tf32)
        }
    };
    let op = op.attr("activation", Attr::Enum(activation.name()));
    if tf32 { op.attr("tf32", true) } else { op }.value()
}

/// Returns the attribute `product` of an offer.
fn product(offer: &MatmulOffer) -> Vec<Dim> {
    offer.sizes.iter().chain(&offer.left_strides).chain(&offer.right_strides).cloned().collect()
}
