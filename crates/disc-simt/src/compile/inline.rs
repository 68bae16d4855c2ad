//! Copies a kernel with the routines that it calls in place of the calls.
use disc_ir::{Attr, Block, Function, Module, OpKind, Value};
use std::collections::HashMap;

/// Calls within calls beyond this depth are refused; verified modules have no recursion.
const DEEPEST: u32 = 64;

/// Returns the kernel without calls.
pub(super) fn inlined(module: &Module, kernel: &Function) -> Result<Function, String> {
    let mut result = Function::new(kernel.name.clone(), kernel.kind);
    result.grid = kernel.grid;
    let mut copy = Copy { module, result, depth: 0 };
    let mut values = HashMap::new();
    let body = copy.result.body;
    copy.arguments(kernel, kernel.body, body, &mut values);
    copy.insts(kernel, kernel.body, body, &mut values, true)?;
    Ok(copy.result)
}

struct Copy<'m> {
    module: &'m Module,
    result: Function,
    depth: u32,
}

impl Copy<'_> {
    fn arguments(&mut self, from: &Function, block: Block, to: Block, values: &mut HashMap<Value, Value>) {
        for &argument in from.arguments(block) {
            let made = self.result.add_argument(to, from.ty(argument).clone());
            self.name(from, argument, made);
            values.insert(argument, made);
        }
    }

    fn name(&mut self, from: &Function, old: Value, new: Value) {
        if let Some(name) = from.name_of(old) {
            self.result.set_name(new, name.clone());
        }
    }

    /// Copies the ops of a block, its end only if `ends`. Returns the values that it returns.
    fn insts(
        &mut self,
        from: &Function,
        block: Block,
        to: Block,
        values: &mut HashMap<Value, Value>,
        ends: bool,
    ) -> Result<Vec<Value>, String> {
        for &inst in from.insts(block) {
            let data = from.inst(inst);
            let operands: Option<Vec<Value>> = data.operands.iter().map(|operand| values.get(operand).copied()).collect();
            let operands = operands.ok_or("a value is used before it is defined")?;
            match data.kind {
                OpKind::Return if !ends => return Ok(operands),
                OpKind::Call => {
                    let results = self.call(from, inst, operands, to)?;
                    values.extend(data.results.iter().copied().zip(results));
                    continue;
                }
                _ => {}
            }
            let mut copy = data.clone();
            copy.operands = operands.into_iter().collect();
            copy.regions.clear();
            for &region in &data.regions {
                let made = self.result.add_block();
                self.arguments(from, region, made, values);
                self.insts(from, region, made, values, true)?;
                copy.regions.push(made);
            }
            let types: Vec<_> = data.results.iter().map(|&result| from.ty(result).clone()).collect();
            let made = self.result.add_inst(copy, types);
            for (&old, new) in data.results.iter().zip(self.result.results_of(made).to_vec()) {
                self.name(from, old, new);
                values.insert(old, new);
            }
            self.result.append(to, made);
        }
        Ok(Vec::new())
    }

    fn call(&mut self, from: &Function, inst: disc_ir::Inst, operands: Vec<Value>, to: Block) -> Result<Vec<Value>, String> {
        let module = self.module;
        let routine = callee(from, inst).and_then(|name| module.function(name)).ok_or("a routine is missing")?;
        if self.depth == DEEPEST {
            return Err(format!("calls of @{} are nested too deeply", routine.name));
        }
        self.depth += 1;
        let mut values: HashMap<Value, Value> = routine.parameters().iter().copied().zip(operands).collect();
        let results = self.insts(routine, routine.body, to, &mut values, false);
        self.depth -= 1;
        results
    }
}

fn callee(function: &Function, inst: disc_ir::Inst) -> Option<&str> {
    match &function.inst(inst).attrs[..] {
        [Some(Attr::Symbol(name)), ..] => Some(name),
        _ => None,
    }
}
