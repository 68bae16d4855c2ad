//! Declares the math functions: one row has a function's name, meaning, bound and code.
//!
//! A row is all that a function needs, beside its code and, if an op of the IR computes it, the
//! declaration of the op (crates/disc-ir/src/ops/math). Kernels, tests and measurements read this
//! table, and a test compares docs/numerics.md with it.
//!
//! Invariant: every math function of the IR is the op of one row; else this file does not compile.
//!
//! A bound holds for every input whose exact result is representable (infinities and zeros from
//! overflow and underflow are exact where the exactly rounded result is).

use super::emitter::Emitter;
use super::{bessel, erf, erf_inv, exp, fmod, gamma, hyperbolic, inverse_trig, log, pow, roots, trig, zeta};
use Meaning::{CaseOf, Formula, Op, OpBy};
use disc_ir::{
    OpKind,
    ops::{
        Domain,
        Exact::{self, One, Two},
        MATH_FUNCTIONS, MathDef,
    },
};
use std::{cmp::Ordering, f64::consts::FRAC_1_SQRT_2};

/// The largest error of a function, in units in the last place of the exact result (of the smallest
/// normal number's place below it).
#[derive(Clone, Copy, Debug)]
pub struct Bound {
    /// f32 on a target with fused multiply-add.
    pub f32: f64,
    /// f32 on a target without it.
    pub f32_no_fma: f64,
    /// f64 on a target with fused multiply-add.
    pub f64: f64,
    /// f64 on a target without it.
    pub f64_no_fma: f64,
    /// Returns true of the operands for which it holds.
    pub holds: fn(&[f64]) -> bool,
    /// Returns the magnitude in whose last place the error is measured, of operands and their exact
    /// result.
    pub unit: fn(&[f64], f64) -> f64,
}

impl Bound {
    const fn on(self, holds: fn(&[f64]) -> bool) -> Self {
        Self { holds, ..self }
    }

    const fn in_units_of(self, unit: fn(&[f64], f64) -> f64) -> Self {
        Self { unit, ..self }
    }
}

const fn ulp(f32: f64, f32_no_fma: f64, f64: f64, f64_no_fma: f64) -> Bound {
    Bound { f32, f32_no_fma, f64, f64_no_fma, holds: |_| true, unit: |_, exact| exact.abs() }
}

/// The function that a row has code for.
#[derive(Clone, Copy, Debug)]
enum Meaning {
    /// That of an op of [`MATH_FUNCTIONS`]: kernels have the op as this code.
    Op(OpKind),
    /// That of another op on floats, by its formula.
    OpBy(OpKind, Exact),
    /// That of an op, for operands that some patterns of it are known to have.
    CaseOf(OpKind),
    /// One that no op has.
    Formula(Exact),
}

impl Meaning {
    /// The op that kernels have as this code.
    const fn op(self) -> Option<OpKind> {
        match self {
            Op(kind) | OpBy(kind, _) => Some(kind),
            CaseOf(_) | Formula(_) => None,
        }
    }

    /// The declaration of the function in the IR.
    fn declared(self) -> Option<MathDef> {
        match self {
            Op(kind) | CaseOf(kind) => kind.def().math,
            OpBy(..) | Formula(_) => None,
        }
    }

    fn exact(self) -> Exact {
        match self {
            Op(kind) | CaseOf(kind) => kind.def().math.expect("another op has a formula").exact,
            OpBy(_, exact) | Formula(exact) => exact,
        }
    }
}

macro_rules! math_functions {
    ($(
        $(#[doc = $doc:literal])+
        $variant:ident = $name:literal($($arg:ident),+) is $meaning:expr, $bound:expr, $path:path;
    )+) => {
        /// A math function with generated code of its own.
        #[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
        pub enum MathFn {
            $($(#[doc = $doc])+ $variant,)+
        }

        impl MathFn {
            /// All functions.
            pub const ALL: &[MathFn] = &[$(MathFn::$variant),+];

            /// The name, as docs/numerics.md has it.
            pub const fn name(self) -> &'static str {
                match self { $(MathFn::$variant => $name,)+ }
            }

            /// The function of a name.
            pub fn from_name(name: &str) -> Option<MathFn> {
                MathFn::ALL.iter().copied().find(|function| function.name() == name)
            }

            /// The number of operands.
            pub const fn arity(self) -> usize {
                match self { $(MathFn::$variant => [$(stringify!($arg)),+].len(),)+ }
            }

            /// The description of the function.
            pub fn doc(self) -> &'static str {
                match self { $(MathFn::$variant => concat!($($doc),+).trim(),)+ }
            }

            const fn meaning(self) -> Meaning {
                use OpKind::*;
                match self { $(MathFn::$variant => $meaning,)+ }
            }

            /// The stated bound.
            pub const fn bound(self) -> Bound {
                match self { $(MathFn::$variant => $bound,)+ }
            }

            /// Emits the function applied to these operands.
            ///
            /// # Panics
            /// If the number of operands is not [`MathFn::arity`].
            pub fn emit<E: Emitter>(self, e: &mut E, args: &[E::F]) -> E::F {
                assert_eq!(args.len(), self.arity(), "{} takes {} operands", self.name(), self.arity());
                match self {
                    $(MathFn::$variant => {
                        let [$($arg),+] = *args else { unreachable!("the count was checked") };
                        $path(e, $($arg),+)
                    })+
                }
            }
        }
    };
}

impl MathFn {
    /// Returns the function of an op on floats, if kernels have the op as this arithmetic.
    pub const fn of(op: OpKind) -> Option<MathFn> {
        let mut i = 0;
        while i < Self::ALL.len() {
            if let Some(own) = Self::ALL[i].meaning().op()
                && own as usize == op as usize
            {
                return Some(Self::ALL[i]);
            }
            i += 1;
        }
        None
    }

    /// Computes the function in f64, as the interpreter does: the reference of f32 code.
    ///
    /// # Panics
    /// If the number of operands is not [`MathFn::arity`].
    pub fn exact(self, args: &[f64]) -> f64 {
        match (self.meaning().exact(), args) {
            (One(function), &[x]) => function(x),
            (Two(function), &[x, y]) => function(x, y),
            (One(_) | Two(_), _) => panic!("{} takes {} operands", self.name(), self.arity()),
        }
    }

    /// The operands on which tests try the function.
    pub fn drawn(self) -> [Domain; 2] {
        self.meaning().declared().map_or([Domain::All; 2], |math| math.drawn)
    }
}

/// Fails with the name of a math function of the IR that no row has.
const _: () = {
    let mut i = 0;
    while i < MATH_FUNCTIONS.len() {
        if MathFn::of(MATH_FUNCTIONS[i].kind).is_none() {
            panic!("{}", MATH_FUNCTIONS[i].name);
        }
        i += 1;
    }
};

math_functions! {
    /// e^x.
    Exp = "exp"(x) is Op(Exponential), ulp(1.0, 1.5, 1.0, 1.5), exp::exp;
    /// e^x for x <= 0: as e^x, with fewer operations.
    ExpNonpositive = "exp_nonpositive"(x) is CaseOf(Exponential),
        ulp(1.0, 1.5, 1.0, 1.5).on(is_nonpositive), exp::exp_nonpositive;
    /// 2^x.
    Exp2 = "exp2"(x) is Formula(One(f64::exp2)), ulp(1.0, 1.5, 1.0, 1.5), exp::exp2;
    /// e^x - 1.
    Expm1 = "expm1"(x) is Op(ExponentialMinusOne), ulp(2.0, 2.0, 2.0, 2.0), exp::expm1;
    /// e^x for x <= 0, zero where that is denormal.
    SoftmaxExp = "softmax_exp"(x) is Formula(One(softmax_exp)), ulp(5.0, 2.5, 1.0, 1.5).on(is_of_softmax), exp::softmax_exp;
    /// 1 / (1 + e^-x).
    Logistic = "logistic"(x) is Op(Logistic), ulp(2.5, 2.5, 2.5, 2.5), exp::logistic;
    /// The hyperbolic tangent.
    Tanh = "tanh"(x) is Op(Tanh), ulp(3.0, 3.0, 3.0, 3.0), hyperbolic::tanh;
    /// The natural logarithm.
    Log = "log"(x) is Op(Log), ulp(1.0, 1.0, 1.0, 1.0), log::log;
    /// The logarithm of base 2.
    Log2 = "log2"(x) is Formula(One(f64::log2)), ulp(1.5, 1.5, 1.0, 1.0), log::log2;
    /// The logarithm of base 10.
    Log10 = "log10"(x) is Formula(One(f64::log10)), ulp(1.5, 1.5, 1.0, 1.0), log::log10;
    /// log(1 + x).
    Log1p = "log1p"(x) is Op(LogPlusOne), ulp(2.0, 2.0, 1.5, 1.5), log::log1p;
    /// The error function.
    Erf = "erf"(x) is Op(Erf), ulp(3.5, 3.5, 1.0, 1.5), erf::erf;
    /// 1 - erf(x).
    Erfc = "erfc"(x) is Op(Erfc), ulp(4.0, 4.0, 4.0, 4.0), erf::erfc;
    /// x Phi(x), Phi the normal distribution function.
    GeluErf = "gelu_erf"(x) is Formula(One(gelu_erf)), ulp(3.0, 3.0, 5.0, 5.0).in_units_of(half_operand), erf::gelu_erf;
    /// 1 / sqrt(x).
    Rsqrt = "rsqrt"(x) is OpBy(Rsqrt, One(|x| 1.0 / x.sqrt())), ulp(1.5, 1.5, 1.5, 1.5), roots::rsqrt;
    /// The hyperbolic sine.
    Sinh = "sinh"(x) is Op(Sinh), ulp(2.5, 2.5, 2.5, 2.5), hyperbolic::sinh;
    /// The hyperbolic cosine.
    Cosh = "cosh"(x) is Op(Cosh), ulp(1.5, 2.0, 1.5, 1.5), hyperbolic::cosh;
    /// The inverse hyperbolic sine.
    Asinh = "asinh"(x) is Op(Asinh), ulp(2.0, 2.0, 2.0, 2.0), hyperbolic::asinh;
    /// The inverse hyperbolic cosine.
    Acosh = "acosh"(x) is Op(Acosh), ulp(2.5, 2.5, 2.0, 2.0), hyperbolic::acosh;
    /// The inverse hyperbolic tangent.
    Atanh = "atanh"(x) is Op(Atanh), ulp(2.5, 2.5, 2.5, 2.5), hyperbolic::atanh;
    /// The sine.
    Sin = "sin"(x) is Op(Sine), ulp(1.0, 1.0, 1.0, 1.5), trig::sin;
    /// The cosine.
    Cos = "cos"(x) is Op(Cosine), ulp(1.0, 1.0, 1.0, 1.5), trig::cos;
    /// The tangent.
    Tan = "tan"(x) is Op(Tan), ulp(2.5, 2.5, 2.5, 3.0), trig::tan;
    /// The arc sine.
    Asin = "asin"(x) is Op(Asin), ulp(2.5, 2.5, 2.5, 2.5), inverse_trig::asin;
    /// The arc cosine.
    Acos = "acos"(x) is Op(Acos), ulp(1.5, 1.5, 1.5, 1.5), inverse_trig::acos;
    /// The arc tangent.
    Atan = "atan"(x) is Op(Atan), ulp(1.5, 2.0, 2.0, 2.0), inverse_trig::atan;
    /// The angle of the point (x, y) for operands y, x.
    Atan2 = "atan2"(y, x) is Op(Atan2), ulp(2.0, 2.0, 2.0, 2.0), inverse_trig::atan2;
    /// The cube root.
    Cbrt = "cbrt"(x) is Op(Cbrt), ulp(1.0, 1.0, 1.0, 1.0), roots::cbrt;
    /// x to the power of y.
    Pow = "pow"(x, y) is OpBy(Power, Two(f64::powf)), ulp(1.5, 1.5, 1.5, 1.5), pow::pow;
    /// The remainder of x / y, the quotient rounded to zero: exact.
    Fmod = "fmod"(x, y) is OpBy(Remainder, Two(|x, y| x % y)), ulp(0.0, 0.0, 0.0, 0.0), fmod::fmod;
    /// The neighbour of x in the direction of y.
    NextAfter = "next_after"(x, y) is OpBy(NextAfter, Two(next_after)), ulp(0.0, 0.0, 0.0, 0.0), fmod::next_after;
    /// The inverse of erf.
    ErfInv = "erf_inv"(x) is Op(ErfInv), ulp(2.5, 2.5, 2.5, 2.5), erf_inv::erf_inv;
    /// The logarithm of the absolute value of the gamma function.
    Lgamma = "lgamma"(x) is Op(Lgamma), ulp(4.5, 5.0, 4.0, 4.0).in_units_of(lgamma_terms), gamma::lgamma;
    /// The derivative of lgamma.
    Digamma = "digamma"(x) is Op(Digamma), ulp(7.0, 7.0, 6.0, 6.0).in_units_of(digamma_terms), gamma::digamma;
    /// e^-|x| I1(x), I1 the modified Bessel function of order one.
    BesselI1e = "bessel_i1e"(x) is Op(BesselI1e), ulp(3.5, 4.0, 4.0, 4.0), bessel::bessel_i1e;
    /// The Hurwitz zeta function: the sum of (q + k)^-s over k >= 0, for operands s, q.
    Zeta = "zeta"(s, q) is Op(Zeta), ulp(16.0, 16.0, 16.0, 16.0).on(is_of_zeta), zeta::zeta;
    /// The derivative of order n of digamma, for operands n, x.
    Polygamma = "polygamma"(n, x) is Op(Polygamma),
        ulp(16.0, 16.0, 16.0, 16.0).on(is_of_polygamma).in_units_of(polygamma_terms), zeta::polygamma;
}

/// The exponential, but zero where f32 has denormal numbers.
fn softmax_exp(x: f64) -> f64 {
    if x < -87.3 { 0.0 } else { x.exp() }
}

fn gelu_erf(x: f64) -> f64 {
    x / 2.0 * MathFn::Erfc.exact(&[-x * FRAC_1_SQRT_2])
}

/// The neighbour of x in the direction of y, in f32.
fn next_after(x: f64, y: f64) -> f64 {
    let (x, y) = (x as f32, y as f32);
    f64::from(match x.partial_cmp(&y) {
        None => f32::NAN,
        Some(Ordering::Equal) => y,
        Some(Ordering::Less) => x.next_up(),
        Some(Ordering::Greater) => x.next_down(),
    })
}

fn is_nonpositive(x: &[f64]) -> bool {
    x[0] <= 0.0 || x[0].is_nan()
}

/// Between -87.7 and -87 the exponential and zero are both right.
fn is_of_softmax(x: &[f64]) -> bool {
    is_nonpositive(x) && !(-87.7..=-87.0).contains(&x[0])
}

/// Terms of both signs cancel for negative operands; the poles there are exact.
fn is_of_zeta(x: &[f64]) -> bool {
    x[1] > 0.0 || x[1].floor() == x[1]
}

/// The factor zeta(n + 1, x) must be a normal number.
fn is_of_polygamma(x: &[f64]) -> bool {
    x[0] == 0.0 || is_of_zeta(x) && MathFn::Polygamma.exact(x).abs() >= 1e-33
}

/// For x < 0 the error is small against x, and not against the tiny result.
fn half_operand(x: &[f64], exact: f64) -> f64 {
    exact.abs().max(x[0].abs() / 2.0)
}

/// The terms of the reflection, which cancel at the zeros between the poles.
fn lgamma_terms(x: &[f64], exact: f64) -> f64 {
    if x[0] < 0.0 { exact.abs().max(MathFn::Lgamma.exact(&[-x[0]]).abs()).max(1.0) } else { exact.abs() }
}

/// The same, and those at the zero 1.46.
fn digamma_terms(x: &[f64], exact: f64) -> f64 {
    let reflected = if x[0] < 0.0 { MathFn::Digamma.exact(&[-x[0]]).abs() } else { 0.0 };
    exact.abs().max(reflected).max(1.0)
}

fn polygamma_terms(x: &[f64], exact: f64) -> f64 {
    if x[0] == 0.0 { digamma_terms(&x[1..], exact) } else { exact.abs() }
}
