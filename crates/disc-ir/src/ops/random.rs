//! Declares random numbers. The state is a value: nothing here is hidden or depends on time.
use super::{
    class::DTypeClass,
    declare::{Stages, one, optional},
};
use crate::{
    attr::AttrKind,
    diag::Code,
    dim::Dim,
    infer::{InferCx, Inferred},
    types::{DType, Type},
};

/// The algorithms; the first is the default.
pub(crate) const ALGORITHMS: &[&str] = &["PHILOX"];

op! {
    /// Uniform random bits by Philox 4x32 with 10 rounds. `initial_state` holds the 64-bit key and
    /// the low, then the high half of a 128-bit counter (2 entries: the high half is 0 and is not
    /// kept). Block `i` encrypts `counter + i` and gives four 32-bit words; these fill the output
    /// in row-major order, one word for an element of 32 bits or its low bits for a smaller one,
    /// two (the low half first) for 64 bits. The output state is the counter after the last block.
    /// Not for states of other types: key and counter are 64-bit words.
    ///
    /// (C1) `initial_state` is a `u64` tensor of rank 1 with 2 or 3 entries; `output_state` has its
    /// type.
    /// (C2) The type of `output` is stated.
    RngBitGenerator = "rng_bit_generator"(initial_state: one(DTypeClass::of(&[DType::U64]))) {
            rng_algorithm: optional(AttrKind::Enum(ALGORITHMS))
        } -> (output_state: one(DTypeClass::of(&[DType::U64])), output: one(DTypeClass::INTEGER))
        traits [Pure] stages Stages::Tensor, infer rng_bit_generator;
}

fn rng_bit_generator(cx: &InferCx<'_>) -> Inferred {
    let state = cx.tensor(0)?;
    let lengths = [2, 3].map(Dim::constant);
    if state.rank() != 1 || !lengths.iter().any(|length| cx.solver.equal(length, &state.dims[0])) {
        return Err(cx.error(Code::E0207, 1, format!("`initial_state` has type {}, expected 2 or 3 entries", cx.ty(0))));
    }
    match cx.declared {
        Some([_, output @ Type::Tensor(tensor)]) if tensor.dtype.is_integer() => Ok(vec![cx.ty(0).clone(), output.clone()]),
        _ => Err(cx.error(Code::E0205, 2, "both result types must be stated, the second as a tensor of integers")),
    }
}
