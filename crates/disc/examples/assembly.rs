//! Prints the assembly of a program's kernels: `cargo run -p disc --example assembly -- FILE
//! --target aarch64-v8`. `benches/mca.py` reads it.
use clap::Parser;
use disc::Options;
use std::{path::PathBuf, process::ExitCode};

#[derive(Parser)]
struct Arguments {
    /// A program as text.
    file: PathBuf,
    /// The target of the code.
    #[arg(long, default_value = "aarch64-v8")]
    target: String,
}

fn main() -> ExitCode {
    let Arguments { file, target } = Arguments::parse();
    let made = std::fs::read_to_string(&file).map_err(|error| error.to_string()).and_then(|text| {
        let options = Options { target: Some(target), ..Options::default() };
        let module = disc::parse(&text).map_err(|error| error.to_string())?;
        disc::stages::code(module, &options).map_err(|error| error.to_string())
    });
    match made {
        Ok((_, assembly)) => {
            println!("{assembly}");
            ExitCode::SUCCESS
        }
        Err(why) => {
            eprintln!("{}: {why}", file.display());
            ExitCode::FAILURE
        }
    }
}
