//! Writes packages with code for GPUs beside that for processors, and runs them with only the
//! runtime, on a driver that has simulated GPUs. Compiled kernels come from the cache, too.
mod child;
mod fake_cuda;
mod folder;

use child::in_child;
use disc::{
    Options,
    cache::{Level, Outcome},
    package::{EntryView, ExportOptions, Program, export_bytes},
    ral::{Error, HostOutputs, HostTensor, OpenOptions, Package, Session, SessionOptions, Source, Tensor, Weight, code},
};
use fake_cuda::FakeCuda;
use folder::Folder;
use std::fs;

/// A product with a weight, a constant of the program and an epilogue.
const MODEL: &str = "
weight @w : tensor<128x16xf32>
weight @c = dense<0.5> : tensor<16xf32>
func @main(%x: tensor<[B]x128xf32>, %n: tensor<[B]x16xf32>) -> tensor<[B]x16xf32> {
  %w = weight @w : tensor<128x16xf32>
  %c = weight @c : tensor<16xf32>
  %b = broadcast_in_dim %c, dims = [1] : (tensor<16xf32>) -> tensor<[B]x16xf32>
  %p = dot_general %x, %w, contracting_dims = [1] x [0] : (tensor<[B]x128xf32>, tensor<128x16xf32>) -> tensor<[B]x16xf32>
  %s = add %p, %b : tensor<[B]x16xf32>
  %y = maximum %s, %n : tensor<[B]x16xf32>
  return %y : tensor<[B]x16xf32>
}";

const HOST: &str = "x86-64-v2";
/// The GPUs of the driver are sm_90.
const TARGETS: [&str; 3] = [HOST, "nvptx:sm_80 on x86-64-v2", "nvptx:sm_90 on x86-64-v2"];

fn package(targets: &[&str]) -> Vec<u8> {
    package_with(&Options::default(), targets)
}

fn package_with(options: &Options, targets: &[&str]) -> Vec<u8> {
    let elements: Vec<f32> = (0..2048).map(|i| (i % 7) as f32 - 3.0).collect();
    let w = HostTensor::new(&[128, 16], &elements).unwrap();
    let outputs = vec![("y".into(), Source::Output(0)), ("n".into(), Source::Input(1))];
    let entry = EntryView { name: "main".into(), inputs: None, outputs, structure: None };
    let program = Program { module: disc::parse(MODEL).unwrap(), weights: vec![("w".into(), w.into())], entry: Some(entry) };
    let targets = targets.iter().map(ToString::to_string).collect();
    export_bytes(vec![program], options, &ExportOptions { targets, ir: false, prepared: true }).unwrap()
}

fn open(bytes: &[u8], device: Option<&str>, target: Option<&str>) -> Result<Package, Error> {
    let [device, target] = [device, target].map(|name| name.map(str::to_owned));
    Package::from_bytes(bytes, &OpenOptions { device, target, ..OpenOptions::default() })
}

/// Runs a call of some rows. Returns the elements of both outputs.
fn run(session: &mut Session, rows: usize) -> [Vec<f32>; 2] {
    let (x, n) = ((0..rows * 128).map(|i| i as f32 / 4.0).collect::<Vec<_>>(), vec![-2.0_f32; rows * 16]);
    let (x_sizes, n_sizes) = ([rows as i64, 128], [rows as i64, 16]);
    let inputs = [Tensor::new(&x_sizes, &x).unwrap(), Tensor::new(&n_sizes, &n).unwrap()];
    let outputs = session.run("main", &inputs).unwrap();
    [0, 1].map(|i| outputs[i].elements::<f32>().unwrap().to_vec())
}

fn session(package: &Package, device: Option<&str>) -> Session {
    Session::new(package, SessionOptions { device: device.map(str::to_owned), ..SessionOptions::default() }).unwrap()
}

fn message(opened: Result<Package, Error>) -> String {
    let error = opened.unwrap_err();
    assert_eq!(error.code(), code::PACKAGE_TARGET, "{error}");
    error.message
}

#[test]
fn one_package_gives_the_same_results_on_processors_and_gpus() {
    FakeCuda::load();
    let bytes = package(&TARGETS);
    let package = open(&bytes, None, None).unwrap();
    assert_eq!((package.target().name.as_str(), package.target().prepared), (HOST, true));
    let found = |name: &str| package.manifest().parts.keys().filter(|part| part.ends_with(name)).cloned().collect::<Vec<_>>();
    let [old, new] = ["80", "90"].map(|chip| format!("targets/nvptx-sm_{chip}/x86-64-v2/kernels.ptx"));
    assert_eq!(found("kernels.ptx"), [old, new.clone()]);
    // The same weights for all, and prepared ones only for the processor.
    assert_eq!((found("weights.safetensors").len(), found("prepared.bin").len()), (1, 1));
    let ptx = std::str::from_utf8(package.part(&new).unwrap()).unwrap();
    assert!(ptx.contains(".target sm_90") && ptx.contains(".visible .entry"), "{ptx}");

    let mut sessions = [None, Some("cpu"), Some("cuda"), Some("cuda:1")].map(|device| session(&package, device));
    FakeCuda::load().calls();
    for rows in [0, 1, 5, 33] {
        let [expected, others @ ..] = sessions.each_mut().map(|session| run(session, rows));
        let largest = expected[0].iter().fold(0.0_f32, |most, x| most.max(x.abs()));
        for found in &others {
            assert_eq!((found[0].len(), &found[1]), (rows * 16, &expected[1]));
            let worst = found[0].iter().zip(&expected[0]).map(|(a, b)| (a - b).abs()).fold(0.0, f32::max);
            assert!(worst <= 1e-5 * largest.max(1.0), "{rows} rows: {worst}");
        }
    }
    assert!(FakeCuda::load().calls().iter().any(|call| call == "cuLaunchKernel"));
}

#[test]
fn the_newest_kernels_that_a_gpu_runs_are_picked_or_others_by_name() {
    FakeCuda::load();
    let on = |targets: &[&str], target| open(&package(targets), Some("cuda:0"), target);
    let name = |opened: Result<Package, Error>| {
        let package = opened.unwrap();
        run(&mut session(&package, None), 2);
        package.target().name.clone()
    };
    assert_eq!(name(on(&TARGETS, None)), TARGETS[2]);
    assert_eq!(name(on(&TARGETS[..2], None)), TARGETS[1]);
    assert_eq!(name(on(&TARGETS, Some("nvptx:sm_80"))), TARGETS[1]);
    assert_eq!(name(on(&[TARGETS[2], "nvptx:sm_90a on x86-64-v2"], None)), "nvptx:sm_90a on x86-64-v2");
    // Without code for processors, the package opens for its GPU.
    let alone = package(&TARGETS[1..]);
    let opened = open(&alone, None, None).unwrap();
    assert_eq!(opened.entry("main").unwrap().inputs()[0].dims(), ["B", "128"]);
    run(&mut session(&opened, Some("cuda:0")), 2);
    let on_cpu = Session::new(&opened, SessionOptions::default()).err().unwrap();
    assert!(on_cpu.message.contains("runs on this processor: the package has `nvptx:sm_80 on x86-64-v2`, "), "{on_cpu}");
    assert_eq!(on_cpu.code(), code::PACKAGE_TARGET);
}

#[test]
fn a_package_without_kernels_for_a_gpu_says_what_it_has() {
    FakeCuda::load();
    let expected = "the package has no code that runs on the device `cuda:0` (sm_90): it has `x86-64-v2`";
    assert_eq!(message(open(&package(&[HOST]), Some("cuda:0"), None)), expected);
    let newer = package(&[HOST, "nvptx:sm_100 on x86-64-v2"]);
    assert!(message(open(&newer, Some("cuda:0"), None)).ends_with("it has `x86-64-v2`, `nvptx:sm_100 on x86-64-v2`"));
    let late = open(&newer, None, None).unwrap().executable(Some("cuda:0")).err().unwrap();
    assert_eq!(late.code(), code::PACKAGE_TARGET);
    assert!(message(open(&newer, Some("cuda:0"), Some("nvptx:sm_80"))).contains("no code for `nvptx:sm_80` on the device"));
    assert_eq!(open(&newer, Some("hip:0"), None).unwrap_err().code(), code::BAD_ARGUMENT);
}

#[test]
fn a_gpu_prepares_weights_when_the_package_is_loaded() {
    FakeCuda::load();
    let int8 = Options { weights: disc::WeightForm::Int8, ..Options::default() };
    let opened = open(&package_with(&int8, &TARGETS), None, None).unwrap();
    let [on_cpu, on_gpu] = [None, Some("cuda:0")].map(|device| session(&opened, device));
    let [expected, found] = [on_cpu, on_gpu].map(|mut session| run(&mut session, 7));
    let worst = found[0].iter().zip(&expected[0]).map(|(a, b)| (a - b).abs()).fold(0.0, f32::max);
    let largest = expected[0].iter().fold(0.0_f32, |most, x| most.max(x.abs()));
    assert!(worst <= 1e-5 * largest, "{worst} of {largest}");
    let (plain, prepared) = opened.executable(Some("cuda:0")).unwrap().weight_bytes();
    assert!(plain > 0 && prepared > 0, "{plain} and {prepared}");
}

#[test]
fn results_of_a_gpu_go_to_memory_of_the_caller() {
    FakeCuda::load();
    let opened = open(&package(&TARGETS), Some("cuda:0"), None).unwrap();
    let mut session = session(&opened, None);
    let expected = run(&mut session, 2);
    let (x, n) = ((0..256).map(|i| i as f32 / 4.0).collect::<Vec<_>>(), [-2.0_f32; 32]);
    let inputs = [Tensor::new(&[2, 128], &x).unwrap(), Tensor::new(&[2, 16], &n).unwrap()];
    let (mut y, mut back) = ([0.0_f32; 40], [0.0_f32; 32]);
    let mut outputs = [Tensor::new_mut(&[40], &mut y).unwrap(), Tensor::new_mut(&[32], &mut back).unwrap()];
    session.run_into("main", &inputs, &mut outputs).unwrap();
    assert_eq!([outputs[0].sizes(), outputs[1].sizes()], [[2, 16]; 2]);
    assert_eq!((&y[..32], &back[..]), (&expected[0][..], &expected[1][..]));
}

#[test]
fn damaged_kernels_are_found_by_their_checksum() {
    let bytes = package(&TARGETS);
    let name = "targets/nvptx-sm_90/x86-64-v2/kernels.ptx";
    let opened = open(&bytes, None, None).unwrap();
    let part = opened.part(name).unwrap();
    let at = bytes.windows(part.len()).position(|window| window == part).unwrap();
    for place in [0, part.len() / 2, part.len() - 1] {
        let mut damaged = bytes.clone();
        damaged[at + place] ^= 1;
        let error = open(&damaged, None, None).unwrap_err();
        assert!(
            error.code() == code::PACKAGE && error.message.starts_with(&format!("entry `{name}`: its contents are damaged")),
            "{error}"
        );
    }
}

#[test]
fn simulated_gpus_run_packages_too() {
    disc::simt::register();
    let opened = open(&package(&[HOST, "simt:gfx942 on x86-64-v2"]), None, None).unwrap();
    assert!(opened.part("targets/simt-gfx942/x86-64-v2/kernels.disc").is_some());
    let [expected, found] = [None, Some("simt:gfx942")].map(|device| run(&mut session(&opened, device), 3));
    assert_eq!(found, expected);
    assert!(
        opened.executable(Some("simt:sm_90")).err().unwrap().message.contains("no code that runs on the device `simt:sm_90`")
    );
}

const CACHED: &str = "func @main(%x: tensor<[N]xf32>) -> tensor<[N]xf32> {
  %y = add %x, %x : tensor<[N]xf32>
  return %y : tensor<[N]xf32>
}
";

const CACHE: &str = "DISC_TEST_CACHE";

/// Compiles for a device with a cache, and runs. Returns the outcome of the lookup.
fn compiled(device: &str, cache: &Folder) -> Outcome {
    let options = Options { device: Some(device.into()), ..cache.options() };
    let artifact = disc::compile_text(CACHED, &options).unwrap();
    let image = artifact.image.as_ref().unwrap();
    assert_eq!(image.kernels.iter().map(ToString::to_string).collect::<Vec<_>>(), artifact.meta.grids);
    assert!(!image.kernels.is_empty() && !image.code.is_empty());
    let executable = artifact.load(Vec::<(String, Weight)>::new(), &options).unwrap();
    let (input, mut outputs) = (HostTensor::new(&[2], &[1.5_f32, -2.0]).unwrap(), HostOutputs::new());
    executable.with_session(|session| executable.run(0, session, &[input.as_input()], &mut outputs)).unwrap();
    let expected: Vec<u8> = [3.0_f32, -4.0].iter().flat_map(|x| x.to_le_bytes()).collect();
    assert_eq!(outputs.tensor(0).unwrap().bytes(), expected);
    artifact.report.cache
}

#[test]
fn a_second_process_compiles_nothing_for_a_gpu() {
    FakeCuda::load();
    if let Some(path) = std::env::var_os(CACHE) {
        let folder = std::mem::ManuallyDrop::new(Folder(path.into()));
        assert_eq!(["cuda:0", "simt:sm_90"].map(|device| compiled(device, &folder)), [Outcome::Hit; 2]);
        return;
    }
    let folder = Folder::new("device-cache");
    assert_eq!(["cuda:0", "simt:sm_90"].map(|device| compiled(device, &folder)), [Outcome::Miss; 2]);
    assert_eq!(folder.entries(Level::Code).len(), 2);
    in_child("a_second_process_compiles_nothing_for_a_gpu", &[(CACHE, &folder.0)]);
    // An entry that is cut short is compiled again.
    let files = folder.entries(Level::Code);
    files.iter().for_each(|file| fs::write(file, &fs::read(file).unwrap()[..2000]).unwrap());
    assert_eq!(["cuda:0", "simt:sm_90"].map(|device| compiled(device, &folder)), [Outcome::Miss; 2]);
}
