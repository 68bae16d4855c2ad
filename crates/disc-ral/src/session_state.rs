//! Holds the resources of one caller: temporary memory, a queue, and descriptors that are reused.
//!
//! Invariant: between calls a session holds no address of a caller's memory. It may be used with
//! any executable of its device.

use crate::{
    arena::Arena,
    device::{Device, LaunchFailure, Queue},
    error::Error,
    failure::Failure,
    meta::{EntryMeta, ModuleMeta},
    profile::{LaunchObserver, LaunchRecord, Profile},
};
use disc_abi::Tensor;
use std::sync::Arc;

/// The resources of one caller: one call at a time; any number of sessions at once.
pub struct SessionState {
    pub(crate) device: Arc<dyn Device>,
    pub(crate) arena: Arena,
    pub(crate) queue: Box<dyn Queue>,
    pub(crate) profile: Option<Box<Profile>>,
    pub(crate) descriptors: Descriptors,
    pub(crate) nontemporal_bytes: i64,
    /// The module of the last call, on a device that runs beside the host.
    pub(crate) last: Option<Arc<ModuleMeta>>,
}

/// Descriptors of the running call; empty between calls.
#[derive(Default)]
pub(crate) struct Descriptors {
    pub(crate) inputs: Vec<Tensor>,
    pub(crate) outputs: Vec<Tensor>,
    /// The sizes of all outputs, concatenated.
    pub(crate) sizes: Vec<i64>,
}

// SAFETY: the addresses in the descriptors are of the call that is going on, which holds the
// session.
unsafe impl Send for Descriptors {}

impl SessionState {
    /// Makes the resources of one caller on a device.
    pub fn new(device: &Arc<dyn Device>) -> Self {
        Self {
            device: Arc::clone(device),
            arena: Arena::new(Arc::clone(device)),
            queue: device.queue(),
            profile: None,
            descriptors: Descriptors::default(),
            nontemporal_bytes: device.nontemporal_bytes(),
            last: None,
        }
    }

    /// Limits this session's calls to this many threads, the caller's included.
    pub fn limit_threads(&mut self, threads: usize) {
        self.queue.limit_threads(threads);
    }

    /// Runs the calls from now on in a stream of the caller, in the driver's form, after the
    /// earlier calls; `None`: in the session's own. The stream lives as long as the session uses
    /// it. A device without streams ignores it.
    pub fn use_stream(&mut self, stream: Option<usize>) {
        self.queue.use_stream(stream);
    }

    /// Waits until everything that the session launched has ended.
    ///
    /// # Errors
    /// A failure of a call that was not known when it returned.
    pub fn synchronize(&mut self) -> Result<(), Error> {
        self.queue.sync().map_err(|failure| self.late(failure))
    }

    /// Describes a failure of an earlier call.
    pub(crate) fn late(&self, failure: LaunchFailure) -> Error {
        self.found(failure, " (in an earlier call, whose results are not valid)")
    }

    /// Describes a failure that is found when a call waits for its results: it may be that of a
    /// call before it that did not wait.
    pub(crate) fn awaited(&self, failure: LaunchFailure) -> Error {
        self.found(failure, " (in this call, or in one before it that did not wait for its results)")
    }

    fn found(&self, failure: LaunchFailure, whose: &str) -> Error {
        let is_fault = matches!(failure, LaunchFailure::Fault(_));
        let none = ModuleMeta::default();
        let meta = self.last.as_deref().unwrap_or(&none);
        let mut error = Failure::Launch(failure).into_error(meta, &EntryMeta::default());
        if is_fault {
            error.message += whose;
        }
        error
    }

    /// Returns the most threads of a call.
    pub fn thread_limit(&self) -> usize {
        self.queue.thread_limit()
    }

    /// Sets the number of bytes read and written from which a kernel may use non-temporal stores;
    /// 0: never. A new session uses [`Device::nontemporal_bytes`]. No result depends on it.
    pub fn nontemporal_from(&mut self, bytes: i64) {
        self.nontemporal_bytes = bytes;
    }

    /// Times each launch from now on.
    pub fn start_profile(&mut self) {
        self.profile = Some(Box::default());
    }

    /// Times each launch from now on, as [`SessionState::start_profile`] does, and calls `observer`
    /// before and after it.
    pub fn observe(&mut self, observer: Box<dyn LaunchObserver>) {
        self.profile = Some(Box::new(Profile::observed(observer)));
    }

    /// Stops the profile. Returns the launches since it began.
    pub fn take_profile(&mut self) -> Vec<LaunchRecord> {
        self.profile.take().map(|profile| profile.records).unwrap_or_default()
    }

    /// Returns the bytes of temporary memory that the session holds now, kernel scratch included.
    pub fn held_bytes(&self) -> usize {
        self.arena.capacity() + self.queue.scratch_bytes()
    }

    /// Most bytes of temporary memory that one call had in use at once.
    pub fn peak_arena_bytes(&self) -> usize {
        self.arena.peak()
    }
}

impl Descriptors {
    pub(crate) fn clear(&mut self) {
        self.inputs.clear();
        self.outputs.clear();
        self.sizes.clear();
    }
}
