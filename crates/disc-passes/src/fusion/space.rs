//! The iteration space of a kernel, and the maps from the dimensions of values to its axes.
//!
//! Reshapes within a group index the same elements in other ways. The space is so fine that every
//! dimension of every value is a product of adjacent axes (`[N, C, L]` and `[N, G, C/G*L]` are
//! walked as `N, G, C/G, L`). A position in any value is then a sum of products, without division.
//!
//! It decides nothing about groups; `form.rs` does.
use crate::analysis::query::Query;
use disc_ir::{
    DType, Dim, Function, Inst, OpKind, Solver, Value,
    dim::{DimView, Term},
    ops::Trait,
};

/// The relation of a dimension to the axes of the space.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum Follows {
    /// It is the product of these adjacent axes; of none, for a size of 1.
    Axes(Vec<usize>),
    /// It is read at other positions: at data-dependent ones, or only in part.
    Other,
}

/// The relation of each dimension of a value.
pub type Map = Vec<Follows>;

/// The reads of one op for a position of its result.
pub struct Reads {
    pub operands: Vec<(Value, Map)>,
    /// The dimensions of the result whose positions the op uses as numbers.
    pub looked_at: Vec<usize>,
}

fn is_one(solver: &Solver, dim: &Dim) -> bool {
    solver.equal(dim, &Dim::constant(1))
}

/// The coarsest space that divides both shapes, which have the same number of elements; sizes of 1
/// are left out.
pub fn refine(solver: &Solver, a: &[Dim], b: &[Dim]) -> Option<Vec<Dim>> {
    let sizes = |dims: &[Dim]| dims.iter().filter(|&d| !is_one(solver, d)).rev().cloned().collect::<Vec<_>>();
    let (mut left, mut right) = (sizes(a), sizes(b));
    let mut found = Vec::new();
    while !left.is_empty() && !right.is_empty() {
        let (x, y) = (left.pop()?, right.pop()?);
        // Of two sizes of 0, one may still be a part of the other.
        let are_empty = x != y && solver.range(&x).hi == Some(0);
        if !are_empty && solver.equal(&x, &y) {
            found.push(x);
        } else if let Some(rest) = quotient(solver, &y, &x) {
            found.push(x);
            right.push(rest);
        } else if let Some(rest) = quotient(solver, &x, &y) {
            found.push(y);
            left.push(rest);
        } else if solver.equal(&x, &y) {
            found.push(x);
        } else {
            return None;
        }
    }
    (left.is_empty() && right.is_empty()).then_some(found)
}

/// `whole / part`, if the division is proved to be exact.
pub(super) fn quotient(solver: &Solver, whole: &Dim, part: &Dim) -> Option<Dim> {
    let rest = match part.as_const() {
        Some(0) => return None,
        Some(by) if solver.divisible(whole, by) => whole.floor_div(part),
        Some(_) => return None,
        None => without_factors(whole, part)?,
    };
    (!is_one(solver, &rest) && solver.equal(&(&rest * part), whole)).then_some(rest)
}

/// The product `whole` without the factors of the product `part`.
fn without_factors(whole: &Dim, part: &Dim) -> Option<Dim> {
    let factors = |dim: &Dim| -> Option<(i64, Vec<Dim>)> {
        let flat = |term: &Term| {
            let powers = term.factors().iter().flat_map(|(f, power)| std::iter::repeat_n(f.clone(), *power as usize));
            (term.coefficient(), powers.collect())
        };
        match dim.view() {
            DimView::Sum([term]) => Some(flat(term)),
            DimView::Const(value) => Some((value, Vec::new())),
            DimView::Invalid(_) => None,
            _ => Some((1, vec![dim.clone()])),
        }
    };
    let ((coefficient, mut rest), (by, removed)) = (factors(whole)?, factors(part)?);
    for factor in removed {
        rest.swap_remove(rest.iter().position(|other| *other == factor)?);
    }
    (by != 0 && coefficient % by == 0).then(|| Dim::product(rest) * (coefficient / by))
}

/// The `axes` of a space, taken in this order, whose product is each dimension of a shape.
pub fn regroup(solver: &Solver, space: &[Dim], axes: &[usize], shape: &[Dim]) -> Option<Vec<Vec<usize>>> {
    // The facts may prove that some of the axes of a dimension cover it (8*a*b <= 8 for positive a
    // and b) but not that each of the others is 1: the sizes as written decide then.
    regroup_by(&|a, b| solver.equal(a, b), space, axes, shape).or_else(|| regroup_by(&|a, b| a == b, space, axes, shape))
}

fn regroup_by(equal: &dyn Fn(&Dim, &Dim) -> bool, space: &[Dim], axes: &[usize], shape: &[Dim]) -> Option<Vec<Vec<usize>>> {
    let one = Dim::constant(1);
    let mut left = axes.iter().copied();
    let mut found = Vec::with_capacity(shape.len());
    for dim in shape {
        let (mut taken, mut size) = (Vec::new(), one.clone());
        while !equal(&size, dim) {
            let axis = left.next()?;
            size = &size * &space[axis];
            taken.push(axis);
        }
        found.push(taken);
    }
    // The remaining axes have size 1.
    left.all(|axis| equal(&space[axis], &one)).then_some(found)
}

/// The map of a value whose elements are those of these axes, in order.
pub fn map_of(solver: &Solver, space: &[Dim], axes: &[usize], shape: &[Dim]) -> Option<Map> {
    regroup(solver, space, axes, shape).map(|shape| map_along(&shape))
}

/// The axes of a map in order; `None` if it does not consist only of axes.
pub fn axes_of(map: &[Follows]) -> Option<Vec<usize>> {
    let mut found = Vec::new();
    for follows in map {
        match follows {
            Follows::Axes(axes) => found.extend(axes),
            Follows::Other => return None,
        }
    }
    Some(found)
}

/// The map of a value to a space whose dimensions are products of these axes.
pub fn map_along(shape: &[Vec<usize>]) -> Map {
    shape.iter().cloned().map(Follows::Axes).collect()
}

/// The reads of an op whose results are read by `map`. A reduction reads kept axes by `map` and
/// reduced ones in full.
pub fn reads(function: &Function, solver: &Solver, space: &[Dim], inst: Inst, map: &[Follows]) -> Reads {
    let operands = function.operands(inst);
    let rank = |value: Value| function.shape(value).len();
    let nowhere = |value: Value| vec![Follows::Other; rank(value)];
    let all_other =
        || Reads { operands: operands.iter().map(|&o| (o, nowhere(o))).collect(), looked_at: (0..map.len()).collect() };
    let one = |operand: Value, map: Map, looked_at: Vec<usize>| Reads { operands: vec![(operand, map)], looked_at };
    match function.kind_of(inst) {
        OpKind::Constant | OpKind::DimValue | OpKind::GetDimensionSize => Reads { operands: Vec::new(), looked_at: Vec::new() },
        OpKind::Iota => Reads { operands: Vec::new(), looked_at: vec![function.int(inst, "dim") as usize] },
        kind if kind.def().has(Trait::Elementwise) => {
            let same = |&o: &Value| (o, if rank(o) == map.len() { map.to_vec() } else { nowhere(o) });
            Reads { operands: operands.iter().map(same).collect(), looked_at: Vec::new() }
        }
        OpKind::Winograd => one(operands[0], map.to_vec(), Vec::new()),
        OpKind::BroadcastInDim => {
            let axes = function.axes(inst, "dims");
            let follow = |(size, axis): (&Dim, usize)| match is_one(solver, size) {
                true => Follows::Axes(Vec::new()),
                false => map[axis].clone(),
            };
            one(operands[0], function.shape(operands[0]).iter().zip(axes).map(follow).collect(), Vec::new())
        }
        OpKind::Reshape if repeat_of(function, solver, inst).is_some() => repeated(function, operands[0], map),
        OpKind::Reshape => match reshaped(solver, space, function.shape(operands[0]), function.shape(function.result(inst)), map)
        {
            Some(inner) => one(operands[0], inner, Vec::new()),
            None => all_other(),
        },
        OpKind::Transpose => {
            let mut inner = nowhere(operands[0]);
            function.axes(inst, "dims").into_iter().zip(map).for_each(|(axis, follows)| inner[axis] = follows.clone());
            one(operands[0], inner, Vec::new())
        }
        OpKind::Slice
        | OpKind::Pad
        | OpKind::Reverse
        | OpKind::Concatenate
        | OpKind::DynamicSlice
        | OpKind::DynamicUpdateSlice => moved(function, solver, inst, map),
        OpKind::Gather => gathered(function, solver, inst, map),
        OpKind::Reduce => {
            let reduced = function.axes(inst, "dims");
            let inputs = &operands[..operands.len() / 2];
            let mut kept = map.iter().cloned();
            let inner: Map = (0..rank(inputs[0]))
                .map(|d| if reduced.contains(&d) { Follows::Other } else { kept.next().unwrap_or(Follows::Other) })
                .collect();
            let inits = operands[inputs.len()..].iter().map(|&o| (o, Map::new()));
            Reads { operands: inputs.iter().map(|&o| (o, inner.clone())).chain(inits).collect(), looked_at: Vec::new() }
        }
        _ => all_other(),
    }
}

/// The map of the operand of a reshape.
fn reshaped(solver: &Solver, space: &[Dim], from: &[Dim], to: &[Dim], map: &[Follows]) -> Option<Map> {
    if let Some(axes) = axes_of(map) {
        return map_of(solver, space, &axes, from);
    }
    // If only sizes of 1 are added or dropped, all other dimensions stay.
    let mut kept = map.iter().zip(to).filter(|(_, size)| !is_one(solver, size));
    let mut found = Map::new();
    for size in from {
        if is_one(solver, size) {
            found.push(Follows::Axes(Vec::new()));
        } else {
            let (follows, _) = kept.next().filter(|(_, other)| solver.equal(other, size))?;
            found.push(follows.clone());
        }
    }
    kept.next().is_none().then_some(found)
}

/// Repetition of single elements along the last dimension: a broadcast along a new last dimension,
/// joined with the one before.
pub struct Repeat {
    /// The repeated value, and its dimensions in the broadcast.
    pub source: Value,
    pub axes: Vec<usize>,
    /// The number of times that each element occurs.
    pub factor: i64,
}

/// From this factor on, a loop over the repetitions is long enough.
pub(super) const MANY_TIMES: i64 = 64;

/// The repetition that a reshape computes by its type: element `i` is element `i / factor` of the
/// source. `None` if a loop over the repetitions is better.
pub fn repeat_of(function: &Function, solver: &Solver, reshape: Inst) -> Option<Repeat> {
    let value = *function.operands(reshape).first()?;
    let broadcast = function.made_by(value, OpKind::BroadcastInDim)?;
    let (from, to) = (function.shape(value), function.shape(function.result(reshape)));
    let [outer @ .., length, factor] = from else { return None };
    let (last, before) = to.split_last()?;
    let factor = factor.as_const().filter(|&factor| factor > 1 && factor < MANY_TIMES)?;
    let same = outer.len() == before.len() && outer.iter().zip(before).all(|(a, b)| solver.equal(a, b));
    let axes = function.axes(broadcast, "dims");
    let is_along = axes.last().is_some_and(|&axis| axis + 2 == from.len());
    (same && is_along && solver.equal(last, &(length * factor))).then(|| Repeat {
        source: function.operands(broadcast)[0],
        axes,
        factor,
    })
}

fn repeated(function: &Function, operand: Value, map: &[Follows]) -> Reads {
    let mut inner = map.to_vec();
    let last = inner.len() - 1;
    inner[last] = Follows::Other;
    inner.push(Follows::Other);
    debug_assert_eq!(inner.len(), function.shape(operand).len(), "a repeat has one dimension more before it is joined");
    Reads { operands: vec![(operand, inner)], looked_at: vec![last] }
}

/// The reads of ops that move data along some dimensions and keep the others.
fn moved(function: &Function, solver: &Solver, inst: Inst, map: &[Follows]) -> Reads {
    let operands = function.operands(inst);
    let result = function.shape(function.result(inst));
    let is = |d: usize, operand: Value| solver.equal(&function.shape(operand)[d], &result[d]);
    let kind = function.kind_of(inst);
    let moves: Vec<usize> = match kind {
        OpKind::Concatenate => vec![function.int(inst, "dim") as usize],
        OpKind::Reverse => function.axes(inst, "dims"),
        // Equal sizes leave no room to move, except for strides and padding that cancel.
        OpKind::Slice => (0..map.len()).filter(|&d| !is(d, operands[0])).collect(),
        OpKind::Pad => {
            let spread = |d: usize| function.ints(inst, "interior").get(d).is_some_and(|&by| by != 0);
            (0..map.len()).filter(|&d| !is(d, operands[0]) || !function.dims(inst, "low")[d].is_const(0) || spread(d)).collect()
        }
        OpKind::DynamicSlice => (0..map.len()).filter(|&d| !is(d, operands[0])).collect(),
        _ => (0..map.len()).filter(|&d| !is(d, operands[1])).collect(),
    };
    let tensors = match kind {
        OpKind::Concatenate => operands.len(),
        OpKind::DynamicUpdateSlice => 2,
        _ => 1,
    };
    let inner = |position: usize| -> Map {
        // The updated operand stays in place.
        let stays = kind == OpKind::DynamicUpdateSlice && position == 0;
        (0..map.len()).map(|d| if moves.contains(&d) && !stays { Follows::Other } else { map[d].clone() }).collect()
    };
    let scalars = operands[tensors..].iter().map(|&o| (o, Map::new()));
    Reads { operands: (0..tensors).map(|i| (operands[i], inner(i))).chain(scalars).collect(), looked_at: moves }
}

fn gathered(function: &Function, solver: &Solver, inst: Inst, map: &[Follows]) -> Reads {
    let &[operand, indices] = function.operands(inst) else { return Reads { operands: Vec::new(), looked_at: Vec::new() } };
    let offset = function.axes(inst, "offset_dims");
    let batching = function.axes(inst, "operand_batching_dims");
    let indices_batching = function.axes(inst, "start_indices_batching_dims");
    let collapsed = function.axes(inst, "collapsed_slice_dims");
    let indexed = function.axes(inst, "start_index_map");
    let vector = function.int(inst, "index_vector_dim") as usize;
    let batch: Map = (0..map.len()).filter(|d| !offset.contains(d)).map(|d| map[d].clone()).collect();
    let mut places = batch.clone();
    if vector < function.shape(indices).len() {
        places.insert(vector, Follows::Axes(Vec::new()));
    }
    let mut inner = vec![Follows::Other; function.shape(operand).len()];
    let kept = (0..inner.len()).filter(|d| !collapsed.contains(d) && !batching.contains(d));
    for (axis, &from) in kept.zip(&offset) {
        let whole = solver.equal(&function.shape(operand)[axis], &function.dims(inst, "slice_sizes")[axis]);
        if whole && !indexed.contains(&axis) {
            inner[axis] = map[from].clone();
        }
    }
    for (&axis, &from) in batching.iter().zip(&indices_batching) {
        inner[axis] = batch[if from > vector { from - 1 } else { from }].clone();
    }
    for (part, &axis) in indexed.iter().enumerate().filter(|&(_, axis)| collapsed.contains(axis)) {
        if let Some(position) = counted_place(function, solver, inst, part) {
            inner[axis] = batch[position].clone();
        }
    }
    Reads { operands: vec![(operand, inner), (indices, places)], looked_at: Vec::new() }
}

/// The batch dimension of a gather whose position is entry `part` of its index vectors, if it is an
/// iota over exactly the dimension indexed: the index is in range, and the operand is read at that
/// position.
pub fn counted_place(function: &Function, solver: &Solver, inst: Inst, part: usize) -> Option<usize> {
    let &[operand, indices] = function.operands(inst) else { return None };
    let axis = *function.axes(inst, "start_index_map").get(part)?;
    let vector = function.int(inst, "index_vector_dim") as usize;
    let position = counted(function, indices, vector, part)?;
    let size = &function.shape(function.result(inst))[position_in_result(position, &function.axes(inst, "offset_dims"))];
    let one = function.dims(inst, "slice_sizes")[axis].is_const(1);
    // Narrow iotas wrap.
    let wide = function.ty(indices).dtype().size() >= 4;
    (one && wide && solver.equal(&function.shape(operand)[axis], size)).then_some(position)
}

/// Positions are divided by at most this number: then a few 32-bit ops do for a vector.
const MOST_DIVIDED: i64 = 1 << 30;

/// The dividend and the divisor, if an op is a quotient or remainder of positions along a
/// dimension.
pub fn counted_quotient(function: &Function, inst: Inst) -> Option<(Value, i64)> {
    let is_division = matches!(function.kind_of(inst), OpKind::Divide | OpKind::Remainder);
    let &[positions, by] = function.operands(inst) else { return None };
    let is_long = matches!(function.ty(positions).dtype(), DType::I64 | DType::I32);
    let by = function.splat(by).filter(|_| is_division && is_long)?.i64_at(0);
    let mut at = function.defining(positions)?;
    while matches!(function.kind_of(at), OpKind::BroadcastInDim | OpKind::Reshape) {
        at = function.defining(function.operands(at)[0])?;
    }
    (function.kind_of(at) == OpKind::Iota && (2..=MOST_DIVIDED).contains(&by)).then_some((positions, by))
}

/// The dimension of a gather's result that is its batch dimension `batch`.
fn position_in_result(batch: usize, offset: &[usize]) -> usize {
    (0..).filter(|d| !offset.contains(d)).nth(batch).expect("an endless count")
}

/// The batch dimension that entry `part` of the index vectors counts, if it is a plain iota.
fn counted(function: &Function, indices: Value, vector: usize, part: usize) -> Option<usize> {
    let mut at = indices;
    let inst = function.made_by(at, OpKind::Concatenate)?;
    if function.int(inst, "dim") as usize != vector || vector + 1 != function.shape(indices).len() {
        return None;
    }
    at = *function.operands(inst).get(part)?;
    // Concatenated parts have size 1 each, or their numbers would not be positions.
    if function.operands(inst).iter().any(|&p| !function.shape(p)[vector].is_const(1)) {
        return None;
    }
    if let Some(iota) = function.made_by(at, OpKind::Iota) {
        return Some(function.int(iota, "dim") as usize).filter(|&d| d != vector);
    }
    let reshape = function.made_by(at, OpKind::Reshape)?;
    let counted = function.operands(reshape)[0];
    let iota = function.made_by(counted, OpKind::Iota)?;
    let same = function.shape(counted) == &function.shape(at)[..vector];
    same.then(|| function.int(iota, "dim") as usize)
}
