//! Describes a compiled module to the runtime, beside its code. The compiler builds it; it is plain
//! data.
//!
//! Invariant: the library that goes with it was compiled from the same module. The runtime checks
//! counts, dtypes, ranks and memory against this; the entry checks sizes against dims and facts,
//! with the `sites` as messages.

use crate::tensor::TensorRef;
use disc_abi::DType;
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;

/// A compiled module.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct ModuleMeta {
    /// The functions that can be called.
    pub entries: Vec<EntryMeta>,
    /// The plain weights: the first part of the weight table.
    pub weights: Vec<WeightMeta>,
    /// The prepared blobs: the second part of the weight table, stored in this order.
    pub blobs: Vec<BlobMeta>,
    /// Symbols of the `prepare` entries, run in this order.
    pub prepare: Vec<String>,
    /// The GPU kernels that the entries launch, in the order of their numbers.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub grids: Vec<String>,
    /// Source sites: number `n` of generated code is `sites[n - 1]`.
    pub sites: Vec<Site>,
    /// For profiles: by the group of kernels (`k3` of `k3_matmul_split_k`), the modules of the
    /// model whose weights they read. A `*` stands for the numbers of modules of one kind.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub sources: BTreeMap<String, Vec<String>>,
    /// The same for the lines of the model that they compute, as `model.py:42 forward`: the first
    /// of them in the order of the program.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub lines: BTreeMap<String, Vec<String>>,
}

/// A named entry.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct EntryMeta {
    /// The user's name for it.
    pub name: String,
    /// The exported symbol, a [`disc_abi::EntryFn`].
    pub symbol: String,
    /// The inputs in the order of a call.
    pub inputs: Vec<InputMeta>,
    /// The outputs in the order of a result.
    pub outputs: Vec<OutputMeta>,
    /// Facts about the dims as text, for people.
    pub constraints: Vec<String>,
    /// The bytes of intermediate values of a call, at most, as an expression of the dims, without
    /// the scratch of kernels; `None` where data decides.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub temporary_bytes: Option<String>,
}

/// An input. Its rank is the number of its dims.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct InputMeta {
    /// The name of the parameter.
    pub name: String,
    /// The element type.
    #[serde(with = "dtype_code")]
    pub dtype: DType,
    /// Each dim as text: `B`, `2*B`, `768`.
    pub dims: Vec<String>,
    /// A host scalar, or a tensor that stays in host memory on every device.
    pub host: bool,
    /// The entry writes into it.
    pub written: bool,
}

/// An output. Its rank is the number of its dims.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct OutputMeta {
    /// The name of the result.
    pub name: String,
    /// The element type.
    #[serde(with = "dtype_code")]
    pub dtype: DType,
    /// The size of each axis as text, as for [`InputMeta::dims`].
    pub dims: Vec<String>,
    /// As for [`InputMeta::host`].
    pub host: bool,
    /// The input whose memory this output may alias.
    pub alias: Option<usize>,
}

/// A plain weight: contiguous, of fixed sizes.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct WeightMeta {
    /// The name in the model.
    pub name: String,
    /// The element type.
    #[serde(with = "dtype_code")]
    pub dtype: DType,
    /// The size of each axis.
    pub sizes: Vec<i64>,
    /// Only `prepare` entries read it, so it may be freed when they have run.
    pub prepare_only: bool,
}

/// A prepared blob: packed, scaled or folded weights.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct BlobMeta {
    /// A name for messages.
    pub name: String,
    /// The size.
    pub bytes: u64,
    /// Position in [`ModuleMeta::prepare`] of the entry that fills it.
    pub prepare: usize,
}

/// A place in the source program that can fail at run time.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Site {
    /// `E0123`.
    pub code: String,
    /// The op, with its source position where known.
    pub op: String,
    /// The message, with `{0}`, `{1}`... for the values.
    pub template: String,
    /// The dims that the message mentions, as text.
    pub dims: Vec<String>,
    /// For a site that kernels report: the number of values that they leave in scratch, at most
    /// [`disc_abi::KERNEL_VALUES`].
    pub kernel_values: usize,
}

impl ModuleMeta {
    /// Returns the site with a number of generated code.
    pub fn site(&self, number: u32) -> Option<&Site> {
        self.sites.get(usize::try_from(number).ok()?.checked_sub(1)?)
    }

    /// Returns the position of an entry.
    pub fn entry(&self, name: &str) -> Option<usize> {
        self.entries.iter().position(|entry| entry.name == name)
    }
}

impl EntryMeta {
    /// Returns the sizes that inputs give to the dims that have a name, each once, in the order of
    /// the signature.
    pub fn sizes_of<'m>(&'m self, inputs: &[TensorRef<'_>]) -> impl Iterator<Item = (&'m str, i64)> {
        let is_name = |dim: &str| {
            dim.starts_with(|c: char| c.is_alphabetic() || c == '_') && dim.chars().all(|c| c.is_alphanumeric() || c == '_')
        };
        let mut found: Vec<(&'m str, i64)> = Vec::new();
        for (input, tensor) in self.inputs.iter().zip(inputs) {
            for (dim, &size) in input.dims.iter().zip(tensor.sizes()) {
                if is_name(dim) && found.iter().all(|(known, _)| known != dim) {
                    found.push((dim, size));
                }
            }
        }
        found.into_iter()
    }
}

impl WeightMeta {
    /// Returns the size in bytes; `None` if it does not fit.
    pub fn bytes(&self) -> Option<usize> {
        crate::tensor::bytes_of(self.dtype, &self.sizes)
    }
}

impl Site {
    /// Formats the message with these values; a placeholder without a value stays.
    pub fn message(&self, values: &[i64]) -> String {
        let mut text = String::with_capacity(self.template.len() + 16);
        let mut rest = self.template.as_str();
        while let Some(open) = rest.find('{') {
            let (before, from) = rest.split_at(open);
            text.push_str(before);
            let close = from.find('}');
            let index = close.and_then(|close| from[1..close].parse::<usize>().ok());
            match (close, index.and_then(|index| values.get(index))) {
                (Some(close), Some(value)) => {
                    text.push_str(&value.to_string());
                    rest = &from[close + 1..];
                }
                _ => {
                    text.push('{');
                    rest = &from[1..];
                }
            }
        }
        text.push_str(rest);
        text
    }
}

/// An element type is stored as its code in descriptors, which is never renumbered.
mod dtype_code {
    use disc_abi::DType;
    use serde::{Deserialize, Deserializer, Serialize, Serializer, de::Error};

    pub(super) fn serialize<S: Serializer>(dtype: &DType, to: S) -> Result<S::Ok, S::Error> {
        dtype.code().serialize(to)
    }

    pub(super) fn deserialize<'de, D: Deserializer<'de>>(from: D) -> Result<DType, D::Error> {
        let code = u8::deserialize(from)?;
        DType::from_code(code).ok_or_else(|| D::Error::custom(format!("no element type has the code {code}")))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn message(template: &str, values: &[i64]) -> String {
        Site { template: template.into(), ..Site::default() }.message(values)
    }

    #[test]
    fn placeholders_are_filled_and_other_braces_stay() {
        assert_eq!(message("dim `B` is {1}, of `y` it is {0}", &[3, -4]), "dim `B` is -4, of `y` it is 3");
        assert_eq!(message("{0}{0}", &[7]), "77");
        assert_eq!(message("a {1} b {x} c {", &[7]), "a {1} b {x} c {");
        assert_eq!(message("{{0}}", &[7]), "{7}");
        assert_eq!(message("", &[7]), "");
    }

    #[test]
    fn sites_are_numbered_from_one() {
        let meta = ModuleMeta { sites: vec![Site { code: "E0101".into(), ..Site::default() }], ..ModuleMeta::default() };
        assert_eq!(meta.site(0), None);
        assert_eq!(meta.site(1).unwrap().code, "E0101");
        assert_eq!(meta.site(2), None);
    }
}
