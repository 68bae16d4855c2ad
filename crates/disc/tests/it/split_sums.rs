//! Tests split-K: products of few rows and columns with long sums are right at every target around
//! the thresholds, with the same bits on any number of threads.
use crate::native;
use disc::{
    Executable, Options, compile, parse,
    ral::{HostOutput, HostOutputs, HostTensor, Weight},
};

/// An unpacked matrix in memory, its columns contiguous.
const ROWS: &str = "
func @main(%x: tensor<[B]x[K]xf32>, %y: tensor<[K]x20xf32>, %b: tensor<20xf32>) -> tensor<[B]x20xf32> {
  %z = dot_general %x, %y, lhs_contracting_dims = [1], rhs_contracting_dims = [0] : (tensor<[B]x[K]xf32>, tensor<[K]x20xf32>) -> tensor<[B]x20xf32>
  %bb = broadcast_in_dim %b, dims = [1] : (tensor<20xf32>) -> tensor<[B]x20xf32>
  %s = add %z, %bb : tensor<[B]x20xf32>
  return %s : tensor<[B]x20xf32>
}";

/// A weight, which is packed: 75 columns of sums over 1031.
const PANELS: &str = "
weight @w : tensor<75x1031xf32>
func @main(%x: tensor<[B]x2x1031xf32>, %b: tensor<75xf32>) -> tensor<[B]x2x75xf32> {
  %w = weight @w : tensor<75x1031xf32>
  %z = dot_general %x, %w, lhs_contracting_dims = [2], rhs_contracting_dims = [1] : (tensor<[B]x2x1031xf32>, tensor<75x1031xf32>) -> tensor<[B]x2x75xf32>
  %bb = broadcast_in_dim %b, dims = [2] : (tensor<75xf32>) -> tensor<[B]x2x75xf32>
  %s = add %z, %bb : tensor<[B]x2x75xf32>
  return %s : tensor<[B]x2x75xf32>
}";

fn values(count: i64, seed: i64) -> Vec<f32> {
    (0..count).map(|i| ((i * 7919 + seed * 131) % 997) as f32 / 498.5 - 1.0).collect()
}

fn tensor(sizes: &[i64], seed: i64) -> HostTensor {
    HostTensor::new(sizes, &values(sizes.iter().product(), seed)).unwrap()
}

fn load(program: &str, target: &str, threads: usize) -> Executable {
    let options = Options { threads: Some(threads), target: Some(target.to_owned()), ..Options::default() };
    let weights = if program == PANELS { vec![("w".to_owned(), Weight::from(tensor(&[75, 1031], 2)))] } else { Vec::new() };
    compile(parse(program).unwrap(), &options).unwrap().load(weights, &options).unwrap()
}

/// Returns the results, and true if the sums were split.
fn run(executable: &Executable, inputs: &[HostTensor]) -> (Vec<f32>, bool) {
    let mut outputs = HostOutputs::new();
    let inputs: Vec<_> = inputs.iter().map(HostTensor::as_input).collect();
    let launches = executable.with_session(|session| {
        session.start_profile();
        executable.run(0, session, &inputs, &mut outputs).unwrap();
        session.take_profile()
    });
    let split = launches.iter().any(|l| l.name.as_deref().expect("code has names").ends_with("_split_k"));
    match outputs.take().remove(0) {
        Some(HostOutput::Fresh(tensor)) => (tensor.elements().unwrap().to_vec(), split),
        _ => panic!("an output has memory of its own"),
    }
}

/// Checks rows of `x` against sums of `k` products with the matrix `right(l, j)`.
fn check(found: &[f32], [rows, columns, k]: [i64; 3], right: impl Fn(usize, usize) -> f32, what: &str) {
    let (x, b) = (values(rows * k, 1), values(columns, 3));
    let (columns, k) = (columns as usize, k as usize);
    assert_eq!(found.len(), rows as usize * columns, "{what}");
    for (i, &found) in found.iter().enumerate() {
        let (row, column) = (i / columns, i % columns);
        let sum: f64 = (0..k).map(|l| f64::from(x[row * k + l]) * f64::from(right(l, column))).sum();
        let expected = sum + f64::from(b[column]);
        let bound = 1e-5 * (k as f64).sqrt() + 4e-6 * expected.abs() + 1e-6;
        assert!((f64::from(found) - expected).abs() <= bound, "{what}: {i}: {found}, {expected}");
    }
}

fn targets() -> Vec<&'static str> {
    native::levels().iter().map(|level| level.name()).collect()
}

#[test]
fn matrices_in_memory() {
    for target in targets() {
        let [one, two] = [1, 2].map(|threads| load(ROWS, target, threads));
        // Row counts that fill two blocks of some targets are split only on these.
        let few = [([0, 4096], Some(false)), ([1, 0], Some(false)), ([1, 1], Some(false)), ([1, 511], Some(false))];
        let long = [([1, 40_009], Some(true)), ([2, 20_000], Some(true)), ([7, 8191], Some(true)), ([8, 4096], Some(true))];
        let more = [([13, 4099], None), ([24, 2048], None), ([25, 2048], Some(false)), ([300, 1031], Some(false))];
        for ([rows, k], split) in few.into_iter().chain(long).chain(more) {
            let inputs = [tensor(&[rows, k], 1), tensor(&[k, 20], 2), tensor(&[20], 3)];
            let what = format!("{target} {rows}x{k}");
            let (found, was_split) = run(&one, &inputs);
            let y = values(k * 20, 2);
            check(&found, [rows, 20, k], |l, j| y[l * 20 + j], &what);
            assert!(split.is_none_or(|split| split == was_split), "{what}: {was_split}");
            assert_eq!(run(&two, &inputs).0, found, "{what}: the number of threads has no say");
        }
    }
}

#[test]
fn packed_weights() {
    let w = values(75 * 1031, 2);
    for target in targets() {
        let [one, two] = [1, 2].map(|threads| load(PANELS, target, threads));
        let mut split = 0;
        for batch in [0, 1, 2, 3, 6, 7, 50, 200] {
            let inputs = [tensor(&[batch, 2, 1031], 1), tensor(&[75], 3)];
            let what = format!("{target} {batch}");
            let (found, was_split) = run(&one, &inputs);
            check(&found, [2 * batch, 75, 1031], |l, j| w[j * 1031 + l], &what);
            split += usize::from(was_split);
            assert_eq!(run(&two, &inputs).0, found, "{what}: the number of threads has no say");
        }
        // AVX2 and below have panels of so few columns that there are enough units.
        assert!(target != "x86-64-v4" || (2..8).contains(&split), "{target}: {split}");
    }
}
