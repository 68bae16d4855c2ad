//! Emits element-wise ops on vectors in the compute type.
use crate::kernel::{
    KernelBuilder, compute_dtype,
    expand_math::{self, Arithmetic},
};
use disc_ir::{Attr, Function, Inst, OpKind, Value};

/// Emits an element-wise op of `group` on computed operands, rounded to the type of its result.
pub(super) fn apply(kb: &mut KernelBuilder, group: &Function, inst: Inst, operands: &[Value], arithmetic: Arithmetic) -> Value {
    let computed = apply_unrounded(kb, group, inst, operands, arithmetic);
    round(kb, group, inst, computed)
}

/// Rounds a result of an element-wise op to its type, unless the op cannot leave the type.
pub(super) fn round(kb: &mut KernelBuilder, group: &Function, inst: Inst, computed: Value) -> Value {
    if is_exact(group.kind_of(inst)) { computed } else { kb.round_to(computed, group.ty(group.result(inst)).dtype()) }
}

/// Returns true if the results of an op on numbers of a type are numbers of that type, computed
/// without an error, or if it rounds by itself.
fn is_exact(kind: OpKind) -> bool {
    use OpKind as K;
    matches!(
        kind,
        K::Abs | K::Ceil | K::Clamp | K::Floor | K::Maximum | K::Minimum | K::Negate | K::Remainder | K::Select | K::Sign
    ) || matches!(kind, K::RoundNearestAfz | K::RoundNearestEven | K::Convert | K::BitcastConvert)
}

/// Emits an element-wise op; what is computed in a wider type than that of the result stays so.
pub(super) fn apply_unrounded(
    kb: &mut KernelBuilder,
    group: &Function,
    inst: Inst,
    operands: &[Value],
    arithmetic: Arithmetic,
) -> Value {
    let data = group.inst(inst);
    let attr = data.attrs.first().and_then(Option::as_ref);
    match (data.kind, attr) {
        (OpKind::Compare, Some(Attr::Enum(direction))) => kb.compare(direction, operands[0], operands[1]),
        (OpKind::Convert, Some(Attr::DType(to))) => kb.round_to(operands[0], *to),
        (OpKind::BitcastConvert, Some(Attr::DType(to))) => {
            let exact = kb.convert(operands[0], group.ty(data.operands[0]).dtype());
            let bits = kb.emit_all(OpKind::BitcastConvert, &[exact], &[("dtype", (*to).into())], None)[0];
            kb.convert(bits, compute_dtype(*to))
        }
        (kind, _) => expand_math::math(kb, kind, operands, arithmetic).unwrap_or_else(|| kb.map(kind, operands)),
    }
}
