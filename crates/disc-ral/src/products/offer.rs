//! An offered product: by the library or by its kernel, and what is noted of it.
//!
//! Invariant: a class of products is settled by times of both ways, or by the library's own no. A product that never came to the library, for
//! its sizes, its strides or want of memory, says nothing about others.
use super::{ProductKey, ProductMatrices, Products, Way, matrices::key};
use crate::{call::Call, device::Launch, failure::Failure, profile::LaunchRecord, tensor::bytes_of};
use disc_abi::Product;
use std::time::Instant;

/// Runs a product as the session's choice says.
pub(crate) fn run_product(call: &mut Call<'_>, product: &Product) -> Result<(), Failure> {
    let offered = call.products.and_then(|products| Some((products, ProductMatrices::of(product)?)));
    let Some((products, matrices)) = offered else {
        return call.launch(&generated(product)).map_err(Failure::Launch);
    };
    let key = key(product, call.queue.thread_limit());
    let (way, is_timed) = products.choose(&key);
    let offer = Offer { products, product, key, is_timed };
    if way == Way::Kernel {
        return offer.by_kernel(call);
    }
    match offer.by_library(call, matrices)? {
        Answer::Done => {
            products.count(Way::Library);
            return Ok(());
        }
        Answer::No => products.refuse(&key),
        Answer::NotAsked => {}
    }
    // This was not the kernel's turn.
    Offer { is_timed: false, ..offer }.by_kernel(call)
}

/// What came of going to the library.
enum Answer {
    Done,
    /// The library cannot; nothing was written that the kernel would not write.
    No,
    /// There are no matrices in memory for it.
    NotAsked,
}

struct Offer<'a> {
    products: &'a Products,
    product: &'a Product,
    key: ProductKey,
    is_timed: bool,
}

impl Offer<'_> {
    fn by_kernel(&self, call: &mut Call<'_>) -> Result<(), Failure> {
        self.products.count(Way::Kernel);
        let start = Instant::now();
        call.launch(&generated(self.product)).map_err(Failure::Launch)?;
        self.measured(call, Way::Kernel, start)
    }

    /// Runs the product by the library, and the rest of its group.
    fn by_library(&self, call: &mut Call<'_>, mut matrices: ProductMatrices) -> Result<Answer, Failure> {
        let mark = call.arena.mark();
        // Kept until the product is computed.
        let Some(_plain) = self.place(call, &mut matrices) else { return Ok(Answer::NotAsked) };
        let start = Instant::now();
        // SAFETY: generated code offers valid matrices; the result is an output or memory of its own.
        let done = unsafe { self.products.library().multiply(call.queue, &matrices) }.map_err(Failure::Launch)?;
        if done {
            self.profile(call, start)?;
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

    /// Puts the right operand where it lies plainly, and the result where the rest reads it; gives what has to be kept meanwhile.
    fn place(&self, call: &mut Call<'_>, matrices: &mut ProductMatrices) -> Option<impl Sized + use<>> {
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

    /// Launches what follows the product, if anything does.
    fn rest(&self, call: &mut Call<'_>, matrices: &ProductMatrices) -> Result<(), Failure> {
        let Product { rest, rest_args, rest_slot, rest_units, rest_cost, rest_scratch_bytes, .. } = *self.product;
        let Some(kernel) = rest else { return Ok(()) };
        // SAFETY: generated code has this slot for the address.
        unsafe { *rest_args.offset(rest_slot as isize) = matrices.result.expose_provenance() as u64 };
        let rest = Launch { kernel, args: rest_args, units: rest_units, cost: rest_cost, scratch_bytes: rest_scratch_bytes };
        call.launch(&rest).map_err(Failure::Launch)
    }

    /// Notes the library's part of the work; what follows has a record of its own.
    fn profile(&self, call: &mut Call<'_>, start: Instant) -> Result<(), Failure> {
        let Some(records) = call.profile else { return Ok(()) };
        call.queue.sync().map_err(Failure::Launch)?;
        let threads = u32::try_from(call.queue.thread_limit()).unwrap_or(u32::MAX);
        let record = LaunchRecord::new(&generated(self.product), threads, start.elapsed());
        records.push(LaunchRecord { by_library: true, ..record });
        Ok(())
    }

    /// Takes note of a time if it is wanted, and gives up copies of weights that it shows to be of no use.
    fn measured(&self, call: &mut Call<'_>, way: Way, start: Instant) -> Result<(), Failure> {
        if !self.is_timed {
            return Ok(());
        }
        call.queue.sync().map_err(Failure::Launch)?;
        let nanoseconds = u64::try_from(start.elapsed().as_nanos()).unwrap_or(u64::MAX);
        let [rows, columns, sums] = self.product.sizes;
        if self.products.measured(&self.key, way, rows, nanoseconds) {
            call.weights.release_plain_forms([columns, sums]);
        }
        Ok(())
    }
}

/// The launch of a product by its kernel.
fn generated(product: &Product) -> Launch {
    let Product { kernel, args, units, cost, scratch_bytes, .. } = *product;
    Launch { kernel, args, units, cost, scratch_bytes }
}
