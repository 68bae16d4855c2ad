//! Implements events: points in streams.
use crate::{
    driver::driver,
    handles::{State, pointer},
    status::{INVALID_HANDLE, Status},
    streams::{Op, stream_key},
};
use std::ffi::c_void;

/// The last point that an event was recorded at: a stream, and the number of ops before it.
#[derive(Clone, Copy, Default)]
pub(crate) struct Event {
    pub(crate) point: Option<(usize, u64)>,
}

impl State {
    pub(crate) fn event(&self, event: *mut c_void) -> Result<Event, Status> {
        self.events.get(&event.addr()).copied().ok_or(INVALID_HANDLE)
    }
}

driver! {
    fn cuEventCreate(state, event: *mut *mut c_void, _flags: u32) {
        state.context()?;
        let handle = state.handle();
        state.events.insert(handle, Event::default());
        // SAFETY: the caller's memory.
        unsafe { *event = pointer(handle) };
        Ok(())
    }

    fn cuEventDestroy_v2(state, event: *mut c_void) {
        state.context()?;
        state.events.remove(&event.addr()).map(drop).ok_or(INVALID_HANDLE)
    }

    fn cuEventRecord(state, event: *mut c_void, stream: *mut c_void) {
        state.event(event)?;
        let key = stream_key(state, stream)?;
        let point = (key, state.stream(key)?.pushed);
        state.events.insert(event.addr(), Event { point: Some(point) });
        Ok(())
    }

    fn cuEventSynchronize(state, event: *mut c_void) {
        state.context()?;
        match state.event(event)?.point {
            Some((stream, until)) => state.run(stream, until),
            None => Ok(()),
        }
    }

    fn cuStreamWaitEvent(state, stream: *mut c_void, event: *mut c_void, _flags: u32) {
        let event = state.event(event)?;
        let key = stream_key(state, stream)?;
        match event.point {
            Some((other, until)) => state.push(key, Op::Wait { stream: other, until }),
            None => Ok(()),
        }
    }

    fn cuEventElapsedTime(state, milliseconds: *mut f32, start: *mut c_void, end: *mut c_void) {
        state.event(start)?;
        state.event(end)?;
        // SAFETY: the caller's memory.
        unsafe { *milliseconds = 0.001 };
        Ok(())
    }
}
