//! Defines the calling convention of entries and kernels, and the functions that the runtime gives
//! them.
//!
//! All functions of the table are called on the thread that called the entry; kernels may call
//! `launch` only.

use crate::{GridLaunch, LibraryConvolution, LibraryGemm, Tensor};
use core::{ffi::c_void, ptr::NonNull};

/// Success of an entry, a kernel or a runtime function.
pub const STATUS_OK: i32 = 0;
/// A failure that the session has recorded. An entry returns it unchanged to its caller.
pub const STATUS_FAILED: i32 = -1;

/// A kernel may leave this many `i64` values at the start of its scratch when it fails.
pub const KERNEL_VALUES: usize = 8;
/// Lower bound of every nonzero [`Context::nontemporal_bytes`]; `cpu/cache.rs` of the runtime
/// derives it.
pub const LEAST_NONTEMPORAL_BYTES: i64 = 64 << 20;
/// Alignment of scratch in bytes.
pub const SCRATCH_ALIGN: usize = crate::ALIGN;

/// A CPU kernel: runs the work units `begin..end` of a launch, in ascending order.
///
/// - `args`: the argument block of the launch, shared by all its threads and only read: one `u64`
///   per argument (an address, an `i64`, the bits of an `f64`, the bits of an `f32` in the low
///   half).
/// - `scratch`: this thread's private memory, aligned to [`SCRATCH_ALIGN`], never null, of at least
///   the bytes that the launch asked for and at least 64. Its contents are undefined at each call.
/// - returns [`STATUS_OK`], or a positive *site*: the number of a source site in the module's table
///   (they start at 1). It then returns at its first failing unit. For a site that declares
///   `kernel_values = n`, the `n` (at most [`KERNEL_VALUES`]) values for the message are `i64`s
///   at the start of `scratch`.
///
/// A launch calls it several times, on several threads, with ranges that together are `0..units` of
/// the launch, each unit once. How the units are grouped depends on the thread limit and on timing,
/// so **no result may depend on it**: every unit writes its own memory and no other unit reads
/// that. After a failure, later units may be left out; all units before the reported one have run.
pub type KernelFn = unsafe extern "C" fn(args: *const u64, begin: i64, end: i64, scratch: *mut u8) -> i32;

/// A kernel as a launch names it: one word that only the device of the launch can read, never null.
/// On a CPU it is the address of a [`KernelFn`], so generated code passes a function's address.
#[repr(transparent)]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct KernelHandle(NonNull<c_void>);

const _: () = assert!(
    size_of::<KernelHandle>() == size_of::<KernelFn>() && size_of::<Option<KernelHandle>>() == size_of::<KernelFn>(),
    "a handle is the word that a function's address is"
);

impl KernelHandle {
    /// Returns the handle of a word that a device gave for a kernel.
    pub const fn from_raw(word: NonNull<c_void>) -> Self {
        Self(word)
    }

    /// Returns the word: equal for launches of one kernel.
    pub fn address(self) -> usize {
        self.0.as_ptr().addr()
    }

    /// Returns the function of a CPU's kernel.
    ///
    /// # Safety
    /// The handle was made from a [`KernelFn`].
    #[inline(always)]
    pub unsafe fn function(self) -> KernelFn {
        // SAFETY: the caller's promise: the word is the address of such a function.
        unsafe { core::mem::transmute::<*mut c_void, KernelFn>(self.0.as_ptr()) }
    }
}

impl From<KernelFn> for KernelHandle {
    #[inline(always)]
    fn from(kernel: KernelFn) -> Self {
        // SAFETY: no function is at address 0.
        Self(unsafe { NonNull::new_unchecked(kernel as *mut c_void) })
    }
}

/// An entry of a module: checks its inputs, evaluates shapes, allocates, launches. Returns
/// [`STATUS_OK`] when all outputs are written, else the status of the runtime function that failed.
/// See [`Tensor`] for inputs and outputs.
///
/// A `prepare` entry has this type too. It has no inputs and outputs (both null); it reads plain
/// weights and writes the prepared blobs that the metadata gives to it, both found in
/// [`Context::weights`].
pub type EntryFn = unsafe extern "C" fn(ctx: *mut Context, inputs: *const Tensor, outputs: *mut Tensor) -> i32;

/// State of one call as an entry sees it: session and executable. It lives for one call, is only
/// read by generated code, and is not shared between threads.
#[repr(C)]
pub struct Context {
    pub runtime: *const Runtime,
    /// Addresses of the module's weight table, contiguous: the plain weights, then the prepared
    /// blobs.
    pub weights: *const *const u8,
    /// Always null in this version: the table of specialised kernels.
    pub kernels: *const c_void,
    /// A kernel that reads and writes at least this many bytes exceeds the last-level cache and may
    /// use non-temporal stores. 0: no kernel may.
    pub nontemporal_bytes: i64,
    pub reserved: [*const c_void; 2],
    /// Private to the runtime; generated code never reads it.
    pub user: *mut c_void,
}

/// Table of the functions that the runtime gives to generated code. `size` grows when functions are
/// added at the end.
#[repr(C)]
pub struct Runtime {
    /// [`crate::ABI_VERSION`].
    pub version: u32,
    /// `size_of::<Runtime>()` of the runtime.
    pub size: u32,

    /// Allocates temporary memory of the entry, aligned to [`crate::ALIGN`], with undefined
    /// contents, valid until `release` of an earlier mark or the end of the call. `bytes` may be 0:
    /// the result is then not null and not to be accessed. Returns null on failure (negative, over
    /// the machine's memory, out of memory), which is recorded: return [`STATUS_FAILED`]. A model
    /// without data-dependent sizes calls this once per call.
    pub alloc: unsafe extern "C" fn(ctx: *mut Context, bytes: i64) -> *mut u8,

    /// Opens a nested frame: a mark for `release`.
    pub mark: unsafe extern "C" fn(ctx: *mut Context) -> u64,

    /// Frees everything allocated since the mark. Frames nest; a mark may be released again and
    /// again (a loop body), and the runtime releases the frames that are still open at the end of a
    /// call.
    pub release: unsafe extern "C" fn(ctx: *mut Context, mark: u64),

    /// Allocates output `index`, aligned to its element size, and completes its descriptor. `sizes`
    /// (`rank` of them) is only read during the call. The memory belongs to the caller of the entry
    /// and outlives it. Returns null on failure (recorded). For an output without elements the
    /// address is not null and not to be accessed.
    pub alloc_output: unsafe extern "C" fn(ctx: *mut Context, index: u32, dtype: u32, rank: u32, sizes: *const i64) -> *mut u8,

    /// Runs all `units` of a kernel and returns when they are done. `units <= 0` does nothing.
    /// `cost` estimates the nanoseconds of the whole launch on one thread and decides, with the
    /// session's limit, how many threads take part; no result depends on it. `args` may be on the
    /// caller's stack. Returns [`STATUS_OK`] or a nonzero status (recorded), which the entry
    /// returns. Called by a kernel (nested) it runs only on that thread, records nothing, and
    /// returns the status for the kernel to return; values that the inner kernel left are lost.
    pub launch: unsafe extern "C" fn(
        ctx: *mut Context,
        kernel: KernelHandle,
        args: *const u64,
        units: i64,
        cost: i64,
        scratch_bytes: i64,
    ) -> i32,

    /// Records a failure at a source site, with the `n` values that its message template asks for,
    /// and returns [`STATUS_FAILED`] for the entry to return. The first failure of a call is the
    /// one that is reported.
    pub fail: unsafe extern "C" fn(ctx: *mut Context, site: u32, values: *const i64, n: u32) -> i32,

    /// Copies `bytes` bytes within the entry's device memory, possibly on several threads. The
    /// ranges must not overlap.
    pub copy: unsafe extern "C" fn(ctx: *mut Context, to: *mut u8, from: *const u8, bytes: i64) -> i32,

    /// Computes a GEMM by the generated kernel, or by a library followed by the group's epilogue
    /// kernel; the session's dispatch chooses. Both give the same values up to rounding. The status
    /// is that of `launch`. For entries only, not for kernels.
    pub gemm: unsafe extern "C" fn(ctx: *mut Context, gemm: *const Gemm) -> i32,

    /// Lays out `parts` parts of an arena by first fit: each part gets the least offset, 0 or the
    /// end of a part that it conflicts with, at which it overlaps no earlier part that it conflicts
    /// with. Parts of size 0 conflict with none. `meets` (`words` words) holds, for each part, the
    /// number of earlier parts that it conflicts with and then their positions. Writes the offsets
    /// and returns the end of the last part, or a negative value on failure. For entries only.
    pub layout_arena: unsafe extern "C" fn(
        ctx: *mut Context,
        parts: u32,
        sizes: *const i64,
        meets: *const i64,
        words: u32,
        offsets: *mut i64,
    ) -> i64,

    /// Runs a GPU kernel, number `kernel` of those of the module, after all earlier launches; it
    /// may still run when this returns. `args` are `words` words, which are only read during the
    /// call. The status is that of `launch`. For entries only, not for kernels.
    pub launch_grid:
        unsafe extern "C" fn(ctx: *mut Context, kernel: u32, args: *const u64, words: u32, grid: *const GridLaunch) -> i32,

    /// Reads `n` scalars from memory of the device, once all launches before have ended. Word `i`
    /// is the address of `sizes[i]` bytes, which replace its low bytes; the others become 0. For
    /// entries only, not for kernels.
    pub fetch: unsafe extern "C" fn(ctx: *mut Context, words: *mut u64, sizes: *const i64, n: u32) -> i32,

    /// Offers a GEMM to a library of the device, after all earlier launches, and writes
    /// [`LibraryGemm::is_taken`]. The same sizes, strides and alignment of memory have the same
    /// answer in each call, unless the library fails. The status is that of `launch`. For entries
    /// only, not for kernels.
    pub library_gemm: unsafe extern "C" fn(ctx: *mut Context, gemm: *mut LibraryGemm) -> i32,

    /// Offers a convolution to a library of the device, as `library_gemm` does a GEMM, and writes
    /// [`LibraryConvolution::is_taken`].
    pub library_convolution: unsafe extern "C" fn(ctx: *mut Context, convolution: *mut LibraryConvolution) -> i32,

    /// Null in this version.
    pub reserved: [*const c_void; 2],
}

/// A GEMM that a kernel computes and that a library may compute instead:
/// `result[i, j] = sum over l of left[i, l] * right[l, j]`. Every field is one word, so generated
/// code writes it as an array.
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct Gemm {
    /// Code of the [`crate::DType`] of operands, sums and result.
    pub dtype: u64,
    /// `[m, n, k]`: rows, columns, and terms of each sum.
    pub sizes: [i64; 3],
    /// Strides in elements: of `left` between rows and between columns, of `right` between rows and
    /// between columns.
    pub strides: [i64; 4],
    /// Width of the panels `[panel][l][j]` that `right` is packed in, zero-padded after its last
    /// column; the strides of `right` are then unused. 0: not packed.
    pub panel: i64,
    pub left: *const u8,
    pub right: *const u8,
    /// Contiguous. Null if there is a `rest`, which then reads the result in memory of the runtime.
    pub result: *mut u8,
    /// The kernel that computes the whole group, and its launch: see [`Runtime::launch`].
    pub kernel: KernelHandle,
    pub args: *const u64,
    pub units: i64,
    pub cost: i64,
    pub scratch_bytes: i64,
    /// The epilogue kernel of the group, if it has one, and its launch. The runtime writes the
    /// address of the result into word `rest_slot` of `rest_args`.
    pub rest: Option<KernelHandle>,
    pub rest_args: *mut u64,
    pub rest_slot: i64,
    pub rest_units: i64,
    pub rest_cost: i64,
    pub rest_scratch_bytes: i64,
}

const _: () = assert!(size_of::<Gemm>() == Gemm::WORDS * 8, "generated code writes words");

impl Gemm {
    /// Words of a [`Gemm`].
    pub const WORDS: usize = 23;
}

// SAFETY: the table is constant data and code addresses.
unsafe impl Sync for Runtime {}

const _: () =
    assert!(size_of::<Context>() == 56 && size_of::<Runtime>() == 8 + 15 * 8, "the layout that generated code relies on");

#[cfg(test)]
mod tests {
    use super::*;

    unsafe extern "C" fn kernel(_: *const u64, begin: i64, end: i64, _: *mut u8) -> i32 {
        (end - begin) as i32
    }

    #[test]
    fn a_handle_of_a_cpu_is_the_address_of_its_function() {
        let handle = KernelHandle::from(kernel as KernelFn);
        assert_eq!(handle.address(), kernel as *const () as usize);
        // SAFETY: the handle was made from this function, which reads no memory.
        let status = unsafe { handle.function()(core::ptr::null(), 2, 9, core::ptr::null_mut()) };
        assert_eq!(status, 7);
        assert_eq!(KernelHandle::from_raw(NonNull::dangling()).address(), 1);
    }
}
