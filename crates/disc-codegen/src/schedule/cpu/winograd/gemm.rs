//! Emits the micro-kernel: a block of output features times a vector or two of tiles, for one place
//! of the transformed windows.
use super::plan::WinogradPlan;
use crate::schedule::Group;
use disc_ir::{Attr, DType, Dim, Function, FunctionKind, OpKind, Space, TensorType, Type, Value};
use disc_kernel_macros::expr;

/// Elements of the kernel that are prefetched: they take some 250 ns, in which they come from
/// memory.
const AHEAD: i64 = 2048;

pub(super) fn name(kernel: &str, vectors: i64) -> String {
    format!("{kernel}.gemm{vectors}")
}

/// Emits the sums over the input features, in registers.
pub(super) fn emit(group: &Group<'_>, plan: &WinogradPlan, kernel: &str, vectors: i64) -> Function {
    let mut kb = group.builder(&name(kernel, vectors), FunctionKind::Routine);
    let weights = kb.buffer("kernel", group.tensor(plan.kernel).clone());
    let mut memory = |name: &str, count: i64| {
        let tensor = TensorType::new([Dim::constant(count)], DType::F32);
        kb.parameter(name, Type::Buffer { tensor, space: Space::Task })
    };
    let slack = i64::from(plan.lanes);
    let held = memory("tiles", plan.method.places() * plan.tiles_pitch() + slack);
    let made = memory("products", plan.method.places() * plan.products_pitch() + slack);
    let [left, right, to, gap] = ["left", "right", "to", "gap"].map(|name| kb.position(name));
    let (zero, one, channels) = (kb.int(0), kb.int(1), kb.int(plan.channels));
    let start = vec![kb.zero(DType::F32, plan.lanes); (plan.rows * vectors) as usize];
    let sums = kb.for_([zero, channels, one], &start, |kb, channel, sums| {
        let (rows, row) = (kb.int(plan.rows), kb.int(plan.tiles_row()));
        let (weight, tiles) = (expr!(kb, channel * rows), expr!(kb, channel * row));
        let (weight, tiles) = (expr!(kb, left + weight), expr!(kb, right + tiles));
        // After this place's elements come those of the next one, after a gap.
        let (ahead, near) = (kb.int(AHEAD), kb.int(plan.channels - AHEAD / plan.rows));
        let ahead = expr!(kb, weight + ahead);
        let behind = expr!(kb, ahead + gap);
        let ahead = expr!(kb, select(channel < near, ahead, behind));
        kb.emit_all(OpKind::Prefetch, &[weights, ahead], &[("locality", Attr::Int(3))], None);
        let vectors: Vec<Value> = (0..vectors)
            .map(|v| {
                let at = expr!(kb, tiles + int(v * i64::from(plan.lanes)));
                kb.load(held, at, plan.lanes, None)
            })
            .collect();
        let mut next = Vec::with_capacity(sums.len());
        for row in 0..plan.rows {
            let at = expr!(kb, weight + int(row));
            let element = kb.load(weights, at, 1, None);
            let element = kb.widen(element, plan.lanes);
            for &vector in &vectors {
                let sum = sums[next.len()];
                next.push(kb.fma(element, vector, sum));
            }
        }
        next
    });
    for (number, sum) in sums.into_iter().enumerate() {
        let (row, vector) = (number as i64 / vectors, number as i64 % vectors);
        let shift = kb.int(row * plan.products_row() + vector * i64::from(plan.lanes));
        let at = expr!(kb, to + shift);
        kb.store(made, at, sum, None);
    }
    kb.finish()
}
