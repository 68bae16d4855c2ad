//! Represents one fact about dims, as the `where` section of a function states it, and its text
//! form.
//!
//! ```text
//! fact = dim "==" dim | dim "%" number "==" "0"
//!      | dim ("<=" | "<" | ">=" | ">") dim | number ("<=" | "<") dim ("<=" | "<") number
//!      | dim "likely" "[" number { "," number } "]"
//! ```

use std::fmt;
use std::str::FromStr;

use super::interval::Range;
use super::node::Dim;
use super::parse::{DimParseError, Parser};
use super::remainder::split_remainders;

/// A statement that holds for the dims of a function, or (`likely`) that is worth preparing for.
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Fact {
    /// Both sides have the same value: `B == S`, `B*S == 12*N`.
    Equal(Dim, Dim),
    /// The dim is in the range: `1 <= S <= 512`.
    Range(Dim, Range),
    /// The dim is a multiple of the number: `S % 8 == 0`.
    Divisible(Dim, i64),
    /// The dim often has one of these values: `S likely [64, 128]`. Never used as a proof.
    Likely(Dim, Vec<i64>),
}

impl Fact {
    /// The fact that one dim is at most another.
    pub fn less_equal(low: &Dim, high: &Dim) -> Fact {
        match (low.as_const(), high.as_const()) {
            (Some(low), _) => Fact::Range(high.clone(), Range { lo: Some(low), hi: None }),
            (_, Some(high)) => Fact::Range(low.clone(), Range { lo: None, hi: Some(high) }),
            _ => Fact::Range(low - high, Range { lo: None, hi: Some(0) }),
        }
    }

    /// Calls `visit` for each symbol in the fact.
    pub fn visit_symbols(&self, visit: &mut dyn FnMut(&super::Symbol)) {
        match self {
            Fact::Equal(a, b) => [a, b].into_iter().for_each(|dim| dim.visit_symbols(visit)),
            Fact::Range(dim, _) | Fact::Divisible(dim, _) | Fact::Likely(dim, _) => dim.visit_symbols(visit),
        }
    }

    /// The fact with every dim replaced.
    pub(super) fn map(&self, map: &mut dyn FnMut(&Dim) -> Dim) -> Fact {
        match self {
            Fact::Equal(a, b) => Fact::Equal(map(a), map(b)),
            Fact::Range(dim, range) => Fact::Range(map(dim), *range),
            Fact::Divisible(dim, by) => Fact::Divisible(map(dim), *by),
            Fact::Likely(dim, values) => Fact::Likely(map(dim), values.clone()),
        }
    }

    /// Returns true if the fact holds for these values of the symbols; `None` if a dim has no
    /// value. A likely value always holds.
    pub fn holds(&self, value_of: &dyn Fn(&super::Symbol) -> Option<i64>) -> Option<bool> {
        let value = |dim: &Dim| dim.eval(value_of).ok();
        Some(match self {
            Fact::Equal(a, b) => value(a)? == value(b)?,
            Fact::Range(dim, range) => range.contains(value(dim)?),
            Fact::Divisible(dim, by) => value(dim)?.checked_rem(*by).is_some_and(|rest| rest == 0),
            Fact::Likely(..) => true,
        })
    }

    /// Parses the fact in `text`.
    pub fn parse(text: &str) -> Result<Fact, DimParseError> {
        let mut parser = Parser::new(text)?;
        let fact = parser.fact()?;
        parser.end()?;
        Ok(fact)
    }

    /// Parses the fact at the start of `text`. Returns it with the number of bytes it takes (with
    /// white space around it).
    pub fn parse_prefix(text: &str) -> Result<(Fact, usize), DimParseError> {
        let mut parser = Parser::new(text)?;
        let fact = parser.fact()?;
        parser.skip_space();
        Ok((fact, parser.offset()))
    }
}

impl fmt::Display for Fact {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Fact::Equal(a, b) => write!(f, "{a} == {b}"),
            Fact::Range(dim, Range { lo: Some(lo), hi: Some(hi) }) => write!(f, "{lo} <= {dim} <= {hi}"),
            Fact::Range(dim, Range { lo: Some(lo), hi: None }) => write!(f, "{lo} <= {dim}"),
            Fact::Range(dim, Range { hi: Some(hi), .. }) => write!(f, "{dim} <= {hi}"),
            Fact::Range(dim, _) => write!(f, "{} <= {dim}", i64::MIN),
            Fact::Divisible(dim, by) => {
                if dim.as_symbol().is_some() {
                    write!(f, "{dim} % {by} == 0")
                } else {
                    write!(f, "({dim}) % {by} == 0")
                }
            }
            Fact::Likely(dim, values) => {
                let values: Vec<String> = values.iter().map(i64::to_string).collect();
                write!(f, "{dim} likely [{}]", values.join(", "))
            }
        }
    }
}

impl FromStr for Fact {
    type Err = DimParseError;

    fn from_str(text: &str) -> Result<Fact, DimParseError> {
        Fact::parse(text)
    }
}

/// The direction of a comparison: `dim <= 4` and `dim < 5` are the same bound.
#[derive(Clone, Copy, PartialEq)]
enum Relation {
    Less { strict: bool },
    Greater { strict: bool },
}

impl Parser<'_> {
    pub(super) fn fact(&mut self) -> Result<Fact, DimParseError> {
        let first = self.dim()?;
        if self.peek_name() == "likely" {
            self.accept("likely");
            return Ok(Fact::Likely(first, self.numbers()?));
        }
        if self.accept("==") {
            let second = self.dim()?;
            return Ok(divisibility(&first, &second).unwrap_or(Fact::Equal(first, second)));
        }
        let Some(relation) = self.relation() else {
            return Err(self.expected("`==`, `<=`, `<`, `>=`, `>` or `likely`"));
        };
        let second = self.dim()?;
        match self.relation() {
            None => self.comparison(&first, relation, &second),
            Some(again) if std::mem::discriminant(&again) == std::mem::discriminant(&relation) => {
                let third = self.dim()?;
                let (a, b) = (self.comparison(&first, relation, &second)?, self.comparison(&second, again, &third)?);
                match (first.as_const(), second.as_const(), third.as_const(), a, b) {
                    (Some(_), None, Some(_), Fact::Range(dim, x), Fact::Range(_, y)) => {
                        Ok(Fact::Range(dim, Range { lo: x.lo.or(y.lo), hi: x.hi.or(y.hi) }))
                    }
                    _ => Err(self.error("the bounds of a range must be numbers, with a dimension between them")),
                }
            }
            Some(_) => Err(self.error("both comparisons of a range must point the same way")),
        }
    }

    fn relation(&mut self) -> Option<Relation> {
        let relations = [
            ("<=", Relation::Less { strict: false }),
            (">=", Relation::Greater { strict: false }),
            ("<", Relation::Less { strict: true }),
            (">", Relation::Greater { strict: true }),
        ];
        relations.into_iter().find_map(|(token, relation)| self.accept(token).then_some(relation))
    }

    fn comparison(&self, a: &Dim, relation: Relation, b: &Dim) -> Result<Fact, DimParseError> {
        let (low, high, strict) = match relation {
            Relation::Less { strict } => (a, b, i64::from(strict)),
            Relation::Greater { strict } => (b, a, i64::from(strict)),
        };
        let fits = |value: Option<i64>| value.ok_or_else(|| self.error("the bound does not fit 64 bits"));
        Ok(match (low.as_const(), high.as_const()) {
            (Some(low), _) => Fact::Range(high.clone(), Range { lo: Some(fits(low.checked_add(strict))?), hi: None }),
            (_, Some(high)) => Fact::Range(low.clone(), Range { lo: None, hi: Some(fits(high.checked_sub(strict))?) }),
            _ => Fact::Range(low - high, Range { lo: None, hi: Some(-strict) }),
        })
    }

    fn numbers(&mut self) -> Result<Vec<i64>, DimParseError> {
        self.expect("[")?;
        let mut numbers = vec![self.integer()?];
        while self.accept(",") {
            numbers.push(self.integer()?);
        }
        self.expect("]")?;
        Ok(numbers)
    }
}

/// Recognises `x % c == 0` as a divisibility, in any form of the remainder.
pub(super) fn divisibility(a: &Dim, b: &Dim) -> Option<Fact> {
    let (remainders, rest) = split_remainders(&(a - b));
    match remainders.as_slice() {
        [one] if rest.is_const(0) && one.scale.factors.is_empty() => Some(Fact::Divisible(one.dividend.clone(), one.divisor)),
        _ => None,
    }
}
