//! Remembers what was learned of values while a function is built.
use disc_ir::{Symbol, Value};
use std::collections::{HashMap, HashSet};

/// Facts about the values of a function that outlive single lowerings.
#[derive(Clone, Debug, Default)]
pub struct Learned {
    /// The positions of the true elements of a mask.
    pub(super) places: HashMap<Value, Value>,
    /// By a value that repeats another along an axis of size 1: the other one, and the axis.
    pub(super) repeats: HashMap<Value, (Value, usize)>,
    /// Names of dims that were bound somewhere: no two are alike.
    pub(super) bound: HashSet<Symbol>,
}

impl Learned {
    /// Forgets what a region told of its own values. Names stay taken.
    pub(super) fn leave_region(&mut self, outer: Learned) {
        self.places = outer.places;
        self.repeats = outer.repeats;
    }
}
