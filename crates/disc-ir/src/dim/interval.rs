//! Computes with intervals of integers, which may be unbounded.
//!
//! Invariants: every operation gives an interval that holds all results (it may be wider, never
//! narrower), also where a bound does not fit 128 bits. An interval whose low end is above its high
//! end is empty: what it bounds cannot exist.

use std::cmp::{max, min};

/// One end of an interval.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum End {
    Below,
    At(i128),
    Above,
}

use End::{Above, At, Below};

impl End {
    fn sign(self) -> i128 {
        match self {
            Below => -1,
            At(value) => value.signum(),
            Above => 1,
        }
    }

    fn infinite(sign: i128) -> End {
        match sign {
            0 => At(0),
            s if s < 0 => Below,
            _ => Above,
        }
    }

    fn negated(self) -> End {
        match self {
            Below => Above,
            Above => Below,
            At(value) => value.checked_neg().map_or(Above, At),
        }
    }

    /// Adds ends of the same side; low ends are only added to low ends, so `Below + Above` does not
    /// occur.
    fn plus(self, other: End) -> End {
        match (self, other) {
            (At(a), At(b)) => a.checked_add(b).map_or(End::infinite(a.signum()), At),
            (At(_), end) | (end, _) => end,
        }
    }

    fn times(self, other: End) -> End {
        match (self, other) {
            (At(a), At(b)) => a.checked_mul(b).map_or(End::infinite(a.signum() * b.signum()), At),
            _ => End::infinite(self.sign() * other.sign()),
        }
    }

    /// Floor division by a positive end.
    fn over(self, positive: End) -> End {
        match (self, positive) {
            (At(a), At(b)) => At(super::division::floor_div(a, b)),
            (At(a), _) => At(if a < 0 { -1 } else { 0 }),
            (end, At(_)) => end,
            (Below, _) => At(-1),
            _ => At(0),
        }
    }
}

/// The integers from `lo` to `hi`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Interval {
    pub(super) lo: End,
    pub(super) hi: End,
}

impl Interval {
    pub(super) const ALL: Interval = Interval { lo: Below, hi: Above };
    pub(super) const NOT_NEGATIVE: Interval = Interval { lo: At(0), hi: Above };

    /// Makes an interval. A low end beyond all numbers says no more than the largest number does,
    /// and the same below.
    pub(super) fn new(lo: End, hi: End) -> Interval {
        let lo = if lo == Above { At(i128::MAX) } else { lo };
        let hi = if hi == Below { At(i128::MIN) } else { hi };
        Interval { lo, hi }
    }

    pub(super) fn point(value: i128) -> Interval {
        Interval { lo: At(value), hi: At(value) }
    }

    pub(super) fn bounded(lo: Option<i64>, hi: Option<i64>) -> Interval {
        Interval { lo: lo.map_or(Below, |v| At(v.into())), hi: hi.map_or(Above, |v| At(v.into())) }
    }

    pub(super) fn is_empty(self) -> bool {
        self.lo > self.hi
    }

    /// The only value.
    pub(super) fn single(self) -> Option<i128> {
        match (self.lo, self.hi) {
            (At(a), At(b)) if a == b => Some(a),
            _ => None,
        }
    }

    pub(super) fn contains(self, value: i128) -> bool {
        self.lo <= At(value) && At(value) <= self.hi
    }

    pub(super) fn not_negative(self) -> bool {
        self.lo >= At(0)
    }

    pub(super) fn intersect(self, other: Interval) -> Interval {
        Interval { lo: max(self.lo, other.lo), hi: min(self.hi, other.hi) }
    }

    pub(super) fn hull(self, other: Interval) -> Interval {
        Interval { lo: min(self.lo, other.lo), hi: max(self.hi, other.hi) }
    }

    pub(super) fn plus(self, other: Interval) -> Interval {
        Interval::new(self.lo.plus(other.lo), self.hi.plus(other.hi))
    }

    pub(super) fn negated(self) -> Interval {
        Interval::new(self.hi.negated(), self.lo.negated())
    }

    pub(super) fn times(self, other: Interval) -> Interval {
        let corners = [(self.lo, other.lo), (self.lo, other.hi), (self.hi, other.lo), (self.hi, other.hi)];
        let corners = corners.map(|(a, b)| a.times(b));
        Interval::new(corners.into_iter().fold(Above, min), corners.into_iter().fold(Below, max))
    }

    pub(super) fn scaled(self, by: i64) -> Interval {
        self.times(Interval::point(by.into()))
    }

    pub(super) fn power(self, power: u32) -> Interval {
        let mut product = Interval::point(1);
        // Beyond a few steps the ends are infinite or tiny anyway; `ALL` covers any further result.
        if power > 64 {
            return if self.not_negative() { Interval::NOT_NEGATIVE } else { Interval::ALL };
        }
        for _ in 0..power {
            product = product.times(self);
        }
        if power.is_multiple_of(2) { product.intersect(Interval::NOT_NEGATIVE) } else { product }
    }

    pub(super) fn minimum(self, other: Interval) -> Interval {
        Interval { lo: min(self.lo, other.lo), hi: min(self.hi, other.hi) }
    }

    pub(super) fn maximum(self, other: Interval) -> Interval {
        Interval { lo: max(self.lo, other.lo), hi: max(self.hi, other.hi) }
    }

    /// Division that rounds down, 0 for a divisor of 0.
    pub(super) fn floor_div(self, divisor: Interval) -> Interval {
        divisor.parts().into_iter().flatten().map(|part| self.over_part(part)).reduce(Interval::hull).unwrap_or(Interval::ALL)
    }

    /// The remainder with the sign of the divisor, 0 for a divisor of 0.
    pub(super) fn modulo(self, divisor: Interval) -> Interval {
        divisor.parts().into_iter().flatten().map(|part| self.modulo_part(part)).reduce(Interval::hull).unwrap_or(Interval::ALL)
    }

    /// The negative, the zero and the positive part.
    fn parts(self) -> [Option<Interval>; 3] {
        let parts = [Interval::new(Below, At(-1)), Interval::point(0), Interval::new(At(1), Above)];
        parts.map(|part| Some(self.intersect(part)).filter(|part| !part.is_empty()))
    }

    fn over_part(self, divisor: Interval) -> Interval {
        if divisor.lo >= At(1) {
            let corners = [(self.lo, divisor.lo), (self.lo, divisor.hi), (self.hi, divisor.lo), (self.hi, divisor.hi)];
            let corners = corners.map(|(a, b)| a.over(b));
            Interval::new(corners.into_iter().fold(Above, min), corners.into_iter().fold(Below, max))
        } else if divisor.hi <= At(-1) {
            self.negated().over_part(divisor.negated())
        } else {
            Interval::point(0)
        }
    }

    fn modulo_part(self, divisor: Interval) -> Interval {
        if divisor.lo >= At(1) {
            if let (At(a), At(b), Some(by)) = (self.lo, self.hi, divisor.single()) {
                let quotient = super::division::floor_div(a, by);
                if quotient == super::division::floor_div(b, by) {
                    return self.plus(Interval::point(quotient).times(divisor).negated());
                }
            }
            let below = Interval::new(At(0), divisor.hi.plus(At(-1)));
            if self.not_negative() { below.intersect(Interval::new(At(0), self.hi)) } else { below }
        } else if divisor.hi <= At(-1) {
            self.negated().modulo_part(divisor.negated()).negated()
        } else {
            Interval::point(0)
        }
    }
}

/// The values that a dim may have: bounds that fit 64 bits.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Range {
    /// The lowest value, if one is known.
    pub lo: Option<i64>,
    /// The highest value, if one is known.
    pub hi: Option<i64>,
}

impl Range {
    /// Returns true if `value` is in the range.
    pub fn contains(&self, value: i64) -> bool {
        self.lo.is_none_or(|lo| lo <= value) && self.hi.is_none_or(|hi| value <= hi)
    }
}

impl From<Interval> for Range {
    fn from(interval: Interval) -> Range {
        let outside = |value: i128| if value < 0 { i64::MIN } else { i64::MAX };
        let lo = match interval.lo {
            At(value) => i64::try_from(value).ok().or((value > 0).then(|| outside(value))),
            _ => None,
        };
        let hi = match interval.hi {
            At(value) => i64::try_from(value).ok().or((value < 0).then(|| outside(value))),
            _ => None,
        };
        Range { lo, hi }
    }
}

impl From<Range> for Interval {
    fn from(range: Range) -> Interval {
        Interval::bounded(range.lo, range.hi)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn intervals() -> Vec<(Interval, Vec<i128>)> {
        let ends = [-7, -3, -1, 0, 1, 2, 5];
        let mut all = vec![(Interval::ALL, (-9..9).collect()), (Interval::NOT_NEGATIVE, (0..9).collect())];
        for lo in ends {
            all.extend(ends.into_iter().filter(|hi| *hi >= lo).map(|hi| (Interval::new(At(lo), At(hi)), (lo..=hi).collect())));
            all.push((Interval::new(At(lo), Above), (lo..=lo + 9).collect()));
            all.push((Interval::new(Below, At(lo)), (lo - 9..=lo).collect()));
        }
        all
    }

    #[test]
    fn every_result_is_inside() {
        for (a, xs) in intervals() {
            for (b, ys) in intervals() {
                for &x in &xs {
                    for &y in &ys {
                        let quotient = if y == 0 { 0 } else { super::super::division::floor_div(x, y) };
                        let rest = if y == 0 { 0 } else { x - quotient * y };
                        assert!(a.plus(b).contains(x + y) && a.times(b).contains(x * y), "{a:?} {b:?} {x} {y}");
                        assert!(a.floor_div(b).contains(quotient), "{a:?} / {b:?}: {x} / {y}");
                        assert!(a.modulo(b).contains(rest), "{a:?} % {b:?}: {x} % {y}");
                        assert!(a.minimum(b).contains(x.min(y)) && a.maximum(b).contains(x.max(y)));
                        assert!(a.power(2).contains(x * x) && a.power(3).contains(x * x * x));
                    }
                }
            }
        }
    }

    #[test]
    fn bounds_beyond_128_bits_widen() {
        let huge = Interval::point(i128::MAX);
        assert_eq!(huge.plus(huge), Interval::new(At(i128::MAX), Above));
        assert_eq!(huge.negated().times(huge).hi, At(i128::MIN));
        assert_eq!(Range::from(huge), Range { lo: Some(i64::MAX), hi: None });
    }
}
