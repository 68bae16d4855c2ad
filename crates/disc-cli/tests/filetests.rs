//! Runs the filetests of the command-line tools: statuses and messages.
use disc_filetests::{Hooks, run};
use std::{
    path::{Path, PathBuf},
    process::ExitCode,
};

fn main() -> ExitCode {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../filetests/cli");
    run(&root, Hooks { tool: Some(tool), ..Hooks::default() }).exit_code()
}

fn tool(name: &str) -> Option<PathBuf> {
    match name {
        "disc" => Some(env!("CARGO_BIN_EXE_disc").into()),
        "disc-opt" => Some(env!("CARGO_BIN_EXE_disc-opt").into()),
        _ => None,
    }
}
