//! Describes each kind of version: the table of docs/schedules.md, which a test compares with this
//! one.
//!
//! Invariant: every kind has a row, in the order of [`VersionKind::ALL`]. `kN` stands for the
//! group's number.
use super::VersionKind;

/// A row: the kernels of a version as `disc bench` names them, its guard in words, its unit of
/// work.
type Row = [&'static str; 3];

impl VersionKind {
    fn row(self) -> Row {
        match self {
            Self::SplitRows => [
                "`kN_reduction_split`, `kN_reduction_combine`",
                "fewer than 32 units, more than 2^17 elements (2^15, where parts write elements too); one phase, results of one \
                 element for each row, or computed beside it",
                "one of 32 parts of a row; then a row",
            ],
            Self::SplitPhases => [
                "`kN_reduction_splitP`, `kN_reduction_combineP` for each phase P, `kN_reduction_ends`",
                "fewer than 8 units, more than 2^17 elements; several phases, or results as long as rows",
                "one of 32 parts of a row; for sums a row",
            ],
            Self::RowsInLanes => [
                "`kN_reduction_lanes`",
                "rows of at most 8 elements, more than 64 of them, of which more than 16 are neighbours in memory",
                "vectors of rows side by side",
            ],
            Self::MultiRow => [
                "`kN_reduction_multirow`",
                "rows of at most 80 elements; of at most 256, where there are fewer than 2^20 in all or nothing as long as rows is \
                 written; of at most 1,024, where there are fewer than 2^19",
                "a few rows at once",
            ],
            Self::ShortRows => [
                "`kN_pointwise_shortL`",
                "pointwise rows that one vector of `L` lanes holds, half a register or a whole one; of a concatenation along rows, \
                 each part; not where row blocks are walked as one. AVX-512: 1 to `L` elements; others: `L` elements, since masks \
                 take them longer than a loop",
                "a row, without a loop",
            ],
            Self::Tables => [
                "`kN_pointwise_tables`",
                "other pointwise rows, of at most 4,096 elements, at least 4 of them, with values computed from positions alone \
                 (65,536 and 2, where those are costly); places in tensors are held in 32 bits, and each size that they count along \
                 is below 2^31",
                "",
            ],
            Self::Decode => [
                "`kN_attention_decode_split`, `kN_attention_decode_combine`",
                "decode: at most 8 queries over more than 64 keys",
                "512 keys; then a row",
            ],
            Self::AttentionTiles => [
                "`kN_attention_tiles`",
                "targets with tile registers: softmax attention of bf16, at least 16 queries",
                "up to 192 queries, which share packed keys and values",
            ],
            Self::Winograd => ["`kN_matmul.winograd`", "convolutions with enough tiles of four by four results", ""],
            Self::WinogradSmall => ["`kN_matmul.winograd_small`", "convolutions with enough tiles of two by two results", ""],
            Self::SplitK => [
                "`kN_matmul_split_k`, `kN_matmul_combine`",
                "split-K: at most two row blocks, fewer than 8 panels of a constant number of columns, sums of at least 512",
                "one of 8 parts of the sums; then rows",
            ],
            Self::Keys => [
                "`kN_standalone` of a sort",
                "lines of fewer than 2^31 - 1 elements; else `kN_standalone_by_comparator`, by comparisons",
                "",
            ],
            Self::ScanTiles => ["`kN_standalone_tiles` of a scan", "at least 4 lines; else `kN_standalone`", ""],
            Self::Nontemporal => [
                "`kN_pointwise_nontemporal`, `kN_reduction_nontemporal`, `kN_reduction_multirow_nontemporal` (rows of at most 80)",
                "large results, by non-temporal stores",
                "",
            ],
            _ => self.row_of_grids(),
        }
    }

    /// The row of a version for grids of rows, tiles or elements.
    fn row_of_grids(self) -> Row {
        match self {
            Self::GridTiles => [
                "`kN_pointwise_tile`",
                "grids: an input that is contiguous along another dimension than the results, at least 16 positions along both; all \
                 tensors have fewer than 2^31 elements",
                "a block has a tile of 32 by 32 elements",
            ],
            Self::GridVectors => [
                "`kN_pointwise_v`",
                "grids: vectors of 16 bytes divide the innermost dimension, memory starts at multiples of 16 bytes; all tensors have \
                 fewer than 2^31 elements",
                "a thread has 2 vectors",
            ],
            Self::GridElements => [
                "`kN_pointwise_s`",
                "grids: other pointwise groups whose tensors have fewer than 2^31 elements",
                "a thread has 4 elements",
            ],
            Self::GridSplit => [
                "`kN_reduction_split` and `kN_reduction_combine` on grids",
                "grids: fewer than 128 rows of at least 2^15 elements; results of one element for each row",
                "a block has one of 32 parts of a row; then a warp has a row",
            ],
            Self::ThreadRows => [
                "`kN_reduction_thread`",
                "grids: rows that are known to have fewer than 8 elements, or whose neighbours in memory are other rows",
                "a thread has a row",
            ],
            Self::SubwarpRows => [
                "`kN_reduction_subwarp`",
                "grids: rows of at most 32 elements",
                "8 threads of a warp have a row, in registers, in vectors if 4 are known to divide its length",
            ],
            Self::WarpRowVectors => [
                "`kN_reduction_warp_v`",
                "grids: rows of 1 to 8 vectors of 16 bytes for each thread of a warp, else as `kN_pointwise_v`",
                "a warp has a row in its registers",
            ],
            Self::WarpRows => [
                "`kN_reduction_warp`",
                "grids: rows of 1 to 8 elements for each thread of a warp; all tensors have fewer than 2^31 elements",
                "a warp has a row in its registers",
            ],
            Self::BlockRowVectors => [
                "`kN_reduction_block_v`",
                "grids: rows of 1 to 8 vectors of 16 bytes for each of 256 threads, else as `kN_pointwise_v`",
                "a block has a row in its registers",
            ],
            Self::BlockRows => [
                "`kN_reduction_block`",
                "grids: other rows, of tensors that have fewer than 2^31 elements",
                "a block walks a row",
            ],
            Self::GridMatmuls => [
                "`kN_matmul_s`",
                "grids: matmuls of tensors that have fewer than 2^31 elements",
                "a block has a tile of 64 by 64 results",
            ],
            Self::GridAttentionFew => [
                "`kN_attention_few`",
                "grids: at most 16 queries; all tensors have fewer than 2^31 elements",
                "a block has 16 queries and 128 columns of values (64 of f64, or where there are no more), and walks tiles of 64 keys",
            ],
            Self::GridAttentionHeads => [
                "`kN_attention_heads`",
                "grids: queries and values of at most 64 columns, in f32 or narrower; all tensors have fewer than 2^31 elements",
                "a block has 64 queries, which stay in shared memory, and walks tiles of 64 keys",
            ],
            Self::GridAttention => [
                "`kN_attention_s`",
                "grids: other attention of tensors that have fewer than 2^31 elements",
                "a block has 64 queries (32 of f64) and as many columns as above, and walks tiles of 64 keys",
            ],
            _ => self.row_of_lines(),
        }
    }

    /// The row of a version for grids of an op none of whose elements can be computed by itself,
    /// and of matmuls of few rows.
    fn row_of_lines(self) -> Row {
        match self {
            Self::ThreadScans => [
                "`kN_standalone_thread`",
                "grids: scans along a dimension that others follow, of tensors that have fewer than 2^31 elements",
                "a thread walks a line",
            ],
            Self::WarpScans => [
                "`kN_standalone_warp`",
                "grids: scans along the last dimension, at most 1024 elements; all tensors have fewer than 2^31 elements",
                "a warp walks a line",
            ],
            Self::BlockScans => [
                "`kN_standalone_block`",
                "grids: other scans of tensors that have fewer than 2^31 elements",
                "a block walks a line",
            ],
            Self::WarpSorts => [
                "`kN_standalone_warp` of sorts",
                "grids: sorts and `top_k` of lines that are at most a warp, by a plain order; all tensors have fewer than 2^31 \
                 elements",
                "a warp sorts a line in its registers",
            ],
            Self::BlockSorts => [
                "`kN_standalone_block` of sorts",
                "grids: sorts and `top_k` of lines of at most 4096 elements, by a plain order; all tensors have fewer than 2^31 \
                 elements",
                "a block sorts a line in shared memory",
            ],
            Self::PartSorts => [
                "`kN_standalone_parts`",
                "grids: `top_k` of at most 2048 elements, those that are skipped included; all tensors have fewer than 2^31 elements",
                "a block sorts a line part by part, and keeps the first elements",
            ],
            Self::DeviceSorts => [
                "`kN_standalone_device`",
                "grids: other sorts and `top_k` by a plain order, of fewer than 2^29 elements",
                "a block sorts a line in memory of the device",
            ],
            Self::RowVectors => [
                "`kN_matmul_row_v`",
                "grids: matmuls of one row, or of one column if that is known; vectors of 16 bytes divide the innermost dimension of \
                 the other operand, else as `kN_pointwise_v`",
                "a warp has a line of the other operand, or a block has 32 columns of it",
            ],
            Self::FewRowVectors => [
                "`kN_matmul_rows_v`",
                "grids: matmuls of at most 8 rows, or of as few columns if that is known; else as `kN_matmul_row_v`",
                "a warp has two lines of the other operand, or a block has 32 columns of it",
            ],
            Self::FewRows => [
                "`kN_matmul_rows`",
                "grids: matmuls of at most 8 rows, or of as few columns if that is known; all tensors have fewer than 2^31 elements",
                "as `kN_matmul_rows_v`",
            ],
            Self::SplitPositions => [
                "`kN_standalone_count` and `kN_standalone_split` of `nonzero`",
                "grids: at least 2^14 elements; all tensors have fewer than 2^31 elements",
                "a block has one of 128 parts",
            ],
            Self::BlockPositions => ["`kN_standalone_block` of `nonzero`", "grids: fewer elements", "one block has all"],
            _ => self.row_of_tiles(),
        }
    }

    /// The row of a version for grids whose warps multiply tiles.
    fn row_of_tiles(self) -> Row {
        match self {
            Self::LargeMmaTiles => [
                "`kN_matmul_mma128`",
                "grids of chips that multiply tiles, from `sm_75` on: other matmuls of f16, and from `sm_80` on of bf16 and of \
                 8-bit integers, with at least 128 rows, 128 columns and 2^20 results; of f32 \
                 too, if `matmul_precision` allows tf32; chunks of 16 bytes divide the innermost \
                 dimension of each operand, and memory is aligned for them",
                "a block has 128 by 128 results, and its 8 warps tiles of them",
            ],
            Self::MmaTiles => [
                "`kN_matmul_mma64`",
                "grids: other results of as many rows, columns and batches as there are, else as `kN_matmul_mma128`",
                "a block has 64 by 64 results, and its 4 warps tiles of them",
            ],
            Self::MmaAttention => [
                "`kN_attention_mma`",
                "grids of chips that multiply tiles of the type: softmax attention of f16 or bf16, more than 16 queries of at most \
                 128 terms; 8 divides terms and columns, and memory is aligned for chunks of 16 bytes",
                "a block has 64 queries and 64 or 128 columns of values, a warp 16 of the queries, and walks tiles of 64 keys, of 32 if queries or values are wide",
            ],
            _ => unreachable!("a version of CPUs"),
        }
    }
}

/// Renders the table of docs/schedules.md.
fn docs() -> String {
    let mut text = String::from("| kernels | runs for | unit of work |\n|---|---|---|\n");
    for [kernels, sizes, unit] in VersionKind::ALL.map(VersionKind::row) {
        text += &format!("| {kernels} | {sizes} | {unit} |\n");
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    const PAGE: &str = include_str!("../../../../docs/schedules.md");

    #[test]
    fn the_page_has_the_table() {
        let table = docs();
        assert!(PAGE.contains(&table), "docs/schedules.md, section `Versions of a group`, has to be:\n{table}");
    }

    #[test]
    fn every_kind_has_kernels_and_a_guard_of_its_own() {
        for column in [0, 1] {
            let mut cells = VersionKind::ALL.map(|kind| kind.row()[column]);
            cells.sort_unstable();
            assert!(cells.windows(2).all(|pair| pair[0] != pair[1]), "{cells:?}");
        }
    }
}
