//! Maps entries from their files: the page cache is shared by all processes that use one.
//!
//! The header fills a page of the file, so that the payload is aligned. It is written last: a file
//! is a valid entry only when it is complete.
//!
//! Invariants: nobody writes to a file once it has its name; a removed file stays for those who
//! have it mapped; no entry takes more than a part of the free space on its disk.
use super::{
    Key,
    content::{CHUNK, Running, digest},
    store::MAGIC,
};
use disc_ral::TemporaryFile;
use std::{
    fs::File,
    io::{self, Write},
    mem::MaybeUninit,
    os::{fd::AsRawFd, unix::fs::FileExt},
    ptr::NonNull,
    slice,
};

/// Bytes of the header. Pages may be larger: the file is mapped from its start.
const START: usize = 4096;
/// An entry takes at most this part of the free space.
const PART_OF_FREE: u64 = 10;

/// The mapping of a whole file.
pub(super) struct Mapped {
    at: NonNull<u8>,
    length: usize,
}

// SAFETY: memory that is only read.
unsafe impl Send for Mapped {}
// SAFETY: as above.
unsafe impl Sync for Mapped {}

impl Mapped {
    /// Maps the entry in a file if it is complete, was stored for this key, and has this many
    /// bytes.
    pub(super) fn open(file: &File, key: &Key, bytes: usize, threads: usize) -> Option<Self> {
        let length = START.checked_add(bytes)?;
        if file.metadata().ok()?.len() != length as u64 {
            return None;
        }
        // SAFETY: a new mapping at an address of the system's choice.
        let at = unsafe { libc::mmap(std::ptr::null_mut(), length, libc::PROT_READ, libc::MAP_PRIVATE, file.as_raw_fd(), 0) };
        if at == libc::MAP_FAILED {
            return None;
        }
        let mapped = Self { at: NonNull::new(at.cast())?, length };
        // SAFETY: the file is as long as the mapping, and nobody writes to it.
        let whole = unsafe { slice::from_raw_parts(mapped.at.as_ptr(), length) };
        (whole[..START] == header(key, bytes, &digest(&[&whole[START..]], threads))[..]).then_some(mapped)
    }

    pub(super) fn payload(&self) -> &[u8] {
        // SAFETY: as in `open`, which found the file to be that long.
        unsafe { slice::from_raw_parts(self.at.as_ptr().add(START), self.length - START) }
    }
}

impl Drop for Mapped {
    fn drop(&mut self) {
        // SAFETY: exactly the mapping, which nothing uses any more.
        unsafe { libc::munmap(self.at.as_ptr().cast(), self.length) };
    }
}

/// An entry that is being written in parts.
pub(super) struct Unfinished {
    temporary: TemporaryFile,
    digest: Running,
    /// Bytes of the payload.
    written: usize,
}

impl Unfinished {
    /// Begins an entry of this many bytes, if the disk has enough room beyond it.
    pub(super) fn new(mut temporary: TemporaryFile, bytes: usize) -> io::Result<Self> {
        if bytes as u64 > free(&temporary.file)? / PART_OF_FREE {
            return Err(io::Error::other("little is free on its disk"));
        }
        temporary.file.write_all(&[0; START])?;
        Ok(Self { temporary, digest: Running::of(bytes), written: 0 })
    }

    /// Writes as long as `go_on` returns true, asked before each of many parts. Returns true if the
    /// entry is complete.
    pub(super) fn advance(&mut self, payload: &[u8], go_on: &mut dyn FnMut() -> bool) -> io::Result<bool> {
        for chunk in payload[self.written..].chunks(CHUNK) {
            if !go_on() {
                return Ok(false);
            }
            self.temporary.file.write_all(chunk)?;
            self.digest.add(chunk);
            self.written += chunk.len();
        }
        Ok(true)
    }

    /// Renames the complete file to its final name.
    pub(super) fn finish(self, key: &Key) -> io::Result<()> {
        self.temporary.file.write_all_at(&header(key, self.written, &self.digest.finish()), 0)?;
        self.temporary.rename()
    }
}

/// Returns the bytes that this user may still write on the disk of a file.
fn free(file: &File) -> io::Result<u64> {
    let mut found = MaybeUninit::<libc::statvfs>::uninit();
    // SAFETY: an open file, and room for the answer.
    if unsafe { libc::fstatvfs(file.as_raw_fd(), found.as_mut_ptr()) } != 0 {
        return Err(io::Error::last_os_error());
    }
    // SAFETY: it was answered.
    let found = unsafe { found.assume_init() };
    Ok(found.f_bavail.saturating_mul(found.f_frsize))
}

fn header(key: &Key, bytes: usize, checksum: &[u8; 32]) -> Vec<u8> {
    let mut header = [&MAGIC[..], &key.0, &(bytes as u64).to_le_bytes(), checksum].concat();
    header.resize(START, 0);
    header
}

#[cfg(test)]
mod tests {
    use super::{
        super::{Level, counts, testing::Folder},
        *,
    };
    use std::{
        fs::{self, OpenOptions},
        time::{Duration, SystemTime},
    };

    fn key(name: &str) -> Key {
        Key::of(&[name.as_bytes()])
    }

    /// Returns some chunks, each with other bytes, and a partial chunk.
    fn contents() -> Vec<u8> {
        (0..3 * CHUNK + 77).map(|at| (at / 999 + at % 251) as u8).collect()
    }

    /// Writes this many chunks, not all.
    fn begin(folder: &Folder, key: &Key, contents: &[u8], chunks: usize) -> Option<Unfinished> {
        let (mut begun, mut left) = (None, chunks + 1);
        let mut go_on = || {
            left -= 1;
            left > 0
        };
        assert!(!folder.cache().put_mapped(key, contents, &mut begun, &mut go_on));
        begun
    }

    /// Returns true if an entry is given up before a byte is written.
    fn begin_nothing(folder: &Folder, key: &Key, contents: &[u8]) -> bool {
        folder.cache().put_mapped(key, contents, &mut None, &mut || false)
    }

    #[test]
    fn what_was_begun_goes_on_where_it_stopped() {
        let (folder, key, contents) = (Folder::new("halves"), key("halves"), contents());
        let mut begun = begin(&folder, &key, &contents, 2);
        assert!(!folder.has(&key, &contents));
        assert!(folder.cache().put_mapped(&key, &contents, &mut begun, &mut || true));
        assert!(folder.has(&key, &contents));
        assert!(begin_nothing(&folder, &key, &contents), "it is there");
        drop(begun);
        assert_eq!(folder.files().len(), 1);
    }

    #[test]
    fn two_do_not_write_the_same() {
        let (folder, key, contents) = (Folder::new("twice"), key("twice"), contents());
        let begun = begin(&folder, &key, &contents, 1);
        assert!(begin_nothing(&folder, &key, &contents), "somebody is at it");
        let old = SystemTime::now() - Duration::from_secs(3600);
        OpenOptions::new().write(true).open(&folder.files()[0]).unwrap().set_modified(old).unwrap();
        assert!(folder.cache().put_mapped(&key, &contents, &mut None, &mut || true), "who was at it died");
        assert!(folder.has(&key, &contents));
        drop(begun);
        assert!(folder.has(&key, &contents));
        assert_eq!(folder.files().len(), 1);
    }

    #[test]
    fn a_disk_that_is_full_is_counted_and_nothing_is_left() {
        let (folder, key, contents) = (Folder::new("full"), key("full"), contents());
        let mut begun = begin(&folder, &key, &contents, 1);
        assert_eq!(folder.files().len(), 1);
        begun.as_mut().unwrap().temporary.file = OpenOptions::new().write(true).open("/dev/full").unwrap();
        let before = counts(Level::Weights).unwritten;
        assert!(folder.cache().put_mapped(&key, &contents, &mut begun, &mut || true), "tried again");
        assert!(counts(Level::Weights).unwritten > before);
        assert!(begun.is_none());
        assert!(folder.files().is_empty());
    }

    #[test]
    fn nothing_is_written_where_little_is_free() {
        let (folder, key) = (Folder::new("little"), key("little"));
        fs::create_dir_all(folder.path()).unwrap();
        let free = free(&File::open(folder.path()).unwrap()).unwrap();
        // Others write and remove files meanwhile.
        let bytes = usize::try_from(free / PART_OF_FREE).unwrap() + (4 << 30);
        // SAFETY: a new mapping that is only read, all of whose pages are the one of zeros.
        let at = unsafe {
            let flags = libc::MAP_PRIVATE | libc::MAP_ANONYMOUS | libc::MAP_NORESERVE;
            libc::mmap(std::ptr::null_mut(), bytes, libc::PROT_READ, flags, -1, 0)
        };
        assert_ne!(at, libc::MAP_FAILED);
        // SAFETY: as above.
        let contents = unsafe { slice::from_raw_parts(at.cast::<u8>(), bytes) };
        let before = counts(Level::Weights).unwritten;
        let (cache, mut begun) = (folder.cache().limited(u64::MAX), None);
        assert!(cache.put_mapped(&key, contents, &mut begun, &mut || false), "it was begun");
        assert!(counts(Level::Weights).unwritten > before);
        assert!(folder.files().is_empty());
        // SAFETY: the mapping, which nothing uses any more.
        unsafe { libc::munmap(at, bytes) };
    }
}
