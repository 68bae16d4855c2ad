//! Applies rewrite rules until none does. A rule is data: a name, an equation and a function.
//!
//! The driver visits each block from front to back, so that a rule sees rewritten operands, and
//! repeats until a sweep changes nothing. It is given the rules as a [`RuleTable`].
//!
//! Invariants:
//! - A rule looks at an op and returns a value that replaces its one result, or `None`. It never
//!   changes an op in place.
//! - The value has the type of the result, by the facts; it is computed from values that dominate
//!   the op.
//! - Each rule simplifies an op by one fixed order, so that no two rules undo each other; the
//!   number of sweeps is bounded nevertheless.
use super::dead_ops;
use crate::pass::PassCx;
use disc_ir::{
    Block, Builder, Code, Diagnostic, Dim, Function, Inst, Literal, OpKind, Origin, Solver, Type, Value, diag::Span,
    infer::same_by_facts, ops::OPS,
};
use std::sync::Arc;

/// The driver stops after so many sweeps: the code is then slower, not wrong.
const MAX_SWEEPS: usize = 12;

/// A rewrite of one kind of op.
#[derive(Clone, Copy)]
pub struct Rule {
    pub name: &'static str,
    /// The rule as an equation, for people.
    pub equation: &'static str,
    pub kind: OpKind,
    pub(crate) apply: Apply,
}

pub(crate) type Apply = fn(&mut Rewriter<'_>, Inst) -> Option<Value>;

/// Declares a rule.
pub(crate) const fn rule(name: &'static str, equation: &'static str, kind: OpKind, apply: Apply) -> Rule {
    Rule { name, equation, kind, apply }
}

/// Rules by the kind of op that they rewrite, each kind's in the order in which they are tried.
pub(crate) struct RuleTable(Vec<Vec<&'static Rule>>);

impl RuleTable {
    pub(crate) fn new(rules: impl Iterator<Item = &'static Rule>) -> Self {
        let mut by_kind = vec![Vec::new(); OPS.len()];
        rules.for_each(|rule| by_kind[rule.kind as usize].push(rule));
        Self(by_kind)
    }

    fn of(&self, kind: OpKind) -> &[&'static Rule] {
        &self.0[kind as usize]
    }
}

/// The state of a sweep: a rule reads the function through it and adds new ops with it.
pub(crate) struct Rewriter<'f> {
    pub(crate) f: &'f mut Function,
    pub(crate) solver: Arc<Solver>,
    uses: Vec<u32>,
    /// For each value, true if nothing but slices reads it.
    sliced: Vec<bool>,
    replaced: Vec<Option<Value>>,
    /// The block that new ops are added to; it holds the ops before the current one.
    pub(crate) block: Block,
    span: Option<Span>,
    origin: Option<Origin>,
    error: Option<Diagnostic>,
    changes: usize,
}

/// Applies rules to a function until none applies.
///
/// # Errors
/// A rule makes an op that is not well formed: a fault of the compiler.
pub(crate) fn rewrite(function: &mut Function, rules: &RuleTable, cx: &mut PassCx) -> Result<usize, Diagnostic> {
    let solver = Arc::new(Solver::new(&function.facts));
    let mut total = 0;
    for _ in 0..MAX_SWEEPS {
        let changes = sweep(function, &solver, rules, cx)?;
        total += changes + dead_ops::remove_dead(function);
        if changes == 0 {
            break;
        }
    }
    Ok(total)
}

fn sweep(function: &mut Function, solver: &Arc<Solver>, rules: &RuleTable, cx: &mut PassCx) -> Result<usize, Diagnostic> {
    visit(function, solver, &mut |rw, inst| rw.rewritten(inst, rules, cx))
}

/// Runs one sweep: replaces the result of each op for which `step` returns a value; returns their
/// number.
///
/// # Errors
/// Those of `step`.
pub(crate) fn visit(function: &mut Function, solver: &Arc<Solver>, step: &mut Step<'_>) -> Result<usize, Diagnostic> {
    let (uses, sliced, block) = (function.use_counts(), read_by_slices(function), function.body);
    let replaced = vec![None; function.value_count()];
    let solver = Arc::clone(solver);
    let mut rewriter =
        Rewriter { f: function, solver, uses, sliced, replaced, block, span: None, origin: None, error: None, changes: 0 };
    rewriter.sweep(block, step)?;
    Ok(rewriter.changes)
}

/// For each value, true if nothing but slices reads it.
fn read_by_slices(function: &Function) -> Vec<bool> {
    let mut sliced = vec![true; function.value_count()];
    for inst in function.walk(function.body).into_iter().filter(|&inst| function.kind_of(inst) != OpKind::Slice) {
        function.operands(inst).iter().for_each(|operand| sliced[operand.index()] = false);
    }
    sliced
}

/// Rewrites an op whose operands are rewritten already.
pub(crate) type Step<'s> = dyn FnMut(&mut Rewriter<'_>, Inst) -> Result<Option<Value>, Diagnostic> + 's;

impl Rewriter<'_> {
    fn sweep(&mut self, block: Block, step: &mut Step<'_>) -> Result<(), Diagnostic> {
        let insts = self.f.insts(block).to_vec();
        self.f.set_insts(block, Vec::with_capacity(insts.len()));
        for inst in insts {
            self.update_operands(inst);
            for region in self.f.inst(inst).regions.clone() {
                self.sweep(region, step)?;
            }
            let data = self.f.inst(inst);
            (self.block, self.span, self.origin) = (block, data.span, data.origin);
            match step(self, inst)? {
                Some(value) => self.replace(inst, value),
                None => self.f.append(block, inst),
            }
        }
        Ok(())
    }

    fn update_operands(&mut self, inst: Inst) {
        for operand in &mut self.f.inst_mut(inst).operands {
            while let Some(&Some(to)) = self.replaced.get(operand.index()) {
                *operand = to;
            }
        }
    }

    fn replace(&mut self, inst: Inst, value: Value) {
        let result = self.f.result(inst);
        self.f.inherit_name(result, value);
        self.replaced[result.index()] = Some(value);
        let sliced = self.only_sliced(result);
        match self.sliced.get_mut(value.index()) {
            Some(both) => *both &= sliced,
            None => {
                self.sliced.resize(value.index(), false);
                self.sliced.push(sliced);
            }
        }
        self.changes += 1;
    }

    fn rewritten(&mut self, inst: Inst, rules: &RuleTable, cx: &mut PassCx) -> Result<Option<Value>, Diagnostic> {
        for rule in rules.of(self.f.kind_of(inst)) {
            let before = self.f.insts(self.block).len();
            let value = (rule.apply)(self, inst);
            if let Some(error) = self.error.take() {
                return Err(error.note(format!("in rule `{}`: {}", rule.name, rule.equation)));
            }
            match value {
                Some(value) if cx.spend_on(rule.name) => return self.checked(rule, inst, value).map(Some),
                _ if self.f.insts(self.block).len() > before => {
                    let kept = self.f.insts(self.block)[..before].to_vec();
                    self.f.set_insts(self.block, kept);
                }
                _ => {}
            }
        }
        Ok(None)
    }

    fn checked(&self, rule: &Rule, inst: Inst, value: Value) -> Result<Value, Diagnostic> {
        let (old, new) = (self.f.ty(self.f.result(inst)), self.f.ty(value));
        if same_by_facts(&self.solver, old, new) {
            return Ok(value);
        }
        let message = format!("rule `{}` ({}) made {new} of {old}", rule.name, rule.equation);
        Err(Diagnostic::new(Code::E0211, message).in_op(self.f.def(inst).name).at(self.span))
    }

    /// Returns true if only the current op uses `value`. Uses that this sweep removed still count.
    pub(crate) fn used_once(&self, value: Value) -> bool {
        self.uses.get(value.index()).is_none_or(|&count| count <= 1)
    }

    /// Returns true if nothing but slices reads `value`, which existed before this sweep or
    /// replaced such a value.
    pub(crate) fn only_sliced(&self, value: Value) -> bool {
        self.sliced.get(value.index()).is_some_and(|&sliced| sliced)
    }

    pub(crate) fn same_shape(&self, a: &[Dim], b: &[Dim]) -> bool {
        a.len() == b.len() && a.iter().zip(b).all(|(x, y)| self.solver.equal(x, y))
    }

    pub(crate) fn is_one(&self, size: &Dim) -> bool {
        self.solver.equal(size, &Dim::constant(1))
    }

    /// Returns the error of an op that could not be built.
    pub(crate) fn take_error(&mut self) -> Result<(), Diagnostic> {
        self.error.take().map_or(Ok(()), Err)
    }

    /// Adds ops before the current one.
    pub(crate) fn build(&mut self, make: impl FnOnce(&mut Builder<'_>) -> Result<Value, Diagnostic>) -> Option<Value> {
        let first = self.f.insts(self.block).len();
        let mut builder = Builder::at(self.f, self.block, Arc::clone(&self.solver));
        builder.origin = self.origin;
        match make(&mut builder) {
            Ok(value) => {
                for i in first..self.f.insts(self.block).len() {
                    let inst = self.f.insts(self.block)[i];
                    self.f.inst_mut(inst).span = self.span;
                }
                Some(value)
            }
            Err(error) => {
                self.error.get_or_insert(error);
                None
            }
        }
    }

    /// Adds an op without attributes.
    pub(crate) fn emit(&mut self, kind: OpKind, operands: &[Value]) -> Option<Value> {
        self.build(|b| b.emit(kind, operands))
    }

    /// Adds a constant of the type of `like` with every element `literal`.
    pub(crate) fn constant(&mut self, like: Value, literal: Literal) -> Option<Value> {
        let ty = self.f.ty(like).with_dtype(literal.dtype);
        let literal = Literal { splat: true, ..literal };
        self.build(|b| b.op(OpKind::Constant).attr("value", literal).result(ty).value())
    }

    pub(crate) fn reshape(&mut self, value: Value, dims: impl IntoIterator<Item = Dim>) -> Option<Value> {
        let ty = Type::tensor(dims, self.f.ty(value).dtype());
        self.build(|b| b.op(OpKind::Reshape).operands(&[value]).result(ty).value())
    }

    pub(crate) fn transpose(&mut self, value: Value, order: &[usize]) -> Option<Value> {
        self.build(|b| b.op(OpKind::Transpose).operands(&[value]).attr("dims", as_ints(order)).value())
    }

    pub(crate) fn broadcast(&mut self, value: Value, axes: &[usize], dims: impl IntoIterator<Item = Dim>) -> Option<Value> {
        let ty = Type::tensor(dims, self.f.ty(value).dtype());
        self.build(|b| b.op(OpKind::BroadcastInDim).operands(&[value]).attr("dims", as_ints(axes)).result(ty).value())
    }
}

pub(crate) fn as_ints(axes: &[usize]) -> Vec<i64> {
    axes.iter().map(|&axis| axis as i64).collect()
}
