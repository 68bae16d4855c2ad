//! Declares the op that holds a fusion group.
use super::{
    OpKind,
    class::DTypeClass,
    control::equal_lists,
    declare::{Stage, Stages, many, optional, required},
};
use crate::{
    attr::{Attr, AttrKind},
    diag::Code,
    graph::{Function, Inst},
    infer::{InferCx, Inferred},
    types::Type,
};

use std::{fmt, str::FromStr};

const ANY: DTypeClass = DTypeClass::ANY;

/// The schedule that a group gets.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum FusionKind {
    /// Each element of the results on its own.
    Pointwise,
    /// Rows, of which some ops combine the elements.
    Reduction,
    /// Matmuls and what follows them element by element.
    Matmul,
    /// A product, a function of its rows, and a product with these.
    Attention,
    /// Convolutions of few features for each group.
    Convolution,
    Pooling,
    /// One op that no other can join.
    Standalone,
}

impl FusionKind {
    pub const ALL: [Self; 7] =
        [Self::Pointwise, Self::Reduction, Self::Matmul, Self::Attention, Self::Convolution, Self::Pooling, Self::Standalone];

    /// The kind as text, which names of kernels contain.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Pointwise => "pointwise",
            Self::Reduction => "reduction",
            Self::Matmul => "matmul",
            Self::Attention => "attention",
            Self::Convolution => "convolution",
            Self::Pooling => "pooling",
            Self::Standalone => "standalone",
        }
    }

    /// The kind of a `fusion` op; `None` for any other op.
    pub fn of(function: &Function, inst: Inst) -> Option<Self> {
        match function.inst(inst).attrs.first() {
            Some(Some(Attr::Enum(word))) if function.kind_of(inst) == OpKind::Fusion => word.parse().ok(),
            _ => None,
        }
    }
}

impl fmt::Display for FusionKind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

impl FromStr for FusionKind {
    type Err = UnknownKind;

    fn from_str(text: &str) -> Result<Self, UnknownKind> {
        Self::ALL.into_iter().find(|kind| kind.name() == text).ok_or(UnknownKind)
    }
}

/// No [`FusionKind`] has this name.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct UnknownKind;

impl From<FusionKind> for Attr {
    fn from(kind: FusionKind) -> Self {
        Self::Enum(kind.name())
    }
}

/// The words of attribute `kind`.
const FUSION_KINDS: &[&str] = &{
    let mut words = [""; FusionKind::ALL.len()];
    let mut i = 0;
    while i < words.len() {
        words[i] = FusionKind::ALL[i].name();
        i += 1;
    }
    words
};

op! {
    /// A fusion group: ops that become one kernel. At the buffer stage it has no results: its last
    /// operands are the buffers it writes.
    ///
    /// (C1) The region takes the inputs and returns the results, as tensors; at the buffer stage
    /// its results are written to the last operands.
    /// (C2) A group of kind `reduction` carries the decision of the fusion pass: `space` has the
    /// sizes that it walks, `reduced` its axes that are reduced, and `walks`, for each result, the
    /// number of the walk that writes it, at most 63, or -1 for a result with one element for each
    /// row.
    /// (C3) `orders` has, for each result in turn, the axes of `space` in the order in which the
    /// result is stored; it is absent if all are stored in the order of `space`.
    Fusion = "fusion"(inputs: many(ANY)) {
            kind: required(AttrKind::Enum(FUSION_KINDS)), name: optional(AttrKind::Symbol), space: optional(AttrKind::Dims),
            reduced: optional(AttrKind::Ints), walks: optional(AttrKind::Ints), orders: optional(AttrKind::Ints)
        } regions ["body"]
        -> (results: many(ANY)) traits [] stages Stages::Only(&[Stage::Fused, Stage::Buffer]), infer fusion;
}

fn fusion(cx: &InferCx<'_>) -> Inferred {
    let [body] = cx.regions else { return Err(cx.error(Code::E0201, 1, "one region is needed")) };
    check_plan(cx, body.results.len())?;
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

/// Checks that the decision about a group fits its results, if the group carries one.
fn check_plan(cx: &InferCx<'_>, results: usize) -> Result<(), crate::diag::Diagnostic> {
    let (space, reduced) = (cx.dims("space"), cx.ints("reduced"));
    let (walks, orders) = (cx.ints("walks"), cx.ints("orders"));
    let is_axis = |axis: &i64| usize::try_from(*axis).is_ok_and(|axis| axis < space.len());
    if !reduced.iter().all(is_axis) || !reduced.is_sorted_by(|a, b| a < b) {
        return Err(cx.error(Code::E0209, 2, "`reduced` must hold axes of `space` in increasing order"));
    }
    let is_reduction = cx.word("kind") == FusionKind::Reduction.name();
    if !is_reduction && ["space", "reduced", "walks", "orders"].iter().any(|name| cx.has(name)) {
        return Err(cx.error(Code::E0209, 2, "only a group of kind `reduction` carries a decision"));
    }
    if cx.has("walks") && walks.len() != results {
        return Err(cx.error(Code::E0209, 2, format!("`walks` has {} numbers for {results} results", walks.len())));
    }
    if !walks.iter().all(|walk| (-1..64).contains(walk)) {
        return Err(cx.error(Code::E0209, 2, "a number of `walks` must be from -1 to 63"));
    }
    let is_order = |order: &[i64]| (0..space.len() as i64).all(|axis| order.contains(&axis));
    if !orders.is_empty() && (orders.len() != results * space.len() || !orders.chunks(space.len().max(1)).all(is_order)) {
        return Err(cx.error(Code::E0209, 3, "`orders` must hold a permutation of the axes of `space` for each result"));
    }
    Ok(())
}
