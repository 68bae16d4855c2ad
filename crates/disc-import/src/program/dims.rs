//! Gives sizes of inputs the names and numbers that a user chose.
use super::{Imported, Words, build::shown};
use disc_ir::{Attr, Code, Diagnostic, Dim, Function, Symbol, Type, Value, dim::Fact, ops::Stage, verify};
use std::collections::{HashMap, HashSet};

/// A choice for one axis of an input.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DimChoice {
    pub input: Input,
    pub axis: usize,
    pub size: Size,
}

/// An input, by the file's name or by its position.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Input {
    Named(String),
    At(usize),
}

impl Input {
    fn shown(&self) -> String {
        match self {
            Input::Named(name) => format!("`{}`", shown(name)),
            Input::At(position) => position.to_string(),
        }
    }
}

/// The name of a size, or the size.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Size {
    Named(String),
    Fixed(i64),
}

/// Applies choices to a program, and adds facts about the chosen names. Two axes of one name are
/// equal, which calls check.
///
/// # Errors
/// E1006: no such input, axis or name, an axis of a fixed size, or choices that contradict others.
pub fn open_dims(imported: &mut Imported, choices: &[DimChoice], facts: &[Fact]) -> Result<(), Diagnostic> {
    rename(imported, choices)?;
    let Some(function) = imported.module.functions.first_mut() else { return Ok(()) };
    let known = function.bound_symbols();
    for fact in facts {
        let mut unknown = None;
        fact.visit_symbols(&mut |symbol| {
            if !known.contains(symbol) {
                unknown = Some(symbol.clone());
            }
        });
        if let Some(symbol) = unknown {
            return Err(Diagnostic::new(Code::E1006, format!("`{fact}`: no size of an input is called {symbol}")));
        }
        let added = function.facts.add(fact.clone());
        added.map_err(|error| Diagnostic::new(Code::E1006, format!("`{fact}` contradicts the model: {error}")))?;
    }
    if choices.is_empty() && facts.is_empty() {
        return Ok(());
    }
    verify(&imported.module, Stage::Tensor).map_err(|errors| {
        let first = errors.into_iter().next().map(|error| error.to_string()).unwrap_or_default();
        Diagnostic::new(Code::E1006, "the model does not work with the chosen sizes").note(first)
    })
}

fn rename(imported: &mut Imported, choices: &[DimChoice]) -> Result<(), Diagnostic> {
    let mut replaced: HashMap<Symbol, Dim> = HashMap::new();
    let Some(function) = imported.module.functions.first_mut() else { return Ok(()) };
    for choice in choices {
        let dim = chosen_axis(function, &imported.signature.inputs, choice)?;
        let new = new_dim(choice)?;
        if let Some(size) = dim.as_const() {
            if new.is_const(size) {
                continue;
            }
            return Err(refused(choice, &format!("has the size {size} in the model, not {new}")));
        }
        let Some(symbol) = dim.as_symbol() else {
            return Err(refused(choice, &format!("has the size [{dim}], which follows from others")));
        };
        match replaced.get(symbol) {
            Some(known) if *known != new => {
                return Err(refused(choice, &format!("is {known} by another choice, since the model says they are equal")));
            }
            _ => replaced.insert(symbol.clone(), new),
        };
    }
    if replaced.is_empty() {
        return Ok(());
    }
    // A name that the model uses for another size stays another size: a name that is no identifier
    // gets a digest, which no name of the model has.
    let names: Vec<Symbol> = replaced.values().filter_map(Dim::as_symbol).cloned().collect();
    for (i, name) in names.iter().enumerate() {
        let is_free = !replaced.contains_key(name);
        if is_free && all_symbols(function).contains(name) {
            replaced.insert(name.clone(), Dim::symbol(Symbol::new(format!("{name}.model.{i}"))));
        }
    }
    substitute(function, &|symbol| replaced.get(symbol).cloned())
}

/// Names the sizes of inputs that the file leaves open by input and axis: `x_0`. `is_open` tells
/// them from those that the file names.
pub(crate) fn name_open(function: &mut Function, inputs: &[String], is_open: impl Fn(&Symbol) -> bool) {
    let taken: HashSet<Symbol> = all_symbols(function).into_iter().collect();
    let mut words = Words::default();
    taken.iter().for_each(|symbol| drop(words.word(symbol.name())));
    let mut new: HashMap<Symbol, Dim> = HashMap::new();
    for (&value, name) in function.parameters().iter().zip(inputs) {
        let dims = function.ty(value).shaped().map_or(&[][..], |ty| &ty.dims);
        for (axis, dim) in dims.iter().enumerate() {
            if let Some(symbol) = dim.as_symbol().filter(|symbol| is_open(symbol) && !new.contains_key(symbol)) {
                new.insert(symbol.clone(), Dim::symbol(words.word(&format!("{name}_{axis}"))));
            }
        }
    }
    // Names alone change: no fact can contradict another that did not before.
    let _ = substitute(function, &|symbol| new.get(symbol).cloned());
}

fn chosen_axis(function: &Function, inputs: &[String], choice: &DimChoice) -> Result<Dim, Diagnostic> {
    let names = || inputs.iter().map(|name| shown(name)).collect::<Vec<_>>().join(", ");
    let position = match &choice.input {
        Input::Named(wanted) => inputs.iter().position(|name| name == wanted),
        Input::At(position) => (*position < inputs.len()).then_some(*position),
    };
    let Some(position) = position else {
        let message = format!("there is no input {}; the model has: {}", choice.input.shown(), names());
        return Err(Diagnostic::new(Code::E1006, message));
    };
    let dims = function.parameters().get(position).and_then(|&value| function.ty(value).shaped()).map(|ty| &ty.dims);
    let dims = dims.map_or(&[][..], Vec::as_slice);
    dims.get(choice.axis).cloned().ok_or_else(|| refused(choice, &format!("is not there: the input has {} axes", dims.len())))
}

fn new_dim(choice: &DimChoice) -> Result<Dim, Diagnostic> {
    match &choice.size {
        Size::Fixed(size) if *size >= 0 => Ok(Dim::from(*size)),
        Size::Fixed(size) => Err(refused(choice, &format!("cannot have the size {size}"))),
        Size::Named(name) => {
            let symbol = Symbol::parse(name).ok_or_else(|| refused(choice, &format!("cannot be called `{}`", shown(name))))?;
            Ok(Dim::symbol(symbol))
        }
    }
}

fn refused(choice: &DimChoice, why: &str) -> Diagnostic {
    Diagnostic::new(Code::E1006, format!("axis {} of input {} {why}", choice.axis, choice.input.shown()))
}

fn all_symbols(function: &Function) -> Vec<Symbol> {
    let mut found: Vec<Symbol> = Vec::new();
    for &value in function.parameters() {
        found.extend(function.ty(value).shaped().into_iter().flat_map(|ty| ty.dims.iter().flat_map(Dim::symbols)));
    }
    for inst in function.walk(function.body) {
        found.extend(function.symbols_of(inst));
    }
    found
}

/// Replaces symbols in the types, attributes and facts of a function.
fn substitute(function: &mut Function, new: &dyn Fn(&Symbol) -> Option<Dim>) -> Result<(), Diagnostic> {
    let wrong =
        |error: disc_ir::dim::FactError| Diagnostic::new(Code::E1006, format!("the chosen sizes contradict the model: {error}"));
    function.facts = function.facts.substitute(new).map_err(wrong)?;
    let replaced = |ty: &Type| {
        let mut ty = ty.clone();
        if let Type::Tensor(tensor) | Type::Buffer { tensor, .. } = &mut ty {
            tensor.dims.iter_mut().for_each(|dim| *dim = dim.substitute(new));
        }
        ty
    };
    function.results = function.results.iter().map(replaced).collect();
    let insts = function.walk(function.body);
    let mut values: Vec<Value> = function.parameters().to_vec();
    for &inst in &insts {
        values.extend(function.results_of(inst));
        let regions = function.inst(inst).regions.clone();
        regions.iter().for_each(|&region| values.extend(function.arguments(region)));
        for attr in function.inst_mut(inst).attrs.iter_mut().flatten() {
            match attr {
                Attr::Dim(dim) => *dim = dim.substitute(new),
                Attr::Dims(dims) => dims.iter_mut().for_each(|dim| *dim = dim.substitute(new)),
                Attr::Type(ty) => *ty = replaced(ty),
                _ => {}
            }
        }
    }
    for value in values {
        let ty = replaced(function.ty(value));
        function.set_type(value, ty);
    }
    Ok(())
}
