//! Finds tensors in a part in the format of safetensors: weights, and constants of a program.

use super::fault;
use crate::{error::Error, host::HostTensor, meta::WeightMeta, weights::Weight};
use disc_abi::DType;
use safetensors::{Dtype, SafeTensors};
use std::{any::Any, sync::Arc};

/// The tensors of one part.
pub(super) struct WeightsFile<'a> {
    part: &'a str,
    tensors: SafeTensors<'a>,
}

/// One tensor of a part.
struct Found<'a> {
    dtype: DType,
    sizes: Vec<i64>,
    bytes: &'a [u8],
}

impl<'a> WeightsFile<'a> {
    /// Reads the header of a part, and checks that its tensors fill it.
    pub(super) fn read(part: &'a str, bytes: &'a [u8]) -> Result<Self, Error> {
        let tensors = SafeTensors::deserialize(bytes);
        Ok(Self { part, tensors: tensors.map_err(|error| fault(part, format!("it is no safetensors file: {error}")))? })
    }

    fn find(&self, name: &str) -> Result<Option<Found<'a>>, Error> {
        let Ok(view) = self.tensors.tensor(name) else { return Ok(None) };
        let dtype = dtype(view.dtype()).ok_or_else(|| fault(self.part, format!("`{name}` has element type {}", view.dtype())))?;
        let sizes = view.shape().iter().map(|&size| size as i64).collect();
        // The view borrows from the part, though its methods borrow from the view.
        Ok(Some(Found { dtype, sizes, bytes: view.data() }))
    }

    /// Returns a weight, whose memory stays that of the part, which `owner` keeps.
    ///
    /// # Errors
    /// It has another element type or other sizes.
    ///
    /// # Safety
    /// While `owner` lives, the part is valid, and nobody writes to it.
    pub(super) unsafe fn weight(&self, meta: &WeightMeta, owner: &Arc<dyn Any + Send + Sync>) -> Result<Option<Weight>, Error> {
        let Some(found) = self.find(&meta.name)? else { return Ok(None) };
        if (found.dtype, &found.sizes) != (meta.dtype, &meta.sizes) {
            let Found { dtype, sizes, .. } = found;
            let message =
                format!("`{}` is {dtype} of sizes {sizes:?}, the code needs {} of sizes {:?}", meta.name, meta.dtype, meta.sizes);
            return Err(fault(self.part, message));
        }
        // SAFETY: the caller's promise; safetensors checked that the bytes are those of the sizes.
        Ok(Some(unsafe { Weight::borrowed(found.bytes.as_ptr(), found.dtype, found.sizes, Arc::clone(owner)) }))
    }

    /// Returns a constant of the program: all its elements, or one that is repeated.
    pub(super) fn constant(&self, meta: &WeightMeta) -> Result<Option<Weight>, Error> {
        let Some(found) = self.find(&meta.name)? else { return Ok(None) };
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

    /// Returns name, element type and sizes of each tensor.
    pub(super) fn list(&self) -> Vec<(String, DType, Vec<i64>)> {
        let mut names = self.tensors.names();
        names.sort_unstable();
        let row = |name: &str| self.find(name).ok().flatten().map(|found| (name.to_owned(), found.dtype, found.sizes));
        names.into_iter().filter_map(row).collect()
    }
}

fn dtype(dtype: Dtype) -> Option<DType> {
    Some(match dtype {
        Dtype::F16 => DType::F16,
        Dtype::BF16 => DType::BF16,
        Dtype::F32 => DType::F32,
        Dtype::F64 => DType::F64,
        Dtype::BOOL => DType::I1,
        Dtype::I8 => DType::I8,
        Dtype::U8 => DType::U8,
        Dtype::I16 => DType::I16,
        Dtype::U16 => DType::U16,
        Dtype::I32 => DType::I32,
        Dtype::U32 => DType::U32,
        Dtype::I64 => DType::I64,
        Dtype::U64 => DType::U64,
        _ => return None,
    })
}
