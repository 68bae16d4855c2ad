//! Decides the memory space of values.
//!
//! On a target whose device is the host, there is nothing to decide: scalars that are sizes are
//! `dim` ops since `canonicalize`, which the host program computes, and kernels compute the rest in
//! memory that both sides see. The pass only checks the invariant of the stage.
use crate::pass::{PassCx, PassDef, well_formed};
use disc_ir::{Diagnostic, Module, ops::Stage};

/// Checks that every op has a place.
pub static PASS: PassDef = PassDef {
    name: "place",
    doc: "Decides which values are in host memory and which on the device: on a CPU all share one memory, and the pass only \
          checks the invariant of the stage.",
    stages: (Stage::Tensor, Stage::Placed),
    run,
};

fn run(module: &mut Module, _: &mut PassCx) -> Result<usize, Diagnostic> {
    well_formed(module, Stage::Placed).map(|()| 0)
}
