//! Lists the engines of the library, in the order of its heuristics.
use crate::{
    graph::Graph,
    status::{LAYOUT, NOT_SUPPORTED, PADDING},
};
use disc_fake_library::{Element, Status};

/// Adds in any order.
const IN_ANY_ORDER: i64 = 0;
/// Rounds operands of f32 to tf32.
const TENSOR_CORE: i64 = 1;
/// Transforms tiles.
const WINOGRAD: i64 = 2;
/// Works in more memory than anybody has.
const HUGE: i64 = 3;
/// Refuses every plan.
const REFUSING: i64 = 4;
/// Computes anything.
const PLAIN: i64 = 5;

/// Sums of as many terms work in memory of their own.
const LONG: i64 = 64;
/// The bytes of that memory.
const WORKSPACE: i64 = 64 << 10;

/// Returns the engines of a mode for a graph, best first.
///
/// # Errors
/// A graph that the library has no engine for.
pub(crate) fn of(graph: &Graph, mode: i64) -> Result<Vec<i64>, Status> {
    const A: i64 = 3;
    const FALLBACK: i64 = 2;
    if graph.padding_low != graph.padding_high {
        return Err(PADDING);
    }
    if graph.input.is_features_last() != graph.result.is_features_last() && graph.result.sizes[1] > 1 {
        return Err(LAYOUT);
    }
    let is_grouped = graph.filter.sizes[1] != graph.input.sizes[1];
    match mode {
        // The heuristics know nothing of groups.
        A if is_grouped => Err(NOT_SUPPORTED),
        A => Ok(vec![IN_ANY_ORDER, HUGE, REFUSING, WINOGRAD, TENSOR_CORE, PLAIN]),
        FALLBACK => Ok(vec![PLAIN]),
        _ => Err(NOT_SUPPORTED),
    }
}

/// Returns the library's notes about the numbers of an engine.
pub(crate) fn notes(engine: i64) -> &'static [i32] {
    match engine {
        IN_ANY_ORDER => &[0, 4],
        TENSOR_CORE => &[0],
        WINOGRAD => &[5, 6],
        _ => &[],
    }
}

/// Returns true if an engine has plans.
pub(crate) fn has_plans(engine: i64) -> bool {
    engine != REFUSING
}

/// Returns the bytes that an engine works in.
pub(crate) fn workspace(engine: i64, graph: &Graph) -> i64 {
    let terms: i64 = graph.filter.sizes[1..].iter().product();
    match engine {
        HUGE => 1 << 40,
        _ if terms >= LONG => WORKSPACE,
        _ => 0,
    }
}

/// Returns true if an engine rounds operands to tf32.
pub(crate) fn rounds(engine: i64, graph: &Graph) -> bool {
    engine == TENSOR_CORE && graph.input.element == Element::F32
}

/// Returns what a test sees of a convolution that has run.
pub(crate) fn name(engine: i64) -> &'static str {
    match engine {
        TENSOR_CORE => "computed by tensor cores",
        PLAIN => "computed",
        _ => "computed by an engine that was to be passed over",
    }
}
