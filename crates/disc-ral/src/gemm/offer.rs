//! Runs an offered GEMM by the library or by its kernel, and records the outcome.
//!
//! Invariant: a class is decided by times of both ways, or by the library's own refusal. A GEMM
//! that never reached the library, because of its sizes, its strides or lack of memory, says
//! nothing about others.
use super::{GemmDispatch, GemmKey, GemmMatrices, Way, matrices::key};
use crate::{
    call::Call,
    device::{Launch, LaunchFailure},
    failure::Failure,
    tensor::bytes_of,
};
use disc_abi::Gemm;
use std::time::Instant;

/// Runs a GEMM the way that the session's dispatch chooses.
pub(crate) fn run_gemm(call: &mut Call<'_>, product: &Gemm) -> Result<(), Failure> {
    let offered = call.gemm.and_then(|gemm| Some((gemm, GemmMatrices::of(product)?)));
    let Some((gemm, matrices)) = offered else {
        return call.launch(&generated(product)).map_err(Failure::Launch);
    };
    let key = key(product, call.queue.thread_limit());
    let (way, is_timed) = gemm.choose(&key);
    let offer = Offer { gemm, product, key, is_timed };
    if way == Way::Kernel {
        return offer.by_kernel(call);
    }
    match offer.by_library(call, matrices)? {
        Answer::Done => {
            gemm.count(Way::Library);
            return Ok(());
        }
        Answer::No => gemm.refuse(&key),
        Answer::NotAsked => {}
    }
    // This run was not the kernel's turn.
    Offer { is_timed: false, ..offer }.by_kernel(call)
}

/// The library's answer to an offer.
enum Answer {
    Done,
    /// The library cannot; it wrote nothing that the kernel would not write.
    No,
    /// The matrices are not available in memory.
    NotAsked,
}

struct Offer<'a> {
    gemm: &'a GemmDispatch,
    product: &'a Gemm,
    key: GemmKey,
    is_timed: bool,
}

impl Offer<'_> {
    fn by_kernel(&self, call: &mut Call<'_>) -> Result<(), Failure> {
        self.gemm.count(Way::Kernel);
        let start = Instant::now();
        call.launch(&generated(self.product)).map_err(Failure::Launch)?;
        self.measured(call, Way::Kernel, start)
    }

    /// Runs the GEMM by the library, then the epilogue of its group.
    fn by_library(&self, call: &mut Call<'_>, mut matrices: GemmMatrices) -> Result<Answer, Failure> {
        let mark = call.arena.mark();
        // Kept until the product is computed.
        let Some(_plain) = self.place(call, &mut matrices) else { return Ok(Answer::NotAsked) };
        let start = Instant::now();
        let done = self.multiply(call, &matrices).map_err(Failure::Launch)?;
        if done {
            self.rest(call, &matrices)?;
        }
        call.queue.sync().map_err(Failure::Launch)?;
        call.arena.release(mark);
        if !done {
            return Ok(Answer::No);
        }
        self.measured(call, Way::Library, start)?;
        Ok(Answer::Done)
    }

    /// Places the unpacked right operand, and the result where the epilogue reads it. Returns what
    /// must stay alive meanwhile.
    fn place(&self, call: &mut Call<'_>, matrices: &mut GemmMatrices) -> Option<impl Sized + use<>> {
        let plain = match self.product.panel {
            0 => None,
            _ => Some(call.weights.plain_form(call.device, self.product)?),
        };
        if let Some(block) = &plain {
            matrices.right.data = block.at();
        }
        if self.product.rest.is_some() {
            let bytes = bytes_of(matrices.dtype, &[matrices.rows, matrices.columns])?;
            matrices.result = call.arena.alloc(i64::try_from(bytes).ok()?).ok()?;
        }
        Some(plain)
    }

    /// Launches the epilogue, if there is one.
    fn rest(&self, call: &mut Call<'_>, matrices: &GemmMatrices) -> Result<(), Failure> {
        let Gemm { rest, rest_args, rest_slot, rest_units, rest_cost, rest_scratch_bytes, .. } = *self.product;
        let Some(kernel) = rest else { return Ok(()) };
        // SAFETY: generated code has this slot for the address.
        unsafe { *rest_args.offset(rest_slot as isize) = matrices.result.expose_provenance() as u64 };
        let rest = Launch { kernel, args: rest_args, units: rest_units, cost: rest_cost, scratch_bytes: rest_scratch_bytes };
        call.launch(&rest).map_err(Failure::Launch)
    }

    /// Runs the library's part of the work; the epilogue has a record of its own in a profile.
    fn multiply(&self, call: &mut Call<'_>, matrices: &GemmMatrices) -> Result<bool, LaunchFailure> {
        let queue = &mut *call.queue;
        let Some(profile) = call.profile else {
            // SAFETY: generated code offers valid matrices; the result is an output or memory of
            // its own.
            return unsafe { self.gemm.library().multiply(queue, matrices) };
        };
        let threads = profile.record(&generated(self.product), call.names, true, || {
            // SAFETY: as above.
            let done = unsafe { self.gemm.library().multiply(queue, matrices) }?;
            queue.sync()?;
            Ok(done.then(|| u32::try_from(queue.thread_limit()).unwrap_or(u32::MAX)))
        })?;
        Ok(threads.is_some())
    }

    /// Records a time if it is wanted, and frees copies of weights that it shows to be useless.
    fn measured(&self, call: &mut Call<'_>, way: Way, start: Instant) -> Result<(), Failure> {
        if !self.is_timed {
            return Ok(());
        }
        call.queue.sync().map_err(Failure::Launch)?;
        let nanoseconds = u64::try_from(start.elapsed().as_nanos()).unwrap_or(u64::MAX);
        let [rows, columns, sums] = self.product.sizes;
        if self.gemm.measured(&self.key, way, rows, nanoseconds) {
            call.weights.release_plain_forms([columns, sums]);
        }
        Ok(())
    }
}

/// Returns the launch of the generated kernel.
fn generated(product: &Gemm) -> Launch {
    let Gemm { kernel, args, units, cost, scratch_bytes, .. } = *product;
    Launch { kernel, args, units, cost, scratch_bytes }
}
