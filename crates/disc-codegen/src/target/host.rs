//! Detects the CPU of this process, by CPUID. `is_x86_feature_detected` also checks that the
//! operating system saves the registers.
//!
//! Every AArch64 CPU that runs an operating system has NEON, so no check is needed there.
pub(super) use cpu::{check, target};

#[cfg(target_arch = "x86_64")]
mod cpu {
    use crate::target::{Target, TargetError, X86, X86Extension, X86Level};

    /// Returns true if this CPU has a feature of a level or an extension.
    fn has(name: &str) -> bool {
        disc_abi::has_x86_feature!(name)
    }

    /// The features of a level that this CPU lacks.
    fn lacks(level: X86Level) -> Vec<&'static str> {
        level.adds().iter().copied().filter(|name| !has(name)).collect()
    }

    pub(in crate::target) fn target() -> Result<Target, TargetError> {
        let level = X86Level::ALL.into_iter().take_while(|level| lacks(*level).is_empty()).last();
        let level = level.ok_or_else(|| TargetError::HostTooOld { missing: lacks(X86Level::V2).join(", ") })?;
        let extensions = X86Extension::ALL.into_iter().filter(|e| e.needs() <= level && has(e.name()));
        Ok(Target::X86(X86::new(level, extensions)?))
    }

    pub(in crate::target) fn check(target: &Target) -> Result<(), TargetError> {
        let Target::X86(_) = target else {
            return Err(TargetError::OtherKind { target: target.to_string(), host: "x86-64" });
        };
        let (_, needed) = target.needs().unwrap_or_default();
        let missing: Vec<_> = needed.into_iter().filter(|name| !has(name)).collect();
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
