//! Tests of dims: examples here, random expressions in `random`.

mod forms;
mod random;
