//! Makes programs of ops that create or rearrange elements.
use super::{
    Draw,
    sketch::{Made, Sketch},
};
use crate::{
    attr::Attr,
    dim::Dim,
    graph::{Value, Weight},
    literal::Literal,
    ops::OpKind,
    types::{DType, TensorType},
};

pub(super) fn broadcast(s: &mut Sketch) -> Made<Vec<Value>> {
    let [a, b] = s.plane();
    let (one, whole) = (Dim::constant(1), TensorType::new([a.clone(), b.clone(), Dim::constant(2)], s.dtype));
    let row = s.input(Draw::Any, std::slice::from_ref(&b), s.dtype);
    let column = s.input(Draw::Any, &[a, one], s.dtype);
    let scalar = s.input(Draw::Any, &[], s.dtype);
    let mut to = |value, dims: Vec<i64>| s.op_as(OpKind::BroadcastInDim, &[value], &[("dims", dims.into())], whole.clone());
    Ok(vec![to(row, vec![1])?, to(column, vec![0, 2])?, to(scalar, vec![])?])
}

pub(super) fn concatenate(s: &mut Sketch) -> Made<Vec<Value>> {
    let [a, b] = s.plane();
    let x = s.input(Draw::Any, &[a.clone(), b.clone()], s.dtype);
    let y = s.input(Draw::Any, &[a, Dim::constant(3)], s.dtype);
    let z = s.input(Draw::Any, &[s.size(2), b], s.dtype);
    let mut join = |values: &[Value], dim| s.op(OpKind::Concatenate, values, &[("dim", Attr::Int(dim))]);
    Ok(vec![join(&[x, y, x], 1)?, join(&[z, x], 0)?, join(&[x], 0)?])
}

pub(super) fn constant(s: &mut Sketch) -> Made<Vec<Value>> {
    let plane = s.plane();
    let x = s.input(Draw::Any, &plane, s.dtype);
    let values = [1, 0, -1, 127, 5, -128];
    let table = TensorType::new([2, 3].map(Dim::constant), s.dtype);
    let list = Literal::from_i64s(s.dtype, &values.map(|v| if s.dtype == DType::I1 { v & 1 } else { v }));
    let list = s.op_as(OpKind::Constant, &[], &[("value", list.into())], table)?;
    let splats = match s.dtype.is_float() {
        true => [f64::NAN, f64::NEG_INFINITY, -0.0].map(|v| Literal::splat_f64(s.dtype, v)),
        false => [1, 0, -1].map(|v| Literal::splat_i64(s.dtype, v)),
    };
    let splats = splats.into_iter().map(|literal| s.splat(literal, &plane)).collect::<Made<Vec<_>>>()?;
    Ok([vec![x, list], splats].concat())
}

pub(super) fn dim(s: &mut Sketch) -> Made<Vec<Value>> {
    let [a, b] = s.plane();
    s.input(Draw::Any, &[a.clone(), b.clone()], DType::F32);
    let three = Dim::constant(3);
    let dims =
        [a.clone(), &a * &b - 7, (&a + 5).floor_div(&three), Dim::min(&a, &b) - Dim::max(&a, &three), (&b * 2).modulo(&three)];
    let scalar = TensorType::scalar(s.dtype);
    dims.into_iter().map(|dim| s.op_as(OpKind::DimValue, &[], &[("value", dim.into())], scalar.clone())).collect()
}

pub(super) fn dimension_size(s: &mut Sketch) -> Made<Vec<Value>> {
    let x = s.input(Draw::Any, &s.plane(), s.dtype);
    [0, 1].into_iter().map(|axis| s.op(OpKind::GetDimensionSize, &[x], &[("dimension", Attr::Int(axis))])).collect()
}

pub(super) fn iota(s: &mut Sketch) -> Made<Vec<Value>> {
    let plane = s.plane();
    s.input(Draw::Any, &plane, s.dtype);
    let ty = TensorType::new(plane, s.dtype);
    [0, 1].into_iter().map(|axis| s.op_as(OpKind::Iota, &[], &[("dim", Attr::Int(axis))], ty.clone())).collect()
}

pub(super) fn pad(s: &mut Sketch) -> Made<Vec<Value>> {
    let [a, b] = s.plane();
    let x = s.input(Draw::Any, &[a, b.clone()], s.dtype);
    let fill = s.input(Draw::Any, &[], s.dtype);
    let dims = |low: i64, high: i64| Attr::Dims(vec![Dim::constant(low), Dim::constant(high)]);
    let mut pad = |attrs: &[(&str, Attr)]| s.op(OpKind::Pad, &[x, fill], attrs);
    Ok(vec![
        pad(&[("low", dims(1, 0)), ("high", dims(0, 2))])?,
        pad(&[("low", dims(0, 3)), ("high", dims(1, 1)), ("interior", vec![1, 2].into())])?,
        // One side is cropped by the size that is added on the other.
        pad(&[("low", dims(-1, 0)), ("high", Attr::Dims(vec![Dim::constant(1), b]))])?,
    ])
}

/// Makes windows over both dimensions with padding on all sides, over one with strides, and with
/// dilated elements.
pub(super) fn im2col(s: &mut Sketch) -> Made<Vec<Value>> {
    let plane = s.plane();
    let x = s.input(Draw::Any, &plane, s.dtype);
    let dims = |sizes: &[i64]| Attr::Dims(sizes.iter().map(|&size| Dim::constant(size)).collect());
    let mut im2col = |attrs: &[(&str, Attr)]| s.op(OpKind::Im2col, &[x], attrs);
    Ok(vec![
        im2col(&[("window_dimensions", dims(&[2, 3])), ("padding_low", dims(&[1, 1])), ("padding_high", dims(&[0, 1]))])?,
        im2col(&[
            ("window_dimensions", dims(&[3])),
            ("window_strides", vec![2].into()),
            ("window_dilations", vec![2].into()),
            ("padding_low", dims(&[2])),
            ("padding_high", dims(&[3])),
        ])?,
        im2col(&[
            ("window_dimensions", dims(&[2, 2])),
            ("base_dilations", vec![2, 3].into()),
            ("padding_low", dims(&[1, 1])),
            ("padding_high", dims(&[1, 2])),
        ])?,
    ])
}

pub(super) fn reshape(s: &mut Sketch) -> Made<Vec<Value>> {
    let [a, b] = s.plane();
    let x = s.input(Draw::Any, &[a.clone(), b.clone()], s.dtype);
    let y = s.input(Draw::Any, &[&a * 2, b.clone()], s.dtype);
    let two = Dim::constant(2);
    let mut to = |value, dims: &[Dim]| {
        let ty = TensorType::new(dims.iter().cloned(), s.dtype);
        s.op_as(OpKind::Reshape, &[value], &[], ty)
    };
    Ok(vec![
        to(x, &[&a * &b])?,
        to(x, &[b.clone(), a.clone()])?,
        to(x, &[a.clone(), Dim::constant(1), b.clone()])?,
        to(y, &[a.clone(), two.clone(), b.clone()])?,
        to(y, &[two, a, b])?,
    ])
}

pub(super) fn reverse(s: &mut Sketch) -> Made<Vec<Value>> {
    let x = s.input(Draw::Any, &s.plane(), s.dtype);
    [vec![0], vec![1], vec![0, 1]].into_iter().map(|dims| s.op(OpKind::Reverse, &[x], &[("dims", dims.into())])).collect()
}

pub(super) fn slice(s: &mut Sketch) -> Made<Vec<Value>> {
    let [a, b] = s.plane();
    let x = s.input(Draw::Any, &[a.clone(), b.clone()], s.dtype);
    let (zero, half) = (Dim::constant(0), |dim: &Dim| dim.floor_div(&Dim::constant(2)));
    let mut part = |start: [Dim; 2], limit: [Dim; 2], strides: Vec<i64>| {
        let attrs = [("start", start.to_vec().into()), ("limit", limit.to_vec().into()), ("strides", strides.into())];
        s.op(OpKind::Slice, &[x], &attrs)
    };
    Ok(vec![
        part([zero.clone(), half(&b)], [a.clone(), b.clone()], vec![1, 1])?,
        part([half(&a), zero.clone()], [a.clone(), half(&b)], vec![1, 1])?,
        part([zero.clone(), zero], [a, b], vec![2, 3])?,
    ])
}

pub(super) fn transpose(s: &mut Sketch) -> Made<Vec<Value>> {
    let [a, b] = s.plane();
    let x = s.input(Draw::Any, &[a.clone(), b.clone()], s.dtype);
    let y = s.input(Draw::Any, &[a, Dim::constant(2), b], s.dtype);
    let mut by = |value, dims: Vec<i64>| s.op(OpKind::Transpose, &[value], &[("dims", dims.into())]);
    Ok(vec![by(x, vec![1, 0])?, by(y, vec![2, 0, 1])?, by(y, vec![1, 0, 2])?, by(y, vec![0, 2, 1])?])
}

pub(super) fn weight(s: &mut Sketch) -> Made<Vec<Value>> {
    let [a, b] = s.plane();
    let three = TensorType::new([Dim::constant(3)], s.dtype);
    s.weights.push(Weight { name: "w".into(), ty: three.clone(), data: None, prepared: None });
    let list = Literal::from_i64s(s.dtype, &[1, 0, 1]);
    s.weights.push(Weight { name: "c".into(), ty: three.clone(), data: Some(list), prepared: None });
    let x = s.input(Draw::Any, &[a, b, Dim::constant(3)], s.dtype);
    let whole = s.function.ty(x).as_tensor().expect("a tensor").clone();
    let mut results = Vec::new();
    for name in ["w", "c"] {
        let weight = s.op_as(OpKind::Weight, &[], &[("name", Attr::Symbol(name.into()))], three.clone())?;
        results.push(weight);
        results.push(s.op_as(OpKind::BroadcastInDim, &[weight], &[("dims", vec![2].into())], whole.clone())?);
    }
    Ok(results)
}
