//! Checks how matmuls read their operands, and which of them share a launch.
use super::{compile, compile_for, lowered::Lowered, task_memory};
use disc_codegen::host::Program;
use disc_ir::{Attr, FunctionKind, FusionKind, OpKind};
use disc_passes::analysis::query::Query;

/// Query, key and value: three matmuls of the same rows with weights in panels, each with a bias;
/// `key` holds the ops on the second.
fn three_products(key: &str, key_type: &str) -> String {
    let columns = [("q", 64), ("k", 64), ("v", 40)];
    let weights = columns.map(|(name, n)| format!("weight @{name} : tensor<2x32x32xf32>\nweight @{name}b : tensor<{n}xf32>\n"));
    let products = columns.map(|(name, n)| {
        format!(
            "  %{name}w = weight @{name} : tensor<2x32x32xf32>
  %{name}b = weight @{name}b : tensor<{n}xf32>
  %{name}y = dot_general %x, %{name}w, lhs_contracting_dims = [2], rhs_contracting_dims = [1], packed_columns = [{n}] : (tensor<[B]x[S]x32xf32>, tensor<2x32x32xf32>) -> tensor<[B]x[S]x{n}xf32>
  %{name}c = broadcast_in_dim %{name}b, dims = [2] : (tensor<{n}xf32>) -> tensor<[B]x[S]x{n}xf32>
  %{name}z = add %{name}y, %{name}c : tensor<[B]x[S]x{n}xf32>\n"
        )
    });
    format!(
        "{}func @main(%x: tensor<[B]x[S]x32xf32>) -> (tensor<[B]x[S]x64xf32>, {key_type}, tensor<[B]x[S]x40xf32>) {{\n{}{key}  return %qz, %key, %vz : (tensor<[B]x[S]x64xf32>, {key_type}, tensor<[B]x[S]x40xf32>)\n}}",
        weights.concat(),
        products.concat()
    )
}

#[test]
fn products_of_narrow_elements_take_words_where_the_target_has_them() {
    let text = |dtype: &str, to: &str| {
        let (x, w, y) = (format!("tensor<[M]x[K]x{dtype}>"), format!("tensor<[N]x[K]x{dtype}>"), format!("tensor<[M]x[N]x{to}>"));
        let attrs = format!("lhs_contracting_dims = [1], rhs_contracting_dims = [1], dtype = {to}");
        format!(
            "func @main(%x: {x}, %w: {w}) -> {y} {{ %y = dot_general %x, %w, {attrs} : ({x}, {w}) -> {y}\n return %y : {y} }}"
        )
    };
    let elements = |target: &str, dtype: &str, to: &str| {
        let module = disc_ir::text::parse(&text(dtype, to)).expect("a program");
        let program = Lowered::of(&module, &target.parse().expect("a target")).program.module.to_string();
        ["i8", "i16", "bf16"].into_iter().find(|name| program.contains(&format!("elements = {name}")))
    };
    for level in ["x86-64-v2", "x86-64-v3", "x86-64-v4"] {
        assert_eq!(elements(level, "i8", "i32"), Some("i16"), "{level}");
        assert_eq!(elements(level, "bf16", "f32"), None, "{level}");
    }
    let more = "x86-64-v4+avx512bf16+avx512vnni";
    assert_eq!(elements(more, "i8", "i32"), Some("i8"));
    assert_eq!(elements("x86-64-v3+avxvnni", "i8", "i32"), Some("i8"));
    assert_eq!(elements(more, "u8", "i32"), Some("i16"), "there is no instruction for two unsigned operands");
    assert_eq!(elements(more, "bf16", "bf16"), Some("bf16"));
    assert_eq!(elements(more, "i8", "i64"), None, "sums of another type");
    assert_eq!(elements("aarch64-v8", "i8", "i32"), None);
}

/// A matmul with weights in two panels, and sums of this many products.
fn by_panels(target: &str, depth: i64) -> Program {
    let (x, w, y) = (format!("tensor<[M]x{depth}xf32>"), format!("tensor<2x{depth}x32xf32>"), "tensor<[M]x64xf32>");
    let text = format!(
        "weight @w : {w}
func @main(%x: {x}) -> {y} {{
  %w = weight @w : {w}
  %y = dot_general %x, %w, lhs_contracting_dims = [1], rhs_contracting_dims = [1], packed_columns = [64] : ({x}, {w}) -> {y}
  return %y : {y}
}}"
    );
    compile_for(target, &text)
}

#[test]
fn rows_that_are_pages_apart_are_read_in_blocks_that_the_cache_holds() {
    let of = |target: &str, depth: i64| {
        let program = by_panels(target, depth);
        let is_block = |name: &str| name.starts_with("k0_matmul.0.rows");
        let blocks = program.module.functions.iter().filter(|f| is_block(&f.name)).count();
        (blocks, task_memory(&program).len())
    };
    assert_eq!(of("x86-64-v4", 1040), (12, 0));
    assert_eq!(of("x86-64-v4", 1024), (7, 0), "rows take turns in one set of the first-level cache");
    assert_eq!(of("x86-64-v4", 8192), (12, 1), "so do these, and are packed: their panels do not stay in the second-level cache");
    assert_eq!(of("x86-64-v4+avxvnni", 1040), (12, 0));
    assert_eq!(of("x86-64-v4+avxvnni", 1024), (11, 0), "its sets have twelve lines");
}

#[test]
fn the_only_block_of_rows_fetches_its_own_panel_on_wide_cores() {
    // The prefetches to the first-level cache, and to the second.
    let of = |target: &str, rows: u32| {
        let program = by_panels(target, 1040);
        let name = format!("k0_matmul.0.rows{rows}");
        let block = program.module.functions.iter().find(|f| *f.name == *name).expect("a block of this height");
        let fetches = block.walk(block.body).into_iter().filter(|&inst| block.kind_of(inst) == OpKind::Prefetch);
        let places: Vec<_> = fetches.filter_map(|inst| block.attr(inst, "locality").cloned()).collect();
        [3, 2].map(|locality| places.iter().filter(|&place| *place == Attr::Int(locality)).count())
    };
    // The lines of the next panel are a loop of one, those of a row of results are three: it begins
    // anywhere in the first.
    assert_eq!(of("x86-64-v4", 8), [0, 1 + 3]);
    assert_eq!(
        of("x86-64-v4+avxvnni", 8),
        [2, 1 + 2 * 3],
        "two lines of a panel for each step, where there is no other block: a loop of its own"
    );
    assert_eq!(of("x86-64-v4+avxvnni", 12), [0, 1 + 3], "a tall one has time to fetch the next panel");
    assert_eq!(of("x86-64-v4+avxvnni", 4), [0, 0], "few rows leave that to the hardware");
}

#[test]
fn products_of_the_same_rows_are_one_launch() {
    let routines = |program: &Program| program.module.functions.iter().filter(|f| f.kind == FunctionKind::Routine).count();
    let ty = "tensor<[B]x[S]x64xf32>";
    let one = compile(&three_products(&format!("  %key = tanh %kz : {ty}\n"), ty));
    assert_eq!((one.launches[0].1[&FusionKind::Matmul], &one.notes), (1, &Vec::new()));
    assert_eq!(routines(&one), 36, "each product has another epilogue or another number of columns");
    let same = compile(&three_products("", ty).replace("%key", "%kz"));
    assert_eq!((same.launches[0].1[&FusionKind::Matmul], routines(&same)), (1, 24), "query and key share their micro-kernels");
    let transpose = format!("  %key = transpose %kz, dims = [1, 0, 2] : ({ty}) -> tensor<[S]x[B]x64xf32>\n");
    let apart = compile(&three_products(&transpose, "tensor<[S]x[B]x64xf32>"));
    assert_eq!(apart.launches[0].1[&FusionKind::Matmul], 2, "rows that are written in another order are walked in another way");
}
