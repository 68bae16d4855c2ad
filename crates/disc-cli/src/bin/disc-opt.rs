//! The command `disc-opt`.
use std::process::ExitCode;

fn main() -> ExitCode {
    disc_cli::opt::main(std::env::args_os())
}
