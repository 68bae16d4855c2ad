//! Minima and maxima of sums whose differences repeat themselves: by example, and random ones
//! against numbers.

use proptest::prelude::*;

use super::random::lookup;
use crate::dim::{Dim, Facts, Solver};

fn dim(text: &str) -> Dim {
    Dim::parse(text).unwrap_or_else(|e| panic!("{text}: {e}"))
}

#[track_caller]
fn check(text: &str, canonical: &str) {
    assert_eq!(dim(text), dim(canonical), "{} of {text}", dim(text));
}

/// Returns the padding of a convolution, as TensorFlow and timm compute it, and the size of its
/// result.
fn same_padding(size: &Dim, kernel: i64, stride: i64, dilation: i64) -> (Dim, Dim) {
    let parts = size.ceil_div(&Dim::constant(stride));
    let padding = Dim::max(&((&parts - 1) * stride + (kernel - 1) * dilation + 1 - size), &Dim::constant(0));
    let result = (size + &padding - (kernel - 1) * dilation - 1).floor_div(&Dim::constant(stride)) + 1;
    (padding, result)
}

#[test]
fn padding_that_is_never_negative_is_no_maximum() {
    let size = dim("S");
    for (kernel, stride, dilation) in [(3, 2, 1), (5, 2, 1), (7, 4, 1), (3, 3, 1), (3, 1, 2), (3, 2, 3), (2, 2, 1)] {
        let (padding, result) = same_padding(&size, kernel, stride, dilation);
        assert!(!padding.to_string().contains("max"), "{padding}");
        assert_eq!(result, size.ceil_div(&Dim::constant(stride)), "kernel {kernel}, stride {stride}");
    }
    // A kernel that is smaller than its stride is never padded, or sometimes.
    assert_eq!(same_padding(&size, 1, 2, 1), (Dim::constant(0), dim("(S+1)/2")));
    assert_eq!(same_padding(&size, 2, 4, 1).0.to_string(), "max(0, (-S)%4-2)");
}

#[test]
fn sizes_behind_many_padded_layers_stay_short() {
    let (mut height, mut width) = (dim("H"), dim("W-3"));
    for kernel in [3, 5, 3, 7, 3] {
        let (padding, next) = same_padding(&height, kernel, 2, 1);
        assert!(!padding.to_string().contains("max") && padding.nodes() < 24, "{padding}");
        height = next;
        width = same_padding(&width, kernel, 2, 1).1;
    }
    assert_eq!((height, width), (dim("(H+31)/32"), dim("(W+28)/32")));
    // As a length that was taken from another one.
    assert_eq!(same_padding(&dim("max(S, 3)"), 3, 2, 1).1, dim("(max(S, 3)+1)/2"));
    assert_eq!(same_padding(&dim("B*S+T"), 3, 2, 1).1, dim("(B*S+T+1)/2"));
}

#[test]
fn remainders_are_bounded_for_all_integers() {
    check("max(0, S%8)", "S%8");
    check("min(7, S%8)", "S%8");
    check("max(7, S%8)", "7");
    check("min(S, S+(S-B)%4)", "S");
    check("max(S/2, S-S/2)", "S-S/2");
    check("min(B+8*((S+7)/8), B+S)", "B+S");
    check("max(S%4, S%2)", "S%4");
    check("max(S%8, B%8-7)", "S%8");
    check("min(S-S/2, (S+1)/2)", "S-S/2");
    check("max(S-S/2, (S+1)/2)+1", "S-S/2+1");
    check("max(B, min(B-1+S%2, S))", "B");
    check("max(B, min(B-1, S)+1)", "B");
    // Neither decides.
    assert_eq!(dim("max(2, S%8)").to_string(), "max(2, S%8)");
    assert_eq!(dim("max(S%3, S%2)").to_string(), "max(S%2, S%3)");
    assert_eq!(dim("max(S/2, B/2)").to_string(), "max(B/2, S/2)");
    assert_eq!(dim("max(0, S/2)").to_string(), "max(0, S/2)");
    assert_eq!(dim("max(0, S%11)").to_string(), "max(0, S%11)");
}

/// A sum over the first two symbols, as text.
fn form() -> impl Strategy<Value = String> {
    (prop::array::uniform2(-3_i64..4), -9_i64..10).prop_map(|([a, b], c)| format!("({a}*A+{b}*B+{c})"))
}

/// A sum of remainders and a constant, as text.
fn repeating() -> impl Strategy<Value = String> {
    let divisor = prop::sample::select(vec![2, 3, 4, 5, 6, 8, 16, 11]);
    let part = (-4_i64..5, form(), divisor).prop_map(|(times, form, by)| format!("+{times}*({form}%{by})"));
    (prop::collection::vec(part, 0..3), -9_i64..10).prop_map(|(parts, constant)| format!("{constant}{}", parts.concat()))
}

/// Dims of which many differ by remainders: some with the same rest, and minima among them.
fn dims() -> impl Strategy<Value = Vec<Dim>> {
    let rest = prop::sample::select(vec!["0", "A", "A", "B-A", "S/2", "max(A, S)", "min(A+B%2, S)", "min(A, B)"]);
    let one = (rest, repeating()).prop_map(|(rest, repeating)| dim(&format!("{rest}+{repeating}")));
    prop::collection::vec(one, 3)
}

proptest! {
    #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn a_minimum_has_the_least_value_at_every_integer(dims in dims(), rows in prop::collection::vec(prop::array::uniform4(-40_i64..200), 32)) {
        let (least, most) = (Dim::min_of(dims.clone()).unwrap(), Dim::max_of(dims.clone()).unwrap());
        for values in rows {
            let at = |dim: &Dim| dim.eval(&lookup(&values)).unwrap();
            prop_assert_eq!(at(&least), dims.iter().map(at).min().unwrap(), "{} of {:?}", least, dims);
            prop_assert_eq!(at(&most), dims.iter().map(at).max().unwrap(), "{} of {:?}", most, dims);
        }
    }

    #[test]
    fn it_has_one_form(dims in dims(), shift in -5_i64..5) {
        let [a, b, c] = dims.as_slice() else { unreachable!() };
        for (f, all) in [(Dim::min as fn(&Dim, &Dim) -> Dim, Dim::min_of(dims.clone()).unwrap()), (Dim::max, Dim::max_of(dims.clone()).unwrap())] {
            for (x, y, z) in [(a, b, c), (a, c, b), (b, c, a), (c, b, a)] {
                prop_assert_eq!(&f(&f(x, y), z), &all, "of {:?}", dims);
                prop_assert_eq!(&f(x, &f(y, z)), &all, "of {:?}", dims);
                prop_assert_eq!(&f(x, &f(x, &all)), &all);
            }
            prop_assert_eq!(&all.map_children(&mut Dim::clone), &all);
            prop_assert_eq!(&dim(&all.to_string()), &all);
            let [a, b, c] = [a, b, c].map(|dim| dim + shift);
            let shifted = f(&f(&a, &b), &c);
            prop_assert_eq!(&f(&(&all + shift), &shifted), &shifted);
        }
    }

    #[test]
    fn what_never_decides_is_found(rest in repeating().prop_map(|text| text.replace('B', "A").replace("%11", "%10"))) {
        let difference = dim(&rest);
        let value = |a: i64| difference.eval(&lookup(&[a, 0, 0, 0])).unwrap();
        // All divisors have 240 as a multiple.
        let negative = (0..240).any(|a| value(a) < 0);
        let most = Dim::max(&(dim("S+A*B") + &difference), &dim("S+A*B"));
        prop_assert_eq!(most == dim("S+A*B") + &difference, !negative, "{}", most);
    }

    #[test]
    fn what_periodic_facts_tell_of_a_size_holds(
        size in 0i64..2000,
        facts in prop::collection::vec((2i64..13, 0i64..30, 0i64..30), 1..6),
        by in 2i64..30,
    ) {
        let stated = facts.iter().map(|(n, a, b)| {
            format!("(S+{a})/{n} == (S+{b})/{n}+{}", (size + a) / n - (size + b) / n)
        });
        let solver = Solver::new(&Facts::parse(&stated.collect::<Vec<_>>().join(", ")).unwrap());
        prop_assert_eq!(solver.contradiction(), None);
        let rest = solver.canonical(&dim(&format!("S%{by}")));
        prop_assert_eq!(rest.eval(&|_| Some(size)), Ok(size % by), "{} of {:?}", rest, facts);
    }
}
