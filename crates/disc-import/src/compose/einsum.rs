//! Declares `einsum`: a sum over labelled axes.
use super::Composed;
use crate::emit::{Dot, Emitter, Sign};
use disc_ir::{Code, DType, Diagnostic, Value, ops::DTypeClass};
use std::sync::Arc;

composition! {
    /// Sums products over labelled axes, as `numpy.einsum`: pairs from the left; a label that no
    /// later operand and no result has is contracted with its last use.
    ///
    /// (C1) `equation` has one term for each tensor, and a label for each axis; `...` stands for
    /// axes that broadcast.
    /// (C2) All tensors have one element type.
    Einsum = "einsum"(xs: many(DTypeClass::NUMBER)) { equation: Arc<str> } -> (y) in einsum;
}

/// A tensor, with a label for each axis.
struct Term {
    x: Value,
    labels: Vec<char>,
}

impl Term {
    fn axis(&self, label: char) -> Option<usize> {
        self.labels.iter().position(|&own| own == label)
    }

    fn axes(&self, labels: &[char]) -> Vec<usize> {
        labels.iter().filter_map(|&label| self.axis(label)).collect()
    }
}

fn einsum(b: &Emitter<'_>, Einsum { xs, equation }: Einsum) -> Composed {
    let ranks: Vec<usize> = xs.iter().map(|&x| b.rank(x)).collect();
    let (terms, result) = labels(&equation, &ranks)?;
    let terms = xs.iter().zip(terms).map(|(&x, labels)| without_repeats(b, Term { x, labels }));
    let terms: Vec<Term> = terms.collect::<Result<_, _>>()?;
    let mut rest = terms.into_iter();
    let Some(mut term) = rest.next() else { return Err(bad(&equation, "there are no tensors")) };
    while let Some(next) = rest.next() {
        let later = rest.as_slice().iter().flat_map(|term| &term.labels);
        let needed: Vec<char> = result.iter().chain(later).copied().collect();
        term = contracted(b, term, next, &needed)?;
    }
    let term = summed(b, term, &result)?;
    Ok(vec![b.transpose(term.x, &term.axes(&result))?])
}

/// The labels of each operand and of the result; axes under an ellipsis get capital Greek letters,
/// from the last one on.
fn labels(equation: &str, ranks: &[usize]) -> Result<(Vec<Vec<char>>, Vec<char>), Diagnostic> {
    const HIDDEN: usize = 17;
    let equation = equation.replace(' ', "");
    let (left, right) = match equation.split_once("->") {
        Some((left, right)) => (left, Some(right)),
        None => (&equation[..], None),
    };
    let terms: Vec<&str> = left.split(',').collect();
    if terms.len() != ranks.len() {
        return Err(bad(&equation, &format!("{} terms for {} tensors", terms.len(), ranks.len())));
    }
    let spelled = |term: &str, count: usize| -> Vec<char> {
        let greek: String = (HIDDEN - count..HIDDEN).filter_map(|i| char::from_u32(0x391 + i as u32)).collect();
        term.replace("...", &greek).chars().collect()
    };
    let mut most = 0;
    let mut found = Vec::with_capacity(terms.len());
    for (term, &rank) in terms.iter().zip(ranks) {
        let own = term.replace("...", "").chars().count();
        let hidden = rank.checked_sub(own).filter(|&hidden| hidden <= HIDDEN && (hidden == 0 || term.contains("...")));
        let Some(hidden) = hidden else {
            return Err(bad(&equation, &format!("the term `{term}` labels {own} axes of a tensor of rank {rank}")));
        };
        most = most.max(hidden);
        found.push(spelled(term, hidden));
    }
    let result = right.map_or_else(|| format!("...{}", used_once(&terms)), str::to_owned);
    let result = spelled(&result, most);
    match result.iter().find(|label| !found.iter().any(|labels| labels.contains(label))) {
        Some(label) => Err(bad(&equation, &format!("no tensor has the label `{label}` of the result"))),
        None => Ok((found, result)),
    }
}

/// The labels that occur once, in order: those of the result where the equation leaves it out.
fn used_once(terms: &[&str]) -> String {
    let all: Vec<char> = terms.concat().replace("...", "").chars().collect();
    let mut once: Vec<char> =
        all.iter().copied().filter(|label| all.iter().filter(|other| *other == label).count() == 1).collect();
    once.sort_unstable();
    once.into_iter().collect()
}

fn bad(equation: &str, reason: &str) -> Diagnostic {
    Diagnostic::new(Code::E0202, format!("(C1) equation `{equation}`: {reason}"))
}

/// Takes the diagonal of axes with one label.
fn without_repeats(b: &Emitter<'_>, mut term: Term) -> Result<Term, Diagnostic> {
    let mut at = 0;
    while at < term.labels.len() {
        let again = (at + 1..term.labels.len()).find(|&other| term.labels[other] == term.labels[at]);
        let Some(other) = again else {
            at += 1;
            continue;
        };
        let sizes = b.shape(term.x);
        let same = b.compare("EQ", b.iota(&sizes, at, DType::I64)?, b.iota(&sizes, other, DType::I64)?)?;
        b.require(&sizes[at], Sign::Eq, &sizes[other])?;
        // One element of each sum is not zero.
        let diagonal = b.select(same, term.x, b.lift(0, b.dtype(term.x))?)?;
        term.x = b.sum(diagonal, &[other], false)?;
        term.labels.remove(other);
    }
    Ok(term)
}

/// Contracts two terms. Labels of one of them that nobody needs are summed first; shared labels are
/// batch or contracted.
fn contracted(b: &Emitter<'_>, left: Term, right: Term, needed: &[char]) -> Result<Term, Diagnostic> {
    let left = summed(b, left, &[&right.labels[..], needed].concat())?;
    let right = summed(b, right, &[&left.labels[..], needed].concat())?;
    let shared: Vec<char> = left.labels.iter().copied().filter(|label| right.labels.contains(label)).collect();
    let (batch, gone): (Vec<char>, Vec<char>) = shared.iter().partition(|label| needed.contains(label));
    let (x, y) = (repeated(b, &left, &right)?, repeated(b, &right, &left)?);
    let form = Dot {
        batching: (&left.axes(&batch), &right.axes(&batch)),
        contracting: (&left.axes(&gone), &right.axes(&gone)),
        dtype: None,
    };
    let x = b.dot(x, y, &form)?;
    let free = left.labels.iter().chain(&right.labels).copied().filter(|label| !shared.contains(label));
    Ok(Term { x, labels: batch.iter().copied().chain(free).collect() })
}

/// The tensor, with axes of size 1 repeated as the other term has them.
fn repeated(b: &Emitter<'_>, term: &Term, other: &Term) -> Result<Value, Diagnostic> {
    let (own, theirs) = (b.shape(term.x), b.shape(other.x));
    let size = |(&label, size): (&char, disc_ir::Dim)| match other.axis(label) {
        Some(axis) if size.is_const(1) => theirs[axis].clone(),
        _ => size,
    };
    let sizes: Vec<disc_ir::Dim> = term.labels.iter().zip(own).map(size).collect();
    b.expand(term.x, &sizes)
}

/// Sums over the axes whose labels are not kept.
fn summed(b: &Emitter<'_>, term: Term, kept: &[char]) -> Result<Term, Diagnostic> {
    let gone: Vec<usize> = (0..term.labels.len()).filter(|&axis| !kept.contains(&term.labels[axis])).collect();
    let labels = term.labels.iter().copied().filter(|label| kept.contains(label)).collect();
    Ok(Term { x: b.sum(term.x, &gone, false)?, labels })
}
