//! One violation per constraint of the ops that move, combine, contract, order and make up
//! elements.
use super::{shapes::convolve, *};

#[test]
fn pad() {
    let pad = |shape: &str, low: &str, high: &str| op(OpKind::Pad, &[shape, "f32"]).dims("low", low).dims("high", high);
    pad("f32[4]", "1,1", "0").fails(1, "1 entries");
    pad("f32[4]", "0", "0").ints("interior", &[-1]).fails(1, "-1");
    pad("i32[4]", "0", "0").fails(2, "padding_value");
    pad("f32[4]", "-3", "-3").fails(3, "[-2]");
}

#[test]
fn reverse() {
    op(OpKind::Reverse, &["f32[B,3]"]).ints("dims", &[1, 1]).fails(1, "twice");
    op(OpKind::Reverse, &["f32[B,3]"]).ints("dims", &[2]).fails(1, "[0, 2)");
}

fn gather() -> Op {
    op(OpKind::Gather, &["f32[V,8]", "i64[B,1]"])
        .ints("offset_dims", &[1])
        .ints("collapsed_slice_dims", &[0])
        .ints("start_index_map", &[0])
        .attr("index_vector_dim", 1)
        .dims("slice_sizes", "1,8")
}

#[test]
fn gathers() {
    gather().gives(&["f32[B,8]"]);
    gather().ints("offset_dims", &[1, 2]).fails(1, "rank 2");
    gather().attr("index_vector_dim", 3).fails(2, "[0, 3)");
    gather().ints("start_index_map", &[0, 1]).fails(3, "[1] and [2]");
    gather().ints("offset_dims", &[2]).fails(4, "[0, 2)");
    gather().dims("slice_sizes", "2,8").fails(5, "not 1");
    gather().ints("collapsed_slice_dims", &[2]).fails(5, "[0, 2)");
    gather().ints("start_indices_batching_dims", &[0]).fails(6, "for 0");
    gather().ints("start_index_map", &[2]).fails(7, "[0, 2)");
    gather().dims("slice_sizes", "1,9").fails(8, "[9] is greater than [8]");
    gather().dims("slice_sizes", "1,-1").fails(8, "greater than [-1]");
    let of_none = |indices| op(OpKind::Gather, &["f32[0]", indices]).ints("offset_dims", &[1]).ints("collapsed_slice_dims", &[]);
    let of_one = |indices| of_none(indices).ints("start_index_map", &[0]).attr("index_vector_dim", 1).dims("slice_sizes", "1");
    of_one("i64[0,1]").gives(&["f32[0,1]"]);
    of_one("i64[2,1]").fails(8, "[1] is greater than [0]");
}

fn scatter() -> Op {
    op(OpKind::Scatter, &["f32[V,8]", "i64[N,1]", "f32[N,8]"])
        .ints("update_window_dims", &[1])
        .ints("inserted_window_dims", &[0])
        .ints("scatter_dims_to_operand_dims", &[0])
        .attr("index_vector_dim", 1)
        .region(&["f32", "f32"], &["f32"])
}

fn scatter_of(operands: &[&str]) -> Op {
    Op { operands: operands.iter().map(|text| ty(text)).collect(), ..scatter() }
}

#[test]
fn scatters() {
    scatter().gives(&["f32[V,8]"]);
    scatter_of(&["i64[N,1]"]).fails(1, "input");
    scatter_of(&["f32[V,8]", "i64[N,1]", "i32[N,8]"]).fails(1, "update");
    scatter().ints("update_window_dims", &[]).fails(2, "rank 2");
    scatter().attr("index_vector_dim", 3).fails(3, "[0, 3)");
    scatter_of(&["f32[V,8]", "i64[N,2]", "f32[N,8]"]).fails(3, "[2] and [1]");
    scatter_of(&["f32[V,8]", "i64[N,1]", "f32[M,8]"]).fails(4, "[M] and [N]");
    scatter().ints("inserted_window_dims", &[5]).fails(5, "[0, 2)");
    scatter().ints("scatter_indices_batching_dims", &[0]).fails(6, "for 0");
    scatter().ints("scatter_dims_to_operand_dims", &[7]).fails(7, "[0, 2)");
    scatter_of(&["f32[V,8]", "i64[N,1]", "f32[N,9]"]).fails(8, "[9] is greater than [8]");
    let mut wrong = scatter();
    wrong.regions.clear();
    wrong.region(&["f32"], &["f32"]).fails(9, "arguments");
}

#[test]
fn dynamic_slices() {
    op(OpKind::DynamicSlice, &["f32[4]"]).dims("sizes", "1").fails(1, "0 start indices");
    op(OpKind::DynamicSlice, &["f32[4]", "i64[1]"]).dims("sizes", "1").fails(1, "scalar");
    op(OpKind::DynamicSlice, &["f32[4]", "i64"]).dims("sizes", "5").fails(2, "[5]");
    op(OpKind::DynamicUpdateSlice, &["f32[4]", "i32[4]", "i64"]).fails(1, "update");
    op(OpKind::DynamicUpdateSlice, &["f32[4,4]", "f32[4,4]", "i64", "i32"]).fails(2, "start_indices");
    op(OpKind::DynamicUpdateSlice, &["f32[4]", "f32[5]", "i64"]).fails(3, "[5]");
}

#[test]
fn reductions() {
    let body = |op: Op| op.region(&["f32", "f32"], &["f32"]);
    body(op(OpKind::Reduce, &[])).ints("dims", &[]).fails(1, "input");
    body(op(OpKind::Reduce, &["f32[4]", "i32"])).ints("dims", &[0]).fails(1, "inits");
    body(op(OpKind::Reduce, &["f32[4]", "f32"])).ints("dims", &[1]).fails(2, "[0, 1)");
    op(OpKind::Reduce, &["f32[4]", "f32"]).ints("dims", &[0]).region(&["f32", "f32"], &["i32"]).fails(3, "result of `body`");
    body(op(OpKind::Cumulative, &["f32[4]", "f32[1]"])).attr("dim", 0).fails(1, "inits");
    body(op(OpKind::Cumulative, &["f32[4]", "f32"])).attr("dim", 1).fails(2, "[0, 1)");
    op(OpKind::Cumulative, &["f32[4]", "f32"]).attr("dim", 0).region(&["f32"], &["f32"]).fails(3, "arguments");
}

#[test]
fn windows() {
    let pool = |operands: &[&str], window: &str| {
        op(OpKind::ReduceWindow, operands).dims("window_dimensions", window).region(&["f32", "f32"], &["f32"])
    };
    pool(&["f32[4]", "i32"], "2").fails(1, "inits");
    pool(&["f32[4]", "f32"], "2,2").fails(2, "2 entries");
    pool(&["f32[4]", "f32"], "2").dims("padding_low", "1,1").fails(2, "padding_low");
    pool(&["f32[4]", "f32"], "0").fails(3, "size [0]");
    pool(&["f32[4]", "f32"], "2").ints("window_strides", &[0]).fails(3, "window_strides");
    op(OpKind::ReduceWindow, &["f32[4]", "f32"])
        .dims("window_dimensions", "2")
        .region(&["f32", "f32"], &[])
        .fails(4, "result of `body`");
}

#[test]
fn dot_general() {
    let dot = |lhs: &str, rhs: &str, a: &[i64], b: &[i64]| {
        op(OpKind::DotGeneral, &[lhs, rhs]).ints("lhs_contracting_dims", a).ints("rhs_contracting_dims", b)
    };
    dot("f32[B,K]", "f32[K,N]", &[1], &[0]).ints("lhs_batching_dims", &[0]).fails(1, "batching");
    dot("f32[M,K]", "f32[L,N]", &[1], &[0]).fails(2, "[K] and [L]");
    dot("f32[M,K]", "f32[K,N]", &[1, 1], &[0]).fails(3, "twice");
    dot("f32[M,K]", "i32[K,N]", &[1], &[0]).fails(4, "i32");
    dot("f32[M,K]", "f32[K,N]", &[1], &[0]).attr("dtype", DType::I32).fails(5, "i32");
}

#[test]
fn convolutions() {
    convolve("f32[1,3,8,8]", "f32[6,3,3]").fails(1, "rhs");
    convolve("f32[1,3,8,8]", "f32[6,3,3,3]").attr("input_batch_dimension", 1).fails(2, "twice");
    convolve("f32[1,3,8,8]", "f32[6,3,3,3]").ints("window_strides", &[1]).fails(3, "window_strides");
    convolve("f32[1,3,8,8]", "f32[6,3,3,3]").ints("window_reversal", &[2, 0]).fails(3, "window_reversal");
    convolve("f32[1,3,8,8]", "f32[6,3,3,3]").attr("feature_group_count", 0).fails(4, "0");
    let both = convolve("f32[2,4,8,8]", "f32[6,2,3,3]").attr("feature_group_count", 2).attr("batch_group_count", 2);
    both.fails(4, "2 feature groups");
    convolve("f32[1,3,8,8]", "f32[6,2,3,3]").fails(5, "[2] and [3]");
    convolve("f32[1,4,8,8]", "f32[5,2,3,3]").attr("feature_group_count", 2).fails(6, "5");
    convolve("f32[3,4,8,8]", "f32[6,4,3,3]").attr("batch_group_count", 2).fails(6, "3");
    convolve("f32[1,3,8,8]", "f32[6,3,3,3]").attr("dtype", DType::I8).fails(7, "i8");
}

#[test]
fn sorts() {
    op(OpKind::Sort, &[]).attr("dimension", 0).region(&[], &["i1"]).fails(1, "input");
    op(OpKind::Sort, &["f32[4]", "f32[5]"]).attr("dimension", 0).region(&[], &["i1"]).fails(1, "[4] and [5]");
    op(OpKind::Sort, &["f32[4]"]).attr("dimension", 1).region(&["f32", "f32"], &["i1"]).fails(2, "[0, 1)");
    op(OpKind::Sort, &["f32[4]"]).attr("dimension", 0).region(&["f32"], &["i1"]).fails(3, "arguments");
    op(OpKind::TopK, &["f32"]).attr("k", Dim::constant(0)).fails(1, "scalar");
    op(OpKind::TopK, &["f32[3]"]).attr("k", Dim::constant(4)).fails(2, "[4]");
    op(OpKind::TopK, &["f32[3]"]).attr("k", Dim::constant(2)).attr("skip", Dim::constant(2)).fails(2, "`skip` [2]");
    op(OpKind::TopK, &["f32[3]"]).attr("k", Dim::constant(2)).attr("skip", Dim::constant(-1)).fails(4, "[-1]");
    op(OpKind::TopK, &["f32[3]"]).attr("k", Dim::constant(1)).attr("index_dtype", DType::F32).fails(3, "f32");
}

#[test]
fn random() {
    op(OpKind::RngBitGenerator, &["u64[4]"]).declared(&["u64[4]", "u32[2]"]).fails(1, "entries");
    op(OpKind::RngBitGenerator, &["u64[2]"]).fails(2, "stated");
}
