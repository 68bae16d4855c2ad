//! From where to where each buffer of a host program is in use.
use disc_ir::{Block, Function, Inst, OpKind, Value};
use std::collections::HashMap;

/// The ops during which memory holds a value: from its first use (it is written) to its last. An output is needed for ever.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct LiveRange {
    pub(super) first: usize,
    pub(super) last: usize,
}

/// The buffer that a view looks at, through views of views.
pub(super) fn root(host: &Function, mut buffer: Value) -> Value {
    while let Some(inst) = host.defining(buffer).filter(|&i| host.kind_of(i) == OpKind::View) {
        buffer = host.operands(inst)[0];
    }
    buffer
}

/// The range of each `alloc` and `alloc_output`. What is used inside a loop but made outside of it is in use until the loop ends; what a loop body makes and
/// reads in a later iteration would be carried, so it does not exist.
pub(super) fn ranges(host: &Function) -> HashMap<Inst, LiveRange> {
    let mut walk = Walk { host, position: 0, ranges: HashMap::new(), depth_of: HashMap::new(), loops: Vec::new() };
    walk.block(host.body);
    walk.ranges
}

struct Walk<'h> {
    host: &'h Function,
    position: usize,
    ranges: HashMap<Inst, LiveRange>,
    /// How many loops surround an allocation.
    depth_of: HashMap<Inst, usize>,
    /// For each surrounding loop: the parts made outside of it that it uses.
    loops: Vec<Vec<Inst>>,
}

impl Walk<'_> {
    fn block(&mut self, block: Block) {
        for &inst in self.host.insts(block) {
            self.position += 1;
            if matches!(self.host.kind_of(inst), OpKind::Alloc | OpKind::AllocOutput) {
                self.depth_of.insert(inst, self.loops.len());
            }
            // A view is another name: what is done with it counts.
            let used = if self.host.kind_of(inst) == OpKind::View { &[][..] } else { self.host.operands(inst) };
            used.iter().for_each(|&operand| self.used(operand));
            let is_loop = self.host.kind_of(inst) == OpKind::While;
            if is_loop {
                self.loops.push(Vec::new());
            }
            // The region of a group uses the group's operands only.
            if self.host.kind_of(inst) != OpKind::Fusion {
                self.host.inst(inst).regions.iter().for_each(|&region| self.block(region));
            }
            if is_loop {
                self.position += 1;
                for part in self.loops.pop().expect("pushed above") {
                    self.ranges.entry(part).and_modify(|r| r.last = r.last.max(self.position));
                }
            }
        }
    }

    fn used(&mut self, buffer: Value) {
        let Some(part) = self.host.defining(root(self.host, buffer)) else { return };
        let here = self.position;
        let last = match self.host.kind_of(part) {
            OpKind::Alloc => here,
            OpKind::AllocOutput => usize::MAX,
            _ => return,
        };
        self.ranges.entry(part).and_modify(|r| r.last = last).or_insert(LiveRange { first: here, last });
        let depth = self.depth_of[&part];
        self.loops[depth..].iter_mut().for_each(|inside| inside.push(part));
    }
}
