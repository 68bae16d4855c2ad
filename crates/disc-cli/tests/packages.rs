//! Tests the commands of `disc` on packages, as a script uses them.
mod folder;

use folder::Folder;
use serde_json::Value;
use std::{fs, path::Path, process::Command};

const PROGRAM: &str = "weight @table : tensor<2x3xf32>

func @embed(%ids: tensor<[B]x[S]xi64>, %scale: tensor<[S]xbf16>) -> (tensor<[B]x[S]x3xf32>, tensor<[S]xbf16>) where S <= 64 {
  %t = weight @table : tensor<2x3xf32>
  %g = gather %t, %ids, offset_dims = [2], collapsed_slice_dims = [0], start_index_map = [0], index_vector_dim = 2, slice_sizes = [1, 3] : (tensor<2x3xf32>, tensor<[B]x[S]xi64>) -> tensor<[B]x[S]x3xf32>
  %d = add %scale, %scale : tensor<[S]xbf16>
  return %g, %d : tensor<[B]x[S]x3xf32>, tensor<[S]xbf16>
}
";

/// ed25519 keys made only for this test.
const PRIVATE: &str =
    "-----BEGIN PRIVATE KEY-----\nMC4CAQAwBQYDK2VwBCIEIEJCQkJCQkJCQkJCQkJCQkJCQkJCQkJCQkJCQkJCQkJC\n-----END PRIVATE KEY-----\n";

/// A folder with the program in it.
fn folder_of(name: &str) -> Folder {
    Folder::with_file(&format!("packages-{name}"), "m.disc", PROGRAM)
}

/// A folder with the program and a package of it.
fn with_package(name: &str) -> Folder {
    let folder = folder_of(name);
    let (status, out, err) = folder.disc("compile m.disc -o m.discpkg --random-weights --target x86-64-v2");
    assert_eq!((status, &*err), (Some(0), ""), "{out}");
    assert!(out.starts_with("wrote m.discpkg\n"), "{out}");
    folder
}

#[test]
fn a_package_runs_on_random_inputs_and_writes_one_file() {
    let folder = with_package("run");
    let found = folder.json("run m.discpkg --input ids=rand:2x5 --input scale=zeros:5 --repeat 3 -o out.npz");
    assert_eq!(found["entry"], "embed");
    assert_eq!(found["results"][0]["name"], "output0");
    assert_eq!(found["results"][0]["sizes"], serde_json::json!([2, 5, 3]));
    assert_eq!(found["times_us"].as_array().unwrap().len(), 3);
    let file = fs::read(folder.file("out.npz")).unwrap();
    let text = String::from_utf8_lossy(&file);
    let places: Vec<usize> = ["output0.npy", "output1.npy"].map(|name| text.find(name).unwrap()).to_vec();
    assert!(places[0] < places[1] && text.contains("'descr': '|V2'"));
    let (status, out, _) = folder.disc("run m.discpkg --dim B=1,S=2");
    assert_eq!(status, Some(0));
    assert!(out.starts_with("output0: tensor<1x2x3xf32> [[["), "{out}");
    // Inputs by name from a file that another call wrote.
    fs::write(
        folder.file("double.disc"),
        "func @main(%output1: tensor<[S]xbf16>) -> tensor<[S]xbf16> {\n  %d = add %output1, %output1 : tensor<[S]xbf16>\n  return %d : tensor<[S]xbf16>\n}\n",
    )
    .unwrap();
    let doubled = folder.json("run double.disc --input out.npz");
    assert_eq!(doubled["results"][0]["elements"], serde_json::json!([0.0, 0.0, 0.0, 0.0, 0.0]));
}

#[test]
fn calls_that_do_not_fit_are_errors() {
    let folder = with_package("errors");
    let error = |words: &str| folder.error(&format!("run m.discpkg {words}"));
    assert!(error("--device cuda:0 --dim B=1,S=2").contains("the device `cuda:0` is not available"));
    assert!(error("--entry decode --dim B=1,S=2").contains("no entry `decode`: it has `embed`"));
    assert!(error("--input ids=rand:1x2").contains("@embed needs values for: scale"));
    assert!(error("--input idz=rand:1x2").contains("no parameter %idz; it has: ids, scale"));
    assert!(error("--dim B=1,S=65").contains("S is 65, expected S <= 64"));
    assert!(error("--input ids=rand:1x{2,3} --dim S=2").contains("values for 2 calls"));
    assert!(error("--dim B=1,S=2 --random-weights").contains("a package has its weights"));
    assert!(error("--dim B=1,S=2 --check").contains("--check and --on interp are for IR text"));
    assert!(error("--dim B=1,S=2 --input no.npz").contains("no.npz: No such file"));
    assert_eq!(folder.disc("run m.discpkg --repeat 0").0, Some(2));
    let (status, out, err) = folder.disc("run m.discpkg --device cuda --json --dim B=1,S=2");
    let found: Value = serde_json::from_str(&out).unwrap();
    assert_eq!((status, &*err, &found["errors"][0]["code"]), (Some(1), "", &Value::from("E0700")));
}

#[test]
fn a_package_is_described() {
    let folder = with_package("inspect");
    let found = folder.json("inspect m.discpkg");
    assert_eq!(found["signed"], false);
    assert_eq!(found["entries"][0]["inputs"][0]["dims"], serde_json::json!(["B", "S"]));
    assert_eq!(found["entries"][0]["facts"], serde_json::json!(["S <= 64"]));
    assert_eq!(found["targets"][0]["name"], "x86-64-v2");
    assert_eq!(found["weights"], serde_json::json!({ "count": 1, "bytes": 24 }));
    assert_eq!(found["parts"][0]["name"], "manifest.json");
    let (_, text, _) = folder.disc("inspect m.discpkg");
    for words in ["not signed", "entry embed", "takes  ids: i64[B, S]", "x86-64-v2 (x86_64), runs here", "weights: 1, 24 bytes"] {
        assert!(text.contains(words), "{words}: {text}");
    }
}

#[test]
fn a_package_with_kernels_runs_on_a_gpu() {
    let folder = folder_of("device");
    let targets = ["--target", "x86-64-v2,nvptx:sm_80 on x86-64-v2", "--target", "nvptx:sm_90 on x86-64-v2"];
    let compile = [&["compile", "m.disc", "-o", "m.discpkg", "--random-weights"][..], &targets].concat();
    let (status, out, err) = folder.disc_given(&compile);
    assert_eq!((status, &*err), (Some(0), ""), "{out}");
    let rows = folder.json("inspect m.discpkg")["targets"].clone();
    assert_eq!((&rows[0]["device"], &rows[2]["device"]), (&Value::Null, &Value::from("nvptx:sm_90")));
    assert!(out.contains("nvptx:sm_80 on x86-64-v2 (x86_64), runs here on a device for `nvptx:sm_80`"), "{out}");
    assert!(out.contains("targets/nvptx-sm_90/x86-64-v2/kernels.ptx"), "{out}");

    let missing = folder.error("run m.discpkg --device cuda --dim B=1,S=2");
    assert!(missing.contains("E0700") && missing.contains("the device `cuda:0` is not available"), "{missing}");
    folder.add_driver();
    let results =
        |words: &str| folder.json(&format!("run m.discpkg --input ids=rand:2x5 --input scale=rand:5{words}"))["results"].clone();
    let expected = results("");
    assert_ne!(expected[1]["elements"][0], 0.0);
    for words in [" --device cuda", " --device cuda:0 --target nvptx:sm_80"] {
        assert_eq!(results(words), expected, "{words}");
    }
    let other = folder.error("run m.discpkg --device simt:sm_90 --dim B=1,S=2");
    assert!(other.starts_with("error[E0903]"), "{other}");
    assert!(other.contains("no code that runs on the device `simt:sm_90`: it has `x86-64-v2`, `nvptx:sm_80 on"), "{other}");
    let found = folder.json("bench m.discpkg --dim B=1,S=2 --seconds 0.01 --device cuda");
    let kernels = found["shapes"][0]["kernels"].as_array().unwrap();
    assert!(!kernels.is_empty() && kernels.iter().all(|row| row["us"].as_f64().unwrap() >= 0.0), "{found}");
}

#[test]
fn every_file_that_is_no_package_is_an_error() {
    let folder = with_package("damaged");
    let whole = fs::read(folder.file("m.discpkg")).unwrap();
    let damaged = |bytes: &[u8]| fs::write(folder.file("d.discpkg"), bytes).unwrap();
    for length in [0, 3, 30, 200, whole.len() / 2, whole.len() - 1] {
        damaged(&whole[..length]);
        for command in ["inspect d.discpkg", "run d.discpkg --dim B=1,S=1", "sign d.discpkg --key k -o s.discpkg"] {
            assert!(folder.error(command).contains("truncated"), "{command} {length}");
        }
    }
    damaged(b"no zip file at all, but long enough to have a header");
    assert!(folder.error("bench d.discpkg --dim B=1,S=1").contains("is no package"));
    assert!(folder.error("inspect no-such-file.discpkg").contains("cannot be read"));
    assert!(folder.error("run .").starts_with("error[E0101]"));
    assert!(folder.error("run m.discpkg --input ids=/dev/zero --dim B=1,S=1").contains("is a device"));
    assert!(folder.error("sign m.discpkg --key /dev/zero -o s.discpkg").contains("more than 1048576 bytes"));
    assert!(folder.error("compile /dev/null -o n.discpkg").contains("no entry to compile"));
}

#[test]
fn a_signed_package_is_accepted_by_its_key_alone() {
    let folder = with_package("sign");
    fs::write(folder.file("key.pem"), PRIVATE).unwrap();
    let openssl = |words: &str| Command::new("openssl").args(words.split(' ')).current_dir(folder.path()).status();
    // Without openssl, the public key is not there, and the rest is tested all the same.
    let has_public = openssl("pkey -in key.pem -pubout -out public.pem").is_ok_and(|status| status.success());
    assert!(folder.error("inspect m.discpkg --require-signature key.pem").contains("signature"));
    let (status, out, err) = folder.disc("sign m.discpkg --key key.pem -o s.discpkg");
    assert_eq!((status, &*out, &*err), (Some(0), "wrote s.discpkg, signed\n", ""));
    let found = folder.json("inspect s.discpkg");
    assert_eq!((&found["signed"], &found["parts"][1]["name"]), (&Value::from(true), &Value::from("signature.json")));
    assert!(folder.error("sign m.discpkg --key m.disc -o t.discpkg").contains("no ed25519 key in PEM"));
    assert!(!folder.file("t.discpkg").exists());
    if has_public {
        let run = |file: &str| format!("run {file} --dim B=1,S=2 --require-signature public.pem");
        assert_eq!(folder.disc(&run("s.discpkg")).0, Some(0));
        assert!(folder.error(&run("m.discpkg")).contains("signature"));
        assert!(folder.error(&run("m.disc")).contains("IR text has none"));
    }
}

#[test]
fn shapes_are_timed_and_launches_traced() {
    let folder = with_package("bench");
    // The first words are those of a shell that expanded the braces.
    for words in ["--input ids=rand:1x4 ids=rand:1x16 scale=rand:{4,16}", "--input ids=rand:1x{4,16} --input scale=rand:{4,16}"] {
        let found = folder.json(&format!("bench m.discpkg {words} --seconds 0.01 --trace t.json"));
        let shapes = found["shapes"].as_array().unwrap();
        assert_eq!(shapes.iter().map(|shape| shape["inputs"]["ids"][1].as_i64().unwrap()).collect::<Vec<_>>(), [4, 16]);
        for shape in shapes {
            assert!(shape["p50"].as_f64().unwrap() <= shape["p99"].as_f64().unwrap());
            let names: Vec<&str> = shape["kernels"].as_array().unwrap().iter().map(|row| row["name"].as_str().unwrap()).collect();
            assert!(
                names.len() == 2 && names.iter().all(|name| name.starts_with('k') && name.contains("_pointwise")),
                "{names:?}"
            );
        }
        let trace: Value = serde_json::from_str(&fs::read_to_string(folder.file("t.json")).unwrap()).unwrap();
        let events = trace["traceEvents"].as_array().unwrap();
        let is_timed = |event: &&Value| event["ph"] == "X" && event["dur"].as_f64().unwrap() > 0.0;
        let launch = events.iter().find(is_timed).unwrap();
        assert!(launch["name"].as_str().unwrap().contains("_pointwise"), "{launch}");
    }
    assert!(folder.error("bench m.discpkg --input ids=rand:1x{1,2,3} --input scale=rand:{1,2}").contains("has 2 values"));
}

#[test]
fn a_package_has_code_for_each_target_and_the_named_entry() {
    let folder = folder_of("targets");
    let found = folder
        .json("compile m.disc -o m.discpkg --random-weights --target x86-64-v2,x86-64-v3 --entry embed --set winograd=false");
    let names: Vec<&str> = found["targets"].as_array().unwrap().iter().map(|target| target["name"].as_str().unwrap()).collect();
    assert_eq!((names, &found["entries"][0]["name"]), (vec!["x86-64-v2", "x86-64-v3"], &Value::from("embed")));
    let error = |words: &str| folder.error(&format!("compile m.disc {words}"));
    assert!(error("-o m.discpkg").contains("weight @table has no value"));
    assert!(error("-o m.discpkg --random-weights --set weight=int8").contains("no option `weight`"));
    assert!(error("-o m.discpkg --random-weights --target x86-64-v9").contains("unknown target `x86-64-v9`"));
    assert!(error("-o m.so --target x86-64-v2,x86-64-v3").contains("for packages"));
    fs::write(folder.file("m.pt"), "x").unwrap();
    assert!(folder.error("compile m.pt -o m.discpkg").contains("no example inputs"));
    assert!(folder.error("compile m.pt -o m.discpkg --input x=rand").contains("input x needs sizes"));
    fs::write(folder.file("m.pt2"), "x").unwrap();
    assert!(folder.error("compile m.pt2 -o m.discpkg --input x=rand:2").contains("has its example inputs"));
    assert!(folder.error("compile m.pt2 -o m.discpkg --unsafe-pickle").contains("is no pickled module"));
    assert!(folder.error("compile no.pt2 -o m.discpkg").contains("no.pt2 cannot be read"));
    assert!(folder.error("run m.pt").contains("is a model of torch, not a package"));
}

#[test]
fn tests_run_on_a_device() {
    let folder = folder_of("test");
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../filetests/run");
    fs::create_dir(folder.file("tests")).unwrap();
    fs::copy(root.join("integers_never_trap.disc"), folder.file("tests/a.disc")).unwrap();
    fs::write(folder.file("tests/b.disc"), "//@ test roundtrip\nfunc @f() {\n  return\n}\n").unwrap();
    let (status, out, _) = folder.disc("test tests");
    assert_eq!((status, out.lines().last()), (Some(0), Some("1 passed, 0 failed, 1 skipped")), "{out}");
    fs::write(folder.file("tests/c.disc"), "no test").unwrap();
    let (status, out, _) = folder.disc("test tests --json");
    let found: Value = serde_json::from_str(&out).unwrap();
    assert_eq!((status, &found["passed"], &found["failed"], &found["skipped"]), (Some(1), &1.into(), &1.into(), &1.into()));
    let (status, out, _) = folder.disc("test tests --on simt:sm_90");
    assert_eq!((status, out.lines().last()), (Some(1), Some("1 passed, 1 failed, 1 skipped")), "{out}");
    assert!(folder.error("test tests --on cuda").contains("the device `cuda:0` is not available"));
    assert!(folder.error("test nowhere").contains("nowhere is no folder"));
}

#[test]
fn completions_and_pages_name_the_commands() {
    let folder = folder_of("help");
    for shell in ["bash", "zsh", "fish"] {
        assert!(folder.disc(&format!("completions {shell}")).1.contains("inspect"), "{shell}");
    }
    assert!(folder.disc("man").1.starts_with(".ie"));
    assert!(folder.disc("man bench").1.contains("disc\\-bench"));
    assert!(folder.error("man nothing").contains("there is no command `nothing`"));
    assert_eq!(folder.disc("completions tcsh").0, Some(2));
}
