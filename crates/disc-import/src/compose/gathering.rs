//! Declares reads at computed positions: by elements, by slices, by coordinates.
use super::{Composed, axes_of, axis_of, check_rank};
use crate::emit::{Emitter, Gather};
use disc_ir::{Code, DType, Diagnostic, Dim, OpKind, Value, ops::DTypeClass};

const ANY: DTypeClass = DTypeClass::ANY;
const INTEGER: DTypeClass = DTypeClass::INTEGER;

composition! {
    /// The slices of `x` that `index` names along `axis`, as `numpy.take`; negative indices count
    /// from the end. An index out of range fails the call.
    ///
    /// (C1) `axis` is an axis of `x`, which has axes.
    Take = "take"(x: one(ANY), index: one(INTEGER)) { axis: i64 } -> (y) in take;
}

fn take(b: &Emitter<'_>, Take { x, index, axis }: Take) -> Composed {
    let axis = axis_of(b, x, axis)?;
    let index = from_end(b, index, &b.size_of(x, axis)?)?;
    Ok(vec![b.take(x, axis, index, "check")?])
}

composition! {
    /// The elements of `x` whose position along `axis` is in `index`, and along other axes that of
    /// the index. With `from_end`, negative indices count from the end. An index out of range fails
    /// the call.
    ///
    /// (C1) `axis` is an axis of `x`.
    /// (C2) `index` has as many axes as `x`, the others not longer than those of `x`.
    GatherElements = "gather_elements"(x: one(ANY), index: one(INTEGER)) { axis: i64, from_end: bool } -> (y) in gather_elements;
}

fn gather_elements(b: &Emitter<'_>, GatherElements { x, index, axis, from_end: counts }: GatherElements) -> Composed {
    let axis = axis_of(b, x, axis)?;
    check_rank(b, 2, ("index", index), b.rank(x))?;
    let index = if counts { from_end(b, index, &b.size_of(x, axis)?)? } else { index };
    Ok(vec![elements_along(b, x, axis, index)?])
}

/// Indices in i64, of which negative ones count from the end.
pub(super) fn from_end(b: &Emitter<'_>, index: Value, size: &Dim) -> Result<Value, Diagnostic> {
    let index = b.convert(index, DType::I64)?;
    let is_negative = b.compare("LT", index, b.lift(0, DType::I64)?)?;
    b.select(is_negative, b.add(index, b.lift(size, DType::I64)?)?, index)
}

/// The elements of `x` whose position along `axis` is given by `index` of the same rank, along
/// other axes by the position in it.
pub(super) fn elements_along(b: &Emitter<'_>, x: Value, axis: usize, index: Value) -> Result<Value, Diagnostic> {
    let (mut x, rank) = (x, b.rank(x));
    let (own, sizes) = (b.shape(x), b.shape(index));
    let others: Vec<usize> = (0..rank).filter(|&i| i != axis).collect();
    let mut shorter: Vec<usize> = others.iter().copied().filter(|&i| own[i] != sizes[i]).collect();
    let mut counts = (0..rank).filter(|i| !shorter.contains(i)).map(|i| sizes[i].as_const());
    // Lines beyond the index are not read. (An index of no elements may be longer than x, but not
    // along its only unknown axis.)
    if let &[only] = &shorter[..]
        && counts.all(|count| count > Some(0))
    {
        x = b.slice(x, only, &Dim::constant(0), &sizes[only], 1)?;
        shorter.clear();
    }
    let all: Vec<usize> = (0..rank).collect();
    let (index, axes) = if shorter.is_empty() {
        (b.convert(index, DType::I64)?, std::slice::from_ref(&axis))
    } else {
        (coordinates_along(b, index, axis)?, &all[..])
    };
    let form = Gather {
        offset_dims: &[],
        collapsed: axes,
        index_map: axes,
        vector_dim: rank,
        window: vec![Dim::constant(1); rank],
        bounds: "check",
        batching: if shorter.is_empty() { &others } else { &[] },
    };
    b.gather(x, index, form)
}

/// The full position of every element of `index`: itself along `axis`, its position in the index
/// along the others; a new last axis.
pub(super) fn coordinates_along(b: &Emitter<'_>, index: Value, axis: usize) -> Result<Value, Diagnostic> {
    let sizes = b.shape(index);
    let mut parts = Vec::new();
    for i in 0..sizes.len() {
        parts.push(if i == axis { b.convert(index, DType::I64)? } else { b.iota(&sizes, i, DType::I64)? });
    }
    stacked(b, &parts)
}

/// The values along a new last axis.
fn stacked(b: &Emitter<'_>, parts: &[Value]) -> Result<Value, Diagnostic> {
    let rank = parts.first().map_or(0, |&part| b.rank(part));
    let parts: Vec<Value> = parts.iter().map(|&part| b.unsqueeze(part, &[rank])).collect::<Result<_, _>>()?;
    b.concatenate(&parts, rank)
}

composition! {
    /// `x[.., i, j, ..]`, as NumPy reads: the slices of `x` at the coordinates that `indices`,
    /// broadcast to one shape, give along `axes`. Its axes are where the first of `axes` is if
    /// these are adjacent, else they are the first ones. Negative indices count from the end; one
    /// out of range fails the call.
    ///
    /// (C1) `axes` are distinct axes of `x`, ascending, one for each index, and there is one.
    GatherAt = "gather_at"(x: one(ANY), indices: many(INTEGER)) { axes: Vec<i64> } -> (y) in gather_at;
}

fn gather_at(b: &Emitter<'_>, GatherAt { x, indices, axes }: GatherAt) -> Composed {
    let places = Coordinates::new(b, x, &indices, &axes)?;
    let window = b.shape(x).into_iter().enumerate();
    let window = window.map(|(axis, size)| if places.axes.contains(&axis) { Dim::constant(1) } else { size });
    let form = Gather {
        offset_dims: &places.window_axes(),
        collapsed: &places.axes,
        index_map: &places.axes,
        vector_dim: places.shape.len(),
        window: window.collect(),
        bounds: "check",
        batching: &[],
    };
    Ok(vec![b.gather(x, places.array, form)?])
}

/// Coordinates along some axes of a tensor, as one array of vectors.
pub(super) struct Coordinates {
    pub(super) axes: Vec<usize>,
    pub(super) array: Value,
    /// The shape that the indices are broadcast to.
    pub(super) shape: Vec<Dim>,
    /// The first axis of the result that is one of the indices.
    at: usize,
    kept: Vec<usize>,
}

impl Coordinates {
    pub(super) fn new(b: &Emitter<'_>, x: Value, indices: &[Value], axes: &[i64]) -> Result<Self, Diagnostic> {
        let axes = axes_of(b, x, axes)?;
        let Some(&first) = axes.first().filter(|_| axes.len() == indices.len() && axes.is_sorted()) else {
            let message = format!("(C1) axes {axes:?} for {} indices", indices.len());
            return Err(Diagnostic::new(Code::E0202, message));
        };
        let mut parts = Vec::new();
        for (&axis, &index) in axes.iter().zip(indices) {
            parts.push(from_end(b, index, &b.size_of(x, axis)?)?);
        }
        let parts = b.together(&parts)?;
        let (shape, array) = (b.shape(parts[0]), stacked(b, &parts)?);
        let is_adjacent = axes.iter().enumerate().all(|(i, &axis)| axis == first + i);
        let kept = (0..b.rank(x)).filter(|axis| !axes.contains(axis)).collect();
        Ok(Self { axes, array, shape, at: if is_adjacent { first } else { 0 }, kept })
    }

    pub(super) fn shape_of_result(&self, b: &Emitter<'_>, x: Value) -> Vec<Dim> {
        let sizes = b.shape(x);
        let mut shape: Vec<Dim> = self.kept.iter().map(|&axis| sizes[axis].clone()).collect();
        shape.splice(self.at..self.at, self.shape.iter().cloned());
        shape
    }

    /// The axes of the result that are whole axes of the tensor.
    pub(super) fn window_axes(&self) -> Vec<usize> {
        (0..self.kept.len()).map(|i| if i < self.at { i } else { i + self.shape.len() }).collect()
    }
}

composition! {
    /// 1 at the class that each element names along a new last axis, else 0 (i64). An element that
    /// is no class fails the call.
    OneHot = "one_hot"(x: one(INTEGER)) { classes: Dim } -> (y) in one_hot;
}

fn one_hot(b: &Emitter<'_>, OneHot { x, classes }: OneHot) -> Composed {
    let (rank, dtype) = (b.rank(x), b.dtype(x));
    let whole: Vec<usize> = (0..rank).collect();
    let zero = Dim::constant(0);
    for (holds, bound, message) in
        [("GE", &zero, "Class values must be non-negative."), ("LT", &classes, "Class values must be smaller than num_classes.")]
    {
        let inside = b.compare(holds, x, b.lift(bound, dtype)?)?;
        b.require_true(b.reduce(inside, &whole, OpKind::And, false)?, message)?;
    }
    let class = b.iota(&[classes], 0, DType::I64)?;
    let is_class = b.compare("EQ", b.unsqueeze(b.convert(x, DType::I64)?, &[rank])?, class)?;
    Ok(vec![b.convert(is_class, DType::I64)?])
}
