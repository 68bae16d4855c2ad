//! Fuses matmuls with the pointwise group that interleaves their results, as the phases of a
//! transposed convolution are.
//!
//! On its own, that group would read all results from memory, as much as it writes. Fused, a matmul
//! stores each block at its place, and elementwise ops after the interleaving join the epilogue. If
//! a group of another kind interleaves the results, such as a norm, the interleaving is split off
//! it first.
//!
//! Invariants:
//! - Each element of the interleaved value is one element of one matmul, and nothing else reads
//!   these results. If the value is cut at the end of a dimension, it loses less than one element
//!   of each phase.
//! - Code generation reads such a group through [`Interleaved::of`], which also decided about it.
use super::{
    legality::same_shape,
    nested_group::{NestedGroup, is_group, is_of_kind},
    split_group,
};
use crate::{
    analysis::query::Query,
    pass::{PassCx, PassDef},
};
use disc_ir::{
    Block, Diagnostic, Dim, Function, FunctionKind, FusionKind, Inst, Module, OpKind, Solver, Value,
    ops::{Stage, Trait},
};
use std::{collections::HashSet, sync::Arc};

/// Fuses matmuls and the group that interleaves their results.
pub static PASS: PassDef = PassDef {
    name: "fuse-interleave",
    doc: "Fuses matmuls with the group that interleaves their results, as transposed convolutions have them.",
    stages: (Stage::Fused, Stage::Fused),
    run,
};

/// Matmuls whose results are interleaved along the last dimensions: element `h` of phase `p`
/// becomes element `h * step + p`.
pub struct Interleaved {
    /// The interleaved results: batch, features, then the interleaved dimensions, which may end
    /// before the last elements of some phases.
    pub value: Value,
    /// The number of phases along each of these dimensions.
    pub steps: Vec<i64>,
    pub parts: Vec<InterleavedPart>,
}

/// A matmul that computes some phases: batch, feature groups if there are any, features and phases
/// as one dimension, then the elements of a phase.
pub struct InterleavedPart {
    pub product: Inst,
    /// The op that lets Winograd's method compute the matmul.
    pub winograd: Option<Inst>,
    /// The first phase along each dimension, and the number of phases.
    pub first: Vec<i64>,
    pub phases: Vec<i64>,
}

impl Interleaved {
    /// Returns the interleaving that a group computes, if it computes one.
    pub fn of(function: &Function, solver: &Solver, block: Block) -> Option<Self> {
        let end = function.terminator(block)?;
        let mut values = function.operands(end).iter().map(|&output| source(function, output));
        let value = values.next()??;
        if values.any(|other| other != Some(value)) {
            return None;
        }
        let (pieces, steps) = interleaving(function, solver, value)?;
        let mut interleaved = Self { value, steps, parts: Vec::new() };
        let mut first = vec![0; interleaved.steps.len()];
        interleaved.collect(function, solver, pieces, &mut first)?;
        (function.operands(end).len() == 1 || interleaved.fills_lines()).then_some(interleaved)
    }

    /// Returns true if each matmul has all phases of the last dimension. Otherwise each writes
    /// parts of cache lines, which for several outputs takes longer than a pointwise group that
    /// reads the phases once.
    fn fills_lines(&self) -> bool {
        self.parts.iter().all(|part| part.phases.last() == self.steps.last())
    }

    /// Adds the parts of a concatenation whose first phases are these.
    fn collect(&mut self, function: &Function, solver: &Solver, value: Value, first: &mut Vec<i64>) -> Option<()> {
        let inst = function.defining(value)?;
        if function.kind_of(inst) == OpKind::Concatenate {
            let axis = (function.int(inst, "dim") as usize).checked_sub(2).filter(|&axis| axis < first.len())?;
            let start = first[axis];
            for &operand in function.operands(inst) {
                self.collect(function, solver, operand, first)?;
                first[axis] += function.shape(operand)[2 + axis].as_const()?;
            }
            first[axis] = start;
            return Some(());
        }
        let shape = function.shape(value).to_vec();
        let (lead, sizes) = (&shape[..2], &shape[2 + first.len()..]);
        let phases: Vec<i64> = shape[2..2 + first.len()].iter().map(Dim::as_const).collect::<Option<_>>()?;
        let mut product = inst;
        while function.kind_of(product) == OpKind::Reshape {
            product = function.defining(function.operands(product)[0])?;
        }
        let winograd = Some(product).filter(|&inst| function.kind_of(inst) == OpKind::Winograd);
        if let Some(method) = winograd {
            product = function.defining(function.operands(method)[0])?;
        }
        let rows = lead[1].as_const()? * phases.iter().product::<i64>();
        if function.kind_of(product) != OpKind::DotGeneral || !is_plain(function, product) {
            return None;
        }
        let result = function.shape(function.result(product));
        let mut made = vec![lead[0].clone(), Dim::constant(rows)];
        if function.ints(product, "lhs_batching_dims").len() > 1 {
            // Each feature group has the same number of features.
            let groups =
                result[1].as_const().filter(|&groups| groups > 0 && lead[1].as_const().is_some_and(|all| all % groups == 0))?;
            made.splice(1.., [groups, rows / groups].map(Dim::constant));
        }
        made.extend(sizes.iter().cloned());
        if !same_shape(solver, &made, result) {
            return None;
        }
        self.parts.push(InterleavedPart { product, winograd, first: first.clone(), phases });
        Some(())
    }
}

/// The value that `value` interleaves and the steps: pieces with batch, features, their phases,
/// then the elements of a phase.
fn interleaving(function: &Function, solver: &Solver, value: Value) -> Option<(Value, Vec<i64>)> {
    let whole = function.made_by(value, OpKind::Slice).map_or(value, |slice| function.operands(slice)[0]);
    let turned = function.operands(function.made_by(whole, OpKind::Reshape)?)[0];
    let transpose = function.made_by(turned, OpKind::Transpose)?;
    let pieces = function.operands(transpose)[0];
    let shape = function.shape(pieces);
    let spatial = shape.len().checked_sub(2).filter(|rest| *rest > 0 && rest % 2 == 0)? / 2;
    let steps: Vec<i64> = shape[2..2 + spatial].iter().map(Dim::as_const).collect::<Option<_>>()?;
    let sizes = steps.iter().zip(&shape[2 + spatial..]).map(|(step, size)| size * *step);
    let dims: Vec<Dim> = shape[..2].iter().cloned().chain(sizes).collect();
    let is_whole = interleaves(function, transpose) && same_shape(solver, &dims, function.shape(whole));
    (is_whole && is_front(function, solver, [whole, value], &steps)).then_some((pieces, steps))
}

/// Returns true if `front` is `whole`, or a slice of it that loses less than one element of each
/// phase at the end of each interleaved dimension.
fn is_front(function: &Function, solver: &Solver, [whole, front]: [Value; 2], steps: &[i64]) -> bool {
    let Some(slice) = function.made_by(front, OpKind::Slice).filter(|_| front != whole) else { return true };
    let (all, kept) = (function.shape(whole), function.shape(front));
    let lost = |axis: usize| (&all[axis] - &kept[axis]).as_const();
    function.is_front(slice)
        && (0..2).all(|axis| solver.equal(&all[axis], &kept[axis]))
        && steps.iter().enumerate().all(|(i, &step)| lost(2 + i).is_some_and(|lost| (0..step).contains(&lost)))
}

/// Returns true if a matmul has plain rows, and columns that are packed or read as stored.
fn is_plain(function: &Function, product: Inst) -> bool {
    let batches = function.ints(product, "lhs_batching_dims").len();
    let batching = |name: &str| matches!(function.ints(product, name), [0] | [0, 1]);
    let [left, right] = function.operands(product)[..] else { return false };
    let [left_sums, right_sums] = ["lhs", "rhs"].map(|side| function.ints(product, &format!("{side}_contracting_dims")).len());
    let left_free = function.shape(left).len() - batches - left_sums;
    // A single column is not packed: dot products run along memory.
    let has_columns = function.shape(right).iter().skip(batches + right_sums).any(|size| !size.is_const(1));
    let sums_first = function.axes(product, "rhs_contracting_dims").into_iter().eq(batches..batches + right_sums);
    let is_read = function.defining(right).is_none_or(|inst| function.kind_of(inst) == OpKind::Im2col);
    let float = function.ty(function.result(product)).dtype().is_float();
    let packed = function.attr(product, "packed_columns").is_some();
    let in_order = batching("lhs_batching_dims") && batching("rhs_batching_dims");
    float && !packed && in_order && left_free == 1 && sums_first && has_columns && is_read
}

/// The one value that `output` is elementwise computed from and that is itself computed from
/// matmuls.
fn source(function: &Function, output: Value) -> Option<Value> {
    let (mut stack, mut seen, mut found) = (vec![output], HashSet::new(), HashSet::new());
    while let Some(value) = stack.pop() {
        let Some(inst) = function.defining(value).filter(|_| seen.insert(value)) else { continue };
        match function.def(inst).has(Trait::Elementwise) {
            true => stack.extend(function.operands(inst)),
            false if depends_on_product(function, inst) => drop(found.insert(value)),
            false => {}
        }
    }
    let mut found = found.into_iter();
    found.next().filter(|_| found.next().is_none())
}

fn depends_on_product(function: &Function, inst: Inst) -> bool {
    let (mut stack, mut seen) = (vec![inst], HashSet::new());
    while let Some(inst) = stack.pop() {
        if function.kind_of(inst) == OpKind::DotGeneral {
            return true;
        }
        if seen.insert(inst) {
            stack.extend(function.operands(inst).iter().filter_map(|&value| function.defining(value)));
        }
    }
    false
}

/// Returns true if a transpose puts each phase dimension after the one of its elements, and keeps
/// batch and features.
fn interleaves(function: &Function, inst: Inst) -> bool {
    let axes = function.axes(inst, "dims");
    let spatial = axes.len().saturating_sub(2) / 2;
    let order = [0, 1].into_iter().chain((0..spatial).flat_map(|i| [2 + spatial + i, 2 + i]));
    function.kind_of(inst) == OpKind::Transpose && spatial > 0 && order.eq(axes)
}

fn run(module: &mut Module, cx: &mut PassCx) -> Result<usize, Diagnostic> {
    let mut found = 0;
    for function in module.functions.iter_mut().filter(|f| f.kind == FunctionKind::Func) {
        let solver = Arc::new(Solver::new(&function.facts));
        found += in_block(function, function.body, &solver, cx)?;
    }
    Ok(found)
}

fn in_block(function: &mut Function, block: Block, solver: &Arc<Solver>, cx: &mut PassCx) -> Result<usize, Diagnostic> {
    let mut found = 0;
    for inst in function.insts(block).to_vec() {
        if matches!(function.kind_of(inst), OpKind::If | OpKind::While) {
            for region in function.inst(inst).regions.clone() {
                found += in_block(function, region, solver, cx)?;
            }
        }
        let Some(joined) = join(function, block, inst, solver)? else { continue };
        if cx.spend() {
            *function = joined;
            found += 1;
        }
    }
    Ok(found)
}

/// Fuses a group that interleaves matmuls with these; `None` if there is none.
fn join(function: &Function, block: Block, group: Inst, solver: &Arc<Solver>) -> Result<Option<Function>, Diagnostic> {
    if let Some(chain) = Chain::to_view(function, block, group) {
        return chain.join(function, block, solver);
    }
    let is_loop = is_of_kind(function, group, FusionKind::Pointwise);
    if !is_loop && !is_of_kind(function, group, FusionKind::Reduction) {
        return Ok(None);
    }
    for value in interleaving_values(function, function.inst(group).regions[0]) {
        let Some(chain) = Chain::of(function, block, group, value) else { continue };
        let joined = match is_loop {
            true => chain.join(function, block, solver)?,
            false => chain.join_value(function, block, value, solver)?,
        };
        if joined.is_some() {
            return Ok(joined);
        }
    }
    Ok(None)
}

/// The values of a region whose last op may interleave; a cheap filter before [`Interleaved::of`].
fn interleaving_values(function: &Function, region: Block) -> Vec<Value> {
    let insts = function.insts(region);
    let is_whole = |value: Value| {
        let turned = function.made_by(value, OpKind::Reshape).and_then(|whole| function.defining(function.operands(whole)[0]));
        turned.is_some_and(|inst| interleaves(function, inst))
    };
    let is_cut = |value: Value| function.made_by(value, OpKind::Slice).is_some_and(|slice| is_whole(function.operands(slice)[0]));
    let results = insts.iter().flat_map(|&inst| function.results_of(inst)).copied();
    let (cut, whole): (Vec<Value>, Vec<Value>) =
        results.filter(|&value| is_whole(value) || is_cut(value)).partition(|&v| is_cut(v));
    cut.into_iter().chain(whole).collect()
}

/// The arguments of a region that a value of it is computed from.
fn arguments_behind(function: &Function, region: Block, value: Value) -> Vec<usize> {
    let (mut stack, mut seen) = (vec![value], HashSet::new());
    while let Some(value) = stack.pop() {
        if seen.insert(value)
            && let Some(inst) = function.defining(value)
        {
            stack.extend(function.operands(inst));
        }
    }
    (0..function.arguments(region).len()).filter(|&i| seen.contains(&function.arguments(region)[i])).collect()
}

/// A group that interleaves matmuls, the matmul groups that it alone reads, and the views and
/// concatenations in between.
struct Chain {
    /// The ops before the last group, in the order of the block.
    before: Vec<Inst>,
    last: Inst,
}

impl Chain {
    /// The chain that ends in `value` of the region of `last`.
    fn of(function: &Function, block: Block, last: Inst, value: Value) -> Option<Self> {
        let (uses, insts) = (function.use_counts(), function.insts(block));
        let read = arguments_behind(function, function.inst(last).regions[0], value);
        let mut stack: Vec<Value> = read.into_iter().map(|i| function.operands(last)[i]).collect();
        let mut before = HashSet::new();
        while let Some(value) = stack.pop() {
            let once = uses[value.index()] == 1;
            let Some(inst) = function.defining(value).filter(|inst| once && insts.contains(inst)) else { continue };
            if function.kind_of(inst) == OpKind::Reshape
                || is_group(function, inst, FusionKind::Pointwise) && joins(function, inst)
            {
                stack.extend(function.operands(inst));
            } else if !is_group(function, inst, FusionKind::Matmul) {
                continue;
            }
            before.insert(inst);
        }
        let before: Vec<Inst> = insts.iter().copied().filter(|inst| before.contains(inst)).collect();
        (!before.is_empty()).then_some(Self { before, last })
    }

    /// The chain that ends in a view of a pointwise group that only reorders.
    fn to_view(function: &Function, block: Block, view: Inst) -> Option<Self> {
        if function.kind_of(view) != OpKind::Reshape {
            return None;
        }
        let result = function.operands(view)[0];
        let group = function.defining(result).filter(|&inst| is_group(function, inst, FusionKind::Pointwise))?;
        let turned = function.operands(function.terminator(function.inst(group).regions[0])?)[0];
        let transpose = function.defining(turned).filter(|&inst| interleaves(function, inst))?;
        let alone = function.use_counts()[result.index()] == 1 && function.insts(block).contains(&group);
        let mut chain = Self::of(function, block, group, function.result(transpose)).filter(|_| alone)?;
        chain.before.push(group);
        Some(Self { last: view, ..chain })
    }

    /// Fuses the chain of a value in the last group: the value is split off, if the rest of the
    /// group reads nothing else of the chain.
    fn join_value(
        self,
        function: &Function,
        block: Block,
        value: Value,
        solver: &Arc<Solver>,
    ) -> Result<Option<Function>, Diagnostic> {
        let Some((apart, [first, rest])) = split_group::out(function, block, self.last, value, solver)? else { return Ok(None) };
        let made: HashSet<Value> = self.before.iter().flat_map(|&inst| apart.results_of(inst)).copied().collect();
        if apart.operands(rest).iter().any(|operand| made.contains(operand)) {
            return Ok(None);
        }
        Self { last: first, ..self }.join(&apart, block, solver)
    }

    /// Fuses a chain into one group in place of its last op, if code generation can interleave it.
    fn join(&self, function: &Function, block: Block, solver: &Arc<Solver>) -> Result<Option<Function>, Diagnostic> {
        let mut nest = NestedGroup::open(function, self.before.iter().chain([&self.last]).copied().collect());
        nest.unpack();
        nest.end(solver)?;
        match Interleaved::of(&nest.function, solver, nest.region) {
            Some(_) => nest.close(block, FusionKind::Matmul, solver).map(Some),
            None => Ok(None),
        }
    }
}

/// Returns true if a group only concatenates values.
fn joins(function: &Function, group: Inst) -> bool {
    let insts = function.insts(function.inst(group).regions[0]);
    insts.iter().all(|&inst| matches!(function.kind_of(inst), OpKind::Concatenate | OpKind::Reshape | OpKind::Return))
}
