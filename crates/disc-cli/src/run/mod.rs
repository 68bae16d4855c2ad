//! Runs an entry: reads inputs and weights, calls a device, and formats the results.
mod arguments;
mod braces;
mod cpu;
mod inputs;
mod signature;
mod values;

pub(crate) use arguments::{Given, Input, On, RunArguments, Size, ValueArguments, input};
pub(crate) use cpu::{Caller, Loaded};
pub(crate) use inputs::{Data, Integers, entry, several, weights};
pub(crate) use signature::module_of;
pub(crate) use values::{describe, difference, difference_beyond, json, summary};

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
        On::Cpu => cpu::run_once(module, entry, &data.inputs, &data.weights, options),
    }
}
