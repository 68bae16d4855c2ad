//! Samples sizes at which layouts are compared.
//!
//! No fact says which of two layouts is smaller if their sizes are sums of maxima, so they are
//! evaluated at samples. Sizes that the facts exclude are no samples: an image that must have 196
//! patches is never 4,000 by 4,000.
//!
//! Invariant: samples decide how much memory a call takes, never its results.
use disc_ir::{
    Dim, Symbol,
    dim::{Fact, Facts},
};
use std::collections::{BTreeSet, HashMap};

/// The values that dims take in turn: strides of some hundred elements leave nothing of a short
/// sound, and squares outgrow all else at long ones.
const USUAL: [[i64; 2]; 5] = [[64, 64], [8, 500], [500, 8], [4000, 4000], [8, 32_000]];
/// The values that are tried if facts exclude all of the usual ones.
const TRIED: [i64; 24] = [1, 2, 3, 4, 7, 8, 14, 16, 28, 32, 48, 56, 64, 96, 112, 128, 192, 196, 224, 256, 384, 448, 512, 1024];
/// The number of samples to find, and the number of tries.
const WANTED: usize = 3;
const MOST_TRIES: usize = 1 << 14;

/// A layout that costs time has to save at least this fraction (1/50) of the arena.
const LEAST_GAIN: i64 = 50;

/// The value of each dim in one sample.
pub(super) type Sizes = HashMap<Symbol, i64>;

/// Returns sizes that satisfy the facts about these symbols; the usual ones if none is found.
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

/// The value of a dim at a sample; `None` if it is negative or too large.
pub(super) fn value(dim: &Dim, sizes: &Sizes) -> Option<i64> {
    dim.eval(&|symbol| sizes.get(symbol).copied()).ok().filter(|&value| value >= 0)
}

/// Returns true if `own` bytes instead of `others` are worth the time of a layout: at least one
/// sample saves a part of the arena, and none loses as much.
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
    /// Finds values for the remaining symbols, the largest first, one sample for each value of the
    /// first.
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
