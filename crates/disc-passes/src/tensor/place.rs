//! Decides where values live.
//!
//! On a target whose device is the host there is nothing to decide: scalars that are sizes are `dim` ops since `canonicalize`, which the
//! host program computes; everything else is computed by kernels in memory that both see. What is left is the promise of the stage.
use crate::pass::{PassCx, PassDef, well_formed};
use disc_ir::{Diagnostic, Module, ops::Stage};

/// Checks that every op has a place.
pub static PASS: PassDef = PassDef {
    name: "place",
    doc: "Decides which values live on the host and which on the device: on a CPU, all live in one memory, and the pass only checks that every op \
          is legal from here on.",
    stages: (Stage::Tensor, Stage::Placed),
    run,
};

fn run(module: &mut Module, _: &mut PassCx) -> Result<usize, Diagnostic> {
    well_formed(module, Stage::Placed).map(|()| 0)
}
