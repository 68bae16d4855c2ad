//! Reshapes that meet their opposite behind element-wise ops.
use crate::rewrite::Rule;

pub(super) const RULES: &[Rule] = &[];
