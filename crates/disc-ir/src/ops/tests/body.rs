//! Recognises generated bodies, and rejects bodies that differ slightly.
use super::*;
use crate::{
    build::Builder,
    graph::{Block, Function, FunctionKind, Value},
    ops::body::{self, Body, Order},
};

/// A function with a region made by `make`.
fn with_region(make: impl FnOnce(&mut Builder<'_>) -> Block) -> (Function, Block) {
    let mut function = Function::new("f", FunctionKind::Func);
    let block = make(&mut Builder::new(&mut function));
    (function, block)
}

fn custom(types: &[&str], fill: impl FnOnce(&mut Builder<'_>, &[Value]) -> Vec<Value>) -> (Function, Block) {
    with_region(|b| {
        b.region(types.iter().map(|text| ty(text)), |b, args| {
            let values = fill(b, args);
            b.ret(&values).map(drop)
        })
        .unwrap()
    })
}

fn compare(b: &mut Builder<'_>, direction: &'static str, x: Value, y: Value) -> Value {
    b.op(OpKind::Compare).operands(&[x, y]).attr("direction", direction).value().unwrap()
}

#[test]
fn a_single_commutative_associative_op_is_a_monoid() {
    for (kind, dtype) in [(OpKind::Add, DType::F32), (OpKind::Maximum, DType::I64), (OpKind::Or, DType::I1)] {
        let (f, region) = with_region(|b| body::combine(b, kind, dtype).unwrap());
        assert_eq!(body::monoid(&f, region), Some(kind));
        assert_eq!(body::classify(&f, region), Body::Monoid(kind));
    }
    let (f, region) = with_region(|b| body::combine(b, OpKind::Subtract, DType::F32).unwrap());
    assert_eq!(body::classify(&f, region), Body::General);
    let (f, region) = custom(&["f32", "f32"], |b, args| vec![b.emit(OpKind::Add, &[args[1], args[1]]).unwrap()]);
    assert_eq!(body::classify(&f, region), Body::General);
    let (f, region) = custom(&["f32", "f32"], |b, args| vec![b.emit(OpKind::Add, &[args[1], args[0]]).unwrap()]);
    assert_eq!(body::classify(&f, region), Body::Monoid(OpKind::Add));
}

#[test]
fn the_made_argument_bodies_are_recognised() {
    for dtype in [DType::F32, DType::BF16, DType::I32, DType::U8] {
        for largest in [true, false] {
            let (f, region) = with_region(|b| body::argument(b, largest, dtype, DType::I64).unwrap());
            assert_eq!(body::classify(&f, region), Body::Argument { largest }, "{dtype}");
        }
    }
}

/// `select(compare(direction, a, b), a, b)` on values and indices.
fn plain_choice(dtype: &str, direction: &'static str) -> (Function, Block) {
    custom(&[dtype, "i32", dtype, "i32"], |b, args| {
        let wins = compare(b, direction, args[0], args[2]);
        let value = b.emit(OpKind::Select, &[wins, args[0], args[2]]).unwrap();
        let place = b.emit(OpKind::Select, &[wins, args[1], args[3]]).unwrap();
        vec![value, place]
    })
}

#[test]
fn a_choice_must_prefer_the_first_and_nan() {
    let classify = |(f, region): (Function, Block)| body::classify(&f, region);
    assert_eq!(classify(plain_choice("i32", "GE")), Body::Argument { largest: true });
    assert_eq!(classify(plain_choice("i32", "LE")), Body::Argument { largest: false });
    assert_eq!(classify(plain_choice("i32", "GT")), Body::General, "takes the last of equal values");
    assert_eq!(classify(plain_choice("f32", "GE")), Body::General, "drops a NaN on the left");
}

#[test]
fn arithmetic_and_outer_values_make_a_choice_general() {
    let (f, region) = custom(&["i32", "i32", "i32", "i32"], |b, args| {
        let doubled = b.emit(OpKind::Add, &[args[0], args[0]]).unwrap();
        let wins = compare(b, "GE", doubled, args[2]);
        let value = b.emit(OpKind::Select, &[wins, args[0], args[2]]).unwrap();
        let place = b.emit(OpKind::Select, &[wins, args[1], args[3]]).unwrap();
        vec![value, place]
    });
    assert_eq!(body::classify(&f, region), Body::General);
    let (f, region) = custom(&["i32", "i32", "i32", "i32"], |b, args| {
        let mixed = compare(b, "GE", args[0], args[1]);
        let value = b.emit(OpKind::Select, &[mixed, args[0], args[2]]).unwrap();
        vec![value, args[1]]
    });
    assert_eq!(body::classify(&f, region), Body::General);
}

#[test]
fn the_made_comparators_are_recognised() {
    for order in [Order::Ascending, Order::Descending] {
        for dtypes in [&[DType::F32, DType::I64][..], &[DType::I32], &[DType::F16]] {
            let (f, region) = with_region(|b| body::comparator(b, order, dtypes).unwrap());
            assert_eq!(body::order(&f, region), Some(order), "{dtypes:?}");
        }
    }
}

#[test]
fn a_comparator_must_place_nan_and_be_strict() {
    let order = |dtype, direction| {
        let (f, region) = custom(&[dtype, dtype], |b, args| vec![compare(b, direction, args[0], args[1])]);
        body::order(&f, region)
    };
    assert_eq!(order("i32", "LT"), Some(Order::Ascending));
    assert_eq!(order("u8", "GT"), Some(Order::Descending));
    assert_eq!(order("i32", "LE"), None);
    assert_eq!(order("f32", "LT"), None);
}

#[test]
fn an_index_op_is_pure_unless_it_checks() {
    let text = "func @f(%x: tensor<4xf32>, %i: tensor<i64>) -> (tensor<2xf32>, tensor<2xf32>) {\n\
        %a = dynamic_slice %x, %i, sizes = [2] : (tensor<4xf32>, tensor<i64>) -> tensor<2xf32>\n\
        %b = dynamic_slice %x, %i, sizes = [2], bounds = check : (tensor<4xf32>, tensor<i64>) -> tensor<2xf32>\n\
        return %a, %b : (tensor<2xf32>, tensor<2xf32>)\n}";
    let module = crate::text::parse(text).unwrap();
    let function = &module.functions[0];
    let pure: Vec<bool> = function.insts(function.body).iter().map(|&inst| is_pure(function.inst(inst))).collect();
    assert_eq!(pure, [true, false, false]);
}
