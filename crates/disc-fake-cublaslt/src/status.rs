//! Lists the results of the library that the fake one gives.

use disc_fake_library::Status;

pub(crate) const NOT_INITIALIZED: Status = 1;
pub(crate) const INVALID_VALUE: Status = 7;
pub(crate) const EXECUTION_FAILED: Status = 13;
pub(crate) const NOT_SUPPORTED: Status = 15;
