//! Implements a queue: a stream of a GPU, with a report of failed assertions.
//!
//! Invariants:
//! - a launch waits for nothing, and may be left pending until the call ends (`graphs`); `sync`,
//!   `download` and `fetch` wait for the stream, `upload` does where it has no pinned memory;
//! - a stream that the queue is moved to begins after everything that the queue has launched;
//! - a library's matmul or convolution is in the stream as a launch is;
//! - an assertion that failed is reported once: by whichever call waits first, or by the next one.

use super::{
    context::{Gpu, NO_TIMING, NON_BLOCKING},
    cublas_lt, cudnn,
    driver::CudaError,
    graphs::{Graphs, Ready},
    kernels::{CudaKernel, CudaKernels, Loaded},
    memory,
    overlap::{self, Last},
    pinned::Pinned,
    report::{Report, SCALARS},
    stream_memory::{KeptMemory, StreamMemory},
};
use crate::{
    device::{GridCall, Kernels, LaunchFailure, Queue, QueueMemory},
    error::AllocError,
};
use cudarc::driver::sys::{CUdeviceptr, CUevent, CUstream};
use disc_abi::{GRID_PERSISTENT, LibraryConvolution, LibraryGemm};
use smallvec::SmallVec;
use std::{
    ffi::c_int,
    ptr,
    sync::{Arc, LazyLock},
};

/// Most blocks of a launch.
const MOST_BLOCKS: i64 = i32::MAX as i64;

/// One session's stream.
pub(super) struct CudaQueue {
    gpu: Arc<Gpu>,
    opened: Option<Opened>,
    /// The caller's stream that the next launches go to; `None`: the queue's own.
    wanted: Option<CUstream>,
}

// SAFETY: a stream may be used by any thread; a queue is used by one at a time.
unsafe impl Send for CudaQueue {}

/// The parts that need the driver: made by the first op.
struct Opened {
    gpu: Arc<Gpu>,
    own: CUstream,
    /// The stream that launches go to.
    stream: CUstream,
    /// Orders streams.
    event: CUevent,
    report: Report,
    /// Allocates in the order of the stream, if the GPU has a pool.
    memory: Option<Arc<StreamMemory>>,
    /// Memory of the threads of persistent kernels.
    scratch: Option<KeptMemory>,
    graphs: Graphs,
    /// The last op of the stream, pending launches aside.
    last: Last,
    pinned: Pinned,
    /// Memory that libraries work in.
    workspace: Option<KeptMemory>,
}

impl CudaQueue {
    pub(super) fn new(gpu: Arc<Gpu>) -> Self {
        Self { gpu, opened: None, wanted: None }
    }

    /// Returns the parts, with launches on the wanted stream.
    fn opened(&mut self) -> Result<&mut Opened, LaunchFailure> {
        if self.opened.is_none() {
            self.opened = Some(Opened::new(&self.gpu).map_err(failed)?);
        }
        let opened = self.opened.as_mut().expect("opened above");
        let stream = self.wanted.unwrap_or(opened.own);
        if stream != opened.stream {
            opened.move_to(stream).map_err(failed)?;
        }
        Ok(opened)
    }
}

impl Opened {
    fn new(gpu: &Arc<Gpu>) -> Result<Self, CudaError> {
        let report = Report::new(gpu)?;
        let (mut own, mut event) = (ptr::null_mut(), ptr::null_mut());
        gpu.call(|driver| {
            // SAFETY: each writes one handle.
            unsafe {
                driver.create_stream(&mut own, NON_BLOCKING)?;
                let made = driver.create_event(&mut event, NO_TIMING);
                if made.is_err() {
                    // What failed is reported, not this.
                    let _ = driver.destroy_stream(own);
                }
                made
            }
        })?;
        let (graphs, pinned) = (Graphs::default(), Pinned::new(gpu));
        let (gpu, memory) = (Arc::clone(gpu), StreamMemory::new(gpu, own, event));
        Ok(Self {
            gpu,
            own,
            stream: own,
            event,
            report,
            memory,
            scratch: None,
            graphs,
            last: Last::Other,
            pinned,
            workspace: None,
        })
    }

    /// Lets later launches go to another stream.
    fn move_to(&mut self, stream: CUstream) -> Result<(), CudaError> {
        self.gpu.call(|driver| {
            // SAFETY: an event of this queue; a stream of its own, or of the caller.
            unsafe {
                driver.record_event(self.event, self.stream)?;
                driver.wait_for_event(stream, self.event, 0)
            }
        })?;
        (self.stream, self.last) = (stream, Last::Other);
        if let Some(memory) = &self.memory {
            memory.move_to(stream);
        }
        Ok(())
    }

    /// Makes launches that are pending: something runs after them.
    fn flush(&mut self) -> Result<(), LaunchFailure> {
        self.graphs.flush(&self.gpu, self.stream, &mut self.last).map_err(failed)
    }

    /// Makes launches that are pending, before something that is no launch.
    fn flush_for_other(&mut self) -> Result<(), LaunchFailure> {
        let flushed = self.flush();
        self.last = Last::Other;
        flushed
    }

    /// Waits for everything launched. Returns the failure of an assertion.
    fn wait(&mut self) -> Result<(), LaunchFailure> {
        self.flush()?;
        self.synchronize()?;
        self.report.take().map_or(Ok(()), |fault| Err(LaunchFailure::Fault(fault)))
    }

    /// Waits for the stream.
    fn synchronize(&mut self) -> Result<(), LaunchFailure> {
        // SAFETY: a stream of the queue, or of the caller.
        let waited = self.gpu.call(|driver| unsafe { driver.synchronize_stream(self.stream) });
        match &waited {
            Ok(()) => self.pinned.waited(),
            Err(_) => self.pinned.give_up(),
        }
        waited.map_err(failed)
    }

    /// Copies to the device.
    ///
    /// # Safety
    /// Both ranges are valid for `bytes`.
    unsafe fn upload(&mut self, to: CUdeviceptr, from: *const u8, bytes: usize) -> Result<(), LaunchFailure> {
        self.flush_for_other()?;
        // SAFETY: the caller's ranges.
        if unsafe { self.pinned.upload(to, from, bytes, self.stream) }.map_err(failed)? {
            return Ok(());
        }
        // SAFETY: as above.
        self.gpu.call(|driver| unsafe { driver.upload(to, from.cast(), bytes, self.stream) }).map_err(failed)?;
        // The driver reads memory that the caller has pinned later.
        self.synchronize()
    }

    /// Copies from the device, and waits for it.
    ///
    /// # Safety
    /// Both ranges are valid for `bytes`.
    unsafe fn download(&mut self, to: *mut u8, from: CUdeviceptr, bytes: usize) -> Result<(), LaunchFailure> {
        self.flush_for_other()?;
        // SAFETY: the caller's ranges.
        match unsafe { self.pinned.download(to, from, bytes, self.stream) } {
            Ok(Some(last)) => {
                self.wait()?;
                // SAFETY: the stream has been waited for.
                unsafe { last.land() };
                Ok(())
            }
            Ok(None) => {
                let stream = self.stream;
                // SAFETY: as above, the host's until the stream has ended.
                self.gpu.call(|driver| unsafe { driver.download(to.cast(), from, bytes, stream) }).map_err(failed)?;
                self.wait()
            }
            Err(error) => {
                // Parts that are under way end before the blocks are used again.
                let _ = self.synchronize();
                Err(failed(error))
            }
        }
    }

    /// Copies scalars from the device, and waits for all of them at once.
    ///
    /// # Safety
    /// The words are addresses of scalars of these bytes, at most 8.
    unsafe fn fetch(&mut self, words: &mut [u64], sizes: &[i64]) -> Result<(), LaunchFailure> {
        self.flush_for_other()?;
        for (words, sizes) in words.chunks_mut(SCALARS).zip(sizes.chunks(SCALARS)) {
            let (report, stream) = (&self.report, self.stream);
            let copied = self.gpu.call(|driver| {
                (0..).zip(&*words).zip(sizes).try_for_each(|((number, &from), &bytes)| {
                    // SAFETY: the caller's scalars; the report has room for as many.
                    unsafe { driver.download(report.scalar(number).cast(), from, bytes as usize, stream) }
                })
            });
            copied.map_err(failed)?;
            self.wait()?;
            for ((number, word), &bytes) in (0..).zip(words).zip(sizes) {
                // SAFETY: a word of the report.
                let found = unsafe { self.report.scalar(number).read_volatile() }.to_le_bytes();
                let mut value = [0; 8];
                value[..bytes as usize].copy_from_slice(&found[..bytes as usize]);
                *word = u64::from_le_bytes(value);
            }
        }
        Ok(())
    }

    fn launch(&mut self, kernels: &CudaKernels, launch: &GridCall<'_>) -> Result<(), LaunchFailure> {
        let Some(kernel) = kernels.get(launch.kernel, &self.gpu) else {
            return Err(LaunchFailure::Device(format!("kernel {} is none of this device", launch.kernel)));
        };
        let grid = launch.grid;
        if grid.blocks <= 0 {
            return Ok(());
        }
        let loaded = kernel.loaded(&self.gpu).map_err(failed)?;
        let shared = if kernel.ptx.is_sized_at_launch { grid.shared.max(0) } else { 0 };
        let refused = |what: String| Err(LaunchFailure::Device(format!("kernel @{}: {what}", kernel.ptx.name)));
        if shared > self.gpu.most_shared {
            return refused(format!("{shared} bytes that a block shares, the device has {}", self.gpu.most_shared));
        }
        let is_persistent = grid.flags & GRID_PERSISTENT != 0;
        let resident =
            if is_persistent { self.resident_blocks(kernel, loaded, grid.threads, shared).map_err(failed)? } else { i64::MAX };
        let blocks = grid.blocks.min(resident);
        if blocks > MOST_BLOCKS {
            return refused(format!("{blocks} blocks, {MOST_BLOCKS} are the most of a launch"));
        }
        let mut words = SmallVec::from_slice(launch.args);
        // disc-llvm's `lower/grid.rs` says which parameters a kernel has after its words.
        let added = kernel.ptx.parameters.checked_sub(launch.args.len()).filter(|added| *added <= 3);
        let Some(added) = added else {
            return refused(format!("{} words for {} parameters", launch.args.len(), kernel.ptx.parameters));
        };
        if added >= 2 {
            let bytes = blocks.checked_mul(grid.threads.into()).and_then(|threads| threads.checked_mul(grid.scratch.max(8)));
            let bytes = bytes.ok_or(LaunchFailure::Scratch { bytes: grid.scratch, cause: AllocError::Size })?;
            let at = self.task_memory(bytes)?;
            words.extend([at, grid.scratch.max(8) as u64]);
        }
        if added % 2 == 1 {
            words.push(self.report.address);
        }
        let waits = kernel.ptx.waits && self.gpu.has_launch_attributes && overlap::is_wanted();
        let ready = Ready { loaded, blocks: blocks as u32, threads: grid.threads, shared: shared as u32, words, waits };
        if self.memory.as_ref().is_some_and(|memory| memory.take_ops()) {
            self.last = Last::Other;
        }
        let (stream, last) = (self.stream, &mut self.last);
        match self.graphs.keep(ready) {
            Some(ready) => self.gpu.call(|driver| ready.start(driver, stream, last)).map_err(failed),
            None => Ok(()),
        }
    }

    /// Returns how many blocks of a kernel the device runs at once.
    fn resident_blocks(&self, kernel: &CudaKernel, loaded: Loaded, threads: u32, shared: i64) -> Result<i64, CudaError> {
        if let Some(&blocks) = kernel.resident.get() {
            return Ok(blocks);
        }
        let mut blocks: c_int = 0;
        self.gpu.call(|driver| {
            // SAFETY: writes one number.
            unsafe { driver.blocks_of_processor(&mut blocks, loaded.function, threads as c_int, shared as usize) }
        })?;
        let blocks = i64::from(blocks.max(1)) * i64::from(self.gpu.processors);
        // The number depends on what blocks share, which may differ from launch to launch.
        Ok(if kernel.ptx.is_sized_at_launch { blocks } else { *kernel.resident.get_or_init(|| blocks) })
    }

    /// Returns memory for the threads of a launch, which later launches of the queue use too.
    fn task_memory(&mut self, bytes: i64) -> Result<CUdeviceptr, LaunchFailure> {
        let needed = usize::try_from(bytes).unwrap_or(usize::MAX);
        if let Some(scratch) = self.scratch.as_ref().filter(|scratch| scratch.bytes >= needed) {
            return Ok(scratch.at);
        }
        self.flush_for_other()?;
        self.scratch = None;
        let made = KeptMemory::new(&self.gpu, self.ordered_memory(), needed);
        let made = made.map_err(|cause| LaunchFailure::Scratch { bytes, cause })?;
        Ok(self.scratch.insert(made).at)
    }

    /// Returns the memory in the order of the stream: none where a framework gives memory, or where
    /// launches become a graph of the caller's.
    fn ordered_memory(&self) -> Option<Arc<StreamMemory>> {
        self.memory.clone().filter(|memory| !memory::is_lent() && !memory.is_captured())
    }

    /// Offers a matmul to cuBLASLt. Returns true if it is in the stream.
    fn library_gemm(&mut self, gemm: &LibraryGemm) -> Result<bool, LaunchFailure> {
        let (Some(shape), gpu) = (cublas_lt::Shape::of(gemm), Arc::clone(&self.gpu)) else { return Ok(false) };
        let Ok(library) = gpu.cublas_lt() else { return Ok(false) };
        let Some(plan) = library.plan(&gpu, &shape).map_err(failed)? else { return Ok(false) };
        let Some(workspace) = self.workspace(plan.workspace())? else { return Ok(false) };
        library.run(&gpu, &plan, gemm, workspace, self.stream).map_err(failed)
    }

    /// Offers a convolution to cuDNN. Returns true if it is in the stream.
    fn library_convolution(&mut self, convolution: &LibraryConvolution) -> Result<bool, LaunchFailure> {
        let (Some(shape), gpu) = (cudnn::Shape::of(convolution), Arc::clone(&self.gpu)) else { return Ok(false) };
        let Ok(library) = gpu.cudnn() else { return Ok(false) };
        let Some(plan) = library.plan(&gpu, &shape).map_err(failed)? else { return Ok(false) };
        let Some(workspace) = self.workspace(plan.workspace())? else { return Ok(false) };
        library.run(&gpu, &plan, convolution, workspace, self.stream).map_err(failed)
    }

    /// Returns memory for a library to work in, and its bytes, once all launches before are in the
    /// stream; `None` if there is not as much.
    fn workspace(&mut self, needed: usize) -> Result<Option<(CUdeviceptr, usize)>, LaunchFailure> {
        self.flush_for_other()?;
        let held = |this: &Self| this.workspace.as_ref().map_or((0, 0), |workspace| (workspace.at, workspace.bytes));
        if held(self).1 < needed {
            self.workspace = None;
            // Another algorithm would need less, and round otherwise: kernels have the rest.
            let Ok(made) = KeptMemory::new(&self.gpu, self.ordered_memory(), needed) else { return Ok(None) };
            self.workspace = Some(made);
        }
        Ok(Some(held(self)))
    }
}

impl Drop for Opened {
    fn drop(&mut self) {
        // The report and the memory of threads may be in use by what still runs.
        let _ = self.wait();
        (self.scratch, self.workspace) = (None, None);
        if let Some(memory) = &self.memory {
            memory.close();
        }
        let (event, own) = (self.event, self.own);
        // SAFETY: handles of this queue, which has waited.
        let _ = self.gpu.call(|driver| unsafe {
            driver.destroy_event(event)?;
            driver.destroy_stream(own)
        });
    }
}

impl Queue for CudaQueue {
    unsafe fn copy(&mut self, to: *mut u8, from: *const u8, bytes: usize) -> Result<(), LaunchFailure> {
        if bytes == 0 {
            return Ok(());
        }
        let opened = self.opened()?;
        opened.flush_for_other()?;
        let Opened { gpu, stream, .. } = opened;
        // SAFETY: the caller's ranges.
        gpu.call(|driver| unsafe { driver.copy(address(to), address(from), bytes, *stream) }).map_err(failed)
    }

    unsafe fn launch_grid(&mut self, kernels: &Kernels, launch: &GridCall<'_>) -> Result<(), LaunchFailure> {
        let kernels = kernels.downcast_ref::<CudaKernels>();
        let kernels = kernels.ok_or_else(|| LaunchFailure::Device("kernels of another device".into()))?;
        self.opened()?.launch(kernels, launch)
    }

    unsafe fn library_gemm(&mut self, gemm: &LibraryGemm) -> Result<bool, LaunchFailure> {
        self.opened()?.library_gemm(gemm)
    }

    unsafe fn library_convolution(&mut self, convolution: &LibraryConvolution) -> Result<bool, LaunchFailure> {
        self.opened()?.library_convolution(convolution)
    }

    unsafe fn upload(&mut self, to: *mut u8, from: *const u8, bytes: usize) -> Result<(), LaunchFailure> {
        match bytes {
            0 => Ok(()),
            // SAFETY: the caller's ranges.
            _ => unsafe { self.opened()?.upload(address(to), from, bytes) },
        }
    }

    unsafe fn download(&mut self, to: *mut u8, from: *const u8, bytes: usize) -> Result<(), LaunchFailure> {
        let opened = self.opened()?;
        match bytes {
            0 => opened.wait(),
            // SAFETY: the caller's ranges.
            _ => unsafe { opened.download(to, address(from), bytes) },
        }
    }

    unsafe fn fetch(&mut self, words: &mut [u64], sizes: &[i64]) -> Result<(), LaunchFailure> {
        // SAFETY: the caller's scalars.
        unsafe { self.opened()?.fetch(words, sizes) }
    }

    fn sync(&mut self) -> Result<(), LaunchFailure> {
        self.opened.as_mut().map_or(Ok(()), Opened::wait)
    }

    fn begin(&mut self, kind: u64) -> Result<(), LaunchFailure> {
        let opened = self.opened()?;
        if opened.report.has_failure() {
            opened.wait()?;
        }
        // Since the last call others may have used the stream.
        opened.last = Last::Other;
        if graphs_are_wanted() {
            opened.graphs.begin(kind);
        }
        Ok(())
    }

    fn finish(&mut self) -> Result<(), LaunchFailure> {
        match &mut self.opened {
            Some(opened) => opened.graphs.finish(&opened.gpu, opened.stream, &mut opened.last).map_err(failed),
            None => Ok(()),
        }
    }

    fn flush(&mut self) -> Result<(), LaunchFailure> {
        // Memory may be allocated or freed after it.
        self.opened.as_mut().map_or(Ok(()), Opened::flush_for_other)
    }

    fn use_stream(&mut self, stream: Option<usize>) {
        self.wanted = stream.map(ptr::with_exposed_provenance_mut);
    }

    fn scratch_bytes(&self) -> usize {
        let bytes = |memory: &Option<KeptMemory>| memory.as_ref().map_or(0, |memory| memory.bytes);
        self.opened.as_ref().map_or(0, |opened| bytes(&opened.scratch) + bytes(&opened.workspace))
    }

    fn memory(&mut self) -> Result<Option<Arc<dyn QueueMemory>>, LaunchFailure> {
        if memory::is_lent() {
            return Ok(None);
        }
        Ok(self.opened()?.ordered_memory().map(|memory| memory as Arc<dyn QueueMemory>))
    }
}

/// Returns true unless `DISC_CUDA_GRAPHS=0` says that launches are made one by one.
fn graphs_are_wanted() -> bool {
    static WANTED: LazyLock<bool> = LazyLock::new(|| std::env::var_os("DISC_CUDA_GRAPHS").is_none_or(|value| value != "0"));
    *WANTED
}

fn address<T>(at: *const T) -> CUdeviceptr {
    at.expose_provenance() as CUdeviceptr
}

fn failed(error: CudaError) -> LaunchFailure {
    LaunchFailure::Driver(error.to_string())
}
