//! Opens the container of a package and checks what is in it.

use super::{
    aligned_copy,
    archive::{self, Part},
    checksum, fault,
    manifest::{MANIFEST, Manifest, SIGNATURE, WEIGHTS},
    no_package,
    seen::Seen,
    signature,
    weights_file::WeightsFile,
};
use crate::{
    cache_directory::cache_directory,
    error::{Error, code},
    host::HostTensor,
};
use memmap2::Mmap;
use std::{
    fs::File,
    path::{Path, PathBuf},
};

/// A manifest is read into memory, so it has a limit.
const LARGEST_MANIFEST: usize = 64 << 20;

/// The checks of the weights, which are most of a package's bytes. All other parts are checked at
/// each open.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Verify {
    /// When a file is seen for the first time, or was changed since.
    #[default]
    FirstSeen,
    /// Each time.
    All,
    /// Never.
    Off,
}

/// Options for opening a package.
#[derive(Clone, Debug, Default)]
pub struct OpenOptions {
    /// When to read all weights to compare them with their checksum.
    pub verify: Verify,
    /// The device of sessions that name none, such as `cuda:0`; `cpu` by default.
    pub device: Option<String>,
    /// The target whose code to run, such as `x86-64-v3` or `nvptx:sm_80`; by default that in the
    /// environment variable `DISC_TARGET`, else the best one that the device and this processor can
    /// run.
    pub target: Option<String>,
    /// A public ed25519 key in PEM; a package that its owner did not sign is refused.
    pub require_signature: Option<String>,
    /// The folder that remembers which files were verified; by default `DISC_CACHE_DIR`, else
    /// `disc` in the user's folder for caches.
    pub cache: Option<PathBuf>,
}

/// The parts of a package, in memory that does not change: what is in a file, whether or not this
/// processor can run it.
pub struct Archive {
    data: Data,
    parts: Vec<Part>,
    pub(super) manifest: Manifest,
}

enum Data {
    Mapped(Mmap),
    Copied(HostTensor),
}

impl Data {
    fn bytes(&self) -> &[u8] {
        match self {
            Self::Mapped(map) => map,
            Self::Copied(tensor) => tensor.bytes(),
        }
    }
}

impl Archive {
    /// Opens a file and checks what is in it. Of the options, it reads neither device nor target.
    ///
    /// # Errors
    /// A file that cannot be read, that is no package, that is damaged, of a newer version, or
    /// without the required signature.
    pub fn open(path: &Path, options: &OpenOptions) -> Result<Self, Error> {
        let of_file = |error: Error| Error { message: format!("{}: {}", path.display(), error.message), ..error };
        Self::open_file(path, options).map_err(of_file)
    }

    /// Returns the manifest.
    pub fn manifest(&self) -> &Manifest {
        &self.manifest
    }

    /// Returns name and contents of each part, in the order of the file.
    pub fn parts(&self) -> impl Iterator<Item = (&str, &[u8])> {
        self.parts.iter().map(|part| (&*part.name, &self.data.bytes()[part.range()]))
    }

    /// Returns name, element type and sizes of each weight.
    ///
    /// # Errors
    /// The part with the weights is damaged.
    pub fn weights(&self) -> Result<Vec<(String, disc_abi::DType, Vec<i64>)>, Error> {
        let file = WeightsFile::read(WEIGHTS, self.bytes_of(WEIGHTS)?)?;
        Ok(file.tensors.into_iter().map(|tensor| (tensor.name.into_owned(), tensor.dtype, tensor.sizes.into_owned())).collect())
    }

    fn open_file(path: &Path, options: &OpenOptions) -> Result<Self, Error> {
        let unreadable = |error: std::io::Error| no_package(format!("the file cannot be read: {error}"));
        let file = File::open(path).map_err(unreadable)?;
        let metadata = file.metadata().map_err(unreadable)?;
        if !metadata.is_file() {
            return Err(no_package("this is no file"));
        }
        if metadata.len() == 0 {
            return Err(no_package("the file is truncated: it is empty"));
        }
        // SAFETY: a file that another program changes while it is mapped is beyond what any reader
        // can guard; docs/package.md asks to replace packages, not to write into them.
        let map = unsafe { Mmap::map(&file) }.map_err(unreadable)?;
        let archive = Self::read(Data::Mapped(map), options)?;
        let folder = options.cache.clone().or_else(cache_directory);
        let manifest = archive.bytes_of(MANIFEST)?;
        let seen = folder.and_then(|folder| Seen::of(&folder, path, &metadata, manifest));
        archive.verify(options.verify, seen.as_ref())?;
        Ok(archive)
    }

    pub(super) fn of_bytes(bytes: &[u8], options: &OpenOptions) -> Result<Self, Error> {
        let archive = Self::read(Data::Copied(aligned_copy(bytes)?), options)?;
        archive.verify(options.verify, None)?;
        Ok(archive)
    }

    /// Finds the parts, reads the manifest, and checks the signature.
    fn read(data: Data, options: &OpenOptions) -> Result<Self, Error> {
        let parts = archive::parse(data.bytes())?;
        let first = parts.first().filter(|part| part.name == MANIFEST);
        let first = first.ok_or_else(|| match parts.first() {
            Some(part) if part.name == "capture.json" => no_package("this is a captured call, no package: `disc replay` runs it"),
            _ => fault(MANIFEST, "it is not the first entry, so this is no package"),
        })?;
        if first.bytes > LARGEST_MANIFEST {
            return Err(fault(MANIFEST, format!("it has {} bytes, more than any manifest", first.bytes)));
        }
        let text = &data.bytes()[first.range()];
        check_crc(first, text)?;
        if let Some(key) = &options.require_signature {
            let part = parts.iter().find(|part| part.name == SIGNATURE);
            signature::check(text, part.map(|part| &data.bytes()[part.range()]), key)?;
        }
        let manifest = Manifest::read(text, &parts)?;
        Ok(Self { data, parts, manifest })
    }

    /// Returns the contents of a part.
    pub(super) fn bytes_of(&self, name: &str) -> Result<&[u8], Error> {
        let part = self.parts.iter().find(|part| part.name == name);
        part.map(|part| &self.data.bytes()[part.range()]).ok_or_else(|| fault(name, "it is missing"))
    }

    /// Asks the system for the pages of a part that a call is about to read, at once: a fault for
    /// every few of them takes several times as long. Older systems refuse, and nothing is lost.
    pub(super) fn read_ahead(&self, name: &str) {
        let part = self.parts.iter().find(|part| part.name == name);
        if let (Data::Mapped(map), Some(part)) = (&self.data, part) {
            let _ = map.advise_range(memmap2::Advice::PopulateRead, part.at, part.bytes);
        }
    }

    fn verify(&self, verify: Verify, seen: Option<&Seen>) -> Result<(), Error> {
        let (large, small): (Vec<&Part>, Vec<&Part>) = self.parts.iter().partition(|part| self.is_large(part));
        small.into_iter().try_for_each(|part| self.check(part))?;
        let is_known = || seen.is_some_and(Seen::is_noted);
        if verify == Verify::Off || (verify == Verify::FirstSeen && is_known()) {
            return Ok(());
        }
        large.into_iter().try_for_each(|part| self.check(part))?;
        if let Some(seen) = seen {
            seen.write();
        }
        Ok(())
    }

    pub(super) fn verify_all(&self) -> Result<(), Error> {
        self.parts.iter().try_for_each(|part| self.check(part))
    }

    /// Returns true for weights, plain or prepared.
    fn is_large(&self, part: &Part) -> bool {
        part.name == WEIGHTS || self.manifest.targets.iter().any(|target| target.prepared_weights() == part.name)
    }

    fn check(&self, part: &Part) -> Result<(), Error> {
        let bytes = &self.data.bytes()[part.range()];
        check_crc(part, bytes)?;
        match self.manifest.parts.get(&part.name) {
            Some(info) if info.blake3 != checksum(&[bytes]) => {
                Err(fault(&part.name, "its contents are damaged: they have another BLAKE3 hash than the manifest says"))
            }
            _ => Ok(()),
        }
    }
}

fn check_crc(part: &Part, bytes: &[u8]) -> Result<(), Error> {
    let found = crc32fast::hash(bytes);
    if found == part.crc {
        return Ok(());
    }
    Err(fault(&part.name, format!("its contents are damaged: CRC-32 {found:08x}, expected {:08x}", part.crc)))
}

impl OpenOptions {
    /// Requires a signature by the owner of the public key in a PEM file.
    ///
    /// # Errors
    /// The file cannot be read.
    pub fn require_signature_by(self, path: &Path) -> Result<Self, Error> {
        let key = std::fs::read_to_string(path);
        let key = key.map_err(|error| {
            let message = format!("the public key for the signature, {}, cannot be read: {error}", path.display());
            Error::new(code::PACKAGE_SIGNATURE, "", message)
        })?;
        Ok(Self { require_signature: Some(key), ..self })
    }
}
