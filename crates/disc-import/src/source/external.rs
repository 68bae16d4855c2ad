//! Opens the files of weights that a model names.
//!
//! A model is untrusted, so a path in it is relative, of plain names, and leads to a regular file
//! below the folder of the model. Symbolic links are followed, since caches of model hubs consist
//! of them: the file that they lead to has to be below the folder of the model's path as it was
//! given, or below that of the file which that path leads to.
//!
//! Invariant: the bytes that are read are those of the file that was checked.
use super::{
    Access,
    file::{contents, open_regular},
};
use bytes::Bytes;
use disc_ir::{Code, Diagnostic};
use std::{
    collections::HashMap,
    io,
    path::{Component, Path, PathBuf},
};

/// The files beside one model.
#[derive(Debug, Default)]
pub struct External {
    /// The folder that paths are relative to; none for a model without a file.
    folder: Option<PathBuf>,
    /// Folders without symbolic links: a file has to be below one of them.
    roots: Vec<PathBuf>,
    access: Access,
    open: HashMap<PathBuf, Bytes>,
}

impl External {
    /// The files beside the model of this path.
    ///
    /// # Errors
    /// E1005: the folder of the model cannot be read.
    pub fn beside(model: &Path, access: Access) -> Result<Self, Diagnostic> {
        let folder = folder_of(model);
        let unreadable = |error: io::Error| refused(&model.display().to_string(), &error.to_string());
        let given = folder.canonicalize().map_err(unreadable)?;
        let resolved = model.canonicalize().map_err(unreadable)?;
        let mut roots = vec![given];
        let other = folder_of(&resolved);
        if !roots.contains(&other) {
            roots.push(other);
        }
        Ok(Self { folder: Some(folder), roots, access, open: HashMap::new() })
    }

    /// The files in a folder, for a model without a file.
    ///
    /// # Errors
    /// E1005: the folder cannot be read.
    pub fn in_folder(folder: &Path, access: Access) -> Result<Self, Diagnostic> {
        let root = folder.canonicalize().map_err(|error| refused(&folder.display().to_string(), &error.to_string()))?;
        Ok(Self { folder: Some(folder.to_owned()), roots: vec![root], access, open: HashMap::new() })
    }

    /// Returns a range of a file's bytes, to its end without a length. A file is opened once.
    ///
    /// # Errors
    /// E1005: a path that a model may not name, a file that cannot be read, a range outside it.
    pub fn read(&mut self, location: &str, offset: u64, length: Option<u64>) -> Result<Bytes, Diagnostic> {
        let bytes = self.file(location)?;
        let total = bytes.len() as u64;
        let end = length.map_or(Some(total), |length| offset.checked_add(length));
        let range = end.filter(|&end| offset <= end && end <= total).and_then(|end| {
            let (start, end) = (usize::try_from(offset).ok()?, usize::try_from(end).ok()?);
            Some(start..end)
        });
        let Some(range) = range else {
            let wanted = length.map_or_else(|| "the rest".to_owned(), |length| format!("{length} bytes"));
            return Err(refused(location, &format!("it has {total} bytes, the model asks for {wanted} from byte {offset} on")));
        };
        Ok(bytes.slice(range))
    }

    fn file(&mut self, location: &str) -> Result<Bytes, Diagnostic> {
        let path = plain(location)?;
        if let Some(bytes) = self.open.get(&path) {
            return Ok(bytes.clone());
        }
        let Some(folder) = &self.folder else {
            let error = refused(location, "the model came as bytes, without a folder");
            return Err(error.help("give the model's path, or name the folder of its weights"));
        };
        let unreadable = |error: io::Error| refused(location, &format!("it cannot be read: {error}"));
        let resolved = folder.join(&path).canonicalize().map_err(unreadable)?;
        if !self.roots.iter().any(|root| resolved.starts_with(root)) {
            return Err(refused(location, "it leads out of the folder of the model"));
        }
        let (file, size) = open_regular(&resolved).map_err(unreadable)?;
        check_opened(&file, &resolved).map_err(unreadable)?;
        let bytes = contents(&file, size, self.access).map_err(unreadable)?;
        self.open.insert(path, bytes.clone());
        Ok(bytes)
    }
}

/// Checks that a file is the one of the path that was checked: a folder on the way may have become
/// a link since.
#[cfg(target_os = "linux")]
fn check_opened(file: &std::fs::File, resolved: &Path) -> io::Result<()> {
    let link = format!("/proc/self/fd/{}", std::os::fd::AsRawFd::as_raw_fd(file));
    match std::fs::read_link(link) {
        Ok(opened) if opened != resolved => Err(io::Error::other("it was replaced while it was opened")),
        // Without /proc there is nothing to ask.
        Ok(_) | Err(_) => Ok(()),
    }
}

#[cfg(not(target_os = "linux"))]
fn check_opened(_file: &std::fs::File, _resolved: &Path) -> io::Result<()> {
    Ok(())
}

/// Returns the folder of a file, `.` for a plain name.
fn folder_of(path: &Path) -> PathBuf {
    match path.parent() {
        Some(parent) if !parent.as_os_str().is_empty() => parent.to_owned(),
        _ => PathBuf::from("."),
    }
}

/// Checks that a location is a relative path of plain names.
fn plain(location: &str) -> Result<PathBuf, Diagnostic> {
    // Backslashes and drives are separators to other systems, where the same file may be opened.
    let is_foreign = location.contains(['\\', ':', '\0']);
    let path = Path::new(location);
    let is_plain = |component: Component<'_>| matches!(component, Component::Normal(_) | Component::CurDir);
    let names: PathBuf = path.components().filter(|component| matches!(component, Component::Normal(_))).collect();
    if names.as_os_str().is_empty() || is_foreign || !path.components().all(is_plain) {
        return Err(refused(location, "it is no relative path of plain names below the model's folder"));
    }
    Ok(names)
}

fn refused(location: &str, why: &str) -> Diagnostic {
    Diagnostic::new(Code::E1005, format!("external data `{}`: {why}", location.escape_debug()))
}
