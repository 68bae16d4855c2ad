//! Compiles ops of memory, and those that threads do together.
use super::{Bound, Compiler, Done, element::binary};
use crate::program::{Access, Atomic, AtomicHow, CopyAsync, Op, Reg, Shuffle, Vote};
use disc_ir::{Attr, DType, Inst, OpKind, Type, fragment::Tile};

impl Compiler<'_> {
    pub(super) fn memory_of_block(&mut self, inst: Inst) -> Done {
        let result = self.function.result(inst);
        let Type::Buffer { tensor, space } = self.function.ty(result) else { return Err("makes no buffer".into()) };
        let name = self.function.name_of(result).cloned().unwrap_or_else(|| space.name().into());
        let buffer = self.buffer(name, *space, tensor, None);
        let register = self.registers.keep(DType::U64, 1, false);
        self.memory.push((register, buffer));
        self.values.insert(result, Bound { register, buffer: Some(buffer) });
        Ok(())
    }

    pub(super) fn view(&mut self, inst: Inst) -> Done {
        let result = self.function.result(inst);
        let Type::Buffer { tensor, space } = self.function.ty(result) else { return Err("makes no buffer".into()) };
        let (from, mut address) = self.buffer_operand(inst, 0)?;
        let mut index = self.operand(inst, 1)?;
        if self.varying[result.index()] {
            (address, index) = (self.expand(address), self.expand(index));
        }
        let (name, parameter) = (self.buffers[from as usize].name.clone(), self.buffers[from as usize].parameter);
        let to = self.buffer(name, *space, tensor, parameter);
        let register = self.registers.make(DType::U64, 1, self.varying[result.index()]);
        self.values.insert(result, Bound { register, buffer: Some(to) });
        self.emit(Op::View { from, to, address, index, result: register }, 1);
        Ok(())
    }

    pub(super) fn access(&mut self, inst: Inst) -> Done {
        let is_load = self.function.kind_of(inst) == OpKind::Load;
        let (buffer, mut address) = self.buffer_operand(inst, 0)?;
        let mut index = self.operand(inst, 1)?;
        let masked = if is_load { 2 } else { 3 };
        let mut mask = match self.function.operands(inst).len() > masked {
            true => Some(self.operand(inst, masked)?),
            false => None,
        };
        let align = self.int(inst, "align").ok().and_then(|align| u32::try_from(align).ok());
        let readonly = is_load && self.attr(inst, "cache") == Some(&Attr::Enum("readonly"));
        let varies = !is_load || self.varying[self.function.result(inst).index()];
        if varies {
            (address, index) = (self.expand(address), self.expand(index));
            mask = mask.map(|mask| self.expand(mask));
        }
        let value = if is_load { self.result(inst, 0)? } else { self.plane(inst, 2)? };
        let access = Access { buffer, address, index, mask, value, align, readonly };
        let lanes = self.registers.ty(value).1;
        self.emit(if is_load { Op::Load(access) } else { Op::Store(access) }, lanes);
        Ok(())
    }

    pub(super) fn assert(&mut self, inst: Inst) -> Done {
        let site = self.int(inst, "site").map_err(|_| "needs a `site`".to_owned())?;
        let site = i32::try_from(site).map_err(|_| format!("has the site {site}"))?;
        let pred = self.plane(inst, 0)?;
        let count = self.function.operands(inst).len();
        if count - 1 > disc_abi::KERNEL_VALUES {
            return Err(format!("has {} values, {} are the limit", count - 1, disc_abi::KERNEL_VALUES));
        }
        let values = (1..count).map(|i| self.plane(inst, i)).collect::<Result<_, _>>()?;
        self.emit(Op::Assert { pred, site, values }, 1);
        Ok(())
    }

    fn width(&self, inst: Inst) -> Result<u32, String> {
        let width = self.int(inst, "width")?;
        u32::try_from(width).ok().filter(|width| width.is_power_of_two()).ok_or_else(|| format!("has the width {width}"))
    }

    pub(super) fn shuffle(&mut self, inst: Inst) -> Done {
        let how = match self.word(inst, "how")? {
            "xor" => Shuffle::Xor,
            "up" => Shuffle::Up,
            "down" => Shuffle::Down,
            _ => Shuffle::Index,
        };
        let (width, value, by) = (self.width(inst)?, self.plane(inst, 0)?, self.plane(inst, 1)?);
        let to = self.result(inst, 0)?;
        let lanes = self.registers.ty(to).1;
        self.emit(Op::Shuffle { how, width, value, by, to }, lanes);
        Ok(())
    }

    pub(super) fn reduce_group(&mut self, inst: Inst) -> Done {
        let applies = OpKind::from_name(self.word(inst, "applies")?).and_then(binary).ok_or("combines nothing")?;
        let (width, value) = (self.width(inst)?, self.plane(inst, 0)?);
        let to = self.result(inst, 0)?;
        let (dtype, lanes) = self.registers.ty(to);
        let halves = [(); 2].map(|()| self.registers.make(dtype, lanes, true));
        self.emit(Op::ReduceGroup { applies, width, value, halves, to }, lanes * width.ilog2());
        Ok(())
    }

    pub(super) fn vote(&mut self, inst: Inst) -> Done {
        let how = match self.word(inst, "how")? {
            "any" => Vote::Any,
            "all" => Vote::All,
            _ => Vote::Count,
        };
        let pred = self.plane(inst, 0)?;
        let to = self.result(inst, 0)?;
        self.emit(Op::Vote { how, pred, to }, 1);
        Ok(())
    }

    pub(super) fn atomic(&mut self, inst: Inst) -> Done {
        let how = match self.word(inst, "how")? {
            "add" => AtomicHow::Add,
            "max" => AtomicHow::Max,
            "min" => AtomicHow::Min,
            "exchange" => AtomicHow::Exchange,
            _ => AtomicHow::Compare,
        };
        let (buffer, address) = self.buffer_operand(inst, 0)?;
        let (address, index, value) = (self.expand(address), self.plane(inst, 1)?, self.plane(inst, 2)?);
        let expected = match how {
            AtomicHow::Compare => Some(self.plane(inst, 3)?),
            _ => None,
        };
        let to = self.result(inst, 0)?;
        self.emit(Op::Atomic(Box::new(Atomic { how, buffer, address, index, value, expected, to })), 1);
        Ok(())
    }

    pub(super) fn copy_async(&mut self, inst: Inst) -> Done {
        let side = |this: &mut Self, first: usize| -> Result<(u32, Reg, Reg), String> {
            let (buffer, address) = this.buffer_operand(inst, first)?;
            Ok((buffer, this.expand(address), this.plane(inst, first + 1)?))
        };
        let (to, to_address, to_index) = side(self, 0)?;
        let (from, from_address, from_index) = side(self, 2)?;
        let exists = match self.function.operands(inst).len() {
            5.. => Some(self.plane(inst, 4)?),
            _ => None,
        };
        let elements = self.int(inst, "elements")? as u32;
        let copy = CopyAsync { to, to_address, to_index, from, from_address, from_index, exists, elements };
        self.emit(Op::CopyAsync(Box::new(copy)), elements);
        Ok(())
    }

    pub(super) fn load_matrix(&mut self, inst: Inst) -> Done {
        let (buffer, address) = self.buffer_operand(inst, 0)?;
        let (address, index) = (self.expand(address), self.plane(inst, 1)?);
        let to = self.result(inst, 0)?;
        let (transposed, lanes) = (self.flag(inst, "transposed"), self.registers.ty(to).1);
        self.emit(Op::LoadMatrix { buffer, address, index, transposed, to }, lanes);
        Ok(())
    }

    pub(super) fn multiply_tiles(&mut self, inst: Inst) -> Done {
        let tile = Tile::from_name(self.word(inst, "tile")?).ok_or("names no tile")?;
        let [a, b, c] = [self.plane(inst, 0)?, self.plane(inst, 1)?, self.plane(inst, 2)?];
        let to = self.result(inst, 0)?;
        let [m, n, k] = tile.sizes();
        self.emit(Op::MultiplyTiles { tile, a, b, c, to }, m * n * k / tile.warp());
        Ok(())
    }
}
