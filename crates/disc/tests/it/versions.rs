//! Tests the version of a group that runs, by the kernels that calls of one compilation launch.
use disc::{
    Executable, Options, compile, parse,
    ral::{HostOutput, HostOutputs, HostTensor},
};
use disc_codegen::target::Target;

pub(super) use crate::programs::SOFTMAX;

pub(super) const SUMS: &str = "
func @main(%x: tensor<[B]x[S]xf32>) -> tensor<[B]xf32> {
  %z = constant dense<0.0> : tensor<f32>
  %s = reduce %x, %z, dims = [1] : (tensor<[B]x[S]xf32>, tensor<f32>) -> tensor<[B]xf32> applies add
  %t = tanh %s : tensor<[B]xf32>
  return %t : tensor<[B]xf32>
}";
/// Sums of six neighbours, without what is left of a row.
const SIXES: &str = "
func @main(%x: tensor<[N]x[C]xf32>) -> tensor<[N]x[C/6]xf32> {
  %z = constant dense<0.0> : tensor<f32>
  %s = slice %x [0:N:1, 0:6*(C/6):1] : (tensor<[N]x[C]xf32>) -> tensor<[N]x[6*(C/6)]xf32>
  %r = reshape %s : (tensor<[N]x[6*(C/6)]xf32>) -> tensor<[N]x[C/6]x6xf32>
  %t = reduce %r, %z, dims = [2] : (tensor<[N]x[C/6]x6xf32>, tensor<f32>) -> tensor<[N]x[C/6]xf32> applies add
  return %t : tensor<[N]x[C/6]xf32>
}";

pub(super) const COLUMNS: &str = "
func @main(%x: tensor<[B]x[S]xf32>) -> tensor<[B]x[S]xf32> {
  %z = constant dense<0.0> : tensor<f32>
  %a = abs %x : tensor<[B]x[S]xf32>
  %s = reduce %a, %z, dims = [0] : (tensor<[B]x[S]xf32>, tensor<f32>) -> tensor<[S]xf32> applies add
  %sb = broadcast_in_dim %s, dims = [1] : (tensor<[S]xf32>) -> tensor<[B]x[S]xf32>
  %o = divide %x, %sb : tensor<[B]x[S]xf32>
  return %o : tensor<[B]x[S]xf32>
}";

pub(super) fn load(program: &str, threads: usize) -> Executable {
    load_on(None, program, threads)
}

pub(super) fn load_on(device: Option<&str>, program: &str, threads: usize) -> Executable {
    let options = Options { device: device.map(str::to_owned), threads: Some(threads), ..Options::default() };
    compile(parse(program).unwrap(), &options).unwrap().load(Vec::new(), &options).unwrap()
}

/// Threshold for non-temporal stores, whatever the caches of this machine.
pub(super) const NONTEMPORAL_BYTES: i64 = 64 << 20;

/// Returns the kernels that a call launches, its input and its results.
fn run(executable: &Executable, [rows, columns]: [i64; 2]) -> (Vec<String>, Vec<f32>, Vec<Vec<f32>>) {
    let values: Vec<f32> = (0..rows * columns).map(|i| ((i * 7919 % 997) as f32 - 400.5) / 250.0).collect();
    let input = HostTensor::new(&[rows, columns], &values).unwrap();
    let mut outputs = HostOutputs::new();
    let launches = executable.with_session(|session| {
        session.nontemporal_from(NONTEMPORAL_BYTES);
        session.start_profile();
        executable.run(0, session, &[input.as_input()], &mut outputs).unwrap();
        session.take_profile()
    });
    let names = launches.iter().map(|launch| launch.name.as_deref().expect("code has names").to_owned()).collect();
    let tensors = outputs.take().into_iter().map(|output| match output {
        Some(HostOutput::Fresh(tensor)) => tensor.elements().unwrap().to_vec(),
        _ => panic!("an output has memory of its own"),
    });
    (names, values, tensors.collect())
}

pub(super) fn close(found: &[f32], expected: impl Iterator<Item = f64>, what: &str) {
    let mut count = 0;
    for (i, (&a, b)) in found.iter().zip(expected).enumerate() {
        assert!((f64::from(a) - b).abs() <= 1e-7 + 2e-5 * b.abs(), "{what}: element {i} is {a}, expected {b}");
        count += 1;
    }
    assert_eq!(count, found.len(), "{what}");
}

fn softmax(values: &[f32], columns: usize) -> impl Iterator<Item = f64> + '_ {
    values.chunks(columns.max(1)).flat_map(|row| {
        let most = row.iter().copied().fold(f32::NEG_INFINITY, f32::max);
        let powers: Vec<f64> = row.iter().map(|&x| f64::from(x - most).exp()).collect();
        let sum: f64 = powers.iter().sum();
        powers.into_iter().map(move |p| p / sum)
    })
}

#[test]
fn rows_are_whole_side_by_side_or_split_by_their_sizes() {
    let split: &[&str] =
        &["k0_reduction_split0", "k0_reduction_combine0", "k0_reduction_split1", "k0_reduction_combine1", "k0_reduction_ends"];
    let executables = [load(SOFTMAX, 1), load(SOFTMAX, 2)];
    for ([rows, columns], expected) in [
        ([3, 100], &["k0_reduction_multirow"][..]),
        ([65, 8], &["k0_reduction_lanes"]),
        ([65, 9], &["k0_reduction_multirow"]),
        ([2, 1025], &["k0_reduction"]),
        ([1, 131_072], &["k0_reduction"]),
        ([1, 131_073], split),
        ([7, 40_001], split),
        ([8, 40_001], &["k0_reduction"]),
        ([2100, 256], &["k0_reduction_multirow"]),
        ([2100, 257], &["k0_reduction"]),
        ([2000, 257], &["k0_reduction_multirow"]),
        ([0, 5], &["k0_reduction"]),
        ([1, 1], &["k0_reduction_multirow"]),
    ] {
        let [one, two] = executables.each_ref().map(|executable| run(executable, [rows, columns]));
        let launched: Vec<&str> = one.0.iter().map(String::as_str).collect();
        let expected = if rows == 0 { &[][..] } else { expected };
        assert!(rows == 0 || launched == expected, "{rows} x {columns}: {launched:?}");
        close(&one.2[0], softmax(&one.1, columns as usize), &format!("{rows} x {columns}"));
        assert!(one.2[0].iter().zip(&two.2[0]).all(|(a, b)| a.to_bits() == b.to_bits()), "threads do not change bits");
    }
    assert_eq!(executables[0].report().unwrap().kernels, 1, "one launch of the general version");
}

/// A softmax of a sort's result, before others: its input and its result are parts of the arena,
/// one of which may reuse the other.
fn between_sorts(other: &str) -> String {
    let softmax: Vec<&str> = SOFTMAX.lines().filter(|line| line.starts_with("  %")).collect();
    BETWEEN_SORTS.replace("{softmax}", &softmax.join("\n")).replace("{other}", other)
}

const BETWEEN_SORTS: &str = "
func @main(%in: tensor<[B]x[S]xf32>) -> (tensor<[B]x[S]xf32>, tensor<[B]x[S]xf32>) {
  %x, %i = top_k %in, k = [S] : (tensor<[B]x[S]xf32>) -> (tensor<[B]x[S]xf32>, tensor<[B]x[S]xi32>)
{softmax}
  %w = multiply %o, {other} : tensor<[B]x[S]xf32>
  %v, %j = top_k %w, k = [S] : (tensor<[B]x[S]xf32>) -> (tensor<[B]x[S]xf32>, tensor<[B]x[S]xi32>)
  %u, %k = top_k %o, k = [S] : (tensor<[B]x[S]xf32>) -> (tensor<[B]x[S]xf32>, tensor<[B]x[S]xi32>)
  return %v, %u : (tensor<[B]x[S]xf32>, tensor<[B]x[S]xf32>)
}";

/// A phase keeps its values in the memory of an output, so that parts of rows need no more memory
/// than rows do; unless later phases read an input whose memory the output may reuse.
#[test]
fn parts_keep_elements_in_the_memory_of_outputs() {
    let executable = load(SOFTMAX, 2);
    let (launched, values, found) = run(&executable, [3, 100_003]);
    assert_eq!(launched.last().map(String::as_str), Some("k0_reduction_ends"));
    close(&found[0], softmax(&values, 100_003), "the powers lie where the result will be");
    let peak = executable.with_session(|session| session.peak_arena_bytes());
    assert!(peak < 1 << 16, "{peak} bytes, where the powers have {}", 4 * 3 * 100_003);
    let columns = 100_003;
    for other in ["%o", "%x"] {
        let executable = load(&between_sorts(other), 2);
        let (launched, values, found) = run(&executable, [3, columns]);
        assert!(launched.iter().any(|name| name.ends_with("_reduction_ends")), "{launched:?}");
        let mut expected = [Vec::new(), Vec::new()];
        for row in values.chunks(columns as usize) {
            let powers: Vec<f64> = softmax(row, columns as usize).collect();
            let weighed = powers.iter().zip(row).map(|(p, &x)| p * if other == "%o" { *p } else { f64::from(x) }).collect();
            for (all, mut one) in expected.iter_mut().zip([weighed, powers.clone()]) {
                one.sort_by(|a: &f64, b| b.total_cmp(a));
                all.extend(one);
            }
        }
        for (number, expected) in expected.into_iter().enumerate() {
            close(&found[number], expected.into_iter(), &format!("softmax times {other}, result {number}"));
        }
    }
}

/// A norm that returns the mean of each row, and scales the deviations by a value that is constant
/// in a row.
const MEANS: &str = "
func @main(%x: tensor<[B]x[S]xf32>) -> (tensor<[B]x[S]xf32>, tensor<[B]xf32>) {
  %z = constant dense<0.0> : tensor<f32>
  %h = constant dense<0.5> : tensor<[B]xf32>
  %n = dim value = [S] : tensor<i64>
  %ns = convert %n : (tensor<i64>) -> tensor<f32>
  %s = reduce %x, %z, dims = [1] : (tensor<[B]x[S]xf32>, tensor<f32>) -> tensor<[B]xf32> applies add
  %nb = broadcast_in_dim %ns, dims = [] : (tensor<f32>) -> tensor<[B]xf32>
  %m = divide %s, %nb : tensor<[B]xf32>
  %mb = broadcast_in_dim %m, dims = [0] : (tensor<[B]xf32>) -> tensor<[B]x[S]xf32>
  %d = subtract %x, %mb : tensor<[B]x[S]xf32>
  %q = multiply %d, %d : tensor<[B]x[S]xf32>
  %v = reduce %q, %z, dims = [1] : (tensor<[B]x[S]xf32>, tensor<f32>) -> tensor<[B]xf32> applies add
  %w = divide %v, %nb : tensor<[B]xf32>
  %wh = add %w, %h : tensor<[B]xf32>
  %r = rsqrt %wh : tensor<[B]xf32>
  %rb = broadcast_in_dim %r, dims = [0] : (tensor<[B]xf32>) -> tensor<[B]x[S]xf32>
  %o = multiply %d, %rb : tensor<[B]x[S]xf32>
  return %o, %m : (tensor<[B]x[S]xf32>, tensor<[B]xf32>)
}";

#[test]
fn values_of_rows_are_computed_in_each_phase_and_written_once() {
    let executable = load(MEANS, 2);
    let split: &[&str] =
        &["k0_reduction_split0", "k0_reduction_combine0", "k0_reduction_split1", "k0_reduction_combine1", "k0_reduction_ends"];
    for ([rows, columns], expected) in [([3, 100], &["k0_reduction_multirow"][..]), ([5, 60_001], split), ([1, 300_007], split)] {
        let (launched, values, outputs) = run(&executable, [rows, columns]);
        assert_eq!(launched, expected, "{rows} x {columns}");
        let of_row = |row: &[f32]| {
            let mean = row.iter().map(|&x| f64::from(x)).sum::<f64>() / row.len() as f64;
            let variance = row.iter().map(|&x| (f64::from(x) - mean).powi(2)).sum::<f64>() / row.len() as f64;
            (mean, (variance + 0.5).sqrt())
        };
        let moments: Vec<(f64, f64)> = values.chunks(columns as usize).map(of_row).collect();
        close(&outputs[1], moments.iter().map(|m| m.0), &format!("means of {rows} x {columns}"));
        let of = |(i, &x): (usize, &f32)| {
            let (mean, scale) = moments[i / columns as usize];
            (f64::from(x) - mean) / scale
        };
        close(&outputs[0], values.iter().enumerate().map(of), &format!("{rows} x {columns}"));
    }
}

#[test]
fn short_rows_are_side_by_side_where_many_are_neighbours() {
    let executable = load(SIXES, 1);
    for ([rows, columns], expected) in
        [([100, 7], "k0_reduction"), ([100, 101], "k0_reduction"), ([100, 105], "k0_reduction_lanes"), ([3, 105], "k0_reduction")]
    {
        let (launched, values, results) = run(&executable, [rows, columns]);
        assert_eq!(launched, [expected], "{rows} x {columns}");
        let sums = values
            .chunks(columns as usize)
            .flat_map(|row| row.chunks_exact(6).map(|six| six.iter().map(|&x| f64::from(x)).sum()));
        close(&results[0], sums, &format!("{rows} x {columns}"));
    }
}

#[test]
fn sums_of_few_long_rows_are_split() {
    let executable = load(SUMS, 2);
    for ([rows, columns], expected) in [
        ([40, 10], &["k0_reduction_multirow"][..]),
        ([3, 2000], &["k0_reduction"]),
        ([1, 200_000], &["k0_reduction_split", "k0_reduction_combine"]),
        ([100, 4], &["k0_reduction_lanes"]),
    ] {
        let (launched, values, found) = run(&executable, [rows, columns]);
        assert_eq!(launched, expected, "{rows} x {columns}");
        let sums = values.chunks(columns as usize).map(|row| row.iter().copied().map(f64::from).sum::<f64>().tanh());
        close(&found[0], sums, &format!("{rows} x {columns}"));
    }
}

#[test]
fn long_columns_of_several_phases_are_split() {
    let executable = load(COLUMNS, 2);
    let split: &[&str] = &["k0_reduction_split0", "k0_reduction_combine0", "k0_reduction_ends"];
    for ([rows, columns], expected) in [([50, 1000], &["k0_reduction"][..]), ([90_001, 3], split), ([20_011, 30], split)] {
        let (launched, values, found) = run(&executable, [rows, columns]);
        assert_eq!(launched, expected, "{rows} x {columns}");
        let columns = columns as usize;
        let sum = |c: usize| values.iter().skip(c).step_by(columns).map(|x| f64::from(x.abs())).sum::<f64>();
        let sums: Vec<f64> = (0..columns).map(sum).collect();
        close(
            &found[0],
            values.iter().enumerate().map(|(i, &x)| f64::from(x) / sums[i % columns]),
            &format!("{rows} x {columns}"),
        );
    }
}

/// Rows with a data-dependent count: it is unknown when the arena is sized.
const COUNTED: &str = "
func @main(%x: tensor<[B]x[S]xf32>) -> tensor<[K]x[S]xf32> {
  %z = constant dense<0.0> : tensor<f32>
  %zero = constant dense<0> : tensor<i64>
  %c = constant dense<0> : tensor<i64>
  %cb = broadcast_in_dim %c, dims = [] : (tensor<i64>) -> tensor<1xi64>
  %first = gather %x, %cb, offset_dims = [0], collapsed_slice_dims = [1], start_index_map = [1], index_vector_dim = 0, slice_sizes = [B, 1], bounds = check : (tensor<[B]x[S]xf32>, tensor<1xi64>) -> tensor<[B]xf32>
  %none = constant dense<0.0> : tensor<[B]xf32>
  %mask = compare %first, %none, direction = LT : (tensor<[B]xf32>, tensor<[B]xf32>) -> tensor<[B]xi1>
  %ones = convert %mask : (tensor<[B]xi1>) -> tensor<[B]xi64>
  %n = reduce %ones, %zero, dims = [0] : (tensor<[B]xi64>, tensor<i64>) -> tensor<i64> applies add
  bind_dim %n, dim = [K] : tensor<i64>
  %p = nonzero %mask : (tensor<[B]xi1>) -> tensor<[K]xi64>
  %y = gather %x, %p, offset_dims = [1], collapsed_slice_dims = [0], start_index_map = [0], index_vector_dim = 1, slice_sizes = [1, S], bounds = check : (tensor<[B]x[S]xf32>, tensor<[K]xi64>) -> tensor<[K]x[S]xf32>
  %a = abs %y : tensor<[K]x[S]xf32>
  %s = reduce %a, %z, dims = [1] : (tensor<[K]x[S]xf32>, tensor<f32>) -> tensor<[K]xf32> applies add
  %sb = broadcast_in_dim %s, dims = [0] : (tensor<[K]xf32>) -> tensor<[K]x[S]xf32>
  %o = divide %y, %sb : tensor<[K]x[S]xf32>
  return %o : tensor<[K]x[S]xf32>
}";

#[test]
fn rows_that_data_counts_are_split_too() {
    let executable = load(COUNTED, 2);
    for ([rows, columns], is_split) in [([6, 100], false), ([6, 120_011], true), ([7, 90_001], true)] {
        let (launched, values, found) = run(&executable, [rows, columns]);
        let what = format!("{rows} x {columns}: {launched:?}");
        assert_eq!(launched.iter().any(|name| name.ends_with("_ends")), is_split, "{what}");
        let taken: Vec<&[f32]> = values.chunks(columns as usize).filter(|row| row[0] < 0.0).collect();
        assert!(taken.len() > 1 && taken.len() < rows as usize, "{what}: some rows are taken");
        let of = |row: &[f32]| {
            let sum: f64 = row.iter().map(|x| f64::from(x.abs())).sum();
            row.iter().map(|&x| f64::from(x) / sum).collect::<Vec<_>>()
        };
        close(&found[0], taken.into_iter().flat_map(of), &what);
    }
}

/// Attention of `S` queries over `T` keys.
pub(super) const ATTENTION: &str = "
func @main(%q: tensor<[B]x[S]x2x8xf32>, %k: tensor<[B]x[T]x2x8xf32>, %v: tensor<[B]x[T]x2x8xf32>) -> tensor<[B]x2x[S]x8xf32> {
  %s = dot_general %q, %k, lhs_batching_dims = [0, 2], rhs_batching_dims = [0, 2], lhs_contracting_dims = [3], rhs_contracting_dims = [3] : (tensor<[B]x[S]x2x8xf32>, tensor<[B]x[T]x2x8xf32>) -> tensor<[B]x2x[S]x[T]xf32>
  %l = constant dense<-inf> : tensor<f32>
  %z = constant dense<0.0> : tensor<f32>
  %t = reduce %s, %l, dims = [3] : (tensor<[B]x2x[S]x[T]xf32>, tensor<f32>) -> tensor<[B]x2x[S]xf32> applies maximum
  %tb = broadcast_in_dim %t, dims = [0, 1, 2] : (tensor<[B]x2x[S]xf32>) -> tensor<[B]x2x[S]x[T]xf32>
  %d = subtract %s, %tb : tensor<[B]x2x[S]x[T]xf32>
  %e = exponential %d : tensor<[B]x2x[S]x[T]xf32>
  %r = reduce %e, %z, dims = [3] : (tensor<[B]x2x[S]x[T]xf32>, tensor<f32>) -> tensor<[B]x2x[S]xf32> applies add
  %rb = broadcast_in_dim %r, dims = [0, 1, 2] : (tensor<[B]x2x[S]xf32>) -> tensor<[B]x2x[S]x[T]xf32>
  %p = divide %e, %rb : tensor<[B]x2x[S]x[T]xf32>
  %o = dot_general %p, %v, lhs_batching_dims = [0, 1], rhs_batching_dims = [0, 2], lhs_contracting_dims = [3], rhs_contracting_dims = [1] : (tensor<[B]x2x[S]x[T]xf32>, tensor<[B]x[T]x2x8xf32>) -> tensor<[B]x2x[S]x8xf32>
  return %o : tensor<[B]x2x[S]x8xf32>
}";

/// Attention of `S` queries of `D` elements over `T` keys, with `E` columns of values.
pub(super) const ATTENTION_OF_ANY: &str = "
func @main(%q: tensor<[B]x[S]x[D]xf32>, %k: tensor<[B]x[T]x[D]xf32>, %v: tensor<[B]x[T]x[E]xf32>) -> tensor<[B]x[S]x[E]xf32> {
  %x = dot_general %q, %k, batching_dims = [0] x [0], contracting_dims = [2] x [2] : (tensor<[B]x[S]x[D]xf32>, tensor<[B]x[T]x[D]xf32>) -> tensor<[B]x[S]x[T]xf32>
  %c = constant dense<0.0625> : tensor<[B]x[S]x[T]xf32>
  %s = multiply %x, %c : tensor<[B]x[S]x[T]xf32>
  %l = constant dense<-inf> : tensor<f32>
  %z = constant dense<0.0> : tensor<f32>
  %t = reduce %s, %l, dims = [2] : (tensor<[B]x[S]x[T]xf32>, tensor<f32>) -> tensor<[B]x[S]xf32> applies maximum
  %tb = broadcast_in_dim %t, dims = [0, 1] : (tensor<[B]x[S]xf32>) -> tensor<[B]x[S]x[T]xf32>
  %d = subtract %s, %tb : tensor<[B]x[S]x[T]xf32>
  %e = exponential %d : tensor<[B]x[S]x[T]xf32>
  %r = reduce %e, %z, dims = [2] : (tensor<[B]x[S]x[T]xf32>, tensor<f32>) -> tensor<[B]x[S]xf32> applies add
  %rb = broadcast_in_dim %r, dims = [0, 1] : (tensor<[B]x[S]xf32>) -> tensor<[B]x[S]x[T]xf32>
  %p = divide %e, %rb : tensor<[B]x[S]x[T]xf32>
  %o = dot_general %p, %v, batching_dims = [0] x [0], contracting_dims = [2] x [1] : (tensor<[B]x[S]x[T]xf32>, tensor<[B]x[T]x[E]xf32>) -> tensor<[B]x[S]x[E]xf32>
  return %o : tensor<[B]x[S]x[E]xf32>
}";

/// The same of halves, whose weights are rounded.
pub(super) const ATTENTION_OF_HALVES: &str = "
func @main(%q: tensor<[B]x[S]x[D]xf32>, %k: tensor<[B]x[T]x[D]xf32>, %v: tensor<[B]x[T]x[E]xf32>) -> tensor<[B]x[S]x[E]xf16> {
  %qh = convert %q : (tensor<[B]x[S]x[D]xf32>) -> tensor<[B]x[S]x[D]xf16>
  %kh = convert %k : (tensor<[B]x[T]x[D]xf32>) -> tensor<[B]x[T]x[D]xf16>
  %vh = convert %v : (tensor<[B]x[T]x[E]xf32>) -> tensor<[B]x[T]x[E]xf16>
  %x = dot_general %qh, %kh, batching_dims = [0] x [0], contracting_dims = [2] x [2] : (tensor<[B]x[S]x[D]xf16>, tensor<[B]x[T]x[D]xf16>) -> tensor<[B]x[S]x[T]xf16>
  %s = convert %x : (tensor<[B]x[S]x[T]xf16>) -> tensor<[B]x[S]x[T]xf32>
  %l = constant dense<-inf> : tensor<f32>
  %z = constant dense<0.0> : tensor<f32>
  %t = reduce %s, %l, dims = [2] : (tensor<[B]x[S]x[T]xf32>, tensor<f32>) -> tensor<[B]x[S]xf32> applies maximum
  %tb = broadcast_in_dim %t, dims = [0, 1] : (tensor<[B]x[S]xf32>) -> tensor<[B]x[S]x[T]xf32>
  %d = subtract %s, %tb : tensor<[B]x[S]x[T]xf32>
  %e = exponential %d : tensor<[B]x[S]x[T]xf32>
  %r = reduce %e, %z, dims = [2] : (tensor<[B]x[S]x[T]xf32>, tensor<f32>) -> tensor<[B]x[S]xf32> applies add
  %rb = broadcast_in_dim %r, dims = [0, 1] : (tensor<[B]x[S]xf32>) -> tensor<[B]x[S]x[T]xf32>
  %p = divide %e, %rb : tensor<[B]x[S]x[T]xf32>
  %w = convert %p : (tensor<[B]x[S]x[T]xf32>) -> tensor<[B]x[S]x[T]xf16>
  %o = dot_general %w, %vh, batching_dims = [0] x [0], contracting_dims = [2] x [1] : (tensor<[B]x[S]x[T]xf16>, tensor<[B]x[T]x[E]xf16>) -> tensor<[B]x[S]x[E]xf16>
  return %o : tensor<[B]x[S]x[E]xf16>
}";

/// Attention of bf16.
pub(super) const ATTENTION_OF_BF16: &str = include_str!("../programs/attention_of_bf16.disc");

/// A convolution of 16 features to 16, with filters transformed for Winograd's method.
pub(super) const WINOGRAD: &str = "
func @main(%x: tensor<[B]x16x[H]x[W]xf32>, %w: tensor<16x16x3x3xf32>, %t: tensor<4x36x16x4xf32>) -> tensor<[B]x16x[H]x[W]xf32> where 1 <= H, 1 <= W {
  %k = broadcast_in_dim %w, dims = [1, 2, 3, 4] : (tensor<16x16x3x3xf32>) -> tensor<[B]x16x16x3x3xf32>
  %p = im2col %x, window_dimensions = [3, 3], padding_low = [1, 1], padding_high = [1, 1] : (tensor<[B]x16x[H]x[W]xf32>) -> tensor<[B]x16x3x3x[H]x[W]xf32>
  %d = dot_general %k, %p, batching_dims = [0] x [0], contracting_dims = [2, 3, 4] x [1, 2, 3] : (tensor<[B]x16x16x3x3xf32>, tensor<[B]x16x3x3x[H]x[W]xf32>) -> tensor<[B]x16x[H]x[W]xf32>
  %y = winograd %d, %x, %t, padding_low = [1, 1] : (tensor<[B]x16x[H]x[W]xf32>, tensor<[B]x16x[H]x[W]xf32>, tensor<4x36x16x4xf32>) -> tensor<[B]x16x[H]x[W]xf32>
  return %y : tensor<[B]x16x[H]x[W]xf32>
}";

pub(super) const PRODUCT: &str = "
func @main(%x: tensor<[B]x[K]xf32>, %y: tensor<[K]x20xf32>) -> tensor<[B]x20xf32> {
  %z = dot_general %x, %y, lhs_contracting_dims = [1], rhs_contracting_dims = [0] : (tensor<[B]x[K]xf32>, tensor<[K]x20xf32>) -> tensor<[B]x20xf32>
  %t = tanh %z : tensor<[B]x20xf32>
  return %t : tensor<[B]x20xf32>
}";

pub(super) const SORT: &str = "
func @main(%x: tensor<[B]x[S]xf32>) -> (tensor<[B]x[S]xf32>, tensor<[B]x[S]xi32>) {
  %y, %i = top_k %x, k = [S] : (tensor<[B]x[S]xf32>) -> (tensor<[B]x[S]xf32>, tensor<[B]x[S]xi32>)
  return %y, %i : (tensor<[B]x[S]xf32>, tensor<[B]x[S]xi32>)
}";

pub(super) const SCAN: &str = "
func @main(%x: tensor<[B]x[S]xf32>) -> tensor<[B]x[S]xf32> {
  %z = constant dense<0.0> : tensor<f32>
  %y = cumulative %x, %z, dim = 1 : (tensor<[B]x[S]xf32>, tensor<f32>) -> tensor<[B]x[S]xf32> applies add
  return %y : tensor<[B]x[S]xf32>
}";

/// Rows that are enlarged by a kind of linear interpolation: indices and weights are the same in
/// each of them.
pub(super) const ENLARGED: &str = "
func @main(%x: tensor<[B]x[S]xf32>) -> tensor<[B]x[2*S]xf32> where 1 <= S {
  %i = iota dim = 0 : tensor<[2*S]xf32>
  %half = constant dense<0.5> : tensor<[2*S]xf32>
  %p = multiply %i, %half : tensor<[2*S]xf32>
  %f = floor %p : tensor<[2*S]xf32>
  %at = convert %f, dtype = i64 : (tensor<[2*S]xf32>) -> tensor<[2*S]xi64>
  %y = gather %x, %at, offset_dims = [0], collapsed_slice_dims = [1], start_index_map = [1], index_vector_dim = 1, \
         slice_sizes = [B, 1], bounds = clamp : (tensor<[B]x[S]xf32>, tensor<[2*S]xi64>) -> tensor<[B]x[2*S]xf32>
  %w = subtract %p, %f : tensor<[2*S]xf32>
  %wb = broadcast_in_dim %w, dims = [1] : (tensor<[2*S]xf32>) -> tensor<[B]x[2*S]xf32>
  %r = add %y, %wb : tensor<[B]x[2*S]xf32>
  return %r : tensor<[B]x[2*S]xf32>
}";

/// Rotated halves of rows, times their positions: `[-b, a] * i` of `[a, b]`.
pub(super) const TURNED_HALVES: &str = "
func @main(%x: tensor<[B]x[2*H]xf32>) -> tensor<[B]x[2*H]xf32> {
  %a = slice %x [0:B, 0:H] : (tensor<[B]x[2*H]xf32>) -> tensor<[B]x[H]xf32>
  %b = slice %x [0:B, H:2*H] : (tensor<[B]x[2*H]xf32>) -> tensor<[B]x[H]xf32>
  %m = negate %b : tensor<[B]x[H]xf32>
  %y = concatenate %m, %a, dim = 1 : (tensor<[B]x[H]xf32>, tensor<[B]x[H]xf32>) -> tensor<[B]x[2*H]xf32>
  %i = iota dim = 1 : tensor<[B]x[2*H]xf32>
  %r = multiply %y, %i : tensor<[B]x[2*H]xf32>
  return %r : tensor<[B]x[2*H]xf32>
}";

/// A third of each row, and an expression of the other two: `[2 a, -[|b|, c]]`, where the inner
/// concatenation ends its first part after as many elements as the outer one does.
const THIRDS: &str = "
func @main(%x: tensor<[B]x[3*H]xf32>) -> tensor<[B]x[3*H]xf32> {
  %a = slice %x [0:B, 0:H] : (tensor<[B]x[3*H]xf32>) -> tensor<[B]x[H]xf32>
  %b = slice %x [0:B, H:2*H] : (tensor<[B]x[3*H]xf32>) -> tensor<[B]x[H]xf32>
  %c = slice %x [0:B, 2*H:3*H] : (tensor<[B]x[3*H]xf32>) -> tensor<[B]x[H]xf32>
  %d = add %a, %a : tensor<[B]x[H]xf32>
  %s = abs %b : tensor<[B]x[H]xf32>
  %p = concatenate %s, %c, dim = 1 : (tensor<[B]x[H]xf32>, tensor<[B]x[H]xf32>) -> tensor<[B]x[2*H]xf32>
  %n = negate %p : tensor<[B]x[2*H]xf32>
  %r = concatenate %d, %n, dim = 1 : (tensor<[B]x[H]xf32>, tensor<[B]x[2*H]xf32>) -> tensor<[B]x[3*H]xf32>
  return %r : tensor<[B]x[3*H]xf32>
}";

#[test]
fn rows_that_one_vector_holds_have_no_loop() {
    let target = Target::host().unwrap();
    let width = i64::from(target.lanes(32));
    let narrow = |lengths: &[i64], width: i64| {
        let fits = |lanes: i64| {
            let least = if target.has_mask_registers() { 1 } else { lanes };
            lengths.iter().all(|&length| (least..=lanes).contains(&length))
        };
        let lanes = [width / 2, width].into_iter().find(|&lanes| fits(lanes));
        lanes.map(|lanes| format!("k0_pointwise_short{lanes}"))
    };
    let kernel = |lengths: &[i64]| narrow(lengths, width).unwrap_or("k0_pointwise".to_owned());
    let [halves, thirds] = [TURNED_HALVES, THIRDS].map(|program| [1, 2].map(|threads| load(program, threads)));
    for rows in [1, 3, 700] {
        for half in [0, 1, 2, 3, 4, 5, 7, 8, 9, 13, 15, 16, 17, 33] {
            for executable in &halves {
                let (names, values, results) = run(executable, [rows, 2 * half]);
                assert!(half == 0 || names == [kernel(&[half]).as_str()], "{rows} x 2 x {half}: {names:?}");
                let wanted = values.chunks(2 * half.max(1) as usize).flat_map(|row| {
                    let (a, b) = row.split_at(half as usize);
                    let turned = b.iter().map(|x| -x).chain(a.iter().copied());
                    turned.enumerate().map(|(i, x)| f64::from(x) * i as f64).collect::<Vec<_>>()
                });
                close(&results[0], wanted, &format!("{rows} x 2 x {half}"));
            }
            for executable in &thirds {
                let (names, values, results) = run(executable, [rows, 3 * half]);
                assert!(half == 0 || names == [kernel(&[half, 2 * half]).as_str()], "{rows} x 3 x {half}: {names:?}");
                let part = |i: usize| i % (3 * half as usize) / half as usize;
                let wanted = values.iter().enumerate().map(|(i, &x)| match part(i) {
                    0 => 2.0 * f64::from(x),
                    1 => -f64::from(x.abs()),
                    _ => -f64::from(x),
                });
                close(&results[0], wanted, &format!("{rows} x 3 x {half}"));
            }
        }
    }
    // Values that rows share are in registers, not in tables.
    let enlarged = [1, 2].map(|threads| load(ENLARGED, threads));
    for (rows, columns) in [(1, 1), (1, 2), (1, 4), (3, 3), (700, 1), (700, 4), (700, 5), (700, 8)] {
        for executable in &enlarged {
            let (names, values, results) = run(executable, [rows, columns]);
            let tables = if rows > 3 { "k0_pointwise_tables" } else { "k0_pointwise" };
            let expected = narrow(&[2 * columns], width).unwrap_or(tables.to_owned());
            assert_eq!(names, [expected], "{rows} x 2 x {columns}");
            let wanted = values.iter().flat_map(|&value| [f64::from(value), f64::from(value + 0.5)]);
            close(&results[0], wanted, &format!("{rows} x 2 x {columns}"));
        }
    }
}

#[test]
fn rows_share_tables_where_there_are_some_and_not_too_long() {
    let executables = [load(ENLARGED, 1), load(ENLARGED, 2)];
    for ([rows, columns], expected) in [
        ([3, 100], "k0_pointwise"),
        ([4, 100], "k0_pointwise_tables"),
        ([300, 9], "k0_pointwise_tables"),
        ([40, 33], "k0_pointwise_tables"),
        ([4, 2048], "k0_pointwise_tables"),
        ([4, 2049], "k0_pointwise"),
    ] {
        for executable in &executables {
            let (names, values, results) = run(executable, [rows, columns]);
            assert_eq!(names, [expected], "{rows} x {columns}");
            let wanted = values.iter().flat_map(|&value| [f64::from(value), f64::from(value + 0.5)]);
            close(&results[0], wanted, &format!("{rows} x {columns}"));
        }
    }
}

/// Rows with another row added to each.
const ROW_ADDED: &str = "
func @main(%x: tensor<[B]x[S]xf32>) -> tensor<[B]x[S]xf32> where 1 <= B {
  %f = slice %x [0:1, 0:S] : (tensor<[B]x[S]xf32>) -> tensor<1x[S]xf32>
  %r = reshape %f : (tensor<1x[S]xf32>) -> tensor<[S]xf32>
  %rb = broadcast_in_dim %r, dims = [1] : (tensor<[S]xf32>) -> tensor<[B]x[S]xf32>
  %y = add %x, %rb : tensor<[B]x[S]xf32>
  return %y : tensor<[B]x[S]xf32>
}";

pub(super) const NEGATED: &str = "
func @main(%x: tensor<[B]x[S]xf32>) -> tensor<[B]x[S]xf32> {
  %y = negate %x : tensor<[B]x[S]xf32>
  return %y : tensor<[B]x[S]xf32>
}";

#[test]
fn large_results_go_past_the_caches_where_rows_are_whole_lines() {
    let [negated, added, softmaxes] = [NEGATED, ROW_ADDED, SOFTMAX].map(|program| [1, 2].map(|threads| load(program, threads)));
    // Each element is read and written.
    let rows = |columns: i64| (NONTEMPORAL_BYTES + 8 * columns - 1) / (8 * columns);
    for ((rows, columns), expected) in [
        ((rows(1000), 1000), "k0_pointwise_nontemporal"),
        // All is one row then, and only its end is not aligned to a line.
        ((rows(999), 999), "k0_pointwise_nontemporal"),
        ((rows(1024) - 1, 1024), "k0_pointwise"),
        // Memory of more calls is mostly new, and in the caches.
        (((64 << 20) / 4096, 1024), "k0_pointwise_nontemporal"),
        (((64 << 20) / 4096 + 1, 1024), "k0_pointwise"),
    ] {
        for executable in &negated {
            let (names, values, results) = run(executable, [rows, columns]);
            assert_eq!(names, [expected], "{rows} x {columns}");
            assert!(values.iter().zip(&results[0]).all(|(x, y)| -x == *y), "{rows} x {columns}");
        }
    }
    for ((rows, columns), expected) in [
        ((rows(1040), 1040), "k0_pointwise_nontemporal"),
        ((rows(1032), 1032), "k0_pointwise"),
        ((rows(1024) - 1, 1024), "k0_pointwise"),
    ] {
        for executable in &added {
            let (names, values, results) = run(executable, [rows, columns]);
            assert_eq!(names, [expected], "{rows} x {columns}");
            let first = values[..columns as usize].iter().cycle();
            assert!(values.iter().zip(first).zip(&results[0]).all(|((x, first), y)| x + first == *y), "{rows} x {columns}");
        }
    }
    for ((rows, columns), expected) in [
        ((rows(272), 272), "k0_reduction_nontemporal"),
        ((rows(80), 80), "k0_reduction_multirow_nontemporal"),
        ((rows(96), 96), "k0_reduction_nontemporal"),
        ((rows(1040), 1040), "k0_reduction_nontemporal"),
        ((rows(1032), 1032), "k0_reduction"),
        ((rows(1040) - 1, 1040), "k0_reduction"),
    ] {
        for executable in &softmaxes {
            let (names, values, results) = run(executable, [rows, columns]);
            assert_eq!(names, [expected], "{rows} x {columns}");
            close(&results[0], softmax(&values, columns as usize), &format!("{rows} x {columns}"));
        }
    }
}
