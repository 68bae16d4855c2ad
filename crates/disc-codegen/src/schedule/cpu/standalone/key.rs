//! Encodes elements as signed integers that compare as an order demands: equal if the order treats
//! two elements as equal, NaN above all numbers.
use crate::kernel::{KernelBuilder, compute_dtype};
use disc_ir::{DType, Literal, OpKind, Value, ops::body::Order};
use disc_kernel_macros::expr;

/// The type of the keys of elements of a type.
pub(in crate::schedule) fn dtype_of(element: DType) -> DType {
    match compute_dtype(element) {
        DType::F64 | DType::I64 | DType::U64 => DType::I64,
        _ => DType::I32,
    }
}

/// The greatest key, as a scalar.
pub(in crate::schedule) fn greatest(kb: &mut KernelBuilder, key: DType) -> Value {
    kb.constant(Literal::splat_i64(key, i64::MAX >> (64 - key.bits())), 1)
}

/// The key of an element in its compute type; the element that comes first has the least key.
pub(in crate::schedule) fn encode(kb: &mut KernelBuilder, element: Value, order: Order) -> Value {
    let dtype = kb.dtype(element);
    let key = dtype_of(dtype);
    let ascending = match dtype {
        _ if dtype.is_float() => of_float(kb, element, key),
        DType::U32 | DType::U64 => {
            let bits = kb.emit_all(OpKind::BitcastConvert, &[element], &[("dtype", key.into())], None)[0];
            let sign = kb.constant(Literal::splat_i64(key, i64::MIN >> (64 - key.bits())), 1);
            expr!(kb, bits ^ sign)
        }
        _ => kb.convert(element, key),
    };
    match order {
        Order::Ascending => ascending,
        Order::Descending => expr!(kb, !ascending),
    }
}

/// The bits, with those after the sign inverted if it is set: minus 0 is 0, and every NaN is the
/// greatest key.
fn of_float(kb: &mut KernelBuilder, element: Value, key: DType) -> Value {
    let bits = kb.emit_all(OpKind::BitcastConvert, &[element], &[("dtype", key.into())], None)[0];
    let constant = |kb: &mut KernelBuilder, value| kb.constant(Literal::splat_i64(key, value), 1);
    let (zero, shift, most) = (constant(kb, 0), constant(kb, key.bits() as i64 - 1), greatest(kb, key));
    let negative = kb.map(OpKind::ShiftRightArithmetic, &[bits, shift]);
    let ordered = expr!(kb, bits ^ (negative & most));
    let nought = kb.zero(kb.dtype(element), 1);
    let number = expr!(kb, select(element == nought, zero, ordered));
    expr!(kb, select(element != element, most, number))
}
