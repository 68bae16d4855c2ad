//! Products of few rows and columns with long sums: parts of the sums are work units, and a second kernel adds what they leave.
//!
//! Without that a product has a unit for each panel of columns and chunk of rows, and other threads have nothing to do.
//!
//! Invariant: how sums are cut depends on sizes alone, and parts are added in their order: the number of threads has no say in the result.
use super::{
    micro::{self, Source},
    operands::Operands,
};
use crate::{
    kernel::{Index, KernelBuilder, Site},
    schedule::{
        Condition::Less,
        Group, Launch, Scheduled, Version, VersionKind, Workspace, aligned_bytes,
        common::kernel_frame::GroupMemory,
        cpu::matmul::{
            dispatch,
            plan::{Left, MatmulPlan, Right},
            plans,
        },
    },
};
use disc_ir::{Dim, Function, FunctionKind, OpKind, TensorType, Value};

/// Parts of a sum.
pub(in crate::schedule) const PARTS: i64 = 8;
/// A part is a multiple of so many products: what a micro-kernel takes in one round.
const STEP: i64 = 16;
/// Below so many units, sums are split.
const FEW_UNITS: i64 = 8;
/// Sums of fewer products are not, nor work of fewer estimated nanoseconds.
const LONG_SUM: i64 = 512;
const LEAST_COST: i64 = 20_000;

/// The version of a group that splits the sums of its product, if it has one product that may have few units.
pub(in crate::schedule) fn split_k(group: &Group<'_>) -> Option<Version> {
    let [plan] = &plans(group).ok()?[..] else { return None };
    let parts = parts_plan(group, plan)?;
    let units = plan.row_units() * plan.panels();
    let most_rows = plan.most_split_rows();
    let guard = vec![
        Less(plan.m.size.clone(), Dim::constant(most_rows + 1)),
        Less(units, Dim::constant(FEW_UNITS)),
        Less(Dim::constant(LONG_SUM - 1), plan.k.size.clone()),
        Less(Dim::constant(LEAST_COST), plan.cost()),
    ];
    let left_behind = |rows: &Dim| TensorType::new([Dim::constant(PARTS), rows.clone(), plan.n.size.clone()], plan.compute);
    // The guard bounds the rows.
    let bytes = aligned_bytes(&left_behind(&Dim::min(&plan.m.size, &Dim::constant(most_rows))));
    let most = Dim::constant(PARTS * most_rows * plan.compute.size() as i64) * &plan.n.size + 64;
    let workspace = Workspace { bytes, tensor: left_behind(&plan.m.size), most: Some(most) };
    let mut code = add_parts(group, &parts, &workspace);
    let (kernel, launch, sites) = sums(group, plan, &workspace);
    code.kernels.insert(1, kernel);
    code.launches.push(launch);
    code.sites = sites;
    Some(Version { kind: VersionKind::SplitK, guard, code, workspaces: vec![workspace] })
}

impl MatmulPlan {
    /// Rows up to which sums are split: a matrix that is read as it lies is read again for each block of them.
    fn most_split_rows(&self) -> i64 {
        i64::from(self.rows_in_place())
    }
}

/// The plan for a part of the sums of a product, if a product may be split: a matrix in panels or contiguous along its few columns.
fn parts_plan(group: &Group<'_>, plan: &MatmulPlan) -> Option<MatmulPlan> {
    let in_memory =
        plan.left_form == Left::InPlace && plan.word.is_none() && matches!(plan.right_form, Right::Panels | Right::Rows);
    let few = plan.panels().as_const().is_some_and(|panels| panels < FEW_UNITS);
    let short = plan.k.size.as_const().is_some_and(|sums| sums < LONG_SUM);
    let many = plan.m.size.as_const().is_some_and(|rows| rows > plan.most_split_rows());
    let outputs = group.outputs();
    let mut parts = MatmulPlan::of_product(group.function, &group.solver, group.target, plan.dot, &outputs, true).ok()?;
    parts.split = true;
    parts.inputs =
        [&plan.left, &plan.right].map(|side| side.memory.as_ref().map(|memory| memory.input)).into_iter().flatten().collect();
    parts.inputs.dedup();
    parts.outputs.clear();
    (in_memory && few && !short && !many && plan.outer.is_empty()).then_some(parts)
}

/// The kernel that leaves the sums of parts.
fn add_parts(group: &Group<'_>, plan: &MatmulPlan, workspace: &Workspace) -> Scheduled {
    let name = format!("{}_split_k", group.name);
    let named = Group { name: name.as_str().into(), ..group.clone() };
    let mut kb = KernelBuilder::new(&name, FunctionKind::Kernel);
    let mut memory = GroupMemory::of_inputs(&mut kb, group, |input| plan.inputs.contains(&input));
    let parts = memory.add_workspace(&mut kb, "parts", 0, workspace.tensor.clone());
    let [begin, end] = kb.units();
    let inputs = plan.inputs.iter().map(|&input| memory.at(input)).collect();
    let operands = Operands::new(&mut kb, plan, inputs, Vec::new(), &mut |kb, _, tensor| kb.scratch(tensor));
    let (one, count, panels) = (kb.int(1), kb.int(PARTS), kb.dim(&plan.panels()));
    kb.for_([begin, end, one], &[], |kb, unit, _| {
        let (part, rest) = (kb.rem(unit, count), kb.div(unit, count));
        let (panel, chunk) = (kb.rem(rest, panels), kb.div(rest, panels));
        let rows = plan.chunk_rows(kb, chunk);
        add_part(kb, (&named, plan), (&operands, parts), part, panel, rows);
        Vec::new()
    });
    let kernel = kb.finish();
    let units = plan.row_units() * plan.panels() * PARTS;
    let launch = Launch::new(&kernel, memory.arguments, units, plan.cost());
    let sources = plan.block_sources(group.target).into_iter();
    let routines = sources.flat_map(|source| (1..=tallest(plan)).map(move |rows| (source, rows)));
    let routines = routines.map(|(source, rows)| micro::emit(&named, plan, &name, source, rows).0);
    Scheduled { kernels: [kernel].into_iter().chain(routines).collect(), launches: vec![launch], sites: Vec::new() }
}

/// The most rows of a block.
fn tallest(plan: &MatmulPlan) -> u32 {
    let rows = plan.m.size.as_const().and_then(|rows| u32::try_from(rows).ok());
    rows.map_or(plan.tile.rows, |rows| rows.clamp(1, plan.tile.rows))
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
    let step = plan.k.size.ceil_div(&Dim::constant(PARTS * STEP)) * STEP;
    let (step, sums) = (kb.dim(&step), kb.dim(&plan.k.size));
    let low = kb.mul(part, step);
    let low = kb.map(OpKind::Minimum, &[low, sums]);
    let high = kb.add(low, step);
    let high = kb.map(OpKind::Minimum, &[high, sums]);
    let depth = kb.sub(high, low);
    let (width, left_step) = (kb.int(i64::from(plan.tile.columns)), kb.dim(&plan.k.left));
    let column = kb.mul(panel, width);
    let left = kb.mul(low, left_step);
    let right = match plan.right_form {
        Right::Panels => {
            let first = kb.mul(panel, sums);
            let line = kb.add(first, low);
            kb.mul(line, width)
        }
        _ => {
            let stride = kb.dim(&plan.k.right);
            let line = kb.mul(low, stride);
            kb.add(line, column)
        }
    };
    let size = kb.dim(&(&plan.m.size * &plan.n.size));
    let (from, zero, row_stride) = (kb.mul(part, size), kb.int(0), kb.dim(&plan.m.left));
    plan.for_row_blocks(kb, rows, |kb, block, [first, height]| {
        let offset = kb.mul(first, row_stride);
        let left = kb.add(left, offset);
        let mut arguments = operands.arguments();
        arguments.extend([left, right, first, column, block, zero, depth, parts, from]);
        call(kb, group, plan, &arguments, column, height);
    });
}

/// Calls the micro-kernel for a block of rows.
fn call(kb: &mut KernelBuilder, group: &Group<'_>, plan: &MatmulPlan, arguments: &[Value], column: Value, height: Value) {
    let run = |kb: &mut KernelBuilder, source: Source| {
        dispatch(kb, &group.name, source, arguments, height, [1, tallest(plan)]);
    };
    match plan.block_sources(group.target)[..] {
        [whole, edge] => {
            let (width, columns) = (kb.int(i64::from(plan.tile.columns)), kb.dim(&plan.n.size));
            let end = kb.add(column, width);
            let is_whole = kb.compare("LE", end, columns);
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

/// The kernel that adds the parts and computes what follows the product: a row is a unit.
fn sums(group: &Group<'_>, plan: &MatmulPlan, workspace: &Workspace) -> (Function, Launch, Vec<Site>) {
    let mut kb = KernelBuilder::new(&format!("{}_combine", group.name), FunctionKind::Kernel);
    let mut memory = GroupMemory::of_inputs(&mut kb, group, |input| plan.inputs.contains(&input));
    memory.add_outputs(&mut kb, group);
    let parts = memory.add_workspace(&mut kb, "parts", 0, workspace.tensor.clone());
    let [begin, end] = kb.units();
    let of = |values: &[Value]| values.iter().map(|&value| memory.at(value)).collect();
    let (inputs, outputs) = (of(&plan.inputs), of(&plan.outputs));
    let operands = Operands { inputs, outputs, left: None, right: None, rows: None, panel: None, rest: None, sums: None };
    let lanes = plan.tile.lanes;
    let mut elements = operands.elements(group, plan, lanes);
    let (zero, one, width, vector) = (kb.int(0), kb.int(1), kb.dim(&plan.n.size), kb.int(i64::from(lanes)));
    let part_size = kb.dim(&(&plan.m.size * &plan.n.size));
    kb.for_([begin, end, one], &[], |kb, row, _| {
        let start = kb.mul(row, width);
        kb.for_([zero, width, vector], &[], |kb, column, _| {
            let left = kb.sub(width, column);
            let mask = kb.lane_mask(left, lanes);
            let first = kb.add(start, column);
            let mut sum = kb.load(parts, first, lanes, Some(mask));
            let mut here = first;
            for _ in 1..PARTS {
                here = kb.add(here, part_size);
                let part = kb.load(parts, here, lanes, Some(mask));
                sum = kb.map(OpKind::Add, &[sum, part]);
            }
            let mut at = vec![Index::uniform(zero); plan.rank];
            if let Some(axis) = plan.m_axis {
                at[axis] = Index::uniform(row);
            }
            if let Some(axis) = plan.n_axis {
                at[axis] = Index::Affine { base: column, stride: 1 };
            }
            elements.scoped(|elements| {
                elements.masked(Some(mask), |elements| micro::store(kb, group, plan, &operands, elements, &at, sum));
            });
            Vec::new()
        });
        Vec::new()
    });
    let kernel = kb.finish();
    let cost = (&plan.m.size * &plan.n.size * PARTS).ceil_div(&Dim::constant(4));
    let launch = Launch::new(&kernel, memory.arguments, plan.m.size.clone(), cost);
    (kernel, launch, elements.sites)
}
