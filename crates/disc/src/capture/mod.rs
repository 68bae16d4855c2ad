//! Captures of calls: a program with everything that one call of it needs, in a file (`.discap`)
//! that any machine can run again.
//!
//! The file is a container like that of a package: `capture.json`, `program.disc`,
//! `inputs.safetensors`, `weights.safetensors`. It holds no code.

mod reduce;
mod replay;

pub use reduce::{Reduced, reduce};
pub use replay::{Replay, replay};

use crate::{
    Error, VERSION,
    dump::with_lines,
    parse,
    tensors::{dtype, dtype_of_runtime},
};
use disc_ir::{Module, interp::Tensor};
use disc_ral::{NewPart, StoredTensor, read_archive, read_safetensors, write_archive, write_atomically, write_safetensors};
use serde::{Deserialize, Serialize};
use std::{collections::BTreeMap, fs, path::Path};

const HEAD: &str = "capture.json";
const PROGRAM: &str = "program.disc";
const INPUTS: &str = "inputs.safetensors";
const WEIGHTS: &str = "weights.safetensors";

/// A call of a program.
#[derive(Clone, Debug)]
pub struct Capture {
    pub module: Module,
    pub entry: String,
    /// In the order of the entry's parameters, as they were before the call.
    pub inputs: Vec<Tensor>,
    pub weights: Vec<(String, Tensor)>,
    pub facts: CallFacts,
}

/// Facts about the call beside its program and its tensors.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct CallFacts {
    /// The target of the code that ran.
    pub target: Option<String>,
    /// The most threads of the call.
    pub threads: Option<usize>,
    /// Options of the compiler by name, as text.
    #[serde(default)]
    pub options: BTreeMap<String, String>,
    /// The outputs of the call, or none if it failed.
    #[serde(default)]
    pub outputs: Vec<Output>,
    /// The failure of the call.
    pub error: Option<String>,
}

/// An output of the captured call.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Output {
    pub dtype: String,
    pub sizes: Vec<i64>,
    /// The BLAKE3 hash of its elements.
    pub blake3: String,
}

/// The contents of `capture.json`.
#[derive(Serialize, Deserialize)]
struct Head {
    format_version: u32,
    build: String,
    entry: String,
    #[serde(flatten)]
    facts: CallFacts,
}

impl Output {
    pub fn of(tensor: &Tensor) -> Self {
        let blake3 = disc_ral::checksum(&[tensor.bytes()]);
        Self { dtype: tensor.dtype().name().into(), sizes: tensor.dims().to_vec(), blake3 }
    }
}

impl Capture {
    /// Writes the capture to a file.
    ///
    /// # Errors
    /// The file cannot be written.
    pub fn write(&self, path: &Path) -> Result<(), Error> {
        let build = format!("disc {VERSION}");
        let head = Head { format_version: 1, build, entry: self.entry.clone(), facts: self.facts.clone() };
        let head = serde_json::to_vec_pretty(&head).map_err(|error| Error::compile(error.to_string()))?;
        let text = with_lines(&self.module);
        let names: Vec<String> = (0..self.inputs.len()).map(|i| format!("{i:04}")).collect();
        let inputs = file_of(names.iter().map(String::as_str).zip(&self.inputs));
        let weights = file_of(self.weights.iter().map(|(name, tensor)| (name.as_str(), tensor)));
        let part = |name, bytes| NewPart { name, pieces: vec![bytes] };
        let parts = [part(HEAD, &head[..]), part(PROGRAM, text.as_bytes()), part(INPUTS, &inputs), part(WEIGHTS, &weights)];
        write_atomically(path, |out| write_archive(&parts, out))
            .map_err(|error| Error::argument(format!("{} cannot be written: {error}", path.display())))
    }

    /// Reads a capture from a file.
    ///
    /// # Errors
    /// A file that cannot be read, or that is no capture.
    pub fn read(path: &Path) -> Result<Self, Error> {
        let wrong = |why: String| Error::argument(format!("{}: {why}", path.display()));
        let file = fs::read(path).map_err(|error| wrong(error.to_string()))?;
        let parts = read_archive(&file)?;
        let part = |name: &str| {
            let found = parts.iter().find(|part| part.name == name);
            found.map(|part| &file[part.range()]).ok_or_else(|| wrong(format!("this is no capture: it has no `{name}`")))
        };
        let head: Head = serde_json::from_slice(part(HEAD)?).map_err(|error| wrong(format!("`{HEAD}`: {error}")))?;
        if head.format_version != 1 {
            return Err(wrong(format!("the capture has format version {}, this version of disc reads 1", head.format_version)));
        }
        let text = std::str::from_utf8(part(PROGRAM)?).map_err(|error| wrong(format!("`{PROGRAM}`: {error}")))?;
        let module = parse(text)?;
        let inputs = tensors_of(INPUTS, part(INPUTS)?)?.into_iter().map(|(_, tensor)| tensor).collect();
        let weights = tensors_of(WEIGHTS, part(WEIGHTS)?)?;
        Ok(Self { module, entry: head.entry, inputs, weights, facts: head.facts })
    }
}

/// Returns a file of safetensors.
fn file_of<'t>(named: impl Iterator<Item = (&'t str, &'t Tensor)>) -> Vec<u8> {
    let stored = |(name, tensor): (&'t str, &'t Tensor)| StoredTensor {
        name: name.into(),
        dtype: dtype(tensor.dtype()),
        sizes: tensor.dims().into(),
        bytes: tensor.bytes(),
    };
    let (header, pieces) = write_safetensors(&named.map(stored).collect::<Vec<_>>());
    [&header[..], &pieces.concat()].concat()
}

fn tensors_of(part: &str, file: &[u8]) -> Result<Vec<(String, Tensor)>, Error> {
    let stored = read_safetensors(file).map_err(|why| Error::argument(format!("`{part}`: {why}")))?;
    let tensor = |stored: StoredTensor<'_>| {
        let tensor = Tensor::new(dtype_of_runtime(stored.dtype), stored.sizes.into_owned(), stored.bytes.to_vec())?;
        Ok((stored.name.into_owned(), tensor))
    };
    stored.into_iter().map(tensor).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use disc_ir::DType;

    #[test]
    fn a_capture_is_read_back() {
        let text = "func @main(%x: tensor<[B]xf32>) -> tensor<[B]xf32> {\n  %y = negate %x : tensor<[B]xf32>\n  return %y : tensor<[B]xf32>\n}\n";
        let x = Tensor::from_f64s(DType::F32, &[2], &[1.0, f64::NAN]).unwrap();
        let facts = CallFacts { threads: Some(1), outputs: vec![Output::of(&x)], ..CallFacts::default() };
        let weights = vec![("w".to_owned(), Tensor::from_i64s(DType::I64, &[], &[7]).unwrap())];
        let capture = Capture { module: parse(text).unwrap(), entry: "main".into(), inputs: vec![x.clone()], weights, facts };
        let path = std::env::temp_dir().join(format!("disc-{}.discap", std::process::id()));
        capture.write(&path).unwrap();
        let back = Capture::read(&path).unwrap();
        fs::remove_file(&path).unwrap();
        assert_eq!((back.module.to_string(), back.inputs, &*back.entry), (text.to_owned(), vec![x], "main"));
        assert_eq!((back.weights, back.facts), (capture.weights, capture.facts));
        assert!(Capture::read(Path::new("/no/such/file")).is_err());
    }
}
