//! Transposes tiles of inputs that are contiguous in memory along an outer dimension of the space,
//! so that a vector along the inner one would touch a cache line per lane.
//!
//! Such inputs are read in square blocks, by vectors that are contiguous in memory, and transposed
//! in registers; the loops then find them in a tile of task memory. The computation from them is
//! unchanged: a tile is only another buffer of an input's elements. It may also be of a part of an
//! input that slices and transposes select.
//!
//! Invariant: a tile holds [`TILE`] positions of the outer dimension for one vector of the inner
//! one; no element outside of an input is read.
use super::iteration_space::{Merged, mapped_values};
use crate::{
    element::Elements,
    kernel::{Index, KernelBuilder},
    schedule::Group,
};
use disc_ir::{DType, Dim, Function, OpKind, TensorType, Value};
use disc_kernel_macros::expr;
use disc_passes::{
    analysis::query::Query,
    fusion::space::{Follows, Map, axes_of, regroup},
};

/// The positions of a tile: elements of a cache line, or some lines of them.
pub(in crate::schedule) const TILE: i64 = 16;

/// Smaller squares are not worth the shuffles.
const LEAST: u32 = 4;

/// An input or a part of one, with its layout and the tile that holds some of it.
#[derive(Clone)]
struct TransposeTile {
    part: Part,
    /// The axes of the space that each of its dimensions stands for.
    shape: Vec<Vec<usize>>,
    /// The elements between positions next to one another along the inner dimension.
    step: Dim,
    tile: Value,
    /// The rows and columns of a square.
    square: u32,
}

/// A value that is in memory: an input, or a part of one.
#[derive(Clone, PartialEq, Eq)]
pub(in crate::schedule) struct Part {
    pub(in crate::schedule) value: Value,
    input: Value,
    /// Its dimensions in the order of those of the input.
    order: Vec<usize>,
}

impl Part {
    /// Finds the input of which a value is a part, through slices of neighbours and transposes, the
    /// first of which is a slice; or the input that it is.
    fn of(function: &Function, value: Value) -> Option<Self> {
        let (mut input, mut order) = (value, (0..function.shape(value).len()).collect::<Vec<_>>());
        while let Some(inst) = function.defining(input) {
            match function.kind_of(inst) {
                OpKind::Slice if function.ints(inst, "strides").iter().all(|&step| step == 1) => {}
                OpKind::Transpose if input != value => {
                    // Dimension `i` of the result is dimension `axes[i]` of the operand.
                    let axes = function.axes(inst, "dims");
                    let place = |axis: usize| axes.iter().position(|&from| from == axis).expect("an order names every axis");
                    order = (0..axes.len()).map(|axis| order[place(axis)]).collect();
                }
                _ => return None,
            }
            input = function.operands(inst)[0];
        }
        // Single elements of the rows of memory are no neighbours.
        let is_one = |dim: Option<&Dim>| dim.is_none_or(|dim| dim.as_const() == Some(1));
        let last = order.last().map(|&dim| &function.shape(value)[dim]);
        let is_picked = is_one(last) && !is_one(function.shape(input).last());
        (!is_picked).then_some(Self { value, input, order })
    }

    /// The axes that its dimensions follow, in the order of memory.
    pub(in crate::schedule) fn axes(&self, map: &[Follows]) -> Option<Vec<usize>> {
        let lies: Map = self.order.iter().map(|&dim| map[dim].clone()).collect();
        axes_of(&lies)
    }
}

/// The inputs of a group that are contiguous along one outer dimension.
pub(in crate::schedule) struct TransposeTiles {
    /// The outer dimension, with all its positions.
    pub(in crate::schedule) run: Merged,
    inner: Merged,
    inputs: Vec<TransposeTile>,
}

/// The values that loops read from memory, inputs or parts of them, with how their dimensions
/// follow the space.
pub(in crate::schedule) fn parts(group: &Group<'_>, space: &[Dim], roots: &[(Value, Map)]) -> Vec<(Part, Map)> {
    let values = mapped_values(group.function, &group.solver, space, roots, &|value, map| {
        axes_of(map).is_some() && Part::of(group.function, value).is_some()
    });
    values.into_iter().filter_map(|(value, map)| Some((Part::of(group.function, value)?, map))).collect()
}

/// The outer run that inputs are contiguous along while they also have the inner dimension, by its
/// position among the runs.
pub(in crate::schedule) fn transposed_run(
    group: &Group<'_>,
    space: &[Dim],
    roots: &[(Value, Map)],
    runs: &[Merged],
) -> Option<usize> {
    let (inner, outer) = runs.split_last()?;
    let along = |axes: Vec<usize>| outer.iter().position(|run| Some(&run.axis) == axes.last() && axes.contains(&inner.axis));
    parts(group, space, roots).iter().filter_map(|(part, map)| part.axes(map)).find_map(along)
}

impl TransposeTiles {
    /// Finds the inputs that are contiguous along `run`; allocates task memory for their tiles.
    pub(in crate::schedule) fn new(
        kb: &mut KernelBuilder,
        group: &Group<'_>,
        (space, roots): (&[Dim], &[(Value, Map)]),
        [run, inner]: [Merged; 2],
        lanes: u32,
    ) -> Self {
        let mut inputs: Vec<TransposeTile> = Vec::new();
        for (part, map) in parts(group, space, roots) {
            let tensor = group.tensor(part.value);
            let square = group.target.lanes(tensor.dtype.bits()).min(lanes).min(TILE as u32);
            let lies = part.axes(&map).filter(|axes| axes.last() == Some(&run.axis) && axes.contains(&inner.axis));
            let shape = lies.and_then(|_| regroup(&group.solver, space, &axes_of(&map)?, &tensor.dims));
            let known = inputs.iter().any(|other| other.part == part && Some(&other.shape) == shape.as_ref());
            let Some(shape) = shape.filter(|_| square >= LEAST && tensor.dtype != DType::I1 && !known) else { continue };
            let step = step_of(group, space, (&part, &shape), inner.axis);
            let tile = kb.scratch(TensorType::new([Dim::constant(TILE * i64::from(lanes))], tensor.dtype));
            inputs.push(TransposeTile { part, shape, step, tile, square });
        }
        Self { run, inner, inputs }
    }

    /// Reads the tiles for the positions from `first` to below `stop` of the run, and the vector of
    /// the inner dimension that `at` has.
    pub(in crate::schedule) fn fill(
        &self,
        kb: &mut KernelBuilder,
        elements: &mut Elements<'_>,
        space: &[Dim],
        [first, stop]: [Value; 2],
        at: &[Index],
    ) {
        for turned in &self.inputs {
            // The tail of a row may have vectors of half the lanes.
            let turned = &TransposeTile { square: turned.square.min(elements.lanes), ..turned.clone() };
            let mut fill = |kb: &mut KernelBuilder, from: Value| {
                let offset = expr!(kb, from - first);
                for column in (0..elements.lanes).step_by(turned.square as usize) {
                    let rows = self.rows(kb, elements, turned, space, ([from, stop], column), at);
                    store_columns(kb, turned, &rows, offset, (column, elements.lanes));
                }
            };
            // A unit has at least one position.
            if i64::from(turned.square) == TILE {
                fill(kb, first);
                continue;
            }
            let square = kb.int(i64::from(turned.square));
            kb.for_each([first, stop, square], |kb, from| {
                fill(kb, from);
            });
        }
    }

    /// The vectors of a square: along the run, at `square` positions of the inner dimension from
    /// lane `column` on.
    fn rows(
        &self,
        kb: &mut KernelBuilder,
        elements: &mut Elements<'_>,
        turned: &TransposeTile,
        space: &[Dim],
        ([from, stop], column): ([Value; 2], u32),
        at: &[Index],
    ) -> Vec<Value> {
        let Index::Affine { base, .. } = at[self.inner.axis] else { panic!("the inner dimension is walked in order") };
        let shift = kb.int(i64::from(column));
        let mut row = expr!(kb, base + shift);
        let step = kb.dim(&turned.step);
        // Elements beyond the end are read from the last row, and not used.
        let most = elements.mask.map(|_| {
            let last = kb.dim(&(&self.inner.size - 1));
            row = kb.min(row, last);
            expr!(kb, last - row)
        });
        let start = self.start_of(kb, elements, turned, space, [row, from], at);
        let (lanes, buffer) = (turned.square, elements.buffer(turned.part.input));
        let places = |kb: &mut KernelBuilder| -> Vec<Value> {
            let place = |number: u32| {
                let number = kb.int(i64::from(number));
                let number = most.map_or(number, |most| kb.min(number, most));
                expr!(kb, start + number * step)
            };
            (0..lanes).map(place).collect()
        };
        let (full, left) = (kb.int(i64::from(lanes)), expr!(kb, stop - from));
        let whole = expr!(kb, left >= full);
        let all = |kb: &mut KernelBuilder| {
            if most.is_none() && kb.known_int(step).is_none() {
                return load_rows(kb, buffer, start, (step, &turned.step), lanes);
            }
            places(kb).into_iter().map(|place| kb.load(buffer, place, lanes, None)).collect()
        };
        let some = |kb: &mut KernelBuilder| {
            let mask = kb.lane_mask(left, lanes);
            places(kb).into_iter().map(|place| kb.load(buffer, place, lanes, Some(mask))).collect()
        };
        kb.if_(whole, all, some)
    }

    /// The position of the element of an input at a position of the inner dimension and one of the
    /// run, with the others as `at` has them.
    fn start_of(
        &self,
        kb: &mut KernelBuilder,
        elements: &mut Elements<'_>,
        turned: &TransposeTile,
        space: &[Dim],
        [row, from]: [Value; 2],
        at: &[Index],
    ) -> Value {
        let mut here = at.to_vec();
        here[self.inner.axis] = Index::uniform(row);
        here[self.run.axis] = Index::Affine { base: from, stride: 1 };
        elements.scoped(|elements| {
            let place = elements.position(kb, space, &turned.shape, &here);
            elements.start_of(kb, turned.part.value, &place)
        })
    }

    /// Makes the elements at position `position` of the run known, of which the first one in the
    /// tiles is `first`.
    pub(in crate::schedule) fn recall(
        &self,
        kb: &mut KernelBuilder,
        elements: &mut Elements<'_>,
        space: &[Dim],
        [first, position]: [Value; 2],
        at: &[Index],
    ) {
        for turned in &self.inputs {
            let index = expr!(kb, (position - first) * int(i64::from(elements.lanes)));
            let found = kb.load(turned.tile, index, elements.lanes, None);
            let computed = kb.convert(found, crate::kernel::compute_dtype(kb.dtype(found)));
            let place = elements.position(kb, space, &turned.shape, at);
            elements.seed(turned.part.value, &place, computed);
        }
    }
}

/// The distance in memory between the elements of a part that are next to one another along an
/// axis.
fn step_of(group: &Group<'_>, space: &[Dim], (part, shape): (&Part, &[Vec<usize>]), axis: usize) -> Dim {
    let place = part.order.iter().position(|&dim| shape[dim].contains(&axis)).expect("the part has the axis");
    let within = shape[part.order[place]].iter().skip_while(|&&other| other != axis).skip(1);
    let behind = group.tensor(part.input).dims[place + 1..].iter();
    Dim::product(within.map(|&other| space[other].clone()).chain(behind.cloned()))
}

/// Loads vectors `step` apart from `start` on, four by four: from the first of four, loads reach
/// the others by multiples of the step, which all fours share. The fact that the first position is
/// not negative is repeated for LLVM, which would otherwise carry each position through all loops
/// around it: more than there are registers.
fn load_rows(kb: &mut KernelBuilder, buffer: Value, start: Value, (step, apart): (Value, &Dim), count: u32) -> Vec<Value> {
    let zero = kb.int(0);
    let [two, three, four] = [2, 3, 4].map(|factor| expr!(kb, step * int(factor)));
    let mut from = kb.max(start, zero);
    let (mut part, mut found) = (buffer, Vec::with_capacity(count as usize));
    for number in (0..count).step_by(4) {
        let elements = apart * i64::from(count - number - 1) + i64::from(count);
        part = kb.view(part, from, TensorType::new([elements], kb.dtype(buffer)));
        found.extend([zero, step, two, three].map(|offset| kb.load(part, offset, count, None)));
        from = four;
    }
    found
}

/// Stores a square, transposed, from a position of the run on.
fn store_columns(kb: &mut KernelBuilder, turned: &TransposeTile, rows: &[Value], offset: Value, (column, lanes): (u32, u32)) {
    let dtype = kb.dtype(rows[0]);
    // Halves are moved as their bits.
    let bits = match dtype {
        DType::F16 | DType::BF16 => DType::I16,
        other => other,
    };
    let as_type = |kb: &mut KernelBuilder, value: Value, to: DType| match kb.dtype(value) == to {
        true => value,
        false => kb.emit_all(OpKind::BitcastConvert, &[value], &[("dtype", to.into())], None)[0],
    };
    let rows: Vec<Value> = rows.iter().map(|&row| as_type(kb, row, bits)).collect();
    let (length, shift) = (kb.int(i64::from(lanes)), i64::from(column));
    let start = expr!(kb, offset * length);
    for (number, turned_row) in kb.transpose_lanes(&rows).into_iter().enumerate() {
        let index = expr!(kb, start + int(number as i64 * i64::from(lanes) + shift));
        let value = as_type(kb, turned_row, dtype);
        kb.store(turned.tile, index, value, None);
    }
}
