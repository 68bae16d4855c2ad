//! The layout of a group: the iteration space that its kernel walks.
use super::space::Map;
use disc_ir::{Dim, Value};

/// What a group walks: the sizes of its space, and which axes its reductions reduce; none, for a loop.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Layout {
    pub space: Vec<Dim>,
    pub reduced: Vec<usize>,
    pub kept: Vec<usize>,
    /// Whether there are reductions: over sizes of 1 they reduce no axis.
    pub reduces: bool,
    /// Outputs whose rows lie in another order than in the space, with what their dimensions follow: see [`super::output_order`].
    pub reordered: Vec<(Value, Map)>,
}

impl Layout {
    /// What the dimensions of an output follow whose rows lie in another order than in the space.
    pub fn reordered(&self, output: Value) -> Option<&Map> {
        self.reordered.iter().find(|(value, _)| *value == output).map(|(_, map)| map)
    }
}
