//! Declares ops on sliding windows: pooling, and the elements that windows cover.
//!
//! The arithmetic of windows is shared with convolution.
use super::{
    class::DTypeClass,
    declare::{Stages, many, one, optional, required},
    movement::dilated,
    reduce::check_combination,
};
use crate::{
    attr::AttrKind,
    diag::{Code, Diagnostic},
    dim::{Dim, Solver},
    infer::{InferCx, Inferred},
    types::{DType, Type},
};

const ANY: DTypeClass = DTypeClass::ANY;
const F32: DTypeClass = DTypeClass::of(&[DType::F32]);
/// Types that are computed in f32.
const UP_TO_F32: DTypeClass = DTypeClass::of(&[DType::F16, DType::BF16, DType::F32]);

op! {
    /// Combines the elements of each window by `body`, starting from `inits`. The windows slide
    /// over the inputs, whose elements are first put `base_dilations` apart and padded by
    /// `padding_low` and `padding_high`; padding has the value of `inits`. Windows are
    /// `window_strides` apart, and their elements `window_dilations`. Lists that are absent stand
    /// for ones, or for no padding.
    ///
    /// (C1) There is an input; all inputs have one shape, and as many inits are scalars of their
    /// element types.
    /// (C2) Each list has one entry per dimension of the inputs.
    /// (C3) `window_dimensions`, `window_strides`, `base_dilations` and `window_dilations` are >=
    /// 1: proved where constant, else a fact the program states.
    /// (C4) `body` takes scalars of the inputs' element types, twice, and returns them once.
    /// (C5) A dimension of the result has as many elements as windows fit into the padded
    /// dimension: with `w = (window - 1) * window_dilation + 1`,
    /// `max(floor((padded - w) / stride) + 1, 0)`.
    ReduceWindow = "reduce_window"(inputs: many(ANY), inits: many(ANY)) {
            window_dimensions: required(AttrKind::Dims), window_strides: optional(AttrKind::Ints), base_dilations: optional(AttrKind::Ints),
            window_dilations: optional(AttrKind::Ints), padding_low: optional(AttrKind::Dims), padding_high: optional(AttrKind::Dims)
        } regions ["body"] -> (results: many(ANY)) traits [Pure] stages Stages::Tensor, infer reduce_window;
}

op! {
    /// Gathers the elements that windows cover (im2col). The windows slide over the last dimensions
    /// of the operand as those of `reduce_window` do, with zeros as padding. The result has the
    /// other dimensions of the operand, then the dimensions of a window, then those that count
    /// windows. A convolution is a product with patches.
    ///
    /// (C1) Each list has one entry per dimension that windows slide over; there are as many or
    /// fewer of them than the operand has.
    /// (C2) `window_dimensions`, `window_strides`, `base_dilations` and `window_dilations` are >=
    /// 1: proved where constant, else a fact the program states.
    /// (C3) As many windows fit into a dimension as for `reduce_window`.
    Im2col = "im2col"(operand: one(ANY)) {
            window_dimensions: required(AttrKind::Dims), window_strides: optional(AttrKind::Ints), base_dilations: optional(AttrKind::Ints),
            window_dilations: optional(AttrKind::Ints), padding_low: optional(AttrKind::Dims), padding_high: optional(AttrKind::Dims)
        } -> (result: one(ANY)) traits [Pure] stages Stages::Tensor, infer im2col;
}

op! {
    /// Returns `product`: the product of a kernel and the patches of `input` with windows of 3
    /// times 3 elements and stride 1, or an element-wise function of it; a kernel may compute it by
    /// Winograd's method F(4x4, 3x3) instead, with rounding of its own. `kernel` is the transformed
    /// kernel: blocks of output features, the 36 places of a transformed window, input features,
    /// and the output features of a block. Features after the last one are zeros. Not for f64:
    /// transformations and products are those of f32, also where the operands are narrower.
    ///
    /// (C1) `product` and `input` have rank 4 and one batch, and the result has the type of
    /// `product`.
    /// (C2) `kernel` has rank 4, with 36 places and the features of `input`.
    /// (C3) `padding_low` has one entry for each of the last two dimensions.
    Winograd = "winograd"(product: one(UP_TO_F32), input: one(UP_TO_F32), kernel: one(F32)) { padding_low: required(AttrKind::Dims) }
        -> (result: one(UP_TO_F32)) traits [Pure] stages Stages::Tensor, infer winograd;
}

/// The geometry of windows along one dimension.
pub(super) struct Window<'a> {
    pub(super) size: &'a Dim,
    pub(super) stride: i64,
    pub(super) dilation: i64,
    pub(super) base_dilation: i64,
    pub(super) low: Dim,
    pub(super) high: Dim,
}

impl Window<'_> {
    /// Returns the number of windows that fit into a dimension of `size` elements.
    pub(super) fn count(&self, solver: &Solver, size: &Dim) -> Dim {
        let padded = dilated(solver, size, self.base_dilation) + &self.low + &self.high;
        let room = padded - &dilated(solver, self.size, self.dilation);
        let zero = Dim::constant(0);
        let steps = room.floor_div(&Dim::constant(self.stride)) + 1;
        // The proof uses this very size, not `room`: then whoever can prove it can also prove that
        // the two forms are equal.
        if solver.less_equal(&zero, &steps) { steps } else { Dim::max(&steps, &zero) }
    }
}

/// The entries of an optional list of constants >= 1, one per dimension.
pub(super) fn factors(cx: &InferCx<'_>, numbers: [u32; 2], name: &str, rank: usize) -> Result<Vec<i64>, Diagnostic> {
    let given = cx.ints(name);
    if !given.is_empty() && given.len() != rank {
        return Err(cx.error(Code::E0207, numbers[0], format!("`{name}` has {} entries, expected {rank}", given.len())));
    }
    match given.iter().find(|&&factor| factor < 1) {
        Some(factor) => Err(cx.error(Code::E0209, numbers[1], format!("`{name}` has an entry {factor}"))),
        None if given.is_empty() => Ok(vec![1; rank]),
        None => Ok(given.to_vec()),
    }
}

/// The entries of an optional list of paddings, one per dimension.
pub(super) fn paddings(cx: &InferCx<'_>, number: u32, name: &str, rank: usize) -> Result<Vec<Dim>, Diagnostic> {
    match cx.dims(name) {
        [] => Ok(vec![Dim::constant(0); rank]),
        given if given.len() == rank => Ok(given.to_vec()),
        given => Err(cx.error(Code::E0207, number, format!("`{name}` has {} entries, expected {rank}", given.len()))),
    }
}

fn reduce_window(cx: &InferCx<'_>) -> Inferred {
    let n = check_combination(cx, 1, 4)?;
    let shape = &cx.tensor(0)?.dims;
    let dims = counts(cx, [2, 3], shape)?;
    Ok(cx.operands[..n].iter().map(|ty| Type::tensor(dims.iter().cloned(), ty.dtype())).collect())
}

fn im2col(cx: &InferCx<'_>) -> Inferred {
    let operand = cx.tensor(0)?;
    let windows = cx.dims("window_dimensions");
    let Some(others) = operand.rank().checked_sub(windows.len()) else {
        return Err(cx.error(Code::E0207, 1, format!("windows of rank {} in {}", windows.len(), cx.ty(0))));
    };
    let counts = counts(cx, [1, 2], &operand.dims[others..])?;
    let dims = operand.dims[..others].iter().chain(windows).cloned().chain(counts);
    Ok(vec![Type::tensor(dims, operand.dtype)])
}

fn winograd(cx: &InferCx<'_>) -> Inferred {
    let [product, input, kernel] = [cx.tensor(0)?, cx.tensor(1)?, cx.tensor(2)?];
    for (name, tensor) in [("product", product), ("input", input)] {
        if tensor.rank() != 4 {
            return Err(cx.error(Code::E0204, 1, format!("`{name}` has type {}, expected rank 4", Type::Tensor(tensor.clone()))));
        }
    }
    if !cx.solver.equal(&product.dims[0], &input.dims[0]) {
        return Err(cx.error(Code::E0207, 1, format!("batches of [{}] and [{}]", product.dims[0], input.dims[0])));
    }
    let fits = kernel.rank() == 4 && kernel.dims[1].is_const(36) && cx.solver.equal(&kernel.dims[2], &input.dims[1]);
    if !fits {
        return Err(cx.error(Code::E0207, 2, format!("`kernel` has type {}", cx.ty(2))));
    }
    match cx.dims("padding_low").len() {
        2 => Ok(vec![cx.ty(0).clone()]),
        count => Err(cx.error(Code::E0207, 3, format!("`padding_low` has {count} entries, expected 2"))),
    }
}

/// Returns the number of windows that fit into dimensions of these sizes; `numbers` are those of
/// the constraints on the length of lists, and on their entries.
fn counts(cx: &InferCx<'_>, [lengths, entries]: [u32; 2], shape: &[Dim]) -> Result<Vec<Dim>, Diagnostic> {
    let (rank, sizes) = (shape.len(), cx.dims("window_dimensions"));
    if sizes.len() != rank {
        return Err(cx.error(Code::E0207, lengths, format!("`window_dimensions` has {} entries, expected {rank}", sizes.len())));
    }
    if let Some(size) = sizes.iter().find(|size| cx.solver.less_equal(size, &Dim::constant(0))) {
        return Err(cx.error(Code::E0209, entries, format!("a window of size [{size}]")));
    }
    let factors = |name| factors(cx, [lengths, entries], name, rank);
    let (strides, base, dilations) = (factors("window_strides")?, factors("base_dilations")?, factors("window_dilations")?);
    let (low, high) = (paddings(cx, lengths, "padding_low", rank)?, paddings(cx, lengths, "padding_high", rank)?);
    let count = |i: usize| {
        let (low, high) = (low[i].clone(), high[i].clone());
        let window = Window { size: &sizes[i], stride: strides[i], dilation: dilations[i], base_dilation: base[i], low, high };
        window.count(cx.solver, &shape[i])
    };
    Ok((0..rank).map(count).collect())
}
