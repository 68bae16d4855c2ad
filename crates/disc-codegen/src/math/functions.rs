//! Lists the math functions: names, operand counts, stated bounds, and the one entry
//! [`MathFn::emit`].
//!
//! - A bound holds for every input whose exact result is representable (infinities and zeros from
//!   overflow and underflow are exact where the exactly rounded result is).
//! - docs/numerics.md repeats this table; a test compares them.

use super::emitter::Emitter;
use super::{bessel, erf, erf_inv, exp, fmod, gamma, hyperbolic, inverse_trig, log, pow, roots, trig, zeta};

/// The largest error of a function, in units in the last place of the exact result (of the smallest
/// normal number's place below it).
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Bound {
    /// f32 on a target with fused multiply-add.
    pub f32: f64,
    /// f32 on a target without it.
    pub f32_no_fma: f64,
    /// f64 on a target with fused multiply-add.
    pub f64: f64,
    /// f64 on a target without it.
    pub f64_no_fma: f64,
}

const fn ulp(f32: f64, f32_no_fma: f64, f64: f64, f64_no_fma: f64) -> Bound {
    Bound { f32, f32_no_fma, f64, f64_no_fma }
}

macro_rules! math_functions {
    ($($(#[doc = $doc:literal])+ $variant:ident = $name:literal($($arg:ident),+) $bound:expr, $path:path;)+) => {
        /// A math function with generated code of its own.
        #[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
        pub enum MathFn {
            $($(#[doc = $doc])+ $variant,)+
        }

        impl MathFn {
            /// All functions.
            pub const ALL: &[MathFn] = &[$(MathFn::$variant),+];

            /// The name, as the op tables spell it.
            pub const fn name(self) -> &'static str {
                match self { $(MathFn::$variant => $name,)+ }
            }

            /// The function of a name.
            pub fn from_name(name: &str) -> Option<MathFn> {
                match name { $($name => Some(MathFn::$variant),)+ _ => None }
            }

            /// The number of operands.
            pub const fn arity(self) -> usize {
                match self { $(MathFn::$variant => [$(stringify!($arg)),+].len(),)+ }
            }

            /// The description of the function.
            pub fn doc(self) -> &'static str {
                match self { $(MathFn::$variant => concat!($($doc),+).trim(),)+ }
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

math_functions! {
    /// e^x.
    Exp = "exp"(x) ulp(1.0, 1.5, 1.0, 1.5), exp::exp;
    /// e^x for x <= 0: as e^x, with fewer operations.
    ExpNonpositive = "exp_nonpositive"(x) ulp(1.0, 1.5, 1.0, 1.5), exp::exp_nonpositive;
    /// 2^x.
    Exp2 = "exp2"(x) ulp(1.0, 1.5, 1.0, 1.5), exp::exp2;
    /// e^x - 1.
    Expm1 = "expm1"(x) ulp(2.0, 2.0, 2.0, 2.0), exp::expm1;
    /// e^x for x <= 0, zero where that is denormal.
    SoftmaxExp = "softmax_exp"(x) ulp(5.0, 2.5, 1.0, 1.5), exp::softmax_exp;
    /// 1 / (1 + e^-x).
    Logistic = "logistic"(x) ulp(2.5, 2.5, 2.5, 2.5), exp::logistic;
    /// The hyperbolic tangent.
    Tanh = "tanh"(x) ulp(3.0, 3.0, 3.0, 3.0), hyperbolic::tanh;
    /// The natural logarithm.
    Log = "log"(x) ulp(1.0, 1.0, 1.0, 1.0), log::log;
    /// The logarithm of base 2.
    Log2 = "log2"(x) ulp(1.5, 1.5, 1.0, 1.0), log::log2;
    /// The logarithm of base 10.
    Log10 = "log10"(x) ulp(1.5, 1.5, 1.0, 1.0), log::log10;
    /// log(1 + x).
    Log1p = "log1p"(x) ulp(2.0, 2.0, 1.5, 1.5), log::log1p;
    /// The error function.
    Erf = "erf"(x) ulp(3.5, 3.5, 1.0, 1.5), erf::erf;
    /// 1 - erf(x).
    Erfc = "erfc"(x) ulp(4.0, 4.0, 4.0, 4.0), erf::erfc;
    /// x Phi(x), Phi the normal distribution function.
    GeluErf = "gelu_erf"(x) ulp(3.0, 3.0, 5.0, 5.0), erf::gelu_erf;
    /// 1 / sqrt(x).
    Rsqrt = "rsqrt"(x) ulp(1.5, 1.5, 1.5, 1.5), roots::rsqrt;
    /// The hyperbolic sine.
    Sinh = "sinh"(x) ulp(2.5, 2.5, 2.5, 2.5), hyperbolic::sinh;
    /// The hyperbolic cosine.
    Cosh = "cosh"(x) ulp(1.5, 2.0, 1.5, 1.5), hyperbolic::cosh;
    /// The inverse hyperbolic sine.
    Asinh = "asinh"(x) ulp(2.0, 2.0, 2.0, 2.0), hyperbolic::asinh;
    /// The inverse hyperbolic cosine.
    Acosh = "acosh"(x) ulp(2.5, 2.5, 2.0, 2.0), hyperbolic::acosh;
    /// The inverse hyperbolic tangent.
    Atanh = "atanh"(x) ulp(2.5, 2.5, 2.5, 2.5), hyperbolic::atanh;
    /// The sine.
    Sin = "sin"(x) ulp(1.0, 1.0, 1.0, 1.5), trig::sin;
    /// The cosine.
    Cos = "cos"(x) ulp(1.0, 1.0, 1.0, 1.5), trig::cos;
    /// The tangent.
    Tan = "tan"(x) ulp(2.5, 2.5, 2.5, 3.0), trig::tan;
    /// The arc sine.
    Asin = "asin"(x) ulp(2.5, 2.5, 2.5, 2.5), inverse_trig::asin;
    /// The arc cosine.
    Acos = "acos"(x) ulp(1.5, 1.5, 1.5, 1.5), inverse_trig::acos;
    /// The arc tangent.
    Atan = "atan"(x) ulp(1.5, 2.0, 2.0, 2.0), inverse_trig::atan;
    /// The angle of the point (x, y) for operands y, x.
    Atan2 = "atan2"(y, x) ulp(2.0, 2.0, 2.0, 2.0), inverse_trig::atan2;
    /// The cube root.
    Cbrt = "cbrt"(x) ulp(1.0, 1.0, 1.0, 1.0), roots::cbrt;
    /// x to the power of y.
    Pow = "pow"(x, y) ulp(1.5, 1.5, 1.5, 1.5), pow::pow;
    /// The remainder of x / y, the quotient rounded to zero: exact.
    Fmod = "fmod"(x, y) ulp(0.0, 0.0, 0.0, 0.0), fmod::fmod;
    /// The neighbour of x in the direction of y.
    NextAfter = "next_after"(x, y) ulp(0.0, 0.0, 0.0, 0.0), fmod::next_after;
    /// The inverse of erf.
    ErfInv = "erf_inv"(x) ulp(2.5, 2.5, 2.5, 2.5), erf_inv::erf_inv;
    /// The logarithm of the absolute value of the gamma function.
    Lgamma = "lgamma"(x) ulp(4.5, 5.0, 4.0, 4.0), gamma::lgamma;
    /// The derivative of lgamma.
    Digamma = "digamma"(x) ulp(7.0, 7.0, 6.0, 6.0), gamma::digamma;
    /// e^-|x| I1(x), I1 the modified Bessel function of order one.
    BesselI1e = "bessel_i1e"(x) ulp(3.5, 4.0, 4.0, 4.0), bessel::bessel_i1e;
    /// The Hurwitz zeta function: the sum of (q + k)^-s over k >= 0, for operands s, q.
    Zeta = "zeta"(s, q) ulp(16.0, 16.0, 16.0, 16.0), zeta::zeta;
    /// The derivative of order n of digamma, for operands n, x.
    Polygamma = "polygamma"(n, x) ulp(16.0, 16.0, 16.0, 16.0), zeta::polygamma;
}
