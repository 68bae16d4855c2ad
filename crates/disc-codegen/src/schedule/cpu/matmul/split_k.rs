//! Splits the sums of products with few rows and columns: parts of the sums are work units, and a
//! second kernel adds their results.
//!
//! Without that a product has a unit for each panel of columns and chunk of rows, and other threads
//! have nothing to do.
//!
//! Invariant: the cut of the sums depends only on sizes, and parts are added in their order: the
//! result does not depend on the number of threads.
use super::{
    emit::{call::dispatch, micro, operands::Operands, partition, write},
    group::plans,
    plan::{MatmulPlan, forms::RightForm, source::Source, split_k::PARTS},
};
use crate::{
    kernel::{Index, KernelBuilder, Site},
    schedule::{Group, Launch, Scheduled, Version, VersionKind, Workspace, aligned_bytes, common::kernel_frame::GroupMemory},
};
use disc_ir::{Dim, Function, FunctionKind, Value};
use disc_kernel_macros::expr;

versions! {
    /// A product of few rows and columns, its sums in parts.
    SplitK {
        kernels: "`kN_matmul_split_k`, `kN_matmul_combine`",
        sizes: "split-K: at most two row blocks, fewer than 8 panels of a constant number of columns, sums of at least 512",
        unit: "one of 8 parts of the sums; then rows",
    }
}

/// Gives the version of a group that splits the sums of its product, if it has one product that may
/// have few units.
pub(in crate::schedule) fn split_k(group: &Group<'_>) -> Option<Version> {
    let [plan] = &plans(group).ok()?[..] else { return None };
    let parts = plan.split_k(group)?;
    let most_rows = plan.most_split_rows();
    // The guard bounds the rows.
    let bytes = aligned_bytes(&plan.split_memory(&Dim::min(&plan.shape.m.size, &Dim::constant(most_rows))));
    let most = Dim::constant(PARTS * most_rows * plan.compute.size() as i64) * &plan.shape.n.size + 64;
    let workspace = Workspace { bytes, tensor: plan.split_memory(&plan.shape.m.size), most: Some(most) };
    let mut code = add_parts(group, &parts, &workspace);
    let (kernel, launch, sites) = sums(group, plan, &workspace);
    code.kernels.insert(1, kernel);
    code.launches.push(launch);
    code.sites = sites;
    Some(Version { kind: VersionKind::SplitK, guard: plan.split_guard(), code, workspaces: vec![workspace] })
}

/// Emits the kernel that leaves the sums of parts.
fn add_parts(group: &Group<'_>, plan: &MatmulPlan, workspace: &Workspace) -> Scheduled {
    let name = format!("{}_split_k", group.name);
    let named = Group { name: name.as_str().into(), ..group.clone() };
    let mut kb = group.builder(&name, FunctionKind::Kernel);
    let mut memory = GroupMemory::of_inputs(&mut kb, group, |input| plan.inputs.contains(&input));
    let parts = memory.add_workspace(&mut kb, "parts", 0, workspace.tensor.clone());
    let [begin, end] = kb.units();
    let inputs = plan.inputs.iter().map(|&input| memory.at(input)).collect();
    let operands = Operands::new(&mut kb, plan, inputs, Vec::new(), &mut |kb, _, tensor| kb.scratch(tensor));
    let (one, count, panels) = (kb.int(1), kb.int(PARTS), kb.dim(&plan.panels()));
    kb.for_each([begin, end, one], |kb, unit| {
        let (part, rest) = (expr!(kb, unit % count), expr!(kb, unit / count));
        let (panel, chunk) = (expr!(kb, rest % panels), expr!(kb, rest / panels));
        let rows = partition::chunk_rows(kb, plan, chunk);
        add_part(kb, (&named, plan), (&operands, parts), part, panel, rows);
    });
    let kernel = kb.finish();
    let units = plan.row_units() * plan.panels() * PARTS;
    let launch = Launch::new(&kernel, memory.arguments, units, plan.cost());
    let sources = plan.block_sources(group.target).into_iter();
    let routines = sources.flat_map(|source| (1..=plan.tallest()).map(move |rows| (source, rows)));
    let routines = routines.map(|(source, rows)| micro::emit(&named, plan, &name, source, rows).0);
    Scheduled { kernels: [kernel].into_iter().chain(routines).collect(), launches: vec![launch], sites: Vec::new() }
}

/// Leaves the sums of a part, for the rows of a chunk and the columns of a panel.
fn add_part(
    kb: &mut KernelBuilder,
    (group, plan): (&Group<'_>, &MatmulPlan),
    (operands, parts): (&Operands, Value),
    part: Value,
    panel: Value,
    rows: [Value; 2],
) {
    let (step, sums) = (kb.dim(&plan.split_step()), kb.dim(&plan.shape.k.size));
    let low = expr!(kb, min(part * step, sums));
    let depth = expr!(kb, min(low + step, sums) - low);
    let (width, left_step) = (kb.int(i64::from(plan.tile.columns)), kb.dim(&plan.shape.k.left));
    let column = expr!(kb, panel * width);
    let left = expr!(kb, low * left_step);
    let right = match plan.right.form {
        RightForm::Panels => {
            expr!(kb, (panel * sums + low) * width)
        }
        _ => {
            expr!(kb, low * dim(&plan.shape.k.right) + column)
        }
    };
    let (from, zero, row_stride) =
        (expr!(kb, part * dim(&(&plan.shape.m.size * &plan.shape.n.size))), kb.int(0), kb.dim(&plan.shape.m.left));
    partition::for_row_blocks(kb, plan, rows, |kb, block, [first, height]| {
        let left = expr!(kb, left + first * row_stride);
        let mut arguments = operands.arguments();
        arguments.extend([left, right, first, column, block, zero, depth, parts, from]);
        call(kb, group, plan, &arguments, column, height);
    });
}

/// Calls the micro-kernel for a block of rows.
fn call(kb: &mut KernelBuilder, group: &Group<'_>, plan: &MatmulPlan, arguments: &[Value], column: Value, height: Value) {
    let run = |kb: &mut KernelBuilder, source: Source| {
        dispatch(kb, &group.name, source, arguments, height, [1, plan.tallest()]);
    };
    match plan.block_sources(group.target)[..] {
        [whole, edge] => {
            let (width, columns) = (kb.int(i64::from(plan.tile.columns)), kb.dim(&plan.shape.n.size));
            let is_whole = expr!(kb, column + width <= columns);
            let then = |kb: &mut KernelBuilder| {
                run(kb, whole);
                Vec::new()
            };
            let otherwise = |kb: &mut KernelBuilder| {
                run(kb, edge);
                Vec::new()
            };
            kb.if_(is_whole, then, otherwise);
        }
        ref sources => run(kb, sources[0]),
    }
}

/// Emits the kernel that adds the parts and computes the epilogue: a row is a unit.
fn sums(group: &Group<'_>, plan: &MatmulPlan, workspace: &Workspace) -> (Function, Launch, Vec<Site>) {
    let mut kb = group.builder(&format!("{}_combine", group.name), FunctionKind::Kernel);
    let mut memory = GroupMemory::of_inputs(&mut kb, group, |input| plan.inputs.contains(&input));
    memory.add_outputs(&mut kb, group);
    let parts = memory.add_workspace(&mut kb, "parts", 0, workspace.tensor.clone());
    let [begin, end] = kb.units();
    let of = |values: &[Value]| values.iter().map(|&value| memory.at(value)).collect();
    let (inputs, outputs) = (of(&plan.inputs), of(&plan.outputs));
    let operands = Operands { inputs, outputs, left: None, right: None, rows: None, panel: None, rest: None, sums: None };
    let lanes = plan.tile.lanes;
    let mut elements = operands.elements(group, plan, lanes);
    let (zero, one, width, vector) = (kb.int(0), kb.int(1), kb.dim(&plan.shape.n.size), kb.int(i64::from(lanes)));
    let part_size = kb.dim(&(&plan.shape.m.size * &plan.shape.n.size));
    kb.for_each([begin, end, one], |kb, row| {
        let start = expr!(kb, row * width);
        kb.for_each([zero, width, vector], |kb, column| {
            let left = expr!(kb, width - column);
            let mask = kb.lane_mask(left, lanes);
            let first = expr!(kb, start + column);
            let mut sum = kb.load(parts, first, lanes, Some(mask));
            let mut here = first;
            for _ in 1..PARTS {
                here = expr!(kb, here + part_size);
                let part = kb.load(parts, here, lanes, Some(mask));
                sum = expr!(kb, sum + part);
            }
            let mut at = vec![Index::uniform(zero); plan.shape.rank];
            if let Some(axis) = plan.shape.m.dim {
                at[axis] = Index::uniform(row);
            }
            if let Some(axis) = plan.shape.n.dim {
                at[axis] = Index::Affine { base: column, stride: 1 };
            }
            elements.scoped(|elements| {
                elements.masked(Some(mask), |elements| write::store(kb, group, plan, &operands, elements, &at, sum));
            });
        });
    });
    let kernel = kb.finish();
    let cost = (&plan.shape.m.size * &plan.shape.n.size * PARTS).ceil_div(&Dim::constant(4));
    let launch = Launch::new(&kernel, memory.arguments, plan.shape.m.size.clone(), cost);
    (kernel, launch, elements.sites)
}
