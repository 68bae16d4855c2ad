//! Declares adaptive pooling: an image is divided into parts whose sizes differ by one, each output
//! cell takes one of them, axis after axis.
use super::Composed;
use crate::emit::{Emitter, lowest};
use disc_ir::{Code, DType, Diagnostic, Dim, OpKind, Value, ops::DTypeClass};

const NUMBER: DTypeClass = DTypeClass::NUMBER;

words! {
    /// The value of a cell, out of the elements of its part.
    Cell { Mean = "mean", Maximum = "maximum" }
}

composition! {
    /// The mean or the greatest element of each part; half types are summed in f32.
    ///
    /// (C1) `sizes` are those of the result along the last axes of `x`; these have elements.
    AdaptivePool = "adaptive_pool"(x: one(NUMBER)) { sizes: Vec<Dim>, how: Cell } -> (y) in adaptive_pool;
}

fn adaptive_pool(b: &Emitter<'_>, AdaptivePool { x, sizes, how }: AdaptivePool) -> Composed {
    let (lead, dtype) = (leading_axes(b, x, &sizes)?, b.dtype(x));
    if let Some(shape) = without_cells(b, x, lead, &sizes) {
        return Ok(vec![b.full(0, &shape, dtype)?]);
    }
    let mut y = if how == Cell::Mean { b.wide(x)? } else { x };
    let whole: Vec<usize> = (0..sizes.len()).filter(|&i| sizes[i].is_const(1)).map(|i| lead + i).collect();
    if !whole.is_empty() {
        y = whole_axes(b, y, &whole, how)?;
    }
    for (i, out) in sizes.iter().enumerate().filter(|(_, out)| !out.is_const(1)) {
        y = adaptive_axis(b, y, lead + i, out, how)?;
    }
    Ok(vec![b.convert(y, dtype)?])
}

composition! {
    /// The greatest element of each part, and its position in the image (i64, row-major over the
    /// last axes): of the first one, or of the last NaN.
    ///
    /// (C1) `sizes` are those of the result along the last axes of `x`; these have elements.
    AdaptiveMaxPool = "adaptive_max_pool"(x: one(NUMBER)) { sizes: Vec<Dim> } -> (y, places) in adaptive_max_pool;
}

fn adaptive_max_pool(b: &Emitter<'_>, AdaptiveMaxPool { x, sizes }: AdaptiveMaxPool) -> Composed {
    let lead = leading_axes(b, x, &sizes)?;
    if let Some(shape) = without_cells(b, x, lead, &sizes) {
        return Ok(vec![b.full(0, &shape, b.dtype(x))?, b.full(0, &shape, DType::I64)?]);
    }
    let (mut x, mut places) = (x, None);
    for (i, out) in sizes.iter().enumerate() {
        let axis = lead + i;
        let step = Dim::product(b.shape(x).into_iter().skip(axis + 1));
        let found = places_of_axis(b, x, axis, out, places, &step)?;
        (x, places) = (adaptive_axis(b, x, axis, out, Cell::Maximum)?, Some(found));
    }
    let places = places.ok_or_else(|| Diagnostic::new(Code::E0202, "(C1) there are no axes to divide"))?;
    Ok(vec![x, places])
}

fn leading_axes(b: &Emitter<'_>, x: Value, sizes: &[Dim]) -> Result<usize, Diagnostic> {
    let rank = b.rank(x);
    rank.checked_sub(sizes.len()).ok_or_else(|| {
        let message = format!("(C1) {} sizes for the last axes of a tensor of rank {rank}", sizes.len());
        Diagnostic::new(Code::E0202, message)
    })
}

/// The shape of a result without elements: there are no parts to divide an axis into.
fn without_cells(b: &Emitter<'_>, x: Value, lead: usize, sizes: &[Dim]) -> Option<Vec<Dim>> {
    let own = b.shape(x);
    let shape =
        b.wanted().filter(|wanted| wanted.len() == own.len()).map_or_else(|| [&own[..lead], sizes].concat(), <[Dim]>::to_vec);
    shape.iter().any(|size| size.is_const(0)).then_some(shape)
}

fn adaptive_axis(b: &Emitter<'_>, x: Value, axis: usize, out: &Dim, how: Cell) -> Result<Value, Diagnostic> {
    if out.is_const(1) {
        return whole_axes(b, x, &[axis], how);
    }
    let parts = Parts::new(b, x, axis, out)?;
    let dtype = b.dtype(x);
    let (op, rest) = match how {
        Cell::Mean => (OpKind::Add, b.lift(0, dtype)?),
        Cell::Maximum => (OpKind::Maximum, b.lift(lowest(dtype), dtype)?),
    };
    let whole = b.reduce(b.select(parts.inside, parts.pick(b, x)?, rest)?, &[axis + 1], op, false)?;
    if how == Cell::Maximum {
        return Ok(whole);
    }
    let (start, end) = bounds(b, out, &b.shape(x)[axis])?;
    let sizes = b.shape(whole);
    let count = b.broadcast(b.convert(b.sub(end, start)?, dtype)?, &sizes, &[axis])?;
    b.div(whole, count)
}

/// One cell along each of the axes.
fn whole_axes(b: &Emitter<'_>, x: Value, axes: &[usize], how: Cell) -> Result<Value, Diagnostic> {
    if how == Cell::Maximum {
        return b.reduce(x, axes, OpKind::Maximum, true);
    }
    let whole = b.reduce(x, axes, OpKind::Add, true)?;
    let sizes: Vec<Dim> = axes.iter().map(|&axis| b.shape(x).swap_remove(axis)).collect();
    b.div(whole, b.lift(Dim::product(sizes), b.dtype(x))?)
}

/// The elements of an axis for each cell of the result, in a new axis after those. Along the last
/// axis these are all elements, which vectors hold; else as many as the longest part has.
struct Parts {
    axis: usize,
    is_last: bool,
    shape: Vec<Dim>,
    place: Value,
    /// Is true for the elements of the cell.
    inside: Value,
    /// The positions along the axis.
    position: Value,
}

impl Parts {
    fn new(b: &Emitter<'_>, x: Value, axis: usize, out: &Dim) -> Result<Parts, Diagnostic> {
        let sizes = b.shape(x);
        let (size, is_last) = (&sizes[axis], axis + 1 == sizes.len());
        let (start, end) = bounds(b, out, size)?;
        let (start, end) = (b.unsqueeze(start, &[1])?, b.unsqueeze(end, &[1])?);
        let count = if is_last { size.clone() } else { (size + out - 1).floor_div(out) + 1 };
        let counted = b.iota(&[out.clone(), count.clone()], 1, DType::I64)?;
        let place = if is_last { counted } else { b.add(counted, start)? };
        let mut inside = b.compare("LT", place, end)?;
        if is_last {
            inside = b.map(OpKind::And, &[inside, b.compare("GE", place, start)?])?;
        }
        let shape = [&sizes[..axis], &[out.clone(), count], &sizes[axis + 1..]].concat();
        let inside = b.broadcast(inside, &shape, &[axis, axis + 1])?;
        let position = b.broadcast(place, &shape, &[axis, axis + 1])?;
        Ok(Parts { axis, is_last, shape, place, inside, position })
    }

    fn pick(&self, b: &Emitter<'_>, values: Value) -> Result<Value, Diagnostic> {
        if self.is_last {
            return b.expand(b.unsqueeze(values, &[self.axis])?, &self.shape);
        }
        b.take(values, self.axis, self.place, "clamp")
    }
}

/// The positions of the greatest elements of the parts of an axis; `places` are those of `x` along
/// earlier axes.
fn places_of_axis(
    b: &Emitter<'_>,
    x: Value,
    axis: usize,
    out: &Dim,
    places: Option<Value>,
    step: &Dim,
) -> Result<Value, Diagnostic> {
    let (parts, dtype) = (Parts::new(b, x, axis, out)?, b.dtype(x));
    let picked = parts.pick(b, x)?;
    let mut flat = b.mul(parts.position, b.lift(step, DType::I64)?)?;
    if let Some(places) = places {
        flat = b.add(flat, parts.pick(b, places)?)?;
    }
    let known = b.select(parts.inside, picked, b.lift(lowest(dtype), dtype)?)?;
    let largest = b.reduce(known, &[axis + 1], OpKind::Maximum, false)?;
    let sizes = b.shape(picked);
    let hit = b.compare("EQ", picked, b.expand(b.unsqueeze(largest, &[axis + 1])?, &sizes)?)?;
    let chosen = b.map(OpKind::And, &[parts.inside, hit])?;
    let first = b.reduce(b.select(chosen, flat, b.lift(i64::MAX, DType::I64)?)?, &[axis + 1], OpKind::Minimum, false)?;
    if !dtype.is_float() {
        return Ok(first);
    }
    let is_odd = b.map(OpKind::And, &[parts.inside, b.is_nan(picked)?])?;
    let odd = b.reduce(b.select(is_odd, flat, b.lift(-1, DType::I64)?)?, &[axis + 1], OpKind::Maximum, false)?;
    b.select(b.compare("GE", odd, 0)?, odd, first)
}

/// The start and the end of each cell's part.
fn bounds(b: &Emitter<'_>, out: &Dim, size: &Dim) -> Result<(Value, Value), Diagnostic> {
    let cell = b.iota(std::slice::from_ref(out), 0, DType::I64)?;
    let (cells, length) = (b.lift(out, DType::I64)?, b.lift(size, DType::I64)?);
    let start = b.div(b.mul(cell, length)?, cells)?;
    let above = b.add(b.mul(b.add(cell, 1)?, length)?, b.sub(cells, 1)?)?;
    Ok((start, b.div(above, cells)?))
}
