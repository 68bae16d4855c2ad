//! Normalises convolutions whose features are not the second dimension, such as features-last.
//!
//! Windows of one element over channels-last tensors are a matmul of the input itself. Other
//! convolutions are rewritten to channels first, between transposes of input and result. The
//! transposes sink after elementwise ops, so that those between two convolutions cancel.
//!
//! Invariant: only transposes that were made here are moved.
use super::{kernel_axes, order};
use crate::{
    analysis::query::Query,
    rules::rewrite::{Rewriter, as_ints},
};
use disc_ir::{Attr, Dim, Inst, OpKind, Value, ops::Trait};
use std::collections::HashMap;

/// Transposes that were made here, by result: the operand and the order.
#[derive(Default)]
pub(super) struct Transposes(HashMap<Value, (Value, Vec<usize>)>);

impl Transposes {
    /// The replacement of an op; `None` if it stays.
    pub(super) fn rewrite(&mut self, rw: &mut Rewriter<'_>, inst: Inst) -> Option<Value> {
        match rw.f.kind_of(inst) {
            OpKind::Convolution if !super::is_plain(rw, inst) => as_product(rw, inst).or_else(|| self.features_first(rw, inst)),
            _ => self.sink(rw, inst),
        }
    }

    fn features_first(&mut self, rw: &mut Rewriter<'_>, inst: Inst) -> Option<Value> {
        let [input, kernel] = rw.f.operands(inst)[..] else { return None };
        if !rw.f.ty(input).dtype().is_float() || rw.f.int(inst, "batch_group_count") > 1 {
            return None;
        }
        let before = order(rw, inst, "input");
        let input = match self.0.get(&input) {
            Some((from, turn)) if before.iter().map(|&axis| turn[axis]).is_sorted() => *from,
            _ => rw.transpose(input, &before)?,
        };
        let mut attrs = rw.f.inst(inst).attrs.clone();
        let (def, spatial) = (rw.f.def(inst), before.len() - 2);
        let mut set = |name: &str, value: Attr| attrs[def.attr_position(name).expect("an attribute of the op")] = Some(value);
        for side in ["input", "output"] {
            set(&format!("{side}_batch_dimension"), Attr::Int(0));
            set(&format!("{side}_feature_dimension"), Attr::Int(1));
            set(&format!("{side}_spatial_dimensions"), Attr::from((2..spatial as i64 + 2).collect::<Vec<i64>>()));
        }
        let result = rw.build(|b| b.op(OpKind::Convolution).operands(&[input, kernel]).attrs(attrs).value())?;
        let after = order(rw, inst, "output");
        let turn: Vec<usize> = (0..after.len()).map(|axis| after.iter().position(|&to| to == axis).expect("an axis")).collect();
        self.turn(rw, result, turn)
    }

    fn turn(&mut self, rw: &mut Rewriter<'_>, value: Value, turn: Vec<usize>) -> Option<Value> {
        let turned = rw.transpose(value, &turn)?;
        self.0.insert(turned, (value, turn));
        Some(turned)
    }

    /// `op(transpose(x), transpose(y), broadcast(z))` as `transpose(op(x, y, broadcast(z)))`.
    fn sink(&mut self, rw: &mut Rewriter<'_>, inst: Inst) -> Option<Value> {
        if self.0.is_empty() || !rw.f.def(inst).has(Trait::Elementwise) || rw.f.results_of(inst).len() != 1 {
            return None;
        }
        let operands = rw.f.operands(inst).to_vec();
        let turn = operands.iter().find_map(|operand| self.0.get(operand))?.1.clone();
        let fits = |&operand: &Value| match self.0.get(&operand) {
            Some((_, other)) => *other == turn,
            None => rw.f.shape(operand).is_empty() || rw.f.made_by(operand, OpKind::BroadcastInDim).is_some(),
        };
        if !operands.iter().all(fits) {
            return None;
        }
        let mut moved = Vec::with_capacity(operands.len());
        for operand in operands {
            moved.push(match self.0.get(&operand) {
                Some((from, _)) => *from,
                None if rw.f.shape(operand).is_empty() => operand,
                None => broadcast_in_order(rw, operand, &turn)?,
            });
        }
        let (kind, attrs) = (rw.f.kind_of(inst), rw.f.inst(inst).attrs.clone());
        let result = rw.build(|b| b.op(kind).operands(&moved).attrs(attrs).value())?;
        self.turn(rw, result, turn)
    }
}

/// A broadcast value in the dimension order before `turn`.
fn broadcast_in_order(rw: &mut Rewriter<'_>, wide: Value, turn: &[usize]) -> Option<Value> {
    let broadcast = rw.f.made_by(wide, OpKind::BroadcastInDim)?;
    let axes: Vec<usize> = rw.f.axes(broadcast, "dims").iter().map(|&axis| turn[axis]).collect();
    let (x, shape) = (rw.f.operands(broadcast)[0], rw.f.shape(wide).to_vec());
    let mut dims = shape.clone();
    turn.iter().zip(shape).for_each(|(&axis, size)| dims[axis] = size);
    rw.broadcast(x, &axes, dims)
}

/// A convolution with windows of one element and channels last on both sides, as a matmul of the
/// input with the kernel.
fn as_product(rw: &mut Rewriter<'_>, inst: Inst) -> Option<Value> {
    let [input, kernel] = rw.f.operands(inst)[..] else { return None };
    let (before, after, axes) = (order(rw, inst, "input"), order(rw, inst, "output"), kernel_axes(rw, inst));
    let windows: Vec<Dim> = axes[2..].iter().map(|&axis| rw.f.shape(kernel)[axis].clone()).collect();
    let alone = rw.f.int(inst, "feature_group_count") <= 1 && rw.f.int(inst, "batch_group_count") <= 1;
    let lie_last = before == after && before[1] == before.len() - 1;
    if !alone || !lie_last || !super::are_own_patches(rw, inst, &windows) {
        return None;
    }
    let [features, channels] = [axes[0], axes[1]].map(|axis| rw.f.shape(kernel)[axis].clone());
    let (sizes, summed) = if axes[0] < axes[1] { ([features, channels], 1) } else { ([channels, features], 0) };
    let matrix = rw.reshape(kernel, sizes)?;
    let dtype = rw.f.attr(inst, "dtype").cloned();
    rw.build(|b| {
        let request = b.op(OpKind::DotGeneral).operands(&[input, matrix]);
        let request =
            request.attr("lhs_contracting_dims", as_ints(&before[1..2])).attr("rhs_contracting_dims", vec![summed as i64]);
        match dtype {
            Some(dtype) => request.attr("dtype", dtype).value(),
            None => request.value(),
        }
    })
}

#[cfg(test)]
mod tests {
    use crate::{
        options::Options,
        rules::canonicalize,
        tensor::{dce, lower_convolutions},
        testing::after_all,
    };

    /// A convolution with channels last, for an input of this shape.
    fn last(name: &str, x: &str, [k, o]: [i64; 2], from: &str, to: &str) -> String {
        let p = (k - 1) / 2;
        format!(
            "%{name} = convolution %{x}, %k{k}, input_batch_dimension = 0, input_feature_dimension = 3, input_spatial_dimensions = [1, 2], kernel_input_feature_dimension = 2, kernel_output_feature_dimension = 3, kernel_spatial_dimensions = [0, 1], output_batch_dimension = 0, output_feature_dimension = 3, output_spatial_dimensions = [1, 2], padding_low = [{p}, {p}], padding_high = [{p}, {p}] : (tensor<{from}xf32>, tensor<{k}x{k}x4x{o}xf32>) -> tensor<{to}xf32>"
        )
    }

    fn program(body: &str, result: &str) -> String {
        let shape = "[B]x[H]x[W]x4";
        format!(
            "func @f(%x: tensor<{shape}xf32>, %k3: tensor<3x3x4x4xf32>, %k1: tensor<1x1x4x4xf32>, %b: tensor<4xf32>) -> tensor<{shape}xf32> where 1 <= H, 1 <= W {{
               {body}
               return %{result} : tensor<{shape}xf32>
             }}"
        )
    }

    #[test]
    fn windows_of_one_element_are_products_as_they_lie() {
        let shape = "[B]x[H]x[W]x4";
        let text =
            after_all(&[&lower_convolutions::PASS], &program(&last("y", "x", [1, 4], shape, shape), "y"), Options::default());
        assert!(text.contains("dot_general %x") && !text.contains("transpose"), "{text}");
    }

    #[test]
    fn transposes_between_convolutions_cancel() {
        let shape = "[B]x[H]x[W]x4";
        let body = format!(
            "{}
             %w = broadcast_in_dim %b, dims = [3] : (tensor<4xf32>) -> tensor<{shape}xf32>
             %s = add %y, %w : (tensor<{shape}xf32>, tensor<{shape}xf32>) -> tensor<{shape}xf32>
             %t = tanh %s : (tensor<{shape}xf32>) -> tensor<{shape}xf32>
             {}",
            last("y", "x", [3, 4], shape, shape),
            last("z", "t", [3, 4], shape, shape),
        );
        let passes = [&lower_convolutions::PASS, &canonicalize::PASS, &dce::PASS];
        let text = after_all(&passes, &program(&body, "z"), Options::default());
        assert_eq!(text.matches("= transpose").count(), 2, "{text}");
        assert!(!text.contains("= convolution"), "{text}");
    }
}
