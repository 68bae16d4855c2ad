//! Selects depthwise convolutions that may overwrite their input plane by plane.
//!
//! The schedule of such a convolution walks one plane per task, from its first row to its last, and
//! keeps copies of the rows above that later rows still read. The schedule and the buffer plan both
//! ask [`walks_planes`], so that they agree.
//!
//! Invariant: the answer suffices for the schedule, if both are of one cost model.
use crate::analysis::{cost_model::CostModel, query::Query};
use disc_ir::{Block, Dim, Function, Inst, OpKind, Solver, Value};

/// Fewer planes than this do not occupy all threads at one plane per thread.
const FEWEST_PLANES: i64 = 32;

/// Returns true if a convolution in a group reads an input of the group plane by plane, each row
/// before the rows below it.
pub fn walks_planes(function: &Function, solver: &Solver, block: Block, inst: Inst, model: &dyn CostModel) -> bool {
    if function.kind_of(inst) != OpKind::Convolution {
        return false;
    }
    let [input, kernel] = function.operands(inst)[..] else { return false };
    let (shape, result) = (function.shape(input), function.shape(function.result(inst)));
    let same = shape.len() == 4 && result.len() == 4 && shape.iter().zip(result).all(|(a, b)| solver.equal(a, b));
    let all_ones = |name: &str| function.ints(inst, name).iter().all(|&factor| factor == 1);
    let plain =
        ["input", "output"].iter().all(|side| is_straight(function, inst, side)) && function.int(inst, "batch_group_count") <= 1;
    let float = function.ty(function.result(inst)).dtype().is_float();
    let still = same && plain && float && all_ones("lhs_dilation") && all_ones("window_strides");
    if !still || !function.arguments(block).contains(&input) {
        return false;
    }
    let size = |role: &str| function.shape(kernel)[function.int(inst, role) as usize].as_const();
    let planes = shape[1].as_const().filter(|&planes| planes >= FEWEST_PLANES);
    let deep = planes == Some(function.int(inst, "feature_group_count"))
        && planes == size("kernel_output_feature_dimension")
        && size("kernel_input_feature_dimension") == Some(1);
    deep && keeps_rows(function, inst, kernel, model)
}

fn is_straight(function: &Function, inst: Inst, side: &str) -> bool {
    let number = |role: &str| function.int(inst, &format!("{side}_{role}_dimension"));
    number("batch") == 0 && number("feature") == 1 && function.ints(inst, &format!("{side}_spatial_dimensions")) == [2, 3]
}

/// Returns true if the window is small enough to unroll and few rows have to be kept.
fn keeps_rows(function: &Function, inst: Inst, kernel: Value, model: &dyn CostModel) -> bool {
    let axes = function.axes(inst, "kernel_spatial_dimensions");
    let taps = axes.iter().map(|&axis| function.shape(kernel)[axis].as_const()).collect::<Option<Vec<i64>>>();
    let Some(taps) = taps.filter(|taps| (1..=model.most_taps()).contains(&taps.iter().product())) else { return false };
    let dilation = function.ints(inst, "rhs_dilation").first().copied().unwrap_or(1);
    let above = function.dims(inst, "padding_low").first().map_or(Some(0), Dim::as_const);
    let reach = (taps[0] - 1) * dilation;
    reach <= model.unit_rows() && above.is_some_and(|above| (0..=reach).contains(&above))
}
