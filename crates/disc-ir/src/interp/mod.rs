//! Defines the meaning of every op: a naive interpreter for all stages, the oracle of every
//! backend.
//!
//! Written for reading. Each op is evaluated index by index, in time linear in the elements it
//! touches, and nothing is optimised. It is not a way to run models.
//!
//! One file per family of the op table, with the same stem; [`table`] is the one place that maps
//! ops to meanings.
//!
//! Invariants:
//! - An element-wise op on floats is evaluated in f64 and rounded once, to the element type of its
//!   result. In f32, f16 and bf16 that is the nearest value for arithmetic, and the nearest but for
//!   rare ties for functions.
//! - Sums and products of floats (`reduce` and its kin with a single-op body, `dot_general`,
//!   `convolution`) accumulate in f64 and are rounded once. Other bodies, `scatter` and the lanes
//!   of kernels round at every op.
//! - Execution is bounded by [`Limits`]; a program that exceeds them fails with E0606.
//! - In kernels and host programs every access is checked: outside a buffer, of a byte that nothing
//!   wrote, or a write to an input that no result is stored into, is E0211.
mod call;
mod contraction;
mod control;
mod elementwise;
mod fused;
mod grid;
mod host;
mod index;
mod index_space;
mod kernel;
mod machine;
mod memory;
mod movement;
mod noise;
mod random;
mod reduce;
mod scalar;
mod sizes;
mod sort;
mod table;
mod tensor;
mod tiles;
mod window;

#[cfg(test)]
mod tests;

pub use noise::{Noisy, run_noisy};
pub(crate) use tensor::count as element_count;
pub use tensor::{Element, Tensor};

use crate::{
    diag::{Code, Diagnostic},
    graph::{FunctionKind, Module},
    types::Type,
};
use machine::{Machine, Val};
use std::rc::Rc;

/// The limits of one run.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Limits {
    /// Ops executed and elements computed, together.
    pub steps: u64,
    /// Bytes of all values that are alive.
    pub bytes: u64,
    /// Calls and regions within each other.
    pub depth: u32,
}

impl Default for Limits {
    fn default() -> Self {
        Self { steps: 1 << 32, bytes: 4 << 30, depth: 100 }
    }
}

/// Runs an entry of a module without weights, within the default limits.
///
/// # Errors
/// As [`run_with`].
pub fn run(module: &Module, entry: &str, inputs: &[Tensor]) -> Result<Vec<Tensor>, Diagnostic> {
    run_with(module, entry, inputs, &|_| None, Limits::default())
}

/// Runs an entry of a module: a `func`, or a `host` program with the kernels it launches. `weights`
/// returns weights by name.
///
/// # Errors
/// For inputs that do not fit the parameters or the facts (E0601, E0602), for a failure of the
/// program (E0603, E0604), for a program that is not well formed, and for one that exceeds the
/// limits (E0606).
pub fn run_with(
    module: &Module,
    entry: &str,
    inputs: &[Tensor],
    weights: &dyn Fn(&str) -> Option<Tensor>,
    limits: Limits,
) -> Result<Vec<Tensor>, Diagnostic> {
    run_entry(&mut Machine::new(module, weights, limits), entry, inputs)
}

fn run_entry(machine: &mut Machine<'_>, entry: &str, inputs: &[Tensor]) -> Result<Vec<Tensor>, Diagnostic> {
    let Some(function) = machine.module.function(entry) else {
        return Err(Diagnostic::new(Code::E0103, format!("there is no function @{entry}")));
    };
    match function.kind {
        FunctionKind::Func => {
            let values: Vec<Val> = inputs.iter().map(|tensor| Val::Tensor(Rc::new(tensor.clone()))).collect();
            machine.call(machine.variant_for(function, &values)?, values)?.into_iter().map(Val::into_tensor).collect()
        }
        FunctionKind::Host => {
            let types = function.parameters().iter().map(|&p| function.ty(p));
            let values = inputs.iter().zip(types.map(Some).chain(std::iter::repeat(None)));
            let values = values.enumerate().map(|(i, (tensor, ty))| match ty {
                Some(Type::Buffer { .. }) if function.is_written(i) => Val::Buffer(machine.memory.written_input(tensor)),
                Some(Type::Buffer { .. }) => Val::Buffer(machine.memory.input(tensor)),
                _ => Val::Tensor(Rc::new(tensor.clone())),
            });
            let values: Vec<Val> = values.collect();
            machine.call(machine.variant_for(function, &values)?, values.clone())?;
            for store in &function.stores {
                if let Some(Val::Buffer(buffer)) = values.get(store.parameter) {
                    machine.set_output(store.result as i64, buffer.clone())?;
                }
            }
            machine.outputs()
        }
        FunctionKind::Kernel | FunctionKind::Routine => {
            Err(Diagnostic::new(Code::E0601, format!("@{entry} is no entry: only a host program launches it")))
        }
    }
}
