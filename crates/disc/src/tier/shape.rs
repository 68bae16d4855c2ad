//! Matches the sizes of a call to dims.
use disc_ir::{
    Dim, Function, Symbol,
    binding::{Binding, bindings},
    dim::Fact,
};
use disc_ral::{DType, TensorRef};
use std::collections::BTreeMap;

/// Most combinations of likely values that are looked up.
const MOST_LIKELY: usize = 8;

/// Recovers the dims of an entry from the inputs of its calls.
pub(super) struct Signature {
    pub(super) name: String,
    bindings: Vec<Binding>,
    inputs: Vec<(DType, Vec<Dim>)>,
    /// The combinations of values that the dims with likely values may have.
    pub(super) likely: Vec<BTreeMap<Symbol, i64>>,
}

/// Matches inputs of these types, and of these sizes if given.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Pattern(Vec<(DType, Vec<Option<i64>>)>);

impl Pattern {
    pub(super) fn fits(&self, inputs: &[TensorRef<'_>]) -> bool {
        self.0.len() == inputs.len()
            && self.0.iter().zip(inputs).all(|((dtype, sizes), input)| {
                *dtype == input.dtype()
                    && sizes.len() == input.sizes().len()
                    && sizes.iter().zip(input.sizes()).all(|(wanted, size)| wanted.is_none_or(|wanted| wanted == *size))
            })
    }
}

impl Signature {
    /// Returns the signature of an entry at the tensor stage; `None` if all of its sizes are
    /// constant.
    pub(super) fn of(entry: &Function) -> Option<Self> {
        let bindings = bindings(entry);
        if bindings.is_empty() {
            return None;
        }
        let tensors = entry.parameters().iter().map(|&parameter| entry.ty(parameter).as_tensor());
        let inputs = tensors.map(|tensor| Some((crate::tensors::dtype(tensor?.dtype), tensor?.dims.to_vec())));
        Some(Self { name: entry.name.to_string(), bindings, inputs: inputs.collect::<Option<_>>()?, likely: likely(entry) })
    }

    /// Returns the dims of a call that succeeded; `None` if the inputs do not match the entry's.
    pub(super) fn values(&self, inputs: &[TensorRef<'_>]) -> Option<BTreeMap<Symbol, i64>> {
        let mut values = BTreeMap::new();
        for binding in &self.bindings {
            let size = *inputs.get(binding.parameter)?.sizes().get(binding.axis)?;
            let rest = binding.rest.eval(&|symbol| values.get(symbol).copied()).ok()?;
            values.insert(binding.symbol.clone(), binding.solve(size, rest));
        }
        Some(values)
    }

    /// Returns the pattern of calls with these values of dims.
    pub(super) fn pattern(&self, values: &BTreeMap<Symbol, i64>) -> Pattern {
        let size = |dim: &Dim| dim.eval(&|symbol| values.get(symbol).copied()).ok().filter(|_| dim.as_const().is_none());
        Pattern(self.inputs.iter().map(|(dtype, dims)| (*dtype, dims.iter().map(size).collect())).collect())
    }

    /// Returns a hash of the shape.
    pub(super) fn key(&self, inputs: &[TensorRef<'_>]) -> u64 {
        let sizes = self.bindings.iter().map(|b| inputs.get(b.parameter).and_then(|input| input.sizes().get(b.axis)));
        let mix = |key: u64, size: Option<&i64>| {
            (key ^ size.map_or(0, |&size| size as u64)).wrapping_mul(0x9e37_79b9_7f4a_7c15).rotate_left(29)
        };
        sizes.fold(self.name.len() as u64 + 1, mix)
    }
}

fn likely(entry: &Function) -> Vec<BTreeMap<Symbol, i64>> {
    let bound = entry.bound_symbols();
    let mut found = vec![BTreeMap::new()];
    for fact in entry.facts.iter() {
        let Fact::Likely(dim, values) = fact else { continue };
        let Some(symbol) = dim.as_symbol().filter(|symbol| bound.contains(symbol)) else { continue };
        let with = |value: i64| {
            found.iter().cloned().map(move |mut all: BTreeMap<Symbol, i64>| {
                all.insert(symbol.clone(), value);
                all
            })
        };
        found = values.iter().copied().flat_map(with).take(MOST_LIKELY).collect();
    }
    found.retain(|values| !values.is_empty());
    found
}

/// Formats values as `B = 2, S = 128`.
pub(super) fn text(values: &BTreeMap<Symbol, i64>) -> String {
    values.iter().map(|(symbol, value)| format!("{symbol} = {value}")).collect::<Vec<_>>().join(", ")
}

#[cfg(test)]
mod tests {
    use super::*;
    use disc_ral::HostTensor;

    fn signature(text: &str) -> Option<Signature> {
        Signature::of(&crate::parse(text).unwrap().functions[0])
    }

    #[test]
    fn a_call_gives_values_and_these_fit_it_again() {
        let text = "func @main(%x: tensor<[B]x8xf32>, %y: tensor<[2*S]x[B+S]xf32>) { return }";
        let signature = signature(text).unwrap();
        let tensors = |sizes: [[i64; 2]; 2]| sizes.map(|sizes| HostTensor::zeros(DType::F32, &sizes).unwrap());
        let given = tensors([[3, 8], [10, 8]]);
        let inputs = given.each_ref().map(HostTensor::as_input);
        let values = signature.values(&inputs).unwrap();
        assert_eq!(super::text(&values), "B = 3, S = 5");
        let all = signature.pattern(&values);
        assert!(all.fits(&inputs));
        let one = signature.pattern(&BTreeMap::from([(Symbol::new("B"), 3)]));
        let others = tensors([[3, 8], [4, 5]]);
        let others = others.each_ref().map(HostTensor::as_input);
        assert!(one.fits(&others) && !all.fits(&others) && !all.fits(&inputs[..1]));
        assert_ne!(signature.key(&inputs), signature.key(&others));
    }

    #[test]
    fn likely_values_combine_and_constant_sizes_have_no_signature() {
        assert!(signature("func @main(%x: tensor<4xf32>) { return }").is_none());
        let text = "func @main(%x: tensor<[A]x[B]x[C]xf32>) where A likely [1, 2], B likely [8] { return }";
        let found: Vec<String> = signature(text).unwrap().likely.iter().map(super::text).collect();
        assert_eq!(found, ["A = 1, B = 8", "A = 2, B = 8"]);
    }
}
