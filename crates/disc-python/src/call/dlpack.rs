//! Declares DLPack 1.3: the structs of its C interface, and its element types.
//!
//! Layouts are those of the stable header; see <https://dmlc.github.io/dlpack/latest/c_api.html>.
use super::place::Place;
use disc_ral::DType;
use pyo3::ffi::PyObject;
use std::ffi::{c_int, c_void};

/// `kDLCPU`.
pub(super) const CPU: i32 = 1;
/// `kDLCUDA`.
pub(super) const CUDA: i32 = 2;
/// `kDLCUDAHost`: page-locked memory of the host.
const CUDA_HOST: i32 = 3;
/// `kDLCUDAManaged`: memory that the driver moves to who reads it.
const CUDA_MANAGED: i32 = 13;

/// The major version that the structs have.
pub(super) const MAJOR: u32 = 1;

#[repr(C)]
#[derive(Clone, Copy)]
pub(super) struct Version {
    pub(super) major: u32,
    pub(super) minor: u32,
}

#[repr(C)]
#[derive(Clone, Copy)]
pub(super) struct DataType {
    pub(super) code: u8,
    pub(super) bits: u8,
    pub(super) lanes: u16,
}

#[repr(C)]
#[derive(Clone, Copy)]
pub(super) struct DLTensor {
    pub(super) data: *mut c_void,
    pub(super) device_type: i32,
    pub(super) device_id: i32,
    pub(super) rank: i32,
    pub(super) dtype: DataType,
    pub(super) sizes: *mut i64,
    pub(super) strides: *mut i64,
    pub(super) byte_offset: u64,
}

/// A tensor with its owner; `deleter` may be called on any thread, with or without Python's lock.
#[repr(C)]
pub(super) struct Managed {
    pub(super) version: Version,
    pub(super) context: *mut c_void,
    pub(super) deleter: Option<unsafe extern "C" fn(*mut Managed)>,
    pub(super) flags: u64,
    pub(super) tensor: DLTensor,
}

/// Like [`Managed`], of the unversioned interface that capsules named `dltensor` hold.
#[repr(C)]
pub(super) struct Unversioned {
    pub(super) tensor: DLTensor,
    pub(super) context: *mut c_void,
    pub(super) deleter: Option<unsafe extern "C" fn(*mut Unversioned)>,
}

/// The target of a tensor type's `__dlpack_c_exchange_api__`.
#[repr(C)]
pub(super) struct Exchange {
    pub(super) version: Version,
    pub(super) previous: *const Exchange,
    allocate: *const c_void,
    managed_from_python: *const c_void,
    /// Steals the tensor, also on failure.
    pub(super) managed_to_python: Option<unsafe extern "C" fn(*mut Managed, *mut *mut PyObject) -> c_int>,
    /// Fills a view that is valid as long as the object is neither changed nor freed.
    pub(super) view: Option<unsafe extern "C" fn(*mut PyObject, *mut DLTensor) -> c_int>,
}

// SAFETY: a constant table of functions.
unsafe impl Sync for Exchange {}
// SAFETY: as above.
unsafe impl Send for Exchange {}

/// Returns the place of a tensor on a device, if calls can read it there.
pub(super) fn place_of(device_type: i32, ordinal: i32) -> Option<Place> {
    match device_type {
        CPU | CUDA_HOST => Some(Place::Host),
        CUDA | CUDA_MANAGED => Some(Place::Cuda(ordinal)),
        _ => None,
    }
}

/// Returns our element type, if there is one.
pub(super) fn dtype_of(dtype: DataType) -> Option<DType> {
    Some(match (dtype.code, dtype.bits, dtype.lanes) {
        (0, 8, 1) => DType::I8,
        (0, 16, 1) => DType::I16,
        (0, 32, 1) => DType::I32,
        (0, 64, 1) => DType::I64,
        (1, 8, 1) => DType::U8,
        (1, 16, 1) => DType::U16,
        (1, 32, 1) => DType::U32,
        (1, 64, 1) => DType::U64,
        (2, 16, 1) => DType::F16,
        (2, 32, 1) => DType::F32,
        (2, 64, 1) => DType::F64,
        (4, 16, 1) => DType::BF16,
        (6, 8, 1) => DType::I1,
        _ => return None,
    })
}

/// DLPack's name of an element type.
pub(super) fn data_type(dtype: DType) -> DataType {
    let code = match dtype {
        DType::I8 | DType::I16 | DType::I32 | DType::I64 => 0,
        DType::U8 | DType::U16 | DType::U32 | DType::U64 => 1,
        DType::F16 | DType::F32 | DType::F64 => 2,
        DType::BF16 => 4,
        DType::I1 => 6,
    };
    DataType { code, bits: 8 * dtype.size() as u8, lanes: 1 }
}

/// Describes a type that we do not have, in messages.
pub(super) fn describe(dtype: DataType) -> String {
    let name = match dtype.code {
        0 => "signed integer",
        1 => "unsigned integer",
        2 => "float",
        5 => "complex",
        7..=17 => "narrow float",
        _ => "unknown",
    };
    let lanes = if dtype.lanes == 1 { String::new() } else { format!(" with {} lanes", dtype.lanes) };
    format!("{name} of {} bits{lanes}", dtype.bits)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn element_types_go_both_ways() {
        for dtype in DType::ALL {
            assert_eq!(dtype_of(data_type(dtype)), Some(dtype));
        }
        assert_eq!(dtype_of(DataType { code: 5, bits: 64, lanes: 1 }), None);
    }

    #[test]
    fn layouts_are_those_of_the_header() {
        assert_eq!(size_of::<DLTensor>(), 48);
        assert_eq!(size_of::<Managed>(), 80);
        assert_eq!(size_of::<Unversioned>(), 64);
        assert_eq!(std::mem::offset_of!(Exchange, view), 40);
    }
}
