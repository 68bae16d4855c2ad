//! Joins two finished groups into one set of ops, to find the reason that they are not one kernel.
use super::{
    form::{Candidate, Rejection},
    layout::Layout,
};
use crate::analysis::cost_model::CostModel;
use disc_ir::{Function, FunctionKind, Inst, OpKind, Solver, Value};
use std::collections::HashMap;

/// The layout of the groups `maker` and `user` of a block as one, if a result of the first goes to
/// the second.
pub(super) fn form(
    function: &Function,
    (solver, model): (&Solver, &dyn CostModel),
    maker: Inst,
    user: Inst,
) -> Result<Layout, Rejection> {
    let mut joined = Joined { source: function, both: Function::new("both", FunctionKind::Func), map: HashMap::new() };
    joined.both.facts = function.facts.clone();
    joined.copy(maker);
    joined.copy(user);
    let leaving = function.results_of(maker).iter().filter(|&&value| leaves(function, value, user));
    let outputs: Vec<Value> = leaving.chain(function.results_of(user)).map(|value| joined.map[value]).collect();
    let both = &joined.both;
    Candidate { function: both, solver, members: both.insts(both.body), outputs: &outputs, role: &|_| None }.form(model)
}

/// Returns true if ops other than `user` need a value, also through views.
fn leaves(function: &Function, value: Value, user: Inst) -> bool {
    let readers = function.walk(function.body).into_iter().filter(|&inst| function.operands(inst).contains(&value));
    readers.into_iter().any(|inst| match function.kind_of(inst) {
        _ if inst == user => false,
        OpKind::Reshape => leaves(function, function.result(inst), user),
        _ => true,
    })
}

struct Joined<'f> {
    source: &'f Function,
    both: Function,
    /// The values of the source in `both`.
    map: HashMap<Value, Value>,
}

impl Joined<'_> {
    /// Copies the ops of a group.
    fn copy(&mut self, group: Inst) {
        let region = self.source.inst(group).regions[0];
        let mut inner: HashMap<Value, Value> = HashMap::new();
        for (&argument, &operand) in self.source.arguments(region).iter().zip(self.source.operands(group)) {
            let value = self.value(operand);
            inner.insert(argument, value);
        }
        for &inst in self.source.insts(region) {
            if self.source.kind_of(inst) == OpKind::Return {
                let returned = self.source.operands(inst).iter().map(|value| inner[value]);
                self.map.extend(self.source.results_of(group).iter().copied().zip(returned));
            } else {
                let made = self.both.import(self.source, inst, &mut inner);
                self.both.append(self.both.body, made);
            }
        }
    }

    /// The operand of a group: a value made before, perhaps reshaped, or an input.
    fn value(&mut self, operand: Value) -> Value {
        if let Some(&known) = self.map.get(&operand) {
            return known;
        }
        let view = self.source.defining(operand).filter(|&inst| self.source.kind_of(inst) == OpKind::Reshape);
        let value = match view.filter(|&view| self.map.contains_key(&self.source.operands(view)[0])) {
            Some(view) => {
                let made = self.both.import(self.source, view, &mut self.map);
                self.both.append(self.both.body, made);
                self.both.result(made)
            }
            None => self.both.add_argument(self.both.body, self.source.ty(operand).clone()),
        };
        self.map.insert(operand, value);
        value
    }
}
