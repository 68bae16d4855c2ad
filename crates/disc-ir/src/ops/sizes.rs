//! Declares ops for data-dependent sizes: one binds a dim to a value, the others make tensors of
//! such a size.
//!
//! A program counts first (`reduce`), then binds the count, then makes a tensor of that size: every
//! other op sees a dim like any other.
use super::{
    class::DTypeClass,
    declare::{Stage, Stages, one, required},
};
use crate::{
    attr::AttrKind,
    diag::Code,
    infer::{InferCx, Inferred},
    types::{DType, Type},
};

const INDEX: DTypeClass = DTypeClass::of(&[DType::I64]);

op! {
    /// Binds a dim: from here to the end of the block, `dim` has the value of `size`. A size below
    /// 0, or one that violates a fact of the function, fails the call. Not for other types than
    /// `i64`, the type of sizes.
    ///
    /// (C1) `size` is a scalar `i64`.
    /// (C2) `dim` is one symbol, which nothing else binds.
    BindDim = "bind_dim"(size: one(INDEX)) { dim: required(AttrKind::Dim) } -> ()
        traits [MayFail] stages Stages::Only(&Stage::ALL), infer bind_dim;
}

op! {
    /// The positions of the true elements, ascending, as many as the result has room for. If there
    /// are fewer, the remaining entries are -1. Not for other types than truth values.
    ///
    /// (C1) The operand has one dimension.
    /// (C2) The result is an `i64` tensor of one dimension.
    Nonzero = "nonzero"(operand: one(DTypeClass::BOOL)) -> (positions: one(INDEX)) traits [Pure] stages Stages::Tensor, infer nonzero;
}

fn bind_dim(cx: &InferCx<'_>) -> Inferred {
    let is_scalar = match cx.ty(0) {
        Type::Tensor(tensor) => tensor.rank() == 0,
        Type::Vector { lanes, .. } => *lanes == 1,
        Type::Buffer { .. } => false,
    };
    if !is_scalar {
        return Err(cx.error(Code::E0207, 1, format!("`size` has type {}, expected a scalar i64", cx.ty(0))));
    }
    match cx.dim("dim") {
        Some(dim) if dim.as_symbol().is_some() => Ok(Vec::new()),
        dim => {
            let found = dim.map_or_else(String::new, ToString::to_string);
            Err(cx.error(Code::E0209, 2, format!("`dim` is [{found}], expected a symbol alone")))
        }
    }
}

fn nonzero(cx: &InferCx<'_>) -> Inferred {
    let (operand, result) = (cx.tensor(0)?, cx.declared_tensor()?);
    if operand.rank() != 1 {
        return Err(cx.error(Code::E0207, 1, format!("the operand has type {}, expected one dimension", cx.ty(0))));
    }
    if result.rank() != 1 {
        return Err(cx.error(Code::E0207, 2, format!("the result has rank {}, expected one dimension", result.rank())));
    }
    Ok(vec![Type::Tensor(result.clone())])
}
