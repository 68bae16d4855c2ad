//! Holds a tensor for longer than a call: a weight, or a constant while it is copied.
use super::{
    kind::{Kind, with_kind},
    place::Place,
    read::{self, Buffers, Extents, Tensor},
};
use crate::errors::Failure;
use disc_ral::DType;
use pyo3::{intern, prelude::*};
use std::slice;

/// A tensor whose memory stays valid while this lives.
pub(crate) struct Held {
    tensor: Tensor,
    extents: Extents,
    _buffers: Buffers,
    _owner: Py<PyAny>,
}

// SAFETY: the address is of memory that is only read; the other parts may be shared.
unsafe impl Send for Held {}
// SAFETY: as above.
unsafe impl Sync for Held {}

impl Held {
    pub(crate) fn data(&self) -> *const u8 {
        self.tensor.data.cast()
    }

    pub(crate) fn dtype(&self) -> DType {
        self.tensor.dtype
    }

    pub(crate) fn sizes(&self) -> &[i64] {
        self.tensor.sizes(&self.extents)
    }

    /// Returns true if the elements are row-major without gaps.
    pub(super) fn is_contiguous(&self) -> bool {
        self.tensor.is_contiguous(&self.extents)
    }

    pub(super) fn place(&self) -> Place {
        self.tensor.place
    }

    /// Returns the elements in row-major order, of a tensor in memory of the host.
    pub(crate) fn elements(&self) -> Vec<u8> {
        let (sizes, strides, size) = (self.sizes(), self.tensor.strides(&self.extents), self.dtype().size());
        let count = sizes.iter().product::<i64>().max(0) as usize;
        let mut bytes = Vec::with_capacity(count * size);
        let mut index = vec![0_i64; sizes.len()];
        for _ in 0..count {
            let offset: i64 = index.iter().zip(strides).map(|(i, stride)| i * stride).sum();
            // SAFETY: sizes and strides describe memory that is held, and the index is in range.
            bytes.extend_from_slice(unsafe { slice::from_raw_parts(self.data().offset(offset as isize * size as isize), size) });
            for axis in (0..index.len()).rev() {
                index[axis] += 1;
                if index[axis] < sizes[axis] {
                    break;
                }
                index[axis] = 0;
            }
        }
        bytes
    }
}

/// Holds the memory of a tensor or array in memory of the host: one that is elsewhere is copied
/// there. `what` names it in messages.
pub(crate) fn hold(object: &Bound<'_, PyAny>, what: impl Fn() -> String) -> PyResult<Held> {
    let held = hold_there(object, &what)?;
    match held.place() {
        Place::Host => Ok(held),
        Place::Cuda(_) if with_kind(object, Kind::is_torch)? => {
            hold_there(&object.call_method0(intern!(object.py(), "cpu"))?, &what)
        }
        place => Err(Failure::argument(format!("{} is on {place}, expected an array in memory of the host", what())).into()),
    }
}

/// Holds the memory of a tensor or array where it is.
pub(super) fn hold_there(object: &Bound<'_, PyAny>, what: impl Fn() -> String) -> PyResult<Held> {
    let py = object.py();
    let is_torch = with_kind(object, Kind::is_torch)?;
    // An alias with a storage of its own: `parameter.data = other` does not change it.
    let owner = if is_torch { object.call_method0(intern!(py, "detach"))? } else { object.clone() };
    let (mut extents, mut buffers) = (Extents::new(), Buffers::new());
    match read::any(&owner, &mut extents, &mut buffers) {
        Ok(tensor) => Ok(Held { tensor, extents, _buffers: buffers, _owner: owner.unbind() }),
        Err(unreadable) => Err(Failure::argument(format!("{} {}", what(), unreadable.describe(py))).into()),
    }
}
