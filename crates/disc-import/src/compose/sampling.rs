//! Declares sampling: the elements of an image at positions that are data.
use super::{
    Composed, check_rank,
    resize::{KEYS, cubic_weights},
};
use crate::emit::{Dot, Emitter, Gather};
use disc_ir::{Code, DType, Diagnostic, Dim, OpKind, Value, ops::DTypeClass};

const FLOAT: DTypeClass = DTypeClass::FLOAT;

/// Features from which on they are the last axis while an image is sampled: those of a cell are
/// adjacent in memory then, and their place is found once. An open number is taken for a small one,
/// as of an image.
const MANY_FEATURES: i64 = 8;

words! {
    /// The cells that are read around a position.
    Interpolation { Nearest = "nearest", Linear = "linear", Cubic = "cubic" }
}

words! {
    /// The elements beyond an image: zeros, the last cell, or the cells mirrored at the border.
    Beyond { Zeros = "zeros", Border = "border", Reflection = "reflection" }
}

composition! {
    /// The image at the positions of `grid`, pairs of column and row. -1 and 1 are the middles of
    /// the first and the last cell with `align_corners`, else their outer edges. Beyond the image
    /// are zeros, its last cells (border), or the cells mirrored (reflection); NaN is in the first
    /// cell, unless zeros are beyond. Half types are computed in f32.
    ///
    /// (C1) `x` is `[N, features, height, width]`, `grid` `[N, rows, columns, 2]`.
    GridSample = "grid_sample"(x: one(FLOAT), grid: one(FLOAT)) {
            interpolation: Interpolation, beyond: Beyond, align_corners: bool
        } -> (y) in grid_sample;
}

fn grid_sample(b: &Emitter<'_>, given: GridSample) -> Composed {
    let GridSample { x, grid, interpolation, beyond, align_corners } = given;
    check_rank(b, 1, ("x", x), 4)?;
    check_rank(b, 1, ("grid", grid), 4)?;
    if !b.size_of(grid, 3)?.is_const(2) {
        return Err(Diagnostic::new(Code::E0203, "(C1) the last axis of `grid` has pairs"));
    }
    let (dtype, shape) = (b.dtype(x), b.shape(x));
    let features = if shape[1].as_const().is_some_and(|count| count >= MANY_FEATURES) { 3 } else { 1 };
    let (x, grid) = (b.move_axis(b.wide(x)?, 1, features)?, b.wide(grid)?);
    let [height, width] = [&shape[2], &shape[3]].map(|size| Border { size, beyond, align_corners });
    let (mut y, mut x0) = (height.position(b, grid, 1)?, width.position(b, grid, 0)?);
    if interpolation != Interpolation::Cubic {
        (y, x0) = (height.inside(b, y)?, width.inside(b, x0)?);
    }
    if interpolation == Interpolation::Nearest {
        let (row, column) = (b.op(OpKind::RoundNearestEven, &[y])?, b.op(OpKind::RoundNearestEven, &[x0])?);
        let picked = elements(b, x, features, row, column)?;
        return Ok(vec![b.convert(b.move_axis(picked, features, 1)?, dtype)?]);
    }
    let is_cubic = interpolation == Interpolation::Cubic;
    let low = [b.op(OpKind::Floor, &[y])?, b.op(OpKind::Floor, &[x0])?];
    let weights =
        if is_cubic { [cubic(b, y, low[0])?, cubic(b, x0, low[1])?] } else { [linear(b, y, low[0])?, linear(b, x0, low[1])?] };
    let first = if is_cubic { -1 } else { 0 };
    let mut total = None;
    for (dy, &row_weight) in (first..).zip(&weights[0]) {
        for (dx, &column_weight) in (first..).zip(&weights[1]) {
            let (mut row, mut column) = (b.add(low[0], f64::from(dy))?, b.add(low[1], f64::from(dx))?);
            if is_cubic {
                (row, column) = (height.inside(b, row)?, width.inside(b, column)?);
            }
            let weight = b.unsqueeze(b.mul(row_weight, column_weight)?, &[features])?;
            let part = b.mul(elements(b, x, features, row, column)?, weight)?;
            total = Some(total.map_or(Ok(part), |total| b.add(total, part))?);
        }
    }
    let total = total.ok_or_else(|| Diagnostic::new(Code::E0211, "some cells are read"))?;
    Ok(vec![b.convert(b.move_axis(total, features, 1)?, dtype)?])
}

fn cubic(b: &Emitter<'_>, position: Value, corner: Value) -> Result<Vec<Value>, Diagnostic> {
    Ok(cubic_weights(b, b.sub(position, corner)?, KEYS)?.to_vec())
}

fn linear(b: &Emitter<'_>, position: Value, corner: Value) -> Result<Vec<Value>, Diagnostic> {
    let weight = |tap: f64| {
        let corner = b.add(corner, tap)?;
        b.sub(b.lift(1, b.dtype(position))?, b.op(OpKind::Abs, &[b.sub(position, corner)?])?)
    };
    Ok(vec![weight(0.0)?, weight(1.0)?])
}

/// An axis of an image, and the elements beyond its ends.
struct Border<'a> {
    size: &'a Dim,
    beyond: Beyond,
    align_corners: bool,
}

impl Border<'_> {
    /// The positions along the axis that entry `which` of `grid` gives.
    fn position(&self, b: &Emitter<'_>, grid: Value, which: i64) -> Result<Value, Diagnostic> {
        let part = b.slice(grid, 3, &Dim::constant(which), &Dim::constant(which + 1), 1)?;
        let (part, dtype) = (b.squeeze(part, &[3])?, b.dtype(grid));
        if self.align_corners {
            return b.mul(b.add(part, 1.0)?, b.div(b.lift(self.size - 1, dtype)?, 2.0)?);
        }
        b.div(b.sub(b.mul(b.add(part, 1.0)?, b.lift(self.size, dtype)?)?, 1.0)?, 2.0)
    }

    /// Moves a position beyond the border inside, unless zeros are there.
    fn inside(&self, b: &Emitter<'_>, position: Value) -> Result<Value, Diagnostic> {
        if self.beyond == Beyond::Zeros {
            return Ok(position);
        }
        let (mut position, dtype) = (position, b.dtype(position));
        let last = b.lift(self.size - 1, dtype)?;
        if self.beyond == Beyond::Reflection {
            // From the middle of the first cell to that of the last one and back, or from edge to
            // edge. An image of one cell has no span between middles.
            let (low, span) = if self.align_corners { (0.0, b.maximum(last, 1.0)?) } else { (-0.5, b.lift(self.size, dtype)?) };
            let both = b.mul(span, 2.0)?;
            position = b.op(OpKind::Abs, &[b.sub(position, low)?])?;
            let turns = b.op(OpKind::Floor, &[b.div(position, both)?])?;
            let rest = b.sub(position, b.mul(turns, both)?)?;
            position = b.add(b.minimum(rest, b.sub(both, rest)?)?, low)?;
        }
        // NaN is in the first cell, and so is what infinity is mirrored to.
        let zero = b.lift(0.0, dtype)?;
        b.minimum(b.select(b.compare("GT", position, zero)?, position, zero)?, last)
    }
}

/// The features of `x` in sample `n`, row `rows[n, i, j]` and column `columns[n, i, j]`; zero
/// outside. They are axis `features` of `x` and of the result.
fn elements(b: &Emitter<'_>, x: Value, features: usize, rows: Value, columns: Value) -> Result<Value, Diagnostic> {
    let axes: Vec<usize> = (0..4).filter(|&axis| axis != features).collect();
    let (shape, dtype) = (b.shape(x), b.dtype(x));
    let inside = b.map(OpKind::And, &[within(b, rows, &shape[axes[1]])?, within(b, columns, &shape[axes[2]])?])?;
    let known = |place: Value| b.convert(b.select(inside, place, b.lift(0, b.dtype(place))?)?, DType::I64);
    let (rows, columns) = (known(rows)?, known(columns)?);
    let sample = b.iota(&b.shape(rows), 0, DType::I64)?;
    let index = [sample, rows, columns].map(|place| b.unsqueeze(place, &[3]));
    let index = b.concatenate(&index.into_iter().collect::<Result<Vec<Value>, _>>()?, 3)?;
    let window = shape.into_iter().enumerate().map(|(axis, size)| if axis == features { size } else { Dim::constant(1) });
    let form = Gather {
        offset_dims: &[features],
        collapsed: &axes,
        index_map: &axes,
        vector_dim: 3,
        window: window.collect(),
        bounds: "clamp",
        batching: &[],
    };
    let picked = b.gather(x, index, form)?;
    b.select(b.unsqueeze(inside, &[features])?, picked, b.lift(0, dtype)?)
}

fn within(b: &Emitter<'_>, place: Value, size: &Dim) -> Result<Value, Diagnostic> {
    let dtype = b.dtype(place);
    let (low, high) = (b.compare("GE", place, b.lift(0, dtype)?)?, b.compare("LT", place, b.lift(size, dtype)?)?);
    b.map(OpKind::And, &[low, high])
}

composition! {
    /// The cells of an image of these sizes, as coordinates from -1 to 1 of the last axis first,
    /// under the affine maps `theta`. -1 and 1 are as in `grid_sample`.
    ///
    /// (C1) `theta` is `[N, n, n + 1]`, for `n` sizes.
    AffineGrid = "affine_grid"(theta: one(FLOAT)) { sizes: Vec<Dim>, align_corners: bool } -> (grid) in affine_grid;
}

fn affine_grid(b: &Emitter<'_>, AffineGrid { theta, sizes, align_corners }: AffineGrid) -> Composed {
    check_rank(b, 1, ("theta", theta), 3)?;
    let (last, dtype) = (sizes.len(), b.dtype(theta));
    let mut parts = Vec::new();
    for (axis, count) in sizes.iter().enumerate().rev() {
        let place = b.iota(&sizes, axis, dtype)?;
        let spans = if align_corners { b.maximum(b.lift(count - 1, dtype)?, 1.0)? } else { b.lift(count, dtype)? };
        let place = b.sub(b.add(place, place)?, b.lift(count - 1, dtype)?)?;
        parts.push(b.unsqueeze(b.div(place, spans)?, &[last])?);
    }
    parts.push(b.full(1, &[&sizes[..], &[Dim::constant(1)]].concat(), dtype)?);
    let cells = b.concatenate(&parts, last)?;
    let product = b.dot(cells, theta, &Dot { contracting: (&[last], &[2]), ..Dot::default() })?;
    Ok(vec![b.move_axis(product, last, 0)?])
}
