//! Checks the machine code of GEMM micro-kernels: their loops keep every sum in a register.
use super::run::{lowered, parse};
use crate::{
    assembly,
    tests::{alone, target},
};
use disc_codegen::{schedule::tile, target::Target};
use disc_ir::DType;

/// Three products: weights in panels with a bias; two inputs; a transposed right operand.
pub(super) fn products(target: &Target) -> String {
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

/// Returns the functions of an assembly text, by name.
pub(super) fn functions(assembly: &str) -> Vec<(&str, &str)> {
    let parts = assembly.split("\n\t.type\t").skip(1);
    parts.filter_map(|part| part.split_once(',').map(|(name, body)| (name.trim_matches('"'), body))).collect()
}

/// Returns the basic blocks of a function that multiply and end in a jump to themselves, up to that
/// jump.
fn hot_loops(function: &str) -> Vec<&str> {
    let blocks = function.split("\n.LBB").skip(1);
    let body = |block: &'_ str| {
        let label = block.split(':').next().unwrap_or_default();
        let jump = block.find(&format!("\t.LBB{label}\n"))?;
        Some(jump).filter(|&end| block[..end].contains("vfmadd"))
    };
    blocks.filter_map(|block| body(block).map(|end| &block[..end])).collect()
}

/// A product with weights in panels of words.
pub(super) fn product_of_words(dtype: &str, sum: &str, word: u32, columns: u32) -> String {
    let (w, y) = (format!("tensor<1x{}x{columns}x{word}x{dtype}>", 256 / word), format!("tensor<[B]x{columns}x{sum}>"));
    let attrs = format!("lhs_contracting_dims = [1], rhs_contracting_dims = [1], packed_columns = [{columns}], dtype = {sum}");
    format!(
        "weight @w : {w}
        func @main(%x: tensor<[B]x256x{dtype}>) -> {y} {{
          %w = weight @w : {w}
          %y = dot_general %x, %w, {attrs} : (tensor<[B]x256x{dtype}>, {w}) -> {y}
          return %y : {y}
        }}"
    )
}

#[test]
fn products_of_words_are_one_instruction() {
    let target: Target = "x86-64-v4+avx512bf16+avx512vnni".parse().unwrap();
    for (dtype, sum, word, name) in [("i8", "i32", 4, "vpdpbusd"), ("bf16", "f32", 2, "vdpbf16ps"), ("u8", "i32", 2, "vpdpwssd")]
    {
        let text = assembly(&lowered(parse(&product_of_words(dtype, sum, word, 32)), &target), &alone(&target)).unwrap();
        // The tallest micro-kernel reads each row's words once for both vectors, and keeps all sums
        // in registers.
        let rows = tile(&target, DType::F32).rows as usize;
        let function = functions(&text).into_iter().find(|(name, _)| name.ends_with(&format!(".rows{rows}")));
        let (_, body) = function.expect("the tallest micro-kernel");
        let block = body.split("\n.LBB").max_by_key(|block| block.matches(name).count()).unwrap();
        assert_eq!(block.matches(name).count(), 2 * rows, "{dtype}: {block}");
        assert!(!block.lines().any(|line| line.trim().starts_with('v') && line.contains("rsp")), "{dtype}: {block}");
    }
}

#[test]
fn tiles_stay_in_their_registers() {
    let target: Target = "x86-64-v4+amx-bf16+amx-int8+amx-tile+avx512bf16+avx512vnni".parse().unwrap();
    for (dtype, sum, word, name) in [("i8", "i32", 4, "tdpbssd"), ("bf16", "f32", 2, "tdpbf16ps")] {
        let text = assembly(&lowered(parse(&product_of_words(dtype, sum, word, 32)), &target), &alone(&target)).unwrap();
        let (_, body) = functions(&text).into_iter().find(|(name, _)| name.ends_with(".tiles")).expect("the routine for tiles");
        let block = body.split("\n.LBB").max_by_key(|block| block.matches(name).count()).unwrap();
        // Four products for two tiles of rows and two of columns, each of which is read once.
        let counts = [name, "tileloadd", "tilestored", "tilezero"].map(|name| block.matches(name).count());
        assert_eq!(counts, [4, 4, 0, 0], "{dtype}: {block}");
        // The sums of two blocks of rows, and of one.
        assert_eq!(body.matches("tilestored").count(), 6, "{dtype}: {body}");
    }
}

/// Attention of bf16, which tests of the facade run too.
const ATTENTION: &str = include_str!("../../../../disc/tests/programs/attention_of_bf16.disc");

#[test]
fn tiles_of_attention_stay_in_their_registers() {
    let target: Target = "x86-64-v4+amx-bf16+amx-int8+amx-tile+avx512bf16+avx512vnni".parse().unwrap();
    let text = assembly(&lowered(parse(ATTENTION), &target), &alone(&target)).unwrap();
    let routines: Vec<_> = functions(&text).into_iter().filter(|(name, _)| name.ends_with(".tiles")).collect();
    let names: Vec<&str> = routines.iter().map(|(name, _)| *name).collect();
    assert!(names.len() == 2 && names[0].contains(".scores.") && names[1].contains(".weighted."), "{names:?}");
    for (name, body) in routines {
        let count = |text: &str| ["tdpbf16ps", "tileloadd", "tilestored", "ldtilecfg"].map(|name| text.matches(name).count());
        let block = body.split("\n.LBB").max_by_key(|block| count(block)[0]).unwrap();
        // Up to the jump back.
        let block = block.split("\n\tj").next().unwrap();
        assert_eq!(count(block), [4, 4, 0, 0], "{name}: {block}");
        // Two tiles of rows, and one; the registers are configured once for all panels.
        assert_eq!(count(body), [6, 7, 6, 1], "{name}: {body}");
    }
    assert_eq!(text.matches("tilestored").count(), 12, "only sums leave registers");
}

#[test]
fn micro_kernels_are_free_of_spills() {
    for level in ["x86-64-v3", "x86-64-v4", "x86-64-v4+avxvnni"] {
        let target = target(level);
        let text = assembly(&lowered(parse(&products(&target)), &target), &alone(&target)).unwrap();
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
        // There are loops: of every height, in all three forms.
        assert!(kernels >= 3 * vectors / 2, "{level}: {kernels} loops");
        assert_eq!(tallest, vectors, "{level}: {text}");
    }
}
