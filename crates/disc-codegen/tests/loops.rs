//! What the loop schedule makes of short dimensions and of joined halves.
mod lowered;

use disc_ir::{Function, FunctionKind, Module, OpKind};
use lowered::Lowered;

/// The kernels of a program.
fn kernels(text: &str) -> Vec<Function> {
    let module = disc_ir::text::parse(text).unwrap_or_else(|e| panic!("{}\n{text}", e[0]));
    let lowered: Module = Lowered::of(&module, &"x86-64-v4".parse().expect("a target")).program.module;
    lowered.functions.into_iter().filter(|f| f.kind == FunctionKind::Kernel).collect()
}

fn count(kernel: &Function, kind: OpKind) -> usize {
    kernel.walk(kernel.body).into_iter().filter(|&inst| kernel.kind_of(inst) == kind).count()
}

/// Two tensors stacked along a last dimension.
fn stacked(size: &str) -> String {
    format!(
        "func @main(%x: tensor<[N]x[M]xf32>, %f: tensor<{size}xf32>) -> tensor<[N]x[M]x{size}xf32> {{
  %a = broadcast_in_dim %x, dims = [0, 1] : (tensor<[N]x[M]xf32>) -> tensor<[N]x[M]x{size}xf32>
  %b = broadcast_in_dim %f, dims = [2] : (tensor<{size}xf32>) -> tensor<[N]x[M]x{size}xf32>
  %r = multiply %a, %b : tensor<[N]x[M]x{size}xf32>
  return %r : tensor<[N]x[M]x{size}xf32>
}}"
    )
}

#[test]
fn vectors_lie_along_the_dimension_before_a_short_one() {
    let zips = |size: &str| count(&kernels(&stacked(size))[0], OpKind::ZipLanes);
    assert!(zips("2") > 0 && zips("4") > zips("2"), "{} and {}", zips("2"), zips("4"));
    assert_eq!((zips("3"), zips("8"), zips("[K]")), (0, 0, 0), "these are walked");
}

/// A row of two parts.
fn parts(second: &str) -> String {
    format!(
        "func @main(%x: tensor<[N]x[K]xf32>, %y: tensor<[N]x[{second}]xf32>) -> tensor<[N]x[K+{second}]xf32> {{
  %c = concatenate %x, %y, dim = 1 : (tensor<[N]x[K]xf32>, tensor<[N]x[{second}]xf32>) -> tensor<[N]x[K+{second}]xf32>
  %r = negate %c : tensor<[N]x[K+{second}]xf32>
  return %r : tensor<[N]x[K+{second}]xf32>
}}"
    )
}

#[test]
fn parts_of_one_length_are_one_loop() {
    let loops = |second: &str| count(&kernels(&parts(second))[0], OpKind::For);
    assert_eq!(loops("K"), 2, "rows, and both parts");
    assert_eq!(loops("M"), 3, "each part has its own loop");
}

/// Rows of a tensor to which a matrix is added, so that not all dimensions are one.
fn planes(rows: &str) -> String {
    let ty = format!("tensor<[B]x[C]x{rows}x[K]xf32>");
    format!(
        "func @main(%x: {ty}, %y: tensor<{rows}x[K]xf32>, %z: tensor<[B]x[C]xf32>) -> {ty} {{
  %a = broadcast_in_dim %z, dims = [0, 1] : (tensor<[B]x[C]xf32>) -> {ty}
  %b = slice %y [0:{0}:1, 0:K:1] : (tensor<{rows}x[K]xf32>) -> tensor<{rows}x[K]xf32>
  %c = reverse %b, dims = [1] : tensor<{rows}x[K]xf32>
  %d = broadcast_in_dim %c, dims = [2, 3] : (tensor<{rows}x[K]xf32>) -> {ty}
  %e = add %a, %d : {ty}
  %r = multiply %x, %e : {ty}
  return %r : {ty}
}}",
        rows.trim_matches(['[', ']'])
    )
}

#[test]
fn the_last_run_of_units_is_a_loop_of_its_own() {
    let nested = |rows: &str| count(&kernels(&planes(rows))[0], OpKind::While);
    assert_eq!(nested("[R]"), 1, "planes, then rows");
    assert_eq!(nested("3"), 0, "three rows are counted along");
}
