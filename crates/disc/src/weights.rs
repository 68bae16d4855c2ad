//! Puts weights that are given by name into the order of a module's weight table.

use crate::Error;
use disc_ral::{HostTensor, ModuleMeta, Weight, WeightMeta};
use std::{collections::HashMap, sync::Arc};

/// The values of the program's own constants, by name: all elements, or one that is repeated.
pub(crate) type Constants = HashMap<String, Arc<[u8]>>;

/// Returns a value for each weight of `meta`, in its order: from `given`, else the program's own
/// constant of that name.
///
/// # Errors
/// A weight without a value, or no memory for a constant.
pub(crate) fn weights_by_name(
    meta: &ModuleMeta,
    constants: &Constants,
    mut given: impl FnMut(&WeightMeta) -> Option<Weight>,
) -> Result<Vec<Weight>, Error> {
    meta.weights.iter().map(|weight| given(weight).map_or_else(|| constant(weight, constants), Ok)).collect()
}

/// Returns a lookup for [`weights_by_name`] that hands out each of `weights` once.
pub(crate) fn by_name(weights: Vec<(String, Weight)>) -> impl FnMut(&WeightMeta) -> Option<Weight> {
    let mut given: HashMap<String, Weight> = weights.into_iter().collect();
    move |meta| given.remove(&meta.name)
}

fn constant(meta: &WeightMeta, constants: &Constants) -> Result<Weight, Error> {
    let Some(value) = constants.get(&meta.name) else {
        return Err(Error::Compile { code: "E0608", message: format!("no value for weight `{}`", meta.name) });
    };
    let mut tensor = HostTensor::zeros(meta.dtype, &meta.sizes)?;
    for chunk in tensor.bytes_mut().chunks_mut(value.len().max(1)) {
        chunk.copy_from_slice(&value[..chunk.len()]);
    }
    Ok(Weight::from(tensor))
}
