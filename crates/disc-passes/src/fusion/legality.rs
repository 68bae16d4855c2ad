//! Which ops can be in which kind of group.
use super::space::{MANY_TIMES, counted_quotient, repeat_of};
use crate::analysis::query::Query;
use disc_ir::{Attr, Block, Dim, Function, Inst, OpKind, Solver, Value, ops::Trait};
use std::collections::HashMap;

/// How fusion treats an op.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Role {
    /// Costs nothing to compute again: copied into every group that uses it.
    Free,
    /// Another view of the same memory, if its operand is in memory: stays outside of groups, unless it lies within one.
    View,
    /// Computed element by element, for itself.
    Loop,
    /// A reduction.
    Row,
    /// Running combinations: takes in what is computed element by element in front of it and behind.
    Scan,
    /// A product of tensors.
    Contraction,
    /// Slides windows: a convolution in groups, or pooling.
    Window,
    /// Has a schedule of its own; never fused.
    Single,
    /// Not computed by a kernel: control flow, weights, the end of the block.
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
    // Users first: what is copied into all users may be copied further.
    let in_groups = |found: &HashMap<Inst, Role>, inst: Inst| {
        let users = function.results_of(inst).iter().flat_map(|r| users.get(r).into_iter().flatten());
        users.into_iter().all(|user| matches!(found.get(user), Some(Role::Free | Role::Loop | Role::Row | Role::Scan)))
    };
    let in_products = |found: &HashMap<Inst, Role>, inst: Inst| {
        let users = function.results_of(inst).iter().flat_map(|r| users.get(r).into_iter().flatten());
        users.into_iter().all(|user| matches!(found.get(user), Some(Role::Free | Role::Contraction)))
    };
    let users_of = |inst: Inst| function.results_of(inst).iter().flat_map(|r| users.get(r).into_iter().flatten()).copied();
    for &inst in insts.iter().rev() {
        let copied = function.kind_of(inst) == OpKind::Slice
            || is_counted(function, &found, inst, MOST_COUNTED).is_some()
            || is_mask_beside(function, &found, inst, &users_of);
        // Rows of a weight that were moved apart are read by products as they lie.
        let lies = function.is_front(inst) && function.made_by(function.operands(inst)[0], OpKind::Weight).is_some();
        let is_read = copied && in_groups(&found, inst) || lies && in_products(&found, inst);
        let is_repeat = found[&inst] == Role::View
            && in_groups(&found, inst)
            // Windows read an element several times, and rows of memory far faster than elements that are found one by one.
            && users_of(inst).all(|user| function.kind_of(user) != OpKind::Patches)
            && (repeats_lines(function, solver, inst)
                || repeat_of(function, solver, inst).is_some()
                    && users_of(inst).all(|user| leaves_neighbours(function, user) && !spreads(function, solver, user)));
        if is_read && found[&inst] == Role::Loop || is_repeat {
            found.insert(inst, Role::Free);
        }
    }
    // What is read for a scatter alone is read where it is applied.
    for &inst in insts.iter().rev() {
        let users = function.results_of(inst).iter().flat_map(|r| users.get(r).into_iter().flatten());
        let users: Vec<Inst> = users.copied().collect();
        if let (Role::Loop, [user]) = (found[&inst], &users[..])
            && is_read_by_scatter(function, *user, inst)
        {
            found.insert(inst, Role::Free);
        }
    }
    // What is returned goes to memory: better by the group that computes it than by a copy.
    for &inst in insts {
        let returned = |user: &Inst| function.kind_of(*user) == OpKind::Return;
        let users = || function.results_of(inst).iter().flat_map(|r| users.get(r).into_iter().flatten());
        let repeats = matches!(function.kind_of(inst), OpKind::Reshape | OpKind::BroadcastInDim);
        if found[&inst] == Role::Free && repeats && users().any(returned) {
            let source = function.operands(inst).first().and_then(|&v| function.defining(v)).and_then(|i| found.get(&i));
            if matches!(source, Some(Role::Loop | Role::Row)) {
                found.insert(inst, Role::Loop);
            }
        }
    }
    found
}

/// Whether an op's result is one operand of a scatter that can be computed there: rows that are gathered or a slice, as updates; places that
/// are put together, as indices.
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

/// Whether an op computes each element from those of its own position, or does no work of a loop.
pub(super) fn leaves_position(function: &Function, solver: &Solver, inst: Inst) -> bool {
    role(function, solver, inst) != Role::Loop || function.def(inst).has(Trait::Elementwise)
}

/// Whether an op reads neighbours along the last dimension for neighbours in its result.
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

/// Whether an op repeats what it reads along other dimensions than those of size 1 that it has.
fn spreads(function: &Function, solver: &Solver, inst: Inst) -> bool {
    let count = |value: Value| Dim::product(function.shape(value).iter().cloned());
    let is_more = || !solver.equal(&count(function.operands(inst)[0]), &count(function.result(inst)));
    function.kind_of(inst) == OpKind::BroadcastInDim && is_more()
}

/// Whether a reshape is a view of repeated lines along the last dimension, which no memory holds. Where lines are joined, what is computed from them
/// would be walked in short steps; so would it where elements are repeated one by one, but for [`repeat_of`] and so many times that they are lines.
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

/// Whether a reshape joins the last two dimensions of a broadcast along the last one, which is long.
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

/// Masks and positions that more ops than this lead to are written to memory.
const MOST_COUNTED: usize = 6;

/// How many cheap ops compute a value from counting and constants alone; `None` if more than `most`, or if it reads memory.
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

/// Whether an op is a comparison of a tensor in memory with what is counted, or numbers converted from one, that reductions count while others need
/// it too, one of which reads the tensor anyway: computed twice, what is counted need not wait for them, nor they for it.
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

/// The role of an op by itself.
pub(super) fn role(function: &Function, solver: &Solver, inst: Inst) -> Role {
    match function.kind_of(inst) {
        OpKind::Constant if is_splat(function, inst) => Role::Free,
        OpKind::BroadcastInDim | OpKind::DimValue | OpKind::GetDimensionSize | OpKind::Iota => Role::Free,
        // Computed where a product packs it: in memory, each element would be there once for each window that covers it.
        OpKind::Patches => Role::Free,
        // Computed where a product reads it: in memory it would be several times as large.
        OpKind::UnpackSteps => Role::Free,
        OpKind::Reshape if only_ones_differ(function, solver, inst) => Role::Free,
        OpKind::Reshape => Role::View,
        OpKind::Reduce => Role::Row,
        OpKind::Cumulative => Role::Scan,
        OpKind::DotGeneral => Role::Contraction,
        OpKind::Convolution | OpKind::ReduceWindow if function.results_of(inst).len() == 1 => Role::Window,
        // Another name of its first operand.
        OpKind::Winograd => Role::Loop,
        OpKind::Concatenate
        | OpKind::DynamicSlice
        | OpKind::DynamicUpdateSlice
        | OpKind::Gather
        | OpKind::Pad
        | OpKind::Reverse
        | OpKind::Slice
        | OpKind::Transpose => Role::Loop,
        OpKind::Constant
        | OpKind::Weight
        | OpKind::Return
        | OpKind::If
        | OpKind::While
        | OpKind::Call
        | OpKind::Assert
        | OpKind::BindDim
        | OpKind::Fusion => Role::Outside,
        kind if kind.def().has(Trait::Elementwise) => Role::Loop,
        _ => Role::Single,
    }
}

/// Whether an op costs more than reading its operand from memory again.
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

/// Whether a reshape only adds or drops dimensions of size 1.
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
