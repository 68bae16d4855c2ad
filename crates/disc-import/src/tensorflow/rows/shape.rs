//! Lowers ops on shapes: sizes, reshapes, moves, parts, and constants of a shape.
use super::super::row::{Items, Lower, Row, one, sizes};
use crate::{
    sizes::{Item, Sizes},
    source::limits::NODES,
};
use disc_ir::{Code, DType, Diagnostic, Dim, OpKind, Value};

pub(in super::super) const ROWS: &[(&str, Lower)] = &[
    ("BroadcastTo", Lower::Row(broadcast_to)),
    ("Concat", Lower::Row(concat_first)),
    ("ConcatV2", Lower::Row(concat)),
    ("DepthToSpace", Lower::Row(depth_to_space)),
    ("EnsureShape", Lower::Row(ensure_shape)),
    ("ExpandDims", Lower::Row(expand_dims)),
    ("Fill", Lower::Row(fill)),
    ("MatrixBandPart", Lower::Row(band)),
    ("MirrorPad", Lower::Row(mirror_pad)),
    ("OnesLike", Lower::Row(ones_like)),
    ("Pack", Lower::Row(pack)),
    ("Pad", Lower::Row(pad)),
    ("PadV2", Lower::Row(pad)),
    ("Range", Lower::Row(range)),
    ("Rank", Lower::Row(rank)),
    ("Reshape", Lower::Row(reshape)),
    ("ReverseV2", Lower::Row(reverse)),
    ("Shape", Lower::Row(shape)),
    ("ShapeN", Lower::Row(shape)),
    ("Size", Lower::Row(size)),
    ("SpaceToDepth", Lower::Row(space_to_depth)),
    ("Split", Lower::Row(split)),
    ("SplitV", Lower::Row(split_sizes)),
    ("Squeeze", Lower::Row(squeeze)),
    ("Tile", Lower::Row(tile)),
    ("Transpose", Lower::Row(transpose)),
    ("Unpack", Lower::Row(unpack)),
    ("ZerosLike", Lower::Row(zeros_like)),
];

/// The sizes of an input as dims.
pub(super) fn dims_of(row: &Row<'_, '_>, i: usize) -> Result<Vec<Dim>, Diagnostic> {
    let input = row.inputs.get(i);
    if let Some(Item::Sizes(sizes)) = input {
        return Ok(sizes.len().into_iter().map(|len| Dim::from(len as i64)).collect());
    }
    Ok(row.b.shape(row.tensor(i)?))
}

fn shape(row: &Row<'_, '_>) -> Items {
    let dtype = row.attrs.dtype_or("out_type", DType::I32)?;
    (0..row.inputs.len()).map(|i| Ok(Item::Sizes(Sizes::vector(dtype, dims_of(row, i)?)))).collect()
}

fn size(row: &Row<'_, '_>) -> Items {
    let dtype = row.attrs.dtype_or("out_type", DType::I32)?;
    sizes(Sizes::scalar(dtype, Dim::product(dims_of(row, 0)?)))
}

fn rank(row: &Row<'_, '_>) -> Items {
    sizes(Sizes::scalar(DType::I32, dims_of(row, 0)?.len() as i64))
}

/// Reshapes; -1 stands for what is left.
fn reshape(row: &Row<'_, '_>) -> Items {
    let wanted = row.sizes(1)?;
    if let (Some(x), true) = (row.list(0), wanted.dims.len() <= 1) {
        let count = Dim::from(x.dims.len() as i64);
        if wanted.dims.iter().all(|dim| dim.is_const(-1) || *dim == count) && (!wanted.is_empty() || x.dims.len() == 1) {
            return sizes(Sizes { is_scalar: wanted.is_empty(), ..x.clone() });
        }
    }
    let (b, x) = (row.b, row.tensor(0)?);
    let shape = filled(&b.shape(x), &wanted.dims)?;
    one(b.reshape(x, &shape)?)
}

/// The shape with the size that -1 stands for.
fn filled(own: &[Dim], wanted: &[Dim]) -> Result<Vec<Dim>, Diagnostic> {
    let is_open = |dim: &Dim| dim.is_const(-1);
    let Some(at) = wanted.iter().position(is_open) else { return Ok(wanted.to_vec()) };
    if wanted.iter().filter(|dim| is_open(dim)).count() > 1 {
        return Err(Diagnostic::new(Code::E1004, "a shape has -1 more than once"));
    }
    // Equal sizes are the same on both sides: a batch of 0 stays one.
    let (mut left, mut right) = (own.to_vec(), wanted.to_vec());
    right.remove(at);
    right.retain(|dim| match left.iter().position(|other| other == dim) {
        Some(same) => {
            left.swap_remove(same);
            false
        }
        None => true,
    });
    let (count, known) = (Dim::product(left), Dim::product(right));
    let rest = if known.is_const(1) { count } else { count.floor_div(&known) };
    Ok(wanted.iter().map(|dim| if is_open(dim) { rest.clone() } else { dim.clone() }).collect())
}

fn expand_dims(row: &Row<'_, '_>) -> Items {
    if let Some(x) = row.list(0).filter(|x| x.is_scalar) {
        row.axis(row.number(1)?, 1)?;
        return sizes(Sizes { is_scalar: false, ..x.clone() });
    }
    let (b, x) = (row.b, row.tensor(0)?);
    let axis = row.axis(row.number(1)?, b.rank(x) + 1)?;
    one(b.unsqueeze(x, &[axis])?)
}

fn squeeze(row: &Row<'_, '_>) -> Items {
    let axes = row.attrs.ints("squeeze_dims")?;
    if let Some(x) = row.list(0).filter(|x| x.len() == Some(1)) {
        row.axes(&axes, 1)?;
        return sizes(Sizes { is_scalar: true, ..x.clone() });
    }
    let (b, x) = (row.b, row.tensor(0)?);
    let sizes = b.shape(x);
    let axes = if axes.is_empty() {
        if let Some(open) = sizes.iter().find(|size| size.as_const().is_none()) {
            let message = format!("the rank of the result depends on the size {open}");
            return Err(Diagnostic::new(Code::E1006, message).help("name the axes to squeeze"));
        }
        sizes.iter().enumerate().filter(|(_, size)| size.is_const(1)).map(|(axis, _)| axis).collect()
    } else {
        row.axes(&axes, sizes.len())?
    };
    one(b.squeeze(x, &axes)?)
}

fn transpose(row: &Row<'_, '_>) -> Items {
    let (b, x) = (row.b, row.tensor(0)?);
    let dims = row.numbers(1)?;
    let order = dims.iter().map(|&axis| row.axis(axis, b.rank(x))).collect::<Result<Vec<usize>, Diagnostic>>()?;
    one(b.transpose(x, &order)?)
}

fn pack(row: &Row<'_, '_>) -> Items {
    let axis = row.attrs.int("axis", 0)?;
    if let Some(scalars) = row.all_sizes().filter(|all| all.len() <= Sizes::MOST && all.iter().all(|s| s.is_scalar))
        && let Some(first) = scalars.first()
    {
        row.axis(axis, 1)?;
        return sizes(Sizes::vector(first.dtype, scalars.iter().flat_map(|s| s.dims.clone()).collect()));
    }
    let all = row.tensors()?;
    let rank = all.first().map_or(0, |&x| row.b.rank(x));
    let axis = row.axis(axis, rank + 1)?;
    let rows = all.into_iter().map(|x| row.b.unsqueeze(x, &[axis])).collect::<Result<Vec<Value>, Diagnostic>>()?;
    one(row.b.concatenate(&rows, axis)?)
}

fn unpack(row: &Row<'_, '_>) -> Items {
    let (count, axis) = (count_of(row, "num")?, row.attrs.int("axis", 0)?);
    if let Some(x) = row.list(0).filter(|x| x.len() == Some(count)) {
        row.axis(axis, 1)?;
        return Ok(x.dims.iter().map(|dim| Item::Sizes(Sizes::scalar(x.dtype, dim))).collect());
    }
    let (b, x) = (row.b, row.tensor(0)?);
    let axis = row.axis(axis, b.rank(x))?;
    parts(row, x, axis, &vec![Dim::constant(1); count])?
        .into_iter()
        .map(|part| Ok(Item::Tensor(b.squeeze(part, &[axis])?)))
        .collect()
}

fn concat_first(row: &Row<'_, '_>) -> Items {
    concatenated(&row.without(1, 0), row.number(0)?)
}

fn concat(row: &Row<'_, '_>) -> Items {
    let Some(last) = row.inputs.len().checked_sub(1) else {
        return Err(Diagnostic::new(Code::E1004, "expected at least one input"));
    };
    concatenated(&row.without(0, 1), row.number(last)?)
}

fn concatenated(row: &Row<'_, '_>, axis: i64) -> Items {
    if let Some(lists) = row.all_sizes().filter(|all| all.iter().all(|s| !s.is_scalar))
        && let Some(first) = lists.first()
        && lists.iter().map(|s| s.dims.len()).sum::<usize>() <= Sizes::MOST
    {
        row.axis(axis, 1)?;
        return sizes(Sizes::vector(first.dtype, lists.iter().flat_map(|s| s.dims.clone()).collect()));
    }
    let all = row.tensors()?;
    let rank = all.first().map_or(0, |&x| row.b.rank(x));
    one(row.b.concatenate(&all, row.axis(axis, rank)?)?)
}

/// The number of results that an attribute states.
fn count_of(row: &Row<'_, '_>, name: &str) -> Result<usize, Diagnostic> {
    let count = row.attrs.int(name, 0)?;
    let wrong = || Diagnostic::new(Code::E1004, format!("expected `{name}` to be a number of results, got {count}"));
    let count = usize::try_from(count).map_err(|_| wrong())?;
    NODES.check(count).map(|()| count)
}

/// Cuts `x` along an axis into parts of these sizes, which fill it.
fn parts(row: &Row<'_, '_>, x: Value, axis: usize, lengths: &[Dim]) -> Result<Vec<Value>, Diagnostic> {
    let b = row.b;
    b.require(&Dim::sum(lengths.iter().cloned()), crate::emit::Sign::Eq, &b.size_of(x, axis)?)?;
    let mut start = Dim::constant(0);
    lengths
        .iter()
        .map(|length| {
            let limit = &start + length;
            let part = b.slice(x, axis, &start, &limit, 1);
            start = limit;
            part
        })
        .collect()
}

fn split(row: &Row<'_, '_>) -> Items {
    let (b, x, count) = (row.b, row.tensor(1)?, count_of(row, "num_split")?);
    let axis = row.axis(row.number(0)?, b.rank(x))?;
    let size = b.size_of(x, axis)?;
    let length = size.floor_div(&Dim::from(count.max(1) as i64));
    Ok(parts(row, x, axis, &vec![length; count])?.into_iter().map(Item::Tensor).collect())
}

fn split_sizes(row: &Row<'_, '_>) -> Items {
    row.attrs.ignore(&["num_split"]);
    let (b, x) = (row.b, row.tensor(0)?);
    let axis = row.axis(row.number(2)?, b.rank(x))?;
    let stated = &row.sizes(1)?.dims;
    let is_open = |dim: &Dim| dim.is_const(-1);
    if stated.iter().filter(|dim| is_open(dim)).count() > 1 {
        return Err(Diagnostic::new(Code::E1004, "the lengths have -1 more than once"));
    }
    let rest = b.size_of(x, axis)? - Dim::sum(stated.iter().filter(|dim| !is_open(dim)).cloned());
    let lengths: Vec<Dim> = stated.iter().map(|dim| if is_open(dim) { rest.clone() } else { dim.clone() }).collect();
    Ok(parts(row, x, axis, &lengths)?.into_iter().map(Item::Tensor).collect())
}

fn tile(row: &Row<'_, '_>) -> Items {
    let (b, x, times) = (row.b, row.tensor(0)?, row.sizes(1)?);
    let own = b.shape(x);
    if times.dims.len() != own.len() {
        return Err(Diagnostic::new(Code::E1004, format!("expected {} numbers of copies", own.len())));
    }
    // Each axis becomes two, of the copies and of the elements.
    let kept: Vec<usize> = (0..own.len()).map(|axis| 2 * axis + 1).collect();
    let apart: Vec<Dim> = times.dims.iter().zip(&own).flat_map(|(times, size)| [times.clone(), size.clone()]).collect();
    let copies = b.broadcast(x, &apart, &kept)?;
    let shape: Vec<Dim> = times.dims.iter().zip(&own).map(|(times, size)| times * size).collect();
    one(b.reshape(copies, &shape)?)
}

/// The padding before and after each axis.
fn paddings(row: &Row<'_, '_>, rank: usize) -> Result<(Vec<Dim>, Vec<Dim>), Diagnostic> {
    let missing = || Diagnostic::new(Code::E1006, "the padding has to be a constant");
    let table = row.b.literal_of(row.tensor(1)?).ok_or_else(missing)?;
    if row.b.shape(row.tensor(1)?) != [Dim::from(rank as i64), Dim::constant(2)] {
        return Err(Diagnostic::new(Code::E1004, format!("expected a padding of sizes [{rank}, 2]")));
    }
    let at = |i: usize| Dim::from(table.i64_at(i));
    Ok(((0..rank).map(|axis| at(2 * axis)).collect(), (0..rank).map(|axis| at(2 * axis + 1)).collect()))
}

fn pad(row: &Row<'_, '_>) -> Items {
    let (b, x) = (row.b, row.tensor(0)?);
    let (low, high) = paddings(row, b.rank(x))?;
    let value = if row.inputs.len() > 2 { row.tensor(2)? } else { b.full(0, &[], b.dtype(x))? };
    one(b.pad(x, value, &low, &high)?)
}

/// Pads by the elements beside each edge, mirrored: with the edge itself, or without it.
fn mirror_pad(row: &Row<'_, '_>) -> Items {
    let (b, mut x) = (row.b, row.tensor(0)?);
    let skipped = i64::from(row.attrs.text("mode", "REFLECT")? == "REFLECT");
    let (low, high) = paddings(row, b.rank(x))?;
    for (axis, (low, high)) in low.iter().zip(&high).enumerate() {
        let size = b.size_of(x, axis)?;
        let mut all = Vec::new();
        if !low.is_const(0) {
            let first = b.slice(x, axis, &Dim::from(skipped), &(low + skipped), 1)?;
            all.push(b.reverse(first, &[axis])?);
        }
        all.push(x);
        if !high.is_const(0) {
            let last = b.slice(x, axis, &(&size - skipped - high), &(&size - skipped), 1)?;
            all.push(b.reverse(last, &[axis])?);
        }
        x = b.concatenate(&all, axis)?;
    }
    one(x)
}

fn broadcast_to(row: &Row<'_, '_>) -> Items {
    one(row.b.expand(row.tensor(0)?, &row.sizes(1)?.dims)?)
}

fn ensure_shape(row: &Row<'_, '_>) -> Items {
    let (b, x, shape) = (row.b, row.tensor(0)?, row.attrs.shape("shape")?);
    if !shape.unknown_rank {
        let own = b.shape(x);
        if own.len() != shape.dim.len() {
            return Err(Diagnostic::new(
                Code::E1004,
                format!("a tensor of rank {} has to have rank {}", own.len(), shape.dim.len()),
            ));
        }
        for (size, wanted) in own.iter().zip(&shape.dim).filter(|(_, wanted)| wanted.size >= 0) {
            b.require(size, crate::emit::Sign::Eq, &Dim::from(wanted.size))?;
        }
    }
    one(x)
}

fn fill(row: &Row<'_, '_>) -> Items {
    let shape = row.sizes(0)?;
    if let (Some(value), Some(&[count])) = (row.list(1), shape.numbers().as_deref())
        && let (Ok(count @ 0..=64), [dim]) = (usize::try_from(count), &value.dims[..])
    {
        return sizes(Sizes::vector(value.dtype, vec![dim.clone(); count]));
    }
    one(row.b.expand(row.tensor(1)?, &shape.dims)?)
}

fn zeros_like(row: &Row<'_, '_>) -> Items {
    let x = row.tensor(0)?;
    one(row.b.full(0, &row.b.shape(x), row.b.dtype(x))?)
}

fn ones_like(row: &Row<'_, '_>) -> Items {
    let x = row.tensor(0)?;
    one(row.b.full(1, &row.b.shape(x), row.b.dtype(x))?)
}

/// Counts from a start up to a limit in steps. The number of steps is a size.
fn range(row: &Row<'_, '_>) -> Items {
    let (start, limit, step) = (row.size(0)?, row.size(1)?, row.number(2)?);
    if step == 0 {
        return Err(Diagnostic::new(Code::E1004, "a range in steps of 0"));
    }
    let (reach, by) = if step > 0 { (&limit - &start, Dim::from(step)) } else { (&start - &limit, -Dim::from(step)) };
    let count = Dim::max(&reach.ceil_div(&by), &Dim::constant(0)).shortened();
    let dtype = row.sizes(0)?.dtype;
    if let (Some(first), Some(count)) = (start.as_const(), count.as_const().filter(|&count| count <= Sizes::MOST as i64)) {
        return sizes(Sizes::vector(dtype, (0..count).map(|i| Dim::from(first + i * step)).collect()));
    }
    let b = row.b;
    let steps = b.iota(&[count], 0, dtype)?;
    let scaled = if step == 1 { steps } else { b.mul(steps, step)? };
    one(if start.is_const(0) { scaled } else { b.add(scaled, b.lift(&start, dtype)?)? })
}

fn reverse(row: &Row<'_, '_>) -> Items {
    let (b, x) = (row.b, row.tensor(0)?);
    let axes = row.axes(&row.numbers(1)?, b.rank(x))?;
    one(b.reverse(x, &axes)?)
}

/// Keeps the diagonals from `lower` below the main one to `upper` above it; a negative number is
/// all of that side.
fn band(row: &Row<'_, '_>) -> Items {
    let (b, x) = (row.b, row.tensor(0)?);
    let (lower, upper) = (row.number(1)?, row.number(2)?);
    let rank = b.rank(x);
    let last = |back: usize| rank.checked_sub(back).ok_or_else(|| Diagnostic::new(Code::E1004, "expected at least 2 axes"));
    let (rows, columns) = (last(2)?, last(1)?);
    let shape = b.shape(x);
    let plane: Vec<Dim> = shape.iter().skip(rows).cloned().collect();
    let distance = b.sub(b.iota(&plane, 0, DType::I64)?, b.iota(&plane, 1, DType::I64)?)?;
    let mut is_kept = b.full(true, &plane, DType::I1)?;
    if lower >= 0 {
        is_kept = b.map(OpKind::And, &[is_kept, b.compare("LE", distance, lower)?])?;
    }
    if upper >= 0 {
        is_kept = b.map(OpKind::And, &[is_kept, b.compare("GE", distance, -upper)?])?;
    }
    let is_kept = b.broadcast(is_kept, &shape, &[rows, columns])?;
    one(b.select(is_kept, x, b.full(0, &[], b.dtype(x))?)?)
}

/// Moves blocks of the features into space, or back. Only images of NHWC.
fn depth_to_space(row: &Row<'_, '_>) -> Items {
    let (b, x, block) = (row.b, row.tensor(0)?, block_of(row)?);
    let [n, h, w, c] = image(row, x)?;
    let depth = c.floor_div(&(&block * &block));
    let split = b.reshape(x, &[n.clone(), h.clone(), w.clone(), block.clone(), block.clone(), depth.clone()])?;
    let moved = b.transpose(split, &[0, 1, 3, 2, 4, 5])?;
    one(b.reshape(moved, &[n, h * &block, w * &block, depth])?)
}

fn space_to_depth(row: &Row<'_, '_>) -> Items {
    let (b, x, block) = (row.b, row.tensor(0)?, block_of(row)?);
    let [n, h, w, c] = image(row, x)?;
    let (high, wide) = (h.floor_div(&block), w.floor_div(&block));
    let split = b.reshape(x, &[n.clone(), high.clone(), block.clone(), wide.clone(), block.clone(), c.clone()])?;
    let moved = b.transpose(split, &[0, 1, 3, 2, 4, 5])?;
    one(b.reshape(moved, &[n, high, wide, c * &block * &block])?)
}

fn block_of(row: &Row<'_, '_>) -> Result<Dim, Diagnostic> {
    if row.attrs.text("data_format", "NHWC")? != "NHWC" {
        return Err(Diagnostic::new(Code::E1004, "expected the data format NHWC"));
    }
    Ok(Dim::from(row.attrs.int("block_size", 1)?.max(1)))
}

fn image(row: &Row<'_, '_>, x: Value) -> Result<[Dim; 4], Diagnostic> {
    let rank = row.b.rank(x);
    row.b.shape(x).try_into().map_err(|_| Diagnostic::new(Code::E1004, format!("expected an image of 4 axes, got {rank}")))
}

/// Axes as the transposition that moves the features of an image to axis 1.
pub(super) fn to_features_first(rank: usize) -> Vec<usize> {
    [0, rank - 1].into_iter().chain(1..rank - 1).collect()
}

/// The transposition that moves the features from axis 1 to the end.
pub(super) fn to_features_last(rank: usize) -> Vec<usize> {
    std::iter::once(0).chain(2..rank).chain([1]).collect()
}
