//! Compares random element-wise programs of f16 and bf16 with the interpreter bit by bit: every op
//! rounds to the type of its result, in one kernel as between kernels.
use crate::native;
use disc::ir::{
    DType, Module,
    generate::Random,
    interp::{Limits, Tensor, run_with},
    text::parse,
};
use std::fmt::Write as _;

/// Each level takes as many of both types.
const PROGRAMS: u64 = 24;
/// The smallest normal number of bf16 and f32. Below it, compiled code rounds twice.
const LEAST_NORMAL: f64 = f32::MIN_POSITIVE as f64;

/// The text of a program while it is written, and the types of its values `%v0`, `%v1`, ...
struct Program {
    random: Random,
    body: String,
    dtypes: Vec<DType>,
}

fn ty(dtype: DType) -> String {
    format!("tensor<[M]x[N]x{dtype}>")
}

impl Program {
    /// Starts a program of two whole inputs, and of a row that is repeated.
    fn new(seed: u64) -> Self {
        let dtype = [DType::F16, DType::BF16][seed as usize % 2];
        let mut program = Self { random: Random::new(seed), body: String::new(), dtypes: vec![dtype, dtype] };
        program.line(&format!("broadcast_in_dim %row, dims = [1] : (tensor<[N]x{dtype}>) -> {}", ty(dtype)), dtype);
        for _ in 0..12 {
            program.op();
        }
        program
    }

    fn line(&mut self, right: &str, dtype: DType) {
        writeln!(self.body, "%v{} = {right}", self.dtypes.len()).unwrap();
        self.dtypes.push(dtype);
    }

    /// Adds an op on recent values.
    fn op(&mut self) {
        let last = self.dtypes.len() - 1;
        let a = last - self.random.below(3.min(last + 1));
        let dtype = self.dtypes[a];
        let same: Vec<usize> = (0..=last).filter(|&v| self.dtypes[v] == dtype).collect();
        let b = *self.random.choose(&same);
        let ty = ty(dtype);
        match self.random.below(10) {
            0 => {
                let to = *self.random.choose(&[DType::F16, DType::BF16, DType::F32]);
                self.line(&format!("convert %v{a}, dtype = {to} : ({ty}) -> {}", self::ty(to)), to);
            }
            1 => {
                let kind = *self.random.choose(&["negate", "abs", "floor", "ceil", "sqrt", "sign", "round_nearest_even"]);
                self.line(&format!("{kind} %v{a} : {ty}"), dtype);
            }
            2 => {
                let c = *self.random.choose(&same);
                let truth = self::ty(DType::I1);
                let number = self.dtypes.len();
                writeln!(self.body, "%p{number} = compare %v{a}, %v{b}, direction = LT : ({ty}, {ty}) -> {truth}").unwrap();
                self.line(&format!("select %p{number}, %v{c}, %v{a} : ({truth}, {ty}, {ty}) -> {ty}"), dtype);
            }
            _ => {
                let kinds = ["add", "subtract", "multiply", "multiply", "divide", "maximum", "minimum"];
                let kind = *self.random.choose(&kinds);
                self.line(&format!("{kind} %v{a}, %v{b} : {ty}"), dtype);
            }
        }
    }

    /// Returns the module that computes the values from `first` on.
    fn module(&self, first: usize) -> Module {
        let results: Vec<String> = (first..self.dtypes.len()).map(|v| format!("%v{v}")).collect();
        let types: Vec<String> = self.dtypes[first..].iter().map(|&dtype| ty(dtype)).collect();
        let (dtype, whole) = (self.dtypes[0], ty(self.dtypes[0]));
        let text = format!(
            "func @f(%v0: {whole}, %v1: {whole}, %row: tensor<[N]x{dtype}>) -> ({types}) {{\n{}return {} : {types}\n}}",
            self.body,
            results.join(", "),
            types = types.join(", ")
        );
        parse(&text).unwrap_or_else(|error| panic!("{error:?}\n{text}"))
    }
}

/// Returns numbers of which some overflow when they are squared, and special ones.
fn numbers(random: &mut Random, dtype: DType, dims: &[i64]) -> Tensor {
    let special = [0.0, -0.0, f64::INFINITY, f64::NEG_INFINITY, f64::NAN, 1.0, 60000.0, -3e38];
    let mut next = || match random.below(8) {
        0 => *random.choose(&special),
        _ => (random.unit() - 0.5) * 2f64.powi(random.between(0, 20) as i32 - 8),
    };
    let count = dims.iter().product::<i64>();
    let values: Vec<f64> = (0..count).map(|_| next()).collect();
    Tensor::from_f64s(dtype, dims, &values).unwrap()
}

fn is_same(found: f64, expected: f64) -> bool {
    found.to_bits() == expected.to_bits() || found.is_nan() && expected.is_nan() || found == expected && found == 0.0
}

#[test]
fn every_op_rounds_to_its_type() {
    for seed in 0..PROGRAMS {
        let program = Program::new(seed);
        let (all, last) = (program.module(0), program.module(program.dtypes.len() - 1));
        let mut random = Random::new(seed + 1000);
        let (m, n) = (random.between(1, 4) as i64, *random.choose(&[1, 7, 33, 70]));
        let dims: [&[i64]; 3] = [&[m, n], &[m, n], &[n]];
        let inputs = dims.map(|dims| numbers(&mut random, program.dtypes[0], dims));
        let none = |_: &str| None;
        let expected = run_with(&all, "f", &inputs, &none, Limits::default()).unwrap();
        let expected: Vec<Vec<f64>> = expected.iter().map(Tensor::to_f64s).collect();
        let is_tiny = |x: f64| x != 0.0 && x.abs() < LEAST_NORMAL;
        let Some(&target) = native::levels().get(seed as usize / 2 % native::levels().len().max(1)) else { return };
        for (module, first) in [(&all, 0), (&last, expected.len() - 1)] {
            let found = target.compile(module, &none).unwrap().run("f", &inputs).unwrap();
            for (value, tensor) in found.iter().enumerate() {
                for (i, x) in tensor.to_f64s().into_iter().enumerate() {
                    let (value, wanted) = (first + value, expected[first + value][i]);
                    let same = is_same(x, wanted) || expected.iter().any(|values| is_tiny(values[i]));
                    assert!(same, "{}: seed {seed}, %v{value}[{i}] is {x} for {wanted}\n{}", target.name(), program.body);
                }
            }
        }
    }
}

/// Comparisons, floors and overflows see the rounded value.
#[test]
fn roundings_decide() {
    let cases = [
        ("f16", "multiply %x, %x : tensor<[N]xf16>", 300.0, f64::INFINITY),
        ("f16", "%d = add %x, %x : tensor<[N]xf16>\n%y = divide %d, %two : tensor<[N]xf16>", 60000.0, f64::INFINITY),
        ("bf16", "%d = multiply %x, %ten : tensor<[N]xbf16>\n%y = floor %d : tensor<[N]xbf16>", 0.7, 7.0),
    ];
    for (dtype, body, x, wanted) in cases {
        let body = if body.starts_with('%') { body.to_owned() } else { format!("%y = {body}") };
        let constant = |name: &str, value: &str| {
            format!(
                "%s{name} = constant dense<{value}> : tensor<{dtype}>\n%{name} = broadcast_in_dim %s{name}, dims = [] : (tensor<{dtype}>) -> tensor<[N]x{dtype}>\n"
            )
        };
        let text = format!(
            "func @f(%x: tensor<[N]x{dtype}>) -> tensor<[N]x{dtype}> {{\n{}{}{body}\nreturn %y : tensor<[N]x{dtype}>\n}}",
            constant("two", "2.0"),
            constant("ten", "10.0")
        );
        let module: Module = parse(&text).unwrap_or_else(|error| panic!("{error:?}\n{text}"));
        let dtype = if dtype == "f16" { DType::F16 } else { DType::BF16 };
        let input = [Tensor::from_f64s(dtype, &[9], &[x; 9]).unwrap()];
        for target in native::levels() {
            let found = target.compile(&module, &|_: &str| None).unwrap().run("f", &input).unwrap();
            assert_eq!(found[0].to_f64s(), [wanted; 9], "{}: {body}", target.name());
        }
    }
}
