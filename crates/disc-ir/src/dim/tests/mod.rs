//! Tests of dims: examples here, random expressions in `random`.

mod facts;
mod forms;
mod page;
mod proofs;
mod random;
mod repeating;
mod solver;
