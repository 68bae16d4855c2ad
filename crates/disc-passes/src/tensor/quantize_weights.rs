//! Quantises the weights of matmuls, if the user asked for it: to bf16, or to integers with scales.
//!
//! A matmul in f32 with weights on the right reads them in the stored form and computes in f32:
//!
//! - bf16: each weight is rounded to nearest.
//! - int8: one scale per column, such that its largest magnitude is 127; the sums are multiplied by
//!   the scale. A column with an infinity or a NaN gives only NaN or infinite results.
//! - int4: one scale for each block of 32 weights along the sum, such that its largest magnitude is
//!   7. This is the symmetric form with blocks of 32 of ONNX's `MatMulNBits` and of ggml's `Q4_0`,
//!   with values from -7 to 7.
//!
//! Rows that are multiplied by int8 weights become integers too, if the option `activations` asks
//! for it: one scale per row, such that its largest magnitude is 127; products are summed as
//! integers, exactly, and the sums multiplied by both scales. This is the dynamic, symmetric form
//! of ONNX Runtime's and of torchao's quantised linear layers.
//!
//! Invariants: without the option nothing changes; weights that are stored as narrow already stay;
//! the narrow form depends only on weights, so that the pass `prepare` makes it when weights are
//! loaded.
use crate::{
    analysis::{call_invariant::CallInvariant, cost_model::CostModel, query::Query},
    options::{ActivationForm, WeightForm},
    pass::{PassCx, PassDef},
    rules::{
        dead_ops,
        rewrite::{Rewriter, visit},
    },
    tensor::pack_weights::{self, Matrix, matrix, stored},
};
use disc_ir::{DType, Diagnostic, Dim, FunctionKind, Inst, Literal, Module, OpKind, Solver, Type, Value, ops::Stage};
use std::sync::Arc;

/// Stores matmul weights in the form of the option `weights`.
pub static PASS: PassDef = PassDef {
    name: "quantize-weights",
    doc: "Stores right-hand f32 weights of matmuls in the form of the option `weights`: rounded to bf16, as 8-bit integers \
          with a scale per column that multiplies the sums, or as 4-bit integers with a scale per 32 weights of a column. \
          Without the option nothing changes.",
    stages: (Stage::Tensor, Stage::Tensor),
    run,
};

/// Smaller matrices stay: there is nothing to gain.
const FEW_ELEMENTS: i64 = 1 << 10;
/// The quantised value of the largest magnitude of a column.
const STEPS: f64 = 127.0;
/// The same for 4 bits.
const FEW_STEPS: f64 = 7.0;
/// The most products of 8-bit values whose sum always fits 32 bits; rows of longer sums stay.
const MOST_TERMS: i64 = i32::MAX as i64 / (127 * 127);
/// Weights of a column that share a scale, and values in a word.
const BLOCK: i64 = 32;
const IN_WORD: i64 = 8;

fn run(module: &mut Module, cx: &mut PassCx) -> Result<usize, Diagnostic> {
    let (form, activations, model) = (cx.options.weights, cx.options.activations, cx.options.model.clone());
    let width = model.panel_columns();
    let Some(dtype) = form.dtype() else { return Ok(0) };
    if form == WeightForm::Int4 && width <= 0 {
        return Ok(0);
    }
    let mut narrowed = 0;
    for function in module.functions.iter_mut().filter(|f| f.kind == FunctionKind::Func) {
        let (fixed, solver) = (CallInvariant::of(function), Arc::new(Solver::new(&function.facts)));
        narrowed += visit(function, &solver, &mut |rw, inst| {
            let Some(matrix) = wide(rw, inst, &fixed, (dtype, &*model)) else { return Ok(None) };
            let product = match form {
                _ if !cx.spend() => None,
                WeightForm::Int4 => in_blocks(rw, inst, matrix, width),
                WeightForm::Int8 if activations == ActivationForm::Int8 && matrix.rows <= MOST_TERMS => {
                    scaled_rows(rw, inst, matrix)
                }
                WeightForm::Int8 => scaled(rw, inst, matrix),
                _ => rounded(rw, inst, matrix, dtype),
            };
            rw.take_error().map(|()| product)
        })?;
        dead_ops::remove_dead(function);
    }
    Ok(narrowed)
}

/// The f32 matrix of a matmul that gets smaller by being stored as `dtype`.
fn wide(rw: &Rewriter<'_>, inst: Inst, fixed: &CallInvariant, (dtype, model): (DType, &dyn CostModel)) -> Option<Matrix> {
    let matrix = matrix(rw, inst, fixed, model)?;
    let is_f32 = |value: Value| rw.f.ty(value).dtype() == DType::F32;
    let holds = rw.f.ty(stored(rw, matrix.value)).dtype().size() > dtype.size();
    let is_large = matrix.rows.saturating_mul(matrix.columns) >= FEW_ELEMENTS;
    (holds && is_large && is_f32(matrix.value) && is_f32(rw.f.result(inst))).then_some(matrix)
}

/// `dot(x, w)` as `dot(x, f32(dtype(w)))`.
fn rounded(rw: &mut Rewriter<'_>, inst: Inst, matrix: Matrix, dtype: DType) -> Option<Value> {
    let narrow = convert(rw, matrix.value, dtype)?;
    product(rw, inst, narrow)
}

/// `dot(x, w)` as `dot(x, f32(i8(round(w / s)))) * s`.
fn scaled(rw: &mut Rewriter<'_>, inst: Inst, matrix: Matrix) -> Option<Value> {
    let (narrow, scale) = steps_of(rw, matrix)?;
    let sums = product(rw, inst, narrow)?;
    let dims = rw.f.shape(sums).to_vec();
    let scale = rw.broadcast(scale, &[dims.len() - 1], dims)?;
    rw.emit(OpKind::Multiply, &[sums, scale])
}

/// Gives a matrix as integers of 8 bits, and the scale of each column.
fn steps_of(rw: &mut Rewriter<'_>, matrix: Matrix) -> Option<(Value, Value)> {
    let scale = scale(rw, matrix.value, matrix.sum_axis, STEPS)?;
    let dims = rw.f.shape(matrix.value).to_vec();
    let wide = rw.broadcast(scale, &[1 - matrix.sum_axis], dims)?;
    let steps = rw.emit(OpKind::Divide, &[matrix.value, wide])?;
    let whole = rw.emit(OpKind::RoundNearestEven, &[steps])?;
    Some((convert(rw, whole, DType::I8)?, scale))
}

/// `dot(x, w)` as `f32(dot(i8(round(x / r)), i8(round(w / s)))) * (r * s)`, with a scale `r` for
/// each row.
fn scaled_rows(rw: &mut Rewriter<'_>, inst: Inst, matrix: Matrix) -> Option<Value> {
    let rows = rw.f.operands(inst)[0];
    let axis = *rw.f.axes(inst, "lhs_contracting_dims").first()?;
    let dims = rw.f.shape(rows).to_vec();
    let kept: Vec<usize> = (0..dims.len()).filter(|&dim| dim != axis).collect();
    let of_rows = scale(rw, rows, axis, STEPS)?;
    let one = rw.constant(of_rows, Literal::splat_f64(DType::F32, 1.0))?;
    let inverse = rw.emit(OpKind::Divide, &[one, of_rows])?;
    let inverse = rw.broadcast(inverse, &kept, dims)?;
    let steps = rw.emit(OpKind::Multiply, &[rows, inverse])?;
    let whole = rw.emit(OpKind::RoundNearestEven, &[steps])?;
    let (rows, (matrix, of_columns)) = (convert(rw, whole, DType::I8)?, steps_of(rw, matrix)?);
    let (def, mut attrs) = (rw.f.def(inst), rw.f.inst(inst).attrs.clone());
    attrs[def.attr_position("dtype").expect("an attribute of the op")] = Some(DType::I32.into());
    let sums = rw.build(|b| b.op(OpKind::DotGeneral).operands(&[rows, matrix]).attrs(attrs).value())?;
    let (sums, dims) = (convert(rw, sums, DType::F32)?, rw.f.shape(sums).to_vec());
    // The rows' dimensions come before the columns'.
    let along: Vec<usize> = (0..kept.len()).collect();
    let (of_rows, of_columns) = (rw.broadcast(of_rows, &along, dims.clone())?, rw.broadcast(of_columns, &[kept.len()], dims)?);
    let scale = rw.emit(OpKind::Multiply, &[of_rows, of_columns])?;
    rw.emit(OpKind::Multiply, &[sums, scale])
}

/// `dot(x, w)` as `dot(x, unpack_int4(words, scales))`, in panels.
fn in_blocks(rw: &mut Rewriter<'_>, inst: Inst, matrix: Matrix, width: i64) -> Option<Value> {
    let blocks = pack_weights::panels(rw, matrix, width, BLOCK)?;
    let scales = scale(rw, blocks, 3, FEW_STEPS)?;
    let dims = rw.f.shape(blocks).to_vec();
    let wide = rw.broadcast(scales, &[0, 1, 2], dims.clone())?;
    let steps = rw.emit(OpKind::Divide, &[blocks, wide])?;
    let whole = rw.emit(OpKind::RoundNearestEven, &[steps])?;
    let whole = convert(rw, whole, DType::I32)?;
    let words = words(rw, whole)?;
    let matrix_again = rw.emit(OpKind::UnpackInt4, &[words, scales])?;
    pack_weights::product(rw, inst, matrix_again, matrix.columns)
}

/// Packs values `[P, G, NR, 32]` into words `[P, G, 4, NR]`, the first of eight in the lowest bits.
fn words(rw: &mut Rewriter<'_>, steps: Value) -> Option<Value> {
    let mut dims = rw.f.shape(steps).to_vec();
    dims.truncate(3);
    dims.extend([BLOCK / IN_WORD, IN_WORD].map(Dim::constant));
    let steps = rw.reshape(steps, dims.clone())?;
    let bits = rw.constant(steps, Literal::splat_i64(DType::I32, 15))?;
    let bits = rw.emit(OpKind::And, &[steps, bits])?;
    let number = rw.build(|b| b.op(OpKind::Iota).attr("dim", 4_i64).result(Type::tensor(dims, DType::I32)).value())?;
    let four = rw.constant(number, Literal::splat_i64(DType::I32, 4))?;
    let place = rw.emit(OpKind::Multiply, &[number, four])?;
    let placed = rw.emit(OpKind::ShiftLeft, &[bits, place])?;
    let words = reduce(rw, placed, 4, OpKind::Add)?;
    rw.transpose(words, &[0, 1, 3, 2])
}

/// Reduces a tensor along an axis, starting from 0.
fn reduce(rw: &mut Rewriter<'_>, value: Value, axis: usize, kind: OpKind) -> Option<Value> {
    let scalar = Type::tensor([], rw.f.ty(value).dtype());
    let zero = Literal::splat_i64(scalar.dtype(), 0);
    let zero = rw.build(|b| b.op(OpKind::Constant).attr("value", zero).result(scalar.clone()).value())?;
    rw.build(|b| {
        let body = b.region([scalar.clone(), scalar], |b, args| {
            let combined = b.emit(kind, args)?;
            b.ret(&[combined]).map(drop)
        })?;
        b.op(OpKind::Reduce).operands(&[value, zero]).attr("dims", vec![axis as i64]).region(body).value()
    })
}

/// The scale that maps the largest magnitude along an axis to `steps`. It is a normal number, also
/// for zeros.
fn scale(rw: &mut Rewriter<'_>, weights: Value, axis: usize, steps: f64) -> Option<Value> {
    let magnitude = rw.emit(OpKind::Abs, &[weights])?;
    let largest = reduce(rw, magnitude, axis, OpKind::Maximum)?;
    let steps = rw.constant(largest, Literal::splat_f64(DType::F32, steps))?;
    let step = rw.emit(OpKind::Divide, &[largest, steps])?;
    let least = rw.constant(largest, Literal::splat_f64(DType::F32, f64::from(f32::MIN_POSITIVE)))?;
    rw.emit(OpKind::Maximum, &[step, least])
}

fn convert(rw: &mut Rewriter<'_>, value: Value, dtype: DType) -> Option<Value> {
    rw.build(|b| b.op(OpKind::Convert).operands(&[value]).attr("dtype", dtype).value())
}

/// The matmul with another matrix, which is converted to f32.
fn product(rw: &mut Rewriter<'_>, inst: Inst, narrow: Value) -> Option<Value> {
    let wide = convert(rw, narrow, DType::F32)?;
    let (left, attrs) = (rw.f.operands(inst)[0], rw.f.inst(inst).attrs.clone());
    rw.build(|b| b.op(OpKind::DotGeneral).operands(&[left, wide]).attrs(attrs).value())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{
        analysis::cost_model::NeutralModel,
        options::Options,
        pass::PassManager,
        tensor::prepare,
        testing::{after, parse},
    };
    use disc_ir::interp::{Limits, Tensor, run_with};

    const ROWS: usize = 32;
    const COLUMNS: usize = 40;

    fn linear() -> String {
        "weight @w : tensor<40x32xf32>
        func @f(%x: tensor<[B]x32xf32>) -> tensor<[B]x40xf32> {
          %w = weight @w : tensor<40x32xf32>
          %y = dot_general %x, %w, contracting_dims = [1] x [1] : (tensor<[B]x32xf32>, tensor<40x32xf32>) -> tensor<[B]x40xf32>
          return %y : tensor<[B]x40xf32>
        }"
        .into()
    }

    fn narrowed(source: &str, weights: WeightForm) -> Module {
        let mut module = parse(source);
        let mut manager = PassManager::new(Options { weights, ..Options::of(NeutralModel::with_panels(16)) });
        for pass in [&PASS, &pack_weights::PASS, &prepare::PASS] {
            manager.run(&mut module, pass).unwrap();
        }
        module
    }

    fn numbers(count: usize, seed: u64) -> Vec<f64> {
        let mut state = seed;
        let next = || {
            state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
            f64::from(((state >> 40) as f32) / 16_777_216.0 - 0.5)
        };
        std::iter::repeat_with(next).take(count).collect()
    }

    fn tensor(dims: &[i64], values: &[f64]) -> Tensor {
        Tensor::from_f64s(DType::F32, dims, values).unwrap()
    }

    fn run_on(module: &Module, x: &[f64], w: &[f64]) -> Vec<f64> {
        let x = tensor(&[(x.len() / ROWS) as i64, ROWS as i64], x);
        let weight = |name: &str| (name == "w").then(|| tensor(&[COLUMNS as i64, ROWS as i64], w));
        let results = run_with(module, "f", &[x], &weight, Limits::default()).unwrap();
        results[0].to_f64s()
    }

    #[test]
    fn results_are_within_the_stated_bounds() {
        let (x, w) = (numbers(3 * ROWS, 1), numbers(ROWS * COLUMNS, 2));
        for form in [WeightForm::Bf16, WeightForm::Int8, WeightForm::Int4] {
            let got = run_on(&narrowed(&linear(), form), &x, &w);
            for (i, &y) in got.iter().enumerate() {
                let (row, column) = (&x[i / COLUMNS * ROWS..][..ROWS], &w[i % COLUMNS * ROWS..][..ROWS]);
                let exact: f64 = row.iter().zip(column).map(|(a, b)| a * b).sum();
                let largest = column.iter().fold(0.0, |m: f64, v| m.max(v.abs()));
                let error = |(a, b): (&f64, &f64)| match form {
                    WeightForm::Bf16 => (a * b).abs() / 256.0,
                    // A column is one block.
                    WeightForm::Int4 => a.abs() * largest / 14.0,
                    _ => a.abs() * largest / 254.0,
                };
                let bound: f64 = row.iter().zip(column).map(error).sum::<f64>() + 1e-6;
                assert!((y - exact).abs() <= bound, "{form:?} {i}: {y} for {exact} +- {bound}");
                assert!((y - exact).abs() > 0.0 || exact == 0.0);
            }
        }
    }

    #[test]
    fn rows_of_integers_are_within_the_stated_bounds() {
        let (x, w) = (numbers(5 * ROWS, 3), numbers(ROWS * COLUMNS, 4));
        let mut module = parse(&linear());
        let options = Options { weights: WeightForm::Int8, activations: ActivationForm::Int8, ..Options::default() };
        PassManager::new(options).run(&mut module, &PASS).unwrap();
        assert!(module.to_string().contains("dtype = i32"), "{module}");
        let step = |values: &[f64]| values.iter().fold(0.0, |m: f64, v| m.max(v.abs())) / 127.0;
        for (i, &y) in run_on(&module, &x, &w).iter().enumerate() {
            let (row, column) = (&x[i / COLUMNS * ROWS..][..ROWS], &w[i % COLUMNS * ROWS..][..ROWS]);
            let (r, s) = (step(row), step(column));
            let pairs = || row.iter().zip(column);
            let exact: f64 = pairs().map(|(a, b)| a * b).sum();
            let bound: f64 = pairs().map(|(a, b)| a.abs() * s / 2.0 + b.abs() * r / 2.0 + r * s / 4.0).sum::<f64>() + 1e-6;
            assert!((y - exact).abs() <= bound, "{i}: {y} for {exact} +- {bound}");
        }
    }

    #[test]
    fn rows_whose_sums_may_not_fit_stay() {
        let options = || Options { weights: WeightForm::Int8, activations: ActivationForm::Int8, ..Options::default() };
        for (terms, is_integer) in [(MOST_TERMS, true), (MOST_TERMS + 1, false)] {
            let mut module = parse(&linear().replace("x32xf32", &format!("x{terms}xf32")));
            PassManager::new(options()).run(&mut module, &PASS).unwrap();
            assert_eq!(module.to_string().contains("dtype = i32"), is_integer, "{module}");
        }
    }

    #[test]
    fn rows_that_are_not_finite_give_no_finite_sums() {
        let mut module = parse(&linear());
        let options = Options { weights: WeightForm::Int8, activations: ActivationForm::Int8, ..Options::default() };
        PassManager::new(options).run(&mut module, &PASS).unwrap();
        let mut x = vec![0.0; 4 * ROWS];
        (x[0], x[ROWS], x[2 * ROWS]) = (f64::NAN, f64::INFINITY, 1e-42);
        let got = run_on(&module, &x, &numbers(ROWS * COLUMNS, 5));
        assert!(got[..COLUMNS].iter().all(|y| y.is_nan()) && got[COLUMNS..2 * COLUMNS].iter().all(|y| !y.is_finite()));
        assert!(got[2 * COLUMNS..].iter().all(|y| y.abs() < 1e-37));
    }

    #[test]
    fn columns_of_zeros_denormals_and_infinities() {
        let mut w = vec![0.0; ROWS * COLUMNS];
        w[ROWS] = 1e-42;
        w[2 * ROWS..][..2].copy_from_slice(&[f64::INFINITY, 1.0]);
        w[3 * ROWS] = f64::NAN;
        w[4 * ROWS..][..2].copy_from_slice(&[3.4e38, -3.4e38]);
        for form in [WeightForm::Int8, WeightForm::Int4] {
            let got = run_on(&narrowed(&linear(), form), &[1.0; ROWS], &w);
            assert_eq!(got[0], 0.0);
            assert!(got[1].abs() <= 1e-37);
            assert!(!got[2].is_finite() && got[3].is_nan());
            assert_eq!(got[4], 0.0);
            assert!(got[5..].iter().all(|&y| y == 0.0));
        }
    }

    #[test]
    fn the_narrow_form_is_what_is_prepared() {
        for (form, stored) in [
            (WeightForm::Bf16, "tensor<3x32x16xbf16>"),
            (WeightForm::Int8, "tensor<3x32x16xi8>"),
            (WeightForm::Int4, "tensor<3x1x4x16xi32>"),
        ] {
            let text = narrowed(&linear(), form).to_string();
            let prepared = text.lines().any(|line| line.contains("= prepared ") && line.ends_with(stored));
            assert!(prepared, "{text}");
            assert!(text.contains("packed_columns = [40]"), "{text}");
        }
    }

    #[test]
    fn other_products_stay() {
        let text = linear();
        let small = text.replace("40x32", "8x32").replace("x40xf32", "x8xf32");
        let given = text.replacen("weight @w : tensor<40x32xf32>", "", 1).replacen("%w = weight @w : tensor<40x32xf32>", "", 1);
        let given = given.replace("%x: ", "%w: tensor<40x32xf32>, %x: ");
        let narrow = text.replacen("tensor<40x32xf32>", "tensor<40x32xi8>", 1).replace(
            "%w = weight @w : tensor<40x32xf32>",
            "%i = weight @w : tensor<40x32xi8>\n %w = convert %i : (tensor<40x32xi8>) -> tensor<40x32xf32>",
        );
        for source in [&small, &given, &narrow] {
            for form in WeightForm::ALL {
                let mut module = parse(source);
                let mut manager = PassManager::new(Options { weights: form, ..Options::default() });
                manager.run(&mut module, &PASS).unwrap();
                assert_eq!(module.to_string(), parse(source).to_string());
            }
        }
        assert_eq!(after(&PASS, &text), parse(&text).to_string(), "without the option nothing changes");
    }

    #[test]
    fn forms_have_names() {
        for form in WeightForm::ALL {
            assert_eq!(form.name().parse(), Ok(form));
        }
        assert!("int3".parse::<WeightForm>().unwrap_err().contains("int3"));
    }
}
