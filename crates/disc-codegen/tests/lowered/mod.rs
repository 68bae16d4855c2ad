//! Lowers a program for the tests of this crate: to groups, buffers and kernels, only by the steps
//! of the pipeline.
#![allow(dead_code, reason = "each test looks at some of the stages")]
use disc_codegen::{
    host::{Program, lower},
    target::{Compilation, CpuModel, Target},
};
use disc_ir::{Module, ops::Stage};
use disc_passes::{
    options::Options,
    pass::PassManager,
    pipeline,
    tensor::{lower_convolutions, pack_weights},
};

/// A program after each stage. It is not simplified, so that a test states what it compiles.
pub(crate) struct Lowered {
    pub fused: Module,
    pub buffers: Module,
    pub program: Program,
}

impl Lowered {
    pub(crate) fn of(module: &Module, target: &Target) -> Self {
        Self::with(module, target, Options::default())
    }

    /// Packs the weights of matmuls as the target reads them.
    pub(crate) fn packed(module: &Module, target: &Target) -> Self {
        Self::with(module, target, Options::of(CpuModel::of(target).expect("a CPU")))
    }

    fn with(module: &Module, target: &Target, options: Options) -> Self {
        let mut manager = PassManager::new(options);
        let mut fused = module.clone();
        manager.run(&mut fused, &lower_convolutions::PASS).expect("products");
        manager.run(&mut fused, &pack_weights::PASS).expect("packed weights");
        pipeline::run(&mut fused, Stage::Placed, Stage::Fused, &mut manager).unwrap_or_else(|e| panic!("{e}\n{fused}"));
        let mut buffers = fused.clone();
        pipeline::run(&mut buffers, Stage::Fused, Stage::Buffer, &mut manager).unwrap_or_else(|e| panic!("{e}\n{buffers}"));
        let program = lower(buffers.clone(), &Compilation::of(target.clone()).expect("a CPU")).expect("kernels");
        Self { fused, buffers, program }
    }
}
