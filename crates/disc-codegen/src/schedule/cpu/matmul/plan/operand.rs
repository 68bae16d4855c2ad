//! An operand of a product: where it lies in memory, if it does, and what its dimensions are to the product.
//!
//! A broadcast, a size of 1 that is added or dropped, the front of a tensor, and a conversion that loses nothing are only another way to read memory. What is computed
//! otherwise has no memory: the schedule computes it into memory of the task.
use crate::{
    element::Elements,
    kernel::{Index, KernelBuilder},
    schedule::common::iteration_space::mergeable,
};
use disc_ir::{DType, Dim, Function, OpKind, Solver, Value};
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
    /// Which neighbouring dimensions are one where the operand is computed.
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

    /// Whether dimensions `outer` and `inner` can be walked as one.
    pub(in crate::schedule) fn joins(&self, solver: &Solver, outer: usize, inner: usize) -> bool {
        match &self.memory {
            Some(memory) => solver.equal(&memory.strides[outer], &(&memory.strides[inner] * &self.dims[inner])),
            None => outer + 1 == inner && self.together[outer],
        }
    }

    pub(in crate::schedule) fn is_contiguous(&self, dim: usize) -> bool {
        self.memory.as_ref().is_some_and(|memory| memory.strides[dim].is_const(1))
    }

    /// The element at a position of the product, and of the sums.
    pub(in crate::schedule) fn element(
        &self,
        kb: &mut KernelBuilder,
        elements: &mut Elements<'_>,
        at: &[Index],
        sums: &[Index],
    ) -> Value {
        let mut here = vec![Index::uniform(kb.int(0)); self.dims.len()];
        for (i, &dim) in self.batch.iter().enumerate() {
            here[dim] = at[i];
        }
        for (i, &dim) in self.free.iter().enumerate() {
            here[dim] = at[self.first + i];
        }
        match (sums, self.sum.last()) {
            // Of sums that are walked as one, the last dimension carries the position.
            (&[index], Some(&last)) => here[last] = index,
            _ => self.sum.iter().zip(sums).for_each(|(&dim, &index)| here[dim] = index),
        }
        elements.element(kb, self.value, &here)
    }
}

/// How to read `value` in memory.
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

/// Whether a conversion loses nothing, so that converting to a third type may skip it.
fn reads_alike(from: DType, to: DType) -> bool {
    from != DType::I1 && to.holds(from)
}
