//! The layout of a group: the iteration space that its kernel walks.
use super::space::{Map, map_of};
use disc_ir::{Dim, Solver, Value};

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

    /// The map of a value of this shape that has an element for each position of the space.
    pub fn whole(&self, solver: &Solver, value: Value, shape: &[Dim]) -> Option<Map> {
        let all: Vec<usize> = (0..self.space.len()).collect();
        self.reordered(value).cloned().or_else(|| map_of(solver, &self.space, &all, shape))
    }
}
