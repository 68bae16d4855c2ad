//! Notices that weights were changed since they were prepared: `Watch`.
use super::{
    place::Place,
    read::{self, Buffers, Extents, Unreadable},
};
use crate::errors::guarded;
use pyo3::{intern, prelude::*, types::PyTuple};

/// Elements of each weight that are compared, for writes that torch counts in no version:
/// `weight.data.mul_()`, as averages of weights are made, changes many elements of many weights.
const SAMPLES: usize = 4;

/// Some arguments of a call, as they were: which objects, their versions, their memory, and a few
/// of their elements.
#[pyclass(name = "Watch", module = "disc._disc", frozen)]
pub(crate) struct PyWatch {
    weights: Vec<Weight>,
}

struct Weight {
    /// The position among the arguments.
    position: usize,
    /// The address of the object, which may be gone: what has its address and its memory, which the
    /// compiled code holds, is a view of the same elements.
    object: usize,
    /// None for a tensor of inference mode.
    version: Option<i64>,
    seen: Seen,
}

/// The memory of a tensor, and the bytes of a few elements.
#[derive(PartialEq, Eq, Clone, Copy, Default)]
struct Seen {
    address: usize,
    samples: [u64; SAMPLES],
}

#[pymethods]
impl PyWatch {
    /// Notes the arguments at `positions`.
    #[new]
    fn new(arguments: &Bound<'_, PyTuple>, positions: Vec<usize>) -> PyResult<Self> {
        guarded(|| {
            let weight = |position: usize| {
                let object = arguments.get_item(position)?;
                let version = object.getattr(intern!(object.py(), "_version")).ok().and_then(|v| v.extract().ok());
                Ok(Weight { position, version, seen: seen(&object)?, object: object.as_ptr().addr() })
            };
            Ok(Self { weights: positions.into_iter().map(weight).collect::<PyResult<_>>()? })
        })
    }

    /// Returns true if the arguments are the same objects and hold what they held.
    fn are_unchanged(&self, arguments: &Bound<'_, PyTuple>) -> PyResult<bool> {
        guarded(|| {
            for weight in &self.weights {
                let object = arguments.get_borrowed_item(weight.position)?;
                if object.as_ptr().addr() != weight.object || !weight.is_unchanged(&object)? {
                    return Ok(false);
                }
            }
            Ok(true)
        })
    }
}

impl Weight {
    fn is_unchanged(&self, object: &Bound<'_, PyAny>) -> PyResult<bool> {
        if let Some(version) = self.version
            && object.getattr(intern!(object.py(), "_version"))?.extract::<i64>()? != version
        {
            return Ok(false);
        }
        Ok(seen(object)? == self.seen)
    }
}

/// Reads a tensor. Of one that compiled code reads in another form (complex numbers) there is
/// nothing to compare but the version.
fn seen(object: &Bound<'_, PyAny>) -> PyResult<Seen> {
    let (mut extents, mut buffers) = (Extents::new(), Buffers::new());
    let tensor = match read::any(object, &mut extents, &mut buffers) {
        Ok(tensor) => tensor,
        Err(Unreadable::Is(_)) => return Ok(Seen::default()),
        Err(Unreadable::Raised(error)) => return Err(error),
    };
    let (sizes, strides) = (tensor.sizes(&extents), tensor.strides(&extents));
    let count = sizes.iter().product::<i64>();
    let mut samples = [0; SAMPLES];
    // Elements of a GPU are not the host's to read.
    let is_read = count > 0 && tensor.place == Place::Host;
    for (i, sample) in samples.iter_mut().enumerate().filter(|_| is_read) {
        let place = offset(count * (2 * i as i64 + 1) / (2 * SAMPLES as i64), sizes, strides);
        let size = tensor.dtype.size();
        let mut bytes = [0; 8];
        // SAFETY: the element is one of a tensor that the argument keeps alive; none has more than
        // 8 bytes.
        unsafe {
            let element = tensor.data.cast::<u8>().offset(place as isize * size as isize);
            std::ptr::copy_nonoverlapping(element, bytes.as_mut_ptr(), size.min(8));
        }
        *sample = u64::from_le_bytes(bytes);
    }
    Ok(Seen { address: tensor.data.addr(), samples })
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
