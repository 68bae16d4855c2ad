//! Notices that a tensor has other memory or other values than it had: `TensorWatch`.
//!
//! Invariant: no reference is held. Who asks shows that the object is alive, and that it is the one
//! that was noted: what has its address and its memory, which compiled code holds, is a view of the
//! same elements.
use super::{
    place::Place,
    read::{self, Buffers, Extents, Unreadable},
    torch_functions::{TensorCell, TorchFunctions},
};
use pyo3::{ffi, intern, prelude::*};
use smallvec::SmallVec;

/// Elements that are compared, for writes that torch counts in no version: `weight.data.mul_()`, as
/// averages of weights are made, changes many elements of many weights.
const SAMPLES: usize = 4;

/// A tensor as it was: its version, its memory, and a few of its elements.
pub(crate) struct TensorWatch {
    object: usize,
    /// None for a tensor of inference mode.
    version: Option<i64>,
    address: usize,
    samples: SmallVec<[Sample; SAMPLES]>,
    /// Reads version and address without Python; None if torch's functions were not found.
    direct: Option<TensorCell>,
}

/// One element as it was.
struct Sample {
    address: usize,
    size: usize,
    bytes: u64,
}

impl TensorWatch {
    /// Notes a tensor. `compares` asks for elements too: of weights that were copied.
    pub(crate) fn new(object: &Bound<'_, PyAny>, compares: bool) -> PyResult<Self> {
        let version = object.getattr(intern!(object.py(), "_version")).ok().and_then(|v| v.extract().ok());
        let mut watch =
            Self { object: object.as_ptr().expose_provenance(), version, address: 0, samples: SmallVec::new(), direct: None };
        let (mut extents, mut buffers) = (Extents::new(), Buffers::new());
        let tensor = match read::any(object, &mut extents, &mut buffers) {
            Ok(tensor) => tensor,
            // Of one that compiled code reads in another form (complex numbers) there is nothing to
            // compare but the version.
            Err(Unreadable::Is(_)) => return Ok(watch),
            Err(Unreadable::Raised(error)) => return Err(error),
        };
        watch.address = tensor.data.addr();
        watch.direct = TorchFunctions::get().and_then(|torch| torch.cell(object));
        // Elements of a GPU are not the host's to read.
        let count = tensor.sizes(&extents).iter().product::<i64>();
        if compares && count > 0 && tensor.place == Place::Host {
            let (sizes, strides) = (tensor.sizes(&extents), tensor.strides(&extents));
            let size = tensor.dtype.size();
            for i in 0..SAMPLES as i64 {
                let place = offset(count * (2 * i + 1) / (2 * SAMPLES as i64), sizes, strides);
                let address = tensor.data.cast::<u8>().wrapping_offset(place as isize * size as isize).expose_provenance();
                let mut sample = Sample { address, size, bytes: 0 };
                // SAFETY: the element is one of a tensor that the caller keeps alive.
                sample.bytes = unsafe { sample.read() };
                watch.samples.push(sample);
            }
        }
        Ok(watch)
    }

    /// Begins to load what `is_unchanged` reads: after a call the weights of a large model are in
    /// no cache, and their loads do not wait for each other then.
    #[inline]
    pub(crate) fn prefetch(&self) {
        prefetch(self.object);
        if let Some(cell) = &self.direct {
            prefetch(cell.implementation());
        }
        self.samples.iter().for_each(|sample| prefetch(sample.address));
    }

    /// Returns the object that was noted, which may be gone.
    pub(crate) fn object_ptr(&self) -> *mut ffi::PyObject {
        std::ptr::with_exposed_provenance_mut(self.object)
    }

    /// Returns true if `object` is the one that was noted, and has the memory and the values that
    /// it had.
    #[inline]
    pub(crate) fn is_unchanged(&self, object: Borrowed<'_, '_, PyAny>) -> PyResult<bool> {
        if object.as_ptr().addr() != self.object {
            return Ok(false);
        }
        let is_same = match &self.direct {
            // SAFETY: a live tensor at the address for which the cell was made.
            Some(cell) => unsafe { cell.is_unchanged(self.address, self.version) },
            None => self.is_unchanged_in_python(&object)?,
        };
        // SAFETY: the tensor is alive and has the memory that it had, so the elements are there.
        Ok(is_same && self.samples.iter().all(|sample| unsafe { sample.read() } == sample.bytes))
    }

    #[cold]
    fn is_unchanged_in_python(&self, object: &Bound<'_, PyAny>) -> PyResult<bool> {
        if let Some(version) = self.version
            && object.getattr(intern!(object.py(), "_version"))?.extract::<i64>()? != version
        {
            return Ok(false);
        }
        let (mut extents, mut buffers) = (Extents::new(), Buffers::new());
        match read::any(object, &mut extents, &mut buffers) {
            Ok(tensor) => Ok(tensor.data.addr() == self.address),
            Err(Unreadable::Is(_)) => Ok(self.address == 0),
            Err(Unreadable::Raised(error)) => Err(error),
        }
    }
}

impl Sample {
    /// # Safety
    /// The element is still there; none has more than 8 bytes.
    #[inline]
    unsafe fn read(&self) -> u64 {
        let element = std::ptr::with_exposed_provenance::<u8>(self.address);
        // SAFETY: the caller's promise. Elements of 2, 4 and 8 bytes are aligned to their size.
        unsafe {
            match self.size {
                4 => u64::from(element.cast::<u32>().read_unaligned()),
                2 => u64::from(element.cast::<u16>().read_unaligned()),
                8 => element.cast::<u64>().read_unaligned(),
                _ => u64::from(element.read()),
            }
        }
    }
}

/// Begins to load the line of memory at an address, whatever is there.
#[inline]
fn prefetch(address: usize) {
    #[cfg(target_arch = "x86_64")]
    // SAFETY: a prefetch reads nothing that the program sees, and no address makes it fault.
    unsafe {
        std::arch::x86_64::_mm_prefetch::<{ std::arch::x86_64::_MM_HINT_T0 }>(std::ptr::with_exposed_provenance(address));
    }
    #[cfg(not(target_arch = "x86_64"))]
    let _ = address;
}

/// Returns the place in memory of the element with a number in row-major order.
fn offset(mut number: i64, sizes: &[i64], strides: &[i64]) -> i64 {
    let mut place = 0;
    for (&size, &stride) in sizes.iter().zip(strides).rev() {
        place += number % size * stride;
        number /= size;
    }
    place
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn elements_are_found_by_strides() {
        assert_eq!(offset(4, &[2, 3], &[3, 1]), 4);
        assert_eq!(offset(4, &[2, 3], &[1, 2]), 3);
        assert_eq!(offset(5, &[2, 3], &[8, 2]), 12);
        assert_eq!(offset(0, &[], &[]), 0);
    }
}
