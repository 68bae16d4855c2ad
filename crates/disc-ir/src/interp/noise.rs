//! Runs programs with deliberate rounding errors, to find the results that a correct program may
//! give.
//!
//! A compiler may round otherwise than the interpreter: it sums in another order and approximates
//! functions. In a long program such errors grow, and at a comparison the result jumps. Runs with
//! random errors of that size show by how much.
//!
//! A function of narrow floats may be 0 because the type has no smaller number, where compiled code
//! gives the smallest one, which `ceil`, `sign` and comparisons treat differently. Such zeros are
//! disturbed; a zero of zeros is not.
//!
//! Invariant: exact values stay exact: integers, moved elements, constants, inputs, and arithmetic
//! of narrow floats, which compiled code rounds as the interpreter does.
use super::{
    Limits, Tensor,
    machine::{Machine, Val},
    run_entry,
    scalar::Scalar,
};
use crate::{
    diag::Diagnostic,
    generate::Random,
    graph::{Function, InstData, Module},
    ops::{OpKind, Zero, body::monoid, family, math_function},
    types::DType,
};
use std::rc::Rc;

/// A run with errors.
pub struct Noisy {
    pub outputs: Result<Vec<Tensor>, Diagnostic>,
    /// A value occurred that a compiler may turn into any other: a narrow float at the end of its
    /// range, a sum that may overflow on its way, the bits of a NaN.
    pub is_vague: bool,
}

/// The shares of numbers that runs disturb. If all are, every comparison of nearly equal values is
/// decided anew, and a sum of such decisions is far from one in which a single one differs.
const SHARES: [f64; 4] = [1.0, 0.25, 0.06, 0.015];

/// Probability that a number that may be an integer, but for its error, becomes one.
const ROUND: f64 = 0.25;

/// Runs an entry of a module without weights, with errors that depend on `seed`.
pub fn run_noisy(module: &Module, entry: &str, inputs: &[Tensor], limits: Limits, seed: u64) -> Noisy {
    let mut machine = Machine::new(module, &|_| None, limits);
    let share = SHARES[seed as usize % SHARES.len()];
    machine.noise = Some(Noise { random: Random::new(seed), share, is_vague: false });
    let outputs = run_entry(&mut machine, entry, inputs);
    Noisy { outputs, is_vague: machine.noise.is_some_and(|noise| noise.is_vague) }
}

pub(super) struct Noise {
    random: Random,
    /// See [`SHARES`].
    share: f64,
    is_vague: bool,
}

/// The largest error of one op, relative to its result, and the smallest number of the type.
fn format(dtype: DType) -> (f64, f64) {
    match dtype {
        DType::F16 => (1e-3, 2f64.powi(-24)),
        DType::BF16 => (8e-3, 2f64.powi(-133)),
        DType::F32 => (1e-6, 2f64.powi(-149)),
        _ => (1e-12, f64::from_bits(1)),
    }
}

/// The difference of a compiled op on floats from the interpreter.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Rounding {
    /// None: elements are moved, chosen or computed exactly.
    Exact,
    /// None in narrow floats: compiled code rounds the exact result, as the interpreter does.
    Once,
    /// An error that is relative to the result.
    Result,
    /// Many elements are summed (or multiplied): an error that is relative to them.
    Operands,
}

/// The facts about an op that decide its errors.
struct Profile {
    rounding: Rounding,
    /// A result of 0 in a narrow type.
    zero: Zero,
    /// Returns true of operands for which the op's error bound says nothing, or bounds the absolute
    /// error only, if they have this relative error.
    is_vague: Option<fn(&[f64], f64) -> bool>,
}

impl Profile {
    const EXACT: Self = Self { rounding: Rounding::Exact, zero: Zero::Exact, is_vague: None };
    const ONCE: Self = Self { rounding: Rounding::Once, ..Self::EXACT };
    const OF_RESULT: Self = Self { rounding: Rounding::Result, ..Self::EXACT };
    const OF_OPERANDS: Self = Self { rounding: Rounding::Operands, ..Self::EXACT };

    /// The same for an op that makes, of nonzero operands, numbers so small that narrow types give
    /// 0.
    const fn underflows(self) -> Self {
        Self { zero: Zero::Underflow, ..self }
    }

    const fn vague_where(self, is_vague: fn(&[f64], f64) -> bool) -> Self {
        Self { is_vague: Some(is_vague), ..self }
    }
}

// tidy: allow(function-length): one arm per op
fn profile(kind: OpKind) -> Profile {
    use OpKind as K;
    match kind {
        math_function!() => {
            let math = kind.def().math.expect("a math function declares itself");
            Profile { zero: math.zero, is_vague: math.is_vague, ..Profile::OF_RESULT }
        }
        K::Add | K::Subtract | K::Remainder | K::Sqrt | K::Maximum | K::Minimum | K::Clamp => Profile::ONCE,
        K::Multiply | K::Divide => Profile::ONCE.underflows(),
        K::Reduce | K::Cumulative | K::ReduceWindow | K::DotGeneral | K::Convolution | K::Scatter => Profile::OF_OPERANDS,
        // Large narrow floats are integers; the unrounded values are not, and then there is no
        // power.
        K::Power => Profile::OF_RESULT.underflows().vague_where(|x, relative| relative > 1e-4 && x[0] < 0.0),
        K::Convert => Profile::OF_RESULT.underflows(),
        K::Rsqrt | K::Im2col | K::Winograd | K::UnpackInt4 | K::Fusion => Profile::OF_RESULT,
        K::BitcastConvert => Profile::EXACT.vague_where(|x, _| x[0].is_nan()),
        K::Abs
        | K::Ceil
        | K::Floor
        | K::RoundNearestAfz
        | K::RoundNearestEven
        | K::Sign
        | K::Negate
        | K::NextAfter
        | K::Select => Profile::EXACT,
        K::BroadcastInDim
        | K::Concatenate
        | K::Constant
        | K::DimValue
        | K::DynamicSlice
        | K::DynamicUpdateSlice
        | K::Gather
        | K::Iota
        | K::Pad
        | K::Reshape
        | K::Reverse
        | K::Slice
        | K::Sort
        | K::TopK
        | K::Transpose
        | K::Weight => Profile::EXACT,
        K::Call | K::If | K::While | K::Return | K::Assert | K::BindDim => Profile::EXACT,
        // Integers and truth values have no errors.
        K::And
        | K::Compare
        | K::CountLeadingZeros
        | K::GetDimensionSize
        | K::IsFinite
        | K::IsInf
        | K::IsNan
        | K::Nonzero
        | K::Not
        | K::Or
        | K::Popcnt
        | K::RngBitGenerator
        | K::ShiftLeft
        | K::ShiftRightArithmetic
        | K::ShiftRightLogical
        | K::Xor => Profile::EXACT,
        family!(kernel) | family!(grid) | family!(host) | family!(library) => Profile::OF_RESULT,
    }
}

/// Returns true if each float among the operands of an op on single elements is a nonzero number at
/// a position.
fn are_numbers(args: &[Val], at: usize) -> bool {
    let is_number = |arg: &Val| match arg {
        Val::Tensor(tensor) if tensor.dtype().is_float() => {
            let x = tensor.at(at).as_f64();
            x != 0.0 && x.is_finite()
        }
        _ => false,
    };
    args.iter().all(is_number)
}

/// Returns true if some operands of an op on single elements are vague: see
/// [`Profile::is_vague`].
fn leaves_domain(profile: &Profile, args: &[Val]) -> bool {
    let Some(is_vague) = profile.is_vague else { return false };
    let floats = |arg: &Val| match arg {
        Val::Tensor(tensor) if tensor.dtype().is_float() => Some(tensor.to_f64s()),
        _ => None,
    };
    let Some(operands) = args.iter().map(floats).collect::<Option<Vec<Vec<f64>>>>() else { return false };
    let relative = relative_error(args);
    let count = operands.iter().map(Vec::len).min().unwrap_or(0);
    (0..count).any(|i| is_vague(&operands.iter().map(|operand| operand[i]).collect::<Vec<_>>(), relative))
}

/// Returns the largest relative error of a number like the first operand.
fn relative_error(args: &[Val]) -> f64 {
    match args.first() {
        Some(Val::Tensor(tensor)) => format(tensor.dtype()).0,
        _ => 0.0,
    }
}

impl Noise {
    /// Disturbs the operands of an op that accumulates.
    pub(super) fn disturb_operands(&mut self, function: &Function, data: &InstData, args: &mut [Val]) {
        let profile = profile(data.kind);
        self.is_vague |= leaves_domain(&profile, args);
        if profile.rounding != Rounding::Operands {
            return;
        }
        let multiplies = data.regions.first().is_some_and(|&body| monoid(function, body) == Some(OpKind::Multiply));
        for arg in args {
            let Val::Tensor(tensor) = arg else { continue };
            if tensor.dtype().is_float() {
                self.is_vague |= may_overflow(tensor, multiplies);
                *tensor = Rc::new(self.disturbed(tensor, &|_| false));
            }
        }
    }

    /// Disturbs the results of another op that rounds.
    pub(super) fn disturb_results(&mut self, kind: OpKind, args: &[Val], results: &mut [Val]) {
        let profile = profile(kind);
        if profile.rounding == Rounding::Exact {
            return;
        }
        for result in results {
            let Val::Tensor(tensor) = result else { continue };
            let is_narrow = matches!(tensor.dtype(), DType::BF16 | DType::F16);
            if is_narrow && profile.rounding == Rounding::Once {
                self.is_vague |= tensor.dtype() == DType::BF16 && has_denormals(profile.zero, tensor, args);
            } else if tensor.dtype().is_float() {
                self.is_vague |= tensor.to_f64s().iter().any(|&x| is_extreme(profile.zero, tensor.dtype(), x));
                let vanished = |i| is_narrow && profile.zero == Zero::Underflow && are_numbers(args, i);
                *tensor = Rc::new(self.disturbed(tensor, &vanished));
            }
        }
    }

    /// Disturbs a tensor; `vanished` returns true if a 0 may be a number that its type is too
    /// narrow for.
    fn disturbed(&mut self, tensor: &Tensor, vanished: &dyn Fn(usize) -> bool) -> Tensor {
        let dtype = tensor.dtype();
        let (relative, smallest) = format(dtype);
        Tensor::from_fn(dtype, tensor.dims().to_vec(), |i| {
            let x = tensor.at(i).as_f64();
            let is_disturbed = self.random.unit() < self.share;
            let unit = 2.0 * self.random.unit() - 1.0;
            if !is_disturbed {
                return Scalar::Float(x);
            }
            Scalar::Float(match x {
                // Its sign says on which side of 0 it was.
                0.0 if unit > 0.0 && vanished(i) => smallest.copysign(x),
                // The sign of a zero may depend on an order.
                0.0 => 0_f64.copysign(unit),
                x if x.abs() < smallest * 64.0 => x + smallest * (4.0 * unit).round(),
                // A negative number has a power if the exponent is an integer: a nearly integral
                // value may be one.
                x if (x - x.round()).abs() <= relative * x.abs() && self.random.unit() < ROUND => x.round(),
                x => x * (1.0 + unit * relative),
            })
        })
    }
}

/// Returns true if the sum, or product, of the numbers may overflow the type on the way to its end.
fn may_overflow(tensor: &Tensor, multiplies: bool) -> bool {
    let numbers = tensor.to_f64s();
    let finite = numbers.iter().map(|x| x.abs()).filter(|x| x.is_finite() && *x > 0.0);
    if multiplies {
        return finite.map(|x| x.log2().abs()).sum::<f64>() > if tensor.dtype() == DType::F64 { 1000.0 } else { 120.0 };
    }
    let most = match tensor.dtype() {
        // Summed in f32.
        DType::F16 => 1e30,
        DType::F64 => 1e150,
        _ => 1e18,
    };
    finite.fold(0.0, f64::max) > most
}

/// Returns true if some results of bf16 are denormal, or products of numbers that vanish: f32, in
/// which they are computed, has rounded them already.
fn has_denormals(zero: Zero, results: &Tensor, args: &[Val]) -> bool {
    let least = f64::from(f32::MIN_POSITIVE);
    let vanished = |i: usize| zero == Zero::Underflow && are_numbers(args, i);
    let is_denormal = |(i, x): (usize, f64)| x.abs() < least && (x != 0.0 || vanished(i));
    results.to_f64s().into_iter().enumerate().any(is_denormal)
}

/// Returns true if a value is beyond the range of a narrow float, while f32 continues.
fn is_extreme(zero: Zero, dtype: DType, x: f64) -> bool {
    match dtype {
        DType::F16 => x.is_infinite() || x.abs() < 6.2e-5,
        // As small as f32 goes, bf16 has few numbers.
        DType::BF16 => zero == Zero::Never && x == 0.0,
        _ => false,
    }
}

#[cfg(test)]
mod tests {
    use super::{Rounding, profile, run_noisy};
    use crate::{
        interp::{Limits, Tensor, scalar::Scalar},
        ops::{OPS, Trait},
        text::parse,
        types::DType,
    };

    /// Returns the results of noisy runs on a bf16 element, without signs and repetitions: `body`
    /// computes `%r` of `%x`.
    fn noisy(body: &str, x: f64) -> Vec<f64> {
        let text = format!("func @main(%x: tensor<1xbf16>) -> tensor<1xbf16> {{ {body} return %r : tensor<1xbf16> }}");
        let module = parse(&text).expect("it is a program");
        let input = [Tensor::from_fn(DType::BF16, vec![1], |_| Scalar::Float(x))];
        let limits = Limits { steps: 100, bytes: 1000, depth: 2 };
        let run = |seed| run_noisy(&module, "main", &input, limits, seed).outputs.expect("nothing fails")[0].to_f64s()[0].abs();
        let mut found: Vec<f64> = (0..64).map(run).collect();
        found.sort_by(f64::total_cmp);
        found.dedup();
        found
    }

    #[test]
    fn ops_that_move_elements_are_exact() {
        for def in OPS.iter().filter(|def| def.has(Trait::Movement)) {
            assert!(profile(def.kind).rounding == Rounding::Exact, "{}", def.name);
        }
    }

    const CEIL_OF_HALF: &str = "
        %wide = convert %x : (tensor<1xbf16>) -> tensor<1xf32>
        %half = constant dense<0.5> : tensor<1xf32>
        %p = multiply %wide, %half : tensor<1xf32>
        %q = convert %p : (tensor<1xf32>) -> tensor<1xbf16>
        %r = ceil %q : tensor<1xbf16>";

    #[test]
    fn what_is_too_small_for_a_narrow_type_may_be_no_zero() {
        assert_eq!(noisy(CEIL_OF_HALF, 2f64.powi(-133)), [0.0, 1.0]);
        assert_eq!(noisy(CEIL_OF_HALF, -(2f64.powi(-133))), [0.0]);
    }

    #[test]
    fn half_of_zero_is_zero() {
        assert_eq!(noisy(CEIL_OF_HALF, 0.0), [0.0]);
    }

    #[test]
    fn arithmetic_of_narrow_floats_is_exact() {
        let body = "
            %third = constant dense<0.333> : tensor<1xbf16>
            %p = multiply %x, %third : tensor<1xbf16>
            %r = remainder %p, %third : tensor<1xbf16>";
        assert_eq!(noisy(body, 7.0).len(), 1);
        assert_eq!(noisy(body, 16384.0).len(), 1);
    }

    #[test]
    fn what_is_nearly_an_integer_may_be_one() {
        let body = "
            %wide = convert %x : (tensor<1xbf16>) -> tensor<1xf64>
            %less = constant dense<0.9999999999999999> : tensor<1xf64>
            %p = multiply %wide, %less : tensor<1xf64>
            %q = power %p, %p : tensor<1xf64>
            %r = convert %q : (tensor<1xf64>) -> tensor<1xbf16>";
        let found = noisy(body, -1.0);
        assert!(found.contains(&1.0) && found.iter().any(|x| x.is_nan()), "{found:?}");
    }
}
