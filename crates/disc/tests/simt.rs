//! Compares programs on the simulated GPUs with the interpreter: the `run` tests of `filetests/`,
//! the matrix of ops and element types, and random programs.
//!
//! All of them run on an NVIDIA GPU; a third also on one of AMD's with warps of 64 threads, another
//! third on one with 32.
mod native;
mod suite;

use disc::ir::generate::cases::Shapes;
use disc_filetests::Compiled;
use libtest_mimic::Arguments;
use std::process::ExitCode;
use suite::{SEED, Suite, picked, some_shapes};

/// Returns the devices that run a test: NVIDIA's, and the one that its name picks.
fn devices(name: &str) -> Vec<&'static dyn Compiled> {
    let devices = native::simulated();
    let other = picked(name, devices.len());
    [0, other][..=usize::from(other > 0)].iter().map(|&number| devices[number]).collect()
}

fn shapes(device: usize, op: usize) -> Vec<Shapes> {
    if device == 0 { some_shapes(op) } else { vec![Shapes::ALL[op % Shapes::ALL.len()]] }
}

fn again(device: &dyn Compiled, number: u64) -> String {
    format!("cargo xtask soak --seed {SEED} --first {number} --graphs 1 --target {}", device.name())
}

fn main() -> ExitCode {
    let trials = Suite { compilers: devices, shapes, again }.trials();
    libtest_mimic::run(&Arguments::from_args(), trials.collect()).exit_code()
}
