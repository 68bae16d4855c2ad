//! The facade: Compiler, Options, Module, Executable, Error.
