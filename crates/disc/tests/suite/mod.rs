//! Makes tests that compare compiled code with the interpreter: the `run` tests of `filetests/`,
//! the matrix of ops and element types, and random programs.
use disc::ir::{generate::cases::Shapes, ops::OPS};
use disc_filetests::{Checked, Compiled, check_file, corpus, matrix, soak};
use libtest_mimic::{Failed, Trial};
use std::path::{Path, PathBuf};

/// Random programs, and the sizes that each gets.
const PROGRAMS: u64 = 200;
const SIZES: u64 = 3;
/// The seed of the random programs.
pub(crate) const SEED: u64 = 1;

/// The tests of some compilers.
#[derive(Clone, Copy)]
pub(crate) struct Suite {
    /// Returns the compilers that take a test, by its name.
    pub(crate) compilers: fn(&str) -> Vec<&'static dyn Compiled>,
    /// Returns the kinds of shapes that one of them takes of an op, by their positions.
    pub(crate) shapes: fn(compiler: usize, op: usize) -> Vec<Shapes>,
    /// Returns the command that runs a random program again, by its number.
    pub(crate) again: fn(&dyn Compiled, u64) -> String,
}

/// Picks one of `count` by a name, the same on every machine (FNV-1a).
pub(crate) fn picked(name: &str, count: usize) -> usize {
    let hash = name.bytes().fold(0xCBF2_9CE4_8422_2325_u64, |hash, byte| (hash ^ u64::from(byte)).wrapping_mul(0x100_0000_01B3));
    (hash % count as u64) as usize
}

/// Returns the kinds of shapes of an op that has no time for all: known, partly known and dynamic
/// ones, and sizes of 0 or of 1.
pub(crate) fn some_shapes(op: usize) -> Vec<Shapes> {
    match op.is_multiple_of(2) {
        true => vec![Shapes::Static, Shapes::Empty, Shapes::Dynamic],
        false => vec![Shapes::Ones, Shapes::Partly, Shapes::Dynamic],
    }
}

impl Suite {
    /// Returns the tests.
    pub(crate) fn trials(self) -> impl Iterator<Item = Trial> {
        let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../filetests/run");
        let file = move |(name, path): (String, _)| Trial::test(format!("run/{name}"), move || self.file(&name, path));
        let op = move |number: usize| Trial::test(format!("matrix/{}", OPS[number].name), move || self.op(number));
        let program = move |number| Trial::test(format!("random/{number}"), move || self.random_program(number));
        corpus(&root).into_iter().map(file).chain((0..OPS.len()).map(op)).chain((0..PROGRAMS).map(program))
    }

    fn file(self, name: &str, path: PathBuf) -> Result<(), Failed> {
        // The harness takes compilers that live as long as the process.
        match check_file(name, path, (self.compilers)(name).leak()) {
            Checked::Failed(why) => Err(why.into()),
            Checked::Passed | Checked::Skipped(_) => Ok(()),
        }
    }

    fn op(self, number: usize) -> Result<(), Failed> {
        let def = &OPS[number];
        for (position, compiler) in (self.compilers)(def.name).into_iter().enumerate() {
            let report = matrix::check(def.kind, compiler, &(self.shapes)(position, number)).map_err(Failed::from)?;
            if let Some(first) = report.failures.first() {
                let failed = format!("{} of {} cases on {}", report.failures.len(), report.cases, compiler.name());
                return Err(format!("{failed}:\n{first}").into());
            }
        }
        Ok(())
    }

    fn random_program(self, number: u64) -> Result<(), Failed> {
        for compiler in (self.compilers)(&number.to_string()) {
            if let (_, Some(failure)) = soak::check(soak::module(SEED, number), number, SIZES, compiler) {
                return Err(format!("{}\nagain: {}", failure.text(compiler), (self.again)(compiler, number)).into());
            }
        }
        Ok(())
    }
}
