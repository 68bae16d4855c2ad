//! Runs calls whose tensors are in host memory on a device with memory of its own: inputs are
//! copied there, outputs and written inputs back.
//!
//! Invariant: tensors that are in memory of the device already are taken as they are.

use crate::{
    bind::check_overlaps,
    device::{Block, Device, QueueMemory},
    error::Error,
    failure::Failure,
    meta::EntryMeta,
    session_state::SessionState,
    tensor::{OutputAllocator, OutputError, TensorRef, bytes_of},
};
use disc_abi::{DEVICE_CPU, DType};
use std::sync::Arc;

/// The tensors of one call in memory of the device.
pub(crate) struct Staging<'o> {
    device: Arc<dyn Device>,
    /// The memory of the queue.
    memory: Option<Arc<dyn QueueMemory>>,
    /// The allocator of the caller.
    caller: &'o mut dyn OutputAllocator,
    made: Vec<Made>,
    /// Outputs that are views of inputs: their number, that of the input, and the view.
    views: Vec<(usize, usize, View)>,
    /// Outputs go to memory of the host.
    is_host: bool,
}

/// An output in memory of the device.
struct Made {
    index: usize,
    dtype: DType,
    sizes: Vec<i64>,
    block: Block,
}

/// A view of an input, by addresses of the device.
struct View {
    at: *mut u8,
    dtype: DType,
    sizes: Vec<i64>,
    strides: Option<Vec<i64>>,
}

impl<'o> Staging<'o> {
    /// Runs a call on copies of its tensors, where they are in host memory.
    pub(crate) fn run(
        session: &mut SessionState,
        entry: &EntryMeta,
        (inputs, outputs): (&[TensorRef<'_>], &mut dyn OutputAllocator),
        call: impl FnOnce(&mut SessionState, &[TensorRef<'_>], &mut dyn OutputAllocator) -> Result<(), Error>,
    ) -> Result<(), Error> {
        // Copies share no memory, so this has to be asked before there are any.
        if inputs.len() == entry.inputs.len() {
            check_overlaps(entry, inputs)?;
        }
        let is_host = !outputs.is_on_device() && inputs.iter().all(|input| input.device() == DEVICE_CPU);
        let device = Arc::clone(&session.device);
        let memory = session.queue.memory().map_err(failed)?;
        let mut copies = Vec::with_capacity(inputs.len());
        for (index, input) in inputs.iter().enumerate() {
            let stays = entry.inputs.get(index).is_none_or(|meta| meta.host || meta.dtype != input.dtype());
            copies.push(if stays { None } else { uploaded(session, memory.as_ref(), input)? });
        }
        let there: Vec<TensorRef<'_>> = inputs.iter().zip(&copies).map(|(input, copy)| moved(input, copy.as_ref())).collect();
        let mut staging = Staging { device, memory, caller: outputs, made: Vec::new(), views: Vec::new(), is_host };
        call(session, &there, &mut staging)?;
        // A call that fails leaves the caller's memory as it was.
        if is_host || copies.iter().zip(&entry.inputs).any(|(copy, meta)| copy.is_some() && meta.written) {
            session.queue.sync().map_err(|failure| session.awaited(failure))?;
        }
        staging.bring_back(session)?;
        for ((input, copy), meta) in inputs.iter().zip(&copies).zip(&entry.inputs) {
            if let Some(block) = copy.as_ref().filter(|_| meta.written) {
                let bytes = bytes_of(input.dtype(), input.sizes()).unwrap_or(0);
                // SAFETY: a writable tensor of the caller, and its copy.
                download(session, input.data().cast(), block.at(), bytes)?;
            }
        }
        staging.show_views(inputs, &copies)
    }

    /// Copies the outputs to memory of the caller.
    fn bring_back(&mut self, session: &mut SessionState) -> Result<(), Error> {
        for Made { index, dtype, sizes, block } in std::mem::take(&mut self.made) {
            let to = self.caller.alloc(index, dtype, &sizes)?;
            let bytes = bytes_of(dtype, &sizes).unwrap_or(0);
            if bytes > 0 && to.is_null() {
                return Err(OutputError(format!("no memory came for {bytes} bytes of output {index}")).into());
            }
            download(session, to, block.at(), bytes)?;
        }
        Ok(())
    }

    /// Tells the caller which outputs are views of inputs.
    fn show_views(self, inputs: &[TensorRef<'_>], copies: &[Option<Block>]) -> Result<(), Error> {
        for (index, input, view) in &self.views {
            let at = match &copies[*input] {
                Some(block) => {
                    let offset = view.at.addr().wrapping_sub(block.at().addr());
                    inputs[*input].data().cast::<u8>().wrapping_add(offset)
                }
                None => view.at,
            };
            // SAFETY: the view is of memory of this input.
            let shown = unsafe { TensorRef::from_raw(at.cast(), view.dtype, &view.sizes) }.on_device(inputs[*input].device());
            let shown = view.strides.as_ref().map_or(shown, |strides| shown.strides(strides));
            self.caller.alias(*index, *input, shown)?;
        }
        Ok(())
    }
}

impl OutputAllocator for Staging<'_> {
    fn alloc(&mut self, index: usize, dtype: DType, sizes: &[i64]) -> Result<*mut u8, OutputError> {
        if !self.is_host {
            return self.caller.alloc(index, dtype, sizes);
        }
        let bytes = bytes_of(dtype, sizes).ok_or_else(|| OutputError(format!("sizes {sizes:?} do not fit into memory")))?;
        let block =
            Block::in_memory(&self.device, self.memory.as_ref(), bytes).map_err(|error| OutputError(error.to_string()))?;
        let at = block.at();
        self.made.push(Made { index, dtype, sizes: sizes.to_vec(), block });
        Ok(at)
    }

    fn alias(&mut self, index: usize, input: usize, view: TensorRef<'_>) -> Result<(), OutputError> {
        let (dtype, sizes) = (view.dtype(), view.sizes().to_vec());
        let strides = view.given_strides().map(<[i64]>::to_vec);
        self.views.push((index, input, View { at: view.data().cast(), dtype, sizes, strides }));
        Ok(())
    }
}

/// Copies a tensor in host memory to the device; `None` for one that is there, or that the call
/// will refuse.
fn uploaded(
    session: &mut SessionState,
    memory: Option<&Arc<dyn QueueMemory>>,
    input: &TensorRef<'_>,
) -> Result<Option<Block>, Error> {
    let Some(bytes) = bytes_of(input.dtype(), input.sizes()) else { return Ok(None) };
    let is_plain = input.device() == DEVICE_CPU && input.is_contiguous() && (bytes == 0 || !input.data().is_null());
    if !is_plain {
        return Ok(None);
    }
    let block = Block::in_memory(&session.device, memory, bytes);
    let block = block.map_err(|cause| Error::out_of_memory("a tensor on the device", bytes, &cause))?;
    if bytes > 0 {
        // SAFETY: valid memory of the caller, and a new block.
        unsafe { session.queue.upload(block.at(), input.data().cast_const().cast(), bytes) }.map_err(failed)?;
    }
    Ok(Some(block))
}

/// Copies from the device to memory of the caller.
fn download(session: &mut SessionState, to: *mut u8, from: *const u8, bytes: usize) -> Result<(), Error> {
    if bytes == 0 {
        return Ok(());
    }
    // SAFETY: valid memory of both.
    unsafe { session.queue.download(to, from, bytes) }.map_err(failed)
}

fn failed(failure: crate::LaunchFailure) -> Error {
    Failure::Launch(failure).into_error(&crate::ModuleMeta::default(), &EntryMeta::default())
}

/// Returns the tensor that the call gets: the copy, if there is one.
fn moved<'t>(input: &TensorRef<'t>, copy: Option<&Block>) -> TensorRef<'t> {
    let Some(block) = copy else { return *input };
    // SAFETY: the copy is of a tensor of this type, and lives as long as the call.
    let there = unsafe { TensorRef::from_raw(block.at().cast(), input.dtype(), input.sizes()) };
    let there = there.on_device(block.kind());
    if input.is_read_only() { there } else { there.writable() }
}
