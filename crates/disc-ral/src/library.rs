//! Loads a shared object from memory into this process.
//!
//! Invariants: nothing is written to a file system, but where `DISC_PERF` asks for it; a loaded
//! library exports
//! [`disc_abi::VERSION_SYMBOL`] with this runtime's version.

use crate::error::{Error, code};
use disc_abi::{ABI_VERSION, EntryFn, VERSION_SYMBOL};
use std::{
    ffi::{CStr, CString, c_void},
    fs::File,
    io::Write,
    mem::MaybeUninit,
    os::fd::{AsRawFd, FromRawFd},
    path::Path,
    ptr::{self, NonNull},
    sync::atomic::{AtomicU32, Ordering},
};

/// A loaded library. It is unloaded on drop: no function taken from it may be called afterwards.
#[derive(Debug)]
pub struct Library {
    handle: NonNull<c_void>,
    /// Kept open: glibc knows a loaded library by its path, so a reused descriptor number would
    /// give the older library.
    _file: File,
}

impl Library {
    /// Loads a shared object from its bytes.
    ///
    /// # Safety
    /// As [`Library::load_file`].
    pub unsafe fn load(bytes: &[u8]) -> Result<Self, Error> {
        if !holds_its_segments(bytes) {
            return Err(load_error("the library is cut off: a segment lies behind its end".into()));
        }
        let mut file = code_file().map_err(|error| load_error(format!("no file for the library: {error}")))?;
        file.write_all(bytes).map_err(|error| load_error(format!("the library does not fit into memory: {error}")))?;
        // SAFETY: the caller's promise.
        unsafe { Self::load_file(file) }
    }

    /// Loads a shared object from an open file, such as a memfd.
    ///
    /// # Safety
    /// The file is a shared object made by disc's compiler, and nobody changes it: its code will
    /// run in this process, and its entries keep the contract of [`disc_abi`] for the
    /// [`crate::ModuleMeta`] that they are used with.
    pub unsafe fn load_file(file: File) -> Result<Self, Error> {
        let path = CString::new(format!("/proc/self/fd/{}", file.as_raw_fd())).expect("digits hold no NUL");
        // SAFETY: a NUL-terminated path; generated libraries have no constructors.
        let handle = unsafe { libc::dlopen(path.as_ptr(), libc::RTLD_NOW | libc::RTLD_LOCAL) };
        let handle = NonNull::new(handle).ok_or_else(|| load_error(loader_error()))?;
        let library = Self { handle, _file: file };
        library.check_version()?;
        Ok(library)
    }

    /// Returns an entry or `prepare` entry by its symbol.
    pub(crate) fn entry(&self, symbol: &str) -> Result<EntryFn, Error> {
        let address = self.symbol(symbol)?;
        // SAFETY: `load_file`'s caller promised that the library's entries have this type.
        Ok(unsafe { std::mem::transmute::<*mut c_void, EntryFn>(address.as_ptr()) })
    }

    /// Returns the exported symbol at an address of this library. Kernels are exported under their
    /// names; libraries of older versions have none.
    pub(crate) fn symbol_at(&self, address: usize) -> Option<String> {
        let mut found = MaybeUninit::<libc::Dl_info>::zeroed();
        // SAFETY: dladdr takes any address, and writes to `found` unless it returns 0.
        let found = unsafe {
            if libc::dladdr(ptr::without_provenance(address), found.as_mut_ptr()) == 0 {
                return None;
            }
            found.assume_init()
        };
        // The symbol is the nearest one before the address.
        if found.dli_sname.is_null() || found.dli_saddr.addr() != address {
            return None;
        }
        // SAFETY: NUL-terminated text of a library that stays loaded: this one, or one whose code
        // is at an address that is running.
        Some(unsafe { CStr::from_ptr(found.dli_sname) }.to_string_lossy().into_owned())
    }

    pub(crate) fn symbol(&self, name: &str) -> Result<NonNull<c_void>, Error> {
        let c_name = CString::new(name).map_err(|_| load_error(format!("the symbol {name:?} holds a NUL")))?;
        // SAFETY: a live handle and a NUL-terminated name.
        let address = unsafe { libc::dlsym(self.handle.as_ptr(), c_name.as_ptr()) };
        NonNull::new(address).ok_or_else(|| load_error(format!("the library has no symbol `{name}`")))
    }

    fn check_version(&self) -> Result<(), Error> {
        let word = self.symbol(VERSION_SYMBOL)?.cast::<u32>();
        // SAFETY: the contract: an aligned `u32` constant.
        let version = unsafe { word.read() };
        if version == ABI_VERSION {
            return Ok(());
        }
        Err(load_error(format!("the library was compiled for ABI version {version}, this runtime has version {ABI_VERSION}")))
    }
}

// SAFETY: dlsym and dlclose may be called from any thread, and nothing else is done with the
// handle.
unsafe impl Send for Library {}
// SAFETY: as above.
unsafe impl Sync for Library {}

impl Drop for Library {
    fn drop(&mut self) {
        // SAFETY: the handle came from dlopen and is closed once.
        unsafe { libc::dlclose(self.handle.as_ptr()) };
    }
}

/// Returns false for a 64-bit little-endian ELF file with a segment beyond its end: the system
/// would map it, and end the process when it is read. All else is left to `dlopen`.
fn holds_its_segments(bytes: &[u8]) -> bool {
    const PROGRAM_HEADER: usize = 56;
    let number = |at: usize, width: usize| {
        let found = bytes.get(at..at.checked_add(width)?)?;
        Some(found.iter().rev().fold(0_u64, |value, &byte| value << 8 | u64::from(byte)))
    };
    if bytes.get(..6) != Some(b"\x7fELF\x02\x01") {
        return true;
    }
    let (Some(first), Some(count)) = (number(32, 8), number(56, 2)) else { return false };
    (0..count).all(|i| {
        let at = usize::try_from(first).ok().and_then(|first| first.checked_add(i as usize * PROGRAM_HEADER));
        let range = at.and_then(|at| Some((number(at + 8, 8)?, number(at + 32, 8)?)));
        range.is_some_and(|(offset, length)| offset.checked_add(length).is_some_and(|end| end <= bytes.len() as u64))
    })
}

/// Makes the file of a library: in memory, or in the folder `DISC_PERF`, where `perf` and debuggers
/// find the names of its kernels, also when the process is gone.
fn code_file() -> std::io::Result<File> {
    static NUMBERS: AtomicU32 = AtomicU32::new(1);
    let Some(folder) = std::env::var_os("DISC_PERF").filter(|name| !name.is_empty()) else { return memory_file() };
    let number = NUMBERS.fetch_add(1, Ordering::Relaxed);
    std::fs::create_dir_all(&folder)?;
    let path = Path::new(&folder).join(format!("disc-{}-{number}.so", std::process::id()));
    File::options().read(true).write(true).create(true).truncate(true).open(path)
}

fn memory_file() -> std::io::Result<File> {
    // Some systems make memfds non-executable unless the flag says otherwise; older kernels do not
    // know it.
    const MFD_EXEC: libc::c_uint = 0x10;
    // SAFETY: a NUL-terminated name and plain flags; a descriptor that is returned is ours.
    unsafe {
        let mut descriptor = libc::memfd_create(c"disc".as_ptr(), libc::MFD_CLOEXEC | MFD_EXEC);
        if descriptor < 0 {
            descriptor = libc::memfd_create(c"disc".as_ptr(), libc::MFD_CLOEXEC);
        }
        if descriptor < 0 { Err(std::io::Error::last_os_error()) } else { Ok(File::from_raw_fd(descriptor)) }
    }
}

fn load_error(message: String) -> Error {
    Error::new(code::LOAD, "library", message)
}

/// Returns the reason why the last call of the system's loader on this thread failed.
pub(crate) fn loader_error() -> String {
    // SAFETY: dlerror gives null or NUL-terminated text of this thread.
    unsafe {
        let text = libc::dlerror();
        if text.is_null() { "the library cannot be loaded".into() } else { CStr::from_ptr(text).to_string_lossy().into_owned() }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_library_that_is_cut_off_is_not_mapped() {
        let mut bytes = vec![0_u8; 64 + 56];
        bytes[..6].copy_from_slice(b"\x7fELF\x02\x01");
        bytes[32] = 64;
        bytes[56] = 1;
        bytes[64 + 32] = 120;
        assert!(holds_its_segments(&bytes));
        assert!(!holds_its_segments(&bytes[..119]));
        bytes[64 + 32 + 7] = 0xff;
        assert!(!holds_its_segments(&bytes));
        bytes[32 + 7] = 0xff;
        assert!(!holds_its_segments(&bytes));
    }

    #[test]
    fn bytes_that_are_no_library_are_an_error() {
        for bytes in [&b""[..], b"\x7fELF", b"not a library at all"] {
            // SAFETY: nothing of it can run.
            let error = unsafe { Library::load(bytes) }.unwrap_err();
            assert_eq!(error.code, code::LOAD);
        }
    }
}
