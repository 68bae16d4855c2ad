//! Runs compiled code for the CPU levels of this machine, and for the simulated GPUs, through the
//! interface of disc-filetests.
//!
//! Invariant: a failure keeps its code, whoever found it.
#![allow(dead_code, reason = "each test uses its part")]
use disc::{
    Error, Executable, Options, Target,
    ir::{Code, DType, Diagnostic, Module, interp::Tensor},
    ral::{EntryMeta, HostOutput, HostOutputs, HostTensor, SessionState, TensorRef, Weight},
};
use disc_filetests::{Compiled, Program, Weights};

/// Small results use non-temporal stores too, from this many bytes read and written.
const NONTEMPORAL_BYTES: i64 = 1 << 10;

/// A CPU level, or a device.
pub(crate) struct Native(&'static str);

static LEVELS: [Native; 3] = [Native("x86-64-v2"), Native("x86-64-v3"), Native("x86-64-v4")];
static ALL: [&dyn Compiled; 3] = [&LEVELS[0], &LEVELS[1], &LEVELS[2]];

static DEVICES: [Native; 3] = [Native("simt:sm_90"), Native("simt:gfx942"), Native("simt:gfx1100")];
static SIMT: [&dyn Compiled; 3] = [&DEVICES[0], &DEVICES[1], &DEVICES[2]];

/// Returns the simulated GPUs: one of NVIDIA's, and AMD's with warps of 64 and of 32 lanes.
pub(crate) fn simulated() -> &'static [&'static dyn Compiled] {
    &SIMT
}

/// Returns the GPU of the driver that was loaded.
pub(crate) fn cuda() -> &'static [&'static dyn Compiled] {
    static CUDA: Native = Native("cuda:0");
    static ALONE: [&dyn Compiled; 1] = [&CUDA];
    &ALONE
}

/// Returns the levels that this machine can run, the best last.
pub(crate) fn levels() -> &'static [&'static dyn Compiled] {
    let runs = |level: &&&dyn Compiled| level.name().parse::<Target>().is_ok_and(|target| target.check_host().is_ok());
    &ALL[..ALL.iter().filter(runs).count()]
}

/// Returns the target of this machine's CPU, with its extensions beyond its level.
pub(crate) fn this_cpu() -> Native {
    Native("")
}

impl Compiled for Native {
    fn name(&self) -> &str {
        self.0
    }

    fn compile(&self, module: &Module, weights: Weights<'_>) -> Result<Box<dyn Program>, Diagnostic> {
        let name = Some(self.0.to_owned()).filter(|name| !name.is_empty());
        let (device, target) = if self.0.contains(':') { (name, None) } else { (None, name) };
        let options = Options { device, target, threads: Some(2), ..Options::default() };
        let artifact = disc::compile(module.clone(), &options).map_err(diagnostic)?;
        let given = artifact.meta.weights.iter().filter_map(|weight| Some((weight.name.clone(), weights(&weight.name)?)));
        let given = given.map(|(name, tensor)| Ok((name, Weight::from(host(&tensor)?)))).collect::<Result<_, Diagnostic>>()?;
        let executable = artifact.load(given, &options).map_err(diagnostic)?;
        Ok(Box::new(Loaded(executable)))
    }
}

struct Loaded(Executable);

impl Program for Loaded {
    fn run(&self, entry: &str, inputs: &[Tensor]) -> Result<Vec<Tensor>, Diagnostic> {
        let position = self.0.meta().entries.iter().position(|e| e.name == entry);
        let missing = || Diagnostic::new(Code::E0103, format!("there is no entry @{entry}"));
        let position = position.ok_or_else(missing)?;
        tensors(&self.0.meta().entries[position], inputs, |references, outputs| {
            let run = |session: &mut SessionState| {
                session.nontemporal_from(NONTEMPORAL_BYTES);
                self.0.run(position, session, references, outputs)
            };
            self.0.with_session(run).map_err(diagnostic)
        })
    }
}

/// Calls an entry by `run`, with tensors of the interpreter.
pub(crate) fn tensors(
    meta: &EntryMeta,
    inputs: &[Tensor],
    run: impl FnOnce(&[TensorRef<'_>], &mut HostOutputs) -> Result<(), Diagnostic>,
) -> Result<Vec<Tensor>, Diagnostic> {
    let mut held = inputs.iter().map(host).collect::<Result<Vec<_>, _>>()?;
    // Wrong numbers of inputs are reported by the call.
    let written = meta.inputs.iter().map(|input| input.written).chain(std::iter::repeat(false));
    let borrow = |(tensor, written): (_, bool)| {
        let tensor: &mut HostTensor = tensor;
        if written { tensor.as_written_input() } else { tensor.as_input() }
    };
    let references: Vec<_> = held.iter_mut().zip(written).map(borrow).collect();
    let mut outputs = HostOutputs::new();
    run(&references, &mut outputs)?;
    (0..meta.outputs.len()).map(|i| tensor(&outputs, &held, i)).collect()
}

/// An output in memory of its own, or in that of an input.
fn tensor(outputs: &HostOutputs, inputs: &[HostTensor], index: usize) -> Result<Tensor, Diagnostic> {
    let missing = || Diagnostic::new(Code::E0607, format!("output {index} is missing"));
    let made = match outputs.get(index) {
        Some(HostOutput::Fresh(tensor)) => Some(tensor),
        Some(HostOutput::Alias { input, .. }) => inputs.get(*input),
        None => None,
    };
    let made = made.ok_or_else(missing)?;
    let dtype = DType::from_name(made.dtype().name()).ok_or_else(missing)?;
    Tensor::new(dtype, made.sizes().to_vec(), made.bytes().to_vec())
}

pub(crate) fn host(tensor: &Tensor) -> Result<HostTensor, Diagnostic> {
    let same = |dtype: &disc::ral::DType| dtype.name() == tensor.dtype().name();
    let dtype = disc::ral::DType::ALL.into_iter().find(same).expect("the runtime has the compiler's types");
    let mut made = HostTensor::zeros(dtype, tensor.dims()).map_err(|error| diagnostic(Error::from(error)))?;
    made.bytes_mut().copy_from_slice(tensor.bytes());
    Ok(made)
}

pub(crate) fn diagnostic(error: Error) -> Diagnostic {
    Diagnostic::new(Code::from_name(&error.code()).unwrap_or(Code::E0501), error.message())
}
