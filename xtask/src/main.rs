//! Runs developer commands:
//! `cargo xtask tidy | codegen | bless | fuzz | soak | same-code | licenses`.
//!
//! It is not part of the product: nothing depends on this crate, and it links no LLVM, so that it
//! builds in seconds.

mod bless;
mod capi;
mod codegen;
mod fuzz;
mod layers;
mod licenses;
mod same_code;
mod soak;
mod sources;
mod tidy;

use std::{path::PathBuf, process::ExitCode};

use anyhow::Result;
use clap::{Parser, Subcommand};

#[derive(Parser)]
#[command(name = "cargo xtask", about = "Developer commands of disc")]
struct Cli {
    #[command(subcommand)]
    command: Command,
}

#[derive(Subcommand)]
enum Command {
    /// Check rules beyond the compiler and clippy: layers, sizes, prose, required comments, fresh
    /// generated docs.
    Tidy,
    /// Write the generated docs, or with --check report the stale ones.
    Codegen {
        #[arg(long)]
        check: bool,
    },
    /// Rewrite the expected output of the filetests to the actual one. Review the diff: it is the
    /// test.
    Bless {
        /// Only the filetests whose name contains this.
        filter: Option<String>,
    },
    /// Try changed filetests on the compiler; prints the input that fails.
    Fuzz {
        /// Seconds to try.
        #[arg(long, default_value_t = 20)]
        seconds: u64,
        #[arg(long, default_value_t = 1)]
        seed: u64,
    },
    /// Try random programs on compiled code and on the interpreter; prints the one that fails,
    /// reduced.
    Soak {
        /// Number of programs.
        #[arg(long, default_value_t = 20_000)]
        graphs: u64,
        /// Number of sizes for each; and further options of the example `soak` of the crate `disc`.
        #[arg(trailing_var_arg = true, allow_hyphen_values = true)]
        options: Vec<String>,
    },
    /// Write the kernels and assembly of many programs, and compare them with those of another
    /// tree.
    SameCode(same_code::Arguments),
    /// Collect the licence texts of everything that the wheel contains.
    Licenses {
        #[arg(long, default_value = "licenses/generated")]
        out: PathBuf,
    },
}

fn main() -> Result<ExitCode> {
    let root = sources::root();
    let clean = match Cli::parse().command {
        Command::Tidy => tidy::run(&root)?,
        Command::Codegen { check: true } => report_stale(&codegen::stale(&root)?),
        Command::Codegen { check: false } => {
            codegen::write(&root)?;
            true
        }
        Command::Bless { filter } => bless::run(&root, filter.as_deref())?,
        Command::Fuzz { seconds, seed } => fuzz::run(&root, seconds, seed)?,
        Command::Soak { graphs, options } => soak::run(&root, graphs, &options)?,
        Command::SameCode(arguments) => same_code::run(&root, &arguments)?,
        Command::Licenses { out } => {
            licenses::write(&root, &root.join(out))?;
            true
        }
    };
    Ok(if clean { ExitCode::SUCCESS } else { ExitCode::FAILURE })
}

fn report_stale(stale: &[String]) -> bool {
    for name in stale {
        eprintln!("{name} is stale: run `cargo xtask codegen`");
    }
    stale.is_empty()
}
