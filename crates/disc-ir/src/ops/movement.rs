//! Declares ops that create or rearrange elements without computing on them.
//!
//! They take dim expressions instead of HLO's constant sizes: in attributes, or in the stated
//! result type.
use super::{
    class::DTypeClass,
    declare::{Stage, Stages, many, one, optional, required},
};
use crate::{
    attr::AttrKind,
    diag::Code,
    dim::{Dim, Solver},
    infer::{InferCx, Inferred},
    types::{DType, TensorType, Type},
};

const ANY: DTypeClass = DTypeClass::ANY;

op! {
    /// A tensor known at compile time. In a kernel, a vector with all lanes equal.
    ///
    /// (C1) The literal has the element type of the result.
    /// (C2) The literal is a splat, or has as many elements as the result, whose shape is static.
    Constant = "constant"() { value: required(AttrKind::Literal) } -> (result: one(ANY))
        traits [Pure] stages Stages::Both, infer constant;
}

op! {
    /// A weight of the module. Its value is not known when compiling.
    ///
    /// (C1) The module has a weight of this name and type.
    Weight = "weight"() { name: required(AttrKind::Symbol) } -> (result: one(ANY))
        traits [Pure] stages Stages::Only(&Stage::ALL), infer declared;
}

op! {
    /// The value of a dim expression, as a scalar.
    ///
    /// (C1) The result is a scalar of an integer type.
    DimValue = "dim"() { value: required(AttrKind::Dim) } -> (result: one(DTypeClass::INTEGER))
        traits [Pure] stages Stages::Both, infer dim_value;
}

op! {
    /// The size of one dimension, as a scalar `i32`.
    ///
    /// (C1) `dimension` is an axis of the operand.
    GetDimensionSize = "get_dimension_size"(operand: one(ANY)) { dimension: required(AttrKind::Int) } -> (result: one(DTypeClass::INTEGER))
        traits [Pure] stages Stages::Tensor, infer get_dimension_size;
}

op! {
    /// Counts up from 0 along one dimension. Not for i1, which does not count.
    ///
    /// (C1) `dim` is an axis of the result.
    Iota = "iota"() { dim: required(AttrKind::Int) } -> (result: one(DTypeClass::NUMBER))
        traits [Pure] stages Stages::Tensor, infer iota;
}

op! {
    /// Repeats the operand along new dimensions, and along dimensions of size 1.
    ///
    /// (C1) `dims` has one distinct axis of the result per dimension of the operand.
    /// (C2) Dimension `i` of the operand has size 1 or the size of dimension `dims[i]` of the
    /// result.
    BroadcastInDim = "broadcast_in_dim"(operand: one(ANY)) { dims: required(AttrKind::Ints) } -> (result: one(ANY))
        traits [Pure, Movement] stages Stages::Tensor, infer broadcast_in_dim;
}

op! {
    /// The same elements, in row-major order, in another shape.
    ///
    /// (C1) Operand and result have equally many elements and one element type.
    Reshape = "reshape"(operand: one(ANY)) -> (result: one(ANY)) traits [Pure, Movement] stages Stages::Tensor, infer reshape;
}

op! {
    /// Reorders dimensions: dimension `i` of the result is dimension `dims[i]` of the operand.
    ///
    /// (C1) `dims` is a permutation of the axes of the operand.
    Transpose = "transpose"(operand: one(ANY)) { dims: required(AttrKind::Ints) } -> (result: one(ANY))
        traits [Pure, Movement] stages Stages::Tensor, infer transpose;
}

op! {
    /// Every `strides`-th element from `start` up to but not including `limit`, in each dimension.
    ///
    /// (C1) `start`, `limit` and, if present, `strides` have one entry per dimension; strides are
    /// constants >= 1.
    /// (C2) `0 <= start[i] <= limit[i] <= size(i)`, proved where the sizes are constant, else a
    /// fact the program states.
    Slice = "slice"(operand: one(ANY)) { start: required(AttrKind::Dims), limit: required(AttrKind::Dims), strides: optional(AttrKind::Ints) }
        -> (result: one(ANY)) traits [Pure, Movement] stages Stages::Tensor, infer slice;
}

op! {
    /// Joins tensors along one dimension.
    ///
    /// (C1) There is an input, and all have the element type and rank of the first.
    /// (C2) `dim` is an axis of the inputs.
    /// (C3) All dimensions but `dim` are equal.
    Concatenate = "concatenate"(inputs: many(ANY)) { dim: required(AttrKind::Int) } -> (result: one(ANY))
        traits [Pure, Movement] stages Stages::Tensor, infer concatenate;
}

op! {
    /// The operand with elements of `padding_value` around it (`low` before the first, `high` after
    /// the last) and `interior` of them between neighbours. A negative `low` or `high` takes
    /// elements away, after the interior padding.
    ///
    /// (C1) `low`, `high` and, if present, `interior` have one entry per dimension; interior ones
    /// are constants >= 0.
    /// (C2) `padding_value` is a scalar of the operand's element type.
    /// (C3) Dimension `i` of the result has size
    /// `size(i) + low[i] + max(size(i) - 1, 0) * interior[i] + high[i]`, which is >= 0: proved
    /// where the sizes are constant, else a fact the program states.
    Pad = "pad"(operand: one(ANY), padding_value: one(ANY)) {
            low: required(AttrKind::Dims), high: required(AttrKind::Dims), interior: optional(AttrKind::Ints)
        } -> (result: one(ANY)) traits [Pure, Movement] stages Stages::Tensor, infer pad;
}

op! {
    /// The elements in the opposite order along `dims`.
    ///
    /// (C1) `dims` are distinct axes of the operand.
    Reverse = "reverse"(operand: one(ANY)) { dims: required(AttrKind::Ints) } -> (result: one(ANY))
        traits [Pure, Movement] stages Stages::Tensor, infer reverse;
}

fn declared(cx: &InferCx<'_>) -> Inferred {
    match cx.declared {
        Some(types) => Ok(types.to_vec()),
        None => Err(cx.error(Code::E0205, 1, "the result type must be stated")),
    }
}

fn constant(cx: &InferCx<'_>) -> Inferred {
    let literal = cx.literal("value").expect("a required attribute");
    let types = declared(cx)?;
    let ty = &types[0];
    if ty.dtype() != literal.dtype {
        return Err(cx.error(Code::E0204, 1, format!("the literal has element type {}, the result is {ty}", literal.dtype)));
    }
    if !literal.splat {
        let wanted = ty.as_tensor().and_then(|t| t.element_count().as_const());
        if wanted != Some(literal.stored_len() as i64) {
            return Err(cx.error(
                Code::E0209,
                2,
                format!("the literal has {} elements, the result is {ty}", literal.stored_len()),
            ));
        }
    }
    Ok(types)
}

fn dim_value(cx: &InferCx<'_>) -> Inferred {
    let types = declared(cx)?;
    match &types[0] {
        Type::Vector { lanes: 1, .. } => Ok(types),
        Type::Tensor(t) if t.rank() == 0 => Ok(types),
        ty => Err(cx.error(Code::E0207, 1, format!("the result is {ty}, expected a scalar"))),
    }
}

fn get_dimension_size(cx: &InferCx<'_>) -> Inferred {
    cx.axis(1, cx.int("dimension"), cx.tensor(0)?.rank())?;
    Ok(vec![Type::Tensor(TensorType::scalar(DType::I32))])
}

fn iota(cx: &InferCx<'_>) -> Inferred {
    let result = cx.declared_tensor()?;
    cx.axis(1, cx.int("dim"), result.rank())?;
    Ok(vec![Type::Tensor(result.clone())])
}

fn broadcast_in_dim(cx: &InferCx<'_>) -> Inferred {
    let (operand, result) = (cx.tensor(0)?, cx.declared_tensor()?);
    let axes = cx.axes(1, cx.ints("dims"), result.rank())?;
    if axes.len() != operand.rank() {
        return Err(cx.error(Code::E0207, 1, format!("`dims` has {} axes, the operand rank {}", axes.len(), operand.rank())));
    }
    for (i, (size, &axis)) in operand.dims.iter().zip(&axes).enumerate() {
        if !cx.solver.equal(size, &Dim::constant(1)) {
            cx.equal(2, size, &result.dims[axis], || format!("dimension {i} of the operand and {axis} of the result differ"))?;
        }
    }
    Ok(vec![Type::Tensor(TensorType::new(result.dims.iter().cloned(), operand.dtype))])
}

fn reshape(cx: &InferCx<'_>) -> Inferred {
    let (operand, result) = (cx.tensor(0)?, cx.declared_tensor()?);
    if !cx.solver.product_equal(&operand.dims, &result.dims) {
        let (from, to) = (operand.element_count(), result.element_count());
        let error = cx.error(Code::E0203, 1, format!("the operand has [{from}] elements, the result [{to}]"));
        return Err(match (from.as_const(), to.as_const()) {
            (Some(_), Some(_)) => error,
            _ => error.note("no fact relates them").help(format!("add `where {from} == {to}`")),
        });
    }
    Ok(vec![Type::Tensor(TensorType::new(result.dims.iter().cloned(), operand.dtype))])
}

fn transpose(cx: &InferCx<'_>) -> Inferred {
    let operand = cx.tensor(0)?;
    let axes = cx.axes(1, cx.ints("dims"), operand.rank())?;
    if axes.len() != operand.rank() {
        return Err(cx.error(Code::E0206, 1, format!("`dims` has {} axes, the operand rank {}", axes.len(), operand.rank())));
    }
    Ok(vec![Type::tensor(axes.iter().map(|&a| operand.dims[a].clone()), operand.dtype)])
}

fn slice(cx: &InferCx<'_>) -> Inferred {
    let operand = cx.tensor(0)?;
    let (start, limit, strides) = (cx.dims("start"), cx.dims("limit"), cx.ints("strides"));
    let rank = operand.rank();
    if start.len() != rank || limit.len() != rank || !(strides.is_empty() || strides.len() == rank) {
        return Err(cx.error(Code::E0207, 1, format!("`start`, `limit` and `strides` need {rank} entries each")));
    }
    if let Some(stride) = strides.iter().find(|&&s| s < 1) {
        return Err(cx.error(Code::E0209, 1, format!("a stride of {stride}")));
    }
    let mut dims = Vec::with_capacity(rank);
    for i in 0..rank {
        let bounds = [(&Dim::constant(0), &start[i]), (&start[i], &limit[i]), (&limit[i], &operand.dims[i])];
        if let Some((low, high)) = bounds.into_iter().find(|(a, b)| cx.solver.less_equal(b, &(*a - 1))) {
            return Err(cx.error(Code::E0209, 2, format!("in dimension {i}, [{high}] is less than [{low}]")));
        }
        let extent = (&limit[i] - &start[i]).shortened();
        dims.push(extent.ceil_div(&Dim::constant(strides.get(i).copied().unwrap_or(1))));
    }
    Ok(vec![Type::tensor(dims, operand.dtype)])
}

fn concatenate(cx: &InferCx<'_>) -> Inferred {
    if cx.operands.is_empty() {
        return Err(cx.error(Code::E0201, 1, "at least one input is needed"));
    }
    let first = cx.tensor(0)?;
    let axis = cx.axis(2, cx.int("dim"), first.rank())?;
    let mut total = Dim::constant(0);
    for i in 0..cx.operands.len() {
        let input = cx.tensor(i)?;
        if input.dtype != first.dtype || input.rank() != first.rank() {
            return Err(cx.error(Code::E0204, 1, format!("input {i} has type {}, input 0 has type {}", cx.ty(i), cx.ty(0))));
        }
        for d in (0..first.rank()).filter(|&d| d != axis) {
            cx.equal(3, &input.dims[d], &first.dims[d], || format!("dimension {d} of input {i} and of input 0 differ"))?;
        }
        total += &input.dims[axis];
    }
    let mut dims = first.dims.clone();
    dims[axis] = total.shortened();
    Ok(vec![Type::tensor(dims, first.dtype)])
}

fn pad(cx: &InferCx<'_>) -> Inferred {
    let operand = cx.tensor(0)?;
    let (low, high, interior) = (cx.dims("low"), cx.dims("high"), cx.ints("interior"));
    let rank = operand.rank();
    if low.len() != rank || high.len() != rank || !(interior.is_empty() || interior.len() == rank) {
        return Err(cx.error(Code::E0207, 1, format!("`low`, `high` and `interior` need {rank} entries each")));
    }
    if let Some(amount) = interior.iter().find(|&&n| n < 0) {
        return Err(cx.error(Code::E0209, 1, format!("an interior padding of {amount}")));
    }
    let scalar = Type::Tensor(TensorType::scalar(operand.dtype));
    cx.equal_types(2, ("padding_value", cx.ty(1)), ("a scalar of the operand's element type", &scalar))?;
    let mut dims = Vec::with_capacity(rank);
    for i in 0..rank {
        let spread = dilated(cx.solver, &operand.dims[i], interior.get(i).copied().unwrap_or(0).saturating_add(1));
        let size = spread + &low[i] + &high[i];
        if cx.solver.less_equal(&size, &Dim::constant(-1)) {
            return Err(cx.error(Code::E0209, 3, format!("dimension {i} of the result has size [{size}]")));
        }
        dims.push(size);
    }
    Ok(vec![Type::tensor(dims, operand.dtype)])
}

/// Returns the size of a dimension that is dilated by `factor`: 0 for none, else
/// `(size - 1) * factor + 1`.
pub(super) fn dilated(solver: &Solver, size: &Dim, factor: i64) -> Dim {
    let zero = Dim::constant(0);
    match factor {
        1 => size.clone(),
        _ if solver.less_equal(&Dim::constant(1), size) => (size - 1) * factor + 1,
        _ => size + Dim::max(&(size - 1), &zero) * (factor - 1),
    }
}

fn reverse(cx: &InferCx<'_>) -> Inferred {
    cx.axes(1, cx.ints("dims"), cx.tensor(0)?.rank())?;
    Ok(vec![cx.ty(0).clone()])
}
