//! Winograd's methods of a version: F(4x4, 3x3), or F(2x2, 3x3) for few results.
//!
//! Both read one transformed kernel. Each place of a transformed window is a value of a polynomial
//! at a point; the points of the smaller method are among those of the larger one, and its other
//! transformations make up for their scales.
use crate::{kernel::KernelBuilder, schedule::VersionKind};
use disc_ir::{DType, Value};
use disc_kernel_macros::expr;

versions! {
    /// A convolution by Winograd's method with tiles of four by four results.
    Winograd {
        kernels: "`kN_matmul.winograd`",
        sizes: "convolutions with enough tiles of four by four results",
        unit: "",
    }

    /// The same with tiles of two by two, for few results.
    WinogradSmall {
        kernels: "`kN_matmul.winograd_small`",
        sizes: "convolutions with enough tiles of two by two results",
        unit: "",
    }
}

/// Places along a side of the transformed kernel.
pub(super) const KERNEL_SIDE: i64 = 6;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Method {
    /// Four by four results of a tile.
    Large,
    /// Two by two.
    Small,
}

impl Method {
    pub(super) const ALL: [Self; 2] = [Self::Large, Self::Small];

    pub(super) fn kind(self) -> VersionKind {
        match self {
            Self::Large => VersionKind::Winograd,
            Self::Small => VersionKind::WinogradSmall,
        }
    }

    /// Gives the suffix of the names of its kernels.
    pub(super) fn suffix(self) -> &'static str {
        match self {
            Self::Large => "winograd",
            Self::Small => "winograd_small",
        }
    }

    /// Results along a side of a tile.
    pub(super) fn side(self) -> i64 {
        match self {
            Self::Large => 4,
            Self::Small => 2,
        }
    }

    /// Results along each dimension from which on the method pays.
    pub(super) fn fewest_results(self) -> i64 {
        match self {
            Self::Large => 6,
            Self::Small => 4,
        }
    }

    /// Elements along a side that a tile reads, which are as many as places along a side of a
    /// transformed window.
    pub(super) fn read(self) -> i64 {
        self.side() + 2
    }

    /// Places of a transformed window.
    pub(super) fn places(self) -> i64 {
        self.read() * self.read()
    }

    /// Gives the number of a place in the transformed kernel.
    pub(super) fn place_in_kernel(self, kb: &mut KernelBuilder, place: Value) -> Value {
        match self {
            Self::Large => place,
            Self::Small => {
                let side = kb.int(self.read());
                let (down, across) = (expr!(kb, place / side), expr!(kb, place % side));
                let [down, across] = [down, across].map(|number| point_in_kernel(kb, number));
                expr!(kb, down * int(KERNEL_SIDE) + across)
            }
        }
    }

    /// Transforms the elements that a tile reads, along one dimension.
    ///
    /// ```text
    ///  4  0 -5  0  1  0       4  0 -4  0
    ///  0 -4 -4  1  1  0       0 -3 -3  0
    ///  0  4 -4 -1  1  0       0  3 -3  0
    ///  0 -2 -1  2  1  0       0  1  0 -1
    ///  0  2 -1 -2  1  0
    ///  0  4  0 -5  0  1
    /// ```
    pub(super) fn transform_input(self, kb: &mut KernelBuilder, d: &[Value]) -> Vec<Value> {
        let lanes = kb.lanes(d[0]);
        let times = |kb: &mut KernelBuilder, factor: f64, value: Value, sum: Value| {
            expr!(kb, fma(float(DType::F32, factor, lanes), value, sum))
        };
        if self == Self::Small {
            let (even, plus, minus) = (expr!(kb, d[0] - d[2]), expr!(kb, d[1] + d[2]), expr!(kb, d[1] - d[2]));
            let [four, three_less, three] = [4.0, -3.0, 3.0].map(|factor| kb.float(DType::F32, factor, lanes));
            return vec![expr!(kb, four * even), expr!(kb, three_less * plus), expr!(kb, three * minus), expr!(kb, d[1] - d[3])];
        }
        let first = times(kb, -5.0, d[2], d[4]);
        let first = times(kb, 4.0, d[0], first);
        let even = times(kb, -4.0, d[2], d[4]);
        let odd = times(kb, -4.0, d[1], d[3]);
        let (plus, minus) = (expr!(kb, even + odd), expr!(kb, even - odd));
        let (even, odd) = (expr!(kb, d[4] - d[2]), expr!(kb, d[3] - d[1]));
        let (twice, back) = (times(kb, 2.0, odd, even), times(kb, -2.0, odd, even));
        let last = times(kb, -5.0, d[3], d[5]);
        let last = times(kb, 4.0, d[1], last);
        vec![first, plus, minus, twice, back, last]
    }

    /// Transforms products to results, along one dimension.
    ///
    /// ```text
    ///  1  1  1  1  1  0       1  1  1  0
    ///  0  1 -1  2 -2  0       0  1 -1 -1
    ///  0  1  1  4  4  0
    ///  0  1 -1  8 -8  1
    /// ```
    pub(super) fn transform_products(self, kb: &mut KernelBuilder, m: &[Value]) -> Vec<Value> {
        let lanes = kb.lanes(m[0]);
        let times = |kb: &mut KernelBuilder, factor: f64, value: Value, sum: Value| {
            expr!(kb, fma(float(DType::F32, factor, lanes), value, sum))
        };
        let (ones, ones_less) = (expr!(kb, m[1] + m[2]), expr!(kb, m[1] - m[2]));
        let first = expr!(kb, m[0] + ones);
        if self == Self::Small {
            return vec![first, expr!(kb, ones_less - m[3])];
        }
        let (twos, twos_less) = (expr!(kb, m[3] + m[4]), expr!(kb, m[3] - m[4]));
        let first = expr!(kb, first + twos);
        let last = expr!(kb, ones_less + m[5]);
        vec![first, times(kb, 2.0, twos_less, ones_less), times(kb, 4.0, twos, ones), times(kb, 8.0, twos_less, last)]
    }
}

/// The first three points of the methods are the same, and the last one.
fn point_in_kernel(kb: &mut KernelBuilder, number: Value) -> Value {
    let (three, two) = (kb.int(3), kb.int(2));
    expr!(kb, number + number / three * two)
}
