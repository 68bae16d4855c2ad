//! Lowers ops that read at computed positions, and those that find positions.
use super::super::row::{Items, Lower, Row, one, sizes};
use crate::{
    compose::{ArgExtreme, Composition, Extreme, Running, RunningTotal, TopKOf},
    emit::Gather,
    sizes::{Item, Sizes},
};
use disc_ir::{Code, DType, Diagnostic, Dim, OpKind, Value};

pub(in super::super) const ROWS: &[(&str, Lower)] = &[
    ("ArgMax", Lower::Row(arg_max)),
    ("ArgMin", Lower::Row(arg_min)),
    ("Cumprod", Lower::Row(cumulative_product)),
    ("Cumsum", Lower::Row(cumulative_sum)),
    ("Gather", Lower::Row(gather_rows)),
    ("GatherNd", Lower::Row(gather_nd)),
    ("GatherV2", Lower::Row(gather)),
    ("OneHot", Lower::Row(one_hot)),
    ("TopKV2", Lower::Row(top_k)),
];

/// An index out of range is an error, as on TensorFlow's CPUs (its GPUs read 0).
const BOUNDS: &str = "check";

fn gather_rows(row: &Row<'_, '_>) -> Items {
    row.attrs.ignore(&["validate_indices"]);
    one(row.b.take(row.tensor(0)?, 0, row.tensor(1)?, BOUNDS)?)
}

fn gather(row: &Row<'_, '_>) -> Items {
    let batch = row.attrs.int("batch_dims", 0)?;
    if let (Some(x), Some(index), 0) = (row.list(0), row.list(1), batch)
        && let Some(picked) = picked(x, index)
    {
        row.axis(row.number(2)?, 1)?;
        return sizes(picked);
    }
    let (b, x, index) = (row.b, row.tensor(0)?, row.tensor(1)?);
    let axis = row.axis(row.number(2)?, b.rank(x))?;
    let batch = usize::try_from(if batch < 0 { batch + b.rank(index) as i64 } else { batch });
    let batch = batch.ok().filter(|&batch| batch <= axis && batch <= b.rank(index));
    let batch = batch.ok_or_else(|| Diagnostic::new(Code::E1004, "`batch_dims` is beyond the axis or the index"))?;
    one(b.take_batched(x, axis, index, batch, BOUNDS)?)
}

/// The sizes at known positions.
fn picked(x: &Sizes, index: &Sizes) -> Option<Sizes> {
    let dims = index.numbers()?.into_iter().map(|at| x.dims.get(usize::try_from(at).ok()?).cloned());
    Some(Sizes { dtype: x.dtype, dims: dims.collect::<Option<_>>()?, is_scalar: index.is_scalar })
}

/// Gathers slices at vectors of positions, which are the last axis of the index.
fn gather_nd(row: &Row<'_, '_>) -> Items {
    row.attrs.ignore(&["bad_indices_policy"]);
    let (b, x, index) = (row.b, row.tensor(0)?, row.tensor(1)?);
    let rank = b.rank(index).checked_sub(1).ok_or_else(|| Diagnostic::new(Code::E1004, "expected an index of some axes"))?;
    let size = b.size_of(index, rank)?;
    let depth = size.as_const().and_then(|size| usize::try_from(size).ok()).filter(|&depth| depth <= b.rank(x));
    let depth = depth.ok_or_else(|| Diagnostic::new(Code::E1006, format!("the length of the positions is {size}")))?;
    let indexed: Vec<usize> = (0..depth).collect();
    let offset: Vec<usize> = (rank..rank + b.rank(x) - depth).collect();
    let window = b.shape(x).into_iter().enumerate().map(|(i, size)| if i < depth { Dim::constant(1) } else { size });
    let form = Gather {
        offset_dims: &offset,
        collapsed: &indexed,
        index_map: &indexed,
        vector_dim: rank,
        window: window.collect(),
        bounds: BOUNDS,
        batching: &[],
    };
    one(b.gather(x, index, form)?)
}

/// One-hot vectors at `axis`; other positions than those of the depth give none.
fn one_hot(row: &Row<'_, '_>) -> Items {
    let (b, index, depth) = (row.b, row.tensor(0)?, row.size(1)?);
    let (on, off) = (row.tensor(2)?, row.tensor(3)?);
    let rank = b.rank(index) + 1;
    let axis = row.axis(row.attrs.int("axis", -1)?, rank)?;
    let mut shape = b.shape(index);
    shape.insert(axis, depth);
    let others: Vec<usize> = (0..rank).filter(|&i| i != axis).collect();
    // Positions of a narrow type would wrap where the depth is beyond it.
    let dtype = if b.dtype(index).size() < DType::I32.size() { DType::I32 } else { b.dtype(index) };
    let wanted = b.broadcast(b.convert(index, dtype)?, &shape, &others)?;
    let is_hot = b.compare("EQ", wanted, b.iota(&shape, axis, dtype)?)?;
    one(b.select(is_hot, on, off)?)
}

fn top_k(row: &Row<'_, '_>) -> Items {
    row.attrs.ignore(&["sorted"]);
    let index = row.attrs.dtype_or("index_type", DType::I32)?;
    let (b, x, k) = (row.b, row.tensor(0)?, row.size(1)?);
    let axis = b.rank(x) as i64 - 1;
    let found = TopKOf { x, axis, k, largest: true }.emit(b)?;
    let &[values, places] = &found[..] else {
        return Err(Diagnostic::new(Code::E1004, "expected values and positions"));
    };
    Ok(vec![Item::Tensor(values), Item::Tensor(b.convert(places, index)?)])
}

fn arg_max(row: &Row<'_, '_>) -> Items {
    arg_extreme(row, Extreme::Maximum)
}

fn arg_min(row: &Row<'_, '_>) -> Items {
    arg_extreme(row, Extreme::Minimum)
}

fn arg_extreme(row: &Row<'_, '_>, which: Extreme) -> Items {
    let (b, x) = (row.b, row.tensor(0)?);
    let axis = row.axis(row.number(1)?, b.rank(x))? as i64;
    // NaN is never found, unless there is nothing else: the first position then.
    let x = if b.dtype(x).is_float() {
        let least = if which == Extreme::Maximum { f64::NEG_INFINITY } else { f64::INFINITY };
        b.select(b.is_nan(x)?, b.full(least, &[], b.dtype(x))?, x)?
    } else {
        x
    };
    let place = row.compose(ArgExtreme { x, axis: Some(axis), which, keep: false })?;
    one(b.convert(place, row.attrs.dtype_or("output_type", DType::I64)?)?)
}

fn cumulative_sum(row: &Row<'_, '_>) -> Items {
    cumulative(row, Running::Add, OpKind::Add)
}

fn cumulative_product(row: &Row<'_, '_>) -> Items {
    cumulative(row, Running::Multiply, OpKind::Multiply)
}

/// The running combination; an exclusive one begins with the neutral element and leaves the last.
fn cumulative(row: &Row<'_, '_>, how: Running, kind: OpKind) -> Items {
    let (exclusive, backwards) = (row.attrs.bool("exclusive", false)?, row.attrs.bool("reverse", false)?);
    let (b, mut x) = (row.b, row.tensor(0)?);
    let axis = row.axis(row.number(1)?, b.rank(x))?;
    let dtype = b.dtype(x);
    if backwards {
        x = b.reverse(x, &[axis])?;
    }
    if exclusive {
        x = shifted(row, x, axis, b.neutral(kind, dtype)?)?;
    }
    let mut total = row.compose(RunningTotal { x, axis: axis as i64, how, dtype })?;
    if backwards {
        total = b.reverse(total, &[axis])?;
    }
    one(total)
}

/// Elements one position later, after `first`.
fn shifted(row: &Row<'_, '_>, x: Value, axis: usize, first: Value) -> Result<Value, Diagnostic> {
    let b = row.b;
    let at_axis = |amount: i64| (0..b.rank(x)).map(|i| Dim::constant(if i == axis { amount } else { 0 })).collect::<Vec<_>>();
    b.pad(x, first, &at_axis(1), &at_axis(-1))
}
