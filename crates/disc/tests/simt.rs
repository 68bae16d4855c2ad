//! Compares programs on the simulated GPUs with the interpreter: the `run` tests of `filetests/`,
//! the matrix of ops and element types, and random programs.
//!
//! All of them run on an NVIDIA GPU; a third also on one of AMD's with warps of 64 threads, another
//! third on one with 32.
mod native;

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

/// Random programs, and the sizes that each gets.
const PROGRAMS: u64 = 200;
const SIZES: u64 = 3;
const SEED: u64 = 1;

/// Returns the devices that run a test: NVIDIA's, and the one that its name picks.
fn devices(name: &str) -> Vec<&'static dyn Compiled> {
    let devices = native::simulated();
    // FNV-1a: the same on every machine.
    let hash = name.bytes().fold(0xCBF2_9CE4_8422_2325_u64, |hash, byte| (hash ^ u64::from(byte)).wrapping_mul(0x100_0000_01B3));
    let other = (hash % devices.len() as u64) as usize;
    [0, other][..=usize::from(other > 0)].iter().map(|&number| devices[number]).collect()
}

fn file(name: &str, path: PathBuf) -> Result<(), Failed> {
    // The harness takes compilers that live as long as the process.
    match check_file(name, path, devices(name).leak()) {
        Checked::Failed(why) => Err(why.into()),
        Checked::Passed | Checked::Skipped(_) => Ok(()),
    }
}

fn op(number: usize, def: &OpDef) -> Result<(), Failed> {
    for (position, device) in devices(def.name).into_iter().enumerate() {
        let shapes = match position {
            0 if number.is_multiple_of(2) => vec![Shapes::Static, Shapes::Empty, Shapes::Dynamic],
            0 => vec![Shapes::Ones, Shapes::Partly, Shapes::Dynamic],
            _ => vec![Shapes::ALL[number % Shapes::ALL.len()]],
        };
        let report = matrix::check(def.kind, device, &shapes).map_err(Failed::from)?;
        if let Some(first) = report.failures.first() {
            return Err(format!("{} of {} cases:\n{first}", report.failures.len(), report.cases).into());
        }
    }
    Ok(())
}

fn random_program(number: u64) -> Result<(), Failed> {
    for device in devices(&number.to_string()) {
        if let (_, Some(failure)) = soak::check(soak::module(SEED, number), number, SIZES, device) {
            let again = format!("cargo xtask soak --seed {SEED} --first {number} --graphs 1 --target {}", device.name());
            return Err(format!("{}\nagain: {again}", failure.text(device)).into());
        }
    }
    Ok(())
}

fn main() -> ExitCode {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../filetests/run");
    let files = corpus(&root).into_iter().map(|(name, path)| Trial::test(format!("run/{name}"), move || file(&name, path)));
    let ops = OPS.iter().enumerate().map(|(number, def)| Trial::test(format!("matrix/{}", def.name), move || op(number, def)));
    let programs = (0..PROGRAMS).map(|number| Trial::test(format!("random/{number}"), move || random_program(number)));
    libtest_mimic::run(&Arguments::from_args(), files.chain(ops).chain(programs).collect()).exit_code()
}
