//! Lowered kernels, run: every op that is legal in a kernel, on each level that this CPU has.
mod assembly;
mod control;
mod convert;
mod elementwise;
mod kernel;
mod scale;

use super::{alone, library::Library};
use crate::{Error, Options, compile};
use disc_codegen::{host::Program as Lowered, target::Target};
use disc_ir::text;

fn program(source: &str) -> Lowered {
    let module = text::parse(source).unwrap_or_else(|errors| panic!("{errors:?}\n{source}"));
    Lowered { module, ..Lowered::default() }
}

/// Returns the levels that this CPU can run, the host's own extensions included.
pub(super) fn targets() -> Vec<Target> {
    let levels = ["x86-64-v2", "x86-64-v3", "x86-64-v4"].into_iter().map(super::target);
    let mut targets: Vec<Target> = levels.filter(|t| t.check_host().is_ok()).collect();
    targets.push(Target::host().unwrap());
    targets.dedup();
    targets
}

fn error(source: &str) -> Error {
    compile(&program(source), &alone(&super::target("x86-64-v3")), &Options::default()).expect_err(source)
}

#[test]
fn a_device_without_a_backend_is_refused() {
    let (kernel, targets) =
        (program("kernel @k(%begin: i64, %end: i64) {\n  return\n}"), "amdgpu:gfx90a on x86-64-v3".parse().unwrap());
    let refused = "no code is made yet for `amdgpu:gfx90a`: expected the target of a CPU, such as `x86-64-v3`";
    assert_eq!(compile(&kernel, &targets, &Options::default()).unwrap_err().to_string(), refused);
    assert_eq!(crate::assembly(&kernel, &targets).unwrap_err().to_string(), refused);
}

/// A loaded program, whose kernels are called by name.
struct Program(Library);

type KernelFn = unsafe extern "C" fn(*const u64, i64, i64, *mut u8) -> i32;

impl Program {
    fn new(source: &str, target: &Target) -> Self {
        let compiled =
            compile(&program(source), &alone(target), &Options::default()).unwrap_or_else(|e| panic!("{target}: {e}\n{source}"));
        Self(Library::load(&compiled.bytes))
    }

    /// Runs one work unit. Returns the status, and the first values of the task's memory.
    fn run(&self, kernel: &str, arguments: &[u64]) -> (i32, [i64; 32]) {
        self.run_units(kernel, arguments, 0, 1)
    }

    fn run_units(&self, kernel: &str, arguments: &[u64], begin: i64, end: i64) -> (i32, [i64; 32]) {
        #[repr(align(64))]
        struct Scratch([i64; 32]);
        let mut scratch = Scratch([0; 32]);
        // SAFETY: the tests give each kernel the arguments that it takes; their buffers are as
        // large as it accesses.
        let status = unsafe {
            let kernel: KernelFn = self.0.function(kernel);
            kernel(arguments.as_ptr(), begin, end, scratch.0.as_mut_ptr().cast())
        };
        (status, scratch.0)
    }
}

fn address<T>(values: &[T]) -> u64 {
    values.as_ptr() as u64
}

fn address_mut<T>(values: &mut [T]) -> u64 {
    values.as_mut_ptr() as u64
}
