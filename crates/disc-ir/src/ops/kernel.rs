//! Declares ops of kernels: loops, memory and lanes. Arithmetic is that of the element-wise ops, on
//! vectors.
//!
//! A kernel is a function of kind `kernel`. Its parameters are buffers and scalars, then `begin`
//! and `end` of its range of work units; one that runs on a grid of threads has no range
//! ([`super::grid`] declares what these do together). An index counts elements of a buffer in
//! row-major order. Reading or writing outside a buffer is undefined; kernels are generated so that
//! they do not.
use super::{
    class::DTypeClass,
    control::equal_lists,
    declare::{Stages, many, one, opt, optional, required},
};
use crate::{
    attr::AttrKind,
    diag::{Code, Diagnostic},
    fragment::REGISTER_BYTES,
    infer::{InferCx, Inferred},
    types::{DType, Space, Type},
};

const ANY: DTypeClass = DTypeClass::ANY;
const BOOL: DTypeClass = DTypeClass::BOOL;
const NUMBER: DTypeClass = DTypeClass::NUMBER;
const SCALED: DTypeClass = DTypeClass::of(&[DType::F32, DType::F64]);
const INDEX: DTypeClass = DTypeClass::of(&[DType::I32, DType::I64]);
const TILED: DTypeClass = DTypeClass::of(&[DType::BF16, DType::F16, DType::F32, DType::I8, DType::U8, DType::I32]);

/// The uses of memory that a load is told about.
pub(crate) const CACHES: &[&str] = &["readonly", "stream"];

/// The ops that combine lanes.
pub(crate) const LANE_REDUCERS: &[&str] = &["add", "multiply", "maximum", "minimum", "and", "or"];

op! {
    /// Runs the region for each index from `lower` to below `upper` in steps, carrying values
    /// along.
    ///
    /// (C1) `lower`, `upper` and `step` are scalars of one type; `step` is positive.
    /// (C2) The region takes the index and the carried values, and returns values of the carried
    /// types.
    For = "for"(lower: one(INDEX), upper: one(INDEX), step: one(INDEX), inits: many(ANY)) regions ["do"] -> (results: many(ANY))
        traits [] stages Stages::Kernel, infer for_;
}

op! {
    /// Reads from a buffer: consecutive elements from a scalar `index`, or for a vector of indices
    /// the element of each lane. Lanes that `mask` switches off read nothing and are 0.
    ///
    /// With `align`, the address is a multiple of this many bytes. With `cache`, nobody writes to
    /// the memory during the launch (`readonly`), or the elements are not read soon again
    /// (`stream`).
    ///
    /// (C1) The result is a vector with the buffer's element type, and as many lanes as `mask` and
    /// a vector `index` have.
    /// (C2) `align` is a power of two; then `index` is a scalar.
    Load = "load"(buffer: one(ANY), index: one(INDEX), mask: opt(BOOL)) { align: optional(AttrKind::Int), cache: optional(AttrKind::Enum(CACHES)) } -> (result: one(ANY))
        traits [Reads] stages Stages::Kernel, infer load;
}

op! {
    /// Writes to a buffer: consecutive elements from a scalar `index`, or for a vector of indices
    /// each lane's element, in lane order.
    ///
    /// With `nontemporal`, the elements are not read soon, and their address is a multiple of this
    /// many bytes: a target may use a non-temporal store. With `align`, the address is a multiple
    /// of this many bytes.
    ///
    /// (C1) `value` has the buffer's element type, and as many lanes as `mask` and a vector `index`
    /// have.
    /// (C2) `nontemporal` is a power of two that divides the bytes of `value`, which is a vector
    /// along memory without a mask.
    /// (C3) `align` is a power of two; then `index` is a scalar.
    Store = "store"(buffer: one(ANY), index: one(INDEX), value: one(ANY), mask: opt(BOOL)) { nontemporal: optional(AttrKind::Int), align: optional(AttrKind::Int) } -> ()
        traits [Writes] stages Stages::Kernel, infer store;
}

op! {
    /// Reads a tile register: 16 rows of 64 bytes, one after the other, the first of them from an
    /// index on, the others `stride` elements apart.
    ///
    /// (C1) The result has the buffer's element type and 1024 bytes.
    LoadTile = "load_tile"(buffer: one(TILED), index: one(INDEX), stride: one(INDEX)) -> (result: one(TILED))
        traits [Reads] stages Stages::Kernel, infer load_tile;
}

op! {
    /// Writes a tile register, as `load_tile` reads one.
    ///
    /// (C1) `value` has the buffer's element type and 1024 bytes.
    StoreTile = "store_tile"(buffer: one(TILED), index: one(INDEX), stride: one(INDEX), value: one(TILED)) -> ()
        traits [Writes] stages Stages::Kernel, infer store_tile;
}

op! {
    /// The part of a buffer that starts at an element.
    ///
    /// (C1) The result is a buffer of the same element type and space.
    View = "view"(buffer: one(ANY), index: one(INDEX)) -> (result: one(ANY)) traits [Pure] stages Stages::Kernel, infer view;
}

op! {
    /// Memory of this task, uninitialised; the launch provides it. Legal only in the body block of
    /// a kernel.
    ///
    /// (C1) The result is a buffer in the space `task`.
    Scratch = "scratch"() -> (result: one(ANY)) traits [Pure] stages Stages::Kernel, infer scratch;
}

op! {
    /// A vector with all lanes equal to a scalar.
    ///
    /// (C1) The result is a vector with the operand's element type.
    Splat = "splat"(operand: one(ANY)) -> (result: one(ANY)) traits [Pure] stages Stages::Kernel, infer splat;
}

op! {
    /// The numbers of the lanes: 0, 1, 2, ...
    ///
    /// (C1) The result is a vector.
    Lanes = "lanes"() -> (result: one(NUMBER)) traits [Pure] stages Stages::Kernel, infer vector;
}

op! {
    /// True in the first `count` lanes.
    ///
    /// (C1) The result is a vector.
    LaneMask = "lane_mask"(count: one(INDEX)) -> (result: one(BOOL)) traits [Pure] stages Stages::Kernel, infer vector;
}

op! {
    /// One lane, as a scalar.
    ///
    /// (C1) `lane` is a lane of the operand.
    ExtractLane = "extract_lane"(operand: one(ANY)) { lane: required(AttrKind::Int) } -> (result: one(ANY))
        traits [Pure] stages Stages::Kernel, infer extract_lane;
}

op! {
    /// Combines all lanes into a scalar, pairwise: the lower half with the upper half, until one is
    /// left.
    ///
    /// (C1) The operand is a vector.
    ReduceLanes = "reduce_lanes"(operand: one(ANY)) { applies: required(AttrKind::Enum(LANE_REDUCERS)) } -> (result: one(ANY))
        traits [Pure] stages Stages::Kernel, infer reduce_lanes;
}

op! {
    /// Lane `i` of the operands, in their order, as vector `i`: a square of elements, its rows and
    /// columns exchanged.
    ///
    /// (C1) The operands are as many vectors of one type as that type has lanes, a power of two.
    TransposeLanes = "transpose_lanes"(rows: many(ANY)) -> (columns: many(ANY)) traits [Pure] stages Stages::Kernel, infer transpose_lanes;
}

op! {
    /// The lanes with even numbers of `a` followed by `b`, then those with odd numbers.
    ///
    /// (C1) The operands are vectors of one type.
    UnzipLanes = "unzip_lanes"(a: one(ANY), b: one(ANY)) -> (even: one(ANY), odd: one(ANY))
        traits [Pure] stages Stages::Kernel, infer unzip_lanes;
}

op! {
    /// Interleaves the lanes of `a` and `b`: a vector of those of their lower halves, and one of
    /// their upper halves.
    ///
    /// (C1) The operands are vectors of one type, of one lane or an even number of them.
    ZipLanes = "zip_lanes"(a: one(ANY), b: one(ANY)) -> (low: one(ANY), high: one(ANY)) traits [Pure] stages Stages::Kernel, infer zip_lanes;
}

op! {
    /// Lane `i` of the result is lane `places[i]` of `a` followed by `b`; only the low bits of an
    /// index that number these lanes are used.
    ///
    /// (C1) `a` and `b` are vectors of one type, whose lanes are a power of two.
    ///
    /// (C2) `places` is a vector of as many lanes.
    PickLanes = "pick_lanes"(a: one(ANY), b: one(ANY), places: one(NUMBER)) -> (result: one(ANY))
        traits [Pure] stages Stages::Kernel, infer pick_lanes;
}

op! {
    /// The bits of the lanes as lanes of another size: the first lane of a wider type has the bits
    /// of the first lanes, lowest first.
    ///
    /// (C1) The result is a vector of as many bits.
    RecastLanes = "recast_lanes"(operand: one(NUMBER)) -> (result: one(NUMBER)) traits [Pure] stages Stages::Kernel, infer recast_lanes;
}

op! {
    /// Adds to each lane of `sum` the products of the elements that the lane holds in `a` and in
    /// `b`: four of 8 bits, two of 16. Those in `a` may be unsigned where those in `b` are signed.
    /// Sums of integers wrap. Those of bf16 are rounded as the target does, and denormal numbers
    /// may count as zeros.
    ///
    /// (C1) `a` and `b` are vectors of i32, with as many lanes as `sum`.
    /// (C2) `elements` is i8, u8 or i16 and `sum` of i32, or bf16 and of f32.
    /// (C3) `a_elements`, the type of the elements in `a` if it is another, is u8 beside i8.
    DotLanes = "dot_lanes"(a: one(NUMBER), b: one(NUMBER), sum: one(NUMBER))
        { elements: required(AttrKind::DType), a_elements: optional(AttrKind::DType) } -> (result: one(NUMBER))
        traits [Pure] stages Stages::Kernel, infer dot_lanes;
}

op! {
    /// Multiplies pairs of rows by pairs of columns. Lanes `2i` and `2i + 1` of `a` are two rows,
    /// those of `b` two columns, each with the elements that the lane holds: eight of 8 bits, four
    /// of 16. Lanes `4i` to `4i + 3` of `sum` are the block that their products are added to: the
    /// first row by both columns, then the second. Sums are as those of `dot_lanes`.
    ///
    /// (C1) `a` and `b` are vectors of i64, with half as many lanes as `sum`: a multiple of two.
    /// (C2) `elements` is i8 or u8 and `sum` of i32, or bf16 and of f32.
    DotPairs = "dot_pairs"(a: one(NUMBER), b: one(NUMBER), sum: one(NUMBER)) { elements: required(AttrKind::DType) } -> (result: one(NUMBER))
        traits [Pure] stages Stages::Kernel, infer dot_pairs;
}

op! {
    /// `a * b + c`, rounded once where the target can, else twice.
    ///
    /// (C1) All types are equal.
    Fma = "fma"(a: one(NUMBER), b: one(NUMBER), c: one(NUMBER)) -> (result: one(NUMBER))
        traits [Pure] stages Stages::Kernel, infer fma;
}

op! {
    /// `operand * 2^exponent`, rounded once, for integral exponents. Only for targets with an
    /// instruction for it.
    ///
    /// (C1) All types are equal, and of floats.
    ScaleByPower = "scale_by_power"(operand: one(SCALED), exponent: one(SCALED)) -> (result: one(SCALED))
        traits [Pure] stages Stages::Kernel, infer scale_by_power;
}

op! {
    /// Hints that elements from `index` on will be read soon. `locality` 3 is the nearest cache, 0
    /// the farthest.
    ///
    /// (C1) The operands are a buffer and a scalar.
    Prefetch = "prefetch"(buffer: one(ANY), index: one(INDEX)) { locality: optional(AttrKind::Int) } -> () traits [Writes] stages Stages::Kernel, infer prefetch;
}

fn prefetch(cx: &InferCx<'_>) -> Inferred {
    element_of_buffer(cx)?;
    match lanes(cx, 1)? {
        1 => Ok(Vec::new()),
        count => Err(cx.error(Code::E0204, 1, format!("`index` has {count} lanes, expected a scalar"))),
    }
}

pub(super) fn declared_vector(cx: &InferCx<'_>) -> Result<(u32, DType), Diagnostic> {
    match cx.declared {
        Some([Type::Vector { lanes, dtype }]) => Ok((*lanes, *dtype)),
        _ => Err(cx.error(Code::E0205, 1, "the result type must be stated, and be a vector")),
    }
}

pub(super) fn lanes(cx: &InferCx<'_>, index: usize) -> Result<u32, Diagnostic> {
    match cx.ty(index) {
        Type::Vector { lanes, .. } => Ok(*lanes),
        ty => Err(cx.error(Code::E0208, 1, format!("`{}` has type {ty}, expected a vector", cx.operand_name(index)))),
    }
}

pub(super) fn element_of_buffer(cx: &InferCx<'_>) -> Result<DType, Diagnostic> {
    match cx.ty(0) {
        Type::Buffer { tensor, .. } => Ok(tensor.dtype),
        ty => Err(cx.error(Code::E0208, 1, format!("`buffer` has type {ty}, expected a buffer"))),
    }
}

/// Checks that the index and the optional mask of a memory access fit a vector of `wanted` lanes.
fn check_access(cx: &InferCx<'_>, wanted: u32, mask: usize) -> Result<(), Diagnostic> {
    let index = lanes(cx, 1)?;
    if index != 1 && index != wanted {
        return Err(cx.error(Code::E0204, 1, format!("`index` has {index} lanes, the value {wanted}")));
    }
    match cx.operands.len() > mask {
        true if lanes(cx, mask)? != wanted => {
            Err(cx.error(Code::E0204, 1, format!("`mask` is {}, the value has {wanted} lanes", cx.ty(mask))))
        }
        _ => Ok(()),
    }
}

fn check_align(cx: &InferCx<'_>, constraint: u32) -> Result<(), Diagnostic> {
    let bytes = cx.has("align").then(|| cx.int("align"));
    let is_power = |bytes: i64| u64::try_from(bytes).is_ok_and(u64::is_power_of_two);
    match bytes {
        Some(bytes) if !is_power(bytes) || lanes(cx, 1)? != 1 => {
            Err(cx.error(Code::E0209, constraint, format!("`align = {bytes}` at an index of type {}", cx.ty(1))))
        }
        _ => Ok(()),
    }
}

fn load(cx: &InferCx<'_>) -> Inferred {
    let (wanted, dtype) = declared_vector(cx)?;
    let element = element_of_buffer(cx)?;
    if element != dtype {
        return Err(cx.error(Code::E0204, 1, format!("the buffer holds {element}, the result is {dtype}")));
    }
    check_access(cx, wanted, 2)?;
    check_align(cx, 2)?;
    Ok(vec![Type::Vector { lanes: wanted, dtype }])
}

fn store(cx: &InferCx<'_>) -> Inferred {
    let element = element_of_buffer(cx)?;
    if element != cx.ty(2).dtype() {
        return Err(cx.error(Code::E0204, 1, format!("the buffer holds {element}, the value is {}", cx.ty(2))));
    }
    check_access(cx, lanes(cx, 2)?, 3)?;
    check_align(cx, 3)?;
    let Some(multiple) = cx.has("nontemporal").then(|| cx.int("nontemporal")) else { return Ok(Vec::new()) };
    let bytes = i64::from(lanes(cx, 2)?) * element.size() as i64;
    let divides = u64::try_from(multiple).is_ok_and(u64::is_power_of_two) && bytes % multiple == 0;
    match divides && lanes(cx, 1)? == 1 && cx.operands.len() == 3 {
        true => Ok(Vec::new()),
        false => Err(cx.error(Code::E0209, 2, format!("`nontemporal = {multiple}` of {}", cx.ty(2)))),
    }
}

/// Checks a tile register of `lanes` elements in or out of a buffer.
fn check_tile(cx: &InferCx<'_>, lanes: u32, dtype: DType) -> Result<(), Diagnostic> {
    let element = element_of_buffer(cx)?;
    if element != dtype {
        return Err(cx.error(Code::E0204, 1, format!("the buffer holds {element}, the tile {dtype}")));
    }
    match lanes as usize * dtype.size() {
        REGISTER_BYTES => Ok(()),
        bytes => Err(cx.error(Code::E0205, 1, format!("the tile has {bytes} bytes, expected {REGISTER_BYTES}"))),
    }
}

fn load_tile(cx: &InferCx<'_>) -> Inferred {
    let (lanes, dtype) = declared_vector(cx)?;
    check_tile(cx, lanes, dtype)?;
    Ok(vec![Type::Vector { lanes, dtype }])
}

fn store_tile(cx: &InferCx<'_>) -> Inferred {
    check_tile(cx, lanes(cx, 3)?, cx.ty(3).dtype())?;
    Ok(Vec::new())
}

fn view(cx: &InferCx<'_>) -> Inferred {
    match (cx.ty(0), cx.declared) {
        (Type::Buffer { tensor: from, space: a }, Some([Type::Buffer { tensor: to, space: b }]))
            if from.dtype == to.dtype && a == b =>
        {
            Ok(vec![Type::Buffer { tensor: to.clone(), space: *b }])
        }
        _ => Err(cx.error(Code::E0205, 1, "the result must be a buffer of the same element type and space")),
    }
}

fn scratch(cx: &InferCx<'_>) -> Inferred {
    match cx.declared {
        Some([ty @ Type::Buffer { space: Space::Task, .. }]) => Ok(vec![ty.clone()]),
        _ => Err(cx.error(Code::E0205, 1, "the result must be a buffer in the space `task`")),
    }
}

fn vector(cx: &InferCx<'_>) -> Inferred {
    let (lanes, dtype) = declared_vector(cx)?;
    Ok(vec![Type::Vector { lanes, dtype }])
}

fn splat(cx: &InferCx<'_>) -> Inferred {
    let (count, dtype) = declared_vector(cx)?;
    if lanes(cx, 0)? != 1 || cx.ty(0).dtype() != dtype {
        return Err(cx.error(Code::E0204, 1, format!("the operand is {}, the result {dtype}", cx.ty(0))));
    }
    Ok(vec![Type::Vector { lanes: count, dtype }])
}

fn extract_lane(cx: &InferCx<'_>) -> Inferred {
    let count = i64::from(lanes(cx, 0)?);
    if !(0..count).contains(&cx.int("lane")) {
        return Err(cx.error(Code::E0206, 1, format!("lane {} of {}", cx.int("lane"), cx.ty(0))));
    }
    Ok(vec![Type::scalar(cx.ty(0).dtype())])
}

fn reduce_lanes(cx: &InferCx<'_>) -> Inferred {
    lanes(cx, 0)?;
    Ok(vec![Type::scalar(cx.ty(0).dtype())])
}

fn transpose_lanes(cx: &InferCx<'_>) -> Inferred {
    if cx.operands.is_empty() {
        return Err(cx.error(Code::E0201, 1, "no operands, expected as many as each has lanes"));
    }
    let count = lanes(cx, 0)? as usize;
    if !count.is_power_of_two() || cx.operands.len() != count {
        return Err(cx.error(Code::E0204, 1, format!("{} operands of type {}", cx.operands.len(), cx.ty(0))));
    }
    (1..count).try_for_each(|i| cx.equal_types(1, ("the first operand", cx.ty(0)), ("another", cx.ty(i))))?;
    Ok(cx.operands.to_vec())
}

fn unzip_lanes(cx: &InferCx<'_>) -> Inferred {
    lanes(cx, 0)?;
    cx.equal_types(1, ("a", cx.ty(0)), ("b", cx.ty(1)))?;
    Ok(cx.operands.to_vec())
}

fn zip_lanes(cx: &InferCx<'_>) -> Inferred {
    let count = lanes(cx, 0)?;
    cx.equal_types(1, ("a", cx.ty(0)), ("b", cx.ty(1)))?;
    if count > 1 && count % 2 == 1 {
        return Err(cx.error(Code::E0204, 1, format!("{count} lanes have no halves")));
    }
    Ok(cx.operands.to_vec())
}

fn pick_lanes(cx: &InferCx<'_>) -> Inferred {
    let count = lanes(cx, 0)?;
    cx.equal_types(1, ("a", cx.ty(0)), ("b", cx.ty(1)))?;
    if !count.is_power_of_two() {
        return Err(cx.error(Code::E0204, 1, format!("{count} lanes are no power of two")));
    }
    let places = Type::Vector { lanes: count, dtype: DType::I32 };
    cx.equal_types(2, ("places", cx.ty(2)), ("a number for each lane", &places))?;
    Ok(vec![cx.ty(0).clone()])
}

fn recast_lanes(cx: &InferCx<'_>) -> Inferred {
    let (count, dtype) = declared_vector(cx)?;
    let (from, to) = (lanes(cx, 0)? * cx.ty(0).dtype().bits(), count * dtype.bits());
    if from != to {
        return Err(cx.error(Code::E0204, 1, format!("the operand has {from} bits, the result {to}")));
    }
    Ok(vec![Type::Vector { lanes: count, dtype }])
}

fn dot_lanes(cx: &InferCx<'_>) -> Inferred {
    let words = Type::Vector { lanes: lanes(cx, 2)?, dtype: DType::I32 };
    (0..2).try_for_each(|i| cx.equal_types(1, (cx.operand_name(i), cx.ty(i)), ("the lanes of `sum`", &words)))?;
    match (cx.dtype("elements"), cx.ty(2).dtype()) {
        (Some(DType::I8 | DType::U8 | DType::I16), DType::I32) | (Some(DType::BF16), DType::F32) => {}
        (elements, sum) => return Err(other_sums(cx, elements, sum)),
    }
    match (cx.dtype("a_elements"), cx.dtype("elements")) {
        (None, _) | (Some(DType::U8), Some(DType::I8)) => Ok(vec![cx.ty(2).clone()]),
        (Some(other), _) => Err(cx.error(Code::E0204, 3, format!("`a_elements` is {other}"))),
    }
}

fn dot_pairs(cx: &InferCx<'_>) -> Inferred {
    let blocks = lanes(cx, 2)? / 4;
    let pairs = Type::Vector { lanes: 2 * blocks, dtype: DType::I64 };
    if blocks == 0 || 4 * blocks != lanes(cx, 2)? {
        return Err(cx.error(Code::E0204, 1, format!("`sum` has type {}, which is not made of blocks of four", cx.ty(2))));
    }
    (0..2).try_for_each(|i| cx.equal_types(1, (cx.operand_name(i), cx.ty(i)), ("the pairs of `sum`", &pairs)))?;
    match (cx.dtype("elements"), cx.ty(2).dtype()) {
        (Some(DType::I8 | DType::U8), DType::I32) | (Some(DType::BF16), DType::F32) => Ok(vec![cx.ty(2).clone()]),
        (elements, sum) => Err(other_sums(cx, elements, sum)),
    }
}

/// Returns the error of sums that are not those of the elements.
fn other_sums(cx: &InferCx<'_>, elements: Option<DType>, sum: DType) -> Diagnostic {
    let elements = elements.map_or("none", DType::name);
    cx.error(Code::E0204, 2, format!("`elements` is {elements}, `sum` is of {sum}"))
}

fn fma(cx: &InferCx<'_>) -> Inferred {
    (1..3).try_for_each(|i| cx.equal_types(1, ("a", cx.ty(0)), (cx.operand_name(i), cx.ty(i))))?;
    Ok(vec![cx.ty(0).clone()])
}

fn scale_by_power(cx: &InferCx<'_>) -> Inferred {
    cx.equal_types(1, ("operand", cx.ty(0)), ("exponent", cx.ty(1)))?;
    Ok(vec![cx.ty(0).clone()])
}

fn for_(cx: &InferCx<'_>) -> Inferred {
    if (0..3).any(|i| !matches!(cx.ty(i), Type::Vector { lanes: 1, .. }) || cx.ty(i) != cx.ty(0)) {
        return Err(cx.error(Code::E0204, 1, "`lower`, `upper` and `step` must be scalars of one type"));
    }
    let [body] = cx.regions else { return Err(cx.error(Code::E0201, 2, "one region is needed")) };
    let carried = &cx.operands[3..];
    let expected: Vec<Type> = std::iter::once(cx.ty(0).clone()).chain(carried.iter().cloned()).collect();
    equal_lists(cx, 2, ("the arguments of `do`", &body.arguments), ("the index and `inits`", &expected))?;
    equal_lists(cx, 2, ("the result of `do`", &body.results), ("`inits`", carried))?;
    Ok(carried.to_vec())
}
