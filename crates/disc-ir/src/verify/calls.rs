//! Verifies the names of functions and weights, and their types at each use.
//!
//! Invariants:
//! - Functions have different names, and so have weights; the data of a weight fits its type.
//! - `call` names a function of the module that may be called from there, `launch` a kernel; sizes
//!   of the arguments match those of the parameters under one assignment of the callee's dims, and
//!   the results are the callee's under it.
//! - `weight` names a weight of the module, of the type of the result.
//! - No function calls itself, also not through others.
use super::{Check, facts, matching::Matching, stage::describe};
use crate::{
    attr::Attr,
    diag::{Code, Diagnostic},
    graph::{Function, FunctionKind, Inst, Module},
    ops::OpKind,
    text::closest,
    types::{TensorType, Type},
};
use std::collections::{HashMap, HashSet};

/// Checks the names of the module, apart from their uses.
pub(super) fn check_names(module: &Module, errors: &mut Vec<Diagnostic>) {
    let mut functions = HashSet::new();
    for function in module.functions.iter().filter(|function| !functions.insert(&function.name)) {
        let message = format!("there are two functions of the name @{}", function.name);
        errors.push(Diagnostic::new(Code::E0104, message).at(function.span));
    }
    let mut weights = HashSet::new();
    for weight in &module.weights {
        if !weights.insert(&weight.name) {
            errors.push(Diagnostic::new(Code::E0104, format!("there are two weights of the name @{}", weight.name)));
        }
        if let Some(dim) = weight.ty.dims.iter().find(|dim| dim.as_const().is_none()) {
            let message = format!("the weight @{} has the size [{dim}]; sizes of weights are constant", weight.name);
            errors.push(Diagnostic::new(Code::E0209, message));
        }
        let count = weight.ty.element_count().as_const();
        if let Some(data) = weight
            .data
            .as_ref()
            .filter(|data| data.dtype != weight.ty.dtype || !data.splat && Some(data.stored_len() as i64) != count)
        {
            let message = format!(
                "the weight @{} has {} elements of type {}, its type is {}",
                weight.name,
                data.stored_len(),
                data.dtype,
                Type::Tensor(weight.ty.clone())
            );
            errors.push(Diagnostic::new(Code::E0209, message));
        }
    }
}

pub(super) fn check(cx: &mut Check<'_>) {
    for inst in cx.function.walk(cx.function.body) {
        let result = match cx.function.kind_of(inst) {
            OpKind::Call => check_call(cx, inst),
            OpKind::Launch => check_launch(cx, inst),
            OpKind::LaunchGrid => check_launch_grid(cx, inst),
            OpKind::LibraryConvolution | OpKind::LibraryGemm => grid_kernel(cx, inst).map(drop),
            OpKind::Weight => check_weight(cx, inst),
            _ => Ok(()),
        };
        cx.op_result(inst, result);
    }
}

fn named<'m>(cx: &Check<'m>, inst: Inst) -> Option<&'m str> {
    match cx.function.inst(inst).attrs.first() {
        Some(Some(Attr::Symbol(name))) => Some(name),
        _ => None,
    }
}

fn not_found<'n>(what: &str, name: &str, known: impl Iterator<Item = &'n str>) -> Diagnostic {
    let error = Diagnostic::new(Code::E0103, format!("there is no {what} @{name}"));
    match closest(name, known) {
        Some(near) => error.help(format!("did you mean @{near}?")),
        None => error,
    }
}

fn callee<'m>(cx: &Check<'m>, inst: Inst, wanted: FunctionKind) -> Result<Option<&'m Function>, Diagnostic> {
    let Some(name) = named(cx, inst) else { return Ok(None) };
    let found = cx.module.function(name).ok_or_else(|| {
        let known = cx.module.functions.iter().filter(|f| f.kind == wanted).map(|f| &*f.name);
        not_found(describe(wanted), name, known)
    })?;
    if found.kind != wanted {
        let message = format!("(C1) @{name} is a {}, expected a {}", describe(found.kind), describe(wanted));
        return Err(Diagnostic::new(Code::E0209, message));
    }
    Ok(Some(found))
}

fn types(function: &Function, values: &[crate::Value]) -> Vec<Type> {
    values.iter().map(|&value| function.ty(value).clone()).collect()
}

fn check_call(cx: &Check<'_>, inst: Inst) -> Result<(), Diagnostic> {
    // From a kernel only routines can be called, from a host program no other.
    let wanted = match cx.function.kind {
        FunctionKind::Kernel | FunctionKind::Routine => FunctionKind::Routine,
        FunctionKind::Func => FunctionKind::Func,
        FunctionKind::Host => FunctionKind::Host,
    };
    let Some(callee) = callee(cx, inst, wanted)? else { return Ok(()) };
    let arguments = types(cx.function, cx.function.operands(inst));
    let matching = match_arguments(cx, callee, &types(callee, callee.parameters()), &arguments)?;
    let results = types(cx.function, cx.function.results_of(inst));
    if results.len() != callee.results.len() {
        let message = format!("(C1) {} results, @{} has {}", results.len(), callee.name, callee.results.len());
        return Err(Diagnostic::new(Code::E0201, message));
    }
    for (i, (stated, result)) in results.iter().zip(&callee.results).enumerate() {
        if !matching.admits(result, stated, &cx.solver) {
            let message =
                format!("(C1) result {i} is stated as {stated}, that of @{} is {}", callee.name, matching.apply(result));
            return Err(Diagnostic::new(Code::E0205, message));
        }
    }
    Ok(())
}

fn match_arguments(cx: &Check<'_>, callee: &Function, parameters: &[Type], arguments: &[Type]) -> Result<Matching, Diagnostic> {
    if parameters.len() != arguments.len() {
        let message = format!("(C1) {} arguments, @{} takes {}", arguments.len(), callee.name, parameters.len());
        return Err(Diagnostic::new(Code::E0201, message));
    }
    let in_callee = |why| Diagnostic::new(Code::E0204, format!("(C1) {why} of @{}", callee.name));
    let matching = Matching::of(parameters, arguments, &cx.solver).map_err(in_callee)?;
    facts::check_call(cx, callee, &matching)?;
    Ok(matching)
}

/// Checks that the operands are the kernel's parameters but for the last two, the range of work
/// units.
fn check_launch(cx: &Check<'_>, inst: Inst) -> Result<(), Diagnostic> {
    let Some(kernel) = callee(cx, inst, FunctionKind::Kernel)? else { return Ok(()) };
    if kernel.grid.is_some() {
        let message = format!("(C1) @{} runs on a grid of threads: `launch_grid` launches it", kernel.name);
        return Err(Diagnostic::new(Code::E0209, message));
    }
    let mut parameters = types(kernel, kernel.parameters());
    parameters.truncate(parameters.len().saturating_sub(2));
    match_arguments(cx, kernel, &parameters, &types(cx.function, cx.function.operands(inst)))?;
    check_product(cx, inst)
}

/// Returns the GPU kernel that an op names.
fn grid_kernel<'m>(cx: &Check<'m>, inst: Inst) -> Result<Option<&'m Function>, Diagnostic> {
    let kernel = callee(cx, inst, FunctionKind::Kernel)?;
    match kernel.filter(|kernel| kernel.grid.is_none()) {
        Some(kernel) => {
            let message = format!("(C1) @{} runs units of work: `launch` launches it", kernel.name);
            Err(Diagnostic::new(Code::E0209, message))
        }
        None => Ok(kernel),
    }
}

/// Checks that the operands are the parameters of a kernel that runs on a grid.
fn check_launch_grid(cx: &Check<'_>, inst: Inst) -> Result<(), Diagnostic> {
    let Some(kernel) = grid_kernel(cx, inst)? else { return Ok(()) };
    let parameters = types(kernel, kernel.parameters());
    match_arguments(cx, kernel, &parameters, &types(cx.function, cx.function.operands(inst))).map(drop)
}

/// Checks the description of the product that a launch computes.
fn check_product(cx: &Check<'_>, inst: Inst) -> Result<(), Diagnostic> {
    let attr = |name| {
        let position = OpKind::Launch.def().attr_position(name)?;
        cx.function.inst(inst).attrs[position].as_ref()
    };
    let dims = |name| match attr(name) {
        Some(Attr::Dims(dims)) => dims.len(),
        _ => 0,
    };
    let ints = |name| match attr(name) {
        Some(Attr::Ints(values)) => values.to_vec(),
        _ => Vec::new(),
    };
    let (roles, rest_roles, count) = (ints("roles"), ints("rest_roles"), cx.function.operands(inst).len() as i64);
    let wrong = |message: String| Err(Diagnostic::new(Code::E0209, format!("(C2) {message}")));
    if dims("product") == 0 {
        let names = ["product", "roles", "rest", "rest_roles", "rest_work"];
        return match names.into_iter().find(|name| attr(name).is_some()) {
            Some(name) => wrong(format!("`{name}` without a product")),
            None => Ok(()),
        };
    }
    let has_rest = attr("rest").is_some();
    if dims("product") != 8 || roles.len() != 3 || dims("rest_work") != if has_rest { 3 } else { 0 } {
        return wrong("`product` has 8 entries, `roles` and `rest_work` have 3".into());
    }
    if has_rest != (roles[2] == -1) || !has_rest && !rest_roles.is_empty() {
        return wrong("the result is an operand where there is no `rest`, and -1 where there is".into());
    }
    let operands = roles[..2].iter().chain(roles[2..].iter().chain(&rest_roles).filter(|&&role| role != -1));
    if let Some(role) = operands.into_iter().find(|role| !(0..count).contains(*role)) {
        return wrong(format!("there is no operand {role}"));
    }
    if !has_rest {
        return Ok(());
    }
    let Some(Attr::Symbol(name)) = attr("rest") else { return Ok(()) };
    let Some(rest) = cx.module.function(name).filter(|function| function.kind == FunctionKind::Kernel) else {
        return wrong(format!("there is no kernel @{name}"));
    };
    let results = rest_roles.iter().filter(|&&role| role == -1).count();
    if results != 1 || rest_roles.len() + 2 != rest.parameters().len() {
        return wrong(format!("`rest_roles` names the result once, and something for each parameter of @{name}"));
    }
    Ok(())
}

fn check_weight(cx: &Check<'_>, inst: Inst) -> Result<(), Diagnostic> {
    let Some(name) = named(cx, inst) else { return Ok(()) };
    let known = cx.module.weights.iter().map(|weight| &*weight.name);
    let weight = cx.module.weight(name).ok_or_else(|| not_found("weight", name, known))?;
    let stated: Option<&TensorType> = cx.function.results_of(inst).first().and_then(|&result| cx.function.ty(result).shaped());
    match stated {
        Some(stated) if *stated != weight.ty => {
            let (stated, ty) = (Type::Tensor(stated.clone()), Type::Tensor(weight.ty.clone()));
            Err(Diagnostic::new(Code::E0205, format!("(C1) the result is {stated}, the weight @{name} is {ty}")))
        }
        _ => Ok(()),
    }
}

/// Functions that call themselves, directly or through others.
pub(super) fn check_recursion(module: &Module, errors: &mut Vec<Diagnostic>) {
    let index: HashMap<&str, usize> = module.functions.iter().enumerate().map(|(i, f)| (&*f.name, i)).collect();
    let callees = |function: &Function| -> Vec<usize> {
        let calls = function.walk(function.body).into_iter().filter(|&inst| function.kind_of(inst) == OpKind::Call);
        let names = calls.filter_map(|inst| match function.inst(inst).attrs.first() {
            Some(Some(Attr::Symbol(name))) => index.get(&**name).copied(),
            _ => None,
        });
        names.collect()
    };
    let graph: Vec<Vec<usize>> = module.functions.iter().map(callees).collect();
    // Functions are done once all their callees are done; the remaining ones are in a cycle, or
    // call one.
    let mut callers = vec![Vec::new(); graph.len()];
    let mut open: Vec<usize> = graph.iter().map(Vec::len).collect();
    graph.iter().enumerate().for_each(|(caller, callees)| callees.iter().for_each(|&callee| callers[callee].push(caller)));
    let mut done: Vec<usize> = (0..graph.len()).filter(|&i| open[i] == 0).collect();
    while let Some(callee) = done.pop() {
        for &caller in &callers[callee] {
            open[caller] -= 1;
            if open[caller] == 0 {
                done.push(caller);
            }
        }
    }
    if let Some(first) = open.iter().position(|&left| left > 0) {
        let function = &module.functions[first];
        let message = format!("the calls of @{} lead back to themselves; functions cannot be recursive", function.name);
        errors.push(Diagnostic::new(Code::E0215, message).at(function.span));
    }
}
