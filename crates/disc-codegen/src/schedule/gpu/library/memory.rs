//! Finds the elements of an input that a value of a group only moves.
use crate::schedule::{Argument, Group};
use disc_ir::{Dim, OpKind, Value};
use disc_passes::analysis::query::Query;

/// Returns the argument of an input of the group.
pub(super) fn input_of(group: &Group<'_>, value: Value) -> Option<Argument> {
    group.inputs().iter().position(|&input| input == value).map(Argument::Input)
}

/// The elements of an input, as the dimensions of a value walk them.
pub(super) struct Memory {
    pub(super) input: Value,
    pub(super) strides: Vec<Dim>,
}

impl Memory {
    /// Returns the memory of a value that only moves elements of an input.
    pub(super) fn of(group: &Group<'_>, value: Value) -> Option<Self> {
        let function = group.function;
        let Some(inst) = function.defining(value) else {
            let is_input = group.inputs().contains(&value);
            return is_input.then(|| Self { input: value, strides: contiguous(&group.tensor(value).dims) });
        };
        let dims = &group.tensor(value).dims;
        let source = *function.operands(inst).first()?;
        match function.kind_of(inst) {
            OpKind::Transpose => {
                let Self { input, strides } = Self::of(group, source)?;
                let order = function.axes(inst, "dims");
                Some(Self { input, strides: order.into_iter().map(|axis| strides[axis].clone()).collect() })
            }
            OpKind::BroadcastInDim => {
                let Self { input, strides } = Self::of(group, source)?;
                let mut spread = vec![Dim::constant(0); dims.len()];
                for (axis, to) in function.axes(inst, "dims").into_iter().enumerate() {
                    let from = &group.tensor(source).dims[axis];
                    match group.solver.equal(from, &dims[to]) {
                        true => spread[to] = strides[axis].clone(),
                        // One element for all.
                        false if from.as_const() == Some(1) => {}
                        false => return None,
                    }
                }
                Some(Self { input, strides: spread })
            }
            // The elements of an input stay in their order, whatever its sizes.
            OpKind::Reshape => {
                let memory = Self::of(group, source)?;
                let whole = contiguous(&group.tensor(source).dims);
                (memory.strides == whole).then(|| Self { strides: contiguous(dims), ..memory })
            }
            _ => None,
        }
    }
}

/// Returns the strides of a tensor whose elements are in order.
pub(super) fn contiguous(dims: &[Dim]) -> Vec<Dim> {
    (0..dims.len()).map(|axis| Dim::product(dims[axis + 1..].iter().cloned())).collect()
}
