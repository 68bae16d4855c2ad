//! Declares the op that holds a fusion group.
use super::{
    class::DTypeClass,
    control::equal_lists,
    declare::{Stage, Stages, many, optional, required},
};
use crate::{
    attr::AttrKind,
    diag::Code,
    infer::{InferCx, Inferred},
    types::Type,
};

const ANY: DTypeClass = DTypeClass::ANY;

/// The schedules that a group can have.
pub(crate) const FUSION_KINDS: &[&str] = &["loop", "row", "contraction", "attention", "convolution", "pooling", "single"];

op! {
    /// A fusion group: ops that become one kernel. At the buffer stage it has no results: its last
    /// operands are the buffers it writes.
    ///
    /// (C1) The region takes the inputs and returns the results, as tensors; at the buffer stage
    /// its results are written to the last operands.
    Fusion = "fusion"(inputs: many(ANY)) { kind: required(AttrKind::Enum(FUSION_KINDS)), name: optional(AttrKind::Symbol) } regions ["body"]
        -> (results: many(ANY)) traits [] stages Stages::Only(&[Stage::Fused, Stage::Buffer]), infer fusion;
}

fn fusion(cx: &InferCx<'_>) -> Inferred {
    let [body] = cx.regions else { return Err(cx.error(Code::E0201, 1, "one region is needed")) };
    let in_memory = cx.operands.iter().any(|ty| matches!(ty, Type::Buffer { .. }));
    if !in_memory {
        equal_lists(cx, 1, ("the arguments of the region", &body.arguments), ("`inputs`", cx.operands))?;
        return Ok(body.results.clone());
    }
    let held = |ty: &Type| ty.shaped().cloned().map_or_else(|| ty.clone(), Type::Tensor);
    let operands: Vec<Type> = cx.operands.iter().map(held).collect();
    let expected: Vec<Type> = body.arguments.iter().chain(&body.results).cloned().collect();
    equal_lists(cx, 1, ("the arguments and results of the region", &expected), ("what `inputs` hold", &operands))?;
    Ok(Vec::new())
}
