//! Exports the library's functions.
use crate::{
    descriptor::{Descriptor, Kind},
    engines,
    execute::execute,
    graph::{Graph, Tensor},
    status::{BAD_PARAM, NOT_FINALIZED, NOT_SUPPORTED, words},
};
use disc_fake_library::{Status, library, made};
use std::{
    ffi::{c_char, c_int, c_void},
    sync::{
        Arc,
        atomic::{AtomicUsize, Ordering},
    },
};

/// The address of the stream that the one handle has.
static STREAM: AtomicUsize = AtomicUsize::new(0);
/// The one handle.
const HANDLE: usize = 0x1000;
/// The variable of the environment that sets another version.
const VARIABLE: &str = "FAKE_CUDNN_VERSION";

/// Returns the version of the library.
#[unsafe(no_mangle)]
#[allow(non_snake_case, reason = "the library's function is called so")]
pub extern "C" fn cudnnGetVersion() -> usize {
    std::env::var(VARIABLE).ok().and_then(|version| version.parse().ok()).unwrap_or(91_200)
}

/// Returns the library's words about a status.
#[unsafe(no_mangle)]
#[allow(non_snake_case, reason = "the library's function is called so")]
pub extern "C" fn cudnnGetErrorString(status: Status) -> *const c_char {
    words(status).as_ptr()
}

/// Writes the library's words about the last failure.
///
/// # Safety
/// `to` has room for `bytes`.
#[unsafe(no_mangle)]
#[allow(non_snake_case, reason = "the library's function is called so")]
pub unsafe extern "C" fn cudnnGetLastErrorString(to: *mut c_char, bytes: usize) {
    let text = c"the reason of the fake library".to_bytes_with_nul();
    if text.len() <= bytes {
        // SAFETY: the caller's room.
        unsafe { to.copy_from_nonoverlapping(text.as_ptr().cast(), text.len()) };
    }
}

library! {
    fn cudnnCreate(handle: *mut *mut c_void) {
        // SAFETY: the caller's memory.
        unsafe { *handle = std::ptr::without_provenance_mut(HANDLE) };
        Ok(())
    }

    fn cudnnSetStream(handle: *mut c_void, stream: *mut c_void) {
        STREAM.store(stream.expose_provenance(), Ordering::SeqCst);
        if handle.addr() == HANDLE { Ok(()) } else { Err(BAD_PARAM) }
    }

    fn cudnnBackendCreateDescriptor(kind: c_int, descriptor: *mut *mut c_void) {
        let kind = Kind::of(kind).ok_or(NOT_SUPPORTED)?;
        made(1);
        // SAFETY: the caller's memory.
        unsafe { *descriptor = Box::into_raw(Box::new(Descriptor::new(kind))).cast() };
        Ok(())
    }

    fn cudnnBackendDestroyDescriptor(descriptor: *mut c_void) {
        made(-1);
        // SAFETY: a descriptor of this library, destroyed once.
        drop(unsafe { Box::from_raw(descriptor.cast::<Descriptor>()) });
        Ok(())
    }

    fn cudnnBackendSetAttribute(descriptor: *mut c_void, attribute: c_int, ty: c_int, count: i64, from: *const c_void) {
        // SAFETY: a live descriptor, and the caller's values.
        unsafe { (*descriptor.cast::<Descriptor>()).set(attribute, ty, count, from) }
    }

    fn cudnnBackendFinalize(descriptor: *mut c_void) {
        // SAFETY: a live descriptor.
        let descriptor = unsafe { &mut *descriptor.cast::<Descriptor>() };
        if !descriptor.is_whole() {
            return Err(BAD_PARAM);
        }
        match descriptor.kind {
            Kind::Tensor => _ = Tensor::of(descriptor)?,
            Kind::OperationGraph => _ = Graph::of(descriptor)?,
            Kind::Heuristics => {
                let graph = Graph::of(descriptor.descriptor(201, Kind::OperationGraph)?)?;
                engines::of(&graph, descriptor.number(200)?)?;
            }
            Kind::ExecutionPlan => {
                let (engine, _) = descriptor.descriptor(401, Kind::EngineConfig)?.engine.as_ref().ok_or(BAD_PARAM)?;
                if !engines::has_plans(*engine) {
                    return Err(NOT_SUPPORTED);
                }
            }
            _ => {}
        }
        descriptor.is_final = true;
        Ok(())
    }

    fn cudnnBackendGetAttribute(descriptor: *mut c_void, attribute: c_int, ty: c_int, wanted: i64, count: *mut i64,
        to: *mut c_void) {
        // SAFETY: a live descriptor.
        let descriptor = unsafe { &*descriptor.cast::<Descriptor>() };
        let room = usize::try_from(wanted).unwrap_or(0);
        if !descriptor.is_final {
            return Err(NOT_FINALIZED);
        }
        // SAFETY: the caller's memory, for as many values as wanted; descriptors are live.
        unsafe {
            match (descriptor.kind, attribute, ty) {
                (Kind::Heuristics, 202, 15) => {
                    let of_graph = descriptor.descriptor(201, Kind::OperationGraph)?;
                    let found = engines::of(&Graph::of(of_graph)?, descriptor.number(200)?)?;
                    *count = found.len() as i64;
                    for (position, engine) in found.into_iter().enumerate().take(room) {
                        fill(*to.cast::<*mut Descriptor>().add(position), Kind::EngineConfig, engine, of_graph)?;
                    }
                }
                (Kind::EngineConfig, 300, 15) if room > 0 => {
                    let (engine, graph) = descriptor.engine.as_ref().ok_or(BAD_PARAM)?;
                    *count = 1;
                    fill(*to.cast::<*mut Descriptor>(), Kind::Engine, *engine, graph)?;
                }
                (Kind::Engine, 1303, 11) => {
                    let (engine, _) = descriptor.engine.as_ref().ok_or(BAD_PARAM)?;
                    let notes = engines::notes(*engine);
                    *count = notes.len() as i64;
                    to.cast::<i32>().copy_from_nonoverlapping(notes.as_ptr(), notes.len().min(room));
                }
                (Kind::ExecutionPlan, 402, 3) if room > 0 => {
                    let (engine, graph) = descriptor.descriptor(401, Kind::EngineConfig)?.engine.as_ref().ok_or(BAD_PARAM)?;
                    *count = 1;
                    *to.cast::<i64>() = engines::workspace(*engine, &Graph::of(graph)?);
                }
                _ => return Err(BAD_PARAM),
            }
        }
        Ok(())
    }

    fn cudnnBackendExecute(handle: *mut c_void, plan: *mut c_void, pack: *mut c_void) {
        let stream = std::ptr::with_exposed_provenance_mut(STREAM.load(Ordering::SeqCst));
        if handle.addr() != HANDLE {
            return Err(BAD_PARAM);
        }
        // SAFETY: live descriptors.
        unsafe { execute(stream, &*plan.cast::<Descriptor>(), &*pack.cast::<Descriptor>()) }
    }
}

/// Fills a descriptor that the caller has made with an engine.
///
/// # Safety
/// A live descriptor.
unsafe fn fill(to: *mut Descriptor, kind: Kind, engine: i64, graph: &Arc<Descriptor>) -> Result<(), Status> {
    // SAFETY: the caller's promise.
    let to = unsafe { to.as_mut() }.filter(|to| to.kind == kind).ok_or(BAD_PARAM)?;
    (to.engine, to.is_final) = (Some((engine, Arc::clone(graph))), true);
    Ok(())
}
