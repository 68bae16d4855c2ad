//! Removes conversions without effect, and those that the next one subsumes.
use super::arithmetic::operands;
use crate::{
    analysis::query::Query,
    rules::rewrite::{Rewriter, Rule, rule},
};
use disc_ir::{DType, Inst, OpKind, Value};

pub(super) const RULES: &[Rule] = &[
    rule("convert-same", "convert(x: T) to T => x", OpKind::Convert, same),
    rule("convert-chain", "convert(convert(x) to T) to U => convert(x) to U, where T holds every x", OpKind::Convert, chain),
    rule("bitcast-same", "bitcast_convert(x: T) to T => x", OpKind::BitcastConvert, same),
    rule(
        "bitcast-chain",
        "bitcast_convert(bitcast_convert(x) to T) to U => bitcast_convert(x) to U",
        OpKind::BitcastConvert,
        bitcast_chain,
    ),
];

fn same(rw: &mut Rewriter<'_>, inst: Inst) -> Option<Value> {
    let [x] = operands(rw, inst);
    (rw.f.ty(x).dtype() == rw.f.ty(rw.f.result(inst)).dtype()).then_some(x)
}

fn chain(rw: &mut Rewriter<'_>, inst: Inst) -> Option<Value> {
    let [middle] = operands(rw, inst);
    let x = rw.f.operands(rw.f.made_by(middle, OpKind::Convert)?)[0];
    let (from, through, to) = (rw.f.ty(x).dtype(), rw.f.ty(middle).dtype(), rw.f.ty(rw.f.result(inst)).dtype());
    // An intermediate float type saturates where integers wrap.
    let saturates = from.is_integer() && through.is_float() && !to.is_float() && to != DType::I1 && !to.holds(from);
    let skip = through.holds(from) && !saturates;
    skip.then(|| rw.build(|b| b.op(OpKind::Convert).operands(&[x]).attr("dtype", to).value())).flatten()
}

fn bitcast_chain(rw: &mut Rewriter<'_>, inst: Inst) -> Option<Value> {
    let [middle] = operands(rw, inst);
    let x = rw.f.operands(rw.f.made_by(middle, OpKind::BitcastConvert)?)[0];
    let to = rw.f.ty(rw.f.result(inst)).dtype();
    rw.build(|b| b.op(OpKind::BitcastConvert).operands(&[x]).attr("dtype", to).value())
}
