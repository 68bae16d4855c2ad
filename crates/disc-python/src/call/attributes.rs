//! Reads torch tensors by their attributes, for versions of torch without DLPack's exchange
//! interface (before 2.10).
use super::{
    place::Place,
    read::{Extents, Tensor, Unreadable, has_memory},
};
use disc_ral::DType;
use pyo3::{intern, prelude::*};
use std::ffi::c_void;

pub(super) fn tensor(object: &Bound<'_, PyAny>, extents: &mut Extents) -> Result<Tensor, Unreadable> {
    let py = object.py();
    let name = object.getattr(intern!(py, "dtype"))?.str()?.to_string();
    let Some(dtype) = dtype_of(&name) else {
        return Err(Unreadable::Is(format!("a tensor of an element type without support: {name}")));
    };
    let device = object.getattr(intern!(py, "device"))?;
    let place = match &*device.getattr(intern!(py, "type"))?.extract::<String>()? {
        "cpu" => Place::Host,
        "cuda" => Place::Cuda(device.getattr(intern!(py, "index"))?.extract::<Option<i32>>()?.unwrap_or(0)),
        other => return Err(Unreadable::Is(format!("a tensor on device {other}, which has no support"))),
    };
    if object.call_method0(intern!(py, "is_neg"))?.is_truthy()? {
        return Err(Unreadable::Is("a negated view (torch.Tensor.is_neg); `resolve_neg()` makes it a plain tensor".into()));
    }
    let start = extents.len();
    let data = object.call_method0(intern!(py, "data_ptr"))?.extract::<usize>()?;
    let sizes = object.getattr(intern!(py, "shape"))?.extract::<Vec<i64>>()?;
    let strides = object.call_method0(intern!(py, "stride"))?.extract::<Vec<i64>>()?;
    extents.extend_from_slice(&sizes);
    extents.extend_from_slice(&strides);
    let data = std::ptr::with_exposed_provenance_mut::<c_void>(data);
    let tensor = Tensor { data, dtype, rank: sizes.len(), start, is_read_only: false, place };
    has_memory(&tensor, extents)?;
    Ok(tensor)
}

fn dtype_of(name: &str) -> Option<DType> {
    Some(match name.strip_prefix("torch.")? {
        "bool" => DType::I1,
        "int8" => DType::I8,
        "int16" => DType::I16,
        "int32" => DType::I32,
        "int64" => DType::I64,
        "uint8" => DType::U8,
        "uint16" => DType::U16,
        "uint32" => DType::U32,
        "uint64" => DType::U64,
        "float16" => DType::F16,
        "bfloat16" => DType::BF16,
        "float32" => DType::F32,
        "float64" => DType::F64,
        _ => return None,
    })
}
