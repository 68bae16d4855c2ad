//! Describes a tensor that enters or leaves compiled code.
//!
//! A host scalar (`i64`, `f64`, `i1`) is a tensor of rank 0 in host memory, whatever the device of
//! the entry.

use core::ffi::c_void;

/// The host's memory and processors.
pub const DEVICE_CPU: u8 = 0;
/// NVIDIA GPUs.
pub const DEVICE_CUDA: u8 = 1;
/// AMD and Hygon GPUs.
pub const DEVICE_HIP: u8 = 2;
/// An interpreter of kernels for GPUs.
pub const DEVICE_SIMT: u8 = 3;

/// On an input: the memory must not be written. An entry that would write into such an input is not
/// called.
pub const FLAG_READ_ONLY: u16 = 1;
/// On an output: `data` aliases the memory of an input, which the metadata of the entry names.
pub const FLAG_ALIAS: u16 = 2;
/// On an output: the descriptor is complete. Set by `alloc_output`; generated code sets it, with
/// [`FLAG_ALIAS`], on an aliasing output.
pub const FLAG_WRITTEN: u16 = 4;

/// A tensor: an address, sizes and strides.
///
/// *As an input* everything is read-only for generated code, except the elements of an input that
/// the entry declares to write. The runtime guarantees: `rank`, `dtype` and `device` are those of
/// the signature; no size is negative; a tensor with elements has non-null `data`, aligned to its
/// element size; the number of bytes fits in an `i64`; and **`strides` is null exactly when the
/// tensor is row-major contiguous** (a tensor without elements counts as contiguous, strides of
/// dimensions of size 1 are ignored). It does *not* check sizes against dims and facts: the entry
/// does that first.
///
/// *As an output* the runtime presets `rank`, `dtype`, `device`, `flags = 0`, `data = null`,
/// `strides = null`, and `sizes` to an array of `rank` values of its own that generated code may
/// write. Output `i` is made in one of two ways:
/// - **fresh**: call `alloc_output(ctx, i, ...)` once, when the size is known, and write the
///   elements to the address that it returns. It completes the descriptor; generated code writes
///   nothing into it. Fresh outputs are contiguous.
/// - **alias** of an input (a mutated input, or one that is forwarded, perhaps in another shape):
///   store `data`, the values of `sizes`, `strides` (null, or an array that lives until the call
///   ends, such as the input's) and `flags = FLAG_WRITTEN | FLAG_ALIAS`. The metadata names the
///   input. The entry may decide at each call not to alias, and call `alloc_output` instead.
///
/// A host-scalar output is a fresh output of rank 0 whose memory is the host's.
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct Tensor {
    /// Address of the element at index zero.
    pub data: *mut c_void,
    /// `rank` sizes, in elements.
    pub sizes: *const i64,
    /// `rank` strides, in elements (may be zero or negative); null: row-major contiguous.
    pub strides: *const i64,
    pub rank: u32,
    /// Code of a [`crate::DType`].
    pub dtype: u8,
    /// [`DEVICE_CPU`], or the number of another device kind.
    pub device: u8,
    /// `FLAG_*` bits.
    pub flags: u16,
}

const _: () = assert!(size_of::<Tensor>() == 32, "the layout that generated code relies on");
