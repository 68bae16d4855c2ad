//! Declares ops that read or write at data-dependent indices.
//!
//! An index out of range is not undefined: `bounds` chooses. `clamp` (StableHLO's rule, and the
//! default) moves it to the nearest position at which the whole slice fits; `skip` (for `scatter`,
//! likewise) leaves that update out; `check` fails the call with E0603. A negative index is out of
//! range. The index of a slice without elements is not checked.
use super::{
    class::DTypeClass,
    control::equal_lists,
    declare::{Stages, Trait, many, one, optional, required},
};
use crate::{
    attr::{Attr, AttrKind},
    diag::{Code, Diagnostic},
    dim::Dim,
    graph::InstData,
    infer::{InferCx, Inferred},
    types::{TensorType, Type},
};

const ANY: DTypeClass = DTypeClass::ANY;
const INTEGER: DTypeClass = DTypeClass::INTEGER;

/// Treatment of an index out of range by reads; the first is the default.
pub(crate) const READ_BOUNDS: &[&str] = &["clamp", "check"];
/// Treatment of an index out of range by scatters; the first is the default.
pub(crate) const SCATTER_BOUNDS: &[&str] = &["skip", "check"];

op! {
    /// Takes slices of `operand` that start at the places `start_indices` names. An index vector
    /// is along `index_vector_dim` (or is one scalar, where that is the rank); its entry `j` counts
    /// along dimension `start_index_map[j]`. A slice has size `slice_sizes`; the dimensions of the
    /// result that run over a slice are `offset_dims`, the others run over the index vectors.
    /// Dimension `operand_batching_dims[i]` of the operand goes along with dimension
    /// `start_indices_batching_dims[i]` of the indices.
    ///
    /// (C1) `rank(operand) = size(offset_dims) + size(collapsed_slice_dims) +
    /// size(operand_batching_dims) = size(slice_sizes)`.
    /// (C2) `0 <= index_vector_dim <= rank(start_indices)`.
    /// (C3) `size(start_index_map)` is the size of dimension `index_vector_dim` of `start_indices`,
    /// or 1 where that is its rank.
    /// (C4) `offset_dims` are distinct axes of the result, ascending.
    /// (C5) `collapsed_slice_dims` and `operand_batching_dims` are distinct axes of the operand,
    /// each list ascending; slices have size 1 there.
    /// (C6) `start_indices_batching_dims` are distinct axes of `start_indices` without
    /// `index_vector_dim`, as many as `operand_batching_dims`, and pairwise of equal size.
    /// (C7) `start_index_map` and `operand_batching_dims` together are distinct axes of the
    /// operand.
    /// (C8) `0 <= slice_sizes[i]`, and `slice_sizes[i] <= size(i)` unless the result is known to
    /// have no elements: proved where the sizes are constant, else a fact the program states.
    Gather = "gather"(operand: one(ANY), start_indices: one(INTEGER)) {
            offset_dims: required(AttrKind::Ints), collapsed_slice_dims: required(AttrKind::Ints), start_index_map: required(AttrKind::Ints),
            index_vector_dim: required(AttrKind::Int), slice_sizes: required(AttrKind::Dims), operand_batching_dims: optional(AttrKind::Ints),
            start_indices_batching_dims: optional(AttrKind::Ints), indices_are_sorted: optional(AttrKind::Bool),
            bounds: optional(AttrKind::Enum(READ_BOUNDS))
        } -> (result: one(ANY)) traits [MayFail, Movement] stages Stages::Tensor, infer gather;
}

op! {
    /// The inputs, with slices of `updates` combined into them at the places `scatter_indices`
    /// names: `body` takes the current elements and then the updates, and returns the new elements.
    /// Indices are as in `gather`: an index vector is along `index_vector_dim`, its entry `j`
    /// counts along dimension `scatter_dims_to_operand_dims[j]`; the dimensions
    /// `update_window_dims` of an update run over a slice. Several updates of one element are
    /// applied in the row-major order of the updates; with `unique_indices` there is at most one.
    /// An update is out of range element by element: the part of a slice that is inside counts.
    ///
    /// (C1) There is an input; all inputs have one shape, and as many updates have one shape; an
    /// update has its input's element type.
    /// (C2) `rank(inputs) = size(update_window_dims) + size(inserted_window_dims) +
    /// size(input_batching_dims)`.
    /// (C3) `0 <= index_vector_dim <= rank(scatter_indices)`, and
    /// `size(scatter_dims_to_operand_dims)` is the size of that dimension, or 1 where it is the
    /// rank.
    /// (C4) `update_window_dims` are distinct axes of the updates, ascending; the other axes have
    /// the sizes of `scatter_indices` without `index_vector_dim`.
    /// (C5) `inserted_window_dims` and `input_batching_dims` are distinct axes of the inputs, each
    /// list ascending.
    /// (C6) `scatter_indices_batching_dims` are distinct axes of `scatter_indices` without
    /// `index_vector_dim`, as many as `input_batching_dims`, and pairwise of equal size.
    /// (C7) `scatter_dims_to_operand_dims` and `input_batching_dims` together are distinct axes of
    /// the inputs.
    /// (C8) A slice is not larger than the inputs, proved where the sizes are constant, else a fact
    /// the program states.
    /// (C9) `body` takes scalars of the inputs' element types, twice, and returns them once.
    Scatter = "scatter"(inputs: many(ANY), scatter_indices: one(INTEGER), updates: many(ANY)) {
            update_window_dims: required(AttrKind::Ints), inserted_window_dims: required(AttrKind::Ints),
            scatter_dims_to_operand_dims: required(AttrKind::Ints), index_vector_dim: required(AttrKind::Int),
            input_batching_dims: optional(AttrKind::Ints), scatter_indices_batching_dims: optional(AttrKind::Ints),
            indices_are_sorted: optional(AttrKind::Bool), unique_indices: optional(AttrKind::Bool),
            bounds: optional(AttrKind::Enum(SCATTER_BOUNDS))
        } regions ["body"] -> (results: many(ANY)) traits [MayFail] stages Stages::Tensor, infer scatter;
}

op! {
    /// The slice of size `sizes` that starts at `start_indices`.
    ///
    /// (C1) There is one scalar start index per dimension, all of one type, and one entry of
    /// `sizes`.
    /// (C2) `0 <= sizes[i] <= size(i)`, proved where the sizes are constant, else a fact the
    /// program states.
    DynamicSlice = "dynamic_slice"(operand: one(ANY), start_indices: many(INTEGER)) {
            sizes: required(AttrKind::Dims), bounds: optional(AttrKind::Enum(READ_BOUNDS))
        } -> (result: one(ANY)) traits [MayFail, Movement] stages Stages::Tensor, infer dynamic_slice;
}

op! {
    /// The operand, with the slice that starts at `start_indices` replaced by `update`.
    ///
    /// (C1) `update` has the element type and rank of the operand.
    /// (C2) There is one scalar start index per dimension, all of one type.
    /// (C3) `size(update, i) <= size(operand, i)`, proved where the sizes are constant, else a fact
    /// the program states.
    DynamicUpdateSlice = "dynamic_update_slice"(operand: one(ANY), update: one(ANY), start_indices: many(INTEGER)) {
            bounds: optional(AttrKind::Enum(READ_BOUNDS))
        } -> (result: one(ANY)) traits [MayFail, Movement] stages Stages::Tensor, infer dynamic_update_slice;
}

/// Returns true if this op fails the call for an index out of range.
pub fn checks_bounds(data: &InstData) -> bool {
    let position = data.kind.def().attr_position("bounds");
    position.is_some_and(|i| data.attrs[i] == Some(Attr::Enum("check")))
}

/// Returns true if the op has no effect and cannot fail: it is pure, or reads and writes by indices
/// without checking them.
pub fn is_pure(data: &InstData) -> bool {
    let def = data.kind.def();
    def.has(Trait::Pure) || (def.attr_position("bounds").is_some() && !checks_bounds(data))
}

/// The layout of index vectors in a tensor of indices, and the dimensions that they index.
struct Vectors<'a> {
    indices: &'a TensorType,
    vector_dim: usize,
}

impl<'a> Vectors<'a> {
    /// Checks that the axis of the vectors fits, and that they have the length of `map`.
    fn new(cx: &InferCx<'_>, indices: &'a TensorType, map: &[i64], numbers: [u32; 2]) -> Result<Self, Diagnostic> {
        let vector_dim = cx.axis(numbers[0], cx.int("index_vector_dim"), indices.rank() + 1)?;
        let length = indices.dims.get(vector_dim).cloned().unwrap_or(Dim::constant(1));
        let wanted = Dim::constant(map.len() as i64);
        let what = || "the length of an index vector and the number of dimensions it names differ".to_owned();
        cx.equal(numbers[1], &length, &wanted, what)?;
        Ok(Self { indices, vector_dim })
    }

    /// The sizes of the dimensions that run over the vectors.
    fn batch_sizes(&self) -> Vec<Dim> {
        let others = self.indices.dims.iter().enumerate().filter(|(i, _)| *i != self.vector_dim);
        others.map(|(_, size)| size.clone()).collect()
    }

    /// Checks that batching dimensions of the indexed tensor match those of the indices.
    fn check_batching(
        &self,
        cx: &InferCx<'_>,
        number: u32,
        to: &TensorType,
        of: &[usize],
        along: &[i64],
    ) -> Result<(), Diagnostic> {
        let along = cx.axes(number, along, self.indices.rank())?;
        if along.contains(&self.vector_dim) || along.len() != of.len() {
            let message = format!("{} batching dimensions of the indices ({along:?}) for {}", along.len(), of.len());
            return Err(cx.error(Code::E0206, number, message));
        }
        of.iter().zip(&along).try_for_each(|(&a, &b)| {
            let what = || format!("batching dimensions {a} and {b} of the indices differ");
            cx.equal(number, &to.dims[a], &self.indices.dims[b], what)
        })
    }
}

/// Checks that axes are distinct and ascending.
fn ascending(cx: &InferCx<'_>, number: u32, name: &str, rank: usize) -> Result<Vec<usize>, Diagnostic> {
    let axes = cx.axes(number, cx.ints(name), rank)?;
    match axes.is_sorted() {
        true => Ok(axes),
        false => Err(cx.error(Code::E0206, number, format!("`{name}` is not in ascending order: {axes:?}"))),
    }
}

/// Checks that the two lists together are distinct axes.
fn disjoint(cx: &InferCx<'_>, number: u32, a: &[i64], b: &[i64], rank: usize) -> Result<Vec<usize>, Diagnostic> {
    cx.axes(number, &[a, b].concat(), rank)
}

/// Checks that `low <= high` is not refuted.
fn at_most(cx: &InferCx<'_>, number: u32, low: &Dim, high: &Dim, what: impl FnOnce() -> String) -> Result<(), Diagnostic> {
    match cx.solver.less_equal(high, &(low - 1)) {
        true => Err(cx.error(Code::E0209, number, format!("{}: [{low}] is greater than [{high}]", what()))),
        false => Ok(()),
    }
}

fn slice_fits(cx: &InferCx<'_>, number: u32, sizes: &[Dim], shape: &[Dim]) -> Result<(), Diagnostic> {
    let zero = Dim::constant(0);
    sizes.iter().zip(shape).enumerate().try_for_each(|(i, (size, whole))| {
        let what = || format!("the size of the slice in dimension {i}");
        at_most(cx, number, &zero, size, what)?;
        at_most(cx, number, size, whole, what)
    })
}

fn gather(cx: &InferCx<'_>) -> Inferred {
    let (operand, indices) = (cx.tensor(0)?, cx.tensor(1)?);
    let (map, batching, sizes) = (cx.ints("start_index_map"), cx.ints("operand_batching_dims"), cx.dims("slice_sizes"));
    let rank = operand.rank();
    let named = cx.ints("offset_dims").len() + cx.ints("collapsed_slice_dims").len() + batching.len();
    if named != rank || sizes.len() != rank {
        let message =
            format!("the operand has rank {rank}, {named} dimensions are listed, `slice_sizes` has {} entries", sizes.len());
        return Err(cx.error(Code::E0207, 1, message));
    }
    let vectors = Vectors::new(cx, indices, map, [2, 3])?;
    let collapsed = ascending(cx, 5, "collapsed_slice_dims", rank)?;
    let batched = ascending(cx, 5, "operand_batching_dims", rank)?;
    disjoint(cx, 5, cx.ints("collapsed_slice_dims"), batching, rank)?;
    let dropped = |i: &usize| collapsed.contains(i) || batched.contains(i);
    for i in (0..rank).filter(dropped) {
        cx.equal(5, &sizes[i], &Dim::constant(1), || format!("dimension {i} is left out, but its slice size is not 1"))?;
    }
    vectors.check_batching(cx, 6, operand, &batched, cx.ints("start_indices_batching_dims"))?;
    disjoint(cx, 7, map, batching, rank)?;
    let kept: Vec<Dim> = (0..rank).filter(|i| !dropped(i)).map(|i| sizes[i].clone()).collect();
    let batch = vectors.batch_sizes();
    let offsets = ascending(cx, 4, "offset_dims", batch.len() + kept.len())?;
    let result = TensorType::new(interleave(&offsets, kept, batch), operand.dtype);
    // An empty result takes no slice, even of an empty tensor.
    let is_empty = cx.solver.equal(&result.element_count(), &Dim::constant(0));
    slice_fits(cx, 8, sizes, if is_empty { sizes } else { &operand.dims })?;
    Ok(vec![Type::Tensor(result)])
}

/// Merges the sizes `at`, at the axes `axes`, with the `others`, in order.
fn interleave(axes: &[usize], at: Vec<Dim>, others: Vec<Dim>) -> Vec<Dim> {
    let rank = at.len() + others.len();
    let (mut at, mut others) = (at.into_iter(), others.into_iter());
    let next = |axis| if axes.contains(&axis) { at.next() } else { others.next() };
    (0..rank).map_while(next).collect()
}

fn scatter(cx: &InferCx<'_>) -> Inferred {
    let n = cx.operands.len() / 2;
    if n == 0 {
        return Err(cx.error(Code::E0201, 1, "at least one input is needed"));
    }
    let (input, indices, update) = (cx.tensor(0)?, cx.tensor(n)?, cx.tensor(n + 1)?);
    for i in 0..n {
        cx.equal_shapes(1, ("inputs", &cx.tensor(i)?.dims), ("inputs", &input.dims))?;
        if cx.ty(i).dtype() != cx.ty(n + 1 + i).dtype() {
            return Err(cx.error(Code::E0204, 1, format!("input {i} has type {}, its update {}", cx.ty(i), cx.ty(n + 1 + i))));
        }
        cx.equal_shapes(1, ("updates", &cx.tensor(n + 1 + i)?.dims), ("updates", &update.dims))?;
    }
    check_scatter_dims(cx, input, indices, update)?;
    let scalars: Vec<Type> = cx.operands[..n].iter().map(|ty| Type::Tensor(TensorType::scalar(ty.dtype()))).collect();
    let [body] = cx.regions else { return Err(cx.error(Code::E0201, 9, "one region is needed")) };
    let arguments = [&scalars[..], &scalars[..]].concat();
    equal_lists(cx, 9, ("the arguments of `body`", &body.arguments), ("scalars of the inputs, twice", &arguments))?;
    equal_lists(cx, 9, ("the result of `body`", &body.results), ("scalars of the inputs", &scalars))?;
    Ok(cx.operands[..n].to_vec())
}

fn check_scatter_dims(cx: &InferCx<'_>, input: &TensorType, indices: &TensorType, update: &TensorType) -> Result<(), Diagnostic> {
    let (map, batching) = (cx.ints("scatter_dims_to_operand_dims"), cx.ints("input_batching_dims"));
    let rank = input.rank();
    let named = cx.ints("update_window_dims").len() + cx.ints("inserted_window_dims").len() + batching.len();
    if named != rank {
        return Err(cx.error(Code::E0207, 2, format!("the inputs have rank {rank}, {named} dimensions are listed")));
    }
    let vectors = Vectors::new(cx, indices, map, [3, 3])?;
    let windows = ascending(cx, 4, "update_window_dims", update.rank())?;
    let inserted = ascending(cx, 5, "inserted_window_dims", rank)?;
    let batched = ascending(cx, 5, "input_batching_dims", rank)?;
    disjoint(cx, 5, cx.ints("inserted_window_dims"), batching, rank)?;
    vectors.check_batching(cx, 6, input, &batched, cx.ints("scatter_indices_batching_dims"))?;
    disjoint(cx, 7, map, batching, rank)?;
    let scattered: Vec<Dim> = (0..update.rank()).filter(|i| !windows.contains(i)).map(|i| update.dims[i].clone()).collect();
    cx.equal_shapes(4, ("updates outside the windows", &scattered), ("scatter_indices without vectors", &vectors.batch_sizes()))?;
    let window: Vec<Dim> = windows.iter().map(|&i| update.dims[i].clone()).collect();
    let kept = (0..rank).filter(|i| !inserted.contains(i) && !batched.contains(i));
    slice_fits(cx, 8, &window, &kept.map(|i| input.dims[i].clone()).collect::<Vec<_>>())
}

/// Checks that there is one scalar index per dimension, all of one type.
fn start_indices(cx: &InferCx<'_>, number: u32, first: usize, rank: usize) -> Result<(), Diagnostic> {
    let starts = &cx.operands[first..];
    if starts.len() != rank {
        return Err(cx.error(Code::E0201, number, format!("{} start indices for rank {rank}", starts.len())));
    }
    for i in 0..rank {
        let scalar = Type::Tensor(TensorType::scalar(starts[0].dtype()));
        cx.equal_types(number, ("start_indices", &starts[i]), ("a scalar of the first one's type", &scalar))?;
    }
    Ok(())
}

fn dynamic_slice(cx: &InferCx<'_>) -> Inferred {
    let (operand, sizes) = (cx.tensor(0)?, cx.dims("sizes"));
    start_indices(cx, 1, 1, operand.rank())?;
    if sizes.len() != operand.rank() {
        return Err(cx.error(
            Code::E0207,
            1,
            format!("`sizes` has {} entries, the operand rank {}", sizes.len(), operand.rank()),
        ));
    }
    slice_fits(cx, 2, sizes, &operand.dims)?;
    Ok(vec![Type::tensor(sizes.iter().cloned(), operand.dtype)])
}

fn dynamic_update_slice(cx: &InferCx<'_>) -> Inferred {
    let (operand, update) = (cx.tensor(0)?, cx.tensor(1)?);
    if operand.dtype != update.dtype || operand.rank() != update.rank() {
        return Err(cx.error(Code::E0204, 1, format!("`operand` has type {}, `update` {}", cx.ty(0), cx.ty(1))));
    }
    start_indices(cx, 2, 2, operand.rank())?;
    slice_fits(cx, 3, &update.dims, &operand.dims)?;
    Ok(vec![cx.ty(0).clone()])
}
