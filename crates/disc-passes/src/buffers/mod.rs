//! Buffers: from tensors to memory of one arena.
//!
//! Each function becomes a host program: every value that a group makes gets memory, a part of the arena or, if it is returned, memory from
//! the caller; groups write into their last operands. A reshape is a view. The parts of the arena are laid out at compile time: offsets are
//! sums of symbolic sizes, and a part is used again when what it held is dead and the facts prove that the sizes fit.
//!
//! Invariants:
//! - Two values that are alive at the same time share no memory, except a view and what it looks at.
//! - What a loop body allocates is allocated once, outside of time: each iteration uses the same memory.
mod arena;
mod liveness;

use crate::pass::{PassCx, PassDef};
use disc_ir::{
    Attr, Block, Builder, DType, Diagnostic, Dim, Function, FunctionKind, Inst, Module, OpKind, Solver, Space, TensorType, Type,
    Value, ops::Stage,
};
use std::{collections::HashMap, sync::Arc};

/// Gives every value memory: a part of the arena, or an output of the caller.
pub static PASS: PassDef = PassDef {
    name: "plan-buffers",
    doc: "Gives every value memory: a part of the arena, or an output of the caller.",
    stages: (Stage::Fused, Stage::Buffer),
    run,
};

fn run(module: &mut Module, _: &mut PassCx) -> Result<usize, Diagnostic> {
    let mut changes = 0;
    for function in &mut module.functions {
        if function.kind == FunctionKind::Func {
            *function = Planner::plan(function)?;
            changes += 1;
        }
    }
    Ok(changes)
}

struct Planner<'f> {
    source: &'f Function,
    host: Function,
    solver: Arc<Solver>,
    /// The arena; its size is known last.
    arena: Value,
    /// Where each value of the source is.
    memory: HashMap<Value, Value>,
}

impl<'f> Planner<'f> {
    fn plan(source: &'f Function) -> Result<Function, Diagnostic> {
        let mut host = Function::new(source.name.clone(), FunctionKind::Host);
        host.facts = source.facts.clone();
        host.results = source.results.clone();
        host.span = source.span;
        let solver = Arc::new(Solver::new(&source.facts));
        let body = host.body;
        let arena = Builder::at(&mut host, body, solver.clone())
            .op(OpKind::Arena)
            .attr("bytes", Dim::constant(0))
            .result(global(TensorType::new([Dim::constant(0)], DType::U8)))
            .value()?;
        host.set_name(arena, "arena");
        let mut planner = Self { source, host, solver, arena, memory: HashMap::new() };
        for &parameter in source.parameters() {
            let body = planner.host.body;
            let buffer = planner.host.add_argument(body, global(planner.tensor(parameter)));
            planner.named(parameter, buffer);
        }
        let outputs = planner.outputs();
        let body = planner.host.body;
        planner.block(source.body, body, &outputs)?;
        planner.return_outputs(&outputs)?;
        arena::lay_out(&mut planner.host, planner.arena, &planner.solver);
        Ok(planner.host)
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

    /// The values that are made right in the caller's memory: results of groups of the body, each returned for the first time.
    fn outputs(&self) -> HashMap<Value, usize> {
        let end = self.source.terminator(self.source.body).expect("a function ends in `return`");
        let mut found = HashMap::new();
        for (position, &value) in self.source.operands(end).iter().enumerate() {
            let in_body =
                |inst: &Inst| self.source.kind_of(*inst) == OpKind::Fusion && self.source.insts(self.source.body).contains(inst);
            if self.source.defining(value).filter(in_body).is_some() {
                found.entry(value).or_insert(position);
            }
        }
        found
    }

    fn builder(&mut self, block: Block) -> Builder<'_> {
        let solver = self.solver.clone();
        Builder::at(&mut self.host, block, solver)
    }

    /// Memory for a value: a part of the arena, laid out later.
    fn allocate(&mut self, block: Block, tensor: &TensorType) -> Result<Value, Diagnostic> {
        let bytes = (tensor.element_count() * tensor.dtype.size() as i64).ceil_div(&Dim::constant(64)) * 64;
        let (ty, arena) = (global(tensor.clone()), self.arena);
        self.builder(block)
            .op(OpKind::Alloc)
            .operands(&[arena])
            .attr("offset", Dim::constant(0))
            .attr("bytes", bytes)
            .result(ty)
            .value()
    }

    fn allocate_output(&mut self, block: Block, position: usize, tensor: &TensorType) -> Result<Value, Diagnostic> {
        let ty = global(tensor.clone());
        self.builder(block).op(OpKind::AllocOutput).attr("index", position as i64).result(ty).value()
    }

    /// Plans the ops of a block of the source, except its terminator, at the end of `to`.
    fn block(&mut self, from: Block, to: Block, outputs: &HashMap<Value, usize>) -> Result<(), Diagnostic> {
        for &inst in self.source.insts(from) {
            match self.source.kind_of(inst) {
                OpKind::Fusion => self.fusion(inst, to, outputs)?,
                OpKind::Weight => {
                    let result = self.source.result(inst);
                    let ty = global(self.tensor(result));
                    let attr = self.source.inst(inst).attrs[0].clone().expect("a weight has a name");
                    let buffer = self.builder(to).op(OpKind::Weight).attr("name", attr).result(ty).value()?;
                    self.named(result, buffer);
                }
                OpKind::Reshape => {
                    let (operand, result) = (self.memory[&self.source.operands(inst)[0]], self.source.result(inst));
                    let ty = global(self.tensor(result));
                    let mut builder = self.builder(to);
                    let zero = index_zero(&mut builder)?;
                    let view = builder.op(OpKind::View).operands(&[operand, zero]).result(ty).value()?;
                    self.named(result, view);
                }
                OpKind::If => self.if_(inst, to)?,
                OpKind::While => self.while_(inst, to)?,
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

    fn fusion(&mut self, inst: Inst, to: Block, outputs: &HashMap<Value, usize>) -> Result<(), Diagnostic> {
        let mut operands: Vec<Value> = self.source.operands(inst).iter().map(|v| self.memory[v]).collect();
        for &result in self.source.results_of(inst) {
            let tensor = self.tensor(result);
            let buffer = match outputs.get(&result) {
                Some(&position) => self.allocate_output(to, position, &tensor)?,
                None => self.allocate(to, &tensor)?,
            };
            self.named(result, buffer);
            operands.push(buffer);
        }
        let data = self.source.inst(inst);
        let region = self.host.import_block(self.source, data.regions[0], &mut HashMap::new());
        let kind = data.attrs[0].clone().expect("a group has a kind");
        self.builder(to).op(OpKind::Fusion).operands(&operands).attr("kind", kind).region(region).results(Vec::new()).build()?;
        Ok(())
    }

    /// Copies a tensor, as a group of its own.
    fn copy(&mut self, block: Block, from: Value, to: Value) -> Result<(), Diagnostic> {
        let tensor = self.host.ty(from).shaped().expect("a buffer").clone();
        let mut builder = self.builder(block);
        let region = builder.region([Type::Tensor(tensor)], |builder, arguments| builder.ret(arguments).map(drop))?;
        builder
            .op(OpKind::Fusion)
            .operands(&[from, to])
            .attr("kind", Attr::Enum("loop"))
            .region(region)
            .results(Vec::new())
            .build()?;
        Ok(())
    }

    /// Copies what is returned but was not made in the caller's memory, and ends the program.
    fn return_outputs(&mut self, outputs: &HashMap<Value, usize>) -> Result<(), Diagnostic> {
        let end = self.source.terminator(self.source.body).expect("a function ends in `return`");
        let body = self.host.body;
        for (position, value) in self.source.operands(end).to_vec().into_iter().enumerate() {
            if outputs.get(&value) != Some(&position) {
                let tensor = self.tensor(value);
                let output = self.allocate_output(body, position, &tensor)?;
                self.copy(body, self.memory[&value], output)?;
            }
        }
        self.builder(body).ret(&[]).map(drop)
    }

    /// Reads a scalar truth value.
    fn truth(&mut self, block: Block, value: Value) -> Result<Value, Diagnostic> {
        let buffer = self.memory[&value];
        let mut builder = self.builder(block);
        let zero = index_zero(&mut builder)?;
        builder.op(OpKind::Load).operands(&[buffer, zero]).result(Type::scalar(DType::I1)).value()
    }

    fn assert(&mut self, inst: Inst, to: Block) -> Result<(), Diagnostic> {
        let pred = self.truth(to, self.source.operands(inst)[0])?;
        let message = self.source.inst(inst).attrs[0].clone();
        let mut builder = self.builder(to);
        let mut request = builder.op(OpKind::Assert).operands(&[pred]);
        if let Some(message) = message {
            request = request.attr("message", message);
        }
        request.build().map(drop)
    }

    /// Plans a region whose results go into `targets`, and ends it with `returned`.
    fn region(&mut self, region: Block, targets: &[Value]) -> Result<Block, Diagnostic> {
        let block = self.host.add_block();
        self.block(region, block, &HashMap::new())?;
        let end = self.source.terminator(region).expect("a region ends in `return`");
        let results: Vec<Value> = self.source.operands(end).iter().map(|v| self.memory[v]).collect();
        for (&from, &to) in results.iter().zip(targets) {
            self.copy(block, from, to)?;
        }
        self.builder(block).ret(&[])?;
        Ok(block)
    }

    fn if_(&mut self, inst: Inst, to: Block) -> Result<(), Diagnostic> {
        let targets = self.results(inst, to)?;
        let pred = self.truth(to, self.source.operands(inst)[0])?;
        let regions = self.source.inst(inst).regions.clone();
        let (then, otherwise) = (self.region(regions[0], &targets)?, self.region(regions[1], &targets)?);
        self.builder(to).op(OpKind::If).operands(&[pred]).region(then).region(otherwise).build()?;
        Ok(())
    }

    /// Memory for the results of control flow.
    fn results(&mut self, inst: Inst, to: Block) -> Result<Vec<Value>, Diagnostic> {
        let mut targets = Vec::new();
        for &result in self.source.results_of(inst) {
            let tensor = self.tensor(result);
            let buffer = self.allocate(to, &tensor)?;
            self.named(result, buffer);
            targets.push(buffer);
        }
        Ok(targets)
    }

    /// The carried values live in the memory of the results. An iteration copies its results there at its end, by way of memory of their
    /// own, since one of them may be made from another.
    fn while_(&mut self, inst: Inst, to: Block) -> Result<(), Diagnostic> {
        let carried = self.results(inst, to)?;
        for (&init, &buffer) in self.source.operands(inst).iter().zip(&carried) {
            self.copy(to, self.memory[&init], buffer)?;
        }
        let [cond, body] = self.source.inst(inst).regions[..] else { panic!("`while` has two regions") };
        for region in [cond, body] {
            for (&argument, &buffer) in self.source.arguments(region).iter().zip(&carried) {
                self.memory.insert(argument, buffer);
            }
        }
        let test = self.host.add_block();
        self.block(cond, test, &HashMap::new())?;
        let end = self.source.terminator(cond).expect("a region ends in `return`");
        let truth = self.truth(test, self.source.operands(end)[0])?;
        self.builder(test).ret(&[truth])?;

        let step = self.host.add_block();
        self.block(body, step, &HashMap::new())?;
        let end = self.source.terminator(body).expect("a region ends in `return`");
        let results: Vec<Value> = self.source.operands(end).iter().map(|v| self.memory[v]).collect();
        let mut staged = Vec::new();
        for (position, &result) in results.iter().enumerate() {
            // What is not carried itself, nor a view of it, can be copied straight.
            let direct = result == carried[position] || (!carried.contains(&result) && !liveness::is_view(&self.host, result));
            let from = if direct {
                result
            } else {
                let tensor = self.host.ty(result).shaped().expect("a buffer").clone();
                let stage = self.allocate(step, &tensor)?;
                self.copy(step, result, stage)?;
                stage
            };
            staged.push(from);
        }
        for (&from, &buffer) in staged.iter().zip(&carried) {
            if from != buffer {
                self.copy(step, from, buffer)?;
            }
        }
        self.builder(step).ret(&[])?;
        self.builder(to).op(OpKind::While).region(test).region(step).build()?;
        Ok(())
    }
}

fn global(tensor: TensorType) -> Type {
    Type::Buffer { tensor, space: Space::Global }
}

/// The index 0.
fn index_zero(builder: &mut Builder<'_>) -> Result<Value, Diagnostic> {
    let zero = disc_ir::Literal::splat_i64(DType::I64, 0);
    builder.op(OpKind::Constant).attr("value", zero).result(Type::scalar(DType::I64)).value()
}
