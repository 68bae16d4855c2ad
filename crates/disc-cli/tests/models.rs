//! Tests the commands of `disc` on models of other tools, as a script uses them.
mod folder;

use folder::Folder;
use serde_json::{Value, json};
use std::fs;

const MODEL: &str = r#"module @jit_f {
  func.func public @main(%arg0: tensor<?x4xf32> {jax.arg_info = "input:0"}, %arg1: tensor<?x4xf32> {jax.arg_info = "/w/b"}) -> (tensor<?x4xf32> {jax.result_info = "sum:0"}) {
    %0 = stablehlo.add %arg0, %arg1 : tensor<?x4xf32>
    %1 = "stablehlo.tanh"(%0) : (tensor<?x4xf32>) -> tensor<?x4xf32>
    return %1 : tensor<?x4xf32>
  }
}
"#;

const INPUTS: &str = "--input input:0=rand:2x4 --input /w/b=rand:2x4";

/// A folder with the model in it.
fn folder_of(name: &str) -> Folder {
    Folder::with_file(&format!("models-{name}"), "m.mlir", MODEL)
}

#[test]
fn a_model_becomes_a_package_and_runs_by_the_names_of_its_file() {
    let folder = folder_of("compile");
    let found = folder.json("compile m.mlir -o m.discpkg");
    let entry = &found["entries"][0];
    let names = |of: &str| entry[of].as_array().unwrap().iter().map(|port| port["name"].clone()).collect::<Vec<_>>();
    assert_eq!((names("inputs"), names("outputs")), (vec![json!("input:0"), json!("/w/b")], vec![json!("sum:0")]));
    let package = folder.json(&format!("run m.discpkg {INPUTS}"));
    let text = folder.json(&format!("run m.mlir {INPUTS}"));
    assert_eq!(package["results"][0]["name"], "sum:0");
    assert_eq!(package["results"][0]["elements"], text["results"][0]["elements"]);
    let error = folder.error("run m.discpkg --input arg0=rand:2x4");
    assert!(error.contains("it has: input:0, /w/b"), "{error}");
    let error = folder.error("run m.discpkg --input input:0=rand:2x4 --input /w/b=rand:2x5");
    assert!(error.contains("dimension 1 of `/w/b` has size 5"), "{error}");
}

#[test]
fn models_run_are_checked_explained_and_timed_as_text_is() {
    let folder = folder_of("commands");
    let (status, out, err) = folder.disc(&format!("run m.mlir --check {INPUTS} -o out.npz"));
    assert_eq!((status, &*err), (Some(0), ""), "{out}");
    assert!(out.contains("check: as the interpreter"), "{out}");
    assert!(String::from_utf8_lossy(&fs::read(folder.file("out.npz")).unwrap()).contains("sum:0.npy"));
    assert_eq!(folder.disc("explain m.mlir").0, Some(0));
    assert_eq!(folder.disc(&format!("bench m.mlir --seconds 0.01 {INPUTS}")).0, Some(0));
}

#[test]
fn inspect_lists_inputs_ops_and_all_that_is_missing() {
    let folder = folder_of("inspect");
    let found = folder.json("inspect m.mlir");
    assert_eq!(found["ops"], json!({ "stablehlo.add": 1, "stablehlo.tanh": 1 }));
    assert_eq!((&found["missing"], &found["functions"][0]["inputs"][0]["name"]), (&json!([]), &json!("input:0")));
    folder.write("n.mlir", MODEL.replace("stablehlo.tanh", "stablehlo.fft").replace("stablehlo.add", "mhlo.add"));
    let found = folder.json("inspect n.mlir");
    let missing: Vec<&Value> = found["missing"].as_array().unwrap().iter().map(|row| &row["op"]).collect();
    assert_eq!(missing, ["mhlo.add", "stablehlo.fft"]);
    assert_eq!(found["functions"][0]["inputs"][1], json!({ "name": "/w/b", "type": "tensor<?x4xf32>" }));
    for command in ["compile n.mlir -o n.discpkg", "run n.mlir --dim B=2", "explain n.mlir"] {
        let error = folder.error(command);
        assert!(error.starts_with("error[E1003]") && error.contains("mhlo.add") && error.contains("stablehlo.fft"), "{error}");
        assert!(error.contains("n.mlir:3:"), "{error}");
    }
    assert!(!folder.file("n.discpkg").exists());
}

#[test]
fn sizes_of_a_model_get_names_and_numbers() {
    let folder = folder_of("dims");
    let found = folder.json("compile m.mlir -o m.discpkg --dim input:0:0=B,/w/b:0=B");
    assert_eq!(found["entries"][0]["inputs"][1]["dims"], json!(["B", "4"]));
    let found = folder.json("compile m.mlir -o m.discpkg --dim input:0:0=3");
    assert_eq!(found["entries"][0]["inputs"][0]["dims"], json!(["3", "4"]));
    assert!(folder.error("compile m.mlir -o m.discpkg --dim input:0:1=B").starts_with("error[E1006]"));
    assert!(folder.error("compile m.mlir -o m.discpkg --dim x:0=B").contains("input:0, /w/b"));
    folder.write("m.disc", "func @main(%x: tensor<2xf32>) -> tensor<2xf32> {\n  return %x : tensor<2xf32>\n}\n");
    assert!(folder.error("compile m.disc -o m.discpkg --dim x:0=B").starts_with("error[E0700]"));
}

#[test]
fn weights_in_a_wrapper_of_mlir_come_from_the_command_line() {
    let folder = folder_of("weights");
    let text = "module {
weight @w : tensor<4xf32>
func.func public @main(%x: tensor<4xf32>) -> tensor<4xf32> {
  %w = weight @w : tensor<4xf32>
  %0 = stablehlo.add %x, %w : tensor<4xf32>
  return %0 : tensor<4xf32>
}
}";
    folder.write("w.mlir", text);
    assert!(folder.error("compile w.mlir -o w.discpkg").contains("weight @w has no value"));
    assert_eq!(folder.json("compile w.mlir -o w.discpkg --random-weights")["weights"]["count"], 1);
}

#[test]
fn the_contents_of_a_file_tell_its_format_before_its_name_does() {
    let folder = folder_of("format");
    folder.write("text", MODEL);
    assert_eq!(folder.json("inspect text")["format"], "stablehlo");
    folder.write("ir.mlir", "func @main(%x: tensor<[N]xf32>) -> tensor<[N]xf32> {\n  return %x : tensor<[N]xf32>\n}\n");
    assert_eq!(folder.json("inspect ir.mlir")["stage"], "tensor");
    for (contents, words) in [
        (&b"\x08\x08\x12\x07pytorch"[..], "an ONNX model"),
        (b"ML\xefR\x0d", "MLIR bytecode"),
        (b"version https://git-lfs.github.com/spec/v1\noid sha256:0\n", "`git lfs pull`"),
    ] {
        folder.write("m.onnx", contents);
        for command in ["inspect m.onnx", "compile m.onnx -o m.discpkg", "run m.onnx"] {
            let error = folder.error(command);
            assert!(error.starts_with("error[E1001]") && error.contains(words), "{error}");
        }
    }
}
