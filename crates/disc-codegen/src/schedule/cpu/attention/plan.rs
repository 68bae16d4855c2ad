//! The plan of an attention group: its three parts, each as a group of its own.
use super::{
    masking::{Mask, masks},
    softmax::Softmax,
};
use crate::{
    kernel::cost,
    schedule::{
        Group, ReductionSchedule, Refusal,
        cpu::{
            matmul::{MatmulPlan, Role, RowBuffer},
            reduction,
        },
        extract,
    },
    target::Target,
};
use disc_ir::{Dim, Function, Inst, OpKind, Solver, Value};
use disc_passes::fusion::ReductionPlan;
use std::{collections::HashMap, sync::Arc};

/// Columns of one step: with values as long as heads are, they and the scores of a block stay in
/// cache.
pub(super) const KEYS: i64 = 512;

/// The parts of an attention group, and their plans.
pub struct AttentionPlan {
    /// Each part as a function of its own.
    pub(super) functions: [Function; 3],
    /// The values of the group that each part reads, by its parameters, and computes.
    pub(super) reads: [Vec<Value>; 3],
    pub(super) made: [Value; 3],
    pub(super) scores: MatmulPlan,
    pub(super) rows: ReductionSchedule,
    pub(super) weighted: MatmulPlan,
    /// The softmax of the rows, if some columns of them can be computed after the others.
    pub(super) softmax: Option<Softmax>,
    /// If heads that share their keys are rows: the dimension of these, and that of the queries.
    pub(super) shared: Option<[usize; 2]>,
}

impl AttentionPlan {
    /// Plans a group.
    ///
    /// # Errors
    /// The reason that the group has no plan.
    pub fn of(group: &Function, solver: &Solver, target: &Target) -> Result<Self, Refusal> {
        let parts: Vec<Inst> = group.insts(group.body).iter().copied().filter(|&i| group.kind_of(i) == OpKind::Fusion).collect();
        let &[first, second, third] = &parts[..] else { return Err("the group does not hold three groups".into()) };
        let parts = [first, second, third];
        let functions = parts.map(|part| extract(group, part));
        let result = |part: usize| functions[part].returned(functions[part].body)[0];
        let product = |function: &Function| MatmulPlan::of(function, solver, target, function.returned(function.body));
        let (scores, weighted) = (product(&functions[0])?, product(&functions[2])?);
        let weights = weighted.left_input().ok_or("the second product reads no rows of memory")?;
        let decided = ReductionPlan::read(group, second, &functions[1], solver)?;
        let rows = ReductionSchedule::new(&functions[1], decided);
        let softmax = Softmax::of(&functions[1], rows.domain.len(), result(1)).filter(|_| weighted.takes_parts());
        let columns = scores.shape.n.size.clone();
        let (columns, role) = match softmax {
            Some(_) => (Dim::min(&columns, &Dim::constant(KEYS)), Role::Parts),
            None => (columns, Role::Rows),
        };
        let room = scores.room(columns);
        let scores = scores.in_blocks(Role::Result, RowBuffer { value: result(0), room: room.clone() });
        let weighted = weighted.in_blocks(role, RowBuffer { value: weights, room });
        let reads = parts.map(|part| group.operands(part).to_vec());
        let made = parts.map(|part| group.result(part));
        let plan = Self { functions, reads, made, scores, rows, weighted, softmax, shared: None };
        plan.check(group, solver)?;
        Ok(plan)
    }

    /// Takes tile registers for both products, if the target multiplies their operands in them. The
    /// exponentials are rounded to the type of the values: none may be above 1.
    pub(super) fn in_register_tiles(self, target: &Target) -> Option<Self> {
        self.softmax.as_ref().filter(|softmax| softmax.from_top)?;
        let scores = self.scores.in_register_tiles(&self.functions[0], target)?;
        let weighted = self.weighted.in_register_tiles(&self.functions[2], target)?;
        Some(Self { scores, weighted, ..self })
    }

    fn check(&self, group: &Function, solver: &Solver) -> Result<(), String> {
        let dims = |value: Value| &group.ty(value).shaped().expect("a tensor").dims;
        let rank = dims(self.made[0]).len();
        let same = |a: &Dim, b: &Dim| solver.equal(a, b);
        let batches = |plan: &MatmulPlan| {
            plan.shape.outer.len() + 2 == rank && plan.shape.outer.iter().enumerate().all(|(i, outer)| i == outer.run.axis)
        };
        let fits = self.scores.tile == self.weighted.tile
            && batches(&self.scores)
            && batches(&self.weighted)
            && self.scores.shape.m.dim == Some(rank - 2)
            && self.weighted.shape.m.dim == Some(rank - 2)
            && self.rows.rows + 1 == rank
            && self.rows.in_any_order()
            && dims(self.made[0]) == dims(self.made[1])
            && same(&self.scores.shape.m.size, &self.weighted.shape.m.size);
        if fits { Ok(()) } else { Err("the parts do not share rows".into()) }
    }

    /// Gives a part as a group of its own.
    pub(super) fn part<'a>(&'a self, group: &Group<'a>, i: usize, first_site: i64) -> Group<'a> {
        Group {
            function: &self.functions[i],
            wanted: vec![0],
            name: Arc::from(format!("{}.{}", group.name, ["scores", "rows", "weighted"][i])),
            first_site,
            nontemporal: false,
            ..group.clone()
        }
    }

    /// Elements between rows of scores.
    pub(super) fn stride(&self) -> Dim {
        self.scores.partition.blocks.as_ref().expect("the scores are in task memory").room.stride.clone()
    }

    /// Elements between rows of exponentials.
    pub(super) fn stride_of_powers(&self) -> Dim {
        self.weighted.partition.blocks.as_ref().expect("the exponentials are in task memory").room.stride.clone()
    }

    /// The dimension of the rows.
    pub(super) fn row_axis(&self) -> usize {
        self.scores.shape.m.dim.expect("the parts share rows")
    }

    /// A unit is a chunk of rows at one position along the batch dimensions.
    pub(super) fn units(&self) -> Dim {
        Dim::product(self.scores.shape.outer.iter().map(|o| o.run.size.clone())) * self.scores.chunks()
    }

    /// Estimated nanoseconds on one thread.
    pub(super) fn cost(&self, rows: &Group<'_>) -> Dim {
        let elements = Dim::product(self.rows.domain.iter().cloned());
        let lanes = reduction::lanes(rows, &self.rows);
        self.scores.cost() + self.weighted.cost() + cost::loops(rows.function, &elements, lanes)
    }

    /// Gives the memory that a part reads, and then that of its result.
    pub(super) fn memory_of(&self, part: usize, memory: &HashMap<Value, Value>) -> Vec<Value> {
        self.reads[part].iter().chain([&self.made[part]]).map(|value| memory[value]).collect()
    }

    /// Finds the masks of the scores.
    pub(super) fn masks(&self) -> Vec<Mask> {
        let function = &self.functions[0];
        masks(function, function.returned(function.body)[0], self.rows.rows - 1)
    }
}
