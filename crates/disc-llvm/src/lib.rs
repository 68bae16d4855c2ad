//! The only door to LLVM: lowering, targets, in-process lld; returns bytes.
