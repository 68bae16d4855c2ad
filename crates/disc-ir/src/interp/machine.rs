//! Executes ops: frames, blocks, symbols, limits.
//!
//! It knows how to execute ops, not their meaning.
//!
//! Invariants:
//! - Every tensor that an op returns has the sizes of the op's result type; a difference is E0211.
//! - The values of a block are dropped at its end.
use super::{
    Limits, Tensor,
    call::Call,
    memory::{Buffer, Memory},
    noise::Noise,
    run_entry,
    table::{Eval, eval},
    tensor::count,
};
use crate::{
    binding::bindings,
    diag::{Code, Diagnostic},
    dim::{Dim, Fact, Symbol},
    graph::{Block, Function, FunctionKind, Inst, Module, PREPARE, Value},
    ops::{OpKind, demands},
    types::{DType, TensorType, Type},
};
use std::{
    collections::{BTreeMap, HashMap},
    rc::Rc,
};

/// The contents of a value while the program runs.
#[derive(Clone, Debug)]
pub(super) enum Val {
    /// A tensor; or a vector of a kernel, as a tensor of its lanes (of rank 0 for one lane).
    Tensor(Rc<Tensor>),
    Buffer(Buffer),
}

impl Val {
    pub(super) fn into_tensor(self) -> Result<Tensor, Diagnostic> {
        match self {
            Val::Tensor(tensor) => Ok(Rc::unwrap_or_clone(tensor)),
            Val::Buffer(_) => Err(Diagnostic::new(Code::E0211, "a buffer where a tensor is needed")),
        }
    }

    fn dims(&self) -> &[i64] {
        match self {
            Val::Tensor(tensor) => tensor.dims(),
            Val::Buffer(buffer) => &buffer.dims,
        }
    }

    fn dtype(&self) -> DType {
        match self {
            Val::Tensor(tensor) => tensor.dtype(),
            Val::Buffer(buffer) => buffer.dtype,
        }
    }
}

impl From<Tensor> for Val {
    fn from(tensor: Tensor) -> Self {
        Val::Tensor(Rc::new(tensor))
    }
}

pub(super) type Symbols = HashMap<Symbol, i64>;
pub(super) type Evaluated = Result<Vec<Val>, Diagnostic>;

/// A function that is being run.
#[derive(Clone)]
pub(super) struct Frame<'a> {
    function: &'a Function,
    values: Vec<Option<Val>>,
    symbols: Rc<Symbols>,
}

impl Frame<'_> {
    pub(super) fn define(&mut self, value: Value, result: Val) {
        self.values[value.index()] = Some(result);
    }

    pub(super) fn value(&self, value: Value) -> Option<Val> {
        self.values[value.index()].clone()
    }

    pub(super) fn dim(&self, dim: &Dim) -> Result<i64, Diagnostic> {
        evaluate(dim, &self.symbols)
    }
}

pub(super) struct Machine<'a> {
    pub(super) module: &'a Module,
    pub(super) weights: &'a dyn Fn(&str) -> Option<Tensor>,
    pub(super) memory: Memory,
    frames: Vec<Frame<'a>>,
    limits: Limits,
    steps: u64,
    bytes: u64,
    depth: u32,
    /// The buffers of `alloc_output`, by index.
    outputs: BTreeMap<i64, Buffer>,
    /// Bytes of scratch that the task may still use.
    scratch: u64,
    /// Deliberate rounding errors.
    pub(super) noise: Option<Noise>,
    /// The results of `prepare`, once a weight of it was needed.
    prepared: Option<Vec<Tensor>>,
}

impl<'a> Machine<'a> {
    pub(super) fn new(module: &'a Module, weights: &'a dyn Fn(&str) -> Option<Tensor>, limits: Limits) -> Self {
        let (memory, frames, outputs) = (Memory::default(), Vec::new(), BTreeMap::new());
        let (noise, prepared) = (None, None);
        Self { module, weights, memory, frames, limits, steps: 0, bytes: 0, depth: 0, outputs, scratch: 0, noise, prepared }
    }

    /// Runs a function: binds the symbols of its parameters' types, checks its facts, and runs its
    /// body. Kernels and routines see those of the caller too.
    pub(super) fn call(&mut self, function: &'a Function, arguments: Vec<Val>) -> Evaluated {
        let frame = self.open_frame(function, &arguments)?;
        self.frames.push(frame);
        let results = self.run_block(function.body, arguments);
        self.frames.pop();
        results
    }

    /// Makes the frame of a function: binds its symbols, and checks its facts.
    pub(super) fn open_frame(&self, function: &'a Function, arguments: &[Val]) -> Result<Frame<'a>, Diagnostic> {
        let outer = match (function.kind, self.frames.last()) {
            (FunctionKind::Kernel | FunctionKind::Routine, Some(frame)) => Symbols::clone(&frame.symbols),
            _ => Symbols::new(),
        };
        let symbols = Rc::new(bind(function, arguments, outer)?);
        Ok(Frame { function, values: vec![None; function.value_count()], symbols })
    }

    /// Returns the bytes of values so far, for [`Machine::drop_values`].
    pub(super) fn value_bytes(&self) -> u64 {
        self.bytes
    }

    /// Counts no more values than there were.
    pub(super) fn drop_values(&mut self, before: u64) {
        self.bytes = before;
    }

    /// Executes one op of a function that is not the last one called.
    pub(super) fn resume(&mut self, frame: &mut Frame<'a>, inst: Inst) -> Result<(), Diagnostic> {
        let none = Frame { function: frame.function, values: Vec::new(), symbols: Rc::clone(&frame.symbols) };
        self.frames.push(std::mem::replace(frame, none));
        let result = self.step(inst);
        *frame = self.frames.pop().expect("it was pushed");
        result.map(drop)
    }

    /// Returns the function that a call of an entry runs: itself, or a variant of it.
    pub(super) fn variant_for(&self, function: &'a Function, arguments: &[Val]) -> Result<&'a Function, Diagnostic> {
        let mut variants = self.module.variants_of(function).peekable();
        if variants.peek().is_none() {
            return Ok(function);
        }
        let symbols = bind(function, arguments, Symbols::new())?;
        let holds = |fact: &Fact| fact.holds(&|symbol| symbols.get(symbol).copied()) == Some(true);
        Ok(variants.find(|variant| variant.guard(function).iter().all(holds)).unwrap_or(function))
    }

    /// Runs a region of the current function.
    pub(super) fn run_block(&mut self, block: Block, arguments: Vec<Val>) -> Evaluated {
        self.depth += 1;
        if self.depth > self.limits.depth {
            return Err(limit(format!("more than {} calls and regions within each other", self.limits.depth)));
        }
        let function = self.frame().function;
        for (&argument, value) in function.arguments(block).iter().zip(arguments) {
            self.define(argument, value);
        }
        let before = self.bytes;
        let mut results = Vec::new();
        for &inst in function.insts(block) {
            results = self.step(inst).map_err(|e| e.in_op(function.kind_of(inst).name()).at(function.inst(inst).span))?;
        }
        for &inst in function.insts(block) {
            function.results_of(inst).iter().for_each(|&value| self.frame().values[value.index()] = None);
            // The results of the body have sizes that the caller reads from them.
            for symbol in function.bound_by(inst).filter(|_| block != function.body) {
                Rc::make_mut(&mut self.frame().symbols).remove(symbol);
            }
        }
        self.bytes = before;
        self.depth -= 1;
        Ok(results)
    }

    /// Executes one op. A terminator returns its values.
    fn step(&mut self, inst: Inst) -> Evaluated {
        let frame = self.frame();
        let (function, symbols) = (frame.function, Rc::clone(&frame.symbols));
        let data = function.inst(inst);
        let operand = |&value: &Value| {
            let unset = || Diagnostic::new(Code::E0210, "an operand has no value here");
            frame.values[value.index()].clone().ok_or_else(unset)
        };
        let mut args = data.operands.iter().map(operand).collect::<Result<Vec<_>, _>>()?;
        if data.kind == OpKind::Return {
            return Ok(args);
        }
        if let Some(noise) = &mut self.noise {
            noise.disturb_operands(function, data, &mut args);
        }
        let mut call = Call { function, data, args, shapes: Vec::new(), symbols };
        check_demands(&call, inst)?;
        for &result in &data.results {
            let dims = call.dims_of(function.ty(result))?;
            self.reserve(&dims, function.ty(result))?;
            call.shapes.push(dims);
        }
        let mut results = match eval(data.kind) {
            Eval::Lanes(lanes) => vec![lanes.evaluate(&call)?.into()],
            Eval::Op(evaluate) => evaluate(self, &call)?,
        };
        check_results(&call, &results)?;
        if let Some(noise) = &mut self.noise {
            noise.disturb_results(data.kind, &call.args, &mut results);
        }
        data.results.iter().zip(results).for_each(|(&value, result)| self.define(value, result));
        Ok(Vec::new())
    }

    fn frame(&mut self) -> &mut Frame<'a> {
        self.frames.last_mut().expect("a function is being run")
    }

    fn define(&mut self, value: Value, result: Val) {
        self.frame().define(value, result);
    }

    /// Gives a dim its value, from data.
    pub(super) fn bind_dim(&mut self, symbol: &Symbol, value: i64) -> Result<(), Diagnostic> {
        if value < 0 {
            return Err(Diagnostic::new(Code::E0602, format!("dim {symbol} is {value}, expected 0 or more")));
        }
        let frame = self.frame();
        Rc::make_mut(&mut frame.symbols).insert(symbol.clone(), value);
        check_facts(frame.function, &frame.symbols)
    }

    /// Counts steps.
    pub(super) fn charge(&mut self, steps: u64) -> Result<(), Diagnostic> {
        self.steps = self.steps.saturating_add(steps);
        match self.steps > self.limits.steps {
            true => Err(limit(format!("more than {} steps", self.limits.steps))),
            false => Ok(()),
        }
    }

    /// Makes sure that a value of these sizes fits the limits, before it is made.
    pub(super) fn reserve(&mut self, dims: &[i64], ty: &Type) -> Result<(), Diagnostic> {
        let Some(count) = count(dims) else {
            return Err(Diagnostic::new(Code::E0602, format!("a value of type {ty} has sizes {dims:?}")));
        };
        // The ops that allocate memory reserve it.
        if let Type::Buffer { .. } = ty {
            return self.charge(1);
        }
        self.charge(1 + count as u64)?;
        self.reserve_bytes((count as u64).saturating_mul(ty.dtype().size() as u64))
    }

    pub(super) fn reserve_bytes(&mut self, bytes: u64) -> Result<(), Diagnostic> {
        self.bytes = self.bytes.saturating_add(bytes);
        match self.bytes > self.limits.bytes {
            true => Err(limit(format!("more than {} bytes", self.limits.bytes))),
            false => Ok(()),
        }
    }
}

impl Machine<'_> {
    pub(super) fn set_output(&mut self, index: i64, buffer: Buffer) -> Result<(), Diagnostic> {
        match self.outputs.insert(index, buffer) {
            None => Ok(()),
            Some(_) => Err(Diagnostic::new(Code::E0211, format!("output {index} is made twice"))),
        }
    }

    /// Returns the outputs of the host program, in order.
    pub(super) fn outputs(&self) -> Result<Vec<Tensor>, Diagnostic> {
        let read = |(wanted, (&index, buffer)): (i64, (&i64, &Buffer))| match index == wanted {
            true => self.memory.tensor(buffer).map_err(|e| e.note(format!("in output {index}"))),
            false => Err(Diagnostic::new(Code::E0211, format!("output {wanted} is never made"))),
        };
        (0..).zip(&self.outputs).map(read).collect()
    }

    /// Returns a result of the function `prepare`, which makes weights from weights.
    pub(super) fn prepared(&mut self, result: u32) -> Result<Option<Tensor>, Diagnostic> {
        if self.prepared.is_none() {
            let mut machine = Machine::new(self.module, self.weights, self.limits);
            // Weights that `prepare` asks for and would make itself are missing, not made in a
            // circle.
            machine.prepared = Some(Vec::new());
            self.prepared = Some(run_entry(&mut machine, PREPARE, &[])?);
        }
        Ok(self.prepared.as_ref().and_then(|results| results.get(result as usize).cloned()))
    }

    /// Starts a task of a kernel, with this many bytes of scratch.
    pub(super) fn begin_task(&mut self, scratch: u64) {
        self.scratch = scratch;
    }

    /// Returns the bytes of scratch that the task may still use.
    pub(super) fn scratch_left(&self) -> u64 {
        self.scratch
    }

    pub(super) fn use_scratch(&mut self, bytes: u64) -> Result<(), Diagnostic> {
        let left = self.scratch.checked_sub(bytes);
        self.scratch = left.ok_or_else(|| {
            let message = format!("{bytes} bytes of scratch, the launch gives {}", self.scratch);
            Diagnostic::new(Code::E0211, message)
        })?;
        Ok(())
    }
}

fn limit(message: String) -> Diagnostic {
    Diagnostic::new(Code::E0606, message)
}

/// Checks that the op stays inside of its tensors.
fn check_demands(call: &Call<'_>, inst: Inst) -> Result<(), Diagnostic> {
    for demand in demands(call.function, inst) {
        if evaluate(&demand.excess(), &call.symbols)? > 0 {
            let [low, high] = [&demand.low, &demand.high].map(|dim| evaluate(dim, &call.symbols));
            let message = format!("it needs {}, and {} is greater than {}", demand.describe(), low?, high?);
            return Err(Diagnostic::new(Code::E0602, message));
        }
    }
    Ok(())
}

/// Checks the results against the op's types.
fn check_results(call: &Call<'_>, results: &[Val]) -> Result<(), Diagnostic> {
    let types: Vec<&Type> = call.data.results.iter().map(|&value| call.function.ty(value)).collect();
    if results.len() != types.len() {
        return Err(Diagnostic::new(
            Code::E0211,
            format!("{} results were computed, {} are declared", results.len(), types.len()),
        ));
    }
    for ((result, ty), dims) in results.iter().zip(types).zip(&call.shapes) {
        if result.dims() != dims || result.dtype() != ty.dtype() {
            let found = format!("{} with sizes {:?}", result.dtype(), result.dims());
            return Err(Diagnostic::new(Code::E0211, format!("the result is {found}, its type {ty} says {dims:?}")));
        }
    }
    Ok(())
}

/// The value of a dim.
pub(super) fn evaluate(dim: &Dim, symbols: &Symbols) -> Result<i64, Diagnostic> {
    let value = dim.eval(&|symbol| symbols.get(symbol).copied());
    value.map_err(|error| Diagnostic::new(Code::E0103, format!("the dim [{dim}] has no value here: {error}")))
}

/// Binds the symbols of a function to the sizes of the arguments, and checks its types and facts.
fn bind(function: &Function, arguments: &[Val], mut symbols: Symbols) -> Result<Symbols, Diagnostic> {
    let parameters = function.parameters();
    if parameters.len() != arguments.len() {
        let message = format!("@{} takes {} inputs, {} were given", function.name, parameters.len(), arguments.len());
        return Err(Diagnostic::new(Code::E0601, message));
    }
    let name = |i: usize| match function.name_of(parameters[i]) {
        Some(name) => format!("input {i} (%{name}) of @{}", function.name),
        None => format!("input {i} of @{}", function.name),
    };
    for (i, argument) in arguments.iter().enumerate() {
        let ty = function.ty(parameters[i]);
        let rank = rank(ty);
        if ty.dtype() != argument.dtype() || rank != argument.dims().len() {
            let found = format!("{} of rank {}", argument.dtype(), argument.dims().len());
            return Err(Diagnostic::new(Code::E0601, format!("{} has type {ty}, got {found}", name(i))));
        }
    }
    for binding in bindings(function) {
        let rest = evaluate(&binding.rest, &symbols)?;
        let value = binding.solve(arguments[binding.parameter].dims()[binding.axis], rest);
        // A negative symbol fits no size: it is not the solution.
        let size =
            function.ty(parameters[binding.parameter]).shaped().map_or(&Dim::constant(0), |t| &t.dims[binding.axis]).clone();
        if value < 0 {
            let message = format!(
                "dimension {} of {} is [{size}], so {} would be {value}",
                binding.axis,
                name(binding.parameter),
                binding.symbol
            );
            return Err(Diagnostic::new(Code::E0602, message));
        }
        symbols.entry(binding.symbol).or_insert(value);
    }
    for (i, argument) in arguments.iter().enumerate() {
        let dims = function.ty(parameters[i]).shaped().map_or(&[][..], |t: &TensorType| &t.dims);
        for (axis, (dim, &size)) in dims.iter().zip(argument.dims()).enumerate() {
            let wanted = evaluate(dim, &symbols)?;
            if wanted != size {
                let message = format!("dimension {axis} of {} is [{dim}] = {wanted}, got {size}", name(i));
                return Err(Diagnostic::new(Code::E0602, message));
            }
        }
    }
    check_facts(function, &symbols)?;
    Ok(symbols)
}

/// Checks the function's facts for these sizes.
fn check_facts(function: &Function, symbols: &Symbols) -> Result<(), Diagnostic> {
    let violated = function.facts.iter().find(|fact| fact.holds(&|symbol| symbols.get(symbol).copied()) == Some(false));
    let Some(fact) = violated else { return Ok(()) };
    let mut values: Vec<String> = Vec::new();
    fact.visit_symbols(&mut |symbol| values.extend(symbols.get(symbol).map(|value| format!("{symbol} = {value}"))));
    values.dedup();
    Err(Diagnostic::new(Code::E0602, format!("@{} needs {fact}, got {}", function.name, values.join(", "))))
}

fn rank(ty: &Type) -> usize {
    match ty {
        Type::Tensor(tensor) | Type::Buffer { tensor, .. } => tensor.rank(),
        Type::Vector { lanes, .. } => usize::from(*lanes != 1),
    }
}
