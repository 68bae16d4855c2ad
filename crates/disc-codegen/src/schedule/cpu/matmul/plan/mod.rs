//! What the contraction schedule decides about a product, from its shapes and facts.
pub(in crate::schedule) mod epilogue;
pub(in crate::schedule) mod operand;
pub(in crate::schedule) mod partition;

use super::emit::{dot_words::DotWord, int4::Int4, interleaved::InterleavedProduct};
use crate::{
    element::matmul::packed_columns,
    kernel::{Index, KernelBuilder, accumulator_dtype},
    schedule::common::iteration_space::Merged,
    target::Target,
};
use disc_ir::{DType, Dim, Function, Inst, Solver, Value};
use disc_passes::analysis::query::Query;
use operand::Operand;

/// Right operands with up to this many columns are read along the sums.
const FEW_COLUMNS: i64 = 8;

/// The register block of a target.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Tile {
    /// The most rows of a micro-kernel.
    pub rows: u32,
    /// Columns of a panel.
    pub columns: u32,
    pub lanes: u32,
}

/// The register block for accumulators of `dtype`: two vectors wide, as tall as the registers allow with two for the panel, one for the
/// left operand, and one to spare.
pub fn tile(target: &Target, dtype: DType) -> Tile {
    let lanes = target.vector_bytes() / dtype.size() as u32;
    Tile {
        rows: (target.vector_registers() - 4) / 2 - if target.vector_registers() > 16 { 2 } else { 0 },
        columns: 2 * lanes,
        lanes,
    }
}

/// How the left operand is read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(in crate::schedule) enum Left {
    /// As it lies.
    InPlace,
    /// From rows that each unit makes in task memory.
    Packed,
}

/// How the right operand is read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(in crate::schedule) enum Right {
    /// From panels made when the weights were loaded.
    Panels,
    /// Its columns are contiguous: as it lies for few rows, else from a panel that the unit copies.
    Rows,
    /// What is summed over is contiguous: from a panel that the unit transposes.
    Columns,
    /// Along the sums, whatever the rows.
    Dots,
    /// From a panel that the unit computes.
    Computed,
    /// From panels of steps that were made when the weights were loaded: see [`super::emit::int4`].
    Int4,
}

/// A dimension of the product and how the operands step along it, in elements.
#[derive(Clone, Debug)]
pub(in crate::schedule) struct Axis {
    pub(in crate::schedule) size: Dim,
    pub(in crate::schedule) left: Dim,
    pub(in crate::schedule) right: Dim,
}

/// A dimension that units are spread over.
#[derive(Clone, Debug)]
pub(in crate::schedule) struct Outer {
    pub(in crate::schedule) run: Merged,
    pub(in crate::schedule) left: Dim,
    pub(in crate::schedule) right: Dim,
}

/// An operand or result of which some rows are in task memory: as many as a tile has.
#[derive(Clone, Debug)]
pub(in crate::schedule) struct RowBuffer {
    pub(in crate::schedule) value: Value,
    pub(in crate::schedule) role: Role,
    pub(in crate::schedule) room: Room,
}

/// What a value in task memory is to the product.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(in crate::schedule) enum Role {
    Result,
    /// The left operand.
    Rows,
    /// Some columns of the left operand at a time: sums are added to totals, which are in task memory as well.
    Parts,
}

/// Room for rows in task memory.
#[derive(Clone, Debug)]
pub(in crate::schedule) struct Room {
    /// The most columns that are there at once.
    pub(in crate::schedule) columns: Dim,
    /// Elements from one row to the next.
    pub(in crate::schedule) stride: Dim,
}

/// A dimension of the product, and how an operand steps along it.
struct Stepped {
    size: Dim,
    stride: Dim,
    axis: usize,
}

/// One product of a group, taken apart.
pub(in crate::schedule) struct MatmulPlan {
    pub(in crate::schedule) dot: Inst,
    /// The inputs of the group that this product and its outputs read, and these outputs.
    pub(in crate::schedule) inputs: Vec<Value>,
    pub(in crate::schedule) outputs: Vec<Value>,
    pub(in crate::schedule) tile: Tile,
    pub(in crate::schedule) compute: DType,
    /// Where both operands are read in words: what they are made of.
    pub(in crate::schedule) word: Option<DotWord>,
    /// What is stored in place of the right operand, where it is in steps.
    pub(in crate::schedule) steps: Option<Int4>,
    /// The operand whose dimensions are rows: the left one, unless the product has no other than its rows.
    pub(in crate::schedule) left: Operand,
    pub(in crate::schedule) right: Operand,
    pub(in crate::schedule) left_form: Left,
    /// Whether micro-kernels copy parts of rows that are read as they lie: see [`super::emit::staging`].
    pub(in crate::schedule) staged: bool,
    /// Whether code is for a CPU of [`Target::has_wide_cores`].
    pub(in crate::schedule) wide_cores: bool,
    pub(in crate::schedule) right_form: Right,
    /// Whether a few rows are multiplied along the sums, rather than packing a panel for them.
    pub(in crate::schedule) dots_for_few_rows: bool,
    /// Whether all panels of the right operand are packed at once, and then one block of rows comes after the other.
    pub(in crate::schedule) few_rows_at_once: bool,
    /// What of an operand or of the result is in task memory, where only a part of its rows is.
    pub(in crate::schedule) held: Option<RowBuffer>,
    /// Whether a part of the sums is computed at a time, and left to be added up.
    pub(in crate::schedule) split: bool,
    /// Whether blocks leave their sums to a routine that has the epilogue.
    pub(in crate::schedule) finishes_apart: bool,
    /// Where results are stored interleaved with those of other products.
    pub(in crate::schedule) interleaved: Option<InterleavedProduct>,
    /// Whether the columns always fill their panels, and these the spans of panels that a unit has.
    pub(in crate::schedule) whole_panels: bool,
    pub(in crate::schedule) whole_spans: bool,
    pub(in crate::schedule) rank: usize,
    pub(in crate::schedule) m: Axis,
    /// The dimension of the product that carries the row; none for a product without rows.
    pub(in crate::schedule) m_axis: Option<usize>,
    pub(in crate::schedule) n: Axis,
    pub(in crate::schedule) n_axis: Option<usize>,
    pub(in crate::schedule) k: Axis,
    /// The summed dimensions, where they have to be told apart.
    pub(in crate::schedule) sums: Vec<Dim>,
    pub(in crate::schedule) outer: Vec<Outer>,
    /// For each output: how the product's dimensions are ordered in it.
    pub(in crate::schedule) orders: Vec<Vec<usize>>,
}

impl MatmulPlan {
    /// Whether some columns of its left operand can be multiplied after the others.
    pub(in crate::schedule) fn takes_parts(&self) -> bool {
        self.right_form == Right::Rows && self.sums.len() == 1
    }

    /// Elements between rows of this many elements in task memory: an odd number of cache lines.
    fn row_stride(&self, elements: &Dim) -> Dim {
        let line = 64 / self.rows_dtype().size() as i64;
        let pairs = elements.ceil_div(&Dim::constant(line)).floor_div(&Dim::constant(2));
        (pairs * 2 + 1) * line
    }

    /// Room in task memory for rows of at most `columns` columns, in whole panels.
    pub(in crate::schedule) fn room(&self, columns: Dim) -> Room {
        let width = i64::from(self.tile.columns);
        let stride = self.row_stride(&(columns.ceil_div(&Dim::constant(width)) * width));
        Room { columns, stride }
    }

    /// The plan of the product `dot` with the outputs that depend on it, or why it has none. Schedules that hold rows in task memory are not
    /// `plain`: they take no words, and pack rows where others copy parts of them.
    pub(in crate::schedule) fn of_product(
        group: &Function,
        solver: &Solver,
        target: &Target,
        dot: Inst,
        outputs: &[Value],
        plain: bool,
    ) -> Result<Self, String> {
        let product = group.result(dot);
        let dims = |v: Value| &group.ty(v).shaped().expect("a tensor").dims;
        let [left, right] = operands(group, solver, dot)?;
        let orders = outputs.iter().map(|&o| epilogue::order(group, solver, product, o)).collect::<Result<Vec<_>, _>>()?;
        let compute = accumulator_dtype(group.ty(product).dtype());
        let zero = || Dim::constant(0);
        let one = Axis { size: Dim::constant(1), left: zero(), right: zero() };
        let mut plan = Self {
            dot,
            inputs: read_inputs(group, outputs),
            outputs: outputs.to_vec(),
            tile: tile(target, compute),
            compute,
            word: None,
            steps: None,
            left_form: Left::InPlace,
            staged: false,
            wide_cores: target.has_wide_cores(),
            right_form: Right::Computed,
            dots_for_few_rows: false,
            few_rows_at_once: false,
            held: None,
            split: false,
            finishes_apart: false,
            interleaved: None,
            whole_panels: false,
            whole_spans: false,
            rank: dims(product).len(),
            m: one.clone(),
            m_axis: None,
            n: one.clone(),
            n_axis: None,
            k: one,
            sums: left.sum.iter().map(|&d| left.dims[d].clone()).collect(),
            outer: Vec::new(),
            orders,
            left,
            right,
        };
        for (i, (&l, &r)) in plan.left.batch.iter().zip(&plan.right.batch).enumerate() {
            let run = Merged { size: plan.left.dims[l].clone(), axis: i };
            plan.outer.push(Outer { run, left: plan.left.stride(l), right: plan.right.stride(r) });
        }
        plan.join_sums(solver);
        let roots: Vec<Value> = outputs.iter().map(|&o| epilogue::before_transpose(group, o)).collect();
        let pairs = epilogue::merged(group, solver, &roots, product);
        plan.walk_rows(solver, &pairs);
        match packed_columns(group, dot) {
            Some(columns) => plan.read_panels(group, solver, target, columns)?,
            None => {
                plan.walk_columns(solver, &pairs);
                plan.choose_right(group)?;
                if plain {
                    plan.choose_words(group, target);
                }
            }
        }
        plan.choose_left(group, solver, plain);
        plan.whole_panels = solver.divisible(&plan.n.size, i64::from(plan.tile.columns));
        plan.whole_spans = solver.divisible(&plan.n.size, i64::from(plan.tile.columns) * partition::SPAN);
        let along = plan.left.sum.last().is_some_and(|&d| plan.left.is_contiguous(d));
        plan.dots_for_few_rows = plan.right_form == Right::Columns && plan.left_form == Left::InPlace && along;
        Ok(plan)
    }

    /// The sums as one, where both operands walk through them that way.
    fn join_sums(&mut self, solver: &Solver) {
        let (left, right) = (&self.left, &self.right);
        let count = left.sum.len();
        let joined = (1..count)
            .all(|i| left.joins(solver, left.sum[i - 1], left.sum[i]) && right.joins(solver, right.sum[i - 1], right.sum[i]));
        let size = Dim::product(self.sums.iter().cloned());
        let last = |side: &Operand| side.sum.last().map_or(Dim::constant(0), |&d| side.stride(d));
        self.k = Axis { size: size.clone(), left: last(left), right: last(right) };
        if joined && count > 0 {
            self.sums = vec![size];
        }
    }

    /// The free dimensions of a side, from the last: the run that is walked as one, its axis, and the others, which units are spread over.
    fn walk(&self, solver: &Solver, side: &Operand, pairs: &[bool]) -> Option<(Stepped, Vec<Stepped>)> {
        let (&last, earlier) = side.free.split_last()?;
        let axis = side.first + earlier.len();
        // A transposed output is written position by position, so its dimensions stay apart.
        let straight = self.orders.iter().all(|o| o.windows(2).all(|w| w[0] < w[1]));
        let (mut size, mut merging, mut others) = (side.dims[last].clone(), straight, Vec::new());
        for (i, &dim) in earlier.iter().enumerate().rev() {
            let here = side.first + i;
            merging &= pairs.get(here).copied().unwrap_or(false) && side.joins(solver, dim, side.free[i + 1]);
            if merging {
                size = &size * &side.dims[dim];
            } else {
                others.push(Stepped { size: side.dims[dim].clone(), stride: side.stride(dim), axis: here });
            }
        }
        Some((Stepped { size, stride: side.stride(last), axis }, others))
    }

    fn walk_rows(&mut self, solver: &Solver, pairs: &[bool]) {
        let Some((rows, others)) = self.walk(solver, &self.left, pairs) else { return };
        self.m = Axis { size: rows.size, left: rows.stride, right: Dim::constant(0) };
        self.m_axis = Some(rows.axis);
        for Stepped { size, stride: left, axis } in others {
            self.outer.push(Outer { run: Merged { size, axis }, left, right: Dim::constant(0) });
        }
    }

    fn walk_columns(&mut self, solver: &Solver, pairs: &[bool]) {
        let Some((columns, others)) = self.walk(solver, &self.right, pairs) else { return };
        self.n = Axis { size: columns.size, left: Dim::constant(0), right: columns.stride };
        self.n_axis = Some(columns.axis);
        for Stepped { size, stride: right, axis } in others {
            self.outer.push(Outer { run: Merged { size, axis }, left: Dim::constant(0), right });
        }
    }

    fn read_panels(&mut self, group: &Function, solver: &Solver, target: &Target, columns: &Dim) -> Result<(), String> {
        self.steps = Int4::of(group, self.right.value);
        let sized = match self.right.dims.get(3) {
            Some(size) if let Some(steps) = &self.steps => size.is_const(steps.group_rows()),
            Some(size) => {
                self.word = DotWord::of(target, group.ty(self.right.value).dtype(), self.compute);
                self.word.is_some_and(|word| size.is_const(word.count()))
            }
            None => true,
        };
        let fits = sized
            && (self.right.memory.is_some() || self.steps.is_some())
            && solver.equal(&self.right.dims[2], &Dim::constant(i64::from(self.tile.columns)));
        if !fits || self.sums.len() > 1 {
            return Err("the panels are of another target".into());
        }
        self.right_form = if self.steps.is_some() { Right::Int4 } else { Right::Panels };
        self.n = Axis { size: columns.clone(), left: Dim::constant(0), right: Dim::constant(1) };
        self.n_axis = Some(self.rank - 1);
        Ok(())
    }

    fn choose_right(&mut self, group: &Function) -> Result<(), String> {
        let along = |side: &Operand| self.sums.len() == 1 && side.sum.last().is_some_and(|&d| side.is_contiguous(d));
        let few = self.n.size.as_const().is_some_and(|columns| columns <= FEW_COLUMNS);
        let dots = along(&self.left) && along(&self.right) && is_plain(group, self);
        let last = self.right.free.last();
        self.right_form = match () {
            _ if dots && few => Right::Dots,
            _ if last.is_none() => return Err("the product has no columns, and is not summed along memory".into()),
            _ if self.sums.len() <= 1 && last.is_some_and(|&d| self.right.is_contiguous(d)) => Right::Rows,
            _ if along(&self.right) => Right::Columns,
            _ => Right::Computed,
        };
        Ok(())
    }

    fn choose_left(&mut self, group: &Function, solver: &Solver, plain: bool) {
        let stored = self.left.memory.as_ref().map(|memory| group.ty(memory.input).dtype());
        // Converting each element for each panel anew would cost as much as the products.
        let converts = match self.word {
            Some(word) => !self.has_words_in_place(group, solver, word),
            None if stored.is_some_and(|dtype| dtype != self.compute) => true,
            // Groups of steps are read as a whole: rows must not end before.
            None => !solver.divisible(&self.k.size, self.row_unit()),
        };
        let is_panelled = self.right_form != Right::Dots;
        let collides = is_panelled && self.rows_collide();
        if collides && !converts && plain && stored.is_some() && self.sums.len() <= 1 && self.fewer_rows_pay() {
            self.tile.rows = self.held_rows();
            return;
        }
        // Panels of weights leave a unit time to pack rows, and long rows are faster from there.
        let can_stage = plain && self.k.left.is_const(1) && !matches!(self.right_form, Right::Panels | Right::Int4);
        let packs = (converts && is_panelled) || (collides && !can_stage);
        if stored.is_none() || self.sums.len() > 1 || packs {
            self.pack_left();
        } else {
            self.staged = collides;
        }
    }

    /// The left operand is read from rows in task memory.
    pub(in crate::schedule) fn pack_left(&mut self) {
        self.left_form = Left::Packed;
        // A row may end in zeros.
        self.m.left = self.row_stride(&(&self.k.size + (self.row_unit() - 1)));
        self.k.left = Dim::constant(1);
    }

    /// Where the operands start for a batch position.
    pub(in crate::schedule) fn bases(&self, kb: &mut KernelBuilder, at: &[Index]) -> [Value; 2] {
        let mut bases = [kb.int(0), kb.int(0)];
        for outer in &self.outer {
            let here = at[outer.run.axis].as_uniform().expect("a batch position is a scalar");
            for (base, stride) in bases.iter_mut().zip([&outer.left, &outer.right]) {
                let stride = kb.dim(stride);
                let step = kb.mul(here, stride);
                *base = kb.add(*base, step);
            }
        }
        bases
    }
}

/// The operands of a product: rows first. A matrix that is multiplied by a vector on its right gives columns where its rows are contiguous.
fn operands(group: &Function, solver: &Solver, dot: Inst) -> Result<[Operand; 2], String> {
    let [left, right] = group.operands(dot)[..] else { return Err("a product has two operands".into()) };
    let inputs = group.parameters();
    let names = [("lhs_batching_dims", "lhs_contracting_dims"), ("rhs_batching_dims", "rhs_contracting_dims")];
    let [mut left, mut right] = [(left, names[0]), (right, names[1])].map(|(value, (batch, sum))| {
        let mut operand = Operand::of(group, solver, inputs, value);
        (operand.batch, operand.sum) = (group.axes(dot, batch), group.axes(dot, sum));
        operand.free = (0..operand.dims.len()).filter(|d| !operand.batch.contains(d) && !operand.sum.contains(d)).collect();
        operand
    });
    drop_ones(solver, &mut left, &mut right);
    left.first = left.batch.len();
    right.first = left.first + left.free.len();
    let swap = right.free.is_empty() && left.free.last().is_some_and(|&d| left.is_contiguous(d));
    Ok(if swap { [right, left] } else { [left, right] })
}

/// Leaves sums over one element out: an operand has no stride along such a dimension, and the others can be one without it.
fn drop_ones(solver: &Solver, left: &mut Operand, right: &mut Operand) {
    let one = Dim::constant(1);
    let kept: Vec<usize> = (0..left.sum.len()).filter(|&i| !solver.equal(&left.dims[left.sum[i]], &one)).collect();
    if !kept.is_empty() {
        for side in [left, right] {
            side.sum = kept.iter().map(|&i| side.sum[i]).collect();
        }
    }
}

/// The inputs of a group that outputs are computed from, in order.
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

/// Whether both operands hold what is computed with: vectors along the sums need no conversion but that of a whole vector.
fn is_plain(group: &Function, plan: &MatmulPlan) -> bool {
    let memory = |side: &Operand| side.memory.as_ref().map(|memory| group.ty(memory.input).dtype());
    memory(&plan.left).zip(memory(&plan.right)).is_some_and(|(a, b)| a != DType::I1 && b != DType::I1)
}
