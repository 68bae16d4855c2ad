//! Packs the right operands of matmuls into panels, as the matmul schedule reads them.
//!
//! A matrix `[K, N]` becomes `[P, K, NR]` with `P = ceil(N / NR)` and zeros after the last column,
//! so that each panel is read front to back. Only call-invariant operands are packed; the pass
//! `prepare` then moves the packing out of the entry. Weights on the left stay, except that
//! colliding rows are padded, and halves widened where sums are of f32: [`rows`].
//!
//! If the target multiplies words of several narrow elements, W rows are interleaved: `[P, ceil(K /
//! W), NR, W]` with zeros after the last row.
//!
//! Invariant: the matmul keeps its result shape: users see `[.., N]`, never panels.
mod rows;

use crate::{
    analysis::{call_invariant::CallInvariant, cost_model::CostModel, query::Query},
    pass::{PassCx, PassDef},
    rules::{
        dead_ops,
        rewrite::{Rewriter, visit},
    },
};
use disc_ir::{DType, Diagnostic, Dim, FunctionKind, Inst, Literal, Module, OpKind, Solver, Type, Value, ops::Stage};
use std::sync::Arc;

/// Packs the weights of matmuls into panels of as many columns as the cost model says.
pub static PASS: PassDef = PassDef {
    name: "pack-weights",
    doc: "Packs right-hand weights of matmuls into panels of as many columns as the cost model of the target says; 0 \
          leaves them as they are. Pads rows of left-hand weights that are stored whole pages apart, and converts those of half types to f32 \
          where the target computes in it.",
    stages: (Stage::Tensor, Stage::Tensor),
    run,
};

fn run(module: &mut Module, cx: &mut PassCx) -> Result<usize, Diagnostic> {
    let model = cx.options.model.clone();
    let width = model.panel_columns();
    if width <= 0 {
        return Ok(0);
    }
    let mut packed = 0;
    for function in module.functions.iter_mut().filter(|f| f.kind == FunctionKind::Func) {
        let (fixed, solver) = (CallInvariant::of(function), Arc::new(Solver::new(&function.facts)));
        packed += visit(function, &solver, &mut |rw, inst| {
            let product = rows::widen(rw, inst, &fixed, cx);
            rw.take_error().map(|()| product)
        })?;
        let fixed = CallInvariant::of(function);
        packed += visit(function, &solver, &mut |rw, inst| {
            let Some(matrix) = matrix(rw, inst, &fixed, &*model) else {
                let product = rows::spread(rw, inst, &fixed, cx);
                return rw.take_error().map(|()| product);
            };
            let word = word(rw, inst, matrix, &*model);
            if !rw.f.ty(matrix.value).dtype().is_float() && word.is_none() {
                return Ok(None);
            }
            let width = match word {
                Some(_) => model.word_columns(rw.f.ty(matrix.value).dtype()),
                // A vector holds half as many f64 as f32 elements.
                None if rw.f.ty(rw.f.result(inst)).dtype() == DType::F64 => width / 2,
                None => width,
            };
            let product = if cx.spend() { pack(rw, inst, matrix, width, word.unwrap_or(1)) } else { None };
            rw.take_error().map(|()| product)
        })?;
        dead_ops::remove_dead(function);
    }
    Ok(packed)
}

/// A right operand that can be packed.
#[derive(Clone, Copy)]
pub(crate) struct Matrix {
    pub(crate) value: Value,
    /// The contracted axis: 0 or 1.
    pub(crate) sum_axis: usize,
    pub(crate) rows: i64,
    pub(crate) columns: i64,
}

/// The right operand of a matmul, if it can be packed.
pub(crate) fn matrix(rw: &Rewriter<'_>, inst: Inst, fixed: &CallInvariant, model: &dyn CostModel) -> Option<Matrix> {
    if rw.f.kind_of(inst) != OpKind::DotGeneral || rw.f.attr(inst, "packed_columns").is_some() {
        return None;
    }
    let value = rw.f.operands(inst)[1];
    let ty = rw.f.ty(value).as_tensor()?;
    let ([sum_axis], [_]) = (&rw.f.axes(inst, "rhs_contracting_dims")[..], rw.f.ints(inst, "lhs_contracting_dims")) else {
        return None;
    };
    let [a, b] = ty.static_dims()?[..] else { return None };
    let (rows, columns) = if *sum_axis == 0 { (a, b) } else { (b, a) };
    let matrix = Matrix { value, sum_axis: *sum_axis, rows, columns };
    let batched = !rw.f.ints(inst, "rhs_batching_dims").is_empty();
    // Panels of a few columns would be mostly zeros: such matrices are read along the sums.
    let along_sums = columns <= model.few_columns() && *sum_axis == 1;
    (!batched && !along_sums && rows > 0 && columns > 0 && fixed.contains(value) && fixed.depends_on_weights(value))
        .then_some(matrix)
}

/// The value that a matrix is converted from without loss: it is packed in its stored form, and the
/// matmul converts its elements on reading.
pub(crate) fn stored(rw: &Rewriter<'_>, value: Value) -> Value {
    let dtype = |value: Value| rw.f.ty(value).dtype();
    let from = rw.f.made_by(value, OpKind::Convert).map(|convert| rw.f.operands(convert)[0]);
    from.filter(|&from| dtype(from) != DType::I1 && dtype(value).holds(dtype(from))).unwrap_or(value)
}

/// The number of interleaved rows, if the matmul is computed from words of both operands.
fn word(rw: &Rewriter<'_>, inst: Inst, matrix: Matrix, model: &dyn CostModel) -> Option<i64> {
    let (dtype, sums) = (rw.f.ty(matrix.value).dtype(), rw.f.ty(rw.f.result(inst)).dtype());
    let suits = match dtype.is_float() {
        true => matches!(sums, DType::BF16 | DType::F32),
        false => matches!(sums, DType::I8 | DType::I16 | DType::I32),
    };
    let known = model.word_rows(dtype);
    known.filter(|_| suits && rw.f.ty(stored(rw, matrix.value)).dtype() == dtype)
}

fn pack(rw: &mut Rewriter<'_>, inst: Inst, matrix: Matrix, width: i64, word: i64) -> Option<Value> {
    let dtype = rw.f.ty(matrix.value).dtype();
    let value = stored(rw, matrix.value);
    let mut packed = panels(rw, Matrix { value, ..matrix }, width, word)?;
    if rw.f.ty(packed).dtype() != dtype {
        packed = rw.build(|b| b.op(OpKind::Convert).operands(&[packed]).attr("dtype", dtype).value())?;
    }
    product(rw, inst, packed, matrix.columns)
}

/// Packs a matrix into panels `[P, K, width]`, or `[P, ceil(K / word), width, word]` for a `word`
/// other than 1.
pub(crate) fn panels(rw: &mut Rewriter<'_>, matrix: Matrix, width: i64, word: i64) -> Option<Value> {
    let Matrix { value, sum_axis, rows, columns } = matrix;
    let panels = (columns + width - 1) / width;
    let column_axis = 1 - sum_axis;
    let groups = (rows + word - 1) / word;
    let mut whole = value;
    if panels * width > columns || groups * word > rows {
        let dtype = rw.f.ty(value).dtype();
        let zero = rw.build(|b| {
            b.op(OpKind::Constant).attr("value", Literal::splat_i64(dtype, 0)).result(Type::tensor([], dtype)).value()
        })?;
        let (low, mut high) = (vec![Dim::constant(0); 2], vec![Dim::constant(0); 2]);
        high[column_axis] = Dim::constant(panels * width - columns);
        high[sum_axis] = Dim::constant(groups * word - rows);
        whole = rw.build(|b| b.op(OpKind::Pad).operands(&[value, zero]).attr("low", low).attr("high", high).value())?;
    }
    let (split, order): (&[i64], &[usize]) = match (column_axis, word) {
        (1, 1) => (&[rows, panels, width], &[1, 0, 2]),
        (_, 1) => (&[panels, width, rows], &[0, 2, 1]),
        (1, _) => (&[groups, word, panels, width], &[2, 0, 3, 1]),
        _ => (&[panels, width, groups, word], &[0, 2, 1, 3]),
    };
    let split = rw.reshape(whole, split.iter().map(|&size| Dim::constant(size)).collect::<Vec<_>>())?;
    rw.transpose(split, order)
}

/// The matmul with a packed operand of `columns` columns per panel.
pub(crate) fn product(rw: &mut Rewriter<'_>, inst: Inst, panels: Value, columns: i64) -> Option<Value> {
    let left = rw.f.operands(inst)[0];
    let def = rw.f.def(inst);
    let mut attrs = rw.f.inst(inst).attrs.clone();
    for (name, attr) in [("rhs_contracting_dims", vec![1_i64].into()), ("packed_columns", Dim::constant(columns).into())] {
        attrs[def.attr_position(name).expect("an attribute of the op")] = Some(attr);
    }
    rw.build(|b| b.op(OpKind::DotGeneral).operands(&[left, panels]).attrs(attrs).value())
}

#[cfg(test)]
mod tests {
    use crate::{
        analysis::cost_model::NeutralModel,
        options::Options,
        tensor::pack_weights,
        testing::{after, after_all},
    };
    use disc_ir::DType;

    const LINEAR: &str = "weight @w : tensor<40x8xf32>
        func @f(%x: tensor<[B]x[S]x8xf32>) -> tensor<[B]x[S]x40xf32> {
          %w = weight @w : tensor<40x8xf32>
          %y = dot_general %x, %w, lhs_contracting_dims = [2], rhs_contracting_dims = [1] : (tensor<[B]x[S]x8xf32>, tensor<40x8xf32>) -> tensor<[B]x[S]x40xf32>
          return %y : tensor<[B]x[S]x40xf32>
        }";

    #[test]
    fn whole_panels_need_no_padding() {
        let text = after_all(&[&pack_weights::PASS], LINEAR, Options::of(NeutralModel::with_panels(8)));
        assert!(text.contains("packed_columns = [40]") && !text.contains("pad "), "{text}");
    }

    #[test]
    fn what_is_stored_in_a_narrow_type_is_packed_in_it() {
        let read = "%i = weight @w : tensor<40x8xi8>\n %w = convert %i : (tensor<40x8xi8>) -> tensor<40x8xf32>";
        let stored = LINEAR.replace("%w = weight @w : tensor<40x8xf32>", read).replacen("tensor<40x8xf32>", "tensor<40x8xi8>", 1);
        let text = after(&pack_weights::PASS, &stored);
        assert!(!text.contains("packed"), "{text}");
        let text = after_all(&[&pack_weights::PASS], &stored, Options::of(NeutralModel::with_panels(16)));
        assert!(text.contains("-> tensor<3x8x16xi8>") && text.contains("(tensor<3x8x16xi8>) -> tensor<3x8x16xf32>"), "{text}");
    }

    #[test]
    fn elements_that_the_target_multiplies_in_words_lie_together() {
        let narrow = LINEAR.replace("xf32>", "xi8>").replace("rhs_contracting", "dtype = i32, rhs_contracting");
        let narrow = narrow.replace("tensor<[B]x[S]x40xi8>", "tensor<[B]x[S]x40xi32>").replace("40x8xi8", "40x7xi8");
        let narrow = narrow.replace("[S]x8xi8", "[S]x7xi8");
        let options =
            |words: &[(DType, i64)]| Options::of(NeutralModel { word_rows: words.to_vec(), ..NeutralModel::with_panels(16) });
        let text = after_all(&[&pack_weights::PASS], &narrow, options(&[(DType::I8, 4)]));
        assert!(text.contains("tensor<3x2x16x4xi8>) -> tensor<[B]x[S]x40xi32>"), "{text}");
        assert!(!after_all(&[&pack_weights::PASS], &narrow, options(&[])).contains("packed"));
        // Sums of another type are not made of words.
        let wide = narrow.replace("40xi32>", "40xi64>").replace("dtype = i32", "dtype = i64");
        assert!(!after_all(&[&pack_weights::PASS], &wide, options(&[(DType::I8, 4)])).contains("packed"));
    }

    #[test]
    fn targets_without_panels_leave_weights_alone() {
        assert!(!after(&pack_weights::PASS, LINEAR).contains("packed"));
    }
}
