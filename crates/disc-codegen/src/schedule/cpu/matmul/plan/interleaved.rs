//! Products whose results are stored interleaved: the elements of each in the interleaved value.
//!
//! [`disc_passes::fusion::fuse_interleave`] says which groups do so.
use crate::schedule::Group;
use disc_ir::{Dim, Value};
use disc_passes::fusion::fuse_interleave::{Interleaved, InterleavedPart};

/// The places of one product's elements in the interleaved value.
#[derive(Clone, Debug)]
pub(in crate::schedule) struct InterleavedProduct {
    /// The interleaved value.
    pub(in crate::schedule) value: Value,
    pub(in crate::schedule) steps: Vec<i64>,
    pub(in crate::schedule) first: Vec<i64>,
    pub(in crate::schedule) phases: Vec<i64>,
    /// Elements of a phase along each dimension that is interleaved.
    pub(in crate::schedule) sizes: Vec<Dim>,
    /// For each of these dimensions that ends before the last elements of some phases: its size.
    pub(in crate::schedule) ends: Vec<Option<Dim>>,
    /// Batch dimensions of the product: with groups of features, these are the second one.
    pub(in crate::schedule) lead: usize,
    /// Features of such a group.
    pub(in crate::schedule) features: i64,
}

impl InterleavedProduct {
    /// Locates the elements of a part whose product has `lead` batch dimensions; none if the number
    /// of features is unknown.
    pub(in crate::schedule) fn of(
        group: &Group<'_>,
        interleaved: &Interleaved,
        part: &InterleavedPart,
        lead: usize,
    ) -> Option<Self> {
        let dims = &group.tensor(group.function.result(part.product)).dims;
        let (rows, sizes) = (dims[lead].as_const()?, dims[lead + 1..].to_vec());
        let shown = &group.tensor(interleaved.value).dims[2..];
        let end =
            |((size, step), shown): ((&Dim, &i64), &Dim)| (!group.solver.equal(&(size * *step), shown)).then(|| shown.clone());
        let ends = sizes.iter().zip(&interleaved.steps).zip(shown).map(end).collect();
        Some(Self {
            value: interleaved.value,
            steps: interleaved.steps.clone(),
            first: part.first.clone(),
            phases: part.phases.clone(),
            sizes,
            ends,
            lead,
            features: rows / part.phases.iter().product::<i64>().max(1),
        })
    }

    /// The distance of neighbouring elements of a phase.
    pub(in crate::schedule) fn apart(&self) -> i64 {
        *self.steps.last().expect("a dimension is interleaved")
    }

    /// Neighbouring rows that are written together, where the first of them is a multiple: all
    /// phases of the last dimension, if a block of `most` rows can have them.
    pub(in crate::schedule) fn together(&self, most: i64) -> i64 {
        let all = self.phases.last() == self.steps.last() && self.apart().count_ones() == 1 && self.apart() <= most;
        if all { self.apart() } else { 1 }
    }
}
