//! Runs modules on this CPU: compiles one, loads it with its weights, and calls it with tensors of
//! the interpreter.
use disc::{
    Error, Executable, Options,
    ral::{DType, HostOutputs, HostTensor, LaunchRecord, Weight},
};
use disc_ir::{Code, Diagnostic, Module, interp::Tensor};
use std::{
    collections::HashMap,
    time::{Duration, Instant},
};

/// A compiled module with its weights, and the entry to call.
pub(crate) struct Loaded {
    pub(crate) executable: Executable,
    entry: usize,
}

impl Loaded {
    pub(crate) fn new(module: Module, entry: &str, weights: &HashMap<String, Tensor>, options: &Options) -> Result<Self, Error> {
        let artifact = disc::compile(module, options)?;
        let weights = weights.iter().map(|(name, tensor)| Ok((name.clone(), Weight::from(host(tensor)?))));
        let executable = artifact.load(weights.collect::<Result<_, Error>>()?, options)?;
        let entry = executable.meta().entries.iter().position(|meta| meta.name == entry);
        let missing = || Diagnostic::new(Code::E0103, "the function is no entry of the compiled module");
        Ok(Self { entry: entry.ok_or_else(missing)?, executable })
    }

    /// One call.
    pub(crate) fn run(&self, inputs: &[Tensor]) -> Result<Vec<Tensor>, Error> {
        let inputs = inputs.iter().map(host).collect::<Result<Vec<_>, _>>()?;
        let mut outputs = HostOutputs::new();
        self.call(&inputs, &mut outputs)?;
        let count = self.executable.meta().entries[self.entry].outputs.len();
        (0..count).map(|i| result(&outputs, i)).collect()
    }

    /// Returns the times of calls for about this long, after one warm-up.
    pub(crate) fn time(&self, inputs: &[Tensor], long: Duration) -> Result<Vec<Duration>, Error> {
        const FEWEST: usize = 5;
        const MOST: usize = 100_000;
        let inputs = inputs.iter().map(host).collect::<Result<Vec<_>, _>>()?;
        let mut outputs = HostOutputs::new();
        self.call(&inputs, &mut outputs)?;
        let (start, mut times) = (Instant::now(), Vec::new());
        while times.len() < FEWEST || (start.elapsed() < long && times.len() < MOST) {
            let begin = Instant::now();
            self.call(&inputs, &mut outputs)?;
            times.push(begin.elapsed());
        }
        Ok(times)
    }

    /// Returns the launches of some calls, one list per call.
    pub(crate) fn profile(&self, inputs: &[Tensor], calls: usize) -> Result<Vec<Vec<LaunchRecord>>, Error> {
        let inputs = inputs.iter().map(host).collect::<Result<Vec<_>, _>>()?;
        let references: Vec<_> = inputs.iter().map(HostTensor::as_input).collect();
        let mut outputs = HostOutputs::new();
        self.executable.with_session(|session| {
            let mut found = Vec::new();
            for _ in 0..calls {
                session.start_profile();
                self.executable.run(self.entry, session, &references, &mut outputs)?;
                found.push(session.take_profile());
            }
            Ok(found)
        })
    }

    fn call(&self, inputs: &[HostTensor], outputs: &mut HostOutputs) -> Result<(), Error> {
        let references: Vec<_> = inputs.iter().map(HostTensor::as_input).collect();
        self.executable.with_session(|session| self.executable.run(self.entry, session, &references, outputs))
    }
}

fn host(tensor: &Tensor) -> Result<HostTensor, Error> {
    let dtype = DType::ALL.into_iter().find(|d| d.name() == tensor.dtype().name()).expect("the runtime has every element type");
    let mut made = HostTensor::zeros(dtype, tensor.dims())?;
    made.bytes_mut().copy_from_slice(tensor.bytes());
    Ok(made)
}

fn result(outputs: &HostOutputs, index: usize) -> Result<Tensor, Error> {
    let missing = || Diagnostic::new(Code::E0609, format!("result {index} has no memory of its own"));
    let tensor = outputs.tensor(index).ok_or_else(missing)?;
    let dtype = disc_ir::DType::from_name(tensor.dtype().name()).expect("the same element types");
    Ok(Tensor::new(dtype, tensor.sizes().to_vec(), tensor.bytes().to_vec())?)
}
