//! Declares rearrangements of elements: repetition, rolls, triangles, diagonals, blocks of an image
//! as features.
use super::{Composed, axes_of, axis_of};
use crate::emit::{Emitter, Operand};
use disc_ir::{Code, DType, Diagnostic, Dim, Value, ops::DTypeClass};

const ANY: DTypeClass = DTypeClass::ANY;
const INTEGER: DTypeClass = DTypeClass::INTEGER;

composition! {
    /// `x`, `repeats[i]` times along axis `i`.
    ///
    /// (C1) `repeats` has an entry for each axis of `x`, the last ones; it may have more.
    Tile = "tile"(x: one(ANY)) { repeats: Vec<Dim> } -> (y) in tile;
}

fn tile(b: &Emitter<'_>, Tile { x, repeats }: Tile) -> Composed {
    let (own, rank) = (b.shape(x), repeats.len());
    let missing = rank
        .checked_sub(own.len())
        .ok_or_else(|| Diagnostic::new(Code::E0202, format!("(C1) {rank} repeats for a tensor of rank {}", own.len())))?;
    let own = [vec![Dim::constant(1); missing], own].concat();
    if repeats.iter().all(|times| times.is_const(1)) {
        return Ok(vec![b.reshape(x, &own)?]);
    }
    // Each axis becomes (times, size), then one.
    let pairs: Vec<Dim> = repeats.iter().zip(&own).flat_map(|(times, size)| [times.clone(), size.clone()]).collect();
    let axes: Vec<usize> = (missing..rank).map(|axis| 2 * axis + 1).collect();
    let whole: Vec<Dim> = repeats.iter().zip(&own).map(|(times, size)| times * size).collect();
    Ok(vec![b.reshape(b.broadcast(x, &pairs, &axes)?, &whole)?])
}

composition! {
    /// Each element `times` times in a row along `axis`.
    ///
    /// (C1) `axis` is an axis of `x`, which has axes.
    RepeatElements = "repeat_elements"(x: one(ANY)) { axis: i64, times: Dim } -> (y) in repeat_elements;
}

fn repeat_elements(b: &Emitter<'_>, RepeatElements { x, axis, times }: RepeatElements) -> Composed {
    let axis = axis_of(b, x, axis)?;
    let mut whole = b.shape(x);
    let mut wide = whole.clone();
    whole[axis] = b.size_of(x, axis)? * &times;
    wide.insert(axis + 1, times);
    let dims: Vec<usize> = (0..whole.len()).map(|i| if i <= axis { i } else { i + 1 }).collect();
    Ok(vec![b.reshape(b.broadcast(x, &wide, &dims)?, &whole)?])
}

composition! {
    /// Each element `shifts[i]` further along `axes[i]`, around the end; without axes, along the
    /// elements in row-major order.
    ///
    /// (C1) Each of `axes` is an axis of `x`; there are as many shifts, or one without axes.
    Roll = "roll"(x: one(ANY)) { shifts: Vec<Dim>, axes: Vec<i64> } -> (y) in roll;
}

fn roll(b: &Emitter<'_>, Roll { x, shifts, axes }: Roll) -> Composed {
    if shifts.len() != axes.len().max(1) {
        return Err(Diagnostic::new(Code::E0202, format!("(C1) {} shifts for {} axes", shifts.len(), axes.len())));
    }
    if axes.is_empty() {
        let shape = b.shape(x);
        let flat = b.reshape(x, &[Dim::product(shape.iter().cloned())])?;
        return Ok(vec![b.reshape(rolled(b, flat, &shifts[0], 0)?, &shape)?]);
    }
    let mut x = x;
    for (shift, axis) in shifts.iter().zip(axes) {
        x = rolled(b, x, shift, axis_of(b, x, axis)?)?;
    }
    Ok(vec![x])
}

fn rolled(b: &Emitter<'_>, x: Value, shift: &Dim, axis: usize) -> Result<Value, Diagnostic> {
    let (size, zero) = (b.size_of(x, axis)?, Dim::constant(0));
    if size.is_const(0) {
        return Ok(x);
    }
    // An axis of size 0 has no remainder: it is taken by 1.
    let turn = shift.modulo(&Dim::max(&size, &Dim::constant(1)));
    let start = &size - turn;
    b.concatenate(&[b.slice(x, axis, &start, &size, 1)?, b.slice(x, axis, &zero, &start, 1)?], axis)
}

words! {
    /// The part of a matrix that is kept, with its diagonal.
    Triangle { Lower = "lower", Upper = "upper" }
}

composition! {
    /// Matrices, the last two axes, with zeros above (lower) or below (upper) the diagonal that is
    /// `diagonal` above the main one.
    ///
    /// (C1) `x` has at least two axes.
    KeepTriangle = "triangle"(x: one(ANY), diagonal: scalar(INTEGER)) { part: Triangle } -> (y) in triangle;
}

fn triangle(b: &Emitter<'_>, KeepTriangle { x, diagonal, part }: KeepTriangle) -> Composed {
    let shape = b.shape(x);
    let [.., rows, columns] = &shape[..] else { return Err(no_matrix(shape.len())) };
    let plane = [rows.clone(), columns.clone()];
    let keeps = if part == Triangle::Lower { "GE" } else { "LE" };
    let row = b.add(b.iota(&plane, 0, DType::I64)?, b.lift(diagonal, DType::I64)?)?;
    let mask = b.compare(keeps, row, b.iota(&plane, 1, DType::I64)?)?;
    Ok(vec![b.select(mask, x, b.lift(0, b.dtype(x))?)?])
}

fn no_matrix(rank: usize) -> Diagnostic {
    Diagnostic::new(Code::E0207, format!("(C1) `x` has {rank} axes, expected two or more"))
}

composition! {
    /// The elements of two axes whose positions differ by `offset`, as a new last axis.
    ///
    /// (C1) `axes` are two distinct axes of `x`.
    Diagonal = "diagonal"(x: one(ANY)) { offset: i64, axes: Vec<i64> } -> (y) in diagonal;
}

fn diagonal(b: &Emitter<'_>, Diagonal { x, offset, axes }: Diagonal) -> Composed {
    let (order, offset) = (planes_last(b, x, &axes)?, Dim::constant(offset));
    let x = b.transpose(x, &order)?;
    let (shape, lead) = (b.shape(x), order.len() - 2);
    let (rows, columns) = (&shape[lead], &shape[lead + 1]);
    let flat = b.reshape(x, &[&shape[..lead], &[rows * columns]].concat())?;
    let (below, above) = (Dim::max(&-&offset, &Dim::constant(0)), Dim::max(&offset, &Dim::constant(0)));
    let length = match b.wanted().filter(|wanted| wanted.len() == lead + 1) {
        Some(wanted) => wanted[lead].clone(),
        None => Dim::max(&Dim::min(&(rows - &below), &(columns - &above)), &Dim::constant(0)),
    };
    let start = if offset.as_const() >= Some(0) { above } else { columns * below };
    let places = b.mul(b.iota(&[length], 0, DType::I64)?, b.lift(columns + 1, DType::I64)?)?;
    let index = b.add(places, b.lift(start, DType::I64)?)?;
    Ok(vec![b.take(flat, lead, index, "clamp")?])
}

composition! {
    /// `x` with the elements that `diagonal` takes replaced by those of `source`.
    ///
    /// (C1) `axes` are two distinct axes of `x`; `source` has one axis less.
    SetDiagonal = "set_diagonal"(x: one(ANY), source: one(ANY)) { offset: i64, axes: Vec<i64> } -> (y) in set_diagonal;
}

fn set_diagonal(b: &Emitter<'_>, SetDiagonal { x, source, offset, axes }: SetDiagonal) -> Composed {
    let order = planes_last(b, x, &axes)?;
    let (x, last) = (b.transpose(x, &order)?, order.len() - 2);
    super::check_rank(b, 1, ("source", source), last + 1)?;
    let (shape, dtype) = (b.shape(x), b.dtype(x));
    // Row r has element r, or with a negative offset element r + offset.
    let row = b.iota(&shape[last..=last], 0, DType::I64)?;
    let element = b.add(row, b.lift(offset.min(0), DType::I64)?)?;
    // One more element: a diagonal beyond the corners has none.
    let (low, mut high) = (vec![Dim::constant(0); last + 1], vec![Dim::constant(0); last + 1]);
    high[last] = Dim::constant(1);
    let padded = b.pad(b.convert(source, dtype)?, b.lift(0, dtype)?, &low, &high)?;
    let rows: Vec<usize> = (0..=last).collect();
    let value = b.broadcast(b.take(padded, last, element, "clamp")?, &shape, &rows)?;
    let plane = &shape[last..];
    let row = b.add(b.iota(plane, 0, DType::I64)?, b.lift(offset, DType::I64)?)?;
    let mask = b.broadcast(b.compare("EQ", row, b.iota(plane, 1, DType::I64)?)?, &shape, &[last, last + 1])?;
    let back: Vec<usize> = (0..order.len()).filter_map(|axis| order.iter().position(|&at| at == axis)).collect();
    Ok(vec![b.transpose(b.select(mask, value, x)?, &back)?])
}

/// The axes of `x`, these two last.
fn planes_last(b: &Emitter<'_>, x: Value, axes: &[i64]) -> Result<Vec<usize>, Diagnostic> {
    let &[i, j] = &axes_of(b, x, axes)?[..] else {
        return Err(Diagnostic::new(Code::E0202, format!("(C1) {} axes, expected 2", axes.len())));
    };
    Ok((0..b.rank(x)).filter(|&axis| axis != i && axis != j).chain([i, j]).collect())
}

words! {
    /// The order of the features that blocks of cells become: by their place in a block and then by
    /// feature, or by feature and then by place.
    BlockOrder { PlaceFirst = "place_first", FeatureFirst = "feature_first" }
}

composition! {
    /// Features as blocks of `factor * factor` cells of the last two axes. The features are in
    /// order of their place in a block and then of the new feature (place_first), or the reverse
    /// (feature_first).
    ///
    /// (C1) `x` is `[.., features, height, width]`.
    /// (C2) `factor` is at least 1, and its square divides the features.
    DepthToSpace = "depth_to_space"(x: one(ANY)) { factor: Dim, order: BlockOrder } -> (y) in depth_to_space;
}

fn depth_to_space(b: &Emitter<'_>, DepthToSpace { x, factor, order }: DepthToSpace) -> Composed {
    let (shape, lead) = (b.shape(x), image_axes(b, x, &factor)?);
    let (features, height, width) = (&shape[lead], &shape[lead + 1], &shape[lead + 2]);
    let depth = features.floor_div(&(&factor * &factor));
    let block = [factor.clone(), factor.clone()];
    let split = match order {
        BlockOrder::FeatureFirst => [&[depth.clone()][..], &block].concat(),
        BlockOrder::PlaceFirst => [&block[..], std::slice::from_ref(&depth)].concat(),
    };
    let x = b.reshape(x, &[&shape[..lead], &split, &shape[lead + 1..]].concat())?;
    let axes = match order {
        BlockOrder::FeatureFirst => [0, 3, 1, 4, 2],
        BlockOrder::PlaceFirst => [2, 3, 0, 4, 1],
    };
    let whole = [&shape[..lead], &[depth, height * &factor, width * &factor]].concat();
    Ok(vec![regrouped(b, x, lead, axes, whole)?])
}

composition! {
    /// Blocks of `factor * factor` cells of the last two axes as features, in the orders of
    /// `depth_to_space`.
    ///
    /// (C1) `x` is `[.., features, height, width]`.
    /// (C2) `factor` is at least 1, and divides height and width.
    SpaceToDepth = "space_to_depth"(x: one(ANY)) { factor: Dim, order: BlockOrder } -> (y) in space_to_depth;
}

fn space_to_depth(b: &Emitter<'_>, SpaceToDepth { x, factor, order }: SpaceToDepth) -> Composed {
    let (shape, lead) = (b.shape(x), image_axes(b, x, &factor)?);
    let (features, height, width) = (&shape[lead], shape[lead + 1].floor_div(&factor), shape[lead + 2].floor_div(&factor));
    let split = [features.clone(), height.clone(), factor.clone(), width.clone(), factor.clone()];
    let x = b.reshape(x, &[&shape[..lead], &split].concat())?;
    let axes = match order {
        BlockOrder::FeatureFirst => [0, 2, 4, 1, 3],
        BlockOrder::PlaceFirst => [2, 4, 0, 1, 3],
    };
    let whole = [&shape[..lead], &[features * &factor * &factor, height, width]].concat();
    Ok(vec![regrouped(b, x, lead, axes, whole)?])
}

/// The axis of the features.
fn image_axes(b: &Emitter<'_>, x: Value, factor: &Dim) -> Result<usize, Diagnostic> {
    let rank = b.rank(x);
    if factor.as_const().is_some_and(|factor| factor < 1) {
        return Err(Diagnostic::new(Code::E0202, format!("(C2) the factor is {factor}, expected 1 or more")));
    }
    rank.checked_sub(3).ok_or_else(|| Diagnostic::new(Code::E0207, format!("(C1) `x` has {rank} axes, expected three or more")))
}

/// The five last axes in another order, as three.
fn regrouped(b: &Emitter<'_>, x: Value, lead: usize, order: [usize; 5], whole: Vec<Dim>) -> Result<Value, Diagnostic> {
    let dims: Vec<usize> = (0..lead).chain(order.map(|axis| lead + axis)).collect();
    let shape = b.wanted().filter(|wanted| wanted.len() == whole.len()).map_or(whole, <[Dim]>::to_vec);
    b.reshape(b.transpose(x, &dims)?, &shape)
}

composition! {
    /// The windows of `size` elements along `axis`, each `step` after the one before: their
    /// elements are a new last axis.
    ///
    /// (C1) `axis` is an axis of `x`, which has axes; it has at least `size` elements.
    /// (C2) `step` is at least 1.
    SlidingWindows = "sliding_windows"(x: one(ANY)) { axis: i64, size: Dim, step: Dim } -> (y) in sliding_windows;
}

fn sliding_windows(b: &Emitter<'_>, SlidingWindows { x, axis, size, step }: SlidingWindows) -> Composed {
    let axis = axis_of(b, x, axis)?;
    if step.as_const().is_some_and(|step| step < 1) {
        return Err(Diagnostic::new(Code::E0202, format!("(C2) the step is {step}, expected 1 or more")));
    }
    let (rank, own) = (b.rank(x), b.size_of(x, axis)?);
    let count = match b.wanted().filter(|wanted| wanted.len() == rank + 1) {
        Some(wanted) => wanted[axis].clone(),
        None => (own - &size).floor_div(&step) + 1,
    };
    let plane = [count, size];
    let index = b.add(b.mul(b.iota(&plane, 0, DType::I64)?, Operand::from(step))?, b.iota(&plane, 1, DType::I64)?)?;
    Ok(vec![b.move_axis(b.take(x, axis, index, "clamp")?, axis + 1, rank)?])
}
