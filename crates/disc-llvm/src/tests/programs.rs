//! Whole programs: from tensors to a loaded library that the runtime runs, compared with the
//! interpreter.
mod arm;
mod checks;
mod memory;
mod run;
mod speed;
mod spills;
mod stages;
