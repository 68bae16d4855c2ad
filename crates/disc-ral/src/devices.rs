//! Lists the devices that compiled code can run on here, and opens them by name.
//!
//! Invariant: the device that was named is opened, or the failure names it; nothing runs on another
//! one instead.

use crate::{cpu::Cpu, device::Device};
use std::{
    fmt,
    str::FromStr,
    sync::{Arc, Mutex, PoisonError},
};

/// One kind of device.
#[derive(Clone, Copy, Debug)]
pub struct Backend {
    /// The name of the kind, such as `simt`.
    pub kind: &'static str,
    /// Names the devices of this kind that the process can use.
    pub names: fn() -> Vec<DeviceName>,
    /// Opens a device of this kind.
    pub open: fn(&DeviceName) -> Result<Arc<dyn Device>, Refusal>,
}

/// The reason why a kind of device does not open one of its devices.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Refusal {
    /// There is no such device; why, where a driver says it.
    NotHere(Option<String>),
    /// The device is there, and cannot be used: the driver's words.
    Failed(String),
}

const HOST: Backend = Backend { kind: "cpu", names: || vec![DeviceName::cpu()], open: |_| Ok(Cpu::device()) };

/// The kinds of devices that have drivers; they come last, since to ask for their names starts
/// those.
#[cfg(feature = "cuda")]
const GPUS: [Backend; 1] = [crate::cuda::CUDA];
#[cfg(not(feature = "cuda"))]
const GPUS: [Backend; 0] = [];

/// The kinds of devices that crates above this one have.
static REGISTERED: Mutex<Vec<Backend>> = Mutex::new(Vec::new());

/// Adds a kind of device; one that is there already stays.
pub fn register_backend(backend: Backend) {
    let mut registered = REGISTERED.lock().unwrap_or_else(PoisonError::into_inner);
    if registered.iter().all(|known| known.kind != backend.kind) {
        registered.push(backend);
    }
}

/// Returns every kind of device, the host first.
fn backends() -> Vec<Backend> {
    let registered = REGISTERED.lock().unwrap_or_else(PoisonError::into_inner);
    [HOST].into_iter().chain(registered.iter().copied()).chain(GPUS.iter().copied()).collect()
}

/// Kinds of which a machine has several, by number.
const NUMBERED: [&str; 2] = ["cuda", "hip"];
/// The kind that interprets code for a chip.
const INTERPRETED: &str = "simt";

/// The name of a device: `cpu`, `cuda:0`, `hip:1`, `simt:sm_90`.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct DeviceName(String);

impl DeviceName {
    /// Returns the name of the host's processors.
    pub fn cpu() -> Self {
        Self("cpu".into())
    }
}

impl FromStr for DeviceName {
    type Err = DeviceError;

    /// Parses a name, whether or not such a device is there; `cuda` stands for `cuda:0`.
    fn from_str(text: &str) -> Result<Self, DeviceError> {
        let (kind, which) = text.split_once(':').map_or((text, None), |(kind, which)| (kind, Some(which)));
        let is_name = match which {
            None if NUMBERED.contains(&kind) => return Ok(Self(format!("{kind}:0"))),
            None => kind == "cpu",
            Some(number) if NUMBERED.contains(&kind) => number.parse::<u32>().is_ok_and(|n| n.to_string() == number),
            Some(chip) => kind == INTERPRETED && is_chip(chip),
        };
        if is_name { Ok(Self(text.into())) } else { Err(DeviceError::Malformed(text.into())) }
    }
}

impl fmt::Display for DeviceName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

/// Returns the devices of one kind for a message.
fn shown(names: &[DeviceName]) -> Option<String> {
    match names {
        [] => None,
        [one] => Some(format!("`{one}`")),
        [first, others @ ..] => Some(format!("`{first}` and {} more of its kind", others.len())),
    }
}

/// Returns true for names such as `sm_90`, `sm_90a` and `gfx942`.
fn is_chip(name: &str) -> bool {
    let number = name.strip_prefix("sm_").or_else(|| name.strip_prefix("gfx")).unwrap_or_default();
    number.starts_with(|c: char| c.is_ascii_digit()) && number.bytes().all(|b| matches!(b, b'0'..=b'9' | b'a'..=b'f'))
}

/// The reason why a device cannot be opened.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum DeviceError {
    /// The text names no device.
    Malformed(String),
    /// This build or this machine has no such device, or it cannot be used.
    Refused(DeviceName, Refusal),
}

impl fmt::Display for DeviceError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Malformed(text) => {
                write!(f, "unknown device `{text}`: expected a name such as `cpu`, `cuda:0`, `hip:0` or `simt:sm_90`")
            }
            Self::Refused(name, Refusal::NotHere(why)) => {
                let here: Vec<String> = backends().iter().filter_map(|backend| shown(&(backend.names)())).collect();
                write!(f, "the device `{name}` is not available: compiled code can run here on {}", here.join(", "))?;
                why.as_ref().map_or(Ok(()), |why| write!(f, " ({why})"))
            }
            Self::Refused(name, Refusal::Failed(why)) => write!(f, "the device `{name}` cannot be used: {why}"),
        }
    }
}

impl std::error::Error for DeviceError {}

/// Returns the names of the devices that compiled code can run on here.
pub fn devices() -> Vec<DeviceName> {
    backends().iter().flat_map(|backend| (backend.names)()).collect()
}

/// Opens a device.
///
/// # Errors
/// A device that is not there, or that cannot be used.
pub fn open_device(name: &DeviceName) -> Result<Arc<dyn Device>, DeviceError> {
    let kind = name.0.split(':').next().unwrap_or_default();
    let found = backends().into_iter().find(|backend| backend.kind == kind);
    let opened = found.map_or(Err(Refusal::NotHere(None)), |backend| (backend.open)(name));
    opened.map_err(|refusal| DeviceError::Refused(name.clone(), refusal))
}

/// Returns the device whose memory is the host's: tensors of Rust programs and of NumPy are there.
pub fn host_device() -> Arc<dyn Device> {
    Cpu::device()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_device_that_is_listed_opens() {
        assert_eq!(devices()[0], DeviceName::cpu());
        for name in devices() {
            let device = open_device(&name).map(|device| device.name().to_owned());
            assert_eq!(device, Ok(name.to_string()));
            assert_eq!(name.to_string().parse(), Ok(name));
        }
        assert_eq!(host_device().kind(), disc_abi::DEVICE_CPU);
    }

    #[test]
    fn a_device_that_is_not_there_is_named() {
        for (text, name) in
            [("cuda:999", "cuda:999"), ("hip:12", "hip:12"), ("simt:sm_90a", "simt:sm_90a"), ("simt:gfx942", "simt:gfx942")]
        {
            let error = open_device(&text.parse().unwrap()).err().unwrap();
            let wanted = format!("the device `{name}` is not available: compiled code can run here on `cpu`");
            assert!(error.to_string().starts_with(&wanted), "{error}");
        }
        assert_eq!("cuda".parse::<DeviceName>().unwrap().to_string(), "cuda:0");
    }

    #[test]
    fn what_names_no_device_says_what_does() {
        for text in [
            "", "CPU", "cpu:0", "gpu:0", "cuda:", "cuda:01", "cuda:+1", "cuda:-1", "cuda:x", "simt", "simt:", "simt:sm_",
            "simt:90", " cpu",
        ] {
            let error = text.parse::<DeviceName>().unwrap_err();
            let wanted = format!("unknown device `{text}`: expected a name such as `cpu`, `cuda:0`, `hip:0` or `simt:sm_90`");
            assert_eq!(error.to_string(), wanted);
        }
    }
}
