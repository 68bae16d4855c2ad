//! Opens packages: compiled models in one file, which run without compiler, framework and Python.
//!
//! Invariants: a file is never unpacked, and its weights are never copied: they are pages of the
//! file, which all sessions and processes share. Nothing of a file is trusted before it is checked:
//! bounds and structure by [`archive`], checksums by the manifest. Its code is native code;
//! docs/security.md says what that means.

mod archive;
mod atomic;
mod features;
mod manifest;
mod open;
mod safetensors;
mod seen;
mod session;
mod signature;
mod tensor;
mod weights_file;

pub use archive::{NewPart, PART_ALIGN, Part, parse as read_archive, write as write_archive};
pub use atomic::write_atomically;
pub use manifest::{
    EntryInfo, FORMAT_VERSION, IR, InputInfo, InputRole, MANIFEST, Manifest, OutputInfo, OutputRole, PartInfo, Port, SIGNATURE,
    Source, TargetInfo, WEIGHTS,
};
pub use open::{Archive, OpenOptions, Verify};
pub use safetensors::{StoredTensor, read_safetensors, write_safetensors};
pub use seen::VERIFIED;
pub use session::{Session, SessionOptions};
pub use signature::sign;
pub use tensor::Tensor;

use crate::{
    device::{Device, Image},
    devices::{DeviceError, DeviceName, host_device, open_device},
    error::{Error, code},
    executable::{Code, Executable, ExecutableOptions},
    host::HostTensor,
    library::Library,
    meta::ModuleMeta,
    weights::{Prepared, Weight},
};
use std::{
    any::Any,
    collections::HashMap,
    fmt::{self, Write},
    path::Path,
    sync::{Arc, Mutex, PoisonError},
};
use weights_file::WeightsFile;

/// A compiled model in a file, ready to be run by any number of [`Session`]s.
#[derive(Clone)]
pub struct Package {
    contents: Arc<Contents>,
}

struct Contents {
    /// Shared with the weights in `loaded`, which read its memory.
    archive: Arc<Archive>,
    /// The name of the target that was asked for.
    asked: Option<String>,
    /// The device of sessions that name none.
    device: DeviceName,
    /// The code for that device.
    target: Target,
    /// The loaded code for each device that a session asked for.
    loaded: Mutex<HashMap<DeviceName, Arc<Executable>>>,
}

/// The code for one target, and what it expects of the runtime.
#[derive(Clone)]
struct Target {
    info: TargetInfo,
    meta: Arc<ModuleMeta>,
}

/// An entry of a package: a function with named inputs and outputs.
#[derive(Clone, Copy)]
pub struct Entry<'p> {
    info: &'p EntryInfo,
}

impl Package {
    /// Opens the package in a file.
    ///
    /// # Errors
    /// A file that cannot be read, that is no package, that is damaged, of a newer version, or has
    /// no code for this processor; the message names the entry at fault.
    pub fn open(path: impl AsRef<Path>) -> Result<Self, Error> {
        Self::open_with(path, &OpenOptions::default())
    }

    /// Opens the package in a file, with other checks, for another device or another target.
    ///
    /// # Errors
    /// As [`Package::open`], a signature that is missing or wrong, and a device that is not there,
    /// or that the package has no code for.
    pub fn open_with(path: impl AsRef<Path>, options: &OpenOptions) -> Result<Self, Error> {
        let path = path.as_ref();
        let of_file = |error: Error| Error { message: format!("{}: {}", path.display(), error.message), ..error };
        Self::new(Archive::open(path, options)?, options).map_err(of_file)
    }

    /// Opens a package that is in memory. Its weights are verified too, unless the options say
    /// [`Verify::Off`].
    ///
    /// # Errors
    /// As [`Package::open_with`], and no memory for a copy.
    pub fn from_bytes(bytes: &[u8], options: &OpenOptions) -> Result<Self, Error> {
        Self::new(Archive::of_bytes(bytes, options)?, options)
    }

    fn new(archive: Archive, options: &OpenOptions) -> Result<Self, Error> {
        let asked = options.target.clone().or_else(|| std::env::var("DISC_TARGET").ok().filter(|name| !name.is_empty()));
        let device = options.device.as_deref().map_or_else(|| Ok(DeviceName::cpu()), device_name)?;
        let info = match device == DeviceName::cpu() {
            true => features::described(&archive.manifest, &*host_device(), asked.as_deref())?,
            false => features::pick(&archive.manifest, &*opened(&device)?, asked.as_deref())?,
        };
        let target = Target::read(info, &archive)?;
        let contents = Contents { archive: Arc::new(archive), asked, device, target, loaded: Mutex::default() };
        Ok(Self { contents: Arc::new(contents) })
    }

    /// Returns an entry by its name.
    ///
    /// # Errors
    /// There is none; the message names those that there are.
    pub fn entry(&self, name: &str) -> Result<Entry<'_>, Error> {
        self.entries().find(|entry| entry.name() == name).ok_or_else(|| {
            let names: Vec<String> = self.entries().map(|entry| format!("`{}`", entry.name())).collect();
            Error::new(code::PACKAGE_ENTRY, name, format!("the package has no entry `{name}`: it has {}", names.join(", ")))
        })
    }

    /// Returns all entries.
    pub fn entries(&self) -> impl Iterator<Item = Entry<'_>> {
        self.manifest().entries.iter().map(|info| Entry { info })
    }

    /// Returns the manifest.
    pub fn manifest(&self) -> &Manifest {
        &self.contents.archive.manifest
    }

    /// Returns the target whose code was picked for this processor and the options' device.
    pub fn target(&self) -> &TargetInfo {
        &self.contents.target.info
    }

    /// Returns what that code expects of the runtime.
    pub fn module(&self) -> &Arc<ModuleMeta> {
        &self.contents.target.meta
    }

    /// Returns name, element type and sizes of each weight.
    ///
    /// # Errors
    /// The part with the weights is damaged.
    pub fn weights(&self) -> Result<Vec<(String, disc_abi::DType, Vec<i64>)>, Error> {
        self.contents.archive.weights()
    }

    /// Returns the contents of a part; `None` if there is none of this name.
    pub fn part(&self, name: &str) -> Option<&[u8]> {
        self.contents.archive.bytes_of(name).ok()
    }

    /// Reads every part, and compares it with its checksum.
    ///
    /// # Errors
    /// The first part that differs.
    pub fn verify(&self) -> Result<(), Error> {
        self.contents.archive.verify_all()
    }

    /// Returns the code and the weights on a device, by default that of the options, loaded once
    /// for all sessions.
    ///
    /// # Errors
    /// A device that is not there, or that the package has no code for, code of another version,
    /// weights that do not fit it, or no memory for weights.
    pub fn executable(&self, device: Option<&str>) -> Result<Arc<Executable>, Error> {
        let name = device.map_or_else(|| Ok(self.contents.device.clone()), device_name)?;
        let mut loaded = self.contents.loaded.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(executable) = loaded.get(&name) {
            return Ok(Arc::clone(executable));
        }
        let executable = Arc::new(self.contents.load(opened(&name)?)?);
        loaded.insert(name, Arc::clone(&executable));
        Ok(executable)
    }
}

impl Target {
    fn read(info: &TargetInfo, archive: &Archive) -> Result<Self, Error> {
        let text = archive.bytes_of(&info.module())?;
        let meta: ModuleMeta = serde_json::from_slice(text)
            .map_err(|error| fault(&info.module(), format!("it does not describe a module: {error}")))?;
        archive.manifest.check_module(info, &meta)?;
        Ok(Self { info: info.clone(), meta: Arc::new(meta) })
    }

    /// Returns the kernels for the device, if the target has one.
    fn image(&self, archive: &Archive) -> Result<Option<Image>, Error> {
        let Some((device, part)) = self.info.device.clone().zip(self.info.kernels()) else { return Ok(None) };
        let kernels = self.meta.grids.iter().map(|name| name.as_str().into()).collect();
        Ok(Some(Image { target: device, code: archive.bytes_of(&part)?.into(), kernels }))
    }
}

impl Contents {
    /// Loads code and weights on a device.
    fn load(&self, device: Arc<dyn Device>) -> Result<Executable, Error> {
        let info = features::pick(&self.archive.manifest, &*device, self.asked.as_deref())?;
        let target = if *info == self.target.info { self.target.clone() } else { Target::read(info, &self.archive)? };
        // SAFETY: the bytes were made by disc's compiler for this metadata, as far as their
        // checksums tell; docs/security.md says that opening a package trusts its author.
        let library = unsafe { Library::load(self.archive.bytes_of(&info.code())?) }?;
        let mut code = Code::from_library(Arc::new(library), &target.meta)?;
        if let Some(image) = target.image(&self.archive)? {
            code = code.with_image(image);
        }
        let (weights, prepared) = (self.weights(&target)?, self.prepared(&target)?);
        Executable::with_prepared(device, code, target.meta, weights, ExecutableOptions::default(), prepared)
    }

    /// Returns the plain weights in the order of the metadata.
    fn weights(&self, target: &Target) -> Result<Vec<Weight>, Error> {
        let constants = target.info.constants();
        let file = WeightsFile::read(WEIGHTS, self.archive.bytes_of(WEIGHTS)?)?;
        let constants = WeightsFile::read(&constants, self.archive.bytes_of(&constants)?)?;
        let owner: Arc<dyn Any + Send + Sync> = Arc::clone(&self.archive) as _;
        let weight = |meta| {
            if let Some(constant) = constants.constant(meta)? {
                return Ok(constant);
            }
            // SAFETY: the archive's memory lives as long as the owner, and is never written to.
            let weight = unsafe { file.weight(meta, &owner) }?;
            weight.ok_or_else(|| fault(WEIGHTS, format!("it lacks the weight `{}`", meta.name)))
        };
        target.meta.weights.iter().map(weight).collect()
    }

    /// Returns the prepared weights of the package, if it has some.
    fn prepared(&self, target: &Target) -> Result<Option<Prepared>, Error> {
        if !target.info.prepared {
            return Ok(None);
        }
        let name = target.info.prepared_weights();
        let bytes = self.archive.bytes_of(&name)?;
        if target.meta.prepared_bytes() != Some(bytes.len()) {
            return Err(fault(&name, format!("it has {} bytes, which are not those that the code prepares", bytes.len())));
        }
        if bytes.is_empty() {
            return Ok(None);
        }
        self.archive.read_ahead(&name);
        // SAFETY: the archive's memory lives as long as the owner, is never written to, and its
        // parts are aligned.
        Ok(Some(unsafe { Prepared::borrowed(bytes.as_ptr(), bytes.len(), Arc::clone(&self.archive) as _) }))
    }
}

impl<'p> Entry<'p> {
    /// Returns the name.
    pub fn name(self) -> &'p str {
        &self.info.name
    }

    /// Returns the inputs in the order of a call.
    pub fn inputs(self) -> &'p [InputInfo] {
        &self.info.inputs
    }

    /// Returns the outputs in the order of a result.
    pub fn outputs(self) -> &'p [OutputInfo] {
        &self.info.outputs
    }

    /// Returns what must be true of the dims, as text.
    pub fn facts(self) -> &'p [String] {
        &self.info.facts
    }

    /// Returns the structure of arguments and results in the language that the model comes from, if
    /// it was saved; its form belongs to who wrote it.
    pub fn structure(self) -> Option<&'p serde_json::Value> {
        self.info.structure.as_ref()
    }
}

impl fmt::Debug for Package {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let entries: Vec<&str> = self.entries().map(Entry::name).collect();
        f.debug_struct("Package").field("target", &self.target().name).field("entries", &entries).finish()
    }
}

/// Reads the name of a device.
fn device_name(text: &str) -> Result<DeviceName, Error> {
    text.parse().map_err(|error: DeviceError| Error::new(code::BAD_ARGUMENT, "", error.to_string()))
}

/// Opens a device.
fn opened(name: &DeviceName) -> Result<Arc<dyn Device>, Error> {
    open_device(name).map_err(|error| Error::new(code::BAD_ARGUMENT, "", error.to_string()))
}

/// Returns the error of a part that is damaged or has no place in a package.
fn fault(part: &str, message: impl fmt::Display) -> Error {
    Error::new(code::PACKAGE, part, format!("entry `{part}`: {message}"))
}

/// Returns the error of a file that is no package.
fn no_package(message: impl Into<String>) -> Error {
    Error::new(code::PACKAGE, "", message)
}

/// Returns the manifest's checksum of some bytes: BLAKE3, which takes a thirteenth of the time of
/// SHA-256 on processors without instructions for that.
pub fn checksum(pieces: &[&[u8]]) -> String {
    let mut hash = blake3::Hasher::new();
    pieces.iter().for_each(|piece| {
        hash.update(piece);
    });
    hash.finalize().to_hex().to_string()
}

/// Makes a tensor of bytes that is aligned as parts are.
fn aligned_copy(bytes: &[u8]) -> Result<HostTensor, Error> {
    HostTensor::new(&[bytes.len() as i64], bytes)
}

fn hexadecimal(bytes: &[u8]) -> String {
    bytes.iter().fold(String::new(), |mut text, byte| {
        let _ = write!(text, "{byte:02x}");
        text
    })
}

fn from_hexadecimal(text: &str) -> Option<Vec<u8>> {
    let digits: Option<Vec<u32>> = text.chars().map(|c| c.to_digit(16)).collect();
    digits.filter(|digits| digits.len() % 2 == 0).map(|digits| digits.chunks(2).map(|d| (d[0] * 16 + d[1]) as u8).collect())
}
