//! Matches the dims of a callee with the sizes of a call.
use crate::{
    binding::{MOST_ROUNDS, solvable},
    dim::{Dim, Solver, Symbol},
    infer::same_by_facts,
    types::{TensorType, Type},
};
use std::collections::{BTreeSet, HashMap};

/// The reason why a call does not fit, in words.
pub type Mismatch = String;

/// The callee's symbols, as the caller's sizes.
#[derive(Default)]
pub struct Matching {
    sizes: HashMap<Symbol, Dim>,
    known: BTreeSet<Symbol>,
}

impl Matching {
    /// Matches all parameters with the arguments of a call. Symbols that are whole sizes are read
    /// first; the others follow from them.
    ///
    /// # Errors
    /// The argument that does not fit.
    pub fn of(parameters: &[Type], arguments: &[Type], solver: &Solver) -> Result<Self, Mismatch> {
        let mut found = Self::default();
        let pairs = || parameters.iter().zip(arguments).filter_map(|(p, a)| Some((p.shaped()?, a.shaped()?)));
        let mut dims: Vec<(&Dim, &Dim)> = pairs().flat_map(|(p, a)| p.dims.iter().zip(&a.dims)).collect();
        for _ in 0..MOST_ROUNDS {
            let before = found.known.len();
            dims.retain(|(parameter, argument)| !found.learn(parameter, argument));
            if found.known.len() == before {
                break;
            }
        }
        for (i, (parameter, argument)) in parameters.iter().zip(arguments).enumerate() {
            if !found.admits(parameter, argument, solver) {
                return Err(format!("argument {i} has type {argument}, the parameter is {parameter}"));
            }
        }
        Ok(found)
    }

    fn learn(&mut self, parameter: &Dim, argument: &Dim) -> bool {
        let Some(unknown) = solvable(parameter, &self.known) else { return false };
        let zero = self.substitute(&parameter.substitute(&|s| (*s == unknown.symbol).then(|| Dim::constant(0))));
        self.known.insert(unknown.symbol.clone());
        self.sizes.insert(unknown.symbol, (argument - &zero).floor_div(&Dim::constant(unknown.scale)));
        true
    }

    /// The callee's size in the caller's sizes.
    pub fn substitute(&self, dim: &Dim) -> Dim {
        dim.substitute(&|symbol| self.sizes.get(symbol).cloned())
    }

    /// Returns the size of a symbol of the callee.
    pub fn size(&self, symbol: &Symbol) -> Option<&Dim> {
        self.sizes.get(symbol)
    }

    /// The callee's type in the caller's sizes.
    pub fn apply(&self, ty: &Type) -> Type {
        let apply = |tensor: &TensorType| TensorType::new(tensor.dims.iter().map(|dim| self.substitute(dim)), tensor.dtype);
        match ty {
            Type::Tensor(tensor) => Type::Tensor(apply(tensor)),
            Type::Buffer { tensor, space } => Type::Buffer { tensor: apply(tensor), space: *space },
            Type::Vector { .. } => ty.clone(),
        }
    }

    /// Returns true if the callee's type is the caller's.
    pub fn admits(&self, callee: &Type, caller: &Type, solver: &Solver) -> bool {
        same_by_facts(solver, &self.apply(callee), caller)
    }
}
