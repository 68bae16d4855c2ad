//! Rough costs: how long a launch takes, so that small ones stay on one thread, and how many lanes a group wants.
use crate::{element::compute_dtype, target::Target};
use disc_ir::{Dim, Function, OpKind, ops::Trait};

/// Lanes that fit the widest type in which the group computes most: 4-byte lanes unless everything is wider.
pub fn lanes(group: &Function, target: &Target) -> u32 {
    let widths = group.walk(group.body).into_iter().flat_map(|inst| group.results_of(inst).to_vec());
    let floats = widths.map(|v| compute_dtype(group.ty(v).dtype()).size()).filter(|&size| size >= 4);
    let narrowest = floats.min().unwrap_or(4);
    target.vector_bytes() / narrowest as u32
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
        kind if kind.def().has(Trait::Elementwise) => 1,
        _ => 0,
    }
}
