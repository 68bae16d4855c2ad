//! Symbolic dims, types, the op table, graphs, text, verifier and interpreter.

pub mod dim;
