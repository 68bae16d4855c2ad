//! Finds weights and constants of a program in a part in the format of safetensors.

use super::{
    fault,
    safetensors::{StoredTensor, read_safetensors},
};
use crate::{error::Error, host::HostTensor, meta::WeightMeta, weights::Weight};
use std::{any::Any, sync::Arc};

/// The tensors of one part, sorted by name.
pub(super) struct WeightsFile<'a> {
    part: &'a str,
    pub(super) tensors: Vec<StoredTensor<'a>>,
}

impl<'a> WeightsFile<'a> {
    /// Reads the header of a part, and checks that its tensors fill it.
    pub(super) fn read(part: &'a str, bytes: &'a [u8]) -> Result<Self, Error> {
        Ok(Self { part, tensors: read_safetensors(bytes).map_err(|why| fault(part, why))? })
    }

    fn find(&self, name: &str) -> Option<&StoredTensor<'a>> {
        self.tensors.binary_search_by(|tensor| (*tensor.name).cmp(name)).ok().map(|at| &self.tensors[at])
    }

    /// Returns a weight, whose memory stays that of the part, which `owner` keeps.
    ///
    /// # Errors
    /// It has another element type or other sizes.
    ///
    /// # Safety
    /// While `owner` lives, the part is valid, and nobody writes to it.
    pub(super) unsafe fn weight(&self, meta: &WeightMeta, owner: &Arc<dyn Any + Send + Sync>) -> Result<Option<Weight>, Error> {
        let Some(StoredTensor { dtype, sizes, bytes, .. }) = self.find(&meta.name) else { return Ok(None) };
        if (*dtype, &**sizes) != (meta.dtype, &*meta.sizes) {
            let message =
                format!("`{}` is {dtype} of sizes {sizes:?}, the code needs {} of sizes {:?}", meta.name, meta.dtype, meta.sizes);
            return Err(fault(self.part, message));
        }
        // SAFETY: the caller's promise; safetensors checked that the bytes are those of the sizes.
        Ok(Some(unsafe { Weight::borrowed(bytes.as_ptr(), *dtype, meta.sizes.clone(), Arc::clone(owner)) }))
    }

    /// Returns a constant of the program: all its elements, or one that is repeated.
    pub(super) fn constant(&self, meta: &WeightMeta) -> Result<Option<Weight>, Error> {
        let Some(found) = self.find(&meta.name) else { return Ok(None) };
        let mut tensor = HostTensor::zeros(meta.dtype, &meta.sizes)?;
        let (bytes, size) = (tensor.bytes().len(), meta.dtype.size());
        if found.dtype != meta.dtype || (found.bytes.len() != bytes && found.bytes.len() != size) {
            return Err(fault(self.part, format!("the constant `{}` has {} bytes", meta.name, found.bytes.len())));
        }
        if !found.bytes.is_empty() {
            tensor.bytes_mut().chunks_mut(found.bytes.len()).for_each(|chunk| chunk.copy_from_slice(found.bytes));
        }
        Ok(Some(tensor.into()))
    }
}
