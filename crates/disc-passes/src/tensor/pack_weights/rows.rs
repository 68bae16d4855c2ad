//! Pads the rows of left-hand weights, such as convolution filters, that are stored whole pages
//! apart, and converts those of half types to f32 where sums are computed in it: their elements are
//! read one by one, and a unit would convert them for the few columns that it has.
//!
//! Rows at such a distance compete for the lines of one set of the first-level cache, so a matmul
//! would copy them together in each task. With some elements of padding per row, `slice(pad(w))`,
//! they are read in place: the pass `prepare` makes the padded weight, and the slice is only
//! another view (`query::is_front`).
use super::PassCx;
use crate::{
    analysis::{call_invariant::CallInvariant, cost_model::CostModel, query::Query},
    rules::rewrite::Rewriter,
};
use disc_ir::{DType, Dim, Inst, Literal, OpKind, Type, Value};

/// The matmul with a padded left operand, if that is a weight whose rows collide.
pub(super) fn spread(rw: &mut Rewriter<'_>, inst: Inst, fixed: &CallInvariant, cx: &mut PassCx) -> Option<Value> {
    let is_product = rw.f.kind_of(inst) == OpKind::DotGeneral;
    let model = cx.options.model.clone();
    if model.block_rows() <= model.cache_ways() || !is_product {
        return None;
    }
    let left = rw.f.operands(inst)[0];
    let weight = read_from(rw, left);
    let depth = depth(rw, inst, left)?;
    let (axis, more) = room(rw, weight, depth, &*model)?;
    if !fixed.contains(weight) || !fixed.depends_on_weights(weight) || !cx.spend_on("spread-rows") {
        return None;
    }
    let apart = lengthened(rw, weight, axis, more)?;
    let right = rw.f.operands(inst)[1];
    let left = reread(rw, left, weight, apart)?;
    let attrs = rw.f.inst(inst).attrs.clone();
    rw.build(|b| b.op(OpKind::DotGeneral).operands(&[left, right]).attrs(attrs).value())
}

/// The matmul in f32 of a left operand that is a weight of a half type, if the target computes it
/// so: the weight is converted once.
pub(super) fn widen(rw: &mut Rewriter<'_>, inst: Inst, fixed: &CallInvariant, cx: &mut PassCx) -> Option<Value> {
    if rw.f.kind_of(inst) != OpKind::DotGeneral {
        return None;
    }
    let operands = rw.f.operands(inst).to_vec();
    let (left, right, weight) = (operands[0], operands[1], read_from(rw, operands[0]));
    let (stored, made) = (rw.f.ty(weight).dtype(), rw.f.ty(rw.f.result(inst)).dtype());
    let is_half = matches!(stored, DType::BF16 | DType::F16) && (made == stored || made == DType::F32);
    let is_weight = fixed.contains(weight) && fixed.depends_on_weights(weight) && !fixed.contains(right);
    if !is_half || !is_weight || !cx.options.model.widens_rows(stored) || !cx.spend_on("widen-rows") {
        return None;
    }
    let convert = |rw: &mut Rewriter<'_>, value, dtype: DType| {
        rw.build(|b| b.op(OpKind::Convert).operands(&[value]).attr("dtype", dtype).value())
    };
    let wide = convert(rw, weight, DType::F32)?;
    let (left, right) = (reread(rw, left, weight, wide)?, convert(rw, right, DType::F32)?);
    let (def, mut attrs) = (rw.f.def(inst), rw.f.inst(inst).attrs.clone());
    attrs[def.attr_position("dtype").expect("an attribute of the op")] = Some(DType::F32.into());
    let product = rw.build(|b| b.op(OpKind::DotGeneral).operands(&[left, right]).attrs(attrs).value())?;
    if made == DType::F32 { Some(product) } else { convert(rw, product, made) }
}

/// Returns true if an op only adds dimensions of size 1, drops them, or broadcasts along new ones.
fn is_view(rw: &Rewriter<'_>, inst: Inst) -> bool {
    let kept = |value: Value| rw.f.shape(value).iter().filter(|dim| !dim.is_const(1)).cloned().collect::<Vec<_>>();
    match rw.f.kind_of(inst) {
        OpKind::BroadcastInDim => rw.f.ints(inst, "dims").is_sorted(),
        OpKind::Reshape => kept(rw.f.operands(inst)[0]) == kept(rw.f.result(inst)),
        _ => false,
    }
}

/// The value under the views of an operand.
fn read_from(rw: &Rewriter<'_>, mut value: Value) -> Value {
    while let Some(inst) = rw.f.defining(value).filter(|&inst| is_view(rw, inst)) {
        value = rw.f.operands(inst)[0];
    }
    value
}

/// Applies the same views to another value.
fn reread(rw: &mut Rewriter<'_>, value: Value, from: Value, to: Value) -> Option<Value> {
    if value == from {
        return Some(to);
    }
    let inst = rw.f.defining(value)?;
    let (kind, attrs) = (rw.f.kind_of(inst), rw.f.inst(inst).attrs.clone());
    let operand = rw.f.operands(inst)[0];
    let operand = reread(rw, operand, from, to)?;
    let ty = Type::tensor(rw.f.shape(value).to_vec(), rw.f.ty(operand).dtype());
    rw.build(|b| b.op(kind).operands(&[operand]).attrs(attrs).result(ty).value())
}

/// The length of the sums, if the left operand's last dimensions are the contracted ones, in order.
fn depth(rw: &Rewriter<'_>, inst: Inst, left: Value) -> Option<i64> {
    let dims = rw.f.shape(left);
    let sums = rw.f.axes(inst, "lhs_contracting_dims");
    let last: Vec<usize> = (dims.len().checked_sub(sums.len())?..dims.len()).collect();
    let sizes = sums.iter().map(|&axis| dims[axis].as_const());
    if sums == last { sizes.product() } else { None }
}

/// The axis of a weight to pad, and the amount, if its rows of `depth` elements are stored pages
/// apart.
fn room(rw: &Rewriter<'_>, weight: Value, depth: i64, model: &dyn CostModel) -> Option<(usize, i64)> {
    if depth == 0 {
        return None;
    }
    let ty = rw.f.ty(weight).as_tensor()?;
    let (dims, size) = (ty.static_dims()?, ty.dtype.size() as i64);
    let inner = |axis: usize| dims[axis + 1..].iter().product::<i64>();
    let rows = (0..dims.len()).find(|&axis| dims[axis] > model.cache_ways() && inner(axis) == depth)?;
    let axis = (rows + 1..dims.len()).find(|&axis| dims[axis] > 1)?;
    let more = (model.line_bytes() / size).max(1).div_euclid(inner(axis)).max(1);
    let page = model.page_bytes();
    let after = (dims[axis] + more) * inner(axis) * size;
    (depth * size % page == 0 && after % page != 0).then_some((axis, more))
}

/// The weight as the front of a padded one.
fn lengthened(rw: &mut Rewriter<'_>, weight: Value, axis: usize, more: i64) -> Option<Value> {
    let (dims, dtype) = (rw.f.shape(weight).to_vec(), rw.f.ty(weight).dtype());
    let zero =
        rw.build(|b| b.op(OpKind::Constant).attr("value", Literal::splat_i64(dtype, 0)).result(Type::tensor([], dtype)).value())?;
    let none = vec![Dim::constant(0); dims.len()];
    let mut high = none.clone();
    high[axis] = Dim::constant(more);
    let low = none.clone();
    let padded = rw.build(|b| b.op(OpKind::Pad).operands(&[weight, zero]).attr("low", low).attr("high", high).value())?;
    rw.build(|b| b.op(OpKind::Slice).operands(&[padded]).attr("start", none).attr("limit", dims).value())
}

#[cfg(test)]
mod tests {
    use crate::{
        analysis::cost_model::NeutralModel,
        options::Options,
        tensor::{pack_weights, prepare},
        testing::after_all,
    };
    use disc_ir::DType;

    /// A matmul of a filter that is repeated for each image, as convolutions have it.
    fn filter(features: &str, taps: i64, rows: i64) -> String {
        let (shape, repeated) = (format!("{rows}x{features}x{taps}xf32"), format!("[B]x{rows}x{features}x{taps}xf32"));
        format!(
            "weight @w : tensor<{shape}>
            func @f(%x: tensor<[B]x{features}x{taps}x[P]xf32>) -> tensor<[B]x{rows}x[P]xf32> {{
              %w = weight @w : tensor<{shape}>
              %r = broadcast_in_dim %w, dims = [1, 2, 3] : (tensor<{shape}>) -> tensor<{repeated}>
              %y = dot_general %r, %x, batching_dims = [0] x [0], contracting_dims = [2, 3] x [1, 2] : \
               (tensor<{repeated}>, tensor<[B]x{features}x{taps}x[P]xf32>) -> tensor<[B]x{rows}x[P]xf32>
              return %y : tensor<[B]x{rows}x[P]xf32>
            }}"
        )
    }

    fn packed(text: &str, block_rows: i64) -> String {
        let options = Options::of(NeutralModel { block_rows, ..NeutralModel::with_panels(32) });
        after_all(&[&pack_weights::PASS, &prepare::PASS], text, options)
    }

    #[test]
    fn rows_that_are_pages_apart_get_a_line_more() {
        let text = packed(&filter("1024", 1, 16), 12);
        assert!(text.contains("weight @w.prepared = prepared 0 : tensor<16x1040x1xf32>"), "{text}");
        assert!(text.contains("[0:16, 0:1024, 0:1]"), "{text}");
        // Two taps: the distance grows by as many features as fill a line.
        let text = packed(&filter("512", 2, 16), 12);
        assert!(text.contains("prepared 0 : tensor<16x520x2xf32>"), "{text}");
        let text = packed(&filter("512", 32, 16), 12);
        assert!(text.contains("prepared 0 : tensor<16x513x32xf32>"), "{text}");
    }

    #[test]
    fn halves_that_are_computed_in_f32_are_stored_so() {
        let text = filter("512", 2, 512).replace("f32", "bf16");
        let model = NeutralModel { widened_rows: vec![DType::BF16], block_rows: 12, ..NeutralModel::with_panels(32) };
        let after = |text: &str, model: NeutralModel| after_all(&[&pack_weights::PASS, &prepare::PASS], text, Options::of(model));
        // Padded too: 512 by 2 elements of f32 are a page.
        let wide = after(&text, model.clone());
        assert!(wide.contains("weight @w.prepared = prepared 0 : tensor<512x520x2xf32>"), "{wide}");
        assert!(wide.contains("dtype = f32") && wide.contains("-> tensor<[B]x512x[P]xbf16>"), "{wide}");
        assert!(!after(&text, NeutralModel { widened_rows: vec![DType::F16], ..model.clone() }).contains("f32"));
        // A matrix that the call gives is converted with the rows that it makes.
        let given = text.replace("func @f(", "func @f(%w: tensor<512x512x2xbf16>, ");
        let given = given.replace("%w = weight @w : tensor<512x512x2xbf16>\n", "\n");
        assert!(!after(&given, model).contains("f32"));
    }

    #[test]
    fn other_rows_stay() {
        for (features, taps, rows, block_rows) in
            [("512", 1, 16, 12), ("1024", 1, 16, 6), ("1024", 1, 4, 12), ("1000", 1, 16, 12), ("1024", 0, 16, 12)]
        {
            let text = packed(&filter(features, taps, rows), block_rows);
            assert!(!text.contains("pad"), "{text}");
        }
        // A left operand from the call.
        let given = filter("1024", 1, 16).replace("func @f(", "func @f(%w: tensor<16x1024x1xf32>, ");
        let given = given.replace("%w = weight @w : tensor<16x1024x1xf32>\n", "\n");
        assert!(!packed(&given, 12).contains("pad"));
    }
}
