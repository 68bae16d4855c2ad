//! Finds the results of a pointwise group that have nothing in common: the tensors of a list.
//!
//! A *family* is a set of results that are computed from one another's values or inputs. A single
//! element that larger results read, as a learning rate, makes no family of them, nor does what is
//! free to compute again.
use super::merging::MOST_BESIDE;
use disc_ir::{Block, Function, OpKind, Value};
use std::collections::{HashMap, HashSet};

/// Returns the families of what a block returns, as positions in their order. A group of so few
/// tensors that groups side by side are merged is one family.
pub fn families(function: &Function, block: Block) -> Vec<Vec<usize>> {
    let results = function.returned(block);
    if function.arguments(block).len() + results.len() <= MOST_BESIDE {
        return vec![(0..results.len()).collect()];
    }
    let mut sets = Sets::default();
    for &inst in function.insts(block) {
        for &result in function.results_of(inst) {
            let is_single = is_one_element(function, result);
            for &operand in function.operands(inst) {
                if !is_free(function, operand) && (is_single || !is_one_element(function, operand)) {
                    sets.join(operand, result);
                }
            }
        }
    }
    let mut found: Vec<Vec<usize>> = Vec::new();
    let mut number: HashMap<Value, usize> = HashMap::new();
    for (position, &result) in results.iter().enumerate() {
        let family = *number.entry(sets.root(result)).or_insert(found.len());
        if family == found.len() {
            found.push(Vec::new());
        }
        found[family].push(position);
    }
    found
}

/// Returns the family of a result, if no other one reads an argument: it may be written over.
pub(crate) fn only_reader(function: &Function, block: Block, argument: Value, result: usize) -> Option<Vec<usize>> {
    let (own, others): (Vec<_>, Vec<_>) = families(function, block).into_iter().partition(|family| family.contains(&result));
    let mut computed = HashSet::from([argument]);
    for &inst in function.insts(block).iter().filter(|_| !others.is_empty()) {
        if function.operands(inst).iter().any(|operand| computed.contains(operand)) {
            computed.extend(function.results_of(inst));
        }
    }
    let results = function.returned(block);
    let is_read = others.iter().flatten().any(|&position| computed.contains(&results[position]));
    if is_read { None } else { own.into_iter().next() }
}

/// Returns true if a value is computed again wherever it is read, from nothing but single elements.
fn is_free(function: &Function, value: Value) -> bool {
    let Some(inst) = function.defining(value) else { return false };
    match function.kind_of(inst) {
        OpKind::Constant | OpKind::Iota | OpKind::DimValue => true,
        OpKind::BroadcastInDim => is_one_element(function, function.operands(inst)[0]),
        _ => false,
    }
}

fn is_one_element(function: &Function, value: Value) -> bool {
    function.ty(value).shaped().is_some_and(|tensor| tensor.dims.iter().all(|dim| dim.as_const() == Some(1)))
}

/// Disjoint sets of values; each value begins as one of its own.
#[derive(Default)]
struct Sets(HashMap<Value, Value>);

impl Sets {
    fn join(&mut self, a: Value, b: Value) {
        let [a, b] = [a, b].map(|value| self.root(value));
        if a != b {
            self.0.insert(a, b);
        }
    }

    fn root(&mut self, value: Value) -> Value {
        let mut root = value;
        while let Some(&next) = self.0.get(&root) {
            root = next;
        }
        let mut at = value;
        while let Some(next) = self.0.get_mut(&at) {
            at = std::mem::replace(next, root);
        }
        root
    }
}
