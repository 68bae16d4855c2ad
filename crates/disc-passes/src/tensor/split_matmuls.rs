//! Splits matmuls whose columns are used in parts, if another matmul or elementwise ops use a part.
//!
//! Queries, keys and values of attention are often columns of one matmul. As separate results they
//! have the layout that the next matmuls read, where slices would have to be copied; matmuls of the
//! same rows become one launch again later. Two gates are split likewise: their elementwise product
//! overwrites the second part. Gates with matrices too large for a cache stay: a row takes longer
//! in parts. Rows of weights on the left, which are the features of convolutions, are split like
//! columns.
//!
//! Invariants: each column is computed once, and every sum adds the same products in the same
//! order. Parts fill vectors of columns.
use crate::{
    analysis::{call_invariant::CallInvariant, cost_model::CostModel, query::Query},
    pass::{PassCx, PassDef},
    rules::{
        dead_ops,
        rewrite::{Rewriter, visit},
    },
    tensor::lower_convolutions::winograd,
};
use disc_ir::{Diagnostic, Dim, Function, FunctionKind, Inst, Module, OpKind, Solver, Type, Value, ops::Stage, ops::Trait};
use std::{
    collections::{HashMap, HashSet},
    sync::Arc,
};

/// Splits matmuls whose columns are used in parts.
pub static PASS: PassDef = PassDef {
    name: "split-matmuls",
    doc: "Splits matmuls with weights whose columns (or features of a convolution) are used in parts, if another matmul or a \
          gate uses a part: slices move in front of elementwise ops, reshapes and transposes, and to the weights.",
    stages: (Stage::Tensor, Stage::Tensor),
    run,
};

/// The columns of a part: at least so many and a multiple of a vector, or enough that the remainder
/// in the last vector does not matter.
const FEWEST: i64 = 32;
const MANY: i64 = 96;
/// From this number of input features on, two Winograd convolutions take as long as one.
const TRANSFORMED: i64 = 64;

fn run(module: &mut Module, cx: &mut PassCx) -> Result<usize, Diagnostic> {
    let mut split = 0;
    for function in module.functions.iter_mut().filter(|f| f.kind == FunctionKind::Func) {
        let (fixed, solver) = (CallInvariant::of(function), Arc::new(Solver::new(&function.facts)));
        let analysis = Analysis::of(function, &fixed, &solver);
        let slices: HashMap<Inst, usize> = analysis.slices(cx);
        split += visit(function, &solver, &mut |rw, inst| {
            let part = slices.get(&inst).and_then(|&axis| {
                let range = range(rw.f, inst, axis)?;
                let whole = rw.f.operands(inst)[0];
                part(rw, &fixed, whole, axis, range)
            });
            rw.take_error().map(|()| part)
        })?;
        dead_ops::remove_dead(function);
    }
    Ok(split)
}

/// The start and the end of a slice along a dimension.
fn range(function: &Function, slice: Inst, axis: usize) -> Option<[i64; 2]> {
    let bound = |name: &str| function.dims(slice, name)[axis].as_const();
    Some([bound("start")?, bound("limit")?])
}

struct Analysis<'f> {
    function: &'f Function,
    fixed: &'f CallInvariant,
    solver: &'f Solver,
    users: HashMap<Value, Vec<Inst>>,
}

impl<'f> Analysis<'f> {
    fn of(function: &'f Function, fixed: &'f CallInvariant, solver: &'f Solver) -> Self {
        let mut users: HashMap<Value, Vec<Inst>> = HashMap::new();
        for inst in function.walk(function.body) {
            function.operands(inst).iter().for_each(|&value| users.entry(value).or_default().push(inst));
        }
        Self { function, fixed, solver, users }
    }

    /// The slices of columns of matmuls, and the dimension of each.
    fn slices(&self, cx: &mut PassCx) -> HashMap<Inst, usize> {
        let model = cx.options.model.clone();
        let mut found = HashMap::new();
        let mut seen = HashSet::new();
        for &inst in self.function.insts(self.function.body) {
            if self.function.kind_of(inst) != OpKind::Slice || !seen.insert(self.function.operands(inst)[0]) {
                continue;
            }
            let whole = self.function.operands(inst)[0];
            if let Some(axis) = self.axis_of_parts(whole, &*model).filter(|_| cx.spend()) {
                found.extend(self.users[&whole].iter().map(|&slice| (slice, axis)));
            }
        }
        found
    }

    /// The dimension along which a value is cut into parts that can be matmuls of their own.
    fn axis_of_parts(&self, whole: Value, model: &dyn CostModel) -> Option<usize> {
        let slices = &self.users[&whole];
        let in_body = |inst: &Inst| self.function.insts(self.function.body).contains(inst);
        if slices.len() < 2 || !slices.iter().all(|&inst| self.function.kind_of(inst) == OpKind::Slice && in_body(&inst)) {
            return None;
        }
        let axis = self.axis_of(slices[0])?;
        if !slices.iter().all(|&slice| self.axis_of(slice) == Some(axis)) {
            return None;
        }
        let mut ranges = slices.iter().map(|&slice| range(self.function, slice, axis)).collect::<Option<Vec<_>>>()?;
        ranges.sort_unstable();
        let (columns, elements) = self.columns(whole, axis, slices.len())?;
        let fills = |&[from, to]: &[i64; 2]| {
            let width = (to - from) * columns;
            width >= MANY || width >= FEWEST && width % model.vector_columns() == 0
        };
        let suit = ranges.windows(2).all(|pair| pair[0][1] <= pair[1][0]) && ranges.iter().all(fills);
        let are_gates = slices.len() == 2 && elements.is_some_and(|elements| elements <= model.cached_elements());
        (suit && (are_gates || slices.iter().any(|&slice| self.is_read_by_product(slice)))).then_some(axis)
    }

    /// The one dimension along which a slice takes a contiguous part.
    fn axis_of(&self, slice: Inst) -> Option<usize> {
        let shape = self.function.shape(self.function.operands(slice)[0]);
        let (start, limit) = (self.function.dims(slice, "start"), self.function.dims(slice, "limit"));
        let is_cut = |&axis: &usize| !(start[axis].is_const(0) && self.solver.equal(&limit[axis], &shape[axis]));
        let cut: Vec<usize> = (0..shape.len()).filter(is_cut).collect();
        let [axis] = cut[..] else { return None };
        self.function.ints(slice, "strides").iter().all(|&stride| stride == 1).then_some(axis)
    }

    /// Returns true if a matmul reads a slice, in any order of dimensions.
    fn is_read_by_product(&self, inst: Inst) -> bool {
        let users = self.users.get(&self.function.result(inst)).into_iter().flatten();
        users.into_iter().any(|&user| match self.function.kind_of(user) {
            OpKind::DotGeneral => true,
            OpKind::Reshape | OpKind::Transpose => self.is_read_by_product(user),
            _ => false,
        })
    }

    /// The number of columns of a weight matmul per element of a dimension, and the number of
    /// elements of the weights; `None` if other ops need the matmul or there is none.
    fn columns(&self, value: Value, axis: usize, readers: usize) -> Option<(i64, Option<i64>)> {
        if self.users.get(&value).is_none_or(|users| users.len() != readers) {
            return None;
        }
        let inst = self.function.defining(value)?;
        let operands = self.function.operands(inst);
        match self.function.kind_of(inst) {
            OpKind::Transpose => self.columns(operands[0], self.function.axes(inst, "dims")[axis], 1),
            OpKind::Reshape => {
                let (from, each) = joined(self.function, self.solver, inst, axis)?;
                let (columns, elements) = self.columns(operands[0], from, 1)?;
                Some((columns * each, elements))
            }
            OpKind::Winograd => {
                // Each part transforms the input again, which only pays with many features.
                let channels = self.function.shape(operands[2])[2].as_const()?;
                (channels >= TRANSFORMED).then(|| self.columns(operands[0], axis, 1))?
            }
            OpKind::DotGeneral if rows_of_weights(self.function, self.fixed, inst) == Some(axis) => {
                // Batch dimensions come first and repeat the matrix.
                Some((1, Dim::product(self.function.shape(operands[0])[axis..].iter().cloned()).as_const()))
            }
            OpKind::DotGeneral => {
                let elements = Dim::product(self.function.shape(operands[1]).iter().cloned()).as_const();
                let is_last = axis + 1 == self.function.shape(value).len();
                (is_last && self.is_of_weights(inst)).then_some((1, elements))
            }
            _ if is_stepwise(self.function, inst) => {
                let mut products = operands.iter().filter(|&&operand| !is_repeated(self.function, self.fixed, operand));
                let product = products.next().filter(|_| products.next().is_none())?;
                self.columns(*product, axis, 1)
            }
            _ => None,
        }
    }

    /// Returns true if the right operand of a matmul is a weight in model order, or a part of one.
    fn is_of_weights(&self, product: Inst) -> bool {
        let [_, mut matrix] = self.function.operands(product)[..] else { return false };
        let moved = |matrix| {
            let kinds = [OpKind::Transpose, OpKind::Slice];
            self.function.defining(matrix).filter(|&inst| kinds.contains(&self.function.kind_of(inst)))
        };
        while let Some(inst) = moved(matrix) {
            matrix = self.function.operands(inst)[0];
        }
        let sums = self.function.ints(product, "rhs_contracting_dims").len();
        self.function.made_by(matrix, OpKind::Weight).is_some()
            && self.function.shape(matrix).len() == 2
            && self.function.ints(product, "rhs_batching_dims").is_empty()
            && self.function.attr(product, "packed_columns").is_none()
            && sums == 1
    }
}

/// The dimension of a matmul's result that comes from rows of weights on its left, such as the
/// features of a convolution.
fn rows_of_weights(function: &Function, fixed: &CallInvariant, product: Inst) -> Option<usize> {
    let [left, right] = function.operands(product)[..] else { return None };
    let (batch, sums) = (function.axes(product, "lhs_batching_dims"), function.axes(product, "lhs_contracting_dims"));
    // Batch dimensions come first, then rows.
    let is_plain = batch.iter().copied().eq(0..batch.len()) && function.shape(left).len() == batch.len() + sums.len() + 1;
    (is_plain && is_repeated(function, fixed, left) && !fixed.contains(right)).then_some(batch.len())
}

/// Returns true if an op is elementwise with one result and cannot fail.
fn is_stepwise(function: &Function, inst: Inst) -> bool {
    let (def, data) = (function.def(inst), function.inst(inst));
    def.has(Trait::Elementwise) && !def.has(Trait::MayFail) && data.regions.is_empty() && data.results.len() == 1
}

/// Returns true if a value is computed from weights alone or broadcasts such a value.
fn is_repeated(function: &Function, fixed: &CallInvariant, value: Value) -> bool {
    let source = function.made_by(value, OpKind::BroadcastInDim).map_or(value, |inst| function.operands(inst)[0]);
    fixed.contains(source) || function.splat(value).is_some()
}

/// The dimension of a reshape's operand whose outermost part is dimension `axis` of the result, and
/// the number of operand elements per element.
fn joined(function: &Function, solver: &Solver, reshape: Inst, axis: usize) -> Option<(usize, i64)> {
    let (from, to) = (function.shape(function.operands(reshape)[0]), function.shape(function.result(reshape)));
    let count = |dims: &[Dim]| Dim::product(dims.iter().cloned());
    let outer = count(&to[..axis]);
    let size = to[axis].as_const()?;
    let place = (0..from.len()).find(|&place| {
        let is_whole = from[place].as_const().is_some_and(|whole| whole > 1 && whole % size == 0);
        is_whole && solver.equal(&count(&from[..place]), &outer)
    })?;
    let each = from[place].as_const()? / size;
    // One element covers the dimensions that follow.
    let inner = (axis + 1..=to.len()).any(|end| solver.equal(&count(&to[axis + 1..end]), &Dim::constant(each)));
    inner.then_some((place, each))
}

/// Computes a part of a value along a dimension from parts of its operands.
fn part(rw: &mut Rewriter<'_>, fixed: &CallInvariant, value: Value, axis: usize, [from, to]: [i64; 2]) -> Option<Value> {
    let inst = rw.f.defining(value)?;
    let data = rw.f.inst(inst).clone();
    let mut shape = rw.f.shape(value).to_vec();
    shape[axis] = Dim::constant(to - from);
    match data.kind {
        OpKind::Transpose => {
            let order = rw.f.axes(inst, "dims");
            let x = part(rw, fixed, data.operands[0], order[axis], [from, to])?;
            rw.transpose(x, &order)
        }
        OpKind::Reshape => {
            let (place, each) = joined(rw.f, &rw.solver, inst, axis)?;
            let x = part(rw, fixed, data.operands[0], place, [from * each, to * each])?;
            rw.reshape(x, shape)
        }
        OpKind::Winograd => {
            let product = part(rw, fixed, data.operands[0], axis, [from, to])?;
            let kernel = rw.f.operands(rw.f.defining(product)?)[0];
            let kernel = rw.f.made_by(kernel, OpKind::BroadcastInDim).map_or(kernel, |inst| rw.f.operands(inst)[0]);
            let (channels, rows) = (rw.f.shape(data.operands[2])[2].as_const()?, rw.f.shape(data.operands[2])[3].as_const()?);
            let packed = winograd::packed(rw, kernel, [to - from, channels], rows)?;
            rw.build(|b| b.op(OpKind::Winograd).operands(&[product, data.operands[1], packed]).attrs(data.attrs).value())
        }
        OpKind::DotGeneral if rows_of_weights(rw.f, fixed, inst) == Some(axis) => {
            let sums = rw.f.axes(inst, "lhs_contracting_dims");
            let row = (axis..rw.f.shape(data.operands[0]).len()).find(|dim| !sums.contains(dim))?;
            let weights = part_of_repeated(rw, data.operands[0], row, [from, to])?;
            rw.build(|b| b.op(OpKind::DotGeneral).operands(&[weights, data.operands[1]]).attrs(data.attrs).value())
        }
        OpKind::DotGeneral => {
            let sum_axis = rw.f.axes(inst, "rhs_contracting_dims")[0];
            let matrix = slice(rw, data.operands[1], 1 - sum_axis, [from, to])?;
            rw.build(|b| b.op(OpKind::DotGeneral).operands(&[data.operands[0], matrix]).attrs(data.attrs).value())
        }
        _ => {
            let operands = data.operands.iter().map(|&operand| match is_repeated(rw.f, fixed, operand) {
                true => part_of_repeated(rw, operand, axis, [from, to]),
                false => part(rw, fixed, operand, axis, [from, to]),
            });
            let operands: Vec<Value> = operands.collect::<Option<_>>()?;
            let ty = Type::tensor(shape, rw.f.ty(value).dtype());
            rw.build(|b| b.op(data.kind).operands(&operands).attrs(data.attrs).result(ty).value())
        }
    }
}

fn part_of_repeated(rw: &mut Rewriter<'_>, value: Value, axis: usize, range: [i64; 2]) -> Option<Value> {
    let Some(repeat) = rw.f.made_by(value, OpKind::BroadcastInDim) else { return slice(rw, value, axis, range) };
    let (source, axes) = (rw.f.operands(repeat)[0], rw.f.axes(repeat, "dims"));
    let mut shape = rw.f.shape(value).to_vec();
    shape[axis] = Dim::constant(range[1] - range[0]);
    let place = axes.iter().position(|&a| a == axis).filter(|&place| !rw.is_one(&rw.f.shape(source)[place]));
    let source = match place {
        Some(place) => slice(rw, source, place, range)?,
        None => source,
    };
    rw.broadcast(source, &axes, shape)
}

fn slice(rw: &mut Rewriter<'_>, value: Value, axis: usize, [from, to]: [i64; 2]) -> Option<Value> {
    let mut limit = rw.f.shape(value).to_vec();
    let mut start = vec![Dim::constant(0); limit.len()];
    (start[axis], limit[axis]) = (Dim::constant(from), Dim::constant(to));
    rw.build(|b| b.op(OpKind::Slice).operands(&[value]).attr("start", start).attr("limit", limit).value())
}
