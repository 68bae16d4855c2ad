//! Computes the outputs of rows and stores them.
use super::{Rows, place::Here};
use crate::{
    kernel::{Index, KernelBuilder},
    schedule::{cpu::Placed, gpu::frame::GridFrame},
};
use disc_ir::Value;
use disc_kernel_macros::expr;

impl Rows<'_> {
    /// The outputs, each with its memory; those with an element for each position of a row, or the
    /// others.
    pub(super) fn outputs(&self, frame: &GridFrame<'_>, are_whole: bool) -> Vec<(Placed, Value)> {
        let solver = &self.group.solver;
        let placed = |output: Value| {
            let tensor = self.group.tensor(output);
            let shape = match are_whole {
                true => self.plan.whole_output(solver, output, tensor)?,
                false if self.plan.whole_output(solver, output, tensor).is_some() => return None,
                false => self.plan.kept(solver, tensor).expect("an output is whole or has an element for each row"),
            };
            Some((Placed { value: output, shape }, frame.target(output)))
        };
        self.group.outputs().into_iter().filter_map(placed).collect()
    }

    /// Writes the outputs with an element for each position of a row: all are computed before any
    /// is stored.
    pub(super) fn write_held(&self, frame: &mut GridFrame<'_>, here: &Here, columns: &[(Vec<Index>, Option<Value>)]) {
        let whole = self.outputs(frame, true);
        let GridFrame { kb, elements, .. } = frame;
        let mut computed = Vec::new();
        for (at, exists) in columns {
            let exists = both(kb, *exists, here.exists);
            for (placed, target) in &whole {
                let place = elements.position(kb, &self.plan.layout.space, &placed.shape, at);
                let value = elements.element(kb, placed.value, &place);
                computed.push((exists, placed.value, *target, place, value));
            }
        }
        // Threads without an element have read another one's.
        if here.exists.is_some() && !computed.is_empty() {
            kb.warp_barrier();
        }
        for (exists, output, target, place, value) in computed {
            let open = exists.map(|exists| kb.open_if(exists));
            elements.scoped(|elements| elements.store(kb, target, self.group.tensor(output), &place, value));
            if let Some(open) = open {
                kb.close_if(open);
            }
        }
    }

    /// Writes the outputs with an element for each row.
    pub(super) fn write_rows(&self, frame: &mut GridFrame<'_>, here: &Here) {
        let single = self.outputs(frame, false);
        if single.is_empty() {
            return;
        }
        let GridFrame { kb, elements, .. } = frame;
        let zero = kb.int(0);
        let is_first = (self.threads > 1).then(|| expr!(kb, here.member == zero));
        let writes = both(kb, is_first, here.exists);
        // Where threads compute another one's row, all of them have to be done before one writes.
        let is_joint = here.exists.is_some();
        let mut open = writes.filter(|_| !is_joint).map(|writes| kb.open_if(writes));
        elements.open_scope();
        let mut computed = Vec::new();
        for (placed, target) in &single {
            let place = elements.position(kb, &self.plan.layout.space, &placed.shape, &here.row);
            let value = elements.element(kb, placed.value, &place);
            computed.push((placed.value, *target, place, value));
        }
        if is_joint {
            kb.warp_barrier();
            open = writes.map(|writes| kb.open_if(writes));
        }
        for (output, target, place, value) in computed {
            elements.store(kb, target, self.group.tensor(output), &place, value);
        }
        elements.close_scope();
        if let Some(open) = open {
            kb.close_if(open);
        }
    }
}

/// Returns a flag that is true if both are; an absent one is true.
fn both(kb: &mut KernelBuilder, left: Option<Value>, right: Option<Value>) -> Option<Value> {
    match (left, right) {
        (Some(left), Some(right)) => Some(expr!(kb, left & right)),
        (one, other) => one.or(other),
    }
}
