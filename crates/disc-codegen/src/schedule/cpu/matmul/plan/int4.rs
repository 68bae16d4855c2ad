//! Weights of 4 bits: panels `[groups][height][NR]` of words that hold eight of them each, and a
//! scale for each group and column.
use super::MatmulPlan;
use crate::target::Target;
use disc_ir::{Dim, Function, OpKind, Value};
use disc_passes::analysis::query::Query;

/// Weights in a word.
pub(in crate::schedule) const IN_WORD: i64 = 8;

/// The inputs that are stored in place of a right operand.
#[derive(Clone, Debug, PartialEq)]
pub(in crate::schedule) struct Int4 {
    pub(in crate::schedule) words: Value,
    pub(in crate::schedule) scales: Value,
    pub(in crate::schedule) groups: Dim,
    /// Words of a group, in each column.
    pub(in crate::schedule) height: i64,
}

impl Int4 {
    /// Finds the inputs of a right operand that is unpacked from two inputs of the group.
    pub(super) fn of(group: &Function, right: Value) -> Option<Self> {
        let unpack = group.made_by(right, OpKind::UnpackInt4)?;
        let [words, scales] = group.operands(unpack)[..] else { return None };
        let inputs = group.parameters();
        let dims = &group.ty(words).shaped()?.dims;
        let (groups, height) = (dims[1].clone(), dims[2].as_const()?);
        (inputs.contains(&words) && inputs.contains(&scales)).then_some(Self { words, scales, groups, height })
    }

    /// Rows of a group.
    pub(in crate::schedule) fn group_rows(&self) -> i64 {
        self.height * IN_WORD
    }

    /// Rows of a panel.
    pub(in crate::schedule) fn rows(&self) -> Dim {
        &self.groups * self.group_rows()
    }
}

impl MatmulPlan {
    /// The most rows that 4-bit weights are multiplied with as they are stored; for more rows, a
    /// unit unpacks its panel.
    pub(in crate::schedule) fn rows_by_int4(&self, target: &Target) -> u32 {
        if target.vector_registers() > 16 { 4 } else { 2 }
    }
}
