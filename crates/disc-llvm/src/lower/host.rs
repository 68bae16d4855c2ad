//! Ops of host programs: memory of a call, weights, launches.
//!
//! Invariants:
//! - the argument block of a launch is on the stack of the entry, and used again by the next launch: a launch is over when it returns;
//! - a failure ends the entry, however deep it is nested.
use super::{Lowering, declare, symbols_of};
use crate::{Error, emit::Val};
use disc_ir::{Attr, DType, Dim, Function, FunctionKind, Inst, Module, OpKind, Type, graph::PREPARE};
use inkwell::values::PointerValue;

/// What the code of a host program has at hand.
pub(super) struct Host<'c> {
    pub(super) ctx: PointerValue<'c>,
    pub(super) runtime: PointerValue<'c>,
    /// The addresses of the weights.
    pub(super) weights: PointerValue<'c>,
    /// Eight-byte words for the arguments of a launch, the sizes of an output, or the values of a failure.
    pub(super) words: PointerValue<'c>,
}

/// How many words the ops of a host program need at most.
pub(super) fn words_of(program: &Module, function: &Function) -> u32 {
    let insts = function.walk(function.body);
    let needed = insts.iter().map(|&inst| match function.kind_of(inst) {
        OpKind::Launch => {
            let kernel = match function.inst(inst).attrs.first() {
                Some(Some(Attr::Symbol(name))) => program.function(name),
                _ => None,
            };
            function.operands(inst).len() + kernel.map_or(0, |kernel| symbols_of(program, kernel).len())
        }
        OpKind::AllocOutput => function.ty(function.result(inst)).shaped().map_or(0, |tensor| tensor.dims.len()),
        OpKind::Assert => function.operands(inst).len(),
        _ => 0,
    });
    // A check of the entry has two values.
    needed.max().unwrap_or(0).max(2) as u32
}

impl<'c> Lowering<'_, 'c> {
    pub(super) fn arena(&mut self, inst: Inst) -> Result<(), Error> {
        self.host(inst)?;
        let bytes = self.dim_attr(inst, "bytes")?;
        let memory = match bytes.as_const() {
            // Nothing will be accessed.
            Some(0) => self.emit.pointer().const_null(),
            _ => {
                let bytes = self.bounded_value(bytes)?;
                self.call_alloc(bytes)?
            }
        };
        self.define(inst, memory.into());
        Ok(())
    }

    pub(super) fn alloc(&mut self, inst: Inst) -> Result<(), Error> {
        self.host(inst)?;
        let offset = self.dim_value(self.dim_attr(inst, "offset")?)?;
        let arena = self.value(self.function.operands(inst)[0])?.into_pointer_value();
        let memory = self.emit.element_address(DType::U8, arena, offset)?;
        self.define(inst, memory);
        Ok(())
    }

    /// Memory from the caller; for a prepared weight, the memory that the runtime has for it.
    pub(super) fn alloc_output(&mut self, inst: Inst) -> Result<(), Error> {
        self.host(inst)?;
        let Some(index) = self.int(inst, "index") else {
            return Err(self.error(inst, "needs an `index`".to_owned()));
        };
        if &*self.function.name == PREPARE {
            let position = self.program.weights.iter().position(|w| w.prepared.map(i64::from) == Some(index));
            let Some(position) = position else {
                return Err(self.error(inst, format!("no weight is prepared by result {index}")));
            };
            return self.weight_at(inst, position);
        }
        let tensor = self.function.ty(self.function.result(inst)).shaped().expect("an output is a buffer");
        let sizes = tensor.dims.iter().map(|dim| self.bounded_value(dim)).collect::<Result<Vec<_>, _>>()?;
        let memory = self.call_alloc_output(index, tensor.dtype, &sizes)?;
        self.define(inst, memory.into());
        Ok(())
    }

    pub(super) fn weight(&mut self, inst: Inst) -> Result<(), Error> {
        self.host(inst)?;
        let Some(Attr::Symbol(name)) = self.attr(inst, "name") else {
            return Err(self.error(inst, "needs a name".to_owned()));
        };
        match self.program.weights.iter().position(|w| w.name == *name) {
            Some(position) => self.weight_at(inst, position),
            None => Err(self.error(inst, format!("there is no weight @{name}"))),
        }
    }

    fn weight_at(&mut self, inst: Inst, position: usize) -> Result<(), Error> {
        let address = self.emit.load_pointer(self.host(inst)?.weights, position * size_of::<*const u8>())?;
        self.define(inst, address.into());
        Ok(())
    }

    pub(super) fn launch(&mut self, inst: Inst) -> Result<(), Error> {
        self.host(inst)?;
        let kernel = match self.attr(inst, "kernel") {
            Some(Attr::Symbol(name)) => self.program.function(name).filter(|f| f.kind == FunctionKind::Kernel),
            _ => None,
        };
        let Some(kernel) = kernel else { return Err(self.error(inst, "launches what is no kernel of the program".to_owned())) };
        let operands = self.function.operands(inst);
        if operands.len() + 2 != kernel.parameters().len() {
            let message = format!("gives {} arguments to `{}`, which has other parameters", operands.len(), kernel.name);
            return Err(self.error(inst, message));
        }
        let mut arguments = Vec::new();
        for &operand in operands {
            arguments.push(self.argument(inst, operand)?);
        }
        for symbol in symbols_of(self.program, kernel) {
            arguments.push(self.dim_value(&Dim::symbol(symbol))?);
        }
        let [units, cost, scratch] = ["units", "cost", "scratch"].map(|name| self.dim_attr(inst, name));
        let (units, cost, scratch) = (self.dim_value(units?)?, self.dim_value(cost?)?, self.bounded_value(scratch?)?);
        let words = self.write_words(&arguments)?;
        let address = declare(self.emit, self.program, kernel)?.as_global_value().as_pointer_value();
        self.call_launch([address.into(), words.into(), units, cost, scratch])
    }

    /// An argument of a launch as its slot holds it.
    fn argument(&self, inst: Inst, operand: disc_ir::Value) -> Result<Val<'c>, Error> {
        let value = self.value(operand)?;
        match self.function.ty(operand) {
            Type::Vector { lanes: 1, dtype: DType::I1 } => self.emit.resize(value, 8, false),
            Type::Buffer { .. } | Type::Vector { lanes: 1, .. } => Ok(value),
            ty => Err(self.error(inst, format!("takes no argument of type {ty}"))),
        }
    }

    pub(super) fn mark(&mut self, inst: Inst) -> Result<(), Error> {
        self.host(inst)?;
        let mark = self.call_mark()?;
        self.define(inst, mark);
        Ok(())
    }

    pub(super) fn release(&mut self, inst: Inst) -> Result<(), Error> {
        self.host(inst)?;
        self.call_release(self.value(self.function.operands(inst)[0])?)
    }

    /// `assert` of a host program.
    pub(super) fn check(&mut self, inst: Inst) -> Result<(), Error> {
        let Some(site) = self.int(inst, "site") else { return Err(self.error(inst, "needs a `site`".to_owned())) };
        let (pred, rest) = self.function.operands(inst).split_first().expect("`assert` has a condition");
        let mut values = Vec::new();
        for &value in rest {
            let signed = self.function.ty(value).dtype().is_signed_integer();
            values.push(self.emit.resize(self.value(value)?, 64, signed)?);
        }
        self.fail_unless(self.value(*pred)?, site, &values)
    }
}
