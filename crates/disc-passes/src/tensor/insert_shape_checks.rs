//! Inserts checks for conditions on sizes that ops need and no fact proves.
//!
//! The sizes of a call are known at its start. A condition that every call needs becomes a fact,
//! which the entry checks first and later passes rely on. A condition of a region, which a call may
//! never run, becomes an assertion before the op.
//!
//! Invariant: afterwards the facts or an earlier assertion prove every condition of every op.
use crate::pass::{PassCx, PassDef};
use disc_ir::{
    Attr, Block, Builder, DType, Diagnostic, Dim, Function, FunctionKind, Inst, Module, OpKind, Solver, Type, Value,
    dim::{Fact, Range},
    ops::{Demand, Stage, demands},
    verify::verify,
};
use std::sync::Arc;

/// Makes facts and assertions of conditions on sizes.
pub static PASS: PassDef = PassDef {
    name: "insert-shape-checks",
    doc: "Makes facts of conditions on sizes that ops need and no fact proves (a slice in bounds, a size that is not \
          negative); inside of regions, assertions.",
    stages: (Stage::Tensor, Stage::Tensor),
    run,
};

fn run(module: &mut Module, _: &mut PassCx) -> Result<usize, Diagnostic> {
    let (mut changes, mut is_contradicted) = (0, false);
    for function in module.functions.iter_mut().filter(|f| f.kind == FunctionKind::Func) {
        let mut known = Checker { solver: Arc::new(Solver::new(&function.facts)), is_old: false, is_contradicted: false };
        changes += known.state(function)?;
        changes += known.guard(function, function.body, false)?;
        is_contradicted |= known.is_contradicted;
    }
    if is_contradicted {
        // Given the conditions of other ops, an op may be invalid at all sizes.
        let first = |mut found: Vec<Diagnostic>| found.swap_remove(0).note("sizes that suit the other ops do not suit this one");
        verify(module, Stage::Tensor).map_err(first)?;
    }
    Ok(changes)
}

/// The facts about a function's sizes so far.
struct Checker {
    solver: Arc<Solver>,
    /// True if facts were added since the solver was built.
    is_old: bool,
    /// True if an op of the body needs a condition that contradicts the facts.
    is_contradicted: bool,
}

impl Checker {
    fn proves(&mut self, function: &Function, demand: &Demand) -> bool {
        if demand.is_proved(&self.solver) {
            return true;
        }
        if !std::mem::take(&mut self.is_old) {
            return false;
        }
        self.solver = Arc::new(Solver::new(&function.facts));
        demand.is_proved(&self.solver)
    }

    /// Adds the conditions of every call to the facts.
    fn state(&mut self, function: &mut Function) -> Result<usize, Diagnostic> {
        let mut added = 0;
        for inst in function.insts(function.body).to_vec() {
            for demand in demands(function, inst) {
                if self.proves(function, &demand) {
                    continue;
                }
                let mut facts = function.facts.clone();
                // A condition that cannot hold becomes an assertion, which reports it in its own
                // words.
                if facts.add(Fact::Range(demand.excess(), Range { lo: None, hi: Some(0) })).is_ok() {
                    function.facts = facts;
                    self.is_old = true;
                    added += 1;
                }
            }
        }
        Ok(added)
    }

    /// Inserts assertions for open conditions: of regions, and of body ops that contradict the
    /// facts.
    fn guard(&mut self, function: &mut Function, block: Block, is_region: bool) -> Result<usize, Diagnostic> {
        let insts = function.insts(block).to_vec();
        function.set_insts(block, Vec::new());
        let mut added = 0;
        for inst in insts {
            for demand in demands(function, inst) {
                if self.proves(function, &demand) {
                    continue;
                }
                let contradicts = contradicts(function, &demand);
                self.is_contradicted |= contradicts && !is_region;
                if is_region || contradicts {
                    self.assert(function, block, inst, &demand)?;
                    added += 1;
                }
            }
            for region in regions_to_run(function, inst) {
                added += self.guard(function, region, true)?;
            }
            function.append(block, inst);
        }
        Ok(added)
    }

    fn assert(&self, function: &mut Function, block: Block, inst: Inst, demand: &Demand) -> Result<(), Diagnostic> {
        let name = function.def(inst).name;
        let mut builder = Builder::at(function, block, self.solver.clone());
        let mut value = |dim: &Dim| {
            let request = builder.op(OpKind::DimValue).attr("value", dim.clone()).result(Type::tensor([], DType::I64));
            request.value()
        };
        let [low, high, excess, zero] = [&demand.low, &demand.high, &demand.excess(), &Dim::constant(0)].map(&mut value);
        let (low, high): (Value, Value) = (low?, high?);
        let holds = builder.op(OpKind::Compare).operands(&[excess?, zero?]).attr("direction", "LE").value()?;
        let message = format!("`{name}` needs {}, and {{0}} is greater than {{1}}", demand.describe());
        let request = builder.op(OpKind::Assert).operands(&[holds, low, high]);
        request.attr("message", Attr::Str(message.as_str().into())).attr("about", "size").build().map(drop)
    }
}

fn contradicts(function: &Function, demand: &Demand) -> bool {
    function.facts.clone().add(Fact::Range(demand.excess(), Range { lo: None, hi: Some(0) })).is_err()
}

/// The regions of an op that run as programs; those of reductions and similar ops are on scalars.
fn regions_to_run(function: &Function, inst: Inst) -> Vec<Block> {
    match function.kind_of(inst) {
        OpKind::If | OpKind::While => function.inst(inst).regions.to_vec(),
        _ => Vec::new(),
    }
}

#[cfg(test)]
mod tests {
    use super::{PASS, run};
    use crate::{
        options::Options,
        pass::PassCx,
        testing::{after, parse},
    };
    use disc_ir::Code;

    const SLICE: &str = "slice %x [2:S] : (tensor<[S]xf32>) -> tensor<[S-2]xf32>";

    #[test]
    fn a_slice_that_every_call_takes_is_a_fact() {
        let text = after(
            &PASS,
            &format!("func @f(%x: tensor<[S]xf32>) -> tensor<[S-2]xf32> {{\n %y = {SLICE}\n return %y : tensor<[S-2]xf32>\n}}"),
        );
        assert!(text.contains("where 2 <= S"), "{text}");
    }

    #[test]
    fn ops_that_no_sizes_suit_together_are_an_error() {
        let text = "func @f(%x: tensor<[S]xf32>) -> (tensor<[-S]xi32>, tensor<1xf32>) {
          %i = iota dim = 0 : tensor<[-S]xi32>
          %at = constant dense<0> : tensor<1xi32>
          %y = gather %x, %at, offset_dims = [0], collapsed_slice_dims = [], start_index_map = [0], index_vector_dim = 0, slice_sizes = [1], bounds = clamp : (tensor<[S]xf32>, tensor<1xi32>) -> tensor<1xf32>
          return %i, %y : tensor<[-S]xi32>, tensor<1xf32>
        }";
        let error = run(&mut parse(text), &mut PassCx::new(Options::default())).expect_err("no size suits both");
        assert_eq!(error.code, Code::E0209, "{error}");
    }

    #[test]
    fn a_slice_of_a_branch_is_asserted_there() {
        let text = after(
            &PASS,
            &format!(
                "func @f(%x: tensor<[S]xf32>, %p: tensor<i1>) -> tensor<f32> {{
                  %zero = constant dense<0.0> : tensor<f32>
                  %r = if %p : (tensor<i1>) -> tensor<f32> then {{
                    %y = {SLICE}
                    %s = reduce %y, %zero, dims = [0] : (tensor<[S-2]xf32>, tensor<f32>) -> tensor<f32> applies add
                    return %s : tensor<f32>
                  }} else {{
                    return %zero : tensor<f32>
                  }}
                  return %r : tensor<f32>
                }}"
            ),
        );
        assert!(!text.contains("where") && text.contains("`slice` needs 2 <= S, and {0} is greater than {1}"), "{text}");
    }

    #[test]
    fn what_is_proved_is_left_alone() {
        let source = format!(
            "func @f(%x: tensor<[S]xf32>) -> tensor<[S-2]xf32> where 2 <= S {{\n  %y = {SLICE}\n  return %y : tensor<[S-2]xf32>\n}}\n"
        );
        assert_eq!(after(&PASS, &source), source);
    }
}
