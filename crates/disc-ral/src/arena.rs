//! Allocates temporary memory of a session: a bump allocator with frames, kept between calls,
//! trimmed to a bound.
//!
//! Invariants:
//! - between calls there is at most one chunk; a call that outgrew it added chunks, which the next
//!   call merges into one;
//! - between calls the arena holds at most 1.5 times the largest need of the last [`WINDOW`] to
//!   twice that many calls;
//! - a call whose need fits allocates nothing from the device;
//! - a failed allocation leaves the arena unchanged.

use crate::{
    device::{Block, Device, QueueMemory},
    error::AllocError,
};
use disc_abi::ALIGN;
use std::sync::Arc;

/// Calls per period of the trimming window.
const WINDOW: u32 = 32;
/// A new chunk is larger than the need by one part in this many, so that slowly growing sizes do
/// not allocate at each call.
const HEADROOM: usize = 4;
/// Arenas below this size are not trimmed.
const SMALL: usize = 64 << 10;
/// A mark holds the chunk number above this bit, and below it the offset in units of the alignment.
const OFFSET_BITS: u32 = 48;

pub(crate) struct Arena {
    device: Arc<dyn Device>,
    /// The memory of the queue whose ops use the arena.
    memory: Option<Arc<dyn QueueMemory>>,
    chunks: Vec<Chunk>,
    /// The chunk that is being filled.
    current: usize,
    /// Most bytes in use at once during this call.
    need: usize,
    /// Largest need of this period and of the one before.
    periods: [usize; 2],
    calls: u32,
    /// Size of the next first chunk.
    wanted: usize,
    peak: usize,
}

struct Chunk {
    block: Block,
    used: usize,
}

impl Arena {
    pub(crate) fn new(device: Arc<dyn Device>) -> Self {
        let (chunks, periods) = (Vec::new(), [0; 2]);
        Self { device, memory: None, chunks, current: 0, need: 0, periods, calls: 0, wanted: 0, peak: 0 }
    }

    /// Lets chunks from now on come from the memory of the queue, if it has some.
    pub(crate) fn use_memory(&mut self, memory: Option<Arc<dyn QueueMemory>>) {
        self.memory = memory;
    }

    pub(crate) fn alloc(&mut self, bytes: i64) -> Result<*mut u8, AllocError> {
        let bytes =
            usize::try_from(bytes).ok().and_then(|bytes| bytes.checked_next_multiple_of(ALIGN)).ok_or(AllocError::Size)?;
        if bytes == 0 {
            return Ok(std::ptr::without_provenance_mut(ALIGN));
        }
        let fits = |chunk: &Chunk| chunk.block.bytes() - chunk.used >= bytes;
        if !self.chunks.get(self.current).is_some_and(fits) {
            self.open(bytes)?;
        }
        let chunk = &mut self.chunks[self.current];
        let at = chunk.block.at().wrapping_add(chunk.used);
        chunk.used += bytes;
        self.need = self.need.max(self.in_use());
        Ok(at)
    }

    pub(crate) fn mark(&self) -> u64 {
        let used = self.chunks.get(self.current).map_or(0, |chunk| chunk.used);
        ((self.current as u64) << OFFSET_BITS) | (used / ALIGN) as u64
    }

    /// Frees everything allocated since the mark. A mark that is not below the present fill has no
    /// effect.
    pub(crate) fn release(&mut self, mark: u64) {
        let chunk = (mark >> OFFSET_BITS) as usize;
        let used = (mark & ((1 << OFFSET_BITS) - 1)) as usize * ALIGN;
        if chunk > self.current || chunk >= self.chunks.len() || used > self.chunks[chunk].used {
            return;
        }
        for later in &mut self.chunks[chunk + 1..] {
            later.used = 0;
        }
        self.chunks[chunk].used = used;
        self.current = chunk;
    }

    /// Ends a call: frees everything.
    pub(crate) fn end_call(&mut self) {
        self.peak = self.peak.max(self.need);
        self.periods[0] = self.periods[0].max(self.need);
        let largest = self.periods[0].max(self.periods[1]);
        let held = self.capacity();
        let too_much = held > SMALL && held > largest + largest / 2;
        if self.chunks.len() > 1 || too_much {
            self.chunks.clear();
            self.wanted = largest;
        }
        if let Some(chunk) = self.chunks.first_mut() {
            chunk.used = 0;
        }
        self.current = 0;
        self.need = 0;
        self.calls += 1;
        if self.calls == WINDOW {
            self.calls = 0;
            self.periods = [0, self.periods[0]];
        }
    }

    /// Returns true if the call has allocated before.
    pub(crate) fn is_in_use(&self) -> bool {
        self.need > 0
    }

    /// Bytes held.
    pub(crate) fn capacity(&self) -> usize {
        self.chunks.iter().map(|chunk| chunk.block.bytes()).sum()
    }

    /// Most bytes that one call had in use at once.
    pub(crate) fn peak(&self) -> usize {
        self.peak.max(self.need)
    }

    fn in_use(&self) -> usize {
        self.chunks[..=self.current].iter().map(|chunk| chunk.used).sum()
    }

    /// Makes a chunk with room for `bytes` the current one: the next chunk if it is large enough,
    /// else a new one in its place.
    #[cold]
    fn open(&mut self, bytes: usize) -> Result<(), AllocError> {
        let empty = self.chunks.get(self.current).is_none_or(|chunk| chunk.used == 0);
        let next = if empty { self.current } else { self.current + 1 };
        if self.chunks.get(next).is_none_or(|chunk| chunk.block.bytes() < bytes) {
            let need = self.chunk_need(bytes, next);
            // Later chunks are unused and too small: free them first.
            self.chunks.truncate(next);
            let block = |bytes| Block::in_memory(&self.device, self.memory.as_ref(), bytes);
            let block = block(need.saturating_add(need / HEADROOM)).or_else(|_| block(bytes))?;
            self.chunks.push(Chunk { block, used: 0 });
        }
        self.current = next;
        Ok(())
    }

    /// Returns the size of a new chunk: `bytes`, and for the first chunk at least the need of
    /// recent calls.
    fn chunk_need(&self, bytes: usize, position: usize) -> usize {
        if position == 0 { bytes.max(self.wanted).max(self.periods[0]).max(self.periods[1]) } else { bytes }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::cpu::Cpu;

    fn arena() -> Arena {
        Arena::new(Cpu::device())
    }

    fn call(arena: &mut Arena, bytes: i64) {
        arena.alloc(bytes).unwrap();
        arena.end_call();
    }

    #[test]
    fn allocations_are_aligned_and_do_not_overlap() {
        let mut arena = arena();
        let mut ends = 0;
        for bytes in [1, 64, 65, 100_000, 0, 7] {
            let at = arena.alloc(bytes).unwrap();
            assert!(at.addr().is_multiple_of(ALIGN));
            if bytes > 0 {
                // SAFETY: just allocated.
                unsafe { at.write_bytes(1, bytes as usize) };
                ends += bytes as usize;
            }
        }
        assert!(arena.in_use() >= ends);
    }

    #[test]
    fn a_repeated_need_allocates_nothing() {
        let mut arena = arena();
        call(&mut arena, 1 << 20);
        let first = arena.alloc(1 << 20).unwrap();
        arena.end_call();
        for _ in 0..100 {
            assert_eq!(arena.alloc(1 << 20).unwrap(), first);
            arena.end_call();
        }
        assert_eq!(arena.peak(), 1 << 20);
    }

    #[test]
    fn random_needs_stay_within_the_bound() {
        let mut arena = arena();
        let mut state = 12_345_u64;
        for _ in 0..10_000 {
            state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
            call(&mut arena, (state >> 40) as i64);
            assert!(arena.capacity() <= arena.peak() + arena.peak() / 2 + SMALL);
        }
    }

    #[test]
    fn a_rare_large_need_is_trimmed() {
        let mut arena = arena();
        call(&mut arena, 100 << 20);
        assert!(arena.capacity() >= 100 << 20);
        for _ in 0..2 * WINDOW + 1 {
            call(&mut arena, 1 << 20);
        }
        assert!(arena.capacity() <= (3 << 20) / 2, "{}", arena.capacity());
    }

    #[test]
    fn nested_frames_reuse_their_memory_and_are_merged() {
        let mut arena = arena();
        let outer = arena.alloc(1000).unwrap();
        let mut inner = None;
        for _ in 0..50 {
            let mark = arena.mark();
            let at = arena.alloc(1 << 20).unwrap();
            let again = *inner.get_or_insert(at);
            assert_eq!(at, again);
            let nested = arena.mark();
            arena.alloc(5 << 20).unwrap();
            arena.release(nested);
            arena.release(mark);
        }
        assert_eq!(arena.chunks.len(), 3);
        assert_eq!(arena.need, 1024 + (6 << 20));
        arena.release(arena.mark());
        assert_ne!(Some(outer), inner);
        arena.end_call();
        arena.alloc(1000).unwrap();
        arena.alloc(6 << 20).unwrap();
        assert_eq!(arena.chunks.len(), 1);
    }

    #[test]
    fn a_failed_allocation_is_an_error_and_the_next_works() {
        let mut arena = arena();
        let mark = arena.mark();
        arena.alloc(100).unwrap();
        assert_eq!(arena.alloc(-1), Err(AllocError::Size));
        assert!(arena.alloc(i64::MAX).is_err());
        assert!(matches!(arena.alloc(1 << 60), Err(AllocError::OverLimit(_))));
        arena.alloc(100).unwrap();
        arena.release(mark);
        arena.end_call();
        arena.alloc(100).unwrap();
    }
}
