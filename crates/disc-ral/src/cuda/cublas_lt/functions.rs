//! Declares the functions of cuBLASLt that are called, and the numbers of its header.
//!
//! The numbers are those of CUDA 12 and 13 alike. cudarc's own functions are not called: they load
//! a copy of the library beside that of the process.
use super::super::shared_library::functions;
use std::{
    ffi::{c_int, c_void},
    fmt,
};

/// A handle of the library.
pub(super) type Handle = *mut c_void;

/// A failure of the library.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct LtError {
    pub(super) function: &'static str,
    pub(super) status: c_int,
}

impl LtError {
    /// Returns true if the library cannot compute a matmul at all.
    pub(super) fn is_unsupported(self) -> bool {
        const NOT_SUPPORTED: c_int = 15;
        self.status == NOT_SUPPORTED
    }
}

impl fmt::Display for LtError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let name = match self.status {
            1 => "NOT_INITIALIZED",
            3 => "ALLOC_FAILED",
            7 => "INVALID_VALUE",
            8 => "ARCH_MISMATCH",
            13 => "EXECUTION_FAILED",
            14 => "INTERNAL_ERROR",
            15 => "NOT_SUPPORTED",
            _ => "another status",
        };
        write!(f, "{}: {name} ({})", self.function, self.status)
    }
}

/// An algorithm with its settings (`cublasLtMatmulAlgo_t`).
#[repr(C)]
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Algorithm(pub(super) [u64; 8]);

/// An answer of the heuristics (`cublasLtMatmulHeuristicResult_t`).
#[repr(C)]
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Found {
    pub(super) algorithm: Algorithm,
    pub(super) workspace: usize,
    pub(super) state: c_int,
    pub(super) waves: f32,
    pub(super) reserved: [c_int; 4],
}

const _: () = assert!(size_of::<Found>() == 96, "the size in the library's header");

pub(super) const F32: c_int = 0;
pub(super) const F16: c_int = 2;
pub(super) const BF16: c_int = 14;

/// Sums in f32.
pub(super) const COMPUTE_F32: c_int = 68;
/// Sums in f32 of operands that are rounded to tf32.
pub(super) const COMPUTE_TF32: c_int = 77;

/// Attributes of a matmul.
pub(super) const TRANSPOSE_A: c_int = 3;
pub(super) const TRANSPOSE_B: c_int = 4;
pub(super) const EPILOGUE: c_int = 7;
pub(super) const BIAS_POINTER: c_int = 8;

/// Attributes of the layout of a matrix.
pub(super) const BATCH_COUNT: c_int = 5;
pub(super) const BATCH_STRIDE: c_int = 6;

/// Attributes of what is wanted of an algorithm.
pub(super) const MOST_WORKSPACE: c_int = 1;
pub(super) const REDUCTION_SCHEMES: c_int = 3;
pub(super) const LEAST_ALIGNMENT: [c_int; 4] = [5, 6, 7, 8];
/// Parts of sums are added up in the type of sums, not in that of the result.
pub(super) const IN_COMPUTE_TYPE: u32 = 2;

/// Parts of an epilogue; their sum is one too.
pub(super) const PLAIN: u32 = 1;
pub(super) const RELU: u32 = 2;
pub(super) const BIAS: u32 = 4;
pub(super) const GELU: u32 = 32;

functions! {
    LtError, version = "cublasLtGetVersion";
    create = "cublasLtCreate"(handle: *mut Handle);
    create_matmul = "cublasLtMatmulDescCreate"(matmul: *mut Handle, compute: c_int, scale: c_int);
    set_matmul = "cublasLtMatmulDescSetAttribute"(matmul: Handle, attribute: c_int, value: *const c_void, bytes: usize);
    destroy_matmul = "cublasLtMatmulDescDestroy"(matmul: Handle);
    create_layout = "cublasLtMatrixLayoutCreate"(layout: *mut Handle, dtype: c_int, rows: u64, columns: u64, stride: i64);
    set_layout = "cublasLtMatrixLayoutSetAttribute"(layout: Handle, attribute: c_int, value: *const c_void, bytes: usize);
    destroy_layout = "cublasLtMatrixLayoutDestroy"(layout: Handle);
    create_preference = "cublasLtMatmulPreferenceCreate"(preference: *mut Handle);
    set_preference = "cublasLtMatmulPreferenceSetAttribute"(preference: Handle, attribute: c_int, value: *const c_void,
        bytes: usize);
    destroy_preference = "cublasLtMatmulPreferenceDestroy"(preference: Handle);
    heuristics = "cublasLtMatmulAlgoGetHeuristic"(library: Handle, matmul: Handle, a: Handle, b: Handle, c: Handle,
        d: Handle, preference: Handle, wanted: c_int, found: *mut Found, count: *mut c_int);
    matmul = "cublasLtMatmul"(library: Handle, matmul: Handle, alpha: *const c_void, a: *const c_void, a_layout: Handle,
        b: *const c_void, b_layout: Handle, beta: *const c_void, c: *const c_void, c_layout: Handle, d: *mut c_void,
        d_layout: Handle, algorithm: *const Algorithm, workspace: *mut c_void, bytes: usize, stream: *mut c_void);
}
