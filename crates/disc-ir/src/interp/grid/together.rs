//! Evaluates ops that the threads of a warp, or of a block, do together.
//!
//! Invariant: all threads of the scope arrive, or none: another number is an error.
use super::{Mask, Threads, active, by};
use crate::{
    diag::{Code, Diagnostic},
    fragment::{Role, Tile},
    graph::Inst,
    interp::{
        Tensor,
        machine::Machine,
        scalar::{Scalar, round},
        table::{Eval, eval},
        tiles::{Elements, product},
    },
    ops::OpKind,
    types::Type,
};
use std::collections::HashMap;

/// The bytes of a row of a matrix, and its alignment.
const MATRIX_ROW: i64 = 16;
/// The bytes of a matrix that a thread gets.
const MATRIX_WORD: usize = 4;

pub(super) fn fault(message: String) -> Diagnostic {
    Diagnostic::new(Code::E0211, message)
}

impl<'a> Threads<'a> {
    /// Checks that each group of `size` threads has arrived as a whole, or not at all.
    fn check_arrived(&self, mask: &Mask, size: usize, scope: &str) -> Result<(), Diagnostic> {
        for (number, group) in mask.chunks(size).enumerate() {
            let arrived = group.iter().filter(|&&on| on).count();
            if arrived != 0 && arrived != group.len() {
                let missing = number * size + group.iter().position(|on| !on).unwrap_or(0);
                let message = format!("{arrived} of the {size} threads of a {scope} arrive here, and thread {missing} does not");
                return Err(fault(message));
            }
        }
        Ok(())
    }

    fn check_warps(&self, mask: &Mask) -> Result<(), Diagnostic> {
        self.check_arrived(mask, self.grid.warp as usize, "warp")
    }

    pub(super) fn barrier(&self, inst: Inst, mask: &Mask) -> Result<(), Diagnostic> {
        match self.word(inst, "scope") {
            "warp" => self.check_warps(mask),
            _ => self.check_arrived(mask, mask.len(), "block"),
        }
    }

    /// The first lane of the segment of a thread.
    fn segment(&self, inst: Inst, thread: usize) -> (usize, usize) {
        let (lane, width) = (thread % self.grid.warp as usize, self.number(inst, "width") as usize);
        (thread - lane % width, width)
    }

    pub(super) fn shuffle(&mut self, inst: Inst, mask: &Mask) -> Result<(), Diagnostic> {
        self.check_warps(mask)?;
        let [value, by] = self.function.operands(inst)[..] else { unreachable!("two operands") };
        let mut found = Vec::new();
        for thread in active(mask) {
            let ((first, width), by) = (self.segment(inst, thread), self.int(by, thread)?);
            let lane = (thread - first) as i64;
            let from = match self.word(inst, "how") {
                "xor" => lane ^ by,
                "up" => lane - by,
                "down" => lane + by,
                _ => by.rem_euclid(width as i64),
            };
            let inside = usize::try_from(from).ok().filter(|&from| from < width);
            found.push((thread, self.value(value, inside.map_or(thread, |from| first + from))?));
        }
        let result = self.function.result(inst);
        found.into_iter().for_each(|(thread, value)| self.frames[thread].define(result, value));
        Ok(())
    }

    pub(super) fn reduce_group(&mut self, inst: Inst, mask: &Mask) -> Result<(), Diagnostic> {
        self.check_warps(mask)?;
        let (operand, dtype) = (self.function.operands(inst)[0], self.dtype(self.function.operands(inst)[0]));
        let lanes = match OpKind::from_name(self.word(inst, "applies")).map(eval) {
            Some(Eval::Lanes(lanes)) if lanes.is_binary() => lanes,
            _ => return Err(fault("this op combines no values".into())),
        };
        let mut values = HashMap::new();
        for thread in active(mask) {
            values.insert(thread, (*self.tensor(operand, thread)?).clone());
        }
        let mut step = self.number(inst, "width") as usize / 2;
        while step > 0 {
            let combined = |(&thread, own): (&usize, &Tensor)| {
                let (first, _) = self.segment(inst, thread);
                let other = &values[&(first + ((thread - first) ^ step))];
                // The lower lane is the first operand for both, so that both have the same bits.
                let (low, high) = if (thread - first) & step == 0 { (own, other) } else { (other, own) };
                let element = |lane: usize| round(dtype, lanes.combine(dtype, low.at(lane), high.at(lane)));
                (thread, Tensor::from_fn(dtype, own.dims().to_vec(), element))
            };
            values = values.iter().map(combined).collect();
            step /= 2;
        }
        let result = self.function.result(inst);
        values.into_iter().for_each(|(thread, value)| self.frames[thread].define(result, value.into()));
        Ok(())
    }

    pub(super) fn vote(&mut self, inst: Inst, mask: &Mask) -> Result<(), Diagnostic> {
        self.check_warps(mask)?;
        let pred = self.function.operands(inst)[0];
        let warp = self.grid.warp as usize;
        let mut counts = vec![0; mask.len() / warp];
        for thread in active(mask) {
            counts[thread / warp] += usize::from(self.tensor(pred, thread)?.at(0).is_true());
        }
        let dtype = self.dtype(self.function.result(inst));
        self.each(inst, mask, |threads, thread| {
            let count = counts[thread / warp];
            let answer = match threads.word(inst, "how") {
                "any" => i64::from(count > 0),
                "all" => i64::from(count == warp),
                _ => count as i64,
            };
            Tensor::from_i64s(dtype, &[], &[answer])
        })
    }

    pub(super) fn atomic(&mut self, machine: &mut Machine<'a>, inst: Inst, mask: &Mask) -> Result<(), Diagnostic> {
        let operands = self.function.operands(inst).to_vec();
        for thread in active(mask) {
            let (buffer, index) = (self.buffer(operands[0], thread)?, self.int(operands[1], thread)?);
            let before = machine.memory.read(&buffer, index).map_err(by(thread))?.to_vec();
            let old = Tensor::new(buffer.dtype, Vec::new(), before)?;
            let (before, value) = (old.at(0).as_int(), self.tensor(operands[2], thread)?.at(0).as_int());
            let after = match self.word(inst, "how") {
                "add" => before.wrapping_add(value),
                "max" => before.max(value),
                "min" => before.min(value),
                "compare" if self.tensor(operands[3], thread)?.at(0).as_int() != before => before,
                _ => value,
            };
            let stored = Tensor::from_fn(buffer.dtype, Vec::new(), |_| Scalar::Int(after));
            machine.memory.write(&buffer, index, stored.element(0)).map_err(by(thread))?;
            self.frames[thread].define(self.function.result(inst), old.into());
        }
        Ok(())
    }

    pub(super) fn load_matrix(&mut self, machine: &mut Machine<'a>, inst: Inst, mask: &Mask) -> Result<(), Diagnostic> {
        self.check_warps(mask)?;
        let [buffer, index] = self.function.operands(inst)[..] else { unreachable!("two operands") };
        let Type::Vector { lanes, dtype } = *self.function.ty(self.function.result(inst)) else {
            return Err(fault("the result is no vector".into()));
        };
        let transposed = self.function.attr_flag(inst, "transposed");
        let warp = self.grid.warp as usize;
        let mut found = Vec::new();
        for thread in active(mask) {
            let (first, lane) = (thread - thread % warp, thread % warp);
            let mut bytes = Vec::new();
            let each = MATRIX_WORD / dtype.size();
            for held in 0..lanes as usize {
                let (matrix, along) = (held / each, each * (lane % 4) + held % each);
                let (row, column) = if transposed { (along, lane / 4) } else { (lane / 4, along) };
                let named = first + 8 * matrix + row;
                let (from, start) = (self.buffer(buffer, named)?, self.int(index, named)?);
                if !from.is_aligned(start, MATRIX_ROW) {
                    let message = format!("element {start} of the buffer starts at no multiple of {MATRIX_ROW} bytes");
                    return Err(by(named)(fault(message)));
                }
                bytes.extend_from_slice(machine.memory.read(&from, start + column as i64).map_err(by(named))?);
            }
            found.push((thread, Tensor::new(dtype, vec![lanes.into()], bytes)?));
        }
        let result = self.function.result(inst);
        found.into_iter().for_each(|(thread, value)| self.frames[thread].define(result, value.into()));
        Ok(())
    }

    pub(super) fn multiply_tiles(&mut self, inst: Inst, mask: &Mask) -> Result<(), Diagnostic> {
        self.check_warps(mask)?;
        let tile = Tile::from_name(self.word(inst, "tile")).ok_or_else(|| fault("there is no such tile".into()))?;
        let operands = self.function.operands(inst).to_vec();
        let (warp, dtype, result) = (tile.warp() as usize, self.dtype(operands[2]), self.function.result(inst));
        for first in active(mask).filter(|thread| thread % warp == 0) {
            let gather = |(operand, role): (usize, Role)| {
                let held = (first..first + warp).map(|thread| self.tensor(operands[operand], thread));
                Ok(Elements::of(tile, role, &held.collect::<Result<Vec<_>, Diagnostic>>()?))
            };
            let [a, b, c] = [(0, Role::A), (1, Role::B), (2, Role::C)].map(gather);
            let elements = [a?, b?, c?];
            for thread in 0..warp {
                let part = product(tile, &elements, thread as u32, dtype);
                self.frames[first + thread].define(result, part.into());
            }
        }
        Ok(())
    }
}
