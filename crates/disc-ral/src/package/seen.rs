//! Remembers which files had right weights, so that they are read whole once and not at each open.
//!
//! A file is known by its path, device and inode, size, times of change and manifest. A note spares
//! only the reading of weights: code is verified at each open, whoever wrote the note.

use std::{
    fs::{self, Metadata},
    os::unix::fs::MetadataExt,
    path::{Path, PathBuf},
};

/// The folder of the notes, in that of the caches.
pub const VERIFIED: &str = "verified";

/// A file, and the note that says that its weights were right.
pub(super) struct Seen {
    note: PathBuf,
}

impl Seen {
    /// Returns the note about a file with this manifest; it may not exist yet.
    pub(super) fn of(folder: &Path, file: &Path, metadata: &Metadata, manifest: &[u8]) -> Option<Self> {
        let path = fs::canonicalize(file).ok()?;
        let mut hash = blake3::Hasher::new();
        hash.update(path.as_os_str().as_encoded_bytes());
        for number in [metadata.dev(), metadata.ino(), metadata.len()] {
            hash.update(&number.to_le_bytes());
        }
        for time in [metadata.mtime(), metadata.mtime_nsec(), metadata.ctime(), metadata.ctime_nsec()] {
            hash.update(&time.to_le_bytes());
        }
        hash.update(manifest);
        Some(Self { note: folder.join(VERIFIED).join(hash.finalize().to_hex().as_str()) })
    }

    pub(super) fn is_noted(&self) -> bool {
        self.note.exists()
    }

    /// Writes the note. Without it, the file is read again next time.
    pub(super) fn write(&self) {
        let folder = self.note.parent().map(fs::create_dir_all);
        if folder.is_some_and(|made| made.is_ok()) {
            let _ = fs::write(&self.note, b"");
        }
    }
}
