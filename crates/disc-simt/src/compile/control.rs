//! Compiles structured control flow.
use super::{Bound, Compiler, Done};
use crate::program::{Carried, Code, For, If, Op, Reg, While};
use disc_ir::{Block, Inst, Value};

impl Compiler<'_> {
    pub(super) fn if_(&mut self, inst: Inst) -> Done {
        let function = self.function;
        let (pred, line) = (self.operand(inst, 0)?, self.line);
        let values = function.results_of(inst);
        let results: Vec<Reg> = (0..values.len()).map(|i| self.result(inst, i)).collect::<Result<_, _>>()?;
        let mut ends = Vec::new();
        let mut codes = Vec::new();
        for &region in &function.inst(inst).regions {
            let (code, returned) = self.ending_in(region, &results)?;
            self.registers.step();
            codes.push(code);
            ends.push(returned);
        }
        let [then_ends, else_ends] = &ends[..] else { return Err("needs two regions".into()) };
        let results = (0..results.len()).map(|i| [results[i], then_ends[i], else_ends[i]]).collect();
        let (otherwise, then) = (codes.pop().unwrap_or_default(), codes.pop().unwrap_or_default());
        self.line = line;
        self.emit(Op::If(Box::new(If { pred, then, otherwise, results })), 0);
        for &value in values {
            self.bound(value)?;
        }
        Ok(())
    }

    /// Compiles a region whose results go to registers; returns the registers that it ends with.
    fn ending_in(&mut self, region: Block, to: &[Reg]) -> Result<(Code, Vec<Reg>), String> {
        let mut ends = Vec::new();
        let code = self.region(|this| {
            let values = this.block(region)?;
            ends = this.matching(values, to)?;
            Ok(())
        })?;
        Ok((code, ends))
    }

    /// Returns the registers of values that go to registers: planes where those are.
    fn matching(&mut self, values: &[Value], to: &[Reg]) -> Result<Vec<Reg>, String> {
        let mut found = Vec::new();
        for (&value, &to) in values.iter().zip(to) {
            let register = self.bound(value)?.register;
            found.push(if self.registers.varies(to) { self.expand(register) } else { register });
        }
        self.registers.step();
        for &register in &found {
            self.registers.touch(register);
        }
        Ok(found)
    }

    /// Makes the registers that a loop carries along, which are its results.
    fn carried(&mut self, inst: Inst, first: usize) -> Result<(Vec<Bound>, Vec<Reg>), String> {
        let results = self.function.results_of(inst);
        let mut bound = Vec::new();
        for &result in results {
            let register = self.register_of(result)?;
            self.values.insert(result, register);
            bound.push(register);
        }
        let registers: Vec<Reg> = bound.iter().map(|bound| bound.register).collect();
        let inits = self.matching(&self.function.operands(inst)[first..], &registers)?;
        registers.iter().for_each(|&register| self.registers.touch(register));
        Ok((bound, inits))
    }

    pub(super) fn for_(&mut self, inst: Inst) -> Done {
        let (function, line) = (self.function, self.line);
        let body = function.inst(inst).regions[0];
        let (carried, inits) = self.carried(inst, 3)?;
        let arguments = function.arguments(body);
        let index = self.register_of(arguments[0])?;
        let bounds: Vec<Reg> = (0..3).map(|i| self.operand(inst, i)).collect::<Result<_, _>>()?;
        let bounds: Vec<Reg> = match self.registers.varies(index.register) {
            true => bounds.into_iter().map(|bound| self.expand(bound)).collect(),
            false => bounds,
        };
        self.values.insert(arguments[0], index);
        self.values.extend(arguments[1..].iter().copied().zip(carried.iter().copied()));
        self.registers.open_loop();
        let to: Vec<Reg> = carried.iter().map(|bound| bound.register).collect();
        let (code, nexts) = self.ending_in(body, &to)?;
        for &register in to.iter().chain(&bounds).chain([&index.register]) {
            self.registers.touch(register);
        }
        self.registers.close_loop();
        self.line = line;
        let carried = (0..to.len()).map(|i| Carried { register: to[i], init: inits[i], next: nexts[i] }).collect();
        let [lower, upper, step] = bounds[..] else { return Err("needs bounds".into()) };
        let made = For { lower, upper, step, index: index.register, carried, body: code };
        self.emit(Op::For(Box::new(made)), 0);
        to.iter().for_each(|&register| self.registers.touch(register));
        Ok(())
    }

    pub(super) fn while_(&mut self, inst: Inst) -> Done {
        let (function, line) = (self.function, self.line);
        let [cond, body] = function.inst(inst).regions[..] else { return Err("needs two regions".into()) };
        let (carried, inits) = self.carried(inst, 0)?;
        for region in [cond, body] {
            self.values.extend(function.arguments(region).iter().copied().zip(carried.iter().copied()));
        }
        self.registers.open_loop();
        let to: Vec<Reg> = carried.iter().map(|bound| bound.register).collect();
        let mut goes_on = 0;
        let cond = self.region(|this| {
            let [value] = this.block(cond)? else { return Err("needs one condition".into()) };
            this.registers.step();
            goes_on = this.bound(*value)?.register;
            Ok(())
        })?;
        self.registers.step();
        let (code, nexts) = self.ending_in(body, &to)?;
        to.iter().for_each(|&register| self.registers.touch(register));
        self.registers.close_loop();
        self.line = line;
        let carried = (0..to.len()).map(|i| Carried { register: to[i], init: inits[i], next: nexts[i] }).collect();
        self.emit(Op::While(Box::new(While { cond, goes_on, carried, body: code })), 0);
        to.iter().for_each(|&register| self.registers.touch(register));
        Ok(())
    }
}
