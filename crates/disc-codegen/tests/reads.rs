//! Checks that kernels read no memory before or after an operand: an element that is the same in
//! every lane is read under a branch if it may not exist.
mod lowered;

use disc_ir::{Function, FunctionKind, Inst, OpKind, Type};
use lowered::Lowered;
use std::collections::HashSet;

/// The kernels of a program, and their loads of one element that are not under a branch.
fn unasked(text: &str) -> Vec<(Function, Vec<Inst>)> {
    let module = disc_ir::text::parse(text).unwrap_or_else(|e| panic!("{}\n{text}", e[0]));
    let lowered = Lowered::of(&module, &"x86-64-v4".parse().expect("a target")).program.module;
    let kernels = lowered.functions.into_iter().filter(|f| f.kind == FunctionKind::Kernel);
    let reads = |kernel: Function| {
        let all = kernel.walk(kernel.body);
        let branches = all.iter().filter(|&&inst| kernel.kind_of(inst) == OpKind::If);
        let asked: HashSet<Inst> = branches.flat_map(|&inst| kernel.walk(kernel.inst(inst).regions[0])).collect();
        let is_scalar = |inst: Inst| {
            kernel.kind_of(inst) == OpKind::Load && matches!(kernel.ty(kernel.result(inst)), Type::Vector { lanes: 1, .. })
        };
        let found = all.iter().copied().filter(|inst| is_scalar(*inst) && !asked.contains(inst)).collect();
        (kernel, found)
    };
    kernels.map(reads).collect()
}

#[test]
fn windows_read_no_row_of_the_padding() {
    let program = "func @main(%x: tensor<[C]xi1>, %like: tensor<[B]xf32>) -> tensor<[C+1]x[B]xi1> {
  %no = constant dense<false> : tensor<i1>
  %b = broadcast_in_dim %x, dims = [0] : (tensor<[C]xi1>) -> tensor<[C]x[B]xi1>
  %r = reduce_window %b, %no, window_dimensions = [2, 1], padding_low = [1, 0], padding_high = [1, 0] : \
         (tensor<[C]x[B]xi1>, tensor<i1>) -> tensor<[C+1]x[B]xi1> applies or
  return %r : tensor<[C+1]x[B]xi1>
}";
    let kernels = unasked(program);
    assert!(kernels.iter().any(|(kernel, _)| kernel.name.contains("pooling")), "a vector is a row of windows");
    for (kernel, found) in kernels {
        assert!(found.is_empty(), "{} reads of places that may not exist:\n{kernel}", found.len());
    }
}

#[test]
fn a_padded_copy_reads_no_row_of_the_padding() {
    let program = "func @main(%x: tensor<[C]xf32>, %like: tensor<[B]xf32>) -> tensor<[C+2]x[B+3]xf32> {
  %zero = constant dense<0.0> : tensor<f32>
  %b = broadcast_in_dim %x, dims = [0] : (tensor<[C]xf32>) -> tensor<[C]x[B]xf32>
  %r = pad %b, %zero, low = [1, 1], high = [1, 2], interior = [0, 0] : (tensor<[C]x[B]xf32>, tensor<f32>) -> tensor<[C+2]x[B+3]xf32>
  return %r : tensor<[C+2]x[B+3]xf32>
}";
    for (kernel, found) in unasked(program) {
        assert!(found.is_empty(), "{} reads of places that may not exist:\n{kernel}", found.len());
    }
}
