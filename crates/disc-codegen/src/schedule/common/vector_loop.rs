//! Emits loops over vectors of positions: whole vectors, then a masked one for the tail.
use crate::{
    element::Elements,
    kernel::{Index, KernelBuilder},
};
use disc_ir::Value;
use disc_kernel_macros::expr;

/// Emits `body` for all positions from `low` to below `high`, `lanes` at a time, then with a mask
/// for the tail unless there is none.
pub(in crate::schedule) fn vector_loop<'e>(
    kb: &mut KernelBuilder,
    elements: &mut Elements<'e>,
    range: [Value; 2],
    exact: bool,
    body: &mut dyn FnMut(&mut KernelBuilder, &mut Elements<'e>, Index),
) {
    carrying(kb, elements, range, exact, &[], |kb, elements, index, _| {
        body(kb, elements, index);
        Vec::new()
    });
}

/// The same for rows, which may be short: after vectors that fill two registers, the tail is
/// computed by single ones.
pub(in crate::schedule) fn row_loop<'e>(
    kb: &mut KernelBuilder,
    elements: &mut Elements<'e>,
    [low, high]: [Value; 2],
    exact: bool,
    body: &mut dyn FnMut(&mut KernelBuilder, &mut Elements<'e>, Index),
) {
    let lanes = elements.lanes;
    if exact || !elements.fills_two_registers() {
        return vector_loop(kb, elements, [low, high], exact, body);
    }
    let (step, half) = (kb.int(i64::from(lanes)), kb.int(i64::from(lanes / 2)));
    let full = expr!(kb, low + (high - low) / step * step);
    vector_loop(kb, elements, [low, full], true, body);
    elements.lanes = lanes / 2;
    kb.for_each([full, high, half], |kb, base| {
        let left = expr!(kb, high - base);
        let mask = kb.lane_mask(left, elements.lanes);
        elements.masked(Some(mask), |elements| body(kb, elements, Index::Affine { base, stride: 1 }));
    });
    elements.lanes = lanes;
}

/// The same as [`vector_loop`], with values that each iteration gets from the one before; returns
/// the last ones.
pub(in crate::schedule) fn carrying<'e>(
    kb: &mut KernelBuilder,
    elements: &mut Elements<'e>,
    [low, high]: [Value; 2],
    exact: bool,
    inits: &[Value],
    mut body: impl FnMut(&mut KernelBuilder, &mut Elements<'e>, Index, &[Value]) -> Vec<Value>,
) -> Vec<Value> {
    let lanes = elements.lanes;
    let step = kb.int(i64::from(lanes));
    let stride = i64::from(lanes > 1);
    let full = expr!(kb, low + (high - low) / step * step);
    let carried = kb.for_([low, full, step], inits, |kb, base, carried| {
        elements.scoped(|elements| body(kb, elements, Index::Affine { base, stride }, carried))
    });
    if exact || lanes == 1 {
        return carried;
    }
    let left = expr!(kb, high - full);
    let any = expr!(kb, left > 0);
    let rest = kb.open_if(any);
    let mask = kb.lane_mask(left, lanes);
    let last = elements.masked(Some(mask), |elements| body(kb, elements, Index::Affine { base: full, stride }, &carried));
    kb.close_if_giving(rest, &last, &carried)
}
