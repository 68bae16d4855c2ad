//! Reads IR as text, checks it, runs passes over it, and prints it or runs it: `disc-opt`.
mod arguments;
mod bisect;
mod steps;

use crate::{
    answer::{Answer, Failure, conclude},
    diff,
    run::{self, Data, On},
    source::Source,
};
use arguments::Arguments;
use disc_ir::{
    Diagnostic, Module,
    text::{PrintOptions, print},
};
use disc_passes::pass::PassRecord;
use serde_json::Value;
use std::{ffi::OsString, io::Write, process::ExitCode};
use steps::Steps;

/// Runs the command with these arguments; the first is the program's name.
pub fn main(arguments: impl IntoIterator<Item = OsString>) -> ExitCode {
    match Arguments::read(arguments) {
        Ok(arguments) => conclude(false, move || opt(&arguments)),
        Err(error) => {
            // Help goes to standard output with status 0, errors to standard error with status 2.
            let code = u8::try_from(error.exit_code()).unwrap_or(1);
            error.print().map_or(ExitCode::SUCCESS, |()| ExitCode::from(code))
        }
    }
}

fn opt(arguments: &Arguments) -> Result<Answer, Failure> {
    let source = Source::read(&arguments.file).map_err(Failure::of_nothing)?;
    match transform(arguments, &source) {
        Ok(answer) => Ok(answer),
        Err(errors) => Err(Failure { source, errors }),
    }
}

fn transform(arguments: &Arguments, source: &Source) -> Result<Answer, Vec<Diagnostic>> {
    let (module, from) = source.module(arguments.from)?;
    let on_cpu = (arguments.run || arguments.bisect) && arguments.on == On::Cpu;
    if arguments.bisect {
        return bisect::find(arguments, &module, from);
    }
    let steps = Steps::new(arguments, from, arguments.to, on_cpu)?;
    let mut manager = steps.manager(arguments.fuel);
    let mut shown = Shown { arguments, before: if arguments.print_changed { module.to_string() } else { String::new() } };
    let module = steps.apply(module, &mut manager, &mut |step, module, record| shown.look(step, module, record))?;
    if let (Some(_), Some(last)) = (arguments.fuel, manager.cx.last) {
        tell(&format!("// rewrite {}, the last one: {}\n", manager.cx.spent(), bisect::named(last)));
    }
    let text = match arguments.run {
        true => execute(arguments, &module, steps.options())?,
        false => print(&module, PrintOptions { locs: arguments.locs, lines: arguments.locs }),
    };
    Ok(Answer::new(text, Value::Null))
}

/// Runs the entry and shows its results, one per line.
fn execute(arguments: &Arguments, module: &Module, options: &disc::Options) -> Result<String, Vec<Diagnostic>> {
    let single = |error: Diagnostic| vec![error];
    let entry = run::entry(module, arguments.data.entry.as_deref()).map_err(single)?;
    let data = Data::new(module, entry, &arguments.data).map_err(single)?;
    let results = run::run(module, &entry.name, &data, arguments.on, options)?;
    Ok(results.iter().map(|tensor| format!("{}\n", run::describe(tensor))).collect())
}

/// The parts of the module that are shown between steps.
struct Shown<'a> {
    arguments: &'a Arguments,
    before: String,
}

impl Shown<'_> {
    fn look(&mut self, step: &str, module: &Module, record: Option<&PassRecord>) {
        if self.arguments.print_changed {
            let after = module.to_string();
            if self.arguments.prints_after(step) && after != self.before {
                tell(&applied(step, record));
                tell(&diff::unified(&self.before, &after, (&format!("before {step}"), &format!("after {step}"))));
            }
            self.before = after;
        } else if self.arguments.prints_after(step) {
            tell(&format!(
                "// after {step}\n{}\n",
                print(module, PrintOptions { locs: self.arguments.locs, lines: self.arguments.locs })
            ));
        }
    }
}

/// Lists the rules that a pass applied, as a line; empty for a pass without rules.
fn applied(step: &str, record: Option<&PassRecord>) -> String {
    let rules = record.iter().flat_map(|record| &record.rules).map(|(rule, count)| format!("{rule} {count}"));
    let rules: Vec<String> = rules.collect();
    if rules.is_empty() { String::new() } else { format!("// {step}: {}\n", rules.join(", ")) }
}

/// Prints to standard error; if it is closed, nobody can be told.
fn tell(text: &str) {
    let _ = std::io::stderr().write_all(text.as_bytes());
}
