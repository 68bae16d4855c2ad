//! Sizes at which layouts are compared.
//!
//! No fact says which of two layouts is smaller where their sizes are sums of maxima, so that they are evaluated at some sizes. Sizes that facts exclude
//! say nothing about calls: an image that has to have 196 patches is not one of 4,000 by 4,000.
//!
//! Invariant: results never depend on samples, only what memory a call takes.
use disc_ir::{
    Dim, Symbol,
    dim::{Fact, Facts},
};
use std::collections::{BTreeSet, HashMap};

/// What dims are taken for, by turns: strides of some hundred elements leave nothing of a short sound, and squares outgrow everything at long ones.
const USUAL: [[i64; 2]; 5] = [[64, 64], [8, 500], [500, 8], [4000, 4000], [8, 32_000]];
/// What dims are tried for where facts exclude all of the usual sizes.
const TRIED: [i64; 24] = [1, 2, 3, 4, 7, 8, 14, 16, 28, 32, 48, 56, 64, 96, 112, 128, 192, 196, 224, 256, 384, 448, 512, 1024];
/// So many of these are looked for, and so many tries made.
const WANTED: usize = 3;
const MOST_TRIES: usize = 1 << 14;

/// What takes time has to save a part in so many of the arena.
const LEAST_GAIN: i64 = 50;

/// What dims are, in one sample.
pub(super) type Sizes = HashMap<Symbol, i64>;

/// Sizes that the facts allow, as far as they are about these symbols; the usual ones where none is found.
pub(super) fn samples(symbols: &BTreeSet<Symbol>, facts: &Facts) -> Vec<Sizes> {
    let usual: Vec<Sizes> =
        USUAL.iter().map(|sample| symbols.iter().cloned().zip(sample.iter().copied().cycle()).collect()).collect();
    let facts: Vec<Fact> = facts.iter().collect();
    let allowed: Vec<Sizes> = usual.iter().filter(|sizes| allow(&facts, sizes)).cloned().collect();
    if !allowed.is_empty() {
        return allowed;
    }
    let symbols: Vec<&Symbol> = symbols.iter().collect();
    let mut search = Search { facts, found: Vec::new(), tries: 0 };
    search.extend(&symbols, &mut Sizes::new());
    if search.found.is_empty() { usual } else { search.found }
}

/// A dim at a sample; `None` where it is negative or too large.
pub(super) fn value(dim: &Dim, sizes: &Sizes) -> Option<i64> {
    dim.eval(&|symbol| sizes.get(symbol).copied()).ok().filter(|&value| value >= 0)
}

/// Whether what takes `own` bytes at some sizes is worth its time where `others` are taken: it saves something at one of them, and loses as much at none.
pub(super) fn saves(own: &[i64], others: &[i64]) -> bool {
    let pairs = || own.iter().copied().zip(others.iter().copied());
    own.len() == others.len() && pairs().any(|(a, b)| saves_at(a, b)) && !pairs().any(|(a, b)| saves_at(b, a))
}

pub(super) fn saves_at(own: i64, other: i64) -> bool {
    own < other - other / LEAST_GAIN
}

fn allow(facts: &[Fact], sizes: &Sizes) -> bool {
    facts.iter().all(|fact| fact.holds(&|symbol| sizes.get(symbol).copied()) != Some(false))
}

struct Search {
    facts: Vec<Fact>,
    found: Vec<Sizes>,
    tries: usize,
}

impl Search {
    /// Finds values for the remaining symbols, the largest first, one sample for each value of the first symbol.
    fn extend(&mut self, rest: &[&Symbol], sizes: &mut Sizes) {
        let Some((&symbol, rest)) = rest.split_first() else { return self.found.push(sizes.clone()) };
        let before = self.found.len();
        for &size in TRIED.iter().rev() {
            self.tries += 1;
            let is_first = sizes.is_empty();
            if self.tries > MOST_TRIES || self.found.len() >= WANTED || !is_first && self.found.len() > before {
                break;
            }
            sizes.insert(symbol.clone(), size);
            if allow(&self.facts, sizes) {
                self.extend(rest, sizes);
            }
            sizes.remove(symbol);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn found(facts: &str) -> Vec<[i64; 2]> {
        let text = format!("func @f(%x: tensor<[A]x[B]xf32>) where {facts} {{\n  return\n}}\n");
        let module = disc_ir::parse(&text).unwrap();
        let symbols: BTreeSet<Symbol> = ["A", "B"].map(Symbol::new).into();
        let sizes = samples(&symbols, &module.functions[0].facts);
        sizes.iter().map(|sizes| ["A", "B"].map(|name| sizes[&Symbol::new(name)])).collect()
    }

    #[test]
    fn sizes_that_facts_exclude_are_left_out() {
        assert_eq!(found("A <= 64"), [[64, 64], [8, 500], [8, 32_000]]);
    }

    #[test]
    fn others_are_looked_for_where_none_is_left() {
        assert_eq!(found("A * B == 196"), [[196, 1], [28, 7], [14, 14]]);
        assert_eq!(found("A % 3 == 0, B == A"), [[384, 384], [192, 192], [96, 96]]);
    }
}
