//! Makes the outputs of a call: tensors of the framework that the inputs came from.
//!
//! Memory is allocated while the call runs, without the GIL; the Python objects are made after it.
use super::{
    buffer::Buffer,
    device_tensor::{DeviceBlock, PyDeviceTensor},
    dlpack::Exchange,
    kind::{Kind, loaded_torch, of_type},
    owned::Owned,
    place::Place,
};
use crate::errors::Failure;
use disc_ral::{DType, Device, EntryMeta, OutputAllocator, OutputError, TensorRef, bytes_of, code};
use pyo3::{
    intern,
    prelude::*,
    sync::PyOnceLock,
    types::{PyDict, PyString, PyTuple},
};
use smallvec::SmallVec;
use std::{ffi::c_void, sync::Arc};

/// The outputs of a call.
pub(crate) type Objects<'py> = SmallVec<[Bound<'py, PyAny>; 4]>;

/// The framework of outputs.
#[derive(Clone, Copy)]
pub(super) enum Framework {
    /// Tensors of the type that this interface belongs to.
    Exchange(&'static Exchange),
    /// torch tensors, by capsules of DLPack.
    Torch,
    Numpy,
    /// Results in memory of a device that any framework reads by DLPack.
    Capsules,
}

impl Framework {
    /// Returns the framework of a tensor of this kind.
    pub(super) fn of(kind: &Kind) -> Option<Self> {
        match kind {
            Kind::Exchange { api, .. } => Some(Framework::Exchange(api)),
            Kind::Attributes => Some(Framework::Torch),
            Kind::Capsules => Some(Framework::Capsules),
            _ => None,
        }
    }

    /// Returns true for the fallback of an executable whose outputs are torch tensors.
    pub(super) fn is_torch(self) -> bool {
        matches!(self, Framework::Exchange(_) | Framework::Torch)
    }

    /// Returns torch, with the fastest way that this version has to make tensors.
    pub(super) fn torch(py: Python<'_>) -> PyResult<Self> {
        let Some(torch) = loaded_torch(py)? else {
            return Err(Failure::argument("outputs = \"torch\", and torch is not imported").into());
        };
        let tensor = torch.getattr("Tensor")?;
        let kind = of_type(tensor.cast()?)?;
        Ok(Framework::of(&kind).unwrap_or(Framework::Torch))
    }
}

/// An output.
enum Output {
    Missing,
    Owned(Box<Owned>),
    /// An array or a tensor that its framework made.
    Made(Py<PyAny>),
    There(Box<PyDeviceTensor>),
    Alias(Box<Alias>),
}

/// An output in the memory of an input.
struct Alias {
    input: usize,
    data: usize,
    dtype: DType,
    sizes: Vec<i64>,
    strides: Option<Vec<i64>>,
}

/// The outputs of one call.
pub(super) struct Outputs {
    framework: Framework,
    /// The device, if outputs are in its memory.
    device: Option<(Arc<dyn Device>, Place)>,
    made: SmallVec<[Output; 4]>,
}

impl Outputs {
    /// Makes an empty list, for outputs in memory of `device` or else of the host.
    pub(super) fn new(framework: Framework, count: usize, device: Option<(Arc<dyn Device>, Place)>) -> Self {
        let mut made = SmallVec::new();
        made.resize_with(count, || Output::Missing);
        Self { framework, device, made }
    }

    /// Returns the objects, in the order of the entry; `inputs` are those of the call, with the
    /// addresses of their data.
    pub(super) fn into_python<'py>(
        self,
        py: Python<'py>,
        entry: &EntryMeta,
        inputs: &[(Bound<'py, PyAny>, *mut c_void)],
    ) -> PyResult<Objects<'py>> {
        let framework = self.framework;
        let make = |(index, output): (usize, Output)| match output {
            Output::Owned(owned) => match framework {
                Framework::Exchange(api) => owned.exchange(py, api),
                Framework::Torch | Framework::Numpy | Framework::Capsules => from_capsule(owned, py),
            },
            Output::Made(object) => Ok(object.into_bound(py)),
            Output::There(tensor) => Ok(Bound::new(py, *tensor)?.into_any()),
            Output::Alias(alias) => {
                let (object, start) = &inputs[alias.input];
                aliased(object, start.addr(), &alias)
            }
            Output::Missing => {
                let name = entry.outputs.get(index).map_or("", |output| &output.name);
                Err(Failure::new(code::INTERNAL, format!("output {index} (`{name}`) was not made")).into())
            }
        };
        self.made.into_iter().enumerate().map(make).collect()
    }

    fn slot(&mut self, index: usize) -> Result<&mut Output, OutputError> {
        self.made.get_mut(index).ok_or_else(|| OutputError(format!("there is no output {index}")))
    }
}

impl OutputAllocator for Outputs {
    fn alloc(&mut self, index: usize, dtype: DType, sizes: &[i64]) -> Result<*mut u8, OutputError> {
        if let Some((device, place)) = &self.device {
            let (output, data) = there(self.framework, (device, *place), dtype, sizes)?;
            *self.slot(index)? = output;
            return Ok(data);
        }
        if matches!(self.framework, Framework::Numpy | Framework::Capsules) {
            let (array, data) = Python::attach(|py| numpy_array(py, dtype, sizes).map_err(|e| OutputError(e.to_string())))?;
            *self.slot(index)? = Output::Made(array);
            return Ok(data);
        }
        let owned =
            Owned::new(dtype, sizes).map_err(|cause| OutputError(format!("memory for sizes {sizes:?} of {dtype}: {cause}")))?;
        let data = owned.data();
        *self.slot(index)? = Output::Owned(owned);
        Ok(data)
    }

    fn is_on_device(&self) -> bool {
        self.device.is_some()
    }

    fn alias(&mut self, index: usize, input: usize, view: TensorRef<'_>) -> Result<(), OutputError> {
        let strides = view.given_strides().map(<[i64]>::to_vec);
        let (data, dtype, sizes) = (view.data().addr(), view.dtype(), view.sizes().to_vec());
        *self.slot(index)? = Output::Alias(Box::new(Alias { input, data, dtype, sizes, strides }));
        Ok(())
    }
}

/// Makes a view of an input; returns the input itself if it is the same tensor.
fn aliased<'py>(input: &Bound<'py, PyAny>, start: usize, alias: &Alias) -> PyResult<Bound<'py, PyAny>> {
    let py = input.py();
    let sizes = &alias.sizes;
    let same_shape = input.getattr(intern!(py, "shape"))?.extract::<Vec<i64>>()? == *sizes;
    if alias.data == start && same_shape {
        return Ok(input.clone());
    }
    let contiguous = || (1..=sizes.len()).map(|i| sizes[i..].iter().product()).collect();
    let strides: Vec<i64> = alias.strides.clone().unwrap_or_else(contiguous);
    let moved = (alias.data as i64 - start as i64) / alias.dtype.size() as i64;
    let offset = input.call_method0(intern!(py, "storage_offset"))?.extract::<i64>()? + moved;
    input.call_method1(intern!(py, "as_strided"), (PyTuple::new(py, sizes)?, PyTuple::new(py, strides)?, offset))
}

fn from_capsule<'py>(owned: Box<Owned>, py: Python<'py>) -> PyResult<Bound<'py, PyAny>> {
    static FROM_DLPACK: PyOnceLock<Py<PyAny>> = PyOnceLock::new();
    let from_dlpack = FROM_DLPACK.get_or_try_init(py, || {
        let Some(torch) = loaded_torch(py)? else {
            return Err(Failure::new(code::OUTPUT, "the outputs are torch tensors, and torch is not imported").into());
        };
        torch.getattr("utils")?.getattr("dlpack")?.getattr("from_dlpack").map(Bound::unbind)
    })?;
    from_dlpack.bind(py).call1((owned.capsule(py)?,))
}

/// Makes an output in memory of a device, and returns its address: by torch's allocator, which
/// knows the stream that is current, or by the device.
fn there(
    framework: Framework,
    (device, place): (&Arc<dyn Device>, Place),
    dtype: DType,
    sizes: &[i64],
) -> Result<(Output, *mut u8), OutputError> {
    match framework {
        Framework::Exchange(_) | Framework::Torch => Python::attach(|py| {
            let made = torch_empty(py, place, dtype, sizes).and_then(|tensor| {
                let data = tensor.call_method0(intern!(py, "data_ptr"))?.extract::<usize>()?;
                Ok((Output::Made(tensor.unbind()), std::ptr::with_exposed_provenance_mut(data)))
            });
            made.map_err(|error| OutputError(error.to_string()))
        }),
        Framework::Numpy | Framework::Capsules => {
            let bytes = bytes_of(dtype, sizes).ok_or_else(|| OutputError(format!("sizes {sizes:?} do not fit into memory")))?;
            let memory = DeviceBlock::new(device, bytes).map_err(|error| OutputError(error.to_string()))?;
            let data = memory.at();
            Ok((Output::There(Box::new(PyDeviceTensor { memory, place, dtype, sizes: sizes.to_vec() })), data))
        }
    }
}

fn torch_empty<'py>(py: Python<'py>, place: Place, dtype: DType, sizes: &[i64]) -> PyResult<Bound<'py, PyAny>> {
    static TORCH: PyOnceLock<Py<PyAny>> = PyOnceLock::new();
    let torch = TORCH.get_or_try_init(py, || match loaded_torch(py)? {
        Some(torch) => Ok::<_, PyErr>(torch.unbind()),
        None => Err(Failure::new(code::OUTPUT, "the outputs are torch tensors, and torch is not imported").into()),
    })?;
    let (torch, options) = (torch.bind(py), PyDict::new(py));
    options.set_item(intern!(py, "dtype"), torch.getattr(dtype_name(py, dtype))?)?;
    options.set_item(intern!(py, "device"), place.to_string())?;
    torch.call_method(intern!(py, "empty"), (PyTuple::new(py, sizes)?,), Some(&options))
}

/// Returns the name that an element type has in NumPy and in torch.
fn dtype_name(py: Python<'_>, dtype: DType) -> &Bound<'_, PyString> {
    match dtype {
        DType::I1 => intern!(py, "bool"),
        DType::I8 => intern!(py, "int8"),
        DType::U8 => intern!(py, "uint8"),
        DType::I16 => intern!(py, "int16"),
        DType::U16 => intern!(py, "uint16"),
        DType::I32 => intern!(py, "int32"),
        DType::U32 => intern!(py, "uint32"),
        DType::I64 => intern!(py, "int64"),
        DType::U64 => intern!(py, "uint64"),
        DType::F16 => intern!(py, "float16"),
        DType::BF16 => intern!(py, "bfloat16"),
        DType::F32 => intern!(py, "float32"),
        DType::F64 => intern!(py, "float64"),
    }
}

/// A new array and the address of its elements.
fn numpy_array(py: Python<'_>, dtype: DType, sizes: &[i64]) -> PyResult<(Py<PyAny>, *mut u8)> {
    static EMPTY: PyOnceLock<Py<PyAny>> = PyOnceLock::new();
    let empty = EMPTY.import(py, "numpy", "empty")?;
    if dtype == DType::BF16 {
        return Err(Failure::new(code::OUTPUT, "NumPy has no element type bf16").into());
    }
    let array = empty.call1((PyTuple::new(py, sizes)?, dtype_name(py, dtype)))?;
    let data = Buffer::of(&array)?.data();
    Ok((array.unbind(), data.cast()))
}
