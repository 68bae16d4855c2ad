//! Lowers matmuls and sums over products.
use super::super::row::{Items, Lower, Row, one};
use crate::{
    compose::{Einsum, Matmul},
    emit::Dot,
};
use disc_ir::{Diagnostic, Value};

pub(in super::super) const ROWS: &[(&str, Lower)] = &[
    ("BatchMatMul", Lower::Row(batch_matmul)),
    ("BatchMatMulV2", Lower::Row(batch_matmul)),
    ("BatchMatMulV3", Lower::Row(batch_matmul)),
    ("Einsum", Lower::Row(einsum)),
    ("MatMul", Lower::Row(matmul)),
];

fn matmul(row: &Row<'_, '_>) -> Items {
    row.attrs.ignore(&["grad_a", "grad_b"]);
    let (left, right) = (row.attrs.bool("transpose_a", false)?, row.attrs.bool("transpose_b", false)?);
    let contracted = (usize::from(!left), usize::from(right));
    let form = Dot { contracting: (&[contracted.0], &[contracted.1]), ..Dot::default() };
    one(row.b.dot(row.tensor(0)?, row.tensor(1)?, &form)?)
}

fn batch_matmul(row: &Row<'_, '_>) -> Items {
    row.attrs.ignore(&["grad_x", "grad_y"]);
    let (left, right) = (row.attrs.bool("adj_x", false)?, row.attrs.bool("adj_y", false)?);
    let (x, y) = (transposed(row, row.tensor(0)?, left)?, transposed(row, row.tensor(1)?, right)?);
    let dtype = row.attrs.dtype_or("Tout", row.b.dtype(x))?;
    one(row.compose(Matmul { x, y, dtype: Some(dtype) })?)
}

/// `x` with its last two axes exchanged.
fn transposed(row: &Row<'_, '_>, x: Value, exchange: bool) -> Result<Value, Diagnostic> {
    let mut order: Vec<usize> = (0..row.b.rank(x)).collect();
    if let [.., a, b] = &mut order[..]
        && exchange
    {
        std::mem::swap(a, b);
    }
    row.b.transpose(x, &order)
}

fn einsum(row: &Row<'_, '_>) -> Items {
    let equation = row.attrs.text("equation", "")?;
    one(row.compose(Einsum { xs: row.tensors()?, equation: equation.into() })?)
}
