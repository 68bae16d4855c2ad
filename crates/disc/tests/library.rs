//! Compares products by oneDNN, if it is installed, with generated kernels; and tests the choices
//! that are made and kept.
//!
//! Without the library all but one are ignored. They run one by one: products of the library are
//! counted for the whole process.
mod native;

use disc::{
    Error, Executable, LibraryChoice, Options,
    cache::{Cache, Level},
    compile, parse,
    ral::{HostOutput, HostOutputs, HostTensor, OneDnn, Policy, Weight},
};
use libtest_mimic::{Arguments, Trial};
use std::{
    path::{Path, PathBuf},
    process::ExitCode,
    sync::Arc,
};

const PLAIN: &str = "
func @main(%x: tensor<[M]x[K]xf32>, %y: tensor<[K]x[N]xf32>) -> tensor<[M]x[N]xf32> {
  %z = dot_general %x, %y, lhs_contracting_dims = [1], rhs_contracting_dims = [0] : (tensor<[M]x[K]xf32>, tensor<[K]x[N]xf32>) -> tensor<[M]x[N]xf32>
  return %z : tensor<[M]x[N]xf32>
}";

const COLUMNS: &str = "
func @main(%x: tensor<[K]x[M]xf32>, %y: tensor<[N]x[K]xf32>, %b: tensor<[N]xf32>) -> tensor<[M]x[N]xf32> {
  %z = dot_general %x, %y, lhs_contracting_dims = [0], rhs_contracting_dims = [1] : (tensor<[K]x[M]xf32>, tensor<[N]x[K]xf32>) -> tensor<[M]x[N]xf32>
  %bb = broadcast_in_dim %b, dims = [1] : (tensor<[N]xf32>) -> tensor<[M]x[N]xf32>
  %s = add %z, %bb : tensor<[M]x[N]xf32>
  %t = tanh %s : tensor<[M]x[N]xf32>
  return %t : tensor<[M]x[N]xf32>
}";

/// A linear layer of 37 features to 83 with a residual, whose weight is packed.
const LINEAR: &str = "
weight @w : tensor<83x37xf32>
func @main(%x: tensor<[B]x[S]x37xf32>, %r: tensor<[B]x[S]x83xf32>) -> tensor<[B]x[S]x83xf32> {
  %w = weight @w : tensor<83x37xf32>
  %z = dot_general %x, %w, lhs_contracting_dims = [2], rhs_contracting_dims = [1] : (tensor<[B]x[S]x37xf32>, tensor<83x37xf32>) -> tensor<[B]x[S]x83xf32>
  %s = add %z, %r : tensor<[B]x[S]x83xf32>
  %m = maximum %s, %r : tensor<[B]x[S]x83xf32>
  return %m : tensor<[B]x[S]x83xf32>
}";

/// Few columns with long sums: a kernel has a version for these.
const LONG_SUMS: &str = "
func @main(%x: tensor<[B]x[K]xf32>, %y: tensor<[K]x20xf32>) -> tensor<[B]x20xf32> {
  %z = dot_general %x, %y, lhs_contracting_dims = [1], rhs_contracting_dims = [0] : (tensor<[B]x[K]xf32>, tensor<[K]x20xf32>) -> tensor<[B]x20xf32>
  return %z : tensor<[B]x20xf32>
}";

fn main() -> ExitCode {
    let of_library: [(&str, fn()); 8] = [
        ("matrices_of_all_sizes", matrices_of_all_sizes),
        ("packed_weights_with_what_follows_them", packed_weights_with_what_follows_them),
        ("few_columns_with_long_sums", few_columns_with_long_sums),
        ("refreshed_weights_are_read", refreshed_weights_are_read),
        ("a_thread_limit_of_one_starts_no_thread", a_thread_limit_of_one_starts_no_thread),
        ("a_file_is_one_library_however_it_is_named", a_file_is_one_library_however_it_is_named),
        ("choices_are_measured_and_kept", choices_are_measured_and_kept),
        ("choices_are_for_the_target_of_the_code", choices_are_for_the_target_of_the_code),
    ];
    let missing = OneDnn::load(None).err();
    if let Some(reason) = &missing {
        println!("ignored without oneDNN: {reason}");
    }
    let trial = |name: &str, test: fn()| {
        Trial::test(name, move || {
            test();
            Ok(())
        })
    };
    let mut trials: Vec<Trial> =
        of_library.iter().map(|&(name, test)| trial(name, test).with_ignored_flag(missing.is_some())).collect();
    trials.push(trial("a_library_asked_for_by_name_has_to_be_there", a_library_asked_for_by_name_has_to_be_there));
    let arguments = Arguments { test_threads: Some(1), ..Arguments::from_args() };
    libtest_mimic::run(&arguments, trials).exit_code()
}

fn options(library: LibraryChoice, threads: usize) -> Options {
    Options { library, threads: Some(threads), ..Options::default() }
}

fn tensor(sizes: &[i64], seed: i64) -> HostTensor {
    let count = sizes.iter().product::<i64>();
    let values: Vec<f32> = (0..count).map(|i| ((i * 7919 + seed * 31) % 997) as f32 / 498.5 - 1.0).collect();
    HostTensor::new(sizes, &values).unwrap()
}

fn load(program: &str, options: &Options) -> Result<Executable, Error> {
    let weights = if program.contains("@w") { vec![("w".to_owned(), Weight::from(tensor(&[83, 37], 3)))] } else { Vec::new() };
    compile(parse(program)?, options)?.load(weights, options)
}

fn run(executable: &Executable, inputs: &[HostTensor]) -> Vec<f32> {
    let mut outputs = HostOutputs::new();
    let inputs: Vec<_> = inputs.iter().map(HostTensor::as_input).collect();
    executable.with_session(|session| executable.run(0, session, &inputs, &mut outputs)).unwrap();
    match outputs.take().remove(0) {
        Some(HostOutput::Fresh(tensor)) => tensor.elements().unwrap().to_vec(),
        _ => panic!("an output has memory of its own"),
    }
}

/// Runs a program by kernels and by the library. Returns the number of products that the library
/// computed.
fn compare(program: &str, threads: usize, inputs: &[Vec<HostTensor>]) -> u64 {
    let by_kernel = load(program, &options(LibraryChoice::Off, threads)).unwrap();
    let by_library = load(program, &options(LibraryChoice::OneDnn(None), threads)).unwrap();
    assert!(by_kernel.gemm().is_none());
    let products = by_library.gemm().unwrap();
    assert_eq!(products.policy(), Policy::Always);
    let mut computed = 0;
    for inputs in inputs {
        let before = products.counts()[0];
        let (found, expected) = (run(&by_library, inputs), run(&by_kernel, inputs));
        assert_eq!(found.len(), expected.len());
        let sizes: Vec<&[i64]> = inputs.iter().map(HostTensor::sizes).collect();
        for (i, (a, b)) in found.iter().zip(&expected).enumerate() {
            assert!((a - b).abs() <= 1e-4 + 1e-4 * b.abs(), "{sizes:?} on {threads} threads: element {i} is {a}, expected {b}");
        }
        assert_eq!(found, run(&by_library, inputs), "the same call gives the same bits");
        computed += products.counts()[0] - before;
    }
    computed
}

fn matrices_of_all_sizes() {
    let sizes = [[0, 3, 4], [3, 0, 4], [3, 4, 0], [1, 1, 1], [1, 64, 100], [2, 3, 5], [7, 129, 31], [97, 1, 13], [200, 130, 64]];
    for threads in [1, 2] {
        let plain = sizes.map(|[m, n, k]| vec![tensor(&[m, k], 1), tensor(&[k, n], 2)]);
        assert_eq!(compare(PLAIN, threads, &plain), 2 * 6);
        let columns = sizes.map(|[m, n, k]| vec![tensor(&[k, m], 1), tensor(&[n, k], 2), tensor(&[n], 5)]);
        assert_eq!(compare(COLUMNS, threads, &columns), 2 * 6);
    }
}

fn packed_weights_with_what_follows_them() {
    let sizes = [[0, 5], [1, 0], [1, 1], [1, 13], [3, 7], [2, 100], [1, 211]];
    for threads in [1, 2] {
        let inputs = sizes.map(|[b, s]| vec![tensor(&[b, s, 37], 1), tensor(&[b, s, 83], 2)]);
        assert_eq!(compare(LINEAR, threads, &inputs), 2 * 5);
    }
}

fn few_columns_with_long_sums() {
    let inputs = [[1, 600], [6, 9000], [8, 2048], [300, 2048]].map(|[b, k]| vec![tensor(&[b, k], 1), tensor(&[k, 20], 2)]);
    assert_eq!(compare(LONG_SUMS, 2, &inputs), 2 * 4);
    // A kernel with a version for these sizes is not compared with the library.
    let measured = load(LONG_SUMS, &options(LibraryChoice::Auto, 2)).unwrap();
    let products = measured.gemm().unwrap();
    let offered = || products.counts().iter().sum::<u64>();
    let before = offered();
    run(&measured, &inputs[1]);
    assert_eq!(offered(), before);
    run(&measured, &inputs[3]);
    assert_eq!(offered(), before + 1);
}

fn refreshed_weights_are_read() {
    let executable = load(LINEAR, &options(LibraryChoice::OneDnn(None), 1)).unwrap();
    let inputs = [tensor(&[1, 4, 37], 1), tensor(&[1, 4, 83], 2)];
    let before = run(&executable, &inputs);
    let held = executable.weight_bytes();
    executable.refresh(vec![("w".to_owned(), Weight::from(tensor(&[83, 37], 8)))]).unwrap();
    assert!(executable.weight_bytes().1 < held.1, "the plain form belongs to the weights that it was made of");
    assert_ne!(run(&executable, &inputs), before);
}

fn a_thread_limit_of_one_starts_no_thread() {
    let executable = load(PLAIN, &options(LibraryChoice::OneDnn(None), 1)).unwrap();
    let inputs = [tensor(&[300, 200], 1), tensor(&[200, 300], 2)];
    // Threads of the test harness exist before the first product, and end at any time.
    let threads = || {
        let tasks = std::fs::read_dir("/proc/self/task").unwrap().flatten();
        let names = tasks.filter_map(|task| std::fs::read_to_string(task.path().join("comm")).ok());
        names.filter(|name| name.trim() == std::fs::read_to_string("/proc/thread-self/comm").unwrap().trim()).count()
    };
    let before = threads();
    run(&executable, &inputs);
    assert_eq!(threads(), before, "threads that a library starts have the name of their maker");
}

fn a_library_asked_for_by_name_has_to_be_there() {
    let path = LibraryChoice::OneDnn(Some(PathBuf::from("/nowhere/libdnnl.so")));
    let error = compile(parse(PLAIN).unwrap(), &options(path, 1)).err().unwrap().to_string();
    assert!(error.contains("oneDNN") && error.contains("/nowhere/libdnnl.so"), "{error}");
}

fn a_file_is_one_library_however_it_is_named() {
    // Any product loads the library.
    load(PLAIN, &options(LibraryChoice::OneDnn(None), 1)).unwrap();
    let maps = std::fs::read_to_string("/proc/self/maps").unwrap();
    let mapped = maps.lines().filter_map(|line| line.split_once('/')).map(|(_, path)| PathBuf::from(format!("/{path}")));
    let file = mapped.into_iter().find(|path| path.to_string_lossy().contains("libdnnl.so")).unwrap();
    let folder = std::env::temp_dir().join(format!("disc-library-{}", std::process::id()));
    std::fs::create_dir_all(&folder).unwrap();
    let link = folder.join("another name");
    std::os::unix::fs::symlink(&file, &link).unwrap();
    let products = |path: PathBuf| {
        let executable = load(PLAIN, &options(LibraryChoice::OneDnn(Some(path)), 1)).unwrap();
        Arc::clone(executable.gemm().unwrap())
    };
    assert!(Arc::ptr_eq(&products(file), &products(link)));
    std::fs::remove_dir_all(folder).unwrap();
}

fn choices_are_for_the_target_of_the_code() {
    let products = |target: &str| {
        let options = Options { target: Some(target.to_owned()), ..options(LibraryChoice::Auto, 1) };
        Arc::clone(load(PLAIN, &options).unwrap().gemm().unwrap())
    };
    let all: Vec<_> = native::levels().iter().map(|level| products(level.name())).collect();
    for (level, known) in native::levels().iter().zip(&all) {
        let sharing = all.iter().filter(|other| Arc::ptr_eq(other, known)).count();
        assert!(sharing == 1 && Arc::ptr_eq(known, &products(level.name())), "{}", level.name());
    }
}

fn choices_are_measured_and_kept() {
    let folder = std::env::temp_dir().join(format!("disc-choices-{}", std::process::id()));
    let options = Options { cache: Some(folder.clone()), ..options(LibraryChoice::Auto, 1) };
    let executable = load(PLAIN, &options).unwrap();
    let products = executable.gemm().unwrap();
    assert_eq!(products.policy(), Policy::Measured);
    for rows in [0, 0] {
        run(&executable, &[tensor(&[rows, 64], 1), tensor(&[64, 96], 2)]);
    }
    assert_eq!(products.counts(), [0, 0], "nothing is learnt from no rows");
    let inputs = [tensor(&[24, 64], 1), tensor(&[64, 96], 2)];
    for _ in 0..8 {
        assert_eq!(products.decisions().len(), 0);
        run(&executable, &inputs);
    }
    let [decision] = products.decisions()[..] else { panic!("one class of sizes") };
    assert_eq!([decision.key.rows, decision.key.columns, decision.key.sums, decision.key.threads.into()], [32, 96, 64, 1]);
    assert_eq!(products.counts(), [4, 4]);
    assert_eq!(entries(&folder), 1);
    // Rows of the same class are decided, others are not.
    run(&executable, &[tensor(&[31, 64], 1), tensor(&[64, 96], 2)]);
    assert_eq!(products.decisions().len(), 1);
    Cache::new(&folder).clear();
    assert_eq!(entries(&folder), 0);
    std::fs::remove_dir_all(folder).unwrap();
}

fn entries(folder: &Path) -> usize {
    std::fs::read_dir(folder.join(Level::Choices.name())).map_or(0, Iterator::count)
}
