//! Models the memory of host programs and kernels.
//!
//! Invariants:
//! - A buffer never reaches beyond its memory.
//! - Each byte knows the value that was last written there. A value is the contents of an
//!   allocation: reading through a buffer of one what was written through a buffer of another (or
//!   uninitialised memory) is an error, so values that share memory at the same time are found.
use super::{Tensor, tensor::count};
use crate::{
    diag::{Code, Diagnostic},
    types::DType,
};

/// A typed range of a piece of memory.
#[derive(Clone, Debug)]
pub(super) struct Buffer {
    piece: usize,
    /// In bytes.
    start: usize,
    /// The allocation of the buffer, or of the buffer that it is a view of.
    owner: u32,
    pub(super) dtype: DType,
    pub(super) dims: Vec<i64>,
}

impl Buffer {
    pub(super) fn len(&self) -> usize {
        count(&self.dims).expect("sizes that were checked")
    }

    fn bytes(&self) -> usize {
        self.len() * self.dtype.size()
    }

    /// Returns true if an element starts at a multiple of this many bytes. Memory of its own starts
    /// at a multiple of any number.
    pub(super) fn is_aligned(&self, element: i64, bytes: i64) -> bool {
        let address = (self.start as i64).wrapping_add(element.wrapping_mul(self.dtype.size() as i64));
        bytes <= 1 || address.rem_euclid(bytes) == 0
    }

    /// The part that starts at an element, in another shape.
    pub(super) fn view(&self, element: i64, dims: Vec<i64>) -> Result<Buffer, Diagnostic> {
        let end = count(&dims).and_then(|n| usize::try_from(element).ok()?.checked_add(n));
        if end.is_none_or(|end| end > self.len()) {
            return Err(fault(format!("a view of sizes {dims:?} at element {element} of a buffer of {} elements", self.len())));
        }
        Ok(Buffer { start: self.start + element as usize * self.dtype.size(), dims, ..self.clone() })
    }
}

#[derive(Debug, Default)]
pub(super) struct Memory {
    pieces: Vec<Piece>,
    owners: u32,
}

#[derive(Debug)]
struct Piece {
    bytes: Vec<u8>,
    /// Allocation that wrote each byte; 0 is none.
    writers: Vec<u32>,
    read_only: bool,
    /// True if it ends with a frame; memory of inputs, weights and outputs does not.
    is_temporary: bool,
}

fn released() -> Diagnostic {
    fault("memory that was released is used".into())
}

fn fault(message: String) -> Diagnostic {
    Diagnostic::new(Code::E0211, message)
}

impl Memory {
    fn owner(&mut self) -> u32 {
        self.owners += 1;
        self.owners
    }

    /// Memory that holds a tensor and must not be written.
    pub(super) fn input(&mut self, tensor: &Tensor) -> Buffer {
        let (bytes, owner) = (tensor.bytes().to_vec(), self.owner());
        self.pieces.push(Piece { writers: vec![owner; bytes.len()], bytes, read_only: true, is_temporary: false });
        Buffer { piece: self.pieces.len() - 1, start: 0, owner, dtype: tensor.dtype(), dims: tensor.dims().to_vec() }
    }

    /// Memory of an input that the program writes to.
    pub(super) fn written_input(&mut self, tensor: &Tensor) -> Buffer {
        let buffer = self.input(tensor);
        self.pieces[buffer.piece].read_only = false;
        buffer
    }

    /// New memory of a frame or a task that nothing has written. The sizes were checked.
    pub(super) fn fresh(&mut self, dtype: DType, dims: Vec<i64>) -> Buffer {
        let buffer = self.output(dtype, dims);
        self.pieces[buffer.piece].is_temporary = true;
        buffer
    }

    /// Allocates an output, which outlives the call.
    pub(super) fn output(&mut self, dtype: DType, dims: Vec<i64>) -> Buffer {
        let (bytes, owner) = (count(&dims).expect("sizes that were checked") * dtype.size(), self.owner());
        self.pieces.push(Piece { bytes: vec![0; bytes], writers: vec![0; bytes], read_only: false, is_temporary: false });
        Buffer { piece: self.pieces.len() - 1, start: 0, owner, dtype, dims }
    }

    /// Allocates a part of the arena, as a value of its own.
    pub(super) fn part(
        &mut self,
        arena: &Buffer,
        [offset, bytes]: [i64; 2],
        dtype: DType,
        dims: Vec<i64>,
    ) -> Result<Buffer, Diagnostic> {
        let owner = self.owner();
        let start = usize::try_from(offset).ok().filter(|start| start.is_multiple_of(dtype.size()));
        let end = start.and_then(|start| start.checked_add(usize::try_from(bytes).ok()?));
        let (Some(start), Some(end)) = (start, end) else {
            return Err(fault(format!("{bytes} bytes at {offset} of the arena")));
        };
        if end > arena.bytes() {
            return Err(fault(format!("{bytes} bytes at {offset} of an arena of {} bytes", arena.bytes())));
        }
        let part = Buffer { piece: arena.piece, start: arena.start + start, owner, dtype, dims };
        if part.bytes() > end - start {
            return Err(fault(format!("{bytes} bytes for a buffer of {dtype} with sizes {:?}", part.dims)));
        }
        Ok(part)
    }

    /// Returns the amount of memory, for [`Memory::release`].
    pub(super) fn mark(&self) -> usize {
        self.pieces.len()
    }

    /// Frees what was made since `mark` for a frame or a task.
    pub(super) fn release(&mut self, mark: usize) {
        for piece in self.pieces.iter_mut().skip(mark).filter(|piece| piece.is_temporary) {
            (piece.bytes, piece.writers) = (Vec::new(), Vec::new());
        }
        while self.pieces.len() > mark && self.pieces.last().is_some_and(|piece| piece.is_temporary) {
            self.pieces.pop();
        }
    }

    /// The bytes of an element.
    pub(super) fn read(&self, buffer: &Buffer, element: i64) -> Result<&[u8], Diagnostic> {
        let range = locate(buffer, element)?;
        let piece = self.pieces.get(buffer.piece).filter(|piece| range.end <= piece.bytes.len()).ok_or_else(released)?;
        match piece.writers[range.clone()].iter().find(|&&writer| writer != buffer.owner) {
            None => Ok(&piece.bytes[range]),
            Some(0) => Err(fault(format!("element {element} of the buffer is read before it is written"))),
            Some(_) => Err(fault(format!("element {element} of the buffer is read, but another value was written there"))),
        }
    }

    pub(super) fn write(&mut self, buffer: &Buffer, element: i64, bytes: &[u8]) -> Result<(), Diagnostic> {
        let range = locate(buffer, element)?;
        let piece = self.pieces.get_mut(buffer.piece).filter(|piece| range.end <= piece.bytes.len()).ok_or_else(released)?;
        if piece.read_only {
            return Err(fault("a write to an input or a weight".into()));
        }
        piece.bytes[range.clone()].copy_from_slice(bytes);
        piece.writers[range].fill(buffer.owner);
        Ok(())
    }

    /// Makes an element one that nothing has written.
    pub(super) fn forget(&mut self, buffer: &Buffer, element: i64) -> Result<(), Diagnostic> {
        let range = locate(buffer, element)?;
        let piece = self.pieces.get_mut(buffer.piece).filter(|piece| range.end <= piece.bytes.len()).ok_or_else(released)?;
        piece.writers[range].fill(0);
        Ok(())
    }

    /// Returns the contents of a buffer, all of it written.
    pub(super) fn tensor(&self, buffer: &Buffer) -> Result<Tensor, Diagnostic> {
        let mut bytes = Vec::with_capacity(buffer.bytes());
        for element in 0..buffer.len() as i64 {
            bytes.extend_from_slice(self.read(buffer, element)?);
        }
        Tensor::new(buffer.dtype, buffer.dims.clone(), bytes)
    }

    /// Writes a tensor of the buffer's type and sizes.
    pub(super) fn write_tensor(&mut self, buffer: &Buffer, tensor: &Tensor) -> Result<(), Diagnostic> {
        if tensor.dtype() != buffer.dtype || tensor.dims() != buffer.dims {
            let held = format!("{} with sizes {:?}", buffer.dtype, buffer.dims);
            return Err(fault(format!("{} with sizes {:?} for a buffer of {held}", tensor.dtype(), tensor.dims())));
        }
        (0..tensor.len()).try_for_each(|i| self.write(buffer, i as i64, tensor.element(i)))
    }
}

/// Returns the bytes of an element of a buffer in its piece of memory.
fn locate(buffer: &Buffer, element: i64) -> Result<std::ops::Range<usize>, Diagnostic> {
    let place = usize::try_from(element).ok().filter(|&place| place < buffer.len());
    let Some(place) = place else {
        return Err(fault(format!("element {element} of a buffer of {} elements", buffer.len())));
    };
    let start = buffer.start + place * buffer.dtype.size();
    Ok(start..start + buffer.dtype.size())
}
