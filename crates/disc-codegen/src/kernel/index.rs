//! Represents positions inside tensors, as kernels compute them.
//!
//! A kernel works on several neighbouring elements at once, one per lane. Most positions are the
//! same in every lane, or grow by a constant from lane to lane; those stay scalar arithmetic, and a
//! load with stride 1 is one vector load.
use super::KernelBuilder;
use disc_ir::Value;
use disc_kernel_macros::expr;

/// The position along one dimension, for all lanes at once.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Index {
    /// `base + lane * stride`, where `base` is a scalar of the index type; stride 0 is the same
    /// position in every lane.
    Affine { base: Value, stride: i64 },
    /// `base + steps[lane]`: a scalar of the index type, and a vector of it, or of `i32` where that
    /// is known to hold them.
    Lanes { base: Value, steps: Value },
}

impl Index {
    /// The same position in every lane.
    pub fn uniform(base: Value) -> Self {
        Index::Affine { base, stride: 0 }
    }

    /// The scalar, if every lane has the same position.
    pub fn as_uniform(self) -> Option<Value> {
        match self {
            Index::Affine { base, stride: 0 } => Some(base),
            Index::Affine { .. } | Index::Lanes { .. } => None,
        }
    }

    /// A vector of the positions; a scalar if they are all the same.
    pub fn value(self, kb: &mut KernelBuilder, lanes: u32) -> Value {
        match self {
            Index::Affine { base, stride: 0 } => base,
            _ => {
                let (base, steps) = self.parted(kb, lanes);
                expr!(kb, base + steps)
            }
        }
    }

    /// The common base of all lanes, and the distance of each from it, in the index type.
    fn parted(self, kb: &mut KernelBuilder, lanes: u32) -> (Value, Value) {
        match self {
            Index::Affine { base, stride: 0 } => (base, kb.int(0)),
            Index::Affine { base, stride } => {
                let numbers = kb.lane_numbers(lanes);
                let factor = kb.int(stride);
                (base, if stride == 1 { numbers } else { expr!(kb, numbers * factor) })
            }
            Index::Lanes { base, steps } => (base, kb.convert(steps, kb.index_type())),
        }
    }

    pub fn add(self, kb: &mut KernelBuilder, lanes: u32, other: Index) -> Index {
        match (self, other) {
            (Index::Affine { base: a, stride: s }, Index::Affine { base: b, stride: t }) => {
                Index::Affine { base: expr!(kb, a + b), stride: s + t }
            }
            (Index::Affine { base, stride: 0 }, other) | (other, Index::Affine { base, stride: 0 }) => other.add_scalar(kb, base),
            (one, other) => {
                let ((a, s), (b, t)) = (one.parted(kb, lanes), other.parted(kb, lanes));
                Index::Lanes { base: expr!(kb, a + b), steps: expr!(kb, s + t) }
            }
        }
    }

    pub fn add_scalar(self, kb: &mut KernelBuilder, scalar: Value) -> Index {
        match self {
            Index::Affine { base, stride } => Index::Affine { base: expr!(kb, base + scalar), stride },
            Index::Lanes { base, steps } => Index::Lanes { base: expr!(kb, base + scalar), steps },
        }
    }

    /// Multiplies by a scalar; a lane stride stays affine only if the scalar is a known constant.
    pub fn scale(self, kb: &mut KernelBuilder, lanes: u32, scalar: Value) -> Index {
        match (self, kb.known_int(scalar)) {
            (index, Some(1)) => index,
            (Index::Affine { base, stride }, Some(factor)) => {
                Index::Affine { base: expr!(kb, base * scalar), stride: stride * factor }
            }
            (Index::Affine { base, stride: 0 }, None) => Index::uniform(expr!(kb, base * scalar)),
            (index, _) => {
                let (base, steps) = index.parted(kb, lanes);
                Index::Lanes { base: expr!(kb, base * scalar), steps: expr!(kb, steps * scalar) }
            }
        }
    }

    /// `scalar - self`.
    pub fn subtract_from(self, kb: &mut KernelBuilder, scalar: Value) -> Index {
        match self {
            Index::Affine { base, stride } => Index::Affine { base: expr!(kb, scalar - base), stride: -stride },
            Index::Lanes { base, steps } => {
                let (zero, steps) = (kb.int(0), kb.convert(steps, kb.index_type()));
                Index::Lanes { base: expr!(kb, scalar - base), steps: expr!(kb, zero - steps) }
            }
        }
    }

    /// Wraps a computed position: a scalar or a vector of any integer type.
    pub fn from_value(kb: &mut KernelBuilder, value: Value) -> Index {
        let value = kb.convert(value, kb.index_type());
        match kb.lanes(value) {
            1 => Index::uniform(value),
            _ => Index::Lanes { base: kb.int(0), steps: value },
        }
    }
}

/// The row-major position of `at` in a shape, given by its strides as scalars; the fastest-moving
/// dimension comes last.
pub fn linear(kb: &mut KernelBuilder, lanes: u32, at: &[Index], strides: &[Value]) -> Index {
    let zero = kb.int(0);
    let mut uniform = Index::uniform(zero);
    let mut varying = Index::uniform(zero);
    for (index, &stride) in at.iter().zip(strides) {
        let term = index.scale(kb, lanes, stride);
        // Uniform terms come first: their sum does not change inside the loop over lanes.
        match term {
            Index::Affine { stride: 0, .. } => uniform = uniform.add(kb, lanes, term),
            _ => varying = varying.add(kb, lanes, term),
        }
    }
    uniform.add(kb, lanes, varying)
}
