//! The pipeline: every step from a framework's program to buffers, in order.
//!
//! Comments give the reason for the place of a step, as an invariant that later steps rely on.
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

/// The steps. Each starts at the stage where the previous one ends.
pub static STEPS: &[&PassDef] = &[
    // From here on, every function is an entry, and each symbol has one meaning.
    &inline::PASS,
    // From here on, no op reads outside of its tensors.
    &insert_shape_checks::PASS,
    // Facts that hold in most calls are stated by variants; later steps rely on them.
    &multiversion::PASS,
    // From here on, equal sizes have equal expressions.
    &unify_dims::PASS,
    &canonicalize::PASS,
    &fold::PASS,
    &fold_branches::PASS,
    &cse::PASS,
    // Kernels of convolutions become operands of matmuls, which are read as stored or packed.
    &lower_convolutions::PASS,
    // Queries, keys and values are separate matmuls now; only reshapes and transposes are left in
    // between.
    &split_matmuls::PASS,
    // Matmuls and convolutions have absorbed the transposes that they can read through.
    &eliminate_transposes::PASS,
    // Folded and equal operands make more rules apply (`x - x`), and their leftovers are removed.
    &canonicalize::PASS,
    // No large constant is left in the program: prepared weights may depend on one.
    &outline_constants::PASS,
    // Integer matrices are read as they are stored.
    &sink_scales::PASS,
    // The stored form is what gets packed.
    &quantize_weights::PASS,
    // Transposes of weights are part of the matmul's dimension numbers by now, so a weight is
    // packed in the order of the model.
    &pack_weights::PASS,
    &prepare::PASS,
    &dce::PASS,
    &place::PASS,
    &fuse::PASS,
    // Groups of attention scores are complete, so their rows need not be in memory as a whole.
    &fuse_attention::PASS,
    // Elementwise ops after an interleaving are part of its group by now.
    &fuse_interleave::PASS,
    // Groups are final: the memory that each takes and frees is known.
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

/// Runs the steps up to the one that quantises weights: its result is a program with exact sums of
/// the weights that compiled code reads.
///
/// # Errors
/// As [`run`].
pub fn run_to_quantized(module: &mut Module, manager: &mut PassManager) -> Result<(), Diagnostic> {
    manager.steps = STEPS;
    let last = STEPS.iter().position(|step| step.name == quantize_weights::PASS.name).map_or(0, |place| place + 1);
    STEPS[..last].iter().try_for_each(|step| manager.run(module, step).map(drop))
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
