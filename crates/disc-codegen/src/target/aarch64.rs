//! Defines the targets of 64-bit Arm processors: Armv8-A with NEON, and extensions.
use super::TargetError;
use disc_ir::DType;
use std::{fmt, str::FromStr};

/// An extension that a CPU may have beyond Armv8-A, and that kernels are written for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum ArmExtension {
    Bf16,
    DotProd,
    Fp16,
    I8mm,
    Sve,
    Sve2,
    /// Vector registers of 256 bits or more. Kernels for `Sve` alone run at any length.
    Sve256,
    /// Vector registers of 512 bits or more.
    Sve512,
}

/// Armv8-A with extensions: sorted, each once, with those that they need.
#[derive(Clone, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct AArch64 {
    extensions: Vec<ArmExtension>,
}

/// The name of the level, to which extensions are added.
const LEVEL: &str = "aarch64-v8";

impl ArmExtension {
    pub const ALL: [Self; 8] =
        [Self::Bf16, Self::DotProd, Self::Fp16, Self::I8mm, Self::Sve, Self::Sve2, Self::Sve256, Self::Sve512];

    /// The name in target texts; but for lengths of vectors that of `std::arch` too.
    pub fn name(self) -> &'static str {
        match self {
            Self::Bf16 => "bf16",
            Self::DotProd => "dotprod",
            Self::Fp16 => "fp16",
            Self::I8mm => "i8mm",
            Self::Sve => "sve",
            Self::Sve2 => "sve2",
            Self::Sve256 => "sve256",
            Self::Sve512 => "sve512",
        }
    }

    /// The extension without which this one means nothing.
    fn needs(self) -> Option<Self> {
        let needed = disc_abi::needed_aarch64_feature(self.name())?;
        Self::ALL.into_iter().find(|extension| extension.name() == needed)
    }
}

impl AArch64 {
    /// Adds extensions to the level, and with each those that it needs.
    pub fn new(extensions: impl IntoIterator<Item = ArmExtension>) -> Self {
        let with_needed = |extension| std::iter::successors(Some(extension), |extension: &ArmExtension| extension.needs());
        let mut extensions: Vec<_> = extensions.into_iter().flat_map(with_needed).collect();
        extensions.sort_unstable();
        extensions.dedup();
        Self { extensions }
    }

    pub fn extensions(&self) -> &[ArmExtension] {
        &self.extensions
    }

    pub fn has(&self, extension: ArmExtension) -> bool {
        self.extensions.contains(&extension)
    }

    /// The elements that words hold: see [`Target::word_elements`](super::Target::word_elements).
    /// Both operands of a product are signed, or both unsigned (`sdot`, `udot`).
    pub(super) fn word_elements(&self, dtype: DType) -> Option<DType> {
        let has_dots = matches!(dtype, DType::I8 | DType::U8) && self.has(ArmExtension::DotProd);
        (has_dots || self.multiplies_pairs(dtype)).then_some(dtype)
    }

    /// Returns true if one instruction multiplies pairs of rows by pairs of columns (`bfmmla`,
    /// `smmla`, `ummla`): see [`Target::word_dtype`](super::Target::word_dtype).
    pub(super) fn multiplies_pairs(&self, elements: DType) -> bool {
        match elements {
            DType::I8 | DType::U8 => self.has(ArmExtension::I8mm),
            DType::BF16 => self.has(ArmExtension::Bf16),
            _ => false,
        }
    }

    /// The bytes of a vector register that code may count on.
    pub fn vector_bytes(&self) -> u32 {
        match () {
            () if self.has(ArmExtension::Sve512) => 64,
            () if self.has(ArmExtension::Sve256) => 32,
            () => 16,
        }
    }
}

impl FromStr for AArch64 {
    type Err = TargetError;

    fn from_str(text: &str) -> Result<Self, TargetError> {
        let mut parts = text.split('+');
        if parts.next() != Some(LEVEL) {
            return Err(TargetError::Unknown(text.to_owned()));
        }
        let extension = |part: &str| {
            let found = ArmExtension::ALL.into_iter().find(|e| e.name() == part);
            found.ok_or_else(|| TargetError::unknown_extension(text, part, &ArmExtension::ALL.map(ArmExtension::name)))
        };
        Ok(Self::new(parts.map(extension).collect::<Result<Vec<_>, _>>()?))
    }
}

impl fmt::Display for AArch64 {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(LEVEL)?;
        self.extensions.iter().try_for_each(|extension| write!(f, "+{extension}"))
    }
}

impl fmt::Display for ArmExtension {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn extensions_come_with_those_that_they_need() {
        let text = |text: &str| text.parse::<AArch64>().unwrap().to_string();
        assert_eq!(text("aarch64-v8"), "aarch64-v8");
        assert_eq!(text("aarch64-v8+sve+i8mm+bf16"), "aarch64-v8+bf16+i8mm+sve");
        assert_eq!(text("aarch64-v8+sve512"), "aarch64-v8+sve+sve256+sve512");
        assert_eq!(text("aarch64-v8+sve2"), "aarch64-v8+sve+sve2");
    }

    #[test]
    fn every_level_needs_neon() {
        let needs = |text: &str| crate::target::Target::AArch64(text.parse().unwrap()).needs().unwrap().1;
        assert_eq!(needs("aarch64-v8"), ["neon"]);
        assert_eq!(needs("aarch64-v8+dotprod"), ["neon", "dotprod"]);
    }

    #[test]
    fn what_is_no_extension_says_which_there_are() {
        let error = "aarch64-v8+avx2".parse::<AArch64>().unwrap_err().to_string();
        assert!(error.contains("`avx2`") && error.contains("bf16, dotprod, fp16, i8mm, sve"), "{error}");
        assert_eq!("aarch64-v9".parse::<AArch64>(), Err(TargetError::Unknown("aarch64-v9".into())));
    }

    #[test]
    fn the_length_of_vectors_is_what_code_counts_on() {
        let bytes = |text: &str| text.parse::<AArch64>().unwrap().vector_bytes();
        assert_eq!(["aarch64-v8", "aarch64-v8+sve", "aarch64-v8+sve256", "aarch64-v8+sve512"].map(bytes), [16, 16, 32, 64]);
    }
}
