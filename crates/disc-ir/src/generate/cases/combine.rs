//! Makes programs of ops that combine elements: reductions, scans, windows, products.
use super::{
    Draw,
    sketch::{Made, Sketch},
};
use crate::{
    attr::Attr,
    dim::Dim,
    graph::Value,
    literal::{Literal, encode_i64},
    ops::{OpKind, body},
    types::{DType, TensorType},
};

/// The ops that combine two values of one type.
const COMBINERS: [OpKind; 6] = [OpKind::Add, OpKind::Multiply, OpKind::Maximum, OpKind::Minimum, OpKind::And, OpKind::Or];

/// Returns the combiners that admit the element type.
fn combiners(s: &Sketch) -> Vec<OpKind> {
    COMBINERS.into_iter().filter(|kind| kind.def().operands[0].class.contains(s.dtype)).collect()
}

/// Returns the neutral element of a combiner.
fn neutral(kind: OpKind, dtype: DType) -> Literal {
    let least = |greatest: bool| match (dtype, greatest) {
        (DType::I1, _) => Literal::splat_i64(dtype, i64::from(greatest)),
        _ if dtype.is_float() => Literal::splat_f64(dtype, if greatest { f64::INFINITY } else { f64::NEG_INFINITY }),
        _ if dtype.is_unsigned_integer() => Literal::splat_i64(dtype, -i64::from(greatest)),
        (_, true) => Literal::splat(dtype, &encode_i64(dtype, i64::MAX >> (64 - dtype.bits()))),
        (_, false) => Literal::splat(dtype, &encode_i64(dtype, i64::MIN >> (64 - dtype.bits()))),
    };
    match kind {
        OpKind::Multiply => Literal::splat_i64(dtype, 1),
        OpKind::And => Literal::splat_i64(dtype, if dtype == DType::I1 { 1 } else { -1 }),
        OpKind::Maximum => least(false),
        OpKind::Minimum => least(true),
        _ => Literal::splat_i64(dtype, 0),
    }
}

/// Returns the elements that a combiner can take: sums and products of floats must not depend on
/// the order too much.
fn draw(kind: OpKind, dtype: DType) -> Draw {
    match kind {
        OpKind::Add if dtype.is_float() => Draw::Summands,
        OpKind::Multiply if dtype.is_float() => Draw::Factors,
        _ => Draw::Any,
    }
}

pub(super) fn reduce(s: &mut Sketch) -> Made<Vec<Value>> {
    let plane = s.plane();
    let mut results = Vec::new();
    for kind in combiners(s) {
        let x = s.input(draw(kind, s.dtype), &plane, s.dtype);
        let init = s.splat(neutral(kind, s.dtype), &[])?;
        for dims in [vec![1], vec![0], vec![0, 1], vec![]] {
            let region = s.combiner(kind, s.dtype)?;
            results.extend(s.ops(OpKind::Reduce, &[x, init], &[("dims", dims.into())], &[region], None)?);
        }
    }
    results.extend(argument(s)?);
    Ok(results)
}

/// Reduces to the largest and the smallest element, with its index.
fn argument(s: &mut Sketch) -> Made<Vec<Value>> {
    let plane = s.plane();
    let x = s.input(Draw::Any, &plane, s.dtype);
    let mut results = Vec::new();
    for (axis, largest) in [(0, true), (1, false)] {
        let ty = TensorType::new(plane.to_vec(), DType::I64);
        let places = s.op_as(OpKind::Iota, &[], &[("dim", Attr::Int(axis))], ty)?;
        let init = s.splat(neutral(if largest { OpKind::Maximum } else { OpKind::Minimum }, s.dtype), &[])?;
        let first = s.scalar(DType::I64, 0)?;
        let dtype = s.dtype;
        let region = s.build(|b| body::argument(b, largest, dtype, DType::I64))?;
        let dims = [("dims", vec![axis].into())];
        results.extend(s.ops(OpKind::Reduce, &[x, places, init, first], &dims, &[region], None)?);
    }
    Ok(results)
}

pub(super) fn cumulative(s: &mut Sketch) -> Made<Vec<Value>> {
    let plane = s.plane();
    let mut results = Vec::new();
    for (i, kind) in combiners(s).into_iter().enumerate() {
        let x = s.input(draw(kind, s.dtype), &plane, s.dtype);
        let init = s.splat(neutral(kind, s.dtype), &[])?;
        let region = s.combiner(kind, s.dtype)?;
        let attrs = [("dim", Attr::Int(i as i64 % 2)), ("reverse", Attr::Bool(i % 3 == 1))];
        results.extend(s.ops(OpKind::Cumulative, &[x, init], &attrs, &[region], None)?);
    }
    Ok(results)
}

pub(super) fn window(s: &mut Sketch) -> Made<Vec<Value>> {
    let plane = s.plane();
    let dims = |a: i64, b: i64| Attr::Dims(vec![Dim::constant(a), Dim::constant(b)]);
    let mut results = Vec::new();
    for (i, kind) in combiners(s).into_iter().enumerate() {
        let x = s.input(draw(kind, s.dtype), &plane, s.dtype);
        let init = s.splat(neutral(kind, s.dtype), &[])?;
        let region = s.combiner(kind, s.dtype)?;
        let attrs: [(&str, Attr); 6] = match i % 2 {
            0 => [
                ("window_dimensions", dims(1, 3)),
                ("window_strides", vec![1, 2].into()),
                ("padding_low", dims(0, 1)),
                ("padding_high", dims(0, 1)),
                ("base_dilations", vec![1, 1].into()),
                ("window_dilations", vec![1, 1].into()),
            ],
            _ => [
                ("window_dimensions", dims(2, 2)),
                ("window_strides", vec![2, 1].into()),
                ("padding_low", dims(1, 0)),
                ("padding_high", dims(1, 0)),
                ("base_dilations", vec![2, 1].into()),
                ("window_dilations", vec![1, 3].into()),
            ],
        };
        results.extend(s.ops(OpKind::ReduceWindow, &[x, init], &attrs, &[region], None)?);
    }
    Ok(results)
}

/// Makes matmuls: of matrices, of batches, of vectors, and one whose result is wider.
pub(super) fn dot_general(s: &mut Sketch) -> Made<Vec<Value>> {
    let ([a, b], c) = (s.plane(), s.size(2));
    let x = s.input(Draw::Summands, &[a.clone(), b.clone()], s.dtype);
    let y = s.input(Draw::Summands, &[b.clone(), c.clone()], s.dtype);
    let z = s.input(Draw::Summands, &[a.clone(), b.clone(), c.clone()], s.dtype);
    let dims = |l: &[i64], r: &[i64], lb: &[i64], rb: &[i64]| -> Vec<(&'static str, Attr)> {
        vec![
            ("lhs_contracting_dims", l.to_vec().into()),
            ("rhs_contracting_dims", r.to_vec().into()),
            ("lhs_batching_dims", lb.to_vec().into()),
            ("rhs_batching_dims", rb.to_vec().into()),
        ]
    };
    let wide = if s.dtype.is_float() { DType::F32 } else { DType::I32 };
    Ok(vec![
        s.op(OpKind::DotGeneral, &[x, y], &dims(&[1], &[0], &[], &[]))?,
        s.op(OpKind::DotGeneral, &[x, z], &dims(&[1], &[1], &[0], &[0]))?,
        s.op(OpKind::DotGeneral, &[z, z], &dims(&[2], &[2], &[0], &[0]))?,
        s.op(OpKind::DotGeneral, &[x, x], &dims(&[0, 1], &[0, 1], &[], &[]))?,
        s.op(OpKind::DotGeneral, &[y, y], &[dims(&[0], &[0], &[], &[]), vec![("dtype", wide.into())]].concat())?,
    ])
}

/// Makes a convolution with strides and padding, and one in groups with dilated inputs, channels
/// last.
pub(super) fn convolution(s: &mut Sketch) -> Made<Vec<Value>> {
    let [a, b] = s.plane();
    let two = Dim::constant(2);
    let x = s.input(Draw::Summands, &[a, two.clone(), b], s.dtype);
    let kernel = s.input(Draw::Summands, &[Dim::constant(3), two.clone(), s.size(2)], s.dtype);
    let each = s.input(Draw::Summands, &[Dim::constant(4), Dim::constant(1), two], s.dtype);
    let layout = |names: [&'static str; 3], axes: [i64; 3]| -> Vec<(&'static str, Attr)> {
        vec![(names[0], Attr::Int(axes[0])), (names[1], Attr::Int(axes[1])), (names[2], Attr::Ints(vec![axes[2]]))]
    };
    let input = ["input_batch_dimension", "input_feature_dimension", "input_spatial_dimensions"];
    let filter = ["kernel_output_feature_dimension", "kernel_input_feature_dimension", "kernel_spatial_dimensions"];
    let output = ["output_batch_dimension", "output_feature_dimension", "output_spatial_dimensions"];
    let dims = |value: i64| Attr::Dims(vec![Dim::constant(value)]);
    let plain = [layout(input, [0, 1, 2]), layout(filter, [0, 1, 2]), layout(output, [0, 1, 2])].concat();
    let strided = [("window_strides", vec![2].into()), ("padding_low", dims(1)), ("padding_high", dims(1))];
    let last = [layout(input, [0, 1, 2]), layout(filter, [0, 1, 2]), layout(output, [0, 2, 1])].concat();
    let grouped = [
        ("feature_group_count", Attr::Int(2)),
        ("lhs_dilation", vec![2].into()),
        ("rhs_dilation", vec![2].into()),
        ("padding_low", dims(2)),
        ("window_reversal", vec![1].into()),
    ];
    Ok(vec![
        s.op(OpKind::Convolution, &[x, kernel], &[&plain[..], &strided[..]].concat())?,
        s.op(OpKind::Convolution, &[x, each], &[&last[..], &grouped[..]].concat())?,
    ])
}

pub(super) fn unpack_int4(s: &mut Sketch) -> Made<Vec<Value>> {
    let ([a, b], three) = (s.plane(), Dim::constant(3));
    let words = s.input(Draw::Any, &[a.clone(), b.clone(), Dim::constant(2), three.clone()], DType::I32);
    let scales = s.input(Draw::Any, &[a, b, three], DType::F32);
    Ok(vec![s.op(OpKind::UnpackInt4, &[words, scales], &[])?])
}

/// Makes a `winograd` with any operand in place of the product; the interpreter returns it.
pub(super) fn winograd(s: &mut Sketch) -> Made<Vec<Value>> {
    let ([a, b], two) = (s.plane(), Dim::constant(2));
    let product = s.input(Draw::Any, &[a.clone(), two.clone(), b.clone(), b.clone()], s.dtype);
    let input = s.input(Draw::Any, &[a, two.clone(), b.clone(), b], s.dtype);
    let kernel = s.input(Draw::Any, &[Dim::constant(1), Dim::constant(36), two.clone(), two], DType::F32);
    let padding = Attr::Dims(vec![Dim::constant(1), Dim::constant(1)]);
    Ok(vec![s.op(OpKind::Winograd, &[product, input, kernel], &[("padding_low", padding)])?])
}
