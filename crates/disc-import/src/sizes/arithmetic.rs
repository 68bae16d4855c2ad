//! Computes with sizes as NumPy computes with small integer tensors.
use super::Sizes;
use crate::emit::Emitter;
use disc_ir::{DType, Dim};

/// An operation on pairs of sizes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Arithmetic {
    Add,
    Sub,
    Mul,
    /// Rounds down.
    FloorDiv,
    /// Has the sign of the divisor.
    FloorMod,
    Min,
    Max,
    Equal,
    NotEqual,
    Less,
    LessEqual,
    Greater,
    GreaterEqual,
}

impl Arithmetic {
    /// Applies the operation to each pair of elements; a scalar, or a vector of one, goes with all
    /// of the other. `None`: the result is no list of sizes, or a number that wraps.
    pub fn apply(self, b: &Emitter<'_>, x: &Sizes, y: &Sizes) -> Option<Sizes> {
        let count = match (x.dims.len(), y.dims.len()) {
            (a, c) if a == c => a,
            (1, c) => c,
            (a, 1) => a,
            _ => return None,
        };
        let at = |sizes: &Sizes, i: usize| sizes.dims.get(if sizes.dims.len() == 1 { 0 } else { i }).cloned();
        let dims = (0..count).map(|i| self.of(b, &at(x, i)?, &at(y, i)?)).collect::<Option<Vec<Dim>>>()?;
        let dtype = if self.is_relation() { DType::I1 } else { x.dtype };
        if !dims.iter().all(|dim| Sizes::holds(dtype, dim)) {
            return None;
        }
        Some(Sizes { dtype, dims, is_scalar: x.is_scalar && y.is_scalar })
    }

    fn is_relation(self) -> bool {
        use Arithmetic::{Equal, Greater, GreaterEqual, Less, LessEqual, NotEqual};
        matches!(self, Equal | NotEqual | Less | LessEqual | Greater | GreaterEqual)
    }

    fn of(self, b: &Emitter<'_>, x: &Dim, y: &Dim) -> Option<Dim> {
        let truth = |truth: bool| Some(Dim::from(i64::from(truth)));
        let is_divisor = |y: &Dim| y.as_const().is_some_and(|y| y > 0);
        let result = match self {
            Arithmetic::Add => x + y,
            Arithmetic::Sub => x - y,
            Arithmetic::Mul => x * y,
            Arithmetic::FloorDiv if is_divisor(y) => x.floor_div(y),
            Arithmetic::FloorMod if is_divisor(y) => x.modulo(y),
            Arithmetic::FloorDiv | Arithmetic::FloorMod => return None,
            Arithmetic::Min => Dim::min(x, y),
            Arithmetic::Max => Dim::max(x, y),
            _ => return self.relation(b, x, y).and_then(truth),
        };
        result.defect().is_none().then_some(result)
    }

    /// Returns the truth of a relation that holds, or does not, for every size.
    fn relation(self, b: &Emitter<'_>, x: &Dim, y: &Dim) -> Option<bool> {
        let (equal, less, greater) = (b.equal(x, y), b.is_less(x, y), b.is_less(y, x));
        match self {
            Arithmetic::Equal if equal => Some(true),
            Arithmetic::Equal if less || greater => Some(false),
            Arithmetic::NotEqual => Arithmetic::Equal.relation(b, x, y).map(|equal| !equal),
            Arithmetic::Less if less => Some(true),
            Arithmetic::Less if equal || greater => Some(false),
            Arithmetic::GreaterEqual => Arithmetic::Less.relation(b, x, y).map(|less| !less),
            Arithmetic::Greater => Arithmetic::Less.relation(b, y, x),
            Arithmetic::LessEqual => Arithmetic::Less.relation(b, y, x).map(|less| !less),
            _ => None,
        }
    }
}
