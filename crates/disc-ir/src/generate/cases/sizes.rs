//! Makes programs of data-dependent sizes: counted, bound, and used.
use super::{
    Draw,
    sketch::{Made, Sketch},
};
use crate::{
    attr::Attr,
    dim::Dim,
    graph::Value,
    ops::{OpKind, body},
    types::{DType, TensorType, Type},
};

fn bind(s: &mut Sketch, size: Value, name: &str) -> Made<Dim> {
    let dim = Dim::symbol(name);
    s.ops(OpKind::BindDim, &[size], &[("dim", Attr::Dim(dim.clone()))], &[], None)?;
    Ok(dim)
}

/// Counts the true elements of a vector, as a dim.
fn count(s: &mut Sketch, mask: Value, name: &str) -> Made<Dim> {
    let ones = s.op(OpKind::Convert, &[mask], &[("dtype", DType::I64.into())])?;
    let zero = s.scalar(DType::I64, 0)?;
    let sum = s.build(|b| body::combine(b, OpKind::Add, DType::I64))?;
    let attrs = [("dims", Attr::Ints(vec![0]))];
    let size = s.ops(OpKind::Reduce, &[ones, zero], &attrs, &[sum], None)?[0];
    bind(s, size, name)
}

fn positions(s: &mut Sketch, mask: Value, count: &Dim) -> Made {
    s.op_as(OpKind::Nonzero, &[mask], &[], TensorType::new([count.clone()], DType::I64))
}

/// Binds a dim to a scalar count, and to one that may be negative.
pub(super) fn bind_dim(s: &mut Sketch) -> Made<Vec<Value>> {
    let [a, b] = s.plane();
    let x = s.input(Draw::Any, &[a.clone(), b.clone()], DType::F32);
    let n = s.input(Draw::Indices, &[], DType::I64);
    let size = bind(s, n, "N")?;
    let iota = s.op_as(OpKind::Iota, &[], &[("dim", Attr::Int(0))], TensorType::new([size.clone()], DType::I64))?;
    let turned = s.op(OpKind::Reverse, &[iota], &[("dims", vec![0].into())])?;
    let dims = [size, a, b];
    let many = s.ops(
        OpKind::BroadcastInDim,
        &[x],
        &[("dims", vec![1, 2].into())],
        &[],
        Some(vec![Type::tensor(dims.to_vec(), DType::F32)]),
    )?[0];
    Ok(vec![turned, many])
}

/// Returns the true elements of a vector, fewer than there are, and more; and a result of their
/// count.
pub(super) fn nonzero(s: &mut Sketch) -> Made<Vec<Value>> {
    let [a, b] = s.plane();
    let mask = s.input(Draw::Truth, std::slice::from_ref(&b), DType::I1);
    let other = s.input(Draw::Any, &[a.clone(), b.clone()], DType::I1);
    let rows = s.op_as(OpKind::Reshape, &[other], &[], TensorType::new([&a * &b], DType::I1))?;
    let (k, l) = (count(s, mask, "K")?, count(s, rows, "L")?);
    let found = [positions(s, mask, &k)?, positions(s, rows, &l)?];
    let both = s.op(OpKind::Concatenate, &found, &[("dim", Attr::Int(0))])?;
    let doubled = s.op(OpKind::Add, &[both, both], &[])?;
    let [few, many] = [positions(s, mask, &a)?, positions(s, mask, &(b + 3))?];
    Ok(vec![found[1], doubled, few, many])
}
