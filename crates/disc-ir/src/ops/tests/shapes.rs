//! Result types, with symbolic sizes and with sizes 0 and 1.
use super::*;

#[test]
fn pad_adds_takes_and_spreads() {
    let pad = |shape: &str, low: &str, high: &str| op(OpKind::Pad, &[shape, "f32"]).dims("low", low).dims("high", high);
    pad("f32[B,3]", "1,0", "2,P").gives(&["f32[B+3,P+3]"]);
    pad("f32[4]", "-1", "-3").gives(&["f32[0]"]);
    pad("f32[4]", "0", "1").ints("interior", &[2]).gives(&["f32[11]"]);
    pad("f32[0]", "0", "1").ints("interior", &[2]).gives(&["f32[1]"]);
    pad("f32[N]", "0", "0").ints("interior", &[1]).gives(&["f32[N+max(N-1,0)]"]);
}

#[test]
fn reverse_keeps_the_shape() {
    op(OpKind::Reverse, &["f32[B,3]"]).ints("dims", &[1]).gives(&["f32[B,3]"]);
    op(OpKind::Reverse, &["f32"]).ints("dims", &[]).gives(&["f32"]);
}

/// The rows of a table, as an embedding takes them.
fn embedding(table: &str, ids: &str, vector_dim: i64) -> Op {
    op(OpKind::Gather, &[table, ids])
        .ints("offset_dims", &[2])
        .ints("collapsed_slice_dims", &[0])
        .ints("start_index_map", &[0])
        .attr("index_vector_dim", vector_dim)
        .dims("slice_sizes", "1,8")
}

#[test]
fn gather_of_rows() {
    embedding("f32[V,8]", "i64[B,S]", 2).gives(&["f32[B,S,8]"]);
    embedding("f32[V,8]", "i64[B,S,1]", 2).gives(&["f32[B,S,8]"]);
    embedding("f32[V,8]", "i64[0,1]", 2).gives(&["f32[0,1,8]"]);
}

#[test]
fn gather_with_batching_as_in_the_specification() {
    op(OpKind::Gather, &["i32[2,3,4,2]", "i64[2,2,3,2]"])
        .ints("offset_dims", &[3, 4])
        .ints("collapsed_slice_dims", &[1])
        .ints("operand_batching_dims", &[0])
        .ints("start_indices_batching_dims", &[1])
        .ints("start_index_map", &[2, 1])
        .attr("index_vector_dim", 3)
        .dims("slice_sizes", "1,1,2,2")
        .gives(&["i32[2,2,3,2,2]"]);
}

#[test]
fn scatter_keeps_the_inputs_types() {
    op(OpKind::Scatter, &["f32[V,8]", "i64[N]", "f32[N,8]"])
        .ints("update_window_dims", &[1])
        .ints("inserted_window_dims", &[0])
        .ints("scatter_dims_to_operand_dims", &[0])
        .attr("index_vector_dim", 1)
        .region(&["f32", "f32"], &["f32"])
        .gives(&["f32[V,8]"]);
}

#[test]
fn dynamic_slices() {
    op(OpKind::DynamicSlice, &["f32[B,4]", "i64", "i64"]).dims("sizes", "1,K").gives(&["f32[1,K]"]);
    op(OpKind::DynamicSlice, &["f32"]).dims("sizes", "").gives(&["f32"]);
    op(OpKind::DynamicUpdateSlice, &["f32[B,4]", "f32[1,4]", "i32", "i32"]).gives(&["f32[B,4]"]);
}

#[test]
fn reductions_drop_dimensions_and_scans_keep_them() {
    let reduce =
        |shape: &str, axes: &[i64]| op(OpKind::Reduce, &[shape, "f32"]).ints("dims", axes).region(&["f32", "f32"], &["f32"]);
    reduce("f32[B,S,8]", &[2, 0]).gives(&["f32[S]"]);
    reduce("f32[0]", &[0]).gives(&["f32"]);
    reduce("f32[B]", &[]).gives(&["f32[B]"]);
    op(OpKind::Reduce, &["f32[B,S]", "i64[B,S]", "f32", "i64"])
        .ints("dims", &[1])
        .region(&["f32", "i64", "f32", "i64"], &["f32", "i64"])
        .gives(&["f32[B]", "i64[B]"]);
    op(OpKind::Cumulative, &["f32[B,0]", "f32"]).attr("dim", 1).region(&["f32", "f32"], &["f32"]).gives(&["f32[B,0]"]);
}

fn pool(shape: &str, window: &str) -> Op {
    op(OpKind::ReduceWindow, &[shape, "f32"]).dims("window_dimensions", window).region(&["f32", "f32"], &["f32"])
}

#[test]
fn windows_are_counted() {
    pool("f32[7]", "3").gives(&["f32[5]"]);
    pool("f32[7]", "3").ints("window_strides", &[2]).gives(&["f32[3]"]);
    pool("f32[7]", "3").ints("window_dilations", &[3]).gives(&["f32[1]"]);
    pool("f32[2]", "3").gives(&["f32[0]"]);
    pool("f32[0]", "1").gives(&["f32[0]"]);
    pool("f32[0]", "1").dims("padding_low", "1").gives(&["f32[1]"]);
    pool("f32[3,2]", "2,1")
        .ints("window_strides", &[4, 1])
        .ints("base_dilations", &[2, 1])
        .ints("window_dilations", &[3, 1])
        .dims("padding_low", "2,0")
        .dims("padding_high", "1,0")
        .gives(&["f32[2,2]"]);
    pool("f32[H]", "2").ints("window_strides", &[2]).gives(&["f32[H/2]"]);
}

#[test]
fn dot_general_orders_batch_then_lhs_then_rhs() {
    let dot = |lhs: &str, rhs: &str| op(OpKind::DotGeneral, &[lhs, rhs]);
    dot("f32[B,M,K]", "f32[B,K,N]")
        .ints("lhs_batching_dims", &[0])
        .ints("rhs_batching_dims", &[0])
        .ints("lhs_contracting_dims", &[2])
        .ints("rhs_contracting_dims", &[1])
        .gives(&["f32[B,M,N]"]);
    let matrix = |lhs: &str, rhs: &str| dot(lhs, rhs).ints("lhs_contracting_dims", &[1]).ints("rhs_contracting_dims", &[0]);
    matrix("i8[M,K]", "i8[K,N]").attr("dtype", DType::I32).gives(&["i32[M,N]"]);
    matrix("f32[0,K]", "f32[K,1]").gives(&["f32[0,1]"]);
    dot("f32[M]", "f32[N]").ints("lhs_contracting_dims", &[]).ints("rhs_contracting_dims", &[]).gives(&["f32[M,N]"]);
}

/// A convolution of images `[batch, feature, height, width]`.
pub(super) fn convolve(lhs: &str, rhs: &str) -> Op {
    op(OpKind::Convolution, &[lhs, rhs])
        .attr("input_batch_dimension", 0)
        .attr("input_feature_dimension", 1)
        .ints("input_spatial_dimensions", &[2, 3])
        .attr("kernel_output_feature_dimension", 0)
        .attr("kernel_input_feature_dimension", 1)
        .ints("kernel_spatial_dimensions", &[2, 3])
        .attr("output_batch_dimension", 0)
        .attr("output_feature_dimension", 1)
        .ints("output_spatial_dimensions", &[2, 3])
}

#[test]
fn convolutions() {
    convolve("f32[B,3,8,9]", "f32[16,3,3,3]").gives(&["f32[B,16,6,7]"]);
    convolve("f32[B,4,8,8]", "f32[6,2,1,1]").attr("feature_group_count", 2).gives(&["f32[B,6,8,8]"]);
    convolve("f32[4,3,8,8]", "f32[6,3,1,1]").attr("batch_group_count", 2).gives(&["f32[2,6,8,8]"]);
    convolve("f32[B,3,8,8]", "f32[16,3,3,3]")
        .ints("window_strides", &[2, 2])
        .dims("padding_low", "1,1")
        .dims("padding_high", "1,1")
        .gives(&["f32[B,16,4,4]"]);
    convolve("f32[B,3,8,8]", "f32[16,3,3,3]")
        .ints("lhs_dilation", &[2, 1])
        .ints("rhs_dilation", &[1, 2])
        .gives(&["f32[B,16,13,4]"]);
    convolve("f32[B,3,2,0]", "f32[16,3,3,3]").gives(&["f32[B,16,0,0]"]);
}

#[test]
fn sorts() {
    op(OpKind::Sort, &["f32[B,S]", "i64[B,S]"])
        .attr("dimension", 1)
        .region(&["f32", "f32", "i64", "i64"], &["i1"])
        .gives(&["f32[B,S]", "i64[B,S]"]);
    op(OpKind::TopK, &["f32[B,S]"]).attr("k", Dim::constant(5)).gives(&["f32[B,5]", "i32[B,5]"]);
    op(OpKind::TopK, &["f32[3]"]).attr("k", Dim::constant(0)).attr("index_dtype", DType::I64).gives(&["f32[0]", "i64[0]"]);
}

#[test]
fn random_bits_have_the_stated_type() {
    op(OpKind::RngBitGenerator, &["u64[2]"]).declared(&["u64[2]", "u32[B]"]).gives(&["u64[2]", "u32[B]"]);
}
