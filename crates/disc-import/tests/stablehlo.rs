//! StableHLO text as other tools write it.
use disc_import::stablehlo::{module, read};
use disc_ir::Code;

const JAX: &str = r#"#loc1 = loc("x['a']")
module @jit_f attributes {mhlo.num_partitions = 1 : i32, mhlo.num_replicas = 1 : i32} {
  func.func private @double(%arg0: tensor<?x4xf32>) -> tensor<?x4xf32> {
    %0 = stablehlo.add %arg0, %arg0 : tensor<?x4xf32>
    return %0 : tensor<?x4xf32>
  }
  func.func public @main(%arg0: tensor<?x4xf32> {jax.arg_info = "x['a']"} loc("x['a']"), %arg1: tensor<4xf32> {jax.arg_info = "b:0"} loc("b:0")) -> (tensor<?x4xf32> {jax.result_info = "result[0]"}) {
    %0 = stablehlo.tanh %arg0 : tensor<?x4xf32> loc("model.py":7:2)
    return %0 : tensor<?x4xf32>
  }
}
"#;

#[test]
fn the_entry_is_main_and_has_the_names_of_the_tool() {
    let imported = read(JAX, None).unwrap();
    assert_eq!(imported.signature.entry, "main");
    assert_eq!(imported.signature.inputs, ["x['a']", "b:0"]);
    assert_eq!(imported.signature.outputs, ["result[0]"]);
    let names: Vec<&str> = imported.module.functions.iter().map(|function| &*function.name).collect();
    assert_eq!(names, ["main"], "functions that the entry does not call are left out");
    assert!(imported.module.to_string().contains("%arg0: tensor<[x__a___0]x4xf32>"), "{}", imported.module);
    assert_eq!(module(JAX).unwrap().functions.len(), 2);
}

#[test]
fn an_entry_is_chosen_by_name_and_keeps_what_it_calls() {
    let text = JAX.replace("stablehlo.tanh %arg0 :", "func.call @double(%arg0) : (tensor<?x4xf32>) ->");
    let names = |entry| -> Vec<String> {
        let imported = read(&text, entry).unwrap();
        imported.module.functions.iter().map(|function| function.name.to_string()).collect()
    };
    assert_eq!(names(None), ["main", "double"]);
    assert_eq!(names(Some("double")), ["double"]);
    let error = &read(&text, Some("other")).unwrap_err()[0];
    assert!(error.code == Code::E1001 && error.message.contains("@double, @main"), "{error}");
    let two = JAX.replace("@main", "@first");
    let error = &read(&two, None).unwrap_err()[0];
    assert!(error.message.contains("several functions") && error.help.is_some(), "{error}");
    assert_eq!(read("module {\n}", None).unwrap_err()[0].code, Code::E1001);
}

#[test]
fn names_that_are_missing_or_equal_are_those_of_the_parameters() {
    for text in [JAX.replace("b:0", "x['a']"), JAX.replace("jax.arg_info = \"b:0\"", "a.b = 1")] {
        assert_eq!(read(&text, None).unwrap().signature.inputs, ["arg0", "arg1"]);
    }
    assert_eq!(read(&JAX.replace("result[0]", ""), None).unwrap().signature.outputs, ["output0"]);
}

#[test]
fn missing_ops_come_before_errors_of_the_text() {
    let text = JAX.replace("stablehlo.tanh %arg0", "stablehlo.cholesky %arg0, lower = true").replace("stablehlo.add", "sdy.add");
    let errors = read(&text, None).unwrap_err();
    assert_eq!((errors.len(), errors[0].code), (1, Code::E1003));
    assert!(errors[0].message.contains("`sdy.add` (line 4") && errors[0].message.contains("`stablehlo.cholesky` (line 8"));
    let errors = read(&JAX.replace("%0 = stablehlo.tanh", "%0 stablehlo.tanh"), None).unwrap_err();
    assert!(errors[0].code == Code::E0101 && errors[0].span.is_some(), "{errors:?}");
}

#[test]
fn damaged_texts_are_errors() {
    for cut in (0..JAX.len()).filter(|&cut| JAX.is_char_boundary(cut)) {
        let _ = read(&JAX[..cut], None);
        let _ = read(&JAX[cut..], None);
    }
    let mut bytes = JAX.as_bytes().to_vec();
    for step in 1..2_000 {
        let at = step * 7919 % bytes.len();
        let old = std::mem::replace(&mut bytes[at], b"(){}<>\"%@,:=\\-x0"[step % 16]);
        let _ = read(&String::from_utf8_lossy(&bytes), None);
        bytes[at] = old;
    }
}

/// The text of the function that is imported from the body of a `main` of two inputs.
fn main_of(body: &str) -> Result<String, Vec<disc_ir::Diagnostic>> {
    let text = format!(
        "module {{
  func.func private @half(%a: tensor<?xf32>, %b: tensor<?xf32>) -> tensor<?xf32> {{
    %0 = stablehlo.maximum %a, %b : tensor<?xf32>
    return %0 : tensor<?xf32>
  }}
  func.func public @main(%x: tensor<?xf32>, %y: tensor<?xf32>) -> tensor<?xf32> {{
{body}
  }}
}}"
    );
    read(&text, None).map(|imported| imported.module.functions[0].to_string())
}

#[test]
fn open_sizes_of_results_follow_from_operands() {
    let text = main_of(
        "    %0 = stablehlo.tanh %x : tensor<?xf32>
    %1 = stablehlo.concatenate %0, %y, dimension = 0 : (tensor<?xf32>, tensor<?xf32>) -> tensor<?xf32>
    return %1 : tensor<?xf32>",
    );
    let text = text.unwrap();
    assert!(text.contains("(%x: tensor<[x_0]xf32>, %y: tensor<[y_0]xf32>) -> tensor<[x_0+y_0]xf32> {"), "{text}");
    assert!(!text.contains("where"), "{text}");
}

#[test]
fn operands_that_must_be_equal_are_a_fact() {
    for body in [
        "    %0 = stablehlo.add %x, %y : tensor<?xf32>\n    return %0 : tensor<?xf32>",
        "    %0 = func.call @half(%x, %y) : (tensor<?xf32>, tensor<?xf32>) -> tensor<?xf32>\n    return %0 : tensor<?xf32>",
    ] {
        let text = main_of(body).unwrap();
        assert!(text.contains(" where x_0 == y_0 {"), "{text}");
    }
    // Of sizes that differ by themselves there is none.
    let errors = main_of(
        "    %0 = stablehlo.concatenate %x, %x, dimension = 0 : (tensor<?xf32>, tensor<?xf32>) -> tensor<?xf32>
    %c = stablehlo.constant dense<0.0> : tensor<3xf32>
    %d = stablehlo.constant dense<0.0> : tensor<4xf32>
    %1 = stablehlo.add %c, %d : (tensor<3xf32>, tensor<4xf32>) -> tensor<3xf32>
    return %0 : tensor<?xf32>",
    );
    assert_eq!(errors.unwrap_err()[0].code, Code::E0203);
}

#[test]
fn loops_and_branches_keep_the_sizes_of_what_they_take() {
    let text = main_of(
        "    %n = stablehlo.constant dense<3> : tensor<i32>
    %one = stablehlo.constant dense<1> : tensor<i32>
    %0:2 = \"stablehlo.while\"(%n, %x) ({
    ^bb0(%i: tensor<i32>, %s: tensor<?xf32>):
      %zero = stablehlo.constant dense<0> : tensor<i32>
      %p = stablehlo.compare GT, %i, %zero : (tensor<i32>, tensor<i32>) -> tensor<i1>
      stablehlo.return %p : tensor<i1>
    }, {
    ^bb0(%i: tensor<i32>, %s: tensor<?xf32>):
      %j = stablehlo.subtract %i, %one : tensor<i32>
      %t = stablehlo.add %s, %x : tensor<?xf32>
      stablehlo.return %j, %t : tensor<i32>, tensor<?xf32>
    }) : (tensor<i32>, tensor<?xf32>) -> (tensor<i32>, tensor<?xf32>)
    return %0#1 : tensor<?xf32>",
    );
    let text = text.unwrap();
    assert!(!text.contains("where"), "{text}");
}

/// A softmax of a matmul, as JAX prints it for fixed sizes.
#[test]
fn what_jax_prints_for_a_layer_is_read() {
    let text = "module @jit_layer attributes {mhlo.num_partitions = 1 : i32, mhlo.num_replicas = 1 : i32} {
  func.func public @main(%arg0: tensor<8x4xf32>, %arg1: tensor<4x16xf32>) -> (tensor<8x16xf32> {jax.result_info = \"result\"}) {
    %0 = stablehlo.dot_general %arg0, %arg1, contracting_dims = [1] x [0], precision = [DEFAULT, DEFAULT] : (tensor<8x4xf32>, tensor<4x16xf32>) -> tensor<8x16xf32>
    %cst = stablehlo.constant dense<0xFF800000> : tensor<f32>
    %1 = stablehlo.reduce(%0 init: %cst) applies stablehlo.maximum across dimensions = [1] : (tensor<8x16xf32>, tensor<f32>) -> tensor<8xf32>
    %2 = stablehlo.broadcast_in_dim %1, dims = [0] : (tensor<8xf32>) -> tensor<8x1xf32>
    %3 = stablehlo.broadcast_in_dim %2, dims = [0, 1] : (tensor<8x1xf32>) -> tensor<8x16xf32>
    %4 = stablehlo.subtract %0, %3 : tensor<8x16xf32>
    %5 = stablehlo.exponential %4 : tensor<8x16xf32>
    %6 = call @relu(%5) : (tensor<8x16xf32>) -> tensor<8x16xf32>
    return %6 : tensor<8x16xf32>
  }
  func.func private @relu(%arg0: tensor<8x16xf32>) -> tensor<8x16xf32> {
    %cst = stablehlo.constant dense<0.000000e+00> : tensor<f32>
    %0 = stablehlo.broadcast_in_dim %cst, dims = [] : (tensor<f32>) -> tensor<8x16xf32>
    %1 = stablehlo.maximum %arg0, %0 : tensor<8x16xf32>
    return %1 : tensor<8x16xf32>
  }
}
";
    let imported = read(text, None).unwrap();
    assert_eq!(imported.signature.inputs, ["arg0", "arg1"]);
    assert_eq!(imported.signature.outputs, ["result"]);
    let names: Vec<&str> = imported.module.functions.iter().map(|function| &*function.name).collect();
    assert_eq!(names, ["main", "relu"]);
}
