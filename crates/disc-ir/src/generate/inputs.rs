//! Draws random inputs of a function.
use super::{LARGEST, Random};
use crate::{
    dim::Symbol,
    graph::Module,
    interp::Tensor,
    types::{DType, TensorType},
};
use std::collections::HashMap;

/// The sizes that dims get: 0 and 1, below and above the lanes of vectors.
const SIZES: [i64; 7] = [0, 1, 2, 3, 5, 8, LARGEST];

/// Draws of sizes before the facts must hold.
const MOST_DRAWS: usize = 500;

/// Draws inputs for an entry: a random size for each symbol, and elements that include the special
/// ones. Sizes that are expressions must be made of symbols that are sizes by themselves elsewhere;
/// an entry without tensors has no inputs.
pub fn inputs(module: &Module, entry: &str, seed: u64) -> Vec<Tensor> {
    let mut random = Random::new(seed);
    let Some(function) = module.function(entry) else { return Vec::new() };
    let mut symbols: HashMap<Symbol, i64> = HashMap::new();
    for _ in 0..MOST_DRAWS {
        for symbol in function.bound_symbols() {
            symbols.insert(symbol, *random.choose(&SIZES));
        }
        if function.facts.iter().all(|fact| fact.holds(&|symbol| symbols.get(symbol).copied()) != Some(false)) {
            break;
        }
    }
    let types = function.parameters().iter().filter_map(|&parameter| function.ty(parameter).shaped());
    types.filter_map(|ty| tensor(ty, &symbols, &mut random)).collect()
}

fn tensor(ty: &TensorType, symbols: &HashMap<Symbol, i64>, random: &mut Random) -> Option<Tensor> {
    let sizes = ty.dims.iter().map(|dim| dim.eval(&|symbol| symbols.get(symbol).copied()).ok());
    let sizes: Vec<i64> = sizes.collect::<Option<_>>()?;
    let count = sizes.iter().product::<i64>() as usize;
    let elements: Vec<f64> = (0..count).map(|_| element(ty.dtype, random)).collect();
    Tensor::from_f64s(ty.dtype, &sizes, &elements).ok()
}

/// Draws mostly ordinary elements, sometimes zero of either sign, infinity, NaN, or an end of the
/// range.
fn element(dtype: DType, random: &mut Random) -> f64 {
    if random.chance(6) {
        return *random.choose(&[0.0, -0.0, f64::INFINITY, f64::NEG_INFINITY, f64::NAN, 1e-40, 65504.0]);
    }
    match dtype.is_float() {
        true => (random.unit() - 0.5) * *random.choose(&[1.0, 4.0, 100.0]),
        false => random.between(0, 20) as f64 - 5.0,
    }
}
