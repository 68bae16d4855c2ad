//! Represents the operands and the windows of a convolution; writes lists for one dimension as
//! those for two.
use super::memory::{Memory, input_of};
use crate::schedule::{Argument, Group};
use disc_ir::{DType, Dim, Inst, Value};
use disc_passes::analysis::query::Query;

/// Sizes and strides of an operand.
pub(super) struct Operand {
    pub(super) argument: Argument,
    pub(super) sizes: Vec<Dim>,
    pub(super) strides: Vec<Dim>,
}

/// The steps of windows, for each dimension that they slide over.
pub(super) struct Windows {
    pub(super) sizes: Vec<Dim>,
    pub(super) steps: Vec<i64>,
    pub(super) dilations: Vec<i64>,
    pub(super) low: Vec<Dim>,
    pub(super) high: Vec<Dim>,
}

impl Windows {
    /// Reads the attributes of an op.
    pub(super) fn of(group: &Group<'_>, inst: Inst, sizes: Vec<Dim>, dilations: &str) -> Self {
        let function = group.function;
        let ones = Self::ones(sizes.len());
        let factors = |name: &str| Some(function.ints(inst, name).to_vec()).filter(|list| !list.is_empty());
        let paddings = |name: &str| Some(function.dims(inst, name).to_vec()).filter(|list| !list.is_empty());
        Self {
            sizes,
            steps: factors("window_strides").unwrap_or(ones.steps),
            dilations: factors(dilations).unwrap_or(ones.dilations),
            low: paddings("padding_low").unwrap_or(ones.low),
            high: paddings("padding_high").unwrap_or(ones.high),
        }
    }

    /// Windows of one element, one for each element of the input.
    pub(super) fn ones(dims: usize) -> Self {
        let (zeros, ones) = (vec![Dim::constant(0); dims], vec![1; dims]);
        Self { sizes: vec![Dim::constant(1); dims], steps: ones.clone(), dilations: ones, low: zeros.clone(), high: zeros }
    }
}

/// Returns the operand that a value is, with its axes in this order; `None` if it is computed.
pub(super) fn operand(group: &Group<'_>, value: Value, axes: &[usize]) -> Option<Operand> {
    let Memory { input, strides } = Memory::of(group, value)?;
    let dims = &group.tensor(value).dims;
    Some(Operand {
        argument: input_of(group, input)?,
        sizes: axes.iter().map(|&axis| dims[axis].clone()).collect(),
        strides: axes.iter().map(|&axis| strides[axis].clone()).collect(),
    })
}

/// Returns the element type of an input of the group.
pub(super) fn dtype_of(group: &Group<'_>, argument: Argument) -> DType {
    let Argument::Input(position) = argument else { unreachable!("an operand is an input of the group") };
    group.tensor(group.inputs()[position]).dtype
}

/// Returns a list for batch, features and two places, of one for one or two.
pub(super) fn over_two(list: &[Dim], filling: Dim) -> Vec<Dim> {
    [&list[..2], &padded(&list[2..], filling)].concat()
}

/// Returns a list for two places, of one for one or two.
pub(super) fn padded(list: &[Dim], filling: Dim) -> Vec<Dim> {
    let missing = 2usize.saturating_sub(list.len());
    std::iter::repeat_n(filling, missing).chain(list.iter().cloned()).collect()
}

/// Returns the strides over two places.
pub(super) fn strides_over_two(strides: &[Dim], sizes: &[Dim]) -> Vec<Dim> {
    let (last, size) = (strides.last().expect("a place"), sizes.last().expect("a place"));
    over_two(strides, last * size)
}
