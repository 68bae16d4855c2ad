//! The index space that a kernel walks, and which of its neighbouring dimensions can be walked as one.
//!
//! Two neighbouring dimensions can be merged when every access of the group touches them as one contiguous dimension: then fewer, longer
//! loops do, down to a single one for purely element-wise groups. This asks the structure of the group, so it holds for all sizes.
use disc_ir::{Attr, Dim, Function, OpKind, Solver, TensorType, Value, ops::Trait};
use std::collections::HashSet;

/// Which pairs (`i`, `i + 1`) of the dimensions of `roots`, values of one shape, can be merged.
pub(super) fn mergeable(group: &Function, solver: &Solver, roots: &[Value]) -> Vec<bool> {
    let Some(rank) = roots.first().and_then(|&r| group.ty(r).shaped()).map(TensorType::rank) else { return Vec::new() };
    let mut walk = Walk { group, solver, pairs: vec![true; rank.saturating_sub(1)], seen: HashSet::new() };
    let identity: Vec<Option<usize>> = (0..rank).map(Some).collect();
    for &root in roots {
        walk.visit(root, &identity);
    }
    walk.pairs
}

struct Walk<'g> {
    group: &'g Function,
    solver: &'g Solver,
    pairs: Vec<bool>,
    seen: HashSet<(Value, Vec<Option<usize>>)>,
}

impl Walk<'_> {
    /// `axes` says which dimension of the domain each dimension of `value` follows; `None` is a dimension of size 1.
    fn visit(&mut self, value: Value, axes: &[Option<usize>]) {
        if !self.seen.insert((value, axes.to_vec())) {
            return;
        }
        // A pair stays mergeable only if this value has both, side by side and in order, or neither.
        for pair in 0..self.pairs.len() {
            let position = |d| axes.iter().position(|&a| a == Some(d));
            self.pairs[pair] &= match (position(pair), position(pair + 1)) {
                (Some(i), Some(j)) => i < j && axes[i + 1..j].iter().all(Option::is_none),
                (None, None) => true,
                _ => false,
            };
        }
        let Some(inst) = self.group.defining(value) else { return };
        let data = self.group.inst(inst);
        match data.kind {
            kind if kind.def().has(Trait::Elementwise) => data.operands.iter().for_each(|&o| self.visit(o, axes)),
            OpKind::Constant | OpKind::DimValue => {}
            OpKind::BroadcastInDim => {
                let Some(Attr::Ints(dims)) = &data.attrs[0] else { return };
                let operand = data.operands[0];
                let sizes = &self.group.ty(operand).shaped().expect("a tensor").dims;
                let follow = |(size, &d): (&Dim, &i64)| {
                    if self.solver.equal(size, &Dim::constant(1)) { None } else { axes[d as usize] }
                };
                let inner: Vec<Option<usize>> = sizes.iter().zip(dims).map(follow).collect();
                // A dimension that is repeated must not be merged with one that is not: `visit` sees that it is absent.
                self.visit(operand, &inner);
            }
            // Anything else looks at positions.
            _ => axes.iter().flatten().for_each(|&d| self.forbid(d)),
        }
    }

    fn forbid(&mut self, dim: usize) {
        if dim > 0 {
            self.pairs[dim - 1] = false;
        }
        if dim < self.pairs.len() {
            self.pairs[dim] = false;
        }
    }
}
