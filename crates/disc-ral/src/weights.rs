//! Checks the weights of a caller and builds the table of addresses that generated code reads.
//!
//! Invariants: a set of weights is immutable once its `prepare` entries have run; calls that
//! started with a set keep it; blobs are one block, in the order of the metadata, each aligned to
//! [`disc_abi::ALIGN`].

use crate::{
    device::{Block, Device, LaunchFailure, Queue},
    error::{AllocError, Error, code},
    failure::Failure,
    gemm::PlainForms,
    host::HostTensor,
    meta::{EntryMeta, ModuleMeta, WeightMeta},
};
use disc_abi::{ALIGN, DEVICE_CPU, DType, Gemm};
use std::{any::Any, ptr, sync::Arc};

/// Bytes that the address of a weight on a GPU is a multiple of: those of the widest access.
const VECTOR_ALIGN: usize = 16;

/// A plain weight: contiguous memory of the host or of the executable's device that does not change
/// while an executable has it.
#[derive(Clone)]
pub struct Weight {
    data: *const u8,
    dtype: DType,
    sizes: Vec<i64>,
    /// The kind of device that the memory belongs to.
    device: u8,
    _owner: Arc<dyn Any + Send + Sync>,
}

// SAFETY: the memory is only read, and its owner may be shared between threads.
unsafe impl Send for Weight {}
// SAFETY: as above.
unsafe impl Sync for Weight {}

impl Weight {
    /// Borrows memory without a copy: a framework's tensor, a mapped file.
    ///
    /// # Safety
    /// While `owner` lives, `data` is valid for the elements of these sizes, contiguous, in memory
    /// of the host unless [`Weight::on_device`] says otherwise, and not written to.
    pub unsafe fn borrowed(data: *const u8, dtype: DType, sizes: Vec<i64>, owner: Arc<dyn Any + Send + Sync>) -> Self {
        Self { data, dtype, sizes, device: DEVICE_CPU, _owner: owner }
    }

    /// Sets the kind of device that the memory belongs to.
    pub fn on_device(self, device: u8) -> Self {
        Self { device, ..self }
    }

    /// Returns true if the memory is the host's.
    pub fn is_on_host(&self) -> bool {
        self.device == DEVICE_CPU
    }

    /// Returns the element type.
    pub fn dtype(&self) -> DType {
        self.dtype
    }

    /// Returns the size of each axis.
    pub fn sizes(&self) -> &[i64] {
        &self.sizes
    }

    /// Returns the elements as bytes: of host memory. Empty if they do not fit, or are missing.
    pub fn bytes(&self) -> &[u8] {
        match self.memory() {
            // SAFETY: `borrowed` promises memory of the elements, which nobody writes to.
            Some((data, bytes)) if bytes > 0 && self.device == DEVICE_CPU => unsafe { std::slice::from_raw_parts(data, bytes) },
            _ => &[],
        }
    }

    /// Returns the address and the number of bytes; `None` if that number does not fit, or if the
    /// memory is missing.
    pub fn memory(&self) -> Option<(*const u8, usize)> {
        let bytes = crate::tensor::bytes_of(self.dtype, &self.sizes)?;
        (bytes == 0 || !self.data.is_null()).then_some((self.data, bytes))
    }
}

impl From<HostTensor> for Weight {
    fn from(tensor: HostTensor) -> Self {
        let (data, dtype, sizes) = (tensor.bytes().as_ptr(), tensor.dtype(), tensor.sizes().to_vec());
        Self { data, dtype, sizes, device: DEVICE_CPU, _owner: Arc::new(tensor) }
    }
}

/// All prepared blobs of a module as one block that somebody else owns: the result of
/// [`WeightState::prepared`] for the same code and weights.
pub struct Prepared {
    data: *const u8,
    bytes: usize,
    _owner: Arc<dyn Any + Send + Sync>,
}

// SAFETY: the memory is only read, and its owner may be shared between threads.
unsafe impl Send for Prepared {}
// SAFETY: as above.
unsafe impl Sync for Prepared {}

impl Prepared {
    /// # Safety
    /// While `owner` lives, `data` is valid for `bytes`, aligned to [`disc_abi::ALIGN`], and not
    /// written to.
    pub unsafe fn borrowed(data: *const u8, bytes: usize, owner: Arc<dyn Any + Send + Sync>) -> Self {
        Self { data, bytes, _owner: owner }
    }
}

/// The block of all prepared blobs of one set of weights. Nobody writes to it once an executable
/// has it, even after the executable is gone.
pub struct Blobs(Memory);

/// The owner of the blobs' memory.
enum Memory {
    Own(Block),
    Borrowed(Prepared),
}

// SAFETY: only `prepare` entries write to the memory, and they have run when somebody else gets it;
// then it is only read. Devices may be shared between threads.
unsafe impl Send for Blobs {}
// SAFETY: as above.
unsafe impl Sync for Blobs {}

/// One consistent state of all weights.
pub(crate) struct WeightSet {
    /// The table that generated code sees: plain weights, then blobs.
    addresses: Vec<*const u8>,
    plain: Vec<Option<Weight>>,
    blobs: Option<Arc<Blobs>>,
    plain_bytes: usize,
    /// Panels that were unpacked for a library.
    forms: PlainForms,
}

// SAFETY: the addresses are of memory that the set owns or keeps alive, and that is only read once
// the set is shared.
unsafe impl Send for WeightSet {}
// SAFETY: as above.
unsafe impl Sync for WeightSet {}

impl WeightSet {
    /// Checks the weights, and takes the prepared blobs or allocates them; allocated ones are still
    /// undefined.
    pub(crate) fn new(
        device: &Arc<dyn Device>,
        meta: &ModuleMeta,
        weights: Vec<Weight>,
        prepared: Option<Prepared>,
    ) -> Result<Self, Error> {
        if weights.len() != meta.weights.len() {
            let message = format!("the module has {} weights, {} came", meta.weights.len(), weights.len());
            return Err(Error::new(code::WEIGHTS, "weights", message));
        }
        let mut set =
            Self { addresses: Vec::new(), plain: Vec::new(), blobs: None, plain_bytes: 0, forms: PlainForms::default() };
        if weights.iter().any(|weight| !weight.is_on_host()) {
            // The streams that have written them are not known here.
            device.synchronize().map_err(in_prepare)?;
        }
        let mut queue = device.queue();
        for (meta, weight) in meta.weights.iter().zip(weights) {
            let bytes = check(meta, &weight)?;
            let weight = placed((device, &mut *queue), meta, weight, bytes)?;
            set.addresses.push(weight.data);
            set.plain_bytes += bytes;
            set.plain.push(Some(weight));
        }
        // Other queues read the copies.
        queue.sync().map_err(in_prepare)?;
        set.place_blobs(device, meta, prepared)?;
        Ok(set)
    }

    pub(crate) fn table(&self) -> *const *const u8 {
        self.addresses.as_ptr()
    }

    /// Frees the plain weights that only `prepare` entries read.
    pub(crate) fn release(&mut self, meta: &ModuleMeta) {
        for (index, meta) in meta.weights.iter().enumerate().filter(|(_, meta)| meta.prepare_only) {
            if self.plain[index].take().is_some() {
                self.plain_bytes -= meta.bytes().unwrap_or(0);
            }
            self.addresses[index] = ptr::null();
        }
    }

    /// Returns the bytes of plain weights that are kept alive, and of prepared forms.
    pub(crate) fn bytes(&self) -> (usize, usize) {
        (self.plain_bytes, self.blobs.as_ref().map_or(0, |blobs| blobs.bytes()) + self.forms.bytes())
    }

    /// Returns the right operand of a GEMM as a plain matrix, if it is packed panels of this set.
    pub(crate) fn plain_form(&self, device: &Arc<dyn Device>, product: &Gemm) -> Option<Arc<Block>> {
        self.forms.of(device, product, |address| self.addresses.contains(&address))
    }

    /// Frees the matrices that [`WeightSet::plain_form`] made for GEMMs of these columns and sums.
    pub(crate) fn release_plain_forms(&self, sizes: [i64; 2]) {
        self.forms.release(sizes);
    }

    fn place_blobs(&mut self, device: &Arc<dyn Device>, meta: &ModuleMeta, prepared: Option<Prepared>) -> Result<(), Error> {
        let (offsets, total) = layout(meta)?;
        if let Some(prepared) = prepared {
            if prepared.bytes != total || prepared.data.is_null() || !prepared.data.addr().is_multiple_of(ALIGN) {
                return Err(Error::internal(format!("{} bytes of prepared weights for {total}", prepared.bytes)));
            }
            self.blobs = Some(Arc::new(Blobs(Memory::Borrowed(prepared))));
        } else if total > 0 {
            let block = Block::new(device, total);
            let block = block.map_err(|cause| Error::out_of_memory("prepared weights", total, &cause))?;
            if device.kind() == DEVICE_CPU {
                clear_gaps(&block, meta, &offsets);
            }
            self.blobs = Some(Arc::new(Blobs(Memory::Own(block))));
        }
        let base = self.blobs.as_ref().map_or(ptr::without_provenance(ALIGN), |blobs| blobs.at());
        self.addresses.extend(offsets.iter().map(|&offset| base.wrapping_add(offset)));
        Ok(())
    }
}

impl Blobs {
    /// Returns the start of the block.
    pub fn at(&self) -> *const u8 {
        match &self.0 {
            Memory::Own(block) => block.at().cast_const(),
            Memory::Borrowed(prepared) => prepared.data,
        }
    }

    /// Returns the bytes of all blobs, with the gaps between them.
    pub fn contents(&self) -> &[u8] {
        // SAFETY: memory of this many bytes, which nobody writes to any more; gaps are zeros.
        unsafe { std::slice::from_raw_parts(self.at(), self.bytes()) }
    }

    /// Returns the number of bytes, gaps between blobs included.
    pub fn bytes(&self) -> usize {
        match &self.0 {
            Memory::Own(block) => block.bytes(),
            Memory::Borrowed(prepared) => prepared.bytes,
        }
    }
}

/// Writes zeros between the blobs, so that all bytes have a value.
fn clear_gaps(block: &Block, meta: &ModuleMeta, offsets: &[usize]) {
    let ends = offsets.iter().skip(1).copied().chain([block.bytes()]);
    for ((&start, end), blob) in offsets.iter().zip(ends).zip(&meta.blobs) {
        let filled = start + blob.bytes as usize;
        // SAFETY: the range after a blob and before the next one, within the block.
        unsafe { block.at().add(filled).write_bytes(0, end.saturating_sub(filled)) };
    }
}

/// Returns the offset of each blob, and the bytes of all.
fn layout(meta: &ModuleMeta) -> Result<(Vec<usize>, usize), Error> {
    let mut total = 0_usize;
    let mut offsets = Vec::with_capacity(meta.blobs.len());
    for blob in &meta.blobs {
        offsets.push(total);
        let bytes = usize::try_from(blob.bytes).ok().and_then(|bytes| bytes.checked_next_multiple_of(ALIGN));
        let end = bytes.and_then(|bytes| total.checked_add(bytes));
        total = end.ok_or_else(|| Error::out_of_memory("prepared weights", blob.bytes, &AllocError::Size))?;
    }
    Ok((offsets, total))
}

impl ModuleMeta {
    /// Returns the bytes of all prepared blobs; `None` if they do not fit.
    pub fn prepared_bytes(&self) -> Option<usize> {
        layout(self).ok().map(|(_, total)| total)
    }
}

/// The weights that an executable's calls read at one moment, for another executable of the same
/// model to read.
#[derive(Clone)]
pub struct WeightState {
    pub(crate) set: Arc<WeightSet>,
    pub(crate) meta: Arc<ModuleMeta>,
}

impl WeightState {
    /// Returns all prepared blobs, without the plain weights; `None` if there are none.
    pub fn prepared(&self) -> Option<Arc<Blobs>> {
        self.set.blobs.clone()
    }

    /// Returns a weight by its name, plain or prepared, without a copy; `None` if there is no such
    /// weight, if it was freed, or if it has another type or other sizes.
    pub fn weight(&self, name: &str, dtype: DType, sizes: &[i64]) -> Option<Weight> {
        let plain = &self.meta.weights;
        let position = match plain.iter().position(|weight| weight.name == name) {
            Some(i) => ((plain[i].dtype, &plain[i].sizes[..]) == (dtype, sizes)).then_some(i)?,
            None => {
                let i = self.meta.blobs.iter().position(|blob| blob.name == name)?;
                let bytes = crate::tensor::bytes_of(dtype, sizes)?;
                (self.meta.blobs[i].bytes == bytes as u64).then_some(plain.len() + i)?
            }
        };
        let data = *self.set.addresses.get(position)?;
        // SAFETY: the address is of this many bytes, which the set owns or keeps alive and nobody
        // writes to once it is shared.
        (!data.is_null()).then(|| unsafe { Weight::borrowed(data, dtype, sizes.to_vec(), self.set.clone()) })
    }
}

fn check(meta: &WeightMeta, weight: &Weight) -> Result<usize, Error> {
    let error = |message| Error::new(code::WEIGHTS, &meta.name, format!("weight `{}` {message}", meta.name));
    if (weight.dtype, &weight.sizes) != (meta.dtype, &meta.sizes) {
        let (dtype, sizes) = (weight.dtype, &weight.sizes);
        return Err(error(format!("must be {} of sizes {:?}, not {dtype} of sizes {sizes:?}", meta.dtype, meta.sizes)));
    }
    let bytes = meta.bytes().ok_or_else(|| error(format!("has sizes {:?}, which do not fit into memory", meta.sizes)))?;
    if bytes > 0 && weight.data.is_null() {
        return Err(error("has no memory".into()));
    }
    Ok(bytes)
}

fn is_aligned(weight: &Weight) -> bool {
    weight.data.addr().is_multiple_of(weight.dtype.size())
}

/// Returns a weight in memory that kernels of the device read: a copy, if it is elsewhere, or at an
/// odd address.
fn placed(
    (device, queue): (&Arc<dyn Device>, &mut dyn Queue),
    meta: &WeightMeta,
    weight: Weight,
    bytes: usize,
) -> Result<Weight, Error> {
    match (weight.device, device.kind()) {
        (DEVICE_CPU, DEVICE_CPU) if is_aligned(&weight) => Ok(weight),
        (DEVICE_CPU, DEVICE_CPU) => copied(meta, &weight, bytes),
        (DEVICE_CPU, _) => uploaded((device, queue), &weight, bytes),
        (its, kind) if its == kind && weight.data.addr().is_multiple_of(VECTOR_ALIGN) => Ok(weight),
        (its, kind) if its == kind => moved((device, queue), &weight, bytes),
        (its, kind) => {
            let message = format!("weight `{}` is on device kind {its}, calls run on {kind}", meta.name);
            Err(Error::new(code::WEIGHTS, &meta.name, message))
        }
    }
}

/// Copies a weight within memory of a device.
fn moved((device, queue): (&Arc<dyn Device>, &mut dyn Queue), weight: &Weight, bytes: usize) -> Result<Weight, Error> {
    let block = Block::new(device, bytes).map_err(|cause| Error::out_of_memory("a weight", bytes, &cause))?;
    // The weight's owner may free it when it is dropped.
    // SAFETY: the weight's memory, and a new block.
    let copied = unsafe { queue.copy(block.at(), weight.data, bytes) }.and_then(|()| queue.sync());
    copied.map_err(in_prepare)?;
    Ok(in_block(block, weight))
}

fn in_prepare(failure: LaunchFailure) -> Error {
    Failure::Launch(failure).into_error(&ModuleMeta::default(), &EntryMeta::default())
}

fn in_block(block: Block, weight: &Weight) -> Weight {
    let (data, dtype, sizes, device) = (block.at().cast_const(), weight.dtype, weight.sizes.clone(), block.kind());
    Weight { data, dtype, sizes, device, _owner: Arc::new(block) }
}

/// Copies a weight of the host to memory of a device, where it is once the queue has been waited
/// for.
fn uploaded((device, queue): (&Arc<dyn Device>, &mut dyn Queue), weight: &Weight, bytes: usize) -> Result<Weight, Error> {
    let block = Block::new(device, bytes).map_err(|cause| Error::out_of_memory("a weight", bytes, &cause))?;
    // SAFETY: the weight's memory, and a new block.
    unsafe { queue.upload(block.at(), weight.data, bytes) }.map_err(in_prepare)?;
    Ok(in_block(block, weight))
}

/// Copies a weight to aligned memory: some files store weights at odd offsets.
fn copied(meta: &WeightMeta, weight: &Weight, bytes: usize) -> Result<Weight, Error> {
    let mut tensor = HostTensor::zeros(meta.dtype, &meta.sizes)?;
    // SAFETY: the weight's memory is valid while its owner lives, which `weight` holds.
    tensor.bytes_mut().copy_from_slice(unsafe { std::slice::from_raw_parts(weight.data, bytes) });
    Ok(tensor.into())
}
