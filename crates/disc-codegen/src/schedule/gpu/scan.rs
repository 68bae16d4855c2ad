//! Schedules running combinations on a grid: a warp, or a block, walks along a line; a thread does
//! where neighbours in memory are other lines.
//!
//! The body is associative, so threads combine neighbouring elements first, and carry the total of
//! those before along the line.
//!
//! Invariants: a thread reads and writes its own positions only; elements after the last one take
//! part where all threads meet, and come last, so no result depends on them.
use super::{
    candidates::{Candidate, Candidates},
    conditions::at_most,
    frame::{GridFrame, grid_of, warp_of},
    prefix::Prefix,
};
use crate::{
    kernel::{Index, KernelBuilder},
    schedule::{Group, Scheduled, VersionKind, Versioned, common::iteration_space::Merged, cpu::Scan},
    target::GpuModel,
};
use disc_ir::{DType, Grid, Inst, Value};
use disc_kernel_macros::expr;

versions! {
    /// Scans of a grid, of which a thread walks a line.
    ThreadScans {
        kernels: "`kN_standalone_thread`",
        sizes: "grids: scans along a dimension that others follow, of tensors that have fewer than 2^31 elements",
        unit: "a thread walks a line",
    }

    /// Scans of a grid, of which a warp walks a line.
    WarpScans {
        kernels: "`kN_standalone_warp`",
        sizes: "grids: scans along the last dimension, at most 1024 elements; all tensors have fewer than 2^31 elements",
        unit: "a warp walks a line",
    }

    /// Scans of a grid, of which a block walks a line.
    BlockScans {
        kernels: "`kN_standalone_block`",
        sizes: "grids: other scans of tensors that have fewer than 2^31 elements",
        unit: "a block walks a line",
    }
}

/// Elements of a line that a thread has at once.
const EACH: i64 = 4;
/// The elements of the longest line that a warp has.
const WARP_LINE: i64 = 1024;

pub(super) fn versions(group: &Group<'_>, inst: Inst) -> Versioned {
    let mut candidates = Candidates::of(group);
    let scan = Scan::of(group, inst);
    if !scan.inner.is_empty() || scan.has_one_step() {
        let by_threads = |group: &Group<'_>| Lines::new(group, inst, 1).walked();
        return candidates.in_narrow_positions((VersionKind::ThreadScans, "thread"), by_threads);
    }
    let short = Candidate::new(VersionKind::WarpScans, "warp", at_most(group, WARP_LINE, &scan.shape[scan.axis]));
    candidates.add(short, |group, _| Some(Lines::new(group, inst, warp_of(group.target)).together()));
    let by_blocks = |group: &Group<'_>| Lines::new(group, inst, GpuModel::THREADS).together();
    candidates.in_narrow_positions((VersionKind::BlockScans, "block"), by_blocks)
}

/// The lines of a scan, each of which so many threads have together.
struct Lines<'g> {
    group: &'g Group<'g>,
    scan: Scan<'g>,
    threads: u32,
    grid: Grid,
}

impl<'g> Lines<'g> {
    fn new(group: &'g Group<'g>, inst: Inst, threads: u32) -> Self {
        Self { group, scan: Scan::of(group, inst), threads, grid: grid_of(group.target) }
    }

    /// Writes the kernel whose threads walk a line each.
    fn walked(&self) -> Scheduled {
        let runs: Vec<Merged> = self.scan.outer.iter().chain(&self.scan.inner).cloned().collect();
        self.scheduled(&runs, &|lines, frame, at| {
            let start = lines.starts(frame);
            let kb = &mut frame.kb;
            let bounds = [kb.int(0), kb.dim(&lines.scan.shape[lines.scan.axis]), kb.int(1)];
            let mut open = kb.open_for_carrying(bounds, &start);
            frame.elements.open_scope();
            let at = lines.position(&mut frame.kb, at, open.index);
            let values = lines.read(frame, &at);
            open.next = frame.elements.inline(&mut frame.kb, lines.scan.body, &[&open.carried[..], &values].concat());
            lines.write(frame, &at, &open.next);
            frame.elements.close_scope();
            frame.kb.close_for(open);
        })
    }

    /// Writes the kernel whose threads walk a line together.
    fn together(&self) -> Scheduled {
        self.scheduled(&self.scan.outer, &|lines, frame, at| {
            let start = lines.starts(frame);
            let (width, kb) = (i64::from(lines.threads), &mut frame.kb);
            let dtypes: Vec<DType> = start.iter().map(|&value| kb.dtype(value)).collect();
            let prefix = Prefix::new(kb, lines.grid, lines.threads, &dtypes, EACH as usize);
            let member = kb.place(if lines.threads == lines.grid.warp { "lane" } else { "thread" });
            let bounds = [kb.int(0), kb.dim(&lines.scan.shape[lines.scan.axis]), kb.int(width * EACH)];
            let mut open = kb.open_for_carrying(bounds, &start);
            frame.elements.open_scope();
            let first = expr!(frame.kb, open.index + member);
            let mut own = Vec::new();
            let mut sets = Vec::new();
            for number in 0..EACH {
                let kb = &mut frame.kb;
                let number = expr!(kb, first + int(number * width));
                let exists = expr!(kb, number < bounds[1]);
                let at = lines.position(kb, at, number);
                let inside = kb.open_if(exists);
                frame.elements.open_scope();
                let values = lines.read(frame, &at);
                frame.elements.close_scope();
                let values = frame.kb.close_if_giving(inside, &values, &start);
                own.push((exists, at, values.clone()));
                sets.push(values);
            }
            let GridFrame { kb, elements, .. } = frame;
            open.next = prefix.inclusive(kb, &mut sets, &open.carried, &mut |kb, before, own| {
                elements.inline(kb, lines.scan.body, &[before, own].concat())
            });
            for ((exists, at, values), combined) in own.iter().zip(&sets) {
                let inside = frame.kb.open_if(*exists);
                frame.elements.open_scope();
                let inputs = lines.scan.inputs.iter().zip(values);
                inputs.for_each(|(&input, &value)| frame.elements.seed(input, at, value));
                lines.write(frame, at, combined);
                frame.elements.close_scope();
                frame.kb.close_if(inside);
            }
            frame.elements.close_scope();
            frame.kb.close_for(open);
        })
    }

    /// Writes a kernel in which `compute` computes a line, whose position is along these runs.
    fn scheduled(&self, runs: &[Merged], compute: &dyn Fn(&Self, &mut GridFrame<'_>, &[Index])) -> Scheduled {
        let frame = GridFrame::new(self.group, 1, self.grid);
        frame.each_line((runs, self.scan.shape.len()), self.threads, |frame, _, at| compute(self, frame, at))
    }

    fn starts(&self, frame: &mut GridFrame<'_>) -> Vec<Value> {
        let GridFrame { kb, elements, .. } = frame;
        self.scan.inits.iter().map(|&init| elements.element(kb, init, &[])).collect()
    }

    /// Returns the position of the element that is visited as number `number` of a line.
    fn position(&self, kb: &mut KernelBuilder, line: &[Index], number: Value) -> Vec<Index> {
        let mut position = number;
        if self.scan.has_one_step() {
            position = kb.int(0);
        } else if self.scan.reverse {
            position = expr!(kb, dim(&self.scan.shape[self.scan.axis]) - 1 - number);
        }
        let mut at = line.to_vec();
        at[self.scan.axis] = Index::uniform(position);
        at
    }

    fn read(&self, frame: &mut GridFrame<'_>, at: &[Index]) -> Vec<Value> {
        let GridFrame { kb, elements, .. } = frame;
        self.scan.inputs.iter().map(|&input| elements.element(kb, input, at)).collect()
    }

    /// Computes all outputs at a position whose running combinations are known, then stores them.
    fn write(&self, frame: &mut GridFrame<'_>, at: &[Index], combined: &[Value]) {
        let outputs = frame.targets();
        let GridFrame { kb, elements, .. } = frame;
        let results = self.group.function.results_of(self.scan.inst);
        results.iter().zip(combined).for_each(|(&result, &value)| elements.conclude(kb, result, at, value));
        let computed: Vec<Value> = outputs.iter().map(|(output, _)| elements.element(kb, *output, at)).collect();
        for ((output, target), value) in outputs.into_iter().zip(computed) {
            elements.store(kb, target, self.group.tensor(output), at, value);
        }
    }
}
