//! Tests the promises of this crate from inside, so that one test binary holds LLVM.
#[cfg(all(target_arch = "x86_64", target_os = "linux"))]
mod amx;
mod errors;
mod levels;
mod library;
mod library_calls;
mod linking;
mod lower;
mod programs;
mod ptx;

use crate::{Codegen, Error, Object, Passes, text};
use disc_codegen::target::{Compilation, Target};

fn target(text: &str) -> Target {
    text.parse().unwrap()
}

/// Returns the pair of a CPU with itself.
fn alone(target: &Target) -> Compilation {
    Compilation::of(target.clone()).unwrap()
}

fn object(target_text: &str, ir: &str, passes: Passes) -> Result<Object, Error> {
    text::object(ir, &target(target_text), passes, Codegen::Less)
}

const SEVEN: &str = "define i32 @f() nounwind { ret i32 7 }";
