//! Removes ops whose results nothing uses.
//!
//! Invariant: an op that may fail or that writes memory stays, and so does everything that it
//! needs.
use disc_ir::{Block, Function, Inst, OpKind, ops::is_pure};

/// Removes dead ops from a function; returns their number.
pub(crate) fn remove_dead(function: &mut Function) -> usize {
    remove_while(function, &mut || true)
}

/// Removes dead ops from a function as long as `may` returns true.
pub(crate) fn remove_while(function: &mut Function, may: &mut dyn FnMut() -> bool) -> usize {
    let mut uses = function.use_counts();
    sweep(function, function.body, &mut uses, may)
}

fn sweep(function: &mut Function, block: Block, uses: &mut [u32], may: &mut dyn FnMut() -> bool) -> usize {
    let mut removed = 0;
    let mut kept = Vec::with_capacity(function.insts(block).len());
    for inst in function.insts(block).to_vec().into_iter().rev() {
        let unused = function.results_of(inst).iter().all(|result| uses[result.index()] == 0);
        if unused && is_removable(function, inst) && may() {
            removed += 1;
            forget(function, inst, uses);
        } else {
            for region in function.inst(inst).regions.clone() {
                removed += sweep(function, region, uses, may);
            }
            kept.push(inst);
        }
    }
    if removed > 0 {
        kept.reverse();
        function.set_insts(block, kept);
    }
    removed
}

fn forget(function: &Function, inst: Inst, uses: &mut [u32]) {
    function.operands(inst).iter().for_each(|operand| uses[operand.index()] -= 1);
    for &region in &function.inst(inst).regions {
        function.insts(region).iter().for_each(|&inner| forget(function, inner, uses));
    }
}

/// Returns true if an op has no effect other than its results.
pub(crate) fn is_removable(function: &Function, inst: Inst) -> bool {
    let def = function.def(inst);
    match def.kind {
        OpKind::If | OpKind::While | OpKind::Fusion => {
            let regions = &function.inst(inst).regions;
            let mut inner = regions.iter().flat_map(|&region| function.insts(region));
            inner.all(|&inner| function.kind_of(inner) == OpKind::Return || is_removable(function, inner))
        }
        _ => is_pure(function.inst(inst)),
    }
}
