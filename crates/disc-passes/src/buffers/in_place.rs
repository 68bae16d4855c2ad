//! Finds groups that may overwrite an input: each position is read where it is written, and nowhere
//! else.
//!
//! Such a group is one of three kinds. A pointwise group over one shape computes all its values of
//! a position before it writes them. A reduction group reduces a row before it writes any of it,
//! except for outputs that it writes early, which get memory of their own. A group of matmuls,
//! convolutions or pooling computes each result once, with its epilogue. Besides, a depthwise
//! convolution that walks its planes may overwrite the tensor that its windows slide over.
//!
//! Invariants:
//! - A reduction group that is listed here gets the reduction schedule: the pointwise fallback
//!   would reduce rows again that are half overwritten.
//! - It writes its rows where it reads them: none is transposed after a reduction.
//! - All uses of such an input after a matmul depend only on that matmul: matmuls of one group may
//!   be launched one after the other.
use super::liveness::{LiveRange, root};
use crate::{
    analysis::{cost_model::CostModel, depthwise::walks_planes, query::used_in_step},
    fusion::{families, only_reader, reduction_phases::Phases},
};
use disc_ir::{Block, Function, FusionKind, Inst, OpKind, Solver, TensorType, Value};
use std::collections::{HashMap, HashSet};

/// Groups of at most this many reductions get the reduction schedule, however the reductions depend
/// on one another.
const MOST_REDUCTIONS: usize = 63;

/// Maps each allocation that a group writes to the allocations that it may overwrite: inputs of
/// equal size that die there.
pub(super) fn overwrites(
    host: &Function,
    solver: &Solver,
    ranges: &HashMap<Inst, LiveRange>,
    model: &dyn CostModel,
) -> HashMap<Inst, Vec<Inst>> {
    let mut found = HashMap::new();
    for inst in host.walk(host.body) {
        if host.kind_of(inst) == OpKind::Fusion && (is_walked(host, inst) && !reorders_rows(host, inst) || is_tiled(host, inst)) {
            overwrites_of(host, (solver, model), ranges, inst, &mut found);
        }
    }
    found
}

fn overwrites_of(
    host: &Function,
    (solver, model): (&Solver, &dyn CostModel),
    ranges: &HashMap<Inst, LiveRange>,
    group: Inst,
    found: &mut HashMap<Inst, Vec<Inst>>,
) {
    let region = host.inst(group).regions[0];
    let inputs = host.arguments(region).len();
    let (read, written) = host.operands(group).split_at(inputs);
    let Some(domain) = domain(host, solver, written) else { return };
    if families(host, region).len() > 1 {
        // What lists leave for later groups has few elements.
        return;
    }
    let part = |buffer: Value| host.defining(root(host, buffer)).filter(|inst| ranges.contains_key(inst));
    let results = host.returned(region);
    // The inputs that may be overwritten, each with the results that may do so; `None` stands for
    // all.
    let mut free: Vec<(Inst, Option<Vec<Value>>)> = Vec::new();
    for (position, &buffer) in read.iter().enumerate() {
        let Some(input) = part(buffer) else { continue };
        // Another argument may view the same memory.
        let only = read.iter().filter(|&&other| part(other) == Some(input)).count() == 1;
        let tensor = host.ty(buffer).shaped().expect("a buffer");
        let whole =
            solver.equal(&tensor.element_count(), &host.ty(host.result(input)).shaped().expect("a buffer").element_count());
        let alike = whole && tensor.dtype.size() == domain.dtype.size() && same_shape(solver, tensor, domain);
        let value = host.arguments(region)[position];
        let walks = || walked(host, solver, region, value, model).filter(|_| is(host, group, FusionKind::Convolution));
        let used = || used_in_step(host, region, value, is(host, group, FusionKind::Reduction)).or_else(walks);
        let Some(computed) = Some(()).filter(|()| only && alike).and_then(|()| used()) else { continue };
        if !is_tiled(host, group) {
            free.push((input, None));
        } else if !is(host, group, FusionKind::Matmul) || follows_one_product(host, results, &computed) {
            free.push((input, Some(computed)));
        }
    }
    let early = if is(host, group, FusionKind::Reduction) { early(host, region) } else { HashSet::new() };
    for (position, &buffer) in written.iter().enumerate() {
        let Some(output) = part(buffer).filter(|_| !early.contains(&position)) else { continue };
        let fits = host.ty(buffer).dtype().size() == domain.dtype.size();
        let may_take = |(input, computed): &&(Inst, Option<Vec<Value>>)| {
            let dies = ranges[input].last == ranges[&output].first;
            dies && fits && computed.as_ref().is_none_or(|computed| computed.contains(&results[position]))
        };
        let over: Vec<Inst> = free.iter().filter(may_take).map(|&(input, _)| input).collect();
        if !over.is_empty() {
            found.insert(output, over);
        }
    }
}

/// Returns true if a group may write a result to the memory that it reads an input from.
pub(super) fn may_overwrite(host: &Function, solver: &Solver, group: Inst, input: usize, result: usize) -> bool {
    if !(is_walked(host, group) && !reorders_rows(host, group) || is_tiled(host, group)) {
        return false;
    }
    let region = host.inst(group).regions[0];
    let (read, written) = host.operands(group).split_at(host.arguments(region).len());
    let Some(family) = only_reader(host, region, host.arguments(region)[input], result) else { return false };
    let together: Vec<Value> = family.into_iter().map(|position| written[position]).collect();
    let Some(domain) = domain(host, solver, &together) else { return false };
    let tensor = host.ty(read[input]).shaped().expect("a buffer");
    let only = read.iter().filter(|&&other| root(host, other) == root(host, read[input])).count() == 1;
    let alike = tensor.dtype == domain.dtype && same_shape(solver, tensor, domain);
    let fits = host.ty(written[result]).dtype() == domain.dtype;
    let is_early = is(host, group, FusionKind::Reduction) && early(host, region).contains(&result);
    let value = host.arguments(region)[input];
    let Some(computed) = used_in_step(host, region, value, is(host, group, FusionKind::Reduction)) else { return false };
    let results = host.returned(region);
    let in_tiles = !is_tiled(host, group)
        || computed.contains(&results[result])
            && (!is(host, group, FusionKind::Matmul) || follows_one_product(host, results, &computed));
    only && alike && fits && !is_early && in_tiles
}

/// The values computed from an input that only a convolution reads, plane by plane; they may
/// overwrite the input if they include all outputs.
fn walked(host: &Function, solver: &Solver, region: Block, value: Value, model: &dyn CostModel) -> Option<Vec<Value>> {
    let mut readers = host.insts(region).iter().copied().filter(|&inst| host.operands(inst).contains(&value));
    let reader = readers.next().filter(|_| readers.next().is_none())?;
    let is_on_windows = |inst| matches!(host.kind_of(inst), OpKind::Convolution | OpKind::ReduceWindow);
    let is_read_once = host.operands(reader).iter().filter(|&&operand| operand == value).count() == 1;
    let others = host.insts(region).iter().filter(|&&inst| inst != reader && is_on_windows(inst));
    let alone = is_read_once && others.count() == 0 && walks_planes(host, solver, region, reader, model);
    alone.then(|| used_in_step(host, region, host.result(reader), false)).flatten()
}

/// The positions of outputs that a reduction group writes while it still reads inputs. All of them
/// have one shape.
fn early(host: &Function, region: Block) -> HashSet<usize> {
    let outputs = host.returned(region);
    let phases = Phases::of(host, region, outputs, &|_| true);
    let is_early = |&position: &usize| phases.as_ref().map_or(true, |phases| phases.early(outputs[position]).is_some());
    (0..outputs.len()).filter(is_early).collect()
}

/// Returns true if a group is pointwise, or a reduction group with the reduction schedule.
fn is_walked(host: &Function, group: Inst) -> bool {
    let reductions = |block| host.insts(block).iter().filter(|&&inst| host.kind_of(inst) == OpKind::Reduce).count();
    is(host, group, FusionKind::Pointwise)
        || is(host, group, FusionKind::Reduction) && reductions(host.inst(group).regions[0]) <= MOST_REDUCTIONS
}

/// Returns true if a group computes results in tiles, and the epilogue of each tile at once.
fn is_tiled(host: &Function, group: Inst) -> bool {
    [FusionKind::Matmul, FusionKind::Convolution, FusionKind::Pooling].iter().any(|&kind| is(host, group, kind))
}

/// Returns true if those `results` that are among `computed` all depend on the same single matmul.
fn follows_one_product(host: &Function, results: &[Value], computed: &[Value]) -> bool {
    let mut products = results.iter().filter(|result| computed.contains(result)).map(|&result| products_behind(host, result));
    match products.next() {
        Some(first) => first.len() == 1 && products.all(|other| other == first),
        None => false,
    }
}

/// The matmuls that a value of a group is computed from.
fn products_behind(host: &Function, value: Value) -> HashSet<Inst> {
    let (mut seen, mut stack) = (HashSet::new(), vec![value]);
    while let Some(value) = stack.pop() {
        if let Some(inst) = host.defining(value).filter(|&inst| seen.insert(inst)) {
            stack.extend(host.operands(inst));
        }
    }
    seen.retain(|&inst| host.kind_of(inst) == OpKind::DotGeneral);
    seen
}

/// Returns true if a value that depends on a reduction is transposed: rows are then written in
/// another order than they are read.
fn reorders_rows(host: &Function, group: Inst) -> bool {
    let mut reduced: HashSet<Value> = HashSet::new();
    for &inst in host.insts(host.inst(group).regions[0]) {
        let kind = host.kind_of(inst);
        let depends = host.operands(inst).iter().any(|operand| reduced.contains(operand));
        if depends && kind == OpKind::Transpose {
            return true;
        }
        if depends || kind == OpKind::Reduce {
            reduced.extend(host.results_of(inst));
        }
    }
    false
}

fn is(host: &Function, group: Inst, kind: FusionKind) -> bool {
    FusionKind::of(host, group) == Some(kind)
}

/// The type that all of these buffers have, apart from the element type.
fn domain<'h>(host: &'h Function, solver: &Solver, written: &[Value]) -> Option<&'h TensorType> {
    let first = host.ty(*written.first()?).shaped()?;
    let same = written.iter().all(|&buffer| host.ty(buffer).shaped().is_some_and(|tensor| same_shape(solver, tensor, first)));
    same.then_some(first)
}

pub(super) fn same_shape(solver: &Solver, a: &TensorType, b: &TensorType) -> bool {
    a.rank() == b.rank() && a.dims.iter().zip(&b.dims).all(|(x, y)| solver.equal(x, y))
}
