//! Declares the Hurwitz zeta function and the derivatives of digamma, for all arguments.
use super::Composed;
use crate::emit::Emitter;
use disc_ir::{Code, Diagnostic, OpKind, Value, ops::DTypeClass};

const FLOAT: DTypeClass = DTypeClass::FLOAT;

/// From here down the sum of the op has too many terms.
const DEEP: f64 = -1024.0;

composition! {
    /// The sum of `(q + k) ** -s` over `k >= 0`. Of no terms, which is a difference of infinities,
    /// it is NaN, unless it diverges.
    ///
    /// (C1) They have one element type, and broadcast.
    Zeta = "zeta"(s: one(FLOAT), q: one(FLOAT)) -> (y) in zeta;
}

fn zeta(b: &Emitter<'_>, Zeta { s, q }: Zeta) -> Composed {
    let [s, q] = b.together(&[s, q])?[..] else { unreachable!("as many as were given") };
    let (dtype, Offset { near, rest }) = (b.dtype(s), Offset::new(b, s, q)?);
    let found = b.add(b.map(OpKind::Zeta, &[s, near])?, rest)?;
    let (one, zero) = (b.lift(1.0, dtype)?, b.lift(0.0, dtype)?);
    let is_infinite = |x: Value| b.compare("EQ", x, b.lift(f64::INFINITY, dtype)?);
    let is_steep = is_infinite(s)?;
    let of_far = b.map(OpKind::And, &[is_infinite(q)?, b.compare("NE", s, one)?])?;
    let of_steep = b.map(OpKind::And, &[is_steep, b.compare("GT", q, one)?])?;
    let found = b.select(b.map(OpKind::Or, &[of_far, of_steep])?, b.lift(f64::NAN, dtype)?, found)?;
    let diverges = b.map(OpKind::And, &[is_steep, b.compare("LT", q, zero)?])?;
    Ok(vec![b.select(diverges, b.lift(f64::INFINITY, dtype)?, found)?])
}

composition! {
    /// The derivative of order `n` of digamma: `(-1) ** (n + 1) * n! * zeta(n + 1, x)`. There is
    /// none at infinity; the first one is mirrored there.
    ///
    /// (C1) `n` is at least 0.
    Polygamma = "polygamma"(x: one(FLOAT)) { n: i64 } -> (y) in polygamma;
}

fn polygamma(b: &Emitter<'_>, Polygamma { x, n }: Polygamma) -> Composed {
    if n == 0 {
        return Ok(vec![b.op(OpKind::Digamma, &[x])?]);
    }
    if !(1..i64::from(i32::MAX)).contains(&n) {
        return Err(Diagnostic::new(Code::E0202, format!("(C1) the order is {n}, expected 0 or more")));
    }
    let (shape, dtype) = (b.shape(x), b.dtype(x));
    let Offset { near, rest } = Offset::new(b, b.full(n + 1, &shape, dtype)?, x)?;
    let order = b.full(n, &shape, dtype)?;
    let factor = if n < 170 { factorial(n) } else { f64::INFINITY };
    let signed = if n % 2 == 1 { factor } else { -factor };
    let found = b.add(b.map(OpKind::Polygamma, &[order, near])?, b.mul(rest, signed)?)?;
    let odd_end = if n == 1 { f64::NEG_INFINITY } else { f64::INFINITY };
    let is_odd = b.compare("EQ", x, b.lift(odd_end, dtype)?)?;
    Ok(vec![b.select(is_odd, b.lift(f64::NAN, dtype)?, found)?])
}

/// `n!`, rounded once: each product keeps its error.
fn factorial(n: i64) -> f64 {
    let (mut high, mut low) = (1.0f64, 0.0f64);
    for i in 2..=n {
        let product = high * i as f64;
        low = low * i as f64 + high.mul_add(i as f64, -product);
        high = product + low;
        low -= high - product;
    }
    high
}

/// An offset that is not deep, and what is to be added to its sum: `f - 1` with `q = f - N` and
/// `0 <= f < 1`, and the terms of j from 2 to N, which are `(f - j) ** -s = (-1) ** s * (j - f) **
/// -s`.
struct Offset {
    near: Value,
    rest: Value,
}

impl Offset {
    fn new(b: &Emitter<'_>, s: Value, q: Value) -> Result<Self, Diagnostic> {
        let dtype = b.dtype(q);
        let begin = b.op(OpKind::Floor, &[q])?;
        let is_deep = b.map(OpKind::And, &[b.compare("LT", q, b.lift(DEEP, dtype)?)?, b.compare("NE", begin, q)?])?;
        let fraction = b.sub(q, begin)?;
        // A deep pole is one at -1, too.
        let is_pole = b.map(OpKind::And, &[b.compare("LT", q, b.lift(DEEP, dtype)?)?, b.compare("EQ", begin, q)?])?;
        let below = b.sub(fraction, 1.0)?;
        let near = b.select(is_deep, below, b.select(is_pole, b.lift(-1.0, dtype)?, q)?)?;
        let two = b.lift(2.0, dtype)?;
        let first = b.select(is_deep, b.sub(two, fraction)?, two)?;
        let last = b.select(is_deep, b.sub(b.lift(1.0, dtype)?, q)?, two)?;
        let terms = b.sub(b.map(OpKind::Zeta, &[s, first])?, b.map(OpKind::Zeta, &[s, last])?)?;
        let half = b.mul(s, 0.5)?;
        let is_even = b.compare("EQ", b.op(OpKind::Floor, &[half])?, half)?;
        let terms = b.select(is_even, terms, b.neg(terms)?)?;
        // The first sum says all of other exponents.
        let is_sum = b.map(OpKind::And, &[is_deep, b.compare("GT", s, b.lift(1.0, dtype)?)?])?;
        Ok(Self { near, rest: b.select(is_sum, terms, b.lift(0.0, dtype)?)? })
    }
}
