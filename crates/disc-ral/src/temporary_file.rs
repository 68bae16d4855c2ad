//! Writes entries of caches: files that only this user may read, under another name until they are
//! complete.
//!
//! Invariant: an entry appears whole or not at all, whoever else writes it, in any number of
//! processes on any number of machines.
use std::{
    collections::hash_map::RandomState,
    fs::{self, File, OpenOptions},
    hash::{BuildHasher, Hasher},
    io,
    os::unix::fs::OpenOptionsExt,
    path::{Path, PathBuf},
    process,
    sync::atomic::{AtomicU64, Ordering},
    time::{Duration, SystemTime},
};

/// Ends the names of these files.
const END: &str = ".tmp";
/// A file that nobody wrote to for this long belongs to a process that died.
const STALE: Duration = Duration::from_secs(600);

/// An entry that is being written; it is removed unless it is renamed.
pub struct TemporaryFile {
    /// The open file.
    pub file: File,
    path: PathBuf,
    entry: PathBuf,
    /// The process that writes it: a forked child has a copy of this, and must not touch the file.
    process: u32,
}

impl TemporaryFile {
    /// Makes an empty file in the folder of `entry`, which exists.
    ///
    /// # Errors
    /// The file cannot be made.
    pub fn begin(entry: PathBuf) -> io::Result<Self> {
        static NUMBER: AtomicU64 = AtomicU64::new(0);
        // The standard library's hashers are seeded by the system, once for each thread: containers
        // of one folder may have the same process numbers.
        let random = RandomState::new().build_hasher().finish();
        let number = NUMBER.fetch_add(1, Ordering::Relaxed);
        let name = format!("{}{}-{number}-{random:016x}{END}", Self::start_of(&entry), process::id());
        let path = entry.with_file_name(name);
        let file = OpenOptions::new().write(true).create_new(true).mode(0o600).open(&path)?;
        Ok(Self { file, path, entry, process: process::id() })
    }

    /// Returns the start of the names that the files of an entry have.
    pub fn start_of(entry: &Path) -> String {
        let name = entry.file_name().unwrap_or_default();
        format!(".{}-", name.to_string_lossy())
    }

    /// Renames the file to the entry, atomically.
    ///
    /// # Errors
    /// The folder is gone, or not writable any more.
    pub fn rename(self) -> io::Result<()> {
        fs::rename(&self.path, &self.entry)
    }

    /// Returns true for the name of such a file.
    pub fn is_named(name: &str) -> bool {
        name.starts_with('.') && name.ends_with(END)
    }

    /// Returns true if a file that was last written at this time has no writer any more.
    pub fn is_stale(written: SystemTime) -> bool {
        written.elapsed().is_ok_and(|age| age > STALE)
    }
}

impl Drop for TemporaryFile {
    fn drop(&mut self) {
        if self.process == process::id() {
            // The path no longer exists after a rename.
            let _ = fs::remove_file(&self.path);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::io::Write;

    #[test]
    fn an_entry_is_whole_or_not_there() {
        let folder = std::env::temp_dir().join(format!("disc-temporary-{}", process::id()));
        fs::create_dir_all(&folder).unwrap();
        let entry = folder.join("entry");
        let [mut first, second] = [(); 2].map(|()| TemporaryFile::begin(entry.clone()).unwrap());
        first.file.write_all(b"whole").unwrap();
        let names: Vec<String> =
            fs::read_dir(&folder).unwrap().map(|file| file.unwrap().file_name().into_string().unwrap()).collect();
        assert_eq!(names.len(), 2);
        let start = TemporaryFile::start_of(&entry);
        assert!(names.iter().all(|name| TemporaryFile::is_named(name) && name.starts_with(&start)), "{names:?}");
        assert!(!TemporaryFile::is_named("entry"));
        first.rename().unwrap();
        drop(second);
        assert_eq!(fs::read(&entry).unwrap(), b"whole");
        assert_eq!(fs::read_dir(&folder).unwrap().count(), 1);
        fs::remove_dir_all(&folder).unwrap();
    }

    #[test]
    fn files_of_processes_that_died_are_stale() {
        assert!(!TemporaryFile::is_stale(SystemTime::now()));
        assert!(TemporaryFile::is_stale(SystemTime::now() - 2 * STALE));
    }
}
