//! Offers the matmuls of a group to a library of the device, which may compute them in place of the
//! group's kernels.
//!
//! A library computes a matmul whole: operands as they are in memory, a bias for each column, one
//! of a few functions of the sum. If the rest of a group is anything else, nothing is offered.
//!
//! Invariant: an offer and the kernels compute the same, up to roundings: a library rounds once,
//! where ops of a narrow type round each.
use super::{Matmul, Part, epilogue::Epilogue, parts, size};
use crate::schedule::{Argument, Group, MatmulOffer, Offers, Versioned, common::iteration_space::Merged};
use disc_ir::{DType, Dim, OpKind, Value};
use disc_passes::analysis::query::Query;

/// Adds the offers of a group of matmuls to its code.
pub(in crate::schedule::gpu) fn with_offers(code: Versioned, group: &Group<'_>, offers: Offers) -> Versioned {
    let found = if offers == Offers::Nothing { None } else { all(group) };
    Versioned { library: found.unwrap_or_default(), ..code }
}

/// Returns the offers of all matmuls of a group: kernels would compute all of them, too.
fn all(group: &Group<'_>) -> Option<Vec<MatmulOffer>> {
    parts(group).ok()?.iter().map(|part| offer(group, part)).collect()
}

fn offer(group: &Group<'_>, part: &Part) -> Option<MatmulOffer> {
    let &[position] = &part.wanted[..] else { return None };
    let (function, output) = (group.function, group.output(position));
    let matmul = Matmul::of(group, part.dot);
    let dtype = group.tensor(output).dtype;
    let values = [matmul.left.value, matmul.right.value, function.result(part.dot)];
    let is_one_type = values.iter().all(|&value| group.tensor(value).dtype == dtype);
    if !is_one_type || !matches!(dtype, DType::F32 | DType::F16 | DType::BF16) {
        return None;
    }
    let columns = size(&matmul.columns);
    let Epilogue { bias, activation } = Epilogue::of(group, function.result(part.dot), output, &columns)?;
    let bias = match bias {
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

/// Returns the argument of an input of the group.
fn input_of(group: &Group<'_>, value: Value) -> Option<Argument> {
    group.inputs().iter().position(|&input| input == value).map(Argument::Input)
}

/// The elements of an input, as the dimensions of a value walk them.
struct Memory {
    input: Value,
    strides: Vec<Dim>,
}

impl Memory {
    /// Returns the memory of a value that only moves elements of an input.
    fn of(group: &Group<'_>, value: Value) -> Option<Self> {
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

fn contiguous(dims: &[Dim]) -> Vec<Dim> {
    (0..dims.len()).map(|axis| Dim::product(dims[axis + 1..].iter().cloned())).collect()
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
