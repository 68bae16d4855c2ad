//! Stores entries as files in a folder: each is written under another name and then renamed; the
//! least recently used are removed first.
//!
//! A file is a header (magic, key, length, checksum) and the payload. Prepared weights are removed
//! before all others: they are the fastest to remake, and take the most room. The folder belongs
//! only to this user: its contents will be executed.
use super::{
    Key, Level, Outcome,
    counts::{Event, count},
    key::checksum,
    mapped::{Mapped, Unfinished},
    writer::WRITER,
};
use disc_ral::{TemporaryFile, is_private};
use std::{
    fs::{self, DirBuilder, DirEntry, File},
    io::{self, Write},
    os::unix::fs::DirBuilderExt,
    path::{Path, PathBuf},
    time::SystemTime,
};

/// Most bytes of all entries together.
pub const LIMIT: u64 = 1 << 30;
pub(super) const MAGIC: &[u8; 16] = b"disc cache v1\n\0\0";
const HEADER: usize = 16 + 32 + 8 + 32;

/// A folder with entries.
#[derive(Clone, Debug)]
pub struct Cache {
    directory: PathBuf,
    limit: u64,
}

/// An entry on disk.
struct Entry {
    path: PathBuf,
    level: Level,
    bytes: u64,
    used: SystemTime,
}

impl Cache {
    /// Opens the cache in a folder, which is created when something is stored.
    pub fn new(directory: impl Into<PathBuf>) -> Self {
        Self { directory: directory.into(), limit: LIMIT }
    }

    /// Sets another bound than [`LIMIT`].
    #[must_use]
    pub fn limited(self, limit: u64) -> Self {
        Self { limit, ..self }
    }

    pub fn directory(&self) -> &Path {
        &self.directory
    }

    /// Returns true if the folder exists and is not used because others may write to it.
    pub fn is_shared(&self) -> bool {
        self.directory.is_dir() && !is_private(&self.directory)
    }

    /// Returns the reason of a miss.
    pub(super) fn missed(&self) -> Outcome {
        if self.is_shared() { Outcome::Shared } else { Outcome::Miss }
    }

    /// Returns the payload that was stored for a key.
    pub fn get(&self, level: Level, key: &Key) -> Option<Vec<u8>> {
        self.get_as(level, key, Some)
    }

    /// Returns the payload that was stored for a key, if `decode` can read it.
    pub(super) fn get_as<T>(&self, level: Level, key: &Key, decode: impl FnOnce(Vec<u8>) -> Option<T>) -> Option<T> {
        let found = self.read(level, key, decode);
        count(level, if found.is_some() { Event::Hit } else { Event::Miss });
        found
    }

    fn read<T>(&self, level: Level, key: &Key, decode: impl FnOnce(Vec<u8>) -> Option<T>) -> Option<T> {
        if !is_private(&self.directory) {
            return None;
        }
        let path = self.path(level, key);
        let bytes = fs::read(&path).ok()?;
        self.accept(level, key, payload(bytes, key).and_then(decode))
    }

    /// Notes that an entry was used; removes one that cannot be decoded.
    fn accept<T>(&self, level: Level, key: &Key, found: Option<T>) -> Option<T> {
        let path = self.path(level, key);
        if found.is_none() {
            count(level, Event::Rejected);
            tracing::warn!("an entry of the cache is not usable, and goes: {}", path.display());
            // Another process may have been faster.
            let _ = fs::remove_file(path);
        } else {
            // Marks it as just used: the others go first. The entry is valid even if the mark
            // fails.
            let _ = File::open(&path).and_then(|file| file.set_modified(SystemTime::now()));
        }
        found
    }

    /// Maps the payload of this many bytes that [`Cache::put_mapped`] stored.
    pub(super) fn map(&self, level: Level, key: &Key, bytes: usize, threads: usize) -> Option<Mapped> {
        let found = is_private(&self.directory)
            .then(|| File::open(self.path(level, key)).ok())
            .flatten()
            .and_then(|file| self.accept(level, key, Mapped::open(&file, key, bytes, threads)));
        count(level, if found.is_some() { Event::Hit } else { Event::Miss });
        found
    }

    /// Stores prepared weights, as long as `go_on` returns true. Returns true if the entry is
    /// finished or given up. An entry that was `begun` is continued.
    pub(super) fn put_mapped(
        &self,
        key: &Key,
        payload: &[u8],
        begun: &mut Option<Unfinished>,
        go_on: &mut dyn FnMut() -> bool,
    ) -> bool {
        // Another process, or another module with these weights, may be faster.
        if begun.is_none() && (self.path(Level::Weights, key).exists() || self.is_begun(Level::Weights, key)) {
            return true;
        }
        let mut write = || {
            let mut unfinished = match begun.take() {
                Some(unfinished) => unfinished,
                None => Unfinished::new(self.begin(Level::Weights, key, payload.len())?, payload.len())?,
            };
            if unfinished.advance(payload, go_on)? {
                return unfinished.finish(key).map(|()| true);
            }
            *begun = Some(unfinished);
            Ok(false)
        };
        let written = write();
        let is_done = !matches!(written, Ok(false));
        if is_done {
            self.note(Level::Weights, written);
            self.evict();
        }
        is_done
    }

    /// Stores a payload; failures are counted.
    pub fn put(&self, level: Level, key: &Key, payload: &[u8]) {
        let write = || {
            let mut temporary = self.begin(level, key, payload.len())?;
            temporary.file.write_all(&header(key, payload))?;
            temporary.file.write_all(payload)?;
            temporary.rename()
        };
        self.note(level, write());
        self.evict();
    }

    fn note<T>(&self, level: Level, written: io::Result<T>) {
        if let Err(error) = written {
            count(level, Event::Unwritten);
            tracing::info!("the cache in {} cannot be written: {error}", self.directory.display());
        }
    }

    fn begin(&self, level: Level, key: &Key, bytes: usize) -> io::Result<TemporaryFile> {
        if !self.takes(bytes as u64) {
            return Err(io::Error::other("the entry is too large"));
        }
        let folder = self.directory.join(level.name());
        DirBuilder::new().recursive(true).mode(0o700).create(&folder)?;
        if !is_private(&self.directory) {
            return Err(io::Error::other("others may write to the folder"));
        }
        TemporaryFile::begin(self.path(level, key))
    }

    /// Returns true if a live process is writing the entry.
    fn is_begun(&self, level: Level, key: &Key) -> bool {
        let Ok(files) = fs::read_dir(self.directory.join(level.name())) else { return false };
        let start = TemporaryFile::start_of(&self.path(level, key));
        let is_fresh =
            |file: &DirEntry| file.metadata().and_then(|meta| meta.modified()).is_ok_and(|time| !TemporaryFile::is_stale(time));
        files.flatten().any(|file| file.file_name().to_string_lossy().starts_with(&start) && is_fresh(&file))
    }

    /// Returns true if an entry may be this large.
    pub(super) fn takes(&self, bytes: u64) -> bool {
        bytes <= self.limit / 2
    }

    /// Returns the bytes that remain after eviction.
    pub(super) fn room(&self) -> u64 {
        self.limit / 10 * 9
    }

    /// Returns true if weights of about this many bytes are stored in prepared form, these or
    /// others.
    pub fn may_hold_weights(&self, bytes: u64) -> bool {
        let Ok(files) = fs::read_dir(self.directory.join(Level::Weights.name())) else { return false };
        let about = bytes.div_ceil(2)..=bytes.saturating_mul(2);
        files.flatten().any(|file| file.metadata().is_ok_and(|meta| about.contains(&meta.len())))
    }

    /// Removes everything, and drops what this process was about to store. Returns the number of
    /// removed entries.
    pub fn clear(&self) -> usize {
        WRITER.drop_all();
        // Notes about packages and code of GPUs, which are no entries. They may not be there.
        let _ = fs::remove_dir_all(self.directory.join(disc_ral::VERIFIED));
        #[cfg(feature = "cuda")]
        let _ = fs::remove_dir_all(self.directory.join(disc_ral::cuda::assembler::CUBINS));
        self.entries().iter().filter(|entry| fs::remove_file(&entry.path).is_ok()).count()
    }

    fn path(&self, level: Level, key: &Key) -> PathBuf {
        self.directory.join(level.name()).join(key.hex())
    }

    /// Lists all entries, and removes stale temporary files.
    fn entries(&self) -> Vec<Entry> {
        let mut entries = Vec::new();
        for level in Level::ALL {
            let Ok(files) = fs::read_dir(self.directory.join(level.name())) else { continue };
            for file in files.flatten() {
                let (path, Ok(meta)) = (file.path(), file.metadata()) else { continue };
                let used = meta.modified().unwrap_or(SystemTime::UNIX_EPOCH);
                let name = file.file_name().to_string_lossy().into_owned();
                if name.len() == 64 && name.bytes().all(|b| b.is_ascii_hexdigit()) {
                    entries.push(Entry { path, level, bytes: meta.len(), used });
                } else if TemporaryFile::is_named(&name) && TemporaryFile::is_stale(used) {
                    let _ = fs::remove_file(path);
                }
            }
        }
        entries
    }

    /// Removes prepared weights, then other entries, the least recently used first, until a tenth
    /// of the bound is free.
    fn evict(&self) {
        let mut entries = self.entries();
        let mut total: u64 = entries.iter().map(|entry| entry.bytes).sum();
        if total <= self.limit {
            return;
        }
        entries.sort_by_key(|entry| (entry.level != Level::Weights, entry.used));
        for entry in entries {
            if total <= self.room() {
                break;
            }
            total -= entry.bytes;
            if fs::remove_file(&entry.path).is_ok() {
                count(entry.level, Event::Evicted);
            }
        }
    }
}

fn header(key: &Key, payload: &[u8]) -> Vec<u8> {
    [&MAGIC[..], &key.0, &(payload.len() as u64).to_le_bytes(), &checksum(payload)].concat()
}

/// Returns the payload of a file, if it is a complete entry for this key.
fn payload(mut bytes: Vec<u8>, key: &Key) -> Option<Vec<u8>> {
    let payload = bytes.get(HEADER..)?;
    if bytes[..HEADER] != header(key, payload) {
        return None;
    }
    bytes.drain(..HEADER);
    Some(bytes)
}
