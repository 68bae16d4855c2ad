//! Writes packages and runs them with only the runtime.
use disc::{
    Options,
    package::{EntryView, ExportOptions, Program, export, export_bytes},
    ral::{Error, HostTensor, OpenOptions, Package, Session, SessionOptions, Source, Tensor, WEIGHTS, Weight, code},
};
use disc_ir::Dim;
use std::sync::Arc;

const LINEAR: &str = "
weight @w : tensor<3x2xf32>
func @main(%x: tensor<[B]x3xf32>) -> tensor<[B]x2xf32> {
  %w = weight @w : tensor<3x2xf32>
  %y = dot_general %x, %w, contracting_dims = [1] x [0] : (tensor<[B]x3xf32>, tensor<3x2xf32>) -> tensor<[B]x2xf32>
  return %y : tensor<[B]x2xf32>
}";

const SCALED: &str = "
weight @w : tensor<3x2xf32>
weight @c = dense<[2.0, 2.0]> : tensor<2xf32>
func @main(%x: tensor<[B]x2xf32>) -> tensor<[B]x2xf32> {
  %c = weight @c : tensor<2xf32>
  %b = broadcast_in_dim %c, dims = [1] : (tensor<2xf32>) -> tensor<[B]x2xf32>
  %y = multiply %x, %b : tensor<[B]x2xf32>
  return %y : tensor<[B]x2xf32>
}";

fn weights() -> Vec<(String, Weight)> {
    let w = HostTensor::new(&[3, 2], &[1.0_f32, 2.0, 3.0, 4.0, 5.0, 6.0]).unwrap();
    vec![("w".into(), w.into())]
}

fn program(text: &str, name: &str) -> Program {
    let view = EntryView { name: name.into(), inputs: None, outputs: vec![("y".into(), Source::Output(0))], structure: None };
    Program { module: disc::parse(text).unwrap(), weights: weights(), entry: Some(view) }
}

fn packed(settings: &ExportOptions) -> Vec<u8> {
    export_bytes(vec![program(LINEAR, "linear"), program(SCALED, "scaled")], &Options::default(), settings).unwrap()
}

fn everything() -> ExportOptions {
    ExportOptions { ir: true, prepared: true, ..ExportOptions::default() }
}

fn open(bytes: &[u8]) -> Result<Package, Error> {
    Package::from_bytes(bytes, &OpenOptions::default())
}

#[test]
fn entries_share_one_weight_table_and_run_at_any_size() {
    let package = open(&packed(&everything())).unwrap();
    assert_eq!(package.weights().unwrap().len(), 1);
    assert!(package.part("program.disc").is_some());
    let mut session = Session::new(&package, SessionOptions { threads: Some(1), ..SessionOptions::default() }).unwrap();
    for rows in [0, 1, 5] {
        let x: Vec<f32> = (0..rows * 3).map(|i| i as f32).collect();
        let y = session.run("linear", &[Tensor::new(&[rows, 3], &x).unwrap()]).unwrap();
        let expected: Vec<f32> =
            x.chunks(3).flat_map(|x| [x[0] + 3.0 * x[1] + 5.0 * x[2], 2.0 * x[0] + 4.0 * x[1] + 6.0 * x[2]]).collect();
        assert_eq!((y[0].sizes(), y[0].elements::<f32>().unwrap()), (&[rows, 2][..], &expected[..]));
        let scaled = session.run("scaled", &y).unwrap();
        let doubled: Vec<f32> = expected.iter().map(|x| 2.0 * x).collect();
        assert_eq!(scaled[0].elements::<f32>().unwrap(), doubled);
    }
}

#[test]
fn results_go_to_memory_of_the_caller() {
    let package = open(&packed(&everything())).unwrap();
    let mut session = Session::new(&package, SessionOptions::default()).unwrap();
    let x = [1.0_f32, 0.0, 0.0];
    let inputs = [Tensor::new(&[1, 3], &x).unwrap()];
    let mut memory = [0.0_f32; 4];
    let mut outputs = [Tensor::new_mut(&[2, 2], &mut memory).unwrap()];
    session.run_into("linear", &inputs, &mut outputs).unwrap();
    assert_eq!(outputs[0].sizes(), [1, 2]);
    assert_eq!(memory[..2], [1.0, 2.0]);
    let mut small = [Tensor::zeros(disc::ral::DType::F32, &[1]).unwrap()];
    assert_eq!(session.run_into("linear", &inputs, &mut small).unwrap_err().code(), code::OUTPUT);
    let mut whole = [Tensor::zeros(disc::ral::DType::I64, &[2]).unwrap()];
    assert!(session.run_into("linear", &inputs, &mut whole).unwrap_err().message.contains("output 0 (`y`) is f32"));
}

#[test]
fn wrong_calls_name_what_was_expected_and_the_next_call_works() {
    let package = open(&packed(&everything())).unwrap();
    let mut session = Session::new(&package, SessionOptions::default()).unwrap();
    let refused = session.run("other", &[]).unwrap_err();
    assert_eq!(refused.code(), code::PACKAGE_ENTRY);
    assert!(refused.to_string().contains("no entry `other`: it has `linear`, `scaled`"));
    let wrong = Tensor::new(&[1, 2], &[0.0_f32; 2]).unwrap();
    assert!(session.run("linear", &[wrong]).unwrap_err().to_string().contains("`x`"));
    assert!(session.run("linear", &[]).unwrap_err().to_string().contains("expects 1 inputs (x), 0 came"));
    assert!(session.run("linear", &[Tensor::new(&[1, 3], &[0.0_f32; 3]).unwrap()]).is_ok());
}

#[test]
fn every_kind_of_damage_is_refused_by_name() {
    let bytes = packed(&everything());
    let manifest = open(&bytes).unwrap().manifest().clone();
    for step in 1..400 {
        let mut damaged = bytes.clone();
        let at = step * 7919 % bytes.len();
        damaged[at] ^= 1 << (step % 8);
        let error = open(&damaged).expect_err(&format!("byte {at}"));
        let names = manifest.parts.keys().any(|name| error.message.contains(name.as_str()));
        // A flip in a name gives the entry that name.
        let names = names || error.message.contains("it has a name that is refused");
        assert!(names || error.message.contains("manifest.json") || error.message.contains("package"), "{error}");
    }
    let error = open(&bytes[..bytes.len() / 2]).unwrap_err().to_string();
    assert!(error.contains("truncated"), "{error}");
}

#[test]
fn a_newer_format_and_another_target_are_refused_by_name() {
    let bytes = packed(&everything());
    let asked = OpenOptions { target: Some("x86-64-v9".into()), ..OpenOptions::default() };
    let error = Package::from_bytes(&bytes, &asked).unwrap_err();
    assert_eq!(error.code(), code::PACKAGE_TARGET);
    assert!(error.message.contains("no code for `x86-64-v9`: it has `"), "{error}");
}

fn packed_for(targets: &[&str]) -> Result<Vec<u8>, disc::Error> {
    let targets = targets.iter().map(ToString::to_string).collect();
    let settings = ExportOptions { targets, prepared: true, ir: false };
    export_bytes(vec![program(LINEAR, "linear")], &Options::default(), &settings)
}

#[test]
fn an_extension_that_there_is_not_is_refused_with_those_that_there_are() {
    for (target, known) in [("aarch64-v8+sve3", "dotprod, fp16, i8mm, sve"), ("x86-64-v4+avx513", "avx512vnni")] {
        let error = packed_for(&[target]).unwrap_err().to_string();
        let extension = target.rsplit('+').next().unwrap();
        assert!(error.contains(target) && error.contains(&format!("unknown extension `{extension}`")), "{error}");
        assert!(error.contains(known), "{error}");
    }
}

#[test]
#[cfg(target_arch = "x86_64")]
fn a_machine_without_code_of_its_own_says_what_it_is_and_what_the_package_has() {
    let error = open(&packed_for(&["aarch64-v8", "aarch64-v8+sve"]).unwrap()).unwrap_err();
    assert_eq!(error.code(), code::PACKAGE_TARGET);
    assert_eq!(
        error.message,
        "no code of the package runs on this processor: the package has `aarch64-v8`, `aarch64-v8+sve`; \
         this processor is x86_64: `aarch64-v8` is for aarch64; `aarch64-v8+sve` is for aarch64"
    );
}

#[test]
#[cfg(target_arch = "x86_64")]
fn a_machine_that_lacks_a_feature_names_it() {
    let lacking = |name: &&str| name.parse::<disc::Target>().unwrap().check_host().is_err();
    let Some(newer) = ["x86-64-v4", "x86-64-v4+avx512fp16", "x86-64-v4+amx-int8"].into_iter().find(lacking) else { return };
    let missing = newer.parse::<disc::Target>().unwrap().check_host().unwrap_err().to_string();
    let missing = missing.rsplit("it lacks ").next().unwrap();
    let bytes = packed_for(&["aarch64-v8", newer]).unwrap();
    let error = open(&bytes).unwrap_err().message;
    assert!(error.contains(&format!("; `{newer}` needs {missing}, which it lacks")), "{error}");
    let asked = OpenOptions { target: Some("aarch64-v8".into()), ..OpenOptions::default() };
    let error = Package::from_bytes(&bytes, &asked).unwrap_err().message;
    assert!(
        error.contains("no code for `aarch64-v8` of the package runs on this processor: the package has `aarch64-v8`"),
        "{error}"
    );
}

#[test]
fn levels_of_one_package_agree() {
    let host = disc::Target::host().unwrap().to_string();
    let runs = |level: &&str| level.parse::<disc::Target>().unwrap().check_host().is_ok();
    let levels: Vec<String> = ["x86-64-v2", "x86-64-v3"].iter().filter(|level| runs(level)).map(ToString::to_string).collect();
    let mut targets = levels.clone();
    if !targets.contains(&host) {
        targets.push(host.clone());
    }
    let settings = ExportOptions { targets, prepared: true, ir: false };
    let bytes = packed(&settings);
    assert_eq!(open(&bytes).unwrap().target().name, host);
    for level in levels {
        let package = Package::from_bytes(&bytes, &OpenOptions { target: Some(level), ..OpenOptions::default() }).unwrap();
        let mut session = Session::new(&package, SessionOptions::default()).unwrap();
        let y = session.run("linear", &[Tensor::new(&[1, 3], &[1.0_f32, 1.0, 1.0]).unwrap()]).unwrap();
        assert_eq!(y[0].elements::<f32>().unwrap(), [9.0, 12.0]);
    }
}

#[test]
fn a_file_is_replaced_when_it_is_complete_and_its_weights_are_shared() {
    let folder = std::env::temp_dir().join(format!("disc-package-{}", std::process::id()));
    std::fs::create_dir_all(&folder).unwrap();
    let path = folder.join("model.discpkg");
    for _ in 0..2 {
        export(vec![program(LINEAR, "main")], &path, &Options::default(), &everything()).unwrap();
    }
    assert_eq!(std::fs::read_dir(&folder).unwrap().count(), 1);
    let options = OpenOptions { cache: Some(folder.join("cache")), ..OpenOptions::default() };
    let package = Package::open_with(&path, &options).unwrap();
    assert!(folder.join("cache/verified").read_dir().unwrap().next().is_some());
    disc::cache::Cache::new(folder.join("cache")).clear();
    assert!(!folder.join("cache/verified").exists());
    let one = Arc::as_ptr(&package.executable(None).unwrap());
    assert_eq!(one, Arc::as_ptr(&package.clone().executable(Some("cpu")).unwrap()));
    assert_eq!(package.executable(Some("cuda:0")).err().unwrap().code(), code::BAD_ARGUMENT);
    assert!(package.part(WEIGHTS).unwrap().as_ptr().addr().is_multiple_of(64));
    std::fs::remove_dir_all(&folder).unwrap();
}

#[test]
fn a_closed_package_gives_its_memory_back() {
    let path = std::env::temp_dir().join(format!("disc-closed-{}.discpkg", std::process::id()));
    export(vec![program(LINEAR, "main")], &path, &Options::default(), &everything()).unwrap();
    let is_mapped = || std::fs::read_to_string("/proc/self/maps").unwrap().contains(path.to_str().unwrap());
    let package = Package::open_with(&path, &OpenOptions { cache: None, ..OpenOptions::default() }).unwrap();
    let mut session = Session::new(&package, SessionOptions::default()).unwrap();
    drop(package);
    session.run("main", &[Tensor::new(&[1, 3], &[1.0_f32, 1.0, 1.0]).unwrap()]).unwrap();
    assert!(is_mapped(), "the weights are read where they are");
    drop(session);
    assert!(!is_mapped());
    std::fs::remove_file(&path).unwrap();
}

#[test]
fn the_manifest_bounds_the_temporary_memory_of_a_call() {
    let text = "
func @main(%x: tensor<[B]x[S]xf32>) -> tensor<[B]x[S]xf32> {
  %zero = constant dense<0.0> : tensor<f32>
  %t = cumulative %x, %zero, dim = 1 : (tensor<[B]x[S]xf32>, tensor<f32>) -> tensor<[B]x[S]xf32> applies add
  %r = reverse %t, dims = [1] : tensor<[B]x[S]xf32>
  %y = cumulative %r, %zero, dim = 1 : (tensor<[B]x[S]xf32>, tensor<f32>) -> tensor<[B]x[S]xf32> applies add
  return %y : tensor<[B]x[S]xf32>
}";
    let module = disc::parse(text).unwrap();
    let program = Program { module, weights: Vec::new(), entry: None };
    let package = open(&export_bytes(vec![program], &Options::default(), &ExportOptions::default()).unwrap()).unwrap();
    let bounds = &package.manifest().entries[0].temporary_bytes;
    let bound = Dim::parse(bounds.values().next().unwrap()).unwrap();
    for [b, s] in [[1, 1], [3, 70], [17, 1000]] {
        let mut session = Session::new(&package, SessionOptions::default()).unwrap();
        session.run("main", &[Tensor::new(&[b, s], &vec![1.0_f32; (b * s) as usize]).unwrap()]).unwrap();
        let most = bound.eval(&|symbol| Some(if symbol.to_string() == "B" { b } else { s })).unwrap();
        let peak = session.peak_arena_bytes() as i64;
        assert!((1..=most).contains(&peak) && most <= 2 * peak, "{bound} is {most}, the peak {peak}");
    }
}

#[test]
fn the_device_of_the_options_is_the_target_unless_some_are_named() {
    let options = Options { device: Some("simt:sm_90".into()), target: Some("x86-64-v2".into()), ..Options::default() };
    let names = |targets: &[&str]| {
        let targets = targets.iter().map(ToString::to_string).collect();
        let settings = ExportOptions { targets, ..ExportOptions::default() };
        let package = open(&export_bytes(vec![program(LINEAR, "linear")], &options, &settings).unwrap()).unwrap();
        let manifest = package.manifest();
        manifest.targets.iter().chain(&manifest.device_targets).map(|target| target.name.clone()).collect::<Vec<_>>()
    };
    assert_eq!(names(&[]), ["simt:sm_90 on x86-64-v2"]);
    assert_eq!(names(&["nvptx:sm_80 on x86-64-v2", "x86-64-v2"]), ["x86-64-v2", "nvptx:sm_80 on x86-64-v2"]);
    let twice = ["simt:sm_90 on x86-64-v2"; 2].map(String::from).to_vec();
    let settings = ExportOptions { targets: twice, ..ExportOptions::default() };
    let error = export_bytes(vec![program(LINEAR, "linear")], &options, &settings).unwrap_err();
    assert!(error.to_string().contains("the target `simt:sm_90 on x86-64-v2` is named twice"), "{error}");
}
