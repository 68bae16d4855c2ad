//! Numbers the element types, as descriptors and metadata store them: one byte, never zero.

/// An element type. The discriminants are the codes in [`crate::Tensor::dtype`] and are never
/// renumbered.
#[repr(u8)]
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum DType {
    F16 = 1,
    BF16 = 2,
    F32 = 3,
    F64 = 4,
    /// A boolean: one byte, 0 or 1 and nothing else (as `torch.bool` and NumPy's `bool_`).
    /// Generated code reads any nonzero byte as an unspecified truth value, and writes only 0 and
    /// 1.
    I1 = 5,
    I8 = 6,
    U8 = 7,
    I16 = 8,
    U16 = 9,
    I32 = 10,
    U32 = 11,
    I64 = 12,
    U64 = 13,
}

impl DType {
    /// Every element type, in the order of the codes.
    pub const ALL: [DType; 13] = [
        DType::F16,
        DType::BF16,
        DType::F32,
        DType::F64,
        DType::I1,
        DType::I8,
        DType::U8,
        DType::I16,
        DType::U16,
        DType::I32,
        DType::U32,
        DType::I64,
        DType::U64,
    ];

    /// The code in a descriptor.
    pub const fn code(self) -> u8 {
        self as u8
    }

    /// Returns the element type of a code, or `None` for a code that this version does not know.
    pub const fn from_code(code: u8) -> Option<DType> {
        if code == 0 || code as usize > Self::ALL.len() { None } else { Some(Self::ALL[code as usize - 1]) }
    }

    /// Bytes of one element in memory, which is also its alignment.
    pub const fn size(self) -> usize {
        match self {
            DType::I1 | DType::I8 | DType::U8 => 1,
            DType::F16 | DType::BF16 | DType::I16 | DType::U16 => 2,
            DType::F32 | DType::I32 | DType::U32 => 4,
            DType::F64 | DType::I64 | DType::U64 => 8,
        }
    }

    /// The name in IR text and messages.
    pub const fn name(self) -> &'static str {
        match self {
            DType::F16 => "f16",
            DType::BF16 => "bf16",
            DType::F32 => "f32",
            DType::F64 => "f64",
            DType::I1 => "i1",
            DType::I8 => "i8",
            DType::U8 => "u8",
            DType::I16 => "i16",
            DType::U16 => "u16",
            DType::I32 => "i32",
            DType::U32 => "u32",
            DType::I64 => "i64",
            DType::U64 => "u64",
        }
    }
}

impl core::fmt::Display for DType {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        f.write_str(self.name())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn codes_round_trip_and_zero_is_no_type() {
        for dtype in DType::ALL {
            assert_eq!(DType::from_code(dtype.code()), Some(dtype));
        }
        assert_eq!(DType::from_code(0), None);
        assert_eq!(DType::from_code(14), None);
        assert_eq!(DType::from_code(255), None);
    }
}
