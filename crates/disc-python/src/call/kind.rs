//! Decides once per Python type how to read its objects.
//!
//! Invariant: a type in the table is never freed, so that its address identifies it.
use super::dlpack::{Exchange, MAJOR};
use pyo3::{
    ffi, intern,
    prelude::*,
    types::{PyBool, PyCapsule, PyCapsuleMethods, PyFloat, PyInt, PyType},
};
use std::{
    ptr,
    sync::{
        Mutex, PoisonError,
        atomic::{AtomicPtr, Ordering},
    },
};

/// The way to read objects of a type.
pub(super) enum Kind {
    /// A tensor type with DLPack's C exchange interface.
    Exchange {
        api: &'static Exchange,
        is_torch: bool,
    },
    /// A torch tensor, by its attributes.
    Attributes,
    Bool,
    Int,
    Float,
    /// By the buffer protocol, if it has it.
    Buffer,
    /// By capsules of DLPack: arrays in memory of a device.
    Capsules,
    /// A type that looks like a tensor without being one.
    Rejected(String),
}

impl Kind {
    pub(super) fn is_torch(&self) -> bool {
        matches!(self, Kind::Attributes | Kind::Exchange { is_torch: true, .. })
    }
}

const SLOTS: usize = 16;

struct Slot {
    ty: AtomicPtr<ffi::PyTypeObject>,
    kind: AtomicPtr<Kind>,
}

static TABLE: [Slot; SLOTS] =
    [const { Slot { ty: AtomicPtr::new(ptr::null_mut()), kind: AtomicPtr::new(ptr::null_mut()) } }; SLOTS];
static WRITERS: Mutex<()> = Mutex::new(());

/// Looks up the kind of the type of `object`.
#[inline]
pub(super) fn with_kind<R>(object: &Bound<'_, PyAny>, body: impl FnOnce(&Kind) -> R) -> PyResult<R> {
    let ty = object.get_type_ptr();
    for slot in &TABLE {
        let known = slot.ty.load(Ordering::Acquire);
        if known == ty {
            // SAFETY: the kind was stored before the type, and is never freed.
            return Ok(body(unsafe { &*slot.kind.load(Ordering::Relaxed) }));
        }
        if known.is_null() {
            break;
        }
    }
    let kind = of_type(&object.get_type())?;
    let result = body(&kind);
    remember(object.get_type(), kind);
    Ok(result)
}

/// Remembers the first types that a process uses; later ones are decided each time.
fn remember(ty: Bound<'_, PyType>, kind: Kind) {
    if matches!(kind, Kind::Rejected(_)) {
        return;
    }
    let _guard = WRITERS.lock().unwrap_or_else(PoisonError::into_inner);
    let address = ty.as_ptr().cast();
    let free = TABLE.iter().find(|slot| [ptr::null_mut(), address].contains(&slot.ty.load(Ordering::Acquire)));
    if let Some(slot) = free.filter(|slot| slot.ty.load(Ordering::Acquire).is_null()) {
        slot.kind.store(Box::into_raw(Box::new(kind)), Ordering::Relaxed);
        slot.ty.store(address, Ordering::Release);
        std::mem::forget(ty);
    }
}

/// Decides the kind of a type.
pub(super) fn of_type(ty: &Bound<'_, PyType>) -> PyResult<Kind> {
    let py = ty.py();
    if ty.is_subclass_of::<PyBool>()? {
        return Ok(Kind::Bool);
    }
    if ty.is_subclass_of::<PyInt>()? {
        return Ok(Kind::Int);
    }
    let torch = loaded_torch(py)?;
    let tensor = torch.map(|torch| torch.getattr(intern!(py, "Tensor"))).transpose()?;
    let is_torch = tensor.as_ref().map(|tensor| ty.is_subclass(tensor)).transpose()?.unwrap_or(false);
    if let (true, Some(tensor)) = (is_torch, &tensor) {
        // A subclass that replaces dispatch may have no memory of its own: fake, functional and
        // distributed tensors.
        let name = intern!(py, "__torch_dispatch__");
        if !ty.getattr(name)?.is(tensor.getattr(name)?) {
            return Ok(Kind::Rejected(format!("a {}, which is no plain tensor", ty.fully_qualified_name()?)));
        }
    }
    match exchange_of(ty)? {
        Some(api) => Ok(Kind::Exchange { api, is_torch }),
        None if is_torch => Ok(Kind::Attributes),
        // NumPy's float64 is a float too, and is read faster as a number.
        None if ty.is_subclass_of::<PyFloat>()? => Ok(Kind::Float),
        None if has_capsules(ty)? => Ok(Kind::Capsules),
        None => Ok(Kind::Buffer),
    }
}

/// Returns true for a type with DLPack's protocol of Python that is not NumPy's, whose arrays
/// are read faster as buffers.
fn has_capsules(ty: &Bound<'_, PyType>) -> PyResult<bool> {
    let py = ty.py();
    let has_protocol = ty.hasattr(intern!(py, "__dlpack__"))? && ty.hasattr(intern!(py, "__dlpack_device__"))?;
    Ok(has_protocol && !ty.hasattr(intern!(py, "__array_finalize__"))?)
}

/// Returns torch, if this process has imported it.
pub(super) fn loaded_torch(py: Python<'_>) -> PyResult<Option<Bound<'_, PyAny>>> {
    let modules = py.import(intern!(py, "sys"))?.getattr(intern!(py, "modules"))?;
    let torch = modules.call_method1(intern!(py, "get"), (intern!(py, "torch"),))?;
    // While torch is being imported it has no tensors yet.
    Ok(if torch.is_none() || !torch.hasattr(intern!(py, "Tensor"))? { None } else { Some(torch) })
}

fn exchange_of(ty: &Bound<'_, PyType>) -> PyResult<Option<&'static Exchange>> {
    let Ok(attribute) = ty.getattr(intern!(ty.py(), "__dlpack_c_exchange_api__")) else { return Ok(None) };
    let Ok(capsule) = attribute.cast::<PyCapsule>() else { return Ok(None) };
    let Ok(pointer) = capsule.pointer_checked(Some(c"dlpack_exchange_api")) else { return Ok(None) };
    let mut at: *const Exchange = pointer.as_ptr().cast();
    while !at.is_null() {
        // SAFETY: DLPack's contract: a table that lives as long as the process; each version starts
        // with this header.
        let (version, previous) = unsafe { ((*at).version, (*at).previous) };
        if version.major == MAJOR {
            // SAFETY: of this major version, so of this layout.
            let api = unsafe { &*at };
            return Ok((api.view.is_some() && api.managed_to_python.is_some()).then_some(api));
        }
        at = previous;
    }
    Ok(None)
}
