//! Offers the matmuls of a group to a library.
//!
//! A library computes a matmul whole: operands as they are in memory, a bias for each column, one
//! of a few functions of the sum. If the rest of a group is anything else, nothing is offered.
//!
//! Invariant: an offer and the kernels compute the same, up to roundings: a library rounds once,
//! where ops of a narrow type round each.
use super::{
    super::matmul::{Matmul, Part, size},
    epilogue::{Epilogue, Place},
    memory::{Memory, input_of},
};
use crate::schedule::{Argument, Group, MatmulOffer, common::iteration_space::Merged};
use disc_ir::{DType, Dim, Value};

/// Returns the offer of a matmul of a group, with what the group computes from it.
pub(super) fn offer(group: &Group<'_>, part: &Part) -> Option<MatmulOffer> {
    let &[position] = &part.wanted[..] else { return None };
    let (function, output) = (group.function, group.output(position));
    let matmul = Matmul::of(group, part.dot);
    let dtype = group.tensor(output).dtype;
    let is_one_type = [matmul.left.value, matmul.right.value].iter().all(|&value| group.tensor(value).dtype == dtype);
    // Sums are in f32 inside the library, whatever the type that it rounds them to.
    let has_sums = [dtype, DType::F32].contains(&group.tensor(function.result(part.dot)).dtype);
    if !is_one_type || !has_sums || !matches!(dtype, DType::F32 | DType::F16 | DType::BF16) {
        return None;
    }
    let columns = size(&matmul.columns);
    let Epilogue { bias, activation } = Epilogue::of(group, function.result(part.dot), output, Place::Columns(&columns))?;
    let bias = match bias {
        Some(input) if group.tensor(input).dtype != dtype => return None,
        Some(input) => Some(input_of(group, input)?),
        None => None,
    };
    let operand = |value: Value, runs: [(&[usize], &[Merged]); 3]| {
        let Memory { input, strides } = Memory::of(group, value)?;
        let [batch, row, column] = runs.map(|(axes, runs)| along(group, &strides, axes, runs));
        Some((input_of(group, input)?, [batch?, row?, column?]))
    };
    let (left, right) = (&matmul.left, &matmul.right);
    let (batches, terms) = (&matmul.batches[..], &matmul.terms[..]);
    let rows = (&left.free[..], &matmul.rows[..]);
    let columns_of = (&right.free[..], &matmul.columns[..]);
    let (left, left_strides) = operand(left.value, [(&left.batch, batches), rows, (&left.sum, terms)])?;
    let (right, right_strides) = operand(right.value, [(&right.batch, batches), (&right.sum, terms), columns_of])?;
    let tf32 = group.tf32 && dtype == DType::F32;
    let sizes = [size(batches), size(&matmul.rows), columns, size(terms)];
    Some(MatmulOffer {
        sizes,
        left_strides,
        right_strides,
        activation,
        tf32,
        left,
        right,
        bias,
        result: Argument::Output(position),
    })
}

/// Returns the stride of positions that are counted along several dimensions; `None` if they are
/// not equally far apart.
fn along(group: &Group<'_>, strides: &[Dim], axes: &[usize], runs: &[Merged]) -> Option<Dim> {
    // A dimension of one element has any stride.
    let longer: Vec<(&Dim, &Dim)> = axes
        .iter()
        .zip(runs)
        .map(|(&axis, run)| (&strides[axis], &run.size))
        .filter(|(_, size)| size.as_const() != Some(1))
        .collect();
    let joined = longer.windows(2).all(|pair| {
        let [(outer, _), (inner, size)] = pair else { unreachable!("windows of two") };
        group.solver.equal(outer, &(*inner * *size))
    });
    let last = longer.last().map_or_else(|| Dim::constant(0), |(stride, _)| (*stride).clone());
    joined.then_some(last)
}
