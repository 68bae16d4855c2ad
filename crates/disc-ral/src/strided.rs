//! Copies strided tensors to contiguous memory, for code that reads only contiguous ones.

use crate::{
    bind::check_overlaps,
    error::{Error, code},
    host::HostTensor,
    meta::{EntryMeta, InputMeta},
    tensor::TensorRef,
};
use disc_abi::DEVICE_CPU;

/// Runs `call` with contiguous inputs: those that are strided are copied first.
///
/// # Errors
/// A strided input that the entry writes to, no memory, and the errors of `call`.
pub fn with_contiguous<R, E: From<Error>>(
    entry: &EntryMeta,
    inputs: &[TensorRef<'_>],
    call: impl FnOnce(&[TensorRef<'_>]) -> Result<R, E>,
) -> Result<R, E> {
    // A call refuses inputs of another number or kind; nothing of them is read before.
    let fits = |(input, meta): (&TensorRef<'_>, &InputMeta)| {
        (input.dtype(), input.sizes().len()) == (meta.dtype, meta.dims.len())
            && (!input.data().is_null() || input.sizes().contains(&0))
    };
    let fit = inputs.len() == entry.inputs.len() && inputs.iter().zip(&entry.inputs).all(fits);
    if !fit || inputs.iter().all(TensorRef::is_contiguous) {
        return call(inputs);
    }
    check(entry, inputs)?;
    refuse_there(entry, inputs)?;
    let copies = inputs.iter().map(|input| (!input.is_contiguous()).then(|| Strided::of(input).to_contiguous()).transpose());
    let copies = copies.collect::<Result<Vec<_>, Error>>()?;
    let dense: Vec<TensorRef<'_>> =
        inputs.iter().zip(&copies).map(|(input, copy)| copy.as_ref().map_or(*input, HostTensor::as_input)).collect();
    call(&dense)
}

/// Refuses strided inputs in memory of a device, which is not the host's to copy.
fn refuse_there(entry: &EntryMeta, inputs: &[TensorRef<'_>]) -> Result<(), Error> {
    let is_refused =
        |(_, (_, input)): &(usize, (&InputMeta, &TensorRef<'_>))| input.device() != DEVICE_CPU && !input.is_contiguous();
    match entry.inputs.iter().zip(inputs).enumerate().find(is_refused) {
        None => Ok(()),
        Some((index, (InputMeta { name, .. }, _))) => {
            let message = format!("input {index} (`{name}`) is in memory of a device, and must be contiguous");
            Err(Error::new(code::BAD_INPUT, name, message))
        }
    }
}

/// Refuses strided inputs that would have to be copied back, and those that share memory with one
/// that is written.
fn check(entry: &EntryMeta, inputs: &[TensorRef<'_>]) -> Result<(), Error> {
    check_overlaps(entry, inputs)?;
    let mut pairs = entry.inputs.iter().zip(inputs).enumerate();
    match pairs.find(|(_, (meta, input))| meta.written && !input.is_contiguous()) {
        None => Ok(()),
        Some((index, (InputMeta { name, .. }, _))) => {
            let message = format!("input {index} (`{name}`) is written by the model, and must be contiguous");
            Err(Error::new(code::BAD_INPUT, name, message))
        }
    }
}

/// A tensor of any layout, to be copied.
pub(crate) struct Strided<'a> {
    tensor: TensorRef<'a>,
}

impl<'a> Strided<'a> {
    pub(crate) fn of(tensor: &TensorRef<'a>) -> Self {
        Self { tensor: *tensor }
    }

    /// Returns a copy in row-major order.
    ///
    /// # Errors
    /// No memory.
    pub(crate) fn to_contiguous(&self) -> Result<HostTensor, Error> {
        let mut copy = HostTensor::zeros(self.tensor.dtype(), self.tensor.sizes())?;
        let bytes = copy.bytes_mut();
        if self.tensor.is_contiguous() {
            // SAFETY: a `TensorRef` promises that its elements are valid memory.
            unsafe { bytes.as_mut_ptr().copy_from_nonoverlapping(self.tensor.data().cast(), bytes.len()) };
        } else {
            self.copy(bytes);
        }
        Ok(copy)
    }

    fn copy(&self, to: &mut [u8]) {
        let sizes = self.tensor.sizes();
        let strides = self.tensor.given_strides().unwrap_or_default();
        let (Some((&inner, outer)), Some(&step)) = (sizes.split_last(), strides.last()) else { return };
        let row = inner as usize * self.tensor.dtype().size();
        let mut position = vec![0; outer.len()];
        for target in to.chunks_exact_mut(row.max(1)) {
            let offset: i64 = position.iter().zip(strides).map(|(p, s)| p * s).sum();
            self.copy_row(offset, step, target);
            for (axis, &size) in outer.iter().enumerate().rev() {
                position[axis] += 1;
                if position[axis] < size {
                    break;
                }
                position[axis] = 0;
            }
        }
    }

    fn copy_row(&self, offset: i64, step: i64, to: &mut [u8]) {
        let (base, size) = (self.tensor.data().cast::<u8>(), self.tensor.dtype().size());
        for (i, element) in to.chunks_exact_mut(size).enumerate() {
            // SAFETY: a `TensorRef` promises that every element its sizes and strides reach is
            // valid memory.
            unsafe {
                let from = base.offset(((offset + i as i64 * step) * size as i64) as isize);
                std::ptr::copy_nonoverlapping(from, element.as_mut_ptr(), size);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::host::HostTensor;
    use disc_abi::DType;

    /// Returns true if an input of rank 2 is copied for an entry that expects rank 2 and this type.
    fn is_copied(dtype: DType, input: TensorRef<'_>) -> bool {
        let dims = vec!["2".into(), "3".into()];
        let meta = InputMeta { name: "x".into(), dtype, dims, host: false, written: false };
        let entry = EntryMeta { inputs: vec![meta], ..EntryMeta::default() };
        let result: Result<bool, Error> = with_contiguous(&entry, &[input], |dense| Ok(dense[0].data() != input.data()));
        result.unwrap()
    }

    #[test]
    fn strided_inputs_are_copied_unless_a_call_refuses_them() {
        let tensor = HostTensor::new(&[3, 2], &[1_i16, 2, 3, 4, 5, 6]).unwrap();
        let view = |data| {
            // SAFETY: a transposed view of the tensor; nothing reads it elsewhere.
            unsafe { TensorRef::from_raw(data, DType::I16, &[2, 3]) }.strides(&[1, 2])
        };
        let data = tensor.as_input().data();
        assert!(is_copied(DType::I16, view(data)));
        assert!(!is_copied(DType::I64, view(data)), "it has no elements of eight bytes");
        assert!(!is_copied(DType::I16, view(std::ptr::null_mut())));
        let mut dense = Vec::new();
        Strided::of(&view(data)).to_contiguous().unwrap().elements::<i16>().unwrap().clone_into(&mut dense);
        assert_eq!(dense, [1, 3, 5, 2, 4, 6]);
    }
}
