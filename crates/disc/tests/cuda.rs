//! Compares programs on the device `cuda:0` with the interpreter, with a driver that has simulated
//! GPUs: the `run` tests of `filetests/`, and a share of the matrix of ops and element types.
mod fake_cuda;
mod native;

use disc::ir::{
    generate::cases::Shapes,
    ops::{OPS, OpDef},
};
use disc_filetests::{Checked, check_file, corpus, matrix};
use fake_cuda::FakeCuda;
use libtest_mimic::{Arguments, Failed, Trial};
use std::{
    path::{Path, PathBuf},
    process::ExitCode,
};

fn file(name: &str, path: PathBuf) -> Result<(), Failed> {
    match check_file(name, path, native::cuda()) {
        Checked::Failed(why) => Err(why.into()),
        Checked::Passed | Checked::Skipped(_) => Ok(()),
    }
}

fn op(def: &OpDef) -> Result<(), Failed> {
    let report = matrix::check(def.kind, native::cuda()[0], &[Shapes::Dynamic]).map_err(Failed::from)?;
    match report.failures.first() {
        Some(first) => Err(format!("{} of {} cases:\n{first}", report.failures.len(), report.cases).into()),
        None => Ok(()),
    }
}

fn main() -> ExitCode {
    FakeCuda::load();
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../filetests/run");
    let files = corpus(&root).into_iter().map(|(name, path)| Trial::test(format!("run/{name}"), move || file(&name, path)));
    // The simulated GPUs run every op (the test `simt`); this is about their way through the
    // driver.
    let ops = OPS.iter().step_by(15).map(|def| Trial::test(format!("matrix/{}", def.name), move || op(def)));
    libtest_mimic::run(&Arguments::from_args(), files.chain(ops).collect()).exit_code()
}
