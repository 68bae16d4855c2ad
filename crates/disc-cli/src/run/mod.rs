//! Runs an entry: reads inputs and weights, calls a device, and formats the results.
mod arguments;
mod cpu;
mod inputs;
mod values;

pub(crate) use arguments::{On, RunArguments};
pub(crate) use cpu::Loaded;
pub(crate) use inputs::{Data, entry};
pub(crate) use values::{describe, difference, json, summary};

use crate::answer::diagnostics;
use disc_ir::{
    Diagnostic, Module,
    interp::{Limits, Tensor, run_with},
};

/// Runs an entry on the interpreter or compiled. Returns its results.
///
/// # Errors
/// Those of compiling and of the run.
pub(crate) fn run(
    module: &Module,
    entry: &str,
    data: &Data,
    on: On,
    options: &disc::Options,
) -> Result<Vec<Tensor>, Vec<Diagnostic>> {
    match on {
        On::Interpreter => run_with(module, entry, &data.inputs, &|name| data.weights.get(name).cloned(), Limits::default())
            .map_err(|error| vec![error]),
        On::Cpu => {
            let loaded = Loaded::new(module.clone(), entry, &data.weights, options).map_err(diagnostics)?;
            loaded.run(&data.inputs).map_err(diagnostics)
        }
    }
}
