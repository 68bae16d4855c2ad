//! Schedules sorts, and the first elements of an order, along lines: a warp has a short line in its
//! registers, a block one that fits its shared memory, or a long one of which few elements are
//! wanted, part by part. Other lines are sorted in memory of the device.
//!
//! Keys and positions are sorted; then the elements follow their positions.
//!
//! Invariant: no result has the memory of an input, whose elements are read after the sort.
use super::{
    bitonic::{self, Entries},
    candidates::{Candidate, Candidates},
    conditions::at_most,
    frame::{GridFrame, grid_of, warp_of},
};
use crate::{
    kernel::{Index, KernelBuilder},
    schedule::{
        Condition, Group, Scheduled, VersionKind, Versioned, Workspace,
        common::iteration_space::Merged,
        cpu::{self, key, lines, order_of},
        version::aligned_bytes,
    },
};
use disc_ir::{Attr, DType, Dim, Grid, Inst, OpKind, TensorType, Value, ops::body::Order};
use disc_kernel_macros::expr;
use disc_passes::analysis::query::Query;

versions! {
    /// Sorts of a grid, of which a warp has a line in its registers.
    WarpSorts {
        kernels: "`kN_standalone_warp` of sorts",
        sizes: "grids: sorts and `top_k` of lines that are at most a warp, by a plain order; all tensors have fewer than 2^31 \
            elements",
        unit: "a warp sorts a line in its registers",
    }

    /// Sorts of a grid, of which a block has a line in its memory.
    BlockSorts {
        kernels: "`kN_standalone_block` of sorts",
        sizes: "grids: sorts and `top_k` of lines of at most 4096 elements, by a plain order; all tensors have fewer than \
            2^31 elements",
        unit: "a block sorts a line in shared memory",
    }

    /// The first elements of lines of a grid, which a block sorts part by part.
    PartSorts {
        kernels: "`kN_standalone_parts`",
        sizes: "grids: `top_k` of at most 2048 elements, those that are skipped included; all tensors have fewer than 2^31 \
            elements",
        unit: "a block sorts a line part by part, and keeps the first elements",
    }

    /// Sorts of a grid, of which a block has a line in memory of the device.
    DeviceSorts {
        kernels: "`kN_standalone_device`",
        sizes: "grids: other sorts and `top_k` by a plain order, of fewer than 2^29 elements",
        unit: "a block sorts a line in memory of the device",
    }
}

/// Entries of a block in shared memory: 48 KiB of those with keys of 64 bits.
const ROOM: i64 = 4096;
/// The most wanted elements of a line that is sorted part by part.
const WANTED: i64 = ROOM / 2;
/// Elements of all lines that are sorted in memory of the device.
const MOST: i64 = 1 << 29;

/// Schedules a sort or the start of one; `None` if its order is that of any comparator.
pub(super) fn versions(group: &Group<'_>, inst: Inst) -> Option<Versioned> {
    let order = order_of(group, inst)?;
    let mut candidates = Candidates::of(group);
    let Ordered { size, wanted, is_sort, .. } = Ordered::of(group, inst, order);
    let short = |kind, suffix, most, dim| (kind, Candidate::new(kind, suffix, at_most(group, most, dim)));
    let all = [
        short(VersionKind::WarpSorts, "warp", warp_of(group.target).into(), &size),
        short(VersionKind::BlockSorts, "block", ROOM, &size),
        short(VersionKind::PartSorts, "parts", WANTED, &wanted),
    ];
    // A sort wants all elements.
    for (kind, candidate) in all.into_iter().take(if is_sort { 2 } else { 3 }) {
        candidates.add(candidate, |group, _| Some(Ordered::of(group, inst, order).scheduled(kind)));
    }
    add_in_device_memory(&mut candidates, inst, order);
    Some(candidates.or_units(|group| cpu::standalone(group).expect("units of work sort any line")))
}

/// Adds the version that sorts in memory of the device.
fn add_in_device_memory(candidates: &mut Candidates<'_>, inst: Inst, order: Order) {
    let ordered = Ordered::of(&candidates.next, inst, order);
    let lines = ordered.line_count();
    let elements = Condition::Less(&ordered.size * &lines, Dim::constant(MOST));
    let entries = &lines * &ordered.room();
    let workspace = |dtype: DType| {
        let tensor = TensorType::new([entries.clone()], dtype);
        Workspace { bytes: aligned_bytes(&tensor), most: None, tensor }
    };
    let workspaces = bitonic::types_of(ordered.key).into_iter().map(workspace).collect();
    let kind = VersionKind::DeviceSorts;
    candidates.add(Candidate::new(kind, "device", [elements]).with_workspaces(workspaces), |group, workspaces| {
        Some(Ordered { workspaces, ..Ordered::of(group, inst, order) }.scheduled(kind))
    });
}

/// A sort, or the start of one, along lines.
struct Ordered<'g> {
    group: &'g Group<'g>,
    order: Order,
    inputs: Vec<Value>,
    results: Vec<Value>,
    is_sort: bool,
    shape: Vec<Dim>,
    axis: usize,
    runs: Vec<Merged>,
    key: DType,
    /// The elements of a line.
    size: Dim,
    /// The first ones of them that are left out.
    skip: Dim,
    /// The elements that have to be in order.
    wanted: Dim,
    workspaces: &'g [Workspace],
    grid: Grid,
}

impl<'g> Ordered<'g> {
    fn of(group: &'g Group<'g>, inst: Inst, order: Order) -> Self {
        let function = group.function;
        let is_sort = function.kind_of(inst) == OpKind::Sort;
        let inputs = function.operands(inst).to_vec();
        let results = function.results_of(inst).to_vec();
        let tensor = group.tensor(inputs[0]);
        let shape = tensor.dims.to_vec();
        let axis = if is_sort { function.int(inst, "dimension") as usize } else { shape.len() - 1 };
        let skip = match function.attr(inst, "skip") {
            Some(Attr::Dim(skip)) => skip.clone(),
            _ => Dim::constant(0),
        };
        Self {
            group,
            order,
            is_sort,
            runs: lines(&shape, axis),
            key: key::dtype_of(tensor.dtype),
            size: shape[axis].clone(),
            wanted: &group.tensor(results[0]).dims[axis] + &skip,
            shape,
            axis,
            inputs,
            results,
            skip,
            workspaces: &[],
            grid: grid_of(group.target),
        }
    }

    fn line_count(&self) -> Dim {
        Dim::product(self.runs.iter().map(|run| run.size.clone()))
    }

    /// The memory of a line, in entries.
    fn room(&self) -> Dim {
        bitonic::room(self.grid.warp, &self.size)
    }

    fn scheduled(&self, kind: VersionKind) -> Scheduled {
        let mut frame = GridFrame::new(self.group, 1, self.grid);
        let memory = self.memory(&mut frame);
        let threads = if kind == VersionKind::WarpSorts { self.grid.warp } else { self.grid.threads };
        frame.each_line((&self.runs, self.shape.len()), threads, |frame, line, at| match kind {
            VersionKind::WarpSorts => self.in_warp(frame, at),
            VersionKind::PartSorts => self.in_parts(frame, at),
            _ => self.at_once(frame, at, memory, line),
        })
    }

    /// Declares the memory of entries.
    fn memory(&self, frame: &mut GridFrame<'_>) -> Vec<Value> {
        let GridFrame { kb, memory, .. } = frame;
        let each = self.workspaces.iter().enumerate();
        each.map(|(i, workspace)| memory.add_workspace(kb, &format!("entries{i}"), i, workspace.tensor.clone())).collect()
    }

    /// Sorts a line whose elements the lanes of a warp have.
    fn in_warp(&self, frame: &mut GridFrame<'_>, at: &[Index]) {
        let lane = frame.kb.place("lane");
        let entry = self.entry(frame, at, lane);
        let sorted = bitonic::sort_warp(&mut frame.kb, self.grid.warp, entry);
        let kb = &mut frame.kb;
        let place = bitonic::place(kb, &sorted);
        let (skip, wanted) = (kb.dim(&self.skip), kb.dim(&self.wanted));
        let is_wanted = expr!(kb, (lane >= skip) & (lane < wanted));
        let number = expr!(kb, lane - skip);
        let open = kb.open_if(is_wanted);
        frame.elements.open_scope();
        self.write(frame, at, place, number);
        frame.elements.close_scope();
        frame.kb.close_if(open);
    }

    /// Sorts a line for which there is memory: that of the block, or that of a line in `memory`.
    fn at_once(&self, frame: &mut GridFrame<'_>, at: &[Index], memory: Vec<Value>, line: Value) {
        let kb = &mut frame.kb;
        let count = bitonic::padded(kb, self.grid.warp, &self.size);
        let entries = if memory.is_empty() {
            let room = Dim::min(&self.room(), &Dim::constant(ROOM));
            Entries::shared(kb, self.grid, self.key, &room, count)
        } else {
            let start = expr!(kb, line * dim(&self.room()));
            Entries::of(kb, self.grid, memory, start, count)
        };
        let (open, number) = entries.open(kb);
        frame.elements.open_scope();
        let entry = self.entry(frame, at, number);
        entries.store(&mut frame.kb, number, &entry);
        frame.elements.close_scope();
        frame.kb.close_for(open);
        entries.sort(&mut frame.kb);
        self.write_all(frame, at, &entries);
    }

    /// Sorts a part of a line, then each next part after the wanted entries of the previous ones.
    fn in_parts(&self, frame: &mut GridFrame<'_>, at: &[Index]) {
        let kb = &mut frame.kb;
        let most = Dim::constant(ROOM);
        let count = bitonic::padded(kb, self.grid.warp, &Dim::min(&self.size, &most));
        let entries = Entries::shared(kb, self.grid, self.key, &Dim::min(&self.room(), &most), count);
        let (zero, size, wanted) = (kb.int(0), kb.dim(&self.size), kb.dim(&self.wanted));
        let mut parts = kb.open_while(&[zero, zero], |kb, carried| expr!(kb, carried[0] < size));
        let [next, kept] = parts.carried[..] else { panic!("two values are carried") };
        let (open, number) = entries.open(kb);
        let is_new = expr!(kb, number >= kept);
        let new = kb.open_if(is_new);
        frame.elements.open_scope();
        let position = expr!(frame.kb, next + (number - kept));
        let entry = self.entry(frame, at, position);
        entries.store(&mut frame.kb, number, &entry);
        frame.elements.close_scope();
        let kb = &mut frame.kb;
        kb.close_if(new);
        kb.close_for(open);
        entries.sort(kb);
        let taken = expr!(kb, count - kept);
        parts.next = vec![expr!(kb, next + taken), wanted];
        kb.close_while(parts);
        self.write_all(frame, at, &entries);
    }

    /// The entry of the element at a position along a line; after the last one, an entry that is
    /// ordered after all others.
    fn entry(&self, frame: &mut GridFrame<'_>, at: &[Index], position: Value) -> Vec<Value> {
        let kb = &mut frame.kb;
        let size = kb.dim(&self.size);
        let last = bitonic::last(kb, self.key);
        let exists = expr!(kb, position < size);
        let open = kb.open_if(exists);
        frame.elements.open_scope();
        let element = self.element(frame, self.inputs[0], at, position);
        let key = key::encode(&mut frame.kb, element, self.order);
        let entry = bitonic::entry(&mut frame.kb, key, position);
        frame.elements.close_scope();
        frame.kb.close_if_giving(open, &entry, &last)
    }

    fn element(&self, frame: &mut GridFrame<'_>, value: Value, at: &[Index], position: Value) -> Value {
        let mut at = at.to_vec();
        at[self.axis] = Index::uniform(position);
        frame.elements.element(&mut frame.kb, value, &at)
    }

    /// Writes the results of a line whose entries are sorted.
    fn write_all(&self, frame: &mut GridFrame<'_>, at: &[Index], entries: &Entries) {
        let kb = &mut frame.kb;
        let (skip, wanted) = (kb.dim(&self.skip), kb.dim(&self.wanted));
        let (first, count) = (kb.place("thread"), expr!(kb, wanted - skip));
        let step = kb.int(self.grid.threads.into());
        let open = kb.open_for([first, count, step]);
        frame.elements.open_scope();
        let from = expr!(frame.kb, skip + open.index);
        let place = self.place(&mut frame.kb, entries, from);
        self.write(frame, at, place, open.index);
        frame.elements.close_scope();
        frame.kb.close_for(open);
    }

    fn place(&self, kb: &mut KernelBuilder, entries: &Entries, number: Value) -> Value {
        let entry = entries.load(kb, number);
        bitonic::place(kb, &entry)
    }

    /// Writes element `number` of the results, which is from position `place`.
    fn write(&self, frame: &mut GridFrame<'_>, at: &[Index], place: Value, number: Value) {
        let mut there = at.to_vec();
        there[self.axis] = Index::uniform(number);
        for (i, &result) in self.results.iter().enumerate() {
            let Some(target) = frame.target_of(result) else { continue };
            let value = if self.is_sort || i == 0 { self.element(frame, self.inputs[i], at, place) } else { place };
            frame.elements.store(&mut frame.kb, target, self.group.tensor(result), &there, value);
        }
    }
}
