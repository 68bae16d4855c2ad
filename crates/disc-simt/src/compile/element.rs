//! Compiles arithmetic, constants and lanes.
use super::{Bound, Compiler, Done};
use crate::program::{Alu, Binary, Direction, Op, Place, Reg, Unary};
use disc_ir::{Attr, DType, Inst, OpKind, Type};

impl Compiler<'_> {
    pub(super) fn constant(&mut self, inst: Inst) -> Done {
        let (dtype, lanes) = self.vector(inst, 0)?;
        let mut bytes = Vec::with_capacity(lanes as usize * dtype.size());
        match self.attr(inst, "value") {
            Some(Attr::Literal(literal)) => {
                let times = if literal.splat { lanes } else { 1 };
                (0..times).for_each(|_| bytes.extend_from_slice(&literal.bytes));
            }
            _ => (0..lanes).for_each(|lane| bytes.extend(disc_ir::literal::encode_i64(dtype, lane.into()))),
        }
        let register = self.registers.keep(dtype, lanes, false);
        self.constants.push((register, bytes.into()));
        self.values.insert(self.function.result(inst), Bound { register, buffer: None });
        Ok(())
    }

    pub(super) fn dim_value(&mut self, inst: Inst) -> Done {
        let (dtype, lanes) = self.vector(inst, 0)?;
        let Some(Attr::Dim(dim)) = self.attr(inst, "value") else { return Err("needs a dim".into()) };
        let register = self.registers.keep(dtype, lanes, false);
        self.dims.push((register, dim.clone()));
        self.values.insert(self.function.result(inst), Bound { register, buffer: None });
        Ok(())
    }

    pub(super) fn place(&mut self, inst: Inst) -> Done {
        let (dtype, lanes) = self.vector(inst, 0)?;
        let place = match self.word(inst, "of")? {
            "block" => Place::Block,
            "thread" => Place::Thread,
            "warp" => Place::Warp,
            "lane" => Place::Lane,
            _ => Place::Grid,
        };
        let varies = !matches!(place, Place::Block | Place::Grid);
        let register = self.registers.keep(dtype, lanes, varies);
        self.places.push((register, place));
        self.values.insert(self.function.result(inst), Bound { register, buffer: None });
        Ok(())
    }

    fn vector(&self, inst: Inst, position: usize) -> Result<(DType, u32), String> {
        match self.function.results_of(inst).get(position).map(|&value| self.function.ty(value)) {
            Some(Type::Vector { lanes, dtype }) => Ok((*dtype, *lanes)),
            _ => Err("has no vector as its result".into()),
        }
    }

    /// Compiles an op without memory: its operands vary if its result does.
    pub(super) fn element(&mut self, inst: Inst) -> Done {
        let function = self.function;
        let results = function.results_of(inst);
        let varies = results.iter().any(|result| self.varying[result.index()]);
        let operands = (0..function.operands(inst).len())
            .map(|i| if varies { self.plane(inst, i) } else { self.operand(inst, i) })
            .collect::<Result<Vec<Reg>, _>>()?;
        let to: Vec<Reg> = (0..results.len()).map(|i| self.result(inst, i)).collect::<Result<_, _>>()?;
        let work = self.vector(inst, 0)?.1;
        for op in self.alu(inst, &operands, &to)? {
            self.emit(Op::Alu(op), work);
        }
        Ok(())
    }

    fn alu(&self, inst: Inst, operands: &[Reg], to: &[Reg]) -> Result<Vec<Alu>, String> {
        use OpKind as K;
        let kind = self.function.kind_of(inst);
        if let Some(unary) = unary(kind) {
            return Ok(vec![Alu::Unary(unary, operands[0], to[0])]);
        }
        if let Some(binary) = binary(kind) {
            return Ok(vec![Alu::Binary(binary, [operands[0], operands[1]], to[0])]);
        }
        let three = || [operands[0], operands[1], operands[2]];
        let lanes = self.registers.ty(operands[0]).1;
        // The lane of `a` followed by `b`.
        let pair = |place: u32| (operands[(place / lanes) as usize], place % lanes);
        Ok(vec![match kind {
            K::Compare => Alu::Compare(direction(self.word(inst, "direction")?), [operands[0], operands[1]], to[0]),
            K::Select => Alu::Select(three(), to[0]),
            K::Clamp => Alu::Clamp(three(), to[0]),
            K::Fma => Alu::Fma(three(), to[0]),
            K::ScaleByPower => Alu::Scale([operands[0], operands[1]], to[0]),
            K::Convert => Alu::Convert(operands[0], to[0]),
            K::BitcastConvert | K::RecastLanes => Alu::Bits(operands[0], to[0]),
            K::Splat => Alu::Permute(vec![(operands[0], 0); self.vector(inst, 0)?.1 as usize].into(), to[0]),
            K::ExtractLane => Alu::Permute([(operands[0], self.int(inst, "lane")? as u32)].into(), to[0]),
            K::LaneMask => Alu::LaneMask(operands[0], to[0]),
            K::PickLanes => Alu::Pick(three(), to[0]),
            K::ReduceLanes => {
                let applies = OpKind::from_name(self.word(inst, "applies")?).and_then(binary);
                Alu::ReduceLanes(applies.ok_or("combines no lanes")?, operands[0], to[0])
            }
            K::TransposeLanes => {
                let column = |(lane, &to): (u32, &Reg)| Alu::Permute(operands.iter().map(|&row| (row, lane)).collect(), to);
                return Ok((0..).zip(to).map(column).collect());
            }
            K::UnzipLanes => {
                let half = |first: u32| (0..lanes).map(|lane| pair(2 * lane + first)).collect();
                return Ok(vec![Alu::Permute(half(0), to[0]), Alu::Permute(half(1), to[1])]);
            }
            K::ZipLanes => {
                let half = |first: u32| {
                    let place = |lane| (operands[((first + lane) % 2) as usize], (first + lane) / 2);
                    (0..lanes).map(place).collect()
                };
                return Ok(vec![Alu::Permute(half(0), to[0]), Alu::Permute(half(lanes), to[1])]);
            }
            _ => return Err("has no place in a grid kernel".into()),
        }])
    }
}

fn direction(word: &str) -> Direction {
    match word {
        "EQ" => Direction::Eq,
        "NE" => Direction::Ne,
        "LT" => Direction::Lt,
        "LE" => Direction::Le,
        "GT" => Direction::Gt,
        _ => Direction::Ge,
    }
}

fn unary(kind: OpKind) -> Option<Unary> {
    Some(match kind {
        OpKind::Abs => Unary::Abs,
        OpKind::Ceil => Unary::Ceil,
        OpKind::CountLeadingZeros => Unary::CountLeadingZeros,
        OpKind::Floor => Unary::Floor,
        OpKind::IsFinite => Unary::IsFinite,
        OpKind::IsInf => Unary::IsInf,
        OpKind::IsNan => Unary::IsNan,
        OpKind::Negate => Unary::Negate,
        OpKind::Not => Unary::Not,
        OpKind::Popcnt => Unary::Popcnt,
        OpKind::RoundNearestAfz => Unary::RoundNearestAfz,
        OpKind::RoundNearestEven => Unary::RoundNearestEven,
        OpKind::Rsqrt => Unary::Rsqrt,
        OpKind::Sign => Unary::Sign,
        OpKind::Sqrt => Unary::Sqrt,
        _ => return None,
    })
}

pub(super) fn binary(kind: OpKind) -> Option<Binary> {
    Some(match kind {
        OpKind::Add => Binary::Add,
        OpKind::And => Binary::And,
        OpKind::Divide => Binary::Divide,
        OpKind::Maximum => Binary::Maximum,
        OpKind::Minimum => Binary::Minimum,
        OpKind::Multiply => Binary::Multiply,
        OpKind::Or => Binary::Or,
        OpKind::Power => Binary::Power,
        OpKind::Remainder => Binary::Remainder,
        OpKind::ShiftLeft => Binary::ShiftLeft,
        OpKind::ShiftRightArithmetic => Binary::ShiftRightArithmetic,
        OpKind::ShiftRightLogical => Binary::ShiftRightLogical,
        OpKind::Subtract => Binary::Subtract,
        OpKind::Xor => Binary::Xor,
        _ => return None,
    })
}
