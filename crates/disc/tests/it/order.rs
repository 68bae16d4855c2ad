//! Tests sorts and top-k of lines that are too long for the matrix's sizes: all algorithms, on
//! elements of every kind.
//!
//! The expected result is a sort of positions; positions tell equal elements apart.
use crate::native;
use disc::ir::{DType, Module, interp::Tensor};
use std::cmp::Ordering;

const ROWS: usize = 3;
/// Lengths: sorted by counting, by digits, and with more elements than a top-k keeps.
const LENGTHS: [usize; 4] = [70, 300, 1000, 4099];
const K: usize = 10;

fn program(dtype: DType) -> Module {
    let t = dtype.name();
    let comparator = |order: &str| {
        let (a, b) = (format!("%{order}_a"), format!("%{order}_b"));
        let (low, high) = if order == "rising" { (&a, &b) } else { (&b, &a) };
        let nan_last = format!(
            "%{order}_m = is_nan {low} : (tensor<{t}>) -> tensor<i1>
    %{order}_n = is_nan {high} : (tensor<{t}>) -> tensor<i1>
    %{order}_o = not %{order}_m : tensor<i1>
    %{order}_p = and %{order}_o, %{order}_n : tensor<i1>
    %{order}_r = or %{order}_l, %{order}_p : tensor<i1>
    return %{order}_r : tensor<i1>"
        );
        let end = if dtype.is_float() { nan_last } else { format!("return %{order}_l : tensor<i1>") };
        format!(
            "comparator({a}: tensor<{t}>, {b}: tensor<{t}>, %{order}_i: tensor<i64>, %{order}_j: tensor<i64>) {{
    %{order}_l = compare LT, {low}, {high} : (tensor<{t}>, tensor<{t}>) -> tensor<i1>
    {end}
  }}"
        )
    };
    let (x, places) = (format!("tensor<[R]x[S]x{dtype}>"), "tensor<[R]x[S]xi64>");
    let (few, few_places) = (format!("tensor<[R]x{K}x{dtype}>"), format!("tensor<[R]x{K}xi64>"));
    let (half, half_places) = (format!("tensor<[R]x[S/2]x{dtype}>"), "tensor<[R]x[S/2]xi32>");
    let (one, one_place) = (format!("tensor<[R]x1x{dtype}>"), "tensor<[R]x1xi32>");
    let (rest, rest_places) = (format!("tensor<[R]x[S-S/2]x{dtype}>"), "tensor<[R]x[S-S/2]xi32>");
    let text = format!(
        "func @main(%x: {x}) -> ({x}, {places}, {x}, {places}, {few}, {few_places}, {half}, {half_places}, {one}, {one_place}, {rest}, {rest_places}) where S >= {K} {{
  %i = iota dim = 1 : {places}
  %c = iota dim = 0 : {places}
  %a, %p = sort %x, %i, dimension = 1, is_stable = true : ({x}, {places}) -> ({x}, {places}) {rising}
  %d, %q = sort %x, %c, dimension = 0, is_stable = true : ({x}, {places}) -> ({x}, {places}) {falling}
  %v, %k = top_k %x, k = [{K}], index_dtype = i64 : ({x}) -> ({few}, {few_places})
  %w, %l = top_k %x, k = [S/2], largest = false : ({x}) -> ({half}, {half_places})
  %m, %o = top_k %x, k = [1], largest = false, skip = [(S-1)/2] : ({x}) -> ({one}, {one_place})
  %n, %r = top_k %x, k = [S-S/2], skip = [S/2] : ({x}) -> ({rest}, {rest_places})
  return %a, %p, %d, %q, %v, %k, %w, %l, %m, %o, %n, %r : {x}, {places}, {x}, {places}, {few}, {few_places}, {half}, {half_places}, {one}, {one_place}, {rest}, {rest_places}
}}",
        rising = comparator("rising"),
        falling = comparator("falling"),
    );
    disc::parse(&text).unwrap_or_else(|error| panic!("{error}\n{text}"))
}

/// Returns a line of elements: special ones among random ones, few values, all of one, rising and
/// falling.
fn line(dtype: DType, kind: usize, count: usize, state: &mut u64) -> Vec<f64> {
    let mut next = || {
        *state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (*state >> 40) as f64
    };
    let number = |i: usize, random: f64| match kind {
        0 if dtype.is_float() && (random as u64).is_multiple_of(7) => {
            [f64::NAN, 0.0, -0.0, f64::INFINITY, f64::NEG_INFINITY, -f64::NAN][random as usize / 7 % 6]
        }
        0 => random - 8e6,
        1 => (random as u64 % 5) as f64,
        2 => 1.0,
        3 => i as f64,
        4 => -(i as f64),
        _ => f64::NAN,
    };
    (0..count).map(|i| number(i, next())).collect()
}

fn tensor(dtype: DType, rows: &[Vec<f64>]) -> Tensor {
    let dims = [rows.len() as i64, rows[0].len() as i64];
    let all: Vec<f64> = rows.concat();
    if dtype.is_float() {
        return Tensor::from_f64s(dtype, &dims, &all).expect("as many as the sizes say");
    }
    // Large numbers in wide types: every digit counts.
    let wide = |x: &f64| if dtype.size() == 8 && x.abs() > 1e5 { *x as i64 * 0x1_0000_8001 } else { *x as i64 };
    Tensor::from_i64s(dtype, &dims, &all.iter().map(wide).collect::<Vec<_>>()).expect("as many as the sizes say")
}

/// A tensor's elements as numbers and as bytes.
struct Elements {
    dtype: DType,
    floats: Vec<f64>,
    integers: Vec<i64>,
    bytes: Vec<u8>,
}

impl Elements {
    fn of(tensor: &Tensor) -> Self {
        let (dtype, bytes) = (tensor.dtype(), tensor.bytes().to_vec());
        match dtype.is_float() {
            true => Self { dtype, floats: tensor.to_f64s(), integers: Vec::new(), bytes },
            false => Self { dtype, floats: Vec::new(), integers: tensor.to_i64s(), bytes },
        }
    }

    fn bytes(&self, index: usize) -> &[u8] {
        &self.bytes[index * self.dtype.size()..][..self.dtype.size()]
    }

    /// Compares two elements, NaN above all numbers.
    fn compare(&self, a: usize, b: usize) -> Ordering {
        match self.dtype {
            DType::U64 => (self.integers[a] as u64).cmp(&(self.integers[b] as u64)),
            _ if self.dtype.is_float() => {
                let (a, b) = (self.floats[a], self.floats[b]);
                a.partial_cmp(&b).unwrap_or_else(|| a.is_nan().cmp(&b.is_nan()))
            }
            _ => self.integers[a].cmp(&self.integers[b]),
        }
    }
}

/// Returns the numbers of the elements of `x`, along the line, in sorted order.
fn sorted(x: &Elements, mut line: Vec<usize>, falling: bool) -> Vec<usize> {
    line.sort_by(|&a, &b| if falling { x.compare(b, a) } else { x.compare(a, b) });
    line
}

fn check(level: &dyn disc_filetests::Compiled, dtype: DType) {
    let program = level.compile(&program(dtype), &|_| None).expect("it compiles");
    let mut state = 7;
    for length in LENGTHS {
        for kind in 0..if dtype.is_float() { 6 } else { 5 } {
            let rows: Vec<Vec<f64>> = (0..ROWS).map(|_| line(dtype, kind, length, &mut state)).collect();
            let x = tensor(dtype, &rows);
            let found = program.run("main", std::slice::from_ref(&x)).expect("it runs");
            let (x, found) = (Elements::of(&x), found.iter().map(Elements::of).collect::<Vec<_>>());
            let what = format!("{dtype} on {}, kind {kind}, length {length}", level.name());
            for row in 0..ROWS {
                let line: Vec<usize> = (row * length..(row + 1) * length).collect();
                let (rising, falling) = (sorted(&x, line.clone(), false), sorted(&x, line, true));
                let at = |row: usize, size: usize| move |i: usize| row * size + i;
                expect(&x, &rising, &found[0..2], at(row, length), row * length, &format!("sort: {what}"));
                expect(&x, &falling[..K], &found[4..6], at(row, K), row * length, &format!("largest: {what}"));
                let half = length / 2;
                expect(&x, &rising[..half], &found[6..8], at(row, half), row * length, &format!("least: {what}"));
                let middle = (length - 1) / 2;
                expect(&x, &rising[middle..=middle], &found[8..10], at(row, 1), row * length, &format!("middle: {what}"));
                expect(&x, &falling[half..], &found[10..12], at(row, length - half), row * length, &format!("behind: {what}"));
            }
            for column in 0..length {
                let column_of = (0..ROWS).map(|row| row * length + column).collect();
                let falling = sorted(&x, column_of, true);
                for (i, &from) in falling.iter().enumerate() {
                    let to = i * length + column;
                    assert_eq!(found[3].integers[to], (from / length) as i64, "falling columns: {what}");
                    assert_eq!(found[2].bytes(to), x.bytes(from), "falling columns: {what}");
                }
            }
        }
    }
}

/// Asserts that the result is the elements at these numbers, with their positions after `base`.
fn expect(x: &Elements, from: &[usize], found: &[Elements], at: impl Fn(usize) -> usize, base: usize, what: &str) {
    for (i, &from) in from.iter().enumerate() {
        assert_eq!(found[1].integers[at(i)], (from - base) as i64, "position {i}, {what}");
        assert_eq!(found[0].bytes(at(i)), x.bytes(from), "element {i}, {what}");
    }
}

#[test]
fn long_lines_of_every_type_on_the_best_level() {
    let Some(level) = native::levels().last() else { return };
    let floats = [DType::F16, DType::BF16, DType::F32, DType::F64];
    let integers = [DType::I1, DType::I8, DType::I32, DType::I64, DType::U8, DType::U32, DType::U64];
    floats.into_iter().chain(integers).for_each(|dtype| check(*level, dtype));
}

#[test]
fn long_lines_on_the_other_levels() {
    let levels = native::levels();
    for level in &levels[..levels.len().saturating_sub(1)] {
        [DType::F16, DType::F32, DType::I64].into_iter().for_each(|dtype| check(*level, dtype));
    }
}
