//! Holds the descriptors of a shape and the algorithm that computes it.
//!
//! The library's matrices are in columns: a matrix in rows is its transpose in columns, so the
//! right operand is its first one, and its result has the columns of ours as rows. A bias of its
//! rows is one of our columns.
use super::{
    functions::{
        self, Algorithm, BATCH_COUNT, BATCH_STRIDE, BIAS, BIAS_POINTER, COMPUTE_F32, COMPUTE_TF32, EPILOGUE, Found, Functions,
        GELU, Handle, IN_COMPUTE_TYPE, LEAST_ALIGNMENT, LtError, MOST_WORKSPACE, PLAIN, REDUCTION_SCHEMES, RELU, TRANSPOSE_A,
        TRANSPOSE_B,
    },
    shape::{Operand, Shape},
};
use disc_abi::{Activation, DType, LibraryGemm};
use std::{
    ffi::{c_int, c_void},
    ptr,
    sync::{Mutex, PoisonError},
};

/// The descriptors and the algorithm of a shape.
pub(in crate::cuda) struct Plan {
    /// The description of the matmul, in which a call writes the address of its bias.
    matmul: Mutex<Owned>,
    left: Owned,
    right: Owned,
    result: Owned,
    algorithm: Algorithm,
    workspace: usize,
}

// SAFETY: the library's descriptions are data that any thread may read; that of the matmul, which
// calls write to, is under a lock.
unsafe impl Send for Plan {}
// SAFETY: as above.
unsafe impl Sync for Plan {}

/// A description that the library has made.
struct Owned {
    handle: Handle,
    functions: Functions,
    destroy: unsafe fn(&Functions, Handle) -> Result<(), LtError>,
}

impl Drop for Owned {
    fn drop(&mut self) {
        // SAFETY: made by the library, destroyed once. Nobody could act on a failure.
        let _ = unsafe { (self.destroy)(&self.functions, self.handle) };
    }
}

impl Plan {
    /// Describes a shape, and takes the first algorithm of the heuristics; `None` if there is none.
    ///
    /// # Safety
    /// The handle is of these functions, and its context is current.
    pub(super) unsafe fn new(functions: Functions, library: Handle, shape: &Shape, most: usize) -> Result<Option<Self>, LtError> {
        let dtype = dtype_of(shape);
        let [rows, columns, sums] = shape.sizes;
        // SAFETY: live descriptions, and values of the types that the header gives to attributes.
        unsafe {
            let matmul = matmul(functions, shape)?;
            let right = operand(functions, dtype, shape.batches, shape.right, [sums, columns])?;
            let left = operand(functions, dtype, shape.batches, shape.left, [rows, sums])?;
            let of_result = Operand { transposed: false, stride: columns, batch: rows * columns };
            let result = operand(functions, dtype, shape.batches, of_result, [rows, columns])?;
            let wanted = preference(functions, shape, most)?;
            let (mut found, mut count) = (Found::default(), 0);
            let (a, b, d) = (right.handle, left.handle, result.handle);
            functions.heuristics(library, matmul.handle, a, b, d, d, wanted.handle, 1, &mut found, &mut count)?;
            let is_found = count > 0 && found.state == 0 && found.workspace <= most;
            let (algorithm, workspace) = (found.algorithm, found.workspace);
            Ok(is_found.then(|| Self { matmul: Mutex::new(matmul), left, right, result, algorithm, workspace }))
        }
    }

    /// Returns the bytes of memory that the algorithm works in.
    pub(in crate::cuda) fn workspace(&self) -> usize {
        self.workspace
    }

    /// Computes a matmul of the shape on a stream.
    ///
    /// # Safety
    /// The handle is that of the plan, its context is current; operands, result and workspace are
    /// memory of the device.
    pub(super) unsafe fn run(
        &self,
        functions: Functions,
        library: Handle,
        gemm: &LibraryGemm,
        (workspace, bytes): (*mut c_void, usize),
        stream: *mut c_void,
    ) -> Result<(), LtError> {
        let matmul = self.matmul.lock().unwrap_or_else(PoisonError::into_inner);
        let (one, zero, result): (f32, f32, _) = (1.0, 0.0, gemm.result.cast::<c_void>());
        // SAFETY: the caller's promise; the description is read before the call returns.
        unsafe {
            if !gemm.bias.is_null() {
                set(&gemm.bias, |value, bytes| functions.set_matmul(matmul.handle, BIAS_POINTER, value, bytes))?;
            }
            functions.matmul(
                library,
                matmul.handle,
                (&raw const one).cast(),
                gemm.right.cast(),
                self.right.handle,
                gemm.left.cast(),
                self.left.handle,
                (&raw const zero).cast(),
                result,
                self.result.handle,
                result,
                self.result.handle,
                &self.algorithm,
                workspace,
                bytes,
                stream,
            )
        }
    }
}

/// Passes the address and the bytes of a value.
fn set<T>(value: &T, attribute: impl FnOnce(*const c_void, usize) -> Result<(), LtError>) -> Result<(), LtError> {
    attribute(ptr::from_ref(value).cast(), size_of::<T>())
}

fn dtype_of(shape: &Shape) -> c_int {
    match DType::from_code(shape.dtype) {
        Some(DType::F16) => functions::F16,
        Some(DType::BF16) => functions::BF16,
        _ => functions::F32,
    }
}

/// Describes the operation.
unsafe fn matmul(functions: Functions, shape: &Shape) -> Result<Owned, LtError> {
    let compute = if shape.allows_tf32 { COMPUTE_TF32 } else { COMPUTE_F32 };
    let activation = match shape.activation {
        Activation::None => 0,
        Activation::Relu => RELU,
        Activation::GeluTanh => GELU,
    };
    let epilogue = activation | if shape.has_bias { BIAS } else { 0 };
    let epilogue = if epilogue == 0 { PLAIN } else { epilogue };
    let transposes = [(TRANSPOSE_A, shape.right.transposed), (TRANSPOSE_B, shape.left.transposed)];
    let mut handle = ptr::null_mut();
    // SAFETY: writes a handle; values of the types of the header.
    unsafe {
        functions.create_matmul(&mut handle, compute, functions::F32)?;
        let made = Owned { handle, functions, destroy: Functions::destroy_matmul };
        for (attribute, transposed) in transposes {
            set(&c_int::from(transposed), |value, bytes| functions.set_matmul(handle, attribute, value, bytes))?;
        }
        set(&epilogue, |value, bytes| functions.set_matmul(handle, EPILOGUE, value, bytes))?;
        Ok(made)
    }
}

/// Describes a matrix of ours of these sizes as one in columns.
unsafe fn operand(
    functions: Functions,
    dtype: c_int,
    batches: i64,
    operand: Operand,
    [rows, columns]: [i64; 2],
) -> Result<Owned, LtError> {
    let [height, width] = if operand.transposed { [rows, columns] } else { [columns, rows] };
    let mut handle = ptr::null_mut();
    // SAFETY: as above; sizes are positive.
    unsafe {
        functions.create_layout(&mut handle, dtype, height as u64, width as u64, operand.stride)?;
        let made = Owned { handle, functions, destroy: Functions::destroy_layout };
        if batches > 1 {
            set(&(batches as i32), |value, bytes| functions.set_layout(handle, BATCH_COUNT, value, bytes))?;
            set(&operand.batch, |value, bytes| functions.set_layout(handle, BATCH_STRIDE, value, bytes))?;
        }
        Ok(made)
    }
}

/// Says what is wanted of an algorithm.
unsafe fn preference(functions: Functions, shape: &Shape, most: usize) -> Result<Owned, LtError> {
    let mut handle = ptr::null_mut();
    // SAFETY: as above.
    unsafe {
        functions.create_preference(&mut handle)?;
        let made = Owned { handle, functions, destroy: Functions::destroy_preference };
        set(&most, |value, bytes| functions.set_preference(handle, MOST_WORKSPACE, value, bytes))?;
        set(&IN_COMPUTE_TYPE, |value, bytes| functions.set_preference(handle, REDUCTION_SCHEMES, value, bytes))?;
        for attribute in LEAST_ALIGNMENT {
            set(&(shape.alignment as u32), |value, bytes| functions.set_preference(handle, attribute, value, bytes))?;
        }
        Ok(made)
    }
}
