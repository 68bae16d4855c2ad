//! Knows who wrote and who read memory: finds races, and bytes that nobody wrote.
//!
//! A cell holds the last writer and the last reader of a word of four bytes. Several readers that
//! no barrier orders are one: a warp, a block, or all blocks. So the rules are exact without a list
//! of them. A word that threads access in parts has a cell for each byte instead.
//!
//! Invariants:
//! - An access is of a *run*, the number of a launch and a block in it, a thread and a time:
//!   barriers count the time of a block. Accesses of earlier launches, and of launches on other
//!   queues, have numbers outside those of this launch, and are ignored.
//! - Accesses of one thread are ordered; those of a block are by a barrier of the block, those of a
//!   warp by one of the warp too; others are not.
use std::{
    marker::PhantomData,
    sync::atomic::{AtomicU64, Ordering::Relaxed},
};

/// Writer and reader of a word.
#[derive(Debug, Default)]
#[repr(C)]
pub(crate) struct Cell {
    writer: AtomicU64,
    reader: AtomicU64,
}

/// The bits of a record: the time, a flag, the thread or threads, and the run.
const TIME: u32 = 20;
const FLAG: u64 = 1 << TIME;
const THREAD: u32 = TIME + 1;
const RUN: u32 = 32;
/// Threads of which several accessed a word: a warp, from here on; all of a block.
const WARPS: u32 = 1024;
const BLOCK: u32 = 2047;
/// The mark of a word whose bytes have cells of their own.
const SPLIT: u32 = 2046;
/// Barriers of a block beyond this number are refused.
pub(crate) const LAST_TIME: u32 = (1 << TIME) - 1;

/// The thread that accesses memory now.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Who {
    /// The numbers of the launch's runs, and the one that stands for several.
    pub(crate) first: u32,
    pub(crate) several: u32,
    pub(crate) run: u32,
    pub(crate) thread: u32,
    /// The logarithm of the warp.
    pub(crate) warp_bits: u32,
    pub(crate) time: u32,
    /// The time of the last barrier of the block.
    pub(crate) block_time: u32,
}

impl Who {
    /// Returns the same for memory that only this block has: accesses of blocks before were to
    /// other memory.
    pub(crate) fn in_block(self) -> Self {
        Self { first: self.run, ..self }
    }
}

/// The last barrier of each warp.
pub(crate) type WarpTimes = [u32; 32];

/// A kind of access.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Kind {
    Read,
    /// A read of memory that nobody writes to in the launch.
    ReadOnly,
    Write,
    Atomic,
}

/// The reason why an access is refused.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Problem {
    /// Nobody wrote the byte.
    Unwritten,
    /// An access that no barrier orders: whether it wrote, with the thread if it is one, and true
    /// if it is of another block.
    Race { wrote: bool, thread: Option<u32>, elsewhere: bool },
    /// Memory that is read only is written in the launch.
    ReadOnly,
    /// An asynchronous copy writes the byte.
    InFlight,
}

/// A problem, and the byte that has it.
pub(crate) type Found = (u64, Problem);

#[inline]
fn run_of(record: u64) -> u32 {
    (record >> RUN) as u32
}

#[inline]
fn thread_of(record: u64) -> u32 {
    (record >> THREAD) as u32 & 0x7FF
}

#[inline]
fn time_of(record: u64) -> u32 {
    record as u32 & LAST_TIME
}

#[inline]
fn record(run: u32, thread: u32, flag: bool, time: u32) -> u64 {
    u64::from(run) << RUN | u64::from(thread) << THREAD | if flag { FLAG } else { 0 } | u64::from(time)
}

impl Who {
    #[inline]
    fn is_of_launch(&self, record: u64) -> bool {
        run_of(record).wrapping_sub(self.first) <= self.several - self.first
    }

    #[inline]
    fn own(&self, flag: bool) -> u64 {
        record(self.run, self.thread, flag, self.time)
    }

    /// Returns the warp of a record, if it is of one warp.
    #[inline]
    fn warp_of(&self, thread: u32) -> Option<u32> {
        match thread {
            BLOCK => None,
            WARPS.. => Some(thread - WARPS),
            _ => Some(thread >> self.warp_bits),
        }
    }

    /// Returns true if nothing orders the access of a record and this one.
    #[inline]
    fn is_unordered(&self, other: u64, warps: &WarpTimes) -> bool {
        if !self.is_of_launch(other) {
            return false;
        }
        if run_of(other) != self.run {
            return true;
        }
        let thread = thread_of(other);
        if thread == self.thread {
            return false;
        }
        let warp = self.thread >> self.warp_bits;
        let ordered = if self.warp_of(thread) == Some(warp) { warps[warp as usize] } else { self.block_time };
        time_of(other) >= ordered
    }

    /// Returns true if a record of several threads of the launch stands for this access already.
    #[inline]
    fn is_in(&self, other: u64) -> bool {
        let is_of_block = run_of(other) == self.run && thread_of(other) == BLOCK && time_of(other) >= self.block_time;
        is_of_block || run_of(other) == self.several
    }

    /// Returns a record of this access and of those that an older one stands for.
    fn merged(&self, other: u64, flag: bool, warps: &WarpTimes) -> u64 {
        if !self.is_of_launch(other) {
            return self.own(flag);
        }
        let sticky = flag || other & FLAG != 0;
        if run_of(other) != self.run {
            return record(self.several, BLOCK, sticky, self.time);
        }
        if !self.is_unordered(other, warps) {
            return self.own(sticky);
        }
        let warp = self.thread >> self.warp_bits;
        let several = if self.warp_of(thread_of(other)) == Some(warp) { WARPS + warp } else { BLOCK };
        record(self.run, several, sticky, self.time)
    }

    fn race(&self, other: u64, wrote: bool) -> Problem {
        let thread = Some(thread_of(other)).filter(|&thread| thread < WARPS && run_of(other) == self.run);
        Problem::Race { wrote, thread, elsewhere: run_of(other) != self.run }
    }
}

impl Cell {
    /// Records an access.
    #[inline]
    fn access(&self, who: &Who, kind: Kind, warps: &WarpTimes) -> Result<(), Problem> {
        let (writer, reader) = (self.writer.load(Relaxed), self.reader.load(Relaxed));
        match kind {
            Kind::Read => {
                if who.is_unordered(writer, warps) {
                    return Err(who.race(writer, true));
                }
                if !who.is_of_launch(reader) {
                    self.reader.store(who.own(false), Relaxed);
                } else if reader != who.own(false) && !who.is_in(reader) {
                    self.reader.store(who.merged(reader, false, warps), Relaxed);
                }
            }
            Kind::ReadOnly => {
                if who.is_of_launch(writer) {
                    return Err(Problem::ReadOnly);
                }
                self.reader.store(who.merged(reader, true, warps), Relaxed);
            }
            Kind::Write => {
                if who.is_of_launch(reader) && reader & FLAG != 0 {
                    return Err(Problem::ReadOnly);
                }
                if who.is_unordered(writer, warps) {
                    return Err(who.race(writer, true));
                }
                if who.is_unordered(reader, warps) {
                    return Err(who.race(reader, false));
                }
                self.writer.store(who.own(false), Relaxed);
            }
            Kind::Atomic => return self.atomic(who, warps),
        }
        Ok(())
    }

    /// Records an atomic access: it is in no race with others of its kind.
    fn atomic(&self, who: &Who, warps: &WarpTimes) -> Result<(), Problem> {
        let (writer, reader) = (self.writer.load(Relaxed), self.reader.load(Relaxed));
        if who.is_of_launch(reader) && reader & FLAG != 0 {
            return Err(Problem::ReadOnly);
        }
        let is_unordered = who.is_unordered(writer, warps);
        if is_unordered && writer & FLAG == 0 {
            return Err(who.race(writer, true));
        }
        if who.is_unordered(reader, warps) {
            return Err(who.race(reader, false));
        }
        let merged = match who.is_of_launch(writer) {
            // A plain write of the thread itself still is none to the others.
            true if writer & FLAG == 0 && !is_unordered && thread_of(writer) == who.thread => {
                who.own(time_of(writer) < who.block_time)
            }
            true if writer & FLAG == 0 => who.own(true),
            _ => who.merged(writer, true, warps),
        };
        self.writer.store(merged, Relaxed);
        Ok(())
    }
}

/// The cells of a range of memory.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Cells<'m> {
    words: *const Cell,
    parts: *const Cell,
    written: *const AtomicU64,
    bytes: u64,
    lives: PhantomData<&'m Cell>,
}

impl Cells<'_> {
    /// # Safety
    /// There is a cell for each of so many bytes in `parts` and for each four of them in `words`,
    /// and a bit for each in `written`, which are zeros at first and live as long as the result.
    pub(crate) unsafe fn new(words: *const Cell, parts: *const Cell, written: *const AtomicU64, bytes: u64) -> Self {
        Self { words, parts, written, bytes, lives: PhantomData }
    }

    #[inline]
    fn word(&self, number: u64) -> &Cell {
        assert!(4 * number < self.bytes);
        // SAFETY: there is a cell for each word.
        unsafe { &*self.words.add(number as usize) }
    }

    #[inline]
    fn part(&self, byte: u64) -> &Cell {
        assert!(byte < self.bytes);
        // SAFETY: there is a cell for each byte.
        unsafe { &*self.parts.add(byte as usize) }
    }

    /// Returns 64 bits, of the bytes from `64 * number` on.
    #[inline]
    fn bits(&self, number: u64) -> &AtomicU64 {
        assert!(64 * number < self.bytes);
        // SAFETY: there is a bit for each byte; `bytes` is a multiple of 64.
        unsafe { &*self.written.add(number as usize) }
    }

    /// Calls `visit` with each group of 64 bits that a range has a part of, and the part's bits.
    #[inline]
    fn each_bits(&self, start: u64, bytes: u64, mut visit: impl FnMut(u64, &AtomicU64, u64)) {
        let (mut at, end) = (start, start + bytes);
        while at < end {
            let next = (at / 64 * 64 + 64).min(end);
            let mask = u64::MAX >> (64 - (next - at)) << (at % 64);
            visit(at / 64, self.bits(at / 64), mask);
            at = next;
        }
    }

    /// Marks bytes as written.
    #[inline]
    pub(crate) fn mark(&self, start: u64, bytes: u64) {
        self.each_bits(start, bytes, |_, bits, mask| {
            if bits.load(Relaxed) & mask != mask {
                bits.fetch_or(mask, Relaxed);
            }
        });
    }

    /// Marks bytes as unwritten.
    pub(crate) fn forget(&self, start: u64, bytes: u64) {
        self.each_bits(start, bytes, |_, bits, mask| {
            if bits.load(Relaxed) & mask != 0 {
                bits.fetch_and(!mask, Relaxed);
            }
        });
    }

    /// Returns the first byte of a range that nobody wrote.
    #[inline]
    pub(crate) fn unwritten(&self, start: u64, bytes: u64) -> Option<u64> {
        // Most accesses are within one group of bits.
        if start % 64 + bytes <= 64 && bytes > 0 {
            let missing = !self.bits(start / 64).load(Relaxed) >> (start % 64) & u64::MAX >> (64 - bytes);
            return (missing != 0).then(|| start + u64::from(missing.trailing_zeros()));
        }
        self.unwritten_of_many(start, bytes)
    }

    fn unwritten_of_many(&self, start: u64, bytes: u64) -> Option<u64> {
        let mut found = None;
        self.each_bits(start, bytes, |number, bits, mask| {
            let missing = !bits.load(Relaxed) & mask;
            if missing != 0 && found.is_none() {
                found = Some(64 * number + u64::from(missing.trailing_zeros()));
            }
        });
        found
    }

    /// Copies the marks of a range to another one.
    pub(crate) fn copy_marks(&self, to: u64, from: u64, bytes: u64) {
        if self.unwritten(from, bytes).is_none() {
            return self.mark(to, bytes);
        }
        for i in 0..bytes {
            if self.unwritten(from + i, 1).is_none() { self.mark(to + i, 1) } else { self.forget(to + i, 1) }
        }
    }

    /// Records accesses of consecutive bytes by consecutive threads, `each` bytes by a thread from
    /// `who` on.
    #[inline]
    pub(crate) fn access(
        &self,
        (start, bytes, each): (u64, u64, u64),
        mut who: Who,
        kind: Kind,
        warps: &WarpTimes,
    ) -> Result<(), Found> {
        if kind != Kind::Write
            && let Some(byte) = self.unwritten(start, bytes)
        {
            return Err((byte, Problem::Unwritten));
        }
        let mut at = start;
        while at < start + bytes {
            let end = at + each;
            if at.is_multiple_of(4) && each.is_multiple_of(4) {
                for word in at / 4..end / 4 {
                    self.whole(word, &who, kind, warps)?;
                }
            } else {
                for byte in at..end {
                    self.byte(byte, &who, kind, warps)?;
                }
            }
            at = end;
            who.thread += 1;
        }
        if kind == Kind::Write {
            self.mark(start, bytes);
        }
        Ok(())
    }

    #[inline]
    fn whole(&self, number: u64, who: &Who, kind: Kind, warps: &WarpTimes) -> Result<(), Found> {
        let cell = self.word(number);
        if is_split(cell, who) {
            return (4 * number..4 * number + 4)
                .try_for_each(|byte| self.part(byte).access(who, kind, warps).map_err(|problem| (byte, problem)));
        }
        cell.access(who, kind, warps).map_err(|problem| (4 * number, problem))
    }

    fn byte(&self, byte: u64, who: &Who, kind: Kind, warps: &WarpTimes) -> Result<(), Found> {
        let cell = self.word(byte / 4);
        if !is_split(cell, who) {
            for part in byte / 4 * 4..byte / 4 * 4 + 4 {
                let part = self.part(part);
                part.writer.store(cell.writer.load(Relaxed), Relaxed);
                part.reader.store(cell.reader.load(Relaxed), Relaxed);
            }
            cell.writer.store(record(who.several, SPLIT, false, 0), Relaxed);
        }
        self.part(byte).access(who, kind, warps).map_err(|problem| (byte, problem))
    }

    /// Records the end of an asynchronous write: it happens now.
    pub(crate) fn finish(&self, start: u64, bytes: u64, who: &Who) {
        for word in start / 4..(start + bytes) / 4 {
            let cell = self.word(word);
            match is_split(cell, who) {
                true => (4 * word..4 * word + 4).for_each(|byte| self.part(byte).writer.store(who.own(false), Relaxed)),
                false => cell.writer.store(who.own(false), Relaxed),
            }
        }
    }
}

#[inline]
fn is_split(cell: &Cell, who: &Who) -> bool {
    let writer = cell.writer.load(Relaxed);
    thread_of(writer) == SPLIT && run_of(writer) == who.several
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Accesses of a launch of three blocks of four warps of 32 threads.
    struct Block {
        who: Who,
        warps: WarpTimes,
        cell: Cell,
    }

    impl Block {
        fn new() -> Self {
            let who = Who { first: 10, several: 13, run: 10, thread: 0, warp_bits: 5, time: 0, block_time: 0 };
            Self { who, warps: [0; 32], cell: Cell::default() }
        }

        fn access(&self, thread: u32, kind: Kind) -> Result<(), Problem> {
            self.cell.access(&Who { thread, ..self.who }, kind, &self.warps)
        }

        fn all(&self, threads: &[u32], kind: Kind) {
            threads.iter().for_each(|&thread| assert_eq!(self.access(thread, kind), Ok(())));
        }

        fn barrier(&mut self) {
            self.who.time += 1;
            (self.who.block_time, self.warps) = (self.who.time, [self.who.time; 32]);
        }

        fn barrier_of_warp(&mut self, warp: usize) {
            self.who.time += 1;
            self.warps[warp] = self.who.time;
        }
    }

    fn race(wrote: bool, thread: Option<u32>, elsewhere: bool) -> Result<(), Problem> {
        Err(Problem::Race { wrote, thread, elsewhere })
    }

    #[test]
    fn several_readers_are_remembered_for_the_writer() {
        for (readers, writer, found) in [
            (&[3][..], 3, Ok(())),
            (&[3, 4], 3, race(false, None, false)),
            (&[4, 3], 3, race(false, None, false)),
            (&[40, 3], 3, race(false, None, false)),
            (&[3, 40, 3], 40, race(false, None, false)),
            (&[40], 3, race(false, Some(40), false)),
        ] {
            let mut block = Block::new();
            block.all(readers, Kind::Read);
            assert_eq!(block.access(writer, Kind::Write), found, "{readers:?}");
            block.barrier();
            block.all(&[writer], Kind::Write);
            assert_eq!(block.access(99, Kind::Read), race(true, Some(writer), false));
        }
    }

    #[test]
    fn a_barrier_of_a_warp_orders_its_threads_alone() {
        let mut block = Block::new();
        block.all(&[3, 4], Kind::Read);
        block.barrier_of_warp(0);
        assert_eq!(block.access(40, Kind::Write), race(false, None, false));
        block.all(&[5], Kind::Write);
        block.barrier_of_warp(0);
        block.all(&[3], Kind::Read);
        block.barrier_of_warp(1);
        assert_eq!(block.access(40, Kind::Read), race(true, Some(5), false));
    }

    #[test]
    fn blocks_are_in_no_order_and_launches_are() {
        let mut block = Block::new();
        block.all(&[0], Kind::Read);
        block.who.run = 11;
        block.all(&[0], Kind::Read);
        block.barrier();
        assert_eq!(block.access(0, Kind::Write), race(false, None, true));
        (block.who.first, block.who.run, block.who.several) = (13, 13, 14);
        block.all(&[0], Kind::Write);
        // A launch of another queue has other numbers.
        (block.who.first, block.who.run, block.who.several) = (5, 5, 6);
        block.all(&[7], Kind::Write);
    }

    #[test]
    fn atomics_race_with_plain_accesses_alone() {
        let mut block = Block::new();
        block.all(&[0, 1, 40, 2], Kind::Atomic);
        block.who.run = 11;
        block.all(&[3], Kind::Atomic);
        assert_eq!(block.access(3, Kind::Read), race(true, None, true));
        let mut block = Block::new();
        block.all(&[3], Kind::Write);
        // The plain write of a thread is one, though it changes the word atomically after it.
        block.all(&[3], Kind::Atomic);
        assert_eq!(block.access(4, Kind::Atomic), race(true, Some(3), false));
        block.barrier();
        block.all(&[4, 5], Kind::Atomic);
        assert_eq!(block.access(5, Kind::Write), race(true, None, false));
    }

    #[test]
    fn memory_that_is_read_only_stays_so_for_the_launch() {
        let mut block = Block::new();
        block.all(&[3], Kind::ReadOnly);
        block.barrier();
        block.all(&[3], Kind::Read);
        block.barrier();
        assert_eq!(block.access(3, Kind::Write), Err(Problem::ReadOnly));
        (block.who.first, block.who.run, block.who.several) = (13, 13, 14);
        block.all(&[3], Kind::Write);
        block.barrier();
        assert_eq!(block.access(3, Kind::ReadOnly), Err(Problem::ReadOnly));
    }

    #[test]
    fn parts_of_a_word_and_the_word_know_of_each_other() {
        let cells: Vec<Cell> = std::iter::repeat_with(Cell::default).take(80).collect();
        let written = [AtomicU64::new(0)];
        // SAFETY: 64 bytes have 16 words, and 64 cells of their own.
        let memory = unsafe { Cells::new(cells.as_ptr(), cells.as_ptr().add(16), written.as_ptr(), 64) };
        let mut block = Block::new();
        let access = |block: &Block, range: (u64, u64), thread: u32, kind: Kind| {
            memory.access((range.0, range.1, range.1), Who { thread, ..block.who }, kind, &block.warps)
        };
        assert_eq!(access(&block, (8, 1), 0, Kind::Read), Err((8, Problem::Unwritten)));
        assert_eq!(access(&block, (8, 4), 0, Kind::Write), Ok(()));
        assert_eq!(access(&block, (10, 1), 1, Kind::Write), Err((10, race(true, Some(0), false).unwrap_err())));
        block.barrier();
        assert_eq!(access(&block, (8, 2), 1, Kind::Write), Ok(()));
        assert_eq!(access(&block, (10, 2), 40, Kind::Write), Ok(()));
        assert_eq!(access(&block, (8, 4), 1, Kind::Read), Err((10, race(true, Some(40), false).unwrap_err())));
        block.barrier();
        assert_eq!(access(&block, (8, 4), 1, Kind::Read), Ok(()));
        assert_eq!((memory.unwritten(8, 4), memory.unwritten(8, 5), memory.unwritten(0, 9)), (None, Some(12), Some(0)));
    }
}
