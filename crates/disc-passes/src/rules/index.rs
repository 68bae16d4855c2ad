//! Resolves indices that are known.
use crate::{
    analysis::query::Query,
    rules::rewrite::{Rewriter, Rule, rule},
};
use disc_ir::{Dim, Inst, OpKind, Value};

pub(super) const RULES: &[Rule] = &[rule(
    "dynamic-slice-in-range",
    "dynamic_slice(x) at dim [m], proved in range => slice(x)",
    OpKind::DynamicSlice,
    dynamic_slice,
)];

/// If the whole slice is in bounds, the two rules for indices out of bounds agree.
fn dynamic_slice(rw: &mut Rewriter<'_>, inst: Inst) -> Option<Value> {
    let (&x, starts) = rw.f.operands(inst).split_first().expect("an operand");
    let start: Option<Vec<Dim>> = starts.iter().map(|&value| rw.f.as_dim(value)).collect();
    let (start, sizes) = (start?, rw.f.dims(inst, "sizes"));
    let limit: Vec<Dim> = start.iter().zip(sizes).map(|(from, size)| from + size).collect();
    let zero = Dim::constant(0);
    let inside =
        (0..start.len()).all(|i| rw.solver.less_equal(&zero, &start[i]) && rw.solver.less_equal(&limit[i], &rw.f.shape(x)[i]));
    inside.then(|| rw.build(|b| b.op(OpKind::Slice).operands(&[x]).attr("start", start).attr("limit", limit).value())).flatten()
}
