//! Convolutions as products: output features are rows, positions of windows are columns, and input features and taps are summed.
//!
//! The windows are never written to memory: a unit computes the panels of them that it needs. Where each window is one element, the right
//! operand is the input itself, and there are no taps to sum over.
use super::operand::{Memory, Operand};
use disc_ir::{Attr, Dim, Function, Inst, OpKind, Solver, Value};

/// The kernels and the windows of a convolution.
pub(super) fn operands(group: &Function, solver: &Solver, inst: Inst) -> Result<[Operand; 2], String> {
    let op = Convolution { group, inst };
    if op.int("feature_group_count") > 1 || op.int("batch_group_count") > 1 {
        return Err("groups of features are convolved one by one".into());
    }
    let &[input, kernels] = group.operands(inst) else { return Err("a convolution has two operands".into()) };
    let dims = |value: Value| &group.ty(value).shaped().expect("a tensor").dims;
    let out = dims(group.result(inst));
    let (taps, positions) = (op.axes("kernel_spatial_dimensions"), op.axes("output_spatial_dimensions"));
    let (features, channels) = (op.axis("kernel_output_feature_dimension"), op.axis("kernel_input_feature_dimension"));

    let mut left = Operand::of(group, solver, group.parameters(), kernels);
    // In the order of memory, so that the sums are one dimension.
    left.sum = (0..left.dims.len()).filter(|&d| d != features).collect();
    (left.free, left.free_axes) = (vec![features], vec![op.axis("output_feature_dimension")]);

    let mut right = Operand::of(group, solver, group.parameters(), input);
    let count = positions.len();
    let window = |kernel_dim: usize| match taps.iter().position(|&tap| tap == kernel_dim) {
        Some(tap) => 2 + count + tap,
        None => 1 + count,
    };
    right.sum = left.sum.iter().map(|&d| window(d)).collect();
    right.free = (0..=count).collect();
    right.free_axes = [op.axis("output_batch_dimension")].into_iter().chain(positions.iter().copied()).collect();
    right.dims = right.free_axes.iter().map(|&axis| out[axis].clone()).collect();
    right.dims.push(dims(kernels)[channels].clone());
    right.dims.extend(taps.iter().map(|&tap| dims(kernels)[tap].clone()));
    right.windows = Some(inst);
    let memory = right.memory.take().filter(|_| op.is_pointwise(&right.dims[2 + count..]));
    if let Some(memory) = memory {
        right.memory = Some(op.points(&memory, count));
        (left.sum, right.sum) = (vec![channels], vec![1 + count]);
    }
    Ok([left, right])
}

struct Convolution<'g> {
    group: &'g Function,
    inst: Inst,
}

impl Convolution<'_> {
    fn attr(&self, name: &str) -> Option<&Attr> {
        OpKind::Convolution.def().attr_position(name).and_then(|i| self.group.inst(self.inst).attrs[i].as_ref())
    }

    fn int(&self, name: &str) -> i64 {
        match self.attr(name) {
            Some(Attr::Int(value)) => *value,
            _ => 0,
        }
    }

    fn axis(&self, name: &str) -> usize {
        self.int(name) as usize
    }

    fn axes(&self, name: &str) -> Vec<usize> {
        match self.attr(name) {
            Some(Attr::Ints(values)) => values.iter().map(|&value| value as usize).collect(),
            _ => Vec::new(),
        }
    }

    /// Whether each window is the element at its own position.
    fn is_pointwise(&self, taps: &[Dim]) -> bool {
        let ones = |name: &str| self.axes(name).iter().all(|&factor| factor == 1);
        let none = |name: &str| match self.attr(name) {
            Some(Attr::Dims(sizes)) => sizes.iter().all(|size| size.is_const(0)),
            _ => true,
        };
        taps.iter().all(|tap| tap.is_const(1))
            && ones("window_strides")
            && ones("lhs_dilation")
            && none("padding_low")
            && none("padding_high")
    }

    /// The input as windows of one element.
    fn points(&self, memory: &Memory, taps: usize) -> Memory {
        let spatial = self.axes("input_spatial_dimensions");
        let batch = [self.axis("input_batch_dimension")];
        let features = [self.axis("input_feature_dimension")];
        let kept = batch.iter().chain(&spatial).chain(&features);
        let mut strides: Vec<Dim> = kept.map(|&dim| memory.strides[dim].clone()).collect();
        strides.extend(vec![Dim::constant(0); taps]);
        Memory { input: memory.input, strides }
    }
}
