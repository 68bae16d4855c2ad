//! Begins and ends grid kernels, in the way that their schedules share.
//!
//! Invariant: a kernel's parameters are memory in the order of its launch's arguments.
use crate::{
    element::Elements,
    kernel::KernelBuilder,
    schedule::{Group, Launch, Scheduled, Work, common::kernel_frame::GroupMemory, version::shared_bytes},
};
use disc_ir::{Dim, FunctionKind, Grid, Value};

/// A grid kernel under construction, with the elements of its memory.
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
    pub(super) fn target(&self, output: Value) -> Value {
        let found = self.memory.targets.iter().find(|(value, _)| *value == output);
        found.expect("a kernel has memory for its outputs").1
    }

    /// Finishes the kernel: `body` for each of `count` numbers, of which neighbouring threads have
    /// neighbouring ones.
    pub(super) fn each(mut self, count: &Dim, body: impl FnOnce(&mut Self, Value)) -> Scheduled {
        let threads = i64::from(self.kb.function.grid.expect("a kernel of threads").threads);
        let kb = &mut self.kb;
        let (block, thread, width, total) = (kb.place("block"), kb.place("thread"), kb.int(threads), kb.dim(count));
        let start = kb.mul(block, width);
        let number = kb.add(start, thread);
        let exists = kb.compare("LT", number, total);
        let open = kb.open_if(exists);
        self.elements.open_scope();
        body(&mut self, number);
        self.elements.close_scope();
        self.kb.close_if(open);
        self.finish(count.ceil_div(&Dim::constant(threads)))
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
