//! Implements launches: the simulated GPU runs the kernel's own text.
use crate::{
    driver::driver,
    handles::State,
    memory::broken,
    modules::Kernel,
    status::{INVALID_VALUE, Status},
    streams::{Op, stream_key},
};
use disc_abi::GridLaunch;
use disc_ral::{Fault, GridCall, LaunchFailure};
use std::{ffi::c_void, ptr};

/// One launch, with a copy of its parameters.
#[derive(Clone)]
pub(crate) struct Launch {
    kernel: Kernel,
    words: Vec<u64>,
    grid: GridLaunch,
    /// The address of the report, if the kernel may fail.
    report: Option<u64>,
}

/// The options of a launch that gives its parameters as one buffer.
const PARAMETERS: usize = 1;
const PARAMETERS_BYTES: usize = 2;

/// The block and grid of a launch.
pub(crate) struct Shape {
    pub(crate) blocks: [u32; 3],
    pub(crate) threads: [u32; 3],
    pub(crate) shared: u32,
}

impl Launch {
    /// Returns the context of its kernel.
    pub(crate) fn context(&self) -> usize {
        self.kernel.context
    }

    /// Returns the words of its parameters.
    pub(crate) fn words(&self) -> &[u64] {
        &self.words
    }

    /// Reads the parameters of a launch.
    ///
    /// # Safety
    /// `extra` is a list of options as the driver takes it.
    pub(crate) unsafe fn new(kernel: Kernel, shape: &Shape, extra: *const *mut c_void) -> Result<Self, Status> {
        // SAFETY: the caller's promise.
        let mut words = unsafe { parameters(extra) }.ok_or(INVALID_VALUE)?;
        let is_line = shape.blocks[1..] == [1, 1] && shape.threads[1..] == [1, 1];
        if words.len() != kernel.parameters || !is_line || shape.blocks[0] == 0 {
            return Err(INVALID_VALUE);
        }
        let report = if kernel.may_fail { words.pop() } else { None };
        let scratch = if kernel.has_task_memory { words.pop().unwrap_or(0) } else { 0 };
        if kernel.has_task_memory {
            // The simulated GPU has memory of its own for threads.
            words.pop();
        }
        let (blocks, shared) = (i64::from(shape.blocks[0]), i64::from(shape.shared));
        let grid = GridLaunch { blocks, shared, scratch: scratch as i64, threads: shape.threads[0], flags: 0 };
        Ok(Self { kernel, words, grid, report })
    }
}

/// Copies the words of a launch's parameters.
///
/// # Safety
/// As [`Launch::new`].
unsafe fn parameters(extra: *const *mut c_void) -> Option<Vec<u64>> {
    if extra.is_null() {
        return None;
    }
    let (mut words, mut bytes) = (ptr::null::<u64>(), 0);
    // SAFETY: pairs of an option and its value, up to a null.
    unsafe {
        let mut at = extra;
        while !(*at).is_null() {
            let value = *at.add(1);
            match (*at).addr() {
                PARAMETERS => words = value.cast(),
                PARAMETERS_BYTES => bytes = *value.cast::<usize>(),
                _ => return None,
            }
            at = at.add(2);
        }
        (bytes % 8 == 0 && (bytes == 0 || !words.is_null()))
            .then(|| if bytes == 0 { Vec::new() } else { std::slice::from_raw_parts(words, bytes / 8).to_vec() })
    }
}

impl State {
    /// Returns true if an assertion has failed, and nobody has cleared its report.
    pub(crate) fn is_reported(&self) -> bool {
        let alive = self.report.filter(|at| self.pinned.contains_key(at));
        // SAFETY: memory that the driver made.
        alive.is_some_and(|at| unsafe { *ptr::with_exposed_provenance::<u64>(at) != 0 })
    }

    /// Runs a launch. A failed assertion is written to its report, as the kernel would.
    pub(crate) fn launch(&mut self, context: usize, launch: &Launch) -> Result<(), Status> {
        let Launch { kernel, words, grid, report } = launch;
        let queue = &mut self.contexts[context].queue;
        let call = GridCall { kernel: 0, args: words, grid: *grid };
        // SAFETY: the simulated GPU checks what the kernel does.
        let ran = unsafe { queue.launch_grid(&kernel.kernels, &call) }.and_then(|()| queue.sync());
        match (ran, report) {
            (Ok(()), _) => Ok(()),
            (Err(LaunchFailure::Fault(fault)), Some(at)) => {
                // SAFETY: memory of the host that the launch names as its report.
                unsafe { report_to(ptr::with_exposed_provenance_mut(*at as usize), &fault) };
                self.report = Some(*at as usize);
                Ok(())
            }
            (Err(failure), _) => Err(broken(&failure)),
        }
    }
}

/// Writes a failure, if it is the first one.
///
/// # Safety
/// `words` has room for a site and its values.
unsafe fn report_to(words: *mut u64, fault: &Fault) {
    // SAFETY: the caller's promise.
    unsafe {
        if *words == 0 {
            *words = fault.status as u64;
            (1..).zip(fault.values).for_each(|(at, value)| *words.add(at) = value as u64);
        }
    }
}

/// The way a kernel is launched, as the driver's header has it.
#[repr(C)]
pub struct LaunchConfig {
    blocks: [u32; 3],
    threads: [u32; 3],
    shared: u32,
    stream: *mut c_void,
    attributes: *const LaunchAttribute,
    count: u32,
}

/// An attribute of a launch, as the driver's header has it.
#[repr(C)]
pub struct LaunchAttribute {
    name: u32,
    pad: [u8; 4],
    value: i32,
    rest: [u8; 60],
}

/// The attribute of launches that may begin while the one before runs.
const BEGINS_EARLY: u32 = 6;

driver! {
    fn cuLaunchKernelEx(state, config: *const LaunchConfig, function: *mut c_void, parameters: *mut *mut c_void,
        extra: *mut *mut c_void) {
        // SAFETY: the caller's launch.
        let LaunchConfig { blocks, threads, shared, stream, attributes, count } = unsafe { config.read() };
        let kernel = state.kernel(function)?;
        let key = stream_key(state, stream)?;
        for number in 0..count as usize {
            // SAFETY: as above: so many attributes.
            let LaunchAttribute { name, value, .. } = unsafe { attributes.add(number).read() };
            let is_behind_launch = state.stream(key)?.is_behind_launch;
            if name != BEGINS_EARLY || value != 1 || !kernel.waits || !is_behind_launch {
                eprintln!("fake CUDA driver: attribute {name} of a launch, waits {}, {is_behind_launch}", kernel.waits);
                return Err(INVALID_VALUE);
            }
        }
        if !parameters.is_null() {
            return Err(INVALID_VALUE);
        }
        // SAFETY: the caller's options.
        let launch = unsafe { Launch::new(kernel, &Shape { blocks, threads, shared }, extra) }?;
        state.push(key, Op::Launch(launch))
    }

    fn cuLaunchKernel(state, function: *mut c_void, blocks_x: u32, blocks_y: u32, blocks_z: u32, threads_x: u32,
        threads_y: u32, threads_z: u32, shared: u32, stream: *mut c_void, parameters: *mut *mut c_void,
        extra: *mut *mut c_void) {
        let kernel = state.kernel(function)?;
        let key = stream_key(state, stream)?;
        if !parameters.is_null() {
            return Err(INVALID_VALUE);
        }
        let shape = Shape { blocks: [blocks_x, blocks_y, blocks_z], threads: [threads_x, threads_y, threads_z], shared };
        // SAFETY: the caller's options.
        let launch = unsafe { Launch::new(kernel, &shape, extra) }?;
        state.push(key, Op::Launch(launch))
    }
}
