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
mod target;

use disc::ir::{
    generate::cases::Shapes,
    ops::{OPS, OpDef},
};
use disc_filetests::{Checked, Compiled, check_file, corpus, matrix, soak};
use libtest_mimic::{Arguments, Failed, Trial};
use std::{
    path::{Path, PathBuf},
    process::ExitCode,
};
use target::TARGETS;

/// Random programs, and the sizes that each gets.
const PROGRAMS: u64 = 200;
const SIZES: u64 = 3;
const SEED: u64 = 1;

fn takes_all() -> bool {
    std::env::var_os("DISC_AARCH64").is_some_and(|value| value == "all")
}

/// Returns the targets that run a test.
fn targets(name: &str) -> Vec<&'static dyn Compiled> {
    // FNV-1a: the same on every machine.
    let hash = name.bytes().fold(0xCBF2_9CE4_8422_2325_u64, |hash, byte| (hash ^ u64::from(byte)).wrapping_mul(0x100_0000_01B3));
    let picked = (hash % TARGETS.len() as u64) as usize;
    let takes = |number: &usize| takes_all() || *number == picked;
    (0..TARGETS.len()).filter(takes).map(|number| &TARGETS[number] as &dyn Compiled).collect()
}

fn file(name: &str, path: PathBuf) -> Result<(), Failed> {
    // The harness takes compilers that live as long as the process.
    match check_file(name, path, targets(name).leak()) {
        Checked::Failed(why) => Err(why.into()),
        Checked::Passed | Checked::Skipped(_) => Ok(()),
    }
}

fn op(number: usize, def: &OpDef) -> Result<(), Failed> {
    for target in targets(def.name) {
        let shapes = match takes_all() {
            true => Shapes::ALL.to_vec(),
            false if number.is_multiple_of(2) => vec![Shapes::Static, Shapes::Empty, Shapes::Dynamic],
            false => vec![Shapes::Ones, Shapes::Partly, Shapes::Dynamic],
        };
        let report = matrix::check(def.kind, target, &shapes).map_err(Failed::from)?;
        if let Some(first) = report.failures.first() {
            return Err(format!("{} of {} cases on {}:\n{first}", report.failures.len(), report.cases, target.name()).into());
        }
    }
    Ok(())
}

fn random_program(number: u64) -> Result<(), Failed> {
    for target in targets(&number.to_string()) {
        if let (_, Some(failure)) = soak::check(soak::module(SEED, number), number, SIZES, target) {
            return Err(failure.text(target).into());
        }
    }
    Ok(())
}

fn main() -> ExitCode {
    if let Some(why) = emulator::missing() {
        println!("code for AArch64 cannot be run: {why}: skipped");
        return if takes_all() { ExitCode::FAILURE } else { ExitCode::SUCCESS };
    }
    let names: Vec<_> = TARGETS.iter().map(ToString::to_string).collect();
    println!("under qemu: {}", names.join(", "));
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../filetests/run");
    let files = corpus(&root).into_iter().map(|(name, path)| Trial::test(format!("run/{name}"), move || file(&name, path)));
    let ops = OPS.iter().enumerate().map(|(number, def)| Trial::test(format!("matrix/{}", def.name), move || op(number, def)));
    let programs = (0..PROGRAMS).map(|number| Trial::test(format!("random/{number}"), move || random_program(number)));
    let trials = files.chain(ops).chain(programs).chain(packages::trials());
    let conclusion = libtest_mimic::run(&Arguments::from_args(), trials.collect());
    emulator::clean_up();
    println!("under qemu, with NEON and with SVE at vector lengths of 128, 256 and 512 bits:");
    println!("{} passed, {} failed", conclusion.num_passed, conclusion.num_failed);
    conclusion.exit_code()
}
