//! Defines the target that code is made for: the public `Target` of the project, as text, and the
//! facts about it that schedules query.
//!
//! It is not LLVM's notion of a target (disc-llvm maps it), and it never asks LLVM for the name of
//! this CPU: the host is found by CPUID. Invariants:
//! - text and value are one to one: `t.to_string().parse() == Ok(t)`, extensions print in one order
//!   and never twice;
//! - code for a target runs wherever [`Target::check_host`] accepts it, whatever machine compiled
//!   it.
mod aarch64;
mod compilation;
mod cpu_model;
mod gpu_model;
mod host;
mod x86;

pub use aarch64::{AArch64, ArmExtension};
pub use compilation::Compilation;
pub use cpu_model::{CpuModel, Tile};
use disc_ir::{DType, fragment::Tile as RegisterTile};
pub use gpu_model::{GpuModel, NVIDIA, NVIDIA_SPECIFIC};
use std::{fmt, str::FromStr};
pub use x86::{X86, X86Extension, X86Level};

/// The target that code is made for. As text: `x86-64-v3`, `x86-64-v4+avx512bf16+avx512vnni`,
/// `aarch64-v8+dotprod`, `nvptx:sm_90`, `nvptx:sm_90a`, `amdgpu:gfx90a`, `simt:sm_90`.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Target {
    X86(X86),
    AArch64(AArch64),
    /// An architecture as NVIDIA numbers them: 90 is `sm_90`. Code for a `specific` one, `sm_90a`,
    /// may use instructions that later chips lack, and runs only on that chip.
    Nvptx {
        sm: u32,
        specific: bool,
    },
    /// A processor as LLVM names them: `gfx90a`.
    Amdgpu {
        gfx: String,
    },
    /// The interpreter of GPU kernels, with the limits of a chip: `sm_90`, `gfx942`.
    Simt {
        chip: String,
    },
}

#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum TargetError {
    #[error(
        "unknown target `{0}`: expected `x86-64-v2`, `x86-64-v3`, `x86-64-v4` or `aarch64-v8`, with extensions such as `+avx512vnni` or `+dotprod`, \
         or a GPU: `nvptx:sm_90`, or one that is interpreted, such as `simt:sm_90`; kernels alone are made for `amdgpu:gfx90a`"
    )]
    Unknown(String),
    #[error("target `{target}`: unknown extension `{extension}`, expected one of {known}")]
    UnknownExtension { target: String, extension: String, known: String },
    #[error("target `{target}`: extension `{extension}` needs level {needs}")]
    ExtensionNeedsLevel { target: String, extension: X86Extension, needs: X86Level },
    #[error("kernels for `{target}` do not run on the device `{device}`")]
    OtherDevice { target: String, device: String },
    #[error("no code is made yet for `{0}`: expected the target of a CPU, such as `x86-64-v3`")]
    NoBackend(String),
    #[error("host programs run on a CPU, and `{0}` is none")]
    HostIsNoCpu(String),
    #[error("kernels for `{device}` beside host programs for `{host}`: a CPU runs both, so both have one target")]
    TwoCpus { host: String, device: String },
    #[error("code for `{target}` cannot run on this machine: it lacks {missing}")]
    HostLacks { target: String, missing: String },
    #[error("code for `{target}` cannot run on a CPU of this kind ({host})")]
    OtherKind { target: String, host: &'static str },
    #[error("this CPU lacks {missing}; the oldest CPU that code is made for is x86-64-v2")]
    HostTooOld { missing: String },
}

impl TargetError {
    fn unknown_extension(target: &str, extension: &str, known: &[&str]) -> Self {
        Self::UnknownExtension { target: target.to_owned(), extension: extension.to_owned(), known: known.join(", ") }
    }
}

impl Target {
    /// A level without extensions.
    pub fn x86(level: X86Level) -> Self {
        Self::X86(X86::plain(level))
    }

    /// The best target that this process can run: level and extensions as CPUID and the operating
    /// system report them.
    pub fn host() -> Result<Self, TargetError> {
        host::target()
    }

    /// Returns the target of a GPU by the name of its chip: for one that is newer than this
    /// compiler, the newest that it runs code of.
    pub fn of_chip(chip: &str) -> Option<Self> {
        let number: u32 = chip.strip_prefix("sm_")?.parse().ok()?;
        let sm = NVIDIA.into_iter().filter(|&sm| sm <= number).max()?;
        format!("nvptx:sm_{sm}").parse().ok()
    }

    /// Returns `Ok` if this process can run code of this target. For a GPU the device decides, not
    /// this check.
    pub fn check_host(&self) -> Result<(), TargetError> {
        match self {
            Self::X86(_) | Self::AArch64(_) => host::check(self),
            Self::Nvptx { .. } | Self::Amdgpu { .. } | Self::Simt { .. } => {
                Err(TargetError::OtherKind { target: self.to_string(), host: std::env::consts::ARCH })
            }
        }
    }

    /// The architecture and the features that a CPU must have to run code of this target, in the
    /// words of `std::arch`; `None` for a GPU.
    pub fn needs(&self) -> Option<(&'static str, Vec<&'static str>)> {
        match self {
            Self::X86(x86) => {
                let levels = X86Level::ALL.into_iter().filter(|level| *level <= x86.level());
                let features = levels.flat_map(|level| level.adds().iter().copied());
                Some(("x86_64", features.chain(x86.extensions().iter().map(|e| e.name())).collect()))
            }
            Self::AArch64(arm) => {
                // The level itself: every ARMv8-A processor that code is made for has it.
                let neon = std::iter::once("neon");
                Some(("aarch64", neon.chain(arm.extensions().iter().map(|e| e.name())).collect()))
            }
            Self::Nvptx { .. } | Self::Amdgpu { .. } | Self::Simt { .. } => None,
        }
    }

    pub fn is_cpu(&self) -> bool {
        matches!(self, Self::X86(_) | Self::AArch64(_))
    }

    /// The bytes of the widest vector register; on a GPU, of the widest access of one thread.
    pub fn vector_bytes(&self) -> u32 {
        CpuModel::of(self).map_or(16, |model| model.vector_bytes)
    }

    /// The elements of `bits` bits in one vector register; 1 on a GPU, whose threads are lanes. A
    /// truth value (1 bit) counts as the byte that it is stored as.
    pub fn lanes(&self, bits: u32) -> u32 {
        if self.is_cpu() { self.vector_bytes() * 8 / bits.max(8) } else { 1 }
    }

    /// The most elements of `bits` bits that one access may have; a CPU spreads any number over its
    /// registers.
    pub fn access_lanes(&self, bits: u32) -> u32 {
        if self.is_cpu() { u32::MAX } else { self.vector_bytes() * 8 / bits.max(8) }
    }

    /// The vector registers that a register tile may rely on; on a GPU the 32-bit registers of a
    /// thread at good occupancy.
    pub fn vector_registers(&self) -> u32 {
        CpuModel::of(self).map_or(64, |model| model.vector_registers)
    }

    /// Returns true for CPUs with AVX-512 and AVX-VNNI (Zen 5, Sapphire Rapids and later ones).
    /// They have a first-level data cache of 48 KiB with 12 lines in a set, while older ones with
    /// AVX-512 have 32 KiB and 8 lines, and nearly all of them multiply two whole registers in a
    /// cycle. It is a hint for prefetching and blocking: code for it is right everywhere.
    pub fn has_wide_cores(&self) -> bool {
        CpuModel::of(self).is_some_and(|model| model.has_wide_cores)
    }

    /// Returns true if a fused multiply-add is one instruction; otherwise it would be a slow
    /// emulation, so schedules multiply and add.
    pub fn has_fma(&self) -> bool {
        self.level().is_none_or(|level| level >= X86Level::V3)
    }

    /// Returns true if a product with a power of two, rounded once, is one instruction
    /// (`vscalefps`).
    pub fn scales_by_power(&self) -> bool {
        self.level() == Some(X86Level::V4)
    }

    /// Returns true if a conversion between f16 and f32 is one instruction (F16C).
    pub fn has_f16c(&self) -> bool {
        self.level().is_none_or(|level| level >= X86Level::V3)
    }

    /// Returns true if masked loads and stores of any element size cost about as much as whole ones
    /// (mask registers of AVX-512, predicates of SVE).
    pub fn has_mask_registers(&self) -> bool {
        match self {
            Self::AArch64(arm) => arm.has(ArmExtension::Sve),
            _ => self.level() == Some(X86Level::V4),
        }
    }

    /// Returns true if vectors are converted between floats and 64-bit integers by one instruction.
    pub fn converts_longs(&self) -> bool {
        self.level().is_none_or(|level| level == X86Level::V4)
    }

    /// Returns true if non-temporal stores of whole aligned vectors are possible, which bypass the
    /// caches without reading the old data.
    pub fn has_nontemporal_stores(&self) -> bool {
        self.level().is_some()
    }

    /// Returns true if lanes of two vectors, whole registers, are permuted by one instruction or a
    /// few, for any lane numbers.
    pub fn picks_lanes(&self, dtype: DType, lanes: u32) -> bool {
        let sizes: &[usize] = match self {
            Self::X86(x86) if x86.level() == X86Level::V4 => &[4, 8],
            Self::X86(x86) if x86.level() == X86Level::V3 => &[4],
            // A table look-up of bytes in both registers.
            Self::AArch64(arm) if arm.vector_bytes() == 16 => &[4],
            _ => &[],
        };
        sizes.contains(&dtype.size()) && lanes * dtype.size() as u32 == self.vector_bytes()
    }

    /// The type of the elements of `dtype` in words that one instruction multiplies and adds up, if
    /// the target has such: in 32 bits `I8` and `U8` for four products, `I16` and `BF16` for two;
    /// in 64 bits twice as many ([`Self::word_dtype`]).
    ///
    /// The first and the last depend on extensions only: code for a level runs on CPUs that lack
    /// them. Cores with AVX512-FP16 (Sapphire Rapids and later ones) add up products of f32 faster:
    /// 132 against 86 GFLOP/s of one thread, for 128 rows, widening of the panels included. Those
    /// with tile registers take the same words.
    pub fn word_elements(&self, dtype: DType) -> Option<DType> {
        let x86 = match self {
            Self::X86(x86) => x86,
            Self::AArch64(arm) => return arm.word_elements(dtype),
            Self::Nvptx { .. } | Self::Amdgpu { .. } | Self::Simt { .. } => return None,
        };
        let dots = if x86.level() < X86Level::V4 { X86Extension::AvxVnni } else { X86Extension::Avx512Vnni };
        match dtype {
            DType::I8 if x86.level() > X86Level::V2 && x86.has(dots) => Some(DType::I8),
            DType::I8 | DType::U8 => Some(DType::I16),
            DType::BF16 if x86.has(X86Extension::Avx512Bf16) => {
                let adds_f32_faster = x86.has(X86Extension::Avx512Fp16) && !x86.has(X86Extension::AmxBf16);
                (!adds_f32_faster).then_some(DType::BF16)
            }
            _ => None,
        }
    }

    /// The integer that has as many bits as a word of these elements: `I64` if one instruction
    /// multiplies two rows by two columns, of which it takes 64 bits each, else `I32`.
    pub fn word_dtype(&self, elements: DType) -> DType {
        match self {
            Self::AArch64(arm) if arm.multiplies_pairs(elements) => DType::I64,
            _ => DType::I32,
        }
    }

    /// Returns true if elements of words are multiplied as unsigned ones by signed ones, so that
    /// one operand is biased (`vpdpbusd`).
    pub fn biases_words(&self, elements: DType) -> bool {
        elements == DType::I8 && matches!(self, Self::X86(_))
    }

    /// The tile registers that multiply elements of `dtype` by elements of the same type, in words
    /// of [`Self::word_elements`].
    pub fn register_tile(&self, dtype: DType) -> Option<RegisterTile> {
        let Self::X86(x86) = self else { return None };
        let (tile, extension) = match dtype {
            DType::BF16 => (RegisterTile::Amx16x16x32, X86Extension::AmxBf16),
            DType::I8 => (RegisterTile::Amx16x16x64, X86Extension::AmxInt8),
            _ => return None,
        };
        x86.has(extension).then_some(tile)
    }

    /// The x86-64 level, if the target is x86-64.
    pub fn level(&self) -> Option<X86Level> {
        match self {
            Self::X86(x86) => Some(x86.level()),
            Self::AArch64(_) | Self::Nvptx { .. } | Self::Amdgpu { .. } | Self::Simt { .. } => None,
        }
    }
}

impl FromStr for Target {
    type Err = TargetError;

    fn from_str(text: &str) -> Result<Self, TargetError> {
        let unknown = || TargetError::Unknown(text.to_owned());
        if let Some(chip) = text.strip_prefix("nvptx:") {
            return gpu_model::nvidia_chip(chip).map(|(sm, specific)| Self::Nvptx { sm, specific }).ok_or_else(unknown);
        }
        if let Some(gfx) = text.strip_prefix("amdgpu:") {
            let number = gfx.strip_prefix("gfx").unwrap_or_default();
            let plain = (3..=4).contains(&number.len()) && number.bytes().all(|b| matches!(b, b'0'..=b'9' | b'a'..=b'f'));
            return if plain { Ok(Self::Amdgpu { gfx: gfx.to_owned() }) } else { Err(unknown()) };
        }
        if let Some(chip) = text.strip_prefix("simt:") {
            let found = GpuModel::of_chip(chip).map(|_| Self::Simt { chip: chip.to_owned() });
            return found.ok_or_else(unknown);
        }
        if text.starts_with("aarch64") { text.parse().map(Self::AArch64) } else { text.parse().map(Self::X86) }
    }
}

impl fmt::Display for Target {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::X86(x86) => x86.fmt(f),
            Self::AArch64(arm) => arm.fmt(f),
            Self::Nvptx { sm, specific } => write!(f, "nvptx:sm_{sm}{}", if *specific { "a" } else { "" }),
            Self::Amdgpu { gfx } => write!(f, "amdgpu:{gfx}"),
            Self::Simt { chip } => write!(f, "simt:{chip}"),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parse(text: &str) -> Result<Target, TargetError> {
        text.parse()
    }

    #[test]
    fn a_chip_has_the_newest_target_whose_code_it_runs() {
        let target = |chip: &str| Target::of_chip(chip).map(|target| target.to_string());
        for (chip, expected) in [("sm_90", "nvptx:sm_90"), ("sm_91", "nvptx:sm_90"), ("sm_999", "nvptx:sm_121")] {
            assert_eq!(target(chip).as_deref(), Some(expected));
        }
        assert_eq!(["sm_60", "sm_", "90", "gfx942"].map(target), [const { None }; 4]);
    }

    #[test]
    fn text_and_value_are_one_to_one() {
        for text in [
            "x86-64-v2",
            "x86-64-v3",
            "x86-64-v3+avxvnni",
            "x86-64-v4",
            "x86-64-v4+avx512bf16+avx512vnni",
            "x86-64-v4+amx-bf16+amx-int8+amx-tile+avx512bf16",
            "aarch64-v8",
            "aarch64-v8+bf16+dotprod+i8mm+sve",
            "nvptx:sm_90",
            "nvptx:sm_90a",
            "nvptx:sm_121a",
            "amdgpu:gfx90a",
            "amdgpu:gfx1100",
            "simt:sm_90",
            "simt:gfx942",
        ] {
            assert_eq!(parse(text).unwrap().to_string(), text);
        }
        assert_eq!(parse("x86-64-v4+avx512vnni+avx512bf16+avx512vnni").unwrap().to_string(), "x86-64-v4+avx512bf16+avx512vnni");
    }

    #[test]
    fn what_is_no_target_says_what_is() {
        for text in [
            "",
            "x86",
            "x86-64-v1",
            "x86-64-v3 ",
            "nvptx:sm_",
            "nvptx:sm_+90",
            "nvptx:sm_090",
            "nvptx:sm_80a",
            "nvptx:sm_90aa",
            "nvptx:sm_90f",
            "nvptx:gfx90a",
            "amdgpu:90a",
            "amdgpu:gfx9;x",
            "simt:sm_1",
            "simt:",
            "aarch64",
            "AArch64-v8",
        ] {
            let error = parse(text).unwrap_err();
            assert_eq!(error, TargetError::Unknown(text.into()));
            assert!(error.to_string().contains("`x86-64-v3`"), "{error}");
        }
        let error = parse("x86-64-v4+avx10").unwrap_err().to_string();
        assert!(error.contains("`avx10`") && error.contains("avx512vnni"), "{error}");
        assert!(parse("x86-64-v3+").is_err());
        let error = parse("x86-64-v3+avx512vnni").unwrap_err().to_string();
        assert!(error.contains("avx512vnni") && error.contains("needs level x86-64-v4"), "{error}");
    }

    #[test]
    fn levels_differ_in_what_schedules_ask() {
        let facts = |text: &str| {
            let t = parse(text).unwrap();
            (t.lanes(32), t.lanes(64), t.lanes(1), t.vector_registers(), t.has_fma(), t.has_f16c(), t.has_mask_registers())
        };
        assert_eq!(facts("x86-64-v2"), (4, 2, 16, 16, false, false, false));
        assert_eq!(facts("x86-64-v3"), (8, 4, 32, 16, true, true, false));
        assert_eq!(facts("x86-64-v4"), (16, 8, 64, 32, true, true, true));
        assert_eq!(facts("aarch64-v8"), (4, 2, 16, 32, true, true, false));
    }

    #[test]
    fn words_of_products_come_with_extensions() {
        let facts =
            |text: &str| [DType::I8, DType::U8, DType::BF16, DType::F16].map(|dtype| parse(text).unwrap().word_elements(dtype));
        let plain = [Some(DType::I16), Some(DType::I16), None, None];
        assert!(["x86-64-v2", "x86-64-v3", "x86-64-v4"].iter().all(|level| facts(level) == plain));
        assert_eq!(facts("x86-64-v3+avxvnni"), [Some(DType::I8), Some(DType::I16), None, None]);
        assert_eq!(facts("x86-64-v4+avx512bf16+avx512vnni"), [Some(DType::I8), Some(DType::I16), Some(DType::BF16), None]);
        assert_eq!(facts("x86-64-v4+avx512bf16+avx512fp16+avx512vnni"), [Some(DType::I8), Some(DType::I16), None, None]);
        assert_eq!(facts("aarch64-v8"), [None; 4]);
        assert_eq!(facts("aarch64-v8+bf16+dotprod"), [Some(DType::I8), Some(DType::U8), Some(DType::BF16), None]);
    }

    #[test]
    fn tile_registers_take_words() {
        let facts = |text: &str| {
            let target = parse(text).unwrap();
            [DType::I8, DType::BF16].map(|dtype| (target.word_elements(dtype), target.register_tile(dtype)))
        };
        let tiles = [(Some(DType::I8), Some(RegisterTile::Amx16x16x64)), (Some(DType::BF16), Some(RegisterTile::Amx16x16x32))];
        assert_eq!(facts("x86-64-v4+amx-bf16+amx-int8+amx-tile+avx512bf16+avx512fp16+avx512vnni"), tiles);
        assert!(facts("x86-64-v4+avx512bf16+avx512vnni").iter().all(|(_, tile)| tile.is_none()));
        assert!(parse("x86-64-v3+amx-bf16").unwrap_err().to_string().contains("needs level x86-64-v4"));
    }

    #[test]
    fn the_host_runs_its_own_target_and_no_other_kind() {
        let host = Target::host().unwrap();
        assert_eq!(host.check_host(), Ok(()));
        assert_eq!(parse(&host.to_string()), Ok(host.clone()));
        let other = if matches!(host, Target::AArch64(_)) { Target::x86(X86Level::V2) } else { parse("aarch64-v8").unwrap() };
        assert!(matches!(other.check_host(), Err(TargetError::OtherKind { .. })));
        assert!(matches!(parse("nvptx:sm_90").unwrap().check_host(), Err(TargetError::OtherKind { .. })));
    }
}
