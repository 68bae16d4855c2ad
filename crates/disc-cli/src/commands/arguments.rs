//! Defines the command line of `disc`.
use crate::run::{Input, On, RunArguments, ValueArguments};
use clap::{Args, Parser, Subcommand, ValueEnum};
use disc_serve::ServeOptions;
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

/// The state of a model of torch in a package.
#[derive(Clone, Copy, Debug, Default, ValueEnum)]
pub(super) enum State {
    /// A model whose calls change buffers is an error.
    #[default]
    Refuse,
    /// Buffers that calls change are inputs, which calls write to.
    Inputs,
}

#[derive(Debug, Subcommand)]
pub(super) enum Command {
    /// Compiles a program, and writes a package or machine code.
    Compile(CompileArguments),
    /// Runs an entry of a package, or compiles a program and runs it.
    Run(ProgramArguments),
    /// Shows the fusion plan: groups, and why others were not formed; or explains an error code.
    Explain(ExplainArguments),
    /// Writes a page for the browser: every stage, the changes of each pass, and the fusion groups
    /// as a graph.
    View(ViewArguments),
    /// Summarises a package or a program: entries with their dims and facts, weights, parts, ops.
    Inspect(InspectArguments),
    /// Times calls, and the kernels in them; on a simulated GPU it counts what kernels do.
    Bench(BenchArguments),
    /// Serves a package over HTTP by the Open Inference Protocol.
    Serve(ServeOptions),
    /// Runs a captured call again, and compares it with the interpreter.
    Replay(ReplayArguments),
    /// Makes a captured call minimal that compiled code gets wrong.
    Reduce(ReduceArguments),
    /// Signs a package.
    Sign(SignArguments),
    /// Runs a folder of textual tests on a device.
    Test(TestArguments),
    /// Prints the completions of a shell.
    Completions(CompletionArguments),
    /// Prints a manual page.
    Man(ManArguments),
}

#[derive(Debug, Args)]
pub(super) struct ReplayArguments {
    /// The capture (.discap).
    pub(super) file: PathBuf,

    #[command(flatten)]
    pub(super) machine: MachineArguments,
}

#[derive(Debug, Args)]
pub(super) struct ReduceArguments {
    /// The capture (.discap).
    pub(super) file: PathBuf,

    /// The smaller capture to write; by default `FILE` with `-reduced` after its stem.
    #[arg(long, short, value_name = "FILE")]
    pub(super) output: Option<PathBuf>,

    #[command(flatten)]
    pub(super) machine: MachineArguments,
}

#[derive(Debug, Args)]
pub(super) struct TestArguments {
    /// A folder with tests, such as filetests/run of the sources.
    #[arg(value_name = "DIR")]
    pub(super) folder: PathBuf,

    /// The device to run on.
    #[arg(long, value_name = "DEVICE", default_value = "cpu")]
    pub(super) on: String,
}

#[derive(Debug, Args)]
pub(super) struct CompletionArguments {
    pub(super) shell: clap_complete::Shell,
}

#[derive(Debug, Args)]
pub(super) struct ManArguments {
    /// The command that the page is about; by default all of `disc`.
    pub(super) command: Option<String>,
}

#[derive(Debug, Args)]
pub(super) struct InspectArguments {
    /// A package, or a program as IR text or StableHLO, whose ops that are missing are listed; `-`
    /// is standard input.
    pub(super) file: String,

    #[command(flatten)]
    pub(super) trust: TrustArguments,
}

#[derive(Debug, Args)]
pub(super) struct SignArguments {
    /// The package.
    pub(super) file: PathBuf,

    /// A private ed25519 key in PEM, as `openssl genpkey -algorithm ed25519` writes it.
    #[arg(long, value_name = "KEY.pem")]
    pub(super) key: PathBuf,

    /// The signed package to write.
    #[arg(long, short, value_name = "FILE")]
    pub(super) output: PathBuf,
}

/// Whose packages are accepted.
#[derive(Debug, Args)]
pub(super) struct TrustArguments {
    /// A public ed25519 key in PEM: a package that its owner did not sign is refused.
    #[arg(long, value_name = "KEY.pem")]
    pub(super) require_signature: Option<PathBuf>,
}

/// The device to run on.
#[derive(Debug, Args)]
pub(super) struct DeviceArguments {
    /// The device to run on, such as `cpu`, `cuda:0` (or `cuda`) or `simt:sm_90`.
    #[arg(long, value_name = "NAME")]
    pub(super) device: Option<String>,
}

/// The CPU, and the number of threads.
#[derive(Debug, Args)]
pub(super) struct MachineArguments {
    /// A CPU level such as `x86-64-v3`, or a GPU such as `simt:sm_90`; by default this machine. Of
    /// a package, the target whose code runs.
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
    /// The program, as IR text or StableHLO (.mlir); `-` is standard input. Or a model of torch: an
    /// exported program (.pt2), a TorchScript archive or a pickled module (.pt), which need example
    /// inputs.
    pub(super) file: String,

    /// A package to write (.discpkg), or a file for only the machine code, a shared object.
    #[arg(long, short, value_name = "FILE")]
    pub(super) output: Option<PathBuf>,

    /// CPU levels such as `x86-64-v3` and `aarch64-v8+sve`, and GPUs such as `nvptx:sm_90`, or
    /// `nvptx:sm_90 on x86-64-v3` with the CPU that runs the host program; by default this machine.
    /// A package has code for each.
    #[arg(long, value_name = "NAME", value_delimiter = ',')]
    pub(super) target: Vec<String>,

    /// The entry to put into the package, one of the program; for a model of torch, its name.
    #[arg(long, value_name = "NAME")]
    pub(super) entry: Option<String>,

    /// A name for an axis of an input of a model, as `ids:0=B`; of StableHLO also a size.
    #[arg(long, value_name = "INPUT:AXIS=NAME", value_parser = axis, value_delimiter = ',')]
    pub(super) dim: Vec<Axis>,

    /// An option of the compiler, as `weights=int8`.
    #[arg(long, value_name = "FIELD=VALUE", value_parser = field)]
    pub(super) set: Vec<(String, String)>,

    /// Unpickles a module of torch (.pt): this runs whatever code is in the file.
    #[arg(long)]
    pub(super) unsafe_pickle: bool,

    /// Refuses a model of torch whose calls change buffers, or makes inputs of these.
    #[arg(long, value_enum, default_value_t)]
    pub(super) state: State,

    /// The most threads of compilation.
    #[arg(long, value_name = "NUMBER")]
    pub(super) threads: Option<usize>,

    /// A directory for the IR after each pass, LLVM IR and assembly.
    #[arg(long, value_name = "DIR")]
    pub(super) dump: Option<PathBuf>,

    #[command(flatten)]
    pub(super) values: ValueArguments,
}

/// An axis of an input, and the name of its dim.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Axis {
    pub(super) input: String,
    pub(super) axis: usize,
    pub(super) name: String,
}

fn axis(text: &str) -> Result<Axis, String> {
    // A name of an input may have a colon, as `input:0` has.
    let parts = text.rsplit_once('=').and_then(|(place, name)| Some((place.rsplit_once(':')?, name)));
    let ((input, axis), name) = parts.ok_or("expected INPUT:AXIS=NAME")?;
    let axis = axis.parse().map_err(|_| format!("`{axis}` is no axis, expected 0, 1, ..."))?;
    Ok(Axis { input: input.into(), axis, name: name.into() })
}

fn field(text: &str) -> Result<(String, String), String> {
    let (name, value) = text.split_once('=').ok_or("expected FIELD=VALUE")?;
    Ok((name.into(), value.into()))
}

#[derive(Debug, Args)]
pub(super) struct ProgramArguments {
    /// A package, or a program as IR text; `-` is standard input.
    pub(super) file: String,

    #[command(flatten)]
    pub(super) data: RunArguments,

    /// The means to run IR text.
    #[arg(long, value_enum, default_value_t = On::Cpu)]
    pub(super) on: On,

    /// Compares the results of IR text with those of the interpreter.
    #[arg(long)]
    pub(super) check: bool,

    /// A file for the results (.npz), one array per output; of IR text also a directory, for one
    /// .npy file each.
    #[arg(long, short, value_name = "FILE")]
    pub(super) output: Option<PathBuf>,

    /// Makes so many calls, and prints their times.
    #[arg(long, value_name = "NUMBER", value_parser = clap::value_parser!(u32).range(1..))]
    pub(super) repeat: Option<u32>,

    #[command(flatten)]
    pub(super) machine: MachineArguments,

    #[command(flatten)]
    pub(super) device: DeviceArguments,

    #[command(flatten)]
    pub(super) trust: TrustArguments,
}

#[derive(Debug, Args)]
pub(super) struct ExplainArguments {
    /// The program, as IR text; `-` is standard input. Or an error code such as `E0203`.
    #[arg(value_name = "FILE|CODE")]
    pub(super) what: String,

    #[command(flatten)]
    pub(super) machine: MachineArguments,

    #[command(flatten)]
    pub(super) device: DeviceArguments,
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
    /// A package, or a program as IR text; `-` is standard input. With `--start`, a model that
    /// `torch.export.save` wrote (.pt2).
    pub(super) file: String,

    /// Compile a model of torch and call it, and print where the time of the first result goes.
    #[arg(long, conflicts_with_all = ["more", "trace"])]
    pub(super) start: bool,

    /// More inputs: a shell makes several words of `x=rand:1x{16,64}`. Several values of an input
    /// are timed one after the other.
    #[arg(value_name = "NAME=VALUE", value_parser = crate::run::input)]
    pub(super) more: Vec<Input>,

    #[command(flatten)]
    pub(super) data: RunArguments,

    /// Seconds for which the calls of one shape are timed.
    #[arg(long, default_value_t = 0.5)]
    pub(super) seconds: f64,

    /// A file for the launches of one call per shape, which Perfetto and Chrome show.
    #[arg(long, value_name = "FILE")]
    pub(super) trace: Option<PathBuf>,

    #[command(flatten)]
    pub(super) machine: MachineArguments,

    #[command(flatten)]
    pub(super) device: DeviceArguments,

    #[command(flatten)]
    pub(super) trust: TrustArguments,
}

#[cfg(test)]
mod tests {
    use super::*;
    use clap::CommandFactory;

    #[test]
    fn the_command_line_is_consistent() {
        Arguments::command().debug_assert();
    }

    #[test]
    fn axes_of_any_input_have_names() {
        let read = |text: &str| axis(text).map(|axis| (axis.input, axis.axis, axis.name));
        assert_eq!(read("ids:0=B"), Ok(("ids".into(), 0, "B".into())));
        assert_eq!(read("input:0:1=S"), Ok(("input:0".into(), 1, "S".into())));
        assert!(read("ids=B").is_err() && read("ids:x=B").is_err());
    }
}
