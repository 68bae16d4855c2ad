//! Declares ops that combine elements along dimensions by a body on scalars: reductions and scans.
//!
//! [`super::body`] recognises bodies; nothing here inspects them.
//!
//! Invariant: a body takes the values combined so far, then the next ones, each a scalar tensor,
//! and returns the new values.
use super::{
    class::DTypeClass,
    control::equal_lists,
    declare::{Stages, many, optional, required},
};
use crate::{
    attr::AttrKind,
    diag::{Code, Diagnostic},
    infer::{InferCx, Inferred},
    types::{TensorType, Type},
};

const ANY: DTypeClass = DTypeClass::ANY;

op! {
    /// Combines the elements along `dims`, starting from `inits`: the sum, the largest element and
    /// its index, ... Without elements, the result is `inits`. The order in which elements are
    /// combined is free: `body` must be associative, and `inits` neutral.
    ///
    /// (C1) There is an input; all inputs have one shape, and as many inits are scalars of their
    /// element types.
    /// (C2) `dims` are distinct axes of the inputs.
    /// (C3) `body` takes scalars of the inputs' element types, twice, and returns them once.
    Reduce = "reduce"(inputs: many(ANY), inits: many(ANY)) { dims: required(AttrKind::Ints) } regions ["body"] -> (results: many(ANY))
        traits [Pure] stages Stages::Tensor, infer reduce;
}

op! {
    /// The running combination along `dim`: element `i` of the result combines elements 0 to `i`,
    /// starting from `inits`; with `reverse`, from the last element down to `i`. The elements are
    /// combined in order, grouped in any way.
    ///
    /// (C1) There is an input; all inputs have one shape, and as many inits are scalars of their
    /// element types.
    /// (C2) `dim` is an axis of the inputs.
    /// (C3) `body` takes scalars of the inputs' element types, twice, and returns them once.
    Cumulative = "cumulative"(inputs: many(ANY), inits: many(ANY)) { dim: required(AttrKind::Int), reverse: optional(AttrKind::Bool) }
        regions ["body"] -> (results: many(ANY)) traits [Pure] stages Stages::Tensor, infer cumulative;
}

/// Checks inputs of one shape, with their inits and a body that combines their elements. Returns
/// the number of inputs.
pub(super) fn check_combination(cx: &InferCx<'_>, operands: u32, body: u32) -> Result<usize, Diagnostic> {
    let n = cx.operands.len() / 2;
    if n == 0 {
        return Err(cx.error(Code::E0201, operands, "at least one input is needed"));
    }
    let first = cx.tensor(0)?;
    for i in 1..n {
        cx.equal_shapes(operands, ("input 0", &first.dims), ("another input", &cx.tensor(i)?.dims))?;
    }
    let scalars: Vec<Type> = cx.operands[..n].iter().map(|ty| Type::Tensor(TensorType::scalar(ty.dtype()))).collect();
    equal_lists(cx, operands, ("`inits`", &cx.operands[n..]), ("scalars of the inputs", &scalars))?;
    let [region] = cx.regions else { return Err(cx.error(Code::E0201, body, "one region is needed")) };
    let arguments = [&scalars[..], &scalars[..]].concat();
    equal_lists(cx, body, ("the arguments of `body`", &region.arguments), ("scalars of the inputs, twice", &arguments))?;
    equal_lists(cx, body, ("the result of `body`", &region.results), ("scalars of the inputs", &scalars))?;
    Ok(n)
}

fn reduce(cx: &InferCx<'_>) -> Inferred {
    let n = check_combination(cx, 1, 3)?;
    let shape = &cx.tensor(0)?.dims;
    let reduced = cx.axes(2, cx.ints("dims"), shape.len())?;
    let kept = (0..shape.len()).filter(|axis| !reduced.contains(axis)).map(|axis| shape[axis].clone());
    let kept: Vec<_> = kept.collect();
    Ok(cx.operands[..n].iter().map(|ty| Type::tensor(kept.iter().cloned(), ty.dtype())).collect())
}

fn cumulative(cx: &InferCx<'_>) -> Inferred {
    let n = check_combination(cx, 1, 3)?;
    cx.axis(2, cx.int("dim"), cx.tensor(0)?.rank())?;
    Ok(cx.operands[..n].to_vec())
}
