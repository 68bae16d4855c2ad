//! The command line of `disc-opt`.
use clap::Parser;
use disc_ir::ops::Stage;

/// Checks IR as text, runs passes over it, and prints it or runs it.
#[derive(Debug, Parser)]
#[command(name = "disc-opt", version, after_help = "Stages: tensor, placed, fused, buffer, kernel.")]
pub(super) struct Arguments {
    /// The IR; `-` is standard input.
    pub(super) file: String,

    /// The stage that the text is at; by default the first where all of it is legal.
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

    /// Prints the place of each op in the text.
    #[arg(long)]
    pub(super) locs: bool,

    /// Runs an entry on the interpreter, and prints its results instead of the IR.
    #[arg(long)]
    pub(super) run: bool,

    /// The entry to run; by default the only one.
    #[arg(long, value_name = "NAME", requires = "run")]
    pub(super) entry: Option<String>,

    /// An input of the entry: `x=a.npy`, or `x=rand:3x768` for random elements.
    #[arg(long, value_name = "NAME=VALUE", value_parser = input, requires = "run")]
    pub(super) input: Vec<Input>,
}

impl Arguments {
    pub(super) fn prints_after(&self, pass: &str) -> bool {
        self.print_after.iter().any(|name| name == pass || name == "all")
    }
}

/// A named input.
#[derive(Clone, Debug)]
pub(super) struct Input {
    pub(super) name: String,
    pub(super) value: Value,
}

#[derive(Clone, Debug)]
pub(super) enum Value {
    /// Random elements of these sizes.
    Random(Vec<i64>),
    /// A file of NumPy.
    File(String),
}

fn stage(name: &str) -> Result<Stage, String> {
    let names = || Stage::ALL.map(Stage::name).join(", ");
    Stage::from_name(name).ok_or_else(|| format!("expected one of {}", names()))
}

fn input(text: &str) -> Result<Input, String> {
    let (name, value) = text.split_once('=').ok_or("expected NAME=FILE.npy or NAME=rand:SIZES")?;
    let value = match value.strip_prefix("rand:") {
        Some("") => Value::Random(Vec::new()),
        Some(sizes) => Value::Random(sizes.split('x').map(size).collect::<Result<_, _>>()?),
        None => Value::File(value.to_owned()),
    };
    Ok(Input { name: name.trim_start_matches('%').to_owned(), value })
}

fn size(text: &str) -> Result<i64, String> {
    text.parse().ok().filter(|&size| size >= 0).ok_or_else(|| format!("`{text}` is no size; expected sizes such as 3x768"))
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
    fn inputs_are_read() {
        assert!(matches!(input("x=rand:3x768").unwrap().value, Value::Random(sizes) if sizes == [3, 768]));
        assert!(matches!(input("x=rand:").unwrap().value, Value::Random(sizes) if sizes.is_empty()));
        assert!(matches!(input("x=a=b.npy").unwrap().value, Value::File(path) if path == "a=b.npy"));
        for wrong in ["x", "x=rand:3xB", "x=rand:-1", "x=rand:3,4"] {
            assert!(input(wrong).is_err(), "{wrong}");
        }
    }
}
