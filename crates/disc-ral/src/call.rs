//! One call of an entry, and the function table that its code sees.
//!
//! Invariants:
//! - no function of the table unwinds, aborts, or trusts a number: what generated code passes wrongly becomes an internal error;
//! - the state of a call is touched by the thread of the call alone; a kernel reaches nothing but [`nested`];
//! - the first failure stands, later ones are consequences.

use crate::{
    arena::Arena,
    cpu,
    device::{Device, Launch, LaunchFailure, Queue},
    failure::Failure,
    meta::EntryMeta,
    products::{ProductKey, ProductMatrices, Products, Way, key},
    profile::LaunchRecord,
    tensor::{OutputAllocator, bytes_of},
    weights::WeightSet,
};
use disc_abi::{ABI_VERSION, Context, DType, FLAG_WRITTEN, KernelFn, Product, Runtime, STATUS_FAILED, STATUS_OK, Tensor};
use std::{
    cell::UnsafeCell,
    panic::{AssertUnwindSafe, catch_unwind},
    ptr, slice,
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    },
    time::Instant,
};

/// More values than any message has.
const MAX_VALUES: u32 = 64;

/// What a call works with.
pub(crate) struct Call<'a> {
    pub(crate) arena: &'a mut Arena,
    pub(crate) queue: &'a mut dyn Queue,
    pub(crate) profile: &'a mut Option<Vec<LaunchRecord>>,
    pub(crate) entry: &'a EntryMeta,
    pub(crate) device: &'a Arc<dyn Device>,
    pub(crate) weights: &'a WeightSet,
    /// The library that products are offered to; without one, kernels compute all.
    pub(crate) products: Option<&'a Products>,
    pub(crate) allocator: &'a mut dyn OutputAllocator,
    /// The descriptors that the entry gets as `outputs`, one per output of `entry`.
    pub(crate) outputs: *mut Tensor,
    pub(crate) failure: Option<Failure>,
}

/// A call as [`Context::user`] points to it.
pub(crate) struct CallState<'a> {
    /// While a launch runs, `call` belongs to it, and kernels on other threads may come here.
    launching: AtomicBool,
    call: UnsafeCell<Call<'a>>,
}

impl<'a> CallState<'a> {
    pub(crate) fn new(call: Call<'a>) -> Self {
        Self { launching: AtomicBool::new(false), call: UnsafeCell::new(call) }
    }

    /// The context for this call; it may be used while the state stays where it is.
    pub(crate) fn context(&self, weights: *const *const u8) -> Context {
        let user = (&raw const *self).cast_mut().cast();
        Context { runtime: &RUNTIME, weights, kernels: ptr::null(), reserved: [ptr::null(); 3], user }
    }

    pub(crate) fn into_failure(self) -> Option<Failure> {
        self.call.into_inner().failure
    }
}

impl Call<'_> {
    fn record(&mut self, failure: Failure) {
        self.failure.get_or_insert(failure);
    }

    fn launch(&mut self, launch: &Launch) -> Result<(), LaunchFailure> {
        let Some(records) = self.profile else {
            // SAFETY: generated code keeps the contract of kernels.
            return unsafe { self.queue.launch(launch) }.map(|_| ());
        };
        let start = Instant::now();
        // SAFETY: as above.
        let threads = unsafe { self.queue.launch(launch) }?;
        self.queue.sync()?;
        records.push(LaunchRecord::new(launch, threads, start.elapsed()));
        Ok(())
    }

    /// Runs a product as its key says.
    fn product(&mut self, product: &Product) -> Result<(), Failure> {
        let generated = generated(product);
        // What has no elements, or nothing to sum, says nothing about its class.
        let is_empty = product.sizes.iter().any(|&size| size <= 0);
        let Some(products) = self.products.filter(|_| !is_empty) else {
            return self.launch(&generated).map_err(Failure::Launch);
        };
        let key = key(product, self.queue.thread_limit());
        let (way, timed) = products.choose(&key);
        if way == Way::Library {
            if self.by_library(products, product, timed.then_some(&key))? {
                products.count(Way::Library);
                return Ok(());
            }
            products.refuse(&key);
        }
        products.count(Way::Kernel);
        let start = timed.then(Instant::now);
        self.launch(&generated).map_err(Failure::Launch)?;
        if let Some(start) = start {
            self.queue.sync().map_err(Failure::Launch)?;
            self.measured(products, (&key, Way::Kernel), product, nanoseconds(start));
        }
        Ok(())
    }

    /// Runs a product by the library and the rest of its group; false, with nothing written that the kernel would not write, if the library
    /// cannot.
    fn by_library(&mut self, products: &Products, product: &Product, timed: Option<&ProductKey>) -> Result<bool, Failure> {
        // Kept until the product is computed.
        let plain = match product.panel {
            0 => None,
            _ => match self.weights.plain_form(self.device, product) {
                Some(block) => Some(block),
                None => return Ok(false),
            },
        };
        let Some(mut matrices) = ProductMatrices::of(product, plain.as_ref().map(|block| block.at().cast_const())) else {
            return Ok(false);
        };
        let mark = self.arena.mark();
        if product.rest.is_some() {
            let bytes = bytes_of(matrices.dtype, &[matrices.rows, matrices.columns]).and_then(|bytes| i64::try_from(bytes).ok());
            let Some(Ok(memory)) = bytes.map(|bytes| self.arena.alloc(bytes)) else { return Ok(false) };
            matrices.result = memory;
        }
        let start = Instant::now();
        // SAFETY: generated code offers valid matrices; the result is an output or memory of its own.
        let done = unsafe { products.library().multiply(self.queue, &matrices) };
        let done = done.map_err(Failure::Launch)?;
        if done && let Some(kernel) = product.rest {
            // SAFETY: generated code has this slot for the address.
            unsafe { *product.rest_args.offset(product.rest_slot as isize) = matrices.result.expose_provenance() as u64 };
            let (units, cost, scratch_bytes) = (product.rest_units, product.rest_cost, product.rest_scratch_bytes);
            let rest = Launch { kernel, args: product.rest_args, units, cost, scratch_bytes };
            self.launch(&rest).map_err(Failure::Launch)?;
        }
        self.queue.sync().map_err(Failure::Launch)?;
        self.arena.release(mark);
        if done && let Some(key) = timed {
            self.measured(products, (key, Way::Library), product, nanoseconds(start));
        }
        if done && let Some(records) = self.profile {
            records.push(LaunchRecord::new(&generated(product), self.queue.thread_limit() as u32, start.elapsed()));
        }
        Ok(done)
    }

    /// Takes note of a time, and gives up copies of weights that it shows to be of no use.
    fn measured(&self, products: &Products, (key, way): (&ProductKey, Way), product: &Product, nanoseconds: u64) {
        let [rows, columns, sums] = product.sizes;
        if products.measured(key, way, rows, nanoseconds) {
            self.weights.release_plain_forms([columns, sums]);
        }
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
        // SAFETY: the index was checked; the descriptor's sizes are an array of the session with `rank` values.
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
    product,
    reserved: [ptr::null(); 7],
};

/// The launch of a product by its kernel.
fn generated(product: &Product) -> Launch {
    let Product { args, units, cost, scratch_bytes, .. } = *product;
    Launch { kernel: product.kernel, args, units, cost, scratch_bytes }
}

fn nanoseconds(start: Instant) -> u64 {
    u64::try_from(start.elapsed().as_nanos()).unwrap_or(u64::MAX)
}

/// Runs `body` on the call; `failed` if it panics, records a failure, or is called by a kernel.
///
/// # Safety
/// `ctx` is the context of a call that is going on.
unsafe fn on_call<R>(ctx: *mut Context, failed: R, body: impl FnOnce(&mut Call<'_>) -> Result<R, Failure>) -> R {
    // SAFETY: contexts are made by `CallState::context` only.
    let state = unsafe { state_of(ctx) };
    if state.launching.load(Ordering::Relaxed) {
        return failed;
    }
    // SAFETY: no launch is running, so this is the call's own thread, and no other function of the table is active on it.
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
/// `ctx` is the context of a call that is going on.
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
    unsafe { on_call(ctx, ptr::null_mut(), |call| call.arena.alloc(bytes).map_err(|cause| Failure::Arena { bytes, cause })) }
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
    kernel: KernelFn,
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

unsafe extern "C" fn product(ctx: *mut Context, product: *const Product) -> i32 {
    // SAFETY: generated code passes a product that it wrote.
    let product = unsafe { &*product };
    // SAFETY: generated code passes its context.
    unsafe {
        on_call(ctx, STATUS_FAILED, |call| {
            let ended = Ending::begin(state_of(ctx));
            let result = call.product(product);
            drop(ended);
            result.map(|()| STATUS_OK)
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

/// A launch by a kernel: on this thread alone, touching nothing of the call.
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
