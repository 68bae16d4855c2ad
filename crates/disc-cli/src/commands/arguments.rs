//! Defines the command line of `disc`.
use crate::run::{On, RunArguments};
use clap::{Args, Parser, Subcommand};
use std::path::PathBuf;

/// Compiles programs once and runs them at any size.
#[derive(Debug, Parser)]
#[command(name = "disc", version)]
pub(super) struct Arguments {
    /// Prints one JSON object, errors too.
    #[arg(long, global = true)]
    pub(super) json: bool,

    #[command(subcommand)]
    pub(super) command: Command,
}

#[derive(Debug, Subcommand)]
pub(super) enum Command {
    /// Compiles a program, and reports kernels, times and bytes.
    Compile(CompileArguments),
    /// Compiles a program and runs an entry.
    Run(ProgramArguments),
    /// Shows the fusion plan: groups, and why others were not formed; or explains an error code.
    Explain(ExplainArguments),
    /// Writes a page for the browser: every stage, the changes of each pass, and the fusion groups
    /// as a graph.
    View(ViewArguments),
    /// Summarises a program: entries with their dims and facts, weights, ops.
    Inspect(FileArguments),
    /// Times calls, and the kernels in them.
    Bench(BenchArguments),
}

#[derive(Debug, Args)]
pub(super) struct FileArguments {
    /// The program, as IR text; `-` is standard input.
    pub(super) file: String,
}

/// The CPU, and the number of threads.
#[derive(Debug, Args)]
pub(super) struct MachineArguments {
    /// A CPU level such as `x86-64-v3`; by default that of this machine.
    #[arg(long, value_name = "NAME")]
    pub(super) target: Option<String>,

    /// The most threads of compilation and of a call.
    #[arg(long, value_name = "NUMBER")]
    pub(super) threads: Option<usize>,
}

impl MachineArguments {
    pub(super) fn options(&self) -> disc::Options {
        disc::Options { target: self.target.clone(), threads: self.threads, ..disc::Options::default() }
    }
}

#[derive(Debug, Args)]
pub(super) struct CompileArguments {
    /// The program, as IR text; `-` is standard input.
    pub(super) file: String,

    /// A file for the machine code, a shared object.
    #[arg(long, short, value_name = "FILE")]
    pub(super) output: Option<PathBuf>,

    /// A directory for the IR after each pass, LLVM IR and assembly.
    #[arg(long, value_name = "DIR")]
    pub(super) dump: Option<PathBuf>,

    #[command(flatten)]
    pub(super) machine: MachineArguments,
}

#[derive(Debug, Args)]
pub(super) struct ProgramArguments {
    /// The program, as IR text; `-` is standard input.
    pub(super) file: String,

    #[command(flatten)]
    pub(super) data: RunArguments,

    /// The device to run on.
    #[arg(long, value_enum, default_value_t = On::Cpu)]
    pub(super) on: On,

    /// Compares the results with those of the interpreter.
    #[arg(long)]
    pub(super) check: bool,

    /// A directory for the results, as NumPy files.
    #[arg(long, short, value_name = "DIR")]
    pub(super) output: Option<PathBuf>,

    #[command(flatten)]
    pub(super) machine: MachineArguments,
}

#[derive(Debug, Args)]
pub(super) struct ExplainArguments {
    /// The program, as IR text; `-` is standard input. Or an error code such as `E0203`.
    #[arg(value_name = "FILE|CODE")]
    pub(super) what: String,

    #[command(flatten)]
    pub(super) machine: MachineArguments,
}

#[derive(Debug, Args)]
pub(super) struct ViewArguments {
    /// The program, as IR text; `-` is standard input.
    pub(super) file: String,

    /// The page to write.
    #[arg(long, short, value_name = "PAGE.html")]
    pub(super) output: PathBuf,

    #[command(flatten)]
    pub(super) machine: MachineArguments,
}

#[derive(Debug, Args)]
pub(super) struct BenchArguments {
    /// The program, as IR text; `-` is standard input.
    pub(super) file: String,

    #[command(flatten)]
    pub(super) data: RunArguments,

    /// Seconds for which calls are timed.
    #[arg(long, default_value_t = 0.5)]
    pub(super) seconds: f64,

    #[command(flatten)]
    pub(super) machine: MachineArguments,
}

#[cfg(test)]
mod tests {
    use super::*;
    use clap::CommandFactory;

    #[test]
    fn the_command_line_is_consistent() {
        Arguments::command().debug_assert();
    }
}
