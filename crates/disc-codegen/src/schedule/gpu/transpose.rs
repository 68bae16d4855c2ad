//! Schedules pointwise groups that read an input along another dimension than they write: a block
//! has a tile of both, which it transposes in shared memory.
//!
//! Threads read the tile along the dimension that is contiguous in the input, and compute and write
//! it along that of the outputs. The other inputs are read where they are needed.
use super::{
    candidates::{Candidate, Candidates},
    conditions::at_least,
    frame::{GridFrame, grid_of},
    pointwise::Nest,
};
use crate::{
    kernel::{Index, KernelBuilder, compute_dtype},
    schedule::{
        Condition, Scheduled, VersionKind,
        common::{
            iteration_space::{Merged, positions_of},
            transpose_tiles::{parts, transposed_run},
        },
    },
    target::GpuModel,
};
use disc_ir::{Dim, TensorType, Value};
use disc_kernel_macros::expr;
use disc_passes::fusion::space::{axes_of, regroup};

versions! {
    /// Tiles of a grid, transposed in shared memory.
    GridTiles {
        kernels: "`kN_pointwise_tile`",
        sizes: "grids: an input that is contiguous along another dimension than the results, at least 16 positions along \
            both; all tensors have fewer than 2^31 elements",
        unit: "a block has a tile of 32 by 32 elements",
    }
}

/// Positions of a tile along either dimension.
const TILE: i64 = 32;
/// Lines of a tile that the threads of a block have at once.
const LINES: i64 = GpuModel::THREADS as i64 / TILE;
/// Elements from one line of a tile to the next: those of a column are in different banks.
const PITCH: i64 = TILE + 1;
/// Tiles of shorter dimensions are mostly empty.
const LEAST: i64 = TILE / 2;

/// Adds the version with tiles, if the group reads an input that way.
pub(super) fn add_version(candidates: &mut Candidates<'_>) {
    let nest = Nest::of(&candidates.next);
    let (Some(outer), Some(inner)) = (transposed_run_of(&nest), nest.runs.last()) else { return };
    let sizes = [&nest.runs[outer].size, &inner.size];
    let conditions: Vec<Condition> = sizes.into_iter().filter_map(|dim| at_least(nest.group, LEAST, dim)).collect();
    candidates.add(Candidate::new(VersionKind::GridTiles, "tile", conditions), |group, _| {
        Some(Transpose::of(Nest::of(group))?.scheduled())
    });
}

/// The outer run that inputs are contiguous along.
fn transposed_run_of(nest: &Nest<'_>) -> Option<usize> {
    transposed_run(nest.group, &nest.space, &nest.roots, &nest.runs)
}

/// An input, or a part of one, that is transposed.
struct Transposed {
    value: Value,
    /// The axes of the space that each of its dimensions stands for.
    shape: Vec<Vec<usize>>,
}

struct Transpose<'g> {
    nest: Nest<'g>,
    /// The runs of a tile: that of the inputs' memory, and that of the outputs'.
    outer: Merged,
    inner: Merged,
    transposed: Vec<Transposed>,
}

impl<'g> Transpose<'g> {
    fn of(nest: Nest<'g>) -> Option<Self> {
        let outer = nest.runs[transposed_run_of(&nest)?].clone();
        let inner = nest.runs.last()?.clone();
        let group = nest.group;
        let mut transposed: Vec<Transposed> = Vec::new();
        for (part, map) in parts(group, &nest.space, &nest.roots) {
            let stored = part.axes(&map).filter(|axes| axes.last() == Some(&outer.axis) && axes.contains(&inner.axis));
            let tensor = group.tensor(part.value);
            let shape = stored.and_then(|_| regroup(&group.solver, &nest.space, &axes_of(&map)?, &tensor.dims));
            let known =
                |shape: &Vec<Vec<usize>>| transposed.iter().any(|other| other.value == part.value && other.shape == *shape);
            if let Some(shape) = shape.filter(|shape| !known(shape)) {
                transposed.push(Transposed { value: part.value, shape });
            }
        }
        (!transposed.is_empty()).then_some(Self { nest, outer, inner, transposed })
    }

    fn scheduled(&self) -> Scheduled {
        let group = self.nest.group;
        let mut frame = GridFrame::new(group, 1, grid_of(group.target));
        let tiles = |run: &Merged| run.size.ceil_div(&Dim::constant(TILE));
        let mut counted = self.nest.runs.clone();
        for run in counted.iter_mut().filter(|run| run.axis == self.outer.axis || run.axis == self.inner.axis) {
            run.size = tiles(run);
        }
        let memory: Vec<Value> = self.transposed.iter().map(|input| self.memory(&mut frame.kb, input)).collect();
        let block = frame.kb.place("block");
        let positions = positions_of(&mut frame.kb, block, &counted);
        let mut at = vec![Index::uniform(frame.kb.int(0)); self.nest.space.len()];
        counted.iter().zip(positions).for_each(|(run, position)| at[run.axis] = Index::uniform(position));
        let thread = frame.kb.place("thread");
        let side = frame.kb.int(TILE);
        let (line, place) = (expr!(frame.kb, thread / side), expr!(frame.kb, thread % side));
        // Along the inputs' memory.
        for number in 0..TILE / LINES {
            let slot = self.position(&mut frame.kb, &at, (&self.inner, line, number), (&self.outer, place));
            self.read(&mut frame, &slot, &memory);
        }
        frame.kb.barrier();
        // Along the outputs'.
        for number in 0..TILE / LINES {
            let slot = self.position(&mut frame.kb, &at, (&self.outer, line, number), (&self.inner, place));
            self.write(&mut frame, &slot, &memory);
        }
        frame.finish(Dim::product(counted.iter().map(|run| run.size.clone())))
    }

    fn memory(&self, kb: &mut KernelBuilder, input: &Transposed) -> Value {
        let dtype = compute_dtype(self.nest.group.tensor(input.value).dtype);
        kb.shared(TensorType::new([Dim::constant(TILE * PITCH)], dtype))
    }

    /// Returns the place of a thread's element: `number` times the lines of a block further, and
    /// along a line.
    fn position(
        &self,
        kb: &mut KernelBuilder,
        tile: &[Index],
        (across, line, number): (&Merged, Value, i64),
        (along, place): (&Merged, Value),
    ) -> Slot {
        let side = kb.int(TILE);
        let line = expr!(kb, line + int(number * LINES));
        let mut at = tile.to_vec();
        let mut exists = None;
        for (run, local) in [(across, line), (along, place)] {
            let first = at[run.axis].as_uniform().expect("a tile has one place");
            let position = expr!(kb, first * side + local);
            let inside = expr!(kb, position < dim(&run.size));
            exists = Some(exists.map_or(inside, |others| expr!(kb, others & inside)));
            at[run.axis] = Index::uniform(position);
        }
        let (inner, outer) = if across.axis == self.inner.axis { (line, place) } else { (place, line) };
        let row = expr!(kb, inner * int(PITCH));
        Slot { at, exists: exists.expect("two runs"), index: expr!(kb, row + outer) }
    }

    /// Brings the elements that are transposed to shared memory.
    fn read(&self, frame: &mut GridFrame<'_>, slot: &Slot, memory: &[Value]) {
        let GridFrame { kb, elements, .. } = frame;
        kb.when(slot.exists, |kb| {
            elements.scoped(|elements| {
                for (input, &memory) in self.transposed.iter().zip(memory) {
                    let place = elements.position(kb, &self.nest.space, &input.shape, &slot.at);
                    let value = elements.element(kb, input.value, &place);
                    kb.store(memory, slot.index, value, None);
                }
            });
        });
    }

    /// Computes the outputs at a place, from the transposed elements in shared memory.
    fn write(&self, frame: &mut GridFrame<'_>, slot: &Slot, memory: &[Value]) {
        let targets: Vec<Value> = self.nest.group.outputs().into_iter().map(|output| frame.target(output)).collect();
        let GridFrame { kb, elements, .. } = frame;
        kb.when(slot.exists, |kb| {
            elements.scoped(|elements| {
                for (input, &memory) in self.transposed.iter().zip(memory) {
                    let place = elements.position(kb, &self.nest.space, &input.shape, &slot.at);
                    let value = kb.load(memory, slot.index, 1, None);
                    elements.seed(input.value, &place, value);
                }
                self.nest.store_all(kb, elements, &targets, std::slice::from_ref(&slot.at));
            });
        });
    }
}

/// The place of a thread's element in a tile.
struct Slot {
    at: Vec<Index>,
    /// A flag that is true if it is in the space.
    exists: Value,
    /// Its place in shared memory.
    index: Value,
}
