//! Evaluates matmuls and convolutions: products are summed in f64, or in wide integers, and stored
//! once.
use super::{
    Tensor,
    call::Call,
    index_space::{for_each, offset, others, select},
    machine::{Evaluated, Machine},
    scalar::{Scalar, round},
    window::{Strided, Windows},
};
use crate::{diag::Diagnostic, types::DType};

/// A sum of products.
struct Sum {
    float: f64,
    int: i128,
}

impl Sum {
    const ZERO: Sum = Sum { float: 0.0, int: 0 };

    fn add(&mut self, a: Scalar, b: Scalar, dtype: DType) {
        match (a, b) {
            (Scalar::Int(a), Scalar::Int(b)) => {
                self.int = round(dtype, Scalar::Int(self.int.wrapping_add(a.wrapping_mul(b)))).as_int()
            }
            _ => self.float += a.as_f64() * b.as_f64(),
        }
    }

    fn value(self, dtype: DType) -> Scalar {
        if dtype.is_float() { Scalar::Float(self.float) } else { Scalar::Int(self.int) }
    }
}

pub(super) fn dot_general(machine: &mut Machine<'_>, call: &Call<'_>) -> Evaluated {
    let (lhs, rhs) = (Strided::new(call.tensor(0)?), Strided::new(call.tensor(1)?));
    let (lhs_batch, rhs_batch) = (call.axes("lhs_batching_dims"), call.axes("rhs_batching_dims"));
    let (lhs_summed, rhs_summed) = (call.axes("lhs_contracting_dims"), call.axes("rhs_contracting_dims"));
    let lhs_free = others(&[&lhs_batch[..], &lhs_summed].concat(), lhs.steps.len());
    let rhs_free = others(&[&rhs_batch[..], &rhs_summed].concat(), rhs.steps.len());
    let summed = select(lhs.tensor.dims(), &lhs_summed);
    let (lhs_steps, rhs_steps) = (select(&lhs.steps, &lhs_summed), select(&rhs.steps, &rhs_summed));
    let (dtype, shape) = (call.dtype(), call.shape());
    let packed = call.has("packed_columns");
    // In panels of words, one more index selects the element of a word.
    let word = rhs.tensor.dims().get(3).copied().filter(|_| packed);
    let mut result = Tensor::zeros(dtype, shape.clone());
    for_each(&shape, |i, index| {
        let (batch, rest) = index.split_at(lhs_batch.len());
        let (left, mut right) = rest.split_at(lhs_free.len());
        let panel;
        if packed {
            let width = rhs.tensor.dims()[2];
            panel = [right[0] / width, right[0] % width];
            right = &panel;
        }
        let a = offset(batch, &select(&lhs.steps, &lhs_batch)) + offset(left, &select(&lhs.steps, &lhs_free));
        let b = offset(batch, &select(&rhs.steps, &rhs_batch)) + offset(right, &select(&rhs.steps, &rhs_free));
        let mut sum = Sum::ZERO;
        for_each(&summed, |_, k| {
            machine.charge(1)?;
            let there = match word {
                Some(width) => k[0] / width * rhs_steps[0] + k[0] % width,
                None => offset(k, &rhs_steps) as i64,
            };
            sum.add(lhs.tensor.at(a + offset(k, &lhs_steps)), rhs.tensor.at(b + there as usize), dtype);
            Ok::<(), Diagnostic>(())
        })?;
        result.set(i, sum.value(dtype));
        Ok::<(), Diagnostic>(())
    })?;
    Ok(vec![result.into()])
}

pub(super) fn unpack_int4(machine: &mut Machine<'_>, call: &Call<'_>) -> Evaluated {
    let (words, scales, shape) = (Strided::new(call.tensor(0)?), Strided::new(call.tensor(1)?), call.shape());
    let mut result = Tensor::zeros(call.dtype(), shape.clone());
    for_each(&shape, |i, at| {
        machine.charge(1)?;
        let word = words.tensor.at(offset(&[at[0], at[1], at[3] / 8, at[2]], &words.steps)).as_int();
        // The four bits, and their sign.
        let step = ((word >> (4 * (at[3] % 8))) & 15) ^ 8;
        let scale = scales.tensor.at(offset(&at[..3], &scales.steps)).as_f64();
        result.set(i, Scalar::Float((step - 8) as f64 * scale));
        Ok::<(), Diagnostic>(())
    })?;
    Ok(vec![result.into()])
}

/// The roles of a convolution's axes.
struct Layout {
    batch: usize,
    feature: usize,
    spatial: Vec<usize>,
}

pub(super) fn convolution(machine: &mut Machine<'_>, call: &Call<'_>) -> Evaluated {
    let (lhs, rhs) = (Strided::new(call.tensor(0)?), Strided::new(call.tensor(1)?));
    let layout = |batch: &str, feature: &str, spatial: &str| Layout {
        batch: call.axis(batch),
        feature: call.axis(feature),
        spatial: call.axes(spatial),
    };
    let input = layout("input_batch_dimension", "input_feature_dimension", "input_spatial_dimensions");
    let output = layout("output_batch_dimension", "output_feature_dimension", "output_spatial_dimensions");
    let (in_features, out_features) = (call.axis("kernel_input_feature_dimension"), call.axis("kernel_output_feature_dimension"));
    let kernel_spatial = call.axes("kernel_spatial_dimensions");
    let n = kernel_spatial.len();
    let windows = Windows {
        sizes: select(rhs.tensor.dims(), &kernel_spatial),
        strides: call.ints_or("window_strides", 1, n),
        dilations: call.ints_or("rhs_dilation", 1, n),
        base_dilations: call.ints_or("lhs_dilation", 1, n),
        low: call.dims_or_zeros("padding_low", n)?,
    };
    let reversal = call.ints_or("window_reversal", 0, n);
    let (feature_groups, batch_groups) = (call.int("feature_group_count", 1), call.int("batch_group_count", 1));
    let (features, made) = (rhs.tensor.dims()[in_features], rhs.tensor.dims()[out_features]);
    let (batch_size, shape, dtype) = (lhs.tensor.dims()[input.batch], call.shape(), call.dtype());
    let spatial_sizes = select(lhs.tensor.dims(), &input.spatial);
    let zero = Tensor::zeros(lhs.tensor.dtype(), Vec::new()).at(0);
    let mut result = Tensor::zeros(dtype, shape.clone());
    for_each(&shape, |i, index| {
        let feature = index[output.feature];
        let first_feature = feature / (made / feature_groups) * features;
        let batch = index[output.batch] + feature / (made / batch_groups) * (batch_size / batch_groups);
        let mut sum = Sum::ZERO;
        for_each(&windows.sizes, |_, within| {
            machine.charge(1 + features as u64)?;
            if (0..n).any(|axis| windows.is_between(axis, index[output.spatial[axis]], within[axis])) {
                return Ok(());
            }
            let mut a = batch * lhs.steps[input.batch];
            let mut b = feature * rhs.steps[out_features];
            let mut inside = true;
            for axis in 0..n {
                let place = windows.place(axis, index[output.spatial[axis]], within[axis], spatial_sizes[axis]);
                inside &= place.is_some();
                a += place.unwrap_or(0) * lhs.steps[input.spatial[axis]];
                let tap = if reversal[axis] == 1 { windows.sizes[axis] - 1 - within[axis] } else { within[axis] };
                b += tap * rhs.steps[kernel_spatial[axis]];
            }
            for c in 0..features {
                let from = a + (first_feature + c) * lhs.steps[input.feature];
                let weight = b + c * rhs.steps[in_features];
                // Padding multiplies like any zero: times infinity it is NaN.
                let element = if inside { lhs.tensor.at(from as usize) } else { zero };
                sum.add(element, rhs.tensor.at(weight as usize), dtype);
            }
            Ok::<(), Diagnostic>(())
        })?;
        result.set(i, sum.value(dtype));
        Ok::<(), Diagnostic>(())
    })?;
    Ok(vec![result.into()])
}
