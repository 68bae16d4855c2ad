//! Prints dims, as in `tensor<[2*B]x[(S+1)/2]xf32>` between the brackets. `parse` reads the text
//! back.
//!
//! Operands of `/` and `%`, and factors that are no symbol, number or call, are in parentheses, so
//! nobody has to remember how these operators associate. Constants come last, and the first term is
//! positive if any is.

use std::fmt::{self, Write};

use super::node::{Dim, Kind, Repr, Term};
use super::remainder::{Remainder, split_remainders};

impl fmt::Display for Dim {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.0 {
            Repr::Const(value) => write!(f, "{value}"),
            Repr::Symbol(symbol) => write!(f, "{symbol}"),
            Repr::Invalid(super::Defect::Overflow) => f.write_str("<overflow>"),
            Repr::Invalid(super::Defect::TooLarge) => f.write_str("<too large>"),
            Repr::Node(node) => match &node.kind {
                Kind::Sum(_) => write_sum(self, f),
                Kind::FloorDiv(a, b) => write_binary(a, '/', b, f),
                Kind::Mod(a, b) => write_binary(a, '%', b, f),
                Kind::Min(dims) => write_call("min", dims, f),
                Kind::Max(dims) => write_call("max", dims, f),
            },
        }
    }
}

impl fmt::Debug for Dim {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

fn write_binary(a: &Dim, operator: char, b: &Dim, f: &mut fmt::Formatter<'_>) -> fmt::Result {
    write_operand(a, f)?;
    f.write_char(operator)?;
    write_operand(b, f)
}

fn write_call(name: &str, dims: &[Dim], f: &mut fmt::Formatter<'_>) -> fmt::Result {
    f.write_str(name)?;
    for (i, dim) in dims.iter().enumerate() {
        write!(f, "{}{dim}", if i == 0 { "(" } else { ", " })?;
    }
    f.write_char(')')
}

fn write_operand(dim: &Dim, f: &mut fmt::Formatter<'_>) -> fmt::Result {
    let bare = match (&dim.0, dim.kind()) {
        (Repr::Const(value), _) => *value >= 0,
        (_, kind) => matches!(kind, None | Some(Kind::Min(_) | Kind::Max(_))),
    };
    if bare { write!(f, "{dim}") } else { write!(f, "({dim})") }
}

/// One summand: a term, or a remainder that was recognised in the sum.
enum Piece<'a> {
    Term(&'a Term),
    Remainder(&'a Remainder),
}

impl Piece<'_> {
    fn scale(&self) -> &Term {
        match self {
            Piece::Term(term) => term,
            Piece::Remainder(remainder) => &remainder.scale,
        }
    }

    /// Writes the piece without its sign. `leading_minus` states that a unary minus precedes it,
    /// which binds to the first factor only.
    fn write(&self, leading_minus: bool, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let scale = self.scale();
        let magnitude = scale.coefficient.unsigned_abs();
        let factors = scale.factors.iter().flat_map(|(dim, power)| std::iter::repeat_n(dim, *power as usize));
        let factors: Vec<&Dim> = factors.collect();
        let others = usize::from(matches!(self, Piece::Remainder(_)));
        let mut separator = "";
        if magnitude != 1 || factors.len() + others == 0 {
            write!(f, "{magnitude}")?;
            separator = "*";
        }
        let alone = separator.is_empty() && factors.len() + others == 1 && !leading_minus;
        for factor in factors {
            f.write_str(separator)?;
            let written = if alone { write!(f, "{factor}") } else { write_operand(factor, f) };
            written?;
            separator = "*";
        }
        if let Piece::Remainder(remainder) = self {
            let (open, close) = if alone { ("", "") } else { ("(", ")") };
            write!(f, "{separator}{open}")?;
            write_binary(&remainder.dividend, '%', &Dim::constant(remainder.divisor), f)?;
            f.write_str(close)?;
        }
        Ok(())
    }
}

fn write_sum(dim: &Dim, f: &mut fmt::Formatter<'_>) -> fmt::Result {
    let (remainders, rest) = split_remainders(dim);
    let terms = rest.to_terms();
    let mut pieces: Vec<Piece> = remainders.iter().map(Piece::Remainder).chain(terms.iter().map(Piece::Term)).collect();
    if let Some(first_positive) = pieces.iter().position(|piece| piece.scale().coefficient > 0) {
        pieces[..=first_positive].rotate_right(1);
    }
    for (i, piece) in pieces.iter().enumerate() {
        let negative = piece.scale().coefficient < 0;
        f.write_str(if negative {
            "-"
        } else if i > 0 {
            "+"
        } else {
            ""
        })?;
        piece.write(negative && i == 0, f)?;
    }
    Ok(())
}
