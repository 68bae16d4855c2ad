//! Compares code for AArch64 with the interpreter, under qemu: the `run` tests of `filetests/`, the
//! matrix of ops and element types, and random programs. Compares packages with their code for this
//! machine.
//!
//! With `DISC_AARCH64=all` every target takes all of them. Otherwise each test runs on the target
//! that its name picks. `DISC_AARCH64_PACKAGES` names a folder of further packages.
mod emulator;
#[path = "../native/mod.rs"]
mod native;
mod packages;
#[path = "../suite/mod.rs"]
mod suite;
mod target;

use disc::ir::generate::cases::Shapes;
use disc_filetests::Compiled;
use libtest_mimic::Arguments;
use std::process::ExitCode;
use suite::{Suite, picked, some_shapes};
use target::TARGETS;

fn takes_all() -> bool {
    std::env::var_os("DISC_AARCH64").is_some_and(|value| value == "all")
}

/// Returns the targets that run a test.
fn targets(name: &str) -> Vec<&'static dyn Compiled> {
    let takes = |number: &usize| takes_all() || *number == picked(name, TARGETS.len());
    (0..TARGETS.len()).filter(takes).map(|number| &TARGETS[number] as &dyn Compiled).collect()
}

fn shapes(_: usize, op: usize) -> Vec<Shapes> {
    if takes_all() { Shapes::ALL.to_vec() } else { some_shapes(op) }
}

fn again(_: &dyn Compiled, number: u64) -> String {
    format!("DISC_AARCH64=all cargo test --package disc --test aarch64 -- --exact random/{number}")
}

fn main() -> ExitCode {
    if let Some(why) = emulator::missing() {
        println!("code for AArch64 cannot be run: {why}: skipped");
        return if takes_all() { ExitCode::FAILURE } else { ExitCode::SUCCESS };
    }
    let names: Vec<_> = TARGETS.iter().map(ToString::to_string).collect();
    println!("under qemu: {}", names.join(", "));
    let trials = Suite { compilers: targets, shapes, again }.trials().chain(packages::trials());
    let conclusion = libtest_mimic::run(&Arguments::from_args(), trials.collect());
    emulator::clean_up();
    println!("under qemu, with NEON and with SVE at vector lengths of 128, 256 and 512 bits:");
    println!("{} passed, {} failed", conclusion.num_passed, conclusion.num_failed);
    conclusion.exit_code()
}
