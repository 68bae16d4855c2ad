//! Defines the arguments that select an entry and its values.
use super::braces;
use crate::arrays;
use clap::{Args, ValueEnum};
use disc_ir::DType;

/// The means to run an entry of IR text.
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

    /// The size of a dim, as `B=3`; inputs that are not given are random then.
    #[arg(long, value_name = "NAME=SIZE", value_parser = dim, value_delimiter = ',')]
    pub(crate) dim: Vec<(String, i64)>,

    #[command(flatten)]
    pub(crate) values: ValueArguments,
}

/// The values of inputs and weights.
#[derive(Clone, Debug, Default, Args)]
pub(crate) struct ValueArguments {
    /// An input of the entry: `x=a.npy`, `x=rand:3x768` or `x=zeros:3x768`; the sizes may be
    /// omitted if --dim gives them. `a.npz` or `a.safetensors` holds several inputs by their names.
    /// A weight of IR text is `@w=a.npy`. `x=f32[2,B]` is a tensor of this type: a model of torch
    /// is compiled for any size of an axis with a name.
    #[arg(long, value_name = "NAME=VALUE", value_parser = input)]
    pub(crate) input: Vec<Input>,

    /// A file with the weights of IR text by their names: .safetensors or .npz.
    #[arg(long, value_name = "FILE")]
    pub(crate) weights: Option<String>,

    /// Gives weights of IR text that have no values random ones.
    #[arg(long)]
    pub(crate) random_weights: bool,

    /// Seed of random values.
    #[arg(long, value_name = "NUMBER", default_value_t = 0)]
    pub(crate) seed: u64,
}

impl RunArguments {
    /// Returns true if nothing was asked for.
    pub(crate) fn is_empty(&self) -> bool {
        let ValueArguments { input, weights, random_weights, .. } = &self.values;
        input.is_empty() && self.dim.is_empty() && self.entry.is_none() && weights.is_none() && !random_weights
    }
}

/// A value from the command line.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Input {
    /// One input, or a weight if its name starts with `@`; several values are for one call each.
    Named { name: String, values: Vec<Given> },
    /// A file that holds inputs by name.
    File(String),
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Given {
    /// Random elements, of these sizes.
    Random(Option<Vec<i64>>),
    /// Zeros, of these sizes.
    Zeros(Option<Vec<i64>>),
    /// Any elements, of this type.
    Typed(DType, Vec<Size>),
    /// A file of NumPy.
    File(String),
}

/// The size of an axis of a type.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Size {
    Fixed(i64),
    /// Any size, by this name.
    Named(String),
}

pub(crate) fn input(text: &str) -> Result<Input, String> {
    const FORMS: &str =
        "expected NAME=FILE.npy, NAME=rand:SIZES, NAME=zeros:SIZES, NAME=f32[SIZES], FILE.npz or FILE.safetensors";
    // A name in quotes is that of a model's file, with whatever is in it.
    let quoted = text.strip_prefix('"').and_then(|text| text.split_once("\"="));
    let Some((name, value)) = quoted.or_else(|| text.split_once('=')) else {
        return if arrays::holds_several(text) { Ok(Input::File(text.into())) } else { Err(FORMS.into()) };
    };
    let values = braces::expand(value).iter().map(|value| given(value)).collect::<Result<_, _>>()?;
    Ok(Input::Named { name: name.trim_start_matches('%').to_owned(), values })
}

fn given(value: &str) -> Result<Given, String> {
    Ok(match value.split_once(':') {
        Some(("rand", list)) => Given::Random(Some(sizes(list)?)),
        Some(("zeros", list)) => Given::Zeros(Some(sizes(list)?)),
        _ if value == "rand" => Given::Random(None),
        _ if value == "zeros" => Given::Zeros(None),
        _ => match value.strip_suffix(']').and_then(|text| text.split_once('[')) {
            Some((dtype, axes)) => {
                let dtype =
                    DType::from_name(dtype).ok_or_else(|| format!("`{dtype}` is no type of elements, such as f32 or i64"))?;
                Given::Typed(
                    dtype,
                    if axes.is_empty() { Vec::new() } else { axes.split(',').map(axis).collect::<Result<_, _>>()? },
                )
            }
            None => Given::File(value.to_owned()),
        },
    })
}

/// Parses the size of an axis of `f32[2,B]`.
fn axis(text: &str) -> Result<Size, String> {
    let text = text.trim();
    let mut letters = text.chars();
    match letters.next() {
        Some(first) if first.is_alphabetic() && letters.all(|letter| letter.is_alphanumeric() || letter == '_') => {
            Ok(Size::Named(text.to_owned()))
        }
        _ => {
            let size: Option<i64> = text.parse().ok().filter(|&size| size >= 0);
            size.map(Size::Fixed).ok_or_else(|| format!("`{text}` is no size and no name; expected axes such as 2,B"))
        }
    }
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

    fn values(text: &str) -> Vec<Given> {
        match input(text).unwrap() {
            Input::Named { values, .. } => values,
            Input::File(_) => Vec::new(),
        }
    }

    #[test]
    fn inputs_are_read() {
        assert_eq!(values("x=rand:3x768"), [Given::Random(Some(vec![3, 768]))]);
        assert_eq!(values("x=rand:"), [Given::Random(Some(Vec::new()))]);
        assert_eq!(values("@w=zeros"), [Given::Zeros(None)]);
        assert_eq!(values("x=a=b.npy"), [Given::File("a=b.npy".into())]);
        assert_eq!(values("x=zeros:1x{2,3}"), [Given::Zeros(Some(vec![1, 2])), Given::Zeros(Some(vec![1, 3]))]);
        let axes = vec![Size::Fixed(2), Size::Named("B".into())];
        assert_eq!(values("x=f32[2, B]"), [Given::Typed(DType::F32, axes)]);
        assert_eq!(values("x=i64[]"), [Given::Typed(DType::I64, Vec::new())]);
        for (text, name) in [("input:0=rand:", "input:0"), ("/x/y=rand:", "/x/y"), ("\"a=b\"=rand:", "a=b")] {
            assert_eq!(input(text), Ok(Input::Named { name: name.into(), values: vec![Given::Random(Some(Vec::new()))] }));
        }
        assert_eq!(input("all.npz"), Ok(Input::File("all.npz".into())));
        for wrong in ["x", "x=rand:3xB", "x=rand:-1", "x=zeros:3,4", "x=rand:{1,B}", "x=f31[2]", "x=f32[2x3]", "x=f32[-1]"] {
            assert!(input(wrong).is_err(), "{wrong}");
        }
    }

    #[test]
    fn dims_are_read() {
        assert_eq!(dim("B=3"), Ok(("B".into(), 3)));
        assert!(dim("B").is_err() && dim("B=-1").is_err());
    }
}
