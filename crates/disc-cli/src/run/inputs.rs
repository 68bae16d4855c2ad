//! Makes values for the parameters of an entry and for the weights of its module.
use super::arguments::{Given, Input, RunArguments, Size, ValueArguments};
use crate::arrays;
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
    /// An unknown name, a missing value, values for several calls, or a file that cannot be read.
    pub(crate) fn new(module: &Module, entry: &Function, arguments: &RunArguments) -> Result<Self, Diagnostic> {
        let mut calls = Self::calls(module, entry, arguments, Integers::Any)?;
        match (calls.pop(), calls.len()) {
            (Some(data), 0) => Ok(data),
            (_, others) => Err(several(others + 1)),
        }
    }

    /// Returns the values of several calls: an input that has several gives one to each.
    ///
    /// # Errors
    /// As [`Data::new`], and inputs with different numbers of values.
    pub(crate) fn calls(
        module: &Module,
        entry: &Function,
        arguments: &RunArguments,
        integers: Integers,
    ) -> Result<Vec<Self>, Diagnostic> {
        let given = Named::collect(&arguments.values)?;
        let (weights, inputs): (Vec<Named>, Vec<Named>) = given.into_iter().partition(|named| named.name.starts_with('@'));
        let mut maker = Maker { random: Random::new(arguments.values.seed), integers };
        let count = inputs.iter().map(|named| named.values.len()).max().unwrap_or(1);
        if let Some(odd) = inputs.iter().find(|named| ![1, count].contains(&named.values.len())) {
            let message = format!("{} has {} values, another input has {count}", odd.name, odd.values.len());
            return Err(Diagnostic::new(Code::E0601, message));
        }
        check_names(entry, &inputs, &arguments.dim)?;
        let calls = (0..count).map(|call| of_parameters(entry, &inputs, call, &arguments.dim, &mut maker));
        let calls = calls.collect::<Result<Vec<_>, _>>()?;
        let weights = of_weights(module, weights, &arguments.values, &mut maker)?;
        Ok(calls.into_iter().map(|inputs| Self { inputs, weights: weights.clone() }).collect())
    }
}

/// Returns the error of a command that makes one call.
pub(crate) fn several(calls: usize) -> Diagnostic {
    let message = format!("there are values for {calls} calls, one is made");
    Diagnostic::new(Code::E0601, message).help("`disc bench` takes several values of an input: x=rand:1x{16,64}")
}

/// Returns values for the weights of a module.
///
/// # Errors
/// As [`Data::new`]; an input that is not a weight.
pub(crate) fn weights(module: &Module, arguments: &ValueArguments) -> Result<HashMap<String, Tensor>, Diagnostic> {
    let given = Named::collect(arguments)?;
    if let Some(input) = given.iter().find(|named| !named.name.starts_with('@')) {
        let message = format!("{} is an input: weights alone, such as @w=a.npy, are compiled in", input.name);
        return Err(Diagnostic::new(Code::E0601, message));
    }
    let mut maker = Maker { random: Random::new(arguments.seed), integers: Integers::Any };
    of_weights(module, given, arguments, &mut maker)
}

/// The values of random integers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Integers {
    Any,
    /// 0 and 1, which are indices of nearly every table.
    Indices,
}

/// The values of one name, for one call each.
struct Named {
    name: String,
    values: Vec<Value>,
    /// Nobody asked for it by name.
    is_from_file: bool,
}

#[derive(Clone, Debug)]
enum Value {
    Given(Given),
    Array(Tensor),
}

impl Named {
    fn collect(arguments: &ValueArguments) -> Result<Vec<Self>, Diagnostic> {
        let mut found: Vec<Self> = Vec::new();
        for input in &arguments.input {
            let Input::Named { name, values } = input else { continue };
            let values = values.iter().cloned().map(Value::Given);
            match found.iter_mut().find(|known| known.name == *name) {
                Some(known) => known.values.extend(values),
                None => found.push(Self { name: name.clone(), values: values.collect(), is_from_file: false }),
            }
        }
        for input in &arguments.input {
            let Input::File(path) = input else { continue };
            for (name, tensor) in arrays::read_several(path)? {
                if found.iter().all(|known| known.name != name) {
                    found.push(Self { name, values: vec![Value::Array(tensor)], is_from_file: true });
                }
            }
        }
        Ok(found)
    }
}

/// Makes tensors.
struct Maker {
    random: Random,
    integers: Integers,
}

impl Maker {
    fn make(
        &mut self,
        value: &Value,
        dtype: DType,
        sizes: impl FnOnce() -> Result<Vec<i64>, Diagnostic>,
    ) -> Result<Tensor, Diagnostic> {
        match value {
            Value::Array(tensor) => Ok(tensor.clone()),
            Value::Given(Given::File(path)) => arrays::read(path),
            Value::Given(Given::Random(Some(sizes))) => self.random(dtype, sizes.clone()),
            Value::Given(Given::Random(None)) => self.random(dtype, sizes()?),
            Value::Given(Given::Zeros(Some(sizes))) => zeros(dtype, sizes.clone()),
            Value::Given(Given::Zeros(None)) => zeros(dtype, sizes()?),
            Value::Given(Given::Typed(dtype, axes)) => self.random(*dtype, fixed(axes)?),
        }
    }

    fn random(&mut self, dtype: DType, sizes: Vec<i64>) -> Result<Tensor, Diagnostic> {
        if dtype.is_float() || self.integers == Integers::Any {
            return self.random.tensor(dtype, sizes);
        }
        let bits = self.random.tensor(DType::I1, sizes)?;
        Tensor::from_i64s(dtype, bits.dims(), &bits.to_i64s())
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

fn names(entry: &Function) -> Vec<String> {
    let name_of = |i: usize| entry.name_of(entry.parameters()[i]).map_or_else(|| i.to_string(), ToString::to_string);
    (0..entry.parameters().len()).map(name_of).collect()
}

/// Checks that the entry has the inputs and dims of these names, and that no input is missing.
fn check_names(entry: &Function, given: &[Named], dims: &[(String, i64)]) -> Result<(), Diagnostic> {
    let names = names(entry);
    if let Some(unknown) = given.iter().find(|input| !input.is_from_file && !names.contains(&input.name)) {
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
    Ok(())
}

/// Returns the values of one call.
fn of_parameters(
    entry: &Function,
    given: &[Named],
    call: usize,
    dims: &[(String, i64)],
    maker: &mut Maker,
) -> Result<Vec<Tensor>, Diagnostic> {
    let names = names(entry);
    let parameters = entry.parameters().iter().zip(&names);
    let value = |(&parameter, name): (_, &String)| {
        let named = given.iter().find(|input| input.name == *name);
        let given = named.and_then(|named| named.values.get(call).or(named.values.last()));
        let given = given.unwrap_or(&Value::Given(Given::Random(None)));
        match entry.ty(parameter).shaped() {
            Some(ty) => maker.make(given, ty.dtype, || sizes(ty, name, dims)),
            None => maker.make(given, entry.ty(parameter).dtype(), || Ok(Vec::new())),
        }
    };
    parameters.map(value).collect()
}

fn of_weights(
    module: &Module,
    given: Vec<Named>,
    arguments: &ValueArguments,
    maker: &mut Maker,
) -> Result<HashMap<String, Tensor>, Diagnostic> {
    let plain = || module.weights.iter().filter(|weight| weight.data.is_none() && weight.prepared.is_none());
    let is_known = |named: &Named| named.is_from_file || plain().any(|weight| *weight.name == named.name[1..]);
    if let Some(unknown) = given.iter().find(|named| !is_known(named)) {
        let names: Vec<String> = plain().map(|weight| format!("@{}", weight.name)).collect();
        let names = if names.is_empty() { "none".into() } else { names.join(", ") };
        return Err(Diagnostic::new(Code::E0608, format!("there is no weight {}; there are: {names}", unknown.name)));
    }
    let stored = arguments.weights.as_deref().map(arrays::read_several).transpose()?.unwrap_or_default();
    let mut stored: HashMap<String, Tensor> = stored.into_iter().collect();
    let mut found = HashMap::new();
    for weight in plain() {
        let value = given.iter().find(|named| named.name[1..] == *weight.name).and_then(|named| named.values.last().cloned());
        let value = value.or_else(|| stored.remove(&*weight.name).map(Value::Array));
        let Some(value) = value.or(arguments.random_weights.then_some(Value::Given(Given::Random(None)))) else {
            let error = Diagnostic::new(Code::E0608, format!("weight @{} has no value", weight.name));
            return Err(error.help(format!("--input @{}=FILE.npy, or --random-weights for all of them", weight.name)));
        };
        let sizes = || Ok(weight.ty.static_dims().expect("a weight's sizes are constant"));
        found.insert(weight.name.to_string(), maker.make(&value, weight.ty.dtype, sizes)?);
    }
    Ok(found)
}

/// Returns the sizes of a type of which none is open.
fn fixed(axes: &[Size]) -> Result<Vec<i64>, Diagnostic> {
    let size = |axis: &Size| match axis {
        Size::Fixed(size) => Ok(*size),
        Size::Named(name) => Err(Diagnostic::new(Code::E0602, format!("a call needs a size in the place of {name}"))),
    };
    axes.iter().map(size).collect()
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
