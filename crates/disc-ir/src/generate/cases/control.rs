//! Makes programs of sorts, random bits, and control flow.
use super::{
    Draw,
    sketch::{Made, Sketch},
};
use crate::{
    attr::Attr,
    dim::Dim,
    graph::{Function, FunctionKind, Value},
    ops::{
        OpKind,
        body::{self, Order},
    },
    types::{DType, TensorType, Type},
};

/// Makes a sort of only one input, and one with another input that follows it.
pub(super) fn sort(s: &mut Sketch) -> Made<Vec<Value>> {
    let plane = s.plane();
    let x = s.input(Draw::Any, &plane, s.dtype);
    let y = s.input(Draw::Any, &plane, DType::I32);
    let dtype = s.dtype;
    let attrs = |axis| [("dimension", Attr::Int(axis)), ("is_stable", Attr::Bool(true))];
    let alone = s.build(|b| body::comparator(b, Order::Ascending, &[dtype]))?;
    let pairs = s.build(|b| body::comparator(b, Order::Descending, &[dtype, DType::I32]))?;
    let alone = s.ops(OpKind::Sort, &[x], &attrs(1), &[alone], None)?;
    Ok([alone, s.ops(OpKind::Sort, &[x, y], &attrs(0), &[pairs], None)?].concat())
}

pub(super) fn top_k(s: &mut Sketch) -> Made<Vec<Value>> {
    let [a, b] = s.plane();
    let x = s.input(Draw::Any, &[a, b.clone()], s.dtype);
    let half = b.floor_div(&Dim::constant(2));
    let largest = s.ops(OpKind::TopK, &[x], &[("k", half.clone().into())], &[], None)?;
    let behind = s.ops(OpKind::TopK, &[x], &[("k", (&b - &half).into()), ("skip", half.into())], &[], None)?;
    let attrs = [("k", b.into()), ("largest", Attr::Bool(false)), ("index_dtype", DType::I64.into())];
    Ok([largest, behind, s.ops(OpKind::TopK, &[x], &attrs, &[], None)?].concat())
}

pub(super) fn random_bits(s: &mut Sketch) -> Made<Vec<Value>> {
    let plane = s.plane();
    s.input(Draw::Any, &plane, DType::F32);
    let mut results = Vec::new();
    for entries in [2, 3] {
        let state = s.input(Draw::Any, &[Dim::constant(entries)], DType::U64);
        let types = vec![Type::tensor([Dim::constant(entries)], DType::U64), Type::tensor(plane.to_vec(), s.dtype)];
        results.extend(s.ops(OpKind::RngBitGenerator, &[state], &[], &[], Some(types))?);
    }
    Ok(results)
}

/// Makes an assertion that holds if a value of the caller does; it names another value.
pub(super) fn assert(s: &mut Sketch) -> Made<Vec<Value>> {
    let x = s.input(Draw::Any, &s.plane(), DType::F32);
    let (holds, value) = (s.input(Draw::Truth, &[], DType::I1), s.input(Draw::Any, &[], s.dtype));
    let message = Attr::Str("the value is {0}".into());
    s.ops(OpKind::Assert, &[holds, value], &[("message", message)], &[], None)?;
    Ok(vec![s.op(OpKind::Negate, &[x], &[])?])
}

pub(super) fn call(s: &mut Sketch) -> Made<Vec<Value>> {
    let x = s.input(Draw::Any, &s.plane(), s.dtype);
    let ty = Type::tensor([Dim::symbol("M"), Dim::symbol("N")], s.dtype);
    let mut callee = Function::new("callee", FunctionKind::Func);
    let parameter = callee.add_argument(callee.body, ty.clone());
    let mut builder = crate::build::Builder::new(&mut callee);
    let turned = builder.op(OpKind::Reverse).operands(&[parameter]).attr("dims", vec![0, 1]).value()?;
    builder.ret(&[turned, parameter])?;
    callee.results = vec![ty.clone(), ty];
    s.others.push(callee);
    let types = vec![s.function.ty(x).clone(); 2];
    let first = s.ops(OpKind::Call, &[x], &[("callee", Attr::Symbol("callee".into()))], &[], Some(types.clone()))?;
    s.ops(OpKind::Call, &first[..1], &[("callee", Attr::Symbol("callee".into()))], &[], Some(types))
        .map(|second| [first, second].concat())
}

pub(super) fn if_(s: &mut Sketch) -> Made<Vec<Value>> {
    let plane = s.plane();
    let pred = s.input(Draw::Truth, &[], DType::I1);
    let (x, y) = (s.input(Draw::Any, &plane, s.dtype), s.input(Draw::Any, &plane, s.dtype));
    s.build(|b| {
        let turn = |b: &mut crate::build::Builder<'_>| b.op(OpKind::Reverse).operands(&[x]).attr("dims", vec![1]).value();
        let then = b.region([], |b, _| {
            let turned = turn(b)?;
            b.ret(&[turned, x]).map(drop)
        })?;
        let otherwise = b.region([], |b, _| b.ret(&[y, y]).map(drop))?;
        let inst = b.op(OpKind::If).operands(&[pred]).region(then).region(otherwise).build()?;
        Ok(b.function.results_of(inst).to_vec())
    })
}

/// Returns the parameters, once and twice.
pub(super) fn ret(s: &mut Sketch) -> Made<Vec<Value>> {
    let x = s.input(Draw::Any, &s.plane(), s.dtype);
    let y = s.input(Draw::Any, &[], s.dtype);
    Ok(vec![y, x, x])
}

/// Swaps two values as often as a dim says, and transposes one of them.
pub(super) fn while_(s: &mut Sketch) -> Made<Vec<Value>> {
    let plane = s.plane();
    let (x, y) = (s.input(Draw::Any, &plane, s.dtype), s.input(Draw::Any, &plane, s.dtype));
    let (zero, one) = (s.scalar(DType::I64, 0)?, s.scalar(DType::I64, 1)?);
    let rounds = s.op_as(OpKind::DimValue, &[], &[("value", s.size(0).into())], TensorType::scalar(DType::I64))?;
    let ty = Type::tensor(plane, s.dtype);
    let types = [Type::tensor([], DType::I64), ty.clone(), ty];
    s.build(|b| {
        let cond = b.region(types.clone(), |b, args| {
            let more = b.op(OpKind::Compare).operands(&[args[0], rounds]).attr("direction", "LT").value()?;
            b.ret(&[more]).map(drop)
        })?;
        let step = b.region(types, |b, args| {
            let next = b.emit(OpKind::Add, &[args[0], one])?;
            let turned = b.op(OpKind::Reverse).operands(&[args[1]]).attr("dims", vec![1]).value()?;
            b.ret(&[next, args[2], turned]).map(drop)
        })?;
        let inst = b.op(OpKind::While).operands(&[zero, x, y]).region(cond).region(step).build()?;
        Ok(b.function.results_of(inst).to_vec())
    })
}
