//! Compares the code of groups for GPUs with the interpreter at the sizes where another version
//! begins, and from many threads. `version_cases` checks which version runs.
use crate::{
    version_cases::{FIRST, LINEAR, POSITIVE, SCAN_DOWN, TRANSPOSED},
    versions::{ATTENTION_OF_ANY, COLUMNS, NEGATED, PRODUCT, SCAN, SOFTMAX, SORT, SUMS},
};
use disc::{
    Executable, Options, compile, from_host,
    ir::interp::{self, Tensor},
    parse,
    ral::{HostOutput, HostOutputs, HostTensor},
};
use disc_filetests::compare;
use disc_ir::generate::cases::Nearness;
use std::{sync::Barrier, thread};

const CHIP: &str = "simt:sm_90";
/// A chip of each kind: NVIDIA's, and AMD's with warps of 64 threads and of 32.
const CHIPS: [&str; 3] = [CHIP, "simt:gfx942", "simt:gfx1100"];

fn load(program: &str, device: &str) -> Executable {
    let options = Options { device: Some(device.to_owned()), ..Options::default() };
    compile(parse(program).unwrap(), &options).unwrap().load(Vec::new(), &options).unwrap()
}

fn made(sizes: &[i64]) -> HostTensor {
    let count: i64 = sizes.iter().product();
    let values: Vec<f32> = (0..count).map(|i| ((i * 7919 % 997) as f32 - 400.5) / 250.0).collect();
    HostTensor::new(sizes, &values).unwrap()
}

/// Runs a call and compares its results with the interpreter's.
fn run(executable: &Executable, program: &str, inputs: &[Vec<i64>]) {
    let tensors: Vec<HostTensor> = inputs.iter().map(|sizes| made(sizes)).collect();
    let given: Vec<_> = tensors.iter().map(HostTensor::as_input).collect();
    let mut outputs = HostOutputs::new();
    executable.with_session(|session| executable.run(0, session, &given, &mut outputs)).unwrap();
    let found: Vec<Tensor> = outputs.take().into_iter().map(fresh).collect();
    let values: Vec<Tensor> = tensors.iter().map(|tensor| from_host(tensor).unwrap()).collect();
    let expected = interp::run(&parse(program).unwrap(), "main", &values).unwrap();
    assert_eq!(found.len(), expected.len());
    for (found, expected) in found.iter().zip(&expected) {
        compare(found, expected, Nearness::Sum).unwrap_or_else(|why| panic!("{inputs:?}: {why}"));
    }
}

fn fresh(output: Option<HostOutput>) -> Tensor {
    match output {
        Some(HostOutput::Fresh(tensor)) => from_host(&tensor).unwrap(),
        _ => panic!("an output has memory of its own"),
    }
}

/// Sizes at the edges of versions: of vectors, tiles, warps, registers and blocks.
#[test]
fn all_versions_of_grids_agree_with_the_interpreter() {
    let sizes =
        [[0, 5], [5, 0], [1, 1], [7, 31], [33, 32], [1, 255], [15, 16], [16, 15], [3, 1024], [2, 1025], [300, 4], [4, 2052]];
    for device in CHIPS {
        for program in [NEGATED, TRANSPOSED, SOFTMAX, SUMS, COLUMNS] {
            let executable = load(program, device);
            sizes.iter().for_each(|sizes| run(&executable, program, &[sizes.to_vec()]));
        }
        let executable = load(PRODUCT, device);
        for [rows, terms] in [[0, 3], [3, 0], [1, 1], [64, 16], [65, 17], [130, 40]] {
            run(&executable, PRODUCT, &[vec![rows, terms], vec![terms, 20]]);
        }
    }
}

/// Numbers of queries, keys, terms and columns at the edges of versions: of tiles, of a few
/// queries, of heads that fit; and none of each.
#[test]
fn attention_on_grids_agrees_with_the_interpreter() {
    let sizes = [
        [0, 3, 4, 5],
        [3, 0, 4, 5],
        [3, 130, 0, 5],
        [3, 4, 5, 0],
        [1, 1, 1, 1],
        [16, 64, 32, 128],
        [17, 65, 33, 7],
        [1, 129, 64, 129],
        [64, 63, 64, 64],
        [65, 128, 64, 1],
        [66, 70, 65, 3],
        [20, 40, 3, 65],
        [20, 33, 97, 257],
    ];
    for device in CHIPS {
        let executable = load(ATTENTION_OF_ANY, device);
        for [queries, keys, terms, columns] in sizes {
            let inputs = [vec![2, queries, terms], vec![2, keys, terms], vec![2, keys, columns]];
            run(&executable, ATTENTION_OF_ANY, &inputs);
        }
    }
}

/// Running sums and the elements that they add, the largest so far and its index, backwards.
const SCANS: &str = "
func @main(%x: tensor<[B]x[S]xf32>) -> (tensor<[B]x[S]xf32>, tensor<[B]x[S]xf32>, tensor<[B]x[S]xi32>) {
  %z = constant dense<0.5> : tensor<f32>
  %t = tanh %x : tensor<[B]x[S]xf32>
  %y = cumulative %t, %z, dim = 1 : (tensor<[B]x[S]xf32>, tensor<f32>) -> tensor<[B]x[S]xf32> applies add
  %s = subtract %y, %t : tensor<[B]x[S]xf32>
  %i = iota dim = 1 : tensor<[B]x[S]xi32>
  %none = constant dense<-inf> : tensor<f32>
  %nowhere = constant dense<0> : tensor<i32>
  %m, %p = cumulative %x, %i, %none, %nowhere, dim = 1, reverse = true : (tensor<[B]x[S]xf32>, tensor<[B]x[S]xi32>, tensor<f32>, tensor<i32>) -> (tensor<[B]x[S]xf32>, tensor<[B]x[S]xi32>) body(%a: tensor<f32>, %ai: tensor<i32>, %b: tensor<f32>, %bi: tensor<i32>) {
    %more = compare %b, %a, direction = GE : (tensor<f32>, tensor<f32>) -> tensor<i1>
    %v = select %more, %b, %a : (tensor<i1>, tensor<f32>, tensor<f32>) -> tensor<f32>
    %n = select %more, %bi, %ai : (tensor<i1>, tensor<i32>, tensor<i32>) -> tensor<i32>
    return %v, %n : tensor<f32>, tensor<i32>
  }
  return %s, %m, %p : tensor<[B]x[S]xf32>, tensor<[B]x[S]xf32>, tensor<[B]x[S]xi32>
}";

/// Sizes at the edges of warps and of blocks, and of what they have at once.
#[test]
fn scans_of_grids_agree_with_the_interpreter() {
    let sizes = [[0, 5], [5, 0], [1, 1], [3, 2], [9, 31], [8, 32], [7, 33], [2, 64], [17, 257], [2, 1024], [3, 1025], [1, 5000]];
    for device in CHIPS {
        for program in [SCAN, SCAN_DOWN, SCANS] {
            let executable = load(program, device);
            sizes.iter().for_each(|sizes| run(&executable, program, &[sizes.to_vec()]));
        }
    }
}

/// The median of each line and the element after it, in 64 bits, as positions of 64 bits.
const RANKED: &str = "
func @main(%x: tensor<[B]x[S]xf32>) -> (tensor<[B]x[min(S, 1)]xf64>, tensor<[B]x[min(S, 1)]xi64>) {
  %w = convert %x, dtype = f64 : (tensor<[B]x[S]xf32>) -> tensor<[B]x[S]xf64>
  %v, %i = top_k %w, k = [min(S, 1)], skip = [S/2], largest = false, index_dtype = i64 : (tensor<[B]x[S]xf64>) -> (tensor<[B]x[min(S, 1)]xf64>, tensor<[B]x[min(S, 1)]xi64>)
  return %v, %i : tensor<[B]x[min(S, 1)]xf64>, tensor<[B]x[min(S, 1)]xi64>
}";

/// Sizes at the edges of warps, of blocks, and of their memory. Elements repeat, so the order of
/// equal ones shows.
#[test]
fn sorts_of_grids_agree_with_the_interpreter() {
    let sizes = [[0, 5], [5, 0], [1, 1], [9, 2], [17, 32], [8, 33], [3, 64], [2, 65], [5, 500], [2, 2048], [1, 4096], [2, 4097]];
    for device in CHIPS {
        for program in [SORT, FIRST, RANKED] {
            let executable = load(program, device);
            sizes.iter().for_each(|sizes| run(&executable, program, &[sizes.to_vec()]));
        }
    }
}

/// A product for each batch, with the columns of a matrix.
const BATCHED: &str = "
func @main(%x: tensor<[N]x[B]x[K]xf32>, %y: tensor<[N]x[K]x[C]xf32>) -> tensor<[N]x[B]x[C]xf32> {
  %z = dot_general %x, %y, lhs_batching_dims = [0], rhs_batching_dims = [0], lhs_contracting_dims = [2], rhs_contracting_dims = [1] : (tensor<[N]x[B]x[K]xf32>, tensor<[N]x[K]x[C]xf32>) -> tensor<[N]x[B]x[C]xf32>
  return %z : tensor<[N]x[B]x[C]xf32>
}";

/// A matrix times a few columns.
const FEW_COLUMNS: &str = "
func @main(%x: tensor<[B]x[K]xf32>, %y: tensor<[K]x3xf32>) -> tensor<[B]x3xf32> {
  %z = dot_general %x, %y, lhs_contracting_dims = [1], rhs_contracting_dims = [0] : (tensor<[B]x[K]xf32>, tensor<[K]x3xf32>) -> tensor<[B]x3xf32>
  return %z : tensor<[B]x3xf32>
}";

/// Rows at the edges of versions; terms and columns at those of vectors, warps and blocks.
#[test]
fn products_of_few_rows_agree_with_the_interpreter() {
    let sizes = [[0, 4, 4], [1, 0, 4], [1, 4, 0], [1, 1, 1], [1, 128, 4], [1, 516, 36], [2, 132, 35], [8, 1030, 68], [9, 40, 12]];
    for device in CHIPS {
        let [linear, batched, few] = [LINEAR, BATCHED, FEW_COLUMNS].map(|program| load(program, device));
        for [rows, terms, columns] in sizes {
            run(&linear, LINEAR, &[vec![rows, terms], vec![columns, terms]]);
            run(&batched, BATCHED, &[vec![2, rows, terms], vec![2, terms, columns]]);
            run(&few, FEW_COLUMNS, &[vec![columns, terms], vec![terms, 3]]);
        }
    }
}

/// The positions of few positive elements, with room for few.
const FEW_POSITIVE: &str = "
func @main(%x: tensor<[N]xf32>) -> tensor<[N/4]xi64> {
  %z = constant dense<1.1> : tensor<[N]xf32>
  %m = compare %x, %z, direction = GT : (tensor<[N]xf32>, tensor<[N]xf32>) -> tensor<[N]xi1>
  %p = nonzero %m : (tensor<[N]xi1>) -> tensor<[N/4]xi64>
  return %p : tensor<[N/4]xi64>
}";

#[test]
fn positions_of_grids_agree_with_the_interpreter() {
    for device in CHIPS {
        for program in [POSITIVE, FEW_POSITIVE] {
            let executable = load(program, device);
            for size in [0, 1, 4, 255, 257, 1024, 1025, 3000, 16_383, 16_384, 40_001] {
                run(&executable, program, &[vec![size]]);
            }
        }
    }
}

/// Rows and elements that are added to few places: most places get several, and some updates are
/// out of range.
const SCATTERED: &str = "
func @main(%x: tensor<[B]x[S]xf32>) -> (tensor<7x[S]xf32>, tensor<9x[S]xf32>) {
  %z = constant dense<0.25> : tensor<7x[S]xf32>
  %o = constant dense<0.5> : tensor<9x[S]xf32>
  %n = iota dim = 0 : tensor<[B]x1xi64>
  %m = constant dense<9> : tensor<[B]x1xi64>
  %i = remainder %n, %m : tensor<[B]x1xi64>
  %r = scatter %z, %i, %x, update_window_dims = [1], inserted_window_dims = [0], scatter_dims_to_operand_dims = [0], index_vector_dim = 1 : (tensor<7x[S]xf32>, tensor<[B]x1xi64>, tensor<[B]x[S]xf32>) -> tensor<7x[S]xf32> applies add
  %a = iota dim = 0 : tensor<[B]x[S]x1xi64>
  %b = iota dim = 1 : tensor<[B]x[S]x1xi64>
  %five = constant dense<5> : tensor<[B]x[S]x1xi64>
  %row = remainder %a, %five : tensor<[B]x[S]x1xi64>
  %sum = add %a, %b : tensor<[B]x[S]x1xi64>
  %eleven = constant dense<11> : tensor<[B]x[S]x1xi64>
  %column = remainder %sum, %eleven : tensor<[B]x[S]x1xi64>
  %places = concatenate %row, %column, dim = 2 : (tensor<[B]x[S]x1xi64>, tensor<[B]x[S]x1xi64>) -> tensor<[B]x[S]x2xi64>
  %e = scatter %o, %places, %x, update_window_dims = [], inserted_window_dims = [0, 1], scatter_dims_to_operand_dims = [0, 1], index_vector_dim = 2 : (tensor<9x[S]xf32>, tensor<[B]x[S]x2xi64>, tensor<[B]x[S]xf32>) -> tensor<9x[S]xf32> applies add
  return %r, %e : (tensor<7x[S]xf32>, tensor<9x[S]xf32>)
}";

#[test]
fn scatters_of_grids_agree_with_the_interpreter() {
    for device in CHIPS {
        let executable = load(SCATTERED, device);
        for sizes in [[0, 3], [3, 0], [1, 1], [2, 33], [70, 5], [19, 300]] {
            run(&executable, SCATTERED, &[sizes.to_vec()]);
        }
    }
}

#[test]
fn threads_share_an_executable() {
    const THREADS: i64 = 16;
    let executable = load(SOFTMAX, CHIP);
    let start = Barrier::new(THREADS as usize);
    thread::scope(|scope| {
        for number in 0..THREADS {
            let (executable, start) = (&executable, &start);
            scope.spawn(move || {
                start.wait();
                // Rows of a thread, of warps and of blocks.
                for [rows, columns] in [[number, 37 * number], [3, number + 1], [number + 1, 1024 + number]] {
                    run(executable, SOFTMAX, &[vec![rows, columns]]);
                }
            });
        }
    });
}
