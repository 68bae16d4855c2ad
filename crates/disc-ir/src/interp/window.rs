//! Evaluates ops on sliding windows.
use super::{
    Tensor,
    call::Call,
    index_space::{checked_offset, for_each, strides},
    machine::{Evaluated, Machine},
    movement::pick,
    reduce::{Combiner, assemble, elements},
};
use crate::diag::Diagnostic;

/// The geometry of windows on a tensor, with one entry per dimension in each list.
pub(super) struct Windows {
    pub(super) sizes: Vec<i64>,
    pub(super) strides: Vec<i64>,
    pub(super) dilations: Vec<i64>,
    pub(super) base_dilations: Vec<i64>,
    pub(super) low: Vec<i64>,
}

impl Windows {
    /// Returns the index of the element at `within` of the window `window`; `None` for padding.
    pub(super) fn place(&self, axis: usize, window: i64, within: i64, size: i64) -> Option<i64> {
        let padded = window * self.strides[axis] + within * self.dilations[axis] - self.low[axis];
        let index = padded.div_euclid(self.base_dilations[axis]);
        let is_element = padded.rem_euclid(self.base_dilations[axis]) == 0 && (0..size).contains(&index);
        is_element.then_some(index)
    }

    /// Returns true if `within` of the window `window` is a gap between two dilated elements, or in
    /// the padding a place of such a gap.
    pub(super) fn is_between(&self, axis: usize, window: i64, within: i64) -> bool {
        let padded = window * self.strides[axis] + within * self.dilations[axis] - self.low[axis];
        padded.rem_euclid(self.base_dilations[axis]) != 0
    }
}

pub(super) fn reduce_window<'a>(machine: &mut Machine<'a>, call: &Call<'a>) -> Evaluated {
    let n = call.args.len() / 2;
    let (inputs, inits) = (call.tensors(0..n)?, call.tensors(n..2 * n)?);
    let (sizes, rank) = (inputs[0].dims(), inputs[0].dims().len());
    let windows = Windows {
        sizes: call.dims("window_dimensions")?,
        strides: call.ints_or("window_strides", 1, rank),
        dilations: call.ints_or("window_dilations", 1, rank),
        base_dilations: call.ints_or("base_dilations", 1, rank),
        low: call.dims_or_zeros("padding_low", rank)?,
    };
    let (combiner, steps) = (Combiner::accumulating(call)?, strides(sizes));
    let neutral = elements(&inits, 0);
    let mut results = Vec::new();
    for_each(&call.shape(), |_, window| {
        let mut sofar = neutral.clone();
        for_each(&windows.sizes, |_, within| {
            machine.charge(1)?;
            let index: Option<Vec<i64>> =
                (0..rank).map(|axis| windows.place(axis, window[axis], within[axis], sizes[axis])).collect();
            let place = index.and_then(|index| checked_offset(&index, sizes, &steps));
            let next = place.map_or_else(|| neutral.clone(), |place| elements(&inputs, place));
            sofar = combiner.combine(machine, std::mem::take(&mut sofar), &next)?;
            Ok::<(), Diagnostic>(())
        })?;
        results.push(sofar);
        Ok::<(), Diagnostic>(())
    })?;
    assemble(call, &results)
}

pub(super) fn im2col<'a>(_: &mut Machine<'a>, call: &Call<'a>) -> Evaluated {
    let (input, window) = (call.tensor(0)?, call.dims("window_dimensions")?);
    let rank = window.len();
    let others = input.dims().len() - rank;
    let windows = Windows {
        sizes: window,
        strides: call.ints_or("window_strides", 1, rank),
        dilations: call.ints_or("window_dilations", 1, rank),
        base_dilations: call.ints_or("base_dilations", 1, rank),
        low: call.dims_or_zeros("padding_low", rank)?,
    };
    let result = pick(call, input, None, |index, from| {
        let (within, window) = (&index[others..others + rank], &index[others + rank..]);
        from[..others].copy_from_slice(&index[..others]);
        (0..rank).all(|axis| {
            let place = windows.place(axis, window[axis], within[axis], input.dims()[others + axis]);
            from[others + axis] = place.unwrap_or(0);
            place.is_some()
        })
    });
    Ok(vec![result?.into()])
}

pub(super) fn winograd<'a>(_: &mut Machine<'a>, call: &Call<'a>) -> Evaluated {
    Ok(vec![call.args[0].clone()])
}

/// A tensor with its strides.
pub(super) struct Strided<'c> {
    pub(super) tensor: &'c Tensor,
    pub(super) steps: Vec<i64>,
}

impl<'c> Strided<'c> {
    pub(super) fn new(tensor: &'c Tensor) -> Self {
        Self { tensor, steps: strides(tensor.dims()) }
    }
}
