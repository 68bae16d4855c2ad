//! Stores dims: constants and symbols inline, everything else in a shared node with its hash and
//! size.
//!
//! It contains no algebra. The constructors in `arith`, `division` and `extremum` are the only ones
//! that build nodes, and they keep the canonical form; this file only compares, hashes and bounds.
//!
//! Invariants:
//! - Equality, order and hash are structural and agree. Nothing depends on addresses.
//! - No node is deeper than [`MAX_DEPTH`] or larger than [`MAX_NODES`], so every recursion over a
//!   dim is bounded.

use std::cmp::Ordering;
use std::collections::hash_map::DefaultHasher;
use std::fmt;
use std::hash::{Hash, Hasher};
use std::sync::Arc;

use smallvec::SmallVec;

use super::Symbol;

/// The deepest nesting of a dim, and of the text of one.
pub const MAX_DEPTH: usize = 64;
/// The most symbols, constants and operations in one dim.
pub const MAX_NODES: usize = 1 << 14;

/// The reason why an expression is not representable. Such a dim absorbs every operation (like a
/// NaN) and must be reported, never used.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Defect {
    /// A constant or a coefficient does not fit 64 bits.
    Overflow,
    /// The expression is nested deeper than [`MAX_DEPTH`] or has more than [`MAX_NODES`] parts.
    TooLarge,
}

impl fmt::Display for Defect {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Defect::Overflow => "a constant of the dimension expression does not fit 64 bits",
            Defect::TooLarge => "the dimension expression is too large",
        })
    }
}

#[derive(Clone)]
pub(super) enum Repr {
    Const(i64),
    Symbol(Symbol),
    Node(Arc<Node>),
    Invalid(Defect),
}

/// A symbolic integer expression in canonical form. See the [module page](self).
#[derive(Clone)]
pub struct Dim(pub(super) Repr);

pub(super) type Factors = SmallVec<[(Dim, u32); 2]>;

/// `coefficient * factor^power * ..`: one summand of a [`super::DimView::Sum`].
#[derive(Clone, PartialEq, Eq, Hash, Debug)]
pub struct Term {
    pub(super) coefficient: i64,
    pub(super) factors: Factors,
}

impl Term {
    /// Never 0.
    pub fn coefficient(&self) -> i64 {
        self.coefficient
    }

    /// The factors with their powers (>= 1), in order; none for a constant. A factor is a symbol, a
    /// division, a min or max, or (in a product that is kept unexpanded because it has too many
    /// terms) a sum.
    pub fn factors(&self) -> &[(Dim, u32)] {
        &self.factors
    }
}

pub(super) struct Node {
    hash: u64,
    nodes: u32,
    depth: u8,
    pub(super) kind: Kind,
}

#[derive(PartialEq, Eq, Hash, PartialOrd, Ord)]
pub(super) enum Kind {
    /// Not a constant, not a lone factor; terms sorted, their factors distinct, no coefficient 0.
    Sum(Vec<Term>),
    FloorDiv(Dim, Dim),
    /// The divisor is no constant: `x % 8` is stored as `x - 8*(x/8)`.
    Mod(Dim, Dim),
    /// Two or more operands, sorted, distinct.
    Min(Vec<Dim>),
    Max(Vec<Dim>),
}

impl Kind {
    fn measure(&self) -> (usize, usize) {
        let mut nodes = 1;
        let mut depth = 0;
        let mut add = |dim: &Dim, times: usize| {
            nodes += dim.nodes().saturating_mul(times);
            depth = depth.max(dim.depth());
        };
        match self {
            Kind::Sum(terms) => {
                for term in terms {
                    term.factors.iter().for_each(|(dim, power)| add(dim, *power as usize));
                }
                nodes += terms.len();
            }
            Kind::FloorDiv(a, b) | Kind::Mod(a, b) => [a, b].into_iter().for_each(|dim| add(dim, 1)),
            Kind::Min(dims) | Kind::Max(dims) => dims.iter().for_each(|dim| add(dim, 1)),
        }
        (nodes, depth + 1)
    }
}

impl Dim {
    /// Makes the dim of a canonical `kind`, or a defect if it would be too large. The caller
    /// guarantees the form.
    pub(super) fn from_kind(kind: Kind) -> Dim {
        let (nodes, depth) = kind.measure();
        if nodes > MAX_NODES || depth > MAX_DEPTH {
            return Dim(Repr::Invalid(Defect::TooLarge));
        }
        let mut hasher = DefaultHasher::new();
        kind.hash(&mut hasher);
        Dim(Repr::Node(Arc::new(Node { hash: hasher.finish(), nodes: nodes as u32, depth: depth as u8, kind })))
    }

    pub(super) fn kind(&self) -> Option<&Kind> {
        if let Repr::Node(node) = &self.0 { Some(&node.kind) } else { None }
    }

    /// Returns the terms if this is a stored sum (several terms, a coefficient, a power or a
    /// product).
    pub(super) fn sum_terms(&self) -> Option<&[Term]> {
        if let Some(Kind::Sum(terms)) = self.kind() { Some(terms) } else { None }
    }

    /// Returns the size of the expression: the number of its symbols, constants and operations (at
    /// most [`MAX_NODES`]).
    pub fn nodes(&self) -> usize {
        if let Repr::Node(node) = &self.0 { node.nodes as usize } else { 1 }
    }

    /// Returns the nesting depth of the expression: 0 for a constant or a symbol (at most
    /// [`MAX_DEPTH`]).
    pub fn depth(&self) -> usize {
        if let Repr::Node(node) = &self.0 { node.depth as usize } else { 0 }
    }
}

impl PartialEq for Dim {
    fn eq(&self, other: &Self) -> bool {
        match (&self.0, &other.0) {
            (Repr::Const(a), Repr::Const(b)) => a == b,
            (Repr::Symbol(a), Repr::Symbol(b)) => a == b,
            (Repr::Node(a), Repr::Node(b)) => Arc::ptr_eq(a, b) || (a.hash == b.hash && a.kind == b.kind),
            (Repr::Invalid(a), Repr::Invalid(b)) => a == b,
            _ => false,
        }
    }
}

impl Eq for Dim {}

impl Hash for Dim {
    fn hash<H: Hasher>(&self, state: &mut H) {
        match &self.0 {
            Repr::Const(value) => (0_u8, value).hash(state),
            Repr::Symbol(symbol) => (1_u8, symbol).hash(state),
            Repr::Node(node) => node.hash.hash(state),
            Repr::Invalid(defect) => (2_u8, defect).hash(state),
        }
    }
}

impl Ord for Dim {
    fn cmp(&self, other: &Self) -> Ordering {
        match (&self.0, &other.0) {
            (Repr::Const(a), Repr::Const(b)) => a.cmp(b),
            (Repr::Symbol(a), Repr::Symbol(b)) => a.cmp(b),
            (Repr::Node(a), Repr::Node(b)) if Arc::ptr_eq(a, b) => Ordering::Equal,
            (Repr::Node(a), Repr::Node(b)) => a.kind.cmp(&b.kind),
            (Repr::Invalid(a), Repr::Invalid(b)) => a.cmp(b),
            (a, b) => a.rank().cmp(&b.rank()),
        }
    }

    // `a.min(b)` on owned dims resolves to this method, not to `Dim::min`: it must be the minimum
    // of the values as well, never the one that is first in the structural order.
    fn min(self, other: Self) -> Self {
        Dim::min(&self, &other)
    }

    fn max(self, other: Self) -> Self {
        Dim::max(&self, &other)
    }

    fn clamp(self, low: Self, high: Self) -> Self {
        Dim::min(&Dim::max(&self, &low), &high)
    }
}

impl PartialOrd for Dim {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

impl Repr {
    fn rank(&self) -> u8 {
        match self {
            Repr::Const(_) => 0,
            Repr::Symbol(_) => 1,
            Repr::Node(_) => 2,
            Repr::Invalid(_) => 3,
        }
    }
}

/// The order of terms in a sum: higher degree first, then by factors; the constant comes last.
pub(super) fn compare_factors(a: &[(Dim, u32)], b: &[(Dim, u32)]) -> Ordering {
    let degree = |factors: &[(Dim, u32)]| factors.iter().map(|(_, power)| u64::from(*power)).sum::<u64>();
    degree(b).cmp(&degree(a)).then_with(|| {
        let pairs = a.iter().zip(b).map(|((x, p), (y, q))| x.cmp(y).then(q.cmp(p)));
        pairs.fold(Ordering::Equal, Ordering::then).then(a.len().cmp(&b.len()))
    })
}

impl Ord for Term {
    fn cmp(&self, other: &Self) -> Ordering {
        compare_factors(&self.factors, &other.factors).then(self.coefficient.cmp(&other.coefficient))
    }
}

impl PartialOrd for Term {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}
