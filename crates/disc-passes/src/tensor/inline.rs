//! Inlines all calls.
//!
//! The dims of a callee become those of the call, and its facts become facts of the caller.
//!
//! Invariant: no `call` is left, and no function that was only called: every function is an entry.
use crate::{
    analysis::query::Query,
    pass::{PassCx, PassDef},
    tensor::unify_dims::{map_attr, map_type},
};
use disc_ir::{
    Attr, Block, Code, Diagnostic, Dim, Function, FunctionKind, Inst, Module, OpKind, Solver, Symbol, Type, Value, ops::Stage,
    verify::Matching,
};
use std::{
    collections::{BTreeSet, HashMap, HashSet},
    sync::Arc,
};

/// Replaces every `call` by the body of its function, and removes called functions.
pub static PASS: PassDef = PassDef {
    name: "inline",
    doc: "Replaces every `call` by the ops of its function, then removes the functions that were called.",
    stages: (Stage::Tensor, Stage::Tensor),
    run,
};

fn run(module: &mut Module, _: &mut PassCx) -> Result<usize, Diagnostic> {
    let called: HashSet<Arc<str>> = module.functions.iter().filter(|f| f.kind == FunctionKind::Func).flat_map(callees).collect();
    if called.is_empty() {
        return Ok(0);
    }
    // A function without calls can be copied; each round adds such functions.
    let mut done: HashMap<Arc<str>, Function> = HashMap::new();
    let mut inlined = 0;
    while done.len() < module.functions.len() {
        let before = done.len();
        for function in &mut module.functions {
            if !done.contains_key(&function.name) && callees(function).iter().all(|name| done.contains_key(name)) {
                let (block, mut replaced) = (function.body, HashMap::new());
                inlined += inline_block(function, block, &done, &mut replaced)?;
                function.replace_uses(&replaced);
                done.insert(Arc::clone(&function.name), function.clone());
            }
        }
        if done.len() == before {
            let left = module.functions.iter().find(|f| !done.contains_key(&f.name)).map_or("", |f| &f.name);
            return Err(Diagnostic::new(Code::E0215, format!("the calls of @{left} lead back to it, or to no function")));
        }
    }
    module.functions.retain(|function| !called.contains(&function.name));
    Ok(inlined)
}

fn callees(function: &Function) -> Vec<Arc<str>> {
    let calls = function.walk(function.body).into_iter().filter(|&inst| function.kind_of(inst) == OpKind::Call);
    calls.filter_map(|call| callee(function, call)).collect()
}

fn callee(function: &Function, call: Inst) -> Option<Arc<str>> {
    match function.attr(call, "callee") {
        Some(Attr::Symbol(name)) if function.kind_of(call) == OpKind::Call => Some(Arc::clone(name)),
        _ => None,
    }
}

type Done = HashMap<Arc<str>, Function>;

fn inline_block(
    function: &mut Function,
    block: Block,
    done: &Done,
    replaced: &mut HashMap<Value, Value>,
) -> Result<usize, Diagnostic> {
    let (insts, mut inlined) = (function.insts(block).to_vec(), 0);
    function.set_insts(block, Vec::with_capacity(insts.len()));
    for inst in insts {
        for region in function.inst(inst).regions.clone() {
            inlined += inline_block(function, region, done, replaced)?;
        }
        match callee(function, inst).and_then(|name| done.get(&name)) {
            Some(callee) => {
                let results = copy(function, block, inst, callee)?;
                replaced.extend(function.results_of(inst).iter().copied().zip(results));
                inlined += 1;
            }
            None => function.append(block, inst),
        }
    }
    Ok(inlined)
}

/// Copies the ops of a function to the end of `block`; returns its results.
fn copy(function: &mut Function, block: Block, call: Inst, callee: &Function) -> Result<Vec<Value>, Diagnostic> {
    let arguments = function.operands(call).to_vec();
    let types = |f: &Function, values: &[Value]| -> Vec<Type> { values.iter().map(|&value| f.ty(value).clone()).collect() };
    let parameters = callee.parameters();
    let solver = Solver::new(&function.facts);
    let in_call = |message: String| Diagnostic::new(Code::E0209, message).in_op("call").at(function.inst(call).span);
    let matching = Matching::of(&types(callee, parameters), &types(function, &arguments), &solver)
        .map_err(|why| in_call(format!("{why} of @{}", callee.name)))?;
    let inner = inner_dims(function, callee);
    let facts = callee.facts.substitute(&|symbol| matching.size(symbol).or_else(|| inner.get(symbol)).cloned());
    let merged = facts.and_then(|facts| {
        let mut all = function.facts.clone();
        all.merge(&facts).map(|()| all)
    });
    let facts = merged.map_err(|error| in_call(format!("what @{} states never holds here: {error}", callee.name)))?;
    function.facts = facts;
    let mut map: HashMap<Value, Value> = parameters.iter().copied().zip(arguments).collect();
    let mut size = |dim: &Dim| dim.substitute(&|symbol| matching.size(symbol).or_else(|| inner.get(symbol)).cloned());
    for &inst in callee.insts(callee.body) {
        if callee.kind_of(inst) == OpKind::Return {
            return Ok(callee.operands(inst).iter().map(|value| map[value]).collect());
        }
        let made = function.import(callee, inst, &mut map);
        function.append(block, made);
        rename_sizes(function, made, &mut size);
    }
    Ok(Vec::new())
}

/// Fresh names for the dims that ops of the callee bind: it may be called twice.
fn inner_dims(function: &Function, callee: &Function) -> HashMap<Symbol, Dim> {
    let mut taken: BTreeSet<Symbol> = function.bound_symbols().into_iter().collect();
    taken.extend(function.walk(function.body).into_iter().flat_map(|inst| function.symbols_of(inst)));
    let mut rename = |symbol: Symbol| {
        let numbered = (1..).map(|i| Symbol::new(format!("{symbol}_{i}")));
        let free = std::iter::once(symbol.clone()).chain(numbered).find(|name| !taken.contains(name));
        let free = free.expect("there are finitely many dims");
        taken.insert(free.clone());
        (symbol, Dim::symbol(free))
    };
    callee.data_dims().into_iter().map(&mut rename).collect()
}

/// Replaces the dims of an op and its regions.
fn rename_sizes(function: &mut Function, inst: Inst, size: &mut dyn FnMut(&Dim) -> Dim) {
    let regions = function.inst(inst).regions.clone();
    let inner: Vec<Inst> = regions.iter().flat_map(|&region| function.walk(region)).collect();
    for op in std::iter::once(inst).chain(inner) {
        let regions = function.inst(op).regions.clone();
        let mut values: Vec<Value> = regions.iter().flat_map(|&region| function.arguments(region).to_vec()).collect();
        values.extend(function.results_of(op));
        for value in values {
            map_type(function, value, size);
        }
        for attr in function.inst_mut(op).attrs.iter_mut().flatten() {
            map_attr(attr, size);
        }
    }
}

#[cfg(test)]
mod tests {
    use crate::{tensor::inline, testing::after};

    #[test]
    fn calls_become_ops_in_the_sizes_of_the_caller() {
        let text = after(
            &inline::PASS,
            "func @main(%x: tensor<[B]x8xf32>, %y: tensor<[2*B]xf32>) -> (tensor<[B]x8xf32>, tensor<i64>) {
              %a = call @outer(%x) : (tensor<[B]x8xf32>) -> tensor<[B]x8xf32>
              %b = call @outer(%a) : (tensor<[B]x8xf32>) -> tensor<[B]x8xf32>
              %n = call @half(%y, %x) : (tensor<[2*B]xf32>, tensor<[B]x8xf32>) -> tensor<i64>
              return %b, %n : (tensor<[B]x8xf32>, tensor<i64>)
            }
            func @outer(%x: tensor<[N]x8xf32>) -> tensor<[N]x8xf32> where N <= 64 {
              %a = call @inner(%x) : (tensor<[N]x8xf32>) -> tensor<[N]x8xf32>
              return %a : tensor<[N]x8xf32>
            }
            func @inner(%x: tensor<[B]x[K]xf32>) -> tensor<[B]x[K]xf32> {
              %a = negate %x : tensor<[B]x[K]xf32>
              return %a : tensor<[B]x[K]xf32>
            }
            func @half(%x: tensor<[2*H]xf32>, %y: tensor<[H]x8xf32>) -> tensor<i64> {
              %h = dim [H] : tensor<i64>
              return %h : tensor<i64>
            }",
        );
        assert_eq!(text.matches("func ").count(), 1, "{text}");
        assert_eq!(text.matches("negate").count(), 2, "{text}");
        assert!(text.contains("where B <= 64") && text.contains("dim [B] : tensor<i64>"), "{text}");
    }

    #[test]
    fn a_dim_that_a_callee_binds_has_a_name_for_each_call() {
        let text = after(
            &inline::PASS,
            "func @main(%n: tensor<i64>, %x: tensor<[K]xf32>) -> (tensor<i64>, tensor<i64>) {
              %a = call @f(%n) : (tensor<i64>) -> tensor<i64>
              %b = call @f(%a) : (tensor<i64>) -> tensor<i64>
              return %a, %b : (tensor<i64>, tensor<i64>)
            }
            func @f(%n: tensor<i64>) -> tensor<i64> where K <= 8 {
              bind_dim %n, dim = [K] : tensor<i64>
              %k = dim [2*K] : tensor<i64>
              return %k : tensor<i64>
            }",
        );
        assert!(text.contains("dim = [K_1]") && text.contains("dim = [K_2]"), "{text}");
        assert!(text.contains("K_1 <= 8, K_2 <= 8") && text.contains("dim [2*K_2]"), "{text}");
    }

    #[test]
    fn a_call_in_a_branch_stays_in_the_branch() {
        let text = after(
            &inline::PASS,
            "func @main(%p: tensor<i1>, %x: tensor<4xf32>) -> tensor<4xf32> {
              %r = if %p : (tensor<i1>) -> tensor<4xf32> then {
                %a = call @f(%x) : (tensor<4xf32>) -> tensor<4xf32>
                return %a : tensor<4xf32>
              } else {
                return %x : tensor<4xf32>
              }
              return %r : tensor<4xf32>
            }
            func @f(%x: tensor<4xf32>) -> tensor<4xf32> {
              %a = negate %x : tensor<4xf32>
              return %a : tensor<4xf32>
            }",
        );
        assert!(text.contains("    %a = negate %x : tensor<4xf32>\n    return %a"), "{text}");
    }
}
