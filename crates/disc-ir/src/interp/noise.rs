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
    ops::{OpKind, Trait, body::monoid},
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

/// Returns true if the op sums (or multiplies) many elements, so that its error is relative to them
/// and not to the result.
fn accumulates(kind: OpKind) -> bool {
    use OpKind as K;
    matches!(kind, K::Reduce | K::Cumulative | K::ReduceWindow | K::DotGeneral | K::Convolution | K::Scatter)
}

/// Returns true if the op is exact on floats.
fn is_exact(kind: OpKind) -> bool {
    use OpKind as K;
    matches!(
        kind,
        K::Abs
            | K::Ceil
            | K::Floor
            | K::RoundNearestAfz
            | K::RoundNearestEven
            | K::Sign
            | K::Negate
            | K::Select
            | K::BitcastConvert
    ) || matches!(
        kind,
        K::NextAfter | K::Constant | K::Weight | K::Iota | K::DimValue | K::Sort | K::TopK | K::If | K::While | K::Call
    ) || kind.def().has(Trait::Movement)
}

/// Returns true if compiled code rounds the op's exact result to a narrow float, as the interpreter
/// does.
fn rounds_once(kind: OpKind) -> bool {
    use OpKind as K;
    matches!(kind, K::Add | K::Subtract | K::Multiply | K::Divide | K::Remainder | K::Sqrt | K::Maximum | K::Minimum | K::Clamp)
}

/// Returns true if the op makes, of nonzero operands, numbers so small that narrow types give 0.
fn underflows(kind: OpKind) -> bool {
    use OpKind as K;
    matches!(kind, K::Power | K::Atan2 | K::BesselI1e | K::Convert | K::Zeta | K::Polygamma)
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

/// Returns true if the op has operands for which its error bound says nothing, or only bounds the
/// absolute error.
fn leaves_domain(kind: OpKind, args: &[Val]) -> bool {
    let any = |i: usize, holds: &dyn Fn(f64) -> bool| match args.get(i) {
        Some(Val::Tensor(tensor)) if tensor.dtype().is_float() => tensor.to_f64s().into_iter().any(holds),
        _ => false,
    };
    match kind {
        OpKind::BitcastConvert => any(0, &f64::is_nan),
        // Near a pole, an error of the operand decides between the largest and the smallest
        // numbers.
        OpKind::Tan => any(0, &|x| x.cos().abs() < 8.0 * relative_error(args) * x.abs()),
        // Large narrow floats are integers; the unrounded values are not, and then there is no
        // power.
        OpKind::Power => relative_error(args) > 1e-4 && any(0, &|x| x < 0.0),
        OpKind::Zeta => any(0, &|s| !(s > 1.0 && s <= 17.0)) || any(1, &|q| q.is_nan() || q <= 0.0),
        OpKind::Polygamma => any(0, &|n| !(0.0..8.0).contains(&n)) || any(1, &|x| x.is_nan() || x <= 0.0),
        OpKind::Digamma | OpKind::Lgamma => any(0, &|x| x < 0.0),
        _ => false,
    }
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
        let kind = data.kind;
        self.is_vague |= leaves_domain(kind, args);
        if !accumulates(kind) {
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
        if is_exact(kind) {
            return;
        }
        for result in results {
            let Val::Tensor(tensor) = result else { continue };
            let is_narrow = matches!(tensor.dtype(), DType::BF16 | DType::F16);
            if is_narrow && rounds_once(kind) {
                self.is_vague |= tensor.dtype() == DType::BF16 && has_denormals(kind, tensor, args);
            } else if tensor.dtype().is_float() {
                self.is_vague |= tensor.to_f64s().iter().any(|&x| is_extreme(kind, tensor.dtype(), x));
                let vanished = |i| is_narrow && underflows(kind) && are_numbers(args, i);
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
fn has_denormals(kind: OpKind, results: &Tensor, args: &[Val]) -> bool {
    let least = f64::from(f32::MIN_POSITIVE);
    let vanished = |i: usize| matches!(kind, OpKind::Multiply | OpKind::Divide) && are_numbers(args, i);
    let is_denormal = |(i, x): (usize, f64)| x.abs() < least && (x != 0.0 || vanished(i));
    results.to_f64s().into_iter().enumerate().any(is_denormal)
}

/// Returns true if a value is beyond the range of a narrow float, while f32 continues.
fn is_extreme(kind: OpKind, dtype: DType, x: f64) -> bool {
    // As small as f32 goes, bf16 has few numbers; these functions are never 0.
    let vanishes = matches!(kind, OpKind::Erfc | OpKind::Exponential | OpKind::Logistic);
    match dtype {
        DType::F16 => x.is_infinite() || x.abs() < 6.2e-5,
        DType::BF16 => vanishes && x == 0.0,
        _ => false,
    }
}

#[cfg(test)]
mod tests {
    use super::run_noisy;
    use crate::{
        interp::{Limits, Tensor, scalar::Scalar},
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
