//! Facts: text, order, refusals.

use std::collections::BTreeSet;

use crate::dim::{Dim, Fact, Facts, Symbol};

fn facts(text: &str) -> Facts {
    Facts::parse(text).unwrap_or_else(|e| panic!("{text}: {e}"))
}

#[track_caller]
fn check(text: &str, stored: &str) {
    assert_eq!(facts(text).to_string(), stored, "of {text}");
    if !stored.is_empty() {
        assert_eq!(facts(stored), facts(text), "reading back {stored}");
    }
}

#[test]
fn facts_are_kept_in_one_form() {
    check("S == B", "B == S");
    check("128 == S", "S == 128");
    check("2*B == S", "S == 2*B");
    check("B*S == N*12", "B*S == 12*N");
    check("B == B", "");
    check("S <= 512", "S <= 512");
    check("1 <= S <= 512", "1 <= S <= 512");
    check("512 >= S > 0", "1 <= S <= 512");
    check("S < 513, S >= 1", "1 <= S <= 512");
    check("0 <= S", "");
    check("2*S <= 7", "S <= 3");
    check("3-S <= 1", "2 <= S");
    check("S <= T", "S-T <= 0");
    check("S < T", "S-T <= -1");
    check("S % 8 == 0", "S % 8 == 0");
    check("S % 8 == 0, S % 12 == 0", "S % 24 == 0");
    check("6*S % 8 == 0", "S % 4 == 0");
    check("(S+9) % 8 == 0", "(S+1) % 8 == 0");
    check("S % 8 == 3", "S%8 == 3");
    check("B*S % 8 == 0", "(B*S) % 8 == 0");
    check("(S/2) % 8 == 0", "(S/2) % 8 == 0");
    check("S % 1 == 0, 8*S % 4 == 0", "");
    check("S likely [64, 128, 64]", "S likely [64, 128]");
    check("S likely [1], B likely [2], S likely [3, 1]", "B likely [2], S likely [1, 3]");
    check("S likely [8], S % 8 == 0, S <= 64, S == B", "B == S, S <= 64, S % 8 == 0, S likely [8]");
}

#[test]
fn the_order_of_facts_does_not_matter() {
    check("S+T <= 2000, S <= 512, T <= 100", "S <= 512, T <= 100, S+T <= 2000");
    check("T <= 100, S <= 512, S+T <= 2000", "S <= 512, T <= 100, S+T <= 2000");
}

#[track_caller]
fn check_refused(known: &str, fact: &str, message: &str) {
    let mut facts = if known.is_empty() { Facts::new() } else { facts(known) };
    let error = facts.add(Fact::parse(fact).unwrap()).expect_err(fact);
    assert_eq!(error.to_string(), message);
}

#[test]
fn what_cannot_hold_is_refused_with_the_reason() {
    check_refused("", "3 == 4", "`3 == 4` cannot hold");
    check_refused("", "B == B+1", "`B == B+1` cannot hold: `0 <= B` is known, `1 <= B+1` is known");
    check_refused("", "S <= -1", "`S <= -1` cannot hold: `0 <= S` is known");
    check_refused("", "5 <= S <= 4", "`5 <= S <= 4` cannot hold: `0 <= S` is known");
    check_refused("S <= 4", "S == 5", "`S == 5` cannot hold: `0 <= S <= 4` is known");
    check_refused("S == 5", "S <= 4", "`S <= 4` cannot hold: `S == 5` is known");
    check_refused("S == 5", "S % 2 == 0", "`S % 2 == 0` cannot hold: `S == 5` is known");
    check_refused("S <= 64", "S likely [65]", "`S likely [65]` cannot hold: `0 <= S <= 64` is known");
    assert_eq!(
        Facts::new().add_divisible(Dim::symbol("S"), 0).unwrap_err().to_string(),
        "`S % 0 == 0` is no fact: the divisor must be positive"
    );
    let huge = Dim::constant(i64::MAX) + 1;
    assert_eq!(
        Facts::new().add_equal(huge, 3).unwrap_err().to_string(),
        "`<overflow> == 3` is no fact: a constant of the dimension expression does not fit 64 bits"
    );
}

#[track_caller]
fn check_error(text: &str, offset: usize, message: &str) {
    let error = Facts::parse(text).expect_err(text);
    assert_eq!((error.offset, error.message.as_str()), (offset, message), "of {text}");
}

#[test]
fn errors_say_where_and_what() {
    check_error("B", 1, "expected `==`, `<=`, `<`, `>=`, `>` or `likely`, found the end");
    check_error("B = S", 2, "expected `==`, `<=`, `<`, `>=`, `>` or `likely`, found `=`");
    check_error("B == S S", 7, "expected an operator or the end, found `S`");
    check_error("B <= S <= T", 11, "the bounds of a range must be numbers, with a dimension between them");
    check_error("1 <= S >= 2", 9, "both comparisons of a range must point the same way");
    check_error("S likely []", 10, "expected a number, found `]`");
    check_error("B == S, 3 == 4", 8, "`3 == 4` cannot hold");
    assert_eq!(Fact::parse_prefix("B <= 4 {").map(|(fact, taken)| (fact.to_string(), taken)), Ok(("B <= 4".into(), 7)));
}

#[test]
fn unused_facts_go_related_ones_stay() {
    let mut all = facts("B == T, T == S, N <= 4, S % 8 == 0, M == N");
    all.remove_unused(&BTreeSet::from([Symbol::new("B")]));
    assert_eq!(all.to_string(), "B == T, S == T, S % 8 == 0");
}

#[test]
fn facts_merge_and_rename() {
    let mut all = facts("B <= 8, S % 2 == 0");
    all.merge(&facts("2 <= B, S % 3 == 0")).unwrap();
    assert_eq!(all.to_string(), "2 <= B <= 8, S % 6 == 0");
    let renamed = all.rename(&|s| Some(Symbol::new(format!("{}1", s.name())))).unwrap();
    assert_eq!(renamed.to_string(), "2 <= B1 <= 8, S1 % 6 == 0");
    let same = facts("B <= 4, 5 <= S").rename(&|_| Some(Symbol::new("X")));
    assert_eq!(same.unwrap_err().to_string(), "`5 <= X` cannot hold: `0 <= X <= 4` is known");
    let fixed = facts("B*S == 12*N").substitute(&|s| (s.name() == "S").then(|| Dim::constant(12))).unwrap();
    assert_eq!(fixed.to_string(), "12*B == 12*N");
}

#[test]
fn a_fact_holds_or_not() {
    let value = |s: &Symbol| (s.name() == "S").then_some(12);
    let holds = |text: &str| Fact::parse(text).unwrap().holds(&value);
    assert_eq!(holds("S % 8 == 0"), Some(false));
    assert_eq!(holds("S % 4 == 0"), Some(true));
    assert_eq!(holds("1 <= S <= 12"), Some(true));
    assert_eq!(holds("2*S == 25"), Some(false));
    assert_eq!(holds("B == S"), None);
}
