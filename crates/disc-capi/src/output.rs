//! Memory for the outputs of a call: that of the caller, checked, and that which disc allocates.

use crate::tensor::{allocated, bad, disc_tensor};
use disc_ral::{Error, Tensor, TensorRef};
use std::ops::Range;

/// The outputs of a call: `None` for one that disc allocates.
pub(crate) struct Outputs<'a> {
    pub(crate) memory: Vec<Option<Tensor<'a>>>,
    /// The sizes that the caller expects, where the memory is the caller's.
    expected: Vec<Option<&'a [i64]>>,
}

impl<'a> Outputs<'a> {
    /// Borrows the memory of the caller.
    ///
    /// # Errors
    /// Strides, sizes that are not possible, or memory that is that of an input or of another
    /// output.
    ///
    /// # Safety
    /// Each output with data describes memory that is valid for `'a`, and that nobody else uses.
    pub(crate) unsafe fn borrow(outputs: &[disc_tensor], inputs: &[TensorRef<'_>]) -> Result<Self, Error> {
        let mut used: Vec<Range<i128>> = inputs.iter().filter_map(TensorRef::addresses).collect();
        let (mut memory, mut expected) = (Vec::new(), Vec::new());
        for (i, output) in outputs.iter().enumerate() {
            if output.data.is_null() {
                memory.push(None);
                expected.push(None);
                continue;
            }
            let what = format!("output {i}");
            // SAFETY: the caller's promise.
            let (view, sizes) = unsafe { (output.as_input(&what)?, output.sizes(&what)?) };
            if !view.is_contiguous() {
                return Err(bad(&what, "it has strides; memory for an output is in row-major order without gaps".into()));
            }
            let addresses = view.addresses();
            if let Some(own) = &addresses
                && used.iter().any(|other| own.start < other.end && other.start < own.end)
            {
                return Err(bad(&what, "its memory is also that of an input, or of another output".into()));
            }
            used.extend(addresses);
            // SAFETY: the caller's promise.
            memory.push(Some(unsafe { Tensor::from_raw_mut(view.dtype(), sizes, output.data.cast()) }?));
            expected.push(Some(sizes));
        }
        Ok(Self { memory, expected })
    }

    /// Gives the outputs to the caller.
    ///
    /// # Errors
    /// An output has other sizes than the caller's memory.
    ///
    /// # Safety
    /// `outputs` is valid for a write of as many tensors.
    pub(crate) unsafe fn give(self, outputs: *mut disc_tensor) -> Result<(), Error> {
        let pairs = self.memory.iter().zip(&self.expected).enumerate();
        for (i, (output, expected)) in pairs {
            if let (Some(output), Some(expected)) = (output, expected)
                && output.sizes() != *expected
            {
                let message = format!("it has sizes {:?}, the memory for it has sizes {expected:?}", output.sizes());
                return Err(bad(&format!("output {i}"), message));
            }
        }
        let new = self.memory.into_iter().zip(self.expected).enumerate().filter(|(_, (_, expected))| expected.is_none());
        let new = new.filter_map(|(i, (tensor, _))| Some((i, tensor?)));
        let new = new.map(|(i, tensor)| Ok((i, tensor.into_owned()?))).collect::<Result<Vec<_>, Error>>()?;
        for (i, tensor) in new {
            // SAFETY: the caller's promise.
            unsafe { outputs.add(i).write(allocated(tensor)) };
        }
        Ok(())
    }
}
