//! Puts a convolution into a stream, if all that a plan needs is there.
use crate::{
    compute::{Job, run},
    descriptor::{Descriptor, Kind},
    engines,
    graph::Graph,
    status::{BAD_PARAM, EXECUTION_FAILED, MISALIGNED_POINTER, NOT_FINALIZED, NOT_INITIALIZED},
};
use disc_fake_library::{Status, enqueue};
use std::ffi::c_void;

/// Executes a plan with the tensors of a pack.
///
/// # Errors
/// Tensors that are not those of the plan, or memory that is missing or less aligned.
pub(crate) fn execute(stream: *mut c_void, plan: &Descriptor, pack: &Descriptor) -> Result<(), Status> {
    if plan.kind != Kind::ExecutionPlan || pack.kind != Kind::VariantPack || !plan.is_final || !pack.is_final {
        return Err(NOT_FINALIZED);
    }
    let config = plan.descriptor(401, Kind::EngineConfig)?;
    let (engine, graph) = config.engine.as_ref().ok_or(BAD_PARAM)?;
    let graph = Graph::of(graph)?;
    let (names, pointers) = (pack.numbers(1000)?, pack.numbers(1001)?);
    let addresses: Vec<(i64, u64)> = names.iter().zip(pointers).map(|(&name, &at)| (name, at as u64)).collect();
    let tensors = graph.tensors();
    if names.len() != pointers.len() || names.len() != tensors.len() {
        return Err(BAD_PARAM);
    }
    for tensor in &tensors {
        let (_, at) = addresses.iter().find(|(name, _)| *name == tensor.name).ok_or(BAD_PARAM)?;
        if *at == 0 || at % tensor.alignment as u64 != 0 {
            return Err(MISALIGNED_POINTER);
        }
    }
    if engines::workspace(*engine, &graph) > 0 && pack.number(1003)? == 0 {
        return Err(BAD_PARAM);
    }
    let data = Box::into_raw(Box::new(Job { graph, engine: *engine, addresses })).cast::<c_void>();
    // SAFETY: a job that nobody else has.
    unsafe { enqueue(stream, run, data) }.map_err(|has_driver| {
        // SAFETY: the driver does not run the function.
        drop(unsafe { Box::from_raw(data.cast::<Job>()) });
        if has_driver { EXECUTION_FAILED } else { NOT_INITIALIZED }
    })
}
