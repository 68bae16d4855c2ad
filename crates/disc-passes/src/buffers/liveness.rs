//! Live ranges of the buffers of a host program.
use disc_ir::{Block, Function, Inst, OpKind, Value};
use std::collections::HashMap;

/// The ops from the first use of memory, which writes it, to the last. An output is live to the
/// end.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct LiveRange {
    pub(super) first: usize,
    pub(super) last: usize,
}

/// The buffer under a view, through views of views.
pub(super) fn root(host: &Function, mut buffer: Value) -> Value {
    while let Some(inst) = host.defining(buffer).filter(|&i| host.kind_of(i) == OpKind::View) {
        buffer = host.operands(inst)[0];
    }
    buffer
}

/// Computes the live range of each `alloc` and `alloc_output`. A buffer that a loop uses and that
/// is allocated outside stays live until the loop ends. A value that one iteration makes and a
/// later one reads is carried, so an allocation in a loop body never lives across iterations.
pub(super) fn ranges(host: &Function) -> HashMap<Inst, LiveRange> {
    let mut walk = Walk { host, position: 0, ranges: HashMap::new(), depth_of: HashMap::new(), loops: Vec::new() };
    walk.block(host.body);
    walk.ranges
}

struct Walk<'h> {
    host: &'h Function,
    position: usize,
    ranges: HashMap<Inst, LiveRange>,
    /// The number of loops around an allocation.
    depth_of: HashMap<Inst, usize>,
    /// For each surrounding loop: the allocations from outside that it uses.
    loops: Vec<Vec<Inst>>,
}

impl Walk<'_> {
    fn block(&mut self, block: Block) {
        for &inst in self.host.insts(block) {
            self.position += 1;
            if matches!(self.host.kind_of(inst), OpKind::Alloc | OpKind::AllocOutput) {
                self.depth_of.insert(inst, self.loops.len());
            }
            // A view is another name of its buffer: the uses of the view count.
            let used = if self.host.kind_of(inst) == OpKind::View { &[][..] } else { self.host.operands(inst) };
            used.iter().for_each(|&operand| self.used(operand));
            let is_loop = self.host.kind_of(inst) == OpKind::While;
            if is_loop {
                self.loops.push(Vec::new());
            }
            // The region of a group uses the operands of the group only.
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
