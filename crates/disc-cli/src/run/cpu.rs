//! Runs programs on a device: compiles a module or takes the code of a package, and calls entries
//! with tensors of the interpreter.
use super::values::view;
use crate::answer::diagnostics;
use disc::{
    Error, Executable, Options, dtype_of_runtime, from_host,
    ral::{Entry, HostOutput, HostOutputs, HostTensor, LaunchRecord, Package, Source, TensorRef, Weight},
    to_host,
};
use disc_ir::{Code, Diagnostic, Module, interp::Tensor};
use std::{
    collections::HashMap,
    time::{Duration, Instant},
};

/// A program with its weights, ready to be called.
pub(crate) struct Loaded {
    pub(crate) executable: Executable,
    /// The most threads of a call, if the executable does not know them.
    threads: Option<usize>,
}

/// An entry that can be called.
pub(crate) struct Caller<'l> {
    loaded: &'l Loaded,
    entry: usize,
    /// Names of the outputs, and the places of their values.
    pub(crate) outputs: Vec<(String, Source)>,
}

/// Calls that are timed, at least and at most.
const FEWEST: usize = 5;
const MOST: usize = 100_000;

impl Loaded {
    pub(crate) fn new(module: Module, weights: &HashMap<String, Tensor>, options: &Options) -> Result<Self, Error> {
        let artifact = disc::compile(module, options)?;
        let weights = weights.iter().map(|(name, tensor)| Ok((name.clone(), Weight::from(to_host(tensor)?))));
        let executable = artifact.load(weights.collect::<Result<_, Error>>()?, options)?;
        Ok(Self { executable, threads: None })
    }

    /// Loads the code of a package on the device that it was opened for.
    pub(crate) fn of_package(package: &Package, threads: Option<usize>) -> Result<Self, Error> {
        Ok(Self { executable: Executable::from_loaded(package.executable(None)?), threads })
    }

    /// Returns an entry of a compiled module.
    pub(crate) fn entry(&self, name: &str) -> Result<Caller<'_>, Error> {
        let entry = self.position(name)?;
        let outputs = &self.executable.meta().entries[entry].outputs;
        let outputs = outputs.iter().enumerate().map(|(i, output)| (output.name.clone(), Source::Output(i))).collect();
        Ok(Caller { loaded: self, entry, outputs })
    }

    /// Returns an entry of a package.
    pub(crate) fn entry_of(&self, entry: Entry<'_>) -> Result<Caller<'_>, Error> {
        let outputs = entry.outputs().iter().map(|output| (output.name().to_owned(), output.source())).collect();
        Ok(Caller { loaded: self, entry: self.position(entry.name())?, outputs })
    }

    fn position(&self, name: &str) -> Result<usize, Error> {
        let missing = || Diagnostic::new(Code::E0103, "the function is no entry of the compiled module");
        Ok(self.executable.meta().entry(name).ok_or_else(missing)?)
    }
}

impl Caller<'_> {
    /// Returns the names of the inputs.
    pub(crate) fn inputs(&self) -> impl Iterator<Item = &str> {
        self.loaded.executable.meta().entries[self.entry].inputs.iter().map(|input| &*input.name)
    }

    /// Makes one call.
    pub(crate) fn run(&self, inputs: &[Tensor]) -> Result<Vec<Tensor>, Error> {
        self.repeat(inputs, 1).map(|(results, _)| results)
    }

    /// Makes some calls. Returns the results of the first one, and the time of each.
    pub(crate) fn repeat(&self, inputs: &[Tensor], calls: usize) -> Result<(Vec<Tensor>, Vec<Duration>), Error> {
        let mut inputs = hosts(inputs)?;
        let mut outputs = HostOutputs::new();
        let mut times = vec![self.call(&mut inputs, &mut outputs)?];
        let result = |(_, source): &(String, Source)| match *source {
            Source::Input(i) => from_host(inputs.get(i).ok_or_else(missing)?),
            Source::Output(i) => match outputs.get(i) {
                Some(HostOutput::Alias { input, dtype, data, sizes, strides }) => {
                    let held = inputs.get(*input).ok_or_else(missing)?;
                    let start = data.addr().wrapping_sub(held.bytes().as_ptr().addr());
                    let dtype = dtype_of_runtime(*dtype);
                    Ok(view(held.bytes(), start, dtype, sizes, strides.as_deref()).ok_or_else(missing)?)
                }
                Some(HostOutput::Fresh(made)) => from_host(made),
                None => Err(missing().into()),
            },
        };
        let results = self.outputs.iter().map(result).collect::<Result<_, _>>()?;
        for _ in 1..calls {
            times.push(self.call(&mut inputs, &mut outputs)?);
        }
        Ok((results, times))
    }

    /// Returns the times of calls for about this long, after one warm-up.
    pub(crate) fn time(&self, inputs: &[Tensor], long: Duration) -> Result<Vec<Duration>, Error> {
        let mut inputs = hosts(inputs)?;
        let mut outputs = HostOutputs::new();
        self.call(&mut inputs, &mut outputs)?;
        let (start, mut times) = (Instant::now(), Vec::new());
        while times.len() < FEWEST || (start.elapsed() < long && times.len() < MOST) {
            times.push(self.call(&mut inputs, &mut outputs)?);
        }
        Ok(times)
    }

    /// Returns the launches of some calls, one list per call.
    pub(crate) fn profile(&self, inputs: &[Tensor], calls: usize) -> Result<Vec<Vec<LaunchRecord>>, Error> {
        let mut inputs = hosts(inputs)?;
        let references = self.references(&mut inputs);
        let mut outputs = HostOutputs::new();
        self.loaded.executable.with_session(|session| {
            self.loaded.threads.into_iter().for_each(|threads| session.limit_threads(threads));
            let mut found = Vec::new();
            for _ in 0..calls {
                session.start_profile();
                self.loaded.executable.run(self.entry, session, &references, &mut outputs)?;
                found.push(session.take_profile());
            }
            Ok(found)
        })
    }

    fn call(&self, inputs: &mut [HostTensor], outputs: &mut HostOutputs) -> Result<Duration, Error> {
        let references = self.references(inputs);
        self.loaded.executable.with_session(|session| {
            self.loaded.threads.into_iter().for_each(|threads| session.limit_threads(threads));
            let start = Instant::now();
            self.loaded.executable.run(self.entry, session, &references, outputs)?;
            Ok(start.elapsed())
        })
    }

    /// Borrows inputs for a call, which may write to some. A wrong number is the call's to report.
    fn references<'t>(&self, inputs: &'t mut [HostTensor]) -> Vec<TensorRef<'t>> {
        let meta = &self.loaded.executable.meta().entries[self.entry];
        let written = meta.inputs.iter().map(|input| input.written).chain(std::iter::repeat(false));
        let borrow = |(tensor, written): (&'t mut HostTensor, bool)| {
            if written { tensor.as_written_input() } else { tensor.as_input() }
        };
        inputs.iter_mut().zip(written).map(borrow).collect()
    }
}

fn missing() -> Diagnostic {
    Diagnostic::new(Code::E0609, "a result was not made")
}

fn hosts(tensors: &[Tensor]) -> Result<Vec<HostTensor>, Error> {
    tensors.iter().map(to_host).collect()
}

/// Runs an entry of compiled IR text once.
pub(crate) fn run_once(
    module: &Module,
    entry: &str,
    inputs: &[Tensor],
    weights: &HashMap<String, Tensor>,
    options: &Options,
) -> Result<Vec<Tensor>, Vec<Diagnostic>> {
    let loaded = Loaded::new(module.clone(), weights, options).map_err(diagnostics)?;
    loaded.entry(entry).and_then(|caller| caller.run(inputs)).map_err(diagnostics)
}
