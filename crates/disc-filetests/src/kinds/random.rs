//! Draws random inputs for the functions of a file, for each row of its table of dims.
use crate::file::TestFile;
use disc_ir::{Function, Symbol, Type, generate::Random, interp::Tensor};
use std::collections::{BTreeMap, BTreeSet};

/// Sizes of dims that the table does not name.
const USUAL_SIZES: &[i64] = &[0, 1, 3];
/// Rows beyond this number are left out.
const MOST_ROWS: usize = 64;

/// The values of the dims in one run.
pub(crate) type Row = BTreeMap<Symbol, i64>;

/// Returns every combination of the sizes of the function's dims that its facts admit. 0 and 1 are
/// always among the sizes.
pub(crate) fn rows(file: &TestFile, function: &Function) -> Vec<Row> {
    let mut rows = vec![Row::new()];
    for symbol in function.bound_symbols() {
        let named = file.dims.iter().find(|(name, _)| name == symbol.name());
        let sizes: BTreeSet<i64> = named.map_or(USUAL_SIZES, |(_, sizes)| sizes).iter().chain(&[0, 1]).copied().collect();
        let with = |row: &Row, size: i64| {
            let mut row = row.clone();
            row.insert(symbol.clone(), size);
            row
        };
        rows = rows.iter().flat_map(|row| sizes.iter().map(|&size| with(row, size)).collect::<Vec<_>>()).collect();
        rows.truncate(MOST_ROWS);
    }
    let admits = |row: &Row| function.facts.iter().all(|fact| fact.holds(&|symbol| row.get(symbol).copied()) != Some(false));
    rows.retain(admits);
    rows
}

/// Draws inputs of the sizes of a row; `None` if a size is not determined, or negative.
pub(crate) fn inputs(function: &Function, row: &Row, random: &mut Random) -> Option<Vec<Tensor>> {
    let parameters = function.parameters().iter().map(|&p| function.ty(p));
    parameters
        .map(|ty| match ty {
            Type::Tensor(tensor) | Type::Buffer { tensor, .. } => {
                let sizes =
                    tensor.dims.iter().map(|dim| dim.eval(&|symbol| row.get(symbol).copied()).ok().filter(|&size| size >= 0));
                random.tensor(tensor.dtype, sizes.collect::<Option<Vec<i64>>>()?).ok()
            }
            Type::Vector { dtype, .. } => random.tensor(*dtype, Vec::new()).ok(),
        })
        .collect()
}

/// Numbers at which rewrites go wrong.
const SPECIAL: [f64; 9] = [0.0, -0.0, 1.0, -1.0, f64::INFINITY, f64::NEG_INFINITY, f64::NAN, 1e-40, 65504.0];

/// Replaces some of the floats by special ones.
pub(crate) fn with_special(tensor: Tensor, random: &mut Random) -> Tensor {
    if !tensor.dtype().is_float() {
        return tensor;
    }
    let values: Vec<f64> =
        tensor.to_f64s().into_iter().map(|x| if random.chance(20) { *random.choose(&SPECIAL) } else { x }).collect();
    Tensor::from_f64s(tensor.dtype(), tensor.dims(), &values).expect("as many elements as before")
}
