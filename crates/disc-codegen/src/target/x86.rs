//! Defines the targets of x86-64 processors: levels of the psABI, and extensions.
use super::TargetError;
use std::{fmt, str::FromStr};

/// A level of the x86-64 psABI.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum X86Level {
    /// SSE4.2.
    V2,
    /// AVX2, FMA, F16C.
    V3,
    /// AVX-512 F, BW, CD, DQ, VL.
    V4,
}

/// An extension that a CPU may have beyond its level, and that kernels are written for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum X86Extension {
    AmxBf16,
    AmxInt8,
    AmxTile,
    AvxVnni,
    Avx512Bf16,
    Avx512Fp16,
    Avx512Vbmi,
    Avx512Vnni,
}

/// A level with extensions: sorted, each once, each possible at this level.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct X86 {
    level: X86Level,
    extensions: Vec<X86Extension>,
}

impl X86Level {
    pub(super) const ALL: [Self; 3] = [Self::V2, Self::V3, Self::V4];

    pub fn name(self) -> &'static str {
        match self {
            Self::V2 => "x86-64-v2",
            Self::V3 => "x86-64-v3",
            Self::V4 => "x86-64-v4",
        }
    }

    /// The features that the level adds to the one below, in the words of `std::arch`. LAHF is not
    /// among them: every CPU with SSE4.2 has it.
    pub(super) fn adds(self) -> &'static [&'static str] {
        match self {
            Self::V2 => &["cmpxchg16b", "popcnt", "sse3", "ssse3", "sse4.1", "sse4.2"],
            Self::V3 => &["avx", "avx2", "bmi1", "bmi2", "f16c", "fma", "lzcnt", "movbe"],
            Self::V4 => &["avx512f", "avx512bw", "avx512cd", "avx512dq", "avx512vl"],
        }
    }
}

impl X86Extension {
    pub const ALL: [Self; 8] = [
        Self::AmxBf16,
        Self::AmxInt8,
        Self::AmxTile,
        Self::AvxVnni,
        Self::Avx512Bf16,
        Self::Avx512Fp16,
        Self::Avx512Vbmi,
        Self::Avx512Vnni,
    ];

    /// The name in target texts, which is LLVM's too.
    pub fn name(self) -> &'static str {
        match self {
            Self::AmxBf16 => "amx-bf16",
            Self::AmxInt8 => "amx-int8",
            Self::AmxTile => "amx-tile",
            Self::AvxVnni => "avxvnni",
            Self::Avx512Bf16 => "avx512bf16",
            Self::Avx512Fp16 => "avx512fp16",
            Self::Avx512Vbmi => "avx512vbmi",
            Self::Avx512Vnni => "avx512vnni",
        }
    }

    /// The lowest level that may carry the extension.
    pub fn needs(self) -> X86Level {
        match self {
            Self::AvxVnni => X86Level::V3,
            Self::AmxBf16 | Self::AmxInt8 | Self::AmxTile => X86Level::V4,
            Self::Avx512Bf16 | Self::Avx512Fp16 | Self::Avx512Vbmi | Self::Avx512Vnni => X86Level::V4,
        }
    }
}

impl X86 {
    /// A level without extensions.
    pub(super) fn plain(level: X86Level) -> Self {
        Self { level, extensions: Vec::new() }
    }

    pub fn new(level: X86Level, extensions: impl IntoIterator<Item = X86Extension>) -> Result<Self, TargetError> {
        let mut extensions: Vec<_> = extensions.into_iter().collect();
        extensions.sort_unstable();
        extensions.dedup();
        if let Some(&extension) = extensions.iter().find(|e| e.needs() > level) {
            return Err(TargetError::ExtensionNeedsLevel { target: level.to_string(), extension, needs: extension.needs() });
        }
        Ok(Self { level, extensions })
    }

    pub fn level(&self) -> X86Level {
        self.level
    }

    pub fn extensions(&self) -> &[X86Extension] {
        &self.extensions
    }

    pub fn has(&self, extension: X86Extension) -> bool {
        self.extensions.contains(&extension)
    }
}

impl FromStr for X86 {
    type Err = TargetError;

    fn from_str(text: &str) -> Result<Self, TargetError> {
        let mut parts = text.split('+');
        let name = parts.next().unwrap_or_default();
        let unknown = || TargetError::Unknown(text.to_owned());
        let level = X86Level::ALL.into_iter().find(|level| level.name() == name).ok_or_else(unknown)?;
        let extension = |part: &str| {
            let found = X86Extension::ALL.into_iter().find(|e| e.name() == part);
            found.ok_or_else(|| TargetError::unknown_extension(text, part, &X86Extension::ALL.map(X86Extension::name)))
        };
        Self::new(level, parts.map(extension).collect::<Result<Vec<_>, _>>()?)
    }
}

impl fmt::Display for X86 {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.level.name())?;
        self.extensions.iter().try_for_each(|extension| write!(f, "+{extension}"))
    }
}

impl fmt::Display for X86Level {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

impl fmt::Display for X86Extension {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}
