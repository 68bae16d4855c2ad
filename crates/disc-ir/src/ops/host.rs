//! Ops of host programs: memory of a call, and launches.
//!
//! A host program is a function of kind `host`. Its parameters are the buffers of the inputs; the symbols of their types are read from
//! the descriptors at entry. Scalars are computed with the element-wise ops and `dim`.
use super::{
    class::DTypeClass,
    declare::{Stage, Stages, many, one, required},
};
use crate::{
    attr::AttrKind,
    diag::Code,
    infer::{InferCx, Inferred},
    types::{DType, Type},
};

const ANY: DTypeClass = DTypeClass::ANY;
const MARK: DTypeClass = DTypeClass::of(&[DType::I64]);
const HOST: Stages = Stages::Only(&[Stage::Buffer, Stage::Kernel]);

op! {
    /// The memory for all temporary values of a call whose sizes are known here, `bytes` bytes.
    ///
    /// (C1) The result is a buffer.
    Arena = "arena"() { bytes: required(AttrKind::Dim) } -> (result: one(ANY)) traits [Writes] stages HOST, infer buffer;
}

op! {
    /// A part of the arena: `bytes` bytes from byte `offset`.
    ///
    /// (C1) The result is a buffer.
    Alloc = "alloc"(arena: one(ANY)) { offset: required(AttrKind::Dim), bytes: required(AttrKind::Dim) } -> (result: one(ANY))
        traits [Writes] stages HOST, infer buffer;
}

op! {
    /// The memory of output `index`, from the caller.
    ///
    /// (C1) The result is a buffer.
    AllocOutput = "alloc_output"() { index: required(AttrKind::Int) } -> (result: one(ANY)) traits [Writes] stages HOST, infer buffer;
}

op! {
    /// Runs a kernel over `units` work units. `cost` estimates the nanoseconds of the whole launch on one thread; each task gets `scratch`
    /// bytes. The kernel's parameters are the operands, in order, then the range of units.
    ///
    /// (C1) The module has a kernel of this name, with parameters of these types.
    Launch = "launch"(arguments: many(ANY)) {
            kernel: required(AttrKind::Symbol), units: required(AttrKind::Dim), cost: required(AttrKind::Dim), scratch: required(AttrKind::Dim)
        } -> () traits [Writes] stages HOST, infer nothing;
}

op! {
    /// How much temporary memory is in use. Not for other types than `i64`.
    ///
    /// (C1) The result is a scalar.
    Mark = "mark"() -> (result: one(MARK)) traits [Writes] stages HOST, infer mark;
}

op! {
    /// Ends all temporary memory that was allocated since a mark. Not for other types than `i64`.
    ///
    /// (C1) `mark` is a scalar.
    Release = "release"(mark: one(MARK)) -> () traits [Writes] stages HOST, infer release;
}

fn buffer(cx: &InferCx<'_>) -> Inferred {
    match cx.declared {
        Some([ty @ Type::Buffer { .. }]) => Ok(vec![ty.clone()]),
        _ => Err(cx.error(Code::E0205, 1, "the result must be a buffer")),
    }
}

fn nothing(_: &InferCx<'_>) -> Inferred {
    Ok(Vec::new())
}

fn mark(cx: &InferCx<'_>) -> Inferred {
    match cx.declared {
        Some([ty @ Type::Vector { lanes: 1, .. }]) => Ok(vec![ty.clone()]),
        _ => Err(cx.error(Code::E0205, 1, "the result must be a scalar")),
    }
}

fn release(cx: &InferCx<'_>) -> Inferred {
    match cx.ty(0) {
        Type::Vector { lanes: 1, .. } => Ok(Vec::new()),
        ty => Err(cx.error(Code::E0208, 1, format!("`mark` has type {ty}, expected a scalar"))),
    }
}
