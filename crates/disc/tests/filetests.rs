//! Runs the `run` tests of `filetests/` on compiled code too.
mod native;

use disc_filetests::{Hooks, run};
use std::{path::Path, process::ExitCode};

fn main() -> ExitCode {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../filetests/run");
    run(&root, Hooks { compiled: native::levels(), ..Hooks::default() }).exit_code()
}
