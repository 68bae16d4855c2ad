//! The `#[repr(C)]` contract between generated code and the runtime.
