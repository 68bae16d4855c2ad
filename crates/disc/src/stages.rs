//! Runs the steps of compiling one by one, for tools that look between them; [`crate::compile`]
//! takes the same steps.
use crate::{ActivationForm, Error, Options, WeightForm, compile::guarded, library::choices, meta::order_weights};
use disc_codegen::{
    host::{Choices, Program, lower_with},
    target::{Compilation, CpuModel, GpuModel, Target, TargetError},
};
use disc_ir::{Code, Diagnostic, Module, ops::Stage, verify::stage_of};
use disc_passes::{options::Options as PassOptions, pass::PassManager, pipeline};

/// Returns the options of passes that depend on the target.
///
/// # Errors
/// A target that does not exist.
pub fn pass_options(options: &Options) -> Result<PassOptions, Error> {
    let targets = described(options)?;
    let passes = match (CpuModel::of(targets.device()), GpuModel::of(targets.device())) {
        (Some(model), _) => PassOptions::of(model),
        (None, Some(model)) => PassOptions::of(model),
        (None, None) => PassOptions::default(),
    };
    if options.weights == WeightForm::Int4 && !targets.device().is_cpu() {
        let device = targets.device();
        let message = format!("no kernels for `{device}` read weights of 4 bits: expected `weights` as exact, bf16 or int8");
        return Err(Error::argument(message));
    }
    if options.activations == ActivationForm::Int8 && options.weights != WeightForm::Int8 {
        let message = "`activations` of int8 are multiplied by weights of int8: expected `weights` as int8";
        return Err(Error::argument(message.to_owned()));
    }
    let winograd = options.allows_winograd() && targets.device().is_cpu();
    Ok(PassOptions { winograd, weights: options.weights, activations: options.activations, fuel: options.fuel, ..passes })
}

/// Returns the kernels and host programs of a module at the buffer stage: the last stage that is
/// text. It exists for GPUs that no code is made for yet too.
///
/// # Errors
/// A target that does not exist, or a failure of the compiler.
pub fn kernels(module: Module, options: &Options) -> Result<Module, Error> {
    guarded(|| {
        let targets = described(options)?;
        Ok(program(module, &targets, choices(options, &targets)?)?.module)
    })
}

/// Returns the kernels and host programs of a module, and their assembly.
///
/// # Errors
/// As [`crate::compile`].
pub fn code(mut module: Module, options: &Options) -> Result<(Module, String), Error> {
    guarded(|| {
        let targets = targets(options)?;
        let stage = start(&module)?;
        let mut manager = PassManager::new(pass_options(options)?);
        pipeline::run(&mut module, stage, Stage::Buffer, &mut manager)?;
        let program = program(module, &targets, choices(options, &targets)?)?;
        let assembly = disc_llvm::assembly(&program, &targets)?;
        Ok((program.module, assembly))
    })
}

/// Returns the PTX of a module's kernels, for a target such as `nvptx:sm_90`.
///
/// # Errors
/// As [`crate::compile`], and another target.
pub fn ptx(mut module: Module, options: &Options) -> Result<String, Error> {
    guarded(|| {
        let targets = described(options)?;
        if !matches!(targets.device(), Target::Nvptx { .. }) {
            let message = format!("no PTX is made for `{}`: expected a GPU of NVIDIA, such as `nvptx:sm_90`", targets.device());
            return Err(Error::target(message));
        }
        let stage = start(&module)?;
        let mut manager = PassManager::new(pass_options(options)?);
        pipeline::run(&mut module, stage, Stage::Buffer, &mut manager)?;
        let program = program(module, &targets, choices(options, &targets)?)?;
        Ok(disc_llvm::ptx(&program, &targets)?)
    })
}

/// Returns a module at the stage tensor with its weights quantised as compiled code reads them; a
/// module whose weights are exact comes back as it is.
///
/// # Errors
/// As [`crate::compile`].
pub fn quantized(mut module: Module, options: &Options) -> Result<Module, Error> {
    if options.weights == WeightForm::Exact || stage_of(&module) != Stage::Tensor {
        return Ok(module);
    }
    guarded(|| {
        pipeline::run_to_quantized(&mut module, &mut PassManager::new(pass_options(options)?))?;
        Ok(module)
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

pub(crate) fn program(mut module: Module, targets: &Compilation, choices: Choices) -> Result<Program, Error> {
    order_weights(&mut module);
    Ok(lower_with(module, targets, choices)?)
}

/// Returns the targets of host programs and kernels: those that the options name, or this machine.
///
/// # Errors
/// A target that does not exist, or that has no backend.
pub(crate) fn targets(options: &Options) -> Result<Compilation, Error> {
    checked(options, Compilation::check_backend)
}

/// Returns the targets of kernels whose numbers are known, with a backend or without.
fn described(options: &Options) -> Result<Compilation, Error> {
    checked(options, |targets| if GpuModel::of(targets.device()).is_some() { Ok(()) } else { targets.check_backend() })
}

fn checked(options: &Options, check: impl Fn(&Compilation) -> Result<(), TargetError>) -> Result<Compilation, Error> {
    let targets = match (options.target_of_device()?, options.wanted_target()) {
        (None, Some(name)) => name.parse(),
        (None, None) => Target::host().and_then(Compilation::of),
        (Some(device), None) => Compilation::of(device),
        // A CPU is the target of host programs.
        (Some(device), Some(name)) => name.parse::<Compilation>().and_then(|wanted| match wanted.device() {
            other if !other.is_cpu() && *other != device => {
                Err(TargetError::OtherDevice { target: other.to_string(), device: device.to_string() })
            }
            _ => Compilation::new(wanted.host().clone(), device),
        }),
    };
    let checked = targets.and_then(|targets: Compilation| check(&targets).map(|()| targets));
    checked.map_err(|error| Error::target(error.to_string()))
}
