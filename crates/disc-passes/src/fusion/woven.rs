//! Products whose results are interleaved, as the phases of a transposed convolution are: one group with the loop that interleaves them.
//!
//! The loop would read all results from memory, where they take as much as what it writes. In one group with it, a product stores each block where it
//! belongs, and what is element-wise behind the interleaving is computed there.
//!
//! Invariants:
//! - Each element of the interleaved value is one element of one product, and these products' rows are read by nothing else.
//! - What code generation asks of such a group is [`Woven::of`], which is what decided about it.
use super::legality::same_shape;
use crate::{
    pass::{PassCx, PassDef},
    query::Query,
};
use disc_ir::{
    Attr, Block, Builder, Diagnostic, Dim, Function, FunctionKind, Inst, Module, OpKind, Solver, Value,
    ops::{Stage, Trait},
};
use std::{
    collections::{HashMap, HashSet},
    sync::Arc,
};

/// Makes one group of products and the loop that interleaves their results.
pub static PASS: PassDef = PassDef {
    name: "fuse-phases",
    doc: "Makes one group of products and the loop that interleaves their results, as transposed convolutions have them.",
    stages: (Stage::Fused, Stage::Fused),
    run,
};

/// Products whose results are interleaved along the last dimensions: element `h` of phase `p` is element `h * step + p`.
pub struct Woven {
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

impl Woven {
    /// How a group weaves its products, if that is what it does.
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
        let mut woven = Self { value, steps, parts: Vec::new() };
        woven.collect(function, solver, pieces, &mut vec![0; spatial])?;
        Some(woven)
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
    let sums_first = function.axes(product, "rhs_contracting_dims").into_iter().eq(1..=right_sums);
    let is_read = function.defining(right).is_none_or(|inst| function.kind_of(inst) == OpKind::Patches);
    let float = function.ty(function.result(product)).dtype().is_float();
    let packed = function.attr(product, "packed_columns").is_some();
    let batches = batching("lhs_batching_dims") && batching("rhs_batching_dims");
    float && !packed && batches && left_free == 1 && sums_first && is_read
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
        let mut joined = function.clone();
        if chain.join(&mut joined, block, solver)? && cx.spend() {
            *function = joined;
            found += 1;
        }
    }
    Ok(found)
}

/// A loop, the groups of products that it alone reads, and the views through which it does.
struct Chain {
    weaves: Inst,
    /// In the order of the block.
    before: Vec<Inst>,
}

impl Chain {
    fn of(function: &Function, block: Block, weaves: Inst) -> Option<Self> {
        let is_group = |inst: Inst, kind: &str| {
            function.kind_of(inst) == OpKind::Fusion
                && function.word(inst, "kind") == kind
                && function.results_of(inst).len() == 1
        };
        if !is_group(weaves, "loop") || !moves(function, weaves) {
            return None;
        }
        let (uses, insts) = (function.use_counts(), function.insts(block));
        let once = |value: Value| uses[value.index()] == 1;
        let mut before = HashSet::new();
        for &operand in function.operands(weaves) {
            let (mut value, mut chain) = (operand, Vec::new());
            while let Some(inst) = function.defining(value).filter(|inst| once(value) && insts.contains(inst)) {
                chain.push(inst);
                if function.kind_of(inst) != OpKind::Reshape {
                    break;
                }
                value = function.operands(inst)[0];
            }
            if chain.last().is_some_and(|&last| is_group(last, "contraction")) {
                before.extend(chain);
            }
        }
        let before: Vec<Inst> = insts.iter().copied().filter(|inst| before.contains(inst)).collect();
        (!before.is_empty()).then_some(Self { weaves, before })
    }

    /// Puts all of them into one group, where the loop was; whether that is one that weaves.
    fn join(&self, function: &mut Function, block: Block, solver: &Arc<Solver>) -> Result<bool, Diagnostic> {
        let source = function.clone();
        let parts = || self.before.iter().chain([&self.weaves]).copied();
        let made: HashSet<Value> = self.before.iter().flat_map(|&inst| source.results_of(inst)).copied().collect();
        let mut inputs: Vec<Value> = Vec::new();
        for value in parts().flat_map(|part| source.operands(part)) {
            if !made.contains(value) && !inputs.contains(value) {
                inputs.push(*value);
            }
        }
        let region = function.add_block();
        let mut map: HashMap<Value, Value> = HashMap::new();
        for &input in &inputs {
            let argument = function.add_argument(region, source.ty(input).clone());
            if let Some(name) = source.name_of(input) {
                function.set_name(argument, name.clone());
            }
            map.insert(input, argument);
        }
        for part in parts() {
            if source.kind_of(part) == OpKind::Reshape {
                let copy = function.import(&source, part, &mut map);
                function.append(region, copy);
                continue;
            }
            let inner = source.inst(part).regions[0];
            for (&argument, operand) in source.arguments(inner).iter().zip(source.operands(part)) {
                map.insert(argument, map[operand]);
            }
            for &inst in source.insts(inner) {
                if source.kind_of(inst) == OpKind::Return {
                    map.insert(source.result(part), map[&source.operands(inst)[0]]);
                } else {
                    let copy = function.import(&source, inst, &mut map);
                    function.append(region, copy);
                }
            }
        }
        let result = source.result(self.weaves);
        Builder::at(function, region, solver.clone()).ret(&[map[&result]])?;
        if Woven::of(function, solver, region).is_none() {
            return Ok(false);
        }
        let fused = Builder::at(function, block, solver.clone())
            .op(OpKind::Fusion)
            .operands(&inputs)
            .attr("kind", Attr::Enum("contraction"))
            .region(region)
            .results(vec![source.ty(result).clone()])
            .build()?;
        let order = source.insts(block).iter().filter(|inst| !self.before.contains(inst));
        let order: Vec<Inst> = order.map(|&inst| if inst == self.weaves { fused } else { inst }).collect();
        function.set_insts(block, order);
        let output = function.result(fused);
        if let Some(name) = source.name_of(result) {
            function.set_name(output, name.clone());
        }
        function.replace_uses(&HashMap::from([(result, output)]));
        Ok(true)
    }
}

/// Whether a group interleaves something: what is asked first, of all loops.
fn moves(function: &Function, group: Inst) -> bool {
    let insts = function.insts(function.inst(group).regions[0]);
    insts.iter().any(|&inst| interleaves(function, inst))
}
