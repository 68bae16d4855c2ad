//! Tests products of int8 and bf16, several elements per word where the CPU multiplies them: each
//! level and this CPU's extensions.
use crate::native;
use disc::ir::{
    DType, Module,
    interp::{Limits, Tensor, run_with},
    text::parse,
};
use disc_filetests::Compiled;

/// The storage of the right operand, and the dimension that is summed over.
#[derive(Clone, Copy, Debug, PartialEq)]
enum Right {
    Given { sum_axis: usize },
    Weight { sum_axis: usize },
}

/// Computes `x` of `[M, K]` times `w`, both of `dtype`.
fn product(right: Right, dtype: &str, to: &str, [k, n]: [&str; 2]) -> String {
    let (Right::Given { sum_axis } | Right::Weight { sum_axis }) = right;
    let w = if sum_axis == 0 { format!("tensor<{k}x{n}x{dtype}>") } else { format!("tensor<{n}x{k}x{dtype}>") };
    let (weight, given, read) = match right {
        Right::Given { .. } => (String::new(), format!(", %w: {w}"), String::new()),
        Right::Weight { .. } => (format!("weight @w : {w}\n"), String::new(), format!("%w = weight @w : {w}\n")),
    };
    format!(
        "{weight}func @f(%x: tensor<[M]x{k}x{dtype}>{given}) -> tensor<[M]x{n}x{to}> {{
        {read}%y = dot_general %x, %w, lhs_contracting_dims = [1], rhs_contracting_dims = [{sum_axis}], dtype = {to} : (tensor<[M]x{k}x{dtype}>, {w}) -> tensor<[M]x{n}x{to}>
        return %y : tensor<[M]x{n}x{to}>
        }}"
    )
}

/// Returns numbers of the whole range of the type, with its limits among them.
fn operand(dtype: DType, dims: [usize; 2], seed: u64) -> Tensor {
    let (low, count) = match dtype {
        DType::I8 => (-128.0, 256),
        DType::U8 => (0.0, 256),
        _ => (-1.0, 257),
    };
    let step = if dtype.is_float() { 1.0 / 128.0 } else { 1.0 };
    let mut state = seed;
    let next = || {
        state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        let pick = (state >> 33) % (count + 32);
        // The limits come often.
        low + step * (if pick < count { pick } else { (pick & 1) * (count - 1) }) as f64
    };
    let values: Vec<f64> = std::iter::repeat_with(next).take(dims[0] * dims[1]).collect();
    Tensor::from_f64s(dtype, &dims.map(|size| size as i64), &values).unwrap()
}

fn targets() -> Vec<&'static dyn Compiled> {
    static HOST: std::sync::OnceLock<native::Native> = std::sync::OnceLock::new();
    native::levels().iter().copied().chain([HOST.get_or_init(native::this_cpu) as &dyn Compiled]).collect()
}

/// Compiles a product for all targets and compares it with the interpreter for sizes `[m, k, n]`.
fn check(right: Right, dtype: DType, to: &str, text: &str, sizes: &[[usize; 3]]) {
    let module: Module = parse(text).unwrap();
    let weight_of = |[_, k, n]: [usize; 3]| match right {
        Right::Given { sum_axis: 0 } | Right::Weight { sum_axis: 0 } => operand(dtype, [k, n], 7),
        _ => operand(dtype, [n, k], 7),
    };
    let weight = weight_of(sizes[0]);
    let given = |name: &str| (name == "w").then(|| weight.clone());
    for target in targets() {
        let compiled = target.compile(&module, &given).unwrap();
        for &[m, k, n] in sizes {
            let x = operand(dtype, [m, k], 11 + m as u64);
            let inputs = match right {
                Right::Given { .. } => vec![x, weight_of([m, k, n])],
                Right::Weight { .. } => vec![x],
            };
            let wanted = run_with(&module, "f", &inputs, &given, Limits::default()).unwrap();
            let got = compiled.run("f", &inputs).unwrap();
            for (i, (y, exact)) in got[0].to_f64s().iter().zip(wanted[0].to_f64s()).enumerate() {
                let bound = if dtype.is_float() { 1e-6 * k as f64 } else { 0.0 };
                assert!(
                    (y - exact).abs() <= bound,
                    "{}: {right:?} {dtype} to {to} {m}x{k}x{n}, element {i}: {y} for {exact}",
                    target.name()
                );
            }
        }
    }
}

const SIZES: [[usize; 3]; 12] = [
    [3, 7, 33],
    [0, 3, 2],
    [1, 1, 1],
    [2, 0, 3],
    [1, 64, 40],
    [5, 4, 16],
    [14, 13, 17],
    [15, 67, 64],
    [29, 130, 31],
    [6, 8, 0],
    [7, 65, 9],
    [64, 36, 70],
];

#[test]
fn both_operands_given() {
    for sum_axis in [0, 1] {
        for (dtype, to) in [(DType::I8, "i32"), (DType::U8, "i32"), (DType::I8, "i8"), (DType::BF16, "f32")] {
            let right = Right::Given { sum_axis };
            check(right, dtype, to, &product(right, dtype.name(), to, ["[K]", "[N]"]), &SIZES);
        }
    }
}

#[test]
fn weights_on_the_right() {
    let rows = [1, 2, 3, 7, 14, 15, 31, 64];
    for (dtype, to) in [(DType::I8, "i32"), (DType::U8, "i32"), (DType::BF16, "f32")] {
        for (sum_axis, k, n) in [(0, 7, 33), (1, 64, 40), (1, 131, 17), (0, 1, 31), (1, 2, 64)] {
            let right = Right::Weight { sum_axis };
            let sizes: Vec<[usize; 3]> = rows.iter().map(|&m| [m, k, n]).collect();
            check(right, dtype, to, &product(right, dtype.name(), to, [&k.to_string(), &n.to_string()]), &sizes);
        }
    }
}

/// Micro-kernels of 8 rows and more copy parts of such rows.
#[test]
fn rows_that_are_pages_apart() {
    for (dtype, to, k) in [(DType::I8, "i32", 4096), (DType::U8, "i32", 2048), (DType::BF16, "f32", 2048)] {
        for sum_axis in [0, 1] {
            let right = Right::Given { sum_axis };
            let sizes = [0, 1, 7, 8, 13, 30].map(|m| [m, k, 35]);
            check(right, dtype, to, &product(right, dtype.name(), to, [&k.to_string(), "[N]"]), &sizes);
        }
    }
}

#[test]
fn special_values_of_bf16() {
    let text = product(Right::Given { sum_axis: 1 }, "bf16", "f32", ["[K]", "[N]"]);
    let module: Module = parse(&text).unwrap();
    let (k, n) = (37, 19);
    let at = |rows: usize, places: &[(usize, f64)]| {
        let mut values = vec![1.0; rows * k];
        places.iter().for_each(|&(place, value)| values[place] = value);
        Tensor::from_f64s(DType::BF16, &[rows as i64, k as i64], &values).unwrap()
    };
    let (inf, nan, largest, tiny) = (f64::INFINITY, f64::NAN, 3.3895313892515355e38, 1e-39);
    let x = at(9, &[(3, inf), (k + 36, nan), (2 * k, -inf), (2 * k + 5, inf), (3 * k, largest), (4 * k + 1, tiny)]);
    let w = at(n, &[(7, 0.0), (k + 3, 0.0), (2 * k, nan), (3 * k, largest), (4 * k + 36, -inf)]);
    let wanted = run_with(&module, "f", &[x.clone(), w.clone()], &|_: &str| None, Limits::default()).unwrap()[0].to_f64s();
    for target in targets() {
        let got = target.compile(&module, &|_: &str| None).unwrap().run("f", &[x.clone(), w.clone()]).unwrap();
        for (i, (y, exact)) in got[0].to_f64s().into_iter().zip(&wanted).enumerate() {
            let same = if exact.is_finite() {
                (y - exact).abs() <= 1e-6 * exact.abs()
            } else {
                y.to_bits() == exact.to_bits() || y.is_nan() && exact.is_nan()
            };
            assert!(same, "{}: element {i} is {y} for {exact}", target.name());
        }
    }
}
