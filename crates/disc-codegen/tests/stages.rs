//! Checks that every stage means the same: programs run in the interpreter as tensors, as groups on
//! buffers, and as kernels with a host program.
//!
//! The programs are the functions of `stages/*.disc`, each run over a table of sizes that always
//! has 0 and 1.
mod lowered;
#[path = "stages/samples.rs"]
mod samples;

use disc_codegen::{host::Program, target::Target};
use disc_ir::{
    DType, Dim, FunctionKind, Module, Symbol,
    interp::{Limits, Tensor, run_with},
};
use lowered::Lowered;
use samples::{Numbers, programs};
use std::collections::BTreeMap;

/// The sizes that each symbol takes, one row after the other. The last one makes rows of whole
/// lines.
const SIZES: [i64; 8] = [0, 1, 2, 3, 8, 5, 17, 32];

/// Values that floating-point code gets wrong.
const SPECIAL: [f64; 16] =
    [f64::NAN, f64::INFINITY, f64::NEG_INFINITY, 0.0, -0.0, 1e-40, -1e-40, 3e38, -3e38, 88.5, -104.5, 1.0, -1.0, 0.3, -14.2, 5.5];

impl Numbers {
    /// A tensor in which special values are rare, frequent or the only ones.
    fn special(&mut self, dtype: DType, dims: &[i64], share: u64) -> Tensor {
        let plain = self.tensor(dtype, dims);
        if !dtype.is_float() {
            return plain;
        }
        let mut value = |v: f64| match self.next() % share {
            0 => SPECIAL[(self.next() % SPECIAL.len() as u64) as usize],
            _ => v,
        };
        let values: Vec<f64> = plain.to_f64s().into_iter().map(&mut value).collect();
        Tensor::from_f64s(dtype, dims, &values).expect("as many values as elements")
    }
}

fn close(a: &Tensor, b: &Tensor) -> Result<(), String> {
    if a.dtype() != b.dtype() || a.dims() != b.dims() {
        return Err(format!("{:?}{:?} and {:?}{:?}", a.dtype(), a.dims(), b.dtype(), b.dims()));
    }
    if !a.dtype().is_float() {
        return if a.bytes() == b.bytes() { Ok(()) } else { Err(format!("{:?}\n{:?}", a.to_i64s(), b.to_i64s())) };
    }
    let bound = match a.dtype() {
        DType::F64 => 1e-11,
        DType::F32 => 1e-5,
        DType::F16 => 4e-3,
        _ => 4e-2,
    };
    for (i, (x, y)) in a.to_f64s().into_iter().zip(b.to_f64s()).enumerate() {
        let same = x == y || (x.is_nan() && y.is_nan()) || (x - y).abs() <= bound * (1.0 + x.abs().max(y.abs()));
        if !same {
            return Err(format!("element {i} is {x} and {y}"));
        }
    }
    Ok(())
}

fn check(text: &str, target: &Target) {
    let tensors = disc_ir::text::parse(text).unwrap_or_else(|e| panic!("{}\n{text}", e[0]));
    compare(text, &tensors, Lowered::of(&tensors, target), SIZES);
}

/// Compares every stage with the program.
fn compare(text: &str, tensors: &Module, Lowered { fused, buffers, program }: Lowered, table: [i64; 8]) {
    for module in [&fused, &buffers, &program.module] {
        let printed = module.to_string();
        let again = disc_ir::text::parse(&printed).unwrap_or_else(|e| panic!("{}\n{printed}", e[0])).to_string();
        assert_eq!(printed, again, "text round trip");
    }
    let entry = tensors.functions.iter().find(|f| f.kind == FunctionKind::Func && &*f.name == "main").expect("@main");
    let symbols = entry.bound_symbols();
    let rows = if symbols.is_empty() { 1 } else { table.len() };
    for row in 0..rows {
        let sizes: BTreeMap<Symbol, i64> =
            symbols.iter().enumerate().map(|(i, s)| (s.clone(), table[(row + 3 * i) % table.len()])).collect();
        let mut numbers = Numbers(row as u64 + 1);
        let inputs: Vec<Tensor> = entry
            .parameters()
            .iter()
            .map(|&p| {
                let ty = entry.ty(p).as_tensor().expect("a tensor");
                let size = |d: &Dim| d.eval(&|s| sizes.get(s).copied()).expect("bound");
                numbers.tensor(ty.dtype, &ty.dims.iter().map(size).collect::<Vec<_>>())
            })
            .collect();
        let weights: BTreeMap<String, Tensor> = tensors
            .weights
            .iter()
            .map(|w| (w.name.to_string(), numbers.tensor(w.ty.dtype, &w.ty.static_dims().expect("static"))))
            .collect();
        let run = |module: &Module| run_with(module, "main", &inputs, &|name| weights.get(name).cloned(), Limits::default());
        let expected = run(tensors).unwrap_or_else(|e| panic!("{e}\n{sizes:?}\n{text}"));
        for (stage, module) in [("fused", &fused), ("buffer", &buffers), ("kernel", &program.module)] {
            let got = run(module).unwrap_or_else(|e| panic!("{stage}: {e}\n{sizes:?}\n{module}"));
            assert_eq!(expected.len(), got.len());
            for (a, b) in expected.iter().zip(&got) {
                close(a, b).unwrap_or_else(|e| panic!("{stage}: {e}\n{sizes:?}\n{module}"));
            }
        }
    }
}

fn check_all(text: &str) {
    check_on(&["x86-64-v2", "x86-64-v3", "x86-64-v4"], text);
}

fn check_on(targets: &[&str], text: &str) {
    for target in targets {
        let target: Target = target.parse().expect("a target");
        for (name, program) in programs(text) {
            println!("{target} {name}");
            check(&program, &target);
        }
    }
}

#[test]
fn element_wise_and_movement() {
    check_all(include_str!("stages/movement.disc"));
}

#[test]
fn reductions() {
    check_all(include_str!("stages/reductions.disc"));
}

#[test]
fn special_values_of_what_is_recognised() {
    let all = programs(include_str!("stages/fusion.disc"));
    let wanted =
        ["two ways to write gelu", "softmax along a middle dimension", "softmax behind a mask that is counted", "cross entropy"];
    for (name, text) in all.iter().filter(|(name, _)| wanted.contains(&&**name)) {
        let tensors = disc_ir::text::parse(text).expect("a program");
        let program = Lowered::of(&tensors, &"x86-64-v3".parse().expect("a target")).program;
        let entry = tensors.function("main").expect("@main");
        for share in [1, 2, 9, 40] {
            let mut numbers = Numbers(share);
            let size = |d: &Dim| d.eval(&|_| Some(7)).expect("sizes are of symbols");
            let types = entry.parameters().iter().map(|&p| entry.ty(p).as_tensor().expect("a tensor"));
            let inputs: Vec<Tensor> =
                types.map(|ty| numbers.special(ty.dtype, &ty.dims.iter().map(size).collect::<Vec<_>>(), share)).collect();
            let run = |module: &Module| run_with(module, "main", &inputs, &|_| None, Limits::default()).expect("a run");
            for (a, b) in run(&tensors).iter().zip(&run(&program.module)) {
                close(a, b).unwrap_or_else(|e| panic!("{name}: {e}\n{:?}", inputs[0].to_f64s()));
            }
        }
    }
}

#[test]
fn what_is_fused() {
    check_all(include_str!("stages/fusion.disc"));
}

#[test]
fn contractions() {
    check_all(include_str!("stages/contractions.disc"));
}

#[test]
fn convolutions_as_products() {
    check_on(&["x86-64-v3"], include_str!("stages/convolutions.disc"));
}

#[test]
fn convolutions_of_words() {
    let text = include_str!("stages/convolutions.disc").replace("f32", "bf16");
    check_on(&["x86-64-v3", "x86-64-v4+avx512bf16"], &text);
    let (target, mut made) = ("x86-64-v4+avx512bf16".parse().expect("a target"), 0);
    for (_, program) in programs(&text) {
        let tensors = disc_ir::text::parse(&program).expect("a program");
        let lowered = Lowered::of(&tensors, &target).program.module.to_string();
        made += usize::from(lowered.contains("elements = bf16"));
    }
    assert!(made >= 4, "{made} programs multiply words");
}

/// Checks programs whose weights are packed for the target, and that their kernels contain `made`.
fn check_packed(target: &str, text: &str, made: &[&str]) {
    let target: Target = target.parse().expect("a target");
    for (name, text) in programs(text) {
        println!("{target} {name}");
        let tensors = disc_ir::text::parse(&text).unwrap_or_else(|e| panic!("{}\n{text}", e[0]));
        let lowered = Lowered::packed(&tensors, &target);
        let kernels = lowered.program.module.to_string();
        assert!(made.iter().all(|word| kernels.contains(word)), "{name} lacks one of {made:?}\n{kernels}");
        compare(&text, &tensors, lowered, SIZES);
    }
}

#[test]
fn panels_of_narrow_weights() {
    for target in ["x86-64-v3", "x86-64-v4"] {
        check_packed(target, include_str!("stages/halves.disc"), &[".widening", ".widened"]);
    }
}

#[test]
fn products_in_tile_registers() {
    check_packed(TILES, include_str!("stages/tiles.disc"), &["multiply_tiles amx16x16x"]);
}

const TILES: &str = "x86-64-v4+amx-bf16+amx-int8+amx-tile+avx512bf16+avx512fp16+avx512vnni";

#[test]
fn attention_in_tile_registers() {
    let target: Target = TILES.parse().expect("a target");
    for (name, text) in programs(include_str!("stages/attention_tiles.disc")) {
        println!("{name}");
        let tensors = disc_ir::text::parse(&text).unwrap_or_else(|e| panic!("{}\n{text}", e[0]));
        let lowered = Lowered::of(&tensors, &target);
        assert!(lowered.program.module.to_string().contains("multiply_tiles amx16x16x32"), "{name}");
        compare(&text, &tensors, lowered, [0, 1, 15, 16, 17, 31, 33, 65]);
    }
}

/// Values that are not finite reach the same results, and none of one unit reaches another.
#[test]
fn special_values_in_tile_registers() {
    let target: Target = TILES.parse().expect("a target");
    for (name, text) in programs(include_str!("stages/attention_tiles.disc")).iter().filter(|(name, _)| !name.contains("long")) {
        let tensors = disc_ir::text::parse(text).expect("a program");
        let program = Lowered::of(&tensors, &target).program;
        for share in [9, 400, 3000] {
            let mut numbers = Numbers(share);
            let size = |d: &Dim| d.eval(&|s| Some(if s.to_string() == "S" { 35 } else { 45 })).expect("sizes are of symbols");
            let entry = tensors.function("main").expect("@main");
            let types = entry.parameters().iter().map(|&p| entry.ty(p).as_tensor().expect("a tensor"));
            let inputs: Vec<Tensor> =
                types.map(|ty| numbers.special(ty.dtype, &ty.dims.iter().map(size).collect::<Vec<_>>(), share)).collect();
            let run = |module: &Module| run_with(module, "main", &inputs, &|_| None, Limits::default()).expect("a run");
            for (a, b) in run(&tensors).iter().zip(&run(&program.module)) {
                close(a, b).unwrap_or_else(|e| panic!("{name}, {share}: {e}"));
            }
        }
    }
}

/// A row of NaN in the last block of some columns is in the memory of the first block of the next
/// ones, which do not fill their tiles.
#[test]
fn a_row_of_nan_in_tile_registers_leaves_the_others() {
    let all = programs(include_str!("stages/attention_tiles.disc"));
    let tensors = disc_ir::text::parse(&all[0].1).expect("a program");
    let program = Lowered::of(&tensors, &TILES.parse().expect("a target")).program;
    let mut numbers = Numbers(7);
    let mut inputs = [40, 530, 530].map(|size| numbers.tensor(DType::BF16, &[1, 2, size, 32]));
    let mut queries = inputs[0].to_f64s();
    queries[34 * 32 + 5] = f64::NAN;
    inputs[0] = Tensor::from_f64s(DType::BF16, &[1, 2, 40, 32], &queries).expect("as many values as elements");
    let expected = run_with(&tensors, "main", &inputs, &|_| None, Limits::default()).expect("a run");
    let got = run_with(&program.module, "main", &inputs, &|_| None, Limits::default()).expect("a run");
    expected.iter().zip(&got).for_each(|(a, b)| close(a, b).expect("the same results"));
}

/// Fewer queries than a tile has rows are not multiplied by tiles.
#[test]
fn few_queries_are_not_multiplied_by_tiles() {
    let all = programs(include_str!("stages/attention_tiles.disc"));
    let tensors = disc_ir::text::parse(&all[0].1).expect("a program");
    let program = Lowered::of(&tensors, &TILES.parse().expect("a target")).program;
    for (queries, unused) in [(15, "k0_attention_tiles"), (16, "k0_attention")] {
        let mut numbers = Numbers(7);
        let inputs = [queries, 20, 20].map(|size| numbers.tensor(DType::BF16, &[1, 2, size, 32]));
        let expected = run_with(&tensors, "main", &inputs, &|_| None, Limits::default()).expect("a run");
        let got = run_without(&program, &[unused], &inputs).unwrap_or_else(|e| panic!("{e} for {queries} queries"));
        expected.iter().zip(&got).for_each(|(a, b)| close(a, b).expect("the same results"));
    }
}

#[test]
fn attention() {
    check_all(include_str!("stages/attention.disc"));
}

#[test]
fn ops_with_schedules_of_their_own() {
    check_all(include_str!("stages/single.disc"));
}

#[test]
fn sizes_that_depend_on_data() {
    check_all(include_str!("stages/sizes.disc"));
}

#[test]
fn control_flow() {
    check_all(include_str!("stages/control.disc"));
}

/// Runs a program at the kernel stage without some of its kernels: if it works, these are not
/// launched.
fn run_without(program: &Program, kernels: &[&str], inputs: &[Tensor]) -> Result<Vec<Tensor>, String> {
    let mut module = program.module.clone();
    let before = module.functions.len();
    module.functions.retain(|f| !kernels.contains(&&*f.name));
    assert_eq!(module.functions.len() + kernels.len(), before, "the program has the kernels {kernels:?}");
    run_with(&module, "main", inputs, &|_| None, Limits::default()).map_err(|error| error.to_string())
}

#[test]
fn few_rows_of_many_elements_are_reduced_in_parts() {
    let text = "func @main(%x: tensor<[B]x[S]xf32>) -> (tensor<[S]xf32>, tensor<[S]xf32>) {
  %z = constant dense<0.0> : tensor<f32>
  %l = constant dense<-inf> : tensor<f32>
  %s = reduce %x, %z, dims = [0] : (tensor<[B]x[S]xf32>, tensor<f32>) -> tensor<[S]xf32> applies add
  %m = reduce %x, %l, dims = [0] : (tensor<[B]x[S]xf32>, tensor<f32>) -> tensor<[S]xf32> applies maximum
  %d = subtract %s, %m : tensor<[S]xf32>
  return %d, %m : (tensor<[S]xf32>, tensor<[S]xf32>)
}";
    let tensors = disc_ir::text::parse(text).expect("a program");
    let program = Lowered::of(&tensors, &"x86-64-v4".parse().expect("a target")).program;
    disc_ir::verify::verify(&program.module, disc_ir::ops::Stage::Kernel).expect("every block ends");
    let parts: &[&str] = &["k0_reduction_split", "k0_reduction_combine"];
    for (sizes, unused) in
        [([3, 5], parts), ([65, 2017], parts), ([1000, 132], &["k0_reduction"]), ([131_073, 1], &["k0_reduction"])]
    {
        let inputs = [Numbers(7).tensor(DType::F32, &sizes)];
        let expected = run_with(&tensors, "main", &inputs, &|_| None, Limits::default()).expect("a run");
        let got = run_without(&program, unused, &inputs).unwrap_or_else(|e| panic!("{e} for sizes {sizes:?}"));
        for (a, b) in expected.iter().zip(&got) {
            close(a, b).unwrap_or_else(|e| panic!("{e} for sizes {sizes:?}"));
        }
    }
    let error = run_without(&program, &["k0_reduction"], &[Numbers(7).tensor(DType::F32, &[3, 5])]).expect_err("it is needed");
    assert!(error.contains("there is no kernel @k0_reduction"), "{error}");
}

#[test]
fn many_rows_of_few_elements_are_computed_side_by_side() {
    let programs = programs(include_str!("stages/reductions.disc"));
    let (_, text) = programs.iter().find(|(name, _)| name == "softmax").expect("softmax");
    let tensors = disc_ir::text::parse(text).expect("a program");
    let program = Lowered::of(&tensors, &"x86-64-v3".parse().expect("a target")).program;
    for (sizes, unused) in [
        ([64, 3], "k0_reduction_lanes"),
        ([65, 9], "k0_reduction_lanes"),
        ([65, 8], "k0_reduction"),
        ([83, 1], "k0_reduction"),
        ([70, 0], "k0_reduction"),
    ] {
        let inputs = [Numbers(7).tensor(DType::F32, &sizes)];
        let expected = run_with(&tensors, "main", &inputs, &|_| None, Limits::default()).expect("a run");
        let got = run_without(&program, &[unused], &inputs).unwrap_or_else(|e| panic!("{e} for sizes {sizes:?}"));
        close(&expected[0], &got[0]).unwrap_or_else(|e| panic!("{e} for sizes {sizes:?}"));
    }
}

/// Runs a program for sizes, each time without a kernel that these sizes do not need.
fn runs_without(text: &str, target: &str, cases: &[(&[i64], &str)]) {
    let tensors = disc_ir::text::parse(text).expect("a program");
    let program = Lowered::of(&tensors, &target.parse().expect("a target")).program;
    for (sizes, unused) in cases {
        let inputs = [Numbers(7).tensor(DType::F32, sizes)];
        let expected = run_with(&tensors, "main", &inputs, &|_| None, Limits::default()).expect("a run");
        let got = run_without(&program, &[unused], &inputs).unwrap_or_else(|e| panic!("{e} for sizes {sizes:?}"));
        for (a, b) in expected.iter().zip(&got) {
            close(a, b).unwrap_or_else(|e| panic!("{e} for sizes {sizes:?}"));
        }
    }
}

#[test]
fn short_rows_are_computed_some_at_once() {
    let programs = programs(include_str!("stages/reductions.disc"));
    let (_, text) = programs.iter().find(|(name, _)| name == "softmax").expect("softmax");
    // Four rows or fewer, and the remainder of such blocks; longer rows one by one.
    let cases: &[(&[i64], &str)] = &[
        (&[4, 9], "k0_reduction"),
        (&[7, 33], "k0_reduction"),
        (&[1, 20], "k0_reduction"),
        (&[5, 1024], "k0_reduction"),
        (&[2, 1025], "k0_reduction_multirow"),
    ];
    for target in ["x86-64-v3", "x86-64-v4"] {
        runs_without(text, target, cases);
    }
}

#[test]
fn running_sums_of_many_lines_are_turned() {
    for reverse in ["", ", reverse = true"] {
        let text = format!(
            "func @main(%x: tensor<[B]x[S]xf32>) -> tensor<[B]x[S]xf32> {{
  %z = constant dense<0.0> : tensor<f32>
  %a = cumulative %x, %z, dim = 1{reverse} : (tensor<[B]x[S]xf32>, tensor<f32>) -> tensor<[B]x[S]xf32> applies add
  return %a : tensor<[B]x[S]xf32>
}}"
        );
        let few: &[(&[i64], &str)] =
            &[(&[1, 40], "k0_standalone_tiles"), (&[3, 17], "k0_standalone_tiles"), (&[3, 0], "k0_standalone_tiles")];
        let many: &[(&[i64], &str)] = &[
            (&[4, 16], "k0_standalone"),
            (&[17, 33], "k0_standalone"),
            (&[16, 1], "k0_standalone"),
            (&[33, 15], "k0_standalone"),
            (&[9, 0], "k0_standalone"),
        ];
        for target in ["x86-64-v3", "x86-64-v4"] {
            runs_without(&text, target, few);
            runs_without(&text, target, many);
        }
    }
}

/// Lines whose positions have more than 31 bits are sorted by comparisons: the test pretends that a
/// line of two is that long.
#[test]
fn the_longest_lines_leave_out_what_is_skipped() {
    let text = "func @main(%x: tensor<[B]x[S]xf32>) -> (tensor<[B]x[S-S/2]xf32>, tensor<[B]x[S-S/2]xi64>) {
  %v, %i = top_k %x, k = [S-S/2], largest = false, skip = [S/2], index_dtype = i64 : (tensor<[B]x[S]xf32>) -> (tensor<[B]x[S-S/2]xf32>, tensor<[B]x[S-S/2]xi64>)
  return %v, %i : (tensor<[B]x[S-S/2]xf32>, tensor<[B]x[S-S/2]xi64>)
}";
    let tensors = disc_ir::text::parse(text).expect("a program");
    let program = Lowered::of(&tensors, &"x86-64-v3".parse().expect("a target")).program;
    let short = program.module.to_string().replace("2147483647", "1");
    let short = disc_ir::text::parse(&short).expect("a program");
    for sizes in [[3, 9], [1, 2], [2, 40]] {
        let inputs = [Numbers(7).tensor(DType::F32, &sizes)];
        let run = |module: &Module| run_with(module, "main", &inputs, &|_| None, Limits::default()).expect("a run");
        let without_keys = run_without(&Program { module: short.clone(), ..program.clone() }, &["k0_standalone"], &inputs);
        for (a, b) in run(&tensors).iter().zip(&without_keys.expect("comparisons alone")) {
            close(a, b).unwrap_or_else(|e| panic!("{e} for sizes {sizes:?}"));
        }
    }
}
