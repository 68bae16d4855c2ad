//! Emits reshapes: the same elements, counted by other dimensions.
//!
//! A position that was joined from several dimensions remembers them, so that taking it apart again
//! is free. Positions are divided only if dimensions of both sides have no common refinement, and
//! not even then if only element-wise ops are between the reshape and memory: these compute the
//! element of a row-major position.
use super::{Elements, Part, elementwise};
use crate::kernel::{Index, KernelBuilder, linear};
use disc_ir::{Dim, Inst, OpKind, Solver, TensorType, Value, ops::Trait};
use disc_kernel_macros::expr;

impl Elements<'_> {
    /// Emits a reshape. A reshape of memory is the same memory; elsewhere dimensions are split and
    /// joined.
    pub(super) fn reshape(&mut self, kb: &mut KernelBuilder, inst: Inst, at: &[Index]) -> Value {
        let (operand, result) = (self.group.operands(inst)[0], self.group.result(inst));
        let (from, to) = (self.tensor(operand), self.tensor(result));
        if let Some(&buffer) = self.buffers.get(&operand) {
            return self.load(kb, buffer, to, at);
        }
        let at = &self.carried_on(kb, at, &to.dims);
        if let Some(value) = self.repeated(kb, inst, at) {
            return value;
        }
        let parts: Vec<Part> = at.iter().copied().zip(to.dims.iter().cloned()).collect();
        if let Some(position) = self.regrouped(kb, &parts, &from.dims) {
            return self.element(kb, operand, &position);
        }
        if self.is_flat(operand) {
            let joined = self.join(kb, &parts);
            return self.flat_element(kb, operand, joined);
        }
        let position = self.divided(kb, at, &to.dims, &from.dims);
        self.element(kb, operand, &position)
    }

    /// The position at which the operand of a reshape is read, if no dimension need be divided.
    pub(super) fn reshaped(&mut self, kb: &mut KernelBuilder, inst: Inst, at: &[Index]) -> Option<Vec<Index>> {
        let (from, to) = (self.tensor(self.group.operands(inst)[0]), self.tensor(self.group.result(inst)));
        let at = self.carried_on(kb, at, &to.dims);
        let parts: Vec<Part> = at.iter().copied().zip(to.dims.iter().cloned()).collect();
        self.regrouped(kb, &parts, &from.dims)
    }

    /// The same position with 0 along each size of 1: the last dimension of a merged run carries
    /// the position along all of it, and if that one has a size of 1, the dimension before has it
    /// as well.
    fn carried_on(&self, kb: &mut KernelBuilder, at: &[Index], dims: &[Dim]) -> Vec<Index> {
        let (mut at, zero) = (at.to_vec(), Index::uniform(kb.int(0)));
        for axis in (1..at.len()).rev() {
            if at[axis] != zero && self.is_one(&dims[axis]) {
                at[axis - 1] = if at[axis - 1] == zero { at[axis] } else { at[axis - 1].add(kb, self.lanes, at[axis]) };
                at[axis] = zero;
            }
        }
        at
    }

    /// Returns true if a row-major position suffices to compute an element.
    fn is_flat(&self, value: Value) -> bool {
        if let Some(buffer) = self.buffers.get(&value) {
            return !self.blocks.contains_key(buffer);
        }
        let Some(inst) = self.group.defining(value) else { return false };
        let mut operands = self.group.operands(inst).iter();
        match self.group.kind_of(inst) {
            OpKind::Constant => true,
            OpKind::BroadcastInDim => operands.all(|&operand| self.tensor(operand).rank() == 0),
            OpKind::Reshape => operands.all(|&operand| self.is_flat(operand)),
            kind if kind.def().has(Trait::Elementwise) => {
                operands.all(|&operand| self.tensor(operand).rank() == 0 || self.is_flat(operand))
            }
            _ => false,
        }
    }

    /// The element of a row-major position. It is remembered by that only: no other value of more
    /// dimensions has a position of one.
    fn flat_element(&mut self, kb: &mut KernelBuilder, value: Value, at: Index) -> Value {
        let key = (value, vec![at]);
        if let Some(known) = self.scopes.iter().rev().find_map(|scope| scope.elements.get(&key)) {
            return known[0];
        }
        let tensor = self.tensor(value);
        if tensor.rank() == 0 {
            return self.element(kb, value, &[]);
        }
        let found = match (self.buffers.get(&value).copied(), self.group.defining(value)) {
            (Some(buffer), _) => {
                let flat = TensorType::new([tensor.element_count()], tensor.dtype);
                self.load(kb, buffer, &flat, &[at])
            }
            (None, Some(inst)) => self.flat_result(kb, inst, at),
            (None, None) => panic!("an argument of a group is bound to a buffer"),
        };
        self.scope().elements.insert(key, vec![found]);
        found
    }

    fn flat_result(&mut self, kb: &mut KernelBuilder, inst: Inst, at: Index) -> Value {
        let operands: Vec<Value> = self.group.operands(inst).to_vec();
        match self.group.kind_of(inst) {
            OpKind::Constant => self.movement(kb, inst, &[at]),
            OpKind::BroadcastInDim => self.element(kb, operands[0], &[]),
            OpKind::Reshape => self.flat_element(kb, operands[0], at),
            _ => {
                let computed: Vec<Value> = operands.iter().map(|&operand| self.flat_element(kb, operand, at)).collect();
                elementwise::apply(kb, self.group, inst, &computed, self.arithmetic)
            }
        }
    }

    /// The position in a shape each of whose dimensions is made of these axes of a space, at a
    /// position of the space.
    pub(crate) fn position(&mut self, kb: &mut KernelBuilder, space: &[Dim], shape: &[Vec<usize>], at: &[Index]) -> Vec<Index> {
        let join = |axes: &Vec<usize>| {
            let parts: Vec<Part> = axes.iter().map(|&axis| (at[axis], space[axis].clone())).collect();
            self.join(kb, &parts)
        };
        shape.iter().map(join).collect()
    }

    /// The row-major position of positions along several dimensions.
    pub(crate) fn join(&mut self, kb: &mut KernelBuilder, parts: &[Part]) -> Index {
        let parts: Vec<Part> = parts.iter().filter(|(_, size)| !self.is_one(size)).cloned().collect();
        if let [(index, _)] = &parts[..] {
            return *index;
        }
        if let Some(&known) = self.scopes.iter().rev().find_map(|scope| scope.joins.get(&parts)) {
            return known;
        }
        let (at, sizes): (Vec<Index>, Vec<Dim>) = parts.iter().cloned().unzip();
        let strides = super::strides(kb, &sizes);
        let joined = linear(kb, self.lanes, &at, &strides);
        // In a merged run, the last dimension has the position along all of it: the parts of that
        // are not its dimensions.
        if parts.iter().all(|&(index, _)| index != joined) {
            let finest: Vec<Part> = parts.iter().flat_map(|part| self.taken_apart(part)).collect();
            self.parts.entry(joined).or_default().push(finest);
        }
        self.scope().joins.insert(parts, joined);
        joined
    }

    /// The parts from which a position along a dimension was joined, if they are known.
    fn taken_apart(&self, part: &Part) -> Vec<Part> {
        let (index, size) = part;
        let same = |parts: &&Vec<Part>| self.solver.equal(&Dim::product(parts.iter().map(|(_, size)| size.clone())), size);
        let known = self.parts.get(index).and_then(|ways| ways.iter().find(same));
        known.cloned().unwrap_or_else(|| vec![part.clone()])
    }

    /// Positions along other dimensions, if these are made of the same parts.
    fn regrouped(&mut self, kb: &mut KernelBuilder, at: &[Part], dims: &[Dim]) -> Option<Vec<Index>> {
        let parts: Vec<Part> = at.iter().flat_map(|part| self.taken_apart(part)).filter(|(_, size)| !self.is_one(size)).collect();
        let mut left = parts.into_iter();
        let mut groups: Vec<Vec<Part>> = Vec::with_capacity(dims.len());
        for dim in dims {
            let (mut size, mut taken) = (Dim::constant(1), Vec::new());
            while !self.solver.equal(&size, dim) {
                let part = left.next()?;
                size = &size * &part.1;
                taken.push(part);
            }
            groups.push(taken);
        }
        left.next().is_none().then(|| groups.iter().map(|parts| self.join(kb, parts)).collect())
    }

    /// Positions along other dimensions, by division, group by group of dimensions that hold the
    /// same elements.
    fn divided(&mut self, kb: &mut KernelBuilder, at: &[Index], to: &[Dim], from: &[Dim]) -> Vec<Index> {
        let mut position = Vec::with_capacity(from.len());
        for group in matching_dims(&self.solver, from, to) {
            let parts: Vec<Part> = at[group.to.clone()].iter().copied().zip(to[group.to].iter().cloned()).collect();
            let joined = self.join(kb, &parts);
            split(kb, self.lanes, joined, &from[group.from], &mut position);
        }
        position
    }
}

/// Dimensions of a reshape that hold the same elements on both sides.
struct DimGroup {
    from: std::ops::Range<usize>,
    to: std::ops::Range<usize>,
}

/// The finest grouping of the dimensions of a reshape, in order, in which both sides of each group
/// have equally many elements.
fn matching_dims(solver: &Solver, from: &[Dim], to: &[Dim]) -> Vec<DimGroup> {
    let mut groups = Vec::new();
    let (mut i, mut j) = (0, 0);
    while i < from.len() || j < to.len() {
        let (mut next_i, mut next_j) = ((i + 1).min(from.len()), (j + 1).min(to.len()));
        let found = 'search: {
            for total in 1..=(from.len() - i) + (to.len() - j) {
                for a in 0..=total.min(from.len() - i) {
                    let b = total - a;
                    if b <= to.len() - j && solver.product_equal(&from[i..i + a], &to[j..j + b]) {
                        (next_i, next_j) = (i + a, j + b);
                        break 'search true;
                    }
                }
            }
            false
        };
        if !found {
            (next_i, next_j) = (from.len(), to.len());
        }
        groups.push(DimGroup { from: i..next_i, to: j..next_j });
        (i, j) = (next_i, next_j);
    }
    groups
}

/// Splits a row-major position among some dimensions into the positions along them.
fn split(kb: &mut KernelBuilder, lanes: u32, joined: Index, dims: &[Dim], position: &mut Vec<Index>) {
    if dims.len() == 1 {
        position.push(joined);
        return;
    }
    let value = joined.value(kb, lanes);
    let value = kb.convert(value, kb.index_type());
    for i in 0..dims.len() {
        let size = kb.dim(&dims[i]);
        let quotient = expr!(kb, value / dim(&Dim::product(dims[i + 1..].iter().cloned())));
        let here = if i == 0 { quotient } else { expr!(kb, quotient % size) };
        position.push(Index::from_value(kb, here));
    }
}
