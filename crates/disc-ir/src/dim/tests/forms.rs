//! Canonical forms of expressions, by example.

use crate::dim::{Defect, Dim, DimView, EvalError, MAX_DEPTH, MAX_NODES, Symbol};

fn dim(text: &str) -> Dim {
    Dim::parse(text).unwrap_or_else(|e| panic!("{text}: {e}"))
}

#[track_caller]
fn check(text: &str, canonical: &str) {
    let parsed = dim(text);
    assert_eq!(parsed.to_string(), canonical, "of {text}");
    assert_eq!(dim(canonical), parsed, "reading back {canonical}");
}

#[test]
fn sums_and_products() {
    check("B", "B");
    check(" 2 * B ", "2*B");
    check("B+B", "2*B");
    check("S*B", "B*S");
    check("S-1+2*B", "2*B+S-1");
    check("1-S", "1-S");
    check("-S-1", "-S-1");
    check("-(S/2)", "-(S/2)");
    check("B-S/2", "B-S/2");
    check("T-S-1", "T-S-1");
    check("(B+1)*(S+1)", "B*S+B+S+1");
    check("B*0", "0");
    check("B*B*S", "B*B*S");
    check("-9223372036854775808*B+S-9223372036854775808", "S-9223372036854775808*B-9223372036854775808");
    check("--B", "B");
    check("-2*B", "-2*B");
}

#[test]
fn floor_division() {
    check("(S+1)/2", "(S+1)/2");
    check("7/2", "3");
    check("-7/2", "-4");
    check("0-7/2", "-3");
    check("7/(-2)", "-4");
    check("7/0", "0");
    check("S/0", "0");
    check("S/1", "S");
    check("S/(-1)", "-S");
    check("8*B/8", "B");
    check("(8*B+3)/8", "B");
    check("(8*B+S)/8", "B+S/8");
    check("(4*S+3)/8", "S/2");
    check("(2*B)/(2*S)", "B/S");
    check("(2*B)/(-4*S)", "(-B)/(2*S)");
    check("S/2/3", "S/6");
    check("(S/2+1)/3", "(S+2)/6");
    check("((S-1)/2+1-1)/2+1", "(S+3)/4");
    check("(S+2*1-3)/2+1", "(S+1)/2");
    check("2*(S/4)", "2*(S/4)");
    check("2*S/4", "S/2");
}

#[test]
fn remainders() {
    check("S%8", "S%8");
    check("S%8%8", "S%8");
    check("S%8%4", "S%4");
    check("S%0", "0");
    check("8*S%8", "0");
    check("(8*S+B)%8", "B%8");
    check("2*S%8", "2*(S%4)");
    check("-7%3", "2");
    check("7%(-3)", "-2");
    check("S%(-3)", "-((-S)%3)");
    check("(-S)%7", "(-S)%7");
    check("6*S/7", "S-(S+6)/7");
    check("S+(7-S%7)%7", "7*((S+6)/7)");
    check("(S+(7-S%7)%7)/7", "(S+6)/7");
    check("8*(S/8)+S%8", "S");
    check("S-8*(S/8)", "S%8");
    check("S%8+B", "S%8+B");
    check("B*(S%8)", "B*(S%8)");
    check("S/4%2", "(S/4)%2");
    check("S/4%2*4+S%4", "S%8");
    check("(S%8)/4", "(S/4)%2");
    check("S%B", "S%B");
    check("(S+2*B)%B", "S%B");
    check("B%B", "0");
    check("S%B%B", "S%B");
    check("2*S%(2*B)", "2*(S%B)");
    check("S%(-B)", "-((-S)%B)");
}

#[test]
fn minima_and_maxima() {
    check("min(4, B)", "min(4, B)");
    check("min(B, min(4, S), 3)", "min(3, B, S)");
    check("max(B)", "B");
    check("min(B, B+1)", "B");
    check("max(B-3, B+S, B)", "max(B, B+S)");
    check("min(B, max(B, S))", "B");
    check("max(B, min(B, S))", "B");
    check("min(2, 3)+max(2, 3)", "5");
    check("min + max", "max+min");
}

#[test]
fn the_view_shows_terms_in_printed_order() {
    let dim = dim("2*B*S*S+S-1");
    let DimView::Sum(terms) = dim.view() else { panic!("a sum") };
    let shown: Vec<_> = terms.iter().map(|t| (t.coefficient(), format!("{:?}", t.factors()))).collect();
    assert_eq!(shown, [(2, "[(B, 1), (S, 2)]".into()), (1, "[(S, 1)]".into()), (-1, "[]".into())]);
}

#[test]
fn large_products_stay_factored_in_any_order() {
    let sum = |prefix: &str| (0..9).map(|i| Dim::symbol(format!("{prefix}{i}"))).sum::<Dim>();
    let (a, b, c) = (sum("a"), sum("b"), sum("c"));
    let product = &(&a * &b) * &c;
    assert_eq!(product, &(&c * &a) * &b);
    assert_eq!(&product * 2, &(&(&a * 2) * &b) * &c);
    assert_eq!(dim(&product.to_string()), product);
    assert_eq!(product.eval(&|_| Some(2)), Ok(18 * 18 * 18));
    assert_eq!((&a * &b).to_string().matches('(').count(), 2);
}

#[test]
fn what_does_not_fit_is_a_defect_not_a_wrong_number() {
    let max = Dim::constant(i64::MAX);
    assert_eq!((&max + 1).defect(), Some(Defect::Overflow));
    assert_eq!((&max * &Dim::symbol("B") * 2).defect(), Some(Defect::Overflow));
    assert_eq!((-Dim::constant(i64::MIN)).defect(), Some(Defect::Overflow));
    assert_eq!((&Dim::constant(0) * &(&max + 1)).defect(), Some(Defect::Overflow), "a defect absorbs");
    assert_eq!((&max + 1).eval(&|_| None), Err(EvalError::Invalid(Defect::Overflow)));
    assert_eq!((&max - 1 + 1), max);
    let product = Dim::symbol("B") * Dim::symbol("S");
    assert_eq!(product.eval(&|_| Some(1 << 32)), Err(EvalError::Overflow));
    assert_eq!(product.eval(&|s| (s.name() == "B").then_some(1)), Err(EvalError::Unbound(Symbol::new("S"))));
}

#[test]
fn size_and_depth_are_bounded() {
    let mut deep = Dim::symbol("S");
    for i in 0..200 {
        deep = deep.floor_div(&Dim::symbol("B")).max(Dim::constant(i));
    }
    assert_eq!(deep.defect(), Some(Defect::TooLarge));
    let mut wide = Dim::symbol("S");
    for _ in 0..40 {
        wide = wide.floor_div(&(&wide + 1));
    }
    assert_eq!(wide.defect(), Some(Defect::TooLarge));
    let power = Dim::product((0..MAX_NODES + 1).map(|_| Dim::symbol("B")));
    assert_eq!(power.defect(), Some(Defect::TooLarge));
}

#[test]
fn the_deepest_dim_reads_back() {
    let mut deep = Dim::symbol("S");
    while deep.depth() < MAX_DEPTH {
        deep = if deep.depth().is_multiple_of(2) { Dim::symbol("B").floor_div(&deep) } else { deep.max(Dim::constant(7)) };
    }
    assert_eq!(dim(&deep.to_string()), deep);
}

#[test]
fn substitution_is_simultaneous() {
    let swapped = dim("B-2*S").substitute(&|s| Some(Dim::symbol(if s.name() == "B" { "S" } else { "B" })));
    assert_eq!(swapped, dim("S-2*B"));
    let fixed = dim("(B*S+7)/8").substitute(&|s| (s.name() == "B").then(|| Dim::constant(16)));
    assert_eq!(fixed, dim("2*S"));
    assert_eq!(dim("B*S+max(S, B)").symbols(), [Symbol::new("B"), Symbol::new("S")]);
}

#[track_caller]
fn check_error(text: &str, offset: usize, message: &str) {
    let error = Dim::parse(text).expect_err(text);
    assert_eq!((error.offset, error.message.as_str()), (offset, message), "of {text}");
}

#[test]
fn errors_say_where_and_what() {
    check_error("", 0, "expected a dimension (a number, a name, `min`, `max` or `(`), found the end");
    check_error("B+", 2, "expected a dimension (a number, a name, `min`, `max` or `(`), found the end");
    check_error("B S", 2, "expected an operator or the end, found `S`");
    check_error("(B", 2, "expected `)`, found the end");
    check_error("min(B,)", 6, "expected a dimension (a number, a name, `min`, `max` or `(`), found `)`");
    check_error("2*ö", 2, "expected a dimension (a number, a name, `min`, `max` or `(`), found `ö`");
    check_error("9223372036854775808", 0, "the number does not fit 64 bits");
    check_error("B-9223372036854775808/2", 2, "the number does not fit 64 bits");
    check_error("B+4*9223372036854775807", 2, "a constant of the dimension expression does not fit 64 bits");
    check_error(&"(".repeat(100), 65, "nested deeper than 64 levels");
    check_error(&"-".repeat(100), 65, "nested deeper than 64 levels");
    check_error(&"x".repeat(65), 0, "a name has at most 64 bytes");
    assert_eq!(Dim::parse_prefix("B+1]x4"), Ok((dim("B+1"), 3)));
}

#[test]
fn sizes_of_parts_of_parts_stay_short() {
    let shortened = |text: &str| dim(text).shortened().to_string();
    assert_eq!(shortened("S-min(S, 1)"), "max(0, S-1)");
    assert_eq!(shortened("max(0, S-1)-min(1, max(0, S-1))"), "max(0, S-2)");
    assert_eq!(shortened("min(S, 1)+max(0, S-1)+B"), "B+S");
    assert_eq!(shortened("S-min(B, 1)"), "S-min(1, B)");
    assert_eq!(dim("max(0, max(0, S-1)-1)").to_string(), "max(0, S-2)");
    assert_eq!(dim("min(4, min(S, B)+1)").to_string(), "min(4, B+1, S+1)");
}
