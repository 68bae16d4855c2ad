//! Compiles kernels of the IR to bytecode: one file for control flow, one for memory and the ops
//! of groups, one for arithmetic.
mod control;
mod element;
mod group;
mod inline;
mod registers;
mod varying;

use crate::program::{Buffer, BufferId, Code, Op, Program, Reg, Step};
use disc_ir::{Attr, Block, DType, Dim, Function, Inst, Module, OpKind, Space, TensorType, Type, Value};
use registers::Registers;
use std::{collections::HashMap, sync::Arc};

/// Compiles a GPU kernel of a module that was parsed from `text`.
///
/// # Errors
/// An op that GPU kernels do not have.
pub(crate) fn compile(module: &Module, kernel: &Function, text: &str) -> Result<Program, String> {
    let Some(grid) = kernel.grid else { return Err(format!("@{} does not run on a grid of threads", kernel.name)) };
    let function = inline::inlined(module, kernel)?;
    let mut compiler = Compiler {
        varying: varying::varying(&function),
        function: &function,
        text,
        registers: Registers::default(),
        values: HashMap::new(),
        expanded: vec![HashMap::new()],
        kept: HashMap::new(),
        codes: vec![Code::new()],
        line: 0,
        lines: Vec::new(),
        parameters: Vec::new(),
        constants: Vec::new(),
        dims: Vec::new(),
        places: Vec::new(),
        buffers: Vec::new(),
        memory: Vec::new(),
        planes: Vec::new(),
    };
    compiler.bind_parameters()?;
    compiler.block(function.body)?;
    let (registers, register_bytes) = compiler.registers.placed(grid.threads);
    Ok(Program {
        name: kernel.name.clone(),
        threads: grid.threads,
        warp: grid.warp,
        registers,
        register_bytes,
        parameters: compiler.parameters,
        symbols: module.symbols_of(kernel),
        constants: compiler.constants,
        dims: compiler.dims,
        places: compiler.places,
        planes: compiler.planes,
        buffers: compiler.buffers,
        memory: compiler.memory,
        body: compiler.codes.pop().unwrap_or_default(),
        lines: compiler.lines,
    })
}

/// The register of a value, and the buffer if it is an address.
#[derive(Clone, Copy, Debug)]
struct Bound {
    register: Reg,
    buffer: Option<BufferId>,
}

struct Compiler<'f> {
    function: &'f Function,
    text: &'f str,
    varying: Vec<bool>,
    registers: Registers,
    values: HashMap<Value, Bound>,
    /// Planes of registers of the block, of each open region.
    expanded: Vec<HashMap<Reg, Reg>>,
    /// Planes of registers that are kept.
    kept: HashMap<Reg, Reg>,
    /// The steps of each open region.
    codes: Vec<Code>,
    /// The line of the op that is compiled.
    line: u32,
    lines: Vec<Box<str>>,
    parameters: Vec<Reg>,
    constants: Vec<(Reg, Box<[u8]>)>,
    dims: Vec<(Reg, Dim)>,
    places: Vec<(Reg, crate::program::Place)>,
    planes: Vec<(Reg, Reg)>,
    buffers: Vec<Buffer>,
    memory: Vec<(Reg, BufferId)>,
}

type Done = Result<(), String>;

impl<'f> Compiler<'f> {
    fn bind_parameters(&mut self) -> Done {
        let function = self.function;
        for (number, &parameter) in (0..).zip(function.parameters()) {
            let bound = match function.ty(parameter) {
                Type::Buffer { tensor, space } => {
                    let name = function.name_of(parameter).cloned().unwrap_or_else(|| format!("{number}").into());
                    let buffer = self.buffer(name, *space, tensor, Some(number));
                    Bound { register: self.registers.keep(DType::U64, 1, false), buffer: Some(buffer) }
                }
                Type::Vector { lanes: 1, dtype } => Bound { register: self.registers.keep(*dtype, 1, false), buffer: None },
                ty => return Err(format!("@{} has a parameter of type {ty}", function.name)),
            };
            self.parameters.push(bound.register);
            self.values.insert(parameter, bound);
        }
        Ok(())
    }

    fn buffer(&mut self, name: Arc<str>, space: Space, tensor: &TensorType, parameter: Option<u32>) -> BufferId {
        self.buffers.push(Buffer { name, space, dtype: tensor.dtype, dims: tensor.dims.clone(), parameter });
        self.buffers.len() as BufferId - 1
    }

    /// Compiles the ops of a block to the open region. Returns the values that it returns.
    fn block(&mut self, block: Block) -> Result<&'f [Value], String> {
        let function = self.function;
        for &inst in function.insts(block) {
            if function.kind_of(inst) == OpKind::Return {
                return Ok(function.operands(inst));
            }
            self.inst(inst).map_err(|message| format!("@{}: `{}` {message}", function.name, function.kind_of(inst).name()))?;
        }
        Ok(&[])
    }

    /// Compiles a region. Returns its steps.
    fn region(&mut self, region: impl FnOnce(&mut Self) -> Done) -> Result<Code, String> {
        self.codes.push(Code::new());
        self.expanded.push(HashMap::new());
        let result = region(self);
        self.expanded.pop();
        let code = self.codes.pop().unwrap_or_default();
        result.map(|()| code)
    }

    fn emit(&mut self, op: Op, work: u32) {
        let line = self.line;
        self.codes.last_mut().expect("a region is open").push(Step { op, line, work });
    }

    fn inst(&mut self, inst: Inst) -> Done {
        self.registers.step();
        self.line = self.lines.len() as u32;
        self.lines.push(self.line_of(inst).into());
        use OpKind as K;
        match self.function.kind_of(inst) {
            K::If => self.if_(inst),
            K::For => self.for_(inst),
            K::While => self.while_(inst),
            K::Constant | K::Lanes => self.constant(inst),
            K::DimValue => self.dim_value(inst),
            K::Place => self.place(inst),
            K::Shared | K::Scratch => self.memory_of_block(inst),
            K::View => self.view(inst),
            K::Load | K::Store => self.access(inst),
            K::Prefetch | K::WaitGrid | K::ReleaseGrid => Ok(()),
            K::Assert => self.assert(inst),
            K::Barrier => {
                let block = self.word(inst, "scope")? == "block";
                self.emit(Op::Barrier { block }, 0);
                Ok(())
            }
            K::CommitCopies => {
                self.emit(Op::CommitCopies, 0);
                Ok(())
            }
            K::WaitCopies => {
                let left = self.int(inst, "left")?;
                self.emit(Op::WaitCopies { left: u32::try_from(left).unwrap_or(u32::MAX) }, 0);
                Ok(())
            }
            K::Shuffle => self.shuffle(inst),
            K::ReduceGroup => self.reduce_group(inst),
            K::Vote => self.vote(inst),
            K::Atomic => self.atomic(inst),
            K::CopyAsync => self.copy_async(inst),
            K::LoadMatrix => self.load_matrix(inst),
            K::MultiplyTiles => self.multiply_tiles(inst),
            _ => self.element(inst),
        }
    }

    /// Returns the text of an op, without its regions.
    fn line_of(&self, inst: Inst) -> &'f str {
        let text = self.text;
        let data = self.function.inst(inst);
        let Some(start) = data.span.map(|span| span.start as usize).filter(|&start| text.is_char_boundary(start)) else {
            return data.kind.name();
        };
        let begin = text[..start].rfind('\n').map_or(0, |at| at + 1);
        let end = text[start..].find('\n').map_or(text.len(), |at| start + at);
        text[begin..end].trim()
    }

    fn bound(&mut self, value: Value) -> Result<Bound, String> {
        let bound = self.values.get(&value).copied().ok_or("uses a value before it is defined")?;
        self.registers.touch(bound.register);
        Ok(bound)
    }

    /// Returns the register of an operand.
    fn operand(&mut self, inst: Inst, position: usize) -> Result<Reg, String> {
        let value = self.function.operands(inst).get(position).copied().ok_or("lacks an operand")?;
        Ok(self.bound(value)?.register)
    }

    /// Returns the register of an operand that holds a value for each thread.
    fn plane(&mut self, inst: Inst, position: usize) -> Result<Reg, String> {
        let register = self.operand(inst, position)?;
        Ok(self.expand(register))
    }

    /// Returns the buffer of an operand, with the register of its address.
    fn buffer_operand(&mut self, inst: Inst, position: usize) -> Result<(BufferId, Reg), String> {
        let value = self.function.operands(inst).get(position).copied().ok_or("lacks an operand")?;
        let bound = self.bound(value)?;
        Ok((bound.buffer.ok_or("needs a buffer")?, bound.register))
    }

    /// Returns a register with the value of `register` for each thread.
    fn expand(&mut self, register: Reg) -> Reg {
        if self.registers.varies(register) {
            return register;
        }
        let (dtype, lanes) = self.registers.ty(register);
        if self.registers.is_kept(register) && !self.is_set_by_blocks(register) {
            if let Some(&plane) = self.kept.get(&register) {
                return plane;
            }
            let plane = self.registers.keep(dtype, lanes, true);
            self.kept.insert(register, plane);
            self.planes.push((plane, register));
            return plane;
        }
        if let Some(plane) = self.expanded.iter().rev().find_map(|map| map.get(&register)).copied() {
            self.registers.touch(plane);
            return plane;
        }
        self.registers.touch(register);
        let plane = self.registers.make(dtype, lanes, true);
        self.emit(Op::Alu(crate::program::Alu::Expand(register, plane)), 0);
        self.expanded.last_mut().expect("a region is open").insert(register, plane);
        plane
    }

    /// Returns true for the number of the block, which is not that of the launch.
    fn is_set_by_blocks(&self, register: Reg) -> bool {
        self.places.iter().any(|&(place, of)| place == register && of == crate::program::Place::Block)
    }

    /// Makes the register of a result, varying as the analysis says.
    fn result(&mut self, inst: Inst, position: usize) -> Result<Reg, String> {
        let value = self.function.results_of(inst).get(position).copied().ok_or("lacks a result")?;
        let register = self.register_of(value)?;
        self.values.insert(value, register);
        Ok(register.register)
    }

    /// Makes a register for a value.
    fn register_of(&mut self, value: Value) -> Result<Bound, String> {
        let varies = self.varying[value.index()];
        match self.function.ty(value) {
            Type::Vector { lanes, dtype } => Ok(Bound { register: self.registers.make(*dtype, *lanes, varies), buffer: None }),
            Type::Buffer { tensor, space } => {
                let name = self.function.name_of(value).cloned().unwrap_or_else(|| "a buffer".into());
                let buffer = self.buffer(name, *space, tensor, None);
                Ok(Bound { register: self.registers.make(DType::U64, 1, varies), buffer: Some(buffer) })
            }
            Type::Tensor(ty) => Err(format!("has a tensor<{ty}>")),
        }
    }

    fn attr(&self, inst: Inst, name: &str) -> Option<&'f Attr> {
        let position = self.function.def(inst).attr_position(name)?;
        self.function.inst(inst).attrs.get(position)?.as_ref()
    }

    fn int(&self, inst: Inst, name: &str) -> Result<i64, String> {
        match self.attr(inst, name) {
            Some(Attr::Int(value)) => Ok(*value),
            _ => Err(format!("needs the number `{name}`")),
        }
    }

    fn word(&self, inst: Inst, name: &str) -> Result<&'static str, String> {
        match self.attr(inst, name) {
            Some(Attr::Enum(word)) => Ok(word),
            _ => Err(format!("needs the word `{name}`")),
        }
    }

    fn flag(&self, inst: Inst, name: &str) -> bool {
        matches!(self.attr(inst, name), Some(Attr::Bool(true)))
    }
}
