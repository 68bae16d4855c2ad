//! Defines `manifest.json`: the signature of each entry, the targets that there is code for, and
//! size and checksum of every other part. docs/package.md describes each key.
//!
//! Invariant: a reader of one version reads the manifests of all earlier ones.

use super::{archive::Part, fault};
use crate::{
    error::{Error, code},
    meta::{EntryMeta, ModuleMeta},
};
use disc_abi::DType;
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;

/// The version of the format that this library writes; it reads all up to it.
pub const FORMAT_VERSION: u32 = 1;

/// The name of the part with the manifest. It is the first one.
pub const MANIFEST: &str = "manifest.json";
/// The name of the part with the weights.
pub const WEIGHTS: &str = "weights.safetensors";
/// The name of the part with the program as text, which is optional.
pub const IR: &str = "program.disc";
/// The name of the part with a signature of the manifest, which is optional.
pub const SIGNATURE: &str = "signature.json";

/// The contents of `manifest.json`.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Manifest {
    /// The version of the format: [`FORMAT_VERSION`] or an earlier one.
    pub format_version: u32,
    /// The program that wrote the package: `disc 0.1.0`.
    pub build: String,
    /// The functions that can be called.
    pub entries: Vec<EntryInfo>,
    /// The kinds of processor that there is code for.
    pub targets: Vec<TargetInfo>,
    /// The devices beside processors that there is code for, each with its host program. Readers
    /// that are older than this key run the code of `targets`.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub device_targets: Vec<TargetInfo>,
    /// Every part but the manifest and the signature.
    pub parts: BTreeMap<String, PartInfo>,
}

/// An entry as its callers see it.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct EntryInfo {
    /// The name.
    pub name: String,
    /// The inputs in the order of a call.
    pub inputs: Vec<InputInfo>,
    /// The outputs in the order of a result.
    pub outputs: Vec<OutputInfo>,
    /// Facts about the dims, as text: `S <= 512`.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub facts: Vec<String>,
    /// By the name of each target where it is known, the bytes of intermediate values of a call, at
    /// most: an expression of the dims.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub temporary_bytes: BTreeMap<String, String>,
    /// The structure of arguments and results in Python: see
    /// [`Entry::structure`](super::Entry::structure).
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub structure: Option<serde_json::Value>,
}

/// An input or an output of an entry: its name, element type and sizes, and what it has beside
/// them.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Port<R> {
    name: String,
    #[serde(with = "dtype_name")]
    dtype: DType,
    dims: Vec<String>,
    #[serde(flatten)]
    role: R,
}

/// An input of an entry.
pub type InputInfo = Port<InputRole>;
/// An output of an entry.
pub type OutputInfo = Port<OutputRole>;

/// The facts that only inputs have.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct InputRole {
    #[serde(default, skip_serializing_if = "is_false")]
    written: bool,
}

/// The facts that only outputs have.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct OutputRole {
    source: Source,
}

/// The place where an output's value is after a call.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Source {
    /// An output of the compiled function.
    Output(usize),
    /// An input: the model returns what it was given.
    Input(usize),
}

/// The code for one kind of processor, or for a device and the processor that its host program runs
/// on.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct TargetInfo {
    /// `x86-64-v4+avx512vnni`, or `nvptx:sm_90 on x86-64-v3`.
    pub name: String,
    /// The device that the kernels are for, as `nvptx:sm_90`; `None` if the processor runs all.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub device: Option<String>,
    /// The architecture of the processor in Rust's words: `x86_64`.
    pub arch: String,
    /// The features that the processor must have, in Rust's words: `avx2`.
    pub features: Vec<String>,
    /// The folder of its parts.
    pub folder: String,
    /// There is a part with prepared weights.
    #[serde(default, skip_serializing_if = "is_false")]
    pub prepared: bool,
}

/// Size and checksum of a part.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct PartInfo {
    /// The number of its bytes.
    pub bytes: u64,
    /// The BLAKE3 hash of the contents, in hexadecimal.
    pub blake3: String,
}

impl<R> Port<R> {
    /// Returns the name of the parameter or result.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// Returns the element type.
    pub fn dtype(&self) -> DType {
        self.dtype
    }

    /// Returns the size of each axis: a number, a dim, or an expression of dims.
    pub fn dims(&self) -> &[String] {
        &self.dims
    }
}

impl Port<InputRole> {
    /// Describes an input.
    pub fn new(name: impl Into<String>, dtype: DType, dims: Vec<String>, written: bool) -> Self {
        Self { name: name.into(), dtype, dims, role: InputRole { written } }
    }

    /// Returns true if a call writes into the caller's tensor.
    pub fn is_written(&self) -> bool {
        self.role.written
    }
}

impl Port<OutputRole> {
    /// Describes an output.
    pub fn new(name: impl Into<String>, dtype: DType, dims: Vec<String>, source: Source) -> Self {
        Self { name: name.into(), dtype, dims, role: OutputRole { source } }
    }

    /// Returns the place of the output's value after a call.
    pub fn source(&self) -> Source {
        self.role.source
    }
}

impl TargetInfo {
    /// The name of the part with the shared object.
    pub fn code(&self) -> String {
        format!("{}/code.so", self.folder)
    }

    /// The name of the part with the [`ModuleMeta`].
    pub fn module(&self) -> String {
        format!("{}/module.json", self.folder)
    }

    /// The name of the part with the constants of the program.
    pub fn constants(&self) -> String {
        format!("{}/constants.safetensors", self.folder)
    }

    /// The name of the part with the kernels for the device: PTX for a GPU of NVIDIA, else IR text.
    /// `None` without a device.
    pub fn kernels(&self) -> Option<String> {
        let extension = if self.device.as_ref()?.starts_with("nvptx:") { "ptx" } else { "disc" };
        Some(format!("{}/kernels.{extension}", self.folder))
    }

    /// The name of the part with the prepared weights.
    pub fn prepared_weights(&self) -> String {
        format!("{}/prepared.bin", self.folder)
    }
}

/// The key that says whether the rest can be read.
#[derive(Deserialize)]
struct Version {
    format_version: u64,
}

impl Manifest {
    /// Reads a manifest and compares it with the parts of its package.
    ///
    /// # Errors
    /// Another version, text that is no manifest, a part that is missing, unknown or of another
    /// size.
    pub fn read(text: &[u8], parts: &[Part]) -> Result<Self, Error> {
        let wrong = |error: serde_json::Error| fault(MANIFEST, format!("it is no manifest: {error}"));
        let Version { format_version } = serde_json::from_slice(text).map_err(wrong)?;
        if format_version == 0 || format_version > u64::from(FORMAT_VERSION) {
            let message = format!(
                "`{MANIFEST}`: the package has format version {format_version}, and this version of disc reads 1 to {FORMAT_VERSION}"
            );
            return Err(Error::new(code::PACKAGE_VERSION, MANIFEST, message));
        }
        let manifest: Self = serde_json::from_slice(text).map_err(wrong)?;
        manifest.check_devices()?;
        manifest.check_parts(parts)?;
        manifest.check_names()?;
        Ok(manifest)
    }

    fn check_parts(&self, parts: &[Part]) -> Result<(), Error> {
        for part in parts.iter().filter(|part| part.name != MANIFEST && part.name != SIGNATURE) {
            match self.parts.get(&part.name) {
                None => return Err(fault(&part.name, "the manifest does not name this entry")),
                Some(info) if info.bytes != part.bytes as u64 => {
                    let message = format!("it has {} bytes, the manifest says {}", part.bytes, info.bytes);
                    return Err(fault(&part.name, message));
                }
                Some(_) => {}
            }
        }
        let needed = self.targets.iter().chain(&self.device_targets).flat_map(|target| {
            let prepared = target.prepared.then(|| target.prepared_weights());
            [target.code(), target.module(), target.constants()].into_iter().chain(target.kernels()).chain(prepared)
        });
        let needed = needed.chain([WEIGHTS.into()]).chain(self.parts.keys().cloned());
        for name in needed {
            if parts.iter().all(|part| part.name != name) || !self.parts.contains_key(&name) {
                return Err(fault(&name, "the manifest names this entry, and it is missing"));
            }
        }
        Ok(())
    }

    /// Checks that processors run all code of `targets`, and that `device_targets` have devices.
    fn check_devices(&self) -> Result<(), Error> {
        if let Some(target) = self.targets.iter().find(|target| target.device.is_some()) {
            return Err(fault(MANIFEST, format!("`{}` is no target of processors alone", target.name)));
        }
        // Prepared weights are read where they are: in memory of the host.
        match self.device_targets.iter().find(|target| target.device.is_none() || target.prepared) {
            Some(target) => Err(fault(MANIFEST, format!("`{}` is no target of a device without prepared weights", target.name))),
            None => Ok(()),
        }
    }

    fn check_names(&self) -> Result<(), Error> {
        let mut names: Vec<&str> = self.entries.iter().map(|entry| &*entry.name).collect();
        names.sort_unstable();
        if let Some(pair) = names.windows(2).find(|pair| pair[0] == pair[1]) {
            return Err(fault(MANIFEST, format!("there are two functions `{}`", pair[0])));
        }
        for entry in &self.entries {
            let bad = entry.outputs.iter().find(|output| matches!(output.source(), Source::Input(i) if i >= entry.inputs.len()));
            if let Some(output) = bad {
                return Err(fault(
                    MANIFEST,
                    format!("output `{}` of `{}` is an input that is not there", output.name, entry.name),
                ));
            }
        }
        Ok(())
    }

    /// Returns the position of an entry in the code.
    ///
    /// # Errors
    /// The module of a target has other entries than the manifest.
    pub(super) fn check_module(&self, target: &TargetInfo, meta: &ModuleMeta) -> Result<(), Error> {
        let differs = |name: &str| fault(&target.module(), format!("its function `{name}` differs from that of the manifest"));
        if let Some(extra) = meta.entries.iter().find(|entry| self.entries.iter().all(|info| info.name != entry.name)) {
            return Err(differs(&extra.name));
        }
        for info in &self.entries {
            let entry = meta.entries.iter().find(|entry| entry.name == info.name).ok_or_else(|| differs(&info.name))?;
            if !info.fits(entry) {
                return Err(differs(&info.name));
            }
        }
        Ok(())
    }
}

impl EntryInfo {
    fn fits(&self, entry: &EntryMeta) -> bool {
        let inputs = self.inputs.iter().zip(&entry.inputs);
        let mut same_inputs =
            inputs.map(|(a, b)| (&a.name, a.dtype, &a.dims, a.is_written()) == (&b.name, b.dtype, &b.dims, b.written));
        let fits = |output: &OutputInfo| match output.source() {
            Source::Input(i) => {
                self.inputs.get(i).is_some_and(|input| (input.dtype, &input.dims) == (output.dtype, &output.dims))
            }
            Source::Output(i) => {
                entry.outputs.get(i).is_some_and(|made| (made.dtype, made.dims.len()) == (output.dtype, output.dims.len()))
            }
        };
        self.inputs.len() == entry.inputs.len() && same_inputs.all(|same| same) && self.outputs.iter().all(fits)
    }
}

fn is_false(value: &bool) -> bool {
    !value
}

/// An element type is written by its name.
mod dtype_name {
    use disc_abi::DType;
    use serde::{Deserialize, Deserializer, Serialize, Serializer, de::Error};

    pub(super) fn serialize<S: Serializer>(dtype: &DType, to: S) -> Result<S::Ok, S::Error> {
        dtype.name().serialize(to)
    }

    pub(super) fn deserialize<'de, D: Deserializer<'de>>(from: D) -> Result<DType, D::Error> {
        let name = String::deserialize(from)?;
        let known = DType::ALL.into_iter().find(|dtype| dtype.name() == name);
        known.ok_or_else(|| D::Error::custom(format!("there is no element type `{name}`")))
    }
}
