//! Lowers kernels and host programs to LLVM IR: one function at a time, one file per family of ops.
//!
//! It decides nothing: loops, vectors and math functions are explicit in the input. An op that is
//! not legal at this stage is an error that names it. Invariants: every value is lowered once,
//! before its uses; docs/kernels.md fixes the arguments of kernels and routines.
mod arm;
mod bind;
mod bounded;
mod control;
mod convert;
mod dots;
mod elementwise;
mod entry;
mod grid;
mod host;
mod integer;
mod kernel;
mod library;
mod movement;
mod pick;
mod runtime;
mod scale;
mod strided;
mod stub;
mod tiles;
mod transpose;

pub use entry::entry_symbol;
pub(crate) use entry::lower_entry;
pub(crate) use stub::{lower_stubs, lower_table};

use crate::{
    Error,
    emit::{Emit, Val},
    function::mark,
};
use disc_codegen::host::signature::BoundCheck;
use disc_ir::{Attr, Block, DType, Dim, Function, FunctionKind, Inst, Module, OpKind, Symbol, Type, Value, math_function};
use inkwell::{
    module::Linkage,
    types::BasicMetadataTypeEnum,
    values::{BasicMetadataValueEnum, FunctionValue, PointerValue},
};
use std::collections::HashMap;

/// The state of lowering one function.
pub(crate) struct Lowering<'e, 'c> {
    emit: &'e Emit<'c>,
    program: &'e Module,
    function: &'e Function,
    llvm: FunctionValue<'c>,
    values: Vec<Option<Val<'c>>>,
    symbols: HashMap<Symbol, Val<'c>>,
    /// The task's memory.
    task_memory: Option<PointerValue<'c>>,
    /// Start of the next `scratch` op's part.
    scratch: Option<PointerValue<'c>>,
    /// Words that a failed assertion of a GPU kernel writes: its site, then its values.
    report: Option<PointerValue<'c>>,
    /// State of a host program, which has no task's memory.
    host: Option<runtime::Host<'c>>,
    /// Scopes in which a host program computes dims, the innermost last.
    scopes: Vec<bind::Scope<'c>>,
    /// Checks at the ops of a host program that bind dims.
    bound: &'e [BoundCheck],
    /// Masks spread to strided lanes (lanes between them are off), by mask and stride.
    spread_masks: Vec<(Val<'c>, u32, Val<'c>)>,
}

fn callee(function: &Function, inst: Inst) -> Option<&str> {
    match &function.inst(inst).attrs[..] {
        [Some(Attr::Symbol(name)), ..] => Some(name),
        _ => None,
    }
}

/// Lowers a kernel or routine of `program` into the module of `emit`.
pub(crate) fn lower<'c>(emit: &Emit<'c>, program: &Module, function: &Function) -> Result<(), Error> {
    let llvm = declare(emit, program, function)?;
    let body = emit.context.append_basic_block(llvm, "");
    emit.builder.position_at_end(body);
    let mut lowering = Lowering::new(emit, program, function, llvm);
    match function.kind {
        FunctionKind::Kernel if function.grid.is_some() => {
            lowering.wait_for_launches()?;
            lowering.grid_parameters()?;
            lowering.lower_block(function.body)?;
            emit.builder.build_return(None)?;
            return Ok(());
        }
        FunctionKind::Kernel => lowering.kernel_parameters()?,
        FunctionKind::Routine => lowering.routine_parameters(),
        FunctionKind::Func | FunctionKind::Host => return Err(Error::Emit(format!("`{}` is no kernel", function.name))),
    }
    lowering.lower_block(function.body)?;
    lowering.fence_nontemporal()?;
    emit.builder.build_return(Some(&emit.context.i32_type().const_zero()))?;
    Ok(())
}

/// Declares the LLVM function of a kernel or routine, which other modules of the same library may
/// call. A kernel is exported, for profiles find its name by its address; protected, a reference to
/// it needs no table. Of two visibilities the linker takes the narrower one, so that references
/// have it too.
fn declare<'c>(emit: &Emit<'c>, program: &Module, function: &Function) -> Result<FunctionValue<'c>, Error> {
    if let Some(found) = emit.module.get_function(&function.name) {
        return Ok(found);
    }
    if let Some(grid) = function.grid {
        let llvm = emit.module.add_function(&function.name, grid::grid_type(emit, program, function), Some(Linkage::External));
        mark(emit.context, llvm, &emit.target);
        grid::mark_kernel(emit.context, llvm, grid);
        return Ok(llvm);
    }
    let (ptr, i64t) = (emit.pointer(), emit.context.i64_type());
    let ty = match function.kind {
        FunctionKind::Kernel => emit.context.i32_type().fn_type(&[ptr.into(), i64t.into(), i64t.into(), ptr.into()], false),
        _ => {
            let mut types: Vec<BasicMetadataTypeEnum<'c>> = Vec::new();
            for &parameter in function.parameters() {
                types.push(match function.ty(parameter) {
                    Type::Buffer { .. } => ptr.into(),
                    Type::Vector { lanes, dtype } => emit.ty(*dtype, *lanes).into(),
                    Type::Tensor(ty) => return Err(Error::Emit(format!("`{}` takes a tensor<{ty}>", function.name))),
                });
            }
            types.extend(program.symbols_of(function).iter().map(|_| BasicMetadataTypeEnum::from(i64t)));
            types.push(ptr.into());
            emit.context.i32_type().fn_type(&types, false)
        }
    };
    let llvm = emit.module.add_function(&function.name, ty, Some(Linkage::External));
    let is_kernel = function.kind == FunctionKind::Kernel;
    let visibility = if is_kernel { inkwell::GlobalVisibility::Protected } else { inkwell::GlobalVisibility::Hidden };
    llvm.as_global_value().set_visibility(visibility);
    mark(emit.context, llvm, &emit.target);
    Ok(llvm)
}

impl<'e, 'c> Lowering<'e, 'c> {
    fn new(emit: &'e Emit<'c>, program: &'e Module, function: &'e Function, llvm: FunctionValue<'c>) -> Self {
        Self {
            emit,
            program,
            function,
            llvm,
            values: vec![None; function.value_count()],
            symbols: HashMap::new(),
            task_memory: None,
            scratch: None,
            report: None,
            host: None,
            scopes: vec![bind::Scope::default()],
            bound: &[],
            spread_masks: Vec::new(),
        }
    }

    /// Reads the argument block of a launch: eight bytes each for the parameters, then for the
    /// symbols. The last two parameters of a kernel are the range of its work units.
    fn kernel_parameters(&mut self) -> Result<(), Error> {
        let argument = |i| self.llvm.get_nth_param(i).expect("a kernel has four parameters");
        let block = argument(0).into_pointer_value();
        let (begin, end) = (argument(1), argument(2));
        let memory = argument(3).into_pointer_value();
        let parameters = self.function.parameters();
        let [ref operands @ .., first, last] = *parameters else {
            return Err(Error::Emit(format!("kernel `{}` has no range of work units", self.function.name)));
        };
        for (slot, &parameter) in (0..).zip(operands) {
            let value = self.read_slot(block, slot, parameter)?;
            self.bind(parameter, value);
        }
        self.bind(first, begin);
        self.bind(last, end);
        for (slot, symbol) in (operands.len() as i64..).zip(self.program.symbols_of(self.function)) {
            let at = self.emit.slot(block, slot)?;
            let value = self.emit.builder.build_load(self.emit.context.i64_type(), at, "")?;
            self.symbols.insert(symbol, value);
        }
        self.task_memory = Some(memory);
        self.scratch = Some(memory);
        Ok(())
    }

    fn read_slot(&self, block: PointerValue<'c>, slot: i64, parameter: Value) -> Result<Val<'c>, Error> {
        let at = self.emit.slot(block, slot)?;
        Ok(match self.function.ty(parameter) {
            Type::Buffer { .. } => self.emit.builder.build_load(self.emit.pointer(), at, "")?,
            Type::Vector { lanes: 1, dtype: DType::I1 } => {
                let byte = self.emit.builder.build_load(self.emit.context.i8_type(), at, "")?;
                self.emit.icmp(inkwell::IntPredicate::NE, byte, self.emit.const_int(8, 1, 0))?
            }
            Type::Vector { lanes: 1, dtype } => self.emit.builder.build_load(self.emit.ty(*dtype, 1), at, "")?,
            ty => return Err(Error::Emit(format!("kernel `{}` has a parameter of type {ty}", self.function.name))),
        })
    }

    /// Binds the parameters, the values of the symbols, and the task's memory.
    fn routine_parameters(&mut self) {
        let parameters = self.function.parameters().to_vec();
        let values: Vec<Val<'c>> = self.llvm.get_param_iter().collect();
        for (&parameter, &value) in parameters.iter().zip(&values) {
            self.bind(parameter, value);
        }
        let symbols = self.program.symbols_of(self.function);
        self.symbols.extend(symbols.into_iter().zip(values[parameters.len()..].iter().copied()));
        self.task_memory = values.last().map(|memory| memory.into_pointer_value());
    }

    fn call(&mut self, inst: Inst) -> Result<(), Error> {
        let routine = callee(self.function, inst).and_then(|name| self.program.function(name));
        let Some(routine) = routine.filter(|f| f.kind == FunctionKind::Routine) else {
            return Err(self.error(inst, "calls what is no routine of the program".to_owned()));
        };
        let function = declare(self.emit, self.program, routine)?;
        let mut arguments: Vec<BasicMetadataValueEnum<'c>> = self.operands(inst)?.into_iter().map(Into::into).collect();
        for symbol in self.program.symbols_of(routine) {
            arguments.push(self.dim_value(&Dim::symbol(symbol))?.into());
        }
        let memory = self.task_memory.ok_or_else(|| self.error(inst, "is legal in kernels and routines alone".to_owned()))?;
        arguments.push(memory.into());
        let call = self.emit.builder.build_call(function, &arguments, "")?;
        self.return_failure(call.try_as_basic_value().expect_basic("a routine returns a status"))
    }

    /// Lowers the ops of a block. Returns the values that the block returns.
    fn lower_block(&mut self, block: Block) -> Result<Vec<Val<'c>>, Error> {
        let function = self.function;
        let Some(end) = function.terminator(block) else {
            return Err(Error::Emit(format!("a block of `{}` does not end in `return`", function.name)));
        };
        for &inst in function.insts(block).iter().filter(|&&inst| inst != end) {
            self.op(inst).map_err(|error| error.in_op(&function.name, function.kind_of(inst).name()))?;
        }
        self.operands(end)
    }

    fn op(&mut self, inst: Inst) -> Result<(), Error> {
        use OpKind::*;
        match self.function.kind_of(inst) {
            Abs | Add | And | Ceil | Clamp | CountLeadingZeros | Divide | Floor | Fma | Maximum | Minimum | Multiply | Negate
            | Not | Or | Popcnt | Remainder | RoundNearestAfz | RoundNearestEven | ScaleByPower | ShiftLeft
            | ShiftRightArithmetic | ShiftRightLogical | Sign | Sqrt | Rsqrt | Subtract | Xor => self.arithmetic(inst),
            Power => self.power(inst),
            IsFinite | IsInf | IsNan => self.predicate(inst),
            Compare => self.compare(inst),
            Select => self.select(inst),
            Convert => self.convert(inst),
            BitcastConvert => self.bitcast(inst),
            Constant => self.constant(inst),
            DimValue => self.dim(inst),
            For => self.for_(inst),
            If => self.if_(inst),
            While => self.while_(inst),
            Call => self.call(inst),
            Assert if self.host.is_some() => self.check(inst),
            Assert => self.assert(inst),
            Alloc => self.alloc(inst),
            AllocOutput => self.alloc_output(inst),
            Arena => self.arena(inst),
            Launch => self.launch(inst),
            BindDim => self.bind_dim(inst),
            LayoutArena => self.layout_arena(inst),
            Mark => self.mark(inst),
            Release => self.release(inst),
            Weight => self.weight(inst),
            DotLanes => self.dot_lanes(inst),
            DotPairs => self.dot_pairs(inst),
            ExtractLane => self.extract_lane(inst),
            LaneMask => self.lane_mask(inst),
            Lanes => self.lanes(inst),
            Load => self.load(inst),
            LoadTile => self.load_tile(inst),
            MultiplyTiles if self.function.grid.is_none() => self.multiply_registers(inst),
            Prefetch => self.prefetch(inst),
            RecastLanes => self.recast_lanes(inst),
            ReduceLanes => self.reduce_lanes(inst),
            Scratch => self.scratch(inst),
            Splat => self.splat(inst),
            Nontemporal => self.nontemporal(inst),
            Store => self.store(inst),
            StoreTile => self.store_tile(inst),
            PickLanes => self.pick_lanes(inst),
            TransposeLanes => self.transpose_lanes(inst),
            UnzipLanes => self.unzip_lanes(inst),
            ZipLanes => self.zip_lanes(inst),
            View => self.view(inst),
            Aligned => self.aligned(inst),
            Fetch => self.fetch(inst),
            LaunchGrid => self.launch_grid(inst),
            LibraryConvolution => self.library_convolution(inst),
            LibraryGemm => self.library_gemm(inst),
            Atomic | Barrier | CommitCopies | CopyAsync | LoadMatrix | MultiplyTiles | Place | ReduceGroup | ReleaseGrid
            | Shared | Shuffle | Vote | WaitCopies | WaitGrid => self.op_of_threads(inst),
            math_function!() | NextAfter => Err(self.error(inst, "must be expanded to arithmetic before".to_owned())),
            BroadcastInDim | Concatenate | Convolution | Cumulative | DotGeneral | DynamicSlice | DynamicUpdateSlice | Fusion
            | Gather | GetDimensionSize | Iota | Nonzero | Pad | Im2col | Reduce | ReduceWindow | Reshape | Reverse
            | RngBitGenerator | Scatter | Slice | Sort | TopK | Transpose | UnpackInt4 | Winograd => {
                Err(self.error(inst, "works on tensors, which no kernel has".to_owned()))
            }
            Return => Err(self.error(inst, "does not end its block".to_owned())),
        }
    }

    fn bind(&mut self, value: Value, lowered: Val<'c>) {
        self.values[value.index()] = Some(lowered);
    }

    /// Binds the one result of an op.
    fn define(&mut self, inst: Inst, lowered: Val<'c>) {
        self.bind(self.function.result(inst), lowered);
    }

    fn value(&self, value: Value) -> Result<Val<'c>, Error> {
        self.values[value.index()].ok_or_else(|| Error::Emit("a value is used before it is defined".to_owned()))
    }

    fn operands(&self, inst: Inst) -> Result<Vec<Val<'c>>, Error> {
        self.function.operands(inst).iter().map(|&operand| self.value(operand)).collect()
    }

    fn vector_type(&self, value: Value) -> Result<(DType, u32), Error> {
        match self.function.ty(value) {
            Type::Vector { lanes, dtype } => Ok((*dtype, *lanes)),
            ty => Err(Error::Emit(format!("a value has type {ty}, expected a vector"))),
        }
    }

    fn attr(&self, inst: Inst, name: &str) -> Option<&'e Attr> {
        let position = self.function.def(inst).attr_position(name)?;
        self.function.inst(inst).attrs[position].as_ref()
    }

    fn int(&self, inst: Inst, name: &str) -> Option<i64> {
        match self.attr(inst, name) {
            Some(Attr::Int(value)) => Some(*value),
            _ => None,
        }
    }

    fn dim_attr(&self, inst: Inst, name: &str) -> Result<&'e Dim, Error> {
        match self.attr(inst, name) {
            Some(Attr::Dim(dim)) => Ok(dim),
            _ => Err(self.error(inst, format!("needs the dim `{name}`"))),
        }
    }

    fn word(&self, inst: Inst, name: &str) -> Result<&'static str, Error> {
        match self.attr(inst, name) {
            Some(Attr::Enum(word)) => Ok(word),
            _ => Err(self.error(inst, format!("needs the attribute `{name}`"))),
        }
    }

    fn error(&self, inst: Inst, message: String) -> Error {
        Error::Emit(message).in_op(&self.function.name, self.function.kind_of(inst).name())
    }
}
