//! Conversions that do nothing, or nothing more than the next one.
use super::arithmetic::operands;
use crate::{
    query::Query,
    rewrite::{Rewriter, Rule, rule},
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
    // A float on the way saturates where integers wrap.
    let saturates = from.is_integer() && through.is_float() && !to.is_float() && to != DType::I1 && !holds(to, from);
    let skip = holds(through, from) && !saturates;
    skip.then(|| rw.build(|b| b.op(OpKind::Convert).operands(&[x]).attr("dtype", to).value())).flatten()
}

fn bitcast_chain(rw: &mut Rewriter<'_>, inst: Inst) -> Option<Value> {
    let [middle] = operands(rw, inst);
    let x = rw.f.operands(rw.f.made_by(middle, OpKind::BitcastConvert)?)[0];
    let to = rw.f.ty(rw.f.result(inst)).dtype();
    rw.build(|b| b.op(OpKind::BitcastConvert).operands(&[x]).attr("dtype", to).value())
}

/// Bits of an integer that are exact in a float type.
fn precision(dtype: DType) -> u32 {
    match dtype {
        DType::F16 => 11,
        DType::BF16 => 8,
        DType::F32 => 24,
        _ => 53,
    }
}

/// Whether `wide` has every value of `narrow`.
fn holds(wide: DType, narrow: DType) -> bool {
    let value_bits = |dtype: DType| match dtype {
        DType::I1 => 1,
        _ if dtype.is_signed_integer() => dtype.bits() - 1,
        _ => dtype.bits(),
    };
    let is_signed = |dtype: DType| dtype.is_signed_integer();
    match (wide.is_float(), narrow.is_float()) {
        _ if wide == narrow => true,
        (true, true) => wide == DType::F64 || (wide == DType::F32 && narrow != DType::F64),
        (true, false) => value_bits(narrow) <= precision(wide),
        (false, true) => false,
        (false, false) => wide != DType::I1 && value_bits(narrow) <= value_bits(wide) && (is_signed(wide) || !is_signed(narrow)),
    }
}
