//! Rounds quotients of sizes, whose divisors are positive wherever the quotient is a number.
use super::{greatest, least};
use disc_ir::Dim;

pub fn rounded_up(above: &Dim, below: &Dim) -> Dim {
    (above + (below - 1)).floor_div(below)
}

pub fn rounded_to_zero(above: &Dim, below: &Dim) -> Dim {
    let (down, zero) = (above.floor_div(below), Dim::constant(0));
    if greatest(above, &zero) == *above {
        return down;
    }
    greatest(&down, &zero) + least(&rounded_up(above, below), &zero)
}

/// The nearest integer; of two that are as near, the even one.
pub fn rounded_to_even(above: &Dim, below: &Dim) -> Dim {
    let (twice, step) = (above * 2 + below, below * 2);
    let up = twice.floor_div(&step);
    // 1 where the number is in the middle, and the upper integer is odd.
    let is_middle = greatest(&(Dim::constant(1) - twice.modulo(&step)), &Dim::constant(0));
    &up - is_middle * up.modulo(&Dim::constant(2))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn values(f: impl Fn(&Dim, &Dim) -> Dim, above: &[i64], below: i64) -> Vec<Option<i64>> {
        above.iter().map(|&n| f(&Dim::constant(n), &Dim::constant(below)).as_const()).collect()
    }

    #[test]
    fn quotients_round_as_their_names_say() {
        let above = [-7, -6, -1, 0, 1, 5, 6];
        assert_eq!(values(rounded_up, &above, 3), [-2, -2, 0, 0, 1, 2, 2].map(Some));
        assert_eq!(values(rounded_to_zero, &above, 3), [-2, -2, 0, 0, 0, 1, 2].map(Some));
        assert_eq!(values(rounded_to_even, &[1, 3, 5, -1, -3], 2), [0, 2, 2, 0, -2].map(Some));
    }
}
