//! Calls of routines: by the height of a block, and for blocks of several sizes.
use crate::{kernel::KernelBuilder, schedule::cpu::matmul::plan::source::Source};
use disc_ir::Value;
use disc_kernel_macros::expr;

/// Runs `body` for blocks of the sizes, largest first, from `low` to below `high`.
pub(in crate::schedule) fn in_blocks(
    kb: &mut KernelBuilder,
    [low, high]: [Value; 2],
    sizes: &[u32],
    body: &mut dyn FnMut(&mut KernelBuilder, u32, Value),
) {
    let mut low = low;
    for &size in sizes {
        let step = kb.int(i64::from(size));
        let end = expr!(kb, low + (high - low) / step * step);
        kb.for_each([low, end, step], |kb, blocks| {
            body(kb, size, blocks);
        });
        low = end;
    }
}

/// Calls the micro-kernel for `height` rows, known to be in [`low`, `high`], by a balanced tree of
/// comparisons.
pub(in crate::schedule) fn dispatch(
    kb: &mut KernelBuilder,
    part: &str,
    source: Source,
    arguments: &[Value],
    height: Value,
    [low, high]: [u32; 2],
) {
    if low == high {
        kb.call(&source.kernel_name(part, low), arguments);
        return;
    }
    let middle = (low + high).div_ceil(2);
    let less = expr!(kb, height < int(i64::from(middle)));
    let below = |kb: &mut KernelBuilder| {
        dispatch(kb, part, source, arguments, height, [low, middle - 1]);
        Vec::new()
    };
    let above = |kb: &mut KernelBuilder| {
        dispatch(kb, part, source, arguments, height, [middle, high]);
        Vec::new()
    };
    kb.if_(less, below, above);
}
