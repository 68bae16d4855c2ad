//! Lowers lists of tensors of one shape, which loops fill: a list is a tensor whose first axis
//! counts.
use super::super::row::{Items, Lower, Row, one, sizes};
use crate::sizes::{Item, List, Sizes};
use disc_ir::{Code, DType, Diagnostic, Dim, OpKind, Value};

pub(in super::super) const ROWS: &[(&str, Lower)] = &[
    ("TensorListFromTensor", Lower::Row(of_tensor)),
    ("TensorListGetItem", Lower::Row(get)),
    ("TensorListLength", Lower::Row(length)),
    ("TensorListReserve", Lower::Row(reserve)),
    ("TensorListSetItem", Lower::Row(set)),
    ("TensorListStack", Lower::Row(stack)),
];

fn of_tensor(row: &Row<'_, '_>) -> Items {
    Ok(vec![Item::List(List::Stored(row.tensor(0)?))])
}

/// A list of zeros; without the shape of its elements, a list that the first stored one gives it.
fn reserve(row: &Row<'_, '_>) -> Items {
    let (dtype, count) = (row.attrs.dtype("element_dtype")?, row.size(1)?);
    let shape = row.list(0).filter(|shape| !shape.is_scalar && shape.dims.iter().all(|dim| !dim.is_const(-1)));
    let list = match shape {
        Some(shape) => List::Stored(row.b.full(0, &[vec![count], shape.dims.clone()].concat(), dtype)?),
        None => List::Reserved { count, dtype },
    };
    Ok(vec![Item::List(list)])
}

fn list<'r>(row: &'r Row<'_, '_>) -> Result<&'r List, Diagnostic> {
    match row.inputs.first() {
        Some(Item::List(list)) => Ok(list),
        _ => Err(Diagnostic::new(Code::E1004, "expected a list of tensors")),
    }
}

fn stored(row: &Row<'_, '_>) -> Result<Value, Diagnostic> {
    match list(row)? {
        List::Stored(value) => Ok(*value),
        List::Reserved { .. } => Err(Diagnostic::new(Code::E1006, "a list is read before the shape of its elements is known")),
    }
}

/// The position `index` of the first axis, and 0 of the others. A position beyond the list fails
/// the call, where a slice would take the nearest one.
fn starts(row: &Row<'_, '_>, x: Value) -> Result<Vec<Value>, Diagnostic> {
    let b = row.b;
    let index = b.convert(row.tensor(1)?, DType::I64)?;
    let zero = b.full(0, &[], DType::I64)?;
    let count = b.lift(&b.size_of(x, 0)?, DType::I64)?;
    let is_within = b.map(OpKind::And, &[b.compare("GE", index, 0)?, b.compare("LT", index, count)?])?;
    b.require_true(is_within, "a position beyond a list of tensors")?;
    Ok((0..b.rank(x)).map(|axis| if axis == 0 { index } else { zero }).collect())
}

fn get(row: &Row<'_, '_>) -> Items {
    let (b, x) = (row.b, stored(row)?);
    let mut sizes = b.shape(x);
    if let Some(first) = sizes.first_mut() {
        *first = Dim::constant(1);
    }
    one(b.squeeze(b.dynamic_slice(x, &starts(row, x)?, &sizes)?, &[0])?)
}

fn set(row: &Row<'_, '_>) -> Items {
    if row.attrs.bool("resize_if_index_out_of_bounds", false)? {
        return Err(Diagnostic::new(Code::E1006, "a list that grows is not supported: state its size"));
    }
    let (b, item) = (row.b, row.tensor(2)?);
    let x = match list(row)? {
        List::Stored(value) => *value,
        List::Reserved { count, dtype } => b.full(0, &[vec![count.clone()], b.shape(item)].concat(), *dtype)?,
    };
    let update = b.expand(b.unsqueeze(item, &[0])?, &[vec![Dim::constant(1)], b.shape(x).split_off(1)].concat())?;
    Ok(vec![Item::List(List::Stored(b.dynamic_update_slice(x, update, &starts(row, x)?)?))])
}

fn stack(row: &Row<'_, '_>) -> Items {
    row.attrs.ignore(&["num_elements"]);
    one(stored(row)?)
}

fn length(row: &Row<'_, '_>) -> Items {
    let count = match list(row)? {
        List::Stored(value) => row.b.size_of(*value, 0)?,
        List::Reserved { count, .. } => count.clone(),
    };
    sizes(Sizes::scalar(DType::I32, count))
}
