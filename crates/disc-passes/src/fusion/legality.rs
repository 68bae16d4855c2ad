//! Which ops can be in which kind of group.
use disc_ir::{Attr, Dim, Function, Inst, OpKind, Solver, Value, ops::Trait};

/// How fusion treats an op.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Role {
    /// Costs nothing to compute again: copied into every group that uses it.
    Free,
    /// Another view of the same memory, if its operand is in memory: stays outside of groups.
    View,
    /// Computed element by element, for itself.
    Loop,
    /// A reduction over trailing dimensions that the row schedule can do.
    Row,
    /// A product of tensors.
    Contraction,
    /// Has a schedule of its own; never fused.
    Single,
    /// Not computed by a kernel: control flow, weights, the end of the block.
    Outside,
}

pub(super) fn role(function: &Function, solver: &Solver, inst: Inst) -> Role {
    match function.kind_of(inst) {
        OpKind::Constant if is_splat(function, inst) => Role::Free,
        OpKind::BroadcastInDim | OpKind::DimValue | OpKind::GetDimensionSize | OpKind::Iota => Role::Free,
        OpKind::Reshape if only_ones_differ(function, solver, inst) => Role::Free,
        OpKind::Reshape => Role::View,
        OpKind::Reduce if is_row_reduction(function, solver, inst) => Role::Row,
        OpKind::DotGeneral => Role::Contraction,
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
        | OpKind::Fusion => Role::Outside,
        kind if kind.def().has(Trait::Elementwise) => Role::Loop,
        _ => Role::Single,
    }
}

/// Whether a reshape only adds or drops dimensions of size 1.
fn only_ones_differ(function: &Function, solver: &Solver, inst: Inst) -> bool {
    let one = Dim::constant(1);
    let others = |value: Value| shape(function, value).iter().filter(|&d| !solver.equal(d, &one)).cloned().collect::<Vec<_>>();
    same_shape(solver, &others(function.operands(inst)[0]), &others(function.result(inst)))
}

fn is_splat(function: &Function, inst: Inst) -> bool {
    matches!(&function.inst(inst).attrs[0], Some(Attr::Literal(literal)) if literal.splat || literal.stored_len() == 1)
}

/// The sizes of a value.
pub(super) fn shape(function: &Function, value: Value) -> &[Dim] {
    function.ty(value).shaped().map(|t| &t.dims[..]).unwrap_or_default()
}

pub(super) fn same_shape(solver: &Solver, a: &[Dim], b: &[Dim]) -> bool {
    a.len() == b.len() && a.iter().zip(b).all(|(x, y)| solver.equal(x, y))
}

/// The integers of an attribute.
pub(super) fn ints<'f>(function: &'f Function, inst: Inst, name: &str) -> &'f [i64] {
    let position = function.def(inst).attr_position(name);
    match position.and_then(|i| function.inst(inst).attrs[i].as_ref()) {
        Some(Attr::Ints(values)) => values,
        _ => &[],
    }
}

/// One input, over trailing dimensions of which there is at least one, by one commutative and associative op.
fn is_row_reduction(function: &Function, _: &Solver, inst: Inst) -> bool {
    let [input, _] = function.operands(inst) else { return false };
    let rank = shape(function, *input).len() as i64;
    let mut axes = ints(function, inst, "dims").to_vec();
    axes.sort_unstable();
    let trailing = !axes.is_empty() && axes.iter().rev().zip((0..rank).rev()).all(|(&a, d)| a == d);
    let body = function.inst(inst).regions[0];
    let plain = match function.insts(body) {
        [op, _] => matches!(
            function.kind_of(*op),
            OpKind::Add | OpKind::Multiply | OpKind::Maximum | OpKind::Minimum | OpKind::And | OpKind::Or
        ),
        _ => false,
    };
    trailing && plain
}
