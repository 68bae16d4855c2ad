//! Evaluates ops that read or write at data-dependent indices.
use super::{
    Tensor,
    call::Call,
    index_space::{checked_offset, for_each, offset, others, select, strides},
    machine::{Evaluated, Machine},
    reduce::Combiner,
};
use crate::diag::{Code, Diagnostic};

/// The layout of index vectors in a tensor of indices, and the dimensions that they index.
struct Vectors<'c> {
    indices: &'c Tensor,
    vector_dim: usize,
    /// Entry `j` of a vector indexes this dimension of the indexed tensor.
    map: Vec<usize>,
    /// Batching dimensions of the indexed tensor, each with its dimension of the indices.
    batching: Vec<(usize, usize)>,
}

impl Vectors<'_> {
    /// Returns the start of a vector's slice in the indexed tensor. `batch` is the index of the
    /// vector.
    fn start(&self, batch: &[i64], rank: usize) -> Vec<i64> {
        let mut at = batch.to_vec();
        if self.vector_dim < self.indices.dims().len() {
            at.insert(self.vector_dim, 0);
        }
        let steps = strides(self.indices.dims());
        let mut start = vec![0; rank];
        for (j, &axis) in self.map.iter().enumerate() {
            if let Some(entry) = at.get_mut(self.vector_dim) {
                *entry = j as i64;
            }
            let value = self.indices.at(offset(&at, &steps)).as_int();
            // Beyond i64 (a large u64) it is out of range whatever the size.
            start[axis] = i64::try_from(value).unwrap_or(i64::MAX);
        }
        for &(axis, along) in &self.batching {
            start[axis] = at[along];
        }
        start
    }
}

/// Clamps a start so that the slice fits, or fails, as `bounds` says.
fn place(call: &Call<'_>, start: &mut [i64], slice: &[i64], sizes: &[i64]) -> Result<(), Diagnostic> {
    let checked = call.word("bounds") == "check";
    for (axis, index) in start.iter_mut().enumerate() {
        let last = sizes[axis] - slice[axis];
        if last < 0 || (checked && !(0..=last).contains(index)) {
            let what =
                format!("index {index} for a slice of {} in dimension {axis}, which has size {}", slice[axis], sizes[axis]);
            return Err(call.failure(Code::E0603, what));
        }
        *index = (*index).clamp(0, last);
    }
    Ok(())
}

pub(super) fn gather(_: &mut Machine<'_>, call: &Call<'_>) -> Evaluated {
    let (operand, indices) = (call.tensor(0)?, call.tensor(1)?);
    let (sizes, slice, shape) = (operand.dims(), call.dims("slice_sizes")?, call.shape());
    let batched = call.axes("operand_batching_dims");
    let along = call.axes("start_indices_batching_dims");
    let dropped = [call.axes("collapsed_slice_dims"), batched.clone()].concat();
    let (offset_dims, kept) = (call.axes("offset_dims"), others(&dropped, sizes.len()));
    let batch_dims = others(&offset_dims, shape.len());
    let vectors = Vectors {
        indices,
        vector_dim: call.axis("index_vector_dim"),
        map: call.axes("start_index_map"),
        batching: batched.into_iter().zip(along).collect(),
    };
    let mut result = Tensor::zeros(operand.dtype(), shape.clone());
    let steps = strides(sizes);
    for_each(&shape, |i, index| {
        let mut at = vectors.start(&select(index, &batch_dims), sizes.len());
        place(call, &mut at, &slice, sizes)?;
        offset_dims.iter().zip(&kept).for_each(|(&from, &to)| at[to] += index[from]);
        result.set_element(i, operand.element(offset(&at, &steps)));
        Ok(())
    })?;
    Ok(vec![result.into()])
}

pub(super) fn scatter<'a>(machine: &mut Machine<'a>, call: &Call<'a>) -> Evaluated {
    let n = call.args.len() / 2;
    let (inputs, indices, updates) = (call.tensors(0..n)?, call.tensor(n)?, call.tensors(n + 1..2 * n + 1)?);
    let sizes = inputs[0].dims();
    let batched = call.axes("input_batching_dims");
    let along = call.axes("scatter_indices_batching_dims");
    let dropped = [call.axes("inserted_window_dims"), batched.clone()].concat();
    let (windows, kept) = (call.axes("update_window_dims"), others(&dropped, sizes.len()));
    let scattered = others(&windows, updates[0].dims().len());
    let vectors = Vectors {
        indices,
        vector_dim: call.axis("index_vector_dim"),
        map: call.axes("scatter_dims_to_operand_dims"),
        batching: batched.into_iter().zip(along).collect(),
    };
    let checked = call.word("bounds") == "check";
    let combiner = Combiner::stepwise(call)?;
    let mut results: Vec<Tensor> = inputs.iter().map(|&input| input.clone()).collect();
    let steps = strides(sizes);
    for_each(updates[0].dims(), |i, index| {
        machine.charge(1)?;
        let mut at = vectors.start(&select(index, &scattered), sizes.len());
        windows.iter().zip(&kept).for_each(|(&from, &to)| at[to] = at[to].saturating_add(index[from]));
        let Some(to) = checked_offset(&at, sizes, &steps) else {
            let outside = call.failure(Code::E0603, format!("index {at:?} of a tensor with sizes {sizes:?}"));
            return if checked { Err(outside) } else { Ok(()) };
        };
        let current = results.iter().map(|result| result.at(to)).collect();
        let update: Vec<_> = updates.iter().map(|update| update.at(i)).collect();
        let combined = combiner.combine(machine, current, &update)?;
        results.iter_mut().zip(combined).for_each(|(result, value)| result.set(to, value));
        Ok(())
    })?;
    Ok(results.into_iter().map(Into::into).collect())
}

/// The start of a dynamic slice, from the scalar operands after `first`.
fn start(call: &Call<'_>, first: usize, slice: &[i64], sizes: &[i64]) -> Result<Vec<i64>, Diagnostic> {
    let index = |i| Ok(i64::try_from(call.tensor(first + i)?.at(0).as_int()).unwrap_or(i64::MAX));
    let mut start = (0..sizes.len()).map(index).collect::<Result<Vec<_>, Diagnostic>>()?;
    if !slice.contains(&0) {
        place(call, &mut start, slice, sizes)?;
    }
    Ok(start)
}

/// Calls `copy` with the offset of each element of a slice, and its offset in the whole.
fn for_each_in_slice(start: &[i64], slice: &[i64], sizes: &[i64], mut copy: impl FnMut(usize, usize)) -> Result<(), Diagnostic> {
    let steps = strides(sizes);
    for_each(slice, |i, index| {
        let at: Vec<i64> = start.iter().zip(index).map(|(s, i)| s + i).collect();
        copy(i, offset(&at, &steps));
        Ok(())
    })
}

pub(super) fn dynamic_slice(_: &mut Machine<'_>, call: &Call<'_>) -> Evaluated {
    let (operand, slice) = (call.tensor(0)?, call.shape());
    let start = start(call, 1, &slice, operand.dims())?;
    let mut result = Tensor::zeros(operand.dtype(), slice.clone());
    for_each_in_slice(&start, &slice, operand.dims(), |i, at| result.set_element(i, operand.element(at)))?;
    Ok(vec![result.into()])
}

pub(super) fn dynamic_update_slice(_: &mut Machine<'_>, call: &Call<'_>) -> Evaluated {
    let (operand, update) = (call.tensor(0)?, call.tensor(1)?);
    let start = start(call, 2, update.dims(), operand.dims())?;
    let mut result = operand.clone();
    for_each_in_slice(&start, update.dims(), operand.dims(), |i, at| result.set_element(at, update.element(i)))?;
    Ok(vec![result.into()])
}
