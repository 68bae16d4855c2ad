//! Declares Fourier transforms, as products with matrices of cosines and sines that a call makes
//! for the sizes at hand.
//!
//! Not here: fast transforms. A line of n elements takes n squared steps, and its matrix as much
//! memory: `LONGEST` bounds it. Complex tensors are pairs of real ones.
use super::{Composed, axes_of};
use crate::emit::{Dot, Emitter, Sign};
use disc_ir::{Code, DType, Diagnostic, Dim, OpKind, Value, ops::DTypeClass};
use std::f64::consts::PI;

const WIDE: DTypeClass = DTypeClass::of(&[DType::F32, DType::F64]);

/// The longest line that is transformed.
const LONGEST: i64 = 4096;

words! {
    /// The divisor of a transform: none, the root of the number of elements, or that number.
    Normalization { None = "none", Root = "root", Count = "count" }
}

composition! {
    /// The spectrum of a real tensor along `axes`, real and imaginary part; with `onesided` of the
    /// last one `n / 2 + 1` elements, of which the others follow.
    ///
    /// (C1) `axes` are distinct axes of `x`, and there is one.
    /// (C2) Lines have 1 to 4096 elements.
    FourierOfReal = "fourier_of_real"(x: one(WIDE)) { axes: Vec<i64>, normalization: Normalization, onesided: bool }
        -> (re, im) in fourier_of_real;
}

fn fourier_of_real(b: &Emitter<'_>, FourierOfReal { x, axes, normalization, onesided }: FourierOfReal) -> Composed {
    let (axes, dtype) = (axes_of(b, x, &axes)?, b.dtype(x));
    let Some((&last, others)) = axes.split_last() else { return Err(without_axes()) };
    let (shape, n) = (b.shape(x), b.size_of(x, last)?);
    let scale = scale(b, dtype, axes.iter().map(|&axis| shape[axis].clone()), normalization)?;
    let columns = if onesided { n.floor_div(&Dim::constant(2)) + 1 } else { n.clone() };
    let waves = Waves::new(b, &n, &columns, &n, dtype)?;
    let mut z = (along(b, x, waves.cosines, last)?, b.neg(along(b, x, waves.sines, last)?)?);
    for &axis in others {
        z = turned(b, z, axis, true)?;
    }
    scaled(b, z, scale)
}

composition! {
    /// The spectrum of a complex tensor along `axes`, or, unless `forward`, the tensor of a
    /// spectrum.
    ///
    /// (C1) `axes` are distinct axes of `re`; `im` is alike.
    /// (C2) Lines have 1 to 4096 elements.
    Fourier = "fourier"(re: one(WIDE), im: one(WIDE)) { axes: Vec<i64>, normalization: Normalization, forward: bool }
        -> (re, im) in fourier;
}

fn fourier(b: &Emitter<'_>, Fourier { re, im, axes, normalization, forward }: Fourier) -> Composed {
    let (axes, shape) = (axes_of(b, re, &axes)?, alike(b, re, im)?);
    let scale = scale(b, b.dtype(re), axes.iter().map(|&axis| shape[axis].clone()), normalization)?;
    let mut z = (re, im);
    for axis in axes {
        z = turned(b, z, axis, forward)?;
    }
    scaled(b, z, scale)
}

composition! {
    /// The real tensor whose spectrum along `axes` has this first half along the last of them, of
    /// `size` elements there.
    ///
    /// (C1) `axes` are distinct axes of `re`, and there is one; `im` is alike.
    /// (C2) Lines have 1 to 4096 elements.
    FourierToReal = "fourier_to_real"(re: one(WIDE), im: one(WIDE)) {
            axes: Vec<i64>, normalization: Normalization, size: Dim
        } -> (y) in fourier_to_real;
}

fn fourier_to_real(b: &Emitter<'_>, FourierToReal { re, im, axes, normalization, size }: FourierToReal) -> Composed {
    let (axes, dtype, shape) = (axes_of(b, re, &axes)?, b.dtype(re), alike(b, re, im)?);
    let Some((&last, others)) = axes.split_last() else { return Err(without_axes()) };
    let sizes = others.iter().map(|&axis| shape[axis].clone()).chain([size.clone()]);
    let scale = scale(b, dtype, sizes, normalization)?;
    let mut z = (re, im);
    for &axis in others {
        z = turned(b, z, axis, false)?;
    }
    let half = &shape[last];
    let waves = Waves::new(b, half, &size, &size, dtype)?;
    // Each frequency is there twice, except the first and the one in the middle.
    let row = b.iota(std::slice::from_ref(half), 0, DType::I64)?;
    let is_first = b.compare("EQ", row, b.lift(0, DType::I64)?)?;
    let is_middle = b.compare("EQ", b.mul(row, 2)?, b.lift(&size, DType::I64)?)?;
    let single = b.op(OpKind::Or, &[is_first, is_middle])?;
    let times = b.select(single, b.lift(1.0, dtype)?, b.lift(2.0, dtype)?)?;
    let weighted = |waves: Value| b.mul(waves, b.broadcast(times, &b.shape(waves), &[0])?);
    let (cosines, sines) = (weighted(waves.cosines)?, weighted(waves.sines)?);
    let y = b.sub(along(b, z.0, cosines, last)?, along(b, z.1, sines, last)?)?;
    Ok(vec![scale.map_or(Ok(y), |scale| b.mul(y, scale))?])
}

fn without_axes() -> Diagnostic {
    Diagnostic::new(Code::E0202, "(C1) at least one axis is needed")
}

fn alike(b: &Emitter<'_>, re: Value, im: Value) -> Result<Vec<Dim>, Diagnostic> {
    super::check_rank(b, 1, ("im", im), b.rank(re))?;
    Ok(b.shape(re))
}

/// A complex tensor.
type Pair = (Value, Value);

/// The cosines and sines of row times column, in steps of which a number are a turn.
struct Waves {
    cosines: Value,
    sines: Value,
}

impl Waves {
    fn new(b: &Emitter<'_>, rows: &Dim, columns: &Dim, n: &Dim, dtype: DType) -> Result<Self, Diagnostic> {
        b.require(n, Sign::Ge, &Dim::constant(1))?;
        match n.as_const() {
            Some(n) if n > LONGEST => {
                let message = format!("(C2) a transform over {n} elements: at most {LONGEST} are supported");
                return Err(Diagnostic::new(Code::E0105, message));
            }
            Some(_) => {}
            None => b.require(n, Sign::Le, &Dim::constant(LONGEST))?,
        }
        let shape = [rows.clone(), columns.clone()];
        let place = b.mul(b.iota(&shape, 0, DType::I64)?, b.iota(&shape, 1, DType::I64)?)?;
        let turn = b.lift(n, DType::I64)?;
        // Within half a turn of 0, where floats are finest.
        let place = b.map(OpKind::Remainder, &[b.add(place, b.div(turn, 2)?)?, turn])?;
        let place = b.convert(b.sub(place, b.div(turn, 2)?)?, dtype)?;
        let angle = b.mul(place, b.div(b.lift(2.0 * PI, dtype)?, b.convert(turn, dtype)?)?)?;
        Ok(Self { cosines: b.op(OpKind::Cosine, &[angle])?, sines: b.op(OpKind::Sine, &[angle])? })
    }
}

/// Each line of `x` along `axis` times the matrix.
fn along(b: &Emitter<'_>, x: Value, matrix: Value, axis: usize) -> Result<Value, Diagnostic> {
    let y = b.dot(x, matrix, &Dot { contracting: (&[axis], &[0]), ..Dot::default() })?;
    b.move_axis(y, b.rank(x) - 1, axis)
}

/// The transform along one axis, without a scale.
fn turned(b: &Emitter<'_>, (re, im): Pair, axis: usize, forward: bool) -> Result<Pair, Diagnostic> {
    let n = b.size_of(re, axis)?;
    let Waves { cosines, sines } = Waves::new(b, &n, &n, &n, b.dtype(re))?;
    let sines = if forward { b.neg(sines)? } else { sines };
    let turned = b.sub(along(b, re, cosines, axis)?, along(b, im, sines, axis)?)?;
    Ok((turned, b.add(along(b, re, sines, axis)?, along(b, im, cosines, axis)?)?))
}

/// The factor of the normalization, if it is not 1.
fn scale(
    b: &Emitter<'_>,
    dtype: DType,
    sizes: impl Iterator<Item = Dim>,
    normalization: Normalization,
) -> Result<Option<Value>, Diagnostic> {
    if normalization == Normalization::None {
        return Ok(None);
    }
    let count = b.convert(b.lift(Dim::product(sizes), DType::I64)?, dtype)?;
    let one = b.lift(1.0, dtype)?;
    let divisor = if normalization == Normalization::Root { b.op(OpKind::Sqrt, &[count])? } else { count };
    b.div(one, divisor).map(Some)
}

fn scaled(b: &Emitter<'_>, (re, im): Pair, scale: Option<Value>) -> Composed {
    Ok(match scale {
        None => vec![re, im],
        Some(scale) => vec![b.mul(re, scale)?, b.mul(im, scale)?],
    })
}
