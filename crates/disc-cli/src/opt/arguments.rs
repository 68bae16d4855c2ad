//! Defines the command line of `disc-opt`.
use crate::run::{On, RunArguments};
use clap::{CommandFactory, Parser, error::ErrorKind};
use disc_ir::ops::Stage;

/// Checks IR as text, runs passes over it, and prints it or runs it.
#[derive(Debug, Parser)]
#[command(name = "disc-opt", version, after_help = "Stages: tensor, placed, fused, buffer, kernel.")]
pub(super) struct Arguments {
    /// The IR; `-` is standard input.
    pub(super) file: String,

    /// The stage of the text; by default the first at which all of it is legal.
    #[arg(long, value_name = "STAGE", value_parser = stage)]
    pub(super) from: Option<Stage>,

    /// The stage to lower to.
    #[arg(long, value_name = "STAGE", value_parser = stage)]
    pub(super) to: Option<Stage>,

    /// A pass to run; may be given several times, and passes run in this order.
    #[arg(long, value_name = "NAME", value_delimiter = ',')]
    pub(super) pass: Vec<String>,

    /// Prints the module to standard error after this pass, or after `all`.
    #[arg(long, value_name = "NAME", value_delimiter = ',')]
    pub(super) print_after: Vec<String>,

    /// Prints the changes of passes to standard error, as a diff; with --print-after, only of those
    /// passes.
    #[arg(long)]
    pub(super) print_changed: bool,

    /// Prints the line of the model that each op came from, or its place in the text.
    #[arg(long)]
    pub(super) locs: bool,

    /// The CPU that weights are packed and kernels are made for, such as `x86-64-v3`; by default
    /// weights stay as they are, and kernels are for this machine.
    #[arg(long, value_name = "NAME")]
    pub(super) target: Option<String>,

    /// Runs an entry, and prints its results instead of the IR.
    #[arg(long)]
    pub(super) run: bool,

    /// The device to run on.
    #[arg(long, value_enum, default_value_t)]
    pub(super) on: On,

    /// The same as `--on cpu`.
    #[arg(long, conflicts_with = "on")]
    pub(super) compiled: bool,

    /// The most rewrites and fusions that may be made: number N is the last one.
    #[arg(long, value_name = "N")]
    pub(super) fuel: Option<u64>,

    /// Finds the rewrite or fusion that changes the results of the entry. Without --pass and --to,
    /// among those of the whole pipeline.
    #[arg(long, conflicts_with = "fuel")]
    pub(super) bisect: bool,

    #[command(flatten)]
    pub(super) data: RunArguments,
}

impl Arguments {
    pub(super) fn read(arguments: impl IntoIterator<Item = std::ffi::OsString>) -> Result<Self, clap::Error> {
        let mut arguments = Self::try_parse_from(arguments)?;
        let wants_run = !arguments.data.is_empty();
        if wants_run && !arguments.run && !arguments.bisect {
            let message = "--entry, --input, --dim and --random-weights are for --run and --bisect";
            return Err(Self::command().error(ErrorKind::MissingRequiredArgument, message));
        }
        if arguments.compiled {
            arguments.on = On::Cpu;
        }
        Ok(arguments)
    }

    pub(super) fn prints_after(&self, step: &str) -> bool {
        let all = self.print_changed && self.print_after.is_empty();
        all || self.print_after.iter().any(|name| name == step || name == "all")
    }
}

fn stage(name: &str) -> Result<Stage, String> {
    let names = || Stage::ALL.map(Stage::name).join(", ");
    Stage::from_name(name).ok_or_else(|| format!("expected one of {}", names()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_command_line_is_consistent() {
        Arguments::command().debug_assert();
    }
}
