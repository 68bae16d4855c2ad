//! Reads one Python tensor without a copy: address, element type, sizes and strides.
//!
//! Invariant: the result describes memory of the host or of a GPU that stays valid as long as the
//! object is neither changed nor freed; objects that have none (conjugated or negated views,
//! sparse, quantized or fake tensors) are refused.
use super::{
    attributes,
    buffer::Buffer,
    dlpack::{self, DLTensor, Exchange, Unversioned},
    kind::{Kind, with_kind},
    place::Place,
    torch_flags::TorchFlags,
};
use disc_ral::{DType, bytes_of};
use pyo3::{
    intern,
    prelude::*,
    types::{PyCapsule, PyCapsuleMethods, PyDict},
};
use smallvec::{Array, SmallVec};
use std::{ffi::c_void, slice};

/// No memory of the host begins below it: the system leaves these pages out, so that a read through
/// a null address fails.
const LEAST_ADDRESS: usize = 1 << 16;
/// DLPack's number of CUDA's legacy default stream.
const LEGACY_STREAM: i32 = 1;

/// Sizes and strides of the tensors of a call, one after another.
pub(super) type Extents = SmallVec<[i64; 32]>;
/// The memory that the inputs of a call lend.
#[derive(Default)]
pub(super) struct Buffers {
    buffers: SmallVec<[Buffer; 2]>,
    /// Capsules of DLPack.
    capsules: SmallVec<[Py<PyAny>; 2]>,
}

impl Buffers {
    pub(super) fn new() -> Self {
        Self::default()
    }
}

/// A tensor without its sizes and strides, which are in [`Extents`]: first the sizes, then the
/// strides, in elements.
#[derive(Clone, Copy)]
pub(super) struct Tensor {
    pub(super) data: *mut c_void,
    pub(super) dtype: DType,
    pub(super) rank: usize,
    /// Start of its sizes.
    pub(super) start: usize,
    pub(super) is_read_only: bool,
    pub(super) place: Place,
}

impl Tensor {
    /// Returns true if the elements are row-major without gaps.
    pub(super) fn is_contiguous(&self, extents: &Extents) -> bool {
        let sizes = self.sizes(extents);
        let mut expected = 1;
        sizes.contains(&0)
            || sizes.iter().zip(self.strides(extents)).rev().all(|(&size, &stride)| {
                let fits = size == 1 || stride == expected;
                expected *= size;
                fits
            })
    }

    pub(super) fn sizes<'e>(&self, extents: &'e Extents) -> &'e [i64] {
        &extents[self.start..self.start + self.rank]
    }

    pub(super) fn strides<'e>(&self, extents: &'e Extents) -> &'e [i64] {
        &extents[self.start + self.rank..self.start + 2 * self.rank]
    }
}

/// The reason why an object cannot be read.
pub(super) enum Unreadable {
    /// Its kind, as the end of a sentence: "a number".
    Is(String),
    Raised(PyErr),
}

impl From<PyErr> for Unreadable {
    fn from(error: PyErr) -> Self {
        Unreadable::Raised(error)
    }
}

impl Unreadable {
    /// Returns the end of a sentence about the object.
    pub(super) fn describe(self, py: Python<'_>) -> String {
        match self {
            Unreadable::Is(what) => format!("is {what}"),
            Unreadable::Raised(error) => {
                // torch appends a trace of its own code.
                let text = error.value(py).to_string();
                format!("cannot be read: {}", text.lines().next().unwrap_or_default())
            }
        }
    }
}

/// Reads a tensor or array; a buffer that it lends is kept in `buffers`.
#[inline]
pub(super) fn tensor(
    object: &Bound<'_, PyAny>,
    kind: &Kind,
    extents: &mut Extents,
    buffers: &mut Buffers,
) -> Result<Tensor, Unreadable> {
    match kind {
        Kind::Exchange { api, is_torch } => exchanged(object, api, *is_torch, extents),
        Kind::Attributes => attributes::tensor(object, extents),
        Kind::Rejected(what) => Err(Unreadable::Is(what.clone())),
        Kind::Bool | Kind::Int | Kind::Float => Err(Unreadable::Is("a number".into())),
        Kind::Buffer => {
            let buffer = Buffer::of(object).map_err(|_| Unreadable::Is(crate::describe(object)))?;
            let tensor = buffered(&buffer, extents)?;
            buffers.buffers.push(buffer);
            Ok(tensor)
        }
        Kind::Capsules => lent(object, extents, buffers),
    }
}

/// Like [`tensor`], with the kind looked up.
pub(super) fn any(object: &Bound<'_, PyAny>, extents: &mut Extents, buffers: &mut Buffers) -> Result<Tensor, Unreadable> {
    with_kind(object, |kind| tensor(object, kind, extents, buffers))?
}

fn exchanged(object: &Bound<'_, PyAny>, api: &Exchange, is_torch: bool, extents: &mut Extents) -> Result<Tensor, Unreadable> {
    let mut view = std::mem::MaybeUninit::<DLTensor>::zeroed();
    let read = api.view.expect("checked when the type was met");
    // SAFETY: an object of the type that the interface belongs to, and memory for a view.
    if unsafe { read(object.as_ptr(), view.as_mut_ptr()) } != 0 {
        return Err(PyErr::fetch(object.py()).into());
    }
    // SAFETY: all zero is a valid view, and the call above succeeded.
    let view = unsafe { view.assume_init() };
    let tensor = described(&view, extents)?;
    let is_negated = is_torch && may_be_negated(&extents[tensor.start..], tensor.rank) && TorchFlags::is_negated(object)?;
    match is_negated {
        true => Err(Unreadable::Is("a negated view (torch.Tensor.is_neg); `resolve_neg()` makes it a plain tensor".into())),
        false => Ok(tensor),
    }
}

/// Reads a tensor that lends its memory in a capsule of DLPack, which is kept in `buffers`.
fn lent(object: &Bound<'_, PyAny>, extents: &mut Extents, buffers: &mut Buffers) -> Result<Tensor, Unreadable> {
    let py = object.py();
    let (device_type, _) = object.call_method0(intern!(py, "__dlpack_device__"))?.extract::<(i32, i32)>()?;
    if dlpack::place_of(device_type, 0) == Some(Place::Host)
        && let Ok(buffer) = Buffer::of(object)
    {
        // It says whether the memory may be written to.
        let tensor = buffered(&buffer, extents)?;
        buffers.buffers.push(buffer);
        return Ok(tensor);
    }
    // The default stream of CUDA, which calls on such tensors run in.
    let stream = (device_type == dlpack::CUDA).then_some(LEGACY_STREAM);
    let options = PyDict::new(py);
    options.set_item(intern!(py, "stream"), stream)?;
    let capsule = object.call_method(intern!(py, "__dlpack__"), (), Some(&options))?;
    let managed = capsule.cast::<PyCapsule>().ok().and_then(|capsule| capsule.pointer_checked(Some(c"dltensor")).ok());
    let Some(managed) = managed else {
        return Err(Unreadable::Is(format!("{}, whose __dlpack__ gives no tensor", crate::describe(object))));
    };
    // SAFETY: DLPack's contract for a capsule of this name; it is kept as long as the tensor is.
    let tensor = described(unsafe { &managed.cast::<Unversioned>().as_ref().tensor }, extents)?;
    buffers.capsules.push(capsule.unbind());
    Ok(tensor)
}

/// Reads a description of DLPack.
fn described(view: &DLTensor, extents: &mut Extents) -> Result<Tensor, Unreadable> {
    let Some(dtype) = dlpack::dtype_of(view.dtype) else {
        let dtype = dlpack::describe(view.dtype);
        return Err(Unreadable::Is(format!("a tensor of an element type without support: {dtype}")));
    };
    let Some(place) = dlpack::place_of(view.device_type, view.device_id) else {
        return Err(Unreadable::Is(format!("a tensor on a device of DLPack's kind {}, which has no support", view.device_type)));
    };
    let (start, rank) = (extents.len(), usize::try_from(view.rank).unwrap_or(0));
    if rank > 0 {
        // SAFETY: DLPack's contract: arrays of `rank` values, valid until the object changes.
        unsafe { extents.extend_from_slice(slice::from_raw_parts(view.sizes, rank)) };
        if view.strides.is_null() {
            push_contiguous(extents, start, rank);
        } else {
            // SAFETY: as above.
            unsafe { extents.extend_from_slice(slice::from_raw_parts(view.strides, rank)) };
        }
    }
    let data = view.data.wrapping_byte_add(view.byte_offset as usize);
    let tensor = Tensor { data, dtype, rank, start, is_read_only: false, place };
    has_memory(&tensor, extents)?;
    Ok(tensor)
}

/// Returns true if a tensor may be a negated view. A view such as `x.conj().imag` has its sign in a
/// flag that DLPack does not carry, and asking for it costs as much as reading a tensor. It is half
/// of a complex tensor, so its elements are strided: a dense tensor of several elements has the
/// flag only if `as_strided` made it.
fn may_be_negated(extents: &[i64], rank: usize) -> bool {
    let (sizes, strides) = extents.split_at(rank);
    let mut expected = 1;
    let is_dense = sizes.iter().zip(strides).rev().all(|(&size, &stride)| {
        let fits = stride == expected;
        expected = size.wrapping_mul(expected);
        fits
    });
    !is_dense || expected == 1
}

/// Refuses functional, fake and zero tensors of torch, and those whose memory was freed: they have
/// sizes, and an address that is null or, of a view, near it.
pub(super) fn has_memory(tensor: &Tensor, extents: &Extents) -> Result<(), Unreadable> {
    let least = if tensor.place == Place::Host { LEAST_ADDRESS } else { 1 };
    if tensor.data.addr() < least && bytes_of(tensor.dtype, tensor.sizes(extents)) != Some(0) {
        return Err(Unreadable::Is("a tensor without memory of its own".into()));
    }
    Ok(())
}

fn buffered(buffer: &Buffer, extents: &mut Extents) -> Result<Tensor, Unreadable> {
    let Some(dtype) = buffer.dtype() else {
        let format = String::from_utf8_lossy(buffer.format()).into_owned();
        return Err(Unreadable::Is(format!("an array of element type {format:?}, which has no support")));
    };
    let (start, sizes, item) = (extents.len(), buffer.sizes(), buffer.item_size() as isize);
    extents.extend(sizes.iter().map(|&size| size as i64));
    let strides = buffer.strides();
    if strides.len() != sizes.len() || sizes.contains(&0) {
        push_contiguous(extents, start, sizes.len());
    } else if strides.iter().all(|stride| stride % item == 0) {
        extents.extend(strides.iter().map(|&stride| (stride / item) as i64));
    } else {
        return Err(Unreadable::Is(format!("an array with strides of {strides:?} bytes for elements of {item}")));
    }
    Ok(Tensor { data: buffer.data(), dtype, rank: sizes.len(), start, is_read_only: buffer.is_read_only(), place: Place::Host })
}

/// Appends the strides of a contiguous tensor with the sizes at `start`.
pub(super) fn push_contiguous<A: Array<Item = i64>>(extents: &mut SmallVec<A>, start: usize, rank: usize) {
    extents.resize(start + 2 * rank, 1);
    for axis in (start..(start + rank).saturating_sub(1)).rev() {
        extents[axis + rank] = extents[axis + rank + 1].saturating_mul(extents[axis + 1].max(1));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn dense_tensors_of_several_elements_are_not_negated() {
        assert!(!may_be_negated(&[2, 3, 3, 1], 2));
        assert!(!may_be_negated(&[0, 3, 3, 1], 2));
        for extents in [&[][..], &[1, 1], &[1, 2], &[3, 2], &[2, 1, 2, 1], &[2, 3, 1, 2], &[2, 3, 0, 1]] {
            assert!(may_be_negated(extents, extents.len() / 2), "{extents:?}");
        }
    }

    #[test]
    fn contiguous_strides_are_products_of_the_sizes_after() {
        for (sizes, strides) in [(&[][..], &[][..]), (&[5], &[1]), (&[2, 3, 4], &[12, 4, 1]), (&[2, 0, 4], &[4, 4, 1])] {
            let mut extents = Extents::from_slice(&[9, 9]);
            extents.extend_from_slice(sizes);
            push_contiguous(&mut extents, 2, sizes.len());
            assert_eq!(&extents[2 + sizes.len()..], strides);
        }
    }
}
