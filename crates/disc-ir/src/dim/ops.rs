//! `+`, `-`, `*` and unary `-` on dims, by value and by reference, also with an `i64` on either
//! side.

use std::ops::{Add, AddAssign, Mul, MulAssign, Neg, Sub, SubAssign};

use super::Dim;

macro_rules! binary {
    ($trait:ident $method:ident $assign:ident $assign_method:ident => $inner:ident) => {
        binary!(@ $trait $method $inner: Dim, Dim, |a, b| (&a, &b));
        binary!(@ $trait $method $inner: Dim, &Dim, |a, b| (&a, b));
        binary!(@ $trait $method $inner: &Dim, Dim, |a, b| (a, &b));
        binary!(@ $trait $method $inner: &Dim, &Dim, |a, b| (a, b));
        binary!(@ $trait $method $inner: Dim, i64, |a, b| (&a, &Dim::constant(b)));
        binary!(@ $trait $method $inner: &Dim, i64, |a, b| (a, &Dim::constant(b)));
        binary!(@ $trait $method $inner: i64, Dim, |a, b| (&Dim::constant(a), &b));
        binary!(@ $trait $method $inner: i64, &Dim, |a, b| (&Dim::constant(a), b));

        impl $assign<Dim> for Dim {
            fn $assign_method(&mut self, other: Dim) {
                *self = self.$inner(&other);
            }
        }
        impl $assign<&Dim> for Dim {
            fn $assign_method(&mut self, other: &Dim) {
                *self = self.$inner(other);
            }
        }
        impl $assign<i64> for Dim {
            fn $assign_method(&mut self, other: i64) {
                *self = self.$inner(&Dim::constant(other));
            }
        }
    };
    (@ $trait:ident $method:ident $inner:ident: $left:ty, $right:ty, |$a:ident, $b:ident| ($x:expr, $y:expr)) => {
        impl $trait<$right> for $left {
            type Output = Dim;
            fn $method(self, other: $right) -> Dim {
                let ($a, $b) = (self, other);
                Dim::$inner($x, $y)
            }
        }
    };
}

binary!(Add add AddAssign add_assign => plus);
binary!(Sub sub SubAssign sub_assign => minus);
binary!(Mul mul MulAssign mul_assign => times);

impl Neg for Dim {
    type Output = Dim;
    fn neg(self) -> Dim {
        self.negated()
    }
}

impl Neg for &Dim {
    type Output = Dim;
    fn neg(self) -> Dim {
        self.negated()
    }
}

impl std::iter::Sum for Dim {
    fn sum<I: Iterator<Item = Dim>>(dims: I) -> Dim {
        Dim::sum(dims)
    }
}

impl std::iter::Product for Dim {
    fn product<I: Iterator<Item = Dim>>(dims: I) -> Dim {
        Dim::product(dims)
    }
}
