//! One test per file of `filetests/`.
use disc_filetests::{Hooks, run};
use std::{path::Path, process::ExitCode};

fn main() -> ExitCode {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../filetests");
    run(&root, Hooks::default()).exit_code()
}
