//! Tests code whose functions are compiled as calls need them: a call gives the same bits whichever
//! functions are there.
use disc::{
    Artifact, Executable, Options, background, compile, compile_first, parse,
    ral::{HostOutputs, HostTensor, Weight},
};
use std::thread;

/// A matmul of any number of rows: of its micro-kernels, one for each height, a call needs two.
const PROGRAM: &str = "
weight @w : tensor<64x96xf32>
func @main(%x: tensor<[N]x64xf32>) -> tensor<[N]x96xf32> {
  %w = weight @w : tensor<64x96xf32>
  %p = dot_general %x, %w, lhs_contracting_dims = [1], rhs_contracting_dims = [0] : (tensor<[N]x64xf32>, tensor<64x96xf32>) -> tensor<[N]x96xf32>
  %t = tanh %p : tensor<[N]x96xf32>
  %e = exponential %t : tensor<[N]x96xf32>
  %r = logistic %e : tensor<[N]x96xf32>
  return %r : tensor<[N]x96xf32>
}";

fn options() -> Options {
    Options { threads: Some(2), ..Options::default() }
}

fn tensor(sizes: &[i64]) -> HostTensor {
    let count = sizes.iter().product::<i64>();
    let values: Vec<f32> = (0..count).map(|i| ((i * 7919 % 997) as f32 - 400.5) / 250.0).collect();
    HostTensor::new(sizes, &values).unwrap()
}

fn load(artifact: &Artifact) -> Executable {
    artifact.load(vec![("w".to_owned(), Weight::from(tensor(&[64, 96])))], &options()).unwrap()
}

fn first(rows: i64) -> Artifact {
    compile_first(parse(PROGRAM).unwrap(), &options(), Some(&[vec![rows, 64]])).unwrap()
}

fn run(executable: &Executable, rows: i64) -> Vec<u8> {
    let x = tensor(&[rows, 64]);
    let mut outputs = HostOutputs::new();
    executable.with_session(|session| executable.run(0, session, &[x.as_input()], &mut outputs)).unwrap();
    outputs.tensor(0).unwrap().bytes().to_vec()
}

#[test]
fn a_call_of_other_sizes_waits_for_what_it_needs() {
    let whole = load(&compile(parse(PROGRAM).unwrap(), &options()).unwrap());
    for rows in [1, 5, 12, 23, 300] {
        let artifact = first(rows);
        assert!(artifact.report.deferred > 0, "all functions are compiled first");
        let executable = load(&artifact);
        for rows in [rows, 0, 1, 2, 7, 13, 64, 999, rows] {
            assert_eq!(run(&executable, rows), run(&whole, rows), "{rows} rows");
        }
    }
}

#[test]
fn the_first_call_waits_for_nothing_and_the_rest_follows_it() {
    let artifact = first(23);
    let executable = load(&artifact);
    background::wait();
    let before = artifact.is_whole();
    run(&executable, 23);
    background::wait();
    assert_eq!((before, artifact.is_whole()), (false, true));
}

#[test]
fn many_threads_need_the_rest_at_once() {
    let whole = load(&compile(parse(PROGRAM).unwrap(), &options()).unwrap());
    let executable = load(&first(12));
    thread::scope(|scope| {
        for rows in 1..9 {
            let (executable, whole) = (&executable, &whole);
            scope.spawn(move || {
                for turn in 0..20 {
                    assert_eq!(run(executable, rows + turn), run(whole, rows + turn));
                }
            });
        }
    });
}

#[test]
fn code_that_is_asked_for_is_whole() {
    let artifact = first(12);
    let code = artifact.code().unwrap();
    assert!(artifact.is_whole());
    assert_eq!(artifact.code().unwrap(), code);
    // What was loaded before goes on in it, and what is loaded now begins in it.
    assert_eq!(run(&load(&artifact), 5), run(&load(&compile(parse(PROGRAM).unwrap(), &options()).unwrap()), 5));
}

#[test]
fn sizes_that_do_not_fit_defer_nothing() {
    let artifact = compile_first(parse(PROGRAM).unwrap(), &options(), Some(&[])).unwrap();
    assert_eq!(artifact.report.deferred, 0);
    assert!(artifact.is_whole());
}
