//! Checks that every op has a place: the host program's, or that of a kernel.
//!
//! Scalars that are sizes are `dim` ops since `canonicalize`, those in short lists too, and a host
//! program computes them. Where it shares its memory with the device it reads the rest there; else
//! it computes what it needs of sizes and constants by itself, which the plan of the buffers
//! decides (`buffers/host_scalars.rs`), and fetches what depends on data.
use crate::pass::{PassCx, PassDef, well_formed};
use disc_ir::{Diagnostic, Module, ops::Stage};

/// Checks that every op has a place.
pub static PASS: PassDef = PassDef {
    name: "place",
    doc: "Checks that every op has a place: the host program computes sizes, kernels the rest. A scalar that a device without \
          shared memory would have to give back is computed by both.",
    stages: (Stage::Tensor, Stage::Placed),
    run,
};

fn run(module: &mut Module, _: &mut PassCx) -> Result<usize, Diagnostic> {
    well_formed(module, Stage::Placed).map(|()| 0)
}
