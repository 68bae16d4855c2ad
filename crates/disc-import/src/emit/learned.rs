//! Remembers what was learned of values while a function is built.
use disc_ir::{Block, Symbol, Value};
use std::collections::{HashMap, HashSet};

/// Facts about the values of a function that outlive single lowerings.
#[derive(Clone, Debug, Default)]
pub struct Learned {
    /// The positions of the true elements of a mask, and the block that has them: they are not
    /// there for other blocks.
    pub(super) places: HashMap<Value, (Value, Block)>,
    /// By a value that repeats another along an axis of size 1: the other one, and the axis.
    pub(super) repeats: HashMap<Value, (Value, usize)>,
    /// Names of dims that were bound somewhere: no two are alike.
    pub(super) bound: HashSet<Symbol>,
}
