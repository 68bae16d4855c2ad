//! Tests matmuls of tiles on each kind of NVIDIA's chips: which of them have a version, and that
//! results are those of the interpreter, at the edges of tiles too.
use disc::{
    Executable, MatmulPrecision, Options, compile, from_host,
    ir::{
        DType,
        generate::cases::Nearness,
        interp::{self, Tensor},
    },
    parse,
    ral::{HostOutput, HostOutputs},
    to_host,
};
use disc_filetests::compare;

/// A product with the lines of a matrix, or with the columns.
const PRODUCT: &str = "
func @main(%x: tensor<[M]x[K]xTYPE>, %y: tensor<RIGHTxTYPE>) -> tensor<[M]x[N]xTYPE> {
  %z = dot_general %x, %y, contracting_dims = [1] x [AXIS] : (tensor<[M]x[K]xTYPE>, tensor<RIGHTxTYPE>) -> tensor<[M]x[N]xTYPE>
  %a = abs %z : tensor<[M]x[N]xTYPE>
  return %a : tensor<[M]x[N]xTYPE>
}";

fn product(dtype: DType, is_linear: bool) -> String {
    let (right, axis) = if is_linear { ("[N]x[K]", "1") } else { ("[K]x[N]", "0") };
    PRODUCT.replace("TYPE", dtype.name()).replace("RIGHT", right).replace("AXIS", axis)
}

fn load(program: &str, chip: &str) -> Executable {
    load_with(program, chip, MatmulPrecision::Highest)
}

fn load_with(program: &str, chip: &str, matmul_precision: MatmulPrecision) -> Executable {
    let options = Options { device: Some(format!("simt:{chip}")), matmul_precision, ..Options::default() };
    compile(parse(program).unwrap(), &options).unwrap().load(Vec::new(), &options).unwrap()
}

/// Runs a call, compares its result with the interpreter's, and returns the kernel's name.
fn run(executable: &Executable, program: &str, dtype: DType, inputs: &[Vec<i64>]) -> String {
    let made = |sizes: &Vec<i64>| {
        let values =
            (0..sizes.iter().product::<i64>()).map(|i| ((i * 7919 % 61) - 30) as f64 / if dtype.is_float() { 16.0 } else { 1.0 });
        Tensor::from_f64s(dtype, sizes, &values.collect::<Vec<_>>()).unwrap()
    };
    let values: Vec<Tensor> = inputs.iter().map(made).collect();
    let tensors: Vec<_> = values.iter().map(|value| to_host(value).unwrap()).collect();
    let given: Vec<_> = tensors.iter().map(|tensor| tensor.as_input()).collect();
    let mut outputs = HostOutputs::new();
    let launches = executable.with_session(|session| {
        session.start_profile();
        executable.run(0, session, &given, &mut outputs).unwrap();
        session.take_profile()
    });
    let Some(HostOutput::Fresh(found)) = outputs.take().remove(0) else { panic!("an output has memory of its own") };
    let expected = interp::run(&parse(program).unwrap(), "main", &values).unwrap();
    compare(&from_host(&found).unwrap(), &expected[0], Nearness::Sum).unwrap_or_else(|why| panic!("{inputs:?}: {why}"));
    launches.last().map_or(String::new(), |launch| launch.name.as_deref().expect("code has names").to_owned())
}

#[test]
fn chips_multiply_the_types_that_they_have_tiles_for() {
    use DType::{BF16, F16, F32, I8};
    let chips =
        [("sm_70", &[][..]), ("sm_75", &[F16]), ("sm_80", &[F16, BF16, I8]), ("sm_90", &[F16, BF16, I8]), ("gfx942", &[])];
    for (chip, multiplied) in chips {
        for dtype in [F16, BF16, I8, F32] {
            let program = product(dtype, true);
            let executable = load(&program, chip);
            let name = run(&executable, &program, dtype, &[vec![72, 96], vec![40, 96]]);
            let end = if multiplied.contains(&dtype) { "_mma64" } else { "_s" };
            assert!(name.ends_with(end), "{dtype} on {chip}: {name}");
        }
    }
}

/// Operands of f32 are rounded where that is allowed; terms are innermost in memory, or columns.
#[test]
fn products_of_f32_are_of_tiles_where_that_is_allowed() {
    for (chip, precision, end) in [
        ("sm_80", MatmulPrecision::High, "_mma64"),
        ("sm_90", MatmulPrecision::Medium, "_mma64"),
        ("sm_90", MatmulPrecision::Highest, "_s"),
        ("sm_75", MatmulPrecision::High, "_s"),
    ] {
        for is_linear in [true, false] {
            let program = product(DType::F32, is_linear);
            let executable = load_with(&program, chip, precision);
            for [rows, terms, columns] in [[9, 4, 9], [64, 16, 64], [70, 44, 131]] {
                let right = if is_linear { vec![columns, terms] } else { vec![terms, columns] };
                let name = run(&executable, &program, DType::F32, &[vec![rows, terms], right]);
                assert!(name.ends_with(end), "{precision:?}, {rows} x {terms} x {columns} on {chip}: {name}");
            }
        }
    }
}

#[test]
fn tiles_have_edges() {
    for chip in ["sm_75", "sm_80"] {
        for is_linear in [true, false] {
            let program = product(DType::F16, is_linear);
            let executable = load(&program, chip);
            for ([rows, terms, columns], end) in [
                ([9, 8, 8], "_mma64"),
                ([64, 32, 64], "_mma64"),
                ([65, 40, 72], "_mma64"),
                ([127, 104, 136], "_mma64"),
                ([64, 0, 64], "_s"),
                // Lines of the left operand are terms.
                ([64, 33, 64], "_s"),
                ([64, 64, 33], if is_linear { "_mma64" } else { "_s" }),
                ([0, 64, 64], ""),
                ([64, 64, 0], ""),
            ] {
                let right = if is_linear { vec![columns, terms] } else { vec![terms, columns] };
                let name = run(&executable, &program, DType::F16, &[vec![rows, terms], right]);
                assert!(name.ends_with(end), "{rows} x {terms} x {columns} on {chip}: {name}");
            }
        }
    }
}

#[test]
fn large_parts_are_for_results_that_have_enough_of_them() {
    let program = product(DType::BF16, true);
    let executable = load(&program, "sm_80");
    for ([rows, columns], end) in [([1000, 1056], "_mma128"), ([1000, 1000], "_mma64"), ([20_000, 64], "_mma64")] {
        let name = run(&executable, &program, DType::BF16, &[vec![rows, 8], vec![columns, 8]]);
        assert!(name.ends_with(end), "{rows} x {columns}: {name}");
    }
}

/// Attention of halves, by masks of a kind.
const ATTENTION: &str = "
func @main(%q: tensor<2x[S]x[D]xTYPE>, %k: tensor<2x[T]x[D]xTYPE>, %v: tensor<2x[T]x[E]xTYPE>) -> tensor<2x[S]x[E]xTYPE> {
  %qw = convert %q : (tensor<2x[S]x[D]xTYPE>) -> tensor<2x[S]x[D]xf32>
  %kw = convert %k : (tensor<2x[T]x[D]xTYPE>) -> tensor<2x[T]x[D]xf32>
  %x = dot_general %qw, %kw, batching_dims = [0] x [0], contracting_dims = [2] x [2] : (tensor<2x[S]x[D]xf32>, tensor<2x[T]x[D]xf32>) -> tensor<2x[S]x[T]xf32>
  %i = iota dim = 0 : tensor<[S]x[T]xi64>
  %j = iota dim = 1 : tensor<[S]x[T]xi64>
  %m = compare ORDER, %i, %j : (tensor<[S]x[T]xi64>, tensor<[S]x[T]xi64>) -> tensor<[S]x[T]xi1>
  %mb = broadcast_in_dim %m, dims = [1, 2] : (tensor<[S]x[T]xi1>) -> tensor<2x[S]x[T]xi1>
  %lows = constant dense<-inf> : tensor<2x[S]x[T]xf32>
  %y = select %mb, %x, %lows : (tensor<2x[S]x[T]xi1>, tensor<2x[S]x[T]xf32>, tensor<2x[S]x[T]xf32>) -> tensor<2x[S]x[T]xf32>
  %l = constant dense<-inf> : tensor<f32>
  %z = constant dense<0.0> : tensor<f32>
  %t = reduce %y, %l, dims = [2] : (tensor<2x[S]x[T]xf32>, tensor<f32>) -> tensor<2x[S]xf32> applies maximum
  %tb = broadcast_in_dim %t, dims = [0, 1] : (tensor<2x[S]xf32>) -> tensor<2x[S]x[T]xf32>
  %d = subtract %y, %tb : tensor<2x[S]x[T]xf32>
  %e = exponential %d : tensor<2x[S]x[T]xf32>
  %s = reduce %e, %z, dims = [2] : (tensor<2x[S]x[T]xf32>, tensor<f32>) -> tensor<2x[S]xf32> applies add
  %sb = broadcast_in_dim %s, dims = [0, 1] : (tensor<2x[S]xf32>) -> tensor<2x[S]x[T]xf32>
  %p = divide %e, %sb : tensor<2x[S]x[T]xf32>
  %h = convert %p : (tensor<2x[S]x[T]xf32>) -> tensor<2x[S]x[T]xTYPE>
  %o = dot_general %h, %v, batching_dims = [0] x [0], contracting_dims = [2] x [1] : (tensor<2x[S]x[T]xTYPE>, tensor<2x[T]x[E]xTYPE>) -> tensor<2x[S]x[E]xTYPE>
  return %o : tensor<2x[S]x[E]xTYPE>
}";

/// Every score is shown, those up to a row's own, and none: a row of NaN.
#[test]
fn attention_multiplies_tiles() {
    let cases = [("sm_75", DType::F16), ("sm_80", DType::BF16), ("sm_90", DType::F16)];
    for (chip, dtype) in cases {
        for order in ["NE", "GE", "LT"] {
            let program = ATTENTION.replace("TYPE", dtype.name()).replace("ORDER", order);
            let executable = load(&program, chip);
            for ([queries, keys, terms, columns], end) in [
                ([17, 64, 64, 64], "_mma"),
                ([64, 63, 8, 72], "_mma"),
                ([70, 150, 72, 136], "_mma"),
                ([130, 65, 128, 8], "_mma"),
                ([17, 0, 64, 64], "_heads"),
                ([17, 40, 136, 64], "_s"),
                ([17, 40, 60, 64], "_heads"),
                ([16, 40, 64, 64], "_few"),
            ] {
                let inputs = [vec![2, queries, terms], vec![2, keys, terms], vec![2, keys, columns]];
                let name = run(&executable, &program, dtype, &inputs);
                assert!(name.ends_with(end), "{order}, {inputs:?} on {chip}: {name}");
            }
        }
    }
}

/// Chips without tiles of a type, and rows that round each op, have plain tiles.
#[test]
fn other_attention_does_not() {
    let program = ATTENTION.replace("TYPE", "bf16").replace("ORDER", "GE");
    let wide = ATTENTION.replace("TYPE", "f32").replace("ORDER", "GE").replace("convert %", "abs %");
    let wide = wide.replace("(tensor<2x[S]x[D]xf32>) -> tensor<2x[S]x[D]xf32>", "tensor<2x[S]x[D]xf32>");
    let wide = wide.replace("(tensor<2x[T]x[D]xf32>) -> tensor<2x[T]x[D]xf32>", "tensor<2x[T]x[D]xf32>");
    let wide = wide.replace("(tensor<2x[S]x[T]xf32>) -> tensor<2x[S]x[T]xf32>", "tensor<2x[S]x[T]xf32>");
    for (chip, program, dtype) in
        [("sm_75", &program, DType::BF16), ("gfx942", &program, DType::BF16), ("sm_90", &wide, DType::F32)]
    {
        let name = run(&load(program, chip), program, dtype, &[vec![2, 64, 64], vec![2, 64, 64], vec![2, 64, 64]]);
        assert!(name.ends_with("_heads"), "{dtype} on {chip}: {name}");
    }
}
