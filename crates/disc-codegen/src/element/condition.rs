//! Chooses between two computations by position: one where a position is inside, the other
//! elsewhere.
//!
//! Invariants:
//! - Neither side reads memory where it is not wanted: vectors are loaded with a mask, values that
//!   are the same in every lane are read under a branch.
//! - Neither side fails where it is not wanted.
use super::Elements;
use crate::kernel::{Index, KernelBuilder};
use disc_ir::Value;
use disc_kernel_macros::expr;

/// A condition on a position, added dimension by dimension; it starts empty.
#[derive(Default)]
pub(super) struct Condition {
    /// The condition that is the same in every lane.
    uniform: Option<Value>,
    /// The condition of each lane.
    lanes: Option<Value>,
}

impl Condition {
    pub(super) fn of(kb: &mut KernelBuilder, asked: Value) -> Self {
        let mut condition = Self::default();
        condition.and(kb, asked);
        condition
    }

    /// Adds `asked` to the condition.
    pub(super) fn and(&mut self, kb: &mut KernelBuilder, asked: Value) {
        let side = if kb.lanes(asked) == 1 { &mut self.uniform } else { &mut self.lanes };
        *side = Some(both(kb, *side, asked));
    }
}

impl<'g> Elements<'g> {
    /// Computes `then` where the condition holds, `otherwise` elsewhere.
    pub(super) fn either(
        &mut self,
        kb: &mut KernelBuilder,
        condition: &Condition,
        at: &[Index],
        then: impl FnOnce(&mut Self, &mut KernelBuilder) -> Value,
        otherwise: impl FnOnce(&mut Self, &mut KernelBuilder) -> Value,
    ) -> Value {
        let Some(asked) = condition.lanes else {
            return match condition.uniform {
                Some(asked) => self.branch(kb, asked, at, then, otherwise),
                None => then(self, kb),
            };
        };
        let pred = both(kb, condition.uniform, asked);
        let outside = expr!(kb, !pred);
        let (mut on, mut off) = (pred, outside);
        if let Some(mask) = self.mask {
            (on, off) = (expr!(kb, on & mask), expr!(kb, off & mask));
        }
        let outer = self.exists;
        if let Some(uniform) = condition.uniform {
            self.exists = Some(both(kb, outer, uniform));
        }
        let on_true = self.masked(Some(on), |cx| then(cx, kb));
        self.exists = outer;
        let on_false = self.masked(Some(off), |cx| otherwise(cx, kb));
        if kb.is_zero(on_false) && kb.is_zero_without(on_true, on) {
            return on_true;
        }
        kb.select(pred, on_true, on_false)
    }

    /// Like [`Elements::either`], for a condition that is the same in every lane.
    fn branch(
        &mut self,
        kb: &mut KernelBuilder,
        pred: Value,
        at: &[Index],
        then: impl FnOnce(&mut Self, &mut KernelBuilder) -> Value,
        otherwise: impl FnOnce(&mut Self, &mut KernelBuilder) -> Value,
    ) -> Value {
        let lanes = self.lanes_at(at);
        let cell = std::cell::RefCell::new(self);
        let on_true = |kb: &mut KernelBuilder| {
            let value = cell.borrow_mut().scoped(|cx| then(cx, kb));
            vec![kb.widen(value, lanes)]
        };
        let on_false = |kb: &mut KernelBuilder| {
            let value = cell.borrow_mut().scoped(|cx| otherwise(cx, kb));
            vec![kb.widen(value, lanes)]
        };
        kb.if_(pred, on_true, on_false)[0]
    }

    /// Loads an element that is the same in every lane, if the lanes exist at all; otherwise there
    /// is no such element, and the value is zero.
    pub(super) fn load_uniform(&self, kb: &mut KernelBuilder, buffer: Value, position: Value) -> Value {
        let size = kb.function.ty(buffer).shaped().expect("a buffer has a shape").element_count();
        let is_first = kb.known_int(position) == Some(0) && self.solver.nonzero(&size);
        let Some(exists) = self.exists.filter(|_| !is_first) else { return kb.load(buffer, position, 1, None) };
        let dtype = kb.dtype(buffer);
        kb.if_(exists, |kb| vec![kb.load(buffer, position, 1, None)], |kb| vec![kb.zero(dtype, 1)])[0]
    }

    /// Extends a check so that it holds where it is not wanted: in idle lanes, and if no lane
    /// exists.
    pub(super) fn asked(&self, kb: &mut KernelBuilder, ok: Value) -> Value {
        let asked = if kb.lanes(ok) > 1 { self.mask } else { self.exists };
        let Some(asked) = asked else { return ok };
        expr!(kb, ok | !asked)
    }
}

fn both(kb: &mut KernelBuilder, known: Option<Value>, asked: Value) -> Value {
    known.map_or(asked, |known| expr!(kb, known & asked))
}
