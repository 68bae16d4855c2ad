//! Lowers a program for the tests of this crate: to groups, buffers and kernels, by the steps of
//! the pipeline alone.
#![allow(dead_code, reason = "each test looks at some of the stages")]
use disc_codegen::{
    host::{Program, lower},
    target::{Compilation, Target},
};
use disc_ir::{Module, ops::Stage};
use disc_passes::{options::Options, pass::PassManager, pipeline, tensor::lower_convolutions};

/// A program after each stage. It is not simplified, so that a test states what it compiles.
pub(crate) struct Lowered {
    pub fused: Module,
    pub buffers: Module,
    pub program: Program,
}

impl Lowered {
    pub(crate) fn of(module: &Module, target: &Target) -> Self {
        let mut manager = PassManager::new(Options::default());
        let mut fused = module.clone();
        manager.run(&mut fused, &lower_convolutions::PASS).expect("products");
        pipeline::run(&mut fused, Stage::Placed, Stage::Fused, &mut manager).unwrap_or_else(|e| panic!("{e}\n{fused}"));
        let mut buffers = fused.clone();
        pipeline::run(&mut buffers, Stage::Fused, Stage::Buffer, &mut manager).unwrap_or_else(|e| panic!("{e}\n{buffers}"));
        let program = lower(buffers.clone(), &Compilation::of(target.clone()).expect("a CPU")).expect("kernels");
        Self { fused, buffers, program }
    }
}
