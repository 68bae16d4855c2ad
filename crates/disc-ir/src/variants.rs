//! Selects variants: other ways to compute a function, for sizes that satisfy more facts than the
//! function states.
//!
//! A variant has the parameters and the results of its function, and more facts. A call of the
//! function checks the function's facts, then runs the first of its variants, in the order of the
//! module, whose guard holds, and the function itself if none does. Both compute the same.
//!
//! A pass makes the variants, not this file.
use crate::{
    dim::Fact,
    graph::{Function, Module},
};

impl Module {
    /// The variants of a function, in the order in which they are tried.
    pub fn variants_of<'m>(&'m self, function: &'m Function) -> impl Iterator<Item = &'m Function> {
        self.functions.iter().filter(|variant| variant.variant_of.as_ref() == Some(&function.name))
    }
}

impl Function {
    /// Returns the facts of a variant beyond its function's, about sizes that are known when a call
    /// begins. (Facts about data-dependent dims are the same on both sides, and checked at their
    /// binding.)
    pub fn guard(&self, function: &Function) -> Vec<Fact> {
        let (known, bound): (Vec<Fact>, Vec<_>) = (function.facts.iter().collect(), function.bound_symbols());
        let is_known = |fact: &Fact| {
            let mut is_known = !matches!(fact, Fact::Likely(..));
            fact.visit_symbols(&mut |symbol| is_known &= bound.contains(symbol));
            is_known
        };
        self.facts.iter().filter(|fact| !known.contains(fact) && is_known(fact)).collect()
    }
}

#[cfg(test)]
mod tests {
    use crate::{
        Code,
        interp::{Tensor, run},
        ops::Stage,
        parse, verify,
    };

    /// The variant computes another result than its function, so that results tell which one ran.
    const TWO: &str = "func @f(%x: tensor<[N]xf32>) -> tensor<[N]xf32> where N <= 9 {
      return %x : tensor<[N]xf32>
    }
    func @f.variant(%x: tensor<[N]xf32>) -> tensor<[N]xf32> variant_of @f where N <= 9, N % 2 == 0 {
      %y = negate %x : tensor<[N]xf32>
      return %y : tensor<[N]xf32>
    }";

    #[test]
    fn a_call_runs_the_plan_whose_facts_hold() {
        let module = parse(TWO).unwrap();
        verify(&module, Stage::Tensor).unwrap();
        assert_eq!(parse(&module.to_string()).unwrap().to_string(), module.to_string());
        let guard: Vec<String> = module.functions[1].guard(&module.functions[0]).iter().map(ToString::to_string).collect();
        assert_eq!(guard, ["N % 2 == 0"]);
        let first = |size: usize| {
            let ones = Tensor::from_slice(&[size as i64], &vec![1.0_f32; size]).unwrap();
            run(&module, "f", &[ones]).map(|results| results[0].to_vec::<f32>().unwrap().first().copied())
        };
        assert_eq!([0, 1, 2, 9].map(|size| first(size).unwrap()), [None, Some(1.0), Some(-1.0), Some(1.0)]);
        assert_eq!(first(10).unwrap_err().code, Code::E0602, "what the function states is checked first");
    }

    #[test]
    fn a_plan_has_the_signature_of_a_function_that_is_none() {
        for (from, to) in [
            ("variant_of @f", "variant_of @g"),
            ("variant_of @f", "variant_of @f.variant"),
            ("func @f(%x: tensor<[N]xf32>)", "func @f(%x: tensor<[N]xf32>, %y: tensor<f32>)"),
        ] {
            let text = TWO.replace(from, to);
            let errors = verify(&parse(&text).unwrap(), Stage::Tensor).unwrap_err();
            assert!(errors.iter().any(|error| error.code == Code::E0214), "{to}: {errors:?}");
        }
    }
}
