//! VNNI groups: neighbours along the sums that share a lane of 32 bits, so that one instruction
//! multiplies them and adds the products up; or a lane of 64 bits, where an instruction takes those
//! of two rows and of two columns.
//!
//! If both operands hold elements of one narrow type, a step of a micro-kernel takes a word of
//! each: rows in task memory keep their order and end in zeros, panels are `[k / count][NR]` words.
//! Panels of weights are laid out that way by the compiler, as their type tells.
//!
//! Invariant: sums of integers are exact, wherever words are used.
use super::{MatmulPlan, forms::RightForm, im2col::Im2col, int4::Int4};
use crate::target::{CpuModel, Target};
use disc_ir::{DType, Dim, Function, Solver};

/// Products with so few rows read a right operand with contiguous columns in place.
const ROWS_IN_PLACE: i64 = 2;

/// The elements of a word.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(in crate::schedule) struct DotWord {
    pub(in crate::schedule) elements: DType,
    /// The integer of as many bits.
    pub(in crate::schedule) dtype: DType,
    /// Set if columns are signed and the instruction takes unsigned ones: then they are biased by
    /// 128, and sums start at `-128 * sum(row)`.
    pub(in crate::schedule) biased: bool,
}

impl DotWord {
    /// Gives the word of elements of type `stored`, if the target multiplies them and adds them up
    /// in `compute`.
    pub(super) fn of(target: &Target, stored: DType, compute: DType) -> Option<Self> {
        let elements = target.word_elements(stored)?;
        let sums = if elements.is_float() { DType::F32 } else { DType::I32 };
        let dtype = target.word_dtype(elements);
        (compute == sums).then_some(Self { elements, dtype, biased: target.biases_words(elements) })
    }

    /// The types of the elements of a column and of a row.
    pub(in crate::schedule) fn operands(self) -> [DType; 2] {
        [if self.biased { DType::U8 } else { self.elements }, self.elements]
    }

    /// Elements of a word.
    pub(in crate::schedule) fn count(self) -> i64 {
        (self.dtype.size() / self.elements.size()) as i64
    }

    /// Returns true if one instruction takes the words of two rows and of two columns.
    pub(in crate::schedule) fn is_paired(self) -> bool {
        self.dtype == DType::I64
    }
}

impl MatmulPlan {
    /// Takes this word, if there is one, and the register block of its products.
    pub(super) fn take_word(&mut self, word: Option<DotWord>) {
        self.word = word;
        if word.is_some_and(DotWord::is_paired) {
            self.tile = CpuModel::PAIRED_TILE;
        }
    }

    /// Returns true if micro-kernels multiply pairs of rows by pairs of columns.
    pub(in crate::schedule) fn multiplies_pairs(&self) -> bool {
        self.word.is_some_and(DotWord::is_paired)
    }

    /// Takes words of both operands, where the target multiplies them and both can be laid out so.
    pub(super) fn choose_words(&mut self, group: &Function, target: &Target) {
        let dtype = group.ty(self.left.operand.value).dtype();
        let alike = group.ty(self.right.operand.value).dtype() == dtype;
        let few = self.right.is_rows() && self.shape.m.size.as_const().is_some_and(|rows| rows <= ROWS_IN_PLACE);
        let can = match self.right.form {
            RightForm::Rows | RightForm::Columns { .. } => self.shape.sums.len() <= 1 && !few,
            RightForm::Computed => dtype.is_float() && Im2col::of(group, self).is_some(),
            _ => false,
        };
        self.take_word(if alike && can { DotWord::of(target, dtype, self.compute) } else { None });
    }

    /// Returns true if the left operand can be read in words in place.
    pub(super) fn has_words_in_place(&self, group: &Function, solver: &Solver, word: DotWord) -> bool {
        let left = &self.left.operand;
        let stored = left.memory.as_ref().map(|memory| group.ty(memory.input).dtype());
        let along = self.shape.sums.len() == 1 && left.sum.last().is_some_and(|&d| left.is_contiguous(d));
        stored == Some(word.elements) && along && solver.divisible(&self.shape.k.size, word.count())
    }

    /// Elements of a word; 1 without words.
    pub(in crate::schedule) fn word_size(&self) -> i64 {
        self.word.map_or(1, DotWord::count)
    }

    /// The number of elements that rows in task memory are padded to a multiple of, with zeros.
    pub(in crate::schedule) fn row_unit(&self) -> i64 {
        self.padded_depth().unwrap_or_else(|| self.right.int4().map_or(self.word_size(), Int4::group_rows))
    }

    /// Steps along the sums.
    pub(in crate::schedule) fn word_steps(&self) -> Dim {
        match self.word {
            Some(word) => self.shape.k.size.ceil_div(&Dim::constant(word.count())),
            None => self.shape.k.size.clone(),
        }
    }

    /// Elements of a panel of weights.
    pub(in crate::schedule) fn panel_size(&self) -> Dim {
        self.word_steps() * (self.word_size() * i64::from(self.tile.columns))
    }

    /// The type of rows in task memory.
    pub(in crate::schedule) fn rows_dtype(&self) -> DType {
        self.word.map_or(self.compute, |word| word.elements)
    }

    /// The type of panels in task memory.
    pub(in crate::schedule) fn panel_dtype(&self) -> DType {
        match self.word {
            Some(word) if self.weaves_rows() => word.elements,
            Some(word) => word.dtype,
            None => self.compute,
        }
    }

    /// Returns true if rows of a panel are packed as elements first, and then interleaved into
    /// words where they are.
    pub(in crate::schedule) fn weaves_rows(&self) -> bool {
        self.word.is_some() && self.right.form == RightForm::Computed
    }
}
