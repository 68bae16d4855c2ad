//! Looks at the instructions of kernels for AArch64: micro-kernels, dot products of words, masks.
use super::{
    run::{lowered, parse},
    spills::{functions, product_of_words, products},
};
use crate::{
    assembly,
    tests::{alone, target},
};
use disc_codegen::{
    schedule::tile,
    target::{CpuModel, Target, Tile},
};
use disc_ir::DType;

/// The level, that of a server of 2019, and newer ones with vectors of 128, 256 and 512 bits.
const TARGETS: [&str; 5] = [
    "aarch64-v8",
    "aarch64-v8+dotprod+fp16",
    "aarch64-v8+bf16+dotprod+fp16+i8mm+sve",
    "aarch64-v8+bf16+dotprod+fp16+i8mm+sve256",
    "aarch64-v8+bf16+dotprod+fp16+i8mm+sve512",
];

/// Returns the basic blocks that multiply and end in a jump to themselves, with their functions.
fn hot_loops<'a>(assembly: &'a str, multiplies: &str) -> Vec<(&'a str, Vec<&'a str>)> {
    let mut loops = Vec::new();
    for (name, body) in functions(assembly) {
        for block in body.split("\n.LBB").skip(1) {
            let label = block.split(':').next().unwrap_or_default();
            let Some(end) = block.find(&format!("\t.LBB{label}\n")).filter(|&end| block[..end].contains(multiplies)) else {
                continue;
            };
            loops.push((name, block[..end].lines().map(str::trim).collect()));
        }
    }
    loops
}

/// Returns the instructions that multiply in a turn of the tallest micro-kernel: NEON's reads as
/// many steps of each row at once as a register has lanes.
fn products_of_a_turn(target: &Target) -> u32 {
    let tile = tile(target, DType::F32);
    let steps = if tile.lanes == 4 { 4 } else { 1 };
    tile.rows * tile.columns / tile.lanes * steps
}

#[test]
fn micro_kernels_keep_their_sums_in_registers() {
    for name in TARGETS {
        let target = target(name);
        let text = assembly(&lowered(parse(&products(&target)), &target), &alone(&target)).unwrap();
        let mut tallest = 0;
        for (function, lines) in hot_loops(&text, "fml") {
            let spilled: Vec<_> = lines.iter().filter(|line| line.contains("[sp")).collect();
            assert!(spilled.is_empty(), "{name} {function}: {spilled:#?}");
            tallest = tallest.max(lines.iter().filter(|line| line.starts_with("fml") || line.starts_with("fmad")).count());
        }
        assert_eq!(tallest as u32, products_of_a_turn(&target), "{name}: {text}");
    }
}

#[test]
fn rows_are_multiplied_by_element() {
    let target = target("aarch64-v8");
    let text = assembly(&lowered(parse(&products(&target)), &target), &alone(&target)).unwrap();
    let (_, lines) = hot_loops(&text, "fmla").into_iter().max_by_key(|(_, lines)| lines.len()).unwrap();
    assert!(lines.iter().filter(|line| line.starts_with("fmla") && line.ends_with(".s[3]")).count() == 16, "{lines:#?}");
    assert!(!lines.iter().any(|line| line.starts_with("dup") || line.starts_with("bl\t")), "{lines:#?}");
}

#[test]
fn products_of_words_are_one_instruction() {
    for name in &TARGETS[2..] {
        let target = target(&name.replace("+bf16", "").replace("+i8mm", ""));
        let tile = tile(&target, DType::F32);
        for (dtype, multiplies) in [("i8", "sdot"), ("u8", "udot")] {
            let text = product_of_words(dtype, "i32", 4, tile.columns);
            assert_eq!(most_products(&text, &target, multiplies), products_of_a_turn(&target) as usize, "{name} {dtype}");
        }
    }
}

/// Returns the most products of a loop that keeps its operands in registers and moves none.
fn most_products(program: &str, target: &Target, multiplies: &str) -> usize {
    let text = assembly(&lowered(parse(program), target), &alone(target)).unwrap();
    let count = |lines: Vec<&str>| {
        let is_move = |line: &&str| {
            let copies = line.starts_with("mov\tv") && line.contains(".16b");
            copies || ["[sp", "ushll", "uzp"].iter().any(|text| line.contains(text))
        };
        assert!(!lines.iter().any(is_move), "{target}: {lines:#?}");
        lines.iter().filter(|line| line.starts_with(multiplies)).count()
    };
    hot_loops(&text, multiplies).into_iter().map(|(_, lines)| count(lines)).max().unwrap_or_else(|| panic!("{target}: {text}"))
}

#[test]
fn pairs_of_rows_by_pairs_of_columns_are_one_instruction() {
    let Tile { rows, columns, .. } = CpuModel::PAIRED_TILE;
    for name in &TARGETS[2..] {
        let target = target(name);
        for (dtype, sum, word, multiplies) in [("i8", "i32", 8, "smmla"), ("u8", "i32", 8, "ummla"), ("bf16", "f32", 4, "bfmmla")]
        {
            let text = product_of_words(dtype, sum, word, columns);
            // Two steps in a turn, four results of each.
            assert_eq!(most_products(&text, &target, multiplies) as u32, 2 * rows * columns / 4, "{name} {dtype}");
        }
    }
}

#[test]
fn masks_are_predicates_of_sve() {
    let program = "func @main(%x: tensor<[B]x[N]xf32>) -> tensor<[B]x[N]xf32> {
          %y = add %x, %x : tensor<[B]x[N]xf32>
          %z = constant dense<-inf> : tensor<f32>
          %m = reduce %y, %z, dims = [1] : (tensor<[B]x[N]xf32>, tensor<f32>) -> tensor<[B]xf32> applies maximum
          %b = broadcast_in_dim %m, dims = [0] : (tensor<[B]xf32>) -> tensor<[B]x[N]xf32>
          %s = subtract %y, %b : tensor<[B]x[N]xf32>
          return %s : tensor<[B]x[N]xf32>
        }";
    for name in TARGETS {
        let target = target(name);
        let text = assembly(&lowered(parse(program), &target), &alone(&target)).unwrap();
        assert_eq!(text.contains("ld1w\t{ z"), name.contains("sve"), "{name}: {text}");
    }
}

/// LLVM fails to select instructions for such programs where registers have more than 128 bits,
/// unless they are lowered with care.
#[test]
fn truth_values_and_small_elements_are_widened_at_any_lanes() {
    let mut programs = Vec::new();
    for size in ["3", "4", "8", "[N]"] {
        for dtype in ["i64", "f64", "i32", "i8"] {
            for result in ["f32", "bf16"] {
                programs.push(format!(
                    "func @main(%i: tensor<[B]x{dtype}>, %a: tensor<[B]x{size}x{dtype}>) -> tensor<[B]x{size}x{result}> {{
                      %b = broadcast_in_dim %i, dims = [0] : (tensor<[B]x{dtype}>) -> tensor<[B]x{size}x{dtype}>
                      %c = compare EQ, %b, %a : (tensor<[B]x{size}x{dtype}>, tensor<[B]x{size}x{dtype}>) -> tensor<[B]x{size}xi1>
                      %y = convert %c : (tensor<[B]x{size}xi1>) -> tensor<[B]x{size}x{result}>
                      return %y : tensor<[B]x{size}x{result}>
                    }}"
                ));
            }
        }
        programs.push(format!(
            "func @main(%x: tensor<[B]x{size}xu8>) -> (tensor<[B]x{size}xf32>, tensor<[B]x{size}xi64>) {{
              %f = convert %x : (tensor<[B]x{size}xu8>) -> tensor<[B]x{size}xf32>
              %l = convert %x : (tensor<[B]x{size}xu8>) -> tensor<[B]x{size}xi64>
              %o = iota dim = 1 : tensor<[B]x{size}xi64>
              %s = add %l, %o : tensor<[B]x{size}xi64>
              return %f, %s : tensor<[B]x{size}xf32>, tensor<[B]x{size}xi64>
            }}"
        ));
    }
    for name in &TARGETS[2..] {
        let target = target(name);
        for program in &programs {
            let made = assembly(&lowered(parse(program), &target), &alone(&target));
            assert!(made.is_ok(), "{name}: {}\n{program}", made.unwrap_err());
        }
    }
}
