//! Reductions over no axes or over sizes of 1.
use super::arithmetic::operands;
use crate::{
    analysis::query::Query,
    rules::rewrite::{Rewriter, Rule, rule},
};
use disc_ir::{Inst, OpKind, Value, ops::body};

pub(super) const RULES: &[Rule] =
    &[rule("reduce-units", "reduce(x, init) over sizes of 1 => op(reshape(x), init)", OpKind::Reduce, units)];

/// The initial value is applied: it is neutral up to the sign of zero, and if it is neutral, the
/// rules of `op` remove it.
fn units(rw: &mut Rewriter<'_>, inst: Inst) -> Option<Value> {
    let &[x, init] = rw.f.operands(inst) else { return None };
    let shape = rw.f.shape(x);
    let units = rw.f.axes(inst, "dims").iter().all(|&axis| rw.is_one(&shape[axis]));
    let op = body::monoid(rw.f, rw.f.inst(inst).regions[0]).filter(|_| units)?;
    let dims = rw.f.shape(rw.f.result(inst)).to_vec();
    let [x, init] = if dims.is_empty() && rw.f.shape(x).is_empty() {
        operands(rw, inst)
    } else {
        [rw.reshape(x, dims.clone())?, rw.broadcast(init, &[], dims)?]
    };
    rw.emit(op, &[x, init])
}
