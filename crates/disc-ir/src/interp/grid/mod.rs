//! Evaluates GPU kernels: the threads of a block in lockstep, each with its values.
//!
//! Control flow runs a region for the threads that take it, while the others wait. An op of threads
//! together ([`together`]) is evaluated once for all of them; any other op thread by thread, as in
//! a kernel of units.
//!
//! Invariants: blocks run one after the other, and so do the threads within an op, in the order of
//! their numbers; a thread that is not active has no part in an op.
mod copies;
mod together;

use super::{
    Tensor,
    call::Call,
    machine::{Evaluated, Frame, Machine, Val},
    memory::Buffer,
    scalar::Scalar,
    tensor::count,
};
use crate::{
    diag::{Code, Diagnostic},
    graph::{Block, Function, Grid, Inst, Value},
    ops::OpKind,
    types::DType,
};
use copies::Copies;
use std::rc::Rc;

/// The blocks of a persistent launch, if there are as many parts: so few that each takes several.
const RESIDENT: i64 = 3;

/// Parts of shared memory start at multiples of so many bytes.
const SHARED_ALIGN: u64 = 16;

/// Refuses an op that threads do, where there are none.
pub(super) fn outside(_: &mut Machine<'_>, call: &Call<'_>) -> Evaluated {
    Err(call.malformed("only threads of a grid kernel do this".into()))
}

/// Runs the blocks of a GPU kernel.
pub(super) fn launch<'a>(machine: &mut Machine<'a>, call: &Call<'a>) -> Evaluated {
    let name = call.symbol("kernel")?;
    let Some(kernel) = machine.module.function(name) else {
        return Err(call.failure(Code::E0103, format!("there is no kernel @{name}")));
    };
    let Some(grid) = kernel.grid else { return Err(call.malformed(format!("@{name} runs on no grid"))) };
    let [asked, shared, scratch] = [call.dim("blocks")?, call.dim("shared")?, call.dim("scratch")?];
    let bytes = Bytes { shared: shared.max(0) as u64, scratch: scratch.max(0) as u64 };
    let blocks = if call.bool("persistent", false) { asked.min(RESIDENT) } else { asked };
    for number in 0..blocks {
        let before = machine.memory.mark();
        let frame = machine.open_frame(kernel, &call.args)?;
        let mut threads = Threads::new(kernel, grid, frame, [number, blocks], bytes);
        let all = vec![true; grid.threads as usize];
        let note = |error: Diagnostic| error.note(format!("in block {number} of @{name}"));
        threads.enter(machine, kernel.body, &all, |_| call.args.clone()).map_err(note)?;
        machine.memory.release(before);
    }
    Ok(Vec::new())
}

/// Reads the first element of each buffer.
pub(super) fn fetch(machine: &mut Machine<'_>, call: &Call<'_>) -> Evaluated {
    let read = |position: usize| {
        let buffer = call.buffer(position)?;
        let bytes = machine.memory.read(buffer, 0)?.to_vec();
        Ok(Tensor::new(buffer.dtype, Vec::new(), bytes)?.into())
    };
    (0..call.args.len()).map(read).collect()
}

/// Answers if all buffers start at a multiple of `bytes`.
pub(super) fn aligned(_: &mut Machine<'_>, call: &Call<'_>) -> Evaluated {
    let mut all = true;
    for position in 0..call.args.len() {
        all &= call.buffer(position)?.is_aligned(0, call.int("bytes", 1));
    }
    Ok(vec![Tensor::from_i64s(call.dtype(), &call.shape(), &[all.into()])?.into()])
}

/// Declines: kernels compute what is offered to a library.
pub(super) fn decline(_: &mut Machine<'_>, call: &Call<'_>) -> Evaluated {
    Ok(vec![Tensor::from_i64s(call.dtype(), &call.shape(), &[0])?.into()])
}

/// The threads that take part in an op.
type Mask = [bool];

/// The bytes that a launch gives to each block, and to each thread.
#[derive(Clone, Copy)]
struct Bytes {
    shared: u64,
    scratch: u64,
}

/// The threads of a block.
struct Threads<'a> {
    function: &'a Function,
    grid: Grid,
    frames: Vec<Frame<'a>>,
    /// The bytes of its own memory that each thread may still use.
    scratch: Vec<u64>,
    /// The bytes of shared memory that the block has, and the end of those that are taken.
    shared: [u64; 2],
    /// The number of this block, and that of all blocks.
    place: [i64; 2],
    copies: Vec<Copies>,
}

impl<'a> Threads<'a> {
    fn new(function: &'a Function, grid: Grid, frame: Frame<'a>, place: [i64; 2], bytes: Bytes) -> Self {
        let count = grid.threads as usize;
        let copies = vec![Copies::default(); count];
        let (scratch, shared) = (vec![bytes.scratch; count], [bytes.shared, 0]);
        Self { function, grid, frames: vec![frame; count], scratch, shared, place, copies }
    }

    /// Runs a block of ops for the active threads, with arguments of each. Returns what each
    /// returns; nothing for the others.
    fn enter(
        &mut self,
        machine: &mut Machine<'a>,
        block: Block,
        mask: &Mask,
        arguments: impl Fn(usize) -> Vec<Val>,
    ) -> Result<Vec<Vec<Val>>, Diagnostic> {
        for thread in active(mask) {
            for (&argument, value) in self.function.arguments(block).iter().zip(arguments(thread)) {
                self.frames[thread].define(argument, value);
            }
        }
        let mut returned = vec![Vec::new(); mask.len()];
        let before = machine.value_bytes();
        for &inst in self.function.insts(block) {
            machine.charge(1)?;
            let at = |error: Diagnostic| error.in_op(self.function.kind_of(inst).name()).at(self.function.inst(inst).span);
            match self.function.kind_of(inst) {
                OpKind::Return => {
                    for thread in active(mask) {
                        returned[thread] = self.values(inst, thread).map_err(at)?;
                    }
                }
                _ => self.op(machine, inst, mask).map_err(at)?,
            }
        }
        machine.drop_values(before);
        Ok(returned)
    }

    fn op(&mut self, machine: &mut Machine<'a>, inst: Inst, mask: &Mask) -> Result<(), Diagnostic> {
        match self.function.kind_of(inst) {
            OpKind::If => self.if_(machine, inst, mask),
            OpKind::For => self.for_(machine, inst, mask),
            OpKind::While => self.while_(machine, inst, mask),
            OpKind::Place => self.each(inst, mask, |threads, thread| threads.place(inst, thread)),
            OpKind::Shared => self.shared(machine, inst, mask),
            OpKind::Barrier => self.barrier(inst, mask),
            OpKind::Shuffle => self.shuffle(inst, mask),
            OpKind::ReduceGroup => self.reduce_group(inst, mask),
            OpKind::Vote => self.vote(inst, mask),
            OpKind::Atomic => self.atomic(machine, inst, mask),
            OpKind::CopyAsync | OpKind::CommitCopies | OpKind::WaitCopies => self.copy(machine, inst, mask),
            OpKind::LoadMatrix => self.load_matrix(machine, inst, mask),
            OpKind::MultiplyTiles => self.multiply_tiles(inst, mask),
            OpKind::WaitGrid | OpKind::ReleaseGrid => Ok(()),
            _ => active(mask).try_for_each(|thread| self.alone(machine, inst, thread)),
        }
    }

    /// Runs an op of one thread.
    fn alone(&mut self, machine: &mut Machine<'a>, inst: Inst, thread: usize) -> Result<(), Diagnostic> {
        machine.begin_task(self.scratch[thread]);
        machine.resume(&mut self.frames[thread], inst).map_err(by(thread))?;
        self.scratch[thread] = machine.scratch_left();
        Ok(())
    }

    /// Defines the result of an op for each active thread.
    fn each(
        &mut self,
        inst: Inst,
        mask: &Mask,
        value: impl Fn(&Self, usize) -> Result<Tensor, Diagnostic>,
    ) -> Result<(), Diagnostic> {
        for thread in active(mask) {
            let value = value(self, thread)?;
            self.frames[thread].define(self.function.result(inst), value.into());
        }
        Ok(())
    }

    /// The operands of an op.
    fn values(&self, inst: Inst, thread: usize) -> Result<Vec<Val>, Diagnostic> {
        self.function.operands(inst).iter().map(|&operand| self.value(operand, thread)).collect()
    }

    fn value(&self, value: Value, thread: usize) -> Result<Val, Diagnostic> {
        self.frames[thread].value(value).ok_or_else(|| Diagnostic::new(Code::E0210, "an operand has no value here"))
    }

    fn tensor(&self, value: Value, thread: usize) -> Result<Rc<Tensor>, Diagnostic> {
        match self.value(value, thread)? {
            Val::Tensor(tensor) => Ok(tensor),
            Val::Buffer(_) => Err(Diagnostic::new(Code::E0211, "a buffer where a vector is needed")),
        }
    }

    fn buffer(&self, value: Value, thread: usize) -> Result<Buffer, Diagnostic> {
        match self.value(value, thread)? {
            Val::Buffer(buffer) => Ok(buffer),
            Val::Tensor(_) => Err(Diagnostic::new(Code::E0211, "a vector where a buffer is needed")),
        }
    }

    fn int(&self, value: Value, thread: usize) -> Result<i64, Diagnostic> {
        Ok(self.tensor(value, thread)?.at(0).as_int() as i64)
    }

    /// The active threads for which a condition is true.
    fn taken(&self, condition: impl Fn(usize) -> Result<bool, Diagnostic>, mask: &Mask) -> Result<Vec<bool>, Diagnostic> {
        mask.iter().enumerate().map(|(thread, &on)| Ok(on && condition(thread)?)).collect()
    }

    fn if_(&mut self, machine: &mut Machine<'a>, inst: Inst, mask: &Mask) -> Result<(), Diagnostic> {
        let (pred, regions) = (self.function.operands(inst)[0], self.function.inst(inst).regions.clone());
        let then = self.taken(|thread| Ok(self.tensor(pred, thread)?.at(0).is_true()), mask)?;
        let otherwise: Vec<bool> = mask.iter().zip(&then).map(|(&on, &taken)| on && !taken).collect();
        for (region, taken) in regions.into_iter().zip([then, otherwise]) {
            if taken.contains(&true) {
                let returned = self.enter(machine, region, &taken, |_| Vec::new())?;
                self.define_results(inst, &taken, returned);
            }
        }
        Ok(())
    }

    fn define_results(&mut self, inst: Inst, mask: &Mask, mut returned: Vec<Vec<Val>>) {
        for thread in active(mask) {
            for (&result, value) in self.function.results_of(inst).iter().zip(std::mem::take(&mut returned[thread])) {
                self.frames[thread].define(result, value);
            }
        }
    }

    fn for_(&mut self, machine: &mut Machine<'a>, inst: Inst, mask: &Mask) -> Result<(), Diagnostic> {
        let operands = self.function.operands(inst).to_vec();
        let dtype = self.function.ty(operands[0]).dtype();
        let body = self.function.inst(inst).regions[0];
        let (mut carried, mut indices) = (vec![Vec::new(); mask.len()], vec![0; mask.len()]);
        for thread in active(mask) {
            carried[thread] = self.values(inst, thread)?.split_off(3);
            indices[thread] = self.int(operands[0], thread)?;
            if self.int(operands[2], thread)? <= 0 {
                return Err(Diagnostic::new(Code::E0211, "a step that is not positive"));
            }
        }
        loop {
            let taken = self.taken(|thread| Ok(indices[thread] < self.int(operands[1], thread)?), mask)?;
            if !taken.contains(&true) {
                break;
            }
            let arguments = |thread: usize| {
                let index = Tensor::from_fn(dtype, Vec::new(), |_| Scalar::Int(indices[thread].into()));
                std::iter::once(index.into()).chain(carried[thread].iter().cloned()).collect()
            };
            let returned = self.enter(machine, body, &taken, arguments)?;
            for (thread, values) in returned.into_iter().enumerate().filter(|(thread, _)| taken[*thread]) {
                carried[thread] = values;
                indices[thread] = indices[thread].saturating_add(self.int(operands[2], thread)?);
            }
        }
        self.define_results(inst, mask, carried);
        Ok(())
    }

    fn while_(&mut self, machine: &mut Machine<'a>, inst: Inst, mask: &Mask) -> Result<(), Diagnostic> {
        let [cond, body] = self.function.inst(inst).regions[..] else {
            return Err(Diagnostic::new(Code::E0211, "`while` has two regions"));
        };
        let mut carried = vec![Vec::new(); mask.len()];
        for thread in active(mask) {
            carried[thread] = self.values(inst, thread)?;
        }
        let mut taken = mask.to_vec();
        loop {
            let truth = self.enter(machine, cond, &taken, |thread| carried[thread].clone())?;
            let holds = |thread: usize| match truth[thread].first() {
                Some(Val::Tensor(truth)) => Ok(truth.at(0).is_true()),
                _ => Err(Diagnostic::new(Code::E0211, "`cond` returns nothing")),
            };
            taken = self.taken(holds, &taken)?;
            if !taken.contains(&true) {
                break;
            }
            let returned = self.enter(machine, body, &taken, |thread| carried[thread].clone())?;
            for (thread, values) in returned.into_iter().enumerate().filter(|(thread, _)| taken[*thread]) {
                carried[thread] = values;
            }
        }
        self.define_results(inst, mask, carried);
        Ok(())
    }

    fn place(&self, inst: Inst, thread: usize) -> Result<Tensor, Diagnostic> {
        let (thread, warp) = (thread as i64, i64::from(self.grid.warp));
        let number = match self.word(inst, "of") {
            "block" => self.place[0],
            "grid" => self.place[1],
            "thread" => thread,
            "warp" => thread / warp,
            _ => thread % warp,
        };
        Tensor::from_i64s(self.function.ty(self.function.result(inst)).dtype(), &[], &[number])
    }

    /// Makes memory that all threads see.
    fn shared(&mut self, machine: &mut Machine<'a>, inst: Inst, mask: &Mask) -> Result<(), Diagnostic> {
        let tensor = self.function.ty(self.function.result(inst)).shaped().expect("shared memory is a buffer");
        let dims = tensor.dims.iter().map(|dim| self.frames[0].dim(dim)).collect::<Result<Vec<_>, _>>()?;
        let bytes = count(&dims).unwrap_or(usize::MAX).saturating_mul(tensor.dtype.size()) as u64;
        machine.reserve_bytes(bytes)?;
        let [given, end] = self.shared;
        self.shared[1] = end.next_multiple_of(SHARED_ALIGN).saturating_add(bytes);
        if self.shared[1] > given {
            let message = format!("it ends at byte {} of the memory of the block, the launch gives {given}", self.shared[1]);
            return Err(Diagnostic::new(Code::E0211, message));
        }
        let buffer = machine.memory.fresh(tensor.dtype, dims);
        for thread in active(mask) {
            self.frames[thread].define(self.function.result(inst), Val::Buffer(buffer.clone()));
        }
        Ok(())
    }

    fn word(&self, inst: Inst, name: &str) -> &'static str {
        self.function.attr_word(inst, name)
    }

    fn dtype(&self, value: Value) -> DType {
        self.function.ty(value).dtype()
    }
}

/// Says which thread an error is of.
fn by(thread: usize) -> impl Fn(Diagnostic) -> Diagnostic {
    move |error| error.note(format!("by thread {thread}"))
}

/// The numbers of the active threads.
fn active(mask: &Mask) -> impl Iterator<Item = usize> + use<> {
    let numbers: Vec<usize> = mask.iter().enumerate().filter(|(_, on)| **on).map(|(thread, _)| thread).collect();
    numbers.into_iter()
}
