//! Evaluates ops that order elements by a merge sort: stable, and safe for a comparator that is no
//! order.
use super::{
    Tensor,
    call::Call,
    elementwise::order,
    index_space::{for_each, offset, strides},
    machine::{Evaluated, Machine},
    reduce::elements,
    scalar::Scalar,
};
use crate::diag::Diagnostic;
use std::cmp::Ordering;

/// Sorts by `before(a, b)`, which returns true if `a` must come before `b`.
fn merge_sort<E>(items: Vec<usize>, before: &mut impl FnMut(usize, usize) -> Result<bool, E>) -> Result<Vec<usize>, E> {
    if items.len() < 2 {
        return Ok(items);
    }
    let mut left = items;
    let right = left.split_off(left.len() / 2);
    let (left, right) = (merge_sort(left, before)?, merge_sort(right, before)?);
    let mut merged = Vec::with_capacity(left.len() + right.len());
    let (mut l, mut r) = (left.into_iter().peekable(), right.into_iter().peekable());
    while let (Some(&a), Some(&b)) = (l.peek(), r.peek()) {
        let next = if before(b, a)? { r.next() } else { l.next() };
        merged.extend(next);
    }
    merged.extend(l.chain(r));
    Ok(merged)
}

/// Calls `visit` with the offsets of each line along `axis`.
fn for_each_line(
    dims: &[i64],
    axis: usize,
    mut visit: impl FnMut(Vec<usize>) -> Result<(), Diagnostic>,
) -> Result<(), Diagnostic> {
    let steps = strides(dims);
    let mut lines = dims.to_vec();
    lines[axis] = lines[axis].min(1);
    for_each(&lines, |_, first| {
        let start = offset(first, &steps);
        visit((0..dims[axis]).map(|i| start + (i * steps[axis]) as usize).collect())
    })
}

pub(super) fn sort<'a>(machine: &mut Machine<'a>, call: &Call<'a>) -> Evaluated {
    let inputs = call.tensors(0..call.args.len())?;
    let comparator = call.region(0)?;
    let mut results: Vec<Tensor> = inputs.iter().map(|&input| input.clone()).collect();
    let mut before = |a: usize, b: usize| {
        machine.charge(1)?;
        let pairs = elements(&inputs, a).into_iter().zip(elements(&inputs, b)).zip(&inputs);
        let scalar = |value: Scalar, input: &Tensor| Tensor::from_fn(input.dtype(), Vec::new(), |_| value).into();
        let arguments = pairs.flat_map(|((x, y), input)| [scalar(x, input), scalar(y, input)]).collect();
        let answer = machine.run_block(comparator, arguments)?.remove(0);
        Ok::<bool, Diagnostic>(answer.into_tensor()?.at(0).is_true())
    };
    for_each_line(inputs[0].dims(), call.axis("dimension"), |places| {
        let sorted = merge_sort(places.clone(), &mut before)?;
        for (to, from) in places.into_iter().zip(sorted) {
            results.iter_mut().zip(&inputs).for_each(|(result, input)| result.set_element(to, input.element(from)));
        }
        Ok(())
    })?;
    Ok(results.into_iter().map(Into::into).collect())
}

/// Orders elements with NaN greater than every number.
fn total(a: Scalar, b: Scalar) -> Ordering {
    let is_nan = |x: Scalar| matches!(x, Scalar::Float(value) if value.is_nan());
    order(a, b).unwrap_or_else(|| is_nan(a).cmp(&is_nan(b)))
}

pub(super) fn top_k(machine: &mut Machine<'_>, call: &Call<'_>) -> Evaluated {
    let operand = call.tensor(0)?;
    let (k, last) = (call.dim("k")?, operand.dims().len() - 1);
    let skip = if call.attr("skip").is_some() { call.dim("skip")? } else { 0 };
    let first = if call.bool("largest", true) { Ordering::Greater } else { Ordering::Less };
    let mut values = Tensor::zeros(operand.dtype(), call.shape());
    let mut indices = Tensor::zeros(call.result_type(1).dtype(), call.shape());
    let mut to = 0;
    for_each_line(operand.dims(), last, |places| {
        machine.charge(places.len() as u64)?;
        let start = places.first().copied().unwrap_or(0);
        let mut before = |a: usize, b: usize| Ok::<_, Diagnostic>(total(operand.at(a), operand.at(b)) == first);
        for from in merge_sort(places, &mut before)?.into_iter().skip(skip as usize).take(k as usize) {
            values.set_element(to, operand.element(from));
            indices.set(to, Scalar::Int((from - start) as i128));
            to += 1;
        }
        Ok(())
    })?;
    Ok(vec![values.into(), indices.into()])
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_comparator_that_is_no_order_gives_a_permutation() {
        for n in 0..20 {
            let sorted: Result<Vec<usize>, ()> = merge_sort((0..n).collect(), &mut |_, _| Ok(true));
            let mut sorted = sorted.unwrap();
            sorted.sort_unstable();
            assert_eq!(sorted, (0..n).collect::<Vec<_>>());
        }
    }
}
