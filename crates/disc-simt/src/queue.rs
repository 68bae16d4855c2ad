//! Implements a queue: launches run at once, on the thread that asks for them.
//!
//! Invariant: after a launch with a failed assertion nothing runs until the failure was reported,
//! by `sync` or `download`.
use crate::{
    counters,
    device::{Programs, State},
    memory::Memory,
    run::Launch as GridRun,
};
use disc_ral::{AllocError, GridCall, Kernels, LaunchFailure, Queue};
use std::sync::{Arc, PoisonError, RwLockReadGuard, atomic::Ordering};

/// Most bytes of scratch of a thread: those of the chips' local memory.
const MOST_SCRATCH: i64 = 512 << 10;
/// Numbers of runs, which the shadow keeps in 32 bits.
const MOST_RUNS: u64 = u32::MAX as u64;

pub(crate) struct SimtQueue {
    state: Arc<State>,
    failed: Option<LaunchFailure>,
}

impl SimtQueue {
    pub(crate) fn new(state: Arc<State>) -> Self {
        Self { state, failed: None }
    }

    fn memory(&self) -> Result<&Memory, LaunchFailure> {
        let missing = || LaunchFailure::Scratch { bytes: 0, cause: AllocError::System };
        self.state.memory.as_ref().ok_or_else(missing)
    }

    /// Finds the range of an allocation that an address of the device starts.
    fn range(&self, at: *const u8, bytes: usize, what: &str) -> Result<(&Memory, u64), LaunchFailure> {
        let memory = self.memory()?;
        let address = at.addr() as u64;
        let (offset, range) = memory.allocation(address).ok_or_else(|| {
            LaunchFailure::Device(format!("{what} {bytes} bytes at {address:#x}, which is no memory of the device"))
        })?;
        let has = range.end - offset;
        match bytes as u64 <= has {
            true => Ok((memory, offset)),
            false => Err(LaunchFailure::Device(format!("{what} {bytes} bytes where the device's memory has {has}"))),
        }
    }

    fn run(&self, programs: &Programs, launch: &GridCall<'_>) -> Result<Option<LaunchFailure>, String> {
        let (chip, grid) = (self.state.chip, launch.grid);
        let program = programs.0.get(launch.kernel as usize);
        let program = program.ok_or_else(|| format!("a launch of kernel {}, there are {}", launch.kernel, programs.0.len()))?;
        let name = &program.name;
        if grid.threads != program.threads {
            return Err(format!("kernel @{name} has blocks of {} threads, its launch {}", program.threads, grid.threads));
        }
        if grid.scratch > MOST_SCRATCH {
            return Err(format!("kernel @{name} asks for {} bytes of each thread, {MOST_SCRATCH} are the most", grid.scratch));
        }
        let memory = self.state.memory.as_ref().ok_or("there is no memory")?;
        let run = GridRun { program, memory, chip, words: launch.args, grid };
        let blocks = run.blocks();
        if blocks == 0 {
            return Ok(None);
        }
        if blocks >= 1 << 31 {
            return Err(format!("kernel @{name} is launched with {blocks} blocks"));
        }
        let (_running, first) = self.state.begin(memory, blocks as u64 + 1);
        let ended = run.run(first)?;
        counters::record(&ended.counters);
        Ok(ended.fault.map(LaunchFailure::Fault))
    }
}

impl Queue for SimtQueue {
    unsafe fn copy(&mut self, to: *mut u8, from: *const u8, bytes: usize) -> Result<(), LaunchFailure> {
        if bytes == 0 || self.failed.is_some() {
            return Ok(());
        }
        let (memory, source) = self.range(from, bytes, "a copy of")?;
        let (_, target) = self.range(to, bytes, "a copy to")?;
        // SAFETY: both ranges are in allocations.
        unsafe { memory.at(source).copy_to(memory.at(target), bytes) };
        memory.cells().copy_marks(target, source, bytes as u64);
        Ok(())
    }

    unsafe fn launch_grid(&mut self, kernels: &Kernels, launch: &GridCall<'_>) -> Result<(), LaunchFailure> {
        if self.failed.is_some() {
            return Ok(());
        }
        let programs = kernels.downcast_ref::<Programs>();
        let programs = programs.ok_or_else(|| LaunchFailure::Device("kernels of another device".into()))?;
        self.failed = self.run(programs, launch).map_err(LaunchFailure::Device)?;
        Ok(())
    }

    unsafe fn upload(&mut self, to: *mut u8, from: *const u8, bytes: usize) -> Result<(), LaunchFailure> {
        if bytes == 0 {
            return Ok(());
        }
        let (memory, target) = self.range(to, bytes, "an upload of")?;
        // SAFETY: the caller's range, and an allocation.
        unsafe { from.copy_to_nonoverlapping(memory.at(target), bytes) };
        memory.cells().mark(target, bytes as u64);
        Ok(())
    }

    unsafe fn download(&mut self, to: *mut u8, from: *const u8, bytes: usize) -> Result<(), LaunchFailure> {
        self.sync()?;
        if bytes == 0 {
            return Ok(());
        }
        let (memory, source) = self.range(from, bytes, "a download of")?;
        if let Some(byte) = memory.cells().unwritten(source, bytes as u64) {
            let at = byte - source;
            return Err(LaunchFailure::Device(format!("byte {at} of {bytes} that are downloaded was never written")));
        }
        // SAFETY: an allocation, and the caller's range.
        unsafe { memory.at(source).copy_to_nonoverlapping(to, bytes) };
        Ok(())
    }

    fn sync(&mut self) -> Result<(), LaunchFailure> {
        self.failed.take().map_or(Ok(()), Err)
    }

    fn scratch_bytes(&self) -> usize {
        0
    }
}

impl State {
    /// Gives a launch numbers for its runs, from the first one on. It holds the guard meanwhile.
    fn begin(&self, memory: &Memory, runs: u64) -> (RwLockReadGuard<'_, ()>, u32) {
        loop {
            let running = self.running.read().unwrap_or_else(PoisonError::into_inner);
            let first = self.next_run.fetch_add(runs, Ordering::Relaxed);
            if let Ok(first) = u32::try_from(first)
                && u64::from(first) + runs <= MOST_RUNS
            {
                return (running, first);
            }
            drop(running);
            let _alone = self.running.write().unwrap_or_else(PoisonError::into_inner);
            if self.next_run.load(Ordering::Relaxed) + runs > MOST_RUNS {
                memory.forget_accesses();
                self.next_run.store(1, Ordering::Relaxed);
            }
        }
    }
}
