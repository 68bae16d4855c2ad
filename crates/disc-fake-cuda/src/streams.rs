//! Implements streams: lists of ops that run when somebody waits for them.
use crate::{
    driver::driver,
    handles::{State, current, pointer},
    host_calls::HostFunction,
    launch::Launch,
    status::{INVALID_HANDLE, Status},
};
use std::{collections::VecDeque, ffi::c_void};

/// A stream of a context.
#[derive(Default)]
pub(crate) struct Stream {
    pub(crate) context: usize,
    pub(crate) ops: VecDeque<Op>,
    /// The ops that were pushed, and of them those that have run.
    pub(crate) pushed: u64,
    pub(crate) done: u64,
    /// The op that was pushed last is a launch.
    pub(crate) is_behind_launch: bool,
    /// A test says that it is captured.
    pub(crate) is_captured: bool,
}

/// Something that a stream will do.
pub(crate) enum Op {
    /// Copies bytes that the driver has copied from the host already.
    Upload {
        to: u64,
        bytes: Vec<u8>,
    },
    /// Copies from the host's memory as it is then: it is pinned.
    UploadPinned {
        to: u64,
        from: usize,
        bytes: usize,
    },
    Download {
        to: usize,
        from: u64,
        bytes: usize,
    },
    Copy {
        to: u64,
        from: u64,
        bytes: usize,
    },
    Launch(Launch),
    /// A function of another library, and its data.
    Call {
        function: HostFunction,
        data: usize,
    },
    Wait {
        stream: usize,
        until: u64,
    },
    /// Makes memory of a pool there.
    Allocate {
        at: u64,
    },
    /// Frees it.
    Free {
        at: u64,
    },
}

/// Returns the key of a stream; the default one of a context has a key of its own.
pub(crate) fn stream_key(state: &mut State, stream: *mut c_void) -> Result<usize, Status> {
    let context = state.context()?;
    let key = match stream.addr() {
        0..=2 => current().unwrap_or(0),
        key => key,
    };
    if stream.addr() <= 2 {
        state.streams.entry(key).or_insert_with(|| Stream { context, ..Stream::default() });
    }
    match state.streams.get(&key) {
        Some(stream) if stream.context == context => Ok(key),
        _ => Err(INVALID_HANDLE),
    }
}

impl State {
    pub(crate) fn stream(&mut self, key: usize) -> Result<&mut Stream, Status> {
        self.streams.get_mut(&key).ok_or(INVALID_HANDLE)
    }

    /// Adds an op to a stream.
    pub(crate) fn push(&mut self, key: usize, op: Op) -> Result<(), Status> {
        let stream = self.stream(key)?;
        stream.is_behind_launch = matches!(op, Op::Launch(_));
        stream.ops.push_back(op);
        stream.pushed += 1;
        Ok(())
    }

    /// Runs ops of a stream until so many have run. An op that fails ends the context.
    pub(crate) fn run(&mut self, key: usize, until: u64) -> Result<(), Status> {
        // A stream that was destroyed has run all its ops.
        while let Some(stream) = self.streams.get_mut(&key)
            && stream.done < until
        {
            let context = stream.context;
            let Some(op) = stream.ops.pop_front() else { break };
            stream.done += 1;
            let result = match op {
                Op::Wait { stream, until } => self.run(stream, until),
                op => self.execute(context, op),
            };
            if let Err(status) = result {
                self.contexts[context].ended = Some(status);
                return Err(status);
            }
        }
        Ok(())
    }

    /// Runs everything that a stream has.
    pub(crate) fn finish(&mut self, key: usize) -> Result<(), Status> {
        let until = self.stream(key)?.pushed;
        self.run(key, until)
    }

    /// Runs everything that the streams of a context have.
    pub(crate) fn finish_context(&mut self, context: usize) -> Result<(), Status> {
        let keys: Vec<usize> = self.streams.iter().filter(|(_, s)| s.context == context).map(|(&key, _)| key).collect();
        keys.into_iter().try_for_each(|key| self.finish(key))
    }
}

driver! {
    fn cuStreamCreate(state, stream: *mut *mut c_void, _flags: u32) {
        let context = state.context()?;
        let handle = state.handle();
        state.streams.insert(handle, Stream { context, ..Stream::default() });
        // SAFETY: the caller's memory.
        unsafe { *stream = pointer(handle) };
        Ok(())
    }

    fn cuStreamDestroy_v2(state, stream: *mut c_void) {
        let key = stream_key(state, stream)?;
        state.finish(key)?;
        state.streams.remove(&key).map(drop).ok_or(INVALID_HANDLE)
    }

    fn cuStreamSynchronize(state, stream: *mut c_void) {
        let key = stream_key(state, stream)?;
        state.finish(key)
    }

    fn cuCtxSynchronize(state) {
        let context = state.context()?;
        state.finish_context(context)
    }
}
