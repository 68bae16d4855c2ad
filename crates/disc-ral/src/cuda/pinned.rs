//! Copies between memory of the host and memory of the device through pinned blocks, so that an
//! upload need not wait for the GPU: it has the bytes when the call returns.
//!
//! A queue has two blocks at most. Uploads fill one after the other; while the GPU copies one, the
//! host fills the other. Blocks of queues that are gone serve the next ones: to pin memory takes
//! longer than to copy it.
//!
//! Invariants:
//! - the host writes to no byte of a block that a copy still reads, and reads none that a copy has
//!   still to write;
//! - all copies of a queue are in one order, also those that read and write the same block;
//! - where no memory can be pinned, nothing is copied, and the caller copies without it.

use super::{
    context::{Gpu, NO_TIMING},
    driver::CudaError,
};
use cudarc::driver::sys::{CUdeviceptr, CUevent, CUstream};
use std::{
    ptr,
    sync::{Arc, Mutex, PoisonError},
};

/// Bytes of a block.
const BLOCK: usize = 4 << 20;
/// Blocks of a queue.
const MOST: usize = 2;
/// Blocks that a GPU keeps for later queues.
const MOST_SPARE: usize = 4;
/// Uploads of at most this many bytes are not split.
const SMALL: usize = 64 << 10;
/// Uploads start at multiples of this.
const LINE: usize = 256;

/// Pinned memory of the host.
struct PinnedBlock {
    at: *mut u8,
    /// Bytes from the start that uploads have taken.
    used: usize,
    /// Recorded after the copies of the block, if `is_behind`.
    event: CUevent,
    /// Copies up to the event may still be under way.
    is_behind: bool,
}

// SAFETY: plain memory and a handle of the driver, which any thread may use; one at a time does.
unsafe impl Send for PinnedBlock {}

/// The blocks that no queue has.
#[derive(Default)]
pub(super) struct SpareBlocks(Mutex<Vec<PinnedBlock>>);

/// The blocks of one queue.
pub(super) struct Pinned {
    gpu: Arc<Gpu>,
    blocks: Vec<PinnedBlock>,
    /// The block that uploads fill.
    current: usize,
    /// No more memory could be pinned.
    is_refused: bool,
}

/// The last part of a download, which is in a block once the stream has been waited for.
pub(super) struct Landed {
    from: *const u8,
    to: *mut u8,
    bytes: usize,
}

impl Landed {
    /// Copies the part to where the download goes.
    ///
    /// # Safety
    /// The stream of the download has been waited for, and nothing else was copied since.
    pub(super) unsafe fn land(self) {
        // SAFETY: the memory of the download, and a block that the GPU has written.
        unsafe { self.to.copy_from_nonoverlapping(self.from, self.bytes) };
    }
}

impl Pinned {
    pub(super) fn new(gpu: &Arc<Gpu>) -> Self {
        Self { gpu: Arc::clone(gpu), blocks: Vec::new(), current: 0, is_refused: false }
    }

    /// Copies to the device in the order of a stream; `from` is no longer read when this returns.
    /// Waits for the GPU only if more bytes than both blocks have are under way. Returns false, and
    /// copies nothing, if there is no pinned memory.
    ///
    /// # Safety
    /// Both ranges are valid for `bytes`. The stream is that of the queue.
    pub(super) unsafe fn upload(
        &mut self,
        to: CUdeviceptr,
        from: *const u8,
        bytes: usize,
        stream: CUstream,
    ) -> Result<bool, CudaError> {
        let mut done = 0;
        while done < bytes {
            let left = bytes - done;
            let Some((at, room)) = self.room(left.min(SMALL), stream)? else { return Ok(false) };
            let part = left.min(room);
            // SAFETY: the room is the block's, and no copy reads it.
            unsafe { at.copy_from_nonoverlapping(from.add(done), part) };
            // SAFETY: as above; the block stays as it is until its event.
            self.gpu.call(|driver| unsafe { driver.upload(to + done as CUdeviceptr, at.cast(), part, stream) })?;
            let block = &mut self.blocks[self.current];
            block.used = (block.used + part).next_multiple_of(LINE).min(BLOCK);
            done += part;
        }
        Ok(true)
    }

    /// Returns room for at least `least` bytes, and how many there are; `None` if there is no
    /// block.
    fn room(&mut self, least: usize, stream: CUstream) -> Result<Option<(*mut u8, usize)>, CudaError> {
        let free = |pinned: &Self| pinned.blocks.get(pinned.current).map_or(0, |block| BLOCK - block.used);
        if free(self) < least {
            self.turn(stream)?;
        }
        let Some(block) = self.blocks.get(self.current) else { return Ok(None) };
        Ok(Some((block.at.wrapping_add(block.used), BLOCK - block.used)))
    }

    /// Lets uploads fill another block, from its start.
    fn turn(&mut self, stream: CUstream) -> Result<(), CudaError> {
        if let Some(block) = self.blocks.get_mut(self.current) {
            // SAFETY: an event of the block, and the stream of the queue.
            self.gpu.call(|driver| unsafe { driver.record_event(block.event, stream) })?;
            block.is_behind = true;
        }
        self.grow();
        if self.blocks.is_empty() {
            return Ok(());
        }
        let next = (self.current + 1) % self.blocks.len();
        let block = &mut self.blocks[next];
        if block.is_behind {
            // SAFETY: an event of the block.
            self.gpu.call(|driver| unsafe { driver.synchronize_event(block.event) })?;
        }
        (block.used, block.is_behind) = (0, false);
        self.current = next;
        Ok(())
    }

    /// Adds a block, if there may be one more.
    fn grow(&mut self) {
        if self.blocks.len() == MOST || self.is_refused {
            return;
        }
        match self.gpu.pinned_block() {
            Ok(block) => self.blocks.push(block),
            Err(error) => {
                tracing::info!("copies to and from {} go without pinned memory: {error}", self.gpu.name);
                self.is_refused = true;
            }
        }
    }

    /// Copies from the device in the order of a stream, but for the last part, which is returned:
    /// it is there when the stream has been waited for. `None` if there is no pinned memory, and
    /// nothing was copied.
    ///
    /// # Safety
    /// Both ranges are valid for `bytes`, which is positive. The stream is that of the queue.
    ///
    /// # Errors
    /// A failure of the driver. Copies to the blocks may still be under way then:
    /// [`Self::give_up`].
    pub(super) unsafe fn download(
        &mut self,
        to: *mut u8,
        from: CUdeviceptr,
        bytes: usize,
        stream: CUstream,
    ) -> Result<Option<Landed>, CudaError> {
        // A second block is for what a first one cannot hold.
        if self.blocks.is_empty() || bytes > BLOCK {
            self.grow();
        }
        if self.blocks.is_empty() {
            return Ok(None);
        }
        let (mut number, mut landed) = (self.current, None::<(usize, Landed)>);
        for start in (0..bytes).step_by(BLOCK) {
            if let Some((block, part)) = landed.take_if(|(block, _)| *block == number) {
                self.await_part(block, part)?;
            }
            let (block, part) = (&mut self.blocks[number], BLOCK.min(bytes - start));
            let is_last = start + part == bytes;
            // Uploads from the block are before it in the stream.
            self.gpu.call(|driver| {
                // SAFETY: the caller's range; the block has room for a part.
                unsafe {
                    driver.download(block.at.cast(), from + start as CUdeviceptr, part, stream)?;
                    if is_last { Ok(()) } else { driver.record_event(block.event, stream) }
                }
            })?;
            block.is_behind |= !is_last;
            let new = Landed { from: block.at, to: to.wrapping_add(start), bytes: part };
            if let Some((block, part)) = landed.replace((number, new)) {
                self.await_part(block, part)?;
            }
            number = (number + 1) % self.blocks.len();
        }
        Ok(landed.map(|(_, part)| part))
    }

    /// Waits for a part of a download, and copies it.
    fn await_part(&mut self, block: usize, part: Landed) -> Result<(), CudaError> {
        let block = &mut self.blocks[block];
        // SAFETY: an event of the block.
        self.gpu.call(|driver| unsafe { driver.synchronize_event(block.event) })?;
        // SAFETY: the copy has ended.
        unsafe { part.land() };
        (block.used, block.is_behind) = (0, false);
        Ok(())
    }

    /// Notes that the stream has been waited for.
    pub(super) fn waited(&mut self) {
        self.blocks.iter_mut().for_each(|block| (block.used, block.is_behind) = (0, false));
    }

    /// Leaves the blocks to copies that may be under way for ever: nobody uses them again.
    pub(super) fn give_up(&mut self) {
        self.blocks.clear();
        self.current = 0;
    }
}

impl Drop for Pinned {
    /// Keeps the blocks for later queues. This one has waited.
    fn drop(&mut self) {
        self.waited();
        let mut spare = self.gpu.spare_blocks.0.lock().unwrap_or_else(PoisonError::into_inner);
        let room = MOST_SPARE.saturating_sub(spare.len()).min(self.blocks.len());
        spare.extend(self.blocks.drain(..room));
        drop(spare);
        for block in self.blocks.drain(..) {
            // SAFETY: memory and an event of this queue, which no copy uses.
            let _ = self.gpu.call(|driver| unsafe {
                driver.destroy_event(block.event)?;
                driver.free_host(block.at.cast())
            });
        }
    }
}

impl Gpu {
    /// Returns a block that no queue has, or a new one.
    fn pinned_block(&self) -> Result<PinnedBlock, CudaError> {
        let spare = self.spare_blocks.0.lock().unwrap_or_else(PoisonError::into_inner).pop();
        if let Some(block) = spare {
            return Ok(block);
        }
        let (mut at, mut event) = (ptr::null_mut(), ptr::null_mut());
        self.call(|driver| {
            // SAFETY: each writes one address.
            unsafe {
                driver.alloc_host(&mut at, BLOCK, 0)?;
                let made = driver.create_event(&mut event, NO_TIMING);
                if made.is_err() {
                    // What failed is reported, not this.
                    let _ = driver.free_host(at);
                }
                made
            }
        })?;
        Ok(PinnedBlock { at: at.cast(), used: 0, event, is_behind: false })
    }
}
