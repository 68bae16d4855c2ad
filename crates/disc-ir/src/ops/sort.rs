//! Declares ops that order elements.
use super::{
    class::DTypeClass,
    control::equal_lists,
    declare::{Stages, many, one, optional, required},
};
use crate::{
    attr::AttrKind,
    diag::Code,
    dim::Dim,
    infer::{InferCx, Inferred},
    types::{DType, TensorType, Type},
};

const ANY: DTypeClass = DTypeClass::ANY;
const INTEGER: DTypeClass = DTypeClass::INTEGER;

op! {
    /// Sorts the inputs together along `dimension`: `comparator` returns true if the first of two
    /// elements comes before the second. Elements of which neither comes first keep their order if
    /// `is_stable`; here, they always do. A comparator that is no order gives some permutation of
    /// the elements.
    ///
    /// (C1) There is an input, and all have one shape.
    /// (C2) `dimension` is an axis of the inputs.
    /// (C3) `comparator` takes two scalars per input (`a0, b0, a1, b1, ...`), of its element type,
    /// and returns a scalar `i1`.
    Sort = "sort"(inputs: many(ANY)) { dimension: required(AttrKind::Int), is_stable: optional(AttrKind::Bool) } regions ["comparator"]
        -> (results: many(ANY)) traits [Pure] stages Stages::Tensor, infer sort;
}

op! {
    /// The `k` greatest elements along the last dimension, greatest first, and their indices; with
    /// `largest = false`, the least, least first. Of equal elements, the one with the lower index
    /// comes first. NaN is greater than every number. The first `skip` of them are left out: a
    /// median is `k = 1` after half of the elements.
    ///
    /// (C1) The operand has a rank of at least 1.
    /// (C2) `0 <= k` and `skip + k <= size` of the last dimension, proved where constant, else a
    /// fact the program states.
    /// (C3) `index_dtype` is an integer type; it is `i32` if absent.
    /// (C4) `0 <= skip`, proved where constant, else a fact the program states; it is 0 if absent.
    TopK = "top_k"(operand: one(ANY)) {
            k: required(AttrKind::Dim), largest: optional(AttrKind::Bool), skip: optional(AttrKind::Dim), index_dtype: optional(AttrKind::DType)
        } -> (values: one(ANY), indices: one(INTEGER)) traits [Pure] stages Stages::Tensor, infer top_k;
}

fn sort(cx: &InferCx<'_>) -> Inferred {
    if cx.operands.is_empty() {
        return Err(cx.error(Code::E0201, 1, "at least one input is needed"));
    }
    let first = cx.tensor(0)?;
    for i in 1..cx.operands.len() {
        cx.equal_shapes(1, ("input 0", &first.dims), ("another input", &cx.tensor(i)?.dims))?;
    }
    cx.axis(2, cx.int("dimension"), first.rank())?;
    let [comparator] = cx.regions else { return Err(cx.error(Code::E0201, 3, "one region is needed")) };
    let scalar = |dtype| Type::Tensor(TensorType::scalar(dtype));
    let arguments: Vec<Type> = cx.operands.iter().flat_map(|ty| [scalar(ty.dtype()), scalar(ty.dtype())]).collect();
    equal_lists(cx, 3, ("the arguments of `comparator`", &comparator.arguments), ("two scalars per input", &arguments))?;
    equal_lists(cx, 3, ("the result of `comparator`", &comparator.results), ("a scalar i1", &[scalar(DType::I1)]))?;
    Ok(cx.operands.to_vec())
}

fn top_k(cx: &InferCx<'_>) -> Inferred {
    let operand = cx.tensor(0)?;
    let Some((size, outer)) = operand.dims.split_last() else {
        return Err(cx.error(Code::E0207, 1, "the operand is a scalar"));
    };
    let zero = Dim::constant(0);
    let [k, skip] = ["k", "skip"].map(|name| cx.dim(name).unwrap_or(&zero));
    let refuted = |low: &Dim, high: &Dim| cx.solver.less_equal(high, &(low - 1));
    if refuted(&zero, skip) {
        return Err(cx.error(Code::E0209, 4, format!("`skip` is [{skip}]")));
    }
    let wanted = k + skip;
    if refuted(&zero, k) || refuted(&wanted, size) {
        let skipped = if skip.is_const(0) { String::new() } else { format!(" and `skip` [{skip}]") };
        return Err(cx.error(Code::E0209, 2, format!("`k` is [{k}]{skipped}, the last dimension has size [{size}]")));
    }
    let index = cx.dtype("index_dtype").unwrap_or(DType::I32);
    if !index.is_integer() {
        return Err(cx.error(Code::E0204, 3, format!("`index_dtype` is {index}")));
    }
    let dims: Vec<Dim> = outer.iter().chain([k]).cloned().collect();
    Ok(vec![Type::tensor(dims.iter().cloned(), operand.dtype), Type::tensor(dims, index)])
}
