//! Runs the steps of `disc-opt`: the passes of the command line, then the pipeline to a stage.
//!
//! Invariant: each step starts at the stage where the one before it ends; that is checked before
//! the first one runs.
use super::arguments::Arguments;
use crate::answer::diagnostics;
use disc_ir::{Diagnostic, Module, diag::Code, ops::Stage, verify::verify};
use disc_passes::{
    options::Options,
    pass::{PassDef, PassManager, PassRecord},
    pipeline, registry,
};

/// The name of the last step, which makes kernels; it is no pass.
pub(super) const KERNELS: &str = "make-kernels";

/// A callback between steps: it gets the name of the last step, the module, and the record of the
/// pass, if it was one.
pub(super) type Look<'l> = dyn FnMut(&'static str, &Module, Option<&PassRecord>) + 'l;

/// The steps, in order.
pub(super) struct Steps {
    passes: Vec<&'static PassDef>,
    /// True if kernels are made at the end.
    kernels: bool,
    options: disc::Options,
    /// The passes' options for the target.
    target: Options,
}

impl Steps {
    /// Plans the steps of a command line for a module at the stage `from`.
    ///
    /// Errors A pass that does not exist, or that starts at another stage; a stage that the
    /// pipeline does not lead to.
    pub(super) fn new(arguments: &Arguments, from: Stage, to: Option<Stage>, on_cpu: bool) -> Result<Self, Vec<Diagnostic>> {
        let (mut passes, stage) = named(&arguments.pass, from)?;
        let mut kernels = false;
        if let Some(to) = to {
            let steps = lowering(stage, to)?;
            let reached = steps.last().map_or(stage, |pass| pass.stages.1);
            kernels = reached != to;
            passes.extend(steps);
        }
        for name in arguments.print_after.iter().filter(|name| *name != "all" && *name != KERNELS) {
            find(name)?;
        }
        let options = disc::Options { target: arguments.target.clone(), ..disc::Options::default() };
        let has_target = options.target.is_some() || kernels || on_cpu;
        let target = if has_target { disc::stages::pass_options(&options).map_err(diagnostics)? } else { Options::default() };
        Ok(Self { passes, kernels, options, target })
    }

    /// Plans only these passes.
    #[cfg(test)]
    pub(super) fn of_passes(passes: Vec<&'static PassDef>) -> Self {
        Self { passes, kernels: false, options: disc::Options::default(), target: Options::default() }
    }

    pub(super) fn options(&self) -> &disc::Options {
        &self.options
    }

    /// Makes a manager for [`Steps::apply`]; it checks nothing itself, because all errors of a
    /// wrong module are better than the first of them.
    pub(super) fn manager(&self, fuel: Option<u64>) -> PassManager {
        let mut manager = pipeline::manager(Options { fuel, ..self.target.clone() });
        manager.verify = None;
        manager
    }

    /// Runs the steps, checks the module after each, and shows it to `look`.
    ///
    /// Errors Those of a step, and of the verifier on its result.
    pub(super) fn apply(
        &self,
        mut module: Module,
        manager: &mut PassManager,
        look: &mut Look<'_>,
    ) -> Result<Module, Vec<Diagnostic>> {
        for pass in &self.passes {
            manager.run(&mut module, pass).map_err(|error| vec![error.note(format!("in pass `{}`", pass.name))])?;
            check(&module, pass.stages.1, pass.name)?;
            look(pass.name, &module, manager.records.last());
        }
        if self.kernels {
            module = disc::stages::kernels(module, &self.options).map_err(diagnostics)?;
            check(&module, Stage::Kernel, KERNELS)?;
            look(KERNELS, &module, None);
        }
        Ok(module)
    }
}

fn check(module: &Module, stage: Stage, step: &str) -> Result<(), Vec<Diagnostic>> {
    verify(module, stage).map_err(|errors| errors.into_iter().map(|e| e.note(format!("after pass `{step}`"))).collect())
}

/// The passes of these names, and the stage after them.
fn named(names: &[String], from: Stage) -> Result<(Vec<&'static PassDef>, Stage), Vec<Diagnostic>> {
    let passes = names.iter().map(|name| find(name)).collect::<Result<Vec<_>, _>>()?;
    let mut stage = from;
    for pass in &passes {
        if pass.stages.0 != stage {
            let (starts, stage) = (pass.stages.0.name(), stage.name());
            let message = format!("pass `{}` starts at the stage {starts}, the module is at {stage}", pass.name);
            return Err(vec![Diagnostic::new(Code::E0208, message)]);
        }
        stage = pass.stages.1;
    }
    Ok((passes, stage))
}

/// Returns the steps of the pipeline between two stages; to the last stage, those to the one before
/// it.
fn lowering(from: Stage, to: Stage) -> Result<Vec<&'static PassDef>, Vec<Diagnostic>> {
    let steps: Vec<_> = pipeline::STEPS.iter().copied().filter(|step| step.stages.0 >= from && step.stages.1 <= to).collect();
    let reached = steps.last().map_or(from, |pass| pass.stages.1);
    if reached == to || (reached, to) == (Stage::Buffer, Stage::Kernel) {
        return Ok(steps);
    }
    let message = format!("no steps of the pipeline lead from the stage {} to {}", from.name(), to.name());
    Err(vec![Diagnostic::new(Code::E0208, message)])
}

fn find(name: &str) -> Result<&'static PassDef, Vec<Diagnostic>> {
    registry::find(name).ok_or_else(|| vec![unknown_pass(name)])
}

fn unknown_pass(name: &str) -> Diagnostic {
    let known = || registry::PASSES.iter().map(|pass| pass.name);
    let error = Diagnostic::new(Code::E0102, format!("there is no pass `{name}`"));
    match disc_ir::text::closest(name, known()) {
        Some(near) => error.help(format!("did you mean `{near}`?")),
        None => error.note(format!("there are: {}", known().collect::<Vec<_>>().join(", "))),
    }
}
