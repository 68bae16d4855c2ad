//! Writes asynchronous copies to shared memory, and matmuls of tiles.
use super::KernelBuilder;
use disc_ir::{
    Attr, DType, Literal, OpKind, Type, Value,
    fragment::{Tile, tile_register},
};

impl KernelBuilder {
    /// Begins to copy `elements` elements to shared memory; zeros unless `exists`.
    pub fn copy_async(&mut self, [to, to_index]: [Value; 2], [from, from_index]: [Value; 2], elements: i64, exists: Value) {
        let operands = [to, to_index, from, from_index, exists];
        self.emit_all(OpKind::CopyAsync, &operands, &[("elements", elements.into())], None);
    }

    /// Ends a batch of copies of this thread.
    pub fn commit_copies(&mut self) {
        self.emit_all(OpKind::CommitCopies, &[], &[], None);
    }

    /// Waits for all batches of this thread but the last `left`.
    pub fn wait_copies(&mut self, left: i64) {
        self.emit_all(OpKind::WaitCopies, &[], &[("left", left.into())], None);
    }

    /// Reads as many matrices as have so many bytes for each thread, in the layout of fragments.
    pub fn load_matrix(&mut self, buffer: Value, index: Value, bytes: u32, transposed: bool) -> Value {
        let dtype = self.dtype(buffer);
        let ty = Type::Vector { lanes: bytes / dtype.size() as u32, dtype };
        let attrs = [("transposed", Attr::Bool(true))];
        self.emit_as(OpKind::LoadMatrix, &[buffer, index], &attrs[..usize::from(transposed)], ty)
    }

    /// A tile register of zeros, a new one each time: to copy one, it would have to be stored.
    pub fn zero_tile(&mut self, dtype: DType) -> Value {
        let attrs = [("value", Literal::splat_i64(dtype, 0).into())];
        self.emit_as(OpKind::Constant, &[], &attrs, tile_register(dtype))
    }

    /// Reads a tile register from rows that are `stride` elements apart.
    pub fn load_tile(&mut self, buffer: Value, index: Value, stride: Value) -> Value {
        let ty = tile_register(self.dtype(buffer));
        self.emit_as(OpKind::LoadTile, &[buffer, index, stride], &[], ty)
    }

    /// Writes a tile register to such rows.
    pub fn store_tile(&mut self, buffer: Value, index: Value, stride: Value, value: Value) {
        self.emit_all(OpKind::StoreTile, &[buffer, index, stride, value], &[], None);
    }

    /// Multiplies two fragments and adds a third.
    pub fn multiply_tiles(&mut self, tile: Tile, [a, b, c]: [Value; 3]) -> Value {
        self.emit_all(OpKind::MultiplyTiles, &[a, b, c], &[("tile", Attr::Enum(tile.name()))], None)[0]
    }

    /// Returns the first and the second 8 of a vector's 16 bytes, as lanes of a type.
    pub fn halves_of(&mut self, value: Value, dtype: DType) -> [Value; 2] {
        let words = self.recast(value, DType::I64);
        [0, 1].map(|half| {
            let word = self.extract_lane(words, half);
            self.recast(word, dtype)
        })
    }

    /// Returns a vector of 2 or 4 lanes: the first half of them one scalar, the second half
    /// another.
    ///
    /// # Panics
    /// For another number of lanes.
    pub fn joined(&mut self, first: Value, second: Value, lanes: u32) -> Value {
        // Constants have equal lanes, the bytes of one do not.
        let (ones, part) = match lanes {
            2 => (Literal::splat_i64(DType::I64, 1), DType::I32),
            4 => (Literal::splat_i64(DType::I32, 0x0101), DType::I8),
            _ => panic!("a vector of {lanes} lanes is not joined"),
        };
        let ones = self.constant(ones, 1);
        let (ones, zeros) = (self.recast(ones, part), self.zero(part, lanes));
        let is_first = self.compare("NE", ones, zeros);
        let (first, second) = (self.widen(first, lanes), self.widen(second, lanes));
        self.select(is_first, first, second)
    }
}
