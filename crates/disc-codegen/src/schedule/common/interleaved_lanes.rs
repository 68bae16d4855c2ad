//! Interleaves innermost dimensions of two or four elements, such as pairs: vectors are along the
//! dimension before them.
//!
//! One vector is computed for each element of the short dimension, and they are interleaved to the
//! vectors that are contiguous in memory. A loop along the short dimension would leave most lanes
//! empty, and decide at every step which operand of a concatenation it is in.
//!
//! Invariant: the outputs of an interleaved group have the short dimension innermost; their
//! elements are laid out in the order of the space.
use super::{
    iteration_space::{Merged, outer_gathers},
    line_buffers::line_buffers_of,
    transpose_tiles::transposed_run,
};
use crate::{
    kernel::{Index, KernelBuilder},
    schedule::Group,
};
use disc_ir::{Dim, Value};
use disc_passes::fusion::{line_buffers::WOVEN, space::Map};

/// A short innermost dimension of a space.
pub(in crate::schedule) struct InterleavedLanes {
    pub(in crate::schedule) axis: usize,
    pub(in crate::schedule) size: i64,
}

impl InterleavedLanes {
    /// The last of some runs, if it is short and vectors can be along the one before it.
    pub(in crate::schedule) fn of(group: &Group<'_>, space: &[Dim], roots: &[(Value, Map)], runs: &[Merged]) -> Option<Self> {
        let [.., before, last] = runs else { return None };
        let size = last.size.as_const().filter(|size| WOVEN.contains(size))?;
        // A slice of a gather is one vector already; an input that is contiguous along another
        // dimension is transposed.
        let outer: Vec<usize> = (0..last.axis).collect();
        let lines = line_buffers_of(group, space, roots, &runs[..runs.len() - 1]);
        let sliced = !outer_gathers(group.function, &group.solver, space, roots, &lines, &outer).is_empty();
        let turned = transposed_run(group, space, roots, runs).is_some_and(|run| runs[run].axis != before.axis);
        (!sliced && !turned).then_some(Self { axis: last.axis, size })
    }

    /// The positions of all elements of the short dimension.
    pub(in crate::schedule) fn positions(&self, kb: &mut KernelBuilder, at: &[Index]) -> Vec<Vec<Index>> {
        let place = |number: i64| {
            let mut at = at.to_vec();
            at[self.axis] = Index::uniform(kb.int(number));
            at
        };
        (0..self.size).map(place).collect()
    }
}
