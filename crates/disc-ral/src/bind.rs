//! Fills the descriptors of a call from the caller's tensors, and checks everything that the
//! runtime guarantees to an entry.
//!
//! Sizes are not checked against dims and facts here: the entry does that, and its message names
//! both.

use crate::{
    error::{Error, code},
    meta::{EntryMeta, InputMeta, OutputMeta},
    session_state::Descriptors,
    tensor::{TensorRef, bytes_of, is_contiguous},
};
use disc_abi::{DEVICE_CPU, FLAG_READ_ONLY, Tensor};
use smallvec::SmallVec;
use std::ptr;

/// Fills the descriptors for a call of `entry`; the inputs' sizes and strides are borrowed until
/// the call ends.
pub(crate) fn bind(descriptors: &mut Descriptors, entry: &EntryMeta, inputs: &[TensorRef<'_>], device: u8) -> Result<(), Error> {
    descriptors.clear();
    if inputs.len() != entry.inputs.len() {
        let (expected, came) = (entry.inputs.len(), inputs.len());
        let message = format!("`{}` expects {expected} inputs ({}), {came} came", entry.name, names(&entry.inputs));
        return Err(Error::new(code::BAD_INPUT, &entry.name, message));
    }
    for (index, (meta, input)) in entry.inputs.iter().zip(inputs).enumerate() {
        descriptors.inputs.push(bind_input(index, meta, input, device)?);
    }
    check_overlaps(entry, inputs)?;
    bind_outputs(descriptors, &entry.outputs, device);
    Ok(())
}

/// Refuses inputs that share memory with one that the entry writes to: code reads an input without
/// asking which other one was written meanwhile.
///
/// # Errors
/// The first two inputs that overlap.
pub fn check_overlaps(entry: &EntryMeta, inputs: &[TensorRef<'_>]) -> Result<(), Error> {
    if !entry.inputs.iter().any(|meta| meta.written) {
        return Ok(());
    }
    // In the order of their addresses: an optimizer writes hundreds of inputs.
    let at = |(index, input): (usize, &TensorRef<'_>)| input.addresses().map(|at| (at.start, at.end, index));
    let mut ranges: SmallVec<[(i128, i128, usize); 16]> =
        inputs.iter().take(entry.inputs.len()).enumerate().filter_map(at).collect();
    ranges.sort_unstable();
    // Of those before, the ones that reach furthest: of all, and of those that are written.
    let (mut any, mut written) = (None, None);
    for (start, end, index) in ranges {
        let is_written = entry.inputs[index].written;
        let before = if is_written { any } else { written };
        if let Some((_, other)) = before.filter(|&(reaches, _)| start < reaches) {
            let (index, other) = if is_written { (index, other) } else { (other, index) };
            return Err(shared(entry, index, other));
        }
        any = any.max(Some((end, index)));
        if is_written {
            written = written.max(Some((end, index)));
        }
    }
    Ok(())
}

fn shared(entry: &EntryMeta, written: usize, other: usize) -> Error {
    let (name, second) = (&entry.inputs[written].name, &entry.inputs[other].name);
    let message =
        format!("input {written} (`{name}`) is written by the model, and shares memory with input {other} (`{second}`)");
    Error::new(code::BAD_INPUT, name, message)
}

fn names(inputs: &[InputMeta]) -> String {
    inputs.iter().map(|input| input.name.as_str()).collect::<Vec<_>>().join(", ")
}

fn bind_input(index: usize, meta: &InputMeta, input: &TensorRef<'_>, device: u8) -> Result<Tensor, Error> {
    let error = |code, message: String| Error {
        dims: meta.dims.clone(),
        values: input.sizes().to_vec(),
        ..Error::new(code, &meta.name, format!("input {index} (`{}`) {message}", meta.name))
    };
    if input.dtype() != meta.dtype {
        return Err(error(code::BAD_INPUT, format!("must have dtype {}, not {}", meta.dtype, input.dtype())));
    }
    let (sizes, rank) = (input.sizes(), meta.dims.len());
    if sizes.len() != rank {
        let dims = meta.dims.join(", ");
        return Err(error(code::BAD_INPUT, format!("must have rank {rank} [{dims}], not rank {} {sizes:?}", sizes.len())));
    }
    let expected = if meta.host { DEVICE_CPU } else { device };
    if input.device() != expected {
        return Err(error(code::BAD_INPUT, format!("must be on device kind {expected}, not {}", input.device())));
    }
    if meta.written && input.is_read_only() {
        return Err(error(code::BAD_INPUT, "is written by the model, but its memory is read-only".into()));
    }
    let strides = check_memory(meta, input).map_err(|message| error(code::BAD_INPUT, message))?;
    Ok(Tensor {
        data: input.data(),
        sizes: sizes.as_ptr(),
        strides,
        rank: rank as u32,
        dtype: meta.dtype.code(),
        device: input.device(),
        flags: if input.is_read_only() { FLAG_READ_ONLY } else { 0 },
    })
}

/// Returns the strides for the descriptor, or a message that says why the memory is unusable.
fn check_memory(meta: &InputMeta, input: &TensorRef<'_>) -> Result<*const i64, String> {
    let sizes = input.sizes();
    let Some(bytes) = bytes_of(meta.dtype, sizes) else {
        return Err(format!("has sizes {sizes:?}, which are negative or do not fit into memory"));
    };
    if bytes > 0 && input.data().is_null() {
        return Err(format!("has no memory for its sizes {sizes:?}"));
    }
    if bytes > 0 && !input.data().addr().is_multiple_of(meta.dtype.size()) {
        return Err(format!("is not aligned to its element size of {} bytes", meta.dtype.size()));
    }
    match input.given_strides() {
        None => Ok(ptr::null()),
        Some(strides) if strides.len() != sizes.len() => Err(format!("has {} strides for {} sizes", strides.len(), sizes.len())),
        Some(strides) if is_contiguous(sizes, strides) => Ok(ptr::null()),
        Some(strides) if reaches_too_far(meta, sizes, strides) => {
            Err(format!("has strides {strides:?} beyond the address space"))
        }
        Some(strides) => Ok(strides.as_ptr()),
    }
}

/// Returns true if the distance of an element in bytes does not fit in 63 bits.
fn reaches_too_far(meta: &InputMeta, sizes: &[i64], strides: &[i64]) -> bool {
    let step = |(&size, &stride): (&i64, &i64)| (size - 1).checked_mul(stride)?.checked_abs();
    let reach = sizes.iter().zip(strides).map(step).try_fold(1_i64, |sum, step| sum.checked_add(step?));
    reach.and_then(|reach| reach.checked_mul(meta.dtype.size() as i64)).is_none()
}

fn bind_outputs(descriptors: &mut Descriptors, outputs: &[OutputMeta], device: u8) {
    let Descriptors { outputs: bound, sizes, .. } = descriptors;
    sizes.resize(outputs.iter().map(|output| output.dims.len()).sum(), 0);
    // One pointer for all, taken after the last change of the vector's length.
    let base = sizes.as_mut_ptr();
    let mut before = 0;
    for meta in outputs {
        bound.push(Tensor {
            data: ptr::null_mut(),
            sizes: base.wrapping_add(before),
            strides: ptr::null(),
            rank: meta.dims.len() as u32,
            dtype: meta.dtype.code(),
            device: if meta.host { DEVICE_CPU } else { device },
            flags: 0,
        });
        before += meta.dims.len();
    }
}
