//! Compares convolutions that cuDNN computes on `cuda:0` with the interpreter, and tests what
//! happens where the library fails, is missing, is of another version, or is loaded already. Driver
//! and library are fakes.
mod child;
mod fake_cuda;
mod fake_library;

use child::{in_child, is_child};
use disc::{
    Executable, LibraryChoice, MatmulPrecision, Options,
    ir::{DType, interp::Tensor},
    ral::HostOutputs,
};
use fake_cuda::FakeCuda;
use fake_library::{
    CUDNN, FakeLibrary,
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
    let fake = FakeLibrary::load(&CUDNN);
    fake.forget();
    fake.calls();
    Library { fake, _alone: alone }
}

/// Runs a program on inputs of these sizes. Returns how many convolutions the library computed.
fn check(library: &Library, text: &str, dtype: DType, inputs: &[&[i64]]) -> usize {
    check_loaded(library, text, &load(text, LibraryChoice::Cudnn).unwrap(), dtype, inputs)
}

fn check_loaded(library: &Library, text: &str, executable: &Executable, dtype: DType, inputs: &[&[i64]]) -> usize {
    let inputs: Vec<Tensor> = (1..).zip(inputs).map(|(seed, dims)| tensor(dtype, dims, seed)).collect();
    library.fake.calls();
    assert_near(text, executable, &inputs);
    library.fake.computed()
}

const DTYPES: [DType; 3] = [DType::F32, DType::F16, DType::BF16];

/// A convolution of two inputs, and ops that follow, with `DT` for the element type.
#[derive(Clone, Copy)]
struct Convolution {
    input: &'static str,
    filter: &'static str,
    /// The type of the result, `RT` in what follows.
    result: &'static str,
    dimensions: &'static str,
    attributes: &'static str,
    facts: &'static str,
    others: &'static str,
    /// From `%z` to `%r`.
    rest: &'static str,
}

const FEATURES_FIRST: &str = "input_batch_dimension = 0, input_feature_dimension = 1, input_spatial_dimensions = [2, 3], \
    kernel_input_feature_dimension = 1, kernel_output_feature_dimension = 0, kernel_spatial_dimensions = [2, 3], \
    output_batch_dimension = 0, output_feature_dimension = 1, output_spatial_dimensions = [2, 3]";
const FEATURES_LAST: &str = "input_batch_dimension = 0, input_feature_dimension = 3, input_spatial_dimensions = [1, 2], \
    kernel_input_feature_dimension = 2, kernel_output_feature_dimension = 3, kernel_spatial_dimensions = [0, 1], \
    output_batch_dimension = 0, output_feature_dimension = 3, output_spatial_dimensions = [1, 2]";
const ONE_DIMENSION: &str = "input_batch_dimension = 0, input_feature_dimension = 1, input_spatial_dimensions = [2], \
    kernel_input_feature_dimension = 1, kernel_output_feature_dimension = 0, kernel_spatial_dimensions = [2], \
    output_batch_dimension = 0, output_feature_dimension = 1, output_spatial_dimensions = [2]";

/// A window of 3 by 3 elements that keeps the sizes.
const PLAIN: Convolution = Convolution {
    input: "[B]x8x[H]x[W]",
    filter: "16x8x3x3",
    result: "[B]x16x[H]x[W]",
    dimensions: FEATURES_FIRST,
    attributes: ", padding_low = [1, 1], padding_high = [1, 1]",
    facts: "1 <= H, 1 <= W",
    others: "",
    rest: "",
};

const BIAS: &str = "  %b = broadcast_in_dim %c, dims = [1] : (tensor<16xDT>) -> tensor<RTxDT>\n";
const WITH_BIAS: Convolution = Convolution { others: ", %c: tensor<16xDT>", ..PLAIN };

impl Convolution {
    fn text(&self, dtype: DType) -> String {
        let Self { input, filter, result, dimensions, attributes, facts, others, rest } = self;
        let returned = if rest.is_empty() { "z" } else { "r" };
        let facts = if facts.is_empty() { String::new() } else { format!(" where {facts}") };
        format!(
            "func @main(%x: tensor<{input}xDT>, %k: tensor<{filter}xDT>{others}) -> tensor<{result}xDT>{facts} {{
  %z = convolution %x, %k, {dimensions}{attributes} : (tensor<{input}xDT>, tensor<{filter}xDT>) -> tensor<{result}xDT>
{rest}
  return %{returned} : tensor<{result}xDT>
}}"
        )
        .replace("RT", result)
        .replace("DT", dtype.name())
    }

    fn with_rest(&self, rest: &str) -> Self {
        Self { rest: format!("{BIAS}{rest}").leak(), ..*self }
    }
}

#[test]
fn sizes_of_images_and_windows() {
    let library = library();
    for dtype in DTYPES {
        let text = PLAIN.text(dtype);
        let executable = load(&text, LibraryChoice::Cudnn).unwrap();
        // With 8 places or fewer kernels read the filter once.
        for (sizes, computed) in [([2, 5, 7], 1), ([1, 3, 3], 1), ([1, 2, 4], 0), ([1, 1, 1], 0), ([0, 5, 5], 0), ([9, 1, 1], 1)]
        {
            let [batch, height, width] = sizes;
            let inputs: [&[i64]; 2] = [&[batch, 8, height, width], &[16, 8, 3, 3]];
            let found = check_loaded(&library, &text, &executable, dtype, &inputs);
            assert_eq!(found, computed, "{sizes:?} of {}", dtype.name());
        }
    }
}

#[test]
fn strides_dilations_and_padding() {
    let library = library();
    for (attributes, height, width, sizes, computed) in [
        (", window_strides = [2, 2], padding_low = [1, 1], padding_high = [1, 1]", "(H + 1)/2", "(W + 1)/2", [9, 8], 1),
        (", window_strides = [3, 1]", "H/3", "W - 2", [9, 8], 1),
        (", rhs_dilation = [2, 3], padding_low = [2, 3], padding_high = [2, 3]", "H", "W", [6, 8], 1),
        (", padding_low = [0, 2], padding_high = [0, 2]", "H - 2", "W + 2", [5, 4], 1),
        // The padding after an axis may be that before it, if as many windows fit.
        (", window_strides = [2, 2], padding_low = [1, 1], padding_high = [0, 0]", "H/2", "W/2", [8, 10], 1),
        // The library pads both sides alike.
        (", padding_low = [0, 0], padding_high = [2, 2]", "H", "W", [6, 6], 0),
    ] {
        let result = format!("[B]x16x[{height}]x[{width}]").leak();
        let convolution = Convolution { attributes, result, facts: "3 <= H, 3 <= W", ..PLAIN };
        for dtype in DTYPES {
            let [height, width] = sizes;
            let inputs: [&[i64]; 2] = [&[2, 8, height, width], &[16, 8, 3, 3]];
            assert_eq!(check(&library, &convolution.text(dtype), dtype, &inputs), computed, "{attributes}, {}", dtype.name());
        }
    }
}

#[test]
fn groups_of_features() {
    let library = library();
    // A matmul for each group, element by element, and one window for each feature.
    for (filter, groups) in [("16x4x3x3", 2), ("16x2x3x3", 4), ("16x1x3x3", 8)] {
        let attributes = format!("{}, feature_group_count = {groups}", PLAIN.attributes).leak();
        let sizes: Vec<i64> = filter.split('x').map(|size| size.parse().unwrap()).collect();
        for dtype in DTYPES {
            let text = Convolution { filter, attributes, ..PLAIN }.text(dtype);
            assert_eq!(check(&library, &text, dtype, &[&[2, 8, 5, 6], &sizes]), 1, "{groups} groups of {}", dtype.name());
        }
    }
}

#[test]
fn one_dimension() {
    let library = library();
    let convolution = Convolution {
        input: "[B]x8x[W]",
        filter: "16x8x3",
        result: "[B]x16x[(W - 1)/2]",
        dimensions: ONE_DIMENSION,
        attributes: ", window_strides = [2]",
        facts: "3 <= W",
        ..PLAIN
    };
    for dtype in DTYPES {
        assert_eq!(check(&library, &convolution.text(dtype), dtype, &[&[3, 8, 11], &[16, 8, 3]]), 1);
    }
}

#[test]
fn features_last() {
    let library = library();
    let convolution =
        Convolution { input: "[B]x[H]x[W]x8", filter: "3x3x8x16", result: "[B]x[H]x[W]x16", dimensions: FEATURES_LAST, ..PLAIN };
    for dtype in DTYPES {
        assert_eq!(check(&library, &convolution.text(dtype), dtype, &[&[2, 5, 6, 8], &[3, 3, 8, 16]]), 1, "{}", dtype.name());
    }
}

#[test]
fn windows_of_one_element() {
    let library = library();
    let convolution = Convolution { filter: "16x8x1x1", attributes: "", facts: "", ..WITH_BIAS };
    for dtype in DTYPES {
        let text = convolution.with_rest("  %r = add %z, %b : tensor<RTxDT>").text(dtype);
        assert_eq!(check(&library, &text, dtype, &[&[2, 8, 5, 6], &[16, 8, 1, 1], &[16]]), 1, "{}", dtype.name());
    }
}

/// Runs a program as [`check`] does. Returns how many kernels ran, too.
fn check_launches(library: &Library, text: &str, dtype: DType, inputs: &[&[i64]]) -> (usize, usize) {
    let executable = load(text, LibraryChoice::Cudnn).unwrap();
    let driver = FakeCuda::load();
    driver.calls();
    let computed = check_loaded(library, text, &executable, dtype, inputs);
    (computed, driver.calls().iter().filter(|call| *call == "cuLaunchKernel").count())
}

#[test]
fn each_epilogue() {
    let library = library();
    let inputs: [&[i64]; 3] = [&[2, 8, 5, 6], &[16, 8, 3, 3], &[16]];
    let zero = "  %0 = constant dense<0.0> : tensor<RTxDT>\n";
    let bias = "  %r = add %z, %b : tensor<RTxDT>".to_owned();
    let bias_relu = format!("{zero}  %a = add %b, %z : tensor<RTxDT>\n  %r = maximum %a, %0 : tensor<RTxDT>");
    let relu = format!("{zero}  %r = maximum %0, %z : tensor<RTxDT>");
    // Others are computed by a kernel after the convolution.
    let tanh = "  %a = add %z, %b : tensor<RTxDT>\n  %r = tanh %a : tensor<RTxDT>".to_owned();
    for dtype in DTYPES {
        for (rest, launches) in [(&bias, 0), (&bias_relu, 0), (&relu, 0), (&tanh, 1)] {
            let text = WITH_BIAS.with_rest(rest).text(dtype);
            assert_eq!(check_launches(&library, &text, dtype, &inputs), (1, launches), "{} of {rest}", dtype.name());
        }
    }
}

/// A front end adds a bias to sums in f32, and rounds them after it.
#[test]
fn sums_that_are_rounded_behind_the_bias() {
    let library = library();
    let text = |rest: &str| {
        let wide = "tensor<[B]x16x[H]x[W]xf32>";
        format!(
            "func @main(%x: tensor<[B]x8x[H]x[W]xf16>, %k: tensor<16x8x3x3xf16>, %c: tensor<16xf16>) -> tensor<[B]x16x[H]x[W]xf16> where 1 <= H, 1 <= W {{
  %z = convolution %x, %k, {FEATURES_FIRST}, padding_low = [1, 1], padding_high = [1, 1], dtype = f32 : (tensor<[B]x8x[H]x[W]xf16>, tensor<16x8x3x3xf16>) -> {wide}
  %w = convert %c, dtype = f32 : (tensor<16xf16>) -> tensor<16xf32>
  %b = broadcast_in_dim %w, dims = [1] : (tensor<16xf32>) -> {wide}
  %s = add %z, %b : {wide}
{rest}
  %r = convert %t, dtype = f16 : ({wide}) -> tensor<[B]x16x[H]x[W]xf16>
  return %r : tensor<[B]x16x[H]x[W]xf16>
}}"
        )
    };
    let wide = "tensor<[B]x16x[H]x[W]xf32>";
    let relu = format!("  %0 = constant dense<0.0> : {wide}\n  %t = maximum %s, %0 : {wide}");
    // The library widens the bias.
    for (rest, launches) in [(relu, 0), (format!("  %t = tanh %s : {wide}"), 1)] {
        let found = check_launches(&library, &text(&rest), DType::F16, &[&[2, 8, 5, 6], &[16, 8, 3, 3], &[16]]);
        assert_eq!(found, (1, launches), "{rest}");
    }
}

/// The library of the tests has no engine for more than a convolution of 15 features: a kernel adds
/// the bias.
#[test]
fn a_kernel_computes_the_rest_where_the_library_has_no_engine_for_it() {
    let library = library();
    let odd = Convolution { filter: "15x8x3x3", result: "[B]x15x[H]x[W]", others: ", %c: tensor<15xDT>", ..PLAIN };
    for dtype in DTYPES {
        let rest = "  %r = add %z, %b : tensor<RTxDT>";
        let text = odd.with_rest(rest).text(dtype).replace("tensor<16x", "tensor<15x");
        let found = check_launches(&library, &text, dtype, &[&[2, 8, 5, 6], &[15, 8, 3, 3], &[15]]);
        assert_eq!(found, (1, 1), "{}", dtype.name());
    }
}

#[test]
fn convolutions_of_one_input() {
    let library = library();
    let text = "func @main(%x: tensor<[B]x8x[H]x[W]xf32>, %k: tensor<16x8x1x1xf32>, %l: tensor<16x8x1x1xf32>, %c: tensor<16xf32>) -> (tensor<[B]x16x[H]x[W]xf32>, tensor<[B]x16x[H]x[W]xf32>) {
  %y = convolution %x, %k, DIMS : (tensor<[B]x8x[H]x[W]xf32>, tensor<16x8x1x1xf32>) -> tensor<[B]x16x[H]x[W]xf32>
  %z = convolution %x, %l, DIMS : (tensor<[B]x8x[H]x[W]xf32>, tensor<16x8x1x1xf32>) -> tensor<[B]x16x[H]x[W]xf32>
  %b = broadcast_in_dim %c, dims = [1] : (tensor<16xf32>) -> tensor<[B]x16x[H]x[W]xf32>
  %a = add %y, %b : tensor<[B]x16x[H]x[W]xf32>
  %t = tanh %z : tensor<[B]x16x[H]x[W]xf32>
  return %a, %t : tensor<[B]x16x[H]x[W]xf32>, tensor<[B]x16x[H]x[W]xf32>
}"
    .replace("DIMS", FEATURES_FIRST);
    let found = check(&library, &text, DType::F32, &[&[2, 8, 5, 6], &[16, 8, 1, 1], &[16, 8, 1, 1], &[16]]);
    assert_eq!(found, 2);
}

/// The sum of a convolution and another tensor may have the memory of that one.
#[test]
fn a_residual_is_added_by_a_kernel() {
    let library = library();
    let text = "func @main(%x: tensor<[B]x16x[H]x[W]xf32>, %k: tensor<16x16x3x3xf32>) -> tensor<[B]x16x[H]x[W]xf32> where 1 <= H, 1 <= W {
  %t = tanh %x : tensor<[B]x16x[H]x[W]xf32>
  %z = convolution %t, %k, DIMS, padding_low = [1, 1], padding_high = [1, 1] : (tensor<[B]x16x[H]x[W]xf32>, tensor<16x16x3x3xf32>) -> tensor<[B]x16x[H]x[W]xf32>
  %s = add %z, %t : tensor<[B]x16x[H]x[W]xf32>
  %y = convolution %s, %k, DIMS, padding_low = [1, 1], padding_high = [1, 1] : (tensor<[B]x16x[H]x[W]xf32>, tensor<16x16x3x3xf32>) -> tensor<[B]x16x[H]x[W]xf32>
  %r = add %s, %y : tensor<[B]x16x[H]x[W]xf32>
  return %r : tensor<[B]x16x[H]x[W]xf32>
}"
    .replace("DIMS", FEATURES_FIRST);
    let executable = load(&text, LibraryChoice::Cudnn).unwrap();
    // Calls that come again become graphs of the driver.
    for _ in 0..5 {
        assert_eq!(check_loaded(&library, &text, &executable, DType::F32, &[&[2, 16, 5, 6], &[16, 16, 3, 3]]), 2);
    }
}

#[test]
fn engines_that_change_numbers_are_passed_over() {
    let library = library();
    let names = |dtype, matmul_precision| {
        let options = Options { matmul_precision, ..options(LibraryChoice::Cudnn) };
        let executable = disc::compile_text(&PLAIN.text(dtype), &options).unwrap().load(Vec::new(), &options).unwrap();
        let inputs = [tensor(dtype, &[2, 8, 5, 6], 1), tensor(dtype, &[16, 8, 3, 3], 2)];
        library.fake.calls();
        let found = run(&executable, &inputs).remove(0).to_f64s();
        let calls = library.fake.calls();
        (calls.into_iter().filter(|call| call.starts_with("computed")).collect::<Vec<_>>(), found)
    };
    let (by, exact) = names(DType::F32, MatmulPrecision::Highest);
    assert_eq!(by, ["computed"]);
    let (by, rounded) = names(DType::F32, MatmulPrecision::High);
    assert_eq!(by, ["computed by tensor cores"]);
    let far = exact.iter().zip(&rounded).map(|(a, b)| (a - b).abs()).fold(0.0, f64::max);
    assert!((1e-5..5e-2).contains(&far), "{far}");
    assert_eq!(names(DType::BF16, MatmulPrecision::Highest).0, ["computed by tensor cores"]);
}

#[test]
fn a_shape_that_was_met_before_asks_for_no_engine() {
    let library = library();
    let text = WITH_BIAS.with_rest("  %r = add %z, %b : tensor<RTxDT>").text(DType::F32);
    let executable = load(&text, LibraryChoice::Cudnn).unwrap();
    let inputs = |seed| {
        let sizes: [&[i64]; 3] = [&[3, 8, 7, 9], &[16, 8, 3, 3], &[16]];
        sizes.map(|dims| tensor(DType::F32, dims, seed))
    };
    assert_near(&text, &executable, &inputs(1));
    assert!(library.fake.calls().iter().any(|call| call == "cudnnBackendGetAttribute"));
    let again = [
        "cudnnSetStream",
        "cudnnBackendCreateDescriptor",
        "cudnnBackendSetAttribute",
        "cudnnBackendSetAttribute",
        "cudnnBackendSetAttribute",
        "cudnnBackendFinalize",
        "cudnnBackendExecute",
        "cudnnBackendDestroyDescriptor",
        "computed",
    ];
    assert_near(&text, &executable, &inputs(2));
    assert_eq!(library.fake.calls(), again);
    assert_near(&text, &load(&text, LibraryChoice::Auto).unwrap(), &inputs(3));
    assert_eq!(library.fake.calls(), again, "as another module");
    assert_near(&text, &load(&text, LibraryChoice::Off).unwrap(), &inputs(2));
    assert!(library.fake.calls().is_empty(), "nothing is offered without the option");
}

#[test]
fn every_function_may_fail_and_kernels_compute_the_convolution() {
    let library = library();
    let text = PLAIN.text(DType::F32);
    let executable = load(&text, LibraryChoice::Cudnn).unwrap();
    let inputs = |height: i64| [tensor(DType::F32, &[1, 8, height, 5], 5), tensor(DType::F32, &[16, 8, 3, 3], 6)];
    for (height, function) in (20..).zip([
        "cudnnBackendCreateDescriptor",
        "cudnnBackendSetAttribute",
        "cudnnBackendGetAttribute",
        "cudnnBackendFinalize",
        "cudnnSetStream",
        "cudnnBackendExecute",
    ]) {
        // A shape without a plan.
        let inputs = inputs(height);
        let before = library.fake.alive();
        library.fake.fail(function, 4003);
        assert_near(&text, &executable, &inputs);
        assert!(!library.fake.forget(), "{function} is called");
        assert_eq!(library.fake.computed(), 0, "{function}");
        if !["cudnnSetStream", "cudnnBackendExecute"].contains(&function) {
            assert_eq!(library.fake.alive(), before, "what was made before {function} failed is destroyed");
        }
        assert_near(&text, &executable, &inputs);
        assert_eq!(library.fake.computed(), 1, "the call after {function} failed");
    }
    // A convolution that the library refuses is not offered again.
    let inputs = inputs(40);
    library.fake.fail("cudnnBackendSetAttribute", 3002);
    assert_near(&text, &executable, &inputs);
    library.fake.calls();
    assert_near(&text, &executable, &inputs);
    assert!(library.fake.calls().is_empty());
}

/// The sums of the windows are long: the engine works in memory of its own.
#[test]
fn without_memory_for_the_library_kernels_compute_the_convolution() {
    let library = library();
    let (text, driver) = (PLAIN.text(DType::F32), FakeCuda::load());
    let inputs = [tensor(DType::F32, &[2, 8, 6, 5], 1), tensor(DType::F32, &[16, 8, 3, 3], 2)];
    let host: Vec<_> = inputs.iter().map(|input| disc::to_host(input).unwrap()).collect();
    let given: Vec<_> = host.iter().map(|input| input.as_input()).collect();
    // The library is asked last for memory: the allocations before are those of the call.
    let mut outcomes = Vec::new();
    for skip in 0..8 {
        let executable = load(&text, LibraryChoice::Cudnn).unwrap();
        driver.fail("cuMemAllocFromPoolAsync", skip, 2);
        let mut outputs = HostOutputs::new();
        let ran = executable.with_session(|session| executable.run(0, session, &given, &mut outputs)).is_ok();
        let has_failed = !driver.forget();
        outcomes.push((has_failed, ran, library.fake.computed()));
        // Later calls have the memory.
        assert_near(&text, &executable, &inputs);
        assert_eq!(library.fake.computed(), 1);
    }
    assert!(outcomes.contains(&(true, true, 0)), "kernels have computed it once: {outcomes:?}");
    assert!(
        outcomes.iter().all(|outcome| [(true, false, 0), (true, true, 0), (false, true, 1)].contains(outcome)),
        "{outcomes:?}"
    );
}

#[test]
fn matmuls_are_left_to_the_other_library() {
    let library = library();
    let text = "func @main(%x: tensor<[M]x[K]xf32>, %y: tensor<[K]x[N]xf32>) -> tensor<[M]x[N]xf32> {
  %z = dot_general %x, %y, lhs_contracting_dims = [1], rhs_contracting_dims = [0] : (tensor<[M]x[K]xf32>, tensor<[K]x[N]xf32>) -> tensor<[M]x[N]xf32>
  return %z : tensor<[M]x[N]xf32>
}";
    assert_eq!(check(&library, text, DType::F32, &[&[17, 20], &[20, 24]]), 0);
}

/// No variables of the environment.
const NOTHING: &[(&str, &str)] = &[];

/// Runs a convolution that the library may compute.
fn check_one(library: LibraryChoice) {
    let text = PLAIN.text(DType::F32);
    let executable = load(&text, library).unwrap();
    assert_near(&text, &executable, &[tensor(DType::F32, &[2, 8, 5, 6], 1), tensor(DType::F32, &[16, 8, 3, 3], 2)]);
}

/// Returns the reason that a program cannot be loaded with the library.
fn refusal() -> String {
    load(&PLAIN.text(DType::F32), LibraryChoice::Cudnn).map(drop).unwrap_err().to_string()
}

#[test]
fn a_loaded_library_is_used_and_no_other_one() {
    if !is_child() {
        return in_child("a_loaded_library_is_used_and_no_other_one", NOTHING);
    }
    FakeCuda::load();
    let _packages = Packages::new("loaded", "cudnn", &CUDNN, |path| _ = fs::copy(CUDNN.path(), path).unwrap());
    let fake = FakeLibrary::load(&CUDNN);
    check_one(LibraryChoice::Cudnn);
    assert_eq!(fake.computed(), 1);
    assert_eq!(loaded_files(&CUDNN), [CUDNN.path().to_string_lossy()]);
}

#[test]
fn a_library_of_a_package_is_found() {
    if !is_child() {
        return in_child("a_library_of_a_package_is_found", NOTHING);
    }
    FakeCuda::load();
    let packages = Packages::new("package", "cudnn", &CUDNN, |path| _ = fs::copy(CUDNN.path(), path).unwrap());
    assert!(loaded_files(&CUDNN).is_empty());
    check_one(LibraryChoice::Cudnn);
    assert_eq!(FakeLibrary::loaded(&CUDNN).expect("it was loaded").computed(), 1);
    assert_eq!(loaded_files(&CUDNN), [packages.0.join("nvidia/cudnn/lib/libcudnn.so.9").to_string_lossy()]);
}

#[test]
fn what_is_no_library_is_none() {
    if !is_child() {
        return in_child("what_is_no_library_is_none", NOTHING);
    }
    FakeCuda::load();
    let packages = Packages::new("wrong", "cudnn", &CUDNN, |path| fs::write(path, "no library").unwrap());
    check_one(LibraryChoice::Auto);
    let error = refusal();
    assert!(error.contains("the library cuDNN was asked for, and cannot be used"), "{error}");
    assert!(error.contains(&*packages.0.to_string_lossy()), "{error}");
}

#[test]
fn a_library_of_an_older_version_is_none() {
    if !is_child() {
        return in_child("a_library_of_an_older_version_is_none", &[("FAKE_CUDNN_VERSION", "8907")]);
    }
    FakeCuda::load();
    let fake = FakeLibrary::load(&CUDNN);
    check_one(LibraryChoice::Auto);
    assert!(fake.calls().is_empty());
    let error = refusal();
    assert!(error.contains("libcudnn.so.9, which this process has loaded: it has version 8907, expected 9.x"), "{error}");
}

#[test]
fn a_library_that_does_not_start_is_none() {
    if !is_child() {
        return in_child("a_library_that_does_not_start_is_none", NOTHING);
    }
    FakeCuda::load();
    let fake = FakeLibrary::load(&CUDNN);
    fake.fail("cudnnCreate", 1001);
    check_one(LibraryChoice::Auto);
    assert_eq!(fake.calls(), ["cudnnCreate"], "asked once");
    let error = refusal();
    assert!(error.contains("cudnnCreate: status 1001 CUDNN_STATUS_NOT_INITIALIZED the reason of the fake library"), "{error}");
}

#[test]
fn other_devices_do_not_have_it() {
    for device in ["cpu", "simt:sm_90"] {
        let options = Options { device: Some(device.into()), ..options(LibraryChoice::Cudnn) };
        let error = disc::compile_text(&PLAIN.text(DType::F32), &options).map(drop).unwrap_err().to_string();
        assert!(error.contains("it is for GPUs of NVIDIA"), "{device}: {error}");
    }
}
