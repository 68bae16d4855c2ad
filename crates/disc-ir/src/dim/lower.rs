//! Folds a dim into numbers (`eval`), other dims (`substitute`), or code of a backend.
//!
//! A backend implements [`DimLowering`], seven operations on its values; it needs to know nothing
//! of the canonical form.

use super::node::{Defect, Dim, Kind, Repr, Term};
use super::{DimView, Symbol};

/// The operations that a dim is made of, over the values of a backend. Semantics are those of
/// [`Dim`]: division rounds down, the remainder has the sign of the divisor, and both are 0 for a
/// divisor of 0.
pub trait DimLowering {
    /// A lowered value.
    type Value: Clone;
    /// The reason why lowering fails.
    type Error;

    /// A number.
    fn constant(&mut self, value: i64) -> Result<Self::Value, Self::Error>;
    /// The value of a dim.
    fn symbol(&mut self, symbol: &Symbol) -> Result<Self::Value, Self::Error>;
    /// `a + b`.
    fn add(&mut self, a: Self::Value, b: Self::Value) -> Result<Self::Value, Self::Error>;
    /// `a - b`.
    fn sub(&mut self, a: Self::Value, b: Self::Value) -> Result<Self::Value, Self::Error>;
    /// `a * b`.
    fn mul(&mut self, a: Self::Value, b: Self::Value) -> Result<Self::Value, Self::Error>;
    /// `a / b`, rounded down.
    fn floor_div(&mut self, a: Self::Value, b: Self::Value) -> Result<Self::Value, Self::Error>;
    /// `a % b`, with the sign of `b`. Called for divisors that are no constant only.
    fn modulo(&mut self, a: Self::Value, b: Self::Value) -> Result<Self::Value, Self::Error>;
    /// The smaller one.
    fn min(&mut self, a: Self::Value, b: Self::Value) -> Result<Self::Value, Self::Error>;
    /// The larger one.
    fn max(&mut self, a: Self::Value, b: Self::Value) -> Result<Self::Value, Self::Error>;
    /// The error for an expression that is not representable.
    fn invalid(&mut self, defect: Defect) -> Self::Error;

    /// Returns the value of a compound expression that was lowered before, if the backend keeps
    /// them.
    fn known(&mut self, _dim: &Dim) -> Option<Self::Value> {
        None
    }
    /// Receives every compound expression once it is lowered.
    fn keep(&mut self, _dim: &Dim, _value: &Self::Value) {}
}

impl Dim {
    /// Lowers the expression, operands first.
    pub fn lower<L: DimLowering + ?Sized>(&self, to: &mut L) -> Result<L::Value, L::Error> {
        let view = match self.view() {
            DimView::Const(value) => return to.constant(value),
            DimView::Symbol(symbol) => return to.symbol(symbol),
            DimView::Invalid(defect) => return Err(to.invalid(defect)),
            view => view,
        };
        if let Some(value) = to.known(self) {
            return Ok(value);
        }
        let value = match view {
            DimView::Sum(terms) => lower_sum(terms, to)?,
            DimView::FloorDiv(a, b) => {
                let (a, b) = (a.lower(to)?, b.lower(to)?);
                to.floor_div(a, b)?
            }
            DimView::Mod(a, b) => {
                let (a, b) = (a.lower(to)?, b.lower(to)?);
                to.modulo(a, b)?
            }
            DimView::Min(dims) => lower_all(dims, to, L::min)?,
            DimView::Max(dims) => lower_all(dims, to, L::max)?,
            DimView::Const(_) | DimView::Symbol(_) | DimView::Invalid(_) => unreachable!("returned above"),
        };
        to.keep(self, &value);
        Ok(value)
    }
}

/// One of the two-operand operations.
type Combine<L> = fn(
    &mut L,
    <L as DimLowering>::Value,
    <L as DimLowering>::Value,
) -> Result<<L as DimLowering>::Value, <L as DimLowering>::Error>;

fn lower_all<L: DimLowering + ?Sized>(dims: &[Dim], to: &mut L, combine: Combine<L>) -> Result<L::Value, L::Error> {
    let mut value = dims[0].lower(to)?;
    for dim in &dims[1..] {
        let other = dim.lower(to)?;
        value = combine(to, value, other)?;
    }
    Ok(value)
}

/// Starts with a positive term if there is one, so that `1 - S` needs no negation.
fn lower_sum<L: DimLowering + ?Sized>(terms: &[Term], to: &mut L) -> Result<L::Value, L::Error> {
    let lead = terms.iter().position(|term| term.coefficient > 0);
    let mut value = match lead {
        Some(lead) => lower_term(&terms[lead], to)?,
        None => to.constant(0)?,
    };
    for (i, term) in terms.iter().enumerate() {
        if Some(i) == lead {
            continue;
        }
        let negated = (term.coefficient < 0).then(|| term.coefficient.checked_neg()).flatten();
        value = match negated {
            Some(coefficient) => {
                let term = lower_factors(coefficient, &term.factors, to)?;
                to.sub(value, term)?
            }
            None => {
                let term = lower_term(term, to)?;
                to.add(value, term)?
            }
        };
    }
    Ok(value)
}

fn lower_term<L: DimLowering + ?Sized>(term: &Term, to: &mut L) -> Result<L::Value, L::Error> {
    lower_factors(term.coefficient, &term.factors, to)
}

fn lower_factors<L: DimLowering + ?Sized>(coefficient: i64, factors: &[(Dim, u32)], to: &mut L) -> Result<L::Value, L::Error> {
    let mut value = if coefficient == 1 && !factors.is_empty() { None } else { Some(to.constant(coefficient)?) };
    for (factor, power) in factors {
        let factor = factor.lower(to)?;
        for _ in 0..*power {
            value = Some(match value {
                Some(value) => to.mul(value, factor.clone())?,
                None => factor.clone(),
            });
        }
    }
    Ok(value.expect("a term has a coefficient or a factor"))
}

/// The reason why a dim has no value.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum EvalError {
    /// The symbol has no value.
    #[error("dimension {0} has no value")]
    Unbound(Symbol),
    /// The value (or a step on the way) does not fit.
    #[error("the dimension expression overflows 64 bits")]
    Overflow,
    /// The expression is not representable.
    #[error("{0}")]
    Invalid(Defect),
}

struct Eval<'a> {
    value_of: &'a dyn Fn(&Symbol) -> Option<i64>,
}

impl DimLowering for Eval<'_> {
    type Value = i128;
    type Error = EvalError;

    fn constant(&mut self, value: i64) -> Result<i128, EvalError> {
        Ok(value.into())
    }
    fn symbol(&mut self, symbol: &Symbol) -> Result<i128, EvalError> {
        (self.value_of)(symbol).map(i128::from).ok_or_else(|| EvalError::Unbound(symbol.clone()))
    }
    fn add(&mut self, a: i128, b: i128) -> Result<i128, EvalError> {
        a.checked_add(b).ok_or(EvalError::Overflow)
    }
    fn sub(&mut self, a: i128, b: i128) -> Result<i128, EvalError> {
        a.checked_sub(b).ok_or(EvalError::Overflow)
    }
    fn mul(&mut self, a: i128, b: i128) -> Result<i128, EvalError> {
        a.checked_mul(b).ok_or(EvalError::Overflow)
    }
    fn floor_div(&mut self, a: i128, b: i128) -> Result<i128, EvalError> {
        match b {
            0 => Ok(0),
            -1 => a.checked_neg().ok_or(EvalError::Overflow),
            _ => Ok(super::division::floor_div(a, b)),
        }
    }
    fn modulo(&mut self, a: i128, b: i128) -> Result<i128, EvalError> {
        let rest = if b == 0 || b == -1 { 0 } else { a % b };
        Ok(if rest != 0 && (rest < 0) != (b < 0) { rest + b } else { rest })
    }
    fn min(&mut self, a: i128, b: i128) -> Result<i128, EvalError> {
        Ok(a.min(b))
    }
    fn max(&mut self, a: i128, b: i128) -> Result<i128, EvalError> {
        Ok(a.max(b))
    }
    fn invalid(&mut self, defect: Defect) -> EvalError {
        EvalError::Invalid(defect)
    }
}

impl Dim {
    /// The value for these values of the symbols. Steps are taken in 128 bits: the result is exact,
    /// or an error.
    pub fn eval(&self, value_of: &dyn Fn(&Symbol) -> Option<i64>) -> Result<i64, EvalError> {
        let value = self.lower(&mut Eval { value_of })?;
        i64::try_from(value).map_err(|_| EvalError::Overflow)
    }

    /// Returns the dim with symbols replaced simultaneously (`None` keeps a symbol).
    pub fn substitute(&self, replacement: &dyn Fn(&Symbol) -> Option<Dim>) -> Dim {
        match &self.0 {
            Repr::Const(_) | Repr::Invalid(_) => self.clone(),
            Repr::Symbol(symbol) => replacement(symbol).unwrap_or_else(|| self.clone()),
            Repr::Node(_) => self.map_children(&mut |child| child.substitute(replacement)),
        }
    }

    /// The same operation on other operands (the factors of a sum, the two sides of a division,
    /// ..), put in canonical form.
    pub(super) fn map_children(&self, map: &mut dyn FnMut(&Dim) -> Dim) -> Dim {
        match self.kind() {
            None => self.clone(),
            Some(Kind::Sum(terms)) => Dim::sum(terms.iter().map(|term| {
                let factors = term.factors.iter().flat_map(|(factor, power)| {
                    let factor = map(factor);
                    std::iter::repeat_n(factor, *power as usize)
                });
                Dim::product(std::iter::once(Dim::constant(term.coefficient)).chain(factors))
            })),
            Some(Kind::FloorDiv(a, b)) => map(a).floor_div(&map(b)),
            Some(Kind::Mod(a, b)) => map(a).modulo(&map(b)),
            Some(Kind::Min(dims)) => Dim::min_of(dims.iter().map(map)).expect("a min has operands"),
            Some(Kind::Max(dims)) => Dim::max_of(dims.iter().map(map)).expect("a max has operands"),
        }
    }
}
