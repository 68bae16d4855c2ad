//! Declares math functions: ops on floats that kernels have as arithmetic only.
//!
//! A declaration has the function itself, which the interpreter computes, and the facts that tests
//! of compiled code need of it. `disc_codegen::math::MathFn` has its code and error bound; it does
//! not compile without a row for each op here. A match over all ops names them by
//! [`math_function!`](crate::math_function).
mod special;

use super::{
    class::DTypeClass,
    declare::{Stages, one as operand},
    elementwise::same_type,
};

/// A function of real numbers, in f64.
#[derive(Clone, Copy, Debug)]
pub enum Exact {
    One(fn(f64) -> f64),
    Two(fn(f64, f64) -> f64),
}

/// The operands on which tests try a function.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Domain {
    /// Numbers of every kind.
    All,
    /// Small integers from 0.
    Orders,
    /// Numbers from a little above 1.
    AboveOne,
}

/// A result of 0 in a narrow type, of operands that are not 0.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Zero {
    /// The exact one.
    Exact,
    /// A number, now and then, that the type is too narrow for.
    Underflow,
    /// Always such a number: the function is never 0, and gets as small as f32 goes.
    Never,
}

/// The meaning of a math function.
#[derive(Clone, Copy, Debug)]
pub struct MathDef {
    pub exact: Exact,
    /// The operands on which tests try it.
    pub drawn: [Domain; 2],
    /// Larger terms cancel in it: an error is relative to the larger of the result and 1.
    pub cancels: bool,
    pub zero: Zero,
    /// Returns true of operands at which compiled code has no relative error bound, if the operands
    /// have this relative error.
    pub is_vague: Option<fn(&[f64], f64) -> bool>,
}

impl MathDef {
    const fn new(exact: Exact) -> Self {
        Self { exact, drawn: [Domain::All; 2], cancels: false, zero: Zero::Exact, is_vague: None }
    }

    const fn drawn(self, drawn: [Domain; 2]) -> Self {
        Self { drawn, ..self }
    }

    const fn cancels(self) -> Self {
        Self { cancels: true, ..self }
    }

    const fn underflows(self) -> Self {
        Self { zero: Zero::Underflow, ..self }
    }

    const fn never_zero(self) -> Self {
        Self { zero: Zero::Never, ..self }
    }

    const fn vague_where(self, is_vague: fn(&[f64], f64) -> bool) -> Self {
        Self { is_vague: Some(is_vague), ..self }
    }
}

const fn one(function: fn(f64) -> f64) -> MathDef {
    MathDef::new(Exact::One(function))
}

const fn two(function: fn(f64, f64) -> f64) -> MathDef {
    MathDef::new(Exact::Two(function))
}

/// `Kind = "name"(operands) is one(f);`, or `two(f)`, with the facts in which a function differs
/// from others.
macro_rules! math {
    ($( $(#[doc = $doc:literal])+ $Kind:ident = $name:literal($($operand:ident),+) is $math:expr; )*) => {
        $( op! {
            $(#[doc = $doc])+
            #[doc = ""]
            #[doc = concat!("(C1) `", $("type(", stringify!($operand), ") = ",)+ "type(result)`.")]
            $Kind = $name($($operand: operand(DTypeClass::FLOAT)),+) -> (result: operand(DTypeClass::FLOAT))
                traits [Pure, Elementwise] stages Stages::Both, infer same_type, is $math;
        } )*

        /// The declarations of all math functions.
        pub const MATH_FUNCTIONS: &[crate::ops::OpDef] = &[$($Kind),*];

        /// The pattern of every math function's [`OpKind`](crate::ops::OpKind).
        #[macro_export]
        macro_rules! math_function {
            () => { $($crate::ops::OpKind::$Kind)|* };
        }
    };
}

math! {
    /// The inverse cosine, in [0, pi].
    Acos = "acos"(operand) is one(libm::acos);
    /// The inverse hyperbolic cosine.
    Acosh = "acosh"(operand) is one(special::acosh);
    /// The inverse sine, in [-pi/2, pi/2].
    Asin = "asin"(operand) is one(libm::asin);
    /// The inverse hyperbolic sine.
    Asinh = "asinh"(operand) is one(libm::asinh);
    /// The inverse tangent, in [-pi/2, pi/2].
    Atan = "atan"(operand) is one(libm::atan);
    /// The inverse hyperbolic tangent.
    Atanh = "atanh"(operand) is one(libm::atanh);
    /// The modified Bessel function of the first kind of order 1, times `exp(-|x|)`.
    BesselI1e = "bessel_i1e"(operand) is one(special::bessel_i1e).cancels().underflows();
    /// The cube root.
    Cbrt = "cbrt"(operand) is one(libm::cbrt);
    /// The hyperbolic cosine.
    Cosh = "cosh"(operand) is one(libm::cosh);
    /// The cosine.
    Cosine = "cosine"(operand) is one(libm::cos);
    /// The logarithmic derivative of the gamma function.
    Digamma = "digamma"(operand) is one(special::digamma).cancels().vague_where(is_negative);
    /// The error function.
    Erf = "erf"(operand) is one(libm::erf);
    /// The inverse of the error function.
    ErfInv = "erf_inv"(operand) is one(special::erf_inv);
    /// One minus the error function, without cancellation.
    Erfc = "erfc"(operand) is one(libm::erfc).never_zero();
    /// `e` to the power of the operand.
    Exponential = "exponential"(operand) is one(libm::exp).never_zero();
    /// `exp(x) - 1`, without cancellation.
    ExponentialMinusOne = "exponential_minus_one"(operand) is one(libm::expm1);
    /// The logarithm of the absolute value of the gamma function.
    Lgamma = "lgamma"(operand) is one(libm::lgamma).cancels().vague_where(is_negative);
    /// The natural logarithm.
    Log = "log"(operand) is one(libm::log);
    /// `log(1 + x)`, without cancellation.
    LogPlusOne = "log_plus_one"(operand) is one(libm::log1p);
    /// `1 / (1 + exp(-x))`.
    Logistic = "logistic"(operand) is one(special::logistic).never_zero();
    /// The sine.
    Sine = "sine"(operand) is one(libm::sin);
    /// The hyperbolic sine.
    Sinh = "sinh"(operand) is one(libm::sinh);
    /// The tangent.
    Tan = "tan"(operand) is one(libm::tan).vague_where(is_at_pole);
    /// The hyperbolic tangent.
    Tanh = "tanh"(operand) is one(libm::tanh);
    /// The angle of the point (`rhs`, `lhs`).
    Atan2 = "atan2"(lhs, rhs) is two(libm::atan2).underflows();
    /// The polygamma function of order `lhs` at `rhs`.
    Polygamma = "polygamma"(lhs, rhs) is two(special::polygamma)
        .drawn([Domain::Orders, Domain::AboveOne]).cancels().underflows().vague_where(is_no_polygamma);
    /// The Hurwitz zeta function of `lhs` with offset `rhs`.
    Zeta = "zeta"(lhs, rhs) is two(special::zeta)
        .drawn([Domain::AboveOne, Domain::AboveOne]).cancels().underflows().vague_where(is_no_zeta);
}

pub(crate) use math_function;

fn is_negative(x: &[f64], _: f64) -> bool {
    x[0] < 0.0
}

/// Near a pole, an error of the operand decides between the largest and the smallest numbers.
fn is_at_pole(x: &[f64], relative: f64) -> bool {
    x[0].cos().abs() < 8.0 * relative * x[0].abs()
}

fn is_no_zeta(x: &[f64], _: f64) -> bool {
    !(x[0] > 1.0 && x[0] <= 17.0) || x[1].is_nan() || x[1] <= 0.0
}

fn is_no_polygamma(x: &[f64], _: f64) -> bool {
    !(0.0..8.0).contains(&x[0]) || x[1].is_nan() || x[1] <= 0.0
}
