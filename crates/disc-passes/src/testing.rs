//! Runs passes on text in tests, and checks with the interpreter that programs keep their meaning.
use crate::{
    options::Options,
    pass::{PassDef, PassManager},
};
use disc_ir::{
    Code, DType, Dim, FunctionKind, Module, Symbol, TensorType,
    interp::{self, Limits, Tensor},
    text,
};
use std::collections::{BTreeMap, BTreeSet};

pub(crate) fn parse(source: &str) -> Module {
    text::parse(source).unwrap_or_else(|errors| panic!("{source}\n{}", errors[0]))
}

/// Returns the text after a pass; it must parse, be well formed, and mean the same.
pub(crate) fn after(pass: &PassDef, source: &str) -> String {
    after_all(&[pass], source, Options::default())
}

pub(crate) fn after_all(passes: &[&PassDef], source: &str, options: Options) -> String {
    let mut module = parse(source);
    let before = module.clone();
    let mut manager = PassManager::new(options);
    for pass in passes {
        manager.run(&mut module, pass).unwrap_or_else(|error| panic!("{module}\n{error}"));
    }
    let printed = module.to_string();
    assert_eq!(parse(&printed).to_string(), printed);
    same_meaning(&before, &module);
    printed
}

/// Checks that every function of `before` that is still there gives the same results in `after`, on
/// edge values and small sizes.
pub(crate) fn same_meaning(before: &Module, after: &Module) {
    for function in before.functions.iter().filter(|f| f.kind == FunctionKind::Func && after.function(&f.name).is_some()) {
        let types: Vec<&TensorType> = function.parameters().iter().filter_map(|&p| function.ty(p).as_tensor()).collect();
        for row in rows(&types) {
            let Some(inputs) = types.iter().enumerate().map(|(i, ty)| tensor(ty, &row, i)).collect::<Option<Vec<Tensor>>>()
            else {
                continue;
            };
            let run = |module: &Module| {
                let weight = |name: &str| {
                    let weight = before.weight(name)?;
                    tensor(&weight.ty, &row, name.len())
                };
                interp::run_with(module, &function.name, &inputs, &weight, Limits::default())
            };
            match (run(before), run(after)) {
                (Ok(wanted), Ok(got)) => {
                    let equal = wanted.len() == got.len() && wanted.iter().zip(&got).all(|(a, b)| same(a, b));
                    assert!(equal, "@{} of {inputs:?}\nbefore: {wanted:?}\nafter: {got:?}\n{after}", function.name);
                }
                (Err(wanted), Err(got)) if wanted.code == got.code && FAILURES.contains(&got.code) => {}
                (wanted, got) => panic!("@{} for {row:?}\nbefore: {wanted:?}\nafter: {got:?}\n{after}", function.name),
            }
        }
    }
}

/// The errors that a program may raise; others are faults of the compiler.
const FAILURES: [Code; 3] = [Code::E0602, Code::E0603, Code::E0604];

type Row = BTreeMap<Symbol, i64>;

fn rows(types: &[&TensorType]) -> Vec<Row> {
    let symbols: BTreeSet<Symbol> = types.iter().flat_map(|ty| &ty.dims).flat_map(Dim::symbols).collect();
    let mut rows = vec![Row::new()];
    for symbol in symbols {
        let with = |row: &Row, size| row.iter().map(|(s, n)| (s.clone(), *n)).chain([(symbol.clone(), size)]).collect();
        rows = rows.iter().flat_map(|row| [0, 1, 3].map(|size| with(row, size))).collect();
    }
    rows
}

/// Values at which rules go wrong.
const FLOATS: [f64; 13] = [
    1.5,
    -0.0,
    0.0,
    -3.0,
    f64::INFINITY,
    f64::NEG_INFINITY,
    f64::NAN,
    f32::MIN_POSITIVE as f64,
    1e-45,
    f32::MAX as f64,
    0.1,
    -2.0,
    7.25,
];
const INTS: [i64; 7] = [1, 0, -1, i64::MIN, i64::MAX, -128, 77];

fn tensor(ty: &TensorType, row: &Row, seed: usize) -> Option<Tensor> {
    let sizes = ty.dims.iter().map(|dim| dim.eval(&|symbol| row.get(symbol).copied()).ok().filter(|&size| size >= 0));
    let sizes: Vec<i64> = sizes.collect::<Option<_>>()?;
    let count = sizes.iter().product::<i64>() as usize;
    let made = if ty.dtype.is_float() {
        // A step that shares no factor with the count visits every value.
        let values: Vec<f64> = (0..count).map(|i| FLOATS[(seed * 3 + i * 5) % FLOATS.len()]).collect();
        Tensor::from_f64s(ty.dtype, &sizes, &values)
    } else {
        let ints = |i: usize| INTS[(seed * 2 + i * 3) % INTS.len()];
        let values: Vec<i64> = (0..count).map(|i| if ty.dtype == DType::I1 { ints(i) & 1 } else { ints(i) }).collect();
        Tensor::from_i64s(ty.dtype, &sizes, &values)
    };
    made.ok()
}

/// Returns true for equal bits, two NaNs, or results a rounding or two apart, as of `power`.
fn same(a: &Tensor, b: &Tensor) -> bool {
    let close =
        |(x, y): (f64, f64)| x.to_bits() == y.to_bits() || x.is_nan() && y.is_nan() || x != 0.0 && ((x - y) / x).abs() < 2e-7;
    let equal = a.bytes() == b.bytes() || a.dtype().is_float() && a.to_f64s().into_iter().zip(b.to_f64s()).all(close);
    a.dtype() == b.dtype() && a.dims() == b.dims() && equal
}
