//! The command `disc`.
use std::process::ExitCode;

fn main() -> ExitCode {
    disc_cli::virtual_env::use_packages();
    disc_cli::commands::main(std::env::args_os())
}
