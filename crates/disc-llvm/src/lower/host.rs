//! Lowers ops of host programs: memory of a call, weights, launches.
//!
//! Invariants:
//! - the argument block of a launch is on the stack of the entry, and the next launch reuses it: a
//!   launch has ended when it returns;
//! - a failure ends the entry, however deep it is nested.
use super::{Lowering, declare, runtime::NONTEMPORAL_BYTES};
use crate::{Error, emit::Val};
use disc_abi::{GRID_PERSISTENT, Gemm, GridLaunch, LibraryConvolution, LibraryGemm};
use disc_ir::{Attr, DType, Dim, Function, FunctionKind, Inst, Module, OpKind, Type, graph::PREPARE};
use inkwell::{IntPredicate, values::PointerValue};

/// Returns the most words that an op of the host program needs.
pub(super) fn words_of(program: &Module, function: &Function) -> u32 {
    let insts = function.walk(function.body);
    let needed = insts.iter().map(|&inst| match function.kind_of(inst) {
        OpKind::Launch => launch_words(program, function, inst),
        OpKind::AllocOutput => function.ty(function.result(inst)).shaped().map_or(0, |tensor| tensor.dims.len()),
        OpKind::LaunchGrid => GridLaunch::WORDS + launch_words(program, function, inst),
        OpKind::LibraryGemm => LibraryGemm::WORDS,
        OpKind::LibraryConvolution => LibraryConvolution::WORDS,
        OpKind::Fetch => function.operands(inst).len(),
        OpKind::LayoutArena => 2 * function.bound_by(inst).count(),
        OpKind::Assert => function.operands(inst).len(),
        _ => 0,
    });
    // A check of the entry has two values.
    needed.max().unwrap_or(0).max(2) as u32
}

/// Returns the words of a launch: the arguments of its kernel; with a GEMM offer, the offer and the
/// arguments of the epilogue as well.
fn launch_words(program: &Module, function: &Function, inst: Inst) -> usize {
    let attr = |name| function.def(inst).attr_position(name).and_then(|at| function.inst(inst).attrs[at].as_ref());
    let symbols = |name| match attr(name) {
        Some(Attr::Symbol(name)) => program.function(name).map_or(0, |kernel| program.symbols_of(kernel).len()),
        _ => 0,
    };
    let arguments = function.operands(inst).len() + symbols("kernel");
    match (attr("product"), attr("rest_roles")) {
        (None, _) => arguments,
        (Some(_), Some(Attr::Ints(roles))) => Gemm::WORDS + arguments + roles.len() + symbols("rest"),
        (Some(_), _) => Gemm::WORDS + arguments,
    }
}

/// Returns the number of a GPU kernel among those of a program, in their order.
pub(super) fn grid_number(program: &Module, kernel: &Function) -> u32 {
    let grids = program.functions.iter().filter(|function| function.grid.is_some());
    grids.take_while(|function| function.name != kernel.name).count() as u32
}

impl<'e, 'c> Lowering<'e, 'c> {
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

    /// Allocates an output through the caller; a prepared weight gets the runtime's memory for it.
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

    /// Returns true if the bytes reach the runtime's threshold and the addresses are multiples of a
    /// cache line.
    pub(super) fn nontemporal(&mut self, inst: Inst) -> Result<(), Error> {
        let host = self.host(inst)?;
        let at = self.emit.field(host.ctx, NONTEMPORAL_BYTES)?;
        let (i64t, zero) = (self.emit.context.i64_type(), self.emit.i64(0));
        let least = self.emit.builder.build_load(i64t, at, "")?;
        let bytes = self.dim_value(self.dim_attr(inst, "bytes")?)?;
        let rest = self.address_rest(inst, disc_abi::ALIGN as i64 - 1)?;
        let holds = [
            self.emit.icmp(IntPredicate::SGT, least, zero.into())?,
            self.emit.icmp(IntPredicate::SGE, bytes, least)?,
            self.emit.icmp(IntPredicate::EQ, rest, zero.into())?,
        ];
        let two = self.emit.and(holds[0], holds[1])?;
        let all = self.emit.and(two, holds[2])?;
        self.define(inst, all);
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
        let kernel = self.launched(inst, "kernel")?;
        let operands = self.function.operands(inst);
        if operands.len() + 2 != kernel.parameters().len() {
            let message = format!("gives {} arguments to `{}`, which has other parameters", operands.len(), kernel.name);
            return Err(self.error(inst, message));
        }
        let mut arguments = operands.iter().map(|&operand| self.argument(inst, operand)).collect::<Result<Vec<_>, _>>()?;
        self.add_symbols(kernel, &mut arguments)?;
        let [units, cost, scratch] = ["units", "cost", "scratch"].map(|name| self.dim_attr(inst, name));
        let work = self.work([units?, cost?, scratch?])?;
        let address = declare(self.emit, self.program, kernel)?.as_global_value().as_pointer_value();
        if self.attr(inst, "product").is_some() {
            return self.launch_gemm(inst, address, arguments, work);
        }
        let words = self.write_words(&arguments)?;
        let [units, cost, scratch] = work;
        self.call_launch([address.into(), words.into(), units, cost, scratch])
    }

    /// Lowers a launch that a library may replace: see [`Gemm`], whose words come first, then the
    /// arguments of both kernels.
    fn launch_gemm(
        &mut self,
        inst: Inst,
        kernel: PointerValue<'c>,
        arguments: Vec<Val<'c>>,
        work: [Val<'c>; 3],
    ) -> Result<(), Error> {
        let null: Val<'c> = self.emit.pointer().const_null().into();
        let (Some(Attr::Dims(dims)), Some(Attr::Ints(roles))) = (self.attr(inst, "product"), self.attr(inst, "roles")) else {
            return Err(self.error(inst, "needs `product` and `roles`".to_owned()));
        };
        let dims = dims.iter().map(|dim| self.dim_value(dim)).collect::<Result<Vec<_>, _>>()?;
        let at = |position: usize| roles.get(position).and_then(|&role| usize::try_from(role).ok());
        let [left, right, result] = [0, 1, 2].map(|position| at(position).map_or(null, |role| arguments[role]));
        let host = self.host(inst)?;
        let (first, second) = (Gemm::WORDS as i64, (Gemm::WORDS + arguments.len()) as i64);
        let [own, rest_args] = [self.emit.slot(host.words, first)?, self.emit.slot(host.words, second)?];
        let mut rest: Vec<Val<'c>> = vec![null, null];
        rest.resize(6, self.emit.i64(0).into());
        let mut all = Vec::new();
        if self.attr(inst, "rest").is_some() {
            let rest_kernel = self.launched(inst, "rest")?;
            let rest_roles = match self.attr(inst, "rest_roles") {
                Some(Attr::Ints(roles)) => roles,
                _ => return Err(self.error(inst, "needs `rest_roles`".to_owned())),
            };
            let Some(Attr::Dims(dims)) = self.attr(inst, "rest_work") else {
                return Err(self.error(inst, "needs `rest_work`".to_owned()));
            };
            let [units, cost, scratch] = self.work([&dims[0], &dims[1], &dims[2]])?;
            let slot = rest_roles.iter().position(|&role| role < 0).unwrap_or(0) as i64;
            all = rest_roles.iter().map(|&role| usize::try_from(role).map_or(null, |role| arguments[role])).collect();
            self.add_symbols(rest_kernel, &mut all)?;
            let address = declare(self.emit, self.program, rest_kernel)?.as_global_value().as_pointer_value();
            rest = vec![address.into(), rest_args.into(), self.emit.i64(slot).into(), units, cost, scratch];
        }
        let mut words: Vec<Val<'c>> = vec![self.emit.i64(disc_abi::DType::F32.code().into()).into()];
        words.extend(dims);
        words.extend([left, right, result, kernel.into(), own.into()]);
        words.extend(work.into_iter().chain(rest).chain(arguments).chain(all));
        let address = self.write_words(&words)?;
        self.call_gemm(address)
    }

    /// Lowers the launch of a grid: the words of a [`GridLaunch`], then the kernel's arguments.
    pub(super) fn launch_grid(&mut self, inst: Inst) -> Result<(), Error> {
        self.host(inst)?;
        let kernel = self.launched(inst, "kernel")?;
        let Some(grid) = kernel.grid else {
            return Err(self.error(inst, format!("`{}` does not run on a grid of threads", kernel.name)));
        };
        let operands = self.function.operands(inst);
        let mut arguments = operands.iter().map(|&operand| self.argument(inst, operand)).collect::<Result<Vec<_>, _>>()?;
        self.add_symbols(kernel, &mut arguments)?;
        let is_persistent = matches!(self.attr(inst, "persistent"), Some(Attr::Bool(true)));
        let flags = if is_persistent { u64::from(GRID_PERSISTENT) } else { 0 };
        let blocks = self.dim_value(self.dim_attr(inst, "blocks")?)?;
        let shared = self.bounded_value(self.dim_attr(inst, "shared")?)?;
        let scratch = self.bounded_value(self.dim_attr(inst, "scratch")?)?;
        // `threads` and `flags` are one word.
        let threads = self.emit.i64((flags << 32 | u64::from(grid.threads)) as i64).into();
        let mut words = vec![blocks, shared, scratch, threads];
        words.extend(&arguments);
        let address = self.write_words(&words)?;
        let own = self.emit.slot(address, GridLaunch::WORDS as i64)?;
        let number = grid_number(self.program, kernel);
        self.call_launch_grid(number, own, arguments.len(), address)
    }

    /// Lowers `fetch`: the addresses become the values in the words of the host program.
    pub(super) fn fetch(&mut self, inst: Inst) -> Result<(), Error> {
        self.host(inst)?;
        let addresses = self.operands(inst)?;
        let words = self.write_words(&addresses)?;
        let results = self.function.results_of(inst).to_vec();
        let sizes: Vec<i64> = results.iter().map(|&result| self.function.ty(result).dtype().size() as i64).collect();
        self.call_fetch(words, &sizes)?;
        for (slot, result) in (0..).zip(results) {
            let value = self.read_slot(words, slot, result)?;
            self.bind(result, value);
        }
        Ok(())
    }

    /// Lowers `aligned`.
    pub(super) fn aligned(&mut self, inst: Inst) -> Result<(), Error> {
        self.host(inst)?;
        let Some(bytes) = self.int(inst, "bytes") else { return Err(self.error(inst, "needs `bytes`".to_owned())) };
        let rest = self.address_rest(inst, bytes - 1)?;
        let holds = self.emit.icmp(IntPredicate::EQ, rest, self.emit.i64(0).into())?;
        self.define(inst, holds);
        Ok(())
    }

    /// Returns the bits below a mask that any of the operands' addresses has.
    fn address_rest(&mut self, inst: Inst, mask: i64) -> Result<Val<'c>, Error> {
        let i64t = self.emit.context.i64_type();
        let mut addresses: Val<'c> = self.emit.i64(0).into();
        for &buffer in self.function.operands(inst) {
            let address = self.emit.builder.build_ptr_to_int(self.value(buffer)?.into_pointer_value(), i64t, "")?;
            addresses = self.emit.or(addresses, address.into())?;
        }
        self.emit.and(addresses, self.emit.i64(mask).into())
    }

    /// Returns the kernel that an attribute of a launch names.
    pub(super) fn launched(&self, inst: Inst, attr: &str) -> Result<&'e Function, Error> {
        let kernel = match self.attr(inst, attr) {
            Some(Attr::Symbol(name)) => self.program.function(name).filter(|f| f.kind == FunctionKind::Kernel),
            _ => None,
        };
        kernel.ok_or_else(|| self.error(inst, "launches what is no kernel of the program".to_owned()))
    }

    /// Appends the sizes that a kernel takes after its arguments.
    fn add_symbols(&mut self, kernel: &Function, arguments: &mut Vec<Val<'c>>) -> Result<(), Error> {
        for symbol in self.program.symbols_of(kernel) {
            arguments.push(self.dim_value(&Dim::symbol(symbol))?);
        }
        Ok(())
    }

    /// Returns units, cost and scratch of a launch.
    fn work(&mut self, [units, cost, scratch]: [&Dim; 3]) -> Result<[Val<'c>; 3], Error> {
        Ok([self.dim_value(units)?, self.dim_value(cost)?, self.bounded_value(scratch)?])
    }

    /// Converts an argument of a launch to its slot.
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

    /// Lowers `assert` of a host program.
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
