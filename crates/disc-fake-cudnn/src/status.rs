//! Lists the results of the library that the fake one gives.
use disc_fake_library::Status;

pub(crate) const NOT_INITIALIZED: Status = 1001;
pub(crate) const BAD_PARAM: Status = 2000;
pub(crate) const MISALIGNED_POINTER: Status = 2003;
pub(crate) const NOT_FINALIZED: Status = 2004;
pub(crate) const SHAPE_MISMATCH: Status = 2008;
pub(crate) const ATTRIBUTE_TYPE: Status = 2010;
pub(crate) const NOT_SUPPORTED: Status = 3000;
pub(crate) const GRAPH_PATTERN: Status = 3001;
pub(crate) const LAYOUT: Status = 3004;
pub(crate) const PADDING: Status = 3011;
pub(crate) const EXECUTION_FAILED: Status = 5000;

/// Returns the library's words about a status, which end with a zero.
pub(crate) fn words(status: Status) -> &'static std::ffi::CStr {
    match status {
        0 => c"CUDNN_STATUS_SUCCESS",
        1000..2000 => c"CUDNN_STATUS_NOT_INITIALIZED",
        2000..3000 => c"CUDNN_STATUS_BAD_PARAM",
        3000..4000 => c"CUDNN_STATUS_NOT_SUPPORTED",
        4000..5000 => c"CUDNN_STATUS_INTERNAL_ERROR",
        _ => c"CUDNN_STATUS_EXECUTION_FAILED",
    }
}
