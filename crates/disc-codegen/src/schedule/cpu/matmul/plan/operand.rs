//! The operands of a product: their memory, if they have any, and the roles of their dimensions.
//!
//! A broadcast, a size of 1 that is added or dropped, the front of a tensor, and a conversion that
//! loses nothing are only another way to read memory. An operand that is computed otherwise has no
//! memory: the schedule computes it into memory of the task.
use crate::schedule::common::iteration_space::mergeable;
use disc_ir::{DType, Dim, Function, Inst, OpKind, Solver, Value};
use disc_passes::analysis::query::Query;

/// An operand, and the role of each of its dimensions.
pub(in crate::schedule) struct Operand {
    pub(in crate::schedule) value: Value,
    pub(in crate::schedule) memory: Option<Memory>,
    /// In the order of the product's first dimensions.
    pub(in crate::schedule) batch: Vec<usize>,
    pub(in crate::schedule) free: Vec<usize>,
    /// In the order of the sums.
    pub(in crate::schedule) sum: Vec<usize>,
    /// The product's dimension that `free[0]` becomes.
    pub(in crate::schedule) first: usize,
    pub(in crate::schedule) dims: Vec<Dim>,
    /// For each dimension, true if it and the next one are one where the operand is computed.
    together: Vec<bool>,
}

/// A way to read an input of the group.
#[derive(Clone)]
pub(in crate::schedule) struct Memory {
    pub(in crate::schedule) input: Value,
    /// For each dimension, the elements between two neighbours; 0 where it repeats.
    pub(in crate::schedule) strides: Vec<Dim>,
}

impl Operand {
    pub(in crate::schedule) fn of(group: &Function, solver: &Solver, inputs: &[Value], value: Value) -> Self {
        let dims = group.ty(value).shaped().expect("a tensor").dims.to_vec();
        let memory = memory(group, solver, inputs, value);
        let together = mergeable(group, solver, &[value]);
        Self { value, memory, batch: Vec::new(), free: Vec::new(), sum: Vec::new(), first: 0, dims, together }
    }

    /// The elements between two neighbours along a dimension: 0 where the operand is not in memory.
    pub(in crate::schedule) fn stride(&self, dim: usize) -> Dim {
        self.memory.as_ref().map_or(Dim::constant(0), |memory| memory.strides[dim].clone())
    }

    /// Returns true if dimensions `outer` and `inner` can be walked as one.
    pub(in crate::schedule) fn joins(&self, solver: &Solver, outer: usize, inner: usize) -> bool {
        match &self.memory {
            Some(memory) => solver.equal(&memory.strides[outer], &(&memory.strides[inner] * &self.dims[inner])),
            None => outer + 1 == inner && self.together[outer],
        }
    }

    pub(in crate::schedule) fn is_contiguous(&self, dim: usize) -> bool {
        self.memory.as_ref().is_some_and(|memory| memory.strides[dim].is_const(1))
    }
}

/// Finds a way to read `value` in memory.
fn memory(group: &Function, solver: &Solver, inputs: &[Value], value: Value) -> Option<Memory> {
    let dims = |value: Value| &group.ty(value).shaped().expect("a tensor").dims;
    if inputs.contains(&value) {
        let dims = dims(value);
        let strides = (0..dims.len()).map(|i| Dim::product(dims[i + 1..].iter().cloned())).collect();
        return Some(Memory { input: value, strides });
    }
    let inst = group.defining(value)?;
    let &operand = group.operands(inst).first()?;
    let (from, to) = (dims(operand), dims(value));
    let is_one = |dim: &Dim| solver.equal(dim, &Dim::constant(1));
    match group.kind_of(inst) {
        OpKind::BroadcastInDim => {
            let inner = memory(group, solver, inputs, operand)?;
            let mut strides = vec![Dim::constant(0); to.len()];
            for ((stride, size), &axis) in inner.strides.into_iter().zip(from).zip(group.ints(inst, "dims")) {
                if !is_one(size) {
                    strides[axis as usize] = stride;
                }
            }
            Some(Memory { strides, ..inner })
        }
        OpKind::Reshape => {
            let inner = memory(group, solver, inputs, operand)?;
            let kept = |dims: &[Dim]| (0..dims.len()).filter(|&i| !is_one(&dims[i])).collect::<Vec<_>>();
            let (old, new) = (kept(from), kept(to));
            let same = old.len() == new.len() && old.iter().zip(&new).all(|(&a, &b)| solver.equal(&from[a], &to[b]));
            let mut strides = vec![Dim::constant(0); to.len()];
            old.iter().zip(&new).for_each(|(&a, &b)| strides[b] = inner.strides[a].clone());
            same.then_some(Memory { strides, ..inner })
        }
        OpKind::Slice if group.is_front(inst) => memory(group, solver, inputs, operand),
        OpKind::Convert if reads_alike(group.ty(operand).dtype(), group.ty(value).dtype()) => {
            memory(group, solver, inputs, operand)
        }
        _ => None,
    }
}

/// Returns true if a conversion loses nothing, so that converting to a third type may skip it.
fn reads_alike(from: DType, to: DType) -> bool {
    from != DType::I1 && to.holds(from)
}

/// Gives the operands of a product: rows first. A matrix that is multiplied by a vector on its
/// right gives columns where its rows are contiguous.
pub(super) fn of_product(group: &Function, solver: &Solver, dot: Inst) -> Result<[Operand; 2], String> {
    let [left, right] = group.operands(dot)[..] else { return Err("a product has two operands".into()) };
    let inputs = group.parameters();
    let names = [("lhs_batching_dims", "lhs_contracting_dims"), ("rhs_batching_dims", "rhs_contracting_dims")];
    let [mut left, mut right] = [(left, names[0]), (right, names[1])].map(|(value, (batch, sum))| {
        let mut operand = Operand::of(group, solver, inputs, value);
        (operand.batch, operand.sum) = (group.axes(dot, batch), group.axes(dot, sum));
        operand.free = (0..operand.dims.len()).filter(|d| !operand.batch.contains(d) && !operand.sum.contains(d)).collect();
        operand
    });
    drop_ones(solver, &mut left, &mut right);
    left.first = left.batch.len();
    right.first = left.first + left.free.len();
    let swap = right.free.is_empty() && left.free.last().is_some_and(|&d| left.is_contiguous(d));
    Ok(if swap { [right, left] } else { [left, right] })
}

/// Leaves sums over one element out: an operand has no stride along such a dimension, and the
/// others can be one without it.
fn drop_ones(solver: &Solver, left: &mut Operand, right: &mut Operand) {
    let one = Dim::constant(1);
    let kept: Vec<usize> = (0..left.sum.len()).filter(|&i| !solver.equal(&left.dims[left.sum[i]], &one)).collect();
    if !kept.is_empty() {
        for side in [left, right] {
            side.sum = kept.iter().map(|&i| side.sum[i]).collect();
        }
    }
}
