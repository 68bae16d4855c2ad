//! Declares the interface of a device to the rest of the runtime. `cpu` and `cuda` implement it,
//! and crates above this one may (`disc-simt`); nothing outside a device's own module assumes one.
//!
//! A device is shared by all sessions; a [`Queue`] is one session's access to it (on the CPU a
//! thread limit and scratch, on a GPU a stream). Kernels are of two kinds: those of a CPU run by
//! units of work ([`Queue::launch`]), those of a GPU on a grid of threads, from an [`Image`] that
//! the device has loaded. Invariant: a queue is used by one thread at a time.

use crate::error::{AllocError, Error, code};
use disc_abi::{GridLaunch, KERNEL_VALUES, KernelHandle, LibraryConvolution, LibraryGemm};
use std::{
    any::Any,
    ptr::{self, NonNull},
    sync::Arc,
};

/// A kind of memory and the processors that work on it.
pub trait Device: Send + Sync {
    /// Returns the number in [`disc_abi::Tensor::device`].
    fn kind(&self) -> u8;

    /// Returns the name for messages and reports.
    fn name(&self) -> &'static str;

    /// Returns the chip that kernels are made for, as its maker's compilers name it; `None` for the
    /// host's processors.
    fn chip(&self) -> Option<String> {
        None
    }

    /// Returns how well code for a target such as `nvptx:sm_90` suits the device, as a number to
    /// compare with those of other targets; `None` if it does not run there.
    fn suits(&self, target: &str) -> Option<u32> {
        (target == self.name()).then_some(0)
    }

    /// Allocates memory aligned to at least [`disc_abi::ALIGN`]; `bytes` is positive.
    fn alloc(&self, bytes: usize) -> Result<NonNull<u8>, AllocError>;

    /// Frees memory.
    ///
    /// # Safety
    /// `at` came from `alloc(bytes)` of this device, once, and nothing uses it any more.
    unsafe fn free(&self, at: NonNull<u8>, bytes: usize);

    /// Returns the bytes that a kernel must read and write before it may use non-temporal stores;
    /// 0: never.
    fn nontemporal_bytes(&self) -> i64;

    /// Opens a queue with the device's default limit.
    fn queue(&self) -> Box<dyn Queue>;

    /// Returns the name and version of the library that computes matmuls in memory of this device.
    ///
    /// # Errors
    /// The reason that there is none.
    fn gemm_library(&self) -> Result<String, String> {
        Err(format!("the device `{}` has none", self.name()))
    }

    /// Returns the name and version of the library that computes convolutions in memory of this
    /// device.
    ///
    /// # Errors
    /// The reason that there is none.
    fn convolution_library(&self) -> Result<String, String> {
        Err(format!("the device `{}` has none", self.name()))
    }

    /// Returns when everything that anybody has launched on the device has ended.
    ///
    /// # Errors
    /// The driver of the device fails.
    fn synchronize(&self) -> Result<(), LaunchFailure> {
        Ok(())
    }

    /// Loads GPU kernels. The result is for launches on queues of this device.
    ///
    /// # Errors
    /// A device that runs none, or kernels for another one.
    fn load(&self, image: &Image) -> Result<Kernels, Error> {
        Err(Error::new(code::LOAD, "", format!("code for `{}` cannot run on the device `{}`", image.target, self.name())))
    }
}

/// GPU kernels that a device has loaded.
pub type Kernels = Arc<dyn Any + Send + Sync>;

/// GPU kernels of a module, in a form that the devices of a target load.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Image {
    /// The target that they were made for, such as `simt:sm_90`.
    pub target: String,
    /// The code, in the target's form.
    pub code: Arc<[u8]>,
    /// The names of the kernels, in the order of their numbers.
    pub kernels: Vec<Arc<str>>,
}

/// One session's access to a device.
pub trait Queue: Send {
    /// Limits a launch to this many threads; at least 1 is used. A device without host threads
    /// ignores it.
    fn limit_threads(&mut self, threads: usize) {
        let _ = threads;
    }

    /// Returns the current limit.
    fn thread_limit(&self) -> usize {
        1
    }

    /// Runs a kernel on units of work, and returns when all have ended.
    ///
    /// # Safety
    /// The kernel is one of this device, and keeps the contract of [`disc_abi::KernelFn`] for these
    /// arguments.
    ///
    /// # Errors
    /// The fault of a unit, no memory for scratch, too many units, or a device that runs only GPU
    /// kernels.
    unsafe fn launch(&mut self, launch: &Launch) -> Result<Threads, LaunchFailure> {
        let units = launch.units;
        Err(LaunchFailure::Device(format!("a launch of {units} units on a device that runs grids of threads alone")))
    }

    /// Copies between memory of the device; the ranges do not overlap.
    ///
    /// # Safety
    /// Both ranges are valid for `bytes`.
    unsafe fn copy(&mut self, to: *mut u8, from: *const u8, bytes: usize) -> Result<(), LaunchFailure>;

    /// Runs a kernel on a grid of threads, after everything that was launched before. It may still
    /// run when this returns; `args` is no longer read then.
    ///
    /// # Safety
    /// The kernels are of this device, and keep their contract for these arguments.
    ///
    /// # Errors
    /// A device that runs no GPU kernels, or a launch that it refuses.
    unsafe fn launch_grid(&mut self, kernels: &Kernels, launch: &GridCall<'_>) -> Result<(), LaunchFailure> {
        let _ = kernels;
        Err(LaunchFailure::Device(format!("a grid of {} blocks on a device that runs none", launch.grid.blocks)))
    }

    /// Offers a matmul to the library of the device, after everything that was launched before.
    /// Returns true if the library computes it; else nothing is written.
    ///
    /// # Safety
    /// Operands and result are memory of the device for these sizes and strides.
    ///
    /// # Errors
    /// A failure of the device. One of the library is no error: kernels compute the matmul.
    unsafe fn library_gemm(&mut self, gemm: &LibraryGemm) -> Result<bool, LaunchFailure> {
        let _ = gemm;
        Ok(false)
    }

    /// Offers a convolution, as [`Self::library_gemm`] does a matmul.
    ///
    /// # Safety
    /// Input, filter and result are memory of the device for these sizes and strides.
    ///
    /// # Errors
    /// As [`Self::library_gemm`].
    unsafe fn library_convolution(&mut self, convolution: &LibraryConvolution) -> Result<bool, LaunchFailure> {
        let _ = convolution;
        Ok(false)
    }

    /// Copies from memory of the host to memory of the device, after everything that was launched
    /// before; the host's memory is no longer read when this returns.
    ///
    /// # Safety
    /// Both ranges are valid for `bytes`.
    unsafe fn upload(&mut self, to: *mut u8, from: *const u8, bytes: usize) -> Result<(), LaunchFailure> {
        // SAFETY: the caller's promise; the host's memory is the device's unless it says otherwise.
        unsafe { self.copy(to, from, bytes) }
    }

    /// Copies from memory of the device to memory of the host, after everything that was launched
    /// before, and waits for it.
    ///
    /// # Safety
    /// Both ranges are valid for `bytes`.
    ///
    /// # Errors
    /// A failure of a launch before, too.
    unsafe fn download(&mut self, to: *mut u8, from: *const u8, bytes: usize) -> Result<(), LaunchFailure> {
        self.sync()?;
        // SAFETY: as above.
        unsafe { self.copy(to, from, bytes) }
    }

    /// Replaces addresses of scalars in memory of the device by their values, after everything that
    /// was launched before, and waits for it.
    ///
    /// # Safety
    /// Each word is the address of a scalar of so many bytes, from 1 to 8.
    ///
    /// # Errors
    /// As [`Self::download`].
    unsafe fn fetch(&mut self, words: &mut [u64], sizes: &[i64]) -> Result<(), LaunchFailure> {
        for (word, &bytes) in words.iter_mut().zip(sizes) {
            let (mut value, from) = ([0; 8], ptr::with_exposed_provenance::<u8>(*word as usize));
            // SAFETY: the caller's promise.
            unsafe { self.download(value.as_mut_ptr(), from, bytes as usize)? };
            *word = u64::from_le_bytes(value);
        }
        Ok(())
    }

    /// Returns when everything launched has finished.
    ///
    /// # Errors
    /// A failure of a launch before.
    fn sync(&mut self) -> Result<(), LaunchFailure>;

    /// Begins a call; calls of one `kind` likely make the same launches.
    ///
    /// # Errors
    /// A failure of an earlier call's launch that was not known when that call ended.
    fn begin(&mut self, kind: u64) -> Result<(), LaunchFailure> {
        let _ = kind;
        Ok(())
    }

    /// Ends a call: its results are there for what is launched on the queue after it. A device that
    /// runs beside the host need not wait.
    ///
    /// # Errors
    /// A failure of a launch that is known by now.
    fn finish(&mut self) -> Result<(), LaunchFailure> {
        self.sync()
    }

    /// Makes launches that were left pending until the end of the call: memory that they use
    /// may go.
    ///
    /// # Errors
    /// A launch that the device refuses.
    fn flush(&mut self) -> Result<(), LaunchFailure> {
        Ok(())
    }

    /// Lets everything from now on go to a stream of the caller, after what was launched before;
    /// `None`: to the queue's own. A device without streams ignores it.
    fn use_stream(&mut self, stream: Option<usize>) {
        let _ = stream;
    }

    /// Returns the bytes of scratch that the queue keeps between launches.
    fn scratch_bytes(&self) -> usize;

    /// Returns memory that the queue allocates and frees in the order of its ops; `None`: the
    /// device's memory serves as well.
    ///
    /// # Errors
    /// The device fails.
    fn memory(&mut self) -> Result<Option<Arc<dyn QueueMemory>>, LaunchFailure> {
        Ok(None)
    }
}

/// Allocates memory of a device for the ops of one queue: it is there for what the queue launches
/// next, and free for others once what the queue has launched so far has ended. The queue's user
/// alone calls it.
pub trait QueueMemory: Send + Sync {
    /// Allocates memory aligned to at least [`disc_abi::ALIGN`]; `bytes` is positive.
    ///
    /// # Errors
    /// There is no memory, or the device fails.
    fn alloc(&self, bytes: usize) -> Result<NonNull<u8>, AllocError>;

    /// Frees memory.
    ///
    /// # Safety
    /// `at` came from `alloc` of this memory, once; nothing but ops of the queue uses it, and no
    /// launch is left pending that does.
    unsafe fn free(&self, at: NonNull<u8>);
}

/// Number of threads that took part in a launch, for the profile.
pub type Threads = u32;

/// One launch: see [`disc_abi::Runtime::launch`].
#[derive(Clone, Copy)]
pub struct Launch {
    /// The kernel.
    pub kernel: KernelHandle,
    /// Its arguments, as many words as it reads.
    pub args: *const u64,
    /// The number of units of work.
    pub units: i64,
    /// Estimated nanoseconds on one thread.
    pub cost: i64,
    /// The bytes of scratch that each thread needs.
    pub scratch_bytes: i64,
}

/// One launch of a grid: see [`disc_abi::Runtime::launch_grid`].
#[derive(Clone, Copy)]
pub struct GridCall<'a> {
    /// The number of the kernel in its image.
    pub kernel: u32,
    /// Its arguments.
    pub args: &'a [u64],
    /// Its blocks.
    pub grid: GridLaunch,
}

/// The reason why a launch failed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum LaunchFailure {
    /// No memory for scratch.
    Scratch {
        /// The bytes that were asked for.
        bytes: i64,
        /// The reason why there are none.
        cause: AllocError,
    },
    /// The kernel reported a fault.
    Fault(Fault),
    /// More units than a launch can have.
    Units(i64),
    /// The device refused, or found an error of the kernel: its message.
    Device(String),
    /// The driver of the device failed: its message.
    Driver(String),
}

/// The report of a kernel's failure: of the first unit that failed, or on a grid of the first
/// thread.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Fault {
    /// The site of the assertion that failed: the status that a kernel of a CPU returns.
    pub status: i32,
    /// The values that it left.
    pub values: [i64; KERNEL_VALUES],
}

/// An allocation of a device, freed on drop.
pub(crate) struct Block {
    device: Arc<dyn Device>,
    /// The memory of a queue that it came from.
    memory: Option<Arc<dyn QueueMemory>>,
    at: NonNull<u8>,
    bytes: usize,
}

impl Block {
    /// Allocates a block; `bytes` is rounded up to a positive multiple of the alignment.
    pub(crate) fn new(device: &Arc<dyn Device>, bytes: usize) -> Result<Self, AllocError> {
        Self::in_memory(device, None, bytes)
    }

    /// Allocates a block for the ops of one queue: of the memory of that queue, if it has some.
    pub(crate) fn in_memory(
        device: &Arc<dyn Device>,
        memory: Option<&Arc<dyn QueueMemory>>,
        bytes: usize,
    ) -> Result<Self, AllocError> {
        let bytes = bytes.max(1).checked_next_multiple_of(disc_abi::ALIGN).ok_or(AllocError::Size)?;
        let at = memory.map_or_else(|| device.alloc(bytes), |memory| memory.alloc(bytes))?;
        debug_assert!(at.addr().get().is_multiple_of(disc_abi::ALIGN), "devices align their memory");
        Ok(Self { device: Arc::clone(device), memory: memory.cloned(), at, bytes })
    }

    pub(crate) fn at(&self) -> *mut u8 {
        self.at.as_ptr()
    }

    /// Returns the kind of its device.
    pub(crate) fn kind(&self) -> u8 {
        self.device.kind()
    }

    pub(crate) fn bytes(&self) -> usize {
        self.bytes
    }
}

impl Drop for Block {
    fn drop(&mut self) {
        match &self.memory {
            // SAFETY: the block came from this memory and owns it; ops of the queue alone use it.
            Some(memory) => unsafe { memory.free(self.at) },
            // SAFETY: the block came from this device and owns its memory.
            None => unsafe { self.device.free(self.at, self.bytes) },
        }
    }
}

// SAFETY: a block is plain memory; who may access it is its owner's matter.
unsafe impl Send for Block {}
// SAFETY: as above.
unsafe impl Sync for Block {}
