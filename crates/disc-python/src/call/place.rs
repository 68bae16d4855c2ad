//! Says where a tensor is: in memory of the host, or of a GPU.
use disc_ral::{DEVICE_CPU, DEVICE_CUDA};
use std::fmt;

/// The memory that a tensor is in.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Place {
    Host,
    /// A GPU of NVIDIA, by its number.
    Cuda(i32),
}

impl Place {
    /// Returns the place of tensors that a device takes as they are: the host's for one that copies
    /// them.
    pub(super) fn of_device(name: &str) -> Self {
        let number = name.strip_prefix("cuda:").and_then(|number| number.parse().ok());
        number.map_or(Self::Host, Self::Cuda)
    }

    /// Returns the runtime's kind of the device.
    pub(super) fn kind(self) -> u8 {
        match self {
            Self::Host => DEVICE_CPU,
            Self::Cuda(_) => DEVICE_CUDA,
        }
    }
}

impl fmt::Display for Place {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Host => f.write_str("cpu"),
            Self::Cuda(number) => write!(f, "cuda:{number}"),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn devices_that_copy_take_tensors_of_the_host() {
        for (name, place) in [("cpu", Place::Host), ("simt:sm_90", Place::Host), ("cuda:1", Place::Cuda(1))] {
            assert_eq!(Place::of_device(name), place);
        }
        assert_eq!(Place::Cuda(1).to_string(), "cuda:1");
    }
}
