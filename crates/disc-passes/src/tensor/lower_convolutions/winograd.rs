//! Transforms the kernel of convolutions that Winograd's methods F(4x4, 3x3) and F(2x2, 3x3) can
//! compute.
//!
//! Four by four results of 3x3 windows take 36 multiplications for each input feature instead of
//! 144: kernel and input are transformed to sums of their elements, and so are the products. The
//! kernel is transformed once, when weights are loaded; F(2x2, 3x3) reads 16 of its 36 places. The
//! kernel chooses the method at run time, by the sizes.
use super::Convolution;
use crate::{analysis::query::Query, pass::PassCx, rules::rewrite::Rewriter};
use disc_ir::{DType, Dim, Inst, Literal, OpKind, Type, Value};

/// With fewer features transforming costs more than it saves; with more input features the
/// transformed tiles outgrow the cache.
const FEW: i64 = 16;
const MANY: i64 = 512;

/// The kernel transform along one dimension.
const KERNEL: [[f64; 3]; 6] = [
    [1.0 / 4.0, 0.0, 0.0],
    [-1.0 / 6.0, -1.0 / 6.0, -1.0 / 6.0],
    [-1.0 / 6.0, 1.0 / 6.0, -1.0 / 6.0],
    [1.0 / 24.0, 1.0 / 12.0, 1.0 / 6.0],
    [1.0 / 24.0, -1.0 / 12.0, 1.0 / 6.0],
    [0.0, 0.0, 1.0],
];

impl Convolution {
    /// Marks the matmul as one that Winograd's method can compute; returns it unchanged otherwise.
    pub(super) fn winograd(&self, rw: &mut Rewriter<'_>, inst: Inst, product: Value, cx: &mut PassCx) -> Option<Value> {
        let rows = cx.options.model.block_rows();
        let Some([features, channels]) = self.small_windows(rw, inst).filter(|_| rows > 0 && cx.spend_on("winograd")) else {
            return Some(product);
        };
        let kernel = super::reversed(rw, inst, self.kernel, &self.kernel_axes)?;
        let packed = packed(rw, kernel, [features, channels], rows)?;
        let (input, low) = (self.input, rw.f.dims(inst, "padding_low").to_vec());
        let low = if low.is_empty() { vec![Dim::constant(0); 2] } else { low };
        rw.build(|b| b.op(OpKind::Winograd).operands(&[product, input, packed]).attr("padding_low", low).value())
    }

    /// The output and input features, if the windows are those of the method.
    fn small_windows(&self, rw: &Rewriter<'_>, inst: Inst) -> Option<[i64; 2]> {
        let ones = |name: &str| rw.f.ints(inst, name).iter().all(|&factor| factor == 1);
        let plain = ones("window_strides") && ones("rhs_dilation") && self.groups == 1;
        let small = self.windows.len() == 2 && self.windows.iter().all(|window| window.is_const(3));
        let computed = [self.input, self.kernel, rw.f.result(inst)].iter().all(|&value| DType::F32.holds(rw.f.ty(value).dtype()));
        let shape = rw.f.shape(self.kernel);
        let (features, channels) = (shape[self.kernel_axes[0]].as_const()?, shape[self.kernel_axes[1]].as_const()?);
        let fits = features >= FEW && (FEW..=MANY).contains(&channels);
        (plain && small && computed && fits && self.kernel_axes.is_sorted()).then_some([features, channels])
    }
}

/// Transforms a kernel of 3x3 windows, in blocks of at most `rows` features.
pub(crate) fn packed(rw: &mut Rewriter<'_>, kernel: Value, [features, channels]: [i64; 2], rows: i64) -> Option<Value> {
    let kernel = if rw.f.ty(kernel).dtype() == DType::F32 {
        kernel
    } else {
        rw.build(|b| b.op(OpKind::Convert).operands(&[kernel]).attr("dtype", DType::F32).value())?
    };
    let kernel = rw.reshape(kernel, [features, channels, 9].map(Dim::constant))?;
    let table = rw.build(|b| {
        let literal = Literal::from_f64s(DType::F32, &both_ways());
        b.op(OpKind::Constant).attr("value", literal).result(Type::tensor([36, 9].map(Dim::constant), DType::F32)).value()
    })?;
    let transformed = rw.build(|b| {
        let product = b.op(OpKind::DotGeneral).operands(&[table, kernel]);
        product.attr("lhs_contracting_dims", vec![1_i64]).attr("rhs_contracting_dims", vec![2_i64]).value()
    })?;
    let blocks = (features + rows - 1) / rows;
    let rows = (features + blocks - 1) / blocks;
    let padded = pad(rw, transformed, 1, blocks * rows - features)?;
    let split = rw.reshape(padded, [36, blocks, rows, channels].map(Dim::constant))?;
    rw.transpose(split, &[1, 0, 3, 2])
}

/// The transform along both dimensions: for each of 36 places, the factor of each of 9 elements.
fn both_ways() -> Vec<f64> {
    let mut table = Vec::with_capacity(36 * 9);
    for (down, across) in KERNEL.iter().flat_map(|down| KERNEL.iter().map(move |across| (down, across))) {
        table.extend(down.iter().flat_map(|y| across.iter().map(move |x| y * x)));
    }
    table
}

/// Adds zeros at the end of dimension `axis`.
pub(super) fn pad(rw: &mut Rewriter<'_>, value: Value, axis: usize, count: i64) -> Option<Value> {
    if count == 0 {
        return Some(value);
    }
    let dtype = rw.f.ty(value).dtype();
    let zero = rw.build(|b| {
        let literal = Literal::splat_i64(dtype, 0);
        b.op(OpKind::Constant).attr("value", literal).result(Type::tensor([], dtype)).value()
    })?;
    let low = vec![Dim::constant(0); rw.f.shape(value).len()];
    let mut high = low.clone();
    high[axis] = Dim::constant(count);
    rw.build(|b| b.op(OpKind::Pad).operands(&[value, zero]).attr("low", low).attr("high", high).value())
}

#[cfg(test)]
mod tests {
    use crate::{
        analysis::cost_model::NeutralModel,
        options::Options,
        tensor::{lower_convolutions, prepare},
        testing::after_all,
    };

    const CONVOLUTION: &str = "weight @w : tensor<20x16x3x3xf32>
        func @f(%x: tensor<[B]x16x[H]x[W]xf32>) -> tensor<[B]x20x[H]x[W]xf32> where 1 <= H, 1 <= W {
          %w = weight @w : tensor<20x16x3x3xf32>
          %y = convolution %x, %w, input_batch_dimension = 0, input_feature_dimension = 1, input_spatial_dimensions = [2, 3], kernel_input_feature_dimension = 1, kernel_output_feature_dimension = 0, kernel_spatial_dimensions = [2, 3], output_batch_dimension = 0, output_feature_dimension = 1, output_spatial_dimensions = [2, 3], padding_low = [1, 1], padding_high = [1, 1] : (tensor<[B]x16x[H]x[W]xf32>, tensor<20x16x3x3xf32>) -> tensor<[B]x20x[H]x[W]xf32>
          return %y : tensor<[B]x20x[H]x[W]xf32>
        }";

    fn options(winograd: bool) -> Options {
        Options { winograd, ..Options::of(NeutralModel { block_rows: 12, ..NeutralModel::default() }) }
    }

    #[test]
    fn kernels_are_transformed_once_in_even_blocks() {
        let text = after_all(&[&lower_convolutions::PASS, &prepare::PASS], CONVOLUTION, options(true));
        let (entry, prepared) = text.split_once("func @prepare").expect("what is prepared");
        assert!(entry.contains("winograd %") && prepared.contains("tensor<2x36x16x10xf32>"), "{text}");
    }

    #[test]
    fn kernels_in_half_precision_are_transformed_to_f32() {
        let text = after_all(&[&lower_convolutions::PASS, &prepare::PASS], &CONVOLUTION.replace("f32", "bf16"), options(true));
        let (entry, prepared) = text.split_once("func @prepare").expect("what is prepared");
        assert!(entry.contains("winograd %") && prepared.contains("tensor<2x36x16x10xf32>"), "{text}");
    }

    #[test]
    fn an_option_forbids_it() {
        let text = after_all(&[&lower_convolutions::PASS], CONVOLUTION, options(false));
        assert!(text.contains("dot_general") && !text.contains("winograd"), "{text}");
    }

    #[test]
    fn windows_that_are_apart_are_left_alone() {
        let apart = CONVOLUTION.replace("padding_low = [1, 1]", "window_strides = [1, 2], padding_low = [1, 1]");
        let apart = apart.replace("x20x[H]x[W]xf32>", "x20x[H]x[(W+1)/2]xf32>");
        let text = after_all(&[&lower_convolutions::PASS], &apart, options(true));
        assert!(text.contains("dot_general") && !text.contains("winograd"), "{text}");
    }
}
