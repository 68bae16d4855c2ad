//! Declares ops of GPU kernels: the places of threads, memory that a block shares, and work that
//! threads do together. Their lowering is the target's.
//!
//! A GPU kernel is a kernel whose blocks have a constant number of threads, in warps of a constant
//! size ([`crate::graph::Grid`]). Every thread runs the body. Threads of a warp, and of a block,
//! reach an op of this file together.
use super::{
    FAMILIES, OpKind,
    class::DTypeClass,
    control::equal_lists,
    declare::{Stages, many, one, opt, optional, required},
    kernel::{LANE_REDUCERS, declared_vector, element_of_buffer, lanes},
};
use crate::{
    attr::AttrKind,
    diag::{Code, Diagnostic},
    fragment::TILES,
    infer::{InferCx, Inferred},
    types::{DType, Space, Type},
};

const ANY: DTypeClass = DTypeClass::ANY;
const BOOL: DTypeClass = DTypeClass::BOOL;
const NUMBER: DTypeClass = DTypeClass::NUMBER;
const INDEX: DTypeClass = DTypeClass::of(&[DType::I32, DType::I64]);
const LANE: DTypeClass = DTypeClass::of(&[DType::I32]);
const TILED: DTypeClass = DTypeClass::of(&[DType::F16, DType::BF16, DType::F32, DType::I8, DType::U8]);
const ATOMIC: DTypeClass = DTypeClass::of(&[DType::I32, DType::U32, DType::I64, DType::U64]);

/// The numbers that a thread can ask for.
pub(crate) const PLACES: &[&str] = &["block", "thread", "warp", "lane", "grid"];
/// The threads that wait for each other.
pub(crate) const SCOPES: &[&str] = &["block", "warp"];
/// The ways in which a lane finds the lane that it reads.
pub(crate) const SHUFFLES: &[&str] = &["xor", "up", "down", "index"];
/// The questions that a warp answers.
pub(crate) const VOTES: &[&str] = &["any", "all", "count"];
/// The new value of an element, out of the old one and an operand.
pub(crate) const ATOMICS: &[&str] = &["add", "max", "min", "exchange", "compare"];

op! {
    /// A number of this thread: of its `block` in the grid, of the `thread` in the block, of the
    /// `warp` in the block, of the `lane` in the warp; or the number of blocks of the `grid`.
    ///
    /// (C1) The result is a scalar.
    Place = "place"() { of: required(AttrKind::Enum(PLACES)) } -> (result: one(INDEX)) traits [Pure] stages Stages::Kernel, infer place;
}

op! {
    /// Memory that the threads of a block share, uninitialised. Legal only in the body block of a
    /// kernel.
    ///
    /// (C1) The result is a buffer in the space `shared`.
    Shared = "shared"() -> (result: one(ANY)) traits [Pure] stages Stages::Kernel, infer shared;
}

op! {
    /// Waits until all threads of the scope have arrived. They see each other's writes from before
    /// it: those to shared and to global memory.
    ///
    /// (C1) The conditions around it are equal for all threads of the scope.
    Barrier = "barrier"() { scope: required(AttrKind::Enum(SCOPES)) } -> () traits [Writes] stages Stages::Kernel, infer nothing;
}

op! {
    /// The value of another lane in this lane's segment of `width` lanes: of the one whose number
    /// is this one's `xor` the operand, `up` (less) or `down` (more) by it, or the operand as an
    /// `index` modulo `width`. If there is none, the lane's own.
    ///
    /// (C1) `width` is a power of two, at most the warp.
    /// (C2) `by` is a scalar.
    /// (C3) The conditions around it are equal for all threads of a warp.
    Shuffle = "shuffle"(value: one(ANY), by: one(LANE)) { how: required(AttrKind::Enum(SHUFFLES)), width: required(AttrKind::Int) } -> (result: one(ANY))
        traits [Writes] stages Stages::Kernel, infer shuffle;
}

op! {
    /// Combines the values of each segment of `width` lanes, and gives the result to all of them:
    /// each lane with the one whose number differs in the highest bit, then in the next one. So all
    /// lanes have the same bits.
    ///
    /// (C1) `width` is a power of two, at most the warp.
    /// (C2) The conditions around it are equal for all threads of a warp.
    ReduceGroup = "reduce_group"(operand: one(ANY)) { applies: required(AttrKind::Enum(LANE_REDUCERS)), width: required(AttrKind::Int) } -> (result: one(ANY))
        traits [Writes] stages Stages::Kernel, infer reduce_group;
}

op! {
    /// Answers a question about the threads of a warp: true in `any`, in `all`, or in how many.
    ///
    /// (C1) `pred` is a scalar; the result is an `i1`, or an `i32` for `count`.
    /// (C2) The conditions around it are equal for all threads of a warp.
    Vote = "vote"(pred: one(BOOL)) { how: required(AttrKind::Enum(VOTES)) } -> (result: one(ANY))
        traits [Writes] stages Stages::Kernel, infer vote;
}

op! {
    /// Changes an element as if no other thread did anything meanwhile, and returns its old value:
    /// to the sum, the larger, the smaller or the second one of it and `value`; or for `compare` to
    /// `value` if it was `expected`.
    ///
    /// (C1) `value`, `expected` and the result are scalars of the buffer's element type.
    /// (C2) There is an `expected` only for `compare`.
    Atomic = "atomic"(buffer: one(ATOMIC), index: one(INDEX), value: one(ATOMIC), expected: opt(ATOMIC)) { how: required(AttrKind::Enum(ATOMICS)) } -> (result: one(ATOMIC))
        traits [Writes] stages Stages::Kernel, infer atomic;
}

op! {
    /// Begins to copy `elements` elements to shared memory, or zeros if there is an `exists` and it
    /// is false, and then reads nothing; `wait_copies` ends it. Until then this thread reads
    /// neither, and after it a barrier shows them to the others.
    ///
    /// (C1) `to` is in the space `shared`, `from` is not, and both have one element type.
    /// (C2) The elements are 4, 8 or 16 bytes, and both addresses multiples of that.
    /// (C3) `exists` is a scalar.
    CopyAsync = "copy_async"(to: one(ANY), to_index: one(INDEX), from: one(ANY), from_index: one(INDEX), exists: opt(BOOL)) { elements: required(AttrKind::Int) } -> ()
        traits [Writes] stages Stages::Kernel, infer copy_async;
}

op! {
    /// Ends a batch of asynchronous copies of this thread.
    ///
    /// (C1) It is in a GPU kernel, as all ops of threads.
    CommitCopies = "commit_copies"() -> () traits [Writes] stages Stages::Kernel, infer nothing;
}

op! {
    /// Waits until all batches of this thread but the last `left` have been copied.
    ///
    /// (C1) `left` is not negative.
    WaitCopies = "wait_copies"() { left: required(AttrKind::Int) } -> () traits [Writes] stages Stages::Kernel, infer wait_copies;
}

op! {
    /// Reads matrices of 8 rows of 16 bytes as a warp, in the layout of fragments: lane `8 * m + r`
    /// names by `index` row `r` of matrix `m`, at a multiple of 16 bytes. Lane `l` gets, for each
    /// matrix, the 4 bytes from `4 * (l % 4)` on of row `l / 4`; if `transposed`, the elements
    /// `2 * (l % 4)` and the next one of column `l / 4`.
    ///
    /// (C1) The buffer is in the space `shared`, and has the result's element type.
    /// (C2) The result has 4, 8 or 16 bytes: 4 for each matrix.
    /// (C3) A warp has 32 threads.
    /// (C4) The conditions around it are equal for all threads of a warp.
    /// (C5) Elements of `transposed` matrices have 2 bytes.
    LoadMatrix = "load_matrix"(buffer: one(TILED), index: one(INDEX)) { transposed: optional(AttrKind::Bool) } -> (result: one(TILED))
        traits [Writes] stages Stages::Kernel, infer load_matrix;
}

op! {
    /// The product of two tiles plus a third, by a whole warp: `a * b + c`, where each thread holds
    /// a part of each tile as [`crate::fragment`] says. Products are added up in the type of `c`. A
    /// target may round operands of f32 to tf32, which has 10 bits after the point, and may take
    /// denormal numbers as zeros. A kernel that runs on no GPU is a warp of one thread.
    ///
    /// (C1) The types are those of the fragments of the tile.
    /// (C2) A warp has as many threads as hold the tile together.
    /// (C3) The conditions around it are equal for all threads of a warp.
    MultiplyTiles = "multiply_tiles"(a: one(NUMBER), b: one(NUMBER), c: one(NUMBER)) { tile: required(AttrKind::Enum(TILES)) } -> (result: one(NUMBER))
        traits [Writes] stages Stages::Kernel, infer multiply_tiles;
}

op! {
    /// Waits until the launches before this one have written their memory, where the launch may
    /// begin earlier.
    ///
    /// (C1) It is in a GPU kernel, as all ops of threads.
    WaitGrid = "wait_grid"() -> () traits [Writes] stages Stages::Kernel, infer nothing;
}

op! {
    /// Lets the next launch begin.
    ///
    /// (C1) It is in a GPU kernel, as all ops of threads.
    ReleaseGrid = "release_grid"() -> () traits [Writes] stages Stages::Kernel, infer nothing;
}

op! {
    /// Runs a GPU kernel on `blocks` blocks. The kernel's parameters are the operands. The threads
    /// of a block share `shared` bytes, and each has `scratch` bytes of its own. If `persistent`,
    /// there may be fewer blocks, and each takes parts until none of the `blocks` is left.
    ///
    /// (C1) The module has a GPU kernel of this name, with parameters of these types.
    LaunchGrid = "launch_grid"(arguments: many(ANY)) {
            kernel: required(AttrKind::Symbol), blocks: required(AttrKind::Dim), shared: required(AttrKind::Dim),
            scratch: required(AttrKind::Dim), persistent: optional(AttrKind::Bool)
        } -> () traits [Writes] stages super::host::HOST, infer nothing;
}

op! {
    /// Reads scalars from memory of the device, once all launches before have ended: the first
    /// element of each buffer.
    ///
    /// (C1) There is a result for each buffer, a scalar of its element type.
    Fetch = "fetch"(buffers: many(ANY)) -> (results: many(ANY)) traits [Reads] stages super::host::HOST, infer fetch;
}

op! {
    /// True if each buffer starts at a multiple of `bytes` bytes.
    ///
    /// (C1) The operands are buffers.
    Aligned = "aligned"(buffers: many(ANY)) { bytes: required(AttrKind::Int) } -> (result: one(BOOL)) traits [Pure] stages super::host::HOST, infer aligned;
}

/// Returns true if only threads of a GPU kernel do an op.
pub(crate) fn is_of_threads(kind: OpKind) -> bool {
    let family = FAMILIES.iter().find(|(name, _)| *name == "grid");
    kind.def().stages == Stages::Kernel && family.is_some_and(|(_, kinds)| kinds.contains(&kind))
}

fn nothing(_: &InferCx<'_>) -> Inferred {
    Ok(Vec::new())
}

/// Returns the declared result, which is a scalar.
fn declared_scalar(cx: &InferCx<'_>) -> Result<DType, Diagnostic> {
    match declared_vector(cx)? {
        (1, dtype) => Ok(dtype),
        (count, _) => Err(cx.error(Code::E0205, 1, format!("the result has {count} lanes, expected a scalar"))),
    }
}

fn check_scalar(cx: &InferCx<'_>, index: usize, constraint: u32) -> Result<(), Diagnostic> {
    match lanes(cx, index)? {
        1 => Ok(()),
        count => {
            let message = format!("`{}` has {count} lanes, expected a scalar", cx.operand_name(index));
            Err(cx.error(Code::E0204, constraint, message))
        }
    }
}

fn place(cx: &InferCx<'_>) -> Inferred {
    Ok(vec![Type::scalar(declared_scalar(cx)?)])
}

fn shared(cx: &InferCx<'_>) -> Inferred {
    match cx.declared {
        Some([ty @ Type::Buffer { space: Space::Shared, .. }]) => Ok(vec![ty.clone()]),
        _ => Err(cx.error(Code::E0205, 1, "the result must be a buffer in the space `shared`")),
    }
}

/// Checks the width of a segment of lanes; the verifier compares it with the warp.
fn check_width(cx: &InferCx<'_>) -> Result<(), Diagnostic> {
    match cx.int("width") {
        2 | 4 | 8 | 16 | 32 | 64 => Ok(()),
        width => Err(cx.error(Code::E0209, 1, format!("`width` is {width}, expected a power of two from 2 to 64"))),
    }
}

fn shuffle(cx: &InferCx<'_>) -> Inferred {
    lanes(cx, 0)?;
    check_width(cx)?;
    check_scalar(cx, 1, 2)?;
    Ok(vec![cx.ty(0).clone()])
}

fn reduce_group(cx: &InferCx<'_>) -> Inferred {
    lanes(cx, 0)?;
    check_width(cx)?;
    Ok(vec![cx.ty(0).clone()])
}

fn vote(cx: &InferCx<'_>) -> Inferred {
    check_scalar(cx, 0, 1)?;
    let dtype = if cx.word("how") == "count" { DType::I32 } else { DType::I1 };
    Ok(vec![Type::scalar(dtype)])
}

fn atomic(cx: &InferCx<'_>) -> Inferred {
    let element = Type::scalar(element_of_buffer(cx)?);
    check_scalar(cx, 1, 1)?;
    for index in 2..cx.operands.len() {
        cx.equal_types(1, (cx.operand_name(index), cx.ty(index)), ("the buffer's element", &element))?;
    }
    match (cx.operands.len() > 3) == (cx.word("how") == "compare") {
        true => Ok(vec![element]),
        false => Err(cx.error(Code::E0201, 2, "`expected` belongs to `compare`, and to nothing else")),
    }
}

fn copy_async(cx: &InferCx<'_>) -> Inferred {
    let (Type::Buffer { tensor: to, space: Space::Shared }, Type::Buffer { tensor: from, space: Space::Global }) =
        (cx.ty(0), cx.ty(2))
    else {
        return Err(cx.error(Code::E0208, 1, format!("copies from {} to {}", cx.ty(2), cx.ty(0))));
    };
    if to.dtype != from.dtype {
        return Err(cx.error(Code::E0204, 1, format!("`to` holds {}, `from` {}", to.dtype, from.dtype)));
    }
    check_scalar(cx, 1, 1)?;
    check_scalar(cx, 3, 1)?;
    if cx.operands.len() > 4 {
        check_scalar(cx, 4, 3)?;
    }
    match cx.int("elements").checked_mul(to.dtype.size() as i64) {
        Some(4 | 8 | 16) => Ok(Vec::new()),
        _ => Err(cx.error(Code::E0209, 2, format!("{} elements of {}", cx.int("elements"), to.dtype))),
    }
}

fn wait_copies(cx: &InferCx<'_>) -> Inferred {
    match cx.int("left") {
        0.. => Ok(Vec::new()),
        left => Err(cx.error(Code::E0209, 1, format!("`left` is {left}"))),
    }
}

fn load_matrix(cx: &InferCx<'_>) -> Inferred {
    let (Type::Buffer { tensor, space: Space::Shared }, (count, dtype)) = (cx.ty(0), declared_vector(cx)?) else {
        return Err(cx.error(Code::E0208, 1, format!("reads from {}", cx.ty(0))));
    };
    if tensor.dtype != dtype {
        return Err(cx.error(Code::E0204, 1, format!("the buffer holds {}, the result is {dtype}", tensor.dtype)));
    }
    check_scalar(cx, 1, 1)?;
    if cx.bool("transposed") && dtype.size() != 2 {
        return Err(cx.error(Code::E0204, 5, format!("matrices of {dtype} are not transposed")));
    }
    match count as usize * dtype.size() {
        4 | 8 | 16 => Ok(vec![Type::Vector { lanes: count, dtype }]),
        bytes => Err(cx.error(Code::E0205, 2, format!("the result has {bytes} bytes, expected 4, 8 or 16"))),
    }
}

fn multiply_tiles(cx: &InferCx<'_>) -> Inferred {
    let tile = crate::fragment::Tile::from_name(cx.word("tile")).expect("the word was checked");
    for (index, part) in [tile.a(), tile.b(), tile.c()].into_iter().enumerate() {
        let admitted = part.dtypes.contains(&cx.ty(index).dtype());
        if lanes(cx, index)? != part.lanes || !admitted {
            let name = cx.operand_name(index);
            let message = format!("`{name}` is {}, its fragment has {} lanes of {:?}", cx.ty(index), part.lanes, part.dtypes);
            return Err(cx.error(Code::E0204, 1, message));
        }
    }
    match tile.admits_together(cx.ty(0).dtype(), cx.ty(1).dtype()) {
        true => Ok(vec![cx.ty(2).clone()]),
        false => Err(cx.error(Code::E0204, 1, format!("no tile multiplies {} by {}", cx.ty(0).dtype(), cx.ty(1).dtype()))),
    }
}

fn fetch(cx: &InferCx<'_>) -> Inferred {
    let element = |index: usize| match cx.ty(index) {
        Type::Buffer { tensor, .. } => Ok(Type::scalar(tensor.dtype)),
        ty => Err(cx.error(Code::E0208, 1, format!("operand {index} has type {ty}, expected a buffer"))),
    };
    let elements = (0..cx.operands.len()).map(element).collect::<Result<Vec<_>, _>>()?;
    if let Some(declared) = cx.declared {
        equal_lists(cx, 1, ("the results", declared), ("the elements", &elements))?;
    }
    Ok(elements)
}

fn aligned(cx: &InferCx<'_>) -> Inferred {
    match (0..cx.operands.len()).find(|&i| !matches!(cx.ty(i), Type::Buffer { .. })) {
        Some(i) => Err(cx.error(Code::E0208, 1, format!("operand {i} has type {}, expected a buffer", cx.ty(i)))),
        None => Ok(vec![Type::scalar(DType::I1)]),
    }
}
