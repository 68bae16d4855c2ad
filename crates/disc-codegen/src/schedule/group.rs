//! The group that a schedule is asked for.
use super::Condition;
use crate::{kernel::KernelBuilder, target::Target};
use disc_ir::{DType, Function, FunctionKind, OpKind, Solver, TensorType, Value};
use std::{collections::HashMap, sync::Arc};

/// A group to be scheduled.
#[derive(Clone)]
pub struct Group<'a> {
    pub function: &'a Function,
    /// The outputs to compute, by their position among what the function returns.
    pub wanted: Vec<usize>,
    pub solver: Arc<Solver>,
    /// The prefix of kernel names.
    pub name: Arc<str>,
    pub target: &'a Target,
    /// The number of the first site of these kernels.
    pub first_site: i64,
    /// True if results are written past the caches: see [`Condition::Nontemporal`].
    pub nontemporal: bool,
    /// Operands of products of f32 may be rounded to tf32.
    pub tf32: bool,
    /// The type of positions in its kernels.
    pub index_type: DType,
}

impl<'a> Group<'a> {
    /// A group with all its outputs, whose sites are the first ones.
    pub fn new(function: &'a Function, solver: Arc<Solver>, name: &str, target: &'a Target) -> Self {
        let wanted = (0..function.returned(function.body).len()).collect();
        Self {
            function,
            wanted,
            solver,
            name: name.into(),
            target,
            first_site: 1,
            nontemporal: false,
            tf32: false,
            index_type: DType::I64,
        }
    }
}

impl Group<'_> {
    /// Starts a kernel or a routine of the group.
    pub fn builder(&self, name: &str, kind: FunctionKind) -> KernelBuilder {
        KernelBuilder::new(name, kind, self.index_type)
    }

    pub fn inputs(&self) -> &[Value] {
        self.function.parameters()
    }

    /// The values to compute, in the order of `wanted`.
    pub fn outputs(&self) -> Vec<Value> {
        self.wanted.iter().map(|&position| self.function.returned(self.function.body)[position]).collect()
    }

    /// The value that the function returns at a position.
    pub fn output(&self, position: usize) -> Value {
        self.function.returned(self.function.body)[position]
    }

    pub fn tensor(&self, value: Value) -> &TensorType {
        self.function.ty(value).shaped().expect("a group's values are tensors")
    }

    /// Returns the most elements that one access may have, whichever of the group's tensors it
    /// reads.
    pub fn access_lanes(&self) -> u32 {
        let function = self.function;
        let computed = function.insts(function.body).iter().flat_map(|&inst| function.results_of(inst));
        let tensors = self.inputs().iter().chain(computed).filter_map(|&value| function.ty(value).shaped());
        let bits = tensors.map(|tensor| tensor.dtype.bits()).max();
        self.target.access_lanes(bits.unwrap_or(8))
    }

    /// The group for sizes that a guard admits, under a name of its own: the guard is a fact there.
    pub fn guarded(&self, name: String, guard: &[Condition]) -> Self {
        let mut facts = self.function.facts.clone();
        // A version whose guard cannot hold never runs.
        let holds = guard.iter().flat_map(Condition::facts).try_for_each(|fact| facts.add(fact));
        let solver = if holds.is_ok() { Arc::new(Solver::new(&facts)) } else { self.solver.clone() };
        Self { name: name.into(), solver, ..self.clone() }
    }
}

/// A group whose ops are no longer in groups of their own.
pub(super) fn flat(group: &Function) -> Function {
    let mut function = Function::new("group", FunctionKind::Func);
    function.facts = group.facts.clone();
    let mut map = HashMap::new();
    for &parameter in group.parameters() {
        map.insert(parameter, function.add_argument(function.body, group.ty(parameter).clone()));
    }
    for &inst in group.insts(group.body) {
        if group.kind_of(inst) != OpKind::Fusion {
            let made = function.import(group, inst, &mut map);
            function.append(function.body, made);
            continue;
        }
        let region = group.inst(inst).regions[0];
        for (&argument, operand) in group.arguments(region).iter().zip(group.operands(inst)) {
            map.insert(argument, map[operand]);
        }
        for &inner in group.insts(region) {
            if group.kind_of(inner) == OpKind::Return {
                let results = group.results_of(inst).iter().zip(group.operands(inner));
                map.extend(results.map(|(&result, inner)| (result, map[inner])).collect::<Vec<_>>());
            } else {
                let made = function.import(group, inner, &mut map);
                function.append(function.body, made);
            }
        }
    }
    function
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::schedule::{Offers, Request, Versioned, scheduler};
    use disc_ir::{Dim, FusionKind};
    use disc_passes::fusion::ReductionPlan;

    const MOVED: &str = "func @f(%x: tensor<[B]x[N]xf32>, %i: tensor<[M]xi32>) -> tensor<[2*M]x[N]xf32> {
      %rows = gather %x, %i, offset_dims = [1], collapsed_slice_dims = [0], start_index_map = [0], index_vector_dim = 1,
        slice_sizes = [1, N] : (tensor<[B]x[N]xf32>, tensor<[M]xi32>) -> tensor<[M]x[N]xf32>
      %two = concatenate %rows, %rows, dim = 0 : (tensor<[M]x[N]xf32>, tensor<[M]x[N]xf32>) -> tensor<[2*M]x[N]xf32>
      return %two : tensor<[2*M]x[N]xf32>
    }";
    const SUMS: &str = "func @f(%x: tensor<[B]x[N]xf32>) -> tensor<[B]xf32> {
      %zero = constant dense<0.0> : tensor<f32>
      %sum = reduce %x, %zero, dims = [1] : (tensor<[B]x[N]xf32>, tensor<f32>) -> tensor<[B]xf32> applies add
      return %sum : tensor<[B]xf32>
    }";

    fn kernels(text: &str, index_type: DType, kind: FusionKind) -> String {
        let module = disc_ir::parse(text).unwrap_or_else(|errors| panic!("{}", errors[0]));
        let function = &module.functions[0];
        let target = "x86-64-v3".parse().expect("a target");
        let group = Group { index_type, ..Group::new(function, Arc::new(Solver::new(&function.facts)), "k0", &target) };
        let plan = (kind == FusionKind::Reduction)
            .then(|| ReductionPlan::of(function, &group.solver, &group.outputs()).expect("a reduction"));
        let request = Request { kind, plan: plan.as_ref(), is_update: false, offers: Offers::Nothing };
        let (code, reason) = scheduler(&target).schedule(&group, request).expect("a plan");
        assert_eq!(reason, None);
        let Versioned { versions, otherwise, .. } = code;
        let codes = versions.into_iter().map(|version| version.code).chain([otherwise]);
        codes.flat_map(|code| code.kernels).map(|kernel| kernel.to_string()).collect()
    }

    #[test]
    fn what_a_guard_says_of_sizes_is_known_inside() {
        let module = disc_ir::parse(SUMS).expect("a module");
        let function = &module.functions[0];
        let target = "x86-64-v3".parse().expect("a target");
        let group = Group::new(function, Arc::new(Solver::new(&function.facts)), "k0", &target);
        let length = group.tensor(group.inputs()[0]).dims[1].clone();
        let guard = [Condition::Divides(16, length.clone()), Condition::Less(length.clone(), Dim::constant(100))];
        let inside = group.guarded("k0_inside".into(), &guard);
        assert!(!group.solver.divisible(&length, 8) && inside.solver.divisible(&length, 8));
        assert_eq!((group.solver.range(&length).hi, inside.solver.range(&length).hi), (None, Some(96)));
        let memory = Condition::Nontemporal { outputs: vec![0], bytes: length.clone() };
        assert_eq!(group.guarded("k0_large".into(), &[memory]).solver.range(&length).hi, None);
    }

    #[test]
    fn positions_have_the_index_type() {
        for (text, kind) in [(MOVED, FusionKind::Pointwise), (SUMS, FusionKind::Reduction)] {
            let [long, short] = [DType::I64, DType::I32].map(|index_type| kernels(text, index_type, kind));
            assert!(long.contains("%begin: i64"), "{long}");
            assert!(short.contains("%begin: i32") && !short.contains("i64"), "{short}");
        }
    }
}
