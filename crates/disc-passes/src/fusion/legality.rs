//! Assigns each op its role in fusion.
use super::space::{MANY_TIMES, counted_quotient, repeat_of};
use crate::analysis::query::Query;
use disc_ir::{Attr, Block, Dim, Function, Inst, OpKind, Solver, Value, ops::Trait};
use std::collections::HashMap;

/// The way in which fusion treats an op.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Role {
    /// Free to recompute: copied into every group that uses it.
    Free,
    /// A view of memory: outside of groups, unless its operand is computed in one.
    View,
    /// Computed element by element.
    Pointwise,
    /// A reduction.
    Reduction,
    /// A scan, which fuses with pointwise ops before and after it.
    Scan,
    /// A matmul.
    Matmul,
    /// A sliding window: a convolution in groups, or pooling.
    Window,
    /// Has a schedule of its own; never fused.
    Standalone,
    /// Computed by no kernel: control flow, weights, the end of the block.
    Outside,
}

/// The roles of the ops of a block.
pub(super) fn roles(function: &Function, solver: &Solver, block: Block) -> HashMap<Inst, Role> {
    let insts = function.insts(block);
    let mut found: HashMap<Inst, Role> = insts.iter().map(|&inst| (inst, role(function, solver, inst))).collect();
    let mut users: HashMap<Value, Vec<Inst>> = HashMap::new();
    for &inst in insts {
        let regions = function.inst(inst).regions.iter().flat_map(|&region| function.walk(region));
        for reader in regions.chain([inst]) {
            function.operands(reader).iter().for_each(|&value| users.entry(value).or_default().push(inst));
        }
    }
    // Users come first: an op that is copied into all its users may pass this on to its operands.
    let in_groups = |found: &HashMap<Inst, Role>, inst: Inst| {
        let users = function.results_of(inst).iter().flat_map(|r| users.get(r).into_iter().flatten());
        users.into_iter().all(|user| matches!(found.get(user), Some(Role::Free | Role::Pointwise | Role::Reduction | Role::Scan)))
    };
    let in_products = |found: &HashMap<Inst, Role>, inst: Inst| {
        let users = function.results_of(inst).iter().flat_map(|r| users.get(r).into_iter().flatten());
        users.into_iter().all(|user| matches!(found.get(user), Some(Role::Free | Role::Matmul)))
    };
    let users_of = |inst: Inst| function.results_of(inst).iter().flat_map(|r| users.get(r).into_iter().flatten()).copied();
    for &inst in insts.iter().rev() {
        let copied = function.kind_of(inst) == OpKind::Slice
            || is_counted(function, &found, inst, MOST_COUNTED).is_some()
            || is_mask_beside(function, &found, inst, &users_of);
        // Matmuls read padded rows of a weight in place.
        let lies = function.is_front(inst) && function.made_by(function.operands(inst)[0], OpKind::Weight).is_some();
        let is_read = copied && in_groups(&found, inst) || lies && in_products(&found, inst);
        let is_repeat = found[&inst] == Role::View
            && in_groups(&found, inst)
            // Windows read an element several times, and read rows in memory far faster than
            // gathered elements.
            && users_of(inst).all(|user| function.kind_of(user) != OpKind::Im2col)
            && (repeats_lines(function, solver, inst)
                || repeat_of(function, solver, inst).is_some()
                    && users_of(inst).all(|user| leaves_neighbours(function, user) && !spreads(function, solver, user)));
        if is_read && found[&inst] == Role::Pointwise || is_repeat {
            found.insert(inst, Role::Free);
        }
    }
    // A value that only a scatter reads is computed where it is applied.
    for &inst in insts.iter().rev() {
        let users = function.results_of(inst).iter().flat_map(|r| users.get(r).into_iter().flatten());
        let users: Vec<Inst> = users.copied().collect();
        if let (Role::Pointwise, [user]) = (found[&inst], &users[..])
            && is_read_by_scatter(function, *user, inst)
        {
            found.insert(inst, Role::Free);
        }
    }
    // A returned value is stored anyway: by its group rather than by a copy.
    for &inst in insts {
        let returned = |user: &Inst| function.kind_of(*user) == OpKind::Return;
        let users = || function.results_of(inst).iter().flat_map(|r| users.get(r).into_iter().flatten());
        let repeats = matches!(function.kind_of(inst), OpKind::Reshape | OpKind::BroadcastInDim);
        if found[&inst] == Role::Free && repeats && users().any(returned) {
            let source = function.operands(inst).first().and_then(|&v| function.defining(v)).and_then(|i| found.get(&i));
            if matches!(source, Some(Role::Pointwise | Role::Reduction)) {
                found.insert(inst, Role::Pointwise);
            }
        }
    }
    found
}

/// Returns true if an op's result is one operand of a scatter that can compute it: gathered rows or
/// a slice as updates, concatenated positions as indices.
fn is_read_by_scatter(function: &Function, scatter: Inst, inst: Inst) -> bool {
    if function.kind_of(scatter) != OpKind::Scatter {
        return false;
    }
    let (value, operands) = (function.result(inst), function.operands(scatter));
    let number = operands.len() / 2;
    let reads: Vec<usize> = (0..operands.len()).filter(|&i| operands[i] == value).collect();
    let [position] = reads[..] else { return false };
    let last = function.shape(value).len();
    let by_rows = function.ints(scatter, "update_window_dims").last().is_some_and(|&d| d as usize + 1 == last);
    match function.kind_of(inst) {
        OpKind::Gather => position > number && by_rows,
        OpKind::Slice => position > number,
        OpKind::Concatenate => position == number,
        _ => false,
    }
}

/// Returns true if an op computes each element from those of its own position, or is no work of a
/// loop.
pub(super) fn leaves_position(function: &Function, solver: &Solver, inst: Inst) -> bool {
    role(function, solver, inst) != Role::Pointwise || function.def(inst).has(Trait::Elementwise)
}

/// Returns true if neighbours along the last dimension of the result are neighbours in the operand.
pub(super) fn leaves_neighbours(function: &Function, inst: Inst) -> bool {
    let rank = |value: Value| function.shape(value).len();
    let steps = |name: &str, step: i64| function.ints(inst, name).last().is_none_or(|&last| last == step);
    match function.kind_of(inst) {
        OpKind::BroadcastInDim => {
            let axes = function.axes(inst, "dims");
            axes.last().is_none_or(|&axis| axis + 1 == rank(function.result(inst)))
        }
        OpKind::Transpose => {
            let axes = function.axes(inst, "dims");
            axes.last().is_none_or(|&axis| axis + 1 == axes.len())
        }
        OpKind::Slice => steps("strides", 1),
        OpKind::Pad => steps("interior", 0),
        OpKind::Reverse => !function.axes(inst, "dims").contains(&(rank(function.result(inst)) - 1)),
        OpKind::Gather => false,
        _ => true,
    }
}

/// Returns true if an op broadcasts along dimensions other than its sizes of 1.
fn spreads(function: &Function, solver: &Solver, inst: Inst) -> bool {
    let count = |value: Value| Dim::product(function.shape(value).iter().cloned());
    let is_more = || !solver.equal(&count(function.operands(inst)[0]), &count(function.result(inst)));
    function.kind_of(inst) == OpKind::BroadcastInDim && is_more()
}

/// Returns true if a reshape is a view of repeated lines along the last dimension, which are never
/// stored. Joined lines would be walked in short steps; so would repeated single elements, except
/// for [`repeat_of`] and for repeats long enough to be lines.
fn repeats_lines(function: &Function, solver: &Solver, reshape: Inst) -> bool {
    let value = function.operands(reshape)[0];
    let Some(repeat) = function.made_by(value, OpKind::BroadcastInDim) else { return false };
    let source = function.operands(repeat)[0];
    let rank = function.shape(value).len();
    let last = |value: Value| function.shape(value).last();
    let are_equal = |a: Value, b: Value| last(a).zip(last(b)).is_some_and(|(x, y)| solver.equal(x, y));
    let axes = function.axes(repeat, "dims");
    if are_many_times(function, solver, reshape, &axes) {
        return true;
    }
    let is_along = axes.last().is_some_and(|&axis| axis + 1 == rank);
    is_along && are_equal(source, value) && are_equal(value, function.result(reshape))
}

/// Returns true if a reshape joins the last two dimensions of a broadcast along a long last
/// dimension.
fn are_many_times(function: &Function, solver: &Solver, reshape: Inst, axes: &[usize]) -> bool {
    let (from, to) = (function.shape(function.operands(reshape)[0]), function.shape(function.result(reshape)));
    let [outer @ .., length, factor] = from else { return false };
    let is_long = factor.as_const().is_some_and(|factor| factor >= MANY_TIMES);
    let Some((last, before)) = to.split_last().filter(|_| is_long && axes.last().is_some_and(|&axis| axis + 2 == from.len()))
    else {
        return false;
    };
    same_shape(solver, outer, before) && solver.equal(last, &(length * factor))
}

/// Masks and positions computed by more ops than this are stored.
const MOST_COUNTED: usize = 6;

/// The number of cheap ops that compute a value only from iotas and constants; `None` if there are
/// more than `most` or if it reads memory.
fn is_counted(function: &Function, roles: &HashMap<Inst, Role>, inst: Inst, most: usize) -> Option<usize> {
    match function.kind_of(inst) {
        OpKind::Iota | OpKind::DimValue | OpKind::GetDimensionSize => return Some(0),
        OpKind::Constant => return is_splat(function, inst).then_some(0),
        OpKind::Compare | OpKind::Select | OpKind::Add | OpKind::Subtract | OpKind::And | OpKind::Or | OpKind::Not => {}
        OpKind::Convert | OpKind::Multiply | OpKind::Maximum | OpKind::Minimum | OpKind::Negate => {}
        OpKind::BroadcastInDim | OpKind::Reshape => {}
        OpKind::Divide | OpKind::Remainder if counted_quotient(function, inst).is_some() => {}
        _ => return None,
    }
    if matches!(roles.get(&inst), Some(Role::View) | None) {
        return None;
    }
    let mut count = usize::from(function.def(inst).has(Trait::Elementwise));
    for &operand in function.operands(inst) {
        let left = most.checked_sub(count)?;
        count += is_counted(function, roles, function.defining(operand)?, left)?;
    }
    (count <= most).then_some(count)
}

/// Returns true if an op compares a tensor in memory with an iota, or converts such a comparison,
/// and is read by reductions and by other ops of which one reads the tensor anyway. Computed twice,
/// it does not make one wait for the other.
fn is_mask_beside<I: Iterator<Item = Inst>>(
    function: &Function,
    roles: &HashMap<Inst, Role>,
    inst: Inst,
    users: &impl Fn(Inst) -> I,
) -> bool {
    let compare = match function.kind_of(inst) {
        OpKind::Compare => Some(inst),
        OpKind::Convert => function.made_by(function.operands(inst)[0], OpKind::Compare),
        _ => None,
    };
    let Some([tensor, other]) = compare.map(|compare| [function.operands(compare)[0], function.operands(compare)[1]]) else {
        return false;
    };
    let in_memory = function.defining(tensor).is_none_or(|maker| roles.get(&maker) == Some(&Role::Outside));
    let is_constant = function.defining(other).is_some_and(|maker| is_counted(function, roles, maker, MOST_COUNTED).is_some());
    let is_conversion = |&user: &Inst| function.kind_of(user) == OpKind::Convert;
    let direct: Vec<Inst> = compare.into_iter().flat_map(users).collect();
    let all: Vec<Inst> = direct.iter().copied().chain(direct.iter().copied().filter(is_conversion).flat_map(users)).collect();
    let is_reduced = all.iter().any(|&user| function.kind_of(user) == OpKind::Reduce);
    in_memory && is_constant && is_reduced && direct.iter().any(|&user| function.operands(user).contains(&tensor))
}

/// Returns true if an op converts the im2col form of a convolution's input to a wider type.
fn widens_windows(function: &Function, inst: Inst) -> bool {
    let operand = function.operands(inst)[0];
    let dtype = |value| function.ty(value).dtype();
    function.made_by(operand, OpKind::Im2col).is_some() && dtype(function.result(inst)).holds(dtype(operand))
}

/// The role of an op by itself.
pub(super) fn role(function: &Function, solver: &Solver, inst: Inst) -> Role {
    match function.kind_of(inst) {
        OpKind::Constant if is_splat(function, inst) => Role::Free,
        OpKind::BroadcastInDim | OpKind::DimValue | OpKind::GetDimensionSize | OpKind::Iota => Role::Free,
        // Computed where a matmul packs it: stored, each element would occur once per window that
        // covers it.
        OpKind::Im2col => Role::Free,
        OpKind::Convert if widens_windows(function, inst) => Role::Free,
        // Computed where a matmul reads it: stored, it would be several times as large.
        OpKind::UnpackInt4 => Role::Free,
        OpKind::Reshape if only_ones_differ(function, solver, inst) => Role::Free,
        OpKind::Reshape => Role::View,
        OpKind::Reduce => Role::Reduction,
        OpKind::Cumulative => Role::Scan,
        OpKind::DotGeneral => Role::Matmul,
        OpKind::Convolution | OpKind::ReduceWindow if function.results_of(inst).len() == 1 => Role::Window,
        // Another name of its first operand.
        OpKind::Winograd => Role::Pointwise,
        OpKind::Concatenate
        | OpKind::DynamicSlice
        | OpKind::DynamicUpdateSlice
        | OpKind::Gather
        | OpKind::Pad
        | OpKind::Reverse
        | OpKind::Slice
        | OpKind::Transpose => Role::Pointwise,
        OpKind::Constant
        | OpKind::Weight
        | OpKind::Return
        | OpKind::If
        | OpKind::While
        | OpKind::Call
        | OpKind::Assert
        | OpKind::BindDim
        | OpKind::Fusion => Role::Outside,
        kind if kind.def().has(Trait::Elementwise) => Role::Pointwise,
        _ => Role::Standalone,
    }
}

/// Returns true if an op costs more than loading its operand again.
pub fn costly(kind: OpKind) -> bool {
    use OpKind::*;
    if matches!(kind, Divide | Remainder | Sqrt) {
        return true;
    }
    let cheap = matches!(
        kind,
        Abs | Add
            | And
            | BitcastConvert
            | Ceil
            | Clamp
            | Compare
            | Convert
            | Floor
            | IsFinite
            | IsInf
            | IsNan
            | Maximum
            | Minimum
            | Multiply
            | Negate
            | Not
            | Or
            | RoundNearestAfz
            | RoundNearestEven
            | Select
            | ShiftLeft
            | ShiftRightArithmetic
            | ShiftRightLogical
            | Sign
            | Subtract
            | Xor
    );
    kind.def().has(Trait::Elementwise) && !cheap
}

/// Returns true if a reshape only adds or drops dimensions of size 1.
pub(super) fn only_ones_differ(function: &Function, solver: &Solver, inst: Inst) -> bool {
    let one = Dim::constant(1);
    let others = |value: Value| function.shape(value).iter().filter(|&d| !solver.equal(d, &one)).cloned().collect::<Vec<_>>();
    same_shape(solver, &others(function.operands(inst)[0]), &others(function.result(inst)))
}

fn is_splat(function: &Function, inst: Inst) -> bool {
    matches!(&function.inst(inst).attrs[0], Some(Attr::Literal(literal)) if literal.splat || literal.stored_len() == 1)
}

pub(super) fn same_shape(solver: &Solver, a: &[Dim], b: &[Dim]) -> bool {
    a.len() == b.len() && a.iter().zip(b).all(|(x, y)| solver.equal(x, y))
}
