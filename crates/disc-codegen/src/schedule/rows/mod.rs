//! The row schedule: reductions over the same dimensions, and what depends on them, in one kernel.
//!
//! A row is one position along the kept dimensions. Over the reduced ones runs one loop nest per *phase*: phase `p` computes the reductions
//! that depend on `p` earlier ones, the last phase computes the outputs. What is expensive and needed in several phases is kept in task
//! memory. Softmax and layer norm are one kernel by this. Vectors lie along the dimension that is contiguous in memory: where it is
//! reduced, a unit of work is a row; where it is kept, a unit is a few vectors of rows side by side.
//!
//! The group has to be one that [`RowPlan::of`] accepts.
mod plan;
mod unit;

use super::{Argument, Group, Launch, Scheduled, domain::Merged, loops::place_unit, scratch_bytes};
use crate::{
    build::KernelBuilder,
    cost,
    element::{Elements, compute_dtype},
    index::Index,
};
use disc_ir::{DType, Dim, FunctionKind, OpKind, TensorType, Type, Value};
use disc_passes::fusion::space::regroup;
pub use plan::RowPlan;
use plan::{Along, Placed};
use unit::Unit;

/// Quarter nanoseconds of a vector of the whole group, up to which phases are bound by loads and the latency of sums.
const CHEAP: i64 = 24;

/// How a group's rows are computed: where vectors lie, how long they are, how many of them at once.
struct Shape {
    kept: Vec<Merged>,
    reduced: Vec<Merged>,
    along: Along,
    copies: u32,
    lanes: u32,
}

impl Shape {
    fn of(group: &Group<'_>, plan: &RowPlan) -> Self {
        let (kept, reduced) = plan.runs(group);
        let along = plan.along(&kept, &reduced);
        let work: i64 = group.function.insts(group.function.body).iter().map(|&inst| own_weight(group, inst)).sum();
        let in_order = !plan.in_any_order();
        let copies = match () {
            () if in_order => 1,
            () if work <= CHEAP => 4,
            () => 2,
        };
        let vector = match along {
            Along::Reduced => reduced.last().filter(|_| !in_order),
            Along::Kept => kept.last(),
        };
        let lanes = vector.map_or(1, |run| cost::lanes(group.function, group.target, &group.solver, &run.size));
        Self { kept, reduced, along, copies, lanes }
    }

    /// Elements of a kept dimension in a unit.
    fn width(&self) -> i64 {
        if self.along == Along::Kept { i64::from(self.copies) * i64::from(self.lanes) } else { 1 }
    }

    fn unit<'g>(&self, kb: &mut KernelBuilder, group: &'g Group<'g>, plan: &'g RowPlan, targets: Vec<Value>) -> Unit<'g> {
        let cached = |placed: Placed| {
            let dtype = compute_dtype(group.tensor(placed.value).dtype);
            let buffer = kb.scratch(TensorType::new([plan.row_length() * self.width()], dtype));
            (placed, buffer)
        };
        let caches = plan.keep(group).into_iter().map(cached).collect();
        Unit { group, plan, reduced: self.reduced.clone(), along: self.along, copies: self.copies, targets, caches }
    }
}

/// Lanes for a group's rows.
pub(super) fn lanes(group: &Group<'_>, plan: &RowPlan) -> u32 {
    Shape::of(group, plan).lanes
}

/// Computes rows for another schedule, one at a time.
pub(super) struct Rows<'g> {
    unit: Unit<'g>,
}

impl<'g> Rows<'g> {
    /// Rows of a group whose outputs go to `targets`; asks for task memory for what is kept of a row.
    pub(super) fn new(kb: &mut KernelBuilder, group: &'g Group<'g>, plan: &'g RowPlan, targets: Vec<Value>) -> Self {
        Self { unit: Shape::of(group, plan).unit(kb, group, plan, targets) }
    }

    /// Computes one row; `at` has its position in the plan's domain, with the columns at 0.
    pub(super) fn run(&mut self, kb: &mut KernelBuilder, elements: &mut Elements<'_>, at: &[Index]) {
        let (plan, solver) = (self.unit.plan, &self.unit.group.solver);
        let all: Vec<usize> = (0..plan.layout.space.len()).collect();
        let shape = regroup(solver, &plan.layout.space, &all, &plan.domain).expect("the domain is of the space");
        let mut here = vec![Index::uniform(kb.int(0)); all.len()];
        for (axes, index) in shape.iter().zip(at) {
            if let [axis] = axes[..] {
                here[axis] = *index;
            }
        }
        self.unit.run(kb, elements, vec![here]);
    }
}

/// Schedules a group that has a plan.
pub fn schedule(group: &Group<'_>, plan: &RowPlan) -> Scheduled {
    let shape = Shape::of(group, plan);
    let (lanes, along, kept) = (shape.lanes, shape.along, &shape.kept);
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
    for (i, &output) in group.outputs().iter().enumerate() {
        targets.push(kb.buffer(&format!("out{i}"), group.tensor(output).clone()));
        arguments.push(Argument::Output(group.wanted[i]));
    }
    let begin = kb.parameter("begin", Type::scalar(DType::I64));
    let end = kb.parameter("end", Type::scalar(DType::I64));

    let mut unit = shape.unit(&mut kb, group, plan, targets);
    let one = kb.int(1);
    kb.for_([begin, end, one], &[], |kb, number, _| {
        elements.scoped(|elements| {
            let zero = kb.int(0);
            let mut at = vec![Index::uniform(zero); plan.layout.space.len()];
            match along {
                Along::Reduced => {
                    place_unit(kb, number, kept, &mut at);
                    unit.run(kb, elements, vec![at]);
                }
                Along::Kept => side_by_side(&mut unit, kb, elements, number, kept, at),
            }
        });
        Vec::new()
    });
    let kernel = kb.finish();
    let count = Dim::product(plan.layout.space.iter().cloned());
    let units = match (along, kept.split_last()) {
        (Along::Kept, Some((last, others))) => {
            Dim::product(others.iter().map(|run| run.size.clone())) * last.size.ceil_div(&Dim::constant(shape.width()))
        }
        _ => Dim::product(kept.iter().map(|run| run.size.clone())),
    };
    let cost = cost::loops(group.function, &count, lanes) + &units * 20;
    let launch = Launch { kernel: kernel.name.clone(), arguments, units, cost, scratch: scratch_bytes(&kernel) };
    Scheduled { kernels: vec![kernel], launches: vec![launch], sites: elements.sites }
}

/// A reduction itself costs as much as its op.
fn own_weight(group: &Group<'_>, inst: disc_ir::Inst) -> i64 {
    match group.function.kind_of(inst) {
        OpKind::Reduce => 1,
        _ => cost::weight(group.function, inst),
    }
}

/// A unit of rows side by side: all its vectors at once where they are full, else one after the other with a mask.
fn side_by_side(
    unit: &mut Unit<'_>,
    kb: &mut KernelBuilder,
    elements: &mut Elements<'_>,
    number: Value,
    kept: &[Merged],
    mut at: Vec<Index>,
) {
    let (last, others) = kept.split_last().expect("rows side by side have a kept dimension");
    let lanes = i64::from(elements.lanes);
    let wide = lanes * i64::from(unit.copies);
    let tiles = kb.dim(&last.size.ceil_div(&Dim::constant(wide)));
    let (rest, tile) = match others {
        [] => (kb.int(0), number),
        _ => (kb.div(number, tiles), kb.rem(number, tiles)),
    };
    place_unit(kb, rest, others, &mut at);
    let (size, step) = (kb.dim(&last.size), kb.int(wide));
    let base = kb.mul(tile, step);
    let stride = i64::from(lanes > 1);
    let columns = |kb: &mut KernelBuilder, count: u32, from: Value| -> Vec<Vec<Index>> {
        let column = |n: u32| {
            let offset = kb.int(i64::from(n) * lanes);
            let mut at = at.clone();
            at[last.axis] = Index::Affine { base: kb.add(from, offset), stride };
            at
        };
        (0..count).map(column).collect()
    };
    if unit.group.solver.divisible(&last.size, wide) {
        let all = columns(kb, unit.copies, base);
        return unit.run(kb, elements, all);
    }
    let end = kb.add(base, step);
    let full = kb.compare("LE", end, size);
    let shared = std::cell::RefCell::new((unit, elements));
    let at_once = |kb: &mut KernelBuilder| {
        let (unit, elements) = &mut *shared.borrow_mut();
        let all = columns(kb, unit.copies, base);
        elements.scoped(|elements| unit.run(kb, elements, all));
        Vec::new()
    };
    let one_by_one = |kb: &mut KernelBuilder| {
        let (unit, elements) = &mut *shared.borrow_mut();
        let one_vector = kb.int(lanes);
        kb.for_([base, size, one_vector], &[], |kb, from, _| {
            let only = columns(kb, 1, from);
            let left = kb.sub(size, from);
            let mask = (lanes > 1).then(|| kb.lane_mask(left, lanes as u32));
            elements.masked(mask, |elements| unit.run(kb, elements, only));
            Vec::new()
        });
        Vec::new()
    };
    kb.if_(full, at_once, one_by_one);
}
