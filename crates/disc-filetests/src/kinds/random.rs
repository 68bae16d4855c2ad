//! Random inputs for the functions of a file, for each row of its table of dims.
use crate::file::TestFile;
use disc_ir::{DType, Function, Symbol, Type, interp::Tensor};
use std::collections::BTreeMap;

/// Sizes of dims that the table does not name.
const USUAL_SIZES: &[i64] = &[0, 1, 3];
/// Rows beyond this number are left out.
const MOST_ROWS: usize = 64;

/// A generator of numbers that depends on nothing but its seed (splitmix64).
pub(crate) struct Random(u64);

impl Random {
    pub(crate) fn new(seed: u64) -> Self {
        Self(seed)
    }

    fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9E37_79B9_7F4A_7C15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
        z ^ (z >> 31)
    }

    /// Floats around 0, small integers: so that results are neither all infinite nor all out of range.
    fn tensor(&mut self, dtype: DType, sizes: Vec<i64>) -> Option<Tensor> {
        let count = sizes.iter().product::<i64>();
        if dtype.is_float() {
            let values: Vec<f64> = (0..count).map(|_| (self.next() >> 11) as f64 / (1_u64 << 51) as f64 - 2.0).collect();
            return Tensor::from_f64s(dtype, &sizes, &values).ok();
        }
        let range = if dtype == DType::I1 { 2 } else { 8 };
        let least = if dtype.is_signed_integer() { -2 } else { 0 };
        let values: Vec<i64> = (0..count).map(|_| (self.next() % range) as i64 + least).collect();
        Tensor::from_i64s(dtype, &sizes, &values).ok()
    }
}

/// The values of the dims in one run.
pub(crate) type Row = BTreeMap<Symbol, i64>;

/// Every combination of the sizes of the function's dims.
pub(crate) fn rows(file: &TestFile, function: &Function) -> Vec<Row> {
    let mut rows = vec![Row::new()];
    for symbol in function.bound_symbols() {
        let named = file.dims.iter().find(|(name, _)| name == symbol.name());
        let sizes = named.map_or(USUAL_SIZES, |(_, sizes)| sizes);
        let with = |row: &Row, size: i64| {
            let mut row = row.clone();
            row.insert(symbol.clone(), size);
            row
        };
        rows = rows.iter().flat_map(|row| sizes.iter().map(|&size| with(row, size)).collect::<Vec<_>>()).collect();
        rows.truncate(MOST_ROWS);
    }
    rows
}

/// Inputs of the sizes of a row; none if a size is not determined, or negative.
pub(crate) fn inputs(function: &Function, row: &Row, random: &mut Random) -> Option<Vec<Tensor>> {
    let parameters = function.parameters().iter().map(|&p| function.ty(p));
    parameters
        .map(|ty| match ty {
            Type::Tensor(tensor) | Type::Buffer { tensor, .. } => {
                let sizes =
                    tensor.dims.iter().map(|dim| dim.eval(&|symbol| row.get(symbol).copied()).ok().filter(|&size| size >= 0));
                random.tensor(tensor.dtype, sizes.collect::<Option<Vec<i64>>>()?)
            }
            Type::Vector { dtype, .. } => random.tensor(*dtype, Vec::new()),
        })
        .collect()
}
