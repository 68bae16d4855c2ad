//! The plan of a matmul: every decision about it, made from its shapes, facts and target.
//!
//! Each file makes one decision: [`shape`] orders the dimensions, [`left`] and [`right`] choose how
//! the operands are read, [`result`] where sums go, [`partition`] how the work is cut, [`source`]
//! and [`heights`] which micro-kernels are needed. The emitters of [`super::emit`] only read a
//! plan.
pub(in crate::schedule) mod blocks;
pub(in crate::schedule) mod dot_word;
pub(in crate::schedule) mod epilogue;
pub(in crate::schedule) mod forms;
pub(in crate::schedule) mod heights;
pub(in crate::schedule) mod im2col;
pub(in crate::schedule) mod int4;
pub(in crate::schedule) mod interleaved;
pub(in crate::schedule) mod left;
pub(in crate::schedule) mod operand;
pub(in crate::schedule) mod partition;
pub(in crate::schedule) mod register_tiles;
pub(in crate::schedule) mod result;
pub(in crate::schedule) mod right;
pub(in crate::schedule) mod rounds;
pub(in crate::schedule) mod shape;
pub(in crate::schedule) mod source;
pub(in crate::schedule) mod split_k;
pub(in crate::schedule) mod staging;
pub(in crate::schedule) mod tail_columns;
pub(in crate::schedule) mod tile;

use crate::{
    element::matmul::packed_columns,
    kernel::accumulator_dtype,
    schedule::Group,
    target::{CpuModel, Target},
};
use disc_ir::{DType, Function, Inst, Solver, Value, fragment::Tile as RegisterTile};
use disc_passes::{
    analysis::query::Query,
    fusion::fuse_interleave::{Interleaved, InterleavedPart},
};
use dot_word::DotWord;
use forms::{Left, LeftForm, ResultForm, Right, RightForm};
use interleaved::InterleavedProduct;
use partition::Partition;
use shape::MatmulShape;
use tile::{Tile, tile};

/// One product of a group and how it is computed.
pub(in crate::schedule) struct MatmulPlan {
    pub(in crate::schedule) dot: Inst,
    /// The inputs of the group that this product and its outputs read, in the group's order.
    pub(in crate::schedule) inputs: Vec<Value>,
    /// The outputs of the group that depend on the product.
    pub(in crate::schedule) outputs: Vec<Value>,
    /// The type that products are added up in.
    pub(in crate::schedule) compute: DType,
    /// The VNNI groups in which both operands are read, if they are.
    pub(in crate::schedule) word: Option<DotWord>,
    /// The target multiplies vectors by lanes of others.
    multiplies_by_lane: bool,
    /// The tile registers that blocks of rows can be multiplied in: ask [`Self::register_tiles`].
    register_tile: Option<RegisterTile>,
    pub(in crate::schedule) shape: MatmulShape,
    pub(in crate::schedule) left: Left,
    pub(in crate::schedule) right: Right,
    pub(in crate::schedule) result: ResultForm,
    pub(in crate::schedule) tile: Tile,
    pub(in crate::schedule) partition: Partition,
}

impl MatmulPlan {
    /// Plans the product `dot` with the outputs that depend on it, or says why it cannot.
    ///
    /// Schedules that keep rows in task memory are not `plain`: they take no VNNI groups, and pack
    /// rows where others copy parts of them.
    pub(in crate::schedule) fn of_product(
        group: &Function,
        solver: &Solver,
        target: &Target,
        dot: Inst,
        outputs: &[Value],
        plain: bool,
    ) -> Result<Self, String> {
        let product = group.result(dot);
        let [left, right] = operand::of_product(group, solver, dot)?;
        let orders = outputs.iter().map(|&o| epilogue::order(group, solver, product, o)).collect::<Result<Vec<_>, _>>()?;
        let compute = accumulator_dtype(group.ty(product).dtype());
        let mut plan = Self {
            dot,
            inputs: read_inputs(group, outputs),
            outputs: outputs.to_vec(),
            compute,
            word: None,
            multiplies_by_lane: CpuModel::of(target).is_some_and(|model| model.multiplies_by_lane),
            register_tile: None,
            shape: MatmulShape::new(solver, group.shape(product).len(), orders, &left, &right),
            left: Left { operand: left, form: LeftForm::InPlace },
            right: Right { operand: right, form: RightForm::Computed, converts: false },
            result: ResultForm::Direct,
            tile: tile(target, compute),
            partition: Partition::default(),
        };
        let roots: Vec<Value> = outputs.iter().map(|&o| epilogue::before_transpose(group, o)).collect();
        let pairs = epilogue::merged(group, solver, &roots, product);
        plan.shape.walk_rows(solver, &plan.left.operand, &pairs);
        match packed_columns(group, dot) {
            Some(columns) => plan.read_panels(group, solver, target, columns)?,
            None => {
                plan.shape.walk_columns(solver, &plan.right.operand, &pairs);
                plan.choose_right(group)?;
                if plain {
                    plan.choose_words(group, target);
                }
            }
        }
        plan.choose_left(group, solver, target, plain);
        plan.choose_few_rows();
        if plain {
            plan.choose_register_tiles(solver, target);
        }
        plan.partition = Partition::of(solver, &plan.shape.n.size, plan.tile);
        Ok(plan)
    }

    /// Plans a group of exactly one product for a schedule that keeps rows in task memory.
    pub(in crate::schedule) fn of(group: &Function, solver: &Solver, target: &Target, outputs: &[Value]) -> Result<Self, String> {
        let is_dot = |&inst: &Inst| group.kind_of(inst) == disc_ir::OpKind::DotGeneral;
        let mut dots = group.insts(group.body).iter().copied().filter(is_dot);
        match (dots.next(), dots.next()) {
            (Some(dot), None) => Self::of_product(group, solver, target, dot, outputs, false),
            _ => Err("the group does not hold exactly one product".into()),
        }
    }

    /// The plans of a group that interleaves its products, if it is one.
    pub(in crate::schedule) fn interleaved(group: &Group<'_>) -> Option<Result<Vec<Self>, String>> {
        let interleaved = Interleaved::of(group.function, &group.solver, group.function.body)?;
        Some(interleaved.parts.iter().map(|part| Self::of_part(group, &interleaved, part)).collect())
    }

    fn of_part(group: &Group<'_>, interleaved: &Interleaved, part: &InterleavedPart) -> Result<Self, String> {
        let (function, product) = (group.function, group.function.result(part.product));
        let mut plan = Self::of_product(function, &group.solver, group.target, part.product, &[product], true)?;
        let lead = plan.left.operand.batch.len();
        let packs = matches!(plan.right.form, RightForm::Rows | RightForm::Computed);
        if !packs || plan.shape.m.dim != Some(lead) || plan.shape.rank != lead + 1 + interleaved.steps.len() {
            return Err("products that are interleaved have rows of features, and columns that are packed".into());
        }
        plan.outputs = group.outputs();
        plan.inputs = group.inputs().to_vec();
        let place = InterleavedProduct::of(group, interleaved, part, lead);
        plan.result = ResultForm::Interleaved(place.ok_or("the number of features is known")?);
        Ok(plan)
    }
}

/// Lists the inputs of a group that outputs are computed from, in order.
fn read_inputs(group: &Function, outputs: &[Value]) -> Vec<Value> {
    let mut seen = std::collections::HashSet::new();
    let mut stack = outputs.to_vec();
    while let Some(value) = stack.pop() {
        if seen.insert(value)
            && let Some(inst) = group.defining(value)
        {
            stack.extend(group.operands(inst));
            let inner = group.inst(inst).regions.iter().flat_map(|&region| group.walk(region));
            stack.extend(inner.flat_map(|inst| group.operands(inst)));
        }
    }
    group.parameters().iter().copied().filter(|input| seen.contains(input)).collect()
}
