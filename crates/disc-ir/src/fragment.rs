//! Lays out tiles over the threads of a warp: the elements that each thread holds of the operands
//! and the result of [`MultiplyTiles`](crate::OpKind::MultiplyTiles).
//!
//! The layouts are those of the hardware that a tile is named after: NVIDIA's `mma.sync` in the PTX
//! ISA (section "Matrix Fragments for mma"), AMD's `v_mfma` and `v_wmma` in the matrix instruction
//! calculator's tables, Intel's AMX in the Software Developer's Manual, where a warp is one thread.
//! One table serves verifier, interpreters and lowering.
//!
//! Invariant: each element of a tile is held by exactly one lane of one thread, but for the
//! operands of `wmma`, which both halves of a warp hold.
use crate::types::{DType, Type};

/// The names of the tiles: rows, columns and terms of a sum.
pub(crate) const TILES: &[&str] =
    &["m16n8k8", "m16n8k16", "m16n8k32", "mfma16x16x16", "mfma32x32x8", "wmma16x16x16", "amx16x16x32", "amx16x16x64"];

/// A shape of tiles, with the way in which the threads of a warp hold them.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Tile {
    /// `mma.sync` of f32 as tf32, sums in f32.
    M16N8K8,
    /// `mma.sync` of halves, sums in f32.
    M16N8K16,
    /// `mma.sync` of bytes, sums in i32.
    M16N8K32,
    /// `v_mfma` of halves for waves of 64 threads, sums in f32.
    Mfma16x16x16,
    /// The same with larger tiles.
    Mfma32x32x8,
    /// `v_wmma` of halves for waves of 32 threads, sums in f32.
    Wmma16x16x16,
    /// The tile registers of x86-64 (AMX), for halves: one thread holds a whole tile. Sums in f32.
    Amx16x16x32,
    /// The same for bytes, sums in i32.
    Amx16x16x64,
}

/// Rows of a tile register.
pub const REGISTER_ROWS: i64 = 16;
/// Bytes of a row of a tile register.
pub const REGISTER_ROW_BYTES: usize = 64;

/// Bytes of a tile register.
pub const REGISTER_BYTES: usize = REGISTER_ROWS as usize * REGISTER_ROW_BYTES;

/// Returns the type of a tile register of such elements.
pub fn tile_register(dtype: DType) -> Type {
    Type::Vector { lanes: (REGISTER_BYTES / dtype.size()) as u32, dtype }
}

/// Returns true for the type of a tile register.
pub fn is_tile_register(ty: &Type) -> bool {
    matches!(ty, Type::Vector { lanes, dtype } if *lanes as usize * dtype.size() == REGISTER_BYTES)
}

/// One operand or the result of a matmul of tiles.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Part {
    /// Elements that each thread holds.
    pub lanes: u32,
    /// The element types that it may have.
    pub dtypes: &'static [DType],
}

/// An operand or the result.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Role {
    /// Rows by terms.
    A,
    /// Terms by columns.
    B,
    /// Rows by columns; the result has its layout.
    C,
}

const HALVES: &[DType] = &[DType::F16, DType::BF16];
const BYTES: &[DType] = &[DType::I8, DType::U8];

impl Tile {
    pub const ALL: [Self; 8] = [
        Self::M16N8K8,
        Self::M16N8K16,
        Self::M16N8K32,
        Self::Mfma16x16x16,
        Self::Mfma32x32x8,
        Self::Wmma16x16x16,
        Self::Amx16x16x32,
        Self::Amx16x16x64,
    ];

    pub fn name(self) -> &'static str {
        TILES[self as usize]
    }

    pub fn from_name(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|tile| tile.name() == name)
    }

    /// Rows, columns and terms.
    pub fn sizes(self) -> [u32; 3] {
        match self {
            Self::M16N8K8 => [16, 8, 8],
            Self::M16N8K16 => [16, 8, 16],
            Self::M16N8K32 => [16, 8, 32],
            Self::Mfma16x16x16 | Self::Wmma16x16x16 => [16, 16, 16],
            Self::Mfma32x32x8 => [32, 32, 8],
            Self::Amx16x16x32 => [16, 16, 32],
            Self::Amx16x16x64 => [16, 16, 64],
        }
    }

    /// Threads that hold a tile together.
    pub fn warp(self) -> u32 {
        match self {
            Self::M16N8K8 | Self::M16N8K16 | Self::M16N8K32 | Self::Wmma16x16x16 => 32,
            Self::Mfma16x16x16 | Self::Mfma32x32x8 => 64,
            Self::Amx16x16x32 | Self::Amx16x16x64 => 1,
        }
    }

    /// The element types of the operands.
    fn operands(self) -> &'static [DType] {
        match self {
            Self::M16N8K8 => &[DType::F32],
            Self::M16N8K16 | Self::Mfma16x16x16 | Self::Mfma32x32x8 | Self::Wmma16x16x16 | Self::Amx16x16x32 => HALVES,
            Self::M16N8K32 | Self::Amx16x16x64 => BYTES,
        }
    }

    /// The left operand.
    pub fn a(self) -> Part {
        self.part(Role::A)
    }

    /// The right operand.
    pub fn b(self) -> Part {
        self.part(Role::B)
    }

    /// The third operand, and the result.
    pub fn c(self) -> Part {
        self.part(Role::C)
    }

    pub fn part(self, role: Role) -> Part {
        let [m, n, k] = self.sizes();
        // Both halves of a warp hold the operands of `wmma`.
        let copies = if self == Self::Wmma16x16x16 { 2 } else { 1 };
        let sums = if self.operands() == BYTES { &[DType::I32][..] } else { &[DType::F32] };
        match role {
            Role::A => Part { lanes: copies * m * k / self.warp(), dtypes: self.operands() },
            Role::B => Part { lanes: copies * k * n / self.warp(), dtypes: self.operands() },
            Role::C => Part { lanes: m * n / self.warp(), dtypes: sums },
        }
    }

    /// Returns true if the element types of the operands go together: bytes of any sign, else equal
    /// ones.
    pub fn admits_together(self, a: DType, b: DType) -> bool {
        a == b || self.operands() == BYTES
    }

    /// Returns the row and the column of the element that a thread's lane holds: rows and terms of
    /// `A`, terms and columns of `B`, rows and columns of `C`.
    pub fn element(self, role: Role, thread: u32, lane: u32) -> [u32; 2] {
        let (group, member) = (thread / 4, thread % 4);
        match (self, role) {
            // The rows of a pair of lanes are 8 apart, and a pair has consecutive terms.
            (Self::M16N8K16, Role::A) => [group + 8 * (lane / 2 % 2), 2 * member + lane % 2 + 8 * (lane / 4)],
            (Self::M16N8K16, Role::B) => [2 * member + lane % 2 + 8 * (lane / 2), group],
            (Self::M16N8K32, Role::A) => [group + 8 * (lane / 4 % 2), 4 * member + lane % 4 + 16 * (lane / 8)],
            (Self::M16N8K32, Role::B) => [4 * member + lane % 4 + 16 * (lane / 4), group],
            (Self::M16N8K8, Role::A) => [group + 8 * (lane % 2), member + 4 * (lane / 2)],
            (Self::M16N8K8, Role::B) => [member + 4 * lane, group],
            (Self::M16N8K8 | Self::M16N8K16 | Self::M16N8K32, Role::C) => [group + 8 * (lane / 2), 2 * member + lane % 2],
            (Self::Mfma16x16x16, Role::A) => [thread % 16, 4 * (thread / 16) + lane],
            (Self::Mfma16x16x16, Role::B) => [4 * (thread / 16) + lane, thread % 16],
            (Self::Mfma16x16x16, Role::C) => [4 * (thread / 16) + lane, thread % 16],
            (Self::Mfma32x32x8, Role::A) => [thread % 32, 4 * (thread / 32) + lane],
            (Self::Mfma32x32x8, Role::B) => [4 * (thread / 32) + lane, thread % 32],
            (Self::Mfma32x32x8, Role::C) => [8 * (lane / 4) + 4 * (thread / 32) + lane % 4, thread % 32],
            (Self::Amx16x16x32 | Self::Amx16x16x64, Role::A) => [lane / self.sizes()[2], lane % self.sizes()[2]],
            // Terms that follow each other are adjacent, as many as 32 bits hold.
            (Self::Amx16x16x32, Role::B) => [lane / 32 * 2 + lane % 2, lane % 32 / 2],
            (Self::Amx16x16x64, Role::B) => [lane / 64 * 4 + lane % 4, lane % 64 / 4],
            (Self::Amx16x16x32 | Self::Amx16x16x64, Role::C) => [lane / 16, lane % 16],
            (Self::Wmma16x16x16, Role::A) => [thread % 16, lane],
            (Self::Wmma16x16x16, Role::B) => [lane, thread % 16],
            (Self::Wmma16x16x16, Role::C) => [2 * lane + thread / 16, thread % 16],
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::HashMap;

    #[test]
    fn each_element_is_held_as_often_as_the_layout_says() {
        for tile in Tile::ALL {
            assert_eq!(Tile::from_name(tile.name()), Some(tile));
            let [m, n, k] = tile.sizes();
            for (role, rows, columns) in [(Role::A, m, k), (Role::B, k, n), (Role::C, m, n)] {
                let mut held: HashMap<[u32; 2], u32> = HashMap::new();
                for thread in 0..tile.warp() {
                    for lane in 0..tile.part(role).lanes {
                        *held.entry(tile.element(role, thread, lane)).or_default() += 1;
                    }
                }
                let copies = if tile == Tile::Wmma16x16x16 && role != Role::C { 2 } else { 1 };
                assert_eq!(held.len() as u32, rows * columns, "{} {role:?}", tile.name());
                assert!(held.iter().all(|([row, column], &n)| *row < rows && *column < columns && n == copies));
            }
        }
    }
}
