//! Rough costs: how long a launch takes, so that small ones stay on one thread, and how many lanes a group wants.
use super::compute_dtype;
use crate::target::Target;
use disc_ir::{DType, Dim, Function, OpKind, Solver, ops::Trait};
use disc_passes::fusion::space::repeat_of;

/// Lanes for a loop along `inner`: as many as fit the widest type in which the group computes most (4-byte lanes unless everything is
/// wider), but not more than a loop that is known, or likely, to be short can fill. Long computations fill several registers.
pub fn lanes(group: &Function, target: &Target, solver: &Solver, inner: &Dim) -> u32 {
    lanes_of(group, target, solver, inner, true)
}

/// As [`lanes`], but of one register, where other vectors are computed at the same time.
pub fn lanes_of_register(group: &Function, target: &Target, solver: &Solver, inner: &Dim) -> u32 {
    lanes_of(group, target, solver, inner, false)
}

fn lanes_of(group: &Function, target: &Target, solver: &Solver, inner: &Dim, interleaved: bool) -> u32 {
    let fitting = lanes_that_fit(group, target);
    // What is repeated is picked from lanes of one register.
    let is_picked = |&inst: &disc_ir::Inst| group.kind_of(inst) == OpKind::Reshape && repeat_of(group, solver, inst).is_some();
    let interleaved = interleaved && is_long(group) && !group.insts(group.body).iter().any(is_picked);
    let fitting = if interleaved { fitting * INTERLEAVED } else { fitting };
    let longest = [solver.range(inner).hi, solver.likely(inner).into_iter().max()].into_iter().flatten().min();
    match longest.and_then(|size| u32::try_from(size.max(1)).ok()) {
        Some(size) => fitting.min(size.checked_next_power_of_two().unwrap_or(fitting)),
        None => fitting,
    }
}

/// Lanes of one register, however long loops are.
pub fn lanes_that_fit(group: &Function, target: &Target) -> u32 {
    let widths = group.walk(group.body).into_iter().flat_map(|inst| group.results_of(inst).to_vec());
    let wide = widths.map(|v| compute_dtype(group.ty(v).dtype()).size()).filter(|&size| size >= 4);
    target.vector_bytes() / wide.min().unwrap_or(4) as u32
}

/// Registers that long computations fill at once: their ops are written next to one another, so that one waits while the other works.
const INTERLEAVED: u32 = 2;

/// Whether a group computes functions that are long chains of arithmetic.
pub fn is_long(group: &Function) -> bool {
    group.walk(group.body).into_iter().any(|inst| is_long_op(group, inst))
}

/// Whether an op is a long chain of arithmetic.
pub fn is_long_op(group: &Function, inst: disc_ir::Inst) -> bool {
    group.def(inst).has(Trait::Elementwise) && weight(group, inst) >= 16
}

/// Nanoseconds that `count` elements of an element-wise group take on one thread, each by this many lanes.
pub fn loops(group: &Function, count: &Dim, lanes: u32) -> Dim {
    let work: i64 = group.walk(group.body).into_iter().map(|inst| weight(group, inst)).sum();
    (count * (work + 2)).ceil_div(&Dim::constant(4 * i64::from(lanes)))
}

/// Quarter nanoseconds of one vector of an op.
pub(crate) fn weight(group: &Function, inst: disc_ir::Inst) -> i64 {
    use OpKind::*;
    match group.kind_of(inst) {
        Exponential | Log | Logistic | Tanh | Erf | Erfc | Sine | Cosine | LogPlusOne | ExponentialMinusOne | Power => 16,
        Divide | Sqrt | Rsqrt | Remainder => 8,
        Gather | Concatenate | Pad => 16,
        DotGeneral | Convolution | Reduce | ReduceWindow => 256,
        // Between registers of two sizes, and AVX2 has no instruction for it.
        Convert if with_long(group, inst) => 8,
        kind if kind.def().has(Trait::Elementwise) => 1,
        _ => 0,
    }
}

/// Whether integers of 64 bits become floats, or floats such integers. A single one, as the count that a mean divides by, is converted once.
fn with_long(group: &Function, inst: disc_ir::Inst) -> bool {
    let dtype = |value| group.ty(value).dtype();
    let many = group.ty(group.result(inst)).shaped().is_some_and(|tensor| !tensor.dims.is_empty());
    let (from, to) = (dtype(group.operands(inst)[0]), dtype(group.result(inst)));
    many && (from == DType::I64 && to.is_float() || from.is_float() && to == DType::I64)
}
