//! Writes conditions on sizes as sizes: 1 where one holds, else 0.
use super::{greatest, least};
use disc_ir::Dim;

/// A relation of two sizes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Relation {
    Eq,
    Ne,
    Lt,
    Le,
    Gt,
    Ge,
}

/// 1 where the relation holds, else 0.
pub fn relation(is: Relation, left: &Dim, right: &Dim) -> Dim {
    let (zero, one) = (Dim::constant(0), Dim::constant(1));
    let less = right - left;
    let more = &zero - &less;
    let above = match is {
        Relation::Eq => return &one - least(&greatest(&less, &more), &one),
        Relation::Ne => return least(&greatest(&less, &more), &one),
        Relation::Lt => less,
        Relation::Le => less + 1,
        Relation::Gt => more,
        Relation::Ge => more + 1,
    };
    least(&greatest(&above, &zero), &one)
}

/// `value` where `condition` is 1, `other` where it is 0.
pub fn chosen(condition: &Dim, value: &Dim, other: &Dim) -> Dim {
    other + (value - other) * condition
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn relations_are_one_where_they_hold() {
        use Relation::{Eq, Ge, Gt, Le, Lt, Ne};
        let of = |left: i64, right: i64| {
            [Eq, Ne, Lt, Le, Gt, Ge].map(|is| relation(is, &Dim::constant(left), &Dim::constant(right)).as_const().unwrap_or(-1))
        };
        assert_eq!(of(3, 4), [0, 1, 1, 1, 0, 0]);
        assert_eq!(of(4, 4), [1, 0, 0, 1, 0, 1]);
        assert_eq!(of(9, 4), [0, 1, 0, 0, 1, 1]);
        let size = chosen(&Dim::constant(1), &Dim::constant(7), &Dim::constant(5));
        assert_eq!(size.as_const(), Some(7));
    }
}
