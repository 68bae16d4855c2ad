//! Schedules pointwise groups on a grid: each thread computes a few elements, or vectors of them,
//! a block's width apart.
//!
//! Neighbouring threads have neighbouring elements of the outputs, so a warp writes memory in one
//! piece, and reads it so wherever an input is stored in the same order.
use super::{
    candidates::{Candidate, Candidates},
    conditions::divides,
    frame::{GridFrame, grid_of},
    transpose,
    vectors::vector_lanes,
};
use crate::{
    element::Elements,
    kernel::{Index, KernelBuilder},
    schedule::{
        Group, Scheduled, VersionKind, Versioned,
        common::iteration_space::{Merged, OutputSpace, positions_of},
        space_of,
    },
};
use disc_ir::{Dim, Value};
use disc_kernel_macros::expr;
use disc_passes::fusion::space::Map;

versions! {
    /// Elements of a grid, a vector of them a thread.
    GridVectors {
        kernels: "`kN_pointwise_v`",
        sizes: "grids: vectors of 16 bytes divide the innermost dimension, memory starts at multiples of 16 bytes; all \
            tensors have fewer than 2^31 elements",
        unit: "a thread has 2 vectors",
    }

    /// Elements of a grid, one at a time, with positions of 32 bits.
    GridElements {
        kernels: "`kN_pointwise_s`",
        sizes: "grids: other pointwise groups whose tensors have fewer than 2^31 elements",
        unit: "a thread has 4 elements",
    }
}

/// Vectors, or elements, that a thread computes at once: so many loads are under way.
const VECTORS: u32 = 2;
const ELEMENTS: u32 = 4;

/// Schedules a group whose outputs have one space.
///
/// # Panics
/// If they have not.
pub(super) fn versions(group: &Group<'_>) -> Versioned {
    let mut candidates = Candidates::of(group);
    transpose::add_version(&mut candidates);
    add_vectors(&mut candidates);
    candidates.in_narrow_positions((VersionKind::GridElements, "s"), |group| Nest::of(group).scheduled(1, ELEMENTS))
}

/// Schedules any group: each element of each output is computed by itself.
pub(super) fn in_elements(group: &Group<'_>) -> Versioned {
    if space_of(group, &group.outputs()).is_some() {
        return versions(group);
    }
    Candidates::of(group).in_narrow_positions((VersionKind::GridElements, "s"), |group| {
        let mut all = Scheduled::default();
        for &position in &group.wanted {
            let name = format!("{}_{position}", group.name).into();
            let own = Group { wanted: vec![position], name, ..group.clone() };
            all.append_of(&own, |own| Nest::of(own).scheduled(1, ELEMENTS));
        }
        all
    })
}

/// Adds the version whose threads have vectors along the innermost run.
fn add_vectors(candidates: &mut Candidates<'_>) {
    let group = &candidates.next;
    let Some(lanes) = vector_lanes(group) else { return };
    let inner = Nest::of(group).runs.last().map_or(Dim::constant(1), |run| run.size.clone());
    let vectors = Candidate::new(VersionKind::GridVectors, "v", divides(group, lanes, &inner)).in_vectors(lanes);
    candidates.add(vectors, |group, _| Some(Nest::of(group).scheduled(lanes, VECTORS)));
}

/// The space that a group walks.
pub(super) struct Nest<'g> {
    pub(super) group: &'g Group<'g>,
    pub(super) space: Vec<Dim>,
    /// The axes of the space that each dimension of each output stands for.
    shapes: Vec<Vec<Vec<usize>>>,
    /// The outputs, with how their dimensions follow the space.
    pub(super) roots: Vec<(Value, Map)>,
    pub(super) runs: Vec<Merged>,
}

impl<'g> Nest<'g> {
    pub(super) fn of(group: &'g Group<'g>) -> Self {
        let of_outputs = OutputSpace::of(group);
        let runs = of_outputs.runs(group);
        let OutputSpace { space, shapes, roots } = of_outputs;
        Self { group, space, shapes, roots, runs }
    }

    /// Writes the kernel: `count` vectors of `lanes` elements a thread.
    fn scheduled(&self, lanes: u32, count: u32) -> Scheduled {
        let grid = grid_of(self.group.target);
        let mut frame = GridFrame::new(self.group, lanes, grid);
        let mut counted = self.runs.clone();
        if let Some(inner) = counted.last_mut() {
            inner.size = inner.size.ceil_div(&Dim::constant(lanes.into()));
        }
        let units = Dim::product(counted.iter().map(|run| run.size.clone()));
        let in_block = i64::from(grid.threads * count);
        let kb = &mut frame.kb;
        let [block, thread] = ["block", "thread"].map(|of| kb.place(of));
        let (width, total) = (kb.int(in_block), kb.dim(&units));
        let start = expr!(kb, block * width);
        let first = expr!(kb, start + thread);
        let mine: Vec<Value> = (0..count).map(|number| expr!(kb, first + int(i64::from(number * grid.threads)))).collect();
        let is_full = expr!(kb, start + width <= total);
        let full = frame.kb.open_if(is_full);
        self.compute(&mut frame, &counted, lanes, &mine);
        let partly = frame.kb.else_(full);
        for &unit in &mine {
            let exists = expr!(frame.kb, unit < total);
            let open = frame.kb.open_if(exists);
            self.compute(&mut frame, &counted, lanes, &[unit]);
            frame.kb.close_if(open);
        }
        frame.kb.close_else(partly);
        frame.finish(units.ceil_div(&Dim::constant(in_block)))
    }

    /// Computes all outputs at these units before any is stored: the memory of one may be that of
    /// an input which another reads at the same position.
    fn compute(&self, frame: &mut GridFrame<'_>, counted: &[Merged], lanes: u32, units: &[Value]) {
        let targets: Vec<Value> = self.group.outputs().into_iter().map(|output| frame.target(output)).collect();
        let GridFrame { kb, elements, .. } = frame;
        elements.scoped(|elements| {
            let all: Vec<Vec<Index>> = units.iter().map(|&unit| self.position(kb, counted, lanes, unit)).collect();
            self.store_all(kb, elements, &targets, &all);
        });
    }

    /// Computes all outputs at some places, then stores them.
    pub(super) fn store_all(&self, kb: &mut KernelBuilder, elements: &mut Elements<'_>, targets: &[Value], all: &[Vec<Index>]) {
        let mut computed = Vec::new();
        for at in all {
            for (position, output) in self.group.outputs().into_iter().enumerate() {
                let place = elements.position(kb, &self.space, &self.shapes[position], at);
                let value = elements.element(kb, output, &place);
                computed.push((position, output, place, value));
            }
        }
        for (position, output, place, value) in computed {
            elements.store(kb, targets[position], self.group.tensor(output), &place, value);
        }
    }

    /// Returns the position of a unit in the space.
    fn position(&self, kb: &mut KernelBuilder, counted: &[Merged], lanes: u32, unit: Value) -> Vec<Index> {
        let mut at = vec![Index::uniform(kb.int(0)); self.space.len()];
        let positions = positions_of(kb, unit, counted);
        for (number, (run, position)) in counted.iter().zip(positions).enumerate() {
            at[run.axis] = match number + 1 == counted.len() && lanes > 1 {
                true => {
                    let factor = kb.int(lanes.into());
                    Index::Affine { base: expr!(kb, position * factor), stride: 1 }
                }
                false => Index::uniform(position),
            };
        }
        at
    }
}
