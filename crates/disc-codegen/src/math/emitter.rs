//! Defines the arithmetic that a math function may use, as a trait.
//!
//! Every function of [`crate::math`] is written once over [`Emitter`]. An emitter either computes
//! ([`crate::math::Scalar`]) or builds IR. It is not an IR itself, and it has no notion of shapes:
//! each operation works lane by lane, for any number of lanes of a value.
//!
//! - One instantiation has one float format; its integers have the same width, two's complement,
//!   and wrap.
//! - Straight-line code: a lane is chosen by `select`, never by control flow. The only loop is
//!   [`Emitter::loop_while`].
//! - Comparisons are ordered: with a NaN operand they give false.
//! - Constants are uniform over the lanes; an emitter that builds IR should give equal constants
//!   one value.
//! - Denormals are kept, rounding is to nearest even, no operation is contracted or reassociated by
//!   the emitter.

/// The float format of an instantiation.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Format {
    /// IEEE binary32, with 32-bit integers.
    F32,
    /// IEEE binary64, with 64-bit integers.
    F64,
}

/// The result of the body of [`Emitter::loop_while`]: the next state, and the lanes that need
/// another round.
pub type LoopStep<E> = (Vec<<E as Emitter>::I>, <E as Emitter>::M);

/// The body of [`Emitter::loop_while`].
pub type LoopBody<'a, E> = dyn FnMut(&mut E, &[<E as Emitter>::I]) -> LoopStep<E> + 'a;

/// Lane-wise arithmetic in one float format.
pub trait Emitter: Sized {
    /// A float value.
    type F: Copy;
    /// An integer value of the float's width.
    type I: Copy;
    /// A mask: one truth value per lane.
    type M: Copy;

    /// The float format.
    fn format(&self) -> Format;
    /// Returns true if [`Emitter::fma`] rounds once. Functions that need an exact product choose
    /// their algorithm by it.
    fn fused(&self) -> bool;

    /// A float constant, rounded to nearest even to the format.
    fn f(&mut self, c: f64) -> Self::F;
    /// An integer constant; bits above the width are dropped.
    fn i(&mut self, c: i64) -> Self::I;

    fn add(&mut self, a: Self::F, b: Self::F) -> Self::F;
    fn sub(&mut self, a: Self::F, b: Self::F) -> Self::F;
    fn mul(&mut self, a: Self::F, b: Self::F) -> Self::F;
    fn div(&mut self, a: Self::F, b: Self::F) -> Self::F;
    /// a * b + c, rounded once if [`Emitter::fused`]; otherwise the product is rounded first.
    fn fma(&mut self, a: Self::F, b: Self::F, c: Self::F) -> Self::F;
    /// Flips the sign bit, of a NaN too.
    fn neg(&mut self, a: Self::F) -> Self::F;
    /// Clears the sign bit, of a NaN too.
    fn abs(&mut self, a: Self::F) -> Self::F;
    /// The square root, correctly rounded; NaN below zero, -0 for -0.
    fn sqrt(&mut self, a: Self::F) -> Self::F;
    /// The largest integral value that is not above `a`; -0, infinities and NaN are kept.
    fn floor(&mut self, a: Self::F) -> Self::F;
    /// The nearest integral value, ties to even; -0, infinities and NaN are kept.
    fn round_even(&mut self, a: Self::F) -> Self::F;

    fn eq(&mut self, a: Self::F, b: Self::F) -> Self::M;
    fn lt(&mut self, a: Self::F, b: Self::F) -> Self::M;
    fn le(&mut self, a: Self::F, b: Self::F) -> Self::M;

    /// `a` where the mask holds, else `b`, bit for bit.
    fn select(&mut self, mask: Self::M, a: Self::F, b: Self::F) -> Self::F;
    /// The same for integers.
    fn iselect(&mut self, mask: Self::M, a: Self::I, b: Self::I) -> Self::I;

    fn and(&mut self, a: Self::M, b: Self::M) -> Self::M;
    fn or(&mut self, a: Self::M, b: Self::M) -> Self::M;
    fn not(&mut self, a: Self::M) -> Self::M;

    /// The bits of a float.
    fn bits(&mut self, a: Self::F) -> Self::I;
    /// The float of given bits.
    fn with_bits(&mut self, a: Self::I) -> Self::F;
    /// Truncates to an integer. The truncated value must fit: for other values the result is
    /// unspecified (but it is a value). Costly in f64 on targets without such an instruction
    /// (AVX2): the functions use it in f64 only if there is no other way.
    fn to_int(&mut self, a: Self::F) -> Self::I;
    /// Converts a signed integer to a float, to nearest even. The same cost in f64.
    fn to_float(&mut self, a: Self::I) -> Self::F;

    fn iadd(&mut self, a: Self::I, b: Self::I) -> Self::I;
    fn isub(&mut self, a: Self::I, b: Self::I) -> Self::I;
    /// The low half of the product.
    fn imul(&mut self, a: Self::I, b: Self::I) -> Self::I;
    fn iand(&mut self, a: Self::I, b: Self::I) -> Self::I;
    fn ior(&mut self, a: Self::I, b: Self::I) -> Self::I;
    fn ixor(&mut self, a: Self::I, b: Self::I) -> Self::I;
    /// Shifts left by a constant below the width.
    fn shl(&mut self, a: Self::I, n: u32) -> Self::I;
    /// Shifts right by a constant below the width; zeros enter.
    fn lshr(&mut self, a: Self::I, n: u32) -> Self::I;
    /// Shifts right by a constant below the width; the sign enters.
    fn ashr(&mut self, a: Self::I, n: u32) -> Self::I;
    fn ieq(&mut self, a: Self::I, b: Self::I) -> Self::M;
    /// Signed comparison.
    fn ilt(&mut self, a: Self::I, b: Self::I) -> Self::M;

    /// Replaces a lane's state by the result of `body` while `active` holds in the lane.
    ///
    /// The state of other lanes is kept. `body` takes the state and returns the next state and the
    /// lanes that go on; a lane that stopped never starts again, so an emitter may run the body for
    /// all lanes until none is active, and select. An emitter that builds IR calls `body` once,
    /// with the loop's variables. Every use states a bound on the number of rounds.
    fn loop_while(&mut self, active: Self::M, state: &[Self::I], body: &mut LoopBody<'_, Self>) -> Vec<Self::I>;

    /// The values of `rare` in the lanes where `mask` holds, `usual` in the others.
    ///
    /// The default runs `rare` always and selects. An emitter may branch around `rare` when no lane
    /// needs it: it is costly.
    fn where_rare(&mut self, mask: Self::M, usual: &[Self::F], rare: &mut dyn FnMut(&mut Self) -> Vec<Self::F>) -> Vec<Self::F> {
        let values = rare(self);
        assert_eq!(values.len(), usual.len(), "the rare path gives as many values as the usual one");
        values.into_iter().zip(usual).map(|(r, &u)| self.select(mask, r, u)).collect()
    }

    /// x * 2^n rounded once, for integral n of magnitude up to twice the bias, where |x| is at most
    /// 4 and x * 2^(n/2) is a normal number, or x is zero or NaN. `shifted` is n +
    /// [`Format::scale_offset`] + [`Format::shifter`], whose low bits are n + the offset.
    ///
    /// A target with an instruction for it (`vscalefps`, `v_ldexp_f32`) overrides it; it must give
    /// the same bits.
    fn scale(&mut self, x: Self::F, n: Self::F, shifted: Self::F) -> Self::F {
        let _ = n;
        scale_by_products(self, x, shifted)
    }
}

/// [`Emitter::scale`] in two products.
pub fn scale_by_products<E: Emitter>(e: &mut E, x: E::F, shifted: E::F) -> E::F {
    let format = e.format();
    let bits = e.bits(shifted);
    // 2^n = 2^half * 2^rest: both factors are normal numbers, the first product is exact. The
    // offset holds their two biases.
    let half = e.shl(bits, format.mantissa_bits() - 1);
    let exponent_field = e.i(format.inf_bits());
    let half = e.iand(half, exponent_field);
    let whole = e.shl(bits, format.mantissa_bits());
    let rest = e.isub(whole, half);
    let (half, rest) = (e.with_bits(half), e.with_bits(rest));
    let x = e.mul(x, half);
    e.mul(x, rest)
}

impl Format {
    /// The stored bits of the mantissa.
    pub const fn mantissa_bits(self) -> u32 {
        match self {
            Format::F32 => 23,
            Format::F64 => 52,
        }
    }

    /// The bits of the whole number.
    pub const fn width(self) -> u32 {
        match self {
            Format::F32 => 32,
            Format::F64 => 64,
        }
    }

    /// The exponent's bias, which is also the largest exponent.
    pub const fn bias(self) -> i64 {
        match self {
            Format::F32 => 127,
            Format::F64 => 1023,
        }
    }

    /// The bits of 1.0.
    pub const fn one_bits(self) -> i64 {
        self.bias() << self.mantissa_bits()
    }

    /// The bits of positive infinity.
    pub const fn inf_bits(self) -> i64 {
        (2 * self.bias() + 1) << self.mantissa_bits()
    }

    /// The sign bit, sign-extended to i64.
    pub const fn sign_bit(self) -> i64 {
        -1 << (self.width() - 1)
    }

    /// 1.5 * 2^mantissa_bits: adding it to a small number rounds that to an integer, whose value is
    /// in the low bits of the sum.
    pub const fn shifter(self) -> f64 {
        match self {
            Format::F32 => 12582912.0,
            Format::F64 => 6755399441055744.0,
        }
    }

    /// The offset that [`Emitter::scale`] expects in the exponent: twice the bias.
    pub const fn scale_offset(self) -> i64 {
        2 * self.bias()
    }

    /// The smallest positive normal number.
    pub const fn min_normal(self) -> f64 {
        match self {
            Format::F32 => f32::MIN_POSITIVE as f64,
            Format::F64 => f64::MIN_POSITIVE,
        }
    }

    /// The one of two values that belongs to the format.
    pub const fn pick<T: Copy>(self, f32_value: T, f64_value: T) -> T {
        match self {
            Format::F32 => f32_value,
            Format::F64 => f64_value,
        }
    }
}
