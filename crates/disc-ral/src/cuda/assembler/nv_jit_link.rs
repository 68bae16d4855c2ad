//! Assembles by nvJitLink: in this process, and in any number of threads.
use super::{super::shared_library::SharedLibrary, AssemblerError, Cubin, Version};
use std::{
    ffi::{CString, c_char, c_int, c_uint, c_void},
    fmt, fs,
    path::Path,
    ptr,
};

/// The major versions of the library that are looked for, best first.
pub(super) const MAJORS: [u32; 2] = [13, 12];
/// The number of PTX among the kinds of inputs (`NVJITLINK_INPUT_PTX`).
const PTX: c_int = 2;

type Handle = *mut c_void;
type OfHandle = unsafe extern "C" fn(Handle) -> c_int;
type SizeOf = unsafe extern "C" fn(Handle, *mut usize) -> c_int;
type ToBytes = unsafe extern "C" fn(Handle, *mut c_void) -> c_int;

/// The library of one major version.
#[derive(Debug)]
pub(super) struct NvJitLink {
    functions: Functions,
    version: Version,
    /// Bytes of the library's file, which differ between its patch levels.
    file_bytes: u64,
}

#[derive(Clone, Copy, Debug)]
struct Functions {
    create: unsafe extern "C" fn(*mut Handle, u32, *const *const c_char) -> c_int,
    add_data: unsafe extern "C" fn(Handle, c_int, *const c_void, usize, *const c_char) -> c_int,
    complete: OfHandle,
    cubin_size: SizeOf,
    cubin: ToBytes,
    error_size: SizeOf,
    error: ToBytes,
    info_size: SizeOf,
    info: ToBytes,
    destroy: unsafe extern "C" fn(*mut Handle) -> c_int,
}

impl NvJitLink {
    /// Returns the library of a major version if the process has loaded it.
    pub(super) fn loaded(major: u32) -> Option<Self> {
        Self::new(SharedLibrary::loaded(&file_name(major))?)
    }

    /// Loads a library by its path, or by its name from the folders of the system.
    pub(super) fn open(path: &Path) -> Result<Self, AssemblerError> {
        let failed = |message| AssemblerError::Library { path: path.to_owned(), message };
        let library = SharedLibrary::open(path).map_err(failed)?;
        Self::new(library).ok_or_else(|| failed("it lacks functions of nvJitLink".to_owned()))
    }

    pub(super) fn version(&self) -> Version {
        self.version
    }

    /// Resolves the functions of the first minor version, which every library of a major version
    /// has.
    fn new(library: SharedLibrary) -> Option<Self> {
        MAJORS.into_iter().find_map(|major| {
            let functions = Functions::of(library, major)?;
            let file = library.file_of(&symbol("Create", major))?;
            let file_bytes = fs::metadata(file).map_or(0, |meta| meta.len());
            Some(Self { functions, version: version(library, major), file_bytes })
        })
    }

    pub(super) fn assemble(&self, ptx: &str, chip: &str) -> Result<Cubin, AssemblerError> {
        let refused = |log| AssemblerError::Refused { tool: self.to_string(), chip: chip.to_owned(), log };
        let linker = Linker::new(self.functions, chip).map_err(refused)?;
        linker.link(ptx).map_err(|message| refused(format!("{}{message}", linker.log())))
    }
}

/// Names the library by version and size: patch levels tell neither.
impl fmt::Display for NvJitLink {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "nvJitLink {} of {} bytes", self.version, self.file_bytes)
    }
}

/// Returns the name of the library's file.
pub(super) fn file_name(major: u32) -> String {
    format!("libnvJitLink.so.{major}")
}

fn symbol(function: &str, major: u32) -> String {
    format!("__nvJitLink{function}_{major}_0")
}

fn version(library: SharedLibrary, major: u32) -> Version {
    let (mut found, mut minor): (c_uint, c_uint) = (0, 0);
    // SAFETY: the type of the function, which writes two numbers. The first minor versions lack it.
    let status = unsafe {
        let function = library.function::<unsafe extern "C" fn(*mut c_uint, *mut c_uint) -> c_int>("nvJitLinkVersion");
        function.map(|function| function(&raw mut found, &raw mut minor))
    };
    match status {
        Some(0) => Version { major: found, minor },
        _ => Version { major, minor: 0 },
    }
}

impl Functions {
    fn of(library: SharedLibrary, major: u32) -> Option<Self> {
        // SAFETY: the types are those of the library's header, which the major version fixes.
        unsafe {
            Some(Self {
                create: library.function(&symbol("Create", major))?,
                add_data: library.function(&symbol("AddData", major))?,
                complete: library.function(&symbol("Complete", major))?,
                cubin_size: library.function(&symbol("GetLinkedCubinSize", major))?,
                cubin: library.function(&symbol("GetLinkedCubin", major))?,
                error_size: library.function(&symbol("GetErrorLogSize", major))?,
                error: library.function(&symbol("GetErrorLog", major))?,
                info_size: library.function(&symbol("GetInfoLogSize", major))?,
                info: library.function(&symbol("GetInfoLog", major))?,
                destroy: library.function(&symbol("Destroy", major))?,
            })
        }
    }
}

/// One use of the library.
struct Linker {
    functions: Functions,
    handle: Handle,
}

impl Linker {
    fn new(functions: Functions, chip: &str) -> Result<Self, String> {
        let option = CString::new(format!("-arch={chip}")).map_err(|_| "the name of the chip holds a NUL".to_owned())?;
        let mut handle = ptr::null_mut();
        // SAFETY: one option, NUL-terminated, which is copied; a place for the handle.
        let status = unsafe { (functions.create)(&raw mut handle, 1, &option.as_ptr()) };
        if status != 0 || handle.is_null() {
            return Err(format!("nvJitLinkCreate returns {status}"));
        }
        Ok(Self { functions, handle })
    }

    fn link(&self, ptx: &str) -> Result<Cubin, String> {
        // The text goes with its NUL: versions before 12.2 expect one.
        let text = CString::new(ptx).map_err(|_| "the PTX holds a NUL".to_owned())?;
        let bytes = text.as_bytes_with_nul();
        // SAFETY: a live handle, and bytes that the call alone reads.
        let status = unsafe { (self.functions.add_data)(self.handle, PTX, bytes.as_ptr().cast(), bytes.len(), c"disc".as_ptr()) };
        succeeded("AddData", status)?;
        // SAFETY: a live handle, whose inputs were accepted.
        succeeded("Complete", unsafe { (self.functions.complete)(self.handle) })?;
        let bytes = self.read("GetLinkedCubin", self.functions.cubin_size, self.functions.cubin)?;
        Ok(Cubin { bytes, warnings: self.log() })
    }

    /// Returns the messages so far, each a line.
    fn log(&self) -> String {
        let functions = self.functions;
        let logs = [(functions.error_size, functions.error), (functions.info_size, functions.info)];
        // A log that cannot be read is none.
        let logs = logs.map(|(size, text)| self.read("GetErrorLog", size, text).unwrap_or_default());
        let text = logs.map(|log| String::from_utf8_lossy(&log).replace('\0', "")).concat();
        text.lines().filter(|line| !line.trim().is_empty()).fold(String::new(), |all, line| all + line + "\n")
    }

    fn read(&self, function: &str, size: SizeOf, bytes: ToBytes) -> Result<Vec<u8>, String> {
        let mut count = 0;
        // SAFETY: a live handle and a place for the size.
        succeeded(function, unsafe { size(self.handle, &raw mut count) })?;
        let mut found = vec![0_u8; count];
        if count > 0 {
            // SAFETY: a live handle, and as many bytes as the library writes.
            succeeded(function, unsafe { bytes(self.handle, found.as_mut_ptr().cast()) })?;
        }
        Ok(found)
    }
}

impl Drop for Linker {
    fn drop(&mut self) {
        // SAFETY: the handle is live, and not used afterwards.
        unsafe { (self.functions.destroy)(&raw mut self.handle) };
    }
}

fn succeeded(function: &str, status: c_int) -> Result<(), String> {
    if status == 0 { Ok(()) } else { Err(format!("nvJitLink{function} returns {status}")) }
}
