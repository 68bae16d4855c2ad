//! Prints a module as text.
//!
//! Invariants: the parser reads the text back to the same module; values keep their names, made
//! unique in their scope; a module that the verifier rejects prints too.
mod attrs;
mod literal;
mod op;
mod scope;

use super::names::{is_plain, quote};
use crate::{
    graph::{Block, Function, FunctionKind, Inst, Module, Value},
    lines::{Lines, Origin},
    types::Type,
};
use scope::Scope;
use std::{
    collections::HashMap,
    fmt::{self, Write},
};

/// Options of printing.
#[derive(Clone, Copy, Debug, Default)]
pub struct PrintOptions {
    /// Writes `loc(START:END)`, bytes of the source, after each op that has a place.
    pub locs: bool,
    /// Writes `loc("model.py":42 "forward")` after each op whose line in the model is known.
    pub lines: bool,
}

/// The text of a module.
pub fn print(module: &Module, options: PrintOptions) -> String {
    print_ops(module, options, &mut |_, _, _| {})
}

/// Prints a module without lines, and makes the line of that text on which an op ends its origin:
/// modules that print alike then have the same origins, wherever their lines are.
pub fn number_ops(module: &mut Module) -> String {
    let mut ends = Vec::new();
    let text = print_ops(module, PrintOptions::default(), &mut |function, inst, end| ends.push((function, inst, end)));
    let old = std::mem::take(&mut module.lines);
    let origins: Vec<Vec<Option<Origin>>> = module.functions.iter_mut().map(Function::take_origins).collect();
    let (mut line, mut counted) = (0, 0);
    for (function, inst, end) in ends {
        line += text.as_bytes()[counted..end].iter().filter(|&&byte| byte == b'\n').count() as u32;
        counted = end;
        module.functions[function].inst_mut(inst).origin = Some(Origin(line));
        if let Some(known) = origins[function][inst.index()].and_then(|origin| old.get(origin)) {
            module.lines.set(Origin(line), known.clone());
        }
    }
    text
}

/// Prints a module. `ended` gets the number of the function, each op that is printed, and where
/// its text ends.
fn print_ops(module: &Module, options: PrintOptions, ended: &mut dyn FnMut(usize, Inst, usize)) -> String {
    let mut out = String::new();
    for weight in &module.weights {
        let ty = Type::Tensor(weight.ty.clone());
        let data = weight.data.as_ref().map(|data| format!(" = {}", literal::text(data, Some(&ty)))).unwrap_or_default();
        let prepared = weight.prepared.map(|result| format!(" = prepared {result}")).unwrap_or_default();
        out.push_str(&format!("weight {}{data}{prepared} : {ty}\n", symbol(&weight.name)));
    }
    for (number, function) in module.functions.iter().enumerate() {
        if !out.is_empty() {
            out.push('\n');
        }
        let mut ended = |inst: Inst, end: usize| ended(number, inst, end);
        let mut printer = Printer::new(function, options, &mut out);
        printer.lines = options.lines.then_some(&module.lines);
        printer.ended = Some(&mut ended);
        printer.function();
    }
    out
}

/// Returns the name of each value in the text of its function, without the `%`.
pub fn value_names(function: &Function) -> HashMap<Value, String> {
    let mut out = String::new();
    let mut printer = Printer::new(function, PrintOptions::default(), &mut out);
    printer.function();
    printer.scope.into_names()
}

impl fmt::Display for Module {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&print(self, PrintOptions::default()))
    }
}

impl fmt::Display for Function {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut out = String::new();
        Printer::new(self, PrintOptions::default(), &mut out).function();
        f.write_str(&out)
    }
}

/// `@name`, in quotes where needed.
pub(super) fn symbol(name: &str) -> String {
    if is_plain(name) { format!("@{name}") } else { format!("@{}", quote(name)) }
}

pub(super) use literal::elements;

struct Printer<'p> {
    function: &'p Function,
    options: PrintOptions,
    lines: Option<&'p Lines>,
    ended: Option<&'p mut dyn FnMut(Inst, usize)>,
    out: &'p mut String,
    scope: Scope,
    indent: usize,
}

impl<'p> Printer<'p> {
    fn new(function: &'p Function, options: PrintOptions, out: &'p mut String) -> Self {
        Self { function, options, lines: None, ended: None, out, scope: Scope::default(), indent: 0 }
    }

    fn write(&mut self, text: fmt::Arguments<'_>) {
        self.out.write_fmt(text).expect("writing to a string");
    }

    fn function(&mut self) {
        let function = self.function;
        let kind = match function.kind {
            FunctionKind::Func => "func",
            FunctionKind::Kernel => "kernel",
            FunctionKind::Routine => "routine",
            FunctionKind::Host => "host",
        };
        self.scope.open();
        let parameters = self.arguments(function.body);
        self.write(format_args!("{kind} {}({parameters})", symbol(&function.name)));
        if !function.results.is_empty() {
            let results = self.results();
            self.write(format_args!(" -> {results}"));
        }
        if let Some(grid) = function.grid {
            self.write(format_args!(" grid threads = {}, warp = {}", grid.threads, grid.warp));
            if let Some(resident) = grid.resident {
                self.write(format_args!(", resident = {resident}"));
            }
        }
        if let Some(entry) = &function.variant_of {
            self.write(format_args!(" variant_of {}", symbol(entry)));
        }
        if !function.facts.is_empty() {
            self.write(format_args!(" where {}", function.facts));
        }
        self.out.push(' ');
        self.block(function.body);
        self.scope.close();
        self.out.push('\n');
    }

    /// The types of the results, with the parameters that they are stored into.
    fn results(&self) -> String {
        let function = self.function;
        if function.stores.is_empty() {
            return op::types(&function.results);
        }
        let results = function.results.iter().enumerate().map(|(i, ty)| {
            let parameter = function.stored_into(i).and_then(|parameter| function.parameters().get(parameter));
            parameter.map_or_else(|| ty.to_string(), |&parameter| format!("{ty} into {}", self.name(parameter)))
        });
        let results: Vec<String> = results.collect();
        if let [result] = &results[..] { result.clone() } else { format!("({})", results.join(", ")) }
    }

    /// Prints `%a: T, %b: U`, now visible.
    fn arguments(&mut self, block: Block) -> String {
        let function = self.function;
        let arguments = function.arguments(block).iter().map(|&value| {
            let name = self.scope.define(value, function.name_of(value).map(|name| &**name));
            format!("%{name}: {}", function.ty(value))
        });
        arguments.collect::<Vec<_>>().join(", ")
    }

    /// Prints `{ ... }`; arguments are already written.
    fn block(&mut self, block: Block) {
        let function = self.function;
        self.out.push_str("{\n");
        self.indent += 1;
        for &inst in function.insts(block) {
            self.op(inst);
        }
        self.indent -= 1;
        self.new_line();
        self.out.push('}');
    }

    fn new_line(&mut self) {
        const INDENT: &str = "  ";
        for _ in 0..self.indent {
            self.out.push_str(INDENT);
        }
    }

    fn name(&self, value: Value) -> String {
        format!("%{}", self.scope.name(value))
    }
}
