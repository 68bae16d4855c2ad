//! Represents sets of element types that an operand admits.
use crate::types::DType;

/// A set of element types.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct DTypeClass(u16);

impl DTypeClass {
    pub const FLOAT: Self = Self::of(&[DType::F16, DType::BF16, DType::F32, DType::F64]);
    pub const SIGNED: Self = Self::of(&[DType::I8, DType::I16, DType::I32, DType::I64]);
    pub const UNSIGNED: Self = Self::of(&[DType::U8, DType::U16, DType::U32, DType::U64]);
    pub const INTEGER: Self = Self::SIGNED.or(Self::UNSIGNED);
    pub const BOOL: Self = Self::of(&[DType::I1]);
    pub const NUMBER: Self = Self::FLOAT.or(Self::INTEGER);
    /// Types whose bits mean bits: integers and truth values.
    pub const BITS: Self = Self::INTEGER.or(Self::BOOL);
    pub const ANY: Self = Self::NUMBER.or(Self::BOOL);

    pub const fn of(dtypes: &[DType]) -> Self {
        let mut bits = 0;
        let mut i = 0;
        while i < dtypes.len() {
            bits |= 1 << dtypes[i] as u16;
            i += 1;
        }
        Self(bits)
    }

    pub const fn or(self, other: Self) -> Self {
        Self(self.0 | other.0)
    }

    pub fn contains(self, dtype: DType) -> bool {
        self.0 & (1 << dtype as u16) != 0
    }

    /// The members, in the order of [`DType::ALL`].
    pub fn members(self) -> impl Iterator<Item = DType> {
        DType::ALL.into_iter().filter(move |&dtype| self.contains(dtype))
    }

    /// Describes the set in words, for messages and docs.
    pub fn describe(self) -> String {
        let named = [
            (Self::ANY, "any"),
            (Self::NUMBER, "number"),
            (Self::FLOAT, "float"),
            (Self::BITS, "integer or i1"),
            (Self::INTEGER, "integer"),
            (Self::SIGNED, "signed integer"),
            (Self::UNSIGNED, "unsigned integer"),
        ];
        match named.iter().find(|(class, _)| *class == self) {
            Some((_, name)) => (*name).into(),
            None => self.members().map(DType::name).collect::<Vec<_>>().join(", "),
        }
    }
}
