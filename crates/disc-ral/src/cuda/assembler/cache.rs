//! Caches machine code on disk, below disc's folder of caches.
//!
//! An entry is a file: a header (magic, key, length, checksum), then the warnings and the code. Its
//! key is a hash of everything that determines the code. Invariants: a faulty folder, entry or disk
//! is a miss, never an error; an entry that is not whole, or is another key's, is removed; entries
//! appear atomically (a rename), so that any number of processes may share the folder; the folder
//! belongs only to this user, since a GPU runs what it holds.
use super::Cubin;
use crate::{
    cache_directory::{cache_directory, is_private},
    temporary_file::TemporaryFile,
};
use std::{
    fs::{self, DirBuilder, File},
    io::{self, Write},
    os::unix::fs::DirBuilderExt,
    path::PathBuf,
    time::SystemTime,
};

/// The folder of machine code, below that of disc's caches.
pub const CUBINS: &str = "cubin";
/// Most bytes of all entries together.
const LIMIT: u64 = 256 << 20;
const MAGIC: &[u8; 16] = b"disc cubin v1\n\0\0";
const HEADER: usize = 16 + 32 + 8 + 32;

/// The hash of everything that determines an entry.
type Key = blake3::Hash;

/// A folder with machine code.
#[derive(Clone, Debug)]
pub struct CubinCache {
    directory: PathBuf,
    limit: u64,
}

impl CubinCache {
    /// Opens the cache in disc's folder of caches; `None` if there is none, as with `DISC_CACHE=0`.
    pub fn open() -> Option<Self> {
        cache_directory().map(Self::new)
    }

    /// Opens the cache below a folder of caches, which is created when something is stored.
    pub fn new(directory: impl Into<PathBuf>) -> Self {
        Self { directory: directory.into(), limit: LIMIT }
    }

    /// Sets the most bytes of all entries together, instead of 256 MiB.
    #[must_use]
    pub fn limited(self, limit: u64) -> Self {
        Self { limit, ..self }
    }

    pub(super) fn get(&self, key: &Key) -> Option<Cubin> {
        if !is_private(&self.directory) {
            return None;
        }
        let path = self.path(key);
        let found = decode(&fs::read(&path).ok()?, key);
        if found.is_some() {
            // Marks it as just used: the others go first. The entry is valid even if the mark
            // fails.
            let _ = File::open(&path).and_then(|file| file.set_modified(SystemTime::now()));
        } else {
            tracing::warn!("machine code of the cache is not usable, and goes: {}", path.display());
            // Another process may have been faster.
            let _ = fs::remove_file(path);
        }
        found
    }

    pub(super) fn put(&self, key: &Key, cubin: &Cubin) {
        if let Err(error) = self.write(key, &encode(key, cubin)) {
            tracing::info!("machine code cannot be stored in {}: {error}", self.directory.display());
        }
        self.evict();
    }

    fn write(&self, key: &Key, bytes: &[u8]) -> io::Result<()> {
        if bytes.len() as u64 > self.limit / 2 {
            return Err(io::Error::other("the entry is too large"));
        }
        DirBuilder::new().recursive(true).mode(0o700).create(self.folder())?;
        if !is_private(&self.directory) {
            return Err(io::Error::other("others may write to the folder"));
        }
        let mut temporary = TemporaryFile::begin(self.path(key))?;
        temporary.file.write_all(bytes)?;
        temporary.rename()
    }

    /// Removes the least recently used entries until a tenth of the bound is free, and files that
    /// nobody finishes.
    fn evict(&self) {
        let mut entries = Vec::new();
        for file in fs::read_dir(self.folder()).into_iter().flatten().flatten() {
            let Ok(meta) = file.metadata() else { continue };
            let used = meta.modified().unwrap_or(SystemTime::UNIX_EPOCH);
            if !TemporaryFile::is_named(&file.file_name().to_string_lossy()) {
                entries.push((used, meta.len(), file.path()));
            } else if TemporaryFile::is_stale(used) {
                let _ = fs::remove_file(file.path());
            }
        }
        let mut total: u64 = entries.iter().map(|(_, bytes, _)| bytes).sum();
        if total <= self.limit {
            return;
        }
        entries.sort();
        for (_, bytes, path) in entries {
            if total <= self.limit / 10 * 9 {
                break;
            }
            total -= bytes;
            let _ = fs::remove_file(path);
        }
    }

    fn folder(&self) -> PathBuf {
        self.directory.join(CUBINS)
    }

    fn path(&self, key: &Key) -> PathBuf {
        self.folder().join(key.to_hex().as_str())
    }
}

/// Returns the key of code that these texts determine.
pub(super) fn key(texts: &[&str]) -> Key {
    let mut hasher = blake3::Hasher::new();
    for text in texts {
        hasher.update(&(text.len() as u64).to_le_bytes()).update(text.as_bytes());
    }
    hasher.finalize()
}

fn header(key: &Key, payload: &[u8]) -> Vec<u8> {
    [&MAGIC[..], key.as_bytes(), &(payload.len() as u64).to_le_bytes(), blake3::hash(payload).as_bytes()].concat()
}

fn encode(key: &Key, cubin: &Cubin) -> Vec<u8> {
    let payload = [&(cubin.warnings.len() as u64).to_le_bytes(), cubin.warnings.as_bytes(), &cubin.bytes].concat();
    [header(key, &payload), payload].concat()
}

/// Returns the code of a file, if it is a complete entry for this key.
fn decode(bytes: &[u8], key: &Key) -> Option<Cubin> {
    let (found, payload) = bytes.split_at_checked(HEADER)?;
    if found != header(key, payload) {
        return None;
    }
    let (length, rest) = payload.split_first_chunk::<8>()?;
    let (warnings, code) = rest.split_at_checked(usize::try_from(u64::from_le_bytes(*length)).ok()?)?;
    Some(Cubin { bytes: code.to_vec(), warnings: String::from_utf8(warnings.to_vec()).ok()? })
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::{os::unix::fs::PermissionsExt, process, time::Duration};

    struct Folder(PathBuf);

    impl Folder {
        fn new(name: &str) -> Self {
            let path = std::env::temp_dir().join(format!("disc-cubins-{name}-{}", process::id()));
            // A folder of an earlier process with the same number.
            let _ = fs::remove_dir_all(&path);
            DirBuilder::new().mode(0o700).create(&path).unwrap();
            Self(path)
        }

        fn cache(&self) -> CubinCache {
            CubinCache::new(&self.0)
        }

        fn files(&self) -> Vec<PathBuf> {
            fs::read_dir(self.0.join(CUBINS)).into_iter().flatten().flatten().map(|file| file.path()).collect()
        }
    }

    impl Drop for Folder {
        fn drop(&mut self) {
            let _ = fs::remove_dir_all(&self.0);
        }
    }

    fn cubin(byte: u8) -> Cubin {
        Cubin { bytes: vec![byte; 1000], warnings: "careful\n".to_owned() }
    }

    #[test]
    fn code_comes_back_with_its_warnings() {
        let folder = Folder::new("back");
        let (cache, key) = (folder.cache(), key(&["ptx", "sm_90", "ptxas"]));
        assert_eq!(cache.get(&key), None);
        cache.put(&key, &cubin(1));
        assert_eq!(cache.get(&key), Some(cubin(1)));
        assert_eq!(folder.files().len(), 1, "nothing but the entry is left");
    }

    #[test]
    fn keys_differ_in_each_text_and_where_one_ends() {
        let keys = [key(&["a", "b"]), key(&["a", "c"]), key(&["b", "a"]), key(&["ab", ""]), key(&["ab"])];
        assert!((1..keys.len()).all(|i| !keys[..i].contains(&keys[i])));
    }

    #[test]
    fn a_damaged_entry_is_removed_and_replaced() {
        let folder = Folder::new("damaged");
        let (cache, key) = (folder.cache(), key(&["ptx"]));
        cache.put(&key, &cubin(1));
        let whole = fs::read(cache.path(&key)).unwrap();
        let mut flipped = whole.clone();
        flipped[HEADER + 20] ^= 1;
        for damaged in [&whole[..whole.len() - 1], &whole[..10], &flipped, b""] {
            fs::write(cache.path(&key), damaged).unwrap();
            assert_eq!(cache.get(&key), None);
            assert!(folder.files().is_empty());
            cache.put(&key, &cubin(2));
            assert_eq!(cache.get(&key), Some(cubin(2)));
        }
    }

    #[test]
    fn an_entry_of_another_key_is_none() {
        let folder = Folder::new("other");
        let (cache, one, two) = (folder.cache(), key(&["one"]), key(&["two"]));
        cache.put(&one, &cubin(1));
        fs::rename(cache.path(&one), cache.path(&two)).unwrap();
        assert_eq!(cache.get(&two), None);
    }

    #[test]
    fn the_least_recently_used_go_first() {
        let folder = Folder::new("bound");
        let cache = folder.cache().limited(4000);
        let keys = ["a", "b", "c", "d"].map(|name| key(&[name]));
        for (age, name) in (1..).zip(&keys[..3]) {
            cache.put(name, &cubin(1));
            let used = SystemTime::now() - Duration::from_secs(100 * age);
            File::open(cache.path(name)).unwrap().set_modified(used).unwrap();
        }
        // The oldest is used again.
        assert!(cache.get(&keys[2]).is_some());
        cache.put(&keys[3], &cubin(1));
        assert_eq!(keys.map(|name| cache.get(&name).is_some()), [true, false, true, true]);
        cache.put(&key(&["large"]), &Cubin { bytes: vec![0; 3000], warnings: String::new() });
        assert_eq!(folder.files().len(), 3, "it is no entry");
    }

    #[test]
    fn a_folder_that_others_may_write_to_is_not_used() {
        let folder = Folder::new("shared");
        let (cache, key) = (folder.cache(), key(&["ptx"]));
        cache.put(&key, &cubin(1));
        fs::set_permissions(&folder.0, fs::Permissions::from_mode(0o777)).unwrap();
        assert_eq!(cache.get(&key), None);
        fs::remove_dir_all(folder.0.join(CUBINS)).unwrap();
        cache.put(&key, &cubin(1));
        assert!(folder.files().is_empty());
    }

    #[test]
    fn files_that_nobody_finishes_are_removed() {
        let folder = Folder::new("stale");
        let (cache, key) = (folder.cache(), key(&["ptx"]));
        cache.put(&key, &cubin(1));
        let files = [0, 3600].map(|age| {
            let path = cache.folder().join(format!("{}{age}.tmp", TemporaryFile::start_of(&cache.path(&key))));
            File::create(&path).unwrap().set_modified(SystemTime::now() - Duration::from_secs(age)).unwrap();
            path
        });
        cache.put(&key, &cubin(1));
        assert_eq!(files.map(|path| path.exists()), [true, false]);
    }
}
