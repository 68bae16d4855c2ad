//! Opens a regular file once, and maps it.
use super::limits::FILE;
use bytes::Bytes;
use disc_ir::{Code, Diagnostic};
use memmap2::Mmap;
use std::{
    fs,
    io::{self, Read},
    path::{Path, PathBuf},
};

/// The means to read a file.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Access {
    /// Pages of the file, which must not change while a program of it is in use.
    #[default]
    Map,
    /// Memory of this process.
    Copy,
}

/// A model's bytes, and the place that they came from.
#[derive(Clone, Debug)]
pub struct File {
    /// The name in messages and origins: that of the file without its folders.
    pub name: String,
    /// None for bytes that came without a file.
    pub path: Option<PathBuf>,
    pub bytes: Bytes,
}

impl File {
    /// Opens a file.
    ///
    /// # Errors
    /// E1001: it cannot be read, or is no regular file. E1002: it is too large.
    pub fn open(path: &Path, access: Access) -> Result<Self, Diagnostic> {
        let wrong = |why: String| Diagnostic::new(Code::E1001, format!("{} cannot be read: {why}", path.display()));
        let (file, length) = open_regular(path).map_err(|error| wrong(error.to_string()))?;
        FILE.check(usize::try_from(length).unwrap_or(usize::MAX))?;
        let bytes = contents(&file, length, access).map_err(|error| wrong(error.to_string()))?;
        let name = path.file_name().unwrap_or(path.as_os_str()).to_string_lossy().into_owned();
        Ok(Self { name, path: Some(path.to_owned()), bytes })
    }

    /// Takes bytes that came without a file; `name` stands for it in messages.
    ///
    /// # Errors
    /// E1002: they are too many.
    pub fn of_bytes(name: &str, bytes: Bytes) -> Result<Self, Diagnostic> {
        FILE.check(bytes.len())?;
        Ok(Self { name: name.to_owned(), path: None, bytes })
    }

    /// Returns the text of the file.
    ///
    /// # Errors
    /// E1001: it is not UTF-8.
    pub fn text(&self) -> Result<&str, Diagnostic> {
        std::str::from_utf8(&self.bytes).map_err(|error| {
            let message = format!("{} is not UTF-8 text: byte {} is wrong", self.name, error.valid_up_to());
            Diagnostic::new(Code::E1001, message)
        })
    }
}

/// Opens a file that is a regular one, and no pipe that would be waited for. Returns its length
/// too.
pub(super) fn open_regular(path: &Path) -> io::Result<(fs::File, u64)> {
    let mut options = fs::OpenOptions::new();
    options.read(true);
    #[cfg(unix)]
    std::os::unix::fs::OpenOptionsExt::custom_flags(&mut options, libc::O_NONBLOCK);
    let file = options.open(path)?;
    let metadata = file.metadata()?;
    if metadata.is_file() { Ok((file, metadata.len())) } else { Err(io::Error::other("it is no regular file")) }
}

/// Returns all bytes of a file.
pub(super) fn contents(file: &fs::File, length: u64, access: Access) -> io::Result<Bytes> {
    if access == Access::Map && length > 0 {
        // SAFETY: a file that another program changes while it is mapped is beyond what any reader
        // can guard; docs/security.md says so, and `Access::Copy` reads instead.
        let map = unsafe { Mmap::map(file)? };
        return Ok(Bytes::from_owner(map));
    }
    let mut bytes = Vec::new();
    file.take(length).read_to_end(&mut bytes)?;
    Ok(bytes.into())
}
