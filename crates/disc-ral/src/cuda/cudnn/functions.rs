//! Declares the functions of cuDNN that are called, and the numbers of its header.
//!
//! The numbers are those of cuDNN 9. cudarc's own functions are not called: they load a copy of
//! the library beside that of the process.
use super::super::shared_library::functions;
use std::{
    ffi::{CStr, c_char, c_int, c_void},
    fmt,
    ops::RangeInclusive,
};

/// A handle of the library, or one of its descriptors.
pub(super) type Handle = *mut c_void;

/// A failure of the library.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct CudnnError {
    pub(super) function: &'static str,
    pub(super) status: c_int,
}

impl CudnnError {
    /// Returns true if the library does not compute such a convolution at all, so that another try
    /// would fail too.
    pub(super) fn is_refusal(self) -> bool {
        const BAD_PARAMETERS: RangeInclusive<c_int> = 2000..=2999;
        const NOT_SUPPORTED: RangeInclusive<c_int> = 3000..=3999;
        BAD_PARAMETERS.contains(&self.status) || NOT_SUPPORTED.contains(&self.status)
    }
}

impl fmt::Display for CudnnError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: status {}", self.function, self.status)
    }
}

/// Kinds of descriptors.
pub(super) mod kind {
    use super::c_int;
    pub(in super::super) const POINTWISE: c_int = 0;
    pub(in super::super) const CONVOLUTION: c_int = 1;
    pub(in super::super) const ENGINE: c_int = 2;
    pub(in super::super) const ENGINE_CONFIG: c_int = 3;
    pub(in super::super) const HEURISTICS: c_int = 4;
    pub(in super::super) const EXECUTION_PLAN: c_int = 5;
    pub(in super::super) const CONVOLUTION_FORWARD: c_int = 10;
    pub(in super::super) const POINTWISE_OPERATION: c_int = 13;
    pub(in super::super) const OPERATION_GRAPH: c_int = 15;
    pub(in super::super) const VARIANT_PACK: c_int = 16;
    pub(in super::super) const TENSOR: c_int = 17;
}

/// Types of the values of attributes.
pub(super) mod ty {
    use super::c_int;
    pub(in super::super) const HANDLE: c_int = 0;
    pub(in super::super) const DATA_TYPE: c_int = 1;
    pub(in super::super) const BOOLEAN: c_int = 2;
    pub(in super::super) const INT64: c_int = 3;
    pub(in super::super) const FLOAT: c_int = 4;
    pub(in super::super) const POINTER: c_int = 6;
    pub(in super::super) const CONVOLUTION_MODE: c_int = 7;
    pub(in super::super) const HEURISTICS_MODE: c_int = 8;
    pub(in super::super) const NAN_PROPAGATION: c_int = 10;
    pub(in super::super) const NUMERICAL_NOTE: c_int = 11;
    pub(in super::super) const POINTWISE_MODE: c_int = 14;
    pub(in super::super) const DESCRIPTOR: c_int = 15;
}

/// Attributes of descriptors.
pub(super) mod attribute {
    use super::c_int;
    pub(in super::super) const POINTWISE_MODE: c_int = 0;
    pub(in super::super) const POINTWISE_PRECISION: c_int = 1;
    pub(in super::super) const POINTWISE_NAN_PROPAGATION: c_int = 2;
    pub(in super::super) const CONVOLUTION_COMPUTE_TYPE: c_int = 100;
    pub(in super::super) const CONVOLUTION_MODE: c_int = 101;
    pub(in super::super) const CONVOLUTION_DILATIONS: c_int = 102;
    pub(in super::super) const CONVOLUTION_STRIDES: c_int = 103;
    pub(in super::super) const CONVOLUTION_PADDING_HIGH: c_int = 104;
    pub(in super::super) const CONVOLUTION_PADDING_LOW: c_int = 105;
    pub(in super::super) const CONVOLUTION_SPATIAL_DIMS: c_int = 106;
    pub(in super::super) const HEURISTICS_MODE: c_int = 200;
    pub(in super::super) const HEURISTICS_GRAPH: c_int = 201;
    pub(in super::super) const HEURISTICS_RESULTS: c_int = 202;
    pub(in super::super) const CONFIG_ENGINE: c_int = 300;
    pub(in super::super) const PLAN_HANDLE: c_int = 400;
    pub(in super::super) const PLAN_CONFIG: c_int = 401;
    pub(in super::super) const PLAN_WORKSPACE: c_int = 402;
    pub(in super::super) const FORWARD_ALPHA: c_int = 700;
    pub(in super::super) const FORWARD_BETA: c_int = 701;
    pub(in super::super) const FORWARD_CONVOLUTION: c_int = 702;
    pub(in super::super) const FORWARD_FILTER: c_int = 703;
    pub(in super::super) const FORWARD_INPUT: c_int = 704;
    pub(in super::super) const FORWARD_RESULT: c_int = 705;
    pub(in super::super) const OPERATION_POINTWISE: c_int = 750;
    pub(in super::super) const OPERATION_LEFT: c_int = 751;
    pub(in super::super) const OPERATION_RIGHT: c_int = 752;
    pub(in super::super) const OPERATION_RESULT: c_int = 753;
    pub(in super::super) const GRAPH_HANDLE: c_int = 800;
    pub(in super::super) const GRAPH_OPERATIONS: c_int = 801;
    pub(in super::super) const TENSOR_ALIGNMENT: c_int = 900;
    pub(in super::super) const TENSOR_DATA_TYPE: c_int = 901;
    pub(in super::super) const TENSOR_SIZES: c_int = 902;
    pub(in super::super) const TENSOR_STRIDES: c_int = 903;
    pub(in super::super) const TENSOR_NAME: c_int = 906;
    pub(in super::super) const TENSOR_IS_VIRTUAL: c_int = 907;
    pub(in super::super) const PACK_NAMES: c_int = 1000;
    pub(in super::super) const PACK_POINTERS: c_int = 1001;
    pub(in super::super) const PACK_WORKSPACE: c_int = 1003;
    pub(in super::super) const ENGINE_NOTES: c_int = 1303;
}

/// Data types.
pub(super) const F32: c_int = 0;
pub(super) const F16: c_int = 2;
pub(super) const BF16: c_int = 9;

/// Filters are not reversed.
pub(super) const CROSS_CORRELATION: c_int = 1;
pub(super) const PROPAGATE_NAN: c_int = 1;

/// Functions of elements.
pub(super) const ADD: c_int = 0;
pub(super) const RELU: c_int = 100;

/// Modes of heuristics.
pub(super) const MODE_A: c_int = 3;
pub(super) const MODE_FALLBACK: c_int = 2;

/// Notes about the numbers of an engine.
pub(super) mod note {
    use super::c_int;
    pub(in super::super) const TENSOR_CORE: c_int = 0;
    pub(in super::super) const DOWN_CONVERT_INPUTS: c_int = 1;
    pub(in super::super) const REDUCED_PRECISION_REDUCTION: c_int = 2;
    pub(in super::super) const FFT: c_int = 3;
    pub(in super::super) const NONDETERMINISTIC: c_int = 4;
    pub(in super::super) const WINOGRAD: c_int = 5;
}

functions! {
    CudnnError, version = "cudnnGetVersion";
    create = "cudnnCreate"(handle: *mut Handle);
    set_stream = "cudnnSetStream"(handle: Handle, stream: *mut c_void);
    create_descriptor = "cudnnBackendCreateDescriptor"(kind: c_int, descriptor: *mut Handle);
    destroy_descriptor = "cudnnBackendDestroyDescriptor"(descriptor: Handle);
    set_attribute = "cudnnBackendSetAttribute"(descriptor: Handle, attribute: c_int, ty: c_int, count: i64,
        values: *const c_void);
    get_attribute = "cudnnBackendGetAttribute"(descriptor: Handle, attribute: c_int, ty: c_int, wanted: i64, count: *mut i64,
        values: *mut c_void);
    finalize = "cudnnBackendFinalize"(descriptor: Handle);
    execute = "cudnnBackendExecute"(handle: Handle, plan: Handle, pack: Handle);
}

/// The functions that say why another one failed.
#[derive(Clone, Copy)]
pub(super) struct Words {
    pub(super) of_status: unsafe extern "C" fn(c_int) -> *const c_char,
    pub(super) of_last: unsafe extern "C" fn(*mut c_char, usize),
}

impl Words {
    /// Returns the library's own words about the last failure of this thread, on one line.
    pub(super) fn of(self, error: CudnnError) -> String {
        let mut last = [0 as c_char; 512];
        // SAFETY: the library returns a constant text, and writes one that it ends within the room.
        let (status, last) = unsafe {
            let status = (self.of_status)(error.status);
            (self.of_last)(last.as_mut_ptr(), last.len() - 1);
            let status = if status.is_null() { c"" } else { CStr::from_ptr(status) };
            (status.to_string_lossy(), CStr::from_ptr(last.as_ptr()).to_string_lossy())
        };
        let text = format!("{error} {status} {last}");
        text.split_whitespace().collect::<Vec<_>>().join(" ")
    }
}
