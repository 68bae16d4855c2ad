//! The attention schedule: rows of a product, a softmax of them and a product with them, block by block in task memory.
//!
//! Where the rows are a softmax, they are computed some columns after the others: see [`flash`]. For any other function of rows, a work unit
//! packs the operands that need it once, then, for each block of as many rows as a tile has, computes the scores, their function in place, and
//! the second product; the memory for scores grows with the number of columns then.
//!
//! The group holds three groups (contraction, rows, contraction), each with a schedule of its own; this one decides where their values live.
mod decode;
mod flash;
mod masking;
mod online_softmax;
mod softmax;
mod unit;

use super::{
    matmul::{BlockProduct, MatmulPlan, Role, RowBuffer, RowsOf, merge_sites},
    reduction::{self, Rows},
};
use crate::{
    element::{Elements, RowBlock},
    kernel::{Index, Site, cost},
    schedule::{
        Argument, Group, Launch, RowPlan, Scheduled, Versioned,
        common::{iteration_space::place_unit, kernel_frame::GroupMemory},
        extract,
    },
    target::Target,
};
use disc_ir::{Dim, Function, FunctionKind, Inst, OpKind, Solver, Value};
use softmax::Softmax;
use std::{collections::HashMap, sync::Arc};

/// The parts of an attention group, and their plans.
pub struct AttentionPlan {
    /// Each part as a function of its own.
    functions: [Function; 3],
    /// The values of the group that each part reads, by its parameters, and makes.
    reads: [Vec<Value>; 3],
    made: [Value; 3],
    scores: MatmulPlan,
    rows: RowPlan,
    weighted: MatmulPlan,
    /// What the rows are, if some columns of them can be computed after the others.
    softmax: Option<Softmax>,
    /// Where heads that share their keys are rows: the dimension of these, and that of the queries.
    shared: Option<[usize; 2]>,
}

impl AttentionPlan {
    /// The plan of a group, or why it has none.
    pub fn of(group: &Function, solver: &Solver, target: &Target) -> Result<Self, String> {
        let parts: Vec<Inst> = group.insts(group.body).iter().copied().filter(|&i| group.kind_of(i) == OpKind::Fusion).collect();
        let &[first, second, third] = &parts[..] else { return Err("the group does not hold three groups".into()) };
        let parts = [first, second, third];
        let functions = parts.map(|part| extract(group, part));
        let product = |function: &Function| MatmulPlan::of(function, solver, target, &returned(function));
        let (scores, weighted) = (product(&functions[0])?, product(&functions[2])?);
        let weights = weighted.left_input().ok_or("the second product reads no rows of memory")?;
        let rows = RowPlan::of(&functions[1], solver, &returned(&functions[1]))?;
        let softmax = Softmax::of(&functions[1], &rows, returned(&functions[1])[0]).filter(|_| weighted.takes_parts());
        let columns = scores.n.size.clone();
        let (columns, role) = match softmax {
            Some(_) => (Dim::min(&columns, &Dim::constant(unit::KEYS)), Role::Parts),
            None => (columns, Role::Rows),
        };
        let room = scores.room(columns);
        let scores = scores.in_blocks(RowBuffer { value: returned(&functions[0])[0], role: Role::Result, room: room.clone() });
        let weighted = weighted.in_blocks(RowBuffer { value: weights, role, room });
        let reads = parts.map(|part| group.operands(part).to_vec());
        let made = parts.map(|part| group.result(part));
        let plan = Self { functions, reads, made, scores, rows, weighted, softmax, shared: None };
        plan.check(group, solver)?;
        Ok(plan)
    }

    /// A part as a group of its own.
    fn part<'a>(&'a self, group: &Group<'a>, i: usize, first_site: i64) -> Group<'a> {
        Group {
            function: &self.functions[i],
            wanted: vec![0],
            name: Arc::from(format!("{}.{}", group.name, ["scores", "rows", "weighted"][i])),
            first_site,
            nontemporal: false,
            ..group.clone()
        }
    }

    fn check(&self, group: &Function, solver: &Solver) -> Result<(), String> {
        let dims = |value: Value| &group.ty(value).shaped().expect("a tensor").dims;
        let rank = dims(self.made[0]).len();
        let same = |a: &Dim, b: &Dim| solver.equal(a, b);
        let batches = |plan: &MatmulPlan| {
            plan.outer.len() + 2 == rank && plan.outer.iter().enumerate().all(|(i, outer)| i == outer.run.axis)
        };
        let fits = self.scores.tile == self.weighted.tile
            && batches(&self.scores)
            && batches(&self.weighted)
            && self.scores.m_axis == Some(rank - 2)
            && self.weighted.m_axis == Some(rank - 2)
            && self.rows.rows + 1 == rank
            && self.rows.in_any_order()
            && dims(self.made[0]) == dims(self.made[1])
            && same(&self.scores.m.size, &self.weighted.m.size);
        if fits { Ok(()) } else { Err("the parts do not share rows".into()) }
    }
}

fn returned(function: &Function) -> Vec<Value> {
    let end = function.terminator(function.body).expect("a function ends in `return`");
    function.operands(end).to_vec()
}

/// Schedules a group that has a plan.
pub(in crate::schedule) fn schedule(group: &Group<'_>, plan: &AttentionPlan) -> Versioned {
    match &plan.softmax {
        Some(softmax) => flash::schedule(group, plan, softmax),
        None => of_whole_rows(group, plan).into(),
    }
}

/// The schedule for any function of rows.
fn of_whole_rows(group: &Group<'_>, plan: &AttentionPlan) -> Scheduled {
    let scores = plan.part(group, 0, group.first_site);
    let mut routines = BlockProduct::routines(&scores, &plan.scores);
    let rows_site = group.first_site + count_sites(&routines);
    let softmax = plan.part(group, 1, rows_site);
    let (kernel, arguments, rows_sites) = kernel(group, plan, &scores, &softmax);
    let weighted = plan.part(group, 2, rows_site + rows_sites.len() as i64);
    let mut sites: Vec<Site> = Vec::new();
    merge_sites(&mut sites, &routines);
    sites.extend(rows_sites);
    let last = BlockProduct::routines(&weighted, &plan.weighted);
    merge_sites(&mut sites, &last);
    routines.extend(last);
    let launch = Launch::new(&kernel, arguments, plan.units(), plan.cost(&softmax));
    let kernels = [kernel].into_iter().chain(routines.into_iter().map(|(routine, _)| routine)).collect();
    Scheduled { kernels, launches: vec![launch], sites }
}

impl AttentionPlan {
    /// Elements between rows of scores.
    fn stride(&self) -> Dim {
        self.scores.held.as_ref().expect("the scores are in task memory").room.stride.clone()
    }

    /// The dimension of the rows.
    fn row_axis(&self) -> usize {
        self.scores.m_axis.expect("the parts share rows")
    }

    /// A unit is a chunk of rows at one position along the batch dimensions.
    fn units(&self) -> Dim {
        Dim::product(self.scores.outer.iter().map(|o| o.run.size.clone())) * self.scores.chunks()
    }

    /// Estimated nanoseconds on one thread.
    fn cost(&self, rows: &Group<'_>) -> Dim {
        let elements = Dim::product(self.rows.domain.iter().cloned());
        let lanes = reduction::lanes(rows, &self.rows);
        self.scores.cost() + self.weighted.cost() + cost::loops(rows.function, &elements, lanes)
    }

    /// The memory that a part reads, and then that of what it makes.
    fn memory_of(&self, part: usize, memory: &HashMap<Value, Value>) -> Vec<Value> {
        self.reads[part].iter().chain([&self.made[part]]).map(|value| memory[value]).collect()
    }
}

/// The kernel of whole rows, its arguments, and where its rows can fail.
fn kernel(
    group: &Group<'_>,
    plan: &AttentionPlan,
    scores: &Group<'_>,
    softmax: &Group<'_>,
) -> (Function, Vec<Argument>, Vec<Site>) {
    let mut kb = group.builder(&group.name, FunctionKind::Kernel);
    let GroupMemory { sources, targets, arguments } = GroupMemory::of(&mut kb, group);
    let mut memory: HashMap<Value, Value> = sources.into_iter().chain(targets).collect();
    let [begin, end] = kb.units();
    // One block of memory holds scores, and then what becomes of them.
    let block = kb.scratch(plan.scores.row_block(group.tensor(plan.made[0])));
    memory.extend([(plan.made[0], block), (plan.made[1], block)]);

    let first = BlockProduct::new(&mut kb, scores, &plan.scores, &plan.memory_of(0, &memory));
    let weighted = plan.part(group, 2, 0);
    let last = BlockProduct::new(&mut kb, &weighted, &plan.weighted, &plan.memory_of(2, &memory));
    let mut walk = Rows::new(&mut kb, softmax, &plan.rows, vec![block]);
    let lanes = reduction::lanes(softmax, &plan.rows);
    let mut elements = Elements::new(softmax.function, softmax.solver.clone(), lanes, group.target);
    elements.first_site = softmax.first_site;
    for (&parameter, read) in softmax.inputs().iter().zip(&plan.reads[1]) {
        elements.bind(parameter, memory[read]);
    }
    let (zero, one) = (kb.int(0), kb.int(1));
    kb.for_([begin, end, one], &[], |kb, unit, _| {
        let mut at = vec![Index::uniform(zero); plan.rows.domain.len()];
        let chunks = kb.dim(&plan.scores.chunks());
        let (chunk, batch) = (kb.rem(unit, chunks), kb.div(unit, chunks));
        place_unit(kb, batch, &plan.scores.outer_runs(), &mut at);
        let ([queries, keys], [_, values]) = (first.bases(kb, &at), last.bases(kb, &at));
        let [score_panels, panels] = [&plan.scores, &plan.weighted].map(|product| kb.dim(&product.panels()));
        first.pack(kb, &at, keys, [zero, score_panels]);
        last.pack(kb, &at, values, [zero, panels]);
        let rows = plan.scores.chunk_rows(kb, chunk);
        plan.scores.for_row_blocks(kb, rows, |kb, _, [start, height]| {
            let stride = kb.dim(&plan.scores.m.left);
            let offset = kb.mul(start, stride);
            let left = kb.add(queries, offset);
            first.run(kb, &at, keys, RowsOf { left, first: start, height }, [zero, score_panels, zero], &[zero]);
            let stride = kb.dim(&plan.stride());
            elements.hold_rows(block, RowBlock { axis: plan.row_axis(), first: start, column: zero, stride });
            let stop = kb.add(start, height);
            kb.for_([start, stop, one], &[], |kb, row, _| {
                elements.scoped(|elements| {
                    let mut here = at.clone();
                    here[plan.rows.rows - 1] = Index::uniform(row);
                    walk.run(kb, elements, &here);
                });
                Vec::new()
            });
            last.run(kb, &at, values, RowsOf { left: zero, first: start, height }, [zero, panels, zero], &[]);
        });
        Vec::new()
    });
    (kb.finish(), arguments, elements.sites)
}

fn count_sites(routines: &[(Function, Vec<Site>)]) -> i64 {
    let mut sites = Vec::new();
    merge_sites(&mut sites, routines);
    sites.len() as i64
}
