//! The memory of host programs and kernels.
//!
//! Invariants:
//! - A buffer never reaches beyond its memory.
//! - Each byte knows whether something wrote it; reading one that nothing wrote is an error.
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
    pub(super) dtype: DType,
    pub(super) dims: Vec<i64>,
}

impl Buffer {
    pub(super) fn len(&self) -> usize {
        count(&self.dims).expect("sizes that were checked")
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
    arena: Option<usize>,
}

#[derive(Debug, Default)]
struct Piece {
    bytes: Vec<u8>,
    written: Vec<bool>,
    read_only: bool,
}

fn fault(message: String) -> Diagnostic {
    Diagnostic::new(Code::E0211, message)
}

impl Memory {
    fn add(&mut self, piece: Piece) -> usize {
        self.pieces.push(piece);
        self.pieces.len() - 1
    }

    /// Memory that holds a tensor and must not be written.
    pub(super) fn input(&mut self, tensor: &Tensor) -> Buffer {
        let bytes = tensor.bytes().to_vec();
        let piece = self.add(Piece { written: vec![true; bytes.len()], bytes, read_only: true });
        Buffer { piece, start: 0, dtype: tensor.dtype(), dims: tensor.dims().to_vec() }
    }

    /// How large the arena is by now.
    pub(super) fn arena_bytes(&self) -> u64 {
        self.arena.map_or(0, |arena| self.pieces[arena].bytes.len() as u64)
    }

    /// What there is, to be given to [`Memory::release`].
    pub(super) fn mark(&self) -> usize {
        self.pieces.len()
    }

    /// Frees what was made since `mark`: the scratch of a task.
    pub(super) fn release(&mut self, mark: usize) {
        self.pieces.truncate(mark);
    }

    /// New memory that nothing has written. The sizes were checked.
    pub(super) fn fresh(&mut self, dtype: DType, dims: Vec<i64>) -> Buffer {
        let bytes = count(&dims).expect("sizes that were checked") * dtype.size();
        let piece = self.add(Piece { bytes: vec![0; bytes], written: vec![false; bytes], read_only: false });
        Buffer { piece, start: 0, dtype, dims }
    }

    /// A part of the arena, whose bytes count as not written from now on.
    pub(super) fn in_arena(&mut self, offset: usize, bytes: usize, dtype: DType, dims: Vec<i64>) -> Result<Buffer, Diagnostic> {
        let needed = count(&dims).and_then(|n| n.checked_mul(dtype.size()));
        if needed.is_none_or(|needed| needed > bytes) || !offset.is_multiple_of(dtype.size()) {
            return Err(fault(format!("{bytes} bytes at {offset} for a buffer of {dtype} with sizes {dims:?}")));
        }
        let arena = match self.arena {
            Some(arena) => arena,
            None => *self.arena.insert(self.pieces.len()),
        };
        if arena == self.pieces.len() {
            self.add(Piece::default());
        }
        let piece = &mut self.pieces[arena];
        let end = offset + bytes;
        if piece.bytes.len() < end {
            piece.bytes.resize(end, 0);
            piece.written.resize(end, false);
        }
        piece.written[offset..end].fill(false);
        Ok(Buffer { piece: arena, start: offset, dtype, dims })
    }

    /// The bytes of an element.
    pub(super) fn read(&self, buffer: &Buffer, element: i64) -> Result<&[u8], Diagnostic> {
        let (piece, range) = self.locate(buffer, element)?;
        if !piece.written[range.clone()].iter().all(|&written| written) {
            return Err(fault(format!("element {element} of the buffer is read before it is written")));
        }
        Ok(&piece.bytes[range])
    }

    pub(super) fn write(&mut self, buffer: &Buffer, element: i64, bytes: &[u8]) -> Result<(), Diagnostic> {
        let (_, range) = self.locate(buffer, element)?;
        let piece = &mut self.pieces[buffer.piece];
        if piece.read_only {
            return Err(fault("a write to an input or a weight".into()));
        }
        piece.bytes[range.clone()].copy_from_slice(bytes);
        piece.written[range].fill(true);
        Ok(())
    }

    fn locate(&self, buffer: &Buffer, element: i64) -> Result<(&Piece, std::ops::Range<usize>), Diagnostic> {
        let place = usize::try_from(element).ok().filter(|&place| place < buffer.len());
        let Some(place) = place else {
            return Err(fault(format!("element {element} of a buffer of {} elements", buffer.len())));
        };
        let start = buffer.start + place * buffer.dtype.size();
        Ok((&self.pieces[buffer.piece], start..start + buffer.dtype.size()))
    }

    /// What a buffer holds, all of it written.
    pub(super) fn tensor(&self, buffer: &Buffer) -> Result<Tensor, Diagnostic> {
        let mut bytes = Vec::with_capacity(buffer.len() * buffer.dtype.size());
        for element in 0..buffer.len() as i64 {
            bytes.extend_from_slice(self.read(buffer, element)?);
        }
        Tensor::new(buffer.dtype, buffer.dims.clone(), bytes)
    }
}
