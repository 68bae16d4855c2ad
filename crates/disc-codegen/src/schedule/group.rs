//! The group that a schedule is asked for.
use crate::target::Target;
use disc_ir::{
    Dim, Function, FunctionKind, Inst, Solver, TensorType, Value,
    dim::{Fact, Range},
};
use std::{collections::HashMap, sync::Arc};

/// A group to be scheduled.
#[derive(Clone)]
pub struct Group<'a> {
    pub function: &'a Function,
    /// The outputs to compute, by their position among what the function returns.
    pub wanted: Vec<usize>,
    pub solver: Arc<Solver>,
    /// What kernels are named after.
    pub name: Arc<str>,
    pub target: &'a Target,
    /// The number of the first site of these kernels.
    pub first_site: i64,
    /// Whether results are written past the caches: see [`super::NontemporalGuard`].
    pub nontemporal: bool,
}

impl Group<'_> {
    pub fn inputs(&self) -> &[Value] {
        self.function.parameters()
    }

    /// The values to compute, in the order of `wanted`.
    pub fn outputs(&self) -> Vec<Value> {
        let end = self.function.terminator(self.function.body).expect("a function ends in `return`");
        self.wanted.iter().map(|&position| self.function.operands(end)[position]).collect()
    }

    /// The value that the function returns at a position.
    pub fn output(&self, position: usize) -> Value {
        let end = self.function.terminator(self.function.body).expect("a function ends in `return`");
        self.function.operands(end)[position]
    }

    pub fn tensor(&self, value: Value) -> &TensorType {
        self.function.ty(value).shaped().expect("a group's values are tensors")
    }

    /// The group where a guard holds, under a name of its own: what the guard says is a fact there.
    pub fn guarded(&self, name: String, guard: &[(Dim, Dim)]) -> Self {
        self.given(name, guard, Vec::new())
    }

    /// The same where more is known, which the guard says in its way.
    pub(super) fn given(&self, name: String, guard: &[(Dim, Dim)], more: Vec<Fact>) -> Self {
        let mut facts = self.function.facts.clone();
        let below = |(smaller, larger): &(Dim, Dim)| Fact::Range(smaller - larger, Range { lo: None, hi: Some(-1) });
        // Where a guard cannot hold, its version never runs.
        let holds = guard.iter().map(below).chain(more).try_for_each(|fact| facts.add(fact));
        let solver = if holds.is_ok() { Arc::new(Solver::new(&facts)) } else { self.solver.clone() };
        Self { name: name.into(), solver, ..self.clone() }
    }
}

/// A group as a function of its own.
pub(crate) fn extract(host: &Function, inst: Inst) -> Function {
    let mut function = Function::new("group", FunctionKind::Func);
    function.facts = host.facts.clone();
    let body = function.import_block(host, host.inst(inst).regions[0], &mut HashMap::new());
    function.body = body;
    function
}
