//! Loads oneDNN on demand, and multiplies f32 matrices with it on the CPU.
//!
//! Only its C function `dnnl_sgemm` is used. It would start threads of its own; here each of the
//! queue's threads calls it for a part of the product, limited to one thread.
//!
//! Invariant: the parts depend only on the sizes and the thread limit, so the same call gives the
//! same bits.
use super::{GemmLibrary, GemmMatrices};
use crate::{
    device::{Launch, LaunchFailure, Queue},
    library::loader_error,
};
use disc_abi::{DType, KernelFn, KernelHandle, STATUS_OK};
use std::{
    ffi::{CStr, CString, c_char, c_int, c_void},
    os::unix::ffi::OsStrExt,
    path::{Path, PathBuf},
    ptr::NonNull,
};

/// The file names of oneDNN's releases.
const NAMES: [&str; 3] = ["libdnnl.so.3", "libdnnl.so.2", "libdnnl.so"];
/// `dnnl_version_t::cpu_runtime`.
const RUNTIME_SEQUENTIAL: u32 = 1;
const RUNTIME_OPENMP: u32 = 2;
/// Granularity of the parts: columns are cut at multiples of the first, rows at multiples of the
/// second. These are whole vectors, and whole blocks of the library's kernels.
const PART_COLUMNS: i64 = 64;
const PART_ROWS: i64 = 48;
/// From this many rows per thread on, rows are split rather than columns.
const MANY_ROWS: i64 = 2 * PART_ROWS;

type Sgemm =
    unsafe extern "C" fn(c_char, c_char, i64, i64, i64, f32, *const f32, i64, *const f32, i64, f32, *mut f32, i64) -> c_int;

/// The OpenMP functions that limit the threads of a thread's parallel regions.
#[derive(Clone, Copy)]
struct OpenMp {
    threads: unsafe extern "C" fn() -> c_int,
    set_threads: unsafe extern "C" fn(c_int),
}

/// The start of `dnnl_version_t`, which every release has.
#[repr(C)]
struct Version {
    major: c_int,
    minor: c_int,
    patch: c_int,
    hash: *const c_char,
    cpu_runtime: u32,
}

/// The library, which stays loaded as long as the process lives.
pub struct OneDnn {
    name: String,
    sgemm: Sgemm,
    openmp: Option<OpenMp>,
}

impl OneDnn {
    /// Loads the library from a file, or from the system: the first of its names that can be used.
    ///
    /// # Errors
    /// The reason why none can be used.
    pub fn load(path: Option<&Path>) -> Result<Self, String> {
        // The loader searches the system for names without a slash.
        let names = path.map_or_else(|| NAMES.map(PathBuf::from).to_vec(), |path| vec![Path::new(".").join(path)]);
        let mut reasons = Vec::new();
        for name in names {
            match open(&name).and_then(Self::of) {
                Ok(library) => return Ok(library),
                Err(reason) => reasons.push(reason),
            }
        }
        Err(reasons.join("; "))
    }

    fn of(library: NonNull<c_void>) -> Result<Self, String> {
        // SAFETY: the functions of oneDNN's C interface have these types in all its releases from
        // 1.0 on, as those of OpenMP do.
        unsafe {
            let sgemm = std::mem::transmute::<*mut c_void, Sgemm>(symbol(library, c"dnnl_sgemm")?.as_ptr());
            let version: unsafe extern "C" fn() -> *const Version =
                std::mem::transmute(symbol(library, c"dnnl_version")?.as_ptr());
            let version = &*version();
            let openmp = match version.cpu_runtime {
                RUNTIME_SEQUENTIAL => None,
                RUNTIME_OPENMP => Some(OpenMp {
                    threads: std::mem::transmute::<*mut c_void, unsafe extern "C" fn() -> c_int>(
                        bound_symbol(library, c"omp_get_max_threads")?.as_ptr(),
                    ),
                    set_threads: std::mem::transmute::<*mut c_void, unsafe extern "C" fn(c_int)>(
                        bound_symbol(library, c"omp_set_num_threads")?.as_ptr(),
                    ),
                }),
                other => return Err(format!("oneDNN was built for threads of kind {other}, which cannot be limited")),
            };
            let name = format!("oneDNN {}.{}.{}", version.major, version.minor, version.patch);
            Ok(Self { name, sgemm, openmp })
        }
    }
}

impl GemmLibrary for OneDnn {
    fn name(&self) -> &str {
        &self.name
    }

    unsafe fn multiply(&self, queue: &mut dyn Queue, product: &GemmMatrices) -> Result<bool, LaunchFailure> {
        if product.dtype != DType::F32 {
            return Ok(false);
        }
        let parts = Parts::of(product, queue.thread_limit());
        let task = Task { library: self, product, parts };
        let args = [(&raw const task).expose_provenance() as u64];
        // About 64 operations per nanosecond.
        let work = product.rows.saturating_mul(product.columns).saturating_mul(product.sums);
        let launch = Launch {
            kernel: KernelHandle::from(multiply_parts as KernelFn),
            args: args.as_ptr(),
            units: parts.count,
            cost: work / 32,
            scratch_bytes: 0,
        };
        // SAFETY: the kernel reads the task, which outlives the launch; each unit writes its own
        // part of the result.
        match unsafe { queue.launch(&launch) } {
            Ok(_) => Ok(true),
            // The library refused: the kernel can still compute it.
            Err(LaunchFailure::Fault(_)) => Ok(false),
            Err(failure) => Err(failure),
        }
    }
}

/// The partition of a product into ranges of rows or of columns.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Parts {
    of_rows: bool,
    count: i64,
    /// Rows or columns of all parts but the last.
    size: i64,
}

impl Parts {
    fn of(product: &GemmMatrices, threads: usize) -> Self {
        let threads = i64::try_from(threads).unwrap_or(1).max(1);
        let of_rows = product.rows >= threads.saturating_mul(MANY_ROWS);
        let (length, step) = if of_rows { (product.rows, PART_ROWS) } else { (product.columns, PART_COLUMNS) };
        let steps = (length as u64).div_ceil(step as u64) as i64;
        let size = (steps as u64).div_ceil(threads as u64) as i64 * step;
        Self { of_rows, count: (length as u64).div_ceil(size as u64) as i64, size }
    }
}

struct Task<'t> {
    library: &'t OneDnn,
    product: &'t GemmMatrices,
    parts: Parts,
}

impl Task<'_> {
    /// Computes one part. Returns true if the library could.
    ///
    /// # Safety
    /// As [`GemmLibrary::multiply`].
    unsafe fn multiply(&self, part: i64) -> bool {
        let Self { library, product, parts } = *self;
        let first = part * parts.size;
        let (mut rows, mut columns) = (product.rows, product.columns);
        let (left, right) = (product.left, product.right);
        // Start of the part in left operand, right operand and result.
        let starts = if parts.of_rows {
            rows = parts.size.min(rows - first);
            [if left.transposed { first } else { first * left.stride }, 0, first * product.columns]
        } else {
            columns = parts.size.min(columns - first);
            [0, if right.transposed { first * right.stride } else { first }, first]
        };
        let form = |transposed: bool| if transposed { b'T' } else { b'N' } as c_char;
        // SAFETY: the caller's promise; the parts are in the matrices.
        let status = unsafe {
            (library.sgemm)(
                form(left.transposed),
                form(right.transposed),
                rows,
                columns,
                product.sums,
                1.0,
                left.data.cast::<f32>().offset(starts[0] as isize),
                left.stride,
                right.data.cast::<f32>().offset(starts[1] as isize),
                right.stride,
                0.0,
                product.result.cast::<f32>().offset(starts[2] as isize),
                product.columns,
            )
        };
        status == 0
    }
}

/// Multiplies parts of a product. Argument: the address of a [`Task`].
///
/// # Safety
/// The argument is the address of a task whose matrices are valid.
unsafe extern "C" fn multiply_parts(args: *const u64, begin: i64, end: i64, _scratch: *mut u8) -> i32 {
    // SAFETY: the caller's promise.
    let task = unsafe { &*std::ptr::with_exposed_provenance::<Task<'_>>(*args as usize) };
    let _alone = task.library.openmp.map(OneThread::new);
    // SAFETY: as above.
    let all = (begin..end).all(|part| unsafe { task.multiply(part) });
    if all { STATUS_OK } else { 1 }
}

/// Limits parallel regions that this thread opens to one thread while it lives.
struct OneThread {
    openmp: OpenMp,
    before: c_int,
}

impl OneThread {
    fn new(openmp: OpenMp) -> Self {
        // SAFETY: functions of OpenMP, which set a variable of this thread.
        let before = unsafe { (openmp.threads)() };
        // SAFETY: as above.
        unsafe { (openmp.set_threads)(1) };
        Self { openmp, before }
    }
}

impl Drop for OneThread {
    fn drop(&mut self) {
        // SAFETY: as above.
        unsafe { (self.openmp.set_threads)(self.before) };
    }
}

fn open(name: &Path) -> Result<NonNull<c_void>, String> {
    let path = CString::new(name.as_os_str().as_bytes()).map_err(|_| format!("the name {name:?} holds a NUL"))?;
    // SAFETY: a NUL-terminated name; the library's constructors run, as for any program that uses
    // it. It is never closed: its threads and thread-local memory may outlive every executable.
    let handle = unsafe { libc::dlopen(path.as_ptr(), libc::RTLD_NOW | libc::RTLD_LOCAL) };
    NonNull::new(handle).ok_or_else(loader_error)
}

fn symbol(library: NonNull<c_void>, name: &CStr) -> Result<NonNull<c_void>, String> {
    // SAFETY: a live handle and a NUL-terminated name.
    let address = unsafe { libc::dlsym(library.as_ptr(), name.as_ptr()) };
    NonNull::new(address).ok_or_else(|| format!("the library has no function {}", name.to_string_lossy()))
}

/// Returns the function that the library's own calls of another library reach: the loader binds
/// them to the first one in the process's global scope, and only then looks at the libraries that
/// it was loaded with.
fn bound_symbol(library: NonNull<c_void>, name: &CStr) -> Result<NonNull<c_void>, String> {
    // SAFETY: a NUL-terminated name.
    let global = unsafe { libc::dlsym(libc::RTLD_DEFAULT, name.as_ptr()) };
    NonNull::new(global).map_or_else(|| symbol(library, name), Ok)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::gemm::Matrix;

    fn product(rows: i64, columns: i64) -> GemmMatrices {
        let matrix = Matrix { data: std::ptr::null(), transposed: false, stride: 1 };
        GemmMatrices { dtype: DType::F32, rows, columns, sums: 1, left: matrix, right: matrix, result: std::ptr::null_mut() }
    }

    #[test]
    fn parts_cover_a_product_and_are_no_more_than_threads() {
        for rows in [1, 2, 95, 96, 97, 191, 192, 193, 1000] {
            for columns in [1, 63, 64, 65, 127, 129, 768, 3072] {
                for threads in [1, 2, 3, 8] {
                    let parts = Parts::of(&product(rows, columns), threads);
                    let length = if parts.of_rows { rows } else { columns };
                    assert!(parts.count <= threads as i64, "{parts:?}");
                    assert!((parts.count - 1) * parts.size < length && parts.count * parts.size >= length, "{parts:?}");
                }
            }
        }
    }

    #[test]
    fn a_file_without_a_slash_is_not_searched_for() {
        let reason = OneDnn::load(Some(Path::new("libc.so.6"))).err().unwrap();
        assert!(reason.contains("./libc.so.6") && reason.contains("No such file"), "{reason}");
    }

    #[test]
    fn a_path_without_a_library_is_a_reason() {
        let reason = OneDnn::load(Some(Path::new("/nowhere/libdnnl.so"))).err().unwrap();
        assert!(reason.contains("/nowhere/libdnnl.so"), "{reason}");
    }
}
