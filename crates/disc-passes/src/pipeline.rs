//! The pipeline: every step from a framework's program to buffers, in order.
//!
//! A comment says why a step is where it is, as an invariant that the next ones need; what a step does is with the step.
use crate::{
    buffers::{plan_buffers, schedule_groups},
    fusion::{fuse, fuse_attention, fuse_interleave, multiversion},
    options::Options,
    pass::{PassDef, PassManager},
    rules::canonicalize,
    tensor::{
        cse, dce, eliminate_transposes, fold, fold_branches, inline, insert_shape_checks, lower_convolutions, outline_constants,
        pack_weights, place, prepare, quantize_weights, sink_scales, split_matmuls, unify_dims,
    },
};
use disc_ir::{Diagnostic, Module, ops::Stage};

/// The steps. Each starts at the stage where the one before it ends.
pub static STEPS: &[&PassDef] = &[
    // From here on, every function is an entry, and no symbol has two meanings.
    &inline::PASS,
    // From here on, ops stay inside of their tensors.
    &insert_shape_checks::PASS,
    // What else holds in most calls is stated by functions of their own: the following passes take it for known.
    &multiversion::PASS,
    // From here on, equal sizes look equal.
    &unify_dims::PASS,
    &canonicalize::PASS,
    &fold::PASS,
    &fold_branches::PASS,
    &cse::PASS,
    // Kernels of convolutions are operands of products, which are read as they lie or packed.
    &lower_convolutions::PASS,
    // Queries, keys and values are products of their own; what is left between products is another numbering.
    &split_matmuls::PASS,
    // Products and convolutions have taken the transposes that they read through.
    &eliminate_transposes::PASS,
    // Folded and equal operands make more rules apply (`x - x`), and nothing is left behind them.
    &canonicalize::PASS,
    // No table is left in the program: what is prepared may depend on one.
    &outline_constants::PASS,
    // Matrices of integers are read as they are stored.
    &sink_scales::PASS,
    // What is packed is the form that is stored.
    &quantize_weights::PASS,
    // Transposes of weights are part of the numbering of a product by now, so that a weight is packed as the model has it.
    &pack_weights::PASS,
    &prepare::PASS,
    &dce::PASS,
    &place::PASS,
    &fuse::PASS,
    // Rows of scores, whose groups are complete now, do not have to be in memory as a whole.
    &fuse_attention::PASS,
    // What is element-wise behind an interleaving is in its loop by now.
    &fuse_interleave::PASS,
    // Groups are what they will be: what each takes and frees is known.
    &schedule_groups::PASS,
    &plan_buffers::PASS,
];

/// Makes a manager whose passes are steps of the pipeline, for tools that run them one by one.
pub fn manager(options: Options) -> PassManager {
    PassManager { steps: STEPS, ..PassManager::new(options) }
}

/// Runs the steps between two stages.
///
/// # Errors
/// Those of a pass, and a violated invariant after it.
pub fn run(module: &mut Module, from: Stage, to: Stage, manager: &mut PassManager) -> Result<(), Diagnostic> {
    manager.steps = STEPS;
    let steps = STEPS.iter().filter(|step| step.stages.0 >= from && step.stages.1 <= to);
    steps.into_iter().try_for_each(|step| manager.run(module, step).map(drop))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::parse;

    #[test]
    fn each_step_starts_where_the_last_one_ends() {
        assert!(STEPS.windows(2).all(|pair| pair[0].stages.1 == pair[1].stages.0));
    }

    #[test]
    fn a_range_of_stages_runs_its_steps_alone() {
        let mut module = parse("func @f(%x: tensor<[B]xf32>) -> tensor<[B]xf32> { return %x : tensor<[B]xf32> }");
        let mut manager = PassManager::new(Options::default());
        run(&mut module, Stage::Tensor, Stage::Placed, &mut manager).unwrap();
        assert_eq!(manager.records.last().map(|record| record.name), Some("place"));
        run(&mut module, Stage::Placed, Stage::Fused, &mut manager).unwrap();
        assert_eq!(manager.records.last().map(|record| record.name), Some("schedule-groups"));
    }
}
