//! The folder: entries are files, written under another name first and then renamed; the least recently used go first.
//!
//! A file is a header (magic, key, length, checksum) and the payload. Prepared weights go before all others: they are made again soonest, and
//! take the most room. The folder belongs to this user alone: what is in it will run.
use super::{
    Key, Level, Outcome,
    counts::{Event, count},
    key::checksum,
    mapped::{self, Mapped},
};
use std::{
    collections::hash_map::RandomState,
    fs::{self, DirBuilder, File, OpenOptions},
    hash::{BuildHasher, Hasher},
    io::{self, Write},
    os::unix::fs::{DirBuilderExt, MetadataExt, OpenOptionsExt},
    path::{Path, PathBuf},
    process,
    sync::atomic::{AtomicU64, Ordering},
    time::{Duration, SystemTime},
};

/// Bytes that all entries together may take.
pub const LIMIT: u64 = 1 << 30;
pub(super) const MAGIC: &[u8; 16] = b"disc cache v1\n\0\0";
const HEADER: usize = 16 + 32 + 8 + 32;
/// A temporary file that is older was left by a process that died.
const STALE: Duration = Duration::from_secs(3600);

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
    /// The cache in a folder, which is made when something is stored.
    pub fn new(directory: impl Into<PathBuf>) -> Self {
        Self { directory: directory.into(), limit: LIMIT }
    }

    /// The same with another bound than [`LIMIT`].
    #[must_use]
    pub fn limited(self, limit: u64) -> Self {
        Self { limit, ..self }
    }

    pub fn directory(&self) -> &Path {
        &self.directory
    }

    /// Whether the folder is there, and is not used since others may write to it.
    pub fn is_shared(&self) -> bool {
        self.directory.is_dir() && !is_private(&self.directory)
    }

    /// Why nothing was found.
    pub(super) fn missed(&self) -> Outcome {
        if self.is_shared() { Outcome::Shared } else { Outcome::Miss }
    }

    /// What was stored for a key.
    pub fn get(&self, level: Level, key: &Key) -> Option<Vec<u8>> {
        self.get_as(level, key, Some)
    }

    /// What was stored for a key, if `decode` can read it.
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

    /// Notes that an entry was used; one of which nothing could be made goes.
    fn accept<T>(&self, level: Level, key: &Key, found: Option<T>) -> Option<T> {
        let path = self.path(level, key);
        if found.is_none() {
            count(level, Event::Rejected);
            tracing::warn!("an entry of the cache is not usable, and goes: {}", path.display());
            // Another process may have been quicker.
            let _ = fs::remove_file(path);
        } else {
            // Used now: the others go first. It is as good an entry if that cannot be noted.
            let _ = File::open(&path).and_then(|file| file.set_modified(SystemTime::now()));
        }
        found
    }

    /// What was stored by [`Cache::put_mapped`], of so many bytes.
    pub(super) fn map(&self, level: Level, key: &Key, bytes: usize, threads: usize) -> Option<Mapped> {
        let found = is_private(&self.directory)
            .then(|| File::open(self.path(level, key)).ok())
            .flatten()
            .and_then(|file| self.accept(level, key, Mapped::open(&file, key, bytes, threads)));
        count(level, if found.is_some() { Event::Hit } else { Event::Miss });
        found
    }

    /// Stores something that will be mapped.
    pub(super) fn put_mapped(&self, level: Level, key: &Key, payload: &[u8], threads: usize) {
        self.note(level, self.write(level, key, &mapped::header(key, payload, threads), payload));
    }

    /// Stores something; what cannot be written is counted.
    pub fn put(&self, level: Level, key: &Key, payload: &[u8]) {
        self.note(level, self.write(level, key, &header(key, payload), payload));
    }

    fn note(&self, level: Level, written: io::Result<()>) {
        if let Err(error) = written {
            count(level, Event::Unwritten);
            tracing::info!("the cache in {} cannot be written: {error}", self.directory.display());
        }
    }

    fn write(&self, level: Level, key: &Key, header: &[u8], payload: &[u8]) -> io::Result<()> {
        if !self.takes(payload.len() as u64) {
            return Err(io::Error::other("the entry is too large"));
        }
        let folder = self.directory.join(level.name());
        DirBuilder::new().recursive(true).mode(0o700).create(&folder)?;
        if !is_private(&self.directory) {
            return Err(io::Error::other("others may write to the folder"));
        }
        let temporary = folder.join(temporary_name());
        let mut file = OpenOptions::new().write(true).create_new(true).mode(0o600).open(&temporary)?;
        let written = file
            .write_all(header)
            .and_then(|()| file.write_all(payload))
            .and_then(|()| fs::rename(&temporary, self.path(level, key)));
        if written.is_err() {
            let _ = fs::remove_file(&temporary);
        }
        self.evict();
        written
    }

    /// Whether an entry may be that large.
    pub(super) fn takes(&self, bytes: u64) -> bool {
        bytes <= self.limit / 2
    }

    /// Removes everything; how many entries went.
    pub fn clear(&self) -> usize {
        self.entries().iter().filter(|entry| fs::remove_file(&entry.path).is_ok()).count()
    }

    fn path(&self, level: Level, key: &Key) -> PathBuf {
        self.directory.join(level.name()).join(key.hex())
    }

    /// All entries; temporary files that were left behind are removed.
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
                } else if name.ends_with(".tmp") && used.elapsed().is_ok_and(|age| age > STALE) {
                    let _ = fs::remove_file(path);
                }
            }
        }
        entries
    }

    /// Removes prepared weights, then other entries, the least recently used first, until a tenth of the bound is free.
    fn evict(&self) {
        let mut entries = self.entries();
        let mut total: u64 = entries.iter().map(|entry| entry.bytes).sum();
        if total <= self.limit {
            return;
        }
        entries.sort_by_key(|entry| (entry.level != Level::Weights, entry.used));
        for entry in entries {
            if total <= self.limit / 10 * 9 {
                break;
            }
            total -= entry.bytes;
            if fs::remove_file(&entry.path).is_ok() {
                count(entry.level, Event::Evicted);
            }
        }
    }
}

/// A name that no other process takes, on other machines and in containers too, where process numbers are the same.
fn temporary_name() -> String {
    static NUMBER: AtomicU64 = AtomicU64::new(0);
    // The standard library's hashers are seeded by the system, once for each thread.
    let random = RandomState::new().build_hasher().finish();
    format!(".{}-{}-{random:016x}.tmp", process::id(), NUMBER.fetch_add(1, Ordering::Relaxed))
}

/// Whether a folder is this user's, and nobody else may write to it.
fn is_private(directory: &Path) -> bool {
    // SAFETY: it has no preconditions.
    let user = unsafe { libc::geteuid() };
    fs::metadata(directory).is_ok_and(|meta| meta.is_dir() && meta.uid() == user && meta.mode() & 0o022 == 0)
}

fn header(key: &Key, payload: &[u8]) -> Vec<u8> {
    [&MAGIC[..], &key.0, &(payload.len() as u64).to_le_bytes(), &checksum(payload)].concat()
}

/// What a file holds, if it is a whole entry for this key.
fn payload(mut bytes: Vec<u8>, key: &Key) -> Option<Vec<u8>> {
    let payload = bytes.get(HEADER..)?;
    if bytes[..HEADER] != header(key, payload) {
        return None;
    }
    bytes.drain(..HEADER);
    Some(bytes)
}
