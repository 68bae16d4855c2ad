//! Detects the CPU of this process: x86-64 by CPUID (`is_x86_feature_detected` also checks that the
//! operating system saves the registers), AArch64 by what Linux tells of it (hwcaps).
//!
//! Every AArch64 CPU that runs an operating system has NEON, so no check is needed there.
use super::{Target, TargetError};
pub(super) use cpu::{check, target};

/// Returns an error that names the features that this CPU lacks.
fn check_features(target: &Target, needed: Vec<&'static str>, has: fn(&str) -> bool) -> Result<(), TargetError> {
    let missing: Vec<_> = needed.into_iter().filter(|name| !has(name)).collect();
    match missing.is_empty() {
        true => Ok(()),
        false => Err(TargetError::HostLacks { target: target.to_string(), missing: missing.join(", ") }),
    }
}

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
        super::check_features(target, needed, has)
    }
}

#[cfg(target_arch = "aarch64")]
mod cpu {
    use crate::target::{AArch64, ArmExtension, Target, TargetError};

    fn has(name: &str) -> bool {
        disc_abi::has_aarch64_feature!(name)
    }

    pub(in crate::target) fn target() -> Result<Target, TargetError> {
        Ok(Target::AArch64(AArch64::new(ArmExtension::ALL.into_iter().filter(|extension| has(extension.name())))))
    }

    pub(in crate::target) fn check(target: &Target) -> Result<(), TargetError> {
        let Target::AArch64(_) = target else {
            return Err(TargetError::OtherKind { target: target.to_string(), host: "aarch64" });
        };
        let (_, needed) = target.needs().unwrap_or_default();
        super::check_features(target, needed, has)
    }
}
