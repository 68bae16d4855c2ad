//! Makes values for the parameters of an entry and for the weights of its module.
use super::arguments::{Given, Input, RunArguments};
use crate::npy;
use disc_ir::{
    Code, DType, Diagnostic, Function, FunctionKind, Module, OpKind, Symbol, TensorType, attr::Attr, generate::Random,
    interp::Tensor,
};
use std::collections::{HashMap, HashSet};

/// The values that an entry runs on.
#[derive(Clone, Debug, Default)]
pub(crate) struct Data {
    /// In the order of the parameters.
    pub(crate) inputs: Vec<Tensor>,
    pub(crate) weights: HashMap<String, Tensor>,
}

impl Data {
    /// Returns the values that the command line gives, or asks for.
    ///
    /// # Errors
    /// An unknown name, a missing value, or a file that cannot be read.
    pub(crate) fn new(module: &Module, entry: &Function, arguments: &RunArguments) -> Result<Self, Diagnostic> {
        let (weights, inputs): (Vec<&Input>, Vec<&Input>) = arguments.input.iter().partition(|input| input.name.starts_with('@'));
        let mut random = Random::new(arguments.seed);
        let inputs = of_parameters(entry, &inputs, &arguments.dim, &mut random)?;
        Ok(Self { inputs, weights: of_weights(module, &weights, arguments.random_weights, &mut random)? })
    }
}

/// Returns the function to run: the one of this name, or the one that a user would call: no kernel,
/// and called by no other.
pub(crate) fn entry<'m>(module: &'m Module, name: Option<&str>) -> Result<&'m Function, Diagnostic> {
    if let Some(name) = name {
        return module.function(name).ok_or_else(|| Diagnostic::new(Code::E0103, format!("there is no function @{name}")));
    }
    let callees = |f: &Function| -> Vec<String> {
        let calls = f.walk(f.body).into_iter().filter(|&inst| f.kind_of(inst) == OpKind::Call);
        let names = calls.filter_map(|inst| match f.inst(inst).attrs.first() {
            Some(Some(Attr::Symbol(name))) => Some(name.to_string()),
            _ => None,
        });
        names.collect()
    };
    let called: HashSet<String> = module.functions.iter().flat_map(callees).collect();
    let is_entry = |f: &&Function| {
        let is_callable = matches!(f.kind, FunctionKind::Func | FunctionKind::Host) && f.variant_of.is_none();
        is_callable && !called.contains(&*f.name) && !module.is_prepare(&f.name)
    };
    let entries: Vec<&Function> = module.functions.iter().filter(is_entry).collect();
    match entries[..] {
        [entry] => Ok(entry),
        [] => Err(Diagnostic::new(Code::E0103, "there is no entry to run")),
        _ => {
            let names: Vec<String> = entries.iter().map(|f| format!("@{}", f.name)).collect();
            let message = format!("there are {} entries: {}", entries.len(), names.join(", "));
            Err(Diagnostic::new(Code::E0103, message).help("name one with --entry"))
        }
    }
}

fn of_parameters(
    entry: &Function,
    given: &[&Input],
    dims: &[(String, i64)],
    random: &mut Random,
) -> Result<Vec<Tensor>, Diagnostic> {
    let name_of = |i: usize| entry.name_of(entry.parameters()[i]).map_or_else(|| i.to_string(), ToString::to_string);
    let names: Vec<String> = (0..entry.parameters().len()).map(name_of).collect();
    if let Some(unknown) = given.iter().find(|input| !names.contains(&input.name)) {
        let message = format!("@{} has no parameter %{}; it has: {}", entry.name, unknown.name, names.join(", "));
        return Err(Diagnostic::new(Code::E0601, message));
    }
    let symbols = entry.bound_symbols();
    if let Some((unknown, _)) = dims.iter().find(|(name, _)| symbols.iter().all(|symbol| symbol.name() != name)) {
        let has: Vec<&str> = symbols.iter().map(Symbol::name).collect();
        let has = if has.is_empty() { "none".into() } else { has.join(", ") };
        return Err(Diagnostic::new(Code::E0601, format!("@{} has no dim {unknown}; it has: {has}", entry.name)));
    }
    let is_given = |name: &&String| given.iter().any(|input| input.name == **name);
    let missing: Vec<&str> = names.iter().filter(|name| !is_given(name)).map(|name| &**name).collect();
    if !missing.is_empty() && dims.is_empty() {
        let message = format!("@{} needs values for: {}", entry.name, missing.join(", "));
        let help = format!("--input {}=rand:SIZES, or --dim NAME=SIZE for random inputs", missing[0]);
        return Err(Diagnostic::new(Code::E0601, message).help(help));
    }
    let parameters = entry.parameters().iter().zip(&names);
    let value = |(&parameter, name): (_, &String)| {
        let given = given.iter().rfind(|input| input.name == *name).map_or(&Given::Random(None), |input| &input.value);
        match entry.ty(parameter).shaped() {
            Some(ty) => make(given, ty.dtype, || sizes(ty, name, dims), random),
            None => make(given, entry.ty(parameter).dtype(), || Ok(Vec::new()), random),
        }
    };
    parameters.map(value).collect()
}

fn of_weights(module: &Module, given: &[&Input], fill: bool, random: &mut Random) -> Result<HashMap<String, Tensor>, Diagnostic> {
    let plain = || module.weights.iter().filter(|weight| weight.data.is_none() && weight.prepared.is_none());
    if let Some(unknown) = given.iter().find(|input| plain().all(|weight| *weight.name != input.name[1..])) {
        let names: Vec<String> = plain().map(|weight| format!("@{}", weight.name)).collect();
        let names = if names.is_empty() { "none".into() } else { names.join(", ") };
        return Err(Diagnostic::new(Code::E0608, format!("there is no weight {}; there are: {names}", unknown.name)));
    }
    let mut found = HashMap::new();
    for weight in plain() {
        let value = given.iter().rfind(|input| input.name[1..] == *weight.name).map(|input| &input.value);
        let Some(value) = value.or(fill.then_some(&Given::Random(None))) else {
            let error = Diagnostic::new(Code::E0608, format!("weight @{} has no value", weight.name));
            return Err(error.help(format!("--input @{}=FILE.npy, or --random-weights for all of them", weight.name)));
        };
        let sizes = || Ok(weight.ty.static_dims().expect("a weight's sizes are constant"));
        found.insert(weight.name.to_string(), make(value, weight.ty.dtype, sizes, random)?);
    }
    Ok(found)
}

fn make(
    given: &Given,
    dtype: DType,
    sizes: impl FnOnce() -> Result<Vec<i64>, Diagnostic>,
    random: &mut Random,
) -> Result<Tensor, Diagnostic> {
    match given {
        Given::File(path) => npy::read(path),
        Given::Random(Some(sizes)) => random.tensor(dtype, sizes.clone()),
        Given::Random(None) => random.tensor(dtype, sizes()?),
        Given::Zeros(Some(sizes)) => zeros(dtype, sizes.clone()),
        Given::Zeros(None) => zeros(dtype, sizes()?),
    }
}

fn zeros(dtype: DType, sizes: Vec<i64>) -> Result<Tensor, Diagnostic> {
    let none = Diagnostic::new(Code::E0605, format!("a tensor of sizes {sizes:?} is too large"));
    let count = sizes.iter().try_fold(dtype.size(), |n, &size| n.checked_mul(usize::try_from(size).ok()?));
    let count = count.filter(|&bytes| bytes <= 4 << 30).ok_or(none)?;
    Tensor::new(dtype, sizes, vec![0; count])
}

/// Returns the sizes of a parameter, if the dims of the command line determine them.
fn sizes(ty: &TensorType, name: &str, dims: &[(String, i64)]) -> Result<Vec<i64>, Diagnostic> {
    let size_of = |dim: &disc_ir::Dim| {
        let size = dim.eval(&|symbol| dims.iter().rfind(|(name, _)| name == symbol.name()).map(|&(_, size)| size));
        size.map_err(|_| {
            let open = dim.symbols().into_iter().find(|s| dims.iter().all(|(name, _)| name != s.name()));
            let error = Diagnostic::new(Code::E0602, format!("the size [{dim}] of %{name} is not determined"));
            match open {
                Some(symbol) => error.help(format!("--dim {}=SIZE", symbol.name())),
                None => error,
            }
        })
    };
    ty.dims.iter().map(size_of).collect()
}
