//! Holds the numbers about CPUs that the hardware sets, or that passes and schedules share.
//!
//! A number that says when one schedule pays is beside that schedule in schedule/cpu.
use super::{Target, X86Extension, X86Level};
use disc_ir::DType;
use disc_passes::analysis::cost_model::CostModel;

/// The numbers about the CPUs of a target. Those that all CPUs have in common are constants.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct CpuModel {
    /// Bytes of the widest vector register.
    pub vector_bytes: u32,
    /// Vector registers that a register tile may count on.
    pub vector_registers: u32,
    /// The first-level data cache has 48 KiB and 12 lines in a set, and nearly every core
    /// multiplies two whole registers in a cycle: CPUs with AVX-512 and AVX-VNNI (Zen 5, Sapphire
    /// Rapids and later ones). Older ones with AVX-512 have 32 KiB and 8 lines. A hint for what is
    /// fetched and how blocks are cut: code for it is right everywhere.
    pub has_wide_cores: bool,
    /// A vector is multiplied by one lane of another in one instruction: NEON's registers.
    pub multiplies_by_lane: bool,
    /// The words of the element types that may be multiplied in words.
    words: [(DType, Option<Words>); 3],
}

/// The words and panels of a matrix.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Words {
    /// Rows in a word.
    rows: i64,
    /// Columns of a panel.
    columns: u32,
}

/// The register tile of a matmul.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Tile {
    /// The most rows of a micro-kernel.
    pub rows: u32,
    /// Columns of a panel.
    pub columns: u32,
    pub lanes: u32,
}

impl CpuModel {
    /// Bytes of a cache line.
    pub const LINE_BYTES: i64 = 64;
    /// Rows at a multiple of this distance in bytes share the lines of one set of the first-level
    /// cache. It is also the size of a page, beyond which the hardware fetches nothing ahead.
    pub const PAGE_BYTES: i64 = 4096;
    /// Rows at such a distance that the first-level cache of every CPU holds, next to a line of a
    /// panel.
    pub const CACHE_WAYS: u32 = 7;
    /// The same on wide cores.
    pub const WIDE_CACHE_WAYS: u32 = 11;
    /// Elements of a matrix that stays in a cache.
    pub const CACHED_ELEMENTS: i64 = 1 << 20;
    /// Bytes of the smallest register that a non-temporal store writes.
    pub const LEAST_NONTEMPORAL_BYTES: usize = 16;
    /// Matrices of up to this many columns are read along the sums, unpacked: panels of them would
    /// be mostly zeros.
    pub const FEW_COLUMNS: i64 = 8;
    /// Rows of up to this many elements are reduced side by side, one per lane, although each lane
    /// then reads memory of its own.
    pub const SHORT_ROW: i64 = 8;
    /// Tensors that one kernel may read and write: with more, a core cannot prefetch all streams.
    pub const MOST_TENSORS: usize = 24;
    /// Elements of a convolution's window, up to which the window is unrolled.
    pub const MOST_TAPS: i64 = 64;
    /// Rows that a convolution computes from one copy of their input rows; also the most rows kept
    /// above them.
    pub const UNIT_ROWS: i64 = 16;

    /// The register tile of products of pairs of rows and pairs of columns, which fill 128 bits:
    /// 16 registers of sums, two of rows and eight of the panel. Joining two rows is one of nine
    /// vector instructions; it would be one of five on a panel of eight columns. LLVM spills the
    /// sums of six rows.
    pub const PAIRED_TILE: Tile = Tile { rows: 4, columns: 16, lanes: 4 };

    /// Returns the model of a target that is a CPU.
    pub fn of(target: &Target) -> Option<Self> {
        let (vector_bytes, vector_registers) = match target {
            Target::X86(x86) => match x86.level() {
                X86Level::V2 => (16, 16),
                X86Level::V3 => (32, 16),
                X86Level::V4 => (64, 32),
            },
            Target::AArch64(arm) => (arm.vector_bytes(), 32),
            Target::Nvptx { .. } | Target::Amdgpu { .. } | Target::Simt { .. } => return None,
        };
        let has_wide_cores = matches!(target, Target::X86(x86) if x86.level() == X86Level::V4 && x86.has(X86Extension::AvxVnni));
        let multiplies_by_lane = matches!(target, Target::AArch64(arm) if arm.vector_bytes() == 16);
        let mut model =
            Self { vector_bytes, vector_registers, has_wide_cores, multiplies_by_lane, words: [(DType::I8, None); 3] };
        model.words = [DType::I8, DType::U8, DType::BF16].map(|dtype| {
            let words = |elements: DType| {
                let word = target.word_dtype(elements);
                let tile = if word == DType::I64 { Self::PAIRED_TILE } else { model.tile(DType::F32) };
                Words { rows: (word.size() / elements.size()) as i64, columns: tile.columns }
            };
            (dtype, target.word_elements(dtype).map(words))
        });
        Some(model)
    }

    fn words(&self, dtype: DType) -> Option<Words> {
        self.words.iter().find(|(of, _)| *of == dtype).and_then(|&(_, words)| words)
    }

    /// Returns the register tile for accumulators of a type: two vectors wide, as tall as the
    /// registers allow with two for the panel, one for the left operand, and one to spare. If
    /// vectors are multiplied by lanes, one for each row of the left operand.
    pub fn tile(&self, dtype: DType) -> Tile {
        let lanes = self.vector_bytes / dtype.size() as u32;
        if self.multiplies_by_lane {
            return Tile { rows: 8, columns: 2 * lanes, lanes };
        }
        let spare = if self.vector_registers > 16 { 2 } else { 0 };
        Tile { rows: (self.vector_registers - 4) / 2 - spare, columns: 2 * lanes, lanes }
    }
}

impl CostModel for CpuModel {
    fn panel_columns(&self) -> i64 {
        i64::from(self.tile(DType::F32).columns)
    }

    fn block_rows(&self) -> i64 {
        i64::from(self.tile(DType::F32).rows)
    }

    fn word_rows(&self, dtype: DType) -> Option<i64> {
        self.words(dtype).map(|words| words.rows)
    }

    fn word_columns(&self, dtype: DType) -> i64 {
        self.words(dtype).map_or(0, |words| words.columns.into())
    }

    fn widens_rows(&self, dtype: DType) -> bool {
        matches!(dtype, DType::BF16 | DType::F16) && self.word_rows(dtype).is_none()
    }

    fn few_columns(&self) -> i64 {
        Self::FEW_COLUMNS
    }

    fn short_row(&self) -> i64 {
        Self::SHORT_ROW
    }

    fn most_tensors(&self) -> usize {
        Self::MOST_TENSORS
    }

    fn most_taps(&self) -> i64 {
        Self::MOST_TAPS
    }

    fn unit_rows(&self) -> i64 {
        Self::UNIT_ROWS
    }

    fn page_bytes(&self) -> i64 {
        Self::PAGE_BYTES
    }

    fn cache_ways(&self) -> i64 {
        i64::from(Self::CACHE_WAYS)
    }

    fn line_bytes(&self) -> i64 {
        Self::LINE_BYTES
    }

    /// Columns of the widest vector of any CPU, so that a program is cut alike on all of them.
    fn vector_columns(&self) -> i64 {
        16
    }

    fn cached_elements(&self) -> i64 {
        Self::CACHED_ELEMENTS
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use disc_passes::analysis::cost_model::NeutralModel;

    fn model(text: &str) -> CpuModel {
        CpuModel::of(&text.parse().expect("a target")).expect("a CPU")
    }

    #[test]
    fn tiles_fill_the_registers() {
        let tiles = ["x86-64-v2", "x86-64-v3", "x86-64-v4", "aarch64-v8"].map(|text| {
            let model = model(text);
            (model.block_rows(), model.panel_columns(), model.tile(DType::F64).columns)
        });
        assert_eq!(tiles, [(6, 8, 4), (6, 16, 8), (12, 32, 16), (8, 8, 4)]);
    }

    #[test]
    fn words_have_as_many_rows_as_elements() {
        let rows = |text: &str| [DType::I8, DType::U8, DType::BF16, DType::F32].map(|dtype| model(text).word_rows(dtype));
        assert_eq!(rows("x86-64-v3"), [Some(2), Some(2), None, None]);
        assert_eq!(rows("x86-64-v4+avx512bf16+avx512vnni"), [Some(4), Some(2), Some(2), None]);
        assert_eq!(rows("aarch64-v8"), [None; 4]);
        assert_eq!(rows("aarch64-v8+dotprod"), [Some(4), Some(4), None, None]);
        assert_eq!(rows("aarch64-v8+bf16+i8mm"), [Some(8), Some(8), Some(4), None]);
        let columns = |text: &str| model(text).word_columns(DType::I8);
        assert_eq!(["x86-64-v3", "aarch64-v8+dotprod", "aarch64-v8+i8mm+sve256"].map(columns), [16, 8, 16]);
    }

    #[test]
    fn wide_cores_have_avx512_and_avxvnni() {
        let wide = ["x86-64-v3+avxvnni", "x86-64-v4+avx512vnni", "x86-64-v4+avxvnni"].map(|text| model(text).has_wide_cores);
        assert_eq!(wide, [false, false, true]);
    }

    #[test]
    fn a_gpu_is_no_cpu() {
        assert_eq!(CpuModel::of(&"nvptx:sm_90".parse().expect("a target")), None);
    }

    /// Tests plan memory with the neutral model and schedule for CPUs.
    #[test]
    fn what_the_neutral_model_plans_suits_cpus() {
        let (cpu, neutral) = (model("x86-64-v3"), NeutralModel::default());
        assert!(neutral.most_taps() <= cpu.most_taps() && neutral.unit_rows() == cpu.unit_rows());
        let numbers = |model: &dyn CostModel| {
            let columns = [model.few_columns(), model.short_row(), model.vector_columns(), model.cached_elements()];
            (columns, [model.page_bytes(), model.cache_ways(), model.line_bytes()], model.most_tensors())
        };
        assert_eq!(numbers(&neutral), numbers(&cpu));
    }
}
