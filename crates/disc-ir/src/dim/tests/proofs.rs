//! Checks random facts and proofs of a solver against every binding of a small domain.

use proptest::prelude::*;

use super::random::{NAMES, Tree, lookup, small_tree};
use crate::dim::{Dim, Fact, Facts, Range, Solver};

const DOMAIN: [i64; 8] = [0, 1, 2, 3, 4, 6, 8, 12];

fn fact() -> impl Strategy<Value = Fact> {
    let name = || (0..NAMES.len()).prop_map(|i| Dim::symbol(NAMES[i]));
    let simple = || {
        prop_oneof![
            3 => name(),
            2 => (name(), 1_i64..4, -2_i64..4).prop_map(|(a, k, c)| a * k + c),
            2 => (name(), name()).prop_map(|(a, b)| a * b),
            1 => (name(), name()).prop_map(|(a, b)| a + b),
            1 => (name(), name()).prop_map(|(a, b)| a - b),
            1 => (name(), 2_i64..5).prop_map(|(a, c)| a.floor_div(&c.into())),
            1 => (name(), name()).prop_map(|(a, b)| a.max(b)),
        ]
    };
    prop_oneof![
        3 => (simple(), simple()).prop_map(|(a, b)| Fact::Equal(a, b)),
        2 => (simple(), prop::option::of(0_i64..6), prop::option::of(4_i64..20)).prop_map(|(a, lo, hi)| Fact::Range(a, Range { lo, hi })),
        2 => (simple(), 2_i64..9).prop_map(|(a, n)| Fact::Divisible(a, n)),
        1 => (simple(), simple()).prop_map(|(a, b)| Fact::Range(a - b, Range { lo: Some(0), hi: None })),
    ]
}

/// Returns the bindings for which all facts hold.
fn models(facts: &Facts) -> Vec<[i64; 4]> {
    let list: Vec<Fact> = facts.iter().collect();
    let mut models = Vec::new();
    for index in 0..DOMAIN.len().pow(4) {
        let values: [i64; 4] = std::array::from_fn(|i| DOMAIN[index / DOMAIN.len().pow(i as u32) % DOMAIN.len()]);
        if list.iter().all(|fact| fact.holds(&lookup(&values)) == Some(true)) {
            models.push(values);
        }
        if models.len() == 40 {
            break;
        }
    }
    models
}

fn facts_of(list: &[Fact]) -> Facts {
    let mut facts = Facts::new();
    for fact in list {
        // A refused fact contradicts the others: that is checked in `refused_facts_have_no_model`.
        let _ = facts.add(fact.clone());
    }
    facts
}

fn check_unary(solver: &Solver, facts: &Facts, tree: &Tree, models: &[[i64; 4]]) -> Result<(), TestCaseError> {
    let dim = tree.dim();
    let canonical = solver.canonical(&dim);
    prop_assert_eq!(solver.canonical(&canonical), canonical.clone(), "idempotent: {} where {}", dim, facts);
    let range = solver.range(&dim);
    let divisors: Vec<i64> = [2, 3, 4, 8].into_iter().filter(|n| solver.divisible(&dim, *n)).collect();
    let nonzero = solver.nonzero(&dim);
    for values in models {
        let Some(value) = tree.value(values).and_then(|v| i64::try_from(v).ok()) else { continue };
        let about = format!("{dim} = {value} where {facts}, at {values:?}");
        prop_assert!(canonical.eval(&lookup(values)).is_ok_and(|v| v == value), "canonical {}: {}", canonical, about);
        prop_assert!(range.contains(value), "{:?}: {}", range, about);
        prop_assert!(divisors.iter().all(|n| value % n == 0), "{:?}: {}", divisors, about);
        prop_assert!(!nonzero || value != 0, "nonzero: {}", about);
    }
    Ok(())
}

fn check_binary(solver: &Solver, facts: &Facts, [a, b]: [&Tree; 2], models: &[[i64; 4]]) -> Result<(), TestCaseError> {
    let (x, y) = (a.dim(), b.dim());
    let (equal, less_equal, less) = (solver.equal(&x, &y), solver.less_equal(&x, &y), solver.less_than(&x, &y));
    let never_equal = !equal && solver.missing_fact(&x, &y).is_none() && (&x - &y).defect().is_none();
    for values in models {
        let (Some(v), Some(w)) = (a.value(values), b.value(values)) else { continue };
        let about = || format!("{x} = {v}, {y} = {w} where {facts}, at {values:?}");
        prop_assert!(!equal || v == w, "equal: {}", about());
        prop_assert!(!less_equal || v <= w, "less_equal: {}", about());
        prop_assert!(!less || v < w, "less: {}", about());
        prop_assert!(!never_equal || v != w, "never equal: {}", about());
    }
    Ok(())
}

proptest! {
    #![proptest_config(ProptestConfig { failure_persistence: None, cases: ProptestConfig::default().cases / 2, ..ProptestConfig::default() })]

    #[test]
    fn what_is_proved_holds(
        list in prop::collection::vec(fact(), 0..5),
        trees in prop::collection::vec(small_tree(), 6),
        factors in prop::collection::vec((0..NAMES.len()).prop_map(|i| Dim::symbol(NAMES[i])), 4),
    ) {
        let facts = facts_of(&list);
        let solver = Solver::new(&facts);
        let models = models(&facts);
        prop_assert!(models.is_empty() || solver.contradiction().is_none(), "{:?} where {}", solver.contradiction(), facts);
        for tree in &trees {
            check_unary(&solver, &facts, tree, &models)?;
        }
        for pair in trees.windows(2) {
            check_binary(&solver, &facts, [&pair[0], &pair[1]], &models)?;
        }
        let (left, right) = factors.split_at(2);
        if solver.product_equal(left, right) {
            let product = |dims: &[Dim], values| Dim::product(dims.iter().cloned()).eval(&lookup(values));
            for values in &models {
                prop_assert_eq!(product(left, values), product(right, values), "{:?} where {} at {:?}", factors, facts, values);
            }
        }
    }

    #[test]
    fn what_a_fact_says_is_proved(fact in fact()) {
        let facts = facts_of(&[fact]);
        let solver = Solver::new(&facts);
        if !models(&facts).is_empty() {
            for fact in facts.iter() {
                let proved = match &fact {
                    Fact::Equal(a, b) => solver.equal(a, b),
                    Fact::Range(dim, range) => {
                        let found = solver.range(dim);
                        range.lo.is_none_or(|lo| found.lo >= Some(lo)) && range.hi.is_none_or(|hi| found.hi.is_some_and(|h| h <= hi))
                    }
                    Fact::Divisible(dim, by) => solver.divisible(dim, *by),
                    Fact::Likely(..) => true,
                };
                prop_assert!(proved, "{} where {}", fact, facts);
            }
        }
    }

    #[test]
    fn answers_do_not_depend_on_the_order_of_questions(
        list in prop::collection::vec(fact(), 0..4), trees in prop::collection::vec(small_tree(), 4),
    ) {
        let facts = facts_of(&list);
        let (forward, backward) = (Solver::new(&facts), Solver::new(&facts));
        let first: Vec<Dim> = trees.iter().map(|tree| forward.canonical(&tree.dim())).collect();
        let mut second: Vec<Dim> = trees.iter().rev().map(|tree| backward.canonical(&tree.dim())).collect();
        second.reverse();
        prop_assert_eq!(first, second);
    }

    #[test]
    fn facts_keep_their_models(list in prop::collection::vec(fact(), 1..4)) {
        let facts = facts_of(&list);
        let mut refused = Facts::new();
        for fact in &list {
            let before = models(&refused);
            if refused.add(fact.clone()).is_err() {
                prop_assert!(before.iter().all(|values| fact.holds(&lookup(values)) != Some(true)), "{} where {}", fact, refused);
            } else {
                let kept = before.into_iter().filter(|values| fact.holds(&lookup(values)) == Some(true));
                let now = models(&refused);
                prop_assert!(kept.into_iter().all(|values| now.len() == 40 || now.contains(&values)), "{} in {}", fact, refused);
            }
        }
        for values in models(&facts) {
            prop_assert!(facts.iter().all(|fact| fact.holds(&lookup(&values)) == Some(true)));
        }
        if !facts.is_empty() {
            let text = facts.to_string();
            match Facts::parse(&text) {
                Ok(parsed) => prop_assert_eq!(parsed, facts, "{}", text),
                // Some contradictions are seen in one order of facts only.
                Err(error) => prop_assert!(models(&facts).is_empty(), "{}: {}", text, error),
            }
        }
    }

    #[test]
    fn any_fact_text_is_read_or_refused(text in "[-+*/%(),ABliky<>=\\[\\] 0-9]{0,30}") {
        if let Ok(facts) = Facts::parse(&text) {
            Solver::new(&facts);
        }
    }
}
