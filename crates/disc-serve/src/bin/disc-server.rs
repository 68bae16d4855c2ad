//! The command `disc-server`: serves one package, without the compiler.

use clap::Parser;
use disc_serve::{ServeOptions, serve};
use std::process::ExitCode;
use tracing_subscriber::filter::LevelFilter;

/// Serves a package over HTTP by the Open Inference Protocol v2.
#[derive(Parser)]
#[command(name = "disc-server", version)]
struct Arguments {
    #[command(flatten)]
    serve: ServeOptions,
}

fn main() -> ExitCode {
    let arguments = Arguments::parse();
    tracing_subscriber::fmt().with_writer(std::io::stderr).with_max_level(LevelFilter::INFO).init();
    match serve(arguments.serve) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("error[{}]: {}", error.code(), error.message);
            ExitCode::FAILURE
        }
    }
}
