//! Emits element-wise ops on vectors in the compute type.
use crate::kernel::{
    KernelBuilder, compute_dtype,
    expand_math::{self, Arithmetic},
};
use disc_ir::{Attr, DType, Function, Inst, OpKind, Value};

/// Emits an element-wise op of `group` on computed operands.
pub(super) fn apply(kb: &mut KernelBuilder, group: &Function, inst: Inst, operands: &[Value], arithmetic: Arithmetic) -> Value {
    let data = group.inst(inst);
    let attr = data.attrs.first().and_then(Option::as_ref);
    match (data.kind, attr) {
        (OpKind::Compare, Some(Attr::Enum(direction))) => kb.compare(direction, operands[0], operands[1]),
        (OpKind::Convert, Some(Attr::DType(to))) => round_to(kb, operands[0], *to),
        (OpKind::BitcastConvert, Some(Attr::DType(to))) => {
            let exact = kb.convert(operands[0], group.ty(data.operands[0]).dtype());
            let bits = kb.emit_all(OpKind::BitcastConvert, &[exact], &[("dtype", (*to).into())], None)[0];
            kb.convert(bits, compute_dtype(*to))
        }
        (kind, _) => expand_math::math(kb, kind, operands, arithmetic).unwrap_or_else(|| kb.map(kind, operands)),
    }
}

/// Converts to `dtype` and back to the type in which it is computed, so that the value is rounded
/// as the program says.
fn round_to(kb: &mut KernelBuilder, value: Value, dtype: DType) -> Value {
    let rounded = kb.convert(value, dtype);
    kb.convert(rounded, compute_dtype(dtype))
}
