//! Proofs of a solver, by example.

use crate::dim::{Dim, Facts, Range, Solver, Symbol};

fn dim(text: &str) -> Dim {
    Dim::parse(text).unwrap_or_else(|e| panic!("{text}: {e}"))
}

fn solver(facts: &str) -> Solver {
    if facts.is_empty() {
        Solver::default()
    } else {
        Solver::new(&Facts::parse(facts).unwrap_or_else(|e| panic!("{facts}: {e}")))
    }
}

#[track_caller]
fn canonical(facts: &str, text: &str, expected: &str) {
    let solver = solver(facts);
    assert_eq!(solver.contradiction(), None);
    let canonical = solver.canonical(&dim(text));
    assert_eq!(canonical.to_string(), expected, "of {text} where {facts}");
    assert_eq!(solver.canonical(&canonical), canonical, "again");
    assert!(solver.equal(&dim(text), &dim(expected)));
}

#[track_caller]
fn equal(facts: &str, a: &str, b: &str) {
    assert!(solver(facts).equal(&dim(a), &dim(b)), "{a} == {b} where {facts}");
}

#[track_caller]
fn unproved(facts: &str, a: &str, b: &str, explanation: &str) {
    let solver = solver(facts);
    assert!(!solver.equal(&dim(a), &dim(b)), "{a} == {b} where {facts}");
    assert_eq!(solver.explain_unequal(&dim(a), &dim(b)), explanation);
}

#[test]
fn equal_dims_have_one_representative() {
    canonical("B == S", "S", "B");
    canonical("B == S, S == T, T == U", "U*T+B", "B*B+B");
    canonical("S == 128", "2*S+B", "B+256");
    canonical("4 <= S <= 4", "S", "4");
    canonical("T == (S-1)/2+1", "T", "(S+1)/2");
    canonical("T == B*S", "12*T", "12*B*S");
    canonical("S == 2*B", "S/2", "B");
    canonical("S == 2*B", "(S+1)/2", "B");
    canonical("B+1 == S+1", "S", "B");
    canonical("2*B == 2*S", "S", "B");
    canonical("1 <= B, B*S == B*T", "T", "S");
    canonical("B*S == B*T", "T", "T");
    canonical("A+C == C/2, (A+B) % 2 == 0", "(A+B)%2", "0");
    canonical("2*S == 3*T", "4*S+T", "7*T");
    canonical("2*S == 3*T", "S%3+T%2", "0");
    canonical("2*S == 3*T", "S/3*2", "T");
    canonical("max(S, T) == T", "max(S, T)", "T");
}

#[test]
fn a_multiple_of_the_divisor_and_less_than_it_is_a_quotient() {
    canonical("", "(min(1, S)+1)/2", "min(1, S)");
    canonical("", "(2*min(1, S)+B-B%3+2)/3", "B/3+min(1, S)");
    equal("", "2*((max(0, 2*S-min(1, 2*S))+1)/2)", "2*S");
    equal("S <= 3", "(3*S+3)/4", "S");
    canonical("", "S/-9223372036854775808", "S/(-9223372036854775808)");
    unproved("S <= 4", "(3*S+3)/4", "S", "S/4 == 0");
}

#[test]
fn the_range_of_an_extremum_is_one_of_its_operands() {
    canonical("2 <= min(S, T)", "max(S-1, 1)", "S-1");
    canonical("max(S, T) <= 8", "min(T, 9)", "T");
    canonical("7 < min(S/4, T)", "max(0, S/4-8)", "S/4-8");
}

#[test]
fn periodic_facts_tell_a_remainder() {
    canonical("S%4 == 0, S/8 == (S+4)/8", "S%8", "0");
    canonical("S%4 == 0, 7*((S+24)/28)-S/4 <= 0", "S%28", "0");
    canonical("(S+3)/6 == S/6+1, (S+1)/6 == S/6+1", "S%6", "5");
    // Three remainders of four are left, two of four that are even, and none.
    unproved("S/4 == (S+1)/4", "S%2", "0", "S == 2*(S/2)");
    canonical("(S+1)/4 == (S+2)/4, (S+3)/4 == (S+4)/4", "S%2", "S%2");
    assert!(solver("S/2 == (S+1)/2, (S+1)/2 == S/2+1").contradiction().is_some());
}

#[test]
fn an_image_that_every_layer_halves_and_cuts_into_windows_is_a_multiple() {
    let half = |of: &str, by: u32| format!("{of}/{by} == ({of}+{})/{by}", by / 2);
    let whole = |by: u32| format!("7*((S+{})/{})-(S+{})/{by} <= 0", by * 6 + by - 4, by * 7, by - 4);
    let facts = [half("S", 8), half("(S+4)", 16), half("(S+12)", 32), whole(4), whole(8), whole(16)].join(", ");
    let facts = format!("S%4 == 0, {facts}");
    canonical(&facts, "S%112", "0");
    equal(&facts, "(max(0, (S+12)/16-1)+1)/2", "(S+28)/32");
}

#[test]
fn what_is_cut_into_equal_pieces_is_a_multiple() {
    // The pieces of `chunk`: of the rounded-up length, and a shorter last one.
    canonical("D-(D+1)/2 == (D+1)/2", "(D+1)/2", "D/2");
    canonical("D-(D+1)/2 == (D+1)/2", "D%2", "0");
    canonical("D == 3*((D+2)/3)", "(D+1)/3", "D/3");
    canonical("A*B == 4*((A*B+1)/4)", "A*B%4", "0");
    let halves = "H == D-(D+1)/2, H == (D+1)/2, H == E-(E+1)/2, H == (E+1)/2";
    equal(halves, "D", "E");
    equal(halves, "D", "2*H");
    equal(halves, "E-(D+1)/2", "H");
    // Rounded to what need not be a piece.
    unproved("D == 2*((D+2)/2)-1", "D%2", "0", "D%2 and 0 are never equal");
}

#[test]
fn ranks_choose_the_representative() {
    let facts = Facts::parse("A == B").unwrap();
    let solver = Solver::with_ranks(&facts, &|s: &Symbol| u32::from(s.name() == "A"));
    assert_eq!(solver.canonical(&dim("A+1")), dim("B+1"));
}

#[test]
fn products() {
    let with = solver("B*S == 12*N, H == 64");
    let list = |text: &str| text.split(' ').map(dim).collect::<Vec<_>>();
    let proved = |a: &str, b: &str| with.product_equal(&list(a), &list(b));
    assert!(proved("B S", "N 12"));
    assert!(proved("B S T", "12 T N"));
    assert!(proved("B S 768", "N 12 12 H"));
    assert!(proved("B*S", "2 6 N"));
    assert!(!proved("B S", "N 11"));
    assert!(!proved("B", "N"));
    assert!(proved("0 B", "0 S"));
    equal("C == A*A, C % 2 == 0", "C%A", "0");
    equal("B*S == 12*N, N*T == U*V", "B*S*T", "12*U*V");
    equal("X*Y == A*B, Y*Z == C*D", "A*B*Z", "C*D*X");
}

#[test]
fn divisibility() {
    canonical("S % 8 == 0", "S%8", "0");
    canonical("S % 8 == 0", "S%4", "0");
    canonical("S % 8 == 0", "8*(S/8)", "S");
    canonical("S % 8 == 0", "(S+7)/8", "S/8");
    canonical("S % 8 == 0", "S/8*64", "8*S");
    canonical("S % 8 == 0", "S", "S");
    canonical("S % 8 == 0", "(S+4)/8", "S/8");
    canonical("S % 8 == 0, S == B", "B/2*2", "B");
    canonical("(S+4) % 8 == 0", "8*((S+4)/8)", "S+4");
    canonical("(S+4) % 8 == 0", "S%4", "0");
    canonical("B*S % 8 == 0", "8*((B*S)/8)+1", "B*S+1");
    canonical("(2*B+3*S) % 5 == 0", "(2*B+3*S)%5", "0");
    let with = solver("S % 8 == 0, B % 2 == 0");
    assert!(with.divisible(&dim("S"), 4) && with.divisible(&dim("B*S"), 16) && with.divisible(&dim("3*S+16*T"), 8));
    assert!(!with.divisible(&dim("S"), 16) && !with.divisible(&dim("S+1"), 8) && with.divisible(&dim("0"), 0));
    assert!(with.divisible(&dim("S+8"), -8) && !with.divisible(&dim("S"), 0));
}

#[track_caller]
fn range(facts: &str, text: &str, lo: Option<i64>, hi: Option<i64>) {
    assert_eq!(solver(facts).range(&dim(text)), Range { lo, hi }, "{text} where {facts}");
}

#[test]
fn ranges() {
    // The outer quotient divides a sum that is known not to be negative.
    range("C/2 <= (C/2 + (3*C + 2)/4)/2", "(max(0, (C/2 + (3*C + 2)/4)/2 - C/2 + 1) + 1)/2", Some(1), None);
    range("", "(max(0, (C/2 + (3*C + 2)/4)/2 - C/2 + 1) + 1)/2", Some(0), None);
    range("", "S", Some(0), None);
    range("", "S-1", Some(-1), None);
    range("S <= 512", "2*S+1", Some(1), Some(1025));
    range("1 <= S <= 512", "(S+1)/2", Some(1), Some(256));
    range("", "S%8", Some(0), Some(7));
    range("", "B+S%8", Some(0), None);
    range("B <= 3", "B*(S%8)", Some(0), Some(21));
    range("", "S-S/2", Some(0), None);
    range("1 <= B", "B*S-S", Some(0), None);
    range("S <= T", "T-S+B", Some(0), None);
    range("S <= 10", "min(S, T)", Some(0), Some(10));
    range("", "max(S, 4)-S", Some(0), Some(4));
    range("", "S-min(S, 4)", Some(0), None);
    range("T == S-1", "S", Some(1), None);
    range("S+T <= 10", "T", Some(0), Some(10));
    range("T <= 512, T == B*S", "B*S", Some(0), Some(512));
    range("S <= 4", "B%S", Some(0), Some(3));
    range("1 <= S", "(B*S)/S", Some(0), None);
    range("S % 8 == 0, 1 <= S", "S/8", Some(1), None);
    range("S % 8 == 0, 1 <= S <= 20", "S", Some(8), Some(16));
    range("", "9223372036854775807*S", Some(0), None);
}

#[test]
fn order() {
    let with = solver("1 <= S <= 512, S <= T");
    let less_equal = |a: &str, b: &str| with.less_equal(&dim(a), &dim(b));
    assert!(less_equal("S", "512") && less_equal("S", "T") && less_equal("S+1", "T+1") && less_equal("768*B*S", "3072*B*S"));
    assert!(less_equal("(S+1)/2", "S") && less_equal("S", "8*((S+7)/8)") && less_equal("min(S, B)", "S"));
    assert!(less_equal("S", "S*S") && less_equal("S", "B*S+S") && less_equal("B", "B*T"));
    assert!(!less_equal("T", "S") && !less_equal("B", "S") && !less_equal("S", "(S+1)/2"));
    assert!(with.less_than(&dim("S"), &dim("T+1")) && !with.less_than(&dim("S"), &dim("T")));
    assert!(with.nonzero(&dim("S")) && with.nonzero(&dim("S*T")) && with.nonzero(&dim("-S")) && !with.nonzero(&dim("B")));
    assert!(with.nonzero(&dim("B+1")) && !with.nonzero(&dim("B*S")) && with.nonzero(&dim("S*S")));
}

#[test]
fn ranges_decide() {
    canonical("", "max(0, S)", "S");
    canonical("", "max(S, S+B)", "B+S");
    canonical("S <= 512", "min(S, 512)", "S");
    canonical("S <= 512", "min(S, 511)", "min(511, S)");
    canonical("", "max(768*B*S, 3072*B*S, B*S)", "3072*B*S");
    canonical("S <= 7", "S/8", "0");
    canonical("S <= 7", "S%8", "S");
    canonical("S < T", "S%T", "S");
    canonical("S < T", "S/T", "0");
    canonical("1 <= B", "(B*S)/B", "S");
    canonical("", "(B*S)/B", "(B*S)/B");
    canonical("1 <= B", "(B*S+T)/B", "S+T/B");
    canonical("1 <= B", "(B*S+T)%B", "T%B");
    canonical("1 <= B", "(B*T)/(B*S)", "T/S");
    canonical("1 <= B", "B/B", "1");
    canonical("1 <= S", "(2*S+2)/(S+1)", "2");
    canonical("8 <= S <= 15", "S/8", "1");
}

#[test]
fn the_missing_fact_is_named() {
    unproved("", "B", "S", "B == S");
    unproved("", "S+1", "B+1", "B == S");
    unproved("", "B*S*768", "12*N*64", "B*S == N");
    unproved("", "B+1", "B", "B+1 and B are never equal");
    unproved("", "S", "128", "S == 128");
    unproved("S <= 100", "S", "128", "S and 128 are never equal");
    unproved("T == S", "T", "B", "T == B");
    assert_eq!(solver("B == S").explain_unequal(&dim("B"), &dim("S")), "B and S are equal");
}

#[test]
fn likely_values() {
    let with = solver("S likely [64, 128], B likely [1, 8], T == 2*S, U % 8 == 0, U likely [16, 20, 32], S <= 200");
    let likely = |text: &str| with.likely(&dim(text));
    assert_eq!(likely("S"), [64, 128]);
    assert_eq!(likely("T"), [128, 256]);
    assert_eq!(likely("(S+1)/3"), [21, 43]);
    assert_eq!(likely("B*S"), [64, 128, 512, 1024]);
    assert_eq!(likely("U"), [16, 32]);
    assert_eq!(likely("7"), [7]);
    assert!(likely("N").is_empty() && likely("N*S").is_empty());
    assert_eq!(solver("B*S likely [4096]").likely(&dim("2*B*S+1")), [8193]);
}

#[test]
fn contradictions_are_found() {
    for facts in
        ["B == S+1, S == T+1, T == B", "S == T+8, S <= 7", "S % 2 == 0, S == T, 3 <= T <= 3", "B % 2 == 0, (B+1) % 2 == 0"]
    {
        assert!(solver(facts).contradiction().is_some(), "{facts}");
    }
}

#[test]
fn what_is_not_representable_is_never_proved() {
    let huge = Dim::constant(i64::MAX) + 1;
    let with = solver("B == S");
    assert!(!with.equal(&huge, &huge) && !with.less_equal(&huge, &huge) && !with.divisible(&huge, 1));
    assert!(!with.product_equal(std::slice::from_ref(&huge), std::slice::from_ref(&huge)) && !with.nonzero(&huge));
    assert_eq!(with.range(&huge), Range { lo: None, hi: None });
    assert_eq!(with.canonical(&huge), huge);
}

#[test]
fn a_solver_can_be_shared() {
    fn shared<T: Send + Sync>(_: &T) {}
    shared(&solver("B == S"));
    shared(&dim("B"));
}
