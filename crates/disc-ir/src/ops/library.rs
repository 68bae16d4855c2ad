//! Declares ops of host programs that offer work to a library of the device, which generated
//! kernels can do too.
use super::{
    class::DTypeClass,
    declare::{many, one, optional, required},
    host::HOST,
};
use crate::{
    attr::AttrKind,
    diag::Code,
    infer::{InferCx, Inferred},
    types::{DType, Type},
};

const ANY: DTypeClass = DTypeClass::ANY;
const BOOL: DTypeClass = DTypeClass::BOOL;

/// The functions of a sum that a library may compute; `disc_abi::Activation` has their meaning.
const ACTIVATIONS: &[&str] = &["none", "relu", "gelu_tanh"];

op! {
    /// Offers a matmul to a library of the device, after all earlier launches:
    /// `result[b] = activation(lhs[b] * rhs[b] + bias)`, with sums in f32. True if the library
    /// computes it; else nothing is written, and kernels have to. The operands are `lhs`, `rhs`,
    /// the result, and the bias if there is one: as many elements as columns. `product` is batches,
    /// rows, columns, sums, then the strides of batches, rows and columns of `lhs` and of `rhs`, in
    /// elements; the result is contiguous. With `tf32`, operands of f32 may be rounded to tf32.
    /// `kernel` is the first kernel that computes it otherwise. The interpreter has no library.
    ///
    /// (C1) The module has a GPU kernel of this name.
    /// (C2) There are 3 or 4 operands, buffers of one type of `f32`, `f16` or `bf16`.
    /// (C3) `product` has 10 entries.
    LibraryGemm = "library_gemm"(buffers: many(ANY)) {
            kernel: required(AttrKind::Symbol), product: required(AttrKind::Dims), activation: required(AttrKind::Enum(ACTIVATIONS)),
            tf32: optional(AttrKind::Bool)
        } -> (result: one(BOOL)) traits [Writes] stages HOST, infer library_gemm;
}

op! {
    /// Offers a convolution to a library of the device, after all earlier launches:
    /// `result = activation(convolution(input, filter) + bias)` over two spatial dimensions, with
    /// sums in f32 and zeros as padding. True if the library computes it; else nothing is written,
    /// and kernels have to. The operands are `input`, `filter`, the result, and the bias if there
    /// is one: an element for each feature. `sizes` is batch, features, height and width of the
    /// input; features of the result, features of the input in each group, height and width of the
    /// filter; height and width of the result. `strides` are those of input, filter and result, in
    /// elements, in the same order of dimensions. `window` is the steps of the window, the
    /// dilations of the filter, the padding before and the padding after, each for height and
    /// width, then the number of groups of features. `tf32` and `kernel` are those of
    /// `library_gemm`. The interpreter has no library.
    ///
    /// (C1) The module has a GPU kernel of this name.
    /// (C2) There are 3 or 4 operands, buffers. `input` and `filter` have one type of `f32`, `f16`
    /// or `bf16`, the result and the bias each have that one or `f32`.
    /// (C3) `sizes` has 10 entries, `strides` 12, and `window` 9.
    LibraryConvolution = "library_convolution"(buffers: many(ANY)) {
            kernel: required(AttrKind::Symbol), sizes: required(AttrKind::Dims), strides: required(AttrKind::Dims),
            window: required(AttrKind::Dims), activation: required(AttrKind::Enum(ACTIVATIONS)), tf32: optional(AttrKind::Bool)
        } -> (result: one(BOOL)) traits [Writes] stages HOST, infer library_convolution;
}

fn library_gemm(cx: &InferCx<'_>) -> Inferred {
    offer(cx, &[("product", 10)], 4)
}

fn library_convolution(cx: &InferCx<'_>) -> Inferred {
    offer(cx, &[("sizes", 10), ("strides", 12), ("window", 9)], 2)
}

/// Checks the buffers of an offer, of which the first `alike` have one type and others may hold
/// f32, and the number of entries of its lists.
fn offer(cx: &InferCx<'_>, lists: &[(&str, usize)], alike: usize) -> Inferred {
    let count = cx.operands.len();
    if !(3..=4).contains(&count) {
        return Err(cx.error(Code::E0201, 2, format!("there are {count} operands, expected 3 or 4")));
    }
    for index in 0..count {
        let Type::Buffer { tensor, .. } = cx.ty(index) else {
            return Err(cx.error(Code::E0208, 2, format!("operand {index} has type {}, expected a buffer", cx.ty(index))));
        };
        let is_first = matches!(cx.ty(0), Type::Buffer { tensor: first, .. } if first.dtype == tensor.dtype);
        let is_sum = index >= alike && tensor.dtype == DType::F32;
        if !(is_first || is_sum) || !matches!(tensor.dtype, DType::F32 | DType::F16 | DType::BF16) {
            return Err(cx.error(Code::E0204, 2, format!("operand {index} holds {}", tensor.dtype)));
        }
    }
    match lists.iter().map(|&(name, wanted)| (name, wanted, cx.dims(name).len())).find(|(_, wanted, found)| found != wanted) {
        Some((name, wanted, found)) => Err(cx.error(Code::E0209, 3, format!("`{name}` has {found} entries, expected {wanted}"))),
        None => Ok(vec![Type::scalar(DType::I1)]),
    }
}
