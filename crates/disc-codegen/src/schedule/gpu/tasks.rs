//! Makes units of work threads of a grid: thread `i` runs unit `i`, then the one as many threads
//! further, until none is left.
//!
//! It is slow where neighbouring units are not neighbours in memory, and right for everything that
//! a kernel of units can compute: units do not depend on each other. Memory of a task is memory of
//! a thread; a grid has fewer blocks than units where there would be too much of it.
use super::frame::grid_of;
use crate::{
    schedule::{Launch, Scheduled, Versioned, Work},
    target::Target,
};
use disc_ir::{Attr, Block, Builder, Dim, Function, FunctionKind, Grid, Inst, Literal, OpKind, Solver, Type, Value};
use std::{collections::HashMap, sync::Arc};

/// Runs the units of a group on GPUs. Its versions are dropped: they suit the caches of a CPU.
pub(super) fn on_grid(code: Versioned, target: &Target) -> Versioned {
    Versioned { versions: Vec::new(), otherwise: scheduled(code.otherwise, grid_of(target)), ..Versioned::default() }
}

fn scheduled(code: Scheduled, grid: Grid) -> Scheduled {
    let Scheduled { mut kernels, launches, sites } = code;
    for kernel in kernels.iter_mut().filter(|kernel| kernel.kind == FunctionKind::Kernel) {
        *kernel = on_threads(kernel, grid);
    }
    let launches = launches.into_iter().map(|launch| on_blocks(launch, grid));
    Scheduled { launches: launches.collect(), kernels, sites }
}

/// Returns the launch of a kernel of [`on_threads`], which takes the number of units.
fn on_blocks(launch: Launch, grid: Grid) -> Launch {
    let Work::Units { units, scratch, .. } = launch.work.clone() else { return launch };
    let (blocks, shared) = (units.ceil_div(&Dim::constant(grid.threads.into())), Dim::constant(0));
    Launch { sizes: vec![units], work: Work::Grid { blocks, shared, scratch, persistent: true }, product: None, ..launch }
}

/// Returns a kernel of units as one of threads: its range of units becomes a loop, and its last
/// parameter the number of units.
fn on_threads(units_kernel: &Function, grid: Grid) -> Function {
    let mut kernel = units_kernel.clone();
    kernel.grid = Some(grid);
    let parameters = kernel.parameters().to_vec();
    let [.., begin, end] = parameters[..] else { unreachable!("a kernel of units has a range") };
    let index = kernel.ty(begin).clone();
    for position in [parameters.len() - 1, parameters.len() - 2] {
        kernel.remove_argument(kernel.body, position);
    }
    let body = kernel.body;
    let units = kernel.add_argument(body, index.clone());
    kernel.set_name(units, "units");
    let (memory, insts): (Vec<Inst>, Vec<Inst>) =
        kernel.insts(body).to_vec().into_iter().partition(|&inst| kernel.kind_of(inst) == OpKind::Scratch);
    kernel.set_insts(body, memory);
    let turn = kernel.add_block();
    let unit = kernel.add_argument(turn, index.clone());
    kernel.set_name(unit, "unit");
    let mut writer = Writer { solver: Arc::new(Solver::new(&kernel.facts)), kernel: &mut kernel, index };
    let next = writer.after(turn, unit);
    let [first, step] = writer.walk(body, grid);
    insts.into_iter().for_each(|inst| writer.kernel.append(turn, inst));
    let mut builder = writer.builder(body);
    builder.op(OpKind::For).operands(&[first, units, step]).region(turn).build().expect("a loop over units");
    builder.ret(&[]).expect("the end of a kernel");
    kernel.replace_uses(&HashMap::from([(begin, unit), (end, next)]));
    kernel
}

/// Writes the positions of a thread.
struct Writer<'k> {
    kernel: &'k mut Function,
    solver: Arc<Solver>,
    /// The type of positions.
    index: Type,
}

impl Writer<'_> {
    fn builder(&mut self, block: Block) -> Builder<'_> {
        Builder::at(self.kernel, block, self.solver.clone())
    }

    fn place(&mut self, block: Block, of: &'static str) -> Value {
        let index = self.index.clone();
        let op = self.builder(block).op(OpKind::Place).attr("of", Attr::Enum(of)).result(index).value();
        op.expect("a number of the thread")
    }

    fn constant(&mut self, block: Block, value: i64) -> Value {
        let index = self.index.clone();
        let literal = Literal::splat_i64(index.dtype(), value);
        self.builder(block).op(OpKind::Constant).attr("value", literal).result(index).value().expect("a constant")
    }

    fn compute(&mut self, block: Block, kind: OpKind, operands: [Value; 2]) -> Value {
        self.builder(block).op(kind).operands(&operands).value().expect("an op on positions")
    }

    /// Returns the first unit of this thread, and the number of threads.
    fn walk(&mut self, block: Block, grid: Grid) -> [Value; 2] {
        let [of_block, thread, blocks] = ["block", "thread", "grid"].map(|of| self.place(block, of));
        let threads = self.constant(block, grid.threads.into());
        let before = self.compute(block, OpKind::Multiply, [of_block, threads]);
        let first = self.compute(block, OpKind::Add, [before, thread]);
        let step = self.compute(block, OpKind::Multiply, [blocks, threads]);
        [first, step]
    }

    /// Returns the unit after one.
    fn after(&mut self, block: Block, unit: Value) -> Value {
        let one = self.constant(block, 1);
        self.compute(block, OpKind::Add, [unit, one])
    }
}
