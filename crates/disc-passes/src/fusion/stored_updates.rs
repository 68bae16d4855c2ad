//! Keeps updates of inputs that an entry writes to apart from other ops: a group of its own writes
//! the part that such an update replaces, and a larger group all of the input.
//!
//! The group may compute the values that it writes there, unless it reads the input for them.
use super::{form::Candidate, legality::Role};
use disc_ir::{Function, Inst, OpKind, Value};
use std::collections::HashSet;

impl Candidate<'_> {
    /// Returns true if the set has an update of an input, and writes more than the part that it
    /// replaces, or reads the input elsewhere.
    pub(super) fn hides_a_stored_update(&self) -> bool {
        let is_update = |inst: &&Inst| self.function.kind_of(**inst) == OpKind::DynamicUpdateSlice;
        if self.members.len() < 2 || self.function.stores.is_empty() || !self.members.iter().any(|inst| is_update(&inst)) {
            return false;
        }
        let stored = stored_updates(self.function);
        self.members.iter().filter(|inst| stored.contains(inst)).any(|&update| {
            let memory = behind_views(self.function, self.function.operands(update)[0]);
            let others = self.members.iter().filter(|&&inst| inst != update);
            let reads = |inst: &Inst| self.function.operands(*inst).iter().any(|&value| self.is_made_of(value, memory));
            self.outputs != [self.function.result(update)] || others.into_iter().any(reads)
        })
    }

    /// Returns true if a value is another one, or is made of it by ops that join any group.
    fn is_made_of(&self, value: Value, memory: Value) -> bool {
        value == memory
            || self.function.defining(value).is_some_and(|inst| {
                let joins = matches!((self.role)(inst), Some(Role::Free | Role::View));
                joins && self.function.operands(inst).iter().any(|&operand| self.is_made_of(operand, memory))
            })
    }
}

/// The updates that lead from an input to the result that is stored into it.
fn stored_updates(function: &Function) -> HashSet<Inst> {
    let mut found = HashSet::new();
    let Some(end) = function.terminator(function.body) else { return found };
    for store in &function.stores {
        let (mut value, mut chain) = (function.operands(end)[store.result], Vec::new());
        loop {
            value = behind_views(function, value);
            match function.defining(value) {
                Some(inst) if function.kind_of(inst) == OpKind::DynamicUpdateSlice => {
                    chain.push(inst);
                    value = function.operands(inst)[0];
                }
                Some(inst) if function.kind_of(inst) == OpKind::Scatter => {
                    let number = function.results_of(inst).iter().position(|&result| result == value);
                    value = function.operands(inst)[number.expect("a result of the op that defines it")];
                }
                _ => break,
            }
        }
        if value == function.parameters()[store.parameter] {
            found.extend(chain);
        }
    }
    found
}

fn behind_views(function: &Function, mut value: Value) -> Value {
    while let Some(inst) = function.defining(value).filter(|&inst| function.kind_of(inst) == OpKind::Reshape) {
        value = function.operands(inst)[0];
    }
    value
}
