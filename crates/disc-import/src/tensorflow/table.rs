//! Lists the ops of TensorFlow that disc has, each with its row.
use super::{
    row::Lower,
    rows::{contraction, elementwise, index, lists, normalize, reduce, resize, shape, slice, window},
};
use std::{collections::HashMap, sync::LazyLock};

const FAMILIES: &[&[(&str, Lower)]] = &[
    elementwise::ROWS,
    shape::ROWS,
    slice::ROWS,
    index::ROWS,
    lists::ROWS,
    contraction::ROWS,
    window::ROWS,
    normalize::ROWS,
    reduce::ROWS,
    resize::ROWS,
];

static TABLE: LazyLock<HashMap<&'static str, Lower>> = LazyLock::new(|| FAMILIES.iter().copied().flatten().copied().collect());

pub(super) fn find(op: &str) -> Option<Lower> {
    TABLE.get(op).copied()
}

/// Returns the names of all ops that have a row, sorted.
pub fn ops() -> Vec<&'static str> {
    let mut names: Vec<&str> = TABLE.keys().copied().collect();
    names.sort_unstable();
    names
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_op_has_one_row() {
        let listed: usize = FAMILIES.iter().map(|rows| rows.len()).sum();
        assert_eq!(listed, TABLE.len());
    }
}
