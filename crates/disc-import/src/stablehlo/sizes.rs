//! Resolves the sizes that a text leaves open.
//!
//! StableHLO writes `?` for a size that is not known when it is written, and each `?` is read as a
//! size that nothing else has. Those of results follow from the operands. Where an op needs equal
//! sizes of two operands, StableHLO promises that they are: that is a fact, which calls check.
//!
//! Sizes that cannot be resolved stay as they are: the verifier names them.
use disc_ir::{
    Attr, Block, Dim, Function, FunctionKind, Inst, Module, OpKind, Symbol, Type, Value,
    binding::{Binding, bindings},
    build::{LazySolver, region_type},
    dim::Fact,
    infer::{InferCx, infer_op},
    ops::Trait,
};
use std::{
    collections::{HashMap, HashSet},
    sync::Arc,
};

/// Resolves the sizes of all functions, each after those that it calls.
pub(super) fn resolve(module: &mut Module) {
    let mut done: HashMap<Arc<str>, Function> = HashMap::new();
    for at in callees_first(module) {
        let function = module.functions.get(at).cloned();
        let Some(mut function) = function.filter(|function| function.kind == FunctionKind::Func) else { continue };
        Resolver::new(&mut function, &done).run();
        if let Some(slot) = module.functions.get_mut(at) {
            slot.clone_from(&function);
        }
        done.insert(Arc::clone(&function.name), function);
    }
}

/// Returns the positions of functions, those that are called first. In a circle of calls, which the
/// verifier refuses, the order is any.
fn callees_first(module: &Module) -> Vec<usize> {
    let position: HashMap<&str, usize> =
        module.functions.iter().enumerate().map(|(at, function)| (&*function.name, at)).collect();
    let calls: Vec<Vec<usize>> = module
        .functions
        .iter()
        .map(|function| super::callees(function).iter().filter_map(|name| position.get(&**name).copied()).collect())
        .collect();
    let (mut order, mut seen) = (Vec::new(), HashSet::new());
    for start in 0..calls.len() {
        // Each row is a function, and the number of its calls that were looked at.
        let mut open = if seen.insert(start) { vec![(start, 0)] } else { Vec::new() };
        while let Some((at, next)) = open.pop() {
            match calls.get(at).and_then(|calls| calls.get(next)) {
                None => order.push(at),
                Some(&callee) => {
                    open.push((at, next + 1));
                    if seen.insert(callee) {
                        open.push((callee, 0));
                    }
                }
            }
        }
    }
    order
}

struct Resolver<'m> {
    function: &'m mut Function,
    done: &'m HashMap<Arc<str>, Function>,
    /// The symbols of parameters: no other is known.
    known: HashSet<Symbol>,
    solver: LazySolver,
}

impl<'m> Resolver<'m> {
    fn new(function: &'m mut Function, done: &'m HashMap<Arc<str>, Function>) -> Self {
        let shaped = function.parameters().iter().filter_map(|&value| function.ty(value).shaped());
        let known = shaped.flat_map(|ty| ty.dims.iter().flat_map(Dim::symbols)).collect();
        Self { function, done, known, solver: LazySolver::default() }
    }

    fn run(mut self) {
        let body = self.function.body;
        self.block(body);
        let returned: Vec<Type> = self.function.returned(body).iter().map(|&value| self.function.ty(value).clone()).collect();
        if returned.len() == self.function.results.len() {
            let results = self.function.results.iter().zip(&returned);
            self.function.results = results.map(|(stated, known)| self.filled(stated, known)).collect();
        }
    }

    fn block(&mut self, block: Block) {
        for inst in self.function.insts(block).to_vec() {
            self.known.extend(self.function.bound_by(inst).cloned().collect::<Vec<_>>());
            let regions = self.function.inst(inst).regions.clone();
            for &region in &regions {
                if self.function.kind_of(inst) == OpKind::While {
                    let operands = self.types(self.function.operands(inst));
                    let arguments = self.function.arguments(region).to_vec();
                    self.fill(&arguments, &operands);
                }
                self.block(region);
            }
            self.op(inst);
        }
    }

    fn op(&mut self, inst: Inst) {
        let results = self.function.results_of(inst).to_vec();
        let operands = self.types(self.function.operands(inst));
        if self.function.kind_of(inst) == OpKind::Call {
            let (made, facts) = self.called(inst, &operands);
            facts.iter().for_each(|fact| self.state(fact));
            return self.fill(&results, &made);
        }
        let def = self.function.def(inst);
        if def.has(Trait::Elementwise) {
            self.equate(&operands);
        }
        if results.iter().any(|&value| self.is_open(self.function.ty(value))) {
            let made = self.inferred(inst, &operands);
            self.fill(&results, &made);
        }
    }

    /// Returns the types that an op has by its operands; none if they do not determine them.
    fn inferred(&self, inst: Inst, operands: &[Type]) -> Vec<Type> {
        let data = self.function.inst(inst);
        let regions: Vec<_> = data.regions.iter().map(|&region| region_type(self.function, region)).collect();
        let solver = self.solver.get(&self.function.facts);
        let def = self.function.def(inst);
        infer_op(&InferCx { def, operands, attrs: &data.attrs, regions: &regions, declared: None, solver }).unwrap_or_default()
    }

    /// Adds the facts that the sizes of an element-wise op's operands are equal.
    fn equate(&mut self, operands: &[Type]) {
        let mut shapes = operands.iter().filter_map(Type::shaped).map(|ty| &ty.dims);
        let Some(first) = shapes.next() else { return };
        for (a, b) in shapes.filter(|dims| dims.len() == first.len()).flat_map(|dims| first.iter().zip(dims)) {
            self.state(&Fact::Equal(a.clone(), b.clone()));
        }
    }

    /// Adds a fact about known sizes, unless it is proved, or contradicts others: then the verifier
    /// names the op.
    fn state(&mut self, fact: &Fact) {
        let mut are_known = true;
        fact.visit_symbols(&mut |symbol| are_known &= self.known.contains(symbol));
        let is_proved = match fact {
            Fact::Equal(a, b) => a == b || self.solver.get(&self.function.facts).equal(a, b),
            _ => false,
        };
        if !are_known || is_proved {
            return;
        }
        let mut facts = self.function.facts.clone();
        if facts.add(fact.clone()).is_ok() {
            self.function.facts = facts;
            self.solver.forget();
        }
    }

    /// Returns the types of a call's results, and what the callee needs of sizes, in the sizes of
    /// the caller.
    fn called(&self, inst: Inst, operands: &[Type]) -> (Vec<Type>, Vec<Fact>) {
        let name = self.function.inst(inst).attrs.first().cloned().flatten();
        let callee = match name {
            Some(Attr::Symbol(name)) => self.done.get(&name),
            _ => None,
        };
        let Some(callee) = callee else { return Default::default() };
        let mut sizes: HashMap<Symbol, Dim> = HashMap::new();
        for binding in bindings(callee).into_iter().filter(Binding::is_plain) {
            let size = operands.get(binding.parameter).and_then(Type::shaped).and_then(|ty| ty.dims.get(binding.axis));
            sizes.extend(size.map(|size| (binding.symbol, size.clone())));
        }
        let size = |symbol: &Symbol| sizes.get(symbol).cloned();
        let substituted = |ty: &Type| match ty {
            Type::Tensor(tensor) => Type::tensor(tensor.dims.iter().map(|dim| dim.substitute(&size)), tensor.dtype),
            other => other.clone(),
        };
        let facts = callee.facts.substitute(&size).map(|facts| facts.iter().collect()).unwrap_or_default();
        (callee.results.iter().map(substituted).collect(), facts)
    }

    fn types(&self, values: &[Value]) -> Vec<Type> {
        values.iter().map(|&value| self.function.ty(value).clone()).collect()
    }

    fn fill(&mut self, values: &[Value], known: &[Type]) {
        if values.len() != known.len() {
            return;
        }
        for (&value, known) in values.iter().zip(known) {
            let ty = self.filled(self.function.ty(value), known);
            self.function.set_type(value, ty);
        }
    }

    /// Returns a type whose open sizes are those of another.
    fn filled(&self, stated: &Type, known: &Type) -> Type {
        match (stated, known) {
            (Type::Tensor(stated), Type::Tensor(known)) if stated.dims.len() == known.dims.len() => {
                let sizes = stated.dims.iter().zip(&known.dims);
                let sizes = sizes.map(|(size, known)| if self.is_known(size) { size.clone() } else { known.clone() });
                Type::tensor(sizes, stated.dtype)
            }
            _ => stated.clone(),
        }
    }

    fn is_open(&self, ty: &Type) -> bool {
        ty.shaped().is_some_and(|ty| !ty.dims.iter().all(|dim| self.is_known(dim)))
    }

    fn is_known(&self, dim: &Dim) -> bool {
        dim.symbols().iter().all(|symbol| self.known.contains(symbol))
    }
}
