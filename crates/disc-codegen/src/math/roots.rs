//! rsqrt: by the target's square root and division, which are correctly rounded.

use super::emitter::Emitter;

/// 1 / sqrt(x): infinity of x's sign at zero, NaN below.
pub(super) fn rsqrt<E: Emitter>(e: &mut E, x: E::F) -> E::F {
    let one = e.f(1.0);
    let root = e.sqrt(x);
    e.div(one, root)
}
