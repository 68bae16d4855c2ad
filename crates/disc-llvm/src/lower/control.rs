//! Lowers structured control flow to basic blocks. Loops are rotated: tested at their end, after a
//! guard that skips empty ones.
use super::{Lowering, tiles::value_of};
use crate::{Error, emit::Val};
use disc_ir::{Block, Inst, Value};
use inkwell::{IntPredicate, basic_block::BasicBlock, values::PhiValue};

impl<'c> Lowering<'_, 'c> {
    pub(super) fn block(&self) -> Result<BasicBlock<'c>, Error> {
        self.emit.builder.get_insert_block().ok_or_else(|| Error::Emit("the builder has no place".to_owned()))
    }

    pub(super) fn append_block(&self) -> BasicBlock<'c> {
        self.emit.context.append_basic_block(self.llvm, "")
    }

    /// Lowers a region at the insertion point. Returns its results.
    fn region(&mut self, block: Block, arguments: &[Val<'c>]) -> Result<Vec<Val<'c>>, Error> {
        for (&argument, &value) in self.function.arguments(block).iter().zip(arguments) {
            self.bind(argument, value);
        }
        let outer = self.scopes.len();
        let results = self.lower_block(block)?;
        self.leave_scopes(outer);
        Ok(results)
    }

    /// Emits one phi per value at the start of the current block.
    fn phis(&self, types_of: &[Val<'c>]) -> Result<Vec<PhiValue<'c>>, Error> {
        types_of.iter().map(|&value| self.emit.phi_of(value)).collect()
    }

    fn define_all(&mut self, results: &[Value], phis: &[PhiValue<'c>]) {
        for (&result, phi) in results.iter().zip(phis) {
            self.bind(result, value_of(*phi));
        }
    }

    pub(super) fn for_(&mut self, inst: Inst) -> Result<(), Error> {
        let operands = self.operands(inst)?;
        let [lower, upper, step, ref inits @ ..] = operands[..] else {
            return Err(self.error(inst, "needs bounds and a step".to_owned()));
        };
        let (before, body, after) = (self.block()?, self.append_block(), self.append_block());
        let runs = self.emit.icmp(IntPredicate::SLT, lower, upper)?.into_int_value();
        self.emit.builder.build_conditional_branch(runs, body, after)?;

        self.emit.builder.position_at_end(body);
        let heads: Vec<Val<'c>> = [lower].into_iter().chain(inits.iter().copied()).collect();
        let phis = self.phis(&heads)?;
        let arguments: Vec<Val<'c>> = phis.iter().map(|&phi| value_of(phi)).collect();
        let carried = self.region(self.function.inst(inst).regions[0], &arguments)?;
        let latch = self.block()?;
        let next = self.emit.builder.build_int_nsw_add(arguments[0].into_int_value(), step.into_int_value(), "")?;
        let more = self.emit.icmp(IntPredicate::SLT, next.into(), upper)?.into_int_value();
        self.emit.builder.build_conditional_branch(more, body, after)?;
        let nexts = [next.into()].into_iter().chain(carried.iter().copied());
        for ((phi, first), next) in phis.iter().zip(&heads).zip(nexts) {
            phi.add_incoming(&[(first, before), (&next, latch)]);
        }

        self.emit.builder.position_at_end(after);
        let results = self.phis(inits)?;
        for ((phi, init), last) in results.iter().zip(inits).zip(&carried) {
            phi.add_incoming(&[(init, before), (last, latch)]);
        }
        self.define_all(self.function.results_of(inst), &results);
        Ok(())
    }

    pub(super) fn if_(&mut self, inst: Inst) -> Result<(), Error> {
        let pred = self.value(self.function.operands(inst)[0])?.into_int_value();
        let [then, otherwise, after] = [self.append_block(), self.append_block(), self.append_block()];
        self.emit.builder.build_conditional_branch(pred, then, otherwise)?;
        let mut ends = Vec::new();
        for (start, &region) in [then, otherwise].into_iter().zip(&self.function.inst(inst).regions) {
            self.emit.builder.position_at_end(start);
            let values = self.region(region, &[])?;
            ends.push((values, self.block()?));
            self.emit.builder.build_unconditional_branch(after)?;
        }
        self.emit.builder.position_at_end(after);
        let phis = self.phis(&ends[0].0)?;
        for (values, end) in &ends {
            for (phi, value) in phis.iter().zip(values) {
                phi.add_incoming(&[(value, *end)]);
            }
        }
        self.define_all(self.function.results_of(inst), &phis);
        Ok(())
    }

    pub(super) fn while_(&mut self, inst: Inst) -> Result<(), Error> {
        let inits = self.operands(inst)?;
        let before = self.block()?;
        let [head, body, after] = [self.append_block(), self.append_block(), self.append_block()];
        self.emit.builder.build_unconditional_branch(head)?;

        self.emit.builder.position_at_end(head);
        let phis = self.phis(&inits)?;
        let arguments: Vec<Val<'c>> = phis.iter().map(|&phi| value_of(phi)).collect();
        let regions = self.function.inst(inst).regions.clone();
        let goes_on = self.region(regions[0], &arguments)?;
        let [goes_on] = goes_on[..] else { return Err(self.error(inst, "needs one condition".to_owned())) };
        self.emit.builder.build_conditional_branch(goes_on.into_int_value(), body, after)?;

        self.emit.builder.position_at_end(body);
        let carried = self.region(regions[1], &arguments)?;
        let latch = self.block()?;
        self.emit.builder.build_unconditional_branch(head)?;
        for ((phi, init), next) in phis.iter().zip(&inits).zip(&carried) {
            phi.add_incoming(&[(init, before), (next, latch)]);
        }
        self.emit.builder.position_at_end(after);
        self.define_all(self.function.results_of(inst), &phis);
        Ok(())
    }

    /// Returns `status` from the function unless it is 0.
    pub(super) fn return_failure(&mut self, status: Val<'c>) -> Result<(), Error> {
        let fails = self.emit.icmp(IntPredicate::NE, status, self.emit.const_int(32, 1, 0))?.into_int_value();
        let [failed, after] = [self.append_block(), self.append_block()];
        self.emit.builder.build_conditional_branch(fails, failed, after)?;
        self.emit.builder.position_at_end(failed);
        if self.function.grid.is_some() {
            let base = self.task_memory.ok_or_else(|| Error::Emit("a routine is called without memory".to_owned()))?;
            let value = |slot| -> Result<Val<'c>, Error> {
                Ok(self.emit.builder.build_load(self.emit.context.i64_type(), self.emit.slot(base, slot)?, "")?)
            };
            let values = (0..disc_abi::KERNEL_VALUES as i64).map(value).collect::<Result<Vec<_>, _>>()?;
            self.report(status, &values)?;
            self.emit.builder.build_unconditional_branch(after)?;
        } else {
            self.emit.builder.build_return(Some(&status))?;
        }
        self.emit.builder.position_at_end(after);
        Ok(())
    }

    /// Returns the number of the site from the kernel, with the values at the start of the task's
    /// memory.
    pub(super) fn assert(&mut self, inst: Inst) -> Result<(), Error> {
        let Some(site) = self.int(inst, "site") else { return Err(self.error(inst, "needs a `site`".to_owned())) };
        let values = &self.function.operands(inst)[1..];
        if values.len() > disc_abi::KERNEL_VALUES {
            return Err(self.error(inst, format!("has {} values, the runtime takes {}", values.len(), disc_abi::KERNEL_VALUES)));
        }
        let pred = self.value(self.function.operands(inst)[0])?.into_int_value();
        let [fails, holds] = [self.append_block(), self.append_block()];
        self.emit.builder.build_conditional_branch(pred, holds, fails)?;
        self.emit.builder.position_at_end(fails);
        let wide = |&value: &Value| {
            let signed = self.function.ty(value).dtype().is_signed_integer();
            self.emit.resize(self.value(value)?, 64, signed)
        };
        let status = self.emit.const_int(32, 1, site);
        if self.function.grid.is_some() {
            let values = values.iter().map(wide).collect::<Result<Vec<_>, _>>()?;
            self.report(status, &values)?;
            self.emit.builder.build_unconditional_branch(holds)?;
        } else {
            let base = self.task_memory.ok_or_else(|| self.error(inst, "needs a kernel around it".to_owned()))?;
            for (position, value) in (0..).zip(values) {
                let wide = wide(value)?;
                let at = self.emit.slot(base, position)?;
                self.emit.builder.build_store(at, wide)?;
            }
            self.fence_nontemporal()?;
            self.emit.builder.build_return(Some(&status))?;
        }
        self.emit.builder.position_at_end(holds);
        Ok(())
    }
}
