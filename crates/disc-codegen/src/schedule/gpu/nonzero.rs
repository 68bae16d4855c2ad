//! Finds positions of true elements on a grid, in order: threads find the ranks of neighbouring
//! elements together, and carry their number along.
//!
//! Of many elements each block has a part, whose true elements a first kernel counts.
//!
//! Invariant: the number of parts is the same for all sizes and devices.
use super::{
    candidates::{Candidate, Candidates},
    conditions::at_least,
    frame::{GridFrame, grid_of},
    prefix::Prefix,
};
use crate::{
    kernel::{Index, KernelBuilder},
    schedule::{Group, Scheduled, VersionKind, Versioned, Workspace, version::aligned_bytes},
};
use disc_ir::{DType, Dim, Grid, Inst, TensorType, Value};
use disc_kernel_macros::expr;
use std::sync::Arc;

versions! {
    /// Positions of many true elements of a grid, in parts that are counted first.
    SplitPositions {
        kernels: "`kN_standalone_count` and `kN_standalone_split` of `nonzero`",
        sizes: "grids: at least 2^14 elements; all tensors have fewer than 2^31 elements",
        unit: "a block has one of 128 parts",
    }

    /// Positions of true elements of a grid, found by one block.
    BlockPositions {
        kernels: "`kN_standalone_block` of `nonzero`",
        sizes: "grids: fewer elements",
        unit: "one block has all",
    }
}

/// Elements that a thread has at once.
const EACH: i64 = 4;
/// Parts of many elements: at most one for each thread of a block, which adds up their counts.
const PARTS: i64 = 128;
/// Fewer elements are not worth a second launch.
const MANY: i64 = 16 << 10;

pub(super) fn versions(group: &Group<'_>, inst: Inst) -> Versioned {
    let mut candidates = Candidates::of(group);
    let many = at_least(group, MANY, &Nonzero::new(group, inst, 1).size);
    let counts = TensorType::new([Dim::constant(PARTS)], DType::I32);
    let workspaces = vec![Workspace { bytes: aligned_bytes(&counts), most: None, tensor: counts }];
    let counting_name: Arc<str> = format!("{}_count", group.name).into();
    let split = Candidate::new(VersionKind::SplitPositions, "split", many).with_workspaces(workspaces);
    candidates.add(split, |group, workspaces| {
        let counting = Group { name: counting_name, ..group.clone() };
        let mut code = Nonzero::new(&counting, inst, PARTS).counted(workspaces);
        code.append_of(group, |group| Nonzero::new(group, inst, PARTS).written(workspaces));
        Some(code)
    });
    candidates.in_narrow_positions((VersionKind::BlockPositions, "block"), |group| Nonzero::new(group, inst, 1).written(&[]))
}

struct Nonzero<'g> {
    group: &'g Group<'g>,
    mask: Value,
    positions: Value,
    /// The number of elements, and of positions that there is room for.
    size: Dim,
    room: Dim,
    parts: i64,
    grid: Grid,
}

impl<'g> Nonzero<'g> {
    fn new(group: &'g Group<'g>, inst: Inst, parts: i64) -> Self {
        let (mask, positions) = (group.function.operands(inst)[0], group.function.result(inst));
        Self {
            group,
            mask,
            positions,
            size: group.tensor(mask).dims[0].clone(),
            room: group.tensor(positions).dims[0].clone(),
            parts,
            grid: grid_of(group.target),
        }
    }

    /// Begins a kernel, with the memory of counts if there is any.
    fn frame(&self, workspaces: &[Workspace]) -> (GridFrame<'g>, Option<Value>) {
        let mut frame = GridFrame::new(self.group, 1, self.grid);
        let GridFrame { kb, memory, .. } = &mut frame;
        let counts = workspaces.first().map(|workspace| memory.add_workspace(kb, "counts", 0, workspace.tensor.clone()));
        (frame, counts)
    }

    /// Writes the kernel that counts the true elements of each part.
    fn counted(&self, workspaces: &[Workspace]) -> Scheduled {
        let (mut frame, counts) = self.frame(workspaces);
        let prefix = Prefix::new(&mut frame.kb, self.grid, self.grid.threads, &[self.group.index_type], 1);
        let [low, high] = self.part(&mut frame.kb);
        let kb = &mut frame.kb;
        let (zero, step, thread) = (kb.int(0), kb.int(self.grid.threads.into()), kb.place("thread"));
        let first = expr!(kb, low + thread);
        let mut open = kb.open_for_carrying([first, high, step], &[zero]);
        let found = self.flag(&mut frame, open.index);
        open.next = vec![expr!(frame.kb, open.carried[0] + found)];
        let kb = &mut frame.kb;
        let own = kb.close_for(open);
        let total = prefix.inclusive(kb, &mut [own], &[zero], &mut add);
        let is_first = expr!(kb, thread == zero);
        kb.when(is_first, |kb| {
            let (block, total) = (kb.place("block"), kb.convert(total[0], DType::I32));
            kb.store(counts.expect("parts are counted in memory"), block, total, None);
        });
        frame.finish(Dim::constant(self.parts))
    }

    /// Writes the kernel that writes positions: those of its part, and a part of the entries after
    /// the last position.
    fn written(&self, workspaces: &[Workspace]) -> Scheduled {
        let (mut frame, counts) = self.frame(workspaces);
        let (low, room) = (self.part(&mut frame.kb), self.room.clone());
        let kb = &mut frame.kb;
        let (block, thread, room) = (kb.place("block"), kb.place("thread"), kb.dim(&room));
        let known = counts.map(|counts| self.sums(kb, counts, block, thread));
        let before = known.map_or_else(|| kb.int(0), |[before, _]| before);
        let found = self.write_part(&mut frame, (low, room), before);
        let kb = &mut frame.kb;
        let total = known.map_or(found, |[_, total]| total);
        let (width, none) = (kb.int(self.grid.threads.into()), kb.int(-1));
        let skipped = expr!(kb, block * width);
        let first = expr!(kb, total + thread + skipped);
        let step = kb.int(i64::from(self.grid.threads) * self.parts);
        let open = kb.open_for([first, room, step]);
        self.store(&mut frame, open.index, none);
        frame.kb.close_for(open);
        frame.finish(Dim::constant(self.parts))
    }

    /// Returns the first position of this block's part, and the one after its last.
    fn part(&self, kb: &mut KernelBuilder) -> [Value; 2] {
        let size = kb.dim(&self.size);
        if self.parts == 1 {
            return [kb.int(0), size];
        }
        let (each, block) = (kb.dim(&self.size.ceil_div(&Dim::constant(self.parts))), kb.place("block"));
        let low = expr!(kb, block * each);
        let high = expr!(kb, low + each);
        [low, kb.min(high, size)]
    }

    /// Adds up the counts of the parts before this one, and of all.
    fn sums(&self, kb: &mut KernelBuilder, counts: Value, block: Value, thread: Value) -> [Value; 2] {
        let dtype = self.group.index_type;
        let prefix = Prefix::new(kb, self.grid, self.grid.threads, &[dtype, dtype], 1);
        let zero = kb.int(0);
        let exists = expr!(kb, thread < int(self.parts));
        let open = kb.open_if(exists);
        let count = kb.load(counts, thread, 1, None);
        let count = kb.convert(count, dtype);
        let count = kb.close_if_giving(open, &[count], &[zero])[0];
        let before = expr!(kb, select(thread < block, count, zero));
        let sums = prefix.inclusive(kb, &mut [vec![before, count]], &[zero, zero], &mut add);
        [sums[0], sums[1]]
    }

    /// Writes the positions of a part; returns the number of positions up to its end.
    fn write_part(&self, frame: &mut GridFrame<'_>, ([low, high], room): ([Value; 2], Value), before: Value) -> Value {
        let width = i64::from(self.grid.threads);
        let kb = &mut frame.kb;
        let prefix = Prefix::new(kb, self.grid, self.grid.threads, &[self.group.index_type], EACH as usize);
        let (zero, one, thread, step) = (kb.int(0), kb.int(1), kb.place("thread"), kb.int(width * EACH));
        let mut open = kb.open_for_carrying([low, high, step], &[before]);
        let first = expr!(kb, open.index + thread);
        let mut own = Vec::new();
        for number in 0..EACH {
            let kb = &mut frame.kb;
            let position = expr!(kb, first + int(number * width));
            let exists = expr!(kb, position < high);
            let inside = kb.open_if(exists);
            let flag = self.flag(frame, position);
            own.push((position, frame.kb.close_if_giving(inside, &[flag], &[zero])[0]));
        }
        let mut ranks: Vec<Vec<Value>> = own.iter().map(|&(_, flag)| vec![flag]).collect();
        open.next = prefix.inclusive(&mut frame.kb, &mut ranks, &open.carried, &mut add);
        for ((position, flag), rank) in own.into_iter().zip(ranks) {
            let kb = &mut frame.kb;
            let at = expr!(kb, rank[0] - one);
            let is_written = expr!(kb, (flag != zero) & (at < room));
            let inside = kb.open_if(is_written);
            self.store(frame, at, position);
            frame.kb.close_if(inside);
        }
        frame.kb.close_for(open)[0]
    }

    /// Returns 1 if an element is true, else 0.
    fn flag(&self, frame: &mut GridFrame<'_>, position: Value) -> Value {
        let GridFrame { kb, elements, .. } = frame;
        let is_true = elements.scoped(|elements| elements.element(kb, self.mask, &[Index::uniform(position)]));
        kb.convert(is_true, self.group.index_type)
    }

    fn store(&self, frame: &mut GridFrame<'_>, at: Value, position: Value) {
        let (target, tensor) = (frame.target(self.positions), self.group.tensor(self.positions));
        let GridFrame { kb, elements, .. } = frame;
        elements.scoped(|elements| elements.store(kb, target, tensor, &[Index::uniform(at)], position));
    }
}

fn add(kb: &mut KernelBuilder, before: &[Value], own: &[Value]) -> Vec<Value> {
    before.iter().zip(own).map(|(&a, &b)| expr!(kb, a + b)).collect()
}
