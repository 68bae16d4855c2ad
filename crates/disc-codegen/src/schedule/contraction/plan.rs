//! What the contraction schedule decides about a group, from its shapes and facts.
use crate::{
    build::KernelBuilder,
    element::compute_dtype,
    index::Index,
    schedule::{domain::mergeable, loops::Merged},
    target::Target,
};
use disc_ir::{Attr, DType, Dim, Function, Inst, OpKind, Solver, TensorType, Value, ops::Trait};

/// Rows of a chunk, in blocks of the tile: what A's part should take of the second-level cache.
const CHUNK_BLOCKS: i64 = 8;

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

/// How the right operand is read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Right {
    /// From panels made when the weights were loaded.
    Prepacked,
    /// As it lies: its columns are contiguous.
    InPlace,
    /// From panels that each unit makes in task memory.
    PackedByUnit,
}

/// A dimension of the product and how the operands step along it, in elements.
#[derive(Clone, Debug)]
pub(in crate::schedule) struct Axis {
    pub(in crate::schedule) size: Dim,
    pub(in crate::schedule) left: Dim,
    pub(super) right: Dim,
}

/// A dimension that units are spread over.
#[derive(Clone, Debug)]
pub(in crate::schedule) struct Outer {
    pub(in crate::schedule) run: Merged,
    pub(super) left: Dim,
    pub(super) right: Dim,
}

/// A group's product taken apart.
pub struct ContractionPlan {
    pub(super) dot: Inst,
    pub tile: Tile,
    pub(super) compute: DType,
    pub(super) right: Right,
    /// Which inputs of the group the operands are.
    pub(in crate::schedule) left_input: usize,
    pub(super) right_input: usize,
    pub(super) rank: usize,
    pub(in crate::schedule) m: Axis,
    /// The dimension of the product that carries the row; none for a product without rows.
    pub(in crate::schedule) m_axis: Option<usize>,
    pub(in crate::schedule) n: Axis,
    pub(super) n_axis: usize,
    pub(super) k: Axis,
    pub(in crate::schedule) outer: Vec<Outer>,
    /// For each output: how the product's dimensions are ordered in it.
    pub(super) orders: Vec<Vec<usize>>,
}

/// The dimensions of the operands by their role.
struct Roles {
    left_batch: Vec<usize>,
    right_batch: Vec<usize>,
    left_free: Vec<usize>,
    right_free: Vec<usize>,
    left_sum: Vec<usize>,
    right_sum: Vec<usize>,
}

impl ContractionPlan {
    /// The plan of a group, or why it has none.
    pub fn of(group: &Function, solver: &Solver, target: &Target, inputs: &[Value], outputs: &[Value]) -> Result<Self, String> {
        let insts = group.insts(group.body);
        let mut dots = insts.iter().copied().filter(|&i| group.kind_of(i) == OpKind::DotGeneral);
        let (Some(dot), None) = (dots.next(), dots.next()) else {
            return Err("the group does not hold exactly one product".into());
        };
        let [left, right] = group.operands(dot)[..] else { return Err("a product has two operands".into()) };
        let position = |v: Value| inputs.iter().position(|&i| i == v).ok_or("an operand of the product is computed in the group");
        let (left_input, right_input) = (position(left)?, position(right)?);
        let product = group.result(dot);
        let shape = |v: Value| &group.ty(v).shaped().expect("a tensor").dims;
        let compute = compute_dtype(group.ty(product).dtype());
        if !compute.is_float() {
            return Err("integer products have no micro-kernel yet".into());
        }
        let orders = outputs.iter().map(|&o| epilogue_order(group, solver, product, o)).collect::<Result<Vec<_>, _>>()?;
        let roots: Vec<Value> = outputs.iter().map(|&o| before_transpose(group, o)).collect();
        let merge_ok = mergeable_to(group, solver, &roots, product);

        let roles = Roles::of(group, dot, shape(left).len(), shape(right).len());
        let tile = tile(target, compute);
        let strides = |v: Value, axis: usize| Dim::product(shape(v)[axis + 1..].iter().cloned());
        let k = sum_axis(&roles, shape(left), shape(right)).ok_or("the summed dimensions are not contiguous")?;
        let batches = roles.left_batch.len();
        let mut outer = Vec::new();
        for (i, (&l, &r)) in roles.left_batch.iter().zip(&roles.right_batch).enumerate() {
            let run = Merged { size: shape(left)[l].clone(), axis: i };
            outer.push(Outer { run, left: strides(left, l), right: strides(right, r) });
        }
        let zero = Dim::constant(0);
        let (mut m, mut m_axis) = (Axis { size: Dim::constant(1), left: zero.clone(), right: zero.clone() }, None);
        if let Some((&last, earlier)) = roles.left_free.split_last() {
            let mut axis = batches + earlier.len();
            m = Axis { size: shape(left)[last].clone(), left: strides(left, last), right: zero.clone() };
            m_axis = Some(axis);
            let mut merging = true;
            for (i, &dim) in earlier.iter().enumerate().rev() {
                // A transposed output is written position by position, so its rows stay apart.
                let straight = orders.iter().all(|o| o.windows(2).all(|w| w[0] < w[1]));
                merging &= straight && merge_ok.get(axis - 1).copied().unwrap_or(false) && dim + 1 == roles.left_free[i + 1];
                axis -= 1;
                if merging {
                    m.size = &m.size * &shape(left)[dim];
                } else {
                    let run = Merged { size: shape(left)[dim].clone(), axis };
                    outer.push(Outer { run, left: strides(left, dim), right: zero.clone() });
                }
            }
        }
        let rank = shape(product).len();
        let mut plan = Self {
            dot,
            tile,
            compute,
            right: Right::InPlace,
            left_input,
            right_input,
            rank,
            m,
            m_axis,
            n: Axis { size: Dim::constant(1), left: zero.clone(), right: zero.clone() },
            n_axis: rank.saturating_sub(1),
            k,
            outer,
            orders,
        };
        plan.choose_right(&roles, shape(right), packed_columns(group, dot), solver)?;
        Ok(plan)
    }

    fn choose_right(&mut self, roles: &Roles, shape: &[Dim], packed: Option<&Dim>, solver: &Solver) -> Result<(), String> {
        let columns = Dim::constant(i64::from(self.tile.columns));
        let stride = |axis: usize| Dim::product(shape[axis + 1..].iter().cloned());
        let zero = Dim::constant(0);
        if let Some(packed) = packed {
            if !solver.equal(&shape[2], &columns) {
                return Err("the panels are of another target".into());
            }
            self.right = Right::Prepacked;
            self.n = Axis { size: packed.clone(), left: zero, right: Dim::constant(1) };
            return Ok(());
        }
        match roles.right_free[..] {
            [] => Err("the product has no columns".into()),
            [.., last] => {
                let free = roles.right_free.len();
                for (i, &dim) in roles.right_free[..free - 1].iter().enumerate() {
                    let run = Merged { size: shape[dim].clone(), axis: self.rank - free + i };
                    self.outer.push(Outer { run, left: zero.clone(), right: stride(dim) });
                }
                self.n = Axis { size: shape[last].clone(), left: zero, right: stride(last) };
                self.right = if self.n.right.is_const(1) { Right::InPlace } else { Right::PackedByUnit };
                Ok(())
            }
        }
    }

    /// Task memory for the rows of a tensor that a micro-kernel works on at once.
    pub(in crate::schedule) fn row_block(&self, tensor: &TensorType) -> TensorType {
        let columns = tensor.dims.last().cloned().unwrap_or(Dim::constant(1));
        TensorType::new([Dim::constant(i64::from(self.tile.rows)), columns], compute_dtype(tensor.dtype))
    }

    pub(super) fn panels(&self) -> Dim {
        self.n.size.ceil_div(&Dim::constant(i64::from(self.tile.columns)))
    }

    pub(in crate::schedule) fn chunks(&self) -> Dim {
        // Where a unit packs, it should have rows enough to pay for it.
        let blocks = if self.right == Right::PackedByUnit { 4 * CHUNK_BLOCKS } else { CHUNK_BLOCKS };
        self.m.size.ceil_div(&Dim::constant(blocks * i64::from(self.tile.rows)))
    }

    pub(super) fn units(&self) -> Dim {
        let outer = Dim::product(self.outer.iter().map(|o| o.run.size.clone()));
        let rows = outer * self.chunks();
        match self.right {
            Right::PackedByUnit => rows,
            Right::Prepacked | Right::InPlace => rows * self.panels(),
        }
    }

    pub(in crate::schedule) fn cost(&self) -> Dim {
        let outer = Dim::product(self.outer.iter().map(|o| o.run.size.clone()));
        let flops = outer * &self.m.size * &self.n.size * &self.k.size * 2;
        super::nanoseconds(&flops, &self.tile)
    }

    /// The batch dimensions that units are spread over.
    pub(in crate::schedule) fn outer_runs(&self) -> Vec<Merged> {
        self.outer.iter().map(|o| o.run.clone()).collect()
    }

    /// The first row of a chunk and the end of it: chunks are as even as can be.
    pub(in crate::schedule) fn chunk_rows(&self, kb: &mut KernelBuilder, chunk: Value) -> [Value; 2] {
        if self.m.size.is_const(1) {
            return [kb.int(0), kb.int(1)];
        }
        let (one, rows, chunks) = (kb.int(1), kb.dim(&self.m.size), kb.dim(&self.chunks()));
        let next = kb.add(chunk, one);
        let (low, high) = (kb.mul(chunk, rows), kb.mul(next, rows));
        [kb.div(low, chunks), kb.div(high, chunks)]
    }

    /// How many blocks the rows from `first` to below `last` are cut into.
    pub(super) fn row_blocks(&self, kb: &mut KernelBuilder, [first, last]: [Value; 2]) -> Value {
        let (tallest, up) = (kb.int(i64::from(self.tile.rows)), kb.int(i64::from(self.tile.rows) - 1));
        let count = kb.sub(last, first);
        let padded = kb.add(count, up);
        kb.div(padded, tallest)
    }

    /// Runs `body` for even blocks of rows: with the number of the block, and its first row and how many it has.
    pub(in crate::schedule) fn for_row_blocks(
        &self,
        kb: &mut KernelBuilder,
        [first, last]: [Value; 2],
        body: impl FnOnce(&mut KernelBuilder, Value, [Value; 2]),
    ) {
        let (zero, one) = (kb.int(0), kb.int(1));
        let count = kb.sub(last, first);
        let blocks = self.row_blocks(kb, [first, last]);
        kb.for_([zero, blocks, one], &[first], |kb, block, carried| {
            let next = kb.add(block, one);
            let scaled = kb.mul(next, count);
            let done = kb.div(scaled, blocks);
            let stop = kb.add(first, done);
            let height = kb.sub(stop, carried[0]);
            body(kb, block, [carried[0], height]);
            vec![stop]
        });
    }

    /// Where the operands start for a batch position.
    pub(super) fn bases(&self, kb: &mut KernelBuilder, at: &[Index]) -> [Value; 2] {
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

impl Roles {
    fn of(group: &Function, dot: Inst, left_rank: usize, right_rank: usize) -> Self {
        let axes = |name: &str| {
            let position = OpKind::DotGeneral.def().attr_position(name);
            match position.and_then(|i| group.inst(dot).attrs[i].as_ref()) {
                Some(Attr::Ints(dims)) => dims.iter().map(|&d| d as usize).collect(),
                _ => Vec::new(),
            }
        };
        let (left_batch, right_batch): (Vec<usize>, Vec<usize>) = (axes("lhs_batching_dims"), axes("rhs_batching_dims"));
        let (left_sum, right_sum): (Vec<usize>, Vec<usize>) = (axes("lhs_contracting_dims"), axes("rhs_contracting_dims"));
        let left_free = (0..left_rank).filter(|d| !left_batch.contains(d) && !left_sum.contains(d)).collect();
        let right_free = (0..right_rank).filter(|d| !right_batch.contains(d) && !right_sum.contains(d)).collect();
        Self { left_batch, right_batch, left_free, right_free, left_sum, right_sum }
    }
}

/// The columns of a product whose right operand is panels `[n/NR][k][NR]`.
pub(crate) fn packed_columns(group: &Function, dot: Inst) -> Option<&Dim> {
    let position = OpKind::DotGeneral.def().attr_position("packed_columns")?;
    match &group.inst(dot).attrs[position] {
        Some(Attr::Dim(columns)) => Some(columns),
        _ => None,
    }
}

/// The summed dimensions as one; `None` if an operand does not have them side by side, in one order.
fn sum_axis(roles: &Roles, left: &[Dim], right: &[Dim]) -> Option<Axis> {
    let adjacent = |dims: &[usize]| dims.windows(2).all(|w| w[0] + 1 == w[1]);
    if !adjacent(&roles.left_sum) || !adjacent(&roles.right_sum) {
        return None;
    }
    let size = Dim::product(roles.left_sum.iter().map(|&d| left[d].clone()));
    let stride =
        |shape: &[Dim], dims: &[usize]| dims.last().map_or(Dim::constant(0), |&d| Dim::product(shape[d + 1..].iter().cloned()));
    Some(Axis { size, left: stride(left, &roles.left_sum), right: stride(right, &roles.right_sum) })
}

/// What an output is before a final transpose.
pub(super) fn before_transpose(group: &Function, output: Value) -> Value {
    match group.defining(output) {
        Some(inst) if group.kind_of(inst) == OpKind::Transpose => group.operands(inst)[0],
        _ => output,
    }
}

/// The order of the product's dimensions in an output, if the output is element-wise in the product up to a final transpose.
fn epilogue_order(group: &Function, solver: &Solver, product: Value, output: Value) -> Result<Vec<usize>, String> {
    let dims = |v: Value| &group.ty(v).shaped().expect("a tensor").dims;
    let root = before_transpose(group, output);
    let same = dims(root).len() == dims(product).len() && dims(root).iter().zip(dims(product)).all(|(a, b)| solver.equal(a, b));
    if !same || !depends_elementwise(group, product, root) {
        return Err("an output is not element-wise in the product".into());
    }
    match group.defining(output) {
        Some(inst) if root != output => match &group.inst(inst).attrs[0] {
            Some(Attr::Ints(order)) => Ok(order.iter().map(|&d| d as usize).collect()),
            _ => Err("a transpose has an order".into()),
        },
        _ => Ok((0..dims(product).len()).collect()),
    }
}

/// Whether `value` is computed from the product by element-wise ops only (and from other things that do not depend on it).
fn depends_elementwise(group: &Function, product: Value, value: Value) -> bool {
    if value == product {
        return true;
    }
    let Some(inst) = group.defining(value) else { return true };
    match group.def(inst).has(Trait::Elementwise) {
        true => group.operands(inst).iter().all(|&o| depends_elementwise(group, product, o)),
        false => !depends(group, product, value),
    }
}

fn depends(group: &Function, product: Value, value: Value) -> bool {
    value == product || group.defining(value).is_some_and(|inst| group.operands(inst).iter().any(|&o| depends(group, product, o)))
}

/// Which neighbouring dimensions of the outputs can be merged, not looking behind the product.
fn mergeable_to(group: &Function, solver: &Solver, roots: &[Value], product: Value) -> Vec<bool> {
    let mut cut = group.clone();
    // As an argument, the product is where the walk ends.
    let body = cut.body;
    let end = cut.add_argument(body, group.ty(product).clone());
    cut.replace_uses(&[(product, end)].into_iter().collect());
    let roots: Vec<Value> = roots.iter().map(|&r| if r == product { end } else { r }).collect();
    mergeable(&cut, solver, &roots)
}
