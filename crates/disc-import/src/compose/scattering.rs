//! Declares writes at computed positions: by elements, by slices, by coordinates, by masks.
use super::{
    Composed,
    arithmetic::integer_quotient,
    axis_of, check_rank,
    gathering::{Coordinates, coordinates_along},
};
use crate::emit::{Emitter, Operand, Scatter, Sign, neutral};
use disc_ir::{Code, DType, Diagnostic, Dim, OpKind, Value, ops::DTypeClass};

const ANY: DTypeClass = DTypeClass::ANY;
const INTEGER: DTypeClass = DTypeClass::INTEGER;
const BOOL: DTypeClass = DTypeClass::BOOL;

words! {
    /// The op that combines an element and what is written to it.
    Combine { Overwrite = "overwrite", Add = "add", Multiply = "multiply", Maximum = "maximum", Minimum = "minimum" }
}

impl Combine {
    fn op(self) -> Option<OpKind> {
        match self {
            Combine::Overwrite => None,
            Combine::Add => Some(OpKind::Add),
            Combine::Multiply => Some(OpKind::Multiply),
            Combine::Maximum => Some(OpKind::Maximum),
            Combine::Minimum => Some(OpKind::Minimum),
        }
    }
}

composition! {
    /// `x` with `source` combined into the elements whose position along `axis` is in `index`, and
    /// along other axes that of the index; a scalar is written everywhere. An index out of range
    /// fails the call.
    ///
    /// (C1) `axis` is an axis of `x`.
    /// (C2) `index` has as many axes as `x`, and so has `source`, of which the elements beyond the
    /// index are not used.
    ScatterElements = "scatter_elements"(x: one(ANY), index: one(INTEGER), source: scalar(ANY)) {
            axis: i64, how: Combine
        } -> (y) in scatter_elements;
}

fn scatter_elements(b: &Emitter<'_>, ScatterElements { x, index, source, axis, how }: ScatterElements) -> Composed {
    let writes = Writes::new(b, x, index, axis)?;
    Ok(vec![writes.to(b, x, source, how.op())?])
}

words! {
    /// A reduction of the elements that are written to one.
    Reduced { Add = "add", Multiply = "multiply", Maximum = "maximum", Minimum = "minimum", Mean = "mean" }
}

composition! {
    /// As `scatter_elements`, with the sum, product, extreme or mean of all that is written to an
    /// element, and of the element itself, if that is included; a mean of integers rounds down.
    ///
    /// (C1) `axis` is an axis of `x`.
    /// (C2) `index` has as many axes as `x`, and so has `source`, of which the elements beyond the
    /// index are not used.
    ReduceElements = "reduce_elements"(x: one(ANY), index: one(INTEGER), source: scalar(ANY)) {
            axis: i64, how: Reduced, include_self: bool
        } -> (y) in reduce_elements;
}

fn reduce_elements(b: &Emitter<'_>, given: ReduceElements) -> Composed {
    let ReduceElements { x, index, source, axis, how, include_self } = given;
    let writes = Writes::new(b, x, index, axis)?;
    let (shape, dtype) = (b.shape(x), b.dtype(x));
    let how = match how {
        Reduced::Add => OpKind::Add,
        Reduced::Multiply => OpKind::Multiply,
        Reduced::Maximum => OpKind::Maximum,
        Reduced::Minimum => OpKind::Minimum,
        Reduced::Mean => {
            let start = if include_self { x } else { b.select(writes.touched(b, x)?, b.lift(0, dtype)?, x)? };
            let total = writes.to(b, start, source, Some(OpKind::Add))?;
            let counts = b.full(i64::from(include_self), &shape, DType::I64)?;
            let counts = writes.to(b, counts, 1.into(), Some(OpKind::Add))?;
            let counts = b.convert(b.maximum(counts, 1)?, dtype)?;
            return Ok(vec![if dtype.is_float() { b.div(total, counts)? } else { integer_quotient(b, total, counts)? }]);
        }
    };
    if include_self {
        return Ok(vec![writes.to(b, x, source, Some(how))?]);
    }
    let rest = b.lift(neutral(how, dtype), dtype)?;
    let start = b.select(writes.touched(b, x)?, rest, x)?;
    Ok(vec![writes.to(b, start, source, Some(how))?])
}

/// The elements that an index names along an axis.
struct Writes {
    index: Value,
    axis: usize,
}

impl Writes {
    fn new(b: &Emitter<'_>, x: Value, index: Value, axis: i64) -> Result<Self, Diagnostic> {
        let axis = axis_of(b, x, axis)?;
        check_rank(b, 2, ("index", index), b.rank(x).max(1))?;
        check_rank(b, 1, ("x", x), b.rank(index))?;
        Ok(Self { index, axis })
    }

    fn to(&self, b: &Emitter<'_>, x: Value, source: Operand, how: Option<OpKind>) -> Result<Value, Diagnostic> {
        let (sizes, own, rank) = (b.shape(self.index), b.shape(x), b.rank(x));
        let mut source = source;
        if let Operand::Value(mut value) = source {
            if b.rank(value) > 0 {
                check_rank(b, 2, ("source", value), rank)?;
                for (axis, size) in sizes.iter().enumerate() {
                    value = b.slice(value, axis, &Dim::constant(0), size, 1)?;
                }
            }
            source = value.into();
        }
        let source = b.expand(b.lift(source, b.dtype(x))?, &sizes)?;
        let others: Vec<usize> = (0..rank).filter(|&axis| axis != self.axis).collect();
        let all: Vec<usize> = (0..rank).collect();
        // Each line along the axis by itself, if the index has all of them.
        let is_whole = others.iter().all(|&axis| own[axis] == sizes[axis]);
        let (index, axes, batching) = if is_whole {
            (b.convert(self.index, DType::I64)?, std::slice::from_ref(&self.axis), &others[..])
        } else {
            (coordinates_along(b, self.index, self.axis)?, &all[..], &[][..])
        };
        let form =
            Scatter { window_dims: &[], inserted: axes, index_map: axes, vector_dim: rank, how, bounds: "check", batching };
        b.scatter(x, index, source, &form)
    }

    /// Is true for the elements that are written to.
    fn touched(&self, b: &Emitter<'_>, x: Value) -> Result<Value, Diagnostic> {
        let zeros = b.full(0, &b.shape(x), DType::I32)?;
        b.convert(self.to(b, zeros, 1.into(), None)?, DType::I1)
    }
}

words! {
    /// The handling of an index out of range: the call fails, or nothing is written.
    OutOfRange { Check = "check", Skip = "skip" }
}

composition! {
    /// `x` with the slices of `source` along `axis` combined into those that `index` names; a
    /// scalar is written everywhere. With `from_end`, negative indices count from the end.
    ///
    /// (C1) `axis` is an axis of `x`; `index` has one axis.
    /// (C2) The other axes of `source` have the sizes of `x`.
    ScatterSlices = "scatter_slices"(x: one(ANY), index: one(INTEGER), source: scalar(ANY)) {
            axis: i64, how: Combine, from_end: bool, out_of_range: OutOfRange
        } -> (y) in scatter_slices;
}

fn scatter_slices(b: &Emitter<'_>, given: ScatterSlices) -> Composed {
    let ScatterSlices { x, index, source, axis, how, from_end, out_of_range } = given;
    let axis = axis_of(b, x, axis)?;
    let size = b.size_of(x, axis)?;
    check_rank(b, 1, ("index", index), 1)?;
    let index = if from_end { super::gathering::from_end(b, index, &size)? } else { b.convert(index, DType::I64)? };
    let mut sizes = b.shape(x);
    sizes[axis] = b.size_of(index, 0)?;
    let mut source = b.lift(source, b.dtype(x))?;
    if b.rank(source) == 0 {
        source = b.expand(source, &sizes)?;
    }
    check_rank(b, 2, ("source", source), sizes.len())?;
    for (own, size) in b.shape(source).iter().zip(&sizes) {
        b.require(own, Sign::Eq, size)?;
    }
    let bounds = if out_of_range == OutOfRange::Skip { "skip" } else { "check" };
    Ok(vec![slices(b, x, axis, index, source, how.op(), bounds)?])
}

/// `x` with slices combined into those that `index`, a vector, names.
pub(super) fn slices(
    b: &Emitter<'_>,
    x: Value,
    axis: usize,
    index: Value,
    source: Value,
    how: Option<OpKind>,
    bounds: &'static str,
) -> Result<Value, Diagnostic> {
    let others: Vec<usize> = (0..b.rank(x)).filter(|&i| i != axis).collect();
    let form = Scatter { window_dims: &others, inserted: &[axis], index_map: &[axis], vector_dim: 1, how, bounds, batching: &[] };
    b.scatter(x, index, source, &form)
}

composition! {
    /// `x[.., i, j, ..] = source`, as NumPy writes: `x` with `source` combined into the slices that
    /// `gather_at` reads. An index out of range fails the call.
    ///
    /// (C1) `axes` are distinct axes of `x`, ascending, one for each index, and there is one.
    /// (C2) `source` broadcasts to the slices.
    ScatterAt = "scatter_at"(x: one(ANY), source: one(ANY), indices: many(INTEGER)) {
            axes: Vec<i64>, how: Combine
        } -> (y) in scatter_at;
}

fn scatter_at(b: &Emitter<'_>, ScatterAt { x, source, indices, axes, how }: ScatterAt) -> Composed {
    let places = Coordinates::new(b, x, &indices, &axes)?;
    let whole = places.shape_of_result(b, x);
    if b.rank(source) > whole.len() {
        return Err(Diagnostic::new(Code::E0207, format!("(C2) `source` has {} axes, at most {}", b.rank(source), whole.len())));
    }
    let source = b.expand(b.convert(source, b.dtype(x))?, &whole)?;
    let form = Scatter {
        window_dims: &places.window_axes(),
        inserted: &places.axes,
        index_map: &places.axes,
        vector_dim: places.shape.len(),
        how: how.op(),
        bounds: "check",
        batching: &[],
    };
    Ok(vec![b.scatter(x, places.array, source, &form)?])
}

composition! {
    /// `x` with the elements from `start` on, each `step` after the one before, replaced by those
    /// of `source` along `axis`, up to `limit`.
    ///
    /// (C1) `axis` is an axis of `x`, and `source` has as many axes.
    /// (C2) `step` is at least 1; `start` and `limit` are within the axis.
    ReplaceSlice = "replace_slice"(x: one(ANY), source: one(ANY)) { axis: i64, start: Dim, limit: Dim, step: i64 } -> (y)
        in replace_slice;
}

fn replace_slice(b: &Emitter<'_>, ReplaceSlice { x, source, axis, start, limit, step }: ReplaceSlice) -> Composed {
    let axis = axis_of(b, x, axis)?;
    let (size, zero) = (b.size_of(x, axis)?, Dim::constant(0));
    check_rank(b, 1, ("source", source), b.rank(x))?;
    if step < 1 {
        return Err(Diagnostic::new(Code::E0202, format!("(C2) the step is {step}, expected 1 or more")));
    }
    if step > 1 {
        return Ok(vec![replaced_apart(b, x, source, axis, (&start, &limit, step))?]);
    }
    let before = if start.is_const(0) { None } else { Some(b.slice(x, axis, &zero, &start, 1)?) };
    let between = b.convert(source, b.dtype(x))?;
    let after = if limit == size { None } else { Some(b.slice(x, axis, &limit, &size, 1)?) };
    let parts: Vec<Value> = before.into_iter().chain([between]).chain(after).collect();
    Ok(vec![b.concatenate(&parts, axis)?])
}

fn replaced_apart(
    b: &Emitter<'_>,
    x: Value,
    source: Value,
    axis: usize,
    (start, limit, step): (&Dim, &Dim, i64),
) -> Result<Value, Diagnostic> {
    let (shape, int) = (b.shape(x), DType::I64);
    let place = b.sub(b.iota(&shape[axis..=axis], 0, int)?, b.lift(start, int)?)?;
    let from_start = b.compare("GE", place, b.lift(0, int)?)?;
    let to_limit = b.compare("LT", place, b.sub(b.lift(limit, int)?, b.lift(start, int)?)?)?;
    let inside = b.map(OpKind::And, &[from_start, to_limit])?;
    let rest = b.map(OpKind::Remainder, &[place, b.lift(step, int)?])?;
    let hit = b.map(OpKind::And, &[inside, b.compare("EQ", rest, b.lift(0, int)?)?])?;
    if b.size_of(source, axis)?.is_const(0) {
        return Ok(x);
    }
    let spread = b.take(b.convert(source, b.dtype(x))?, axis, b.div(place, step)?, "clamp")?;
    b.select(b.broadcast(hit, &shape, &[axis])?, spread, x)
}

composition! {
    /// `x` with its n-th element under a true element of `mask` replaced by the n-th element of
    /// `source`. A source of too few elements fails the call.
    ///
    /// (C1) `x` and `mask` broadcast to one shape.
    MaskedScatter = "masked_scatter"(x: one(ANY), mask: one(BOOL), source: one(ANY)) -> (y) in masked_scatter;
}

fn masked_scatter(b: &Emitter<'_>, MaskedScatter { x, mask, source }: MaskedScatter) -> Composed {
    let [x, mask] = b.together(&[x, mask])?[..] else { unreachable!("as many as were given") };
    let (shape, one) = (b.shape(x), Dim::constant(1));
    let flat = b.reshape(mask, &[Dim::product(b.shape(mask))])?;
    let order = b.sub(b.cumulative(b.convert(flat, DType::I64)?, 0, OpKind::Add)?, 1)?;
    let count = Dim::product(b.shape(source));
    let marked = b.sum(b.convert(flat, DType::I64)?, &[0], false)?;
    let enough = b.compare("LE", marked, b.lift(&count, DType::I64)?)?;
    b.require_true(enough, "masked_scatter: expected as many elements of source as ones in mask")?;
    let mut source = b.reshape(b.convert(source, b.dtype(x))?, std::slice::from_ref(&count))?;
    if count.as_const().is_none_or(|count| count == 0) {
        // If nothing is marked, there may be nothing to take.
        let more = Dim::max(&(one - count), &Dim::constant(0));
        source = b.pad(source, b.lift(0, b.dtype(source))?, &[Dim::constant(0)], &[more])?;
    }
    let picked = b.take(source, 0, b.select(flat, order, b.lift(0, DType::I64)?)?, "clamp")?;
    Ok(vec![b.select(mask, b.reshape(picked, &shape)?, x)?])
}
