//! Declares structured control flow. A region is one block that ends in `return`; it may use values
//! of the blocks around it.
use super::{
    class::DTypeClass,
    declare::{Stages, many, one, optional, required},
};
use crate::{
    attr::AttrKind,
    diag::{Code, Diagnostic},
    infer::{InferCx, Inferred},
    types::{DType, Type},
};

const ANY: DTypeClass = DTypeClass::ANY;
const BOOL: DTypeClass = DTypeClass::BOOL;

op! {
    /// Ends a block and returns its results.
    ///
    /// (C1) The values have the result types of the function; those of a region are checked by its
    /// op.
    Return = "return"(values: many(ANY)) -> () traits [Terminator] stages Stages::Both, infer nothing;
}

op! {
    /// Runs one of two regions.
    ///
    /// (C1) `pred` is a scalar.
    /// (C2) Both regions take no arguments and return equal types, which the results have.
    If = "if"(pred: one(BOOL)) regions ["then", "else"] -> (results: many(ANY)) traits [] stages Stages::Both, infer if_;
}

op! {
    /// Runs `do` as long as `cond` holds, carrying values along.
    ///
    /// (C1) `cond` takes the carried values and returns one scalar `i1`.
    /// (C2) `do` takes the carried values and returns values of their types, which the results
    /// have.
    While = "while"(inits: many(ANY)) regions ["cond", "do"] -> (results: many(ANY)) traits [] stages Stages::Both, infer while_;
}

op! {
    /// Calls a function of the module.
    ///
    /// (C1) The function has these parameter and result types.
    Call = "call"(arguments: many(ANY)) { callee: required(AttrKind::Symbol) } -> (results: many(ANY))
        traits [] stages Stages::Both, infer call;
}

/// Subjects of an assertion; the first is the default.
pub(crate) const ABOUT: &[&str] = &["value", "size"];

op! {
    /// Fails the call with `message` unless `pred` holds. In a kernel, `site` names the place in
    /// the module's table of messages. With `about = size` it states what an op demands of sizes:
    /// it fails with the code of a size, not of an assertion.
    ///
    /// (C1) `pred` is a scalar.
    Assert = "assert"(pred: one(BOOL), values: many(DTypeClass::INTEGER)) { message: optional(AttrKind::Str), site: optional(AttrKind::Int), about: optional(AttrKind::Enum(ABOUT)) } -> ()
        traits [MayFail] stages Stages::Both, infer assert;
}

fn nothing(_: &InferCx<'_>) -> Inferred {
    Ok(Vec::new())
}

fn scalar_truth(cx: &InferCx<'_>, ty: &Type, what: &str) -> Result<(), Diagnostic> {
    match ty {
        Type::Tensor(t) if t.rank() == 0 && t.dtype == DType::I1 => Ok(()),
        Type::Vector { lanes: 1, dtype: DType::I1 } => Ok(()),
        _ => Err(cx.error(Code::E0207, 1, format!("{what} has type {ty}, expected a scalar i1"))),
    }
}

/// Checks that two lists of types are equal by the facts.
pub(super) fn equal_lists(cx: &InferCx<'_>, number: u32, a: (&str, &[Type]), b: (&str, &[Type])) -> Result<(), Diagnostic> {
    if a.1.len() != b.1.len() {
        let message = format!("{} has {} values, {} has {}", a.0, a.1.len(), b.0, b.1.len());
        return Err(cx.error(Code::E0201, number, message));
    }
    a.1.iter().zip(b.1).try_for_each(|(x, y)| cx.equal_types(number, (a.0, x), (b.0, y)))
}

fn if_(cx: &InferCx<'_>) -> Inferred {
    scalar_truth(cx, cx.ty(0), "`pred`")?;
    let [then, otherwise] = cx.regions else { return Err(cx.error(Code::E0201, 2, "two regions are needed")) };
    equal_lists(cx, 2, ("the arguments of `then`", &then.arguments), ("an empty list", &[]))?;
    equal_lists(cx, 2, ("the arguments of `else`", &otherwise.arguments), ("an empty list", &[]))?;
    equal_lists(cx, 2, ("the result of `then`", &then.results), ("the result of `else`", &otherwise.results))?;
    Ok(then.results.clone())
}

fn while_(cx: &InferCx<'_>) -> Inferred {
    let [cond, body] = cx.regions else { return Err(cx.error(Code::E0201, 1, "two regions are needed")) };
    equal_lists(cx, 1, ("the arguments of `cond`", &cond.arguments), ("`inits`", cx.operands))?;
    let [truth] = &cond.results[..] else { return Err(cx.error(Code::E0201, 1, "`cond` must return one value")) };
    scalar_truth(cx, truth, "the result of `cond`")?;
    equal_lists(cx, 2, ("the arguments of `do`", &body.arguments), ("`inits`", cx.operands))?;
    equal_lists(cx, 2, ("the result of `do`", &body.results), ("`inits`", cx.operands))?;
    Ok(cx.operands.to_vec())
}

fn call(cx: &InferCx<'_>) -> Inferred {
    match cx.declared {
        Some(types) => Ok(types.to_vec()),
        None => Err(cx.error(Code::E0205, 1, "the result types must be stated")),
    }
}

fn assert(cx: &InferCx<'_>) -> Inferred {
    scalar_truth(cx, cx.ty(0), "`pred`")?;
    Ok(Vec::new())
}
