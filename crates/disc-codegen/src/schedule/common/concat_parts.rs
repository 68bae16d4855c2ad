//! Splits the inner loop of a nest into parts: one for each operand of a concatenation along it, so
//! that each reads only its own.
//!
//! Parts of one length may be walked together: the operands that several of them share are read and
//! computed once.
use super::{
    iteration_space::{Merged, joints},
    short_rows,
    vector_loop::row_loop,
};
use crate::{
    element::Elements,
    kernel::{Index, KernelBuilder},
    schedule::Group,
};
use disc_ir::{Dim, Value};
use disc_passes::fusion::space::Map;

/// The parts of a run, one for each operand of a concatenation along it.
#[derive(Clone)]
pub(in crate::schedule) struct ConcatParts {
    /// The positions at which they begin, except the first, which begins at 0.
    pub(in crate::schedule) joints: Vec<Dim>,
    pub(in crate::schedule) starts: Vec<Dim>,
    pub(in crate::schedule) ends: Vec<Dim>,
    /// A flag that is true if they have one length and are walked together.
    pub(in crate::schedule) together: bool,
}

impl ConcatParts {
    /// Finds the parts for the values that the roots are computed from, walked together only if
    /// `joint`.
    pub(in crate::schedule) fn of(group: &Group<'_>, space: &[Dim], roots: &[(Value, Map)], run: &Merged, joint: bool) -> Self {
        let joints = joints(group.function, &group.solver, space, roots, run.axis);
        let mut starts = vec![Dim::constant(0)];
        starts.extend(joints.iter().cloned());
        let ends: Vec<Dim> = joints.iter().cloned().chain([run.size.clone()]).collect();
        let of_one_length = || starts.iter().zip(&ends).all(|(start, end)| group.solver.equal(&(end - start), &ends[0]));
        let together = joint && starts.len() > 1 && of_one_length();
        Self { joints, starts, ends, together }
    }

    /// The lengths of those that are walked by themselves.
    pub(in crate::schedule) fn lengths(&self) -> Vec<Dim> {
        let count = if self.together { 1 } else { self.starts.len() };
        self.starts.iter().zip(&self.ends).take(count).map(|(start, end)| end - start).collect()
    }

    /// Emits `body` for the vectors of all parts, with an index in each if they are walked
    /// together.
    pub(in crate::schedule) fn walk<'e>(
        &self,
        kb: &mut KernelBuilder,
        elements: &mut Elements<'e>,
        body: &mut dyn FnMut(&mut KernelBuilder, &mut Elements<'e>, &[Index]),
    ) {
        for (number, length) in self.lengths().iter().enumerate() {
            let range = [kb.dim(&self.starts[number]), kb.dim(&self.ends[number])];
            let exact = elements.solver.divisible(length, i64::from(elements.lanes));
            row_loop(kb, elements, range, exact, &mut |kb, elements, index| {
                let indices = self.places(kb, elements, number, index);
                body(kb, elements, &indices);
            });
        }
    }

    /// The same if each part is one vector of this many lanes: see [`narrow`].
    pub(in crate::schedule) fn walk_short<'e>(
        &self,
        kb: &mut KernelBuilder,
        elements: &mut Elements<'e>,
        lanes: u32,
        body: &mut dyn FnMut(&mut KernelBuilder, &mut Elements<'e>, &[Index]),
    ) {
        let solver = elements.solver.clone();
        for (number, length) in self.lengths().iter().enumerate() {
            let mask = short_rows::mask(kb, &solver, length, lanes);
            let index = Index::Affine { base: kb.dim(&self.starts[number]), stride: 1 };
            elements.masked(mask, |elements| {
                let indices = self.places(kb, elements, number, index);
                body(kb, elements, &indices);
                // The same indices are other positions in the next part.
                indices.iter().for_each(|&index| elements.unbound(index));
            });
        }
    }

    /// The index in part `number`, and in all others if they are walked together; makes known on
    /// which sides of the joints these are.
    fn places(&self, kb: &mut KernelBuilder, elements: &mut Elements<'_>, number: usize, first: Index) -> Vec<Index> {
        let places: Vec<Index> = match self.together {
            false => vec![first],
            true => {
                let place = |start: &Dim| {
                    let start = kb.dim(start);
                    first.add_scalar(kb, start)
                };
                self.starts.iter().map(place).collect()
            }
        };
        for (part, &index) in places.iter().enumerate() {
            let part = number + part;
            self.joints.iter().enumerate().for_each(|(joint, place)| elements.bound(index, place.clone(), part <= joint));
        }
        places
    }
}
