//! Schedules attention on a GPU: a block has a tile of the rows at one position along the batch
//! dimensions, and walks tiles of keys and values in shared memory. Scores are only in registers.
//!
//! Rows that are a softmax are computed in one walk, with the maximum and the sum of each row
//! carried along; tiles that a mask hides are left out. Any other function of rows takes a walk for
//! each phase of its reductions, and a last one, each of which computes the scores again.
//!
//! Operands are computed where they are brought to shared memory, the ops around the scores where
//! these are in registers, and the ops after the second matmul where its result is stored.
//!
//! Invariants: all threads of a block walk the same tiles, and meet at each; sums are added in an
//! order that depends only on sizes.
mod hidden;
mod memory;
pub(in crate::schedule) mod mma;
mod parts;
mod rows;
mod tile;
mod values;

use super::{
    align,
    candidates::{Candidate, Candidates},
    conditions::at_most,
    frame::{GridFrame, warp_of},
};
use crate::schedule::{Group, Scheduled, VersionKind, Versioned, group::flat};
use disc_ir::{DType, Dim, Grid};
use memory::Memory;
use parts::Parts;
use tile::{Place, Tile};

versions! {
    /// Attention of a few queries on a grid.
    GridAttentionFew {
        kernels: "`kN_attention_few`",
        sizes: "grids: at most 16 queries; all tensors have fewer than 2^31 elements",
        unit: "a block has 16 queries and 128 columns of values (64 of f64, or where there are no more), and walks tiles of \
            64 keys",
    }

    /// Attention on a grid whose queries and values are short.
    GridAttentionHeads {
        kernels: "`kN_attention_heads`",
        sizes: "grids: queries and values of at most 64 columns, in f32 or narrower; all tensors have fewer than 2^31 elements",
        unit: "a block has 64 queries, which stay in shared memory, and walks tiles of 64 keys",
    }

    /// Attention on a grid, with positions of 32 bits.
    GridAttention {
        kernels: "`kN_attention_s`",
        sizes: "grids: other attention of tensors that have fewer than 2^31 elements",
        unit: "a block has 64 queries (32 of f64) and as many columns as above, and walks tiles of 64 keys",
    }
}

/// Schedules a group.
///
/// # Errors
/// The reason that the group is another one.
pub(super) fn versions(group: &Group<'_>) -> Result<Versioned, String> {
    let function = flat(group.function);
    let group = Group { function: &function, ..group.clone() };
    let parts = Parts::of(&group)?;
    let mut candidates = Candidates::of(&group);
    let few = at_most(&group, Tile::FEW.block_rows(), &parts.rows);
    let heads = [&parts.terms, &parts.columns].map(|size| at_most(&group, Tile::HEAD, size));
    let versions = [
        (VersionKind::GridAttentionFew, "few", Tile::FEW, Vec::from_iter(few)),
        (VersionKind::GridAttentionHeads, "heads", Tile::HEADS, heads.into_iter().flatten().collect()),
    ];
    // A block has no room for wide queries.
    let fits = |tile: &Tile| !(tile.keeps_queries && Tile::is_wide(parts.sum));
    for (kind, suffix, tile, conditions) in versions.into_iter().filter(|(_, _, tile, _)| fits(tile)) {
        let written = |group: &Group<'_>| Attention::new(group, &parts, tile).scheduled();
        if conditions.is_empty() {
            return Ok(candidates.in_narrow_positions((kind, suffix), written));
        }
        candidates.add(Candidate::new(kind, suffix, conditions), |group, _| Some(written(group)));
        if let (VersionKind::GridAttentionFew, Some(conditions)) = (kind, mma::conditions(&group, &parts)) {
            let tiles = Candidate::new(VersionKind::MmaAttention, "mma", conditions);
            candidates.add(tiles, |group, _| mma::schedule(group, &parts));
        }
    }
    let written = |group: &Group<'_>| Attention::new(group, &parts, Tile::ANY).scheduled();
    Ok(candidates.in_narrow_positions((VersionKind::GridAttention, "s"), written))
}

/// A kernel that computes attention.
struct Attention<'g> {
    group: &'g Group<'g>,
    parts: &'g Parts,
    tile: Tile,
}

impl<'g> Attention<'g> {
    fn new(group: &'g Group<'g>, parts: &'g Parts, tile: Tile) -> Self {
        let most = group.solver.range(&parts.columns).hi;
        let is_narrow = most.is_some_and(|most| most <= Tile::HEAD);
        Self { group, parts, tile: tile.of(parts.sum, is_narrow) }
    }

    fn scheduled(&self) -> Scheduled {
        let mut grid = Grid::new(Tile::THREADS as u32, warp_of(self.group.target));
        if self.tile.rows == Tile::FEW.rows {
            // ptxas would make room for a third block by spilling.
            grid.resident = Some(1);
        }
        let mut frame = GridFrame::new(self.group, 1, grid);
        let flags = (!self.parts.masks.is_empty()).then(|| self.flags(&mut frame.kb));
        let memory = Memory::new(&mut frame.kb, &self.tile, self.parts.sum, flags);
        let tiles = |size: &Dim, of: i64| size.ceil_div(&Dim::constant(of));
        let rows = tiles(&self.parts.rows, self.tile.block_rows());
        let columns = tiles(&self.parts.columns, self.tile.columns);
        let place = Place::new(&mut frame.kb, &self.tile, self.parts, [&rows, &columns]);
        if self.tile.keeps_queries {
            self.keep_queries(&mut frame, &place, &memory);
        }
        let totals = self.totals(&mut frame, &place, &memory);
        self.write(&mut frame, &place, &memory, &totals);
        let blocks = Dim::product(self.parts.batches.iter().cloned()) * &rows * &columns;
        let mut code = frame.finish(blocks);
        align::mark(&mut code.kernels[0], &self.group.solver);
        code
    }

    /// The most elements that a size may have.
    fn most(&self, size: &Dim) -> i64 {
        self.group.solver.range(size).hi.unwrap_or(i64::MAX)
    }

    /// The type of sums and of operands in shared memory.
    fn sum(&self) -> DType {
        self.parts.sum
    }
}
