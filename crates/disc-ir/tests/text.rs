//! Tests the text form from outside: parsing, printing, and refusals.
use disc_ir::text::{PrintOptions, parse, print};

/// Prints parsed text, which must read back to itself.
fn printed(text: &str) -> String {
    let module = parse(text).unwrap_or_else(|errors| panic!("{text}\n{}", errors[0]));
    let once = print(&module, PrintOptions::default());
    let again = parse(&once).unwrap_or_else(|errors| panic!("{once}\n{}", errors[0]));
    assert_eq!(again.to_string(), once);
    once
}

/// The body of a function of `parameters` with these lines, printed.
fn printed_body(parameters: &str, lines: &str) -> String {
    let text = printed(&format!("func @f({parameters}) {{\n{lines}\n  return\n}}"));
    let body = text.split_once("{\n").unwrap().1.strip_suffix("  return\n}\n").unwrap();
    body.trim_end().to_owned()
}

fn keeps(parameters: &str, lines: &str) {
    assert_eq!(printed_body(parameters, lines), lines.trim_matches('\n'), "in {parameters}");
}

#[test]
fn the_page_of_the_documentation_reads_back() {
    let page = include_str!("../../../docs/ir.md");
    let example = page.split("```\n").nth(1).expect("the page starts with an example");
    let code: String = example.lines().filter(|line| !line.starts_with("//")).map(|line| format!("{line}\n")).collect();
    assert_eq!(printed(example), code);
}

#[test]
fn weights_can_have_data() {
    let text = "weight @bias : tensor<768xf32>\nweight @shape = dense<[1, 2]> : tensor<2xi64>\n";
    assert_eq!(printed(text), text);
}

#[test]
fn pretty_forms_are_kept() {
    keeps("", "  %c = constant dense<0.0> : tensor<f32>");
    keeps("%a: tensor<4xf32>", "  %p = compare LT, %a, %a : (tensor<4xf32>, tensor<4xf32>) -> tensor<4xi1>");
    keeps("", "  %n = dim [B*S] : tensor<i64>");
    keeps(
        "%x: tensor<[B]x8xf32>",
        "  %s = slice %x [0:B, 1:8:2] : (tensor<[B]x8xf32>) -> tensor<[B]x4xf32>".replace("0:B,", "0:B:1,").as_str(),
    );
    keeps("%x: tensor<[B]x8xf32>", "  %s = slice %x [0:B, 1:8] : (tensor<[B]x8xf32>) -> tensor<[B]x7xf32>");
    keeps("%x: tensor<4xf32>", "  %y = convert %x : (tensor<4xf32>) -> tensor<4xf16>");
    keeps("", "  %i = iota dim = 0 : tensor<[N]xi64>");
    keeps("%a: tensor<4xf32>", "  %r = call @\"odd name\"(%a) : tensor<4xf32>");
    keeps("", "  call @f() : () -> ()");
    keeps("%x: tensor<4xf32>", "  negate %x : (tensor<4xf32>) -> ()");
    keeps(
        "%b: buffer<[B]xf32>, %i: i64, %m: vector<8xi1>",
        "  %v = load %b[%i], %m : (buffer<[B]xf32>, i64, vector<8xi1>) -> vector<8xf32>",
    );
    keeps("%b: buffer<[B]xf32, task>, %i: i64, %v: f32", "  store %b[%i], %v : (buffer<[B]xf32, task>, i64, f32)");
}

#[test]
fn regions_are_kept() {
    keeps(
        "%p: tensor<i1>, %a: tensor<f32>",
        "  %r = if %p : (tensor<i1>) -> tensor<f32> then {\n    return %a : tensor<f32>\n  } else {\n    %t = negate %a : tensor<f32>\n    return %t : tensor<f32>\n  }",
    );
    keeps(
        "%lo: i64, %x: f32",
        "  %r = for %lo, %lo, %lo, %x : (i64, i64, i64, f32) -> f32 do(%i: i64, %acc: f32) {\n    return %acc : f32\n  }",
    );
}

#[test]
fn literals_keep_their_bits() {
    for (dtype, literal) in [
        ("tensor<2x2xf32>", "dense<[[1.0, -0.0], [0.1, 3.4028235e38]]>"),
        ("tensor<4xf64>", "dense<[inf, -inf, nan, 5e-324]>"),
        ("tensor<2xf32>", "dense<[nan, 0x7F800001]>"),
        ("tensor<3xf16>", "dense<[65504.0, 0xFE00, 1.0]>"),
        ("tensor<3xi1>", "dense<[true, false, true]>"),
        ("tensor<2xu64>", "dense<[18446744073709551615, 0]>"),
        ("tensor<2xi8>", "dense<[-128, 127]>"),
        ("tensor<0xf32>", "dense<>"),
        ("tensor<3x0xf32>", "dense<>"),
        ("tensor<1xf32>", "dense<[2.0]>"),
        ("tensor<1xf32>", "dense<2.0>"),
        ("vector<8xf32>", "dense<2.0>"),
    ] {
        keeps("", &format!("  %c = constant {literal} : {dtype}"));
    }
    let bytes = "01".repeat(80);
    keeps("", &format!("  %c = constant dense<\"0x{bytes}\"> : tensor<80xi8>"));
}

#[test]
fn names_are_made_unique_in_their_scope() {
    let text = printed(
        "func @f(%p: tensor<i1>, %7: tensor<f32>) { %a = negate %7 : tensor<f32> %2 = if %p : (tensor<i1>) -> tensor<f32> then { %b = abs %a : tensor<f32> return %b : tensor<f32> } else { %b = abs %a : tensor<f32> return %b : tensor<f32> } %b = abs %2 : tensor<f32> return }",
    );
    assert!(text.contains("%0: tensor<f32>"), "{text}");
    assert_eq!(text.matches("%b = abs").count(), 3, "{text}");
}

#[test]
fn stablehlo_spellings_are_read() {
    let text = "\
#loc0 = loc(\"x.py\":1:2)
module @jit_f attributes {mhlo.num_partitions = 1 : i32} {
  func.func public @main(%arg0: tensor<4xf32> {jax.arg_info = \"x\"} loc(\"x\"), %arg1: tensor<?xui8>) -> (tensor<4xf32> {jax.result_info = \"\"}) {
    %cst = stablehlo.constant dense<1.0> : tensor<f32>
    %0 = \"stablehlo.broadcast_in_dim\"(%cst) <{broadcast_dimensions = array<i64>}> : (tensor<f32>) -> tensor<4xf32> loc(#loc0)
    %1 = \"stablehlo.transpose\"(%0) {permutation = dense<0> : tensor<1xi64>} : (tensor<4xf32>) -> tensor<4xf32>
    %2 = stablehlo.compare  LT, %1, %arg0,  FLOAT : (tensor<4xf32>, tensor<4xf32>) -> tensor<4xi1>
    %3 = stablehlo.select %2, %1, %arg0 : tensor<4xi1>, tensor<4xf32>
    %4 = stablehlo.add %arg1, %arg1 : tensor<?xui8>
    %5 = \"stablehlo.if\"(%2) ({ stablehlo.return %3 : tensor<4xf32> }, { \"stablehlo.return\"(%1) : (tensor<4xf32>) -> () }) : (tensor<4xi1>) -> tensor<4xf32>
    func.return %5 : tensor<4xf32>
  }
}
";
    let found = printed(text);
    assert!(
        found.contains("%4 = add %arg1, %arg1 : tensor<[u0]xu8>") || found.contains("add %arg1, %arg1 : tensor<[u0]xu8>"),
        "{found}"
    );
    assert!(found.contains("broadcast_in_dim %cst, dims = [] :"), "{found}");
}

/// Returns the first error of a text, and its position.
fn error(text: &str) -> String {
    let found = parse(text).expect_err(text).remove(0);
    let at = found.span.expect("errors have places");
    let covered = &text[at.start as usize..(at.end as usize).min(text.len())];
    format!("{} at `{covered}`: {}{}", found.code, found.message, found.help.map(|h| format!("; {h}")).unwrap_or_default())
}

#[test]
fn errors_say_what_was_expected_and_where() {
    let body = |lines: &str| error(&format!("func @f(%x: tensor<[B]x4xf32>) {{\n{lines}\n}}"));
    assert_eq!(body("%y = transpsoe %x"), "E0102 at `transpsoe`: there is no op `transpsoe`; did you mean `transpose`?");
    assert_eq!(body("%y = negate %z"), "E0103 at `%z`: `%z` is not defined; did you mean `%x`?");
    assert_eq!(body("%x = negate %x : tensor<[B]x4xf32>"), "E0104 at `%x`: `%x` is defined twice");
    assert_eq!(
        body("%y = negate %x : tensor<[C]x4xf32>"),
        "E0204 at `%x`: the operand has type tensor<[B]x4xf32>, the signature says tensor<[C]x4xf32>"
    );
    assert_eq!(body("%y = negate %x : tensor<4xf33>"), "E0102 at `f33`: there is no element type `f33`; did you mean `f32`?");
    assert_eq!(
        body("%y = transpose %x, dim = [1] : tensor<4xf32>"),
        "E0102 at `dim`: there is no attribute `dim`; did you mean `dims`?"
    );
    assert_eq!(body("%y = transpose %x, dims = 1"), "E0101 at `1`: expected `[` before a list, found `1`");
    assert_eq!(body("%y, %z = negate %x"), "E0201 at `negate %x`: 2 results are named, the op has 1");
    assert_eq!(body("%c = constant dense<[1, 2.5]> : tensor<2xi32>"), "E0101 at `2.5`: `2.5` is no value of type i32");
    assert_eq!(
        body("%c = constant dense<[[1, 2], [3]]> : tensor<2x2xi32>"),
        "E0101 at `]`: a list of 1 entries; those before have 2"
    );
    assert_eq!(
        error("func @f(%x: tensor<[B+]xf32>) { return }"),
        "E0101 at `]`: expected a dimension (a number, a name, `min`, `max` or `(`), found `]`"
    );
    assert_eq!(error("func @f() { return }\nfunc @f() { return }"), "E0104 at `@f`: there are two functions of the name @f");
    assert_eq!(
        error("funk @f() { return }"),
        "E0101 at `funk`: expected `func`, `kernel`, `routine`, `host` or `weight`, found `funk`"
    );
}

#[test]
fn each_function_gives_its_error() {
    let text = "func @a() {\n  nope\n}\nfunc @b() {\n  return\n}\nfunc @c() {\n  nope\n}\n";
    let errors = parse(text).unwrap_err();
    assert_eq!(errors.iter().map(|e| e.span.unwrap().start).collect::<Vec<_>>(), [14, 58]);
}

#[test]
fn hostile_texts_are_refused_soon() {
    let nested = format!("func @f() {{ {}", "if then { ".repeat(100_000));
    let brackets = format!("func @f() {{ %c = constant dense<{}> : tensor<4xf32> }}", "[".repeat(1_000_000));
    let dims = format!("func @f(%x: tensor<[{}B]xf32>) {{ return }}", "(".repeat(1_000_000));
    let sizes = "func @f() { %c = constant dense<0.0> : tensor<99999999999999x99999999999999xf32> return }";
    let rank = format!("func @f(%x: tensor<{}f32>) {{ return }}", "1x".repeat(1_000_000));
    let number = format!("func @f(%x: tensor<{}xf32>) {{ return }}", "9".repeat(1_000_000));
    let names = format!("func @f(%{}: f32) {{ return }}", "x".repeat(1_000_000));
    for text in [&nested, &brackets, &dims, sizes, &rank, &number, &names] {
        let errors = parse(text).expect_err("a limit");
        assert!(matches!(errors[0].code, disc_ir::Code::E0105 | disc_ir::Code::E0101), "{}", errors[0]);
        assert!(errors[0].message.len() < 200);
    }
    // A splat costs one element, whatever its type.
    parse("func @f() { %c = constant dense<0.0> : tensor<99999999999999xf32> return }").unwrap();
}

#[test]
fn short_forms_stand_for_their_regions() {
    keeps(
        "%x: tensor<[B]x8xf32>, %z: tensor<f32>",
        "  %s = reduce %x, %z, dims = [1] : (tensor<[B]x8xf32>, tensor<f32>) -> tensor<[B]xf32> applies add",
    );
    let long = printed_body(
        "%x: tensor<8xf32>, %z: tensor<f32>",
        "%s = reduce %x, %z, dims = [0] : (tensor<8xf32>, tensor<f32>) -> tensor<f32> body(%a: tensor<f32>, %b: tensor<f32>) { %c = subtract %b, %a : tensor<f32> return %c : tensor<f32> }",
    );
    assert!(long.contains("body(%a: tensor<f32>, %b: tensor<f32>) {"), "{long}");
    keeps(
        "%a: tensor<[B]x2x3xf32>, %b: tensor<[B]x3x4xf32>",
        "  %d = dot_general %a, %b, batching_dims = [0] x [0], contracting_dims = [2] x [1] : (tensor<[B]x2x3xf32>, tensor<[B]x3x4xf32>) -> tensor<[B]x2x4xf32>",
    );
    keeps("%x: tensor<8xf32>", "  %s = sort %x, dimension = 0 : tensor<8xf32> applies compare LT");
}
