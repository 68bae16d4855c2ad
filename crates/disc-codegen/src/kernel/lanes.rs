//! Rearranges the lanes of vectors.
use super::KernelBuilder;
use disc_ir::Value;

/// Interleaves the lanes of these vectors, a power of two of them, and returns as many vectors.
pub(crate) fn interleave(kb: &mut KernelBuilder, vectors: &[Value]) -> Vec<Value> {
    if let [vector] = vectors {
        return vec![*vector];
    }
    let every_other = |first: usize| -> Vec<Value> { vectors.iter().skip(first).step_by(2).copied().collect() };
    let (even, odd) = (interleave(kb, &every_other(0)), interleave(kb, &every_other(1)));
    even.into_iter().zip(odd).flat_map(|(even, odd)| kb.zip_lanes(even, odd)).collect()
}
