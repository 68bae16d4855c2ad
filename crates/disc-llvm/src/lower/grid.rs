//! Lowers GPU kernels for NVIDIA's GPUs: parameters, places of threads, memory that they share, and
//! ops of threads together.
//!
//! Addresses are generic: code generation finds out that parameters are in global memory and
//! `shared` ops in that of the block. Barriers and shuffles are intrinsics, which no pass moves.
//! A failed assertion writes its site and values to the report that the launch names, if it is the
//! first one, and ends the thread.
//!
//! From `sm_90` on a kernel may be launched while the one before it still runs: it waits for that
//! one first of all, so that it reads and writes no memory before, whichever way it goes on.
//!
//! After the words of a launch a kernel has parameters that the device fills in: the address and
//! the bytes of each thread's memory if its threads have such memory ([`has_task_memory`]), and the
//! address of the report if something in it may fail ([`may_fail`]). So their number, 0 to 3, says
//! which ones a kernel has.
use super::Lowering;
use crate::{
    Error,
    emit::{Emit, Emitted, Val, int_bits, lanes_of},
};
use disc_codegen::target::Target;
use disc_ir::{Attr, DType, Dim, Function, Grid, Inst, Module, OpKind, Type, Value, fragment::Tile};
use inkwell::{
    AddressSpace, AtomicOrdering, AtomicRMWBinOp, IntPredicate,
    attributes::{Attribute, AttributeLoc},
    context::Context,
    module::Linkage,
    types::{BasicMetadataTypeEnum, BasicTypeEnum, FunctionType},
    values::{FunctionValue, GlobalValue, InstructionOpcode, PointerValue},
};

/// LLVM's number of the calling convention `ptx_kernel`.
const PTX_KERNEL: u32 = 71;
/// The first chip whose launches may overlap.
const OVERLAPS: u32 = 90;
const GLOBAL: u16 = 1;
const SHARED: u16 = 3;
/// All lanes of a warp.
const ALL: i64 = -1;
/// Alignment in bytes of each part of a block's memory.
const SHARED_ALIGN: i64 = 16;
/// The name of the memory of a block that the launch sizes.
const LAUNCH_SHARED: &str = "disc_shared";

impl<'c> Lowering<'_, 'c> {
    /// Waits until the launch before has ended and its results are in memory, where launches may
    /// overlap, and lets the next one begin to wait for this one. Launches that do not overlap
    /// have nothing to wait for.
    ///
    /// The two are in this order so that a launch waits beside one other at most: it takes room
    /// on the chip.
    pub(super) fn wait_for_launches(&self) -> Result<(), Error> {
        if matches!(self.emit.target, Target::Nvptx { sm, .. } if sm >= OVERLAPS) {
            self.emit.call_intrinsic("llvm.nvvm.griddepcontrol.wait", &[], &[])?;
            self.emit.call_intrinsic("llvm.nvvm.griddepcontrol.launch.dependents", &[], &[])?;
        }
        Ok(())
    }

    /// Binds the parameters of a GPU kernel and the values of the symbols. Each is eight bytes.
    pub(super) fn grid_parameters(&mut self) -> Result<(), Error> {
        let parameters = self.function.parameters().to_vec();
        let words: Vec<Val<'c>> = self.llvm.get_param_iter().collect();
        for (&parameter, &word) in parameters.iter().zip(&words) {
            let value = match self.function.ty(parameter) {
                Type::Buffer { .. } => word,
                Type::Vector { lanes: 1, dtype } => {
                    let bits = self.emit.resize(word, dtype.bits(), false)?;
                    self.emit.bitcast(bits, self.emit.ty(*dtype, 1))?
                }
                ty => return Err(Error::Emit(format!("kernel `{}` has a parameter of type {ty}", self.function.name))),
            };
            self.bind(parameter, value);
        }
        let symbols = self.program.symbols_of(self.function);
        self.symbols.extend(symbols.iter().cloned().zip(words[parameters.len()..].iter().copied()));
        let mut added = words[parameters.len() + symbols.len()..].iter().copied();
        if has_task_memory(self.function)
            && let (Some(base), Some(bytes)) = (added.next(), added.next())
        {
            let (block, thread) = (self.special("ctaid.x")?, self.special("tid.x")?);
            let threads = self.emit.const_int(32, 1, self.grid()?.threads.into());
            let wide = |value| self.emit.resize(value, 64, false);
            let number = self.emit.add(self.emit.mul(wide(block)?, wide(threads)?)?, wide(thread)?)?;
            let offset = self.emit.mul(number, bytes)?;
            let memory = self.emit.element_address(DType::U8, base.into_pointer_value(), offset)?.into_pointer_value();
            self.task_memory = Some(memory);
            self.scratch = Some(memory);
        }
        self.report = added.next().map(Val::into_pointer_value);
        Ok(())
    }

    /// Lowers an op that only threads of a grid have.
    pub(super) fn op_of_threads(&mut self, inst: Inst) -> Result<(), Error> {
        self.grid()?;
        match self.function.kind_of(inst) {
            OpKind::Atomic => self.atomic(inst),
            OpKind::Barrier => self.barrier(inst),
            OpKind::CommitCopies => self.commit_copies(),
            OpKind::CopyAsync => self.copy_async(inst),
            OpKind::LoadMatrix => self.load_matrix(inst),
            OpKind::MultiplyTiles => self.multiply_tiles(inst),
            OpKind::Place => self.place(inst),
            OpKind::ReduceGroup => self.reduce_group(inst),
            OpKind::Shared => self.shared(inst),
            OpKind::Shuffle => self.shuffle(inst),
            OpKind::Vote => self.vote(inst),
            OpKind::WaitCopies => self.wait_copies(inst),
            _ => self.overlap(inst),
        }
    }

    fn grid(&self) -> Result<Grid, Error> {
        self.function.grid.ok_or_else(|| Error::Emit(format!("`{}` does not run on a grid", self.function.name)))
    }

    fn special(&self, register: &str) -> Emitted<'c> {
        self.emit.target_intrinsic(&format!("llvm.nvvm.read.ptx.sreg.{register}"), &[])
    }

    fn place(&mut self, inst: Inst) -> Result<(), Error> {
        let warp = self.grid()?.warp;
        let by_warp = |this: &Self, of| {
            let thread = this.special("tid.x")?;
            match of {
                "warp" => this.emit.shift(InstructionOpcode::LShr, thread, warp.trailing_zeros()),
                _ => this.emit.and(thread, this.emit.const_int(32, 1, i64::from(warp) - 1)),
            }
        };
        let number = match self.word(inst, "of")? {
            "block" => self.special("ctaid.x")?,
            "grid" => self.special("nctaid.x")?,
            "thread" => self.special("tid.x")?,
            of => by_warp(self, of)?,
        };
        let bits = self.function.ty(self.function.result(inst)).dtype().bits();
        let number = self.emit.resize(number, bits, false)?;
        self.define(inst, number);
        Ok(())
    }

    /// Lowers `shared`: memory of its own, at a multiple of 16 bytes; if the launch sizes any of
    /// the kernel's, a part of what the launch gives the block.
    fn shared(&mut self, inst: Inst) -> Result<(), Error> {
        let address = match (self.is_sized_at_launch(), self.shared_bytes(inst).as_const()) {
            (false, Some(bytes)) => {
                let global = self.shared_global(&format!("{}_shared{}", self.function.name, inst.index()), bytes as u32);
                global.set_linkage(Linkage::Internal);
                global.set_initializer(&self.emit.context.i8_type().array_type(bytes as u32).get_undef());
                self.generic(global.as_pointer_value())?
            }
            _ => {
                let known = self.emit.module.get_global(LAUNCH_SHARED);
                let global = known.unwrap_or_else(|| self.shared_global(LAUNCH_SHARED, 0));
                let before = Dim::sum(self.shared_before(inst));
                let offset = self.dim_value(&before)?;
                let base = self.generic(global.as_pointer_value())?;
                self.emit.element_address(DType::U8, base.into_pointer_value(), offset)?
            }
        };
        self.define(inst, address);
        Ok(())
    }

    fn generic(&self, address: PointerValue<'c>) -> Emitted<'c> {
        Ok(self.emit.builder.build_address_space_cast(address, self.emit.pointer(), "")?.into())
    }

    fn shared_global(&self, name: &str, bytes: u32) -> GlobalValue<'c> {
        let ty = self.emit.context.i8_type().array_type(bytes);
        let global = self.emit.module.add_global(ty, Some(AddressSpace::from(SHARED)), name);
        global.set_alignment(SHARED_ALIGN as u32);
        global
    }

    fn shared_bytes(&self, inst: Inst) -> Dim {
        let tensor = self.function.ty(self.function.result(inst)).shaped().expect("shared memory is a buffer");
        tensor.element_count() * tensor.dtype.size() as i64
    }

    fn shared_ops(&self) -> impl Iterator<Item = Inst> {
        let body = self.function.insts(self.function.body).to_vec();
        body.into_iter().filter(|&inst| self.function.kind_of(inst) == OpKind::Shared)
    }

    fn is_sized_at_launch(&self) -> bool {
        self.shared_ops().any(|inst| self.shared_bytes(inst).as_const().is_none())
    }

    /// The bytes of the `shared` ops before one.
    fn shared_before(&self, inst: Inst) -> Vec<Dim> {
        let align = Dim::constant(SHARED_ALIGN);
        let before = self.shared_ops().take_while(|&other| other != inst);
        before.map(|other| self.shared_bytes(other).ceil_div(&align) * SHARED_ALIGN).collect()
    }

    fn barrier(&mut self, inst: Inst) -> Result<(), Error> {
        let c = |value| self.emit.const_int(32, 1, value);
        match self.word(inst, "scope")? {
            "block" => self.emit.call_intrinsic("llvm.nvvm.barrier.cta.sync.aligned.all", &[], &[c(0)])?,
            _ => self.emit.call_intrinsic("llvm.nvvm.bar.warp.sync", &[], &[c(ALL)])?,
        };
        Ok(())
    }

    fn shuffle(&mut self, inst: Inst) -> Result<(), Error> {
        let width = self.width(inst)?;
        let [value, by] = self.operands(inst)?[..] else { return Err(self.error(inst, "needs two operands".to_owned())) };
        let mode = match self.word(inst, "how")? {
            "xor" => "bfly",
            "index" => "idx",
            word => word,
        };
        let result = self.of_lane(value, mode, by, width)?;
        self.define(inst, result);
        Ok(())
    }

    fn width(&self, inst: Inst) -> Result<u32, Error> {
        let width = self.int(inst, "width").and_then(|width| u32::try_from(width).ok());
        width.filter(|&width| width <= 32).ok_or_else(|| self.error(inst, "needs a `width` of at most 32".to_owned()))
    }

    /// Reads the value of another lane, in words of 32 bits.
    fn of_lane(&self, value: Val<'c>, mode: &str, by: Val<'c>, width: u32) -> Emitted<'c> {
        let ty = value.get_type();
        if let Val::VectorValue(vector) = value {
            let mut moved = vector.get_type().get_poison();
            for lane in 0..lanes_of(value) {
                let at = self.emit.i64(lane.into());
                let one = self.emit.builder.build_extract_element(vector, at, "")?;
                let one = self.of_lane(one, mode, by, width)?;
                moved = self.emit.builder.build_insert_element(moved, one, at, "")?;
            }
            return Ok(moved.into());
        }
        let bits = match ty {
            BasicTypeEnum::FloatType(float) => float.get_bit_width(),
            _ => int_bits(value),
        };
        let whole = self.emit.bitcast(value, self.emit.int_ty(bits, 1))?;
        let result = if bits > 32 {
            let low = self.shuffled_word(self.emit.resize(whole, 32, false)?, mode, by, width)?;
            let high = self.emit.shift(InstructionOpcode::LShr, whole, 32)?;
            let high = self.shuffled_word(self.emit.resize(high, 32, false)?, mode, by, width)?;
            let high = self.emit.shift(InstructionOpcode::Shl, self.emit.resize(high, 64, false)?, 32)?;
            self.emit.or(high, self.emit.resize(low, 64, false)?)?
        } else {
            let word = self.shuffled_word(self.emit.resize(whole, 32, false)?, mode, by, width)?;
            self.emit.resize(word, bits, false)?
        };
        self.emit.bitcast(result, ty)
    }

    /// Segments end where their lanes' higher bits change: the last operand has the bits that stay,
    /// and the last lane of a segment.
    fn shuffled_word(&self, word: Val<'c>, mode: &str, by: Val<'c>, width: u32) -> Emitted<'c> {
        let last = if mode == "up" { 0 } else { 31 };
        let segment = i64::from(32 - width) << 8 | last;
        let c = |value| self.emit.const_int(32, 1, value);
        self.emit.target_intrinsic(&format!("llvm.nvvm.shfl.sync.{mode}.i32"), &[c(ALL), word, by, c(segment)])
    }

    /// Lowers `reduce_group`: a butterfly, in which the lane with the lower number is the left
    /// operand, so that all lanes get the same bits.
    fn reduce_group(&mut self, inst: Inst) -> Result<(), Error> {
        let (reducer, width) = (self.word(inst, "applies")?, self.width(inst)?);
        let operand = self.function.operands(inst)[0];
        let (dtype, lane) = (self.function.ty(operand).dtype(), self.special("laneid")?);
        let mut value = self.value(operand)?;
        let mut step = width / 2;
        while step > 0 {
            let by = self.emit.const_int(32, 1, step.into());
            let other = self.of_lane(value, "bfly", by, width)?;
            let bit = self.emit.and(lane, by)?;
            let is_left = self.emit.icmp(IntPredicate::EQ, bit, self.emit.const_int(32, 1, 0))?.into_int_value();
            let left = self.emit.builder.build_select(is_left, value, other, "")?;
            let right = self.emit.builder.build_select(is_left, other, value, "")?;
            // The order shows only in the sign of zeros and in NaN.
            let (left, right) = if matches!(reducer, "maximum" | "minimum") { (left, right) } else { (value, other) };
            let combined = self.emit.combine(reducer, dtype, left, right)?;
            value = combined.ok_or_else(|| self.error(inst, format!("cannot apply `{reducer}` to {dtype}")))?;
            step /= 2;
        }
        self.define(inst, value);
        Ok(())
    }

    fn vote(&mut self, inst: Inst) -> Result<(), Error> {
        let pred = self.value(self.function.operands(inst)[0])?;
        let all = self.emit.const_int(32, 1, ALL);
        let answer = match self.word(inst, "how")? {
            "any" => self.emit.target_intrinsic("llvm.nvvm.vote.any.sync", &[all, pred])?,
            "all" => self.emit.target_intrinsic("llvm.nvvm.vote.all.sync", &[all, pred])?,
            _ => {
                let lanes = self.emit.target_intrinsic("llvm.nvvm.vote.ballot.sync", &[all, pred])?;
                self.emit.intrinsic("llvm.ctpop", &[lanes])?
            }
        };
        self.define(inst, answer);
        Ok(())
    }

    fn atomic(&mut self, inst: Inst) -> Result<(), Error> {
        let operands = self.function.operands(inst).to_vec();
        let dtype = self.function.ty(operands[0]).dtype();
        let at = self.address(operands[0], operands[1])?.into_pointer_value();
        let value = self.value(operands[2])?.into_int_value();
        let signed = dtype.is_signed_integer();
        let op = match self.word(inst, "how")? {
            "compare" => {
                let expected = self.value(operands[3])?.into_int_value();
                let (order, builder) = (AtomicOrdering::Monotonic, &self.emit.builder);
                let pair = builder.build_cmpxchg(at, expected, value, order, order)?;
                let old = builder.build_extract_value(pair, 0, "")?;
                self.define(inst, old);
                return Ok(());
            }
            "add" => AtomicRMWBinOp::Add,
            "max" if signed => AtomicRMWBinOp::Max,
            "max" => AtomicRMWBinOp::UMax,
            "min" if signed => AtomicRMWBinOp::Min,
            "min" => AtomicRMWBinOp::UMin,
            _ => AtomicRMWBinOp::Xchg,
        };
        let old = self.emit.builder.build_atomicrmw(op, at, value, AtomicOrdering::Monotonic)?;
        self.define(inst, old.into());
        Ok(())
    }

    fn in_space(&self, address: Val<'c>, space: u16) -> Emitted<'c> {
        let ty = self.emit.context.ptr_type(AddressSpace::from(space));
        Ok(self.emit.builder.build_address_space_cast(address.into_pointer_value(), ty, "")?.into())
    }

    fn copy_async(&mut self, inst: Inst) -> Result<(), Error> {
        let operands = self.function.operands(inst).to_vec();
        let elements = self.int(inst, "elements").unwrap_or(1);
        let dtype = self.function.ty(operands[0]).dtype();
        let bytes = elements * dtype.size() as i64;
        let (to, from) = (self.address(operands[0], operands[1])?, self.address(operands[2], operands[3])?);
        // Addresses of 16 bytes are not kept in the first cache: each is read once.
        let policy = if bytes == 16 { "cg" } else { "ca" };
        let (to, from) = (self.in_space(to, SHARED)?, self.in_space(from, GLOBAL)?);
        let name = format!("llvm.nvvm.cp.async.{policy}.shared.global.{bytes}");
        let Some(&exists) = operands.get(4) else { return self.emit.call_intrinsic(&name, &[], &[to, from]).map(drop) };
        // After the bytes that are read are zeros.
        let (all, none) = (self.emit.const_int(32, 1, bytes), self.emit.const_int(32, 1, 0));
        let exists = self.value(exists)?.into_int_value();
        let read = self.emit.builder.build_select(exists, all, none, "")?;
        self.emit.call_intrinsic(&format!("{name}.s"), &[], &[to, from, read]).map(drop)
    }

    fn commit_copies(&mut self) -> Result<(), Error> {
        self.emit.call_intrinsic("llvm.nvvm.cp.async.commit.group", &[], &[]).map(drop)
    }

    fn wait_copies(&mut self, inst: Inst) -> Result<(), Error> {
        let left = self.emit.const_int(32, 1, self.int(inst, "left").unwrap_or(0));
        self.emit.call_intrinsic("llvm.nvvm.cp.async.wait.group", &[], &[left]).map(drop)
    }

    fn load_matrix(&mut self, inst: Inst) -> Result<(), Error> {
        let operands = self.function.operands(inst).to_vec();
        let (dtype, lanes) = self.vector_type(self.function.result(inst))?;
        let words = lanes as usize * dtype.size() / 4;
        let transposed = matches!(self.attr(inst, "transposed"), Some(Attr::Bool(true)));
        let at = self.address(operands[0], operands[1])?;
        let at = self.in_space(at, SHARED)?;
        let name = format!("llvm.nvvm.ldmatrix.sync.aligned.m8n8.x{words}{}.b16", if transposed { ".trans" } else { "" });
        let call = self.emit.call_intrinsic(&name, &[at.get_type()], &[at])?;
        let words = self.parts(call.try_as_basic_value().expect_basic("a matrix"))?;
        let matrix = self.emit.bitcast(self.joined(&words)?, self.emit.ty(dtype, lanes))?;
        self.define(inst, matrix);
        Ok(())
    }

    /// Returns the members of a structure, or the one value.
    fn parts(&self, value: Val<'c>) -> Result<Vec<Val<'c>>, Error> {
        let Val::StructValue(all) = value else { return Ok(vec![value]) };
        let count = all.get_type().count_fields();
        (0..count).map(|member| Ok(self.emit.builder.build_extract_value(all, member, "")?)).collect()
    }

    /// Joins scalars to a vector.
    fn joined(&self, parts: &[Val<'c>]) -> Emitted<'c> {
        if let [one] = parts {
            return Ok(*one);
        }
        let mut all = self.emit.splat(parts[0], parts.len() as u32)?.into_vector_value();
        for (lane, &part) in parts.iter().enumerate().skip(1) {
            all = self.emit.builder.build_insert_element(all, part, self.emit.i64(lane as i64), "")?;
        }
        Ok(all.into())
    }

    /// Splits an operand of a matmul of tiles into the registers that the instruction takes.
    fn registers(&self, value: Val<'c>, count: u32, of: BasicTypeEnum<'c>) -> Result<Vec<Val<'c>>, Error> {
        let whole = self.emit.bitcast(value, self.emit.int_ty(32, count))?;
        (0..count)
            .map(|at| {
                let word = match whole {
                    Val::VectorValue(words) => self.emit.builder.build_extract_element(words, self.emit.i64(at.into()), "")?,
                    word => word,
                };
                self.emit.bitcast(word, of)
            })
            .collect()
    }

    fn multiply_tiles(&mut self, inst: Inst) -> Result<(), Error> {
        let operands = self.function.operands(inst).to_vec();
        let word = self.word(inst, "tile")?;
        let types = [operands[0], operands[1]].map(|operand| self.function.ty(operand).dtype());
        let i32t = self.emit.int_ty(32, 1);
        let halves: BasicTypeEnum<'c> = self.emit.context.f16_type().vec_type(2).into();
        let f32t = self.emit.ty(DType::F32, 1);
        let is_first = matches!(self.emit.target, disc_codegen::target::Target::Nvptx { sm, .. } if sm < 80);
        if is_first && word == Tile::M16N8K16.name() && types[0] == DType::F16 {
            return self.multiply_half_by_half(inst, halves);
        }
        let (name, [a, b], of, sums) = match (Tile::from_name(word), types) {
            (Some(Tile::M16N8K8), _) => ("m16n8k8.row.col.tf32".to_owned(), [4, 2], i32t, f32t),
            (Some(Tile::M16N8K16), [DType::F16, _]) => ("m16n8k16.row.col.f32.f32".to_owned(), [4, 2], halves, f32t),
            (Some(Tile::M16N8K16), _) => ("m16n8k16.row.col.bf16".to_owned(), [4, 2], i32t, f32t),
            (Some(Tile::M16N8K32), types) => {
                let [a, b] = types.map(|ty| if ty == DType::I8 { "s8" } else { "u8" });
                let name = if a == b { format!("m16n8k32.row.col.{a}") } else { format!("m16n8k32.row.col.{a}.{b}") };
                (name, [4, 2], i32t, i32t)
            }
            _ => return Err(self.error(inst, format!("has the tile {word}, which is none of this target"))),
        };
        let mut arguments = self.registers(self.value(operands[0])?, a, of)?;
        arguments.extend(self.registers(self.value(operands[1])?, b, of)?);
        arguments.extend(self.registers(self.value(operands[2])?, 4, sums)?);
        let call = self.emit.call_intrinsic(&format!("llvm.nvvm.mma.{name}"), &[], &arguments)?;
        let results = self.parts(call.try_as_basic_value().expect_basic("a tile"))?;
        let tile = self.joined(&results)?;
        self.define(inst, tile);
        Ok(())
    }

    /// Lowers a product of f16 for sm_75, whose instruction has half of the terms: two of them.
    fn multiply_half_by_half(&mut self, inst: Inst, halves: BasicTypeEnum<'c>) -> Result<(), Error> {
        let operands = self.function.operands(inst).to_vec();
        let a = self.registers(self.value(operands[0])?, 4, halves)?;
        let b = self.registers(self.value(operands[1])?, 2, halves)?;
        let mut sums = self.registers(self.value(operands[2])?, 4, self.emit.ty(DType::F32, 1))?;
        for (a, &b) in a.chunks(2).zip(&b) {
            let arguments = [a, &[b], &sums].concat();
            let call = self.emit.call_intrinsic("llvm.nvvm.mma.m16n8k8.row.col.f32.f32", &[], &arguments)?;
            sums = self.parts(call.try_as_basic_value().expect_basic("a tile"))?;
        }
        let tile = self.joined(&sums)?;
        self.define(inst, tile);
        Ok(())
    }

    /// Lowers `wait_grid` and `release_grid`, which older chips do not have: there a launch begins
    /// when the one before has ended.
    fn overlap(&mut self, inst: Inst) -> Result<(), Error> {
        let name = match self.function.kind_of(inst) {
            OpKind::WaitGrid => "llvm.nvvm.griddepcontrol.wait",
            _ => "llvm.nvvm.griddepcontrol.launch.dependents",
        };
        if matches!(self.emit.target, disc_codegen::target::Target::Nvptx { sm, .. } if sm >= 90) {
            self.emit.call_intrinsic(name, &[], &[])?;
        }
        Ok(())
    }

    /// Reports a failure if no thread has yet, and ends this one. The builder stays in a block that
    /// nothing reaches.
    pub(super) fn report(&mut self, site: Val<'c>, values: &[Val<'c>]) -> Result<(), Error> {
        let emit = self.emit;
        let words = self.report.ok_or_else(|| Error::Emit(format!("`{}` has no report", self.function.name)))?;
        let zero = emit.i64(0);
        let site = emit.resize(site, 64, false)?.into_int_value();
        let order = AtomicOrdering::Monotonic;
        let pair = emit.builder.build_cmpxchg(words, zero, site, order, order)?;
        let is_first = emit.builder.build_extract_value(pair, 1, "")?.into_int_value();
        let [first, end] = [self.append_block(), self.append_block()];
        emit.builder.build_conditional_branch(is_first, first, end)?;
        emit.builder.position_at_end(first);
        for (slot, &value) in (1..).zip(values) {
            emit.builder.build_store(emit.slot(words, slot)?, value)?;
        }
        emit.builder.build_unconditional_branch(end)?;
        emit.builder.position_at_end(end);
        emit.call_intrinsic("llvm.nvvm.exit", &[], &[])?;
        Ok(())
    }
}

/// Returns true if the threads of a kernel have memory of their own. Two more parameters describe
/// it: its address, and its bytes for each thread.
fn has_task_memory(function: &Function) -> bool {
    let body = function.walk(function.body);
    body.into_iter().any(|inst| matches!(function.kind_of(inst), OpKind::Scratch | OpKind::Call))
}

/// Returns true if a kernel may report a failure: of an assertion, or of a routine.
fn may_fail(function: &Function) -> bool {
    let body = function.walk(function.body);
    body.into_iter().any(|inst| matches!(function.kind_of(inst), OpKind::Assert | OpKind::Call))
}

/// Returns the type of a GPU kernel: its words, of eight bytes each, and the parameters that the
/// device fills in.
pub(super) fn grid_type<'c>(emit: &Emit<'c>, program: &Module, function: &Function) -> FunctionType<'c> {
    let word = |parameter: &Value| -> BasicMetadataTypeEnum<'c> {
        match function.ty(*parameter) {
            Type::Buffer { .. } => emit.pointer().into(),
            _ => emit.context.i64_type().into(),
        }
    };
    let mut types: Vec<_> = function.parameters().iter().map(word).collect();
    types.extend(program.symbols_of(function).iter().map(|_| BasicMetadataTypeEnum::from(emit.context.i64_type())));
    if has_task_memory(function) {
        types.extend([BasicMetadataTypeEnum::from(emit.pointer()), emit.context.i64_type().into()]);
    }
    if may_fail(function) {
        types.push(emit.pointer().into());
    }
    emit.context.void_type().fn_type(&types, false)
}

/// Marks a kernel, whose blocks have so many threads, as one that a driver launches. Its threads do
/// ops together, which no pass may put under conditions.
pub(super) fn mark_kernel(context: &Context, function: FunctionValue<'_>, grid: Grid) {
    function.set_call_conventions(PTX_KERNEL);
    let convergent = context.create_enum_attribute(Attribute::get_named_enum_kind_id("convergent"), 0);
    function.add_attribute(AttributeLoc::Function, convergent);
    let threads = context.create_string_attribute("nvvm.reqntid", &grid.threads.to_string());
    function.add_attribute(AttributeLoc::Function, threads);
    if let Some(resident) = grid.resident {
        let blocks = context.create_string_attribute("nvvm.minctasm", &resident.to_string());
        function.add_attribute(AttributeLoc::Function, blocks);
    }
}
