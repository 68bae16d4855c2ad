//! Declares ops of host programs: memory of a call, and launches.
//!
//! A host program is a function of kind `host`. Its parameters are the buffers of the inputs; the
//! symbols of their types are read from the descriptors at entry. Scalars are computed with the
//! element-wise ops and `dim`.
use super::{
    class::DTypeClass,
    declare::{Stage, Stages, many, one, optional, required},
};
use crate::{
    attr::AttrKind,
    diag::Code,
    infer::{InferCx, Inferred},
    layout,
    types::{DType, Type},
};

const ANY: DTypeClass = DTypeClass::ANY;
const BOOL: DTypeClass = DTypeClass::BOOL;
const MARK: DTypeClass = DTypeClass::of(&[DType::I64]);
pub(super) const HOST: Stages = Stages::Only(&[Stage::Buffer, Stage::Kernel]);

op! {
    /// The memory for all temporary values of a call whose sizes are known here, `bytes` bytes.
    ///
    /// (C1) The result is a buffer.
    Arena = "arena"() { bytes: required(AttrKind::Dim) } -> (result: one(ANY)) traits [Writes] stages HOST, infer buffer;
}

op! {
    /// Lays out parts of an arena by the sizes of a call, and binds their offsets: from here to the
    /// end of the block, `dims` are the offset of each part, followed by the total size. Each part
    /// in turn gets the least offset, 0 or the end of a part that it conflicts with, at which it
    /// overlaps no earlier part that it conflicts with. Parts of size 0 conflict with none. The
    /// unit of `dims` is that of `sizes`.
    ///
    /// (C1) Each of `dims` is one symbol, which nothing else binds; they are one more than `sizes`.
    /// (C2) `meets` is, for each part, the number of earlier parts that it conflicts with, and
    /// their positions.
    LayoutArena = "layout_arena"() { dims: required(AttrKind::Dims), sizes: required(AttrKind::Dims), meets: required(AttrKind::Ints) } -> ()
        traits [Writes] stages HOST, infer layout_arena;
}

op! {
    /// A part of the arena, or of an output that is not written yet: `bytes` bytes from byte
    /// `offset`.
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
    /// Runs a kernel over `units` work units. `cost` estimates the nanoseconds of the whole launch
    /// on one thread; each task gets `scratch` bytes. The kernel's parameters are the operands, in
    /// order, then the range of units.
    ///
    /// With `product`, a library may be called instead, followed by the kernel `rest` (the
    /// epilogue) if there is one: the kernel computes both. `product` is rows, columns, sums, the
    /// strides of rows and columns of `lhs` and of `rhs`, and the width of the panels that `rhs` is
    /// packed in, or 0; `roles` are the operands that are `lhs`, `rhs` and the result, -1 if `rest`
    /// reads it. `rest` takes the operands `rest_roles`, -1 for the result; `rest_work` is its
    /// units, cost and scratch.
    ///
    /// (C1) The module has a kernel of this name, with parameters of these types.
    /// (C2) `product` has 8 entries, `roles` 3, `rest_work` 3; there is a `rest` where the result
    /// is no operand, and a kernel of that name with as many parameters as `rest_roles`, which
    /// names operands and the result once.
    Launch = "launch"(arguments: many(ANY)) {
            kernel: required(AttrKind::Symbol), units: required(AttrKind::Dim), cost: required(AttrKind::Dim), scratch: required(AttrKind::Dim),
            product: optional(AttrKind::Dims), roles: optional(AttrKind::Ints), rest: optional(AttrKind::Symbol),
            rest_roles: optional(AttrKind::Ints), rest_work: optional(AttrKind::Dims)
        } -> () traits [Writes] stages HOST, infer nothing;
}

op! {
    /// True if a group should write to these buffers by non-temporal stores: it reads and writes
    /// `bytes` bytes, more than the caches hold, and each buffer starts at a multiple of 64 bytes.
    /// No result depends on it.
    ///
    /// (C1) The operands are buffers.
    Nontemporal = "nontemporal"(buffers: many(ANY)) { bytes: required(AttrKind::Dim) } -> (result: one(BOOL)) traits [Pure] stages HOST, infer nontemporal;
}

op! {
    /// Marks the amount of temporary memory in use. Not for other types than `i64`.
    ///
    /// (C1) The result is a scalar.
    Mark = "mark"() -> (result: one(MARK)) traits [Writes] stages HOST, infer mark;
}

op! {
    /// Frees all temporary memory that was allocated since a mark. Not for other types than `i64`.
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

fn layout_arena(cx: &InferCx<'_>) -> Inferred {
    let (dims, sizes) = (cx.dims("dims"), cx.dims("sizes"));
    if dims.len() != sizes.len() + 1 || dims.iter().any(|dim| dim.as_symbol().is_none()) {
        let message = format!(
            "`dims` are {} entries for {} parts, expected a symbol for each part and one for all",
            dims.len(),
            sizes.len()
        );
        return Err(cx.error(Code::E0209, 1, message));
    }
    match layout::parts_met(sizes.len(), cx.ints("meets")) {
        Some(_) => Ok(Vec::new()),
        None => Err(cx.error(Code::E0209, 2, "`meets` is not a count and that many earlier parts for each part")),
    }
}

fn nontemporal(cx: &InferCx<'_>) -> Inferred {
    match (0..cx.operands.len()).find(|&i| !matches!(cx.ty(i), Type::Buffer { .. })) {
        Some(i) => Err(cx.error(Code::E0208, 1, format!("operand {i} has type {}, expected a buffer", cx.ty(i)))),
        None => Ok(vec![Type::scalar(DType::I1)]),
    }
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
