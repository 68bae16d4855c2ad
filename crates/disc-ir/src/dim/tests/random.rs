//! Random expressions against a naive evaluator in 128 bits that knows no simplification.

use proptest::prelude::*;

use crate::dim::{Dim, EvalError, Symbol};

pub(super) const NAMES: [&str; 4] = ["A", "B", "C", "S"];

/// An expression as written.
#[derive(Clone, Debug)]
pub(super) enum Tree {
    Const(i64),
    Name(usize),
    Node(char, Box<Tree>, Box<Tree>),
}

impl Tree {
    pub(super) fn dim(&self) -> Dim {
        match self {
            Tree::Const(value) => Dim::constant(*value),
            Tree::Name(i) => Dim::symbol(NAMES[*i]),
            Tree::Node(operator, a, b) => {
                let (a, b) = (a.dim(), b.dim());
                match operator {
                    '+' => a + b,
                    '-' => a - b,
                    '*' => a * b,
                    '/' => a.floor_div(&b),
                    'c' => a.ceil_div(&b),
                    '%' => a.modulo(&b),
                    'm' => a.min(b),
                    _ => a.max(b),
                }
            }
        }
    }

    /// The value; `None` where a step overflows 128 bits.
    pub(super) fn value(&self, values: &[i64; 4]) -> Option<i128> {
        let (operator, a, b) = match self {
            Tree::Const(value) => return Some((*value).into()),
            Tree::Name(i) => return Some(values[*i].into()),
            Tree::Node(operator, a, b) => (*operator, a.value(values)?, b.value(values)?),
        };
        let quotient = |a: i128, b: i128| if b == 0 { Some(0) } else { a.checked_sub(rem(a, b))?.checked_div(b) };
        match operator {
            '+' => a.checked_add(b),
            '-' => a.checked_sub(b),
            '*' => a.checked_mul(b),
            '/' => quotient(a, b),
            'c' => quotient(a.checked_neg()?, b)?.checked_neg(),
            '%' => Some(if b == 0 { 0 } else { rem(a, b) }),
            'm' => Some(a.min(b)),
            _ => Some(a.max(b)),
        }
    }

    pub(super) fn text(&self) -> String {
        match self {
            Tree::Const(value) if *value < 0 => format!("({value})"),
            Tree::Const(value) => value.to_string(),
            Tree::Name(i) => NAMES[*i].to_string(),
            Tree::Node('m', a, b) => format!("min({}, {})", a.text(), b.text()),
            Tree::Node('M', a, b) => format!("max({}, {})", a.text(), b.text()),
            Tree::Node('c', a, b) => format!("(-((-{})/{}))", a.text(), b.text()),
            Tree::Node(operator, a, b) => format!("({}{operator}{})", a.text(), b.text()),
        }
    }
}

fn rem(a: i128, b: i128) -> i128 {
    let rest = a.rem_euclid(b);
    if b < 0 && rest != 0 { rest + b } else { rest }
}

fn small() -> impl Strategy<Value = i64> {
    prop_oneof![4 => -4_i64..10, 1 => prop::sample::select(vec![16, 32, 64, 100, 768, -8])]
}

fn extreme() -> impl Strategy<Value = i64> {
    let edges = vec![i64::MAX, i64::MAX - 1, i64::MIN, i64::MIN + 1, 1 << 62, -(1 << 62), 1 << 32, 3_000_000_000];
    prop_oneof![prop::sample::select(edges), -3_i64..4, any::<i64>()]
}

fn tree(constants: BoxedStrategy<i64>) -> impl Strategy<Value = Tree> {
    let leaf = prop_oneof![2 => (0..NAMES.len()).prop_map(Tree::Name), 1 => constants.prop_map(Tree::Const)];
    let operators = vec!['+', '+', '-', '*', '*', '/', '/', 'c', '%', '%', 'm', 'M'];
    leaf.prop_recursive(5, 24, 2, move |inner| {
        (prop::sample::select(operators.clone()), inner.clone(), inner)
            .prop_map(|(operator, a, b)| Tree::Node(operator, Box::new(a), Box::new(b)))
    })
}

pub(super) fn small_tree() -> impl Strategy<Value = Tree> {
    tree(small().boxed())
}

pub(super) fn lookup(values: &[i64; 4]) -> impl Fn(&Symbol) -> Option<i64> + '_ {
    |symbol| NAMES.iter().position(|name| *name == symbol.name()).map(|i| values[i])
}

fn check_value(tree: &Tree, values: &[i64; 4]) -> Result<(), TestCaseError> {
    let dim = tree.dim();
    match (dim.eval(&lookup(values)), tree.value(values)) {
        (Ok(got), Some(expected)) => {
            prop_assert_eq!(i128::from(got), expected, "{} of {}", dim, tree.text());
        }
        (Err(EvalError::Overflow), Some(expected)) => {
            // The steps of the canonical form differ from those of the tree, but no small value may
            // be lost for small numbers.
            let small =
                values.iter().all(|v| v.unsigned_abs() < 1 << 20) && dim.nodes() < 40 && expected.unsigned_abs() < 1 << 40;
            prop_assert!(!small || tree.text().len() > 200, "{} overflows at {:?}", dim, values);
        }
        (Err(EvalError::Overflow), None) => {}
        (Err(error), _) => prop_assert!(dim.defect().is_some(), "{}: {}", dim, error),
        (Ok(_), None) => {}
    }
    Ok(())
}

proptest! {
    #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn the_canonical_form_has_the_value_of_the_expression(tree in small_tree(), rows in prop::collection::vec(prop::array::uniform4(-20_i64..200), 8)) {
        for values in rows.iter().chain([&[0; 4], &[1; 4], &[-1; 4]]) {
            check_value(&tree, values)?;
        }
    }

    #[test]
    fn a_shortened_sum_has_the_value_of_the_sum(a in small_tree(), b in small_tree(), c in small_tree(), rows in prop::collection::vec(prop::array::uniform4(-20_i64..200), 4)) {
        let (a, b, c) = (a.dim(), b.dim(), c.dim());
        let sums = [&a - Dim::min(&a, &b) + &c, Dim::min(&a, &b) + Dim::max(&(&a - &b), &Dim::constant(0)) + &c];
        for (sum, values) in sums.iter().flat_map(|sum| rows.iter().map(move |values| (sum, values))) {
            let at = |dim: &Dim| dim.eval(&|symbol: &Symbol| NAMES.iter().position(|name| *name == symbol.name()).map(|i| values[i]));
            if let (Ok(long), Ok(short)) = (at(sum), at(&sum.shortened())) {
                prop_assert_eq!(long, short, "{} as {}", sum, sum.shortened());
            }
        }
    }

    #[test]
    fn it_has_it_near_the_bounds_of_64_bits(tree in tree(extreme().boxed()), values in [extreme(), extreme(), extreme(), extreme()]) {
        check_value(&tree, &values)?;
    }

    #[test]
    fn text_reads_back(tree in prop_oneof![small_tree().boxed(), tree(extreme().boxed()).boxed()]) {
        let dim = tree.dim();
        if dim.defect().is_none() {
            let text = dim.to_string();
            prop_assert_eq!(&Dim::parse(&text).map_err(|e| TestCaseError::fail(format!("{text}: {e}")))?, &dim, "{}", text);
            // A rounded up quotient has no operator in the text.
            let written = tree.text();
            if let (false, Ok(parsed)) = (written.contains("(-((-"), Dim::parse(&written)) {
                prop_assert_eq!(parsed, dim);
            }
        }
    }

    #[test]
    fn rebuilding_a_dim_changes_nothing(tree in small_tree()) {
        let dim = tree.dim();
        prop_assert_eq!(dim.map_children(&mut Dim::clone), dim.clone());
        prop_assert_eq!(dim.substitute(&|_| None), dim);
    }

    #[test]
    fn order_of_construction_does_not_matter(a in small_tree(), b in small_tree(), c in small_tree()) {
        let (a, b, c) = (a.dim(), b.dim(), c.dim());
        prop_assert_eq!(&a + &b, &b + &a);
        prop_assert_eq!(&a * &b, &b * &a);
        let all = [&a, &b, &c].map(Dim::clone);
        prop_assert_eq!(a.clone().min(b.clone()).min(c.clone()), Dim::min(&c, &Dim::min(&b, &a)));
        prop_assert_eq!(Dim::max_of(all), Some(Dim::max(&c, &Dim::max(&b, &a))));
        prop_assert_eq!(&(&a + &b) + &c, &a + &(&b + &c));
        prop_assert_eq!(&(&a - &b) + &b, a);
    }

    #[test]
    fn hash_order_and_equality_agree(a in small_tree(), b in small_tree()) {
        use std::hash::{BuildHasher, RandomState};
        let (a, b) = (a.dim(), b.dim());
        let state = RandomState::new();
        prop_assert_eq!(a.cmp(&b).is_eq(), a == b);
        prop_assert_eq!(a.cmp(&b), b.cmp(&a).reverse());
        for (x, y) in [(a.clone(), &(&a + &b) - &b), (a.clone(), b.clone())] {
            if x == y {
                prop_assert_eq!(state.hash_one(&x), state.hash_one(&y));
                prop_assert_eq!(x.to_string(), y.to_string());
            }
        }
    }

    #[test]
    fn any_text_is_read_or_refused(text in "[-+*/%() ,ABminax0-9]{0,40}") {
        if let Ok(dim) = Dim::parse(&text) {
            prop_assert_eq!(Dim::parse(&dim.to_string()), Ok(dim));
        }
    }
}
