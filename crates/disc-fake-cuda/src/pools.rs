//! Implements memory that is allocated and freed in the order of streams.
use crate::{
    driver::driver,
    handles::{State, pointer},
    memory::at,
    status::{INVALID_HANDLE, INVALID_VALUE, LAUNCH_FAILED, OUT_OF_MEMORY, Status},
    streams::{Op, stream_key},
};
use std::{
    ffi::{c_int, c_void},
    ptr,
};

/// The properties of a pool, as the driver's header has them.
#[repr(C)]
pub struct PoolProperties {
    allocation: u32,
    handles: u32,
    location: u32,
    device: c_int,
    attributes: *mut c_void,
    reserved: [u8; 64],
}

/// Memory that stays where it is, on a device.
const PINNED: u32 = 1;
const DEVICE: u32 = 1;
/// The attribute with the bytes that a pool keeps.
const RELEASE_THRESHOLD: c_int = 4;

impl State {
    /// Checks that an op uses no memory of a pool before its stream has come to the allocation.
    pub(crate) fn check_pooled(&self, op: &Op) -> Result<(), Status> {
        let words: &[u64] = match op {
            Op::Upload { to, .. } | Op::UploadPinned { to, .. } => &[*to],
            Op::Download { from, .. } => &[*from],
            Op::Copy { to, from, .. } => &[*to, *from],
            Op::Launch(launch) => launch.words(),
            _ => &[],
        };
        let is_early = |word: &u64| {
            let holds = |at: &u64| self.memory.get(at).is_some_and(|(_, bytes)| (*at..*at + *bytes as u64).contains(word));
            self.pooled.iter().any(|(at, is_there)| !is_there && holds(at))
        };
        match words.iter().find(|word| is_early(word)) {
            Some(word) => {
                eprintln!("fake CUDA driver: memory at {word:#x} is used before its allocation in a stream");
                Err(LAUNCH_FAILED)
            }
            None => Ok(()),
        }
    }

    /// Runs an allocation.
    pub(crate) fn allocated(&mut self, at: u64) -> Result<(), Status> {
        // Memory that was freed at once is none.
        if let Some(is_there) = self.pooled.get_mut(&at) {
            *is_there = true;
        }
        Ok(())
    }

    /// Runs a free.
    pub(crate) fn freed(&mut self, address: u64) -> Result<(), Status> {
        if self.pooled.remove(&address) != Some(true) {
            return Err(LAUNCH_FAILED);
        }
        let (context, bytes) = self.memory.remove(&address).ok_or(LAUNCH_FAILED)?;
        let start = ptr::NonNull::new(at::<u8>(address)).ok_or(LAUNCH_FAILED)?;
        // SAFETY: memory of this device, freed once.
        unsafe { self.contexts[context].device.free(start, bytes) };
        Ok(())
    }
}

driver! {
    fn cuMemPoolCreate(state, pool: *mut *mut c_void, properties: *const PoolProperties) {
        // SAFETY: the caller's properties.
        let PoolProperties { allocation, handles, location, device, attributes, reserved } = unsafe { properties.read() };
        let is_plain = (allocation, handles, location) == (PINNED, 0, DEVICE) && attributes.is_null() && reserved == [0; 64];
        let context = usize::try_from(device).ok().filter(|number| is_plain && *number < state.contexts.len());
        let context = context.ok_or(INVALID_VALUE)?;
        let handle = state.handle();
        state.pools.insert(handle, context);
        // SAFETY: the caller's memory.
        unsafe { *pool = pointer(handle) };
        Ok(())
    }

    fn cuMemPoolSetAttribute(state, pool: *mut c_void, attribute: c_int, value: *mut c_void) {
        state.pools.get(&pool.addr()).ok_or(INVALID_HANDLE)?;
        // SAFETY: the caller's number.
        let is_known = attribute == RELEASE_THRESHOLD && unsafe { value.cast::<u64>().read() } > 0;
        if is_known { Ok(()) } else { Err(INVALID_VALUE) }
    }

    fn cuMemPoolTrimTo(state, pool: *mut c_void, _kept: usize) {
        state.pools.get(&pool.addr()).map(drop).ok_or(INVALID_HANDLE)
    }

    fn cuMemAllocFromPoolAsync(state, address: *mut u64, bytes: usize, pool: *mut c_void, stream: *mut c_void) {
        let context = state.context()?;
        let key = stream_key(state, stream)?;
        state.pools.get(&pool.addr()).filter(|owner| **owner == context).ok_or(INVALID_HANDLE)?;
        if bytes == 0 || state.stream(key)?.is_captured {
            return Err(INVALID_VALUE);
        }
        let made = state.contexts[context].device.alloc(bytes).map_err(|_| OUT_OF_MEMORY)?;
        let found = made.as_ptr().expose_provenance() as u64;
        state.memory.insert(found, (context, bytes));
        state.pooled.insert(found, false);
        // SAFETY: the caller's memory.
        unsafe { *address = found };
        state.push(key, Op::Allocate { at: found })
    }

    fn cuMemFreeAsync(state, address: u64, stream: *mut c_void) {
        state.context()?;
        let key = stream_key(state, stream)?;
        if !state.pooled.contains_key(&address) || state.stream(key)?.is_captured {
            return Err(INVALID_VALUE);
        }
        state.push(key, Op::Free { at: address })
    }

    fn cuStreamIsCapturing(state, stream: *mut c_void, status: *mut u32) {
        let key = stream_key(state, stream)?;
        let is_captured = state.stream(key)?.is_captured;
        // SAFETY: the caller's memory.
        unsafe { *status = is_captured.into() };
        Ok(())
    }

    fn fake_cuda_capture(state, stream: *mut c_void, is_captured: i32) {
        let key = stream_key(state, stream)?;
        state.stream(key)?.is_captured = is_captured != 0;
        Ok(())
    }
}
