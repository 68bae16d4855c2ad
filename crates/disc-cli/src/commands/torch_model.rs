//! Compiles a model that torch saved: Python, which has torch, captures it and writes the package.
use super::{
    arguments::{CompileArguments, State},
    compile::written,
    package::has_extension,
    python::{Worker, check_file},
};
use crate::{
    answer::Answer,
    progress::Progress,
    run::{Given, Input, Size, several},
};
use disc_ir::{Code, Diagnostic};
use serde_json::{Map, Value, json};
use std::path::Path;

/// The Python module that does the work, and answers with one line of JSON.
const WORKER: &str = "disc.torch.files.exported_file";

pub(super) fn compile(given: &CompileArguments) -> Result<Answer, Vec<Diagnostic>> {
    let single = |error: Diagnostic| vec![error];
    let output = check(given).map_err(single)?;
    let progress = Progress::spinner("compiling");
    let wish = request(given, output).map_err(single)?.to_string();
    let worker = given.dump.iter().fold(Worker::new(WORKER), |worker, folder| worker.variable("DISC_DUMP", folder));
    let _: Value = worker.ask(&wish).map_err(single)?;
    drop(progress);
    written(output)
}

/// Refuses what no Python needs to be asked about. Returns the package to write.
fn check(given: &CompileArguments) -> Result<&Path, Diagnostic> {
    let file = &given.file;
    check_file(file)?;
    let (values, is_exported) = (&given.values, has_extension(file, "pt2"));
    if values.weights.is_some() || values.random_weights {
        return Err(Diagnostic::new(Code::E0700, format!("{file} has its weights: they cannot be given")));
    }
    if is_exported && !values.input.is_empty() {
        return Err(Diagnostic::new(Code::E0700, format!("{file} has its example inputs: they cannot be given")));
    }
    if is_exported && given.unsafe_pickle {
        return Err(Diagnostic::new(Code::E0700, format!("{file} is no pickled module: --unsafe-pickle is for .pt files")));
    }
    if !is_exported && values.input.is_empty() {
        let error = Diagnostic::new(Code::E0700, format!("{file} has no example inputs, which capturing it needs"));
        return Err(error.help("--input x=f32[2,B] with the name of its input: 2 is fixed, B is any size"));
    }
    let package = given.output.as_deref().filter(|path| has_extension(path, "discpkg"));
    package.ok_or_else(|| Diagnostic::new(Code::E0700, "a model of torch becomes a package: -o FILE.discpkg"))
}

fn request(given: &CompileArguments, output: &Path) -> Result<Value, Diagnostic> {
    let mut dims: Map<String, Value> = Map::new();
    for axis in &given.dim {
        dims.entry(&axis.input).or_insert_with(|| json!({}))[axis.axis.to_string()] = json!(axis.name);
    }
    let options: Map<String, Value> = given.set.iter().map(|(name, value)| (name.clone(), json!(value))).collect();
    let inputs = given.values.input.iter().map(|input| example(input, given.values.seed)).collect::<Result<Vec<_>, _>>()?;
    Ok(json!({
        "model": given.file, "output": output.to_string_lossy(), "entry": given.entry.as_deref().unwrap_or("main"),
        "targets": given.target, "dims": dims, "options": options, "threads": given.threads,
        "inputs": inputs, "unsafe_pickle": given.unsafe_pickle,
        "state": match given.state { State::Refuse => "refuse", State::Inputs => "inputs" },
    }))
}

/// Describes one example input to the worker.
fn example(input: &Input, seed: u64) -> Result<Value, Diagnostic> {
    let wrong = |message: String| Diagnostic::new(Code::E0700, message);
    let Input::Named { name, values } = input else {
        return Err(wrong("the inputs of a model of torch are given one by one: --input x=x.npy".into()));
    };
    let [value] = &values[..] else { return Err(several(values.len())) };
    Ok(match value {
        Given::File(path) => json!({ "name": name, "file": path }),
        Given::Random(Some(sizes)) => json!({ "name": name, "random": sizes, "seed": seed }),
        Given::Zeros(Some(sizes)) => json!({ "name": name, "zeros": sizes }),
        Given::Typed(dtype, axes) => {
            let size = |axis: &Size| match axis {
                Size::Fixed(size) => json!(size),
                Size::Named(dim) => json!(dim),
            };
            json!({ "name": name, "dtype": dtype.name(), "axes": axes.iter().map(size).collect::<Vec<_>>(), "seed": seed })
        }
        Given::Random(None) | Given::Zeros(None) => {
            return Err(wrong(format!("input {name} needs sizes: {name}=f32[2,16]")));
        }
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::run::input;

    #[test]
    fn examples_are_described_with_their_sizes() {
        let described = |text: &str| example(&input(text).unwrap(), 7);
        assert_eq!(described("x=rand:2x16").unwrap(), json!({ "name": "x", "random": [2, 16], "seed": 7 }));
        assert_eq!(described("x=zeros:").unwrap(), json!({ "name": "x", "zeros": [] }));
        assert_eq!(described("x=i64[2,B]").unwrap(), json!({ "name": "x", "dtype": "i64", "axes": [2, "B"], "seed": 7 }));
        assert_eq!(described("ids=ids.npy").unwrap(), json!({ "name": "ids", "file": "ids.npy" }));
        for (text, words) in [("x=rand", "needs sizes"), ("x=rand:{1,2}", "2 calls"), ("all.npz", "one by one")] {
            assert!(described(text).unwrap_err().message.contains(words), "{text}");
        }
    }
}
