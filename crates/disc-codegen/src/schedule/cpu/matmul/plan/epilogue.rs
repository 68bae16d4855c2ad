//! The epilogue of a product: the element-wise outputs of its group, and the order they are written
//! in.
use crate::schedule::{Group, common::iteration_space::mergeable};
use disc_ir::{Attr, Function, OpKind, Solver, Value, ops::Trait};

/// Gives the value that a final transpose of an output reads, or the output.
pub(in crate::schedule) fn before_transpose(group: &Function, output: Value) -> Value {
    match group.defining(output) {
        Some(inst) if group.kind_of(inst) == OpKind::Transpose => group.operands(inst)[0],
        _ => output,
    }
}

/// Gives the order of the product's dimensions in an output, if the output is element-wise in the
/// product up to a final transpose.
pub(in crate::schedule) fn order(group: &Function, solver: &Solver, product: Value, output: Value) -> Result<Vec<usize>, String> {
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

/// Checks that an output is element-wise in the one compute-intensive result of a group, and in its
/// order.
pub(in crate::schedule) fn check_elementwise(group: &Group<'_>, result: Value, output: Value) -> Result<(), String> {
    let order = order(group.function, &group.solver, result, output)?;
    if order.is_sorted() { Ok(()) } else { Err("an output is transposed".into()) }
}

/// Returns true if `value` is computed from the product by element-wise ops only (and from other
/// values that do not depend on it).
fn depends_elementwise(group: &Function, product: Value, value: Value) -> bool {
    if value == product {
        return true;
    }
    let Some(inst) = group.defining(value) else { return true };
    if group.kind_of(inst) == OpKind::Winograd {
        return depends_elementwise(group, product, group.operands(inst)[0]);
    }
    match group.def(inst).has(Trait::Elementwise) {
        true => group.operands(inst).iter().all(|&o| depends_elementwise(group, product, o)),
        false => !depends(group, product, value),
    }
}

/// Returns true if `value` is the product, or computed from it.
pub(in crate::schedule) fn depends(group: &Function, product: Value, value: Value) -> bool {
    value == product || group.defining(value).is_some_and(|inst| group.operands(inst).iter().any(|&o| depends(group, product, o)))
}

/// For each dimension, says if the outputs can merge it with the next one; the search ends at the
/// product.
pub(in crate::schedule) fn merged(group: &Function, solver: &Solver, roots: &[Value], product: Value) -> Vec<bool> {
    let mut cut = group.clone();
    // As an argument, the product is where the walk ends.
    let body = cut.body;
    let end = cut.add_argument(body, group.ty(product).clone());
    cut.replace_uses(&[(product, end)].into_iter().collect());
    let roots: Vec<Value> = roots.iter().map(|&r| if r == product { end } else { r }).collect();
    mergeable(&cut, solver, &roots)
}
