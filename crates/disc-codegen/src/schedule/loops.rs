//! The loop schedule: every element of the outputs is computed on its own.
//!
//! Outputs share one space (shapes that differ by reshapes do). Merged dimensions leave either one long loop, cut into chunks, or outer
//! dimensions, each position of which is a work unit, around an inner loop. The inner loop runs over vectors, and once more with a mask for
//! what is left.
pub(super) use super::domain::Merged;
use super::{
    Argument, Group, Launch, Scheduled,
    domain::{merge, mergeable_in, outer_gathers, read_places},
    scratch_bytes,
};
use crate::{build::KernelBuilder, cost, element::Elements, index::Index};
use disc_ir::{DType, Dim, FunctionKind, OpKind, Type, Value};
use disc_passes::fusion::space::{Follows, Map, axes_of, reads, refine, regroup};

/// Elements of a work unit where all dimensions are one.
const CHUNK: i64 = 4096;

/// Positions of a tile: elements of a cache line, or some lines of them.
const TILE: i64 = 16;

/// Schedules a group whose outputs have one space.
///
/// # Panics
/// If they have not.
pub fn schedule(group: &Group<'_>) -> Scheduled {
    let outputs = group.outputs();
    let domain = space_of(group, &outputs).expect("the outputs have one space");
    let all: Vec<usize> = (0..domain.len()).collect();
    let grouped = |&output: &Value| {
        regroup(&group.solver, &domain, &all, &group.tensor(output).dims).expect("a space is fine enough for its shapes")
    };
    let shapes: Vec<Vec<Vec<usize>>> = outputs.iter().map(grouped).collect();
    let follows = |shape: &Vec<Vec<usize>>| shape.iter().cloned().map(Follows::Axes).collect();
    let roots: Vec<(Value, Map)> = outputs.iter().copied().zip(shapes.iter().map(follows)).collect();
    let merged = merge(&domain, &mergeable_in(group.function, &group.solver, &domain, &roots, false));
    let lanes = merged.last().map_or(1, |inner| cost::lanes(group.function, group.target, &group.solver, &inner.size));

    let mut kb = KernelBuilder::new(&group.name, FunctionKind::Kernel);
    let mut elements = Elements::new(group.function, group.solver.clone(), lanes, group.target);
    elements.first_site = group.first_site;
    let mut arguments = Vec::new();
    for (i, &input) in group.inputs().iter().enumerate() {
        let buffer = kb.buffer(&format!("in{i}"), group.tensor(input).clone());
        elements.bind(input, buffer);
        arguments.push(Argument::Input(i));
    }
    let mut targets = Vec::new();
    for (i, &output) in outputs.iter().enumerate() {
        targets.push(kb.buffer(&format!("out{i}"), group.tensor(output).clone()));
        arguments.push(Argument::Output(group.wanted[i]));
    }
    let begin = kb.parameter("begin", Type::scalar(DType::I64));
    let end = kb.parameter("end", Type::scalar(DType::I64));

    let inner = merged.last().cloned();
    let mut outer = merged[..merged.len().saturating_sub(1)].to_vec();
    let tiled = strided(group, &domain, &roots, &merged).map(|run| {
        let tiles = outer[run].size.ceil_div(&Dim::constant(TILE));
        Merged { size: std::mem::replace(&mut outer[run].size, tiles), axis: outer[run].axis }
    });
    let (units, chunked) = match &merged[..] {
        [] => (Dim::constant(1), false),
        [only] => (only.size.ceil_div(&Dim::constant(CHUNK)), true),
        _ => (Dim::product(outer.iter().map(|m| m.size.clone())), false),
    };
    let tile_axis = tiled.as_ref().map(|run| run.axis);
    let inner_from = outer.last().map_or(0, |run| run.axis + 1);
    let outer_axes: Vec<usize> = (0..inner_from).filter(|&axis| Some(axis) != tile_axis).collect();
    let gathers = outer_gathers(group.function, &group.solver, &domain, &roots, &outer_axes);
    let one = kb.int(1);
    kb.for_([begin, end, one], &[], |kb, unit, _| {
        elements.scoped(|elements| {
            let zero = kb.int(0);
            let mut at = vec![Index::uniform(zero); domain.len()];
            let Some(inner) = inner else {
                write(kb, elements, group, &targets, &domain, &shapes, &at);
                return;
            };
            let size = kb.dim(&inner.size);
            let (mut low, mut high) = (zero, size);
            if chunked {
                let chunk = kb.int(CHUNK);
                low = kb.mul(unit, chunk);
                let stop = kb.add(low, chunk);
                high = kb.map(OpKind::Minimum, &[stop, size]);
            } else {
                place_unit(kb, unit, &outer, &mut at);
                read_places(kb, elements, &domain, &gathers, &at);
            }
            let tile = tiled.as_ref().map(|run| (run.axis, tile_range(kb, run, at[run.axis])));
            let exact = group.solver.divisible(&inner.size, i64::from(lanes));
            vector_loop(kb, elements, [low, high], exact, &mut |kb, elements, index| {
                at[inner.axis] = index;
                let Some((axis, [first, stop])) = tile else {
                    return write(kb, elements, group, &targets, &domain, &shapes, &at);
                };
                kb.for_([first, stop, one], &[], |kb, position, _| {
                    elements.scoped(|elements| {
                        at[axis] = Index::uniform(position);
                        write(kb, elements, group, &targets, &domain, &shapes, &at);
                    });
                    Vec::new()
                });
            });
        });
        Vec::new()
    });
    let kernel = kb.finish();
    let cost = cost::loops(group.function, &Dim::product(domain.iter().cloned()), lanes);
    let launch = Launch { kernel: kernel.name.clone(), arguments, units, cost, scratch: scratch_bytes(&kernel) };
    Scheduled { kernels: vec![kernel], launches: vec![launch], sites: elements.sites }
}

/// The run, an outer one, that an input lies along in memory while it also has the inner dimension: then vectors of it are strided, and
/// several positions of this run are walked for each of them, so that what a cache line holds is used at once.
fn strided(group: &Group<'_>, space: &[Dim], roots: &[(Value, Map)], merged: &[Merged]) -> Option<usize> {
    let (inner, outer) = merged.split_last()?;
    let (mut stack, mut seen) = (roots.to_vec(), std::collections::HashSet::new());
    while let Some((value, map)) = stack.pop() {
        if !seen.insert((value, map.clone())) {
            continue;
        }
        let Some(inst) = group.function.defining(value) else {
            let Some(axes) = axes_of(&map) else { continue };
            let run = axes.last().and_then(|last| outer.iter().position(|run| run.axis == *last));
            if run.is_some() && axes.contains(&inner.axis) {
                return run;
            }
            continue;
        };
        stack.extend(reads(group.function, &group.solver, space, inst, &map).operands);
    }
    None
}

/// The positions of tile number `tile` of a run.
fn tile_range(kb: &mut KernelBuilder, run: &Merged, tile: Index) -> [Value; 2] {
    let number = tile.as_uniform().expect("a unit has one position along outer dimensions");
    let (size, length) = (kb.dim(&run.size), kb.int(TILE));
    let first = kb.mul(number, length);
    let stop = kb.add(first, length);
    [first, kb.map(OpKind::Minimum, &[stop, size])]
}

/// The positions along the outer dimensions that unit number `unit` stands for.
pub(super) fn place_unit(kb: &mut KernelBuilder, unit: Value, outer: &[Merged], at: &mut [Index]) {
    let mut rest = unit;
    for (i, run) in outer.iter().enumerate().rev() {
        let size = kb.dim(&run.size);
        let here = if i == 0 { rest } else { kb.rem(rest, size) };
        rest = kb.div(rest, size);
        at[run.axis] = Index::uniform(here);
    }
}

/// Runs `body` for all positions from `low` to below `high`, `lanes` at a time, then with a mask for the rest unless there is none.
pub(super) fn vector_loop<'e>(
    kb: &mut KernelBuilder,
    elements: &mut Elements<'e>,
    [low, high]: [Value; 2],
    exact: bool,
    body: &mut dyn FnMut(&mut KernelBuilder, &mut Elements<'e>, Index),
) {
    let lanes = elements.lanes;
    let step = kb.int(i64::from(lanes));
    let stride = i64::from(lanes > 1);
    let length = kb.sub(high, low);
    let whole = kb.div(length, step);
    let whole = kb.mul(whole, step);
    let full = kb.add(low, whole);
    kb.for_([low, full, step], &[], |kb, base, _| {
        elements.scoped(|elements| body(kb, elements, Index::Affine { base, stride }));
        Vec::new()
    });
    if exact || lanes == 1 {
        return;
    }
    let left = kb.sub(high, full);
    let zero = kb.int(0);
    let any = kb.compare("GT", left, zero);
    let masked = |kb: &mut KernelBuilder| {
        let mask = kb.lane_mask(left, lanes);
        elements.masked(Some(mask), |elements| body(kb, elements, Index::Affine { base: full, stride }));
        Vec::new()
    };
    kb.if_(any, masked, |_| Vec::new());
}

fn write(
    kb: &mut KernelBuilder,
    elements: &mut Elements<'_>,
    group: &Group<'_>,
    targets: &[Value],
    space: &[Dim],
    shapes: &[Vec<Vec<usize>>],
    at: &[Index],
) {
    // All are computed before any is stored: an output may share memory with an input that another output reads.
    let outputs = group.outputs();
    let places: Vec<Vec<Index>> = shapes.iter().map(|shape| elements.position(kb, space, shape, at)).collect();
    let computed: Vec<Value> = outputs.iter().zip(&places).map(|(&output, place)| elements.element(kb, output, place)).collect();
    for (((&output, &target), place), value) in outputs.iter().zip(targets).zip(&places).zip(computed) {
        elements.store(kb, target, group.tensor(output), place, value);
    }
}

/// The space of outputs that have one: as many elements, counted alike; fine enough for the group's reshapes, where that is possible.
pub fn space_of(group: &Group<'_>, outputs: &[Value]) -> Option<Vec<Dim>> {
    let (&first, others) = outputs.split_first()?;
    let dims = |value: Value| &group.tensor(value).dims[..];
    let mut space = refine(&group.solver, dims(first), dims(first))?;
    for &output in others {
        space = refine(&group.solver, &space, dims(output))?;
    }
    let reshapes = group.function.insts(group.function.body).iter().filter(|&&i| group.function.kind_of(i) == OpKind::Reshape);
    for &reshape in reshapes {
        for value in [group.function.result(reshape), group.function.operands(reshape)[0]] {
            if let Some(finer) = refine(&group.solver, &space, dims(value)) {
                space = finer;
            }
        }
    }
    Some(space)
}
