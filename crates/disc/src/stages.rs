//! Runs the steps of compiling one by one, for tools that look between them; [`crate::compile`]
//! takes the same steps.
use crate::{Error, Options, compile::guarded, library::offers, meta::order_weights};
use disc_codegen::{
    host::{Offers, Program, lower_with},
    target::{CpuModel, Target},
};
use disc_ir::{Code, Diagnostic, Module, ops::Stage, verify::stage_of};
use disc_passes::{options::Options as PassOptions, pass::PassManager, pipeline};

/// Returns the options of passes that depend on the target.
///
/// # Errors
/// A target that does not exist.
pub fn pass_options(options: &Options) -> Result<PassOptions, Error> {
    // A target that is no CPU is refused where its kernels are scheduled.
    let passes = CpuModel::of(&target(options)?).map_or_else(PassOptions::default, PassOptions::of);
    Ok(PassOptions { winograd: options.allows_winograd(), weights: options.weights, fuel: options.fuel, ..passes })
}

/// Returns the kernels and host programs of a module at the buffer stage: the last stage that is
/// text.
///
/// # Errors
/// A target that does not exist, or a failure of the compiler.
pub fn kernels(module: Module, options: &Options) -> Result<Module, Error> {
    guarded(|| {
        let target = target(options)?;
        Ok(program(module, &target, offers(options, &target)?)?.module)
    })
}

/// Returns the kernels and host programs of a module, and their assembly.
///
/// # Errors
/// As [`crate::compile`].
pub fn code(mut module: Module, options: &Options) -> Result<(Module, String), Error> {
    guarded(|| {
        let target = target(options)?;
        let stage = start(&module)?;
        let mut manager = PassManager::new(pass_options(options)?);
        pipeline::run(&mut module, stage, Stage::Buffer, &mut manager)?;
        let program = program(module, &target, offers(options, &target)?)?;
        let assembly = disc_llvm::assembly(&program, &target)?;
        Ok((program.module, assembly))
    })
}

/// The stage that a module is compiled from.
pub(crate) fn start(module: &Module) -> Result<Stage, Error> {
    let stage = stage_of(module);
    if stage < Stage::Kernel {
        return Ok(stage);
    }
    let message =
        "a module at the stage kernel cannot be compiled: what its host programs check and launch is known at the stage buffer";
    Err(Diagnostic::new(Code::E0208, message).into())
}

pub(crate) fn program(mut module: Module, target: &Target, offers: Offers) -> Result<Program, Error> {
    order_weights(&mut module);
    Ok(lower_with(module, target, offers)?)
}

pub(crate) fn target(options: &Options) -> Result<Target, Error> {
    match options.wanted_target() {
        Some(name) => name.parse().map_err(|e: disc_codegen::target::TargetError| Error::target(e.to_string())),
        None => Target::host().map_err(|e| Error::target(e.to_string())),
    }
}
