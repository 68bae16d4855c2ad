//! Compiles a program: `disc compile`.
use super::{
    arguments::{Axis, CompileArguments},
    gpu_code, inspect,
    package::{has_extension, is_model},
    report,
};
use crate::{
    answer::{Answer, diagnostics},
    arrays::unwritten,
    progress::Progress,
    run,
    source::Source,
};
use disc::{
    import::{self, DimChoice, Format, ImportOptions, Input, Size},
    package::{ExportOptions, Program, export},
    ral::{OpenOptions, Weight, write_atomically},
};
use disc_ir::{Attr, Code, Diagnostic, Function, FunctionKind, Module, OpKind};
use std::{
    collections::{HashMap, HashSet},
    path::Path,
    sync::Arc,
};

pub(super) fn text(given: &CompileArguments, source: &Source) -> Result<Answer, Vec<Diagnostic>> {
    if given.unsafe_pickle {
        return Err(vec![Diagnostic::new(Code::E0700, "--unsafe-pickle is for models of torch (.pt)")]);
    }
    if source.format() != Format::Ir {
        return model(given, source);
    }
    if !given.dim.is_empty() {
        return Err(vec![Diagnostic::new(Code::E0700, "--dim is for models: IR text names its dims itself")]);
    }
    let (module, _) = source.module(None)?;
    let options = given.options()?;
    match &given.output {
        Some(path) if has_extension(path, "discpkg") => package(given, module, &options, path),
        _ => code(given, module, options),
    }
}

/// Compiles a model of another tool.
fn model(given: &CompileArguments, source: &Source) -> Result<Answer, Vec<Diagnostic>> {
    let import =
        ImportOptions { function: given.entry.clone(), dims: given.dim.iter().map(choice).collect(), ..Default::default() };
    let mut program = import::from_bytes(&source.path, source.bytes(), &import).map_err(diagnostics)?.program;
    if program.weights.is_empty() {
        // IR text in a wrapper of MLIR has weights without values.
        program.weights = weights(&program.module, given)?;
    } else if given.values.weights.is_some() || given.values.random_weights {
        let message = format!("{} has its weights: they cannot be given", given.file);
        return Err(vec![Diagnostic::new(Code::E0700, message)]);
    }
    let options = given.options()?;
    match &given.output {
        Some(path) if has_extension(path, "discpkg") => write(given, program, &options, path),
        _ => code(given, program.module, options),
    }
}

fn choice(axis: &Axis) -> DimChoice {
    let size = axis.name.parse().map_or_else(|_| Size::Named(axis.name.clone()), Size::Fixed);
    DimChoice { input: Input::Named(axis.input.clone()), axis: axis.axis, size }
}

impl CompileArguments {
    /// Returns true if the file is a model of torch rather than IR text.
    pub(super) fn is_of_model(&self) -> bool {
        is_model(&self.file)
    }

    fn options(&self) -> Result<disc::Options, Vec<Diagnostic>> {
        let mut options = disc::Options { dump: self.dump.clone(), threads: self.threads, ..disc::Options::default() };
        for (name, value) in &self.set {
            options.set_text(name, value).map_err(diagnostics)?;
        }
        Ok(options)
    }
}

/// Compiles to machine code, and reports on it.
fn code(given: &CompileArguments, module: Module, options: disc::Options) -> Result<Answer, Vec<Diagnostic>> {
    if given.entry.is_some() || given.target.len() > 1 {
        let message = "--entry and several targets are for packages: -o FILE.discpkg";
        return Err(vec![Diagnostic::new(Code::E0700, message)]);
    }
    let options = disc::Options { target: given.target.first().cloned().or(options.target.clone()), ..options };
    let progress = Progress::spinner("compiling");
    if let Some(path) = given.output.as_ref().filter(|path| gpu_code::is_gpu_code(path)) {
        return gpu_code::write(module, &options, path);
    }
    let artifact = disc::compile(module, &options).map_err(diagnostics)?;
    drop(progress);
    if let (Some(image), Some(_)) = (&artifact.image, &given.output) {
        let message = format!("a shared object holds no kernels for `{}`: write a package (.discpkg)", image.target);
        return Err(vec![Diagnostic::new(Code::E0502, message)]);
    }
    if let Some(path) = &given.output {
        let code = artifact.code().map_err(diagnostics)?;
        let written = write_atomically(path, |out| out.write_all(&code));
        written.map_err(|error| vec![unwritten(path, error)])?;
    }
    Ok(Answer::new(report::text(&artifact.report), report::json(&artifact.report)))
}

/// Compiles to a package, and shows what is in it.
fn package(given: &CompileArguments, module: Module, options: &disc::Options, path: &Path) -> Result<Answer, Vec<Diagnostic>> {
    let single = |error: Diagnostic| vec![error];
    if module.functions.is_empty() {
        return Err(single(Diagnostic::new(Code::E0103, "there is no entry to compile")));
    }
    let module = chosen(module, given.entry.as_deref()).map_err(single)?;
    let weights = weights(&module, given)?;
    write(given, Program { module, weights, entry: None }, options, path)
}

fn write(given: &CompileArguments, program: Program, options: &disc::Options, path: &Path) -> Result<Answer, Vec<Diagnostic>> {
    let settings = ExportOptions { targets: given.target.clone(), ir: true, prepared: true };
    let progress = Progress::spinner("compiling");
    export(vec![program], path, options, &settings).map_err(diagnostics)?;
    drop(progress);
    written(path)
}

/// Returns the weights of a program that the command line gives.
fn weights(module: &Module, given: &CompileArguments) -> Result<Vec<(String, Weight)>, Vec<Diagnostic>> {
    let weights = run::weights(module, &given.values).map_err(|error| vec![error])?;
    let weights = weights.iter().map(|(name, tensor)| Ok((name.clone(), Weight::from(disc::to_host(tensor)?))));
    weights.collect::<Result<_, disc::Error>>().map_err(diagnostics)
}

/// Describes a package that was written.
pub(super) fn written(path: &Path) -> Result<Answer, Vec<Diagnostic>> {
    let mut answer = inspect::package(path, &OpenOptions::default())?;
    answer.text.insert_str(0, &format!("wrote {}\n", path.display()));
    answer.json["package"] = path.display().to_string().into();
    Ok(answer)
}

/// Returns the program with one entry, if one is named: that function, and all that it calls.
fn chosen(mut module: Module, name: Option<&str>) -> Result<Module, Diagnostic> {
    let Some(name) = name else { return Ok(module) };
    if !module.function(name).is_some_and(is_callable) {
        let callable = module.functions.iter().filter(|function| is_callable(function));
        let names: Vec<String> = callable.map(|function| format!("@{}", function.name)).collect();
        let error = Diagnostic::new(Code::E0103, format!("there is no entry `{name}`"));
        return Err(error.help(format!("the program has {}", names.join(", "))));
    }
    let needed = reachable(&module, name);
    module.functions.retain(|function| needed.contains(&function.name));
    Ok(module)
}

/// Returns true for a function that a user may call.
fn is_callable(function: &Function) -> bool {
    matches!(function.kind, FunctionKind::Func | FunctionKind::Host) && function.variant_of.is_none()
}

/// Returns the names of a function and of all that it calls.
fn reachable(module: &Module, name: &str) -> HashSet<Arc<str>> {
    let functions: HashMap<&str, &Function> = module.functions.iter().map(|function| (&*function.name, function)).collect();
    let mut found = HashSet::new();
    let mut open: Vec<&str> = vec![name];
    while let Some(function) = open.pop().and_then(|name| functions.get(name)) {
        if !found.insert(Arc::clone(&function.name)) {
            continue;
        }
        for inst in function.walk(function.body).into_iter().filter(|&inst| function.kind_of(inst) == OpKind::Call) {
            if let Some(Some(Attr::Symbol(name))) = function.inst(inst).attrs.first() {
                open.push(name);
            }
        }
    }
    // Kernels are launched rather than called.
    let kernels =
        module.functions.iter().filter(|function| matches!(function.kind, FunctionKind::Kernel | FunctionKind::Routine));
    found.extend(kernels.map(|kernel| Arc::clone(&kernel.name)));
    found
}

#[cfg(test)]
mod tests {
    use super::*;

    const PROGRAM: &str = "func @half(%x: tensor<[B]xf32>) -> tensor<[B]xf32> {
  return %x : tensor<[B]xf32>
}

func @a(%x: tensor<[B]xf32>) -> tensor<[B]xf32> {
  %y = call %x, callee = @half : (tensor<[B]xf32>) -> tensor<[B]xf32>
  return %y : tensor<[B]xf32>
}
";

    fn names(module: &Module) -> Vec<&str> {
        module.functions.iter().map(|function| &*function.name).collect()
    }

    #[test]
    fn an_entry_is_one_of_the_program() {
        let program = |text: &str| disc_ir::parse(text).unwrap();
        let two = format!("{PROGRAM}\n{}", PROGRAM.replace("@a", "@b").replace("@half", "@other"));
        let module = chosen(program(&two), Some("a")).unwrap();
        assert_eq!(names(&module), vec!["half", "a"]);
        for text in [PROGRAM, &two] {
            let error = chosen(program(text), Some("nowhere")).unwrap_err();
            assert!(error.message.contains("no entry `nowhere`") && error.help.unwrap().contains("@a"));
        }
    }
}
