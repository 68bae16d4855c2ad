//! Implements the library's handle, its heuristics, and matmuls.
use crate::{
    compute::{Job, check, run},
    descriptions::{Layout, Matmul, Preference},
    status::{EXECUTION_FAILED, INVALID_VALUE, NOT_INITIALIZED, NOT_SUPPORTED},
};
use disc_fake_library::{Status, enqueue, library};
use std::{
    ffi::{c_int, c_void},
    hash::{DefaultHasher, Hash, Hasher},
    ptr,
};

/// Matmuls of sums that are as long work in memory of their own.
const LONG: usize = 64;
/// The bytes of that memory.
const WORKSPACE: usize = 64 << 10;

/// As the library's `cublasLtMatmulAlgo_t`: here the matmul that it is for, the alignment, and the
/// bytes of its workspace.
type Algorithm = [u64; 8];

/// As the library's `cublasLtMatmulHeuristicResult_t`.
#[repr(C)]
pub struct Found {
    algorithm: Algorithm,
    workspace: usize,
    state: Status,
    waves: f32,
    reserved: [c_int; 4],
}

/// Returns the version of the library.
#[unsafe(no_mangle)]
#[allow(non_snake_case, reason = "the library's function is called so")]
pub extern "C" fn cublasLtGetVersion() -> usize {
    130_100
}

/// Returns a number that differs for matmuls with other algorithms.
fn kind_of(matmul: &Matmul, layouts: &[Layout]) -> u64 {
    let mut hasher = DefaultHasher::new();
    format!("{:?} {layouts:?}", Matmul { bias: 0, ..matmul.clone() }).hash(&mut hasher);
    hasher.finish()
}

library! {
    fn cublasLtCreate(handle: *mut *mut c_void) {
        // SAFETY: the caller's memory.
        unsafe { *handle = ptr::without_provenance_mut(0x1000) };
        Ok(())
    }

    fn cublasLtMatmulAlgoGetHeuristic(_library: *mut c_void, matmul: *mut c_void, a: *mut c_void, b: *mut c_void,
        c: *mut c_void, d: *mut c_void, preference: *mut c_void, wanted: c_int, found: *mut Found, count: *mut c_int) {
        // SAFETY: live descriptions.
        let (matmul, preference) = unsafe { (&*matmul.cast::<Matmul>(), *preference.cast::<Preference>()) };
        // SAFETY: as above.
        let layouts = [a, b, c, d].map(|layout| unsafe { *layout.cast::<Layout>() });
        let sums = check(matmul, &layouts)?;
        let needed = if sums >= LONG { WORKSPACE } else { 0 };
        if wanted < 1 || needed > preference.workspace {
            return Err(NOT_SUPPORTED);
        }
        let mut algorithm = Algorithm::default();
        algorithm[..3].copy_from_slice(&[kind_of(matmul, &layouts), preference.alignment.into(), needed as u64]);
        // SAFETY: the caller's memory, for one answer at least.
        unsafe {
            *found = Found { algorithm, workspace: needed, state: 0, waves: 1.0, reserved: [0; 4] };
            *count = 1;
        }
        Ok(())
    }

    fn cublasLtMatmul(_library: *mut c_void, matmul: *mut c_void, alpha: *const c_void, a: *const c_void, a_layout: *mut c_void,
        b: *const c_void, b_layout: *mut c_void, beta: *const c_void, _c: *const c_void, c_layout: *mut c_void, d: *mut c_void,
        d_layout: *mut c_void, algorithm: *const Algorithm, workspace: *mut c_void, bytes: usize, stream: *mut c_void) {
        // SAFETY: live descriptions, and the caller's numbers.
        let (matmul, factors) = unsafe { ((*matmul.cast::<Matmul>()).clone(), [*alpha.cast::<f32>(), *beta.cast::<f32>()]) };
        // SAFETY: as above.
        let layouts = [a_layout, b_layout, c_layout, d_layout].map(|layout| unsafe { *layout.cast::<Layout>() });
        // SAFETY: the caller's algorithm.
        let [kind, alignment, needed, ..] = unsafe { *algorithm };
        let bias = if matmul.has_bias() { matmul.bias } else { 0 };
        let addresses = [a.addr() as u64, b.addr() as u64, d.addr() as u64, bias];
        let has_memory = needed == 0 || bytes as u64 >= needed && !workspace.is_null();
        let is_aligned = addresses.iter().all(|address| address % alignment.max(1) == 0);
        if factors != [1.0, 0.0] || kind != kind_of(&matmul, &layouts) || !has_memory || !is_aligned {
            return Err(INVALID_VALUE);
        }
        let sums = check(&matmul, &layouts)?;
        if matmul.has_bias() && bias == 0 {
            return Err(INVALID_VALUE);
        }
        let data = Box::into_raw(Box::new(Job { matmul, layouts, addresses, sums })).cast::<c_void>();
        // SAFETY: a job that nobody else has.
        unsafe { enqueue(stream, run, data) }.map_err(|has_driver| {
            // SAFETY: the driver does not run the function.
            drop(unsafe { Box::from_raw(data.cast::<Job>()) });
            if has_driver { EXECUTION_FAILED } else { NOT_INITIALIZED }
        })
    }
}
