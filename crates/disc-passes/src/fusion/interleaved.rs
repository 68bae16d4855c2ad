//! Products whose results are interleaved, as the phases of a transposed convolution are: one group with the loop that interleaves them.
//!
//! The loop would read all results from memory, where they take as much as what it writes. In one group with it, a product stores each block where it
//! belongs, and what is element-wise behind the interleaving is computed there.
//!
//! Invariants:
//! - Each element of the interleaved value is one element of one product, and these products' rows are read by nothing else.
//! - What code generation asks of such a group is [`Interleaved::of`], which is what decided about it.
use super::{
    legality::same_shape,
    nest::{Nest, is_group},
};
use crate::{
    pass::{PassCx, PassDef},
    query::Query,
};
use disc_ir::{
    Block, Diagnostic, Dim, Function, FunctionKind, Inst, Module, OpKind, Solver, Value,
    ops::{Stage, Trait},
};
use std::{collections::HashSet, sync::Arc};

/// Makes one group of products and the loop that interleaves their results.
pub static PASS: PassDef = PassDef {
    name: "fuse-phases",
    doc: "Makes one group of products and the loop that interleaves their results, as transposed convolutions have them.",
    stages: (Stage::Fused, Stage::Fused),
    run,
};

/// Products whose results are interleaved along the last dimensions: element `h` of phase `p` is element `h * step + p`.
pub struct Interleaved {
    /// The interleaved results: batch, features, then the dimensions that are interleaved.
    pub value: Value,
    /// How many phases there are along each of these.
    pub steps: Vec<i64>,
    pub parts: Vec<Part>,
}

/// A product of some phases: batch, then features and their phases as one dimension, then one element for each of a phase.
pub struct Part {
    pub product: Inst,
    /// The first phase along each dimension, and how many there are.
    pub first: Vec<i64>,
    pub phases: Vec<i64>,
}

impl Interleaved {
    /// How a group interleaves its products, if that is what it does.
    pub fn of(function: &Function, solver: &Solver, block: Block) -> Option<Self> {
        let end = function.terminator(block)?;
        let [output] = function.operands(end)[..] else { return None };
        let value = source(function, output)?;
        let turned = function.operands(function.made_by(value, OpKind::Reshape)?)[0];
        let transpose = function.made_by(turned, OpKind::Transpose)?;
        let pieces = function.operands(transpose)[0];
        let shape = function.shape(pieces);
        let spatial = shape.len().checked_sub(2).filter(|rest| *rest > 0 && rest % 2 == 0)? / 2;
        let steps: Vec<i64> = shape[2..2 + spatial].iter().map(Dim::as_const).collect::<Option<_>>()?;
        let sizes = steps.iter().zip(&shape[2 + spatial..]).map(|(step, size)| size * *step);
        let whole: Vec<Dim> = shape[..2].iter().cloned().chain(sizes).collect();
        if !interleaves(function, transpose) || !same_shape(solver, &whole, function.shape(value)) {
            return None;
        }
        let mut interleaved = Self { value, steps, parts: Vec::new() };
        interleaved.collect(function, solver, pieces, &mut vec![0; spatial])?;
        Some(interleaved)
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
        let rows = lead[1].as_const()? * phases.iter().product::<i64>();
        let made: Vec<Dim> = [lead[0].clone(), Dim::constant(rows)].into_iter().chain(sizes.iter().cloned()).collect();
        let is_product = function.kind_of(product) == OpKind::DotGeneral && is_plain(function, product);
        if !is_product || !same_shape(solver, &made, function.shape(function.result(product))) {
            return None;
        }
        self.parts.push(Part { product, first: first.clone(), phases });
        Some(())
    }
}

/// Whether a product is one of rows and of columns that are packed, or read as they lie.
fn is_plain(function: &Function, product: Inst) -> bool {
    let batching = |name: &str| function.ints(product, name) == [0];
    let right = function.operands(product)[1];
    let [left_free, right_sums] = [
        function.shape(function.operands(product)[0]).len() - 1 - function.ints(product, "lhs_contracting_dims").len(),
        function.ints(product, "rhs_contracting_dims").len(),
    ];
    // Where there is one column, nothing is packed: dots are computed along memory.
    let has_columns = function.shape(right).iter().skip(1 + right_sums).any(|size| !size.is_const(1));
    let sums_first = function.axes(product, "rhs_contracting_dims").into_iter().eq(1..=right_sums);
    let is_read = function.defining(right).is_none_or(|inst| function.kind_of(inst) == OpKind::Patches);
    let float = function.ty(function.result(product)).dtype().is_float();
    let packed = function.attr(product, "packed_columns").is_some();
    let batches = batching("lhs_batching_dims") && batching("rhs_batching_dims");
    float && !packed && batches && left_free == 1 && sums_first && has_columns && is_read
}

/// The one value that `output` is computed from by element-wise ops, and that is itself computed from products.
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

/// Whether a transpose puts each dimension of phases behind the one that counts their elements; those of batches and features stay.
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
        let Some(chain) = Chain::of(function, block, inst) else { continue };
        if let Some(joined) = chain.join(function, block, solver)?
            && cx.spend()
        {
            *function = joined;
            found += 1;
        }
    }
    Ok(found)
}

/// A loop, the groups of products that it alone reads, and the views through which it does.
struct Chain {
    /// In the order of the block.
    before: Vec<Inst>,
    /// The loop.
    last: Inst,
}

impl Chain {
    fn of(function: &Function, block: Block, last: Inst) -> Option<Self> {
        if !is_group(function, last, "loop") || !moves(function, last) {
            return None;
        }
        let (uses, insts) = (function.use_counts(), function.insts(block));
        let once = |value: Value| uses[value.index()] == 1;
        let mut before = HashSet::new();
        for &operand in function.operands(last) {
            let (mut value, mut chain) = (operand, Vec::new());
            while let Some(inst) = function.defining(value).filter(|inst| once(value) && insts.contains(inst)) {
                chain.push(inst);
                if function.kind_of(inst) != OpKind::Reshape {
                    break;
                }
                value = function.operands(inst)[0];
            }
            if chain.last().is_some_and(|&group| is_group(function, group, "contraction")) {
                before.extend(chain);
            }
        }
        let before: Vec<Inst> = insts.iter().copied().filter(|inst| before.contains(inst)).collect();
        (!before.is_empty()).then_some(Self { before, last })
    }

    /// All of them as one group, where the loop was, if that is one that code generation can interleave.
    fn join(&self, function: &Function, block: Block, solver: &Arc<Solver>) -> Result<Option<Function>, Diagnostic> {
        let mut nest = Nest::open(function, self.before.iter().chain([&self.last]).copied().collect());
        nest.unpack();
        nest.end(solver)?;
        match Interleaved::of(&nest.function, solver, nest.region) {
            Some(_) => nest.close(block, "contraction", solver).map(Some),
            None => Ok(None),
        }
    }
}

/// Whether a group interleaves something: what is asked first, of all loops.
fn moves(function: &Function, group: Inst) -> bool {
    let insts = function.insts(function.inst(group).regions[0]);
    let transpose = |&inst: &Inst| function.defining(*function.operands(inst).first()?);
    let of_transpose = |inst: &Inst| transpose(inst).is_some_and(|transpose| interleaves(function, transpose));
    insts.iter().any(|inst| function.kind_of(*inst) == OpKind::Reshape && of_transpose(inst))
}
