//! Emits the beginning and the end of GPU kernels, which their schedules share.
//!
//! Invariant: a kernel's parameters are memory in the order of its launch's arguments.
use crate::{
    element::Elements,
    kernel::{Index, KernelBuilder},
    schedule::{
        Group, Launch, Scheduled, Work,
        common::{
            iteration_space::{Merged, place_unit},
            kernel_frame::GroupMemory,
        },
        version::shared_bytes,
    },
    target::{GpuModel, Target},
};
use disc_ir::{Dim, FunctionKind, Grid, Value};
use disc_kernel_macros::expr;

/// Returns the threads of a warp.
///
/// # Panics
/// If the target is no GPU.
pub(super) fn warp_of(target: &Target) -> u32 {
    GpuModel::of(target).expect("a schedule of GPUs").warp
}

/// Returns the grid of a kernel whose threads nothing else decides.
pub(super) fn grid_of(target: &Target) -> Grid {
    Grid::new(GpuModel::THREADS, warp_of(target))
}

/// Stores values that other threads of the block load next: `store` runs where `stores` is true,
/// after the loads of the values that were there before.
pub(super) fn publish(kb: &mut KernelBuilder, stores: Value, store: impl FnOnce(&mut KernelBuilder)) {
    kb.barrier();
    kb.when(stores, store);
    kb.barrier();
}

/// A GPU kernel under construction, with the elements of its memory.
pub(super) struct GridFrame<'g> {
    pub(super) kb: KernelBuilder,
    pub(super) elements: Elements<'g>,
    pub(super) memory: GroupMemory,
}

impl<'g> GridFrame<'g> {
    /// Begins a kernel with all memory of the group, whose elements are vectors of `lanes`.
    pub(super) fn new(group: &Group<'g>, lanes: u32, grid: Grid) -> Self {
        let mut kb = group.builder(&group.name, FunctionKind::Kernel);
        kb.function.grid = Some(grid);
        let mut elements = Elements::new(group.function, group.solver.clone(), lanes, group.target);
        elements.first_site = group.first_site;
        let memory = GroupMemory::of(&mut kb, group);
        memory.sources.iter().for_each(|&(input, buffer)| elements.bind(input, buffer));
        Self { kb, elements, memory }
    }

    /// Returns the memory of an output.
    ///
    /// # Panics
    /// If the value is no output of the kernel.
    pub(super) fn target(&self, output: Value) -> Value {
        self.target_of(output).expect("a kernel has memory for its outputs")
    }

    /// Returns the memory of a value, if it is an output of the kernel.
    pub(super) fn target_of(&self, value: Value) -> Option<Value> {
        self.memory.targets.iter().find(|(output, _)| *output == value).map(|&(_, target)| target)
    }

    /// Returns the outputs of the kernel, each with its memory.
    pub(super) fn targets(&self) -> Vec<(Value, Value)> {
        self.memory.targets.clone()
    }

    /// Finishes the kernel: `body` computes each of `count` numbers; neighbouring threads have
    /// neighbouring ones.
    pub(super) fn each(mut self, count: &Dim, body: impl FnOnce(&mut Self, Value)) -> Scheduled {
        let threads = i64::from(self.kb.function.grid.expect("a kernel of threads").threads);
        let kb = &mut self.kb;
        let (block, thread, width, total) = (kb.place("block"), kb.place("thread"), kb.int(threads), kb.dim(count));
        let number = expr!(kb, block * width + thread);
        let exists = expr!(kb, number < total);
        let open = kb.open_if(exists);
        self.elements.open_scope();
        body(&mut self, number);
        self.elements.close_scope();
        self.kb.close_if(open);
        self.finish(count.ceil_div(&Dim::constant(threads)))
    }

    /// Finishes the kernel: `body` computes each line, whose number and position along these runs
    /// it gets, by `threads` that have it together: one, a warp or a block.
    pub(super) fn each_line(
        mut self,
        (runs, rank): (&[Merged], usize),
        threads: u32,
        body: impl FnOnce(&mut Self, Value, &[Index]),
    ) -> Scheduled {
        let grid = self.kb.function.grid.expect("a kernel of threads");
        let count = Dim::product(runs.iter().map(|run| run.size.clone()));
        let in_block = i64::from(grid.threads / threads);
        let kb = &mut self.kb;
        let block = kb.place("block");
        let line = if in_block == 1 {
            block
        } else {
            let (several, own) = (kb.int(in_block), kb.place(if threads == 1 { "thread" } else { "warp" }));
            expr!(kb, block * several + own)
        };
        let exists = (in_block > 1).then(|| expr!(kb, line < dim(&count)));
        let open = exists.map(|exists| kb.open_if(exists));
        self.elements.open_scope();
        let mut at = vec![Index::uniform(self.kb.int(0)); rank];
        place_unit(&mut self.kb, line, runs, &mut at);
        body(&mut self, line, &at);
        self.elements.close_scope();
        if let Some(open) = open {
            self.kb.close_if(open);
        }
        self.finish(count.ceil_div(&Dim::constant(in_block)))
    }

    /// Finishes the kernel, with a launch of so many blocks.
    pub(super) fn finish(self, blocks: Dim) -> Scheduled {
        let kernel = self.kb.finish();
        let launch = Launch {
            kernel: kernel.name.clone(),
            arguments: self.memory.arguments,
            sizes: Vec::new(),
            work: Work::Grid { blocks, shared: shared_bytes(&kernel), scratch: Dim::constant(0), persistent: false },
            copies: Vec::new(),
            product: None,
        };
        Scheduled { kernels: vec![kernel], launches: vec![launch], sites: self.elements.sites }
    }
}
