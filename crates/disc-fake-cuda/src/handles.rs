//! Holds the state of the driver: devices, contexts, streams, and what threads have current.
use crate::{
    control::Control,
    events::Event,
    graphs::{Graph, Instance},
    modules::{Kernel, Module},
    status::{INVALID_CONTEXT, NOT_INITIALIZED, Status},
    streams::Stream,
};
use disc_ral::{Device, DeviceName, Queue, open_device};
use std::{
    cell::RefCell,
    collections::HashMap,
    ffi::c_void,
    ptr,
    sync::{Arc, LazyLock, Mutex, MutexGuard, PoisonError},
};

/// Everything, under one lock: the fake driver is not fast.
pub(crate) struct State {
    pub(crate) control: Control,
    pub(crate) is_started: bool,
    pub(crate) contexts: Vec<Context>,
    pub(crate) streams: HashMap<usize, Stream>,
    pub(crate) events: HashMap<usize, Event>,
    pub(crate) modules: HashMap<usize, Module>,
    pub(crate) kernels: HashMap<usize, Kernel>,
    pub(crate) graphs: HashMap<usize, Graph>,
    pub(crate) instances: HashMap<usize, Instance>,
    /// Memory of the host that the driver made: address and bytes.
    pub(crate) pinned: HashMap<usize, usize>,
    /// Memory of devices: address, and the context that it belongs to.
    pub(crate) memory: HashMap<u64, (usize, usize)>,
    /// Pools: the context of each.
    pub(crate) pools: HashMap<usize, usize>,
    /// Memory of pools, and true once its stream has come to its allocation.
    pub(crate) pooled: HashMap<u64, bool>,
    /// The report that was written last.
    pub(crate) report: Option<usize>,
    next: usize,
}

/// The primary context of a device.
pub(crate) struct Context {
    pub(crate) device: Arc<dyn Device>,
    pub(crate) queue: Box<dyn Queue>,
    pub(crate) chip: u32,
    /// The failure that ended it.
    pub(crate) ended: Option<Status>,
}

/// Addresses of handles begin here: they are no addresses of anything.
const FIRST: usize = 0x1000;

static STATE: LazyLock<Mutex<State>> = LazyLock::new(|| {
    Mutex::new(State {
        control: Control::default(),
        is_started: false,
        contexts: Vec::new(),
        streams: HashMap::new(),
        events: HashMap::new(),
        modules: HashMap::new(),
        kernels: HashMap::new(),
        graphs: HashMap::new(),
        instances: HashMap::new(),
        pinned: HashMap::new(),
        memory: HashMap::new(),
        pools: HashMap::new(),
        pooled: HashMap::new(),
        report: None,
        next: FIRST,
    })
});

thread_local! {
    /// Handles of the contexts that the thread has pushed, the current one last.
    static CURRENT: RefCell<Vec<usize>> = const { RefCell::new(Vec::new()) };
}

pub(crate) fn state() -> MutexGuard<'static, State> {
    STATE.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Returns what a handle is for callers.
pub(crate) fn pointer(handle: usize) -> *mut c_void {
    ptr::without_provenance_mut(handle)
}

pub(crate) fn current() -> Option<usize> {
    CURRENT.with_borrow(|stack| stack.last().copied())
}

pub(crate) fn push(context: usize) {
    CURRENT.with_borrow_mut(|stack| stack.push(context));
}

pub(crate) fn pop() -> Option<usize> {
    CURRENT.with_borrow_mut(Vec::pop)
}

impl State {
    /// Makes the devices.
    pub(crate) fn start(&mut self) -> Result<(), Status> {
        disc_simt::register();
        let (count, chip) = (self.control.devices(), self.control.chip());
        let name: DeviceName = format!("simt:sm_{chip}").parse().map_err(|_| NOT_INITIALIZED)?;
        for _ in self.contexts.len()..count {
            let device = open_device(&name).map_err(|_| NOT_INITIALIZED)?;
            let queue = device.queue();
            self.contexts.push(Context { device, queue, chip, ended: None });
        }
        self.is_started = true;
        Ok(())
    }

    /// Returns a new handle.
    pub(crate) fn handle(&mut self) -> usize {
        self.next += 16;
        self.next
    }

    /// Returns the number of the thread's current context, which is its device's.
    pub(crate) fn context(&self) -> Result<usize, Status> {
        let handle = current().ok_or(INVALID_CONTEXT)?;
        let number = handle.checked_sub(1).filter(|number| *number < self.contexts.len()).ok_or(INVALID_CONTEXT)?;
        match self.contexts[number].ended {
            Some(status) => Err(status),
            None => Ok(number),
        }
    }
}
