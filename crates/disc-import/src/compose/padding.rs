//! Declares padding by elements of the tensor.
use super::Composed;
use crate::emit::Emitter;
use disc_ir::{Code, Diagnostic, Dim, Value, ops::DTypeClass};

const ANY: DTypeClass = DTypeClass::ANY;

words! {
    /// The elements beyond the ends of an axis: the axis mirrored without its last element, its
    /// last element, or the axis again from its other end.
    Edge { Reflect = "reflect", Replicate = "replicate", Circular = "circular" }
}

composition! {
    /// `x` with `low` elements before and `high` after those of each axis, axis by axis: the axis
    /// mirrored without its last element (reflect), its last element (replicate), or the axis from
    /// its other end (circular). A negative amount crops: before the other end is padded where it
    /// is circular, else after it.
    ///
    /// (C1) The lists have one entry per axis of `x`.
    /// (C2) An axis has the elements that its ends take.
    Pad = "pad"(x: one(ANY)) { low: Vec<Dim>, high: Vec<Dim>, edge: Edge } -> (y) in pad;
}

fn pad(b: &Emitter<'_>, Pad { x, low, high, edge }: Pad) -> Composed {
    let rank = b.rank(x);
    if low.len() != rank || high.len() != rank {
        let message = format!("(C1) lists of {} and {} entries for a tensor of rank {rank}", low.len(), high.len());
        return Err(Diagnostic::new(Code::E0202, message));
    }
    let mut x = x;
    for (axis, (low, high)) in low.iter().zip(&high).enumerate() {
        if low.is_const(0) && high.is_const(0) {
            continue;
        }
        x = if edge == Edge::Circular {
            joined(b, cropped(b, x, axis, low, high)?, axis, low, high, edge)?
        } else {
            cropped(b, joined(b, x, axis, low, high, edge)?, axis, low, high)?
        };
    }
    Ok(vec![x])
}

fn cropped(b: &Emitter<'_>, x: Value, axis: usize, low: &Dim, high: &Dim) -> Result<Value, Diagnostic> {
    let zero = Dim::constant(0);
    let limit = b.size_of(x, axis)? - Dim::max(&-high, &zero);
    b.slice(x, axis, &Dim::max(&-low, &zero), &limit, 1)
}

fn joined(b: &Emitter<'_>, x: Value, axis: usize, low: &Dim, high: &Dim, edge: Edge) -> Result<Value, Diagnostic> {
    let (low, high) = (Dim::max(low, &Dim::constant(0)), Dim::max(high, &Dim::constant(0)));
    let (before, after) = match edge {
        Edge::Reflect => mirrored(b, x, axis, &low, &high)?,
        Edge::Replicate => repeated(b, x, axis, &low, &high)?,
        Edge::Circular => around(b, x, axis, &low, &high)?,
    };
    let before = before.filter(|_| !low.is_const(0));
    let after = after.filter(|_| !high.is_const(0));
    let parts: Vec<Value> = before.into_iter().chain([x]).chain(after).collect();
    b.concatenate(&parts, axis)
}

/// The elements before and after an axis; one that is not needed may be absent.
type Ends = Result<(Option<Value>, Option<Value>), Diagnostic>;

fn mirrored(b: &Emitter<'_>, x: Value, axis: usize, low: &Dim, high: &Dim) -> Ends {
    let (size, one) = (b.size_of(x, axis)?, Dim::constant(1));
    let part = |is_there: bool, start: &Dim, limit: &Dim| is_there.then(|| b.slice(x, axis, start, limit, 1)).transpose();
    let before = part(!low.is_const(0), &one, &(low + 1))?;
    let after = part(!high.is_const(0), &(&size - 1 - high), &(&size - 1))?;
    let turned = |part: Option<Value>| part.map(|part| b.reverse(part, &[axis])).transpose();
    Ok((turned(before)?, turned(after)?))
}

fn repeated(b: &Emitter<'_>, x: Value, axis: usize, low: &Dim, high: &Dim) -> Ends {
    let (shape, size) = (b.shape(x), b.size_of(x, axis)?);
    let spread = |start: &Dim, limit: &Dim, count: &Dim| {
        let mut shape = shape.clone();
        shape[axis] = count.clone();
        b.expand(b.slice(x, axis, start, limit, 1)?, &shape)
    };
    let before = spread(&Dim::constant(0), &Dim::constant(1), low)?;
    Ok((Some(before), Some(spread(&(&size - 1), &size, high)?)))
}

fn around(b: &Emitter<'_>, x: Value, axis: usize, low: &Dim, high: &Dim) -> Ends {
    let size = b.size_of(x, axis)?;
    let before = b.slice(x, axis, &(&size - low), &size, 1)?;
    Ok((Some(before), Some(b.slice(x, axis, &Dim::constant(0), high, 1)?)))
}
