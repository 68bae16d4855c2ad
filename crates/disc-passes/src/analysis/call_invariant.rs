//! Finds call-invariant values: those computed only from weights and constants.
//!
//! Invariant: such a value has a static shape, depends on no dim, and its computation cannot fail
//! and has no effect.
use disc_ir::{Function, Inst, OpKind, Value, ops::is_pure};
use std::collections::HashSet;

/// The values that are the same in every call.
pub(crate) struct CallInvariant {
    values: HashSet<Value>,
    /// Those that depend on a weight; the others are known at compile time.
    from_weights: HashSet<Value>,
}

impl CallInvariant {
    /// Looks at the body and at all regions: a value that a region computes from weights alone is
    /// the same whenever the region runs.
    pub(crate) fn of(function: &Function) -> Self {
        let mut fixed = Self { values: HashSet::new(), from_weights: HashSet::new() };
        for inst in function.walk(function.body) {
            if fixed.admits(function, inst) {
                let results = function.results_of(inst).iter().copied();
                let from_weight = function.kind_of(inst) == OpKind::Weight;
                if from_weight || uses(function, inst).iter().any(|value| fixed.from_weights.contains(value)) {
                    fixed.from_weights.extend(results.clone());
                }
                fixed.values.extend(results);
            }
        }
        fixed
    }

    fn admits(&self, function: &Function, inst: Inst) -> bool {
        // A dim has another value in each call, in a type and in an attribute alike.
        is_pure(function.inst(inst))
            && function.symbols_of(inst).is_empty()
            && uses(function, inst).iter().all(|value| self.values.contains(value))
    }

    pub(crate) fn contains(&self, value: Value) -> bool {
        self.values.contains(&value)
    }

    pub(crate) fn depends_on_weights(&self, value: Value) -> bool {
        self.from_weights.contains(&value)
    }
}

/// The values that an op and its regions use, except those that the regions define.
pub(crate) fn uses(function: &Function, inst: Inst) -> Vec<Value> {
    let mut found = function.operands(inst).to_vec();
    let regions = &function.inst(inst).regions;
    if !regions.is_empty() {
        let inner: Vec<Inst> = regions.iter().flat_map(|&region| function.walk(region)).collect();
        let mut inside: HashSet<Value> = inner.iter().flat_map(|&i| function.results_of(i)).copied().collect();
        for &holder in std::iter::once(&inst).chain(&inner) {
            inside.extend(function.inst(holder).regions.iter().flat_map(|&region| function.arguments(region)));
        }
        found.extend(inner.iter().flat_map(|&i| function.operands(i)).filter(|value| !inside.contains(value)));
    }
    found
}
