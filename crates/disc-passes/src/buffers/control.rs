//! Plans control flow of host programs: regions, their results, and dims bound from data.
use super::{
    frames::Frame,
    liveness::root,
    planner::{Destination, Planner, global, index_zero},
};
use disc_ir::{Block, DType, Diagnostic, Dim, FusionKind, Inst, OpKind, TensorType, Type, Value};
use std::collections::HashMap;

impl Planner<'_> {
    /// Reads a scalar, or computes it.
    fn scalar(&mut self, block: Block, value: Value, dtype: DType) -> Result<Value, Diagnostic> {
        if let Some(computed) = self.host_scalar(block, value)? {
            return Ok(computed);
        }
        let buffer = self.memory[&value];
        let mut builder = self.builder(block);
        let zero = index_zero(&mut builder)?;
        builder.op(OpKind::Load).operands(&[buffer, zero]).result(Type::scalar(dtype)).value()
    }

    pub(super) fn assert(&mut self, inst: Inst, to: Block) -> Result<(), Diagnostic> {
        let (&pred, values) = self.source.operands(inst).split_first().expect("`assert` has a condition");
        let mut operands = vec![self.scalar(to, pred, DType::I1)?];
        // A message has room for numbers, not for tensors.
        if values.iter().all(|&value| self.tensor(value).rank() == 0) {
            for &value in values {
                operands.push(self.scalar(to, value, self.source.ty(value).dtype())?);
            }
        }
        let attrs = self.source.inst(inst).attrs.clone();
        self.builder(to).op(OpKind::Assert).operands(&operands).attrs(attrs).build().map(drop)
    }

    /// Opens a frame for the values whose sizes become known here.
    pub(super) fn open_frame(&mut self, block: Block, inst: Option<Inst>) -> Result<(), Diagnostic> {
        let none = TensorType::new([Dim::constant(0)], DType::U8);
        let arena = self.builder(block).op(OpKind::Arena).attr("bytes", Dim::constant(0)).result(global(none)).value()?;
        let symbol = inst.and_then(|inst| self.source.bound_by(inst).next().cloned());
        self.host.set_name(arena, symbol.as_ref().map_or_else(|| "arena".to_owned(), |symbol| format!("arena_{symbol}")));
        self.frames.open(Frame { arena, symbol, parent: None });
        Ok(())
    }

    pub(super) fn bind_dim(&mut self, inst: Inst, to: Block) -> Result<(), Diagnostic> {
        let size = self.scalar(to, self.source.operands(inst)[0], DType::I64)?;
        let dim = self.source.inst(inst).attrs[0].clone().expect("`bind_dim` has a dim");
        self.builder(to).op(OpKind::BindDim).operands(&[size]).attr("dim", dim).build()?;
        self.open_frame(to, Some(inst))
    }

    /// Plans the ops of a region with `fill`; the frames that it opens end with the region.
    fn within(
        &mut self,
        region: Block,
        fill: impl FnOnce(&mut Self, Block) -> Result<Vec<Value>, Diagnostic>,
    ) -> Result<Block, Diagnostic> {
        let block = self.host.add_block();
        let outer = self.frames.current();
        let binds = self.source.insts(region).iter().any(|&inst| self.source.bound_by(inst).next().is_some());
        let mark = match binds {
            true => Some(self.builder(block).op(OpKind::Mark).result(Type::scalar(DType::I64)).value()?),
            false => None,
        };
        let returned = fill(self, block)?;
        if let Some(mark) = mark {
            self.builder(block).op(OpKind::Release).operands(&[mark]).build()?;
        }
        self.frames.close_to(outer);
        self.builder(block).ret(&returned)?;
        Ok(block)
    }

    /// Plans a branch that writes its results into `targets`.
    fn branch(&mut self, region: Block, targets: &[Value]) -> Result<Block, Diagnostic> {
        self.within(region, |planner, block| {
            let destinations = planner.destinations(region, |position, _| Some(Destination::Buffer(targets[position])));
            planner.block(region, block, &destinations.destinations)?;
            for (position, (value, &target)) in planner.source.returned(region).iter().zip(targets).enumerate() {
                if !destinations.served.contains(&position) {
                    planner.copy(block, planner.memory[value], target)?;
                }
            }
            Ok(Vec::new())
        })
    }

    pub(super) fn if_(&mut self, inst: Inst, to: Block, destinations: &HashMap<Value, Destination>) -> Result<(), Diagnostic> {
        let targets = self.results(inst, to, destinations)?;
        let pred = self.scalar(to, self.source.operands(inst)[0], DType::I1)?;
        let regions = self.source.inst(inst).regions.clone();
        let (then, otherwise) = (self.branch(regions[0], &targets)?, self.branch(regions[1], &targets)?);
        self.builder(to).op(OpKind::If).operands(&[pred]).region(then).region(otherwise).build()?;
        Ok(())
    }

    /// Allocates memory for the results of control flow.
    fn results(&mut self, inst: Inst, to: Block, destinations: &HashMap<Value, Destination>) -> Result<Vec<Value>, Diagnostic> {
        let results = self.source.results_of(inst).to_vec();
        results.into_iter().map(|result| self.place(to, result, destinations)).collect()
    }

    /// Plans a loop. Carried values live in the memory of the loop's results, which is the memory
    /// of the initial values where these die. At its end an iteration copies its results there,
    /// through memory of their own, since one result may be computed from another; a value that is
    /// updated in place needs no copy.
    pub(super) fn while_(
        &mut self,
        inst: Inst,
        [from, to]: [Block; 2],
        destinations: &HashMap<Value, Destination>,
    ) -> Result<(), Diagnostic> {
        let results = self.source.results_of(inst).to_vec();
        let carried: Vec<Value> =
            results.into_iter().map(|result| self.place_or_update([from, to], result, destinations)).collect::<Result<_, _>>()?;
        for (&init, &buffer) in self.source.operands(inst).iter().zip(&carried) {
            if self.memory[&init] != buffer {
                self.copy(to, self.memory[&init], buffer)?;
            }
        }
        let [cond, body] = self.source.inst(inst).regions[..] else { panic!("`while` has two regions") };
        for region in [cond, body] {
            for (&argument, &buffer) in self.source.arguments(region).iter().zip(&carried) {
                self.memory.insert(argument, buffer);
            }
        }
        let test = self.within(cond, |planner, block| {
            planner.block(cond, block, &HashMap::new())?;
            Ok(vec![planner.scalar(block, planner.source.returned(cond)[0], DType::I1)?])
        })?;
        let step = self.within(body, |planner, block| {
            let destinations = planner.destinations_of_updates(body, &carried);
            planner.block(body, block, &destinations)?;
            planner.carry(body, block, &carried)?;
            Ok(Vec::new())
        })?;
        self.builder(to).op(OpKind::While).region(test).region(step).build()?;
        Ok(())
    }

    /// Moves the results of an iteration to where the next one reads them.
    fn carry(&mut self, body: Block, block: Block, carried: &[Value]) -> Result<(), Diagnostic> {
        let results: Vec<Value> = self.source.returned(body).iter().map(|v| self.memory[v]).collect();
        let mut staged = Vec::new();
        for (position, &result) in results.iter().enumerate() {
            // A value that is neither carried nor a view of a carried value can be copied directly.
            let looked_at = root(&self.host, result);
            let is_carried = carried.iter().any(|&buffer| root(&self.host, buffer) == looked_at);
            let direct = result == carried[position] || !is_carried;
            let from = if direct {
                result
            } else {
                let tensor = self.host.ty(result).shaped().expect("a buffer").clone();
                let stage = self.allocate(block, &tensor)?;
                self.copy(block, result, stage)?;
                stage
            };
            staged.push(from);
        }
        for (&from, &buffer) in staged.iter().zip(carried) {
            if from != buffer {
                self.copy(block, from, buffer)?;
            }
        }
        Ok(())
    }

    /// Copies a tensor, as a group of its own.
    pub(super) fn copy(&mut self, block: Block, from: Value, to: Value) -> Result<(), Diagnostic> {
        let tensor = self.host.ty(from).shaped().expect("a buffer").clone();
        let mut builder = self.builder(block);
        let region = builder.region([Type::Tensor(tensor)], |builder, arguments| builder.ret(arguments).map(drop))?;
        builder
            .op(OpKind::Fusion)
            .operands(&[from, to])
            .attr("kind", FusionKind::Pointwise)
            .region(region)
            .results(Vec::new())
            .build()?;
        Ok(())
    }
}
