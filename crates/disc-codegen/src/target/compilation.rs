//! Pairs the target of host programs with the target of kernels.
//!
//! Invariants:
//! - host programs run on a CPU;
//! - a device that is a CPU is the host itself: `device == host`;
//! - equal pairs print alike, and a pair is parsed from what it prints: `nvptx:sm_90 on x86-64-v3`,
//!   a CPU alone as its own name; so the text of a pair is a cache key with both targets.
use super::{Target, TargetError};
use std::{fmt, str::FromStr};

/// Separates device and host in the text of a pair.
const ON: &str = " on ";

/// The targets of one compilation: kernels are lowered for `device`, host programs for `host`.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Compilation {
    host: Target,
    device: Target,
}

impl Compilation {
    /// Pairs a host with a device.
    ///
    /// # Errors
    /// A host that is no CPU, or a device that is another CPU than the host.
    pub fn new(host: Target, device: Target) -> Result<Self, TargetError> {
        if !host.is_cpu() {
            return Err(TargetError::HostIsNoCpu(host.to_string()));
        }
        if device.is_cpu() && device != host {
            return Err(TargetError::TwoCpus { host: host.to_string(), device: device.to_string() });
        }
        Ok(Self { host, device })
    }

    /// Pairs a device with its host: a CPU with itself, any other device with this machine's CPU.
    ///
    /// # Errors
    /// A CPU of this machine that no code is made for.
    pub fn of(device: Target) -> Result<Self, TargetError> {
        let host = if device.is_cpu() { device.clone() } else { Target::host()? };
        Self::new(host, device)
    }

    /// Returns the target of host programs: a CPU.
    pub fn host(&self) -> &Target {
        &self.host
    }

    /// Returns the target of kernels.
    pub fn device(&self) -> &Target {
        &self.device
    }

    /// Checks that kernels can be lowered for the device.
    ///
    /// # Errors
    /// A device without a backend.
    pub fn check_backend(&self) -> Result<(), TargetError> {
        match self.device {
            Target::X86(_) | Target::AArch64(_) | Target::Simt { .. } | Target::Nvptx { .. } => Ok(()),
            Target::Amdgpu { .. } => Err(TargetError::NoBackend(self.device.to_string())),
        }
    }
}

impl FromStr for Compilation {
    type Err = TargetError;

    /// Parses `DEVICE on HOST`, or only a device.
    fn from_str(text: &str) -> Result<Self, TargetError> {
        match text.split_once(ON) {
            Some((device, host)) => Self::new(host.parse()?, device.parse()?),
            None => Self::of(text.parse()?),
        }
    }
}

impl fmt::Display for Compilation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.device.fmt(f)?;
        if self.device == self.host { Ok(()) } else { write!(f, "{ON}{}", self.host) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parse(text: &str) -> Result<Compilation, TargetError> {
        text.parse()
    }

    #[test]
    fn a_cpu_is_its_own_host_and_prints_alone() {
        for text in ["x86-64-v2", "x86-64-v4+avx512bf16+avx512vnni", "aarch64-v8"] {
            let pair = parse(text).unwrap();
            assert_eq!((pair.host(), pair.device()), (&text.parse().unwrap(), &text.parse().unwrap()));
            assert_eq!(pair.to_string(), text);
            assert_eq!(pair.check_backend(), Ok(()));
        }
    }

    #[test]
    fn another_device_prints_with_its_host() {
        for text in [
            "simt:sm_90 on x86-64-v3",
            "nvptx:sm_90 on x86-64-v3",
            "amdgpu:gfx90a on x86-64-v4+avx512vnni",
            "nvptx:sm_90 on aarch64-v8",
        ] {
            let pair = parse(text).unwrap();
            assert_eq!(format!("{} on {}", pair.device(), pair.host()), text);
            assert_eq!((pair.to_string(), parse(&pair.to_string())), (text.to_owned(), Ok(pair)));
        }
        let here = parse("nvptx:sm_90").unwrap();
        assert_eq!(here.host(), &Target::host().unwrap());
        assert_ne!(parse("nvptx:sm_90 on x86-64-v2").unwrap(), parse("nvptx:sm_90 on x86-64-v3").unwrap());
    }

    #[test]
    fn what_is_no_pair_is_refused() {
        let message = |text: &str| parse(text).unwrap_err().to_string();
        assert_eq!(
            message("x86-64-v2 on x86-64-v3"),
            "kernels for `x86-64-v2` beside host programs for `x86-64-v3`: a CPU runs both, so both have one target"
        );
        assert_eq!(message("nvptx:sm_90 on amdgpu:gfx90a"), "host programs run on a CPU, and `amdgpu:gfx90a` is none");
        assert_eq!(parse("nvptx:sm_90 on "), Err(TargetError::Unknown(String::new())));
        let error = parse("amdgpu:gfx90a on x86-64-v3").unwrap().check_backend().unwrap_err();
        assert_eq!(
            error.to_string(),
            "no code is made yet for `amdgpu:gfx90a`: expected the target of a CPU, such as `x86-64-v3`"
        );
    }
}
