//! Innermost dimensions of two or four elements, such as pairs: vectors lie along the dimension in front of them.
//!
//! One vector is computed for each element of the short dimension, and they are woven to the vectors that lie in memory. A loop along the
//! short dimension would leave most lanes empty, and decide at every step which operand of a concatenation it is in.
//!
//! Invariant: the outputs of a woven group have the short dimension innermost; their elements lie in memory in the order of the space.
use super::{
    Group,
    domain::{Merged, outer_gathers},
    lines::lines_of,
    turned::turned_run,
};
use crate::{build::KernelBuilder, index::Index};
use disc_ir::{Dim, Value};
use disc_passes::fusion::{lines::WOVEN, space::Map};

/// A short innermost dimension of a space.
pub(super) struct Woven {
    pub(super) axis: usize,
    pub(super) size: i64,
}

impl Woven {
    /// The last of some runs, if it is short and vectors can lie along the one in front.
    pub(super) fn of(group: &Group<'_>, space: &[Dim], roots: &[(Value, Map)], runs: &[Merged]) -> Option<Self> {
        let [.., before, last] = runs else { return None };
        let size = last.size.as_const().filter(|size| WOVEN.contains(size))?;
        // A slice of a gather is one vector already; what lies along another dimension is turned.
        let outer: Vec<usize> = (0..last.axis).collect();
        let lines = lines_of(group, space, roots, &runs[..runs.len() - 1]);
        let sliced = !outer_gathers(group.function, &group.solver, space, roots, &lines, &outer).is_empty();
        let turned = turned_run(group, space, roots, runs).is_some_and(|run| runs[run].axis != before.axis);
        (!sliced && !turned).then_some(Self { axis: last.axis, size })
    }

    /// The positions of all elements of the short dimension.
    pub(super) fn positions(&self, kb: &mut KernelBuilder, at: &[Index]) -> Vec<Vec<Index>> {
        let place = |number: i64| {
            let mut at = at.to_vec();
            at[self.axis] = Index::uniform(kb.int(number));
            at
        };
        (0..self.size).map(place).collect()
    }
}

/// Vectors whose lanes by turns are those of the given ones, as many as these: a power of two.
pub(crate) fn weave(kb: &mut KernelBuilder, vectors: &[Value]) -> Vec<Value> {
    if let [vector] = vectors {
        return vec![*vector];
    }
    let every_other = |first: usize| -> Vec<Value> { vectors.iter().skip(first).step_by(2).copied().collect() };
    let (even, odd) = (weave(kb, &every_other(0)), weave(kb, &every_other(1)));
    even.into_iter().zip(odd).flat_map(|(even, odd)| kb.zip_lanes(even, odd)).collect()
}
