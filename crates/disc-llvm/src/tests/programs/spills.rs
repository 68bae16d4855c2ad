//! The micro-kernels of products, as machine code: their loops keep every sum in a register.
use super::run::{lowered, parse};
use crate::{assembly, tests::target};
use disc_codegen::{schedule::tile, target::Target};
use disc_ir::DType;

/// A product with weights in panels and a bias; one of two inputs; one with a right operand that is transposed.
fn products(target: &Target) -> String {
    let width = tile(target, DType::F32).columns;
    format!(
        "weight @w : tensor<3x64x{width}xf32>
        weight @b : tensor<{columns}xf32>
        func @main(%x: tensor<[B]x64xf32>, %y: tensor<64x[N]xf32>, %z: tensor<[N]x64xf32>) -> (tensor<[B]x{columns}xf32>, tensor<[B]x[N]xf32>, tensor<[B]x[N]xf32>) {{
          %w = weight @w : tensor<3x64x{width}xf32>
          %b = weight @b : tensor<{columns}xf32>
          %p = dot_general %x, %w, lhs_contracting_dims = [1], rhs_contracting_dims = [1], packed_columns = [{columns}] : (tensor<[B]x64xf32>, tensor<3x64x{width}xf32>) -> tensor<[B]x{columns}xf32>
          %c = broadcast_in_dim %b, dims = [1] : (tensor<{columns}xf32>) -> tensor<[B]x{columns}xf32>
          %q = add %p, %c : tensor<[B]x{columns}xf32>
          %r = dot_general %x, %y, lhs_contracting_dims = [1], rhs_contracting_dims = [0] : (tensor<[B]x64xf32>, tensor<64x[N]xf32>) -> tensor<[B]x[N]xf32>
          %s = dot_general %x, %z, lhs_contracting_dims = [1], rhs_contracting_dims = [1] : (tensor<[B]x64xf32>, tensor<[N]x64xf32>) -> tensor<[B]x[N]xf32>
          return %q, %r, %s : (tensor<[B]x{columns}xf32>, tensor<[B]x[N]xf32>, tensor<[B]x[N]xf32>)
        }}",
        columns = 3 * width
    )
}

/// The functions of an assembly text, by name.
fn functions(assembly: &str) -> Vec<(&str, &str)> {
    let parts = assembly.split("\n\t.type\t").skip(1);
    parts.filter_map(|part| part.split_once(',').map(|(name, body)| (name.trim_matches('"'), body))).collect()
}

/// The basic blocks of a function that multiply and end in a jump to themselves, up to that jump.
fn hot_loops(function: &str) -> Vec<&str> {
    let blocks = function.split("\n.LBB").skip(1);
    let body = |block: &'_ str| {
        let label = block.split(':').next().unwrap_or_default();
        let jump = block.find(&format!("\t.LBB{label}\n"))?;
        Some(jump).filter(|&end| block[..end].contains("vfmadd"))
    };
    blocks.filter_map(|block| body(block).map(|end| &block[..end])).collect()
}

#[test]
fn micro_kernels_are_free_of_spills() {
    for level in ["x86-64-v3", "x86-64-v4"] {
        let target = target(level);
        let text = assembly(&lowered(parse(&products(&target)), &target), &target).unwrap();
        let vectors = 2 * tile(&target, DType::F32).rows as usize;
        let (mut kernels, mut tallest) = (0, 0);
        for (name, body) in functions(&text) {
            for block in hot_loops(body) {
                let lines: Vec<&str> = block.lines().map(str::trim).collect();
                let spilled: Vec<&&str> = lines.iter().filter(|line| line.starts_with('v') && line.contains("rsp")).collect();
                assert!(spilled.is_empty(), "{level} {name}: {spilled:#?}\n{block}");
                tallest = tallest.max(lines.iter().filter(|line| line.starts_with("vfmadd")).count());
                kernels += 1;
            }
        }
        // Loops were found at all: of every height, in all three forms.
        assert!(kernels >= 3 * vectors / 2, "{level}: {kernels} loops");
        assert_eq!(tallest, vectors, "{level}: {text}");
    }
}
