//! Detects the CPU of this process, by CPUID. `is_x86_feature_detected` also checks that the
//! operating system saves the registers.
//!
//! Every AArch64 CPU that runs an operating system has NEON, so no check is needed there.
pub(super) use cpu::{check, target};

#[cfg(target_arch = "x86_64")]
mod cpu {
    use crate::target::{Target, TargetError, X86, X86Extension, X86Level};
    use std::arch::is_x86_feature_detected as has;

    /// The features that a level adds to the one below and this CPU lacks. LAHF is not checked:
    /// every CPU with SSE4.2 has it.
    fn lacks(level: X86Level) -> Vec<&'static str> {
        let features = match level {
            X86Level::V2 => vec![
                ("cmpxchg16b", has!("cmpxchg16b")),
                ("popcnt", has!("popcnt")),
                ("sse3", has!("sse3")),
                ("ssse3", has!("ssse3")),
                ("sse4.1", has!("sse4.1")),
                ("sse4.2", has!("sse4.2")),
            ],
            X86Level::V3 => vec![
                ("avx", has!("avx")),
                ("avx2", has!("avx2")),
                ("bmi1", has!("bmi1")),
                ("bmi2", has!("bmi2")),
                ("f16c", has!("f16c")),
                ("fma", has!("fma")),
                ("lzcnt", has!("lzcnt")),
                ("movbe", has!("movbe")),
            ],
            X86Level::V4 => vec![
                ("avx512f", has!("avx512f")),
                ("avx512bw", has!("avx512bw")),
                ("avx512cd", has!("avx512cd")),
                ("avx512dq", has!("avx512dq")),
                ("avx512vl", has!("avx512vl")),
            ],
        };
        features.into_iter().filter(|(_, present)| !present).map(|(name, _)| name).collect()
    }

    fn extension_present(extension: X86Extension) -> bool {
        match extension {
            X86Extension::AvxVnni => has!("avxvnni"),
            X86Extension::Avx512Bf16 => has!("avx512bf16"),
            X86Extension::Avx512Fp16 => has!("avx512fp16"),
            X86Extension::Avx512Vbmi => has!("avx512vbmi"),
            X86Extension::Avx512Vnni => has!("avx512vnni"),
        }
    }

    pub(in crate::target) fn target() -> Result<Target, TargetError> {
        let level = X86Level::ALL.into_iter().take_while(|level| lacks(*level).is_empty()).last();
        let level = level.ok_or_else(|| TargetError::HostTooOld { missing: lacks(X86Level::V2).join(", ") })?;
        let extensions = X86Extension::ALL.into_iter().filter(|e| e.needs() <= level && extension_present(*e));
        Ok(Target::X86(X86::new(level, extensions)?))
    }

    pub(in crate::target) fn check(target: &Target) -> Result<(), TargetError> {
        let Target::X86(x86) = target else {
            return Err(TargetError::OtherKind { target: target.to_string(), host: "x86-64" });
        };
        let levels = X86Level::ALL.into_iter().filter(|level| *level <= x86.level);
        let mut missing: Vec<_> = levels.flat_map(lacks).collect();
        missing.extend(x86.extensions.iter().filter(|e| !extension_present(**e)).map(|e| e.name()));
        match missing.is_empty() {
            true => Ok(()),
            false => Err(TargetError::HostLacks { target: target.to_string(), missing: missing.join(", ") }),
        }
    }
}

#[cfg(target_arch = "aarch64")]
mod cpu {
    use crate::target::{Target, TargetError};

    pub(in crate::target) fn target() -> Result<Target, TargetError> {
        Ok(Target::AArch64)
    }

    pub(in crate::target) fn check(target: &Target) -> Result<(), TargetError> {
        match target {
            Target::AArch64 => Ok(()),
            other => Err(TargetError::OtherKind { target: other.to_string(), host: "aarch64" }),
        }
    }
}
