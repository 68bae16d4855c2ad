//! Implements memory of devices and pinned memory of the host, and copies between them.
use crate::{
    driver::driver,
    handles::State,
    status::{INVALID_VALUE, LAUNCH_FAILED, OUT_OF_MEMORY, Status},
    streams::{Op, stream_key},
};
use disc_ral::LaunchFailure;
use std::{
    alloc::{Layout, alloc_zeroed, dealloc},
    ffi::c_void,
    ptr,
};

/// Alignment of pinned memory.
const PAGE: usize = 4096;

fn layout(bytes: usize) -> Result<Layout, Status> {
    Layout::from_size_align(bytes, PAGE).map_err(|_| OUT_OF_MEMORY)
}

pub(crate) fn at<T>(address: u64) -> *mut T {
    ptr::with_exposed_provenance_mut(address as usize)
}

/// Tells what the simulated GPU says about an op that broke a rule.
pub(crate) fn broken(failure: &LaunchFailure) -> Status {
    eprintln!("fake CUDA driver: {failure:?}");
    LAUNCH_FAILED
}

impl State {
    /// Runs an op of a stream of a context.
    pub(crate) fn execute(&mut self, context: usize, op: Op) -> Result<(), Status> {
        let is_reported = self.is_reported();
        self.check_pooled(&op)?;
        let queue = &mut self.contexts[context].queue;
        // SAFETY: the simulated GPU checks its own addresses; those of the host are valid until
        // somebody has waited.
        let copied = unsafe {
            match op {
                Op::Upload { to, bytes } => queue.upload(at(to), bytes.as_ptr(), bytes.len()),
                Op::UploadPinned { to, from, bytes } => queue.upload(at(to), ptr::with_exposed_provenance(from), bytes),
                Op::Download { to, from, bytes } => {
                    let to = ptr::with_exposed_provenance_mut(to);
                    match queue.download(to, at(from), bytes) {
                        // What a kernel that failed did not write has any value.
                        Err(_) if is_reported => {
                            to.write_bytes(0xAB, bytes);
                            Ok(())
                        }
                        downloaded => downloaded,
                    }
                }
                Op::Copy { to, from, bytes } => queue.copy(at(to), at(from), bytes),
                Op::Launch(launch) => return self.launch(context, &launch),
                Op::Call { function, data } => return self.call(context, function, data),
                Op::Allocate { at } => return self.allocated(at),
                Op::Free { at } => return self.freed(at),
                Op::Wait { .. } => Ok(()),
            }
        };
        copied.map_err(|failure| broken(&failure))
    }

    /// Notes a copy from or to memory of the host.
    fn note_host(&mut self, address: usize) {
        self.control.pageable += usize::from(!self.is_pinned(address));
    }

    fn is_pinned(&self, address: usize) -> bool {
        self.pinned.iter().any(|(&start, &bytes)| (start..start + bytes).contains(&address))
    }
}

driver! {
    fn cuMemAlloc_v2(state, address: *mut u64, bytes: usize) {
        let context = state.context()?;
        if bytes == 0 {
            return Err(INVALID_VALUE);
        }
        let made = state.contexts[context].device.alloc(bytes).map_err(|_| OUT_OF_MEMORY)?;
        let found = made.as_ptr().expose_provenance() as u64;
        state.memory.insert(found, (context, bytes));
        // SAFETY: the caller's memory.
        unsafe { *address = found };
        Ok(())
    }

    fn cuMemFree_v2(state, address: u64) {
        let current = state.context()?;
        let (context, bytes) = state.memory.get(&address).copied().filter(|(owner, _)| *owner == current).ok_or(INVALID_VALUE)?;
        if state.pooled.remove(&address).is_none() {
            // Memory of a pool is freed at once: that is the caller's matter.
            state.finish_context(context)?;
        }
        state.memory.remove(&address);
        let start = ptr::NonNull::new(at::<u8>(address)).ok_or(INVALID_VALUE)?;
        // SAFETY: memory of this device, freed once.
        unsafe { state.contexts[context].device.free(start, bytes) };
        Ok(())
    }

    fn cuMemHostAlloc(state, address: *mut *mut c_void, bytes: usize, _flags: u32) {
        state.context()?;
        if bytes == 0 {
            return Err(INVALID_VALUE);
        }
        // SAFETY: a positive number of bytes.
        let made = unsafe { alloc_zeroed(layout(bytes)?) };
        if made.is_null() {
            return Err(OUT_OF_MEMORY);
        }
        state.pinned.insert(made.expose_provenance(), bytes);
        // SAFETY: the caller's memory.
        unsafe { *address = made.cast() };
        Ok(())
    }

    fn cuMemFreeHost(state, address: *mut c_void) {
        let context = state.context()?;
        state.finish_context(context)?;
        let bytes = state.pinned.remove(&address.addr()).ok_or(INVALID_VALUE)?;
        // SAFETY: memory of `cuMemHostAlloc`, freed once.
        unsafe { dealloc(address.cast(), layout(bytes)?) };
        Ok(())
    }

    fn cuMemHostGetDevicePointer_v2(state, address: *mut u64, host: *mut c_void, _flags: u32) {
        state.context()?;
        if !state.is_pinned(host.addr()) {
            return Err(INVALID_VALUE);
        }
        // SAFETY: the caller's memory.
        unsafe { *address = host.addr() as u64 };
        Ok(())
    }

    fn cuMemcpyHtoDAsync_v2(state, to: u64, from: *const c_void, bytes: usize, stream: *mut c_void) {
        let key = stream_key(state, stream)?;
        state.note_host(from.addr());
        let op = match state.is_pinned(from.addr()) {
            true => Op::UploadPinned { to, from: from.expose_provenance(), bytes },
            // SAFETY: the caller's memory.
            false => Op::Upload { to, bytes: unsafe { std::slice::from_raw_parts(from.cast(), bytes) }.to_vec() },
        };
        state.push(key, op)
    }

    fn cuMemcpyDtoHAsync_v2(state, to: *mut c_void, from: u64, bytes: usize, stream: *mut c_void) {
        let key = stream_key(state, stream)?;
        state.note_host(to.addr());
        state.push(key, Op::Download { to: to.expose_provenance(), from, bytes })
    }

    fn cuMemcpyDtoDAsync_v2(state, to: u64, from: u64, bytes: usize, stream: *mut c_void) {
        let key = stream_key(state, stream)?;
        state.push(key, Op::Copy { to, from, bytes })
    }
}
