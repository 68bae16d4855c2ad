//! Does what every front end needs before the compiler sees a program, without a framework and
//! without LLVM.
pub mod partition;
