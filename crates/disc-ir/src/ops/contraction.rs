//! Declares ops that multiply and sum: matmuls and convolutions.
//!
//! Products and sums of integers wrap in the result's element type. Those of floats are rounded as
//! is fastest on the target, to at least f32 for f16 and bf16, and in any order.
use super::{
    class::DTypeClass,
    declare::{Stages, one, optional, required},
    window::{Window, factors, paddings},
};
use crate::{
    attr::AttrKind,
    diag::{Code, Diagnostic},
    dim::Dim,
    infer::{InferCx, Inferred},
    types::{DType, TensorType, Type},
};

const NUMBER: DTypeClass = DTypeClass::NUMBER;
const WORD: DTypeClass = DTypeClass::of(&[DType::I32]);
const SCALE: DTypeClass = DTypeClass::of(&[DType::F32]);
/// Steps in a word.
const STEPS: i64 = 8;

op! {
    /// Sums products over the contracting dimensions, for each index of the batching ones and of
    /// the rest. The result's dimensions are the batching ones, then the rest of `lhs`, then the
    /// rest of `rhs`; its element type is `dtype`, or that of the operands.
    ///
    /// (C1) `lhs_batching_dims` and `rhs_batching_dims` are equally many, and pairwise of equal
    /// size.
    /// (C2) `lhs_contracting_dims` and `rhs_contracting_dims` are equally many, and pairwise of
    /// equal size.
    /// (C3) The batching and contracting dimensions of each operand are distinct axes of it.
    /// (C4) `element_type(lhs) = element_type(rhs)`.
    /// (C5) `dtype`, if present, is a float type for floats, and an integer type for integers.
    /// (C6) With `packed_columns`, `rhs` holds a matrix of that many columns as panels
    /// `[P, K, NR]`: `rhs[p, k, j]` is its element `[k, p*NR + j]`, 0 beyond the last column. Then
    /// `rhs_contracting_dims = [1]`, there is no batching, `packed_columns <= P*NR`, and the rest
    /// of `rhs` is one dimension of `packed_columns`.
    /// (C7) In panels `[P, G, NR, W]`, W rows of the matrix are stored together: `rhs[p, g, j, w]`
    /// is its element `[g*W + w, p*NR + j]`, 0 beyond the last row. `lhs` contracts one dimension,
    /// which is proved to be at most `G*W`; of its pair (C2) says nothing.
    DotGeneral = "dot_general"(lhs: one(NUMBER), rhs: one(NUMBER)) {
            lhs_batching_dims: optional(AttrKind::Ints), rhs_batching_dims: optional(AttrKind::Ints),
            lhs_contracting_dims: required(AttrKind::Ints), rhs_contracting_dims: required(AttrKind::Ints), dtype: optional(AttrKind::DType),
            packed_columns: optional(AttrKind::Dim)
        } -> (result: one(NUMBER)) traits [Pure] stages Stages::Tensor, infer dot_general;
}

op! {
    /// Dot products of windows of `lhs` with the kernels of `rhs`. The windows slide over the
    /// spatial dimensions of `lhs`, whose elements are first put `lhs_dilation` apart, with nothing
    /// between them that would be multiplied, and padded by zeros; windows are `window_strides`
    /// apart, and their elements `rhs_dilation`. Features, with `feature_group_count`, or batches,
    /// with `batch_group_count`, are split into groups that are convolved on their own, each with
    /// its part of the kernels. `window_reversal` has 1 for a spatial dimension where kernels run
    /// backwards. Lists that are absent stand for ones, for no padding, or for no reversal; counts
    /// that are absent stand for 1.
    ///
    /// (C1) `lhs` and `rhs` have one rank N >= 2, and one element type.
    /// (C2) Batch, feature and spatial dimensions of the input (`lhs`), the kernel (`rhs`) and the
    /// output are each the N axes.
    /// (C3) Strides, dilations, paddings and reversals have N - 2 entries; strides and dilations
    /// are >= 1.
    /// (C4) Both group counts are >= 1, and one of them is 1.
    /// (C5) The kernel's input features, times `feature_group_count`, are the input's features.
    /// (C6) The kernel's output features are a multiple of both group counts, and the input's batch
    /// is one of `batch_group_count`: proved where the sizes are constant, else a fact the program
    /// states.
    /// (C7) `dtype`, if present, is a float type for floats, and an integer type for integers.
    /// (C8) A spatial dimension of the result has as many elements as windows fit, as for
    /// `reduce_window`.
    Convolution = "convolution"(lhs: one(NUMBER), rhs: one(NUMBER)) {
            input_batch_dimension: required(AttrKind::Int), input_feature_dimension: required(AttrKind::Int),
            input_spatial_dimensions: required(AttrKind::Ints), kernel_input_feature_dimension: required(AttrKind::Int),
            kernel_output_feature_dimension: required(AttrKind::Int), kernel_spatial_dimensions: required(AttrKind::Ints),
            output_batch_dimension: required(AttrKind::Int), output_feature_dimension: required(AttrKind::Int),
            output_spatial_dimensions: required(AttrKind::Ints), window_strides: optional(AttrKind::Ints),
            padding_low: optional(AttrKind::Dims), padding_high: optional(AttrKind::Dims), lhs_dilation: optional(AttrKind::Ints),
            rhs_dilation: optional(AttrKind::Ints), window_reversal: optional(AttrKind::Ints),
            feature_group_count: optional(AttrKind::Int), batch_group_count: optional(AttrKind::Int), dtype: optional(AttrKind::DType)
        } -> (result: one(NUMBER)) traits [Pure] stages Stages::Tensor, infer convolution;
}

op! {
    /// Matrices that are stored in steps of 4 bits: `result[p, g, j, w]` is `scales[p, g, j]` times
    /// a step, from -8 to 7, the one with number `w % 8`, lowest first, of `words[p, g, w / 8, j]`.
    /// Products read them as panels, (C7) of `dot_general`. Not for other types: words hold eight
    /// steps of 4 bits, and scales are of the type that products sum in.
    ///
    /// (C1) `words` has rank 4 and `scales` rank 3: without the third dimension of `words`.
    UnpackInt4 = "unpack_int4"(words: one(WORD), scales: one(SCALE)) -> (result: one(SCALE)) traits [Pure] stages Stages::Tensor,
        infer unpack_int4;
}

/// Returns the element type of the result: as stated, or that of the operands.
fn result_dtype(cx: &InferCx<'_>, number: u32, operands: DType) -> Result<DType, Diagnostic> {
    match cx.dtype("dtype") {
        None => Ok(operands),
        Some(dtype) if dtype != DType::I1 && dtype.is_float() == operands.is_float() => Ok(dtype),
        Some(dtype) => Err(cx.error(Code::E0204, number, format!("a result of {dtype} from operands of {operands}"))),
    }
}

/// Checks dimensions that go in pairs: equally many, of equal sizes.
fn pairs(
    cx: &InferCx<'_>,
    number: u32,
    what: &str,
    lhs: (&TensorType, &[usize]),
    rhs: (&TensorType, &[usize]),
) -> Result<(), Diagnostic> {
    if lhs.1.len() != rhs.1.len() {
        let message = format!("`lhs` has {} {what} dimensions, `rhs` has {}", lhs.1.len(), rhs.1.len());
        return Err(cx.error(Code::E0207, number, message));
    }
    lhs.1.iter().zip(rhs.1).try_for_each(|(&a, &b)| {
        let message = || format!("{what} dimension {a} of `lhs` and {b} of `rhs` differ");
        cx.equal(number, &lhs.0.dims[a], &rhs.0.dims[b], message)
    })
}

fn dot_general(cx: &InferCx<'_>) -> Inferred {
    let (lhs, rhs) = (cx.tensor(0)?, cx.tensor(1)?);
    let dims = |tensor: &TensorType, batching, contracting| {
        let (batching, contracting) = (cx.ints(batching), cx.ints(contracting));
        let mut batching_axes = cx.axes(3, &[batching, contracting].concat(), tensor.rank())?;
        let contracting_axes = batching_axes.split_off(batching.len());
        Ok((batching_axes, contracting_axes))
    };
    let (lhs_batching, lhs_contracting) = dims(lhs, "lhs_batching_dims", "lhs_contracting_dims")?;
    let (rhs_batching, rhs_contracting) = dims(rhs, "rhs_batching_dims", "rhs_contracting_dims")?;
    pairs(cx, 1, "batching", (lhs, &lhs_batching), (rhs, &rhs_batching))?;
    match cx.dim("packed_columns") {
        Some(_) if rhs.rank() == 4 => check_words(cx, (lhs, &lhs_contracting), rhs)?,
        _ => pairs(cx, 2, "contracting", (lhs, &lhs_contracting), (rhs, &rhs_contracting))?,
    }
    if lhs.dtype != rhs.dtype {
        return Err(cx.error(Code::E0204, 4, format!("`lhs` has type {}, `rhs` has type {}", cx.ty(0), cx.ty(1))));
    }
    let dtype = result_dtype(cx, 5, lhs.dtype)?;
    let rest = |tensor: &TensorType, batching: &[usize], contracting: &[usize]| -> Vec<Dim> {
        let free = (0..tensor.rank()).filter(|axis| !batching.contains(axis) && !contracting.contains(axis));
        free.map(|axis| tensor.dims[axis].clone()).collect()
    };
    let mut sizes: Vec<Dim> = lhs_batching.iter().map(|&axis| lhs.dims[axis].clone()).collect();
    sizes.extend(rest(lhs, &lhs_batching, &lhs_contracting));
    match cx.dim("packed_columns") {
        None => sizes.extend(rest(rhs, &rhs_batching, &rhs_contracting)),
        Some(columns) => sizes.push(packed_columns(cx, columns, rhs, &rhs_contracting)?),
    }
    Ok(vec![Type::tensor(sizes, dtype)])
}

fn unpack_int4(cx: &InferCx<'_>) -> Inferred {
    let (words, scales) = (cx.tensor(0)?, cx.tensor(1)?);
    if words.rank() != 4 || scales.rank() != 3 {
        return Err(cx.error(Code::E0207, 1, format!("`words` has type {}, `scales` has type {}", cx.ty(0), cx.ty(1))));
    }
    for (a, b) in [(0, 0), (1, 1), (3, 2)] {
        let message = || format!("dimension {a} of `words` and {b} of `scales` differ");
        cx.equal(1, &words.dims[a], &scales.dims[b], message)?;
    }
    let [panels, groups, height, columns] = [0, 1, 2, 3].map(|axis: usize| words.dims[axis].clone());
    Ok(vec![Type::tensor([panels, groups, columns, height * STEPS], DType::F32)])
}

/// Checks that the rows of panels of words hold the contracted dimension of `lhs`.
fn check_words(cx: &InferCx<'_>, (lhs, contracting): (&TensorType, &[usize]), rhs: &TensorType) -> Result<(), Diagnostic> {
    let [axis] = contracting else {
        return Err(cx.error(Code::E0207, 7, format!("`lhs` contracts {contracting:?}, expected one dimension")));
    };
    let (depth, room) = (&lhs.dims[*axis], &rhs.dims[1] * &rhs.dims[3]);
    // Code that reads panels by words relies on this.
    match cx.solver.less_equal(depth, &room) {
        true => Ok(()),
        false => Err(cx.error(Code::E0209, 7, format!("[{depth}] rows in panels of [{room}]"))),
    }
}

/// The columns of a matrix in panels.
fn packed_columns(cx: &InferCx<'_>, columns: &Dim, rhs: &TensorType, contracting: &[usize]) -> Result<Dim, Diagnostic> {
    if !matches!(rhs.rank(), 3 | 4) || contracting != [1] || !cx.ints("rhs_batching_dims").is_empty() {
        let message = format!("`rhs` has type {} and contracts {contracting:?}, expected panels that contract [1]", cx.ty(1));
        return Err(cx.error(Code::E0207, 6, message));
    }
    let room = &rhs.dims[0] * &rhs.dims[2];
    match cx.solver.less_equal(&(&room + 1), columns) {
        true => Err(cx.error(Code::E0209, 6, format!("[{columns}] columns in panels of [{room}]"))),
        false => Ok(columns.clone()),
    }
}

/// The roles of a convolution's axes.
struct Layout {
    /// The batch, or the input features of a kernel.
    first: usize,
    /// The features, or the output features of a kernel.
    second: usize,
    spatial: Vec<usize>,
}

fn layout(cx: &InferCx<'_>, rank: usize, first: &str, second: &str, spatial: &str) -> Result<Layout, Diagnostic> {
    let all = [&[cx.int(first), cx.int(second)], cx.ints(spatial)].concat();
    let axes = cx.axes(2, &all, rank)?;
    if axes.len() != rank {
        return Err(cx.error(Code::E0207, 2, format!("`{spatial}` has {} entries, expected {}", axes.len() - 2, rank - 2)));
    }
    Ok(Layout { first: axes[0], second: axes[1], spatial: axes[2..].to_vec() })
}

/// Returns a group count; 1 if absent.
fn group_count(cx: &InferCx<'_>, name: &str) -> Result<i64, Diagnostic> {
    match cx.has(name) {
        false => Ok(1),
        true if cx.int(name) >= 1 => Ok(cx.int(name)),
        true => Err(cx.error(Code::E0209, 4, format!("`{name}` is {}", cx.int(name)))),
    }
}

fn check_multiple(cx: &InferCx<'_>, size: &Dim, count: i64, what: &str) -> Result<(), Diagnostic> {
    match size.as_const() {
        Some(size) if size % count != 0 => Err(cx.error(Code::E0209, 6, format!("{what}: {size} is not a multiple of {count}"))),
        _ => Ok(()),
    }
}

fn convolution(cx: &InferCx<'_>) -> Inferred {
    let (lhs, rhs) = (cx.tensor(0)?, cx.tensor(1)?);
    let rank = lhs.rank();
    if rank < 2 || rhs.rank() != rank || lhs.dtype != rhs.dtype {
        return Err(cx.error(Code::E0207, 1, format!("`lhs` has type {}, `rhs` has type {}", cx.ty(0), cx.ty(1))));
    }
    let input = layout(cx, rank, "input_batch_dimension", "input_feature_dimension", "input_spatial_dimensions")?;
    let kernel =
        layout(cx, rank, "kernel_input_feature_dimension", "kernel_output_feature_dimension", "kernel_spatial_dimensions")?;
    let output = layout(cx, rank, "output_batch_dimension", "output_feature_dimension", "output_spatial_dimensions")?;
    let (features, batches) = (group_count(cx, "feature_group_count")?, group_count(cx, "batch_group_count")?);
    if features > 1 && batches > 1 {
        return Err(cx.error(Code::E0209, 4, format!("{features} feature groups and {batches} batch groups")));
    }
    let (taken, offered) = (&rhs.dims[kernel.first] * features, &lhs.dims[input.second]);
    cx.equal(5, &taken, offered, || {
        "the kernel's input features times the feature groups, and the input's features differ".into()
    })?;
    let made = &rhs.dims[kernel.second];
    check_multiple(cx, made, features, "output features in feature groups")?;
    check_multiple(cx, made, batches, "output features in batch groups")?;
    check_multiple(cx, &lhs.dims[input.first], batches, "the batch in batch groups")?;
    let mut sizes = vec![Dim::constant(0); rank];
    sizes[output.first] = lhs.dims[input.first].floor_div(&Dim::constant(batches));
    sizes[output.second] = made.clone();
    let counts = spatial_sizes(cx, (lhs, &input), (rhs, &kernel))?;
    output.spatial.iter().zip(counts).for_each(|(&axis, count)| sizes[axis] = count);
    Ok(vec![Type::tensor(sizes, result_dtype(cx, 7, lhs.dtype)?)])
}

/// Returns the number of windows that fit into each spatial dimension (C8).
fn spatial_sizes(cx: &InferCx<'_>, lhs: (&TensorType, &Layout), rhs: (&TensorType, &Layout)) -> Result<Vec<Dim>, Diagnostic> {
    let n = lhs.1.spatial.len();
    let factors = |name| factors(cx, [3, 3], name, n);
    let (strides, lhs_dilation, rhs_dilation) = (factors("window_strides")?, factors("lhs_dilation")?, factors("rhs_dilation")?);
    let (low, high) = (paddings(cx, 3, "padding_low", n)?, paddings(cx, 3, "padding_high", n)?);
    let reversal = cx.ints("window_reversal");
    if !(reversal.is_empty() || reversal.len() == n) || reversal.iter().any(|r| !matches!(r, 0 | 1)) {
        return Err(cx.error(Code::E0209, 3, format!("`window_reversal` is {reversal:?}, expected {n} entries of 0 or 1")));
    }
    let count = |i: usize| {
        let window = Window {
            size: &rhs.0.dims[rhs.1.spatial[i]],
            stride: strides[i],
            dilation: rhs_dilation[i],
            base_dilation: lhs_dilation[i],
            low: low[i].clone(),
            high: high[i].clone(),
        };
        window.count(cx.solver, &lhs.0.dims[lhs.1.spatial[i]])
    };
    Ok((0..n).map(count).collect())
}
