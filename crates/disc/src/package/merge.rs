//! Merges modules into one module with several entries and one weight table.

use crate::Error;
use disc_ir::{Attr, Function, FunctionKind, Module, OpKind, graph::Weight as Declared};
use disc_ral::Weight;
use std::{
    collections::{HashMap, HashSet},
    sync::Arc,
};
use twox_hash::XxHash3_128;

/// A module that becomes one or more entries.
pub(crate) struct Source {
    pub(crate) module: Module,
    /// The name of the entry that its one function becomes; `None` keeps all names.
    pub(crate) entry: Option<String>,
    pub(crate) weights: Vec<(String, Weight)>,
}

/// The one module, and a value for each of its weights that are not constants.
pub(crate) struct Merged {
    pub(crate) module: Module,
    pub(crate) weights: Vec<(String, Weight)>,
}

/// Merges modules. Weights of equal contents become one; other weights that share a name, and
/// constants, get the name of their entry as a prefix.
///
/// # Errors
/// Two functions of one name, or a weight without a value.
pub(crate) fn merge(sources: Vec<Source>) -> Result<Merged, Error> {
    let mut merged = Merged { module: Module::default(), weights: Vec::new() };
    let mut table = Table::default();
    for source in sources {
        let Source { mut module, entry, weights } = source;
        let mut values: HashMap<String, Weight> = weights.into_iter().collect();
        let functions = function_names(&module, entry.as_deref());
        let mut names = HashMap::new();
        for declared in std::mem::take(&mut module.weights) {
            let prefix = entry.as_deref().unwrap_or_default();
            let (name, is_new) = if declared.data.is_some() {
                (table.fresh(&declared.name, prefix), true)
            } else {
                let value = values.remove(&*declared.name).ok_or_else(|| missing(&declared.name))?;
                let (name, is_new) = table.name_of(&declared.name, prefix, &value);
                if is_new {
                    merged.weights.push((name.clone(), value));
                }
                (name, is_new)
            };
            if is_new {
                merged.module.weights.push(Declared { name: name.as_str().into(), ..declared.clone() });
            }
            names.insert(declared.name, Arc::from(name));
        }
        let offset = merged.module.lines.append(module.lines);
        for mut function in module.functions {
            rename(&mut function, &functions, &names);
            renumber(&mut function, offset);
            if merged.module.function(&function.name).is_some() {
                return Err(Error::argument(format!("there are two entries `{}`", function.name)));
            }
            merged.module.functions.push(function);
        }
    }
    Ok(merged)
}

fn missing(name: &str) -> Error {
    Error::Compile { code: "E0608", message: format!("no value for weight `{name}`") }
}

/// Returns the new names of the functions: of several, only the one that is called by no other is
/// the entry.
fn function_names(module: &Module, entry: Option<&str>) -> HashMap<Arc<str>, Arc<str>> {
    let Some(entry) = entry else { return HashMap::new() };
    let first = module.functions.iter().position(|function| function.kind != FunctionKind::Kernel).unwrap_or(0);
    let name = |(i, function): (usize, &Function)| {
        let new = if i == first { entry.to_owned() } else { format!("{entry}.{}", function.name) };
        (Arc::clone(&function.name), Arc::from(new))
    };
    module.functions.iter().enumerate().map(name).collect()
}

/// Replaces the names of functions and weights in a function.
fn rename(function: &mut Function, functions: &HashMap<Arc<str>, Arc<str>>, weights: &HashMap<Arc<str>, Arc<str>>) {
    if let Some(name) = functions.get(&function.name) {
        function.name = Arc::clone(name);
    }
    for inst in function.walk(function.body) {
        let names = match function.kind_of(inst) {
            OpKind::Weight => weights,
            OpKind::Call => functions,
            _ => continue,
        };
        if let Some(Some(Attr::Symbol(name))) = function.inst_mut(inst).attrs.first_mut()
            && let Some(new) = names.get(&**name)
        {
            *name = Arc::clone(new);
        }
    }
}

/// Adds `offset` to the origins of all ops.
fn renumber(function: &mut Function, offset: u32) {
    for inst in function.walk(function.body) {
        if let Some(origin) = &mut function.inst_mut(inst).origin {
            origin.0 += offset;
        }
    }
}

/// The names that are taken, and the weights by their contents.
#[derive(Default)]
struct Table {
    taken: HashSet<String>,
    by_contents: HashMap<Contents, String>,
}

/// Element type, sizes and hash of the elements: two weights that agree in these are one.
type Contents = (disc_ral::DType, Vec<i64>, u128);

impl Table {
    /// Returns a name that nothing has yet.
    fn fresh(&mut self, name: &str, prefix: &str) -> String {
        let others = (2..).map(|count| format!("{prefix}.{name}.{count}"));
        let names = [name.to_owned(), format!("{prefix}.{name}")].into_iter().chain(others);
        let found = names.into_iter().find(|name| !self.taken.contains(name)).expect("there is no last number");
        self.taken.insert(found.clone());
        found
    }

    /// Returns the name of a weight, and whether it is a new one.
    fn name_of(&mut self, name: &str, prefix: &str, value: &Weight) -> (String, bool) {
        let contents = (value.dtype(), value.sizes().to_vec(), XxHash3_128::oneshot(value.bytes()));
        if let Some(known) = self.by_contents.get(&contents) {
            return (known.clone(), false);
        }
        let name = self.fresh(name, prefix);
        self.by_contents.insert(contents, name.clone());
        (name, true)
    }
}
