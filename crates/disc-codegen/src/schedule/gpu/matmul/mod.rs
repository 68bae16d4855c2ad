//! Schedules matmuls on a GPU: those of few rows or columns line by line, others tile by tile.
//!
//! Ops before a matmul are computed where its operands are read, ops after it from its sums before
//! these are stored. Several matmuls of a group are one launch: [`side_by_side`].
pub(in crate::schedule) mod few_rows;
pub(in crate::schedule) mod mma;
mod side_by_side;
mod tiles;

use super::{candidates::Candidates, frame::GridFrame};
use crate::{
    element::matmul::packed_columns,
    kernel::{Index, KernelBuilder, accumulator_dtype, compute_dtype},
    schedule::{
        Group, VersionKind, Versioned,
        common::iteration_space::{Merged, positions_of},
        cpu::{depends, order},
    },
};
use disc_ir::{DType, Dim, Inst, OpKind, Value};
use disc_passes::analysis::query::Query;
use tiles::Tiles;

versions! {
    /// Matmuls of a grid, with positions of 32 bits.
    GridMatmuls {
        kernels: "`kN_matmul_s`",
        sizes: "grids: matmuls of tensors that have fewer than 2^31 elements",
        unit: "a block has a tile of 64 by 64 results",
    }
}

/// Schedules a group of matmuls, each output of which is computed element by element from one of
/// them.
///
/// # Errors
/// The reason that the group is another one.
pub(super) fn versions(group: &Group<'_>) -> Result<Versioned, String> {
    let parts = parts(group)?;
    let mut candidates = Candidates::of(group);
    few_rows::add_versions(&mut candidates, &parts);
    mma::add_versions(&mut candidates, &parts);
    let tiles = |group: &Group<'_>| side_by_side::written(group, &parts, &|matmul| Box::new(Tiles(matmul)));
    Ok(candidates.in_narrow_positions((VersionKind::GridMatmuls, "s"), tiles))
}

/// A matmul of the group, with the positions of the outputs that are computed from it.
pub(super) struct Part {
    pub(super) dot: Inst,
    pub(super) wanted: Vec<usize>,
}

/// Returns the matmuls of a group.
///
/// # Errors
/// The reason that its outputs are not those of a matmul each.
pub(super) fn parts(group: &Group<'_>) -> Result<Vec<Part>, String> {
    let function = group.function;
    let is_dot = |inst: &Inst| function.kind_of(*inst) == OpKind::DotGeneral;
    let dots: Vec<Inst> = function.insts(function.body).iter().copied().filter(is_dot).collect();
    let mut parts: Vec<Part> = dots.into_iter().map(|dot| Part { dot, wanted: Vec::new() }).collect();
    for &position in &group.wanted {
        let output = group.output(position);
        let mut sources = parts.iter_mut().filter(|part| depends(function, function.result(part.dot), output));
        let (Some(part), None) = (sources.next(), sources.next()) else {
            return Err("an output is computed from several matmuls, or from none".into());
        };
        order(function, &group.solver, function.result(part.dot), output)?;
        part.wanted.push(position);
    }
    if parts.iter().any(|part| packed_columns(function, part.dot).is_some()) {
        return Err("an operand is packed for a CPU".into());
    }
    parts.retain(|part| !part.wanted.is_empty());
    Ok(parts)
}

/// An operand: the dimensions that are batches, free and summed.
pub(super) struct Side {
    pub(super) value: Value,
    pub(super) batch: Vec<usize>,
    pub(super) free: Vec<usize>,
    pub(super) sum: Vec<usize>,
    /// Terms are along the innermost dimension: neighbouring threads read neighbouring terms.
    terms_first: bool,
}

/// Returns the operands of a matmul.
pub(super) fn sides(group: &Group<'_>, dot: Inst) -> [Side; 2] {
    let function = group.function;
    let [left, right] = function.operands(dot)[..] else { panic!("`dot_general` has two operands") };
    [(left, "lhs"), (right, "rhs")].map(|(value, name)| {
        let axes = |which: &str| function.axes(dot, &format!("{name}_{which}"));
        let (batch, sum) = (axes("batching_dims"), axes("contracting_dims"));
        let rank = group.tensor(value).rank();
        let free = (0..rank).filter(|d| !batch.contains(d) && !sum.contains(d)).collect();
        let terms_first = rank > 0 && sum.contains(&(rank - 1));
        Side { value, batch, free, sum, terms_first }
    })
}

/// A matmul as a matrix `[rows, terms] x [terms, columns]` for each batch.
pub(super) struct Matmul<'g> {
    group: &'g Group<'g>,
    dot: Inst,
    pub(super) left: Side,
    pub(super) right: Side,
    pub(super) batches: Vec<Merged>,
    pub(super) rows: Vec<Merged>,
    pub(super) columns: Vec<Merged>,
    pub(super) terms: Vec<Merged>,
    /// The type of the sums, and that of the operands in shared memory.
    sum: DType,
}

impl<'g> Matmul<'g> {
    pub(super) fn of(group: &'g Group<'g>, dot: Inst) -> Self {
        let function = group.function;
        let [left, right] = sides(group, dot);
        let sizes = |side: &Side, axes: &[usize]| -> Vec<Merged> {
            let dims = &group.tensor(side.value).dims;
            axes.iter().enumerate().map(|(axis, &d)| Merged { size: dims[d].clone(), axis }).collect()
        };
        let sum = accumulator_dtype(group.tensor(function.result(dot)).dtype);
        Self {
            group,
            dot,
            batches: sizes(&left, &left.batch),
            rows: sizes(&left, &left.free),
            columns: sizes(&right, &right.free),
            terms: sizes(&left, &left.sum),
            left,
            right,
            sum,
        }
    }

    /// Returns the runs of an operand's free dimensions.
    fn free(&self, side: &Side) -> &[Merged] {
        if std::ptr::eq(side, &self.left) { &self.rows } else { &self.columns }
    }

    /// Returns the position of an element of an operand: at a place along its free dimensions, and
    /// at a term.
    fn operand_at(&self, kb: &mut KernelBuilder, side: &Side, batch: &[Value], [place, term]: [Value; 2]) -> Vec<Index> {
        let mut at = vec![Index::uniform(kb.int(0)); self.group.tensor(side.value).rank()];
        let (free, summed) = (positions_of(kb, place, self.free(side)), positions_of(kb, term, &self.terms));
        for (axes, positions) in [(&side.batch, batch), (&side.free, &free), (&side.sum, &summed)] {
            axes.iter().zip(positions).for_each(|(&axis, &position)| at[axis] = Index::uniform(position));
        }
        at
    }

    /// Computes the outputs at a place of the result, whose sum is known, then stores them.
    fn conclude(&self, frame: &mut GridFrame<'_>, batch: &[Value], [row, column]: [Value; 2], sum: Value) {
        let kb = &mut frame.kb;
        let (rows, columns) = (positions_of(kb, row, &self.rows), positions_of(kb, column, &self.columns));
        let at: Vec<Index> = batch.iter().chain(&rows).chain(&columns).map(|&p| Index::uniform(p)).collect();
        conclude(frame, self.group, self.dot, &at, sum);
    }
}

/// Returns the number of positions along runs.
pub(super) fn size(runs: &[Merged]) -> Dim {
    Dim::product(runs.iter().map(|run| run.size.clone()))
}

/// Computes the group's outputs at a position of a matmul from its sum there: all of them before
/// any is stored, whose memory may be that of an input.
pub(super) fn conclude(frame: &mut GridFrame<'_>, group: &Group<'_>, dot: Inst, at: &[Index], sum: Value) {
    let wanted = group.outputs();
    let outputs: Vec<(Value, Value)> = frame.targets().into_iter().filter(|(output, _)| wanted.contains(output)).collect();
    let GridFrame { kb, elements, .. } = frame;
    let result = group.function.result(dot);
    let total = kb.convert(sum, compute_dtype(group.tensor(result).dtype));
    elements.conclude(kb, result, at, total);
    let mut computed = Vec::new();
    for (output, target) in outputs {
        let order = order(group.function, &group.solver, result, output).expect("it was checked");
        let place: Vec<Index> = order.iter().map(|&d| at[d]).collect();
        let value = elements.element(kb, output, &place);
        computed.push((output, target, place, value));
    }
    for (output, target, place, value) in computed {
        elements.store(kb, target, group.tensor(output), &place, value);
    }
}
