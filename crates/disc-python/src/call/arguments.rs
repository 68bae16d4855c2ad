//! Reads the inputs of a call: Python objects become descriptors of the runtime.
use super::{
    kind::{Kind, loaded_torch, with_kind},
    outputs::Framework,
    place::Place,
    read::{self, Buffers, Extents, Tensor, Unreadable},
    torch_flags::TorchFlags,
};
use crate::errors::Failure;
use disc_ral::{DType, EntryMeta, InputMeta, TensorRef, code};
use pyo3::{
    intern,
    prelude::*,
    sync::PyOnceLock,
    types::{PyList, PyTuple},
};
use smallvec::SmallVec;
use std::ffi::c_void;

/// The inputs of one call. The objects are held, so that their memory stays valid without the GIL.
pub(crate) struct Arguments<'py> {
    objects: SmallVec<[(Bound<'py, PyAny>, *mut c_void); 8]>,
    tensors: SmallVec<[Tensor; 8]>,
    extents: Extents,
    buffers: Buffers,
    /// The framework of the first tensor.
    framework: Option<Framework>,
    has_arrays: bool,
    has_torch: bool,
    /// A tensor is in memory of the device.
    is_there: bool,
}

impl<'py> Arguments<'py> {
    /// Makes an empty list. It is large, and filled in place: moving it would show in the time of a
    /// call.
    #[inline(always)]
    pub(crate) fn new() -> Self {
        Self {
            objects: SmallVec::new(),
            tensors: SmallVec::new(),
            extents: Extents::new(),
            buffers: Buffers::new(),
            framework: None,
            has_arrays: false,
            has_torch: false,
            is_there: false,
        }
    }

    /// Reads a tuple or list of inputs, of which the device of the call takes those at `place` as
    /// they are.
    pub(super) fn read(&mut self, inputs: &Bound<'py, PyAny>, entry: &EntryMeta, place: Place) -> PyResult<()> {
        if let Ok(tuple) = inputs.cast::<PyTuple>() {
            check_count(entry, tuple.len())?;
            tuple.iter().zip(&entry.inputs).enumerate().try_for_each(|(i, (object, meta))| self.add(i, object, meta, place))?;
        } else if let Ok(list) = inputs.cast::<PyList>() {
            check_count(entry, list.len())?;
            list.iter().zip(&entry.inputs).enumerate().try_for_each(|(i, (object, meta))| self.add(i, object, meta, place))?;
            // Another thread may have shortened the list meanwhile.
            check_count(entry, self.objects.len())?;
        } else {
            let came = crate::describe(inputs);
            return Err(Failure::new(code::BAD_INPUT, format!("the inputs are {came}, expected a tuple or list")).into());
        }
        self.place_scalars();
        if self.has_torch {
            self.check_gradients(entry)?;
        }
        Ok(())
    }

    /// Reads inputs that were found one by one; a missing one is an error.
    pub(super) fn read_all(
        &mut self,
        inputs: impl IntoIterator<Item = Option<Bound<'py, PyAny>>>,
        entry: &EntryMeta,
        place: Place,
    ) -> PyResult<()> {
        for (i, (object, meta)) in inputs.into_iter().zip(&entry.inputs).enumerate() {
            let object = object.ok_or_else(|| bad_input(i, meta, "did not come"))?;
            self.add(i, object, meta, place)?;
        }
        check_count(entry, self.objects.len())?;
        self.place_scalars();
        if self.has_torch { self.check_gradients(entry) } else { Ok(()) }
    }

    /// Returns true if the tensors have the types and ranks of the inputs.
    pub(super) fn fit(&self, entry: &EntryMeta) -> bool {
        self.tensors.iter().zip(&entry.inputs).all(|(tensor, meta)| tensor.dtype == meta.dtype && tensor.rank == meta.dims.len())
    }

    pub(super) fn framework(&self) -> Option<Framework> {
        self.framework.or(self.has_arrays.then_some(Framework::Numpy))
    }

    pub(super) fn objects(&self) -> &[(Bound<'py, PyAny>, *mut c_void)] {
        &self.objects
    }

    /// Returns the descriptors.
    pub(super) fn tensors(&self, entry: &EntryMeta) -> SmallVec<[TensorRef<'_>; 8]> {
        let tensors = self.tensors.iter().zip(&entry.inputs);
        let view = |(tensor, meta): (&Tensor, &InputMeta)| {
            // SAFETY: `read` promises the memory, and the object is held; that nobody writes to it
            // during the call is the caller's duty, as with every other operation of a framework.
            let view = unsafe { TensorRef::from_raw(tensor.data, tensor.dtype, tensor.sizes(&self.extents)) };
            let view = view.strides(tensor.strides(&self.extents)).on_device(tensor.place.kind());
            if meta.written && !tensor.is_read_only { view.writable() } else { view }
        };
        tensors.map(view).collect()
    }

    /// Returns true if a tensor is in memory of the device.
    pub(super) fn is_there(&self) -> bool {
        self.is_there
    }

    /// Returns true if a tensor is a torch tensor.
    pub(super) fn has_torch(&self) -> bool {
        self.has_torch
    }

    #[inline]
    fn add(&mut self, index: usize, object: Bound<'py, PyAny>, meta: &InputMeta, place: Place) -> PyResult<()> {
        let read = with_kind(&object, |kind| {
            if self.framework.is_none() {
                self.framework = Framework::of(kind);
            }
            self.has_arrays |= matches!(kind, Kind::Buffer);
            self.has_torch |= kind.is_torch();
            match kind {
                Kind::Bool | Kind::Int | Kind::Float => scalar(&object, kind, meta, &mut self.extents),
                _ => read::tensor(&object, kind, &mut self.extents, &mut self.buffers),
            }
        })?;
        match read {
            Ok(tensor) if tensor.place != Place::Host => self.add_there(index, (object, tensor), meta, place),
            Ok(tensor) => {
                self.tensors.push(tensor);
                self.objects.push((object, tensor.data));
                Ok(())
            }
            Err(unreadable) => Err(bad_input(index, meta, &unreadable.describe(object.py()))),
        }
    }

    /// Adds a tensor of a GPU; one with gaps is copied there.
    #[cold]
    fn add_there(
        &mut self,
        index: usize,
        (object, tensor): (Bound<'py, PyAny>, Tensor),
        meta: &InputMeta,
        place: Place,
    ) -> PyResult<()> {
        if tensor.place != place {
            return Err(bad_input(index, meta, &format!("is a tensor on {}; calls run on {place}", tensor.place)));
        }
        self.is_there = true;
        if tensor.is_contiguous(&self.extents) {
            self.tensors.push(tensor);
            self.objects.push((object, tensor.data));
            return Ok(());
        }
        if meta.written {
            return Err(bad_input(index, meta, "is written by the model, and must be contiguous"));
        }
        if !with_kind(&object, Kind::is_torch)? {
            return Err(bad_input(index, meta, "is in memory of a GPU, and must be contiguous"));
        }
        self.extents.truncate(tensor.start);
        let dense = object.call_method0(intern!(object.py(), "contiguous"))?;
        self.add(index, dense, meta, place)
    }

    /// Places the bytes of numbers among the extents, which stay where they are from now on.
    fn place_scalars(&mut self) {
        for (tensor, (_, data)) in self.tensors.iter_mut().zip(&mut self.objects) {
            if tensor.data.is_null() && tensor.rank == 0 {
                tensor.data = self.extents[tensor.start..].as_mut_ptr().cast();
                *data = tensor.data;
            }
        }
    }

    /// Refuses an input that requires a gradient, which it would silently not get.
    fn check_gradients(&self, entry: &EntryMeta) -> PyResult<()> {
        let mut records = None;
        for (index, (object, _)) in self.objects.iter().enumerate() {
            if !with_kind(object, Kind::is_torch)? {
                continue;
            }
            if records.is_none() {
                records = Some(match TorchFlags::records_gradients(object) {
                    Some(found) => found,
                    None => records_gradients(object.py())?,
                });
            }
            if records == Some(false) {
                return Ok(());
            }
            if TorchFlags::requires_gradient(object)? {
                let input = &entry.inputs[index].name;
                let message = format!("input {index} (`{input}`) requires a gradient, and compiled modules are for inference");
                let failure = Failure::new("E0610", message).in_op(input);
                return Err(failure.help("call under torch.no_grad() or torch.inference_mode(), or detach the input").into());
            }
        }
        Ok(())
    }
}

#[cold]
fn records_gradients(py: Python<'_>) -> PyResult<bool> {
    static IS_ENABLED: PyOnceLock<Py<PyAny>> = PyOnceLock::new();
    let is_enabled = IS_ENABLED.get_or_try_init(py, || match loaded_torch(py)? {
        Some(torch) => torch.getattr(intern!(py, "is_grad_enabled")).map(Bound::unbind),
        None => Err(Failure::argument("there is a torch tensor, and torch is not imported").into()),
    })?;
    is_enabled.bind(py).call0()?.is_truthy()
}

fn check_count(entry: &EntryMeta, came: usize) -> PyResult<()> {
    let expected = entry.inputs.len();
    if came == expected {
        return Ok(());
    }
    let names = entry.inputs.iter().map(|input| input.name.as_str()).collect::<Vec<_>>().join(", ");
    let message = format!("`{}` expects {expected} inputs ({names}), {came} came", entry.name);
    Err(Failure::new(code::BAD_INPUT, message).in_op(&entry.name).into())
}

fn bad_input(index: usize, meta: &InputMeta, came: &str) -> PyErr {
    let (dtype, dims) = (meta.dtype, meta.dims.join(", "));
    let message = format!("input {index} (`{}`) must be a tensor of {dtype} [{dims}], but {came}", meta.name);
    Failure { dims: meta.dims.clone(), ..Failure::new(code::BAD_INPUT, message).in_op(&meta.name) }.into()
}

/// Reads a Python number as a tensor of rank 0: its bytes are kept among the extents.
fn scalar(object: &Bound<'_, PyAny>, kind: &Kind, meta: &InputMeta, extents: &mut Extents) -> Result<Tensor, Unreadable> {
    let unfit = || Unreadable::Is(format!("the number {object}"));
    if !meta.dims.is_empty() {
        return Err(unfit());
    }
    let bits = match (meta.dtype, kind) {
        (DType::I1, Kind::Bool) => i64::from(object.is_truthy()?),
        (DType::F64, Kind::Int | Kind::Float) => object.extract::<f64>()?.to_bits() as i64,
        (DType::F32, Kind::Int | Kind::Float) => i64::from((object.extract::<f64>()? as f32).to_bits()),
        (DType::U64, Kind::Int) => object.extract::<u64>().map_err(|_| unfit())? as i64,
        (dtype, Kind::Int) => integer(object, dtype).ok_or_else(unfit)?,
        _ => return Err(unfit()),
    };
    let start = extents.len();
    extents.push(bits.to_le());
    Ok(Tensor { data: std::ptr::null_mut(), dtype: meta.dtype, rank: 0, start, is_read_only: true, place: Place::Host })
}

/// Returns a number that fits an integer type.
fn integer(object: &Bound<'_, PyAny>, dtype: DType) -> Option<i64> {
    let range = match dtype {
        DType::I8 => i64::from(i8::MIN)..=i64::from(i8::MAX),
        DType::I16 => i64::from(i16::MIN)..=i64::from(i16::MAX),
        DType::I32 => i64::from(i32::MIN)..=i64::from(i32::MAX),
        DType::I64 => i64::MIN..=i64::MAX,
        DType::U8 => 0..=i64::from(u8::MAX),
        DType::U16 => 0..=i64::from(u16::MAX),
        DType::U32 => 0..=i64::from(u32::MAX),
        _ => return None,
    };
    object.extract::<i64>().ok().filter(|value| range.contains(value))
}
