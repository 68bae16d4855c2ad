//! Offers the convolutions of a group to a library.
//!
//! A convolution is an op of the group, or a matmul of its filter with patches of its input
//! (`lower_convolutions` of disc-passes), which are the input itself where windows have one
//! element. A library computes over two dimensions: if there is a single one, a dimension of size 1
//! is put before it.
use super::{
    epilogue::{Epilogue, Place},
    memory::{contiguous, input_of},
    operands::{Operand, Windows, dtype_of, operand, over_two, padded, strides_over_two},
};
use crate::schedule::{Argument, ConvolutionOffer, Group};
use disc_abi::Activation;
use disc_ir::{DType, Dim, Inst, OpKind, Value};
use disc_passes::analysis::query::Query;

/// A convolution of inputs of a group.
pub(super) struct Convolution<'g> {
    group: &'g Group<'g>,
    /// Its result: batch, features, the groups of which may be a dimension before, and places.
    pub(super) value: Value,
    input: Argument,
    filter: Argument,
    /// Batch, features, and the sizes of places.
    result: Vec<Dim>,
    sizes: [Dim; 10],
    input_strides: [Dim; 4],
    filter_strides: [Dim; 4],
    window: [Dim; 9],
}

impl<'g> Convolution<'g> {
    /// Returns the convolution that an op of the group is, if a library may compute it.
    pub(super) fn of(group: &'g Group<'g>, inst: Inst) -> Option<Self> {
        match group.function.kind_of(inst) {
            OpKind::Convolution => Self::of_op(group, inst),
            OpKind::DotGeneral => Self::of_matmul(group, inst),
            _ => None,
        }
    }

    fn of_op(group: &'g Group<'g>, inst: Inst) -> Option<Self> {
        let function = group.function;
        let roles = |names: [&str; 2], spatial: &str| -> Vec<usize> {
            let first = names.map(|name| function.int(inst, name) as usize);
            first.into_iter().chain(function.axes(inst, spatial)).collect()
        };
        let input_axes = roles(["input_batch_dimension", "input_feature_dimension"], "input_spatial_dimensions");
        let filter_axes =
            roles(["kernel_output_feature_dimension", "kernel_input_feature_dimension"], "kernel_spatial_dimensions");
        let result_axes = roles(["output_batch_dimension", "output_feature_dimension"], "output_spatial_dimensions");
        let is_plain = result_axes.is_sorted()
            && function.ints(inst, "lhs_dilation").iter().all(|&apart| apart == 1)
            && function.ints(inst, "window_reversal").iter().all(|&reversed| reversed == 0)
            && function.int(inst, "batch_group_count") <= 1;
        let [input, filter] = function.operands(inst)[..] else { return None };
        let (input, filter) = (operand(group, input, &input_axes)?, operand(group, filter, &filter_axes)?);
        let windows = Windows::of(group, inst, filter.sizes[2..].to_vec(), "rhs_dilation");
        let groups = function.int(inst, "feature_group_count").max(1);
        let (value, result) = (function.result(inst), group.tensor(function.result(inst)).dims.to_vec());
        if is_plain { Self::new(group, value, result, input, filter, &windows, groups) } else { None }
    }

    fn of_matmul(group: &'g Group<'g>, dot: Inst) -> Option<Self> {
        let function = group.function;
        let [filter, patches] = function.operands(dot)[..] else { return None };
        let axes = |name: &str| function.axes(dot, name);
        let (lead, sums) = (axes("rhs_batching_dims").len(), axes("rhs_contracting_dims"));
        let gathers = function.made_by(patches, OpKind::Im2col);
        let taps = gathers.map_or(0, |inst| function.dims(inst, "window_dimensions").len());
        let (source, rank) = (gathers.map_or(patches, |inst| function.operands(inst)[0]), group.tensor(patches).rank());
        // Batches, groups if there are any, the features that are summed, windows, places.
        let places = rank.checked_sub(lead + 1 + taps)?;
        let in_order = |axes: Vec<usize>| axes.into_iter().eq(0..lead);
        let is_one = (1..=2).contains(&lead)
            && in_order(axes("lhs_batching_dims"))
            && in_order(axes("rhs_batching_dims"))
            && (gathers.is_none() || taps == places);
        if !is_one {
            return None;
        }
        // The filter's axis for each of the features and the windows.
        let of_filter = axes("lhs_contracting_dims");
        let along: Vec<usize> = (lead..=lead + taps)
            .map(|axis| sums.iter().position(|&sum| sum == axis).map(|position| of_filter[position]))
            .collect::<Option<_>>()?;
        let mut free = (lead..group.tensor(filter).rank()).filter(|axis| !of_filter.contains(axis));
        let (Some(features), None) = (free.next(), free.next()) else { return None };
        let in_all = |rank: usize| (0..rank).collect::<Vec<_>>();
        let mut input = operand(group, source, &in_all(group.tensor(source).rank()))?;
        let whole = operand(group, filter, &in_all(lead))?;
        let mut filter = operand(group, filter, &[&[features], &along[..]].concat())?;
        // All batches have one filter.
        if !whole.strides[0].is_const(0) && !whole.sizes[0].is_const(1) {
            return None;
        }
        if gathers.is_none() {
            // A window of one element.
            for _ in 0..places {
                filter.strides.push(Dim::constant(1));
                filter.sizes.push(Dim::constant(1));
            }
        }
        let mut result = group.tensor(function.result(dot)).dims.to_vec();
        let groups = if lead == 2 { join_groups(group, &whole, [&mut input, &mut filter], &mut result)? } else { 1 };
        let windows = match gathers {
            Some(inst) if function.ints(inst, "base_dilations").iter().any(|&apart| apart != 1) => return None,
            Some(inst) => Windows::of(group, inst, filter.sizes[2..].to_vec(), "window_dilations"),
            None => Windows::ones(places),
        };
        Self::new(group, function.result(dot), result, input, filter, &windows, groups)
    }

    fn new(
        group: &'g Group<'g>,
        value: Value,
        result: Vec<Dim>,
        input: Operand,
        filter: Operand,
        windows: &Windows,
        groups: i64,
    ) -> Option<Self> {
        let dims = windows.sizes.len();
        let dtype = dtype_of(group, input.argument);
        let has_types = dtype_of(group, filter.argument) == dtype
            && matches!(dtype, DType::F32 | DType::F16 | DType::BF16)
            && [dtype, DType::F32].contains(&group.tensor(value).dtype);
        let is_known =
            (1..=2).contains(&dims) && [&result, &input.sizes, &filter.sizes].iter().all(|sizes| sizes.len() == 2 + dims);
        if !has_types || !is_known {
            return None;
        }
        let one = || Dim::constant(1);
        let numbers = |numbers: &[i64]| numbers.iter().map(|&number| Dim::constant(number)).collect::<Vec<_>>();
        let sizes = [over_two(&input.sizes, one()), over_two(&filter.sizes, one())].concat();
        let sizes = [&sizes[..], &over_two(&result, one())[2..]].concat();
        let pairs = [
            padded(&numbers(&windows.steps), one()),
            padded(&numbers(&windows.dilations), one()),
            padded(&windows.low, Dim::constant(0)),
            padded(&windows.high, Dim::constant(0)),
            vec![Dim::constant(groups)],
        ];
        Some(Self {
            group,
            value,
            input: input.argument,
            filter: filter.argument,
            sizes: sizes.try_into().ok()?,
            input_strides: strides_over_two(&input.strides, &input.sizes).try_into().ok()?,
            filter_strides: strides_over_two(&filter.strides, &filter.sizes).try_into().ok()?,
            window: pairs.concat().try_into().ok()?,
            result,
        })
    }

    /// Returns the offer of only the convolution.
    pub(super) fn alone(&self, result: Argument) -> ConvolutionOffer {
        self.offer(result, None, Activation::None)
    }

    /// Returns the offer that computes an output of the group, if a library computes all that the
    /// group does; true if that is only the convolution.
    pub(super) fn whole(&self, position: usize) -> Option<(ConvolutionOffer, bool)> {
        let (group, output) = (self.group, self.group.output(position));
        let dtype = group.tensor(output).dtype;
        if ![dtype_of(group, self.input), DType::F32].contains(&dtype) {
            return None;
        }
        let place = Place::Features([&self.result[0], &self.result[1]]);
        let Epilogue { bias, activation } = Epilogue::of(group, self.value, output, place)?;
        if activation == Activation::GeluTanh {
            return None;
        }
        let is_rounded_alike = dtype == group.tensor(self.value).dtype;
        let is_alone = bias.is_none() && activation == Activation::None && is_rounded_alike;
        let bias = match bias {
            Some(input) => Some(input_of(group, input)?),
            None => None,
        };
        Some((self.offer(Argument::Output(position), bias, activation), is_alone))
    }

    fn offer(&self, result: Argument, bias: Option<Argument>, activation: Activation) -> ConvolutionOffer {
        let strides =
            [&self.input_strides[..], &self.filter_strides, &strides_over_two(&contiguous(&self.result), &self.result)].concat();
        ConvolutionOffer {
            sizes: self.sizes.clone(),
            strides: strides.try_into().expect("three tensors of four dimensions"),
            window: self.window.clone(),
            activation,
            tf32: self.group.tf32 && dtype_of(self.group, self.input) == DType::F32,
            input: self.input,
            filter: self.filter,
            bias,
            result,
        }
    }
}

/// Joins the groups of features, which are a dimension of input, filter and result before their
/// features, with these. Returns how many there are; `None` if they are not stored side by side.
fn join_groups(group: &Group<'_>, leading: &Operand, [input, filter]: [&mut Operand; 2], result: &mut Vec<Dim>) -> Option<i64> {
    let groups = input.sizes[1].as_const()?;
    let follow = |outer: &Dim, inner: &Operand, axis: usize| {
        groups == 1 || group.solver.equal(outer, &(&inner.strides[axis] * &inner.sizes[axis]))
    };
    if !follow(&leading.strides[1], filter, 0) || !follow(&input.strides[1], input, 2) {
        return None;
    }
    filter.sizes[0] = &filter.sizes[0] * groups;
    for sizes in [&mut input.sizes, result] {
        sizes[2] = &sizes[2] * groups;
        sizes.remove(1);
    }
    input.strides.remove(1);
    Some(groups)
}
