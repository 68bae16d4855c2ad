//! The layout of a group: the iteration space that its kernel walks.
use super::space::Map;
use disc_ir::{Dim, Value};

/// The sizes of the iteration space and the axes that reductions reduce; none in a pointwise group.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Layout {
    pub space: Vec<Dim>,
    pub reduced: Vec<usize>,
    pub kept: Vec<usize>,
    /// True if there are reductions: over sizes of 1 they reduce no axis.
    pub reduces: bool,
    /// Outputs whose rows are stored in another order than the space, with their maps; see
    /// `output_order.rs`.
    pub reordered: Vec<(Value, Map)>,
}

impl Layout {
    /// The map of an output whose rows are stored in another order than the space.
    pub fn reordered(&self, output: Value) -> Option<&Map> {
        self.reordered.iter().find(|(value, _)| *value == output).map(|(_, map)| map)
    }
}
