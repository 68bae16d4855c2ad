//! Buffers: from tensors to memory of one arena.
//!
//! Each function becomes a host program: every value that a group makes gets memory, a part of the arena or, if it is returned, memory from
//! the caller; groups write into their last operands. A reshape is a view. The parts of the arena are laid out at compile time: offsets are
//! sums of symbolic sizes, and a part is used again when what it held is dead and the facts prove that the sizes fit; or each call lays them out
//! by its sizes, where that takes less. Where an op binds a dim, a nested frame begins, for what has that size, and those end that nothing needs
//! any more. The memory of an output serves as such a part until the output is written.
//!
//! Invariants:
//! - Two values that are alive at the same time share no memory, except a view and what it looks at. An update of a part of a value that dies
//!   there is made where the value is.
//! - What a loop body allocates is allocated once, outside of time: each iteration uses the same memory. What has a size that the body binds
//!   is in a frame that ends with the iteration.
mod arena;
mod control;
mod ends;
mod first_fit;
mod frames;
mod in_place;
mod liveness;
mod outputs;
mod packing;
mod recompute;
mod samples;
mod updates;

use crate::pass::{PassCx, PassDef};
use disc_ir::{
    Block, Builder, DType, Diagnostic, Dim, Function, FunctionKind, Inst, Module, OpKind, Solver, Space, Symbol, TensorType,
    Type, Value, ops::Stage,
};
use frames::Frames;
use std::{
    collections::{HashMap, HashSet},
    sync::Arc,
};

/// Gives every value memory: a part of the arena, or an output of the caller.
pub static PASS: PassDef = PassDef {
    name: "plan-buffers",
    doc: "Gives every value memory: a part of the arena, or an output of the caller. Cheap values are computed again where keeping them would take more.",
    stages: (Stage::Fused, Stage::Buffer),
    run,
};

fn run(module: &mut Module, cx: &mut PassCx) -> Result<usize, Diagnostic> {
    let mut changes = 0;
    for function in module.functions.iter_mut().filter(|f| f.kind == FunctionKind::Func) {
        *function = plan(function, cx)?;
        changes += 1;
    }
    Ok(changes)
}

/// The host program of a function, in which cheap values are computed again where that takes less memory.
fn plan(function: &Function, cx: &mut PassCx) -> Result<Function, Diagnostic> {
    let (mut host, bytes) = Planner::plan(function)?;
    let mut chosen = recompute::candidates(function);
    if chosen.is_empty() || !cx.spend_on("recompute") {
        return Ok(host);
    }
    let with = |again: &[recompute::Again]| {
        let mut changed = function.clone();
        let solver = Arc::new(Solver::new(&function.facts));
        again.iter().try_for_each(|again| again.apply(&mut changed, &solver))?;
        Planner::plan(&changed)
    };
    let (other, least) = with(&chosen)?;
    if !samples::saves(&least, &bytes) {
        return Ok(host);
    }
    host = other;
    // Not all of them may be needed for that: halves of them are left out, quarters, and so on.
    let (mut size, mut tries) = (chosen.len(), 0);
    while size > 1 {
        size = size.div_ceil(2);
        let mut start = 0;
        while start < chosen.len() && tries < recompute::MOST_TRIES {
            let mut fewer = chosen.clone();
            fewer.drain(start..(start + size).min(chosen.len()));
            let (other, own) = with(&fewer)?;
            if samples::saves(&least, &own) {
                start += size;
            } else {
                (host, chosen) = (other, fewer);
            }
            tries += 1;
        }
    }
    Ok(host)
}

struct Planner<'f> {
    source: &'f Function,
    host: Function,
    solver: Arc<Solver>,
    frames: Frames,
    /// Where each value of the source is.
    memory: HashMap<Value, Value>,
}

/// Memory that is there before what it holds.
#[derive(Clone, Debug)]
enum Home {
    /// The memory of an output, by its index; the output may be another view of the value.
    Output(usize, TensorType),
    Buffer(Value),
}

impl<'f> Planner<'f> {
    /// The program, and what its arena takes at some sizes.
    fn plan(source: &'f Function) -> Result<(Function, Vec<i64>), Diagnostic> {
        let mut host = Function::new(source.name.clone(), FunctionKind::Host);
        host.facts = source.facts.clone();
        host.results = source.results.clone();
        host.plan_of = source.plan_of.clone();
        host.span = source.span;
        let solver = Arc::new(Solver::new(&source.facts));
        let mut planner = Self { source, host, solver, frames: Frames::default(), memory: HashMap::new() };
        let body = planner.host.body;
        planner.open_frame(body, None)?;
        for &parameter in source.parameters() {
            let buffer = planner.host.add_argument(body, global(planner.tensor(parameter)));
            planner.named(parameter, buffer);
        }
        let end = source.terminator(source.body).expect("a function ends in `return`");
        let outputs = planner.homes(source.body, |position, value| Home::Output(position, value.clone()));
        planner.block(source.body, body, &outputs.homes)?;
        for (position, &value) in source.operands(end).iter().enumerate() {
            if !outputs.served.contains(&position) {
                let output = planner.allocate_output(body, position, &planner.tensor(value))?;
                planner.copy(body, planner.memory[&value], output)?;
            }
        }
        planner.builder(body).ret(&[])?;
        let bytes = arena::lay_out(&mut planner.host, &planner.frames, &planner.solver);
        ends::end_frames(&mut planner.host, &planner.frames, &planner.solver);
        Ok((planner.host, bytes))
    }

    fn tensor(&self, value: Value) -> TensorType {
        self.source.ty(value).shaped().expect("the value of a function is a tensor").clone()
    }

    /// Says where a value is.
    fn named(&mut self, value: Value, buffer: Value) {
        if let Some(name) = self.source.name_of(value) {
            self.host.set_name(buffer, name.clone());
        }
        self.memory.insert(value, buffer);
    }

    /// Which values of a block are made right where what the block returns goes: each for the first that returns it, or a view of it.
    fn homes(&self, block: Block, home: impl Fn(usize, &TensorType) -> Home) -> Homes {
        let end = self.source.terminator(block).expect("a block ends in `return`");
        let mut found = Homes::default();
        for (position, &value) in self.source.operands(end).iter().enumerate() {
            let made = self.looked_at(block, value);
            let is_made = |inst: &Inst| {
                let kind = self.source.kind_of(*inst);
                matches!(kind, OpKind::Fusion | OpKind::If | OpKind::While) && self.source.insts(block).contains(inst)
            };
            let is_new = !found.homes.contains_key(&made) && self.known_with(value, made);
            if is_new && self.source.defining(made).filter(is_made).is_some() {
                found.homes.insert(made, home(position, &self.tensor(value)));
                found.served.insert(position);
            }
        }
        found
    }

    /// Whether the sizes of `value` are known where `made` is made, of which it is a view.
    fn known_with(&self, value: Value, made: Value) -> bool {
        let symbols = |value: Value| self.tensor(value).dims.iter().flat_map(Dim::symbols).collect::<HashSet<Symbol>>();
        let (late, known) = (self.source.data_dims(), symbols(made));
        symbols(value).iter().all(|symbol| known.contains(symbol) || !late.contains(symbol))
    }

    /// What a value is a view or an update in place of, within a block.
    fn looked_at(&self, block: Block, mut value: Value) -> Value {
        loop {
            let inst = self.source.defining(value).filter(|inst| self.source.insts(block).contains(inst));
            let view = inst.filter(|&inst| self.source.kind_of(inst) == OpKind::Reshape);
            match view.map(|inst| self.source.operands(inst)[0]).or_else(|| self.updated_in_place(block, value)) {
                Some(next) => value = next,
                None => return value,
            }
        }
    }

    fn builder(&mut self, block: Block) -> Builder<'_> {
        let solver = self.solver.clone();
        Builder::at(&mut self.host, block, solver)
    }

    /// Memory for a value of the source: its home, or a part of the arena that is laid out later.
    fn place(&mut self, block: Block, value: Value, homes: &HashMap<Value, Home>) -> Result<Value, Diagnostic> {
        let tensor = self.tensor(value);
        let buffer = match homes.get(&value).cloned() {
            None => self.allocate(block, &tensor)?,
            Some(Home::Buffer(buffer)) => self.as_type(block, buffer, &tensor)?,
            Some(Home::Output(position, output)) => {
                let buffer = self.allocate_output(block, position, &output)?;
                self.as_type(block, buffer, &tensor)?
            }
        };
        self.named(value, buffer);
        Ok(buffer)
    }

    /// Memory for a value that may be an update in place.
    fn place_or_update(
        &mut self,
        [from, to]: [Block; 2],
        value: Value,
        homes: &HashMap<Value, Home>,
    ) -> Result<Value, Diagnostic> {
        let updated = if homes.contains_key(&value) { None } else { self.updated_in_place(from, value) };
        let Some(input) = updated else { return self.place(to, value, homes) };
        self.memory.insert(value, self.memory[&input]);
        Ok(self.memory[&input])
    }

    fn allocate(&mut self, block: Block, tensor: &TensorType) -> Result<Value, Diagnostic> {
        let (count, zero) = (tensor.element_count(), Dim::constant(0));
        let is_sized = outputs::is_sized(&self.solver, &tensor.dims);
        let count = if is_sized || self.solver.less_equal(&zero, &count) { count } else { Dim::max(&count, &zero) };
        let bytes = (count * tensor.dtype.size() as i64).ceil_div(&Dim::constant(arena::LINE)) * arena::LINE;
        let frame = self.frames.of(&bytes, self.frames.current());
        let (ty, arena) = (global(tensor.clone()), self.frames.arena(frame));
        let buffer = self
            .builder(block)
            .op(OpKind::Alloc)
            .operands(&[arena])
            .attr("offset", Dim::constant(0))
            .attr("bytes", bytes)
            .result(ty)
            .value()?;
        self.frames.record(buffer);
        Ok(buffer)
    }

    fn allocate_output(&mut self, block: Block, position: usize, tensor: &TensorType) -> Result<Value, Diagnostic> {
        let ty = global(tensor.clone());
        let buffer = self.builder(block).op(OpKind::AllocOutput).attr("index", position as i64).result(ty).value()?;
        self.frames.record(buffer);
        Ok(buffer)
    }

    /// The same memory in another shape.
    fn as_type(&mut self, block: Block, buffer: Value, tensor: &TensorType) -> Result<Value, Diagnostic> {
        if self.host.ty(buffer).shaped() == Some(tensor) {
            return Ok(buffer);
        }
        let ty = global(tensor.clone());
        let mut builder = self.builder(block);
        let zero = index_zero(&mut builder)?;
        builder.op(OpKind::View).operands(&[buffer, zero]).result(ty).value()
    }

    /// Plans the ops of a block of the source, except its terminator, at the end of `to`.
    fn block(&mut self, from: Block, to: Block, homes: &HashMap<Value, Home>) -> Result<(), Diagnostic> {
        for &inst in self.source.insts(from) {
            match self.source.kind_of(inst) {
                OpKind::Fusion => self.fusion(inst, [from, to], homes)?,
                OpKind::Weight => {
                    let result = self.source.result(inst);
                    let ty = global(self.tensor(result));
                    let attr = self.source.inst(inst).attrs[0].clone().expect("a weight has a name");
                    let buffer = self.builder(to).op(OpKind::Weight).attr("name", attr).result(ty).value()?;
                    self.named(result, buffer);
                }
                OpKind::Reshape => {
                    let (operand, result) = (self.memory[&self.source.operands(inst)[0]], self.source.result(inst));
                    let view = self.as_type(to, operand, &self.tensor(result))?;
                    self.named(result, view);
                }
                OpKind::If => self.if_(inst, to, homes)?,
                OpKind::While => self.while_(inst, [from, to], homes)?,
                OpKind::BindDim => self.bind_dim(inst, to)?,
                OpKind::Assert => self.assert(inst, to)?,
                OpKind::Return => {}
                kind => {
                    let message = format!("`{}` is in no group", kind.name());
                    return Err(Diagnostic::new(disc_ir::Code::E0208, message)
                        .in_op(kind.name())
                        .at(self.source.inst(inst).span));
                }
            }
        }
        Ok(())
    }

    fn fusion(&mut self, inst: Inst, [from, to]: [Block; 2], homes: &HashMap<Value, Home>) -> Result<(), Diagnostic> {
        let mut operands: Vec<Value> = self.source.operands(inst).iter().map(|v| self.memory[v]).collect();
        for &result in self.source.results_of(inst) {
            operands.push(self.place_or_update([from, to], result, homes)?);
        }
        let data = self.source.inst(inst);
        let region = self.host.import_block(self.source, data.regions[0], &mut HashMap::new());
        let kind = data.attrs[0].clone().expect("a group has a kind");
        self.builder(to).op(OpKind::Fusion).operands(&operands).attr("kind", kind).region(region).results(Vec::new()).build()?;
        Ok(())
    }
}

/// Values that are made where they go, and the returned positions that this takes care of.
#[derive(Default)]
struct Homes {
    homes: HashMap<Value, Home>,
    served: HashSet<usize>,
}

fn global(tensor: TensorType) -> Type {
    Type::Buffer { tensor, space: Space::Global }
}

/// The index 0.
fn index_zero(builder: &mut Builder<'_>) -> Result<Value, Diagnostic> {
    let zero = disc_ir::Literal::splat_i64(DType::I64, 0);
    builder.op(OpKind::Constant).attr("value", zero).result(Type::scalar(DType::I64)).value()
}
