//! Moves what does not change in a loop in front of it.
//!
//! Only pure ops move: they neither fail nor touch memory, so they may run where the loop would not. A view stays: its place is checked, and may
//! lie outside where the loop would not run.
use disc_ir::{Block, Function, Inst, OpKind, Value, ops::Trait};
use std::collections::HashSet;

pub(super) fn run(kernel: &mut Function) {
    let body = kernel.body;
    block(kernel, body);
}

/// Hoists out of the loops of a block, inner ones first; what leaves an inner loop may leave the outer one too.
fn block(kernel: &mut Function, at: Block) {
    let mut done = Vec::new();
    for inst in kernel.insts(at).to_vec() {
        for region in kernel.inst(inst).regions.clone() {
            block(kernel, region);
        }
        match kernel.kind_of(inst) {
            OpKind::For | OpKind::While | OpKind::If => {
                for region in kernel.inst(inst).regions.clone() {
                    done.extend(leaving(kernel, region));
                }
            }
            _ => {}
        }
        done.push(inst);
    }
    kernel.set_insts(at, done);
}

/// Takes the ops out of a region that need nothing from it.
fn leaving(kernel: &mut Function, region: Block) -> Vec<Inst> {
    let mut inside: HashSet<Value> = kernel.arguments(region).iter().copied().collect();
    let (mut out, mut stay) = (Vec::new(), Vec::new());
    for &inst in kernel.insts(region) {
        let pure = kernel.def(inst).has(Trait::Pure) && kernel.inst(inst).regions.is_empty();
        let pure = pure && kernel.kind_of(inst) != OpKind::View;
        if pure && kernel.operands(inst).iter().all(|v| !inside.contains(v)) {
            out.push(inst);
        } else {
            inside.extend(kernel.results_of(inst).iter().copied());
            stay.push(inst);
        }
    }
    kernel.set_insts(region, stay);
    out
}
