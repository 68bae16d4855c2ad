//! Finds right operands that are windows over memory: the im2col form of a convolution's input.
use super::MatmulPlan;
use disc_ir::{Dim, Function, OpKind};
use disc_passes::analysis::query::Query;

/// Windows over memory.
pub(in crate::schedule) struct Im2col {
    /// The position of the memory among the plan's inputs.
    pub(in crate::schedule) input: usize,
    pub(in crate::schedule) shape: Vec<Dim>,
    /// One entry for each dimension that windows slide over.
    pub(in crate::schedule) taps: Vec<Dim>,
    pub(in crate::schedule) counts: Vec<Dim>,
    pub(in crate::schedule) steps: Vec<i64>,
    pub(in crate::schedule) dilations: Vec<i64>,
    pub(in crate::schedule) low: Vec<Dim>,
}

impl Im2col {
    /// Finds the windows of a right operand that is `im2col` of an input of the group, if its
    /// columns are the windows' counts.
    pub(in crate::schedule) fn of(group: &Function, plan: &MatmulPlan) -> Option<Self> {
        let read = plan.right.operand.value;
        // A conversion that loses nothing is another way to read windows.
        let dtype = |value| group.ty(value).dtype();
        let value = match group.made_by(read, OpKind::Convert).map(|convert| group.operands(convert)[0]) {
            Some(from) if dtype(read).holds(dtype(from)) => from,
            _ => read,
        };
        let inst = group.made_by(value, OpKind::Im2col)?;
        let operand = group.operands(inst)[0];
        let input = plan.inputs.iter().position(|&input| input == operand)?;
        let shape = group.ty(operand).shaped()?.dims.to_vec();
        let dims = &group.ty(value).shaped()?.dims;
        let windows = dims.len() - shape.len();
        let others = shape.len() - windows;
        let spread = group.ints(inst, "base_dilations");
        // Sums over one element are left out.
        let summed = others.checked_sub(1)?..others + windows;
        let counted: Vec<usize> = (others + windows..dims.len()).collect();
        let fits = windows > 0
            && spread.iter().all(|&factor| factor == 1)
            && summed.clone().filter(|dim| plan.right.operand.sum.contains(dim)).eq(plan.right.operand.sum.iter().copied())
            && plan.right.operand.free == counted
            && plan.right.operand.batch.iter().all(|&dim| dim < others - 1);
        let or_ones = |name: &str| match group.ints(inst, name) {
            [] => vec![1; windows],
            given => given.to_vec(),
        };
        let low = match group.dims(inst, "padding_low") {
            [] => vec![Dim::constant(0); windows],
            given => given.to_vec(),
        };
        fits.then(|| Self {
            input,
            taps: dims[others..others + windows].to_vec(),
            counts: dims[others + windows..].to_vec(),
            steps: or_ones("window_strides"),
            dilations: or_ones("window_dilations"),
            low,
            shape,
        })
    }
}
