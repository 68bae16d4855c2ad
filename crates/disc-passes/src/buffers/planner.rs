//! Plans the memory of one function: walks its ops and gives each result of a group a buffer.
use super::{allocation, arena, early_release, frames::Frames, host_scalars::HostScalars, output_reuse, written_inputs};
use crate::analysis::cost_model::CostModel;
use disc_ir::{
    Block, Builder, DType, Diagnostic, Dim, Function, FunctionKind, Inst, OpKind, Solver, Space, Symbol, TensorType, Type, Value,
};
use std::{
    collections::{HashMap, HashSet},
    sync::Arc,
};

pub(super) struct Planner<'f> {
    pub(super) source: &'f Function,
    pub(super) host: Function,
    pub(super) solver: Arc<Solver>,
    pub(super) frames: Frames,
    /// The buffer of each value of the source.
    pub(super) memory: HashMap<Value, Value>,
    /// The scalars that are not read from memory.
    pub(super) scalars: HostScalars,
}

/// Memory that exists before the value that is written into it.
#[derive(Clone, Debug)]
pub(super) enum Destination {
    /// The memory of the output with this index; its type may differ from the value's by a reshape.
    Output(usize, TensorType),
    Buffer(Value),
}

impl<'f> Planner<'f> {
    /// Returns the host program, and the size of its arena at the sample sizes.
    pub(super) fn plan(source: &'f Function, model: &dyn CostModel) -> Result<(Function, Vec<i64>), Diagnostic> {
        let mut host = Function::new(source.name.clone(), FunctionKind::Host);
        host.facts = source.facts.clone();
        host.results = source.results.clone();
        host.stores = source.stores.clone();
        host.variant_of = source.variant_of.clone();
        host.span = source.span;
        let solver = Arc::new(Solver::new(&source.facts));
        let scalars = if model.shares_memory() { HostScalars::default() } else { HostScalars::of(source) };
        let mut planner = Self { source, host, solver, frames: Frames::default(), memory: HashMap::new(), scalars };
        let body = planner.host.body;
        planner.open_frame(body, None)?;
        for &parameter in source.parameters() {
            let buffer = planner.host.add_argument(body, global(planner.tensor(parameter)));
            planner.named(parameter, buffer);
        }
        let outputs = planner.destinations(source.body, |position, value| {
            let is_stored = source.stored_into(position).is_some();
            (!is_stored).then(|| Destination::Output(position, value.clone()))
        });
        planner.block(source.body, body, &outputs.destinations)?;
        for (position, &value) in source.returned(source.body).iter().enumerate() {
            if !outputs.served.contains(&position) && source.stored_into(position).is_none() {
                let output = planner.allocate_output(body, position, &planner.tensor(value))?;
                planner.copy(body, planner.memory[&value], output)?;
            }
        }
        planner.store_results(body)?;
        planner.builder(body).ret(&[])?;
        written_inputs::merge(&mut planner.host, &planner.solver)?;
        let bytes = arena::layout_arena(&mut planner.host, &planner.frames, &planner.solver, model);
        early_release::end_frames(&mut planner.host, &planner.frames, &planner.solver);
        Ok((planner.host, bytes))
    }

    pub(super) fn tensor(&self, value: Value) -> TensorType {
        self.source.ty(value).shaped().expect("the value of a function is a tensor").clone()
    }

    /// Records the buffer of a value.
    pub(super) fn named(&mut self, value: Value, buffer: Value) {
        if let Some(name) = self.source.name_of(value) {
            self.host.set_name(buffer, name.clone());
        }
        self.memory.insert(value, buffer);
    }

    /// Maps values of a block to the destination of the returned value that they are, or that views
    /// them, so that they are written there directly. Each serves the first return only, of those
    /// that have a destination.
    pub(super) fn destinations(
        &self,
        block: Block,
        destination: impl Fn(usize, &TensorType) -> Option<Destination>,
    ) -> Destinations {
        let mut found = Destinations::default();
        for (position, &value) in self.source.returned(block).iter().enumerate() {
            let made = self.looked_at(block, value);
            let is_made = |inst: &Inst| {
                let kind = self.source.kind_of(*inst);
                matches!(kind, OpKind::Fusion | OpKind::If | OpKind::While) && self.source.insts(block).contains(inst)
            };
            let is_new = !found.destinations.contains_key(&made) && self.known_with(value, made);
            let is_new = is_new && self.source.defining(made).filter(is_made).is_some();
            if let Some(place) = Some(()).filter(|()| is_new).and_then(|()| destination(position, &self.tensor(value))) {
                found.destinations.insert(made, place);
                found.served.insert(position);
            }
        }
        found
    }

    /// Returns true if the sizes of `value`, a view of `made`, are known where `made` is computed.
    pub(super) fn known_with(&self, value: Value, made: Value) -> bool {
        let symbols = |value: Value| self.tensor(value).dims.iter().flat_map(Dim::symbols).collect::<HashSet<Symbol>>();
        let (late, known) = (self.source.data_dims(), symbols(made));
        symbols(value).iter().all(|symbol| known.contains(symbol) || !late.contains(symbol))
    }

    /// The value of the block under views and updates in place.
    pub(super) fn looked_at(&self, block: Block, mut value: Value) -> Value {
        loop {
            let inst = self.source.defining(value).filter(|inst| self.source.insts(block).contains(inst));
            let view = inst.filter(|&inst| self.source.kind_of(inst) == OpKind::Reshape);
            match view.map(|inst| self.source.operands(inst)[0]).or_else(|| self.updated_in_place(block, value)) {
                Some(next) => value = next,
                None => return value,
            }
        }
    }

    pub(super) fn builder(&mut self, block: Block) -> Builder<'_> {
        let solver = self.solver.clone();
        Builder::at(&mut self.host, block, solver)
    }

    /// Allocates memory for a value of the source: its destination, or an allocation of the arena.
    pub(super) fn place(
        &mut self,
        block: Block,
        value: Value,
        destinations: &HashMap<Value, Destination>,
    ) -> Result<Value, Diagnostic> {
        let tensor = self.tensor(value);
        let buffer = match destinations.get(&value).cloned() {
            None => self.allocate(block, &tensor)?,
            Some(Destination::Buffer(buffer)) => self.as_type(block, buffer, &tensor)?,
            Some(Destination::Output(position, output)) => {
                let buffer = self.allocate_output(block, position, &output)?;
                self.as_type(block, buffer, &tensor)?
            }
        };
        self.named(value, buffer);
        Ok(buffer)
    }

    /// Allocates memory for a value that may be an update in place.
    pub(super) fn place_or_update(
        &mut self,
        [from, to]: [Block; 2],
        value: Value,
        destinations: &HashMap<Value, Destination>,
    ) -> Result<Value, Diagnostic> {
        let updated = if destinations.contains_key(&value) { None } else { self.updated_in_place(from, value) };
        let Some(input) = updated else { return self.place(to, value, destinations) };
        self.memory.insert(value, self.memory[&input]);
        Ok(self.memory[&input])
    }

    pub(super) fn allocate(&mut self, block: Block, tensor: &TensorType) -> Result<Value, Diagnostic> {
        let (count, zero) = (tensor.element_count(), Dim::constant(0));
        let is_sized = output_reuse::is_sized(&self.solver, &tensor.dims);
        let count = if is_sized || self.solver.less_equal(&zero, &count) { count } else { Dim::max(&count, &zero) };
        let bytes = (count * tensor.dtype.size() as i64).ceil_div(&Dim::constant(allocation::LINE)) * allocation::LINE;
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

    pub(super) fn allocate_output(&mut self, block: Block, position: usize, tensor: &TensorType) -> Result<Value, Diagnostic> {
        let ty = global(tensor.clone());
        let buffer = self.builder(block).op(OpKind::AllocOutput).attr("index", position as i64).result(ty).value()?;
        self.frames.record(buffer);
        Ok(buffer)
    }

    /// Views a buffer under another shape.
    pub(super) fn as_type(&mut self, block: Block, buffer: Value, tensor: &TensorType) -> Result<Value, Diagnostic> {
        if self.host.ty(buffer).shaped() == Some(tensor) {
            return Ok(buffer);
        }
        let ty = global(tensor.clone());
        let mut builder = self.builder(block);
        let zero = index_zero(&mut builder)?;
        builder.op(OpKind::View).operands(&[buffer, zero]).result(ty).value()
    }

    /// Plans the ops of a block of the source, except its terminator, at the end of `to`.
    pub(super) fn block(&mut self, from: Block, to: Block, destinations: &HashMap<Value, Destination>) -> Result<(), Diagnostic> {
        for &inst in self.source.insts(from) {
            match self.source.kind_of(inst) {
                OpKind::Fusion if self.scalars.is_unneeded(inst) => {}
                OpKind::Fusion => self.fusion(inst, [from, to], destinations)?,
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
                OpKind::If => self.if_(inst, to, destinations)?,
                OpKind::While => self.while_(inst, [from, to], destinations)?,
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

    pub(super) fn fusion(
        &mut self,
        inst: Inst,
        [from, to]: [Block; 2],
        destinations: &HashMap<Value, Destination>,
    ) -> Result<(), Diagnostic> {
        let mut operands: Vec<Value> = self.source.operands(inst).iter().map(|v| self.memory[v]).collect();
        for &result in self.source.results_of(inst) {
            operands.push(self.place_or_update([from, to], result, destinations)?);
        }
        let data = self.source.inst(inst);
        let region = self.host.import_block(self.source, data.regions[0], &mut HashMap::new());
        // The decision about the group stays with it.
        let attributes = OpKind::Fusion.def().attrs.iter().zip(&data.attrs);
        let attributes: Vec<_> = attributes.filter_map(|(def, value)| Some((def.name, value.clone()?))).collect();
        let mut builder = self.builder(to);
        let op = builder.op(OpKind::Fusion).operands(&operands).region(region).results(Vec::new());
        attributes.into_iter().fold(op, |op, (name, value)| op.attr(name, value)).build()?;
        Ok(())
    }
}

/// Values that are written to their destination directly, and the returned positions that this
/// serves.
#[derive(Default)]
pub(super) struct Destinations {
    pub(super) destinations: HashMap<Value, Destination>,
    pub(super) served: HashSet<usize>,
}

pub(super) fn global(tensor: TensorType) -> Type {
    Type::Buffer { tensor, space: Space::Global }
}

/// The index 0.
pub(super) fn index_zero(builder: &mut Builder<'_>) -> Result<Value, Diagnostic> {
    let zero = disc_ir::Literal::splat_i64(DType::I64, 0);
    builder.op(OpKind::Constant).attr("value", zero).result(Type::scalar(DType::I64)).value()
}
