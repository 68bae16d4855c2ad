//! Checks the plans that fusion, the arena and the schedules make of programs: kernel counts, and
//! the effect of facts.
mod lowered;
#[path = "plans/memory.rs"]
mod memory;
#[path = "plans/convolutions.rs"]
mod of_convolutions;
#[path = "plans/products.rs"]
mod of_products;
#[path = "plans/rows.rs"]
mod of_rows;

use disc_codegen::host::Program;
use disc_ir::{FunctionKind, FusionKind, Module, OpKind};
use lowered::Lowered;

fn compile(text: &str) -> Program {
    compile_for("x86-64-v4", text)
}

fn compile_for(target: &str, text: &str) -> Program {
    let module = disc_ir::text::parse(text).unwrap_or_else(|e| panic!("{}\n{text}", e[0]));
    Lowered::of(&module, &target.parse().expect("a target")).program
}

fn launches(program: &Program) -> usize {
    program.launches.iter().flat_map(|(_, counts)| counts.values()).sum()
}

/// The ops of all kernels.
fn kernel_ops(module: &Module) -> Vec<OpKind> {
    let kernels = module.functions.iter().filter(|f| f.kind == FunctionKind::Kernel);
    kernels.flat_map(|f| f.walk(f.body).into_iter().map(|inst| f.kind_of(inst))).collect()
}

#[test]
fn softmax_with_scale_and_mask_is_one_kernel() {
    let program = compile(
        "func @main(%x: tensor<[B]x12x[S]x[S]xf32>, %m: tensor<[B]x1x1x[S]xf32>) -> tensor<[B]x12x[S]x[S]xf32> {
  %c = constant dense<0.125> : tensor<[B]x12x[S]x[S]xf32>
  %z = constant dense<0.0> : tensor<f32>
  %l = constant dense<-inf> : tensor<f32>
  %a = multiply %x, %c : tensor<[B]x12x[S]x[S]xf32>
  %mb = broadcast_in_dim %m, dims = [0, 1, 2, 3] : (tensor<[B]x1x1x[S]xf32>) -> tensor<[B]x12x[S]x[S]xf32>
  %b = add %a, %mb : tensor<[B]x12x[S]x[S]xf32>
  %t = reduce %b, %l, dims = [3] : (tensor<[B]x12x[S]x[S]xf32>, tensor<f32>) -> tensor<[B]x12x[S]xf32> applies maximum
  %tb = broadcast_in_dim %t, dims = [0, 1, 2] : (tensor<[B]x12x[S]xf32>) -> tensor<[B]x12x[S]x[S]xf32>
  %d = subtract %b, %tb : tensor<[B]x12x[S]x[S]xf32>
  %e = exponential %d : tensor<[B]x12x[S]x[S]xf32>
  %s = reduce %e, %z, dims = [3] : (tensor<[B]x12x[S]x[S]xf32>, tensor<f32>) -> tensor<[B]x12x[S]xf32> applies add
  %sb = broadcast_in_dim %s, dims = [0, 1, 2] : (tensor<[B]x12x[S]xf32>) -> tensor<[B]x12x[S]x[S]xf32>
  %o = divide %e, %sb : tensor<[B]x12x[S]x[S]xf32>
  return %o : tensor<[B]x12x[S]x[S]xf32>
}",
    );
    assert_eq!(launches(&program), 1, "{}", program.module);
    assert!(program.notes.is_empty(), "{:?}", program.notes);
    let kept = kernel_ops(&program.module).iter().filter(|&&kind| kind == OpKind::Scratch).count();
    // The kernels of parts of rows compute them again.
    let names = [
        "k0_reduction",
        "k0_reduction_multirow",
        "k0_reduction_lanes",
        "k0_reduction_nontemporal",
        "k0_reduction_multirow_nontemporal",
    ];
    let whole = program.module.functions.iter().filter(|f| names.contains(&&*f.name)).count();
    assert_eq!((kept, whole), (5, 5), "the exponentials are kept for the last phase:\n{}", program.module);
}

#[test]
fn a_product_takes_bias_gelu_and_residual_along() {
    let program = compile(
        "weight @w : tensor<64x32xf32>
weight @b : tensor<64xf32>
func @main(%x: tensor<[B]x[S]x32xf32>, %r: tensor<[B]x[S]x64xf32>) -> tensor<[B]x[S]x64xf32> {
  %w = weight @w : tensor<64x32xf32>
  %b = weight @b : tensor<64xf32>
  %h = constant dense<0.5> : tensor<[B]x[S]x64xf32>
  %q = constant dense<0.70710678> : tensor<[B]x[S]x64xf32>
  %one = constant dense<1.0> : tensor<[B]x[S]x64xf32>
  %y = dot_general %x, %w, lhs_contracting_dims = [2], rhs_contracting_dims = [1] : (tensor<[B]x[S]x32xf32>, tensor<64x32xf32>) -> tensor<[B]x[S]x64xf32>
  %bb = broadcast_in_dim %b, dims = [2] : (tensor<64xf32>) -> tensor<[B]x[S]x64xf32>
  %a = add %y, %bb : tensor<[B]x[S]x64xf32>
  %c = multiply %a, %q : tensor<[B]x[S]x64xf32>
  %e = erf %c : tensor<[B]x[S]x64xf32>
  %f = add %e, %one : tensor<[B]x[S]x64xf32>
  %g = multiply %a, %h : tensor<[B]x[S]x64xf32>
  %k = multiply %g, %f : tensor<[B]x[S]x64xf32>
  %o = add %k, %r : tensor<[B]x[S]x64xf32>
  return %o : tensor<[B]x[S]x64xf32>
}",
    );
    assert_eq!(launches(&program), 1, "{}", program.module);
    assert_eq!(program.launches[0].1[&FusionKind::Matmul], 1);
}

#[test]
fn equal_layers_share_their_kernels() {
    let layer = |i: usize| {
        format!(
            "  %y{0} = dot_general %x{1}, %w, lhs_contracting_dims = [1], rhs_contracting_dims = [1] : (tensor<[B]x32xf32>, tensor<32x32xf32>) -> tensor<[B]x32xf32>\n  %x{0} = tanh %y{0} : tensor<[B]x32xf32>\n",
            i + 1,
            i
        )
    };
    let body: String = (0..6).map(layer).collect();
    let program = compile(&format!(
        "weight @w : tensor<32x32xf32>\nfunc @main(%x0: tensor<[B]x32xf32>) -> tensor<[B]x32xf32> {{\n  %w = weight @w : tensor<32x32xf32>\n{body}  return %x6 : tensor<[B]x32xf32>\n}}"
    ));
    let kernels = program.module.functions.iter().filter(|f| f.kind == FunctionKind::Kernel).count();
    assert_eq!((launches(&program), kernels), (6, 1));
}

fn doubled(facts: &str) -> Program {
    compile(&format!(
        "func @main(%x: tensor<[B]x[S]xf32>, %y: tensor<[B]x1xf32>) -> tensor<[B]x[S]xf32>{facts} {{
  %b = broadcast_in_dim %y, dims = [0, 1] : (tensor<[B]x1xf32>) -> tensor<[B]x[S]xf32>
  %a = add %x, %b : tensor<[B]x[S]xf32>
  return %a : tensor<[B]x[S]xf32>
}}"
    ))
}

#[test]
fn divisibility_removes_the_masked_rest() {
    let masked = |program: &Program| kernel_ops(&program.module).contains(&OpKind::LaneMask);
    assert!(masked(&doubled("")));
    assert!(!masked(&doubled(" where S % 16 == 0")));
    assert!(masked(&doubled(" where S % 8 == 0")));
}

#[test]
fn short_loops_get_narrow_vectors() {
    let width = |program: &Program| {
        let text = program.module.to_string();
        [16, 8, 4].into_iter().find(|lanes| text.contains(&format!("vector<{lanes}xf32>")))
    };
    assert_eq!(width(&doubled("")), Some(16));
    assert_eq!(width(&doubled(" where S <= 4")), Some(4), "a range");
    assert_eq!(width(&doubled(" where S likely [3, 8]")), Some(8), "likely values");
}

/// The programs of `stages/attention.disc`, by their names.
fn attention_kernels(name: &str) -> Vec<(FusionKind, usize)> {
    let text = include_str!("stages/attention.disc");
    let program = text.split("// ").find(|part| part.starts_with(name)).expect("a program of this name");
    let program = compile(program.split_once('\n').expect("a name").1);
    assert!(program.notes.is_empty(), "{:?}", program.notes);
    let mut counts: Vec<_> = program.launches[0].1.iter().map(|(&kind, &count)| (kind, count)).collect();
    counts.sort_unstable();
    counts
}

#[test]
fn attention_is_one_kernel() {
    let shared = ["heads that share keys, one query", "heads that share keys\n"];
    for name in
        ["self attention", "cross attention", "heads first", "one query", "half precision", "causal"].iter().chain(&shared)
    {
        assert_eq!(attention_kernels(name), [(FusionKind::Attention, 1)], "{name}");
    }
    assert_eq!(attention_kernels("scores that others need"), [(FusionKind::Reduction, 1), (FusionKind::Matmul, 2)]);
}

/// The kernels of a program of `stages/attention.disc`, as text by name.
fn kernels_of(name: &str) -> Vec<(String, String)> {
    let text = include_str!("stages/attention.disc");
    let program = text.split("// ").find(|part| part.starts_with(name)).expect("a program of this name");
    let module = compile(program.split_once('\n').expect("a name").1).module;
    module.functions.iter().map(|function| (function.name.to_string(), function.to_string())).collect()
}

#[test]
fn a_few_queries_over_a_long_cache_have_a_version_of_their_own() {
    let reads_in_parts = |name| kernels_of(name).iter().any(|(kernel, _)| kernel.ends_with("_decode_split"));
    assert!(reads_in_parts("one query over a long cache"));
    assert!(reads_in_parts("heads that share keys, one query"));
    // It is never long enough, and never few enough.
    assert!(!reads_in_parts("long rows, causal"));
    // Heads that share keys are rows of the matmul: one load of the keys serves them all.
    let (_, keys) =
        kernels_of("heads that share keys, one query").into_iter().find(|(name, _)| name.ends_with(".dot_row")).expect("keys");
    assert!(keys.contains("outer2"), "{keys}");
}

#[test]
fn what_a_mask_hides_is_looked_for() {
    let any = |text: &str| {
        text.lines().any(|line| line.contains("reduce_lanes or") || (line.contains("reduce_lanes") && line.contains("= or")))
    };
    let looks = |name| kernels_of(name).iter().any(|(_, text)| any(text));
    for name in ["causal attention\n", "a window of the last keys", "a mask that is given, and causal"] {
        assert!(looks(name), "{name}");
    }
    for name in ["self attention", "cross attention", "long rows\n"] {
        assert!(!looks(name), "{name}");
    }
}

#[test]
fn every_form_of_product_has_a_kernel_of_its_own() {
    let text = include_str!("stages/contractions.disc");
    for program in text.split("// ").filter(|program| program.contains("dot_general") || program.contains("convolution")) {
        let (name, program) = program.split_once('\n').expect("a name and a program");
        // No kernel is made for a vector of one repeated number, which is a sum; features in the
        // last dimension are computed one by one.
        if program.contains("%v = constant") || name.contains("features last") {
            continue;
        }
        let program = compile(program);
        assert!(program.notes.is_empty(), "{name}: {:?}", program.notes);
    }
}

/// The programs of `tests/stages/fusion.disc`, each under the name in its first line.
fn fused_programs() -> Vec<(String, Program)> {
    let text = include_str!("stages/fusion.disc");
    let programs = text.split("// ").skip(1).map(|part| part.split_once('\n').expect("a name, then a program"));
    programs.map(|(name, program)| (name.to_owned(), compile(program))).collect()
}

#[test]
fn what_shares_a_space_is_one_kernel() {
    // Programs that are more than one kernel, and the reason.
    let several = [
        ("reductions over every kind of axes", 4), // one for each set of axes
        ("rows are not columns of a square", 2),   // a transpose reads other rows
        ("joints do not repeat costly work", 2),   // `e` is written once, then read twice
    ];
    for (name, program) in fused_programs() {
        let wanted = several.iter().find(|(other, _)| *other == name).map_or(1, |(_, count)| *count);
        assert_eq!(launches(&program), wanted, "{name}: {:?}\n{}", program.launches, program.module);
        assert!(program.notes.is_empty(), "{name}: {:?}", program.notes);
    }
}

#[test]
fn positions_are_sums_and_never_divided_along_a_row() {
    for (name, program) in fused_programs().into_iter().filter(|(name, _)| name == "group norm" || name == "heads of a row") {
        let kernel = program.module.functions.iter().find(|f| f.kind == FunctionKind::Kernel).expect("a kernel");
        let divides = |op: OpKind| matches!(op, OpKind::Divide | OpKind::Remainder);
        let vectors = kernel.walk(kernel.body).into_iter().filter(|&inst| divides(kernel.kind_of(inst)));
        let on_positions = vectors.filter(|&i| {
            kernel.ty(kernel.result(i)).to_string().starts_with("vector") && !kernel.ty(kernel.result(i)).dtype().is_float()
        });
        assert_eq!(on_positions.count(), 0, "{name}: {}", program.module);
    }
}

#[test]
fn a_bert_layer_has_three_kernels_besides_its_products() {
    let program = compile(include_str!("plans/bert.disc"));
    let counts = &program.launches[0].1;
    let outside: usize = counts
        .iter()
        .filter(|(kind, _)| !matches!(**kind, FusionKind::Matmul | FusionKind::Attention))
        .map(|(_, count)| count)
        .sum();
    // The start is one kernel: embeddings with their norm, and the mask beside them. Each of the
    // two layers has two norms, and one reordering of the heads of its three matmuls.
    assert_eq!(outside, 1 + 2 * 3, "{counts:?}\n{}", program.module);
    assert!(program.notes.is_empty(), "{:?}", program.notes);
}

#[test]
fn products_read_weights_as_they_are_stored() {
    let text = include_str!("stages/contractions.disc");
    let program =
        text.split("// ").find(|part| part.starts_with("weights stored in narrow types")).expect("a program of this name");
    let program = compile(program.split_once('\n').expect("a name").1);
    assert!(program.notes.is_empty(), "{:?}", program.notes);
    assert_eq!(program.launches[0].1.iter().collect::<Vec<_>>(), [(&FusionKind::Matmul, &2)]);
}

/// The text of all kernels.
fn kernels(program: &Program) -> String {
    let kernels = program.module.functions.iter().filter(|f| f.kind == FunctionKind::Kernel);
    kernels.map(ToString::to_string).collect()
}

/// Returns true if some access has an address for each lane.
fn gathers(text: &str) -> bool {
    text.lines().any(|line| (line.contains("= load ") || line.contains(" store ")) && line.contains("xi64>)"))
}

#[test]
fn inputs_and_parts_that_lie_across_the_loops_are_turned_in_registers() {
    for (shape, dims, turned) in [
        ("[A]x[B]x[C]", [0, 2, 1], "[A]x[C]x[B]"),
        ("[A]x[B]x[C]", [2, 0, 1], "[C]x[A]x[B]"),
        ("[A]x[B]x[C]", [2, 1, 0], "[C]x[B]x[A]"),
    ] {
        let program = compile(&format!(
            "func @main(%x: tensor<{shape}xf32>) -> tensor<{turned}xf32> {{
  %a = transpose %x, dims = {dims:?} : (tensor<{shape}xf32>) -> tensor<{turned}xf32>
  %b = add %a, %a : tensor<{turned}xf32>
  return %b : tensor<{turned}xf32>
}}"
        ));
        let text = kernels(&program);
        assert!(text.contains("transpose_lanes") && !gathers(&text), "{text}");
    }
    let parts = compile(
        "func @main(%x: tensor<[A]x[B+1]x[C]xf32>) -> tensor<[A]x[C]x[B]xf32> {
  %p = slice %x [0:A, 1:B+1, 0:C] : (tensor<[A]x[B+1]x[C]xf32>) -> tensor<[A]x[B]x[C]xf32>
  %t = transpose %p, dims = [0, 2, 1] : (tensor<[A]x[B]x[C]xf32>) -> tensor<[A]x[C]x[B]xf32>
  %w = transpose %x, dims = [0, 2, 1] : (tensor<[A]x[B+1]x[C]xf32>) -> tensor<[A]x[C]x[B+1]xf32>
  %q = slice %w [0:A, 0:C, 0:B] : (tensor<[A]x[C]x[B+1]xf32>) -> tensor<[A]x[C]x[B]xf32>
  %d = subtract %t, %q : tensor<[A]x[C]x[B]xf32>
  return %d : tensor<[A]x[C]x[B]xf32>
}",
    );
    let text = kernels(&parts);
    assert!(text.contains("transpose_lanes") && !gathers(&text), "parts on both sides of a transpose:\n{text}");
    let program = compile(
        "func @main(%x: tensor<[A]x[B]x[C]x64xf32>) -> tensor<[A]x[C]x[B]x64xf32> {
  %a = transpose %x, dims = [0, 2, 1, 3] : (tensor<[A]x[B]x[C]x64xf32>) -> tensor<[A]x[C]x[B]x64xf32>
  return %a : tensor<[A]x[C]x[B]x64xf32>
}",
    );
    let text = kernels(&program);
    assert!(!text.contains("transpose_lanes") && !gathers(&text), "blocks are copied as they are:\n{text}");
}

#[test]
fn a_view_by_other_sizes_divides_no_positions() {
    let program = compile(
        "func @main(%x: tensor<[A]x[B]xf32>, %y: tensor<[C]x[D]xf32>) -> (tensor<[B]x[A]xf32>, tensor<[B]x[A]xf32>) where A*B == C*D {
  %r = add %y, %y : tensor<[C]x[D]xf32>
  %v = reshape %r : (tensor<[C]x[D]xf32>) -> tensor<[A]x[B]xf32>
  %a = add %v, %x : tensor<[A]x[B]xf32>
  %t = transpose %a, dims = [1, 0] : (tensor<[A]x[B]xf32>) -> tensor<[B]x[A]xf32>
  %u = transpose %x, dims = [1, 0] : (tensor<[A]x[B]xf32>) -> tensor<[B]x[A]xf32>
  return %t, %u : (tensor<[B]x[A]xf32>, tensor<[B]x[A]xf32>)
}",
    );
    let text = kernels(&program);
    assert!(!text.lines().any(|line| line.contains("= remainder") && line.contains("vector")), "{text}");
}

#[test]
fn joined_operands_are_walked_one_by_one() {
    let program = compile(
        "func @main(%x: tensor<[B]x[S]xf32>, %y: tensor<[B]x[T]xf32>) -> tensor<[B]x[S+T]xf32> {
  %a = concatenate %x, %y, dim = 1 : (tensor<[B]x[S]xf32>, tensor<[B]x[T]xf32>) -> tensor<[B]x[S+T]xf32>
  %b = add %a, %a : tensor<[B]x[S+T]xf32>
  return %b : tensor<[B]x[S+T]xf32>
}",
    );
    assert!(!kernel_ops(&program.module).contains(&OpKind::Select), "no lane is in doubt:\n{}", program.module);
}

#[test]
fn what_a_row_has_once_is_computed_in_front_of_its_loops() {
    let program = compile(
        "func @main(%x: tensor<[B]x[S]xf32>, %w: tensor<[B]xf32>) -> tensor<[B]x[S]xf32> where S >= 2000 {
  %z = constant dense<0.0> : tensor<f32>
  %s = reduce %x, %z, dims = [1] : (tensor<[B]x[S]xf32>, tensor<f32>) -> tensor<[B]xf32> applies add
  %q = divide %s, %w : tensor<[B]xf32>
  %b = broadcast_in_dim %q, dims = [0] : (tensor<[B]xf32>) -> tensor<[B]x[S]xf32>
  %o = multiply %x, %b : tensor<[B]x[S]xf32>
  return %o : tensor<[B]x[S]xf32>
}",
    );
    let text = kernels(&program);
    let quotients = text.lines().filter(|line| line.contains("= divide ") && line.contains("f32"));
    let depths: Vec<usize> = quotients.map(|line| line.len() - line.trim_start().len()).collect();
    assert_eq!(depths, [6, 4, 4], "in the loops over rows of whole rows and of parts, not in one along a row:\n{text}");
}

#[test]
fn sizes_whose_halves_are_one_size_are_walked_together() {
    let count = |facts: &str| {
        let program = compile(&format!(
            "func @main(%x: tensor<[B]x[D]xf32>, %y: tensor<[B]x[E]xf32>, %w: tensor<[B]x[H]xf32>) -> (tensor<[B]x[D]xf32>, tensor<[B]x[E]xf32>) {facts} {{
  %z = constant dense<0.0> : tensor<f32>
  %s = reduce %w, %z, dims = [1] : (tensor<[B]x[H]xf32>, tensor<f32>) -> tensor<[B]xf32> applies add
  %a = broadcast_in_dim %s, dims = [0] : (tensor<[B]xf32>) -> tensor<[B]x[D]xf32>
  %b = broadcast_in_dim %s, dims = [0] : (tensor<[B]xf32>) -> tensor<[B]x[E]xf32>
  %p = multiply %x, %a : tensor<[B]x[D]xf32>
  %q = multiply %y, %b : tensor<[B]x[E]xf32>
  return %p, %q : (tensor<[B]x[D]xf32>, tensor<[B]x[E]xf32>)
}}"
        ));
        program.launches.iter().flat_map(|(_, counts)| counts.values()).sum::<usize>()
    };
    let halves = "where H == (D+1)/2, H == D-(D+1)/2, H == (E+1)/2, H == E-(E+1)/2";
    assert!(count(halves) < count(""), "{} kernels, {} where nothing is known", count(halves), count(""));
}

#[test]
fn what_a_guard_says_is_a_fact_in_its_version() {
    let program = compile(
        "func @main(%x: tensor<[B]x[S]xf32>) -> tensor<[B]xf32> {
  %z = constant dense<0.0> : tensor<f32>
  %s = reduce %x, %z, dims = [1] : (tensor<[B]x[S]xf32>, tensor<f32>) -> tensor<[B]xf32> applies add
  return %s : tensor<[B]xf32>
}",
    );
    let text = kernels(&program);
    let kernel = |name: &str| text.split("kernel @").find(|kernel| kernel.starts_with(&format!("{name}("))).expect(name);
    // Sums of long rows are added to a total after this many elements.
    assert!(kernel("k0_reduction").contains("16384") && !kernel("k0_reduction_multirow").contains("16384"), "{text}");
}

#[test]
fn the_label_of_a_row_is_picked_from_that_row() {
    let program = compile(
        "func @main(%x: tensor<[B]x[S]xf32>, %y: tensor<[B]xi64>) -> tensor<[B]x1xf32> {
  %z = constant dense<0.0> : tensor<f32>
  %s = reduce %x, %z, dims = [1] : (tensor<[B]x[S]xf32>, tensor<f32>) -> tensor<[B]xf32> applies add
  %b = broadcast_in_dim %s, dims = [0] : (tensor<[B]xf32>) -> tensor<[B]x[S]xf32>
  %d = subtract %x, %b : tensor<[B]x[S]xf32>
  %i = iota dim = 0 : tensor<[B]x1xi64>
  %j = reshape %i : (tensor<[B]x1xi64>) -> tensor<[B]x1x1xi64>
  %k = reshape %y : (tensor<[B]xi64>) -> tensor<[B]x1x1xi64>
  %c = concatenate %j, %k, dim = 2 : (tensor<[B]x1x1xi64>, tensor<[B]x1x1xi64>) -> tensor<[B]x1x2xi64>
  %g = gather %d, %c, offset_dims = [], collapsed_slice_dims = [0, 1], start_index_map = [0, 1], index_vector_dim = 2, slice_sizes = [1, 1], bounds = check : (tensor<[B]x[S]xf32>, tensor<[B]x1x2xi64>) -> tensor<[B]x1xf32>
  return %g : tensor<[B]x1xf32>
}",
    );
    assert_eq!(launches(&program), 1, "{}", program.module);
    let row = program.module.functions.iter().find(|f| &*f.name == "k0_reduction").expect("rows one by one");
    let asserts = row.walk(row.body).into_iter().filter(|&inst| row.kind_of(inst) == OpKind::Assert).count();
    assert_eq!(asserts, 1, "the number of the row needs no check:\n{row}");
    // Each version sums in its loops only: no code adds element by element again where the label is
    // picked.
    assert!(!kernels(&program).contains("(f32, f32) -> f32 do"), "{}", program.module);
}

#[test]
fn the_factor_of_mish_is_a_quotient() {
    let program = compile(
        "func @main(%x: tensor<[B]xf32>) -> tensor<[B]xf32> {
  %e = exponential %x : tensor<[B]xf32>
  %l = log_plus_one %e : tensor<[B]xf32>
  %t = tanh %l : tensor<[B]xf32>
  return %t : tensor<[B]xf32>
}",
    );
    let ops = kernel_ops(&program.module);
    assert!(
        ops.iter().filter(|&&kind| kind == OpKind::Fma).count() < 2 * 30,
        "each of two kernels has one exponential, no logarithm:\n{}",
        program.module
    );
}

fn sorted(facts: &str, direction: &str) -> Program {
    compile(&format!(
        "func @main(%x: tensor<[B]x[S]xi32>, %y: tensor<[B]x[S]xi64>) -> (tensor<[B]x[S]xi32>, tensor<[B]x[S]xi64>) {facts} {{
  %a, %p = sort %x, %y, dimension = 1, is_stable = true : (tensor<[B]x[S]xi32>, tensor<[B]x[S]xi64>) -> (tensor<[B]x[S]xi32>, tensor<[B]x[S]xi64>) comparator(%l: tensor<i32>, %r: tensor<i32>, %i: tensor<i64>, %j: tensor<i64>) {{
    %c = compare {direction}, %l, %r : (tensor<i32>, tensor<i32>) -> tensor<i1>
    return %c : tensor<i1>
  }}
  return %a, %p : tensor<[B]x[S]xi32>, tensor<[B]x[S]xi64>
}}"
    ))
}

/// The types of the task memory that kernels ask for.
fn task_memory(program: &Program) -> Vec<String> {
    let kernels = program.module.functions.iter().filter(|f| f.kind == FunctionKind::Kernel);
    let scratch = kernels.flat_map(|f| {
        let found = f.walk(f.body).into_iter().filter(|&inst| f.kind_of(inst) == OpKind::Scratch);
        found.map(|inst| f.ty(f.result(inst)).to_string()).collect::<Vec<_>>()
    });
    scratch.collect()
}

#[test]
fn a_plain_order_sorts_keys_by_their_digits() {
    let counts = |program: &Program| task_memory(program).iter().filter(|ty| ty.contains("1024xi32")).count();
    assert_eq!(counts(&sorted("", "GT")), 1, "the counts of four digits");
    assert_eq!(counts(&sorted("", "EQ")), 0, "a comparator that is no order is asked");
}

#[test]
fn a_bound_of_a_line_leaves_one_way_to_sort_it() {
    let kernels = |program: &Program| program.module.functions.iter().filter(|f| f.kind == FunctionKind::Kernel).count();
    assert_eq!(kernels(&sorted("", "LT")), 2, "positions of a very long line need more bits");
    assert_eq!(kernels(&sorted("where S <= 100000", "LT")), 1);
}

/// Rows of a table, and values made of them, added to rows of another one.
fn scattered(between: &str, made: &str) -> Program {
    compile(&format!(
        "func @main(%x: tensor<[N]x[W]xf32>, %t: tensor<[M]x[W]xf32>, %r: tensor<[K]x1xi64>, %i: tensor<[K]x1xi64>) -> tensor<[N]x[W]xf32> {{
  %g = gather %t, %r, offset_dims = [1], collapsed_slice_dims = [0], start_index_map = [0], index_vector_dim = 1, slice_sizes = [1, W], bounds = check : (tensor<[M]x[W]xf32>, tensor<[K]x1xi64>) -> tensor<[K]x[W]xf32>
  {between}
  %y = scatter %x, %i, {made}, update_window_dims = [1], inserted_window_dims = [0], scatter_dims_to_operand_dims = [0], index_vector_dim = 1 : (tensor<[N]x[W]xf32>, tensor<[K]x1xi64>, tensor<[K]x[W]xf32>) -> tensor<[N]x[W]xf32> applies add
  return %y : tensor<[N]x[W]xf32>
}}"
    ))
}

#[test]
fn rows_that_are_gathered_and_added_are_read_where_they_are_added() {
    assert_eq!(launches(&scattered("%m = multiply %g, %g : tensor<[K]x[W]xf32>", "%m")), 3, "the squares, a copy, the sums");
    assert_eq!(launches(&scattered("", "%g")), 2, "a copy, the sums");
}

/// The number of kernels of a program that combines `%e`, which `front` computes from `%x`, and
/// computes `behind` from the sums `%a`.
fn around_a_scan(front: &str, behind: &str) -> usize {
    let program = compile(&format!(
        "func @main(%x: tensor<[B]x[S]x8xf32>) -> tensor<[B]x[S]x8xf32> {{
  %z = constant dense<0.0> : tensor<f32>
{front}
  %a = cumulative %e, %z, dim = 1 : (tensor<[B]x[S]x8xf32>, tensor<f32>) -> tensor<[B]x[S]x8xf32> applies add
{behind}
  return %r : tensor<[B]x[S]x8xf32>
}}"
    ));
    launches(&program)
}

#[test]
fn a_scan_takes_in_what_feeds_it_and_what_follows() {
    let exponential = "  %e = exponential %x : tensor<[B]x[S]x8xf32>";
    let mean = "  %i = iota dim = 1 : tensor<[B]x[S]x8xf32>
  %one = constant dense<1.0> : tensor<[B]x[S]x8xf32>
  %n = add %i, %one : tensor<[B]x[S]x8xf32>
  %r = divide %a, %n : tensor<[B]x[S]x8xf32>";
    assert_eq!(around_a_scan(exponential, mean), 1);
    // The input of the scan is read after it as well.
    assert_eq!(around_a_scan(exponential, "  %r = divide %e, %a : tensor<[B]x[S]x8xf32>"), 1);
    // The sums are read at other positions, or combined once more.
    assert_eq!(around_a_scan(exponential, "  %r = reverse %a, dims = [1] : tensor<[B]x[S]x8xf32>"), 2);
    let again =
        "  %r = cumulative %a, %z, dim = 2 : (tensor<[B]x[S]x8xf32>, tensor<f32>) -> tensor<[B]x[S]x8xf32> applies maximum";
    assert_eq!(around_a_scan(exponential, again), 2);
    // Vectors are contiguous in memory.
    let turned = "  %t = reshape %x : (tensor<[B]x[S]x8xf32>) -> tensor<[B]x8x[S]xf32>
  %e = transpose %t, dims = [0, 2, 1] : (tensor<[B]x8x[S]xf32>) -> tensor<[B]x[S]x8xf32>";
    assert_eq!(around_a_scan(turned, "  %r = negate %a : tensor<[B]x[S]x8xf32>"), 2);
}

/// The routines that have an epilogue, of a matmul with this epilogue.
fn finishing(epilogue: &str) -> Vec<String> {
    let program = compile(&format!(
        "weight @w : tensor<64x32xf32>
func @main(%x: tensor<[B]x32xf32>) -> tensor<[B]x64xf32> {{
  %w = weight @w : tensor<64x32xf32>
  %z = dot_general %x, %w, contracting_dims = [1] x [1] : (tensor<[B]x32xf32>, tensor<64x32xf32>) -> tensor<[B]x64xf32>
{epilogue}
  return %r : tensor<[B]x64xf32>
}}"
    ));
    assert_eq!(launches(&program), 1, "{}", program.module);
    let names = program.module.functions.iter().map(|f| f.name.to_string());
    names.filter(|name| name.ends_with(".epilogue")).collect()
}

#[test]
fn a_long_program_behind_a_product_is_written_once() {
    let sine = "  %s = sine %z : tensor<[B]x64xf32>
  %c = cosine %z : tensor<[B]x64xf32>
  %r = multiply %s, %c : tensor<[B]x64xf32>";
    assert_eq!(finishing(sine), ["k0_matmul.0.task0.epilogue"]);
    let gelu = "  %e = erf %z : tensor<[B]x64xf32>
  %r = multiply %e, %z : tensor<[B]x64xf32>";
    assert_eq!(finishing(gelu), <[&str; 0]>::default());
}

/// The number of prefetches in the micro-kernel of twelve rows, of a matmul with sums of this many
/// products and this epilogue.
fn fetched(sums: i64, epilogue: &str) -> usize {
    let (left, right) = (format!("tensor<256x{sums}xf32>"), format!("tensor<{sums}x[N]xf32>"));
    let program = compile(&format!(
        "func @main(%w: {left}, %x: {right}, %y: tensor<256x[N]xf32>, %b: tensor<256xf32>) -> tensor<256x[N]xf32> {{
  %z = dot_general %w, %x, contracting_dims = [1] x [0] : ({left}, {right}) -> tensor<256x[N]xf32>
{epilogue}
  return %r : tensor<256x[N]xf32>
}}"
    ));
    assert_eq!(launches(&program), 1, "{}", program.module);
    let block = program.module.functions.iter().find(|f| f.name.ends_with(".task12")).expect("whole panels");
    block.walk(block.body).into_iter().filter(|&inst| block.kind_of(inst) == OpKind::Prefetch).count()
}

#[test]
fn rows_of_a_block_are_fetched_while_sums_are_computed() {
    // Of the left operand, one line is fetched with each step; of a residual, the two lines of a
    // panel of 32 columns and the one in which they end if rows begin anywhere.
    let residual = "  %r = add %z, %y : tensor<256x[N]xf32>";
    assert_eq!(fetched(512, residual), 1 + 3);
    let spread = "  %s = broadcast_in_dim %b, dims = [0] : (tensor<256xf32>) -> tensor<256x[N]xf32>
  %r = add %z, %s : tensor<256x[N]xf32>";
    assert_eq!(fetched(512, spread), 1, "an element for a row is no row of its own");
    // Short sums leave little time for results: their destination is fetched, too.
    assert_eq!(fetched(64, residual), 1 + 3 + 3);
    assert_eq!(fetched(64, spread), 1 + 3);
}
