//! Defines the arguments that select an entry and its values.
use clap::{Args, ValueEnum};

/// The device that an entry runs on.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, ValueEnum)]
pub(crate) enum On {
    /// The interpreter: slow, and the reference for every op.
    #[default]
    #[value(name = "interp")]
    Interpreter,
    /// Machine code for this CPU.
    Cpu,
}

/// An entry and its values.
#[derive(Clone, Debug, Default, Args)]
pub(crate) struct RunArguments {
    /// The entry to run; by default the only one.
    #[arg(long, value_name = "NAME")]
    pub(crate) entry: Option<String>,

    /// An input of the entry: `x=a.npy`, `x=rand:3x768` or `x=zeros:3x768`; the sizes may be
    /// omitted if --dim gives them. A weight is `@w=a.npy`.
    #[arg(long, value_name = "NAME=VALUE", value_parser = input)]
    pub(crate) input: Vec<Input>,

    /// The size of a dim, as `B=3`; inputs that are not given are random then.
    #[arg(long, value_name = "NAME=SIZE", value_parser = dim, value_delimiter = ',')]
    pub(crate) dim: Vec<(String, i64)>,

    /// Gives weights that are not given as inputs random values.
    #[arg(long)]
    pub(crate) random_weights: bool,

    /// Seed of random values.
    #[arg(long, value_name = "NUMBER", default_value_t = 0)]
    pub(crate) seed: u64,
}

/// A named input, or a weight if the name starts with `@`.
#[derive(Clone, Debug)]
pub(crate) struct Input {
    pub(crate) name: String,
    pub(crate) value: Given,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Given {
    /// Random elements, of these sizes.
    Random(Option<Vec<i64>>),
    /// Zeros, of these sizes.
    Zeros(Option<Vec<i64>>),
    /// A file of NumPy.
    File(String),
}

fn input(text: &str) -> Result<Input, String> {
    let (name, value) = text.split_once('=').ok_or("expected NAME=FILE.npy, NAME=rand:SIZES or NAME=zeros:SIZES")?;
    let value = match value.split_once(':') {
        Some(("rand", list)) => Given::Random(Some(sizes(list)?)),
        Some(("zeros", list)) => Given::Zeros(Some(sizes(list)?)),
        _ if value == "rand" => Given::Random(None),
        _ if value == "zeros" => Given::Zeros(None),
        _ => Given::File(value.to_owned()),
    };
    Ok(Input { name: name.trim_start_matches('%').to_owned(), value })
}

/// Parses `3x768`; an empty text is a scalar.
fn sizes(text: &str) -> Result<Vec<i64>, String> {
    if text.is_empty() { Ok(Vec::new()) } else { text.split('x').map(size).collect() }
}

fn size(text: &str) -> Result<i64, String> {
    text.parse().ok().filter(|&size| size >= 0).ok_or_else(|| format!("`{text}` is no size; expected sizes such as 3x768"))
}

fn dim(text: &str) -> Result<(String, i64), String> {
    let (name, value) = text.split_once('=').ok_or("expected NAME=SIZE")?;
    Ok((name.to_owned(), size(value)?))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn inputs_are_read() {
        let value = |text: &str| input(text).unwrap().value;
        assert_eq!(value("x=rand:3x768"), Given::Random(Some(vec![3, 768])));
        assert_eq!(value("x=rand:"), Given::Random(Some(Vec::new())));
        assert_eq!(value("@w=zeros"), Given::Zeros(None));
        assert_eq!(value("x=a=b.npy"), Given::File("a=b.npy".into()));
        for wrong in ["x", "x=rand:3xB", "x=rand:-1", "x=zeros:3,4"] {
            assert!(input(wrong).is_err(), "{wrong}");
        }
    }

    #[test]
    fn dims_are_read() {
        assert_eq!(dim("B=3"), Ok(("B".into(), 3)));
        assert!(dim("B").is_err() && dim("B=-1").is_err());
    }
}
