//! Estimates costs: the time that a launch takes, so that small ones stay on one thread, and the
//! number of lanes for a group.
use super::compute_dtype;
use crate::target::Target;
use disc_ir::{DType, Dim, Function, OpKind, Solver, ops::Trait};
use disc_passes::fusion::space::repeat_of;

/// The lanes for a loop along `inner`: as many as fit the widest type in which the group computes
/// most (4-byte lanes unless everything is wider), but not more than a loop that is known, or
/// likely, to be short can fill. Long computations fill several registers.
pub fn lanes(group: &Function, target: &Target, solver: &Solver, inner: &Dim) -> u32 {
    lanes_of(group, target, solver, inner, true)
}

/// Like [`lanes`], but of one register, because other vectors are computed at the same time.
pub fn lanes_of_register(group: &Function, target: &Target, solver: &Solver, inner: &Dim) -> u32 {
    lanes_of(group, target, solver, inner, false)
}

fn lanes_of(group: &Function, target: &Target, solver: &Solver, inner: &Dim, interleaved: bool) -> u32 {
    let fitting = lanes_that_fit(group, target);
    // Repeated elements are picked from lanes of one register.
    let is_picked = |&inst: &disc_ir::Inst| group.kind_of(inst) == OpKind::Reshape && repeat_of(group, solver, inst).is_some();
    // The threads of a GPU are interleaved by its cores.
    let interleaved = interleaved && target.is_cpu() && is_long(group) && !group.insts(group.body).iter().any(is_picked);
    let fitting = if interleaved { fitting * INTERLEAVED } else { fitting };
    let longest = [solver.range(inner).hi, solver.likely(inner).into_iter().max()].into_iter().flatten().min();
    match longest.and_then(|size| u32::try_from(size.max(1)).ok()) {
        Some(size) => fitting.min(size.checked_next_power_of_two().unwrap_or(fitting)),
        None => fitting,
    }
}

/// The lanes of one register, however long loops are.
pub fn lanes_that_fit(group: &Function, target: &Target) -> u32 {
    let widths = group.walk(group.body).into_iter().flat_map(|inst| group.results_of(inst).to_vec());
    let wide = widths.map(|v| compute_dtype(group.ty(v).dtype()).size()).filter(|&size| size >= 4);
    target.lanes(8 * wide.min().unwrap_or(4) as u32)
}

/// The registers that long computations fill at once: their ops are interleaved, so that one waits
/// while the other works.
const INTERLEAVED: u32 = 2;

/// Returns true if a group computes functions that are long chains of arithmetic.
pub fn is_long(group: &Function) -> bool {
    group.walk(group.body).into_iter().any(|inst| is_long_op(group, inst))
}

/// Returns true if an op is a long chain of arithmetic.
pub fn is_long_op(group: &Function, inst: disc_ir::Inst) -> bool {
    group.def(inst).has(Trait::Elementwise) && weight(group, inst) >= 16
}

/// The nanoseconds that `count` elements of an element-wise group take on one thread with this many
/// lanes.
pub fn loops(group: &Function, count: &Dim, lanes: u32) -> Dim {
    let work: i64 = group.walk(group.body).into_iter().map(|inst| weight(group, inst)).sum();
    (count * (work + 2)).ceil_div(&Dim::constant(4 * i64::from(lanes)))
}

/// The quarter nanoseconds of one vector of an op.
pub(crate) fn weight(group: &Function, inst: disc_ir::Inst) -> i64 {
    use OpKind::*;
    match group.kind_of(inst) {
        Exponential | Log | Logistic | Tanh | Erf | Erfc | Sine | Cosine | LogPlusOne | ExponentialMinusOne | Power => 16,
        Divide | Sqrt | Rsqrt | Remainder => 8,
        Gather | Concatenate | Pad => 16,
        DotGeneral | Convolution | Reduce | ReduceWindow => 256,
        // It is a conversion between registers of two sizes, and AVX2 has no instruction for it.
        Convert if with_long(group, inst) => 8,
        kind if kind.def().has(Trait::Elementwise) => 1,
        _ => 0,
    }
}

/// Returns true if the op converts integers of 64 bits to floats, or floats to such integers. A
/// single one, such as the count that a mean divides by, is converted once.
fn with_long(group: &Function, inst: disc_ir::Inst) -> bool {
    let dtype = |value| group.ty(value).dtype();
    let many = group.ty(group.result(inst)).shaped().is_some_and(|tensor| !tensor.dims.is_empty());
    let (from, to) = (dtype(group.operands(inst)[0]), dtype(group.result(inst)));
    many && (from == DType::I64 && to.is_float() || from.is_float() && to == DType::I64)
}
