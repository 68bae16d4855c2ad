//! Pins what the kernels for GPUs ask of memory, by the counters of a simulated one.
//!
//! Sectors of 32 bytes are compared with the least for so many bytes. Rows of an odd width begin
//! anywhere in a sector: a warp that reads 128 bytes meets five where four would do.
mod programs;

use disc::{
    MatmulPrecision, Options, compile,
    ir::{DType, interp::Tensor},
    parse,
    ral::HostOutputs,
    simt::{KernelCounters, counters},
    to_host,
};
use programs::SOFTMAX;
use std::sync::{Mutex, PoisonError};

const POINTWISE: &str = "
func @main(%x: tensor<[B]x[S]xf32>) -> tensor<[B]x[S]xf32> {
  %y = tanh %x : tensor<[B]x[S]xf32>
  return %y : tensor<[B]x[S]xf32>
}";

const COLUMN_SUMS: &str = "
func @main(%x: tensor<[B]x[S]xf32>) -> tensor<[S]xf32> {
  %z = constant dense<0.0> : tensor<f32>
  %s = reduce %x, %z, dims = [0] : (tensor<[B]x[S]xf32>, tensor<f32>) -> tensor<[S]xf32> applies add
  return %s : tensor<[S]xf32>
}";

const TRANSPOSED: &str = "
func @main(%x: tensor<[B]x[S]xf32>) -> tensor<[S]x[B]xf32> {
  %t = transpose %x, dims = [1, 0] : (tensor<[B]x[S]xf32>) -> tensor<[S]x[B]xf32>
  return %t : tensor<[S]x[B]xf32>
}";

/// Products of the rows of a matrix of halves, or of its columns, each followed by an op.
const PRODUCTS: &str = "
func @main(%x: tensor<[B]x[S]xf16>) -> tensor<[N]x[N]xf16> {
  %z = dot_general %x, %x, contracting_dims = [K] x [K] : (tensor<[B]x[S]xf16>, tensor<[B]x[S]xf16>) -> tensor<[N]x[N]xf16>
  %t = tanh %z : tensor<[N]x[N]xf16>
  return %t : tensor<[N]x[N]xf16>
}";

/// A product of f32 whose right operand is transposed on the way to fragments.
const PRODUCTS_OF_F32: &str = "
func @main(%x: tensor<[B]x[S]xf32>) -> tensor<[B]x[S]xf32> where B == S {
  %z = dot_general %x, %x, contracting_dims = [1] x [0] : (tensor<[B]x[S]xf32>, tensor<[B]x[S]xf32>) -> tensor<[B]x[S]xf32>
  return %z : tensor<[B]x[S]xf32>
}";

/// Rows that attend to each other.
const ATTENTION: &str = "
func @main(%x: tensor<[B]x[S]xf32>) -> tensor<[B]x[S]xf32> {
  %c = dot_general %x, %x, contracting_dims = [1] x [1] : (tensor<[B]x[S]xf32>, tensor<[B]x[S]xf32>) -> tensor<[B]x[B]xf32>
  %z = constant dense<0.0> : tensor<f32>
  %l = constant dense<-inf> : tensor<f32>
  %t = reduce %c, %l, dims = [1] : (tensor<[B]x[B]xf32>, tensor<f32>) -> tensor<[B]xf32> applies maximum
  %tb = broadcast_in_dim %t, dims = [0] : (tensor<[B]xf32>) -> tensor<[B]x[B]xf32>
  %d = subtract %c, %tb : tensor<[B]x[B]xf32>
  %e = exponential %d : tensor<[B]x[B]xf32>
  %s = reduce %e, %z, dims = [1] : (tensor<[B]x[B]xf32>, tensor<f32>) -> tensor<[B]xf32> applies add
  %sb = broadcast_in_dim %s, dims = [0] : (tensor<[B]xf32>) -> tensor<[B]x[B]xf32>
  %p = divide %e, %sb : tensor<[B]x[B]xf32>
  %o = dot_general %p, %x, contracting_dims = [1] x [0] : (tensor<[B]x[B]xf32>, tensor<[B]x[S]xf32>) -> tensor<[B]x[S]xf32>
  return %o : tensor<[B]x[S]xf32>
}";

/// The most sectors, in times of the least: for rows of whole vectors, and for those of odd width.
const EVEN: f64 = 1.05;
const ODD: f64 = 1.3;

const CHIP: &str = "sm_90";

/// A test that counts runs without others: the counters are those of the whole process.
static ALONE: Mutex<()> = Mutex::new(());

fn counted(program: &str, chip: &str, (dtype, sizes): (DType, [i64; 2])) -> Vec<KernelCounters> {
    let _alone = ALONE.lock().unwrap_or_else(PoisonError::into_inner);
    // Products of f32 are plain, unless they are of tiles.
    let matmul_precision = if program == PRODUCTS_OF_F32 { MatmulPrecision::High } else { MatmulPrecision::Highest };
    let options = Options { device: Some(format!("simt:{chip}")), matmul_precision, ..Options::default() };
    let executable = compile(parse(program).unwrap(), &options).unwrap().load(Vec::new(), &options).unwrap();
    let values = vec![0.5; (sizes[0] * sizes[1]) as usize];
    let input = to_host(&Tensor::from_f64s(dtype, &sizes, &values).unwrap()).unwrap();
    counters(true);
    executable.with_session(|session| executable.run(0, session, &[input.as_input()], &mut HostOutputs::new())).unwrap();
    counters(true)
}

/// Checks that the one kernel of a call, whose name has this end, asks for at most `most` times the
/// least sectors; for widths that vectors divide, that its threads wait for no banks.
#[track_caller]
fn check(program: &str, sizes: [i64; 2], ends: &str, most: f64) {
    check_of(program, CHIP, (DType::F32, sizes), ends, most);
}

#[track_caller]
fn check_of(program: &str, chip: &str, (dtype, sizes): (DType, [i64; 2]), ends: &str, most: f64) {
    let found = counted(program, chip, (dtype, sizes));
    let [kernel] = &found[..] else { panic!("{sizes:?}: {found:?}") };
    assert!(kernel.kernel.ends_with(ends), "{sizes:?}: {}", kernel.kernel);
    let within = |asked: u64, least: u64| asked as f64 <= most * least as f64;
    assert!(within(kernel.load_sectors, kernel.least_load_sectors), "{sizes:?}: reads {kernel:?}");
    assert!(within(kernel.store_sectors, kernel.least_store_sectors), "{sizes:?}: writes {kernel:?}");
    assert!(most > EVEN || kernel.conflicts == 0, "{sizes:?}: {kernel:?}");
}

#[test]
fn loops_read_and_write_whole_sectors() {
    check(POINTWISE, [64, 128], "_v", EVEN);
    check(POINTWISE, [63, 127], "_s", ODD);
}

#[test]
fn rows_read_and_write_whole_sectors() {
    check(SOFTMAX, [64, 256], "_warp_v", EVEN);
    check(SOFTMAX, [64, 64], "_warp", EVEN);
    check(SOFTMAX, [64, 32], "_subwarp", EVEN);
    check(SOFTMAX, [64, 65], "_warp", ODD);
    check(SOFTMAX, [8, 2048], "_block_v", EVEN);
    check(SOFTMAX, [8, 2047], "_block", ODD);
}

#[test]
fn columns_read_and_write_whole_sectors() {
    check(COLUMN_SUMS, [256, 128], "_thread", EVEN);
    check(COLUMN_SUMS, [255, 127], "_thread", ODD);
}

#[test]
fn transposes_read_and_write_whole_sectors() {
    check(TRANSPOSED, [128, 96], "_tile", EVEN);
    check(TRANSPOSED, [127, 95], "_tile", ODD);
}

#[test]
fn attention_reads_and_writes_whole_sectors() {
    check(ATTENTION, [16, 128], "_attention_few", EVEN);
    check(ATTENTION, [128, 64], "_attention_heads", EVEN);
    check(ATTENTION, [128, 128], "_attention_s", EVEN);
    check(ATTENTION, [127, 63], "_attention_heads", ODD);
}

#[test]
fn products_of_tiles_read_and_write_whole_sectors() {
    for chip in ["sm_75", "sm_80", "sm_90"] {
        for (axis, free, [rows, columns]) in [("1", "B", [192, 96]), ("0", "S", [96, 192]), ("1", "B", [1024, 32])] {
            let program = PRODUCTS.replace("[K]", &format!("[{axis}]")).replace("[N]", &format!("[{free}]"));
            let ends = if rows == 1024 { "_mma128" } else { "_mma64" };
            check_of(&program, chip, (DType::F16, [rows, columns]), ends, EVEN);
        }
    }
    for chip in ["sm_80", "sm_90"] {
        check_of(PRODUCTS_OF_F32, chip, (DType::F32, [192, 192]), "_mma64", EVEN);
    }
}

#[test]
fn attention_of_tiles_reads_and_writes_whole_sectors() {
    let halves = ATTENTION.replace("f32", "f16");
    let halves =
        halves.replace("%t = reduce %c", "%w = convert %c : (tensor<[B]x[B]xf16>) -> tensor<[B]x[B]xf32>\n  %t = reduce %w");
    let (scores, rest) = halves.split_once("  %z = constant").expect("a softmax follows");
    let (softmax, weighted) = rest.split_once("  %o =").expect("a product follows");
    let softmax =
        softmax.replace("f16", "f32").replace("convert %c : (tensor<[B]x[B]xf32>)", "convert %c : (tensor<[B]x[B]xf16>)");
    let softmax = softmax.replace("subtract %c", "subtract %w");
    let narrow = "  %h = convert %p : (tensor<[B]x[B]xf32>) -> tensor<[B]x[B]xf16>\n";
    let program = format!("{scores}  %z = constant{softmax}{narrow}  %o ={}", weighted.replace("%p", "%h"));
    for chip in ["sm_75", "sm_80", "sm_90"] {
        for sizes in [[128, 64], [192, 128], [64, 32]] {
            check_of(&program, chip, (DType::F16, sizes), "_attention_mma", EVEN);
        }
    }
}
