//! Tests versions for constant sizes: they join in the background, give the same bits, share the
//! weights, and can be turned off.
use disc::{
    Executable, Options, Specialize, background, compile, parse,
    ral::{HostOutputs, HostTensor, Weight},
};
use std::{
    sync::atomic::{AtomicU64, Ordering::Relaxed},
    thread,
    time::{Duration, Instant},
};

/// A product with packed weights, and a row of rational functions.
const PROGRAM: &str = "
weight @w : tensor<48x40xf32>
weight @b : tensor<40xf32>
func @main(%x: tensor<[B]x[S]x48xf32>) -> tensor<[B]x[S]x40xf32> {
  %w = weight @w : tensor<48x40xf32>
  %b = weight @b : tensor<40xf32>
  %p = dot_general %x, %w, lhs_contracting_dims = [2], rhs_contracting_dims = [0] : (tensor<[B]x[S]x48xf32>, tensor<48x40xf32>) -> tensor<[B]x[S]x40xf32>
  %c = broadcast_in_dim %b, dims = [2] : (tensor<40xf32>) -> tensor<[B]x[S]x40xf32>
  %s = add %p, %c : tensor<[B]x[S]x40xf32>
  %t = tanh %s : tensor<[B]x[S]x40xf32>
  return %t : tensor<[B]x[S]x40xf32>
}";

fn tensor(sizes: &[i64], seed: f32) -> HostTensor {
    let count = sizes.iter().product::<i64>() as usize;
    let values: Vec<f32> = (0..count).map(|i| ((i as f32) * 0.37 + seed).sin()).collect();
    HostTensor::new(sizes, &values).unwrap()
}

fn weights(seed: f32) -> Vec<(String, Weight)> {
    vec![("w".into(), tensor(&[48, 40], seed).into()), ("b".into(), tensor(&[40], seed).into())]
}

fn options(specialize: Specialize) -> Options {
    Options { threads: Some(1), specialize, ..Options::default() }
}

fn load(program: &str, specialize: Specialize) -> Executable {
    let options = options(specialize);
    let artifact = compile(parse(program).unwrap(), &options).unwrap();
    let given = weights(1.0).into_iter().filter(|(name, _)| program.contains(&format!("@{name} :"))).collect();
    artifact.load(given, &options).unwrap()
}

fn run(executable: &Executable, inputs: &[&HostTensor]) -> Vec<u8> {
    let references: Vec<_> = inputs.iter().map(|input| input.as_input()).collect();
    let mut outputs = HostOutputs::new();
    executable.with_session(|session| executable.run(0, session, &references, &mut outputs)).unwrap();
    outputs.tensor(0).unwrap().bytes().to_vec()
}

/// A deadline that holds on a busy machine.
const PATIENCE: Duration = Duration::from_secs(900);

/// Returns the number of versions that were asked for.
fn orders(executable: &Executable) -> usize {
    let report = executable.specializations();
    report.pending + report.compiled
}

/// Calls with this input, at least twice, until `count` versions were asked for: an offer may be
/// refused for a moment. Returns the number of calls.
fn call_until_asked(executable: &Executable, input: &HostTensor, count: usize) -> u64 {
    let (start, mut calls) = (Instant::now(), 0);
    while calls < 2 || orders(executable) < count {
        assert!(start.elapsed() < PATIENCE, "{calls} calls: {:?}", executable.specializations());
        run(executable, &[input]);
        calls += 1;
    }
    calls
}

#[test]
fn a_shape_that_comes_again_gets_a_version_with_the_same_bits() {
    let (general, tiered) = (load(PROGRAM, Specialize::Off), load(PROGRAM, Specialize::Always));
    let (hot, other) = (tensor(&[2, 7, 48], 0.1), tensor(&[3, 5, 48], 0.2));
    let expected = run(&general, &[&hot]);
    assert_eq!(run(&tiered, &[&hot]), expected);
    let calls = 1 + call_until_asked(&tiered, &hot, 1);
    background::wait();
    let report = tiered.specializations();
    assert_eq!((report.compiled, report.pending, report.versions.len()), (1, 0, 1), "{report:?}");
    let before = report.versions[0].hits;
    assert!((0..5).all(|_| run(&tiered, &[&hot]) == expected));
    assert_eq!(run(&tiered, &[&other]), run(&general, &[&other]));

    let report = tiered.specializations();
    let version = &report.versions[0];
    assert_eq!((&*version.dims, version.hits), ("B = 2, S = 7", before + 5));
    assert!(version.code_bytes > 0 && version.compile_ms > 0.0 && report.compile_ms >= version.compile_ms);
    assert_eq!(tiered.calls(), calls + 6, "calls of versions count, those of the trial do not");
    assert_eq!((version.weight_bytes, tiered.weight_bytes()), (0, general.weight_bytes()), "packed weights are shared");
}

#[test]
fn off_means_off_and_constant_sizes_need_nothing() {
    let hot = tensor(&[2, 7, 48], 0.1);
    let fixed = PROGRAM.replace("[B]", "2").replace("[S]", "7");
    for executable in [load(PROGRAM, Specialize::Off), load(&fixed, Specialize::Always)] {
        (0..5).for_each(|_| drop(run(&executable, &[&hot])));
        background::wait();
        let report = executable.specializations();
        assert_eq!((report.compiled, report.versions.len(), executable.calls()), (0, 0, 5));
    }
}

#[test]
fn a_hot_shape_is_tried_and_the_record_says_what_came_of_it() {
    let executable = load(PROGRAM, Specialize::Auto);
    let hot = tensor(&[4, 64, 48], 0.1);
    run(&executable, &[&hot]);
    background::wait();
    assert_eq!(executable.specializations().compiled, 0, "one call makes no shape hot");
    call_until_asked(&executable, &hot, 1);
    background::wait();
    let report = executable.specializations();
    assert_eq!((report.compiled, report.versions.len() + report.rejected.len()), (1, 1), "{report:?}");
    assert!(report.failed.is_empty());
}

#[test]
fn likely_values_are_specialised_at_their_first_call_and_other_dims_stay() {
    let program = PROGRAM.replace("tensor<[B]x[S]x40xf32> {", "tensor<[B]x[S]x40xf32> where S likely [7, 8] {");
    let (plain, executable) = (load(PROGRAM, Specialize::Always), load(&program, Specialize::Always));
    let [one, two, three] = [[2, 7], [5, 7], [2, 9]].map(|[b, s]| tensor(&[b, s, 48], 0.1));
    for given in [&one, &three] {
        assert_eq!(run(&executable, &[given]), run(&plain, &[given]));
    }
    let start = Instant::now();
    while orders(&executable) == 0 {
        assert!(start.elapsed() < PATIENCE);
        run(&executable, &[&one]);
    }
    background::wait();
    let report = executable.specializations();
    assert_eq!(report.versions.iter().map(|version| &*version.dims).collect::<Vec<_>>(), ["S = 7"], "{report:?}");
    run(&executable, &[&two]);
    assert_eq!(executable.specializations().versions[0].hits, 1, "the other dim may have any value");
    assert_eq!(plain.specializations().compiled, 0, "without the fact one call is no reason");
}

#[test]
fn versions_read_the_weights_of_a_refresh() {
    let (general, tiered) = (load(PROGRAM, Specialize::Off), load(PROGRAM, Specialize::Always));
    let hot = tensor(&[2, 7, 48], 0.1);
    call_until_asked(&tiered, &hot, 1);
    background::wait();
    for executable in [&general, &tiered] {
        executable.refresh(weights(5.0)).unwrap();
    }
    assert_eq!(run(&tiered, &[&hot]), run(&general, &[&hot]));
    assert_eq!(tiered.specializations().versions[0].hits, 1);

    // While a compilation is running.
    let late = tensor(&[1, 9, 48], 0.1);
    call_until_asked(&tiered, &late, 2);
    for executable in [&general, &tiered] {
        executable.refresh(weights(6.0)).unwrap();
    }
    background::wait();
    assert_eq!(run(&tiered, &[&late]), run(&general, &[&late]));
    assert_eq!(tiered.specializations().versions.len(), 2);
}

#[test]
fn an_executable_may_go_away_while_its_version_is_compiled() {
    for _ in 0..3 {
        let executable = load(PROGRAM, Specialize::Always);
        let hot = tensor(&[2, 7, 48], 0.1);
        call_until_asked(&executable, &hot, 1);
        drop(executable);
    }
    background::wait();
}

#[test]
fn many_threads_call_while_versions_join() {
    let (general, tiered) = (load(PROGRAM, Specialize::Off), load(PROGRAM, Specialize::Always));
    let (start, calls) = (Instant::now(), AtomicU64::new(0));
    thread::scope(|scope| {
        for worker in 0..4 {
            let (general, tiered, calls) = (&general, &tiered, &calls);
            scope.spawn(move || {
                let given: Vec<HostTensor> = (1..4).map(|s| tensor(&[2, s, 48], worker as f32)).collect();
                let expected: Vec<Vec<u8>> = given.iter().map(|x| run(general, &[x])).collect();
                // Until all versions have joined, and with them.
                for round in 0.. {
                    if round % 200 == 0 && round > 0 && tiered.specializations().versions.len() == 3 {
                        break;
                    }
                    assert!(start.elapsed() < PATIENCE, "{:?}", tiered.specializations());
                    assert_eq!(run(tiered, &[&given[round % 3]]), expected[round % 3]);
                    calls.fetch_add(1, Relaxed);
                    if round > 200 {
                        // The thread that compiles yields to all others.
                        thread::sleep(Duration::from_millis(2));
                    }
                }
            });
        }
    });
    background::wait();
    let report = tiered.specializations();
    let calls = calls.into_inner();
    assert_eq!((report.versions.len(), report.compiled, tiered.calls()), (3, 3, calls), "each shape once: {report:?}");
}

#[test]
fn a_compilation_that_fails_is_counted_and_calls_go_on() {
    let artifact = compile(parse(PROGRAM).unwrap(), &options(Specialize::Always)).unwrap();
    let broken = Options { dump: Some("/dev/null/nowhere".into()), ..options(Specialize::Always) };
    let executable = artifact.load(weights(1.0), &broken).unwrap();
    let hot = tensor(&[2, 7, 48], 0.1);
    let first = run(&executable, &[&hot]);
    call_until_asked(&executable, &hot, 1);
    background::wait();
    let report = executable.specializations();
    assert_eq!((report.compiled, report.versions.len(), report.failed.len()), (1, 0, 1), "{report:?}");
    assert!(report.failed[0].0 == "B = 2, S = 7" && report.failed[0].1.contains("E0700"), "{report:?}");
    assert_eq!(run(&executable, &[&hot]), first);
}

#[test]
fn versions_are_bounded_in_number_and_large_inputs_are_left_alone() {
    let program = "func @main(%x: tensor<[N]xf32>) -> tensor<[N]xf32> {
      %y = exponential %x : tensor<[N]xf32>
      return %y : tensor<[N]xf32>
    }";
    let executable = load(program, Specialize::Always);
    let large = tensor(&[(16 << 20) / 4 + 1], 0.0);
    // Nothing is asked of the queue, but the ledger may be in other hands.
    let start = Instant::now();
    while executable.specializations().rejected.is_empty() {
        assert!(start.elapsed() < PATIENCE);
        run(&executable, &[&large]);
    }
    for size in 1..12 {
        let x = tensor(&[size], 0.5);
        call_until_asked(&executable, &x, (size as usize).min(8));
        background::wait();
    }
    let report = executable.specializations();
    assert_eq!((report.compiled, report.versions.len()), (8, 8), "{report:?}");
    assert_eq!(report.rejected.len(), 1, "{report:?}");
    assert!(report.rejected[0].1.contains("copies at most"), "{report:?}");
}
