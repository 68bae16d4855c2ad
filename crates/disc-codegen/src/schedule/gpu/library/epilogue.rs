//! Recognises what a group computes from the sums of a matmul or a convolution, where a library can
//! compute it: a bias, and a function of the sum with it.
//!
//! Ops are read as polynomials of the sum `y` and of one hyperbolic tangent `t`, so a function is
//! known in any form that it is written in.
use crate::schedule::Group;
use disc_abi::Activation;
use disc_ir::{Attr, DType, Dim, OpKind, Value};
use disc_passes::analysis::query::Query;
use std::collections::{BTreeMap, HashMap};

/// A bias and a function of the sum with it.
pub(super) struct Epilogue {
    /// The input of the group that is added: an element for each column, or for each feature.
    pub(super) bias: Option<Value>,
    pub(super) activation: Activation,
}

/// The dimension that a bias has an element for.
#[derive(Clone, Copy)]
pub(super) enum Place<'d> {
    /// The last one, of this size.
    Columns(&'d Dim),
    /// The second one, after batches: the sizes of both.
    Features([&'d Dim; 2]),
}

/// Coefficients by the powers of `y` and `t`; none is 0.
type Polynomial = BTreeMap<[u8; 2], f64>;

/// Terms of a higher degree are of no function that is known.
const MOST_DEGREE: u8 = 4;

impl Epilogue {
    /// Returns the epilogue by which an output is computed from sums whose bias has such a place,
    /// if it is one and keeps the order of the elements.
    pub(super) fn of(group: &Group<'_>, result: Value, output: Value, place: Place<'_>) -> Option<Self> {
        let rounded = group.tensor(output).dtype;
        let mut reader = Reader { group, result, rounded, place, bias: None, inner: None, known: HashMap::new() };
        let activation = reader.activation(output)?;
        Some(Self { bias: reader.bias.flatten(), activation })
    }
}

struct Reader<'g> {
    group: &'g Group<'g>,
    result: Value,
    /// The type that a library rounds to, once.
    rounded: DType,
    place: Place<'g>,
    /// The bias of `y`, once `y` was met: each time the same.
    bias: Option<Option<Value>>,
    /// The operand of the tangent.
    inner: Option<Polynomial>,
    known: HashMap<Value, Polynomial>,
}

impl Reader<'_> {
    fn activation(&mut self, output: Value) -> Option<Activation> {
        let output = self.behind_moves(output);
        if let Some([a, b]) = self.operands(output, OpKind::Maximum) {
            let (sum, other) = if self.constant(b).is_some() { (a, b) } else { (b, a) };
            let is_relu = self.constant(other) == Some(0.0) && self.polynomial(sum)? == y();
            return is_relu.then_some(Activation::Relu);
        }
        let found = self.polynomial(output)?;
        if found == y() {
            return Some(Activation::None);
        }
        let factor = (2.0 / std::f64::consts::PI).sqrt();
        let halves = Polynomial::from([([1, 0], 0.5), ([1, 1], 0.5)]);
        let inner = Polynomial::from([([1, 0], factor), ([3, 0], factor * 0.044_715)]);
        let is_gelu = self.is_near(&found, &halves) && self.inner.as_ref().is_some_and(|found| self.is_near(found, &inner));
        is_gelu.then_some(Activation::GeluTanh)
    }

    /// Reads a value as a polynomial.
    fn polynomial(&mut self, value: Value) -> Option<Polynomial> {
        let value = self.behind_moves(value);
        if let Some(known) = self.known.get(&value) {
            return Some(known.clone());
        }
        let found = self.read(value)?;
        self.known.insert(value, found.clone());
        Some(found)
    }

    fn read(&mut self, value: Value) -> Option<Polynomial> {
        if let Some(constant) = self.constant(value) {
            return Some(cleaned(Polynomial::from([([0, 0], constant)])));
        }
        if value == self.result {
            return self.sum_with(None);
        }
        if let Some([a, b]) = self.operands(value, OpKind::Add)
            && let Some(bias) = match (self.behind_moves(a) == self.result, self.behind_moves(b) == self.result) {
                (true, false) => self.bias_of(b),
                (false, true) => self.bias_of(a),
                _ => None,
            }
        {
            return self.sum_with(Some(bias));
        }
        let function = self.group.function;
        let inst = function.defining(value)?;
        let operands = function.operands(inst).to_vec();
        match (function.kind_of(inst), &operands[..]) {
            (OpKind::Add, &[a, b]) => Some(sum(&self.polynomial(a)?, &self.polynomial(b)?, 1.0)),
            (OpKind::Subtract, &[a, b]) => Some(sum(&self.polynomial(a)?, &self.polynomial(b)?, -1.0)),
            (OpKind::Multiply, &[a, b]) => product(&self.polynomial(a)?, &self.polynomial(b)?),
            (OpKind::Negate, &[a]) => Some(sum(&Polynomial::new(), &self.polynomial(a)?, -1.0)),
            (OpKind::Divide, &[a, b]) => {
                let divisor = self.constant(b).filter(|divisor| *divisor != 0.0)?;
                Some(sum(&Polynomial::new(), &self.polynomial(a)?, 1.0 / divisor))
            }
            (OpKind::Power, &[a, b]) => {
                let power = self.constant(b).filter(|power| [2.0, 3.0].contains(power))?;
                let (one, mut all) = (self.polynomial(a)?, Polynomial::from([([0, 0], 1.0)]));
                for _ in 0..power as u32 {
                    all = product(&all, &one)?;
                }
                Some(all)
            }
            (OpKind::Tanh, &[a]) => {
                let inner = self.polynomial(a)?;
                let is_one = self.inner.get_or_insert_with(|| inner.clone()) == &inner;
                is_one.then(|| Polynomial::from([([0, 1], 1.0)]))
            }
            _ => None,
        }
    }

    /// Returns `y`, if it has this bias wherever it is met.
    fn sum_with(&mut self, bias: Option<Value>) -> Option<Polynomial> {
        (*self.bias.get_or_insert(bias) == bias).then(y)
    }

    /// Returns the input that a value repeats along all dimensions but that of a bias.
    fn bias_of(&self, value: Value) -> Option<Value> {
        let (group, function) = (self.group, self.group.function);
        let inst = function.defining(value).filter(|&inst| function.kind_of(inst) == OpKind::BroadcastInDim)?;
        let input = self.unwidened(function.operands(inst)[0]);
        let (from, to) = (group.tensor(input), group.tensor(value));
        let is_same_type = [self.rounded, group.tensor(self.result).dtype].contains(&from.dtype);
        let equal = |a: &Dim, b: &Dim| group.solver.equal(a, b);
        let (along, size) = match self.place {
            Place::Columns(size) => (to.rank().checked_sub(1)?, size),
            Place::Features([batch, size]) => (equal(to.dims.first()?, batch).then_some(1)?, size),
        };
        let own = function.axes(inst, "dims").iter().position(|&axis| axis == along)?;
        let is_along = from.dims.iter().enumerate().all(|(axis, size)| axis == own || size.as_const() == Some(1));
        let has_size = [from.dims.get(own)?, to.dims.get(along)?].into_iter().all(|found| equal(found, size));
        (group.inputs().contains(&input) && is_same_type && is_along && has_size).then_some(input)
    }

    /// Returns the value that is read as a type that holds it.
    fn unwidened(&self, value: Value) -> Value {
        let function = self.group.function;
        let inst = function.defining(value).filter(|&inst| function.kind_of(inst) == OpKind::Convert);
        let source = inst.map_or(value, |inst| function.operands(inst)[0]);
        if function.ty(value).dtype().holds(function.ty(source).dtype()) { source } else { value }
    }

    /// Returns the value that another one only writes with other sizes, or as another type of
    /// floats. A cast to a type that is narrower than the output's rounds more than a library does.
    fn behind_moves(&self, mut value: Value) -> Value {
        let function = self.group.function;
        while value != self.result
            && let Some(inst) = function.defining(value)
            && matches!(function.kind_of(inst), OpKind::Reshape | OpKind::Convert)
            && function.ty(function.operands(inst)[0]).dtype().is_float()
            && function.ty(value).dtype().holds(self.rounded)
        {
            value = function.operands(inst)[0];
        }
        value
    }

    fn operands(&self, value: Value, kind: OpKind) -> Option<[Value; 2]> {
        let function = self.group.function;
        let inst = function.defining(value).filter(|&inst| function.kind_of(inst) == kind)?;
        function.operands(inst).try_into().ok()
    }

    /// Returns the number that every element of a value is.
    fn constant(&self, value: Value) -> Option<f64> {
        let (function, value) = (self.group.function, self.behind_moves(value));
        let inst = function.defining(value)?;
        match (function.kind_of(inst), function.inst(inst).attrs.first()) {
            (OpKind::Constant, Some(Some(Attr::Literal(literal)))) => {
                (literal.dtype.is_float() && literal.stored_len() == 1).then(|| literal.f64_at(0))
            }
            (OpKind::BroadcastInDim, _) => self.constant(function.operands(inst)[0]),
            _ => None,
        }
    }

    /// Returns true if coefficients are those wanted, as the type of the sums rounds constants and
    /// products of a few of them.
    fn is_near(&self, found: &Polynomial, wanted: &Polynomial) -> bool {
        let bound = match self.group.tensor(self.result).dtype {
            DType::BF16 => 1.0 / 128.0,
            DType::F16 => 1.0 / 512.0,
            _ => 1e-5,
        };
        found.len() == wanted.len()
            && found.iter().zip(wanted).all(|((power, a), (other, b))| power == other && (a - b).abs() <= bound * b.abs())
    }
}

/// The sum itself.
fn y() -> Polynomial {
    Polynomial::from([([1, 0], 1.0)])
}

/// Returns `a + factor * b`.
fn sum(a: &Polynomial, b: &Polynomial, factor: f64) -> Polynomial {
    let mut all = a.clone();
    for (&power, coefficient) in b {
        *all.entry(power).or_default() += factor * coefficient;
    }
    cleaned(all)
}

/// Returns the product, unless its degree is too high.
fn product(a: &Polynomial, b: &Polynomial) -> Option<Polynomial> {
    let mut all = Polynomial::new();
    for (&[y, t], coefficient) in a {
        for (&[other_y, other_t], other) in b {
            let power = [y + other_y, t + other_t];
            if power.iter().sum::<u8>() > MOST_DEGREE {
                return None;
            }
            *all.entry(power).or_default() += coefficient * other;
        }
    }
    Some(cleaned(all))
}

fn cleaned(mut polynomial: Polynomial) -> Polynomial {
    polynomial.retain(|_, coefficient| *coefficient != 0.0);
    polynomial
}
