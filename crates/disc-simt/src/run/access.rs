//! Runs loads, stores and views: every access is checked against its buffer and recorded in the
//! shadow.
//!
//! Consecutive addresses of consecutive threads are one run: checked, recorded and copied at once.
use super::{Done, Run, mask::Mask};
use crate::{
    program::{Access, BufferId, Reg, Slot},
    shadow::{Cells, Found, Kind, Problem, WarpTimes, Who},
};
use disc_ir::{DType, Space};

/// One access of several threads: `each` elements by each of them.
#[derive(Clone, Copy)]
pub(super) struct Span {
    pub(super) buffer: BufferId,
    pub(super) address: Slot,
    pub(super) index: Slot,
    pub(super) each: u32,
    pub(super) align: Option<u32>,
    /// The verb of messages.
    pub(super) verb: &'static str,
}

impl Run<'_> {
    fn span(&self, access: &Access, each: u32, verb: &'static str) -> Span {
        let (address, index) = (self.slot(access.address), self.slot(access.index));
        Span { buffer: access.buffer, address, index, each, align: access.align, verb }
    }

    pub(super) fn load(&mut self, access: &Access) -> Done {
        let value = self.slot(access.value);
        let kind = if access.readonly { Kind::ReadOnly } else { Kind::Read };
        if !value.varying {
            return self.load_for_block(access, kind);
        }
        let mut active = self.mask;
        if let Some(mask) = access.mask {
            self.planes.bytes_mut(value).fill(0);
            if value.lanes > 1 {
                return self.each_lane(access, kind);
            }
            active = active.only(self.planes.get::<u8>(self.slot(mask)));
        }
        if self.slot(access.index).lanes > 1 {
            return self.each_lane(access, kind);
        }
        let span = self.span(access, value.lanes, "reads");
        self.locate(&span, &active)?;
        self.count_access(self.space(access.buffer), &active, span.bytes(self), false);
        self.transfer(&span, &active, kind, value)
    }

    /// Makes loaded truth values 0 or 1: in memory any byte but 0 is true.
    pub(super) fn normalize_truths(&mut self, access: &Access) {
        let value = self.slot(access.value);
        if value.dtype() == DType::I1 {
            self.planes.bytes_mut(value).iter_mut().for_each(|byte| *byte = u8::from(*byte != 0));
        }
    }

    pub(super) fn store(&mut self, access: &Access) -> Done {
        let value = self.slot(access.value);
        let mut active = self.mask;
        if let Some(mask) = access.mask {
            if value.lanes > 1 {
                return self.each_lane(access, Kind::Write);
            }
            active = active.only(self.planes.get::<u8>(self.slot(mask)));
        }
        if self.slot(access.index).lanes > 1 {
            return self.each_lane(access, Kind::Write);
        }
        let span = self.span(access, value.lanes, "writes");
        self.locate(&span, &active)?;
        self.count_access(self.space(access.buffer), &active, span.bytes(self), true);
        self.transfer(&span, &active, Kind::Write, value)
    }

    /// Loads an element that all threads read from one place.
    fn load_for_block(&mut self, access: &Access, kind: Kind) -> Done {
        let (value, index) = (self.slot(access.value), self.slot(access.index));
        let mask = access.mask.map(|mask| self.slot(mask));
        let is_simple = index.lanes == 1 && mask.is_none_or(|mask| value.lanes == 1 && mask.lanes == 1);
        let is_on = |run: &Self, lane: usize| mask.is_none_or(|mask| run.planes.get::<u8>(mask)[lane % mask.lanes as usize] != 0);
        if mask.is_some() {
            self.planes.bytes_mut(value).fill(0);
        }
        let lanes = if is_simple { 1 } else { value.lanes };
        for lane in (0..lanes as usize).filter(|&lane| is_on(self, lane)).collect::<Vec<_>>() {
            let each = if is_simple { value.lanes } else { 1 };
            let mut span = self.span(access, each, "reads");
            let more = if index.lanes > 1 { 0 } else { lane as i64 };
            let at = self.integer(Slot { count: index.lanes, ..index }, 0);
            let at = if index.lanes > 1 { self.lane(index, lane) } else { at } + more;
            span.index = index;
            self.locate_one(&span, at)?;
            // The first and the last thread stand for all: with both, a warp or the block reads.
            let (first, last) = (self.mask.first().unwrap_or(0), self.mask.last().unwrap_or(0));
            let address = self.addresses[first as usize];
            self.addresses[last as usize] = address;
            let part = Slot { count: each, lanes: each, ..value };
            for thread in [last, first] {
                let found = self.record(&span, (thread, 1), kind);
                found.map_err(|found| self.complaint(&span, thread, at, found))?;
            }
            self.count_uniform(self.space(access.buffer), address, span.bytes(self));
            let size = value.dtype().size();
            let at = self.memory_at(access.buffer, first);
            let bytes = &mut self.planes.bytes_mut(value)[lane * size..lane * size + part.bytes()];
            // SAFETY: the range was checked.
            unsafe { at.copy_to_nonoverlapping(bytes.as_mut_ptr(), bytes.len()) };
        }
        Ok(())
    }

    /// Returns a lane of a register of the block.
    fn lane(&self, slot: Slot, lane: usize) -> i64 {
        match slot.dtype() {
            DType::I32 => self.planes.get::<i32>(slot)[lane].into(),
            _ => self.planes.get::<i64>(slot)[lane],
        }
    }

    /// Accesses the lanes of each thread one by one.
    fn each_lane(&mut self, access: &Access, kind: Kind) -> Done {
        let (value, index) = (self.slot(access.value), self.slot(access.index));
        let lanes = value.lanes as usize;
        let verb = if kind == Kind::Write { "writes" } else { "reads" };
        let span = self.span(access, 1, verb);
        for thread in self.mask.iter() {
            let one = Mask::one(thread, self.program.threads);
            for lane in 0..lanes {
                let is_on = access.mask.is_none_or(|mask| {
                    let mask = self.slot(mask);
                    self.planes.get::<u8>(mask)[(thread as usize * mask.lanes as usize) + lane % mask.lanes as usize] != 0
                });
                if !is_on {
                    continue;
                }
                let at = match index.lanes {
                    1 => self.lane(index, thread as usize) + lane as i64,
                    _ => self.lane(index, thread as usize * lanes + lane),
                };
                self.locate_thread(&span, thread, at)?;
                self.count_access(self.space(access.buffer), &one, span.bytes(self), kind == Kind::Write);
                let found = self.record(&span, (thread, 1), kind);
                found.map_err(|found| self.complaint(&span, thread, at, found))?;
                let (size, memory) = (value.dtype().size(), self.memory_at(access.buffer, thread));
                let start = (thread as usize * lanes + lane) * size;
                let bytes = &mut self.planes.bytes_mut(value)[start..start + size];
                // SAFETY: the range was checked.
                unsafe {
                    match kind {
                        Kind::Write => memory.copy_from_nonoverlapping(bytes.as_ptr(), size),
                        _ => memory.copy_to_nonoverlapping(bytes.as_mut_ptr(), size),
                    }
                }
            }
        }
        Ok(())
    }

    pub(super) fn view(&mut self, [from, to]: [BufferId; 2], [address, index]: [Reg; 2], result: Reg) -> Done {
        let (address, index, result) = (self.slot(address), self.slot(index), self.slot(result));
        let (limit, inner) = (self.limits[from as usize].elements, self.limits[to as usize].elements);
        let size = self.program.buffers[from as usize].dtype.size() as u64;
        let needed = if inner == i64::MAX { 0 } else { inner };
        for thread in 0..result.count {
            let at = self.integer(index, thread as usize);
            let base = self.integer(address, thread as usize) as u64;
            let counts = if result.varying { self.mask.has(thread) } else { true };
            if counts && (at < 0 || at > limit.saturating_sub(needed)) {
                let thread = if result.varying { thread } else { self.mask.first().unwrap_or(0) };
                return Err(self.outside(thread, &format!("views {needed} elements from"), from, at));
            }
            self.planes.get_mut::<u64>(result)[thread as usize] = base.wrapping_add((at as u64).wrapping_mul(size));
        }
        Ok(())
    }

    /// Finds the addresses of an access, and checks that they are in the buffer.
    pub(super) fn locate(&mut self, span: &Span, active: &Mask) -> Done {
        let is_outside = match span.index.dtype() {
            DType::I32 => self.locate_by::<i32>(span, active),
            _ => self.locate_by::<i64>(span, active),
        };
        let align = u64::from(span.align.unwrap_or(1));
        let is_misaligned = align > 1 && self.addresses.iter().any(|address| address & (align - 1) != 0);
        if is_outside || is_misaligned || self.limits[span.buffer as usize].anywhere {
            for thread in active.iter() {
                self.locate_thread(span, thread, self.integer(span.index, thread as usize))?;
            }
        }
        Ok(())
    }

    /// Computes all addresses. Returns true if one of an active thread may be outside.
    fn locate_by<T: crate::planes::Element + Into<i64>>(&mut self, span: &Span, active: &Mask) -> bool {
        let limit = &self.limits[span.buffer as usize];
        let size = self.program.buffers[span.buffer as usize].dtype.size() as u64;
        let (last, bytes) = (limit.elements - i64::from(span.each), u64::from(span.each) * size);
        let end = limit.end.saturating_sub(bytes);
        let (indices, bases) = (self.planes.get::<T>(span.index), self.planes.get::<u64>(span.address));
        let mut outside = last < 0 || limit.end < bytes;
        let is_all = active.is_all();
        for (thread, ((address, &index), &base)) in self.addresses.iter_mut().zip(indices).zip(bases).enumerate() {
            let index: i64 = index.into();
            *address = base.wrapping_add((index as u64).wrapping_mul(size));
            let is_bad = (index < 0) | (index > last) | (*address < limit.start) | (*address > end);
            outside |= is_bad & (is_all || active.has(thread as u32));
        }
        outside
    }

    /// Finds the address of one thread, and checks it.
    pub(super) fn locate_thread(&mut self, span: &Span, thread: u32, element: i64) -> Done {
        let limit = &self.limits[span.buffer as usize];
        let size = self.program.buffers[span.buffer as usize].dtype.size() as u64;
        let base = self.integer(span.address, thread as usize) as u64;
        let bytes = u64::from(span.each) * size;
        let address = base.wrapping_add((element as u64).wrapping_mul(size));
        let is_inside = element >= 0
            && element.checked_add(span.each.into()).is_some_and(|end| end <= limit.elements)
            && address >= limit.start
            && address.checked_add(bytes).is_some_and(|end| end <= limit.end);
        let is_memory = !limit.anywhere || {
            let found = self.memory.allocation(address);
            found.is_some_and(|(offset, range)| offset + bytes <= range.end)
        };
        if !is_inside || !is_memory {
            return Err(self.outside(thread, span.verb, span.buffer, element));
        }
        match span.align {
            Some(align) if !address.is_multiple_of(align.into()) => {
                Err(self.misaligned(thread, span.verb, (span.buffer, element), align))
            }
            _ => {
                self.addresses[thread as usize] = address;
                Ok(())
            }
        }
    }

    /// Finds the address that all threads access.
    fn locate_one(&mut self, span: &Span, element: i64) -> Done {
        self.locate_thread(span, self.mask.first().unwrap_or(0), element)
    }

    /// Calls `each` with the first thread and the number of threads of every run.
    pub(super) fn runs(
        &mut self,
        span: &Span,
        active: &Mask,
        mut each: impl FnMut(&mut Self, u32, u32) -> Result<(), Found>,
    ) -> Done {
        let bytes = span.bytes(self);
        let is_own = self.space(span.buffer) == Space::Task;
        let threads = self.program.threads;
        let mut first = 0;
        while first < threads {
            if !active.has(first) {
                first += 1;
                continue;
            }
            let mut next = first + 1;
            let follows = |run: &Self, next: u32| {
                run.addresses[next as usize] == run.addresses[next as usize - 1] + bytes && active.has(next)
            };
            while next < threads && !is_own && follows(self, next) {
                next += 1;
            }
            let result = each(self, first, next - first);
            result.map_err(|found| self.complain(span, first, found))?;
            first = next;
        }
        Ok(())
    }

    /// Loads or stores the values of the active threads.
    fn transfer(&mut self, span: &Span, active: &Mask, kind: Kind, value: Slot) -> Done {
        let bytes = span.bytes(self);
        match self.space(span.buffer) {
            Space::Task => {}
            Space::Shared if self.shared.is_pending => {}
            Space::Shared => {
                let at = self.shared.at();
                let cells = self.shared.cells();
                let lines = Lines { cells, at, base: 0, bytes, who: self.who.in_block(), warps: &self.warp_times };
                let moved = lines.transfer(&self.addresses, active, kind, self.planes.bytes_mut(value));
                return moved.map_err(|(first, found)| self.complain(span, first, found));
            }
            Space::Global => {
                let (at, base) = (self.memory.at(0), self.memory.base());
                let cells = self.memory.cells();
                let lines = Lines { cells, at, base, bytes, who: self.who, warps: &self.warp_times };
                let moved = lines.transfer(&self.addresses, active, kind, self.planes.bytes_mut(value));
                return moved.map_err(|(first, found)| self.complain(span, first, found));
            }
        }
        self.runs(span, active, |run, first, count| {
            run.record(span, (first, count), kind)?;
            let at = run.memory_at(span.buffer, first);
            let range = first as usize * bytes as usize..(first + count) as usize * bytes as usize;
            let value = &mut run.planes.bytes_mut(value)[range];
            // SAFETY: the range was checked, and registers are elsewhere.
            unsafe { copy(at, value, kind) };
            Ok(())
        })
    }

    fn complain(&self, span: &Span, first: u32, found: Found) -> Box<super::message::Stop> {
        self.complaint(span, first, self.integer(span.index, first as usize), found)
    }

    /// Returns the place of an address that a thread accesses, within the memory of its space.
    pub(super) fn offset(&self, space: Space, thread: u32) -> u64 {
        let address = self.addresses[thread as usize];
        match space {
            Space::Shared => address,
            Space::Task => u64::from(thread) * self.own.each + address,
            Space::Global => address - self.memory.base(),
        }
    }

    /// Returns the bytes that a thread accesses.
    pub(super) fn memory_at(&mut self, buffer: BufferId, thread: u32) -> *mut u8 {
        let space = self.space(buffer);
        let offset = self.offset(space, thread);
        match space {
            Space::Shared => self.shared.at().wrapping_add(offset as usize),
            Space::Task => self.own.at().wrapping_add(offset as usize),
            Space::Global => self.memory.at(offset),
        }
    }

    /// Records the access of a run in the shadow.
    pub(super) fn record(&mut self, span: &Span, (first, count): (u32, u32), kind: Kind) -> Result<(), Found> {
        let (space, bytes) = (self.space(span.buffer), span.bytes(self));
        let (start, who) = (self.offset(space, first), self.who(first));
        let range = (start, bytes * u64::from(count), bytes);
        match space {
            Space::Shared => match self.shared.pending(start, range.1) {
                Some(byte) => Err((byte, Problem::InFlight)),
                None => self.shared.cells().access(range, who.in_block(), kind, &self.warp_times),
            },
            Space::Task if kind == Kind::Write => {
                self.own.cells().mark(start, range.1);
                Ok(())
            }
            Space::Task => match self.own.cells().unwritten(start, range.1) {
                Some(byte) => Err((byte, Problem::Unwritten)),
                None => Ok(()),
            },
            _ => self.memory.cells().access(range, who, kind, &self.warp_times),
        }
    }

    /// Words the problem of a byte of a run, whose first thread accesses `element`.
    pub(super) fn complaint(&self, span: &Span, first: u32, element: i64, (byte, problem): Found) -> Box<super::message::Stop> {
        let space = self.space(span.buffer);
        let size = self.program.buffers[span.buffer as usize].dtype.size() as u64;
        let further = (byte - self.offset(space, first)) / size;
        let (thread, element) = (first + (further / u64::from(span.each)) as u32, element + further as i64);
        self.problem(thread, span.verb, (span.buffer, element), problem)
    }
}

impl Span {
    pub(super) fn bytes(&self, run: &Run<'_>) -> u64 {
        u64::from(self.each) * run.program.buffers[self.buffer as usize].dtype.size() as u64
    }
}

/// The memory of a space, for one access of several threads.
struct Lines<'r> {
    cells: Cells<'r>,
    /// The bytes of the address `base`.
    at: *mut u8,
    base: u64,
    /// Bytes of each thread.
    bytes: u64,
    who: Who,
    warps: &'r WarpTimes,
}

impl Lines<'_> {
    /// Records and copies run by run. On a problem, returns the first thread of its run.
    fn transfer(&self, addresses: &[u64], active: &Mask, kind: Kind, value: &mut [u8]) -> Result<(), (u32, Found)> {
        let (bytes, threads, is_all) = (self.bytes, addresses.len(), active.is_all());
        let is_on = |thread: usize| is_all || active.has(thread as u32);
        let mut first = 0;
        while first < threads {
            if !is_on(first) {
                first += 1;
                continue;
            }
            let start = addresses[first];
            let mut end = start + bytes;
            let mut next = first + 1;
            while next < threads && addresses[next] == end && is_on(next) {
                (next, end) = (next + 1, end + bytes);
            }
            let offset = start - self.base;
            let who = Who { thread: first as u32, ..self.who };
            let recorded = self.cells.access((offset, end - start, bytes), who, kind, self.warps);
            recorded.map_err(|found| (first as u32, found))?;
            let value = &mut value[first * bytes as usize..next * bytes as usize];
            // SAFETY: the range was checked when it was located, and registers are elsewhere.
            unsafe { copy(self.at.wrapping_add(offset as usize), value, kind) };
            first = next;
        }
        Ok(())
    }
}

/// Copies to memory or from it.
///
/// # Safety
/// `at` has as many bytes as `value`, and they do not overlap.
#[inline]
unsafe fn copy(at: *mut u8, value: &mut [u8], kind: Kind) {
    // SAFETY: the caller's promise. Elements are copied without a call.
    unsafe {
        match (kind, value.len()) {
            (Kind::Write, 4) => at.cast::<[u8; 4]>().write(*value.as_ptr().cast()),
            (Kind::Write, count) => at.copy_from_nonoverlapping(value.as_ptr(), count),
            (_, 4) => value.as_mut_ptr().cast::<[u8; 4]>().write(*at.cast()),
            (_, count) => at.copy_to_nonoverlapping(value.as_mut_ptr(), count),
        }
    }
}
