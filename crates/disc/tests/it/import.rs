//! Imports models and runs them as packages with only the runtime.
use disc::{
    Error, Options,
    import::{DimChoice, ImportOptions, Input, Size, from_bytes, open},
    package::{EntryView, ExportOptions, Program, export_bytes},
    ral::{DType, OpenOptions, Package, Port, Session, SessionOptions, Source, Tensor},
};
use disc_import::program::{Node, ProgramBuilder};
use disc_ir::{Dim, OpKind};

const MODEL: &str = r#"module @jit_f {
  func.func public @main(%arg0: tensor<?x4xf32> {jax.arg_info = "input:0"}, %arg1: tensor<?x4xf32> {jax.arg_info = "/w/b"}) -> (tensor<?x4xf32> {jax.result_info = "sum:0"}) {
    %0 = stablehlo.add %arg0, %arg1 : tensor<?x4xf32>
    return %0 : tensor<?x4xf32>
  }
}
"#;

fn packed(text: &str, options: &ImportOptions) -> Package {
    let program = from_bytes("m.mlir", text.as_bytes(), options).unwrap().program;
    let bytes = export_bytes(vec![program], &Options::default(), &ExportOptions { ir: true, ..Default::default() }).unwrap();
    Package::from_bytes(&bytes, &OpenOptions::default()).unwrap()
}

fn session(package: &Package) -> Session {
    Session::new(package, SessionOptions { threads: Some(1), ..SessionOptions::default() }).unwrap()
}

#[test]
fn an_imported_model_is_a_package_with_the_names_of_its_file() {
    let package = packed(MODEL, &ImportOptions::default());
    let entry = package.entry("main").unwrap();
    let inputs: Vec<&str> = entry.inputs().iter().map(Port::name).collect();
    let outputs: Vec<&str> = entry.outputs().iter().map(Port::name).collect();
    assert_eq!((inputs, outputs), (vec!["input:0", "/w/b"], vec!["sum:0"]));
    let text = std::str::from_utf8(package.part("program.disc").unwrap()).unwrap();
    assert!(text.contains("@main(%arg0: tensor<[input_0_0]x4xf32>"), "{text}");
    let mut session = session(&package);
    for rows in [0, 1, 3] {
        let x: Vec<f32> = (0..rows * 4).map(|i| i as f32).collect();
        let sizes = [rows, 4];
        let inputs = [Tensor::new(&sizes, &x).unwrap(), Tensor::new(&sizes, &x).unwrap()];
        let sum = session.run("main", &inputs).unwrap();
        assert_eq!(sum[0].elements::<f32>().unwrap(), x.iter().map(|x| 2.0 * x).collect::<Vec<_>>());
    }
}

#[test]
fn errors_of_calls_name_the_inputs_as_the_file_does() {
    let package = packed(MODEL, &ImportOptions::default());
    let mut session = session(&package);
    let tensor = |sizes: &[i64]| Tensor::zeros(DType::F32, sizes).unwrap();
    let mut error = |inputs: &[Tensor<'_>]| session.run("main", inputs).unwrap_err().to_string();
    assert!(error(&[]).contains("(input:0, /w/b)"));
    assert!(error(&[tensor(&[1, 4]), tensor(&[1, 5])]).contains("dimension 1 of `/w/b` has size 5"));
    assert!(error(&[tensor(&[1, 4]), tensor(&[4])]).contains("`/w/b`"));
    assert!(error(&[tensor(&[1, 4]), tensor(&[2, 4])]).contains("is 2"), "a fact that the model needs is checked");
}

#[test]
fn sizes_that_the_user_names_are_those_of_the_entry() {
    let choice = |input: &str, size| DimChoice { input: Input::Named(input.into()), axis: 0, size };
    let dims = vec![choice("input:0", Size::Named("B".into())), choice("/w/b", Size::Named("B".into()))];
    let facts = vec![disc_ir::dim::Fact::parse("B <= 2").unwrap()];
    let package = packed(MODEL, &ImportOptions { dims, facts, entry: Some("f".into()), ..ImportOptions::default() });
    let entry = package.entry("f").unwrap();
    assert!(entry.inputs().iter().all(|input| input.dims() == ["B", "4"]));
    assert_eq!(entry.facts(), ["B <= 2"]);
    let wrong = ImportOptions { dims: vec![choice("nowhere", Size::Fixed(1))], ..ImportOptions::default() };
    let error = from_bytes("m.mlir", MODEL.as_bytes(), &wrong).map(drop).unwrap_err();
    assert_eq!((error.code(), error.message().contains("input:0, /w/b")), ("E1006".into(), true));
}

#[test]
fn files_that_are_no_model_are_called_by_their_name() {
    let folder = std::env::temp_dir().join(format!("disc-import-it-{}", std::process::id()));
    std::fs::create_dir_all(&folder).unwrap();
    let code = |name: &str, bytes: &[u8]| {
        let path = folder.join(name);
        std::fs::write(&path, bytes).unwrap();
        open(&path, &ImportOptions::default()).map(drop).map_err(|error| (error.code(), error.message()))
    };
    assert_eq!(code("m.mlir", MODEL.as_bytes()), Ok(()));
    assert_eq!(code("named-otherwise.txt", MODEL.as_bytes()), Ok(()));
    for (name, bytes, words) in [
        ("m.mlir", &b"PK\x03\x04"[..], "a package"),
        ("m.onnx", b"version https://git-lfs.github.com/spec/v1\n", "git-lfs"),
        ("m.disc", b"func @main() { return }", "the IR of disc"),
        ("m.mlir", b"module {\n\xff", "not UTF-8"),
    ] {
        let (code, message) = code(name, bytes).unwrap_err();
        assert!(code == "E1001" && message.starts_with(name) && message.contains(words), "{message}");
    }
    let missing = code("m.mlir", MODEL.replace("stablehlo.add", "stablehlo.fft").as_bytes()).unwrap_err();
    assert_eq!(missing.0, "E1003");
    let error: Error = open(&folder.join("nowhere.mlir"), &ImportOptions::default()).map(drop).unwrap_err();
    assert_eq!(error.code(), "E1001");
    std::fs::remove_dir_all(&folder).unwrap();
}

/// A program as the reader of a graph makes it: a weight that is a part of a file, at an odd place.
#[test]
fn weights_are_lent_to_the_runtime_and_copied_where_they_are_not_aligned() {
    for offset in [0, 1] {
        let mut file = vec![0_u8; offset];
        file.extend([10.0_f32, 20.0].iter().flat_map(|value| value.to_le_bytes()));
        let mut builder = ProgramBuilder::new("m", "main");
        let n = Dim::symbol("N");
        let x = builder.input("x:0", disc_ir::DType::F32, vec![n.clone(), Dim::from(2)]).unwrap();
        builder.weight("/w", disc_ir::DType::F32, &[2], bytes::Bytes::from(file).slice(offset..)).unwrap();
        let w = builder.weight_value("/w").unwrap();
        let node = Node { number: 1, name: "/Add", op: "Add" };
        let sum = builder.node(node, |e| e.op(OpKind::Add, &[x, e.expand(w, &[n.clone(), Dim::from(2)])?])).unwrap();
        let program = disc::import::program(builder.finish(&[("y".into(), sum)]).unwrap(), None).unwrap();
        let bytes = export_bytes(vec![program], &Options::default(), &ExportOptions::default()).unwrap();
        let package = Package::from_bytes(&bytes, &OpenOptions::default()).unwrap();
        assert_eq!(package.weights().unwrap()[0].0, "/w");
        let y = session(&package).run("main", &[Tensor::new(&[1, 2], &[1.0_f32, 2.0]).unwrap()]).unwrap();
        assert_eq!(y[0].elements::<f32>().unwrap(), [11.0, 22.0]);
    }
}

/// Kernels have constants of equal elements only; importers list the element of a scalar.
#[test]
fn a_constant_whose_only_element_is_listed_compiles() {
    let mut builder = ProgramBuilder::new("m", "main");
    let x = builder.input("x", disc_ir::DType::F32, vec![Dim::symbol("N")]).unwrap();
    let seven = builder.literal(disc_ir::Literal::dense(disc_ir::DType::F32, 7.0_f32.to_le_bytes()), &[]).unwrap();
    let node = Node { number: 1, name: "pad", op: "Pad" };
    let padded = builder.node(node, |e| e.pad(x, seven, &[Dim::from(1)], &[Dim::from(0)])).unwrap();
    let program = disc::import::program(builder.finish(&[("y".into(), padded)]).unwrap(), None).unwrap();
    let bytes = export_bytes(vec![program], &Options::default(), &ExportOptions::default()).unwrap();
    let package = Package::from_bytes(&bytes, &OpenOptions::default()).unwrap();
    let y = session(&package).run("main", &[Tensor::new(&[2], &[1.0_f32, 2.0]).unwrap()]).unwrap();
    assert_eq!(y[0].elements::<f32>().unwrap(), [7.0, 1.0, 2.0]);
}

#[test]
fn a_view_has_a_name_for_each_input() {
    let text = "func @main(%x: tensor<2xf32>) -> tensor<2xf32> {\n  return %x : tensor<2xf32>\n}\n";
    let program = |inputs: Option<Vec<String>>| {
        let view = EntryView { name: "main".into(), inputs, outputs: vec![("y".into(), Source::Input(0))], structure: None };
        Program { module: disc::parse(text).unwrap(), weights: Vec::new(), entry: Some(view) }
    };
    let export = |inputs| export_bytes(vec![program(inputs)], &Options::default(), &ExportOptions::default());
    for (inputs, name) in [(None, "x"), (Some(vec!["a b".into()]), "a b")] {
        let package = Package::from_bytes(&export(inputs).unwrap(), &OpenOptions::default()).unwrap();
        assert_eq!(package.entry("main").unwrap().inputs()[0].name(), name);
    }
    assert_eq!(export(Some(Vec::new())).unwrap_err().code(), "E0700");
}
