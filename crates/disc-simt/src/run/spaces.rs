//! Finds the memory of each buffer of a launch, and holds the memory of a block.
use super::Launch;
use crate::{
    program::{Buffer, Program},
    shadow::{Cell, Cells},
};
use disc_ir::{Dim, Space};
use std::sync::atomic::AtomicU64;

/// The memory that a buffer may reach: elements of its type, and addresses.
#[derive(Clone, Debug)]
pub(super) struct Limit {
    /// Elements; the largest number if the launch does not tell its sizes.
    pub(super) elements: i64,
    pub(super) start: u64,
    pub(super) end: u64,
    /// The addresses are not known before the access.
    pub(super) anywhere: bool,
}

/// The values of the symbols of a launch.
pub(super) struct Values<'a> {
    program: &'a Program,
    words: &'a [u64],
}

impl<'a> Values<'a> {
    pub(super) fn new(program: &'a Program, words: &'a [u64]) -> Result<Self, String> {
        let (parameters, symbols) = (program.parameters.len(), program.symbols.len());
        if words.len() != parameters + symbols {
            let given = words.len();
            return Err(format!("{given} argument words for {parameters} parameters and {symbols} sizes"));
        }
        Ok(Self { program, words: &words[parameters..] })
    }

    fn symbol(&self, symbol: &disc_ir::Symbol) -> Option<i64> {
        let position = self.program.symbols.iter().position(|known| known == symbol)?;
        Some(self.words[position] as i64)
    }

    pub(super) fn dim(&self, dim: &Dim) -> Result<i64, String> {
        dim.eval(&|symbol| self.symbol(symbol)).map_err(|error| format!("the dim {dim}: {error}"))
    }

    /// Returns the elements of a buffer, if the launch tells all its sizes.
    fn elements(&self, buffer: &Buffer) -> Result<Option<i64>, String> {
        let symbols: Vec<_> = buffer.dims.iter().flat_map(Dim::symbols).collect();
        if symbols.iter().any(|symbol| self.symbol(symbol).is_none()) {
            return Ok(None);
        }
        let sizes = buffer.dims.iter().map(|dim| self.dim(dim)).collect::<Result<Vec<_>, _>>()?;
        let count = sizes.iter().try_fold(1_i64, |count, &size| count.checked_mul(size).filter(|_| size >= 0));
        count.map(Some).ok_or_else(|| format!("`%{}` has the sizes {sizes:?}", buffer.name))
    }
}

/// Returns the memory of each buffer, and the bytes that a block shares: those that the launch asks
/// for, and at least those of the kernel's `shared` ops.
pub(super) fn limits(launch: &Launch<'_>, values: &Values<'_>) -> Result<(Vec<Limit>, i64), String> {
    let program = launch.program;
    let mut limits = Vec::with_capacity(program.buffers.len());
    for buffer in &program.buffers {
        let elements = values.elements(buffer)?;
        let mut limit = Limit { elements: elements.unwrap_or(i64::MAX), start: 0, end: u64::MAX, anywhere: false };
        match (buffer.space, buffer.parameter) {
            // Views are within the memory that they are views of.
            (Space::Shared, _) => {}
            (Space::Task, _) => limit.end = launch.grid.scratch.max(0) as u64,
            (_, Some(parameter)) => (limit.start, limit.end) = found(launch, buffer, parameter, elements)?,
            (_, None) => limit.anywhere = true,
        }
        limits.push(limit);
    }
    let shared = place_memory(launch, &mut limits)?;
    let shared = i64::try_from(shared).unwrap_or(i64::MAX).max(launch.grid.shared);
    if shared > launch.chip.shared {
        return Err(format!("a block shares {shared} bytes, the chip has {}", launch.chip.shared));
    }
    for (limit, buffer) in limits.iter_mut().zip(&program.buffers) {
        limit.end = if buffer.space == Space::Shared { limit.end.min(shared as u64) } else { limit.end };
    }
    Ok((limits, shared))
}

/// Returns the addresses of the memory that a parameter is in.
fn found(launch: &Launch<'_>, buffer: &Buffer, parameter: u32, elements: Option<i64>) -> Result<(u64, u64), String> {
    let address = launch.words[parameter as usize];
    let size = buffer.dtype.size() as u64;
    match launch.memory.allocation(address) {
        _ if !address.is_multiple_of(size) => Err(format!("`%{}` is at {address:#x}, no multiple of {size} bytes", buffer.name)),
        Some((offset, range)) => Ok((address - (offset - range.start), address + (range.end - offset))),
        // Without elements any address will do; with an unknown number, until one is accessed.
        None if elements.unwrap_or(0) == 0 => Ok((address, address)),
        None => Err(format!("`%{}` is at {address:#x}, which is no memory of the device", buffer.name)),
    }
}

/// Gives `shared` and `scratch` consecutive parts of the memory of the block and of each thread.
/// Returns the bytes that the block shares.
fn place_memory(launch: &Launch<'_>, limits: &mut [Limit]) -> Result<u64, String> {
    /// Parts start at multiples of these bytes: of the widest access, and as in docs/kernels.md.
    const SHARED_ALIGN: u64 = 16;
    const SCRATCH_ALIGN: u64 = disc_abi::SCRATCH_ALIGN as u64;
    let (mut shared, mut scratch) = (0_u64, 0_u64);
    for &(_, id) in &launch.program.memory {
        let (buffer, limit) = (&launch.program.buffers[id as usize], &mut limits[id as usize]);
        if limit.elements == i64::MAX {
            return Err(format!("the launch does not tell the sizes of `%{}`", buffer.name));
        }
        let bytes = (limit.elements as u64).saturating_mul(buffer.dtype.size() as u64);
        let (next, align) = match buffer.space {
            Space::Shared => (&mut shared, SHARED_ALIGN),
            _ => (&mut scratch, SCRATCH_ALIGN),
        };
        limit.start = next.next_multiple_of(align);
        *next = limit.start.saturating_add(bytes);
        limit.end = *next;
        let given = launch.grid.scratch;
        if scratch > given.max(0) as u64 {
            let name = &buffer.name;
            return Err(format!("`%{name}` ends at byte {scratch} of a thread's memory, the launch has {given} bytes"));
        }
    }
    Ok(shared)
}

/// The memory that the threads of a block share.
pub(super) struct Shared {
    bytes: Vec<u64>,
    /// Cells, two numbers each.
    words: Box<[AtomicU64]>,
    parts: Box<[AtomicU64]>,
    written: Box<[AtomicU64]>,
    /// A bit for each byte that an asynchronous copy writes.
    pub(super) pending: Vec<u64>,
    /// A copy has not ended.
    pub(super) is_pending: bool,
}

impl Shared {
    pub(super) fn new(bytes: i64) -> Self {
        let bytes = (bytes.max(0) as usize).next_multiple_of(64);
        let cells = |count: usize| zeros(count * size_of::<Cell>() / size_of::<AtomicU64>());
        Self {
            bytes: vec![0; bytes / 8],
            words: cells(bytes / 4),
            parts: cells(bytes),
            written: zeros(bytes / 64),
            pending: vec![0; bytes / 64],
            is_pending: false,
        }
    }

    pub(super) fn begin_block(&mut self) {
        self.written.iter_mut().for_each(|bits| *bits.get_mut() = 0);
        self.pending.fill(0);
        self.is_pending = false;
    }

    pub(super) fn at(&mut self) -> *mut u8 {
        self.bytes.as_mut_ptr().cast()
    }

    pub(super) fn cells(&self) -> Cells<'_> {
        let bytes = 8 * self.bytes.len() as u64;
        // SAFETY: the lists have a cell for each word and byte, and a bit for each byte.
        unsafe { Cells::new(self.words.as_ptr().cast(), self.parts.as_ptr().cast(), self.written.as_ptr(), bytes) }
    }

    /// Returns the first byte of a range that an asynchronous copy writes.
    pub(super) fn pending(&self, start: u64, bytes: u64) -> Option<u64> {
        let is_pending = |byte: &u64| self.pending[*byte as usize / 64] >> (byte % 64) & 1 == 1;
        if self.is_pending { (start..start + bytes).find(is_pending) } else { None }
    }

    pub(super) fn set_pending(&mut self, start: u64, bytes: u64, pending: bool) {
        self.is_pending |= pending;
        for byte in start..start + bytes {
            let (word, bit) = (&mut self.pending[byte as usize / 64], 1 << (byte % 64));
            *word = if pending { *word | bit } else { *word & !bit };
        }
    }
}

/// Returns zeros. Large lists cost nothing before they are used.
fn zeros(count: usize) -> Box<[AtomicU64]> {
    let words = Box::into_raw(vec![0_u64; count].into_boxed_slice());
    // SAFETY: an `AtomicU64` is stored as a `u64` of the same alignment.
    unsafe { Box::from_raw(words as *mut [AtomicU64]) }
}

const _: () = assert!(align_of::<AtomicU64>() == align_of::<u64>() && size_of::<Cell>() == 2 * size_of::<u64>());

/// The memory of each thread's own.
pub(super) struct Own {
    bytes: Vec<u64>,
    /// Bytes of one thread.
    pub(super) each: u64,
    written: Box<[AtomicU64]>,
}

impl Own {
    pub(super) fn new(each: i64, threads: u32) -> Self {
        let each = (each.max(0) as u64).next_multiple_of(64);
        let bytes = each as usize * threads as usize;
        Self { bytes: vec![0; bytes / 8], each, written: zeros(bytes / 64) }
    }

    pub(super) fn begin_block(&mut self) {
        self.written.iter_mut().for_each(|bits| *bits.get_mut() = 0);
    }

    pub(super) fn at(&mut self) -> *mut u8 {
        self.bytes.as_mut_ptr().cast()
    }

    pub(super) fn cells(&self) -> Cells<'_> {
        let bytes = 8 * self.bytes.len() as u64;
        // SAFETY: there is a bit for each byte, and accesses of one thread are not recorded.
        unsafe { Cells::new(std::ptr::null(), std::ptr::null(), self.written.as_ptr(), bytes) }
    }
}
