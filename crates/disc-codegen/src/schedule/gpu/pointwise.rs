//! Schedules pointwise groups on a grid: each thread computes a few elements, or vectors of them,
//! a block's width apart.
//!
//! Neighbouring threads have neighbouring elements of the outputs, so a warp writes memory in one
//! piece, and reads it so wherever an input is stored in the same order.
use super::{
    align,
    candidates::Candidates,
    conditions::{can_hold, divides, narrow_positions, narrowed, suits_threads, vector_lanes, vector_memory},
    frame::GridFrame,
    transpose,
};
use crate::{
    element::Elements,
    kernel::{Index, KernelBuilder},
    schedule::{
        Condition, Group, Scheduled, Version, VersionKind, Versioned,
        common::iteration_space::{Merged, OutputSpace, positions_of},
        space_of,
    },
    target::GpuModel,
};
use disc_ir::{Dim, Grid, Value};
use disc_passes::fusion::space::Map;

/// Vectors, or elements, that a thread computes at once: so many loads are under way.
const VECTORS: u32 = 2;
const ELEMENTS: u32 = 4;

/// Schedules a group whose outputs have one space.
///
/// # Panics
/// If they have not.
pub(super) fn versions(group: &Group<'_>) -> Versioned {
    let mut candidates = Candidates::of(group);
    if let Some(tiles) = transpose::version(&candidates.next) {
        candidates.add(tiles);
    }
    if let Some(vectors) = vectors(&candidates.next) {
        candidates.add(vectors);
    }
    candidates.in_narrow_positions((VersionKind::GridElements, "s"), |group| Nest::of(group).scheduled(1, ELEMENTS))
}

/// Computes each element of each output of any group by itself.
pub(super) fn in_elements(group: &Group<'_>) -> Versioned {
    if space_of(group, &group.outputs()).is_some() {
        return versions(group);
    }
    Candidates::of(group).in_narrow_positions((VersionKind::GridElements, "s"), |group| {
        let mut all = Scheduled::default();
        for &position in &group.wanted {
            let name = format!("{}_{position}", group.name).into();
            let first_site = group.first_site + all.sites.len() as i64;
            let own = Group { wanted: vec![position], name, first_site, ..group.clone() };
            all.append(Nest::of(&own).scheduled(1, ELEMENTS));
        }
        all
    })
}

/// Returns the version whose threads have vectors along the innermost run.
fn vectors(group: &Group<'_>) -> Option<Version> {
    let lanes = vector_lanes(group)?;
    let inner = Nest::of(group).runs.last().map_or(Dim::constant(1), |run| run.size.clone());
    let mut guard = narrow_positions(group);
    guard.extend(divides(group, lanes, &inner));
    if !can_hold(group, &guard) {
        return None;
    }
    let inside = narrowed(group, "v", &guard);
    let mut code = Nest::of(&inside).scheduled(lanes, VECTORS);
    let aligned = vector_memory(&code.kernels[0], &code.launches[0].arguments);
    if !suits_threads(&code.kernels[0]) || aligned.is_empty() {
        return None;
    }
    align::mark(&mut code.kernels[0], &inside.solver);
    guard.push(Condition::Aligned(aligned, GpuModel::ACCESS_BYTES.into()));
    Some(Version { kind: VersionKind::GridVectors, guard, code, workspaces: Vec::new() })
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
        let model = GpuModel::of(self.group.target).expect("a schedule of GPUs");
        let grid = Grid { threads: GpuModel::THREADS, warp: model.warp };
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
        let start = kb.mul(block, width);
        let first = kb.add(start, thread);
        let mine: Vec<Value> = (0..count)
            .map(|number| {
                let offset = kb.int(i64::from(number * grid.threads));
                kb.add(first, offset)
            })
            .collect();
        let end = kb.add(start, width);
        let is_full = kb.compare("LE", end, total);
        let full = frame.kb.open_if(is_full);
        self.compute(&mut frame, &counted, lanes, &mine);
        let partly = frame.kb.else_(full);
        for &unit in &mine {
            let exists = frame.kb.compare("LT", unit, total);
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
                    Index::Affine { base: kb.mul(position, factor), stride: 1 }
                }
                false => Index::uniform(position),
            };
        }
        at
    }
}
