//! Checks the kernels of convolutions.
use super::{compile, launches};
use disc_ir::{FunctionKind, OpKind};

/// A convolution of 16 features to 16, marked for Winograd's method.
const WINOGRAD: &str = "func @main(%x: tensor<[B]x16x[H]x[W]xf32>, %w: tensor<16x16x3x3xf32>, %t: tensor<2x36x16x8xf32>) -> tensor<[B]x16x[H]x[W]xf32> where 1 <= H, 1 <= W {
  %k = broadcast_in_dim %w, dims = [1, 2, 3, 4] : (tensor<16x16x3x3xf32>) -> tensor<[B]x16x16x3x3xf32>
  %p = im2col %x, window_dimensions = [3, 3], padding_low = [1, 1], padding_high = [1, 1] : (tensor<[B]x16x[H]x[W]xf32>) -> tensor<[B]x16x3x3x[H]x[W]xf32>
  %d = dot_general %k, %p, batching_dims = [0] x [0], contracting_dims = [2, 3, 4] x [1, 2, 3] : (tensor<[B]x16x16x3x3xf32>, tensor<[B]x16x3x3x[H]x[W]xf32>) -> tensor<[B]x16x[H]x[W]xf32>
  %y = winograd %d, %x, %t, padding_low = [1, 1] : (tensor<[B]x16x[H]x[W]xf32>, tensor<[B]x16x[H]x[W]xf32>, tensor<2x36x16x8xf32>) -> tensor<[B]x16x[H]x[W]xf32>
  %r = negate %y : tensor<[B]x16x[H]x[W]xf32>
  return %r : tensor<[B]x16x[H]x[W]xf32>
}";

#[test]
fn winograds_method_is_a_version_for_sizes_with_enough_tiles() {
    let program = compile(WINOGRAD);
    let names: Vec<&str> = program.module.functions.iter().map(|function| &*function.name).collect();
    assert!(names.contains(&"k0_matmul") && names.contains(&"k0_matmul.winograd"), "{names:?}");
    let host = program.module.functions.iter().find(|f| f.kind == FunctionKind::Host).expect("a host program");
    let guards = host.insts(host.body).iter().filter(|&&inst| host.kind_of(inst) == OpKind::If).count();
    assert_eq!((guards, launches(&program)), (1, 1), "{}", program.module);
}

/// The micro-kernels of a convolution of `depth` features to `rows`, with windows of one element,
/// on a plane of these sizes.
fn micro_kernels([depth, rows]: [i64; 2], sizes: &str) -> Vec<String> {
    let program = compile(&format!(
        "func @main(%x: tensor<[B]x{depth}x{sizes}xf32>, %w: tensor<{rows}x{depth}xf32>) -> tensor<[B]x{rows}x{sizes}xf32> {{
  %k = broadcast_in_dim %w, dims = [1, 2] : (tensor<{rows}x{depth}xf32>) -> tensor<[B]x{rows}x{depth}xf32>
  %y = dot_general %k, %x, batching_dims = [0] x [0], contracting_dims = [2] x [1] : (tensor<[B]x{rows}x{depth}xf32>, tensor<[B]x{depth}x{sizes}xf32>) -> tensor<[B]x{rows}x{sizes}xf32>
  return %y : tensor<[B]x{rows}x{sizes}xf32>
}}"
    ));
    let names = program.module.functions.iter().filter_map(|f| f.name.strip_prefix("k0_matmul.0."));
    names.map(str::to_owned).collect()
}

#[test]
fn last_panels_are_as_narrow_as_their_columns() {
    let of = |sizes: &str| -> Vec<String> {
        micro_kernels([24, 20], sizes).into_iter().filter(|name| name.starts_with("tail")).collect()
    };
    assert_eq!(of("[H]x[W]"), ["tail1x10", "tail2x10", "tail3x10"], "20 rows are two blocks of 10");
    assert_eq!(of("7x7"), ["tail3x10"], "17 of 32 columns are left");
    assert_eq!(of("14x14"), ["tail1x10"]);
    assert_eq!(of("8x4"), <[&str; 0]>::default());
    assert_eq!(of("5x6"), <[&str; 0]>::default(), "a panel has 30 of its columns");
    let whole = micro_kernels([24, 20], "[H]x[W]").into_iter().filter(|name| name.starts_with("task")).count();
    assert_eq!(whole, 1);
}

#[test]
fn few_columns_behind_the_last_vector_are_multiplied_along_the_sums() {
    let of = |depth: i64, rows: i64, sizes: &str| -> Vec<String> {
        let is_last = |name: &String| name.starts_with("tail") || name.starts_with("along");
        micro_kernels([depth, rows], sizes).into_iter().filter(is_last).collect()
    };
    assert_eq!(of(400, 60, "[H]x[W]"), ["tail1x12", "tail2x12", "tail3x12", "along2x12", "along1x12"]);
    assert_eq!(of(400, 60, "7x7"), ["tail2x12", "along1x12"], "17 columns are two vectors of 8 and one more");
    assert_eq!(of(400, 60, "14x14"), ["along2x12"], "4 columns behind six panels");
    assert_eq!(of(400, 60, "5x7"), ["along2x12", "along1x12"], "3 columns");
    assert_eq!(of(400, 60, "5x9"), ["tail2x12"], "5 of 13 columns are worth a vector");
    for [depth, rows] in [[200, 60], [400, 24]] {
        assert_eq!(of(depth, rows, "14x14"), ["tail1x12"], "of shorter sums and fewer rows, 4 columns are");
        assert_eq!(of(depth, rows, "5x10"), ["tail2x12", "along2x12"]);
    }
    for [depth, rows] in [[50, 60], [400, 12]] {
        assert_eq!(of(depth, rows, "7x7"), ["tail3x12"], "of short sums and few rows, one column is");
    }
}

#[test]
fn units_of_short_sums_pack_several_panels() {
    let (scratch, names) = packed("128x100");
    assert!(scratch.contains("buffer<14336xf32"), "four panels of 112 by 32: {scratch}");
    let packed_panels = |name: &String| ["task", "tail", "along"].iter().any(|source| name.starts_with(source));
    assert!(names.iter().all(packed_panels), "{names:?}");
    // The sum is longer, and there are fewer rows of results.
    assert!(packed("128x200").0.contains("buffer<6656xf32"), "one of 208 by 32");
    assert!(packed("64x100").0.contains("buffer<3584xf32"), "one of 112 by 32");
}

/// The task memory and the micro-kernels of a matmul of a filter of this shape.
fn packed(shape: &str) -> (String, Vec<String>) {
    let (rows, depth) = shape.split_once('x').expect("rows and sums");
    let program = compile(&format!(
        "func @main(%x: tensor<[B]x{depth}x[P]xf32>, %w: tensor<{shape}xf32>) -> tensor<[B]x{rows}x[P]xf32> {{
  %k = broadcast_in_dim %w, dims = [1, 2] : (tensor<{shape}xf32>) -> tensor<[B]x{shape}xf32>
  %y = dot_general %k, %x, batching_dims = [0] x [0], contracting_dims = [2] x [1] : (tensor<[B]x{shape}xf32>, tensor<[B]x{depth}x[P]xf32>) -> tensor<[B]x{rows}x[P]xf32>
  return %y : tensor<[B]x{rows}x[P]xf32>
}}"
    ));
    let text = program.module.to_string();
    let scratch = text.lines().filter(|line| line.contains(" = scratch")).collect();
    let names = program.module.functions.iter().filter_map(|f| f.name.strip_prefix("k0_matmul.0."));
    (scratch, names.map(str::to_owned).collect())
}

/// The number of buffers in task memory of a matmul of 24 filters of 1024 elements, `apart` from
/// one to the next.
fn buffers(apart: i64) -> usize {
    let program = compile(&format!(
        "weight @w : tensor<24x{apart}xf32>
func @main(%x: tensor<[B]x1024x[P]xf32>) -> tensor<[B]x24x[P]xf32> {{
  %w = weight @w : tensor<24x{apart}xf32>
  %s = slice %w [0:24, 0:1024] : (tensor<24x{apart}xf32>) -> tensor<24x1024xf32>
  %k = broadcast_in_dim %s, dims = [1, 2] : (tensor<24x1024xf32>) -> tensor<[B]x24x1024xf32>
  %y = dot_general %k, %x, batching_dims = [0] x [0], contracting_dims = [2] x [1] : (tensor<[B]x24x1024xf32>, tensor<[B]x1024x[P]xf32>) -> tensor<[B]x24x[P]xf32>
  return %y : tensor<[B]x24x[P]xf32>
}}"
    ));
    assert_eq!(launches(&program), 1, "{}", program.module);
    let kernels = program.module.functions.iter().filter(|f| f.kind == FunctionKind::Kernel);
    kernels.flat_map(|f| f.walk(f.body).into_iter().filter(|&inst| f.kind_of(inst) == OpKind::Scratch)).count()
}

#[test]
fn filters_that_were_moved_apart_are_read_as_they_lie() {
    assert_eq!(buffers(1040), 2, "a panel, and columns that are left over");
    assert_eq!(buffers(2048), 3, "the same, and rows that are pages apart");
}

/// The number of loads of a depthwise convolution of 3 by 3 windows on planes of this width.
fn loads(width: &str) -> usize {
    let facts = if width == "[W]" { ", 1 <= W" } else { "" };
    let program = compile(&format!(
        "func @main(%x: tensor<[B]x8x[H]x{width}xf32>, %w: tensor<8x1x3x3xf32>) -> tensor<[B]x8x[H]x{width}xf32> where 1 <= H{facts} {{
  %y = convolution %x, %w, input_batch_dimension = 0, input_feature_dimension = 1, input_spatial_dimensions = [2, 3], kernel_input_feature_dimension = 1, kernel_output_feature_dimension = 0, kernel_spatial_dimensions = [2, 3], output_batch_dimension = 0, output_feature_dimension = 1, output_spatial_dimensions = [2, 3], padding_low = [1, 1], padding_high = [1, 1], feature_group_count = 8 : (tensor<[B]x8x[H]x{width}xf32>, tensor<8x1x3x3xf32>) -> tensor<[B]x8x[H]x{width}xf32>
  return %y : tensor<[B]x8x[H]x{width}xf32>
}}"
    ));
    let kernels = program.module.functions.iter().filter(|f| f.kind == FunctionKind::Kernel);
    kernels.flat_map(|f| f.walk(f.body).into_iter().filter(|&inst| f.kind_of(inst) == OpKind::Load)).count()
}

#[test]
fn rows_that_fit_a_vector_are_read_where_they_lie() {
    let read = 6 * 3 + 9;
    assert_eq!(loads("[W]"), loads("40") + read, "six rows for three columns, and the kernel");
    assert_eq!(loads("16"), loads("[W]"));
}
