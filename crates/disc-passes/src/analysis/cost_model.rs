//! Declares the numbers of a target that passes ask for, and the model of no target in particular.
//!
//! Invariant: the buffer plan relies on [`CostModel::most_taps`] and [`CostModel::unit_rows`] for
//! the order in which a convolution reads its input, so a program runs on targets whose windows are
//! unrolled at least so far and whose units have these rows.
use disc_ir::DType;
use std::fmt::Debug;

/// The numbers of a target that decide which programs passes make. A target without what a number
/// is about leaves it out.
pub trait CostModel: Debug + Send + Sync {
    /// Columns of a panel of weights with 4-byte elements; 0 leaves weights unpacked.
    fn panel_columns(&self) -> i64 {
        0
    }
    /// Rows of a register block with 4-byte elements; 0 if there are none.
    fn block_rows(&self) -> i64 {
        0
    }
    /// Rows that are interleaved in one VNNI group of a panel, for an element type that the target
    /// multiplies in such groups.
    fn word_rows(&self, _dtype: DType) -> Option<i64> {
        None
    }
    /// Columns of a panel of such words.
    fn word_columns(&self, _dtype: DType) -> i64 {
        self.panel_columns()
    }
    /// Returns true if matmuls read weights on the left as f32, although they are stored in this
    /// type: rows that stay for many columns would be converted in each call.
    fn widens_rows(&self, _dtype: DType) -> bool {
        false
    }
    /// Matrices of up to this many columns are read along the sums, unpacked.
    fn few_columns(&self) -> i64 {
        0
    }
    /// Rows of up to this many elements are reduced side by side, one per lane.
    fn short_row(&self) -> i64 {
        0
    }
    /// Tensors that one kernel may read and write: with more, a core cannot prefetch all streams.
    fn most_tensors(&self) -> usize;
    /// Elements of a convolution's window, up to which the window is unrolled; 0 if convolutions do
    /// not walk planes.
    fn most_taps(&self) -> i64 {
        0
    }
    /// Rows that a convolution computes from one copy of their input rows, and the most rows that
    /// it keeps above them.
    fn unit_rows(&self) -> i64;
    /// Bytes apart at which rows share the lines of one set of the first-level cache.
    fn page_bytes(&self) -> i64;
    /// Such rows that the first-level cache holds, next to a line of a panel.
    fn cache_ways(&self) -> i64;
    /// Bytes of a cache line.
    fn line_bytes(&self) -> i64;
    /// Columns of the widest vector of 4-byte elements.
    fn vector_columns(&self) -> i64;
    /// Elements of a matrix that stays in a cache.
    fn cached_elements(&self) -> i64;
    /// Columns of values up to which attention is one group; none if any number is. Further ones
    /// may cost the scores again.
    fn most_value_columns(&self) -> Option<i64> {
        None
    }
    /// Returns true if one launch computes several matmuls of the same rows whose weights are not
    /// packed. Packed ones are one launch everywhere.
    fn joins_matmuls(&self) -> bool {
        false
    }
    /// Returns true if attention converts queries where it reads them.
    fn converts_queries(&self) -> bool {
        false
    }
    /// Returns true if a matmul converts its bias where it reads it, as libraries want it.
    fn converts_biases(&self) -> bool {
        false
    }
    /// Returns true if one launch computes tensors of several shapes, one after another.
    fn walks_lists(&self) -> bool {
        true
    }
    /// Returns true if the host program reads what kernels write without waiting for a device.
    fn shares_memory(&self) -> bool {
        true
    }
}

/// A target without panels, register blocks and words unless a test gives it some. Its other
/// numbers suit every CPU.
#[derive(Clone, Debug, Default)]
pub struct NeutralModel {
    pub panel_columns: i64,
    pub block_rows: i64,
    /// Interleaved rows by element type.
    pub word_rows: Vec<(DType, i64)>,
    /// Half types that are converted on the left.
    pub widened_rows: Vec<DType>,
}

impl NeutralModel {
    /// Makes a model with panels of so many columns.
    pub fn with_panels(panel_columns: i64) -> Self {
        Self { panel_columns, ..Self::default() }
    }
}

impl CostModel for NeutralModel {
    fn panel_columns(&self) -> i64 {
        self.panel_columns
    }

    fn block_rows(&self) -> i64 {
        self.block_rows
    }

    fn word_rows(&self, dtype: DType) -> Option<i64> {
        self.word_rows.iter().find(|(of, _)| *of == dtype).map(|&(_, rows)| rows)
    }

    fn widens_rows(&self, dtype: DType) -> bool {
        self.widened_rows.contains(&dtype)
    }

    fn few_columns(&self) -> i64 {
        8
    }

    fn short_row(&self) -> i64 {
        8
    }

    fn most_tensors(&self) -> usize {
        24
    }

    fn most_taps(&self) -> i64 {
        64
    }

    fn unit_rows(&self) -> i64 {
        16
    }

    fn page_bytes(&self) -> i64 {
        4096
    }

    fn cache_ways(&self) -> i64 {
        7
    }

    fn line_bytes(&self) -> i64 {
        64
    }

    fn vector_columns(&self) -> i64 {
        16
    }

    fn cached_elements(&self) -> i64 {
        1 << 20
    }
}
