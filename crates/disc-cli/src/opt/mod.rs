//! `disc-opt`: reads IR as text, checks it, runs passes over it, and prints it or runs it.
mod arguments;
mod inputs;

use crate::render;
use arguments::{Arguments, Input};
use clap::Parser;
use disc_ir::{
    Diagnostic, Module,
    diag::Code,
    interp::{self, Tensor},
    ops::Stage,
    text::{Lines, PrintOptions, print, print_elements},
    verify::{stage_of, verify},
};
use disc_passes::{
    pass::{Options, PassDef, PassManager},
    pipeline, registry,
};
use std::{
    ffi::OsString,
    io::{Read, Write},
    panic::{AssertUnwindSafe, catch_unwind},
    process::ExitCode,
};

/// Runs the command with these arguments; the first is the program's name.
pub fn main(arguments: impl IntoIterator<Item = OsString>) -> ExitCode {
    let arguments = match Arguments::try_parse_from(arguments) {
        Ok(arguments) => arguments,
        Err(error) => {
            // Help goes to standard output with status 0, the rest to standard error with status 2.
            let code = u8::try_from(error.exit_code()).unwrap_or(1);
            return error.print().map_or(ExitCode::SUCCESS, |()| ExitCode::from(code));
        }
    };
    // A bug in a pass is reported like an error of the program, with the status that scripts expect.
    let outcome = catch_unwind(AssertUnwindSafe(|| run(&arguments)));
    let errors = outcome.unwrap_or_else(|_| {
        let error = Diagnostic::new(Code::E0211, "disc-opt met a bug of its own, see the message above");
        Err(Failure { text: String::new(), errors: vec![error] })
    });
    match errors {
        Ok(text) => write_out(&text),
        Err(failure) => {
            let lines = Lines::new(&failure.text);
            let path = if arguments.file == "-" { "<stdin>" } else { &arguments.file };
            let report: String = failure.errors.iter().map(|error| render(error, path, &lines)).collect();
            // Nobody is left to tell if standard error is closed.
            let _ = std::io::stderr().write_all(report.as_bytes());
            ExitCode::FAILURE
        }
    }
}

/// Errors, and the text that they are about.
struct Failure {
    text: String,
    errors: Vec<Diagnostic>,
}

fn write_out(text: &str) -> ExitCode {
    let mut out = std::io::stdout();
    match out.write_all(text.as_bytes()).and_then(|()| out.flush()) {
        Err(e) if e.kind() != std::io::ErrorKind::BrokenPipe => {
            let _ = writeln!(std::io::stderr(), "error: standard output: {e}");
            ExitCode::FAILURE
        }
        _ => ExitCode::SUCCESS,
    }
}

fn run(arguments: &Arguments) -> Result<String, Failure> {
    let text = read(&arguments.file).map_err(|error| Failure { text: String::new(), errors: vec![error] })?;
    match transform(arguments, &text) {
        Ok(output) => Ok(output),
        Err(errors) => Err(Failure { text, errors }),
    }
}

fn read(path: &str) -> Result<String, Diagnostic> {
    let mut bytes = Vec::new();
    let read = match path {
        "-" => std::io::stdin().read_to_end(&mut bytes).map(|_| ()),
        path => std::fs::read(path).map(|found| bytes = found),
    };
    read.map_err(|e| Diagnostic::new(Code::E0101, format!("{path} cannot be read: {e}")))?;
    String::from_utf8(bytes).map_err(|e| {
        let at = e.utf8_error().valid_up_to();
        Diagnostic::new(Code::E0101, format!("{path} is not UTF-8 text: byte {at} is wrong"))
    })
}

fn transform(arguments: &Arguments, text: &str) -> Result<String, Vec<Diagnostic>> {
    let mut module = disc_ir::parse(text)?;
    let from = arguments.from.unwrap_or_else(|| stage_of(&module));
    verify(&module, from)?;
    let stage = run_passes(arguments, &mut module, from)?;
    if let Some(to) = arguments.to {
        lower(arguments, &mut module, stage, to)?;
    }
    if arguments.run {
        return execute(arguments, &module).map_err(|error| vec![error]);
    }
    Ok(print(&module, PrintOptions { locs: arguments.locs }))
}

/// Runs the steps of the pipeline between two stages.
fn lower(arguments: &Arguments, module: &mut Module, from: Stage, to: Stage) -> Result<(), Vec<Diagnostic>> {
    let steps = pipeline::STEPS.iter().filter(|step| step.stages.0 >= from && step.stages.1 <= to);
    let reached = run_steps(arguments, module, from, steps.copied())?;
    if reached == to {
        return Ok(());
    }
    let message =
        format!("the pipeline leads from the stage {} to the stage {}, not to {}", from.name(), reached.name(), to.name());
    Err(vec![Diagnostic::new(Code::E0208, message)])
}

/// Runs the passes that were named, and gives the stage after them.
fn run_passes(arguments: &Arguments, module: &mut Module, from: Stage) -> Result<Stage, Vec<Diagnostic>> {
    let find = |name: &String| registry::find(name).ok_or_else(|| vec![unknown_pass(name)]);
    let passes = arguments.pass.iter().map(find).collect::<Result<Vec<_>, _>>()?;
    run_steps(arguments, module, from, passes.into_iter())
}

fn run_steps(
    arguments: &Arguments,
    module: &mut Module,
    from: Stage,
    steps: impl Iterator<Item = &'static PassDef>,
) -> Result<Stage, Vec<Diagnostic>> {
    let mut manager = PassManager::new(Options::default());
    // All errors of a wrong module are better than the first of them.
    manager.verify = None;
    let mut stage = from;
    for pass in steps {
        let name = pass.name;
        if pass.stages.0 != stage {
            let message =
                format!("pass `{name}` starts at the stage {}, the module is at {}", pass.stages.0.name(), stage.name());
            return Err(vec![Diagnostic::new(Code::E0208, message)]);
        }
        manager.run(module, pass).map_err(|error| vec![error.note(format!("in pass `{name}`"))])?;
        stage = pass.stages.1;
        verify(module, stage)
            .map_err(|errors| errors.into_iter().map(|e| e.note(format!("after pass `{name}`"))).collect::<Vec<_>>())?;
        if arguments.prints_after(name) {
            let dump = format!("// after {name}\n{}\n", print(module, PrintOptions { locs: arguments.locs }));
            let _ = std::io::stderr().write_all(dump.as_bytes());
        }
    }
    Ok(stage)
}

fn unknown_pass(name: &str) -> Diagnostic {
    let known = || registry::PASSES.iter().map(|pass| pass.name);
    let error = Diagnostic::new(Code::E0102, format!("there is no pass `{name}`"));
    match disc_ir::text::closest(name, known()) {
        Some(near) => error.help(format!("did you mean `{near}`?")),
        None => error.note(format!("there are: {}", known().collect::<Vec<_>>().join(", "))),
    }
}

/// Runs the entry and prints what it returns, one result per line.
fn execute(arguments: &Arguments, module: &Module) -> Result<String, Diagnostic> {
    let entry = match &arguments.entry {
        Some(name) => {
            module.function(name).ok_or_else(|| Diagnostic::new(Code::E0103, format!("there is no function @{name}")))?
        }
        None => inputs::entry(module)?,
    };
    let given: &[Input] = &arguments.input;
    let inputs = inputs::tensors(entry, given)?;
    let outputs = interp::run(module, &entry.name, &inputs)?;
    Ok(outputs.iter().map(|tensor| format!("{}\n", describe(tensor))).collect())
}

/// `tensor<2x3xf32> [[...], [...]]`
fn describe(tensor: &Tensor) -> String {
    let sizes = tensor.dims().iter().map(|&size| size.into());
    let ty = disc_ir::Type::tensor(sizes, tensor.dtype());
    let literal = disc_ir::Literal::dense(tensor.dtype(), tensor.bytes());
    format!("{ty} {}", print_elements(&literal, tensor.dims()))
}
