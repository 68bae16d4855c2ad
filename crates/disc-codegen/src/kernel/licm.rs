//! Hoists loop-invariant ops out of loops.
//!
//! Only pure ops move: they neither fail nor touch memory, so they may run even if the loop would
//! not. A view stays: its position is checked, and may be out of bounds if the loop would not run.
//! Out of a branch, scalars move as well, which are mostly positions; vectors move only with
//! everything that leaves the loop around it: the branch may be a long computation for rare
//! numbers.
use disc_ir::{Block, Function, Inst, OpKind, Type, Value, ops::Trait};
use std::collections::HashSet;

pub(super) fn run(kernel: &mut Function) {
    let body = kernel.body;
    block(kernel, body);
}

/// Hoists out of the loops and branches of a block, inner ones first; an op that leaves an inner
/// loop may leave the outer one too.
fn block(kernel: &mut Function, at: Block) {
    let mut done = Vec::new();
    for inst in kernel.insts(at).to_vec() {
        for region in kernel.inst(inst).regions.clone() {
            block(kernel, region);
        }
        let is_loop = matches!(kernel.kind_of(inst), OpKind::For | OpKind::While);
        if is_loop || kernel.kind_of(inst) == OpKind::If {
            for region in kernel.inst(inst).regions.clone() {
                let mut leaving = Leaving { is_loop, inside: HashSet::new(), out: Vec::new() };
                leaving.take(kernel, region);
                done.append(&mut leaving.out);
            }
        }
        done.push(inst);
    }
    kernel.set_insts(at, done);
}

/// The ops that leave a region.
struct Leaving {
    is_loop: bool,
    /// The values that stay.
    inside: HashSet<Value>,
    out: Vec<Inst>,
}

impl Leaving {
    /// Takes the ops out of a region that need no value that stays; of a loop, those in its
    /// branches too.
    fn take(&mut self, kernel: &mut Function, region: Block) {
        self.inside.extend(kernel.arguments(region).iter().copied());
        let mut stay = Vec::new();
        for inst in kernel.insts(region).to_vec() {
            if self.may_leave(kernel, inst) {
                self.out.push(inst);
                continue;
            }
            if self.is_loop && kernel.kind_of(inst) == OpKind::If {
                kernel.inst(inst).regions.clone().into_iter().for_each(|branch| self.take(kernel, branch));
            }
            self.inside.extend(kernel.results_of(inst).iter().copied());
            stay.push(inst);
        }
        kernel.set_insts(region, stay);
    }

    fn may_leave(&self, kernel: &Function, inst: Inst) -> bool {
        let pure = kernel.def(inst).has(Trait::Pure) && kernel.inst(inst).regions.is_empty();
        let is_vector = |value: &Value| matches!(kernel.ty(*value), Type::Vector { lanes: 2.., .. });
        let operands = kernel.operands(inst);
        pure && kernel.kind_of(inst) != OpKind::View
            && operands.iter().all(|v| !self.inside.contains(v))
            && (self.is_loop || operands.is_empty() || !kernel.results_of(inst).iter().any(is_vector))
    }
}
