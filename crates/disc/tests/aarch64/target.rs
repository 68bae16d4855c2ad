//! Code for AArch64 through the interface of disc-filetests, on one kind of CPU each.
use crate::{
    emulator::{Process, functions, with_process},
    native::{diagnostic, host, tensors},
};
use disc::{
    Options,
    ir::{Code, Diagnostic, Module, interp::Tensor},
    ral::{EntryMeta, HostOutputs, ModuleMeta, TensorRef, Weight},
};
use disc_filetests::{Compiled, Program, Weights};
use std::{cell::RefCell, fmt, sync::Arc};

/// A target, and the CPU that runs it in qemu's words.
pub(crate) struct Emulated {
    pub(crate) target: &'static str,
    cpu: &'static str,
}

const fn emulated(target: &'static str, cpu: &'static str) -> Emulated {
    Emulated { target, cpu }
}

/// NEON; NEON of an older server; and the newest extensions at vectors of 128, 256 and 512 bits.
pub(crate) static TARGETS: [Emulated; 5] = [
    emulated("aarch64-v8", "cortex-a57"),
    emulated("aarch64-v8+dotprod+fp16", "neoverse-n1"),
    emulated("aarch64-v8+bf16+dotprod+fp16+i8mm+sve", "max,sve-max-vq=1"),
    emulated("aarch64-v8+bf16+dotprod+fp16+i8mm+sve256", "max,sve-max-vq=2"),
    emulated("aarch64-v8+bf16+dotprod+fp16+i8mm+sve2+sve512", "max,sve-max-vq=4"),
];

impl Emulated {
    /// Loads a library with its metadata into an emulated process.
    ///
    /// # Errors
    /// A process that does not start, and those of loading.
    pub(crate) fn load(
        &self,
        code: &[u8],
        meta: &Arc<ModuleMeta>,
        load: impl FnOnce(disc::ral::Code) -> Result<Run, disc::Error>,
    ) -> Result<Loaded, Diagnostic> {
        let mut process = Some(Process::start(self.cpu, code, Arc::clone(meta)).map_err(|why| internal(&why))?);
        let (entries, prepare) = functions(meta);
        // SAFETY: the functions keep the contract as the code of the process does.
        let functions = unsafe { disc::ral::Code::from_functions(entries, prepare) };
        let run = with_process(&mut process, EntryMeta::default(), || load(functions)).map_err(|why| internal(&why))?;
        Ok(Loaded { run: run.map_err(diagnostic)?, meta: Arc::clone(meta), process: RefCell::new(process) })
    }
}

fn internal(why: &str) -> Diagnostic {
    Diagnostic::new(Code::E0501, why)
}

impl Compiled for Emulated {
    fn name(&self) -> &str {
        self.target
    }

    fn compile(&self, module: &Module, weights: Weights<'_>) -> Result<Box<dyn Program>, Diagnostic> {
        let options = Options { target: Some(self.target.to_owned()), threads: Some(1), ..Options::default() };
        let artifact = disc::compile(module.clone(), &options).map_err(diagnostic)?;
        let given = artifact.meta.weights.iter().filter_map(|weight| Some((weight.name.clone(), weights(&weight.name)?)));
        let given: Vec<_> =
            given.map(|(name, tensor)| Ok((name, Weight::from(host(&tensor)?)))).collect::<Result<_, Diagnostic>>()?;
        let loaded = self.load(&artifact.code().map_err(diagnostic)?, &artifact.meta, |code| {
            let executable = artifact.load_code(code, given, &options)?;
            Ok(Box::new(move |entry, inputs, outputs| {
                executable.with_session(|session| executable.run(entry, session, inputs, outputs))
            }))
        })?;
        Ok(Box::new(loaded))
    }
}

/// Calls an entry by its number.
pub(crate) type Run = Box<dyn Fn(usize, &[TensorRef<'_>], &mut HostOutputs) -> Result<(), disc::Error>>;

/// A module in an emulated process.
pub(crate) struct Loaded {
    run: Run,
    meta: Arc<ModuleMeta>,
    process: RefCell<Option<Process>>,
}

impl Loaded {
    /// Returns the number of instructions of the last call, where they are counted.
    pub(crate) fn instructions(&self) -> Option<u64> {
        self.process.borrow().as_ref()?.instructions()
    }
}

impl Program for Loaded {
    fn run(&self, entry: &str, inputs: &[Tensor]) -> Result<Vec<Tensor>, Diagnostic> {
        let missing = || Diagnostic::new(Code::E0103, format!("there is no entry @{entry}"));
        let position = self.meta.entries.iter().position(|e| e.name == entry).ok_or_else(missing)?;
        let entry = self.meta.entries[position].clone();
        tensors(&entry.clone(), inputs, |references, outputs: &mut HostOutputs| {
            let call = || (self.run)(position, references, outputs);
            with_process(&mut self.process.borrow_mut(), entry, call).map_err(|why| internal(&why))?.map_err(diagnostic)
        })
    }
}

impl fmt::Display for Emulated {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} on {}", self.target, self.cpu)
    }
}
