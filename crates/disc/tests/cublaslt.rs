//! Compares matmuls that cuBLASLt computes on `cuda:0` with the interpreter, and tests what happens
//! where the library fails, is missing, or is loaded already. Driver and library are fakes.
mod child;
mod fake_cuda;
mod fake_library;

use child::{in_child, is_child};
use disc::{
    Executable, LibraryChoice, MatmulPrecision, Options,
    ir::{DType, interp::Tensor},
};
use fake_cuda::FakeCuda;
use fake_library::{
    CUBLAS_LT, FakeLibrary,
    run::{Packages, assert_near, load, loaded_files, options, run, tensor},
};
use std::{
    fs,
    sync::{Mutex, MutexGuard, PoisonError},
};

/// The library, which one test uses at a time.
struct Library {
    fake: FakeLibrary,
    _alone: MutexGuard<'static, ()>,
}

fn library() -> Library {
    static ALONE: Mutex<()> = Mutex::new(());
    let alone = ALONE.lock().unwrap_or_else(PoisonError::into_inner);
    FakeCuda::load();
    let fake = FakeLibrary::load(&CUBLAS_LT);
    fake.forget();
    fake.calls();
    Library { fake, _alone: alone }
}

/// Runs a program on inputs of these sizes. Returns how many matmuls the library computed.
fn check(library: &Library, text: &str, dtype: DType, inputs: &[&[i64]]) -> usize {
    check_loaded(library, text, &load(text, LibraryChoice::Auto).unwrap(), dtype, inputs)
}

fn check_loaded(library: &Library, text: &str, executable: &Executable, dtype: DType, inputs: &[&[i64]]) -> usize {
    let inputs: Vec<Tensor> = (1..).zip(inputs).map(|(seed, dims)| tensor(dtype, dims, seed)).collect();
    library.fake.calls();
    assert_near(text, executable, &inputs);
    library.fake.computed()
}

const DTYPES: [DType; 3] = [DType::F32, DType::F16, DType::BF16];

/// A matmul of two inputs, and ops that follow, with `DT` for the element type.
struct Matmul {
    left: &'static str,
    right: &'static str,
    attributes: &'static str,
    result: &'static str,
    others: &'static str,
    /// From `%z` to `%r`.
    rest: &'static str,
}

impl Matmul {
    fn text(&self, dtype: DType) -> String {
        let Self { left, right, attributes, result, others, rest } = self;
        let returned = if rest.is_empty() { "z" } else { "r" };
        format!(
            "func @main(%x: tensor<{left}xDT>, %y: tensor<{right}xDT>{others}) -> tensor<{result}xDT> {{
  %z = dot_general %x, %y, {attributes} : (tensor<{left}xDT>, tensor<{right}xDT>) -> tensor<{result}xDT>
{rest}
  return %{returned} : tensor<{result}xDT>
}}"
        )
        .replace("RT", result)
        .replace("DT", dtype.name())
    }
}

const PLAIN: Matmul = Matmul {
    left: "[M]x[K]",
    right: "[K]x[N]",
    attributes: "lhs_contracting_dims = [1], rhs_contracting_dims = [0]",
    result: "[M]x[N]",
    others: "",
    rest: "",
};

const BIAS: &str = "  %b = broadcast_in_dim %c, dims = [1] : (tensor<[N]xDT>) -> tensor<RTxDT>
  %a = add %z, %b : tensor<RTxDT>\n";
const RELU: &str = "  %0 = constant dense<0.0> : tensor<RTxDT>
  %r = maximum %a, %0 : tensor<RTxDT>";
/// As the front end writes it: in f32, whatever the type.
const GELU: &str = "  %v = convert %a, dtype = f32 : (tensor<RTxDT>) -> tensor<RTxf32>
  %c0 = constant dense<0.044715> : tensor<RTxf32>
  %c1 = constant dense<0.7978845608028654> : tensor<RTxf32>
  %c2 = constant dense<0.5> : tensor<RTxf32>
  %c3 = constant dense<1.0> : tensor<RTxf32>
  %v2 = multiply %v, %v : tensor<RTxf32>
  %v3 = multiply %v2, %v : tensor<RTxf32>
  %s = multiply %v3, %c0 : tensor<RTxf32>
  %q = add %v, %s : tensor<RTxf32>
  %i = multiply %q, %c1 : tensor<RTxf32>
  %t = tanh %i : tensor<RTxf32>
  %o = add %t, %c3 : tensor<RTxf32>
  %h = multiply %v, %c2 : tensor<RTxf32>
  %g = multiply %h, %o : tensor<RTxf32>
  %r = convert %g, dtype = DT : (tensor<RTxf32>) -> tensor<RTxDT>";

fn with_bias(rest: &str) -> Matmul {
    let rest = format!("{BIAS}{rest}").leak();
    Matmul { others: ", %c: tensor<[N]xDT>", rest, ..PLAIN }
}

#[test]
fn matrices_in_rows_and_in_columns() {
    let library = library();
    for (left, right, attributes) in [
        ("[M]x[K]", "[K]x[N]", "lhs_contracting_dims = [1], rhs_contracting_dims = [0]"),
        ("[K]x[M]", "[K]x[N]", "lhs_contracting_dims = [0], rhs_contracting_dims = [0]"),
        ("[M]x[K]", "[N]x[K]", "lhs_contracting_dims = [1], rhs_contracting_dims = [1]"),
        ("[K]x[M]", "[N]x[K]", "lhs_contracting_dims = [0], rhs_contracting_dims = [1]"),
    ] {
        let matmul = Matmul { left, right, attributes, ..PLAIN };
        let sized = |text: &str, [m, n, k]: [i64; 3]| match text {
            "[M]x[K]" => [m, k],
            "[K]x[M]" => [k, m],
            "[K]x[N]" => [k, n],
            _ => [n, k],
        };
        for dtype in DTYPES {
            let text = matmul.text(dtype);
            let executable = load(&text, LibraryChoice::Auto).unwrap();
            for (sizes, computed) in [([9, 13, 5], 1), ([33, 16, 70], 1), ([8, 64, 16], 0), ([16, 3, 4], 0), ([16, 16, 0], 0)] {
                let found = check_loaded(&library, &text, &executable, dtype, &[&sized(left, sizes), &sized(right, sizes)]);
                assert_eq!(found, computed, "{sizes:?} of {}", dtype.name());
            }
        }
    }
}

#[test]
fn batches_have_strides() {
    let library = library();
    let batched = Matmul {
        left: "[B]x[M]x[K]",
        right: "[B]x[K]x[N]",
        attributes: "lhs_batching_dims = [0], rhs_batching_dims = [0], lhs_contracting_dims = [2], rhs_contracting_dims = [1]",
        result: "[B]x[M]x[N]",
        ..PLAIN
    };
    // Matrices of all batches side by side in memory.
    let heads = Matmul {
        left: "[M]x[B]x[K]",
        right: "[N]x[B]x[K]",
        attributes: "lhs_batching_dims = [1], rhs_batching_dims = [1], lhs_contracting_dims = [2], rhs_contracting_dims = [2]",
        ..batched
    };
    for dtype in DTYPES {
        let found = check(&library, &batched.text(dtype), dtype, &[&[3, 10, 20], &[3, 20, 12]]);
        assert_eq!(found, 1, "{}", dtype.name());
        let found = check(&library, &heads.text(dtype), dtype, &[&[10, 3, 20], &[12, 3, 20]]);
        assert_eq!(found, 1, "{}", dtype.name());
    }
}

#[test]
fn rows_of_several_dimensions_are_rows() {
    let library = library();
    let text = "func @main(%x: tensor<[B]x[S]x[K]xf32>, %y: tensor<[N]x[K]xf32>, %c: tensor<[N]xf32>) -> tensor<[B]x[S]x[N]xf32> {
  %w = transpose %y, dims = [1, 0] : (tensor<[N]x[K]xf32>) -> tensor<[K]x[N]xf32>
  %z = dot_general %x, %w, lhs_contracting_dims = [2], rhs_contracting_dims = [0] : (tensor<[B]x[S]x[K]xf32>, tensor<[K]x[N]xf32>) -> tensor<[B]x[S]x[N]xf32>
  %b = broadcast_in_dim %c, dims = [2] : (tensor<[N]xf32>) -> tensor<[B]x[S]x[N]xf32>
  %r = add %b, %z : tensor<[B]x[S]x[N]xf32>
  return %r : tensor<[B]x[S]x[N]xf32>
}";
    assert_eq!(check(&library, text, DType::F32, &[&[3, 7, 20], &[12, 20], &[12]]), 1);
    assert_eq!(check(&library, text, DType::F32, &[&[1, 7, 20], &[12, 20], &[12]]), 0);
}

#[test]
fn each_epilogue() {
    let library = library();
    let rests = ["  %r = add %z, %b : tensor<RTxDT>", RELU, GELU];
    let no_bias = |rest: &str| {
        let rest = rest.replace("%a", "%z").leak();
        Matmul { rest, ..PLAIN }
    };
    for dtype in DTYPES {
        for rest in rests {
            let found = check(&library, &with_bias(rest).text(dtype), dtype, &[&[17, 40], &[40, 24], &[24]]);
            assert_eq!(found, 1, "{} with a bias: {rest}", dtype.name());
        }
        for rest in &rests[1..] {
            let found = check(&library, &no_bias(rest).text(dtype), dtype, &[&[17, 40], &[40, 24]]);
            assert_eq!(found, 1, "{}: {rest}", dtype.name());
        }
    }
}

/// Launches that may become a graph are before and after the library's matmul. A front end adds a
/// stored bias to sums in f32, rounds them, and goes on in f32.
#[test]
fn linear_layers_of_half_types() {
    let library = library();
    let layer = "func @main(%x: tensor<[M]x[K]xDT>, %y: tensor<[N]x[K]xDT>, %c: tensor<[N]xDT>) -> tensor<[M]x[N]xDT> {
  %z = dot_general %x, %y, lhs_contracting_dims = [1], rhs_contracting_dims = [1], dtype = f32 : (tensor<[M]x[K]xDT>, tensor<[N]x[K]xDT>) -> tensor<[M]x[N]xf32>
  %d = convert %c, dtype = f32 : (tensor<[N]xDT>) -> tensor<[N]xf32>
  %b = broadcast_in_dim %d, dims = [1] : (tensor<[N]xf32>) -> tensor<[M]x[N]xf32>
  %w = add %z, %b : tensor<[M]x[N]xf32>
  %a = convert %w, dtype = DT : (tensor<[M]x[N]xf32>) -> tensor<[M]x[N]xDT>
REST
  return %r : tensor<[M]x[N]xDT>
}";
    let relu = RELU.replace("RT", "[M]x[N]");
    let gelu = GELU.replace("RT", "[M]x[N]");
    for dtype in [DType::F16, DType::BF16] {
        for rest in [&relu, &gelu] {
            let text = layer.replace("REST", rest).replace("DT", dtype.name());
            let found = check(&library, &text, dtype, &[&[17, 40], &[24, 40], &[24]]);
            assert_eq!(found, 1, "{} of {rest}", dtype.name());
        }
    }
    // The sums are rounded to less than the result.
    let narrow = layer
        .replace("REST", "  %r = convert %a, dtype = f32 : (tensor<[M]x[N]xbf16>) -> tensor<[M]x[N]xf32>")
        .replace("-> tensor<[M]x[N]xDT> {", "-> tensor<[M]x[N]xf32> {")
        .replace("return %r : tensor<[M]x[N]xDT>", "return %r : tensor<[M]x[N]xf32>")
        .replace("DT", "bf16");
    assert_eq!(check(&library, &narrow, DType::BF16, &[&[17, 40], &[24, 40], &[24]]), 0);
}

#[test]
fn calls_that_come_again_keep_the_order_of_kernels_and_library() {
    let library = library();
    let text = "func @main(%x: tensor<[M]x[K]xf32>, %y: tensor<[K]x[N]xf32>) -> (tensor<[M]xf32>, tensor<[N]xf32>) {
  %0 = constant dense<0.0> : tensor<f32>
  %s = cumulative %x, %0, dim = 1 : (tensor<[M]x[K]xf32>, tensor<f32>) -> tensor<[M]x[K]xf32> applies maximum
  %t = cumulative %s, %0, dim = 0 : (tensor<[M]x[K]xf32>, tensor<f32>) -> tensor<[M]x[K]xf32> applies maximum
  %z = dot_general %t, %y, lhs_contracting_dims = [1], rhs_contracting_dims = [0] : (tensor<[M]x[K]xf32>, tensor<[K]x[N]xf32>) -> tensor<[M]x[N]xf32>
  %a = reduce %z, %0, dims = [1] : (tensor<[M]x[N]xf32>, tensor<f32>) -> tensor<[M]xf32> applies maximum
  %b = reduce %z, %0, dims = [0] : (tensor<[M]x[N]xf32>, tensor<f32>) -> tensor<[N]xf32> applies maximum
  return %a, %b : tensor<[M]xf32>, tensor<[N]xf32>
}";
    let executable = load(text, LibraryChoice::Auto).unwrap();
    for seed in 0..6 {
        assert_near(text, &executable, &[tensor(DType::F32, &[17, 20], seed), tensor(DType::F32, &[20, 24], seed + 9)]);
        assert_eq!(library.fake.computed(), 1);
    }
}

#[test]
fn tf32_is_allowed_by_the_option() {
    let library = library();
    let text = PLAIN.text(DType::F32);
    let inputs = [tensor(DType::F32, &[17, 40], 1), tensor(DType::F32, &[40, 24], 2)];
    let computed = |matmul_precision| {
        let options = Options { matmul_precision, ..options(LibraryChoice::Auto) };
        let executable = disc::compile_text(&text, &options).unwrap().load(Vec::new(), &options).unwrap();
        let found = run(&executable, &inputs).remove(0).to_f64s();
        assert_eq!(library.fake.computed(), 1);
        found
    };
    let [exact, rounded] = [MatmulPrecision::Highest, MatmulPrecision::High].map(computed);
    let far = exact.iter().zip(&rounded).map(|(a, b)| (a - b).abs()).fold(0.0, f64::max);
    assert!((1e-5..5e-2).contains(&far), "{far}");
}

#[test]
fn other_epilogues_are_left_to_kernels() {
    let library = library();
    let text = |rest: &str| with_bias(rest).text(DType::F32);
    let sizes: [&[i64]; 3] = [&[17, 40], &[40, 24], &[24]];
    for rest in [
        "  %r = tanh %a : tensor<RTxDT>",
        "  %0 = constant dense<1.0> : tensor<RTxDT>\n  %r = maximum %a, %0 : tensor<RTxDT>",
        "  %r = multiply %a, %b : tensor<RTxDT>",
        "  %r = add %a, %z : tensor<RTxDT>",
        &GELU.replace("0.044715", "0.05"),
        &GELU.replace("0.797", "0.707"),
    ] {
        assert_eq!(check(&library, &text(rest), DType::F32, &sizes), 0, "{rest}");
    }
}

#[test]
fn matmuls_of_the_same_rows_are_computed_together() {
    let library = library();
    let text = "func @main(%x: tensor<[M]x[K]xf32>, %a: tensor<[K]x[N]xf32>, %b: tensor<[K]x[P]xf32>) -> (tensor<[M]x[N]xf32>, tensor<[M]x[P]xf32>) {
  %y = dot_general %x, %a, lhs_contracting_dims = [1], rhs_contracting_dims = [0] : (tensor<[M]x[K]xf32>, tensor<[K]x[N]xf32>) -> tensor<[M]x[N]xf32>
  %z = dot_general %x, %b, lhs_contracting_dims = [1], rhs_contracting_dims = [0] : (tensor<[M]x[K]xf32>, tensor<[K]x[P]xf32>) -> tensor<[M]x[P]xf32>
  return %y, %z : tensor<[M]x[N]xf32>, tensor<[M]x[P]xf32>
}";
    assert_eq!(check(&library, text, DType::F32, &[&[17, 40], &[40, 24], &[40, 32]]), 2);
    // The second one has few columns: kernels compute both.
    check(&library, text, DType::F32, &[&[17, 40], &[40, 24], &[40, 4]]);
}

#[test]
fn a_shape_that_was_met_before_asks_nothing() {
    let library = library();
    let text = with_bias("  %r = add %z, %b : tensor<RTxDT>").text(DType::F32);
    let executable = load(&text, LibraryChoice::Auto).unwrap();
    let inputs = |seed| {
        let sizes: [&[i64]; 3] = [&[19, 80], &[80, 21], &[21]];
        sizes.map(|dims| tensor(DType::F32, dims, seed))
    };
    assert_near(&text, &executable, &inputs(1));
    assert!(library.fake.calls().iter().any(|call| call == "cublasLtMatmulAlgoGetHeuristic"));
    assert_near(&text, &executable, &inputs(2));
    assert_eq!(library.fake.calls(), ["cublasLtMatmulDescSetAttribute", "cublasLtMatmul", "computed"]);
    let other = load(&text, LibraryChoice::CublasLt).unwrap();
    assert_near(&text, &other, &inputs(3));
    assert_eq!(library.fake.calls(), ["cublasLtMatmulDescSetAttribute", "cublasLtMatmul", "computed"], "as another module");
    // Without the option nothing is offered.
    assert_near(&text, &load(&text, LibraryChoice::Off).unwrap(), &inputs(2));
    assert!(library.fake.calls().is_empty());
}

#[test]
fn every_function_may_fail_and_kernels_compute_the_matmul() {
    let library = library();
    let text = with_bias("  %r = add %z, %b : tensor<RTxDT>").text(DType::F32);
    let executable = load(&text, LibraryChoice::Auto).unwrap();
    let inputs = |rows: i64| {
        [[rows, 30], [30, 22]].map(|dims| tensor(DType::F32, &dims, 5)).into_iter().chain([tensor(DType::F32, &[22], 6)])
    };
    let mut rows = 100;
    for function in [
        "cublasLtMatmulDescCreate",
        "cublasLtMatmulDescSetAttribute",
        "cublasLtMatrixLayoutCreate",
        "cublasLtMatmulPreferenceCreate",
        "cublasLtMatmulPreferenceSetAttribute",
        "cublasLtMatmulAlgoGetHeuristic",
        "cublasLtMatmul",
    ] {
        // A shape without a plan.
        rows += 1;
        let inputs: Vec<Tensor> = inputs(rows).collect();
        let before = library.fake.alive();
        library.fake.fail(function, 14);
        assert_near(&text, &executable, &inputs);
        assert!(!library.fake.forget(), "{function} is called");
        assert_eq!(library.fake.computed(), 0, "{function}");
        if function != "cublasLtMatmul" {
            assert_eq!(library.fake.alive(), before, "what was described before {function} failed is destroyed");
        }
        assert_near(&text, &executable, &inputs);
        assert_eq!(library.fake.computed(), 1, "the call after {function} failed");
    }
    // A matmul that the library cannot compute is not offered again.
    let inputs: Vec<Tensor> = inputs(99).collect();
    library.fake.fail("cublasLtMatmulAlgoGetHeuristic", 15);
    assert_near(&text, &executable, &inputs);
    library.fake.calls();
    assert_near(&text, &executable, &inputs);
    assert!(library.fake.calls().is_empty());
}

/// No variables of the environment.
const NOTHING: &[(&str, &str)] = &[];

/// Runs a matmul that the library may compute.
fn check_one(library: LibraryChoice) {
    let text = PLAIN.text(DType::F32);
    let executable = load(&text, library).unwrap();
    assert_near(&text, &executable, &[tensor(DType::F32, &[20, 30], 1), tensor(DType::F32, &[30, 40], 2)]);
}

#[test]
fn a_loaded_library_is_used_and_no_other_one() {
    if !is_child() {
        return in_child("a_loaded_library_is_used_and_no_other_one", NOTHING);
    }
    FakeCuda::load();
    let _packages = Packages::new("loaded", "cu13", &CUBLAS_LT, |path| _ = fs::copy(CUBLAS_LT.path(), path).unwrap());
    let fake = FakeLibrary::load(&CUBLAS_LT);
    check_one(LibraryChoice::CublasLt);
    assert_eq!(fake.computed(), 1);
    assert_eq!(loaded_files(&CUBLAS_LT), [CUBLAS_LT.path().to_string_lossy()]);
}

#[test]
fn a_library_of_a_package_is_found() {
    if !is_child() {
        return in_child("a_library_of_a_package_is_found", NOTHING);
    }
    FakeCuda::load();
    let packages = Packages::new("package", "cu13", &CUBLAS_LT, |path| _ = fs::copy(CUBLAS_LT.path(), path).unwrap());
    assert!(loaded_files(&CUBLAS_LT).is_empty());
    check_one(LibraryChoice::CublasLt);
    assert_eq!(FakeLibrary::loaded(&CUBLAS_LT).expect("it was loaded").computed(), 1);
    assert_eq!(loaded_files(&CUBLAS_LT), [packages.0.join("nvidia/cu13/lib/libcublasLt.so.13").to_string_lossy()]);
}

#[test]
fn what_is_no_library_is_none() {
    if !is_child() {
        return in_child("what_is_no_library_is_none", NOTHING);
    }
    FakeCuda::load();
    let packages = Packages::new("wrong", "cu13", &CUBLAS_LT, |path| fs::write(path, "no library").unwrap());
    check_one(LibraryChoice::Auto);
    let error = load(&PLAIN.text(DType::F32), LibraryChoice::CublasLt).map(drop).unwrap_err().to_string();
    assert!(error.contains("the library cuBLASLt was asked for, and cannot be used"), "{error}");
    assert!(error.contains(&*packages.0.to_string_lossy()), "{error}");
}

#[test]
fn a_library_that_does_not_start_is_none() {
    if !is_child() {
        return in_child("a_library_that_does_not_start_is_none", NOTHING);
    }
    FakeCuda::load();
    let fake = FakeLibrary::load(&CUBLAS_LT);
    fake.fail("cublasLtCreate", 1);
    check_one(LibraryChoice::Auto);
    assert_eq!(fake.calls(), ["cublasLtCreate"], "asked once");
    let error = load(&PLAIN.text(DType::F32), LibraryChoice::CublasLt).map(drop).unwrap_err().to_string();
    assert!(error.contains("cublasLtCreate: NOT_INITIALIZED (1)"), "{error}");
}

#[test]
fn other_devices_do_not_have_it() {
    for device in ["cpu", "simt:sm_90"] {
        let options = Options { device: Some(device.into()), ..options(LibraryChoice::CublasLt) };
        let error = disc::compile_text(&PLAIN.text(DType::F32), &options).map(drop).unwrap_err().to_string();
        assert!(error.contains("it is for GPUs of NVIDIA"), "{device}: {error}");
    }
}
