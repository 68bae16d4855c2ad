//! Runs one call of an entry, and implements the function table that its code sees.
//!
//! Invariants:
//! - no function of the table unwinds, aborts, or trusts a number: an invalid argument of generated
//!   code becomes an internal error;
//! - only the thread of the call touches the state of the call; a kernel reaches nothing but
//!   [`nested`];
//! - the first failure is reported, later ones are consequences.

use crate::{
    arena::Arena,
    cpu,
    device::{Device, GridCall, Kernels, Launch, LaunchFailure, Queue},
    failure::Failure,
    gemm::{GemmDispatch, run_gemm},
    kernel_names::KernelNames,
    layout_arena::layout_arena,
    meta::EntryMeta,
    profile::Profile,
    tensor::{OutputAllocator, bytes_of},
    weights::WeightSet,
};
use disc_abi::{
    ABI_VERSION, Context, DType, FLAG_WRITTEN, Gemm, GridLaunch, KernelHandle, LibraryConvolution, LibraryGemm, Runtime,
    STATUS_FAILED, STATUS_OK, Tensor,
};
use std::{
    cell::UnsafeCell,
    panic::{AssertUnwindSafe, catch_unwind},
    ptr, slice,
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    },
};

/// More values than any message has.
const MAX_VALUES: u32 = 64;

/// Borrows everything that a call uses.
pub(crate) struct Call<'a> {
    pub(crate) arena: &'a mut Arena,
    pub(crate) queue: &'a mut dyn Queue,
    pub(crate) profile: &'a mut Option<Box<Profile>>,
    pub(crate) names: &'a KernelNames,
    pub(crate) entry: &'a EntryMeta,
    pub(crate) device: &'a Arc<dyn Device>,
    /// The GPU kernels of the module, on a device that is no CPU.
    pub(crate) kernels: Option<&'a Kernels>,
    pub(crate) weights: &'a WeightSet,
    /// Decides between kernels and a library for each GEMM; without it, kernels compute all.
    pub(crate) gemm: Option<&'a GemmDispatch>,
    pub(crate) allocator: &'a mut dyn OutputAllocator,
    /// The descriptors that the entry gets as `outputs`, one per output of `entry`.
    pub(crate) outputs: *mut Tensor,
    pub(crate) failure: Option<Failure>,
}

/// A call as [`Context::user`] points to it.
pub(crate) struct CallState<'a> {
    /// While a launch runs, `call` belongs to it, and kernels on other threads may enter the table.
    launching: AtomicBool,
    call: UnsafeCell<Call<'a>>,
}

impl<'a> CallState<'a> {
    pub(crate) fn new(call: Call<'a>) -> Self {
        Self { launching: AtomicBool::new(false), call: UnsafeCell::new(call) }
    }

    /// Returns the context for this call; it may be used while the state stays at its address.
    pub(crate) fn context(&self, weights: *const *const u8, nontemporal_bytes: i64) -> Context {
        let user = (&raw const *self).cast_mut().cast();
        Context { runtime: &RUNTIME, weights, kernels: ptr::null(), nontemporal_bytes, reserved: [ptr::null(); 2], user }
    }

    pub(crate) fn into_failure(self) -> Option<Failure> {
        self.call.into_inner().failure
    }
}

impl Call<'_> {
    fn record(&mut self, failure: Failure) {
        self.failure.get_or_insert(failure);
    }

    pub(crate) fn launch(&mut self, launch: &Launch) -> Result<(), LaunchFailure> {
        let Some(profile) = self.profile else {
            // SAFETY: generated code keeps the contract of kernels.
            return unsafe { self.queue.launch(launch) }.map(|_| ());
        };
        let queue = &mut *self.queue;
        profile.record(launch, self.names, false, || {
            // SAFETY: as above.
            let threads = unsafe { queue.launch(launch) }?;
            queue.sync()?;
            Ok(Some(threads))
        })?;
        Ok(())
    }

    fn launch_grid(&mut self, launch: &GridCall<'_>) -> Result<(), Failure> {
        let kernels = self.kernels.ok_or_else(|| Failure::Internal("a grid is launched by code without grid kernels".into()))?;
        let queue = &mut *self.queue;
        let Some(profile) = self.profile else {
            // SAFETY: generated code keeps the contract of kernels.
            return unsafe { queue.launch_grid(kernels, launch) }.map_err(Failure::Launch);
        };
        let shown = Launch {
            kernel: KernelNames::handle_of_grid(launch.kernel),
            args: launch.args.as_ptr(),
            units: launch.grid.blocks,
            cost: 0,
            scratch_bytes: launch.grid.scratch,
        };
        let timed = || {
            // SAFETY: as above.
            unsafe { queue.launch_grid(kernels, launch)? };
            queue.sync()?;
            Ok(Some(launch.grid.threads))
        };
        profile.record(&shown, self.names, false, timed).map(drop).map_err(Failure::Launch)
    }

    fn alloc(&mut self, bytes: i64) -> Result<*mut u8, Failure> {
        if self.arena.is_in_use() {
            // What earlier launches of the call used may be freed for it.
            self.queue.flush().map_err(Failure::Launch)?;
        }
        self.arena.alloc(bytes).map_err(|cause| Failure::Arena { bytes, cause })
    }

    /// Offers a GEMM to a library of the device. Returns true if the library computes it.
    fn library_gemm(&mut self, gemm: &LibraryGemm) -> Result<bool, Failure> {
        // SAFETY: generated code offers memory of the device for these sizes and strides.
        self.offer(gemm.kernel, gemm.batches, |queue| unsafe { queue.library_gemm(gemm) })
    }

    /// Offers a convolution to a library of the device. Returns true if the library computes it.
    fn library_convolution(&mut self, convolution: &LibraryConvolution) -> Result<bool, Failure> {
        // SAFETY: as above.
        self.offer(convolution.kernel, convolution.input_sizes[0], |queue| unsafe { queue.library_convolution(convolution) })
    }

    /// Makes an offer, which a profile shows as the kernel that would compute it.
    fn offer(
        &mut self,
        kernel: u64,
        units: i64,
        offered: impl FnOnce(&mut dyn Queue) -> Result<bool, LaunchFailure>,
    ) -> Result<bool, Failure> {
        let queue = &mut *self.queue;
        let Some(profile) = self.profile else { return offered(queue).map_err(Failure::Launch) };
        let kernel = KernelNames::handle_of_grid(u32::try_from(kernel).unwrap_or(u32::MAX));
        let shown = Launch { kernel, args: ptr::null(), units, cost: 0, scratch_bytes: 0 };
        let timed = || {
            let is_taken = offered(queue)?;
            queue.sync()?;
            Ok(is_taken.then_some(1))
        };
        profile.record(&shown, self.names, true, timed).map(|threads| threads.is_some()).map_err(Failure::Launch)
    }

    /// Replaces addresses in device memory by what is there.
    fn fetch(&mut self, words: &mut [u64], sizes: &[i64]) -> Result<(), Failure> {
        if sizes.iter().any(|size| !(1..=8).contains(size)) {
            return Err(Failure::Internal("a scalar of more than 8 bytes is fetched".into()));
        }
        // SAFETY: generated code gives addresses of scalars of these sizes.
        unsafe { self.queue.fetch(words, sizes) }.map_err(Failure::Launch)
    }

    fn output(&mut self, index: u32, dtype: u32, sizes: &[i64]) -> Result<*mut u8, Failure> {
        let index = index as usize;
        let output = |message: String| Failure::Output { index, message };
        let meta = self.entry.outputs.get(index).ok_or_else(|| output("the entry has no such output".into()))?;
        if u32::from(meta.dtype.code()) != dtype || meta.dims.len() != sizes.len() {
            let dtype = u8::try_from(dtype).ok().and_then(DType::from_code).map_or("?", DType::name);
            let (rank, expected) = (sizes.len(), meta.dims.len());
            return Err(Failure::Internal(format!(
                "output {index} was made as {dtype} of rank {rank}, its signature is {} of rank {expected}",
                meta.dtype
            )));
        }
        let bytes = bytes_of(meta.dtype, sizes).ok_or_else(|| output(format!("sizes {sizes:?} do not fit into memory")))?;
        let data = self.allocator.alloc(index, meta.dtype, sizes).map_err(|error| output(error.0))?;
        if bytes > 0 && data.is_null() {
            return Err(output(format!("no memory came for {bytes} bytes")));
        }
        if bytes > 0 && !data.addr().is_multiple_of(meta.dtype.size()) {
            return Err(output(format!("the memory is not aligned to {} bytes", meta.dtype.size())));
        }
        // Without elements any address but null will do.
        let data = if data.is_null() { ptr::without_provenance_mut(disc_abi::ALIGN) } else { data };
        // SAFETY: the index was checked; the descriptor's sizes are an array of the session with
        // `rank` values.
        unsafe {
            let descriptor = &mut *self.outputs.add(index);
            descriptor.sizes.cast_mut().copy_from_nonoverlapping(sizes.as_ptr(), sizes.len());
            descriptor.data = data.cast();
            descriptor.strides = ptr::null();
            descriptor.flags = FLAG_WRITTEN;
        }
        Ok(data)
    }
}

/// No size of an arena: an allocation of it fails.
const NOWHERE: i64 = i64::MIN >> 16;

/// The table that every context points to.
static RUNTIME: Runtime = Runtime {
    version: ABI_VERSION,
    size: size_of::<Runtime>() as u32,
    alloc,
    mark,
    release,
    alloc_output,
    launch,
    fail,
    copy,
    gemm,
    layout_arena: place_parts,
    launch_grid,
    fetch,
    library_gemm,
    library_convolution,
    reserved: [ptr::null(); 2],
};

/// Runs `body` on the call. Returns `failed` if it panics, records a failure, or is called by a
/// kernel.
///
/// # Safety
/// `ctx` is the context of a call that is running.
unsafe fn on_call<R>(ctx: *mut Context, failed: R, body: impl FnOnce(&mut Call<'_>) -> Result<R, Failure>) -> R {
    // SAFETY: contexts are made by `CallState::context` only.
    let state = unsafe { state_of(ctx) };
    if state.launching.load(Ordering::Relaxed) {
        return failed;
    }
    // SAFETY: no launch is running, so this is the call's own thread, and no other function of the
    // table is active on it.
    let call = unsafe { &mut *state.call.get() };
    match catch_unwind(AssertUnwindSafe(|| body(call))) {
        Ok(Ok(result)) => result,
        Ok(Err(failure)) => {
            call.record(failure);
            failed
        }
        Err(panic) => {
            call.record(Failure::Internal(panic_message(panic.as_ref())));
            failed
        }
    }
}

/// # Safety
/// `ctx` is the context of a call that is running.
unsafe fn state_of<'c>(ctx: *mut Context) -> &'c CallState<'c> {
    // SAFETY: the caller's promise; the state outlives the call.
    unsafe { &*(*ctx).user.cast::<CallState<'c>>() }
}

fn panic_message(panic: &(dyn std::any::Any + Send)) -> String {
    let text = panic.downcast_ref::<&str>().copied().or_else(|| panic.downcast_ref::<String>().map(String::as_str));
    format!("the runtime panicked: {}", text.unwrap_or("no message"))
}

unsafe extern "C" fn alloc(ctx: *mut Context, bytes: i64) -> *mut u8 {
    // SAFETY: generated code passes its context.
    unsafe { on_call(ctx, ptr::null_mut(), |call| call.alloc(bytes)) }
}

unsafe extern "C" fn mark(ctx: *mut Context) -> u64 {
    // SAFETY: as above.
    unsafe { on_call(ctx, 0, |call| Ok(call.arena.mark())) }
}

unsafe extern "C" fn release(ctx: *mut Context, mark: u64) {
    // SAFETY: as above.
    unsafe {
        on_call(ctx, (), |call| {
            call.arena.release(mark);
            Ok(())
        });
    }
}

unsafe extern "C" fn alloc_output(ctx: *mut Context, index: u32, dtype: u32, rank: u32, sizes: *const i64) -> *mut u8 {
    // SAFETY: generated code passes its context and `rank` sizes.
    unsafe {
        on_call(ctx, ptr::null_mut(), |call| {
            let sizes = if rank == 0 { &[][..] } else { slice::from_raw_parts(sizes, rank as usize) };
            call.output(index, dtype, sizes)
        })
    }
}

unsafe extern "C" fn launch(
    ctx: *mut Context,
    kernel: KernelHandle,
    args: *const u64,
    units: i64,
    cost: i64,
    scratch_bytes: i64,
) -> i32 {
    let launch = Launch { kernel, args, units, cost, scratch_bytes };
    // SAFETY: generated code passes its context.
    let state = unsafe { state_of(ctx) };
    if state.launching.load(Ordering::Relaxed) {
        return nested(&launch);
    }
    // SAFETY: as above.
    unsafe {
        on_call(ctx, STATUS_FAILED, |call| {
            let ended = Ending::begin(state);
            let result = call.launch(&launch);
            drop(ended);
            result.map(|()| STATUS_OK).map_err(Failure::Launch)
        })
    }
}

unsafe extern "C" fn gemm(ctx: *mut Context, product: *const Gemm) -> i32 {
    // SAFETY: generated code passes a product that it wrote.
    let product = unsafe { &*product };
    // SAFETY: generated code passes its context.
    unsafe {
        on_call(ctx, STATUS_FAILED, |call| {
            let ended = Ending::begin(state_of(ctx));
            let result = run_gemm(call, product);
            drop(ended);
            result.map(|()| STATUS_OK)
        })
    }
}

unsafe extern "C" fn launch_grid(ctx: *mut Context, kernel: u32, args: *const u64, words: u32, grid: *const GridLaunch) -> i32 {
    // SAFETY: generated code passes its context, a grid that it wrote, and so many words.
    unsafe {
        on_call(ctx, STATUS_FAILED, |call| {
            let args = slice::from_raw_parts(args, words as usize);
            call.launch_grid(&GridCall { kernel, args, grid: *grid }).map(|()| STATUS_OK)
        })
    }
}

unsafe extern "C" fn library_gemm(ctx: *mut Context, gemm: *mut LibraryGemm) -> i32 {
    // SAFETY: generated code passes its context, and a GEMM that it wrote.
    unsafe {
        on_call(ctx, STATUS_FAILED, |call| {
            (*gemm).is_taken = call.library_gemm(&*gemm)?.into();
            Ok(STATUS_OK)
        })
    }
}

unsafe extern "C" fn library_convolution(ctx: *mut Context, convolution: *mut LibraryConvolution) -> i32 {
    // SAFETY: generated code passes its context, and a convolution that it wrote.
    unsafe {
        on_call(ctx, STATUS_FAILED, |call| {
            (*convolution).is_taken = call.library_convolution(&*convolution)?.into();
            Ok(STATUS_OK)
        })
    }
}

unsafe extern "C" fn fetch(ctx: *mut Context, words: *mut u64, sizes: *const i64, n: u32) -> i32 {
    // SAFETY: generated code passes its context, and so many words and sizes.
    unsafe {
        on_call(ctx, STATUS_FAILED, |call| {
            let (words, sizes) = (slice::from_raw_parts_mut(words, n as usize), slice::from_raw_parts(sizes, n as usize));
            call.fetch(words, sizes).map(|()| STATUS_OK)
        })
    }
}

unsafe extern "C" fn place_parts(
    ctx: *mut Context,
    parts: u32,
    sizes: *const i64,
    meets: *const i64,
    words: u32,
    offsets: *mut i64,
) -> i64 {
    // SAFETY: generated code passes its context, so many sizes and words for offsets, which do not
    // overlap, and so many words of a table.
    unsafe {
        on_call(ctx, NOWHERE, |_| {
            let (sizes, meets) = (slice::from_raw_parts(sizes, parts as usize), slice::from_raw_parts(meets, words as usize));
            Ok(layout_arena(sizes, meets, slice::from_raw_parts_mut(offsets, parts as usize)))
        })
    }
}

/// Ends a launch, also when the device panics.
struct Ending<'s>(&'s AtomicBool);

impl<'s> Ending<'s> {
    fn begin(state: &'s CallState<'_>) -> Self {
        state.launching.store(true, Ordering::Relaxed);
        Self(&state.launching)
    }
}

impl Drop for Ending<'_> {
    fn drop(&mut self) {
        self.0.store(false, Ordering::Relaxed);
    }
}

/// Runs a launch by a kernel: only on this thread, touching nothing of the call.
fn nested(launch: &Launch) -> i32 {
    // SAFETY: generated code keeps the contract of kernels.
    let run = || unsafe { cpu::launch_nested(launch) };
    catch_unwind(AssertUnwindSafe(run)).unwrap_or(STATUS_FAILED)
}

unsafe extern "C" fn fail(ctx: *mut Context, site: u32, values: *const i64, n: u32) -> i32 {
    // SAFETY: generated code passes its context and `n` values.
    unsafe {
        on_call(ctx, STATUS_FAILED, |_| {
            let n = n.min(MAX_VALUES) as usize;
            let values = if n == 0 { Vec::new() } else { slice::from_raw_parts(values, n).to_vec() };
            Err(Failure::Site { number: site, values })
        })
    }
}

unsafe extern "C" fn copy(ctx: *mut Context, to: *mut u8, from: *const u8, bytes: i64) -> i32 {
    // SAFETY: generated code passes its context and valid ranges.
    unsafe {
        on_call(ctx, STATUS_FAILED, |call| {
            let bytes = usize::try_from(bytes).map_err(|_| Failure::Internal(format!("a copy of {bytes} bytes")))?;
            if bytes > 0 {
                call.queue.copy(to, from, bytes).map_err(Failure::Launch)?;
            }
            Ok(STATUS_OK)
        })
    }
}
